"""The rows of a fixed-label form as one linear map and one list of one-dimensional convex functions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from margindsl.calculus import ConvexFunction
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
        return self.form.size_of_w

    @cached_property
    def bias(self) -> int:
        return self.form.border

    @cached_property
    def loss_rows(self) -> slice:
        return slice(0, self.form.losses.rows)

    @cached_property
    def decision_rows(self) -> slice:
        return slice(self.form.losses.rows, self.form.losses.rows + len(self.form.bound_normals))

    # -- functions ----------------------------------------------------------------------------------

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        slices = self.form.losses.slices()
        groups = [Group(term.loss, part, bool(term.loss.is_smooth)) for term, part in slices if term.rows]
        return (*groups, *self.bound_groups, *self.sign_groups)

    @cached_property
    def weights(self) -> FloatArray:
        losses = self.form.losses
        total = 1.0 + float(np.sum(losses.weights))
        norms = np.sum(self.form.bound_normals**2, axis=1)
        return np.concatenate([losses.weights, total / np.where(norms > 0, norms, 1.0), self.sign_weights])

    @cached_property
    def shifts(self) -> FloatArray:
        return np.concatenate([self.form.losses.shifts, np.zeros(self.sign_rows.stop - self.loss_rows.stop)])

    # -- the linear map -----------------------------------------------------------------------------

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.form.split(x)

    def apply(self, x: FloatArray) -> FloatArray:
        form, (w, bias, s) = self.form, self.split(x)
        margins = form.rows.apply(w)
        values = self.entered(form.losses, margins + form.own @ bias if self.bias else margins, x)
        if not form.decision and not len(self.signed):
            return values
        return np.concatenate([values, form.bound_normals @ x[: self.rank + self.bias], s[self.signed]])

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        form, out, end = self.form, np.zeros(self.rank + self.border), self.rank + self.bias
        pulled = self.pull(form.losses, multipliers[self.loss_rows], out)
        out[: self.rank] += form.rows.adjoint(pulled)
        out[self.rank : end] += pulled @ form.own[:, : self.bias]
        out[end + self.signed] += multipliers[self.sign_rows]
        if form.decision:
            out[:end] += form.bound_normals.T @ multipliers[self.decision_rows]
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
