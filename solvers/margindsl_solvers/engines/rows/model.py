"""The rows of a fixed-label form as one linear map and one list of one-dimensional convex functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from margindsl.accuracy import relative_gap
from margindsl.calculus import PLQ, ConvexFunction
from margindsl.contract import Refusal
from margindsl.program.clusters import ClusterForm
from margindsl.program.forms import FixedLabelForm
from margindsl.typing import FloatArray, IntArray

FLAT = 1e-9  # entries of a direction below it are rounding


@dataclass(frozen=True)
class Group:
    """Represent rows sharing one function ρ, each weighted by its entry of `RowModel.weights`.

    Parameters
    ----------
    function : ConvexFunction
        The one-dimensional function ρ.
    part : slice
        Its rows.
    smooth : bool
        Whether ρ enters by its derivative; otherwise by its Moreau envelope.
    """

    function: ConvexFunction
    part: slice
    smooth: bool

    @cached_property
    def conjugate(self) -> ConvexFunction:
        """Return ρ*."""
        return self.function.conjugate()


@dataclass(frozen=True, eq=False)
class RowModel:
    """Write a fixed-label form as min ½‖w‖² + qᵀs + Σ_r c_r ρ_r(v_r), v = A x + d, x = (w, b, s).

    The rows are those of the losses, then one a decision bound (ρ the indicator of its interval), then one
    a non-negative scalar (ρ the indicator of [0, ∞)). Indicators get a weight that only scales the penalty.

    Parameters
    ----------
    form : FixedLabelForm
    """

    form: FixedLabelForm

    # -- sizes --------------------------------------------------------------------------------------

    @cached_property
    def rank(self) -> int:
        """Return the number r of weights."""
        return int(self.form.features.rank)

    @cached_property
    def bias(self) -> int:
        """Return 1 with a free bias, else 0."""
        return int(self.form.free_bias)

    @cached_property
    def border(self) -> int:
        """Return the number of unpenalised variables (bias and shared scalars)."""
        return self.bias + self.form.losses.scalars.count

    @cached_property
    def signs(self) -> FloatArray:
        """Return the labels as floats."""
        return np.asarray(self.form.labels, dtype=float)

    @cached_property
    def signed(self) -> IntArray:
        """Return the indices of the scalars constrained to be non-negative."""
        return np.flatnonzero(self.form.losses.scalars.nonneg)

    @cached_property
    def loss_rows(self) -> slice:
        """Return the rows of the losses."""
        return slice(0, self.form.losses.rows)

    @cached_property
    def decision_rows(self) -> slice:
        """Return the rows of the decision bounds."""
        return slice(self.form.losses.rows, self.form.losses.rows + len(self.form.decision))

    @cached_property
    def sign_rows(self) -> slice:
        """Return the rows of the sign constraints."""
        return slice(self.decision_rows.stop, self.decision_rows.stop + len(self.signed))

    # -- functions ----------------------------------------------------------------------------------

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Return the functions with their rows."""
        slices = self.form.losses.slices()
        groups = [Group(term.loss, part, bool(term.loss.is_smooth)) for term, part in slices if term.rows]
        for j, bound in enumerate(self.form.decision, start=self.decision_rows.start):
            groups.append(Group(PLQ.indicator(bound.lower, bound.upper), slice(j, j + 1), False))
        if len(self.signed):
            groups.append(Group(PLQ.indicator(0.0, np.inf), self.sign_rows, False))
        return tuple(groups)

    @cached_property
    def is_smooth(self) -> bool:
        """Return whether no row needs an envelope."""
        return all(group.smooth for group in self.groups)

    @cached_property
    def weights(self) -> FloatArray:
        """Return the weight of every row; that of an indicator balances its penalty with the losses."""
        losses = self.form.losses
        total = 1.0 + float(np.sum(losses.weights))
        G, h = self.form.decision_rows
        norms = np.sum(G**2, axis=1) + h**2 * self.bias
        pull = 1.0 + losses.weights @ losses.coupling[:, self.signed] ** 2
        return np.concatenate([losses.weights, total / np.where(norms > 0, norms, 1.0), np.atleast_1d(pull)])

    @cached_property
    def shifts(self) -> FloatArray:
        """Return the constants d."""
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

    def normalised(self, multipliers: FloatArray, part: slice = slice(None)) -> FloatArray:
        """Return multipliers of some rows over their weights, zero where these are."""
        weights = self.weights[part]
        return np.divide(multipliers, weights, out=np.zeros_like(weights), where=weights > 0)

    # -- the linear map -----------------------------------------------------------------------------

    def split(self, x: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """Return w, b and s of x."""
        r = self.rank
        return x[:r], float(x[r]) if self.bias else 0.0, x[r + self.bias :]

    def apply(self, x: FloatArray) -> FloatArray:
        """Return A x, without the constants."""
        w, b, s = self.split(x)
        losses = self.form.losses
        values = losses.gather(self.signs * (self.form.features.apply(w) + b))
        if losses.scalars.count:
            values = values + losses.coupling @ s
        if not self.form.decision and not len(self.signed):
            return values
        G, h = self.form.decision_rows
        return np.concatenate([values, G @ w + h * b, s[self.signed]])

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        """Return Aᵀλ."""
        losses, out = self.form.losses, np.zeros(self.rank + self.border)
        part = multipliers[self.loss_rows]
        signed = self.signs * losses.spread(part)
        w, b, s = out[: self.rank], out[self.rank : self.rank + self.bias], out[self.rank + self.bias :]
        w += self.form.features.adjoint(signed)
        b += float(np.sum(signed))
        if losses.scalars.count:
            s += losses.coupling.T @ part
            s[self.signed] += multipliers[self.sign_rows]
        if self.form.decision:
            G, h = self.form.decision_rows
            tau = multipliers[self.decision_rows]
            w += G.T @ tau
            b += float(h @ tau)
        return out

    def gradient(self, x: FloatArray, multipliers: FloatArray) -> FloatArray:
        """Return (w, 0, q) + Aᵀλ, the violation of the dual equalities."""
        out = self.adjoint(multipliers)
        out[: self.rank] += x[: self.rank]
        out[self.rank + self.bias :] += self.form.losses.scalars.costs
        return out

    # -- envelopes ----------------------------------------------------------------------------------

    def slopes(self, v: FloatArray, centre: FloatArray, kappa: float) -> FloatArray:
        """Return the normalised multipliers at v: ρ'(v), or κ(x − prox(x)), x = v + centre/κ.

        A smooth row contributes ρ itself; another one the Moreau envelope of ρ around the multiplier
        estimate `centre`, whose slope lies in the subdifferential of ρ at prox(x).
        """
        out = np.empty(len(v))
        for group, x in self._shifted(v, centre, kappa):
            rho = group.function
            out[group.part] = rho.derivative(x) if group.smooth else kappa * (x - rho.prox(x, 1.0 / kappa))
        return out

    def curvatures(self, v: FloatArray, centre: FloatArray, kappa: float) -> FloatArray:
        """Return the weighted generalised derivatives of `slopes`."""
        out = np.empty(len(v))
        for group, x in self._shifted(v, centre, kappa):
            rho = group.function
            out[group.part] = (rho.curvature(x) if group.smooth
                               else kappa * (1.0 - rho.prox_derivative(x, 1.0 / kappa)))
        return self.weights * np.maximum(out, 0.0)

    def clip(self, slopes: FloatArray) -> FloatArray:
        """Return the slopes moved into the domains of the conjugates."""
        out = np.array(slopes, dtype=float)
        for group in self.groups:
            out[group.part] = np.clip(out[group.part], *group.conjugate.domain)
        return out

    def conjugate_value(self, slopes: FloatArray) -> float:
        """Return Σ c ρ*(p) − λᵀd at slopes p, λ = c p."""
        total = -float((self.weights * slopes) @ self.shifts)
        for group in self.groups:
            weights, values = self.weights[group.part], np.asarray(group.conjugate(slopes[group.part]))
            total += float(np.sum(np.where(weights > 0, weights * values, 0.0)))
        return total

    def recession(self, rows: FloatArray) -> FloatArray:
        """Return the weighted limits c ρ(v + t d)/t for growing t, by the ends of the conjugates' domains."""
        out = np.zeros(len(rows))
        for group in self.groups:
            weights = self.weights[group.part]
            held = weights > 0
            out[group.part][held] = weights[held] * directional(group.conjugate, rows[group.part][held])
        return out

    def _shifted(self, v: FloatArray, centre: FloatArray, kappa: float) -> Iterator[tuple[Group, FloatArray]]:
        for group in self.groups:
            x = v[group.part]
            yield group, x if group.smooth else x + centre[group.part] / kappa


def directional(conjugate: ConvexFunction, d: FloatArray) -> FloatArray:
    """Return the limits ρ(v + t d)/t for growing t, by the ends of the domain of ρ*."""
    low, high = conjugate.domain
    moving, out = np.abs(d) > FLAT, np.zeros(len(d))
    out[moving] = np.where(d[moving] > 0, high, low) * d[moving]
    return out


@dataclass(frozen=True, eq=False)
class Pair:
    """Represent a primal point with a dual point and what they prove.

    Parameters
    ----------
    x : float array
        (w, b, s), inside the decision bounds and signs.
    slopes : float array
        The normalised multipliers, inside the domains of the conjugates.
    primal, dual : float
        The two values.
    residual : float
        What the violation of the dual equalities costs, relative to the primal value.
    violation : float
        The largest violation of the decision bounds, relative to their rows.
    noise : float
        What rounding may have done to the difference of the values.
    floor : float
        The form's size of values as good as zero.
    """

    x: FloatArray
    slopes: FloatArray
    primal: float
    dual: float
    residual: float
    violation: float
    noise: float = 0.0
    floor: float = 0.0

    @property
    def gap(self) -> float:
        """Return the gap relative to |primal|, rounding apart."""
        return relative_gap(self.primal, self.dual, self.noise, self.floor)

    @property
    def error(self) -> float:
        """Return the larger of gap and residuals."""
        return max(self.gap, self.residual, self.violation)


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
