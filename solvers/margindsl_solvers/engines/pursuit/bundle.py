"""The iteration: cutting planes inside the span of the basis, then more basis vectors where the dual asks."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass, field

import numpy as np

from margindsl.contract import Budget, Status
from margindsl.features.operator import FeatureOperator
from margindsl.typing import FloatArray
from margindsl_solvers.engines.line_search import search
from margindsl_solvers.engines.pursuit.basis import Basis, SpanFeatures
from margindsl_solvers.engines.pursuit.master import Answer, solve_master
from margindsl_solvers.engines.rows.judge import Pair, inside, judge
from margindsl_solvers.engines.rows.model import RowModel, reach

STALLED = 60  # cuts that close less than a hundredth of the gap
FAR = 1e9  # a bias or scalar driven beyond it, in units of decision values, means that nothing holds it


@dataclass(frozen=True)
class Limits:
    """Represent when a solve ends.

    Parameters
    ----------
    tol : float
        Relative gap.
    eta : float or None
        Gap allowed in units of the loss at zero margins.
    max_iter : int
        Cap on cuts.
    max_basis : int
        Cap on basis vectors.
    per_round : int
        Least number of basis vectors added at once.
    patience : int
        Rounds without weight after which a cut is dropped.
    """

    tol: float
    eta: float | None
    max_iter: int
    max_basis: int
    per_round: int
    patience: int


@dataclass(eq=False)
class Pursuit:
    """Hold the state of one solve.

    Parameters
    ----------
    model : RowModel
        The whole problem.
    basis : Basis
    budget : Budget
    limits : Limits
    """

    model: RowModel
    basis: Basis
    budget: Budget
    limits: Limits
    iterations: int = 0
    box: float = 0.0
    best: FloatArray = field(default_factory=lambda: np.zeros(0))
    value: float = math.inf
    lower: float = -math.inf
    points: list[FloatArray] = field(default_factory=list)
    answer: Answer | None = None
    slopes: FloatArray | None = None
    dual: float = -math.inf
    trace: list[tuple[float, float, float]] = field(default_factory=list)

    def run(self, x: FloatArray, points: list[FloatArray]) -> Status:
        """Iterate from x = (w, b, s) of the whole problem, with cuts at earlier points (ω, b, s) too."""
        size, share = self.basis.size, 0.1
        for row in (x[: self.model.rank], *self.model.form.decision_rows[0]):
            if self.basis.size < self.cap and np.linalg.norm(self.basis.residual(row)) > 1e-3 * np.linalg.norm(row):
                self.basis = self.basis.grown(row, 1)
        coordinates = np.concatenate([self.basis.directions.T @ x[: self.model.rank], x[self.model.rank :]])
        self._enter(coordinates, [self._padded(p, size) for p in points])
        while True:
            status = self._cut(share)
            missing, residual = self._certify()
            if self._closed():
                return Status.OPTIMAL
            # A span too narrow for the bounds, or for progress, is widened like one that misses the dual.
            if status is not None and not (status is Status.INACCURATE and self._grow(residual)):
                return status
            if status is not None:
                continue
            inner = self.value - self.lower
            if missing > inner or not math.isfinite(inner):
                if self._grow(residual):
                    continue
                if inner <= 0.5 * self.goal:
                    return Status.INACCURATE
            # The span is good enough, or all there is: more accuracy inside it.
            share *= 0.1

    # -- what is known ------------------------------------------------------------------------------

    @property
    def cap(self) -> int:
        """Return the largest size the basis may reach."""
        return min(self.limits.max_basis, self.model.rank)

    @property
    def goal(self) -> float:
        """Return the gap to reach, absolute (tolerance, or SKMMC Eq. 13)."""
        if not math.isfinite(self.value):
            return self.limits.tol
        goal = self.limits.tol * max(abs(self.value), self.model.form.floor)
        if self.limits.eta is None:
            return goal
        losses, (_, _, s) = self.model.form.losses, self.model.split(self._whole(self.best))
        return max(goal, self.limits.eta * float(np.sum(losses.row_losses(losses.arguments(np.zeros(losses.n), s)))))

    def pair(self) -> Pair:
        """Return the best point with the best dual point found, judged on the whole problem."""
        assert self.slopes is not None
        return judge(self.model, self._whole(self.best), self.slopes)

    def kept(self, most: int) -> list[FloatArray]:
        """Return the points of the cuts with the largest weights."""
        if self.answer is None:
            return []
        order = np.argsort(-self.answer.alpha)[:most]
        return [self.points[k] for k in order if self.answer.alpha[k] > 1e-6]

    def _closed(self) -> bool:
        pair = self.pair()
        return pair.error * max(abs(pair.primal), pair.floor) <= 1.0000001 * self.goal

    def _whole(self, x: FloatArray) -> FloatArray:
        return np.concatenate([self.basis.lift(x[: self.inner.rank]), x[self.inner.rank :]])

    # -- the basis ----------------------------------------------------------------------------------

    def _certify(self) -> tuple[float, FloatArray]:
        """Judge the dual point on the whole problem; return what the span misses, ½‖(I − P)Ψ‖², and (I − P)Ψ."""
        assert self.answer is not None
        weights = self.model.weights
        multipliers = np.concatenate([self._combined(self.answer.alpha), self.answer.tau, self.answer.signs])
        slopes = np.divide(multipliers, weights, out=np.zeros_like(multipliers), where=weights > 0)
        found = judge(self.model, self._whole(self.best), slopes)
        # A dual point that leans on the box violates the equalities and proves nothing.
        if self.slopes is None or (found.dual > self.dual and not self.answer.leans):
            self.slopes = slopes
            self.dual = found.dual if not self.answer.leans else -math.inf
        residual = self.basis.residual(self.model.adjoint(weights * slopes)[: self.model.rank])
        self.trace.append((time.monotonic() - self.budget.start, self.value, self.dual))
        return 0.5 * float(residual @ residual), residual

    def _grow(self, residual: FloatArray) -> bool:
        room = self.cap - self.basis.size
        size, count = self.basis.size, min(room, max(self.limits.per_round, self.basis.size // 4))
        if count <= 0:
            return False
        self.basis = self.basis.grown(residual, count)
        if self.basis.size == size:
            return False
        kept = [self.points[k] for k in np.flatnonzero(self.answer.alpha > 1e-9)] if self.answer else []
        self._enter(self._padded(self.best, size), [self._padded(p, size) for p in kept])
        return True

    def _padded(self, x: FloatArray, size: int) -> FloatArray:
        return np.concatenate([x[:size], np.zeros(self.basis.size - size), x[size:]])

    def _enter(self, x: FloatArray, points: list[FloatArray]) -> None:
        """Restrict the problem to the present span and linearise at x and at the points."""
        features: FeatureOperator = SpanFeatures(self.basis)  # type: ignore[assignment]
        self.inner = RowModel(dataclasses.replace(self.model.form, features=features))
        self._gradients = np.zeros((0, self.inner.rank + self.inner.border))
        self._offsets, self._idle = np.zeros(0), np.zeros(0, dtype=int)
        self.points, self._leaning, self.lower = [], 0, -math.inf
        self.best = inside(self.inner, x)
        far = float(np.max(np.abs(self.best[self.inner.rank :]), initial=0.0))
        self.box = max(self.box, 10.0 * self.model.form.units[1], 4.0 * far)
        self._v = self._arguments(self.best)
        self.value = self._value(self.best, self._v)
        self._add(self.best, self._v)
        for point in points:
            self._add(point, self._arguments(point))

    # -- cutting planes in the span -----------------------------------------------------------------

    def _cut(self, share: float) -> Status | None:
        """Add cuts until the gap inside the span is a share of the whole one; return what ended the solve, if any."""
        whole, gap, mark, since = self.value - self.dual, self.value - self.lower, math.inf, 0
        while True:
            accuracy = 1e-2 * max(self.goal, gap if math.isfinite(gap) else abs(self.value))
            answer = solve_master(self.inner, self._gradients, self._offsets, self.box, accuracy)
            if answer is None:
                return self._without_answer()
            self.answer = answer
            if not answer.leans:
                self.lower = max(self.lower, answer.value)
            self._watch_box()
            gap = self.value - self.lower
            whole = whole if math.isfinite(whole) else gap
            if math.isfinite(gap) and gap <= max(0.5 * self.goal, share * whole):
                return None
            status = self._ended()
            if status is not None:
                return status
            mark, since = (gap, 0) if not gap >= 0.99 * mark else (mark, since + 1)
            if since >= STALLED:
                return Status.INACCURATE
            self._advance()
            self._prune()

    def _without_answer(self) -> Status:
        """Fall back on the last cut when the master has no answer."""
        if self.answer is None or len(self.answer.alpha) != len(self._offsets):
            alpha = np.zeros(len(self._offsets))
            alpha[0] = 1.0
            signs = np.zeros(len(self.inner.signed))
            self.answer = Answer(self.best, -math.inf, alpha, np.zeros(len(self.model.form.decision)), signs, True)
        return Status.INACCURATE

    def _ended(self) -> Status | None:
        if self.box > FAR * max(self.model.form.units[1], reach(self.model.form)):
            return Status.UNBOUNDED
        if self.iterations >= self.limits.max_iter:
            return Status.ITERATION_LIMIT
        if self.budget.expired:
            return Status.TIME_LIMIT
        if self.budget.report("cpsp", self.iterations, self.value, self.dual):
            return Status.INTERRUPTED
        self.iterations += 1
        return None

    def _watch_box(self) -> None:
        assert self.answer is not None
        self._leaning = self._leaning + 1 if self.answer.leans else 0
        # The first cuts of each side make the master lean once; more often, the box is too small.
        if self._leaning > 3:
            self.box, self._leaning = 10.0 * self.box, 0

    def _advance(self) -> None:
        """Move the best point towards the master's and add a cut near it."""
        assert self.answer is not None
        x = inside(self.inner, self.answer.x)
        v = self._arguments(x)
        if not math.isfinite(self.value):
            self.best, self._v, self.value = x, v, self._value(x, v)
            self._add(x, v)
            return
        step = x - self.best
        change = v - self._v
        t = self._line(step, change)
        if t > 0:
            point, arguments = self.best + t * step, self._v + t * change
            value = self._objective(point, arguments)
            if value < self.value:
                self.best, self._v, self.value = point, arguments, value
        mix = 0.1 if t < 1 else 1.0  # Franc and Sonnenburg (2008): near the best point
        self._add(self.best + mix * (x - self.best), self._v + mix * (v - self._v))

    def _line(self, step: FloatArray, change: FloatArray) -> float:
        """Return the step in [0, 1] that minimises the objective from the best point."""
        losses, r = self.model.form.losses, self.inner.rank
        linear = float(self.best[:r] @ step[:r]) + float(losses.scalars.costs @ step[r + self.inner.bias :])
        square = float(step[:r] @ step[:r])

        def slope(t: float) -> float:
            return linear + t * square + float(losses.derivative(self._v + t * change) @ change)

        initial = slope(0.0)
        return search(slope, initial, largest=1.0)[0] if initial < 0 else 0.0

    def _arguments(self, x: FloatArray) -> FloatArray:
        return (self.inner.apply(x) + self.inner.shifts)[self.inner.loss_rows]

    def _value(self, x: FloatArray, v: FloatArray) -> float:
        """Return the objective, infinite outside the decision bounds."""
        outside = self.inner.form.primal_residual(*self.inner.split(x))
        return self._objective(x, v) if outside <= 1e-9 else math.inf

    def _objective(self, x: FloatArray, v: FloatArray) -> float:
        w, _, s = self.inner.split(x)
        losses = self.model.form.losses
        return 0.5 * float(w @ w) + float(losses.scalars.costs @ s) + float(np.sum(losses.row_losses(v)))

    def _add(self, x: FloatArray, v: FloatArray) -> None:
        """Add the linearisation at x; for the hinge and SKMMC's loss the most violated constraint (Eq. 12)."""
        losses = self.model.form.losses
        slopes = losses.derivative(v)
        offset = float(np.sum(losses.row_losses(v))) - float(slopes @ (v - losses.shifts))
        rest = np.zeros(len(self.inner.weights) - len(slopes))
        gradient = self.inner.adjoint(np.concatenate([slopes, rest]))
        if not (math.isfinite(offset) and np.all(np.isfinite(gradient))):
            return
        self._gradients = np.vstack([self._gradients, gradient])
        self._offsets = np.append(self._offsets, offset)
        self._idle = np.append(self._idle, 0)
        self.points.append(x)

    def _combined(self, alpha: FloatArray) -> FloatArray:
        """Return the (m,) multipliers Σ_k α_k λ_k of the loss rows; slopes are found anew, not kept."""
        total = np.zeros(self.model.form.losses.rows)
        for k in np.flatnonzero(alpha > 0):
            total += alpha[k] * self.model.form.losses.derivative(self._arguments(self.points[k]))
        return total

    def _prune(self) -> None:
        assert self.answer is not None
        count = len(self.answer.alpha)
        self._idle[:count] = np.where(self.answer.alpha > 1e-9, 0, self._idle[:count] + 1)
        keep = self._idle <= self.limits.patience
        if np.all(keep):
            return
        self._gradients, self._offsets, self._idle = self._gradients[keep], self._offsets[keep], self._idle[keep]
        self.points = [p for p, k in zip(self.points, keep) if k]
        self.answer = None if self.answer is None else dataclasses.replace(
            self.answer, alpha=self.answer.alpha[keep[:count]])
