"""The rows of a form with fixed labels: one linear map, functions with envelopes, and what a pair of points proves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from margindsl.calculus import PLQ, ConvexFunction
from margindsl.calculus.accuracy import greatest_ratio, relative_gap, rounding
from margindsl.contract import RawSolution, Status
from margindsl.program.labelled import LabelledForm
from margindsl.program.losses import Losses
from margindsl.program.nearest import nearest
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.course import WORDS

FLAT = 1e-9  # entries of a direction below it are rounding


@dataclass(frozen=True)
class Group:
    """Represent rows sharing one function ρ, each weighted by its entry of `Rows.weights`."""

    function: ConvexFunction  # the one-dimensional function ρ
    part: slice  # its rows
    smooth: bool = False  # whether ρ enters by its derivative; otherwise by its Moreau envelope
    width: int = 1  # rows an argument of ρ; all have its weight

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

    def argument(self, x: FloatArray) -> FloatArray:
        """Return the arguments of ρ at its rows."""
        return x

    def subgradient(self, weights: FloatArray, v: FloatArray) -> FloatArray:
        """Return a weighted subgradient at the rows, of weights and values of all rows."""
        return np.asarray(weights[self.part] * self.function.derivative(v[self.part]))

    def entered(self, p: FloatArray) -> FloatArray:
        """Return the slopes in the arguments of ρ, of slopes of its rows."""
        return p


@dataclass(frozen=True)
class Block(Group):
    """Represent rows m_1, …, m_{k−1} a point with one function h(m) = ρ(min_q m_q), ρ nonincreasing.

    Its Moreau envelope has a closed form: prox(m) = max(m, t), t the minimiser of ρ(t) + κ/2 Σ (t − m_q)₊²,
    that is prox_{ρ/(jκ)} of the mean of the j smallest m for the j it lies between.
    """

    def table(self, x: FloatArray) -> FloatArray:
        """Return rows by points, (m, k − 1)."""
        return x.reshape(-1, self.width)

    def level(self, m: FloatArray, kappa: float) -> tuple[FloatArray, IntArray, FloatArray, FloatArray]:
        """Return (t, j, mean, p) of every point, t the least entry of prox(m), j how many reach it, p in ∂ρ(t)."""
        ordered = np.sort(m, axis=1)
        sums = np.cumsum(ordered, axis=1)
        count, mean = np.ones(len(m), dtype=int), sums[:, 0].copy()
        slope = np.asarray(self.conjugate.prox(kappa * mean, kappa))
        level = mean - slope / kappa
        for j in range(2, self.width + 1):
            below = kappa * (ordered[:, j - 1] - mean) + slope / (j - 1) < 0  # the level, where they differ by digits
            more = np.flatnonzero((count == j - 1) & below)
            if not len(more):
                break
            count[more], mean[more] = j, sums[more, j - 1] / j
            slope[more] = self.conjugate.prox(j * kappa * mean[more], j * kappa)
            level[more] = mean[more] - slope[more] / (j * kappa)
        return level, count, mean, slope

    def slopes(self, x: FloatArray, kappa: float) -> FloatArray:
        m = self.table(x)
        _, count, mean, slope = (column[:, None] for column in self.level(m, kappa))
        return np.minimum(kappa * (m - mean) + slope / count, 0.0).ravel()

    def curvatures(self, x: FloatArray, kappa: float) -> FloatArray:
        return np.zeros(len(x))

    def clip(self, p: FloatArray) -> FloatArray:
        low, high = self.conjugate.domain
        p = np.minimum(self.table(p), 0.0)
        total = p.sum(axis=1)
        scale = np.divide(low, total, out=np.ones(len(total)), where=total < low)
        p = p * scale[:, None]
        short = np.flatnonzero(total > high)
        p[short, 0] += high - total[short]
        return p.ravel()

    def argument(self, x: FloatArray) -> FloatArray:
        return self.table(x).min(axis=1)

    def subgradient(self, weights: FloatArray, v: FloatArray) -> FloatArray:
        m = self.table(v[self.part])
        least, out = m.argmin(axis=1)[:, None], np.zeros(m.shape)  # it lies on the least entry
        slopes = self.function.derivative(np.take_along_axis(m, least, axis=1))
        np.put_along_axis(out, least, weights[self.part][:: self.width, None] * slopes, axis=1)
        return out.ravel()

    def entered(self, p: FloatArray) -> FloatArray:
        return np.clip(self.table(p).sum(axis=1), *self.conjugate.domain)


class Rows(ABC):
    """Write a form with fixed labels as min ½‖w‖² + qᵀs + Σ_r c_r ρ_r(v_r), v = A x + d, x = (w, β, s).

    The rows are those of the losses, in blocks of one or more a loss, then one a bounded sum of decision values (ρ the
    indicator of its interval), then one a non-negative scalar (ρ the indicator of [0, ∞)). Indicators get a weight that
    only scales the penalty. A subclass says how the losses depend on (w, β), and takes Newton steps.

    `losses`: losses, each with the number of rows of their blocks, None where a loss has a row; `constant`: of the
    losses.
    """

    def __init__(self, form: LabelledForm, losses: tuple[tuple[Losses, int | None], ...], constant: float = 0.0
                 ) -> None:
        self.form: Any = form
        self.losses, self.constant, scalars = losses, constant, form.losses.scalars
        self.rank, self.bias, self.normals = form.size_of_w, form.border, form.bound_normals
        self.border, self.signed = self.bias + scalars.count, np.flatnonzero(scalars.nonneg)
        ends = [*accumulate((own.rows * (width or 1) for own, width in losses), initial=0)]
        self.parts = tuple(map(slice, ends, ends[1:]))
        self.loss_rows, bounded = slice(0, ends[-1]), ends[-1] + len(self.normals)
        self.decision_rows, self.sign_rows = slice(ends[-1], bounded), slice(bounded, bounded + len(self.signed))

        # 1. Functions and constants d; of equal losses but for a shift one function
        groups, self.shifts = list[Group](), np.zeros(self.sign_rows.stop)
        for (own, width), where in zip(losses, self.parts):
            for term, part in own.slices():
                many = width or 1
                position = slice(where.start + part.start * many, where.start + part.stop * many)
                if not term.rows or width is None:
                    self.shifts[position] = term.shifts
                    groups += [Group(term.loss, position, bool(term.loss.is_smooth))] if term.rows else []
                    continue
                loss, shift = term.loss.unshifted()
                self.shifts[position] = np.repeat(term.shifts + shift, width)
                same = bool(groups) and isinstance(groups[-1], Block) and groups[-1].function == loss
                start = groups.pop().part.start if same else position.start
                groups.append(Block(loss, slice(start, position.stop), width=width))
        self.loss_groups = tuple(groups)
        for number, bound in enumerate(form.decision):  # of clusters a bound has a row for every two of them
            many = len(self.normals) // len(form.decision)
            start = self.decision_rows.start + number * many
            groups.append(Group(PLQ.indicator(bound.lower, bound.upper), slice(start, start + many)))
        if len(self.signed):
            groups.append(Group(PLQ.indicator(0.0, np.inf), self.sign_rows))
        self.groups, self.is_smooth = tuple(groups), all(group.smooth for group in groups)

        # 2. Weights; that of an indicator balances its penalty with the losses
        self.weights = np.concatenate([np.repeat(own.weights, width or 1) for own, width in losses])
        if len(self.normals) or len(self.signed):
            norms, whole = np.sum(self.normals**2, axis=1), form.losses
            total = 1.0 + sum(float(own.weights.sum()) for own, _ in losses)
            self.weights = np.concatenate([self.weights, total / np.where(norms > 0, norms, 1.0),
                                           1.0 + whole.weights @ whole.coupling[:, self.signed] ** 2])

    # -- what a subclass says -----------------------------------------------------------------------

    @abstractmethod
    def margins(self, w: FloatArray, bias: FloatArray) -> list[FloatArray]:
        """Return what enters the losses of each kind, (n,) or (n, width)."""

    @abstractmethod
    def pulled(self, tables: list[FloatArray]) -> FloatArray:
        """Return the adjoint of `margins`, in (w, β)."""

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

    # -- the linear map -----------------------------------------------------------------------------

    def apply(self, x: FloatArray) -> FloatArray:
        """Return A x, without the constants."""
        (w, bias, s), found = self.form.split(x), []
        for (losses, _), values in zip(self.losses, self.margins(w, bias)):
            entered = losses.at_rows(values)
            found.append(((entered.T + losses.coupling @ s).T if len(s) else entered).ravel())
        if len(self.normals):
            found.append(self.normals @ x[: self.rank + self.bias])
        return np.concatenate([*found, s[self.signed]])

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        """Return Aᵀλ."""
        out, end, tables = np.zeros(self.rank + self.border), self.rank + self.bias, []
        for (losses, width), part in zip(self.losses, self.parts):
            own = multipliers[part] if width is None else multipliers[part].reshape(-1, width)
            if len(out) > end:
                out[end:] += losses.coupling.T @ (own if width is None else own.sum(axis=1))
            tables.append(losses.scatter(own))
        out[:end] = self.pulled(tables)
        if len(self.signed):
            out[end + self.signed] += multipliers[self.sign_rows]
        if len(self.normals):
            out[:end] += self.normals.T @ multipliers[self.decision_rows]
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
        out, moved = np.empty(len(v)), v if self.is_smooth else v + centre / kappa
        for group in self.groups:
            out[group.part] = group.slopes((v if group.smooth else moved)[group.part], kappa)
        return out

    def curvatures(self, v: FloatArray, centre: FloatArray, kappa: float) -> FloatArray:
        """Return the weighted generalised derivatives of `slopes`, of rows that have one each."""
        out, moved = np.empty(len(v)), v if self.is_smooth else v + centre / kappa
        for group in self.groups:
            out[group.part] = group.curvatures((v if group.smooth else moved)[group.part], kappa)
        return self.weights * np.maximum(out, 0.0)

    def damping(self, curved: FloatArray, gradient: FloatArray, reach: FloatArray) -> FloatArray:
        """Return what holds unpenalised variables in a Newton system, in proportion to their gradient over `reach`.

        Lightly where the rows curve, so that convergence stays quadratic, firmly where nothing curves.
        """
        firm = curved <= 1e-10 * float(np.sum(self.weights[self.loss_rows]))
        return 1e-14 + 1e-13 * curved + np.where(firm, 1e-3, 1e-7) * np.abs(gradient) / reach

    def subgradient(self, v: FloatArray) -> FloatArray:
        """Return a weighted subgradient of the losses at v, zero at other rows."""
        out = np.zeros(len(v))
        for group in self.loss_groups:
            out[group.part] = group.subgradient(self.weights, v)
        return out

    def slopes_at(self, x: FloatArray) -> FloatArray:
        """Return normalised multipliers for a point of which none are known: subgradients, zero at other rows."""
        return self.clip(self.normalised(self.subgradient(self.apply(x) + self.shifts)))

    def clip(self, slopes: FloatArray) -> FloatArray:
        """Return the slopes moved into the domains of the conjugates."""
        out = np.empty(len(slopes))
        for group in self.groups:
            out[group.part] = group.clip(slopes[group.part])
        return out

    # -- what a point proves ------------------------------------------------------------------------

    def inside(self, x: FloatArray) -> FloatArray:
        """Return the point moved into bounds and signs by the shortest way."""
        x, end = np.array(x, dtype=float), self.rank + self.bias
        if len(self.signed):
            x[end + self.signed] = np.maximum(x[end + self.signed], 0.0)
        if len(self.normals):
            x[:end] = nearest(x[:end], self.normals, *self.form.bound_ends)
        return x

    def charges(self, v: FloatArray) -> FloatArray:
        """Return what losses with arguments v cost, and their constant."""
        found = [np.array([self.constant])]
        for group in self.loss_groups:
            c = self.weights[group.part][:: group.width]
            found.append(np.where(c > 0, c * np.asarray(group.function(group.argument(v[group.part]))), 0.0))
        return np.concatenate(found)

    def judge(self, x: FloatArray, slopes: FloatArray) -> Pair:
        """Return the feasible pair next to (x, slopes) with its values."""
        x, p, form, r = self.inside(x), self.clip(slopes), self.form, self.rank
        w, _, s = form.split(x)

        # 1. ½‖w‖² + Σ c ρ(v) + qᵀs
        losses, costs = self.charges(self.apply(x) + self.shifts), form.losses.scalars.costs * s
        half = 0.5 * float(w @ w)
        primal = half + float(np.sum(losses)) + float(np.sum(costs))

        # 2. −½‖Aᵀλ‖² − Σ c ρ*(p) + λᵀd at λ = c p, the constant added
        gradient = self.gradient(x, self.weights * p)
        direction = w - gradient[:r]
        squared, conjugate = 0.5 * float(direction @ direction), -float((self.weights * p) @ self.shifts)
        conjugate -= self.constant
        for group in self.groups:
            c, values = self.weights[group.part][:: group.width], group.conjugate(group.entered(p[group.part]))
            conjugate += float(np.sum(np.where(c > 0, c * np.asarray(values), 0.0)))

        # 3. The gap, rounding apart; what equalities of the dual are missed by, and bounds of the primal problem
        size = max(abs(primal), form.negligible)
        missed = np.abs(gradient[r:]) * np.maximum(np.abs(x[r:]), form.units[1])
        residual = greatest_ratio(missed, size) if self.border else 0.0
        violation = form.primal_residual(*form.split(x)) if len(self.normals) or len(self.signed) else 0.0
        parts = half + float(np.abs(losses).sum() + np.abs(costs).sum()) + squared + abs(conjugate)
        gap = relative_gap(primal, -conjugate - squared, float(rounding(parts, form.n)), form.negligible)
        return Pair(x, p, primal, -conjugate - squared, residual, max(gap, residual, violation), form.negligible)

    def falls_forever(self, step: FloatArray) -> bool:
        """Return whether the objective falls without end along the bias and scalar part of a step.

        The limits c ρ(v + t d)/t for growing t are read off the ends of the conjugates' domains.
        """
        far = np.array(step)
        far[: self.rank] = 0.0
        size = float(np.max(np.abs(far), initial=0.0))
        if size == 0.0:
            return False
        far *= 1.0 / size
        rows, terms = self.apply(far), [np.array([self.form.losses.scalars.costs @ far[self.rank + self.bias :]])]
        for group in self.groups:
            c, d = self.weights[group.part][:: group.width], group.argument(rows[group.part])
            (low, high), moving = group.conjugate.domain, (np.abs(d) > FLAT) & (c > 0)
            terms.append(c[moving] * np.where(d[moving] > 0, high, low) * d[moving])
        limits = np.concatenate(terms)
        return bool(limits.sum() < -1e-9 * np.abs(limits).sum())

    def refusal(self) -> RawSolution | None:
        """Return the answer where no point satisfies the decision bounds or nothing holds the bias, None elsewhere.

        Nothing does where the losses fall without end along it, beside any value however large.
        """
        if len(self.normals) and self.form.contradiction:
            return RawSolution(Status.INFEASIBLE, message="no weights and bias satisfy the decision bounds")
        domains = (group.conjugate.domain for group in self.groups)
        if self.bias and any(not low <= 0.0 <= high for low, high in domains) and not np.any(self.form.bound_rows[1]):
            along = np.eye(self.bias, self.rank + self.border, self.rank)
            if any(map(self.falls_forever, (*along, *-along))):
                return RawSolution(Status.UNBOUNDED, message=WORDS[Status.UNBOUNDED])
        return None


def reach(form: LabelledForm) -> float:
    """Return an estimate of how far the losses can move a decision value, Σ c a² mean ‖φ‖²."""
    losses = form.losses
    return float(losses.weights @ losses.slopes**2) * float(form.features.trace) / max(1, form.n)


def into_domain(losses: Losses, u: FloatArray) -> FloatArray:
    """Return u with −u/c clipped into the domain of every ρ*, so that round-off never makes the dual −∞."""
    out = np.zeros(losses.rows)
    for term, part in losses.slices():
        low, high = term.conjugate.domain
        active = term.weights > 0
        c = np.where(active, term.weights, 1.0)
        inside = -c * np.clip(-u[part] / c, low, high)
        ratio = -inside / c
        # the product and the quotient round: two units in the last place bring the ratio back
        step = 2 * np.spacing(np.abs(inside))
        inside = inside + step * (ratio > high) - step * (ratio < low)
        out[part] = np.where(active, inside, 0.0)
    return out


@dataclass(frozen=True, eq=False)
class Pair:
    """Represent a primal point with a dual point and what they prove.

    `primal`, `dual`: the two values; `error`: the largest of that, the gap relative to |primal|, rounding apart, and
    the violation of the decision bounds.
    """

    x: FloatArray  # (w, b, s), inside the decision bounds and signs
    slopes: FloatArray  # the normalised multipliers, inside the domains of the conjugates
    primal: float
    dual: float
    residual: float  # what the violation of the dual equalities costs, relative to the primal value
    error: float
    negligible: float = 0.0  # the form's size of values as good as zero
