"""The rows of a form with fixed labels: one linear map, functions with envelopes, and what a pair of points proves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from margindsl.calculus import PLQ, ConvexFunction
from margindsl.calculus.accuracy import greatest_ratio, relative_gap, rounding
from margindsl.contract import RawSolution, Refusal, Status
from margindsl.program.labelled import LabelledForm
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.course import WORDS
from margindsl_solvers.engines.nearest import nearest
from margindsl_solvers.engines.rows.groups import Block, Group

FLAT = 1e-9  # entries of a direction below it are rounding


class Rows(ABC):
    """Write a form with fixed labels as min ½‖w‖² + qᵀs + Σ_r c_r ρ_r(v_r), v = A x + d, x = (w, β, s).

    The rows are those of the losses, in blocks of one or more a loss, then one a bounded sum of decision values (ρ the
    indicator of its interval), then one a non-negative scalar (ρ the indicator of [0, ∞)). Indicators get a weight that
    only scales the penalty. A subclass says how the losses depend on (w, β), and takes Newton steps.
    """

    form: Any  # a LabelledForm

    # -- what a subclass says -----------------------------------------------------------------------

    @property
    @abstractmethod
    def losses(self) -> tuple[tuple[Losses, int | None], ...]:
        """Return losses, each with the number of rows of their blocks, None where a loss has a row."""

    @abstractmethod
    def margins(self, w: FloatArray, bias: FloatArray) -> list[FloatArray]:
        """Return what enters the losses of each kind, (n,) or (n, width)."""

    @abstractmethod
    def pulled(self, tables: list[FloatArray]) -> FloatArray:
        """Return the adjoint of `margins`, in (w, β) or x."""

    @abstractmethod
    def variables(self, pair: Pair) -> dict[str, FloatArray]:
        """Return the variables the form asks for."""

    @abstractmethod
    def newton_step(self, v: FloatArray, centre: FloatArray, kappa: float, gradient: FloatArray, reach: FloatArray,
                    limit: int) -> FloatArray:
        """Return the Newton step of the envelopes at v; dense systems up to an order of `limit`."""

    constant: float = 0.0  # of the losses

    def renew(self, x: FloatArray) -> bool:
        """Return whether the rows changed with the point, where they follow it."""
        return False

    # -- sizes --------------------------------------------------------------------------------------

    @cached_property
    def rank(self) -> int:
        """Return the number of weights."""
        return int(self.form.size_of_w)

    @cached_property
    def bias(self) -> int:
        """Return the number of coordinates of a free bias."""
        return int(self.form.border)

    @cached_property
    def border(self) -> int:
        """Return the number of unpenalised variables (bias and shared scalars)."""
        return self.bias + int(self.form.losses.scalars.count)

    @cached_property
    def signed(self) -> IntArray:
        """Return the indices of the scalars constrained to be non-negative."""
        return np.flatnonzero(self.form.losses.scalars.nonneg)

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Return the rows of each kind of losses."""
        ends = np.cumsum([0, *(losses.rows * (width or 1) for losses, width in self.losses)])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    @cached_property
    def loss_rows(self) -> slice:
        """Return the rows of the losses, which come first."""
        return slice(0, self.parts[-1].stop)

    @cached_property
    def decision_rows(self) -> slice:
        """Return the rows of the bounds on decision values."""
        return slice(self.loss_rows.stop, self.loss_rows.stop + len(self.form.bound_normals))

    @cached_property
    def sign_rows(self) -> slice:
        """Return the rows of the signs of scalars, which come last."""
        return slice(self.decision_rows.stop, self.decision_rows.stop + len(self.signed))

    # -- functions ----------------------------------------------------------------------------------

    @cached_property
    def _functions(self) -> tuple[tuple[Group, ...], FloatArray]:
        """Return the functions with their rows, and the constants d."""
        groups, shifts = list[Group](), np.zeros(self.sign_rows.stop)
        for (losses, width), where in zip(self.losses, self.parts):
            for term, part in losses.slices():
                many = width or 1
                position = slice(where.start + part.start * many, where.start + part.stop * many)
                if not term.rows or width is None:
                    shifts[position] = term.shifts
                    groups += [Group(term.loss, position, bool(term.loss.is_smooth))] if term.rows else []
                    continue
                loss, own = term.loss.unshifted()  # equal losses but for a shift are one function
                shifts[position] = np.repeat(term.shifts + own, width)
                same = bool(groups) and isinstance(groups[-1], Block) and groups[-1].function == loss
                start = groups.pop().part.start if same else position.start
                groups.append(Block(loss, slice(start, position.stop), width=width))
        many = len(self.form.bound_normals) // max(len(self.form.decision), 1)  # of clusters the differences of two
        starts = range(self.decision_rows.start, self.decision_rows.stop, max(many, 1))
        groups += [Group(PLQ.indicator(bound.lower, bound.upper), slice(at, at + many))
                   for bound, at in zip(self.form.decision, starts)]
        groups += [Group(PLQ.indicator(0.0, np.inf), self.sign_rows)] if len(self.signed) else []
        return tuple(groups), shifts

    @property
    def groups(self) -> tuple[Group, ...]:
        """Return the functions with their rows."""
        return self._functions[0]

    @property
    def shifts(self) -> FloatArray:
        """Return the constants d."""
        return self._functions[1]

    @cached_property
    def loss_groups(self) -> tuple[Group, ...]:
        """Return those of the losses."""
        return tuple(group for group in self.groups if group.part.stop <= self.loss_rows.stop)

    @cached_property
    def weights(self) -> FloatArray:
        """Return the weight of every row; that of a bound balances its penalty with the losses."""
        own, norms = self.form.losses, np.sum(self.form.bound_normals**2, axis=1)
        total = 1.0 + sum(float(losses.weights.sum()) for losses, _ in self.losses)
        return np.concatenate([*(np.repeat(losses.weights, width or 1) for losses, width in self.losses),
                               total / np.where(norms > 0, norms, 1.0),
                               1.0 + own.weights @ own.coupling[:, self.signed] ** 2])

    @cached_property
    def is_smooth(self) -> bool:
        """Return whether no row needs an envelope."""
        return all(group.smooth for group in self.groups)

    # -- the linear map -----------------------------------------------------------------------------

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return w, β and s of x."""
        w, bias, s = self.form.split(x)
        return w, bias, s

    def apply(self, x: FloatArray) -> FloatArray:
        """Return A x, without the constants."""
        w, bias, s = self.split(x)
        found = []
        for (losses, _), values in zip(self.losses, self.margins(w, bias)):
            entered = losses.at_rows(values)
            found.append(((entered.T + losses.coupling @ s).T if len(s) else entered).ravel())
        if self.form.decision:
            found.append(self.form.bound_normals @ x[: self.rank + self.bias])
        return np.concatenate([*found, s[self.signed]])

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        """Return Aᵀλ."""
        out, end, tables = np.zeros(self.rank + self.border), self.rank + self.bias, []
        for (losses, width), part in zip(self.losses, self.parts):
            own = multipliers[part] if width is None else multipliers[part].reshape(-1, width)
            out[end:] += losses.coupling.T @ (own if width is None else own.sum(axis=1))
            tables.append(losses.scatter(own))
        out[:end] += self.pulled(tables)[:end]
        out[end + self.signed] += multipliers[self.sign_rows]
        if self.form.decision:
            out[:end] += self.form.bound_normals.T @ multipliers[self.decision_rows]
        return out

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

    # -- envelopes ----------------------------------------------------------------------------------

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

    def damping(self, curved: FloatArray, gradient: FloatArray, reach: FloatArray) -> FloatArray:
        """Return what holds unpenalised variables in a Newton system, in proportion to their gradient over `reach`.

        Lightly where the rows curve, so that convergence stays quadratic, firmly where nothing curves.
        """
        firm = curved <= 1e-10 * float(np.sum(self.weights[self.loss_rows]))
        return 1e-14 + 1e-13 * curved + np.where(firm, 1e-3, 1e-7) * np.abs(gradient) / reach

    def clip(self, slopes: FloatArray) -> FloatArray:
        """Return the slopes moved into the domains of the conjugates."""
        out = np.array(slopes, dtype=float)
        for group in self.groups:
            out[group.part] = group.clip(out[group.part])
        return out

    # -- what a point proves ------------------------------------------------------------------------

    def inside(self, x: FloatArray) -> FloatArray:
        """Return the point moved into bounds and signs by the shortest way."""
        x, end = np.array(x, dtype=float), self.rank + self.bias
        x[end + self.signed] = np.maximum(x[end + self.signed], 0.0)
        if self.form.decision:
            x[:end] = nearest(x[:end], self.form.bound_normals, *self.form.bound_ends)
        return x

    def violation(self, x: FloatArray) -> float:
        """Return by how much a point leaves bounds and signs, relative to their rows."""
        return float(self.form.primal_residual(*self.split(x)))

    def charges(self, v: FloatArray) -> FloatArray:
        """Return what losses with arguments v cost, and their constant."""
        return np.concatenate([*(group.charges(self.weights, v) for group in self.loss_groups), [self.constant]])

    def conjugate_value(self, slopes: FloatArray) -> float:
        """Return Σ c ρ*(p) − λᵀd − constant at slopes p, λ = c p."""
        total = -float((self.weights * slopes) @ self.shifts) - self.constant
        for group in self.groups:
            weights = group.charged(self.weights)
            values = np.asarray(group.conjugate(group.backward(slopes[group.part])))
            total += float(np.sum(np.where(weights > 0, weights * values, 0.0)))
        return total

    def judge(self, x: FloatArray, slopes: FloatArray) -> Pair:
        """Return the feasible pair next to (x, slopes) with its values."""
        x, p, r, form = self.inside(x), self.clip(slopes), self.rank, self.form
        gradient, (w, _, s) = self.gradient(x, self.weights * p), self.split(x)
        losses = self.charges(self.apply(x) + self.shifts)
        costs, half = form.losses.scalars.costs * s, 0.5 * float(w @ w)
        direction = w - gradient[:r]
        spent, conjugate = 0.5 * float(direction @ direction), self.conjugate_value(p)
        parts = half + float(np.abs(losses).sum() + np.abs(costs).sum()) + spent + abs(conjugate)
        primal = half + float(np.sum(losses)) + float(np.sum(costs))
        shortfall = np.abs(gradient[r:]) * np.maximum(np.abs(x[r:]), form.units[1])
        residual = greatest_ratio(shortfall, max(abs(primal), form.negligible))
        return Pair(x, p, primal, -conjugate - spent, residual, self.violation(x),
                    float(rounding(parts, form.n)), form.negligible)

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

    def refusal(self) -> RawSolution | None:
        """Return the answer where no point satisfies the decision bounds or nothing holds the bias, None elsewhere."""
        if self.form.contradiction:
            return RawSolution(Status.INFEASIBLE, message="no weights and bias satisfy the decision bounds")
        return RawSolution(Status.UNBOUNDED, message=WORDS[Status.UNBOUNDED]) if self.is_unbounded() else None

    def is_unbounded(self) -> bool:
        """Return whether the losses fall without end along the bias, beside any value however large."""
        tilted = any(not group.conjugate.domain[0] <= 0.0 <= group.conjugate.domain[1] for group in self.groups)
        if not (tilted and self.bias) or np.any(self.form.bound_rows[1]):
            return False
        along = np.eye(self.bias, self.rank + self.border, self.rank)
        return any(map(self.falls_forever, (*along, *-along)))

    def plane_of(self, start: RawSolution | None) -> tuple[FloatArray, bool]:
        """Return x = (w, β, s) of an earlier solution, zeros where it has none, and whether it has any."""
        x, used, end = np.zeros(self.rank + self.border), False, self.rank + self.bias
        for name, part in (("w", slice(0, self.rank)), ("bias", slice(self.rank, end)), ("scalars", slice(end, None))):
            value = given(start, name, x[part].shape)
            if value is not None:
                x[part], used = value, True
        return x, used


def given(start: RawSolution | None, name: str, shape: tuple[int, ...]) -> FloatArray | None:
    """Return a variable of a start where it has the shape and is finite."""
    value = np.ravel(np.asarray(start.get(name, ()), dtype=float)) if start else np.zeros(0)
    return value if value.shape == shape and len(value) and bool(np.all(np.isfinite(value))) else None


def _shifted(group: Group, v: FloatArray, centre: FloatArray, kappa: float) -> FloatArray:
    x = v[group.part]
    return x if group.smooth else x + centre[group.part] / kappa


def reach(form: LabelledForm) -> float:
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
    negligible : float
        The form's size of values as good as zero.
    """

    x: FloatArray
    slopes: FloatArray
    primal: float
    dual: float
    residual: float
    violation: float
    noise: float = 0.0
    negligible: float = 0.0

    @property
    def gap(self) -> float:
        """Return the gap relative to |primal|, rounding apart."""
        return relative_gap(self.primal, self.dual, self.noise, self.negligible)

    @property
    def error(self) -> float:
        """Return the larger of gap and residuals."""
        return max(self.gap, self.residual, self.violation)
