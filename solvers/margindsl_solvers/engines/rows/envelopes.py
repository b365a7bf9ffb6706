"""Rows of any form with fixed labels: their functions with envelopes, what a pair of points proves, rays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from margindsl.calculus import PLQ, ConvexFunction
from margindsl.calculus.accuracy import greatest_ratio, relative_gap, rounding
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray, IntArray

FLAT = 1e-9  # entries of a direction below it are rounding


@dataclass(frozen=True)
class Group:
    """Represent rows sharing one function ρ, each weighted by its entry of `Rows.weights`.

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
    smooth: bool = False

    @cached_property
    def conjugate(self) -> ConvexFunction:
        """Return ρ*."""
        return self.function.conjugate()

    def slopes(self, x: FloatArray, kappa: float) -> FloatArray:
        """Return ρ'(x), or the derivative κ(x − prox(x)) of the envelope.

        That is the prox of κρ* at κx: far out, where x and prox(x) agree to most digits, the end of its domain and not
        their difference.
        """
        return np.asarray(self.function.derivative(x) if self.smooth else self.conjugate.prox(kappa * x, kappa))

    def curvatures(self, x: FloatArray, kappa: float) -> FloatArray:
        """Return the generalised derivatives of `slopes`, row by row."""
        rho = self.function
        return np.asarray(rho.curvature(x) if self.smooth else kappa * (1.0 - rho.prox_derivative(x, 1.0 / kappa)))

    def clip(self, p: FloatArray) -> FloatArray:
        """Return slopes moved into the domain of the conjugate."""
        return np.clip(p, *self.conjugate.domain)

    def charged(self, weights: FloatArray) -> FloatArray:
        """Return the weights of the arguments of ρ, of those of all rows."""
        return weights[self.part]

    def argument(self, x: FloatArray) -> FloatArray:
        """Return the arguments of ρ at rows."""
        return x

    def pull(self, p: FloatArray) -> FloatArray:
        """Return the slopes in the arguments of ρ, of slopes of rows."""
        return p


class Rows(ABC):
    """Write a form with fixed labels as min ½‖w‖² + qᵀs + Σ_r c_r ρ_r(v_r), v = A x + d, x = (w, b, s)."""

    form: Any

    @property
    @abstractmethod
    def rank(self) -> int:
        """Return the number r of weights."""

    @property
    @abstractmethod
    def bias(self) -> int:
        """Return the number of coordinates of a free bias."""

    @cached_property
    def border(self) -> int:
        """Return the number of unpenalised variables (bias and shared scalars)."""
        return self.bias + self.form.losses.scalars.count

    @cached_property
    def signed(self) -> IntArray:
        """Return the indices of the scalars constrained to be non-negative."""
        return np.flatnonzero(self.form.losses.scalars.nonneg)

    @property
    def constant(self) -> float:
        """Return the constant of the losses."""
        return 0.0

    @property
    @abstractmethod
    def groups(self) -> tuple[Group, ...]:
        """Return the functions with their rows."""

    @property
    @abstractmethod
    def weights(self) -> FloatArray:
        """Return the weight of every row; that of a bound balances its penalty with the losses."""

    @property
    @abstractmethod
    def shifts(self) -> FloatArray:
        """Return the constants d."""

    @property
    @abstractmethod
    def loss_rows(self) -> slice:
        """Return the rows of the losses."""

    @property
    @abstractmethod
    def decision_rows(self) -> slice:
        """Return the rows of the bounds on decision values."""

    @cached_property
    def bound_groups(self) -> tuple[Group, ...]:
        """Return the indicators of the bounds on decision values, of more clusters one for all differences of two."""
        bounds, start = self.form.decision, self.decision_rows.start
        many = len(self.form.bound_normals) // max(len(bounds), 1)
        return tuple(Group(PLQ.indicator(bound.lower, bound.upper), slice(at, at + many)) for bound, at in zip(
            bounds, range(start, self.decision_rows.stop, max(many, 1))))

    @cached_property
    def sign_rows(self) -> slice:
        """Return the rows of the signs of scalars, which come last."""
        return slice(self.decision_rows.stop, self.decision_rows.stop + len(self.signed))

    @cached_property
    def sign_groups(self) -> tuple[Group, ...]:
        """Return the indicators of the signs of scalars."""
        return (Group(PLQ.indicator(0.0, np.inf), self.sign_rows),) if len(self.signed) else ()

    @cached_property
    def sign_weights(self) -> FloatArray:
        """Return the weights of the sign rows, which balance their penalties with the losses."""
        losses = self.form.losses
        return np.asarray(1.0 + losses.weights @ losses.coupling[:, self.signed] ** 2)

    def entered(self, losses: Losses, values: FloatArray, x: FloatArray) -> FloatArray:
        """Return aγ + bᵀs of the rows of losses, of values (n,) or (n, p) of the points and the scalars in x."""
        rows = losses.gather(values)
        return (rows.T + losses.coupling @ x[self.rank + self.bias :]).T if losses.scalars.count else rows

    def pull(self, losses: Losses, multipliers: FloatArray, x: FloatArray) -> FloatArray:
        """Return the adjoint of `entered` for values of the points; that for scalars is added to x."""
        if losses.scalars.count:
            total = multipliers if multipliers.ndim == 1 else multipliers.sum(axis=1)
            x[self.rank + self.bias :] += losses.coupling.T @ total
        return losses.spread(multipliers)

    def with_signs(self, x: FloatArray) -> FloatArray:
        """Return a point of its own with the signs of scalars clipped."""
        x, index = np.array(x, dtype=float), self.rank + self.bias + self.signed
        x[index] = np.maximum(x[index], 0.0)
        return x

    def damping(self, curved: FloatArray, gradient: FloatArray, reach: FloatArray) -> FloatArray:
        """Return what holds unpenalised variables in a Newton system, in proportion to their gradient over `reach`.

        Lightly where the rows curve, so that convergence stays quadratic, firmly where nothing curves.
        """
        firm = curved <= 1e-10 * float(np.sum(self.weights[self.loss_rows]))
        return 1e-14 + 1e-13 * curved + np.where(firm, 1e-3, 1e-7) * np.abs(gradient) / reach

    @abstractmethod
    def split(self, x: FloatArray) -> tuple[FloatArray, Any, FloatArray]:
        """Return w, b and s of x."""

    @abstractmethod
    def apply(self, x: FloatArray) -> FloatArray:
        """Return A x, without the constants."""

    @abstractmethod
    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        """Return Aᵀλ."""

    @abstractmethod
    def charges(self, v: FloatArray) -> FloatArray:
        """Return what losses with arguments v cost, part by part."""

    @abstractmethod
    def inside(self, x: FloatArray) -> FloatArray:
        """Return the point moved into bounds and signs by the shortest way."""

    @abstractmethod
    def violation(self, x: FloatArray) -> float:
        """Return by how much a point leaves bounds and signs, relative to their rows."""

    @abstractmethod
    def variables(self, pair: Pair) -> dict[str, FloatArray]:
        """Return the variables the form asks for."""

    @abstractmethod
    def newton_step(self, v: FloatArray, centre: FloatArray, kappa: float, gradient: FloatArray, reach: FloatArray,
                    limit: int) -> FloatArray:
        """Return the Newton step of the envelopes at v; dense systems up to an order of `limit`."""

    def renew(self, x: FloatArray) -> bool:
        """Return whether the rows changed with the point, where they follow it."""
        return False

    @cached_property
    def is_smooth(self) -> bool:
        """Return whether no row needs an envelope."""
        return all(group.smooth for group in self.groups)

    def normalised(self, multipliers: FloatArray, part: slice = slice(None)) -> FloatArray:
        """Return multipliers of some rows over their weights, zero where these are."""
        weights = self.weights[part]
        return np.divide(multipliers, weights, out=np.zeros_like(weights), where=weights > 0)

    def gradient(self, x: FloatArray, multipliers: FloatArray) -> FloatArray:
        """Return (w, 0, q) + Aᵀλ, the violation of the dual equalities."""
        out = self.adjoint(multipliers)
        out[: self.rank] += x[: self.rank]
        out[self.rank + self.bias :] += self.form.losses.scalars.costs
        return out

    def slopes(self, v: FloatArray, centre: FloatArray, kappa: float) -> FloatArray:
        """Return the normalised multipliers at v: ρ'(v), or κ(x − prox(x)), x = v + centre/κ.

        A smooth row contributes ρ itself; another one the Moreau envelope of ρ around the multiplier
        estimate `centre`, whose slope lies in the subdifferential of ρ at prox(x).
        """
        out = np.empty(len(v))
        for group in self.groups:
            out[group.part] = group.slopes(_shifted(group, v, centre, kappa), kappa)
        return out

    def curvatures(self, v: FloatArray, centre: FloatArray, kappa: float) -> FloatArray:
        """Return the weighted generalised derivatives of `slopes`, of rows that have one each."""
        out = np.empty(len(v))
        for group in self.groups:
            out[group.part] = group.curvatures(_shifted(group, v, centre, kappa), kappa)
        return self.weights * np.maximum(out, 0.0)

    def clip(self, slopes: FloatArray) -> FloatArray:
        """Return the slopes moved into the domains of the conjugates."""
        out = np.array(slopes, dtype=float)
        for group in self.groups:
            out[group.part] = group.clip(out[group.part])
        return out

    def conjugate_value(self, slopes: FloatArray) -> float:
        """Return Σ c ρ*(p) − λᵀd − constant at slopes p, λ = c p."""
        total = -float((self.weights * slopes) @ self.shifts) - self.constant
        for group in self.groups:
            weights, values = group.charged(self.weights), np.asarray(group.conjugate(group.pull(slopes[group.part])))
            total += float(np.sum(np.where(weights > 0, weights * values, 0.0)))
        return total

    def judge(self, x: FloatArray, slopes: FloatArray) -> Pair:
        """Return the feasible pair next to (x, slopes) with its values."""
        x, p, r, form = self.inside(x), self.clip(slopes), self.rank, self.form
        gradient, (w, _, s) = self.gradient(x, self.weights * p), self.split(x)
        losses = self.charges((self.apply(x) + self.shifts)[self.loss_rows])
        costs, half = form.losses.scalars.costs * s, 0.5 * float(w @ w)
        direction = w - gradient[:r]
        spent, conjugate = 0.5 * float(direction @ direction), self.conjugate_value(p)
        parts = half + float(np.abs(losses).sum() + np.abs(costs).sum()) + spent + abs(conjugate)
        primal = half + float(np.sum(losses)) + float(np.sum(costs))
        owed = np.abs(gradient[r:]) * np.maximum(np.abs(x[r:]), form.units[1])
        residual = greatest_ratio(owed, max(abs(primal), form.floor))
        return Pair(x, p, primal, -conjugate - spent, residual, self.violation(x),
                    float(rounding(parts, form.n)), form.floor)

    def falls_forever(self, step: FloatArray) -> bool:
        """Return whether the objective falls without end along the bias and scalar part of a step."""
        far = np.array(step)
        far[: self.rank] = 0.0
        size = float(np.max(np.abs(far), initial=0.0))
        if size == 0.0:
            return False
        far *= 1.0 / size
        terms = self.recession(self.apply(far))
        cost = float(self.form.losses.scalars.costs @ far[self.rank + self.bias :])
        return float(np.sum(terms)) + cost < -1e-9 * (float(np.sum(np.abs(terms))) + abs(cost))

    def recession(self, rows: FloatArray) -> FloatArray:
        """Return the weighted limits c ρ(v + t d)/t for growing t, by the ends of the conjugates' domains."""
        out = [np.zeros(0)]
        for group in self.groups:
            weights, d = group.charged(self.weights), group.argument(rows[group.part])
            (low, high), moving = group.conjugate.domain, (np.abs(d) > FLAT) & (weights > 0)
            limits = np.zeros(len(d))
            limits[moving] = weights[moving] * np.where(d[moving] > 0, high, low) * d[moving]
            out.append(limits)
        return np.concatenate(out)


def _shifted(group: Group, v: FloatArray, centre: FloatArray, kappa: float) -> FloatArray:
    x = v[group.part]
    return x if group.smooth else x + centre[group.part] / kappa


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
