"""The rows of a fixed-label form as one linear map and one list of one-dimensional convex functions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from margindsl.calculus import PLQ, ConvexFunction
from margindsl.contract import Refusal
from margindsl.program.clusters import ClusterForm
from margindsl.program.forms import FixedLabelForm
from margindsl.typing import FloatArray
from margindsl_solvers.engines.rows.envelopes import Group, Rows


@dataclass(frozen=True, eq=False)
class RowModel(Rows):
    """Write a fixed-label form as min ½‖w‖² + qᵀs + Σ_r c_r ρ_r(v_r), v = A x + d, x = (w, b, s).

    The rows are those of the losses, then one a decision bound (ρ the indicator of its interval), then one
    a non-negative scalar (ρ the indicator of [0, ∞)). Indicators get a weight that only scales the penalty.
    """

    form: FixedLabelForm

    # -- sizes --------------------------------------------------------------------------------------

    @cached_property
    def rank(self) -> int:
        return int(self.form.features.rank)

    @cached_property
    def bias(self) -> int:
        return int(self.form.free_bias)

    @cached_property
    def signs(self) -> FloatArray:
        """Return the labels as floats."""
        return np.asarray(self.form.labels, dtype=float)

    @cached_property
    def loss_rows(self) -> slice:
        return slice(0, self.form.losses.rows)

    @cached_property
    def decision_rows(self) -> slice:
        return slice(self.form.losses.rows, self.form.losses.rows + len(self.form.decision))

    # -- functions ----------------------------------------------------------------------------------

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        slices = self.form.losses.slices()
        groups = [Group(term.loss, part, bool(term.loss.is_smooth)) for term, part in slices if term.rows]
        for j, bound in enumerate(self.form.decision, start=self.decision_rows.start):
            groups.append(Group(PLQ.indicator(bound.lower, bound.upper), slice(j, j + 1), False))
        return (*groups, *self.sign_groups)

    @cached_property
    def weights(self) -> FloatArray:
        losses = self.form.losses
        total = 1.0 + float(np.sum(losses.weights))
        G, h = self.form.decision_rows
        norms = np.sum(G**2, axis=1) + h**2 * self.bias
        return np.concatenate([losses.weights, total / np.where(norms > 0, norms, 1.0), self.sign_weights])

    @cached_property
    def shifts(self) -> FloatArray:
        return np.concatenate([self.form.losses.shifts, np.zeros(len(self.form.decision) + len(self.signed))])

    @cached_property
    def bound_normals(self) -> FloatArray:
        """Return the (J, r [+1]) rows of the decision bounds in (w, b)."""
        G, h = self.form.decision_rows
        return np.column_stack([G, h]) if self.bias else G

    @cached_property
    def bound_ends(self) -> tuple[FloatArray, FloatArray]:
        """Return the (J,) lower and upper ends of the decision bounds."""
        bounds = self.form.decision
        return (np.array([bound.lower for bound in bounds], dtype=float),
                np.array([bound.upper for bound in bounds], dtype=float))

    # -- the linear map -----------------------------------------------------------------------------

    def split(self, x: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        r = self.rank
        return x[:r], float(x[r]) if self.bias else 0.0, x[r + self.bias :]

    def apply(self, x: FloatArray) -> FloatArray:
        w, b, s = self.split(x)
        values = self.entered(self.form.losses, self.signs * (self.form.features.apply(w) + b), x)
        if not self.form.decision and not len(self.signed):
            return values
        G, h = self.form.decision_rows
        return np.concatenate([values, G @ w + h * b, s[self.signed]])

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        out = np.zeros(self.rank + self.border)
        signed = self.signs * self.pull(self.form.losses, multipliers[self.loss_rows], out)
        w, b, s = out[: self.rank], out[self.rank : self.rank + self.bias], out[self.rank + self.bias :]
        w += self.form.features.adjoint(signed)
        b += float(np.sum(signed))
        s[self.signed] += multipliers[self.sign_rows]
        if self.form.decision:
            G, h = self.form.decision_rows
            tau = multipliers[self.decision_rows]
            w += G.T @ tau
            b += float(h @ tau)
        return out


def reach(form: FixedLabelForm | ClusterForm) -> float:
    """Return an estimate of how far the losses can move a decision value, Σ c a² mean ‖φ‖²."""
    losses = form.losses
    return float(losses.weights @ losses.slopes**2) * float(form.features.trace) / max(1, form.n)


def refuse_infinite(name: str, losses: Iterable[ConvexFunction]) -> Refusal | None:
    """Return why a solver of finite losses does not take the first that is not, or None."""
    for loss in losses:
        if loss.domain != (-math.inf, math.inf):
            return Refusal(f"{name} needs finite losses, and {loss!r} is infinite outside {loss.domain}",
                           "use solver='clarabel'")
    return None
