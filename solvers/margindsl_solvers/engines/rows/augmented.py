"""Semismooth Newton inside a proximal augmented Lagrangian, for fixed labels."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from margindsl.accuracy import rounding
from margindsl.contract import Budget, Status
from margindsl.typing import FloatArray
from margindsl_solvers.engines.line_search import search
from margindsl_solvers.engines.rows.judge import Pair, judge
from margindsl_solvers.engines.rows.model import RowModel
from margindsl_solvers.engines.rows.system import Curvature


@dataclass(eq=False)
class Run:
    """Hold the state of one solve.

    Parameters
    ----------
    model : RowModel
    budget : Budget
    x : float array
        The current (w, b, s).
    centre : float array
        The normalised multiplier estimates of the augmented Lagrangian.
    kappa : float
        The penalty; rows are smoothed over a width 1/κ of their argument.
    tol : float
        Relative gap to reach.
    max_iter : int
        Cap on Newton steps.
    growth, largest : float
        Factor of κ from one outer step to the next, and its cap.
    dense_limit : int
        Largest dense system.
    """

    model: RowModel
    budget: Budget
    x: FloatArray
    centre: FloatArray
    kappa: float
    tol: float
    max_iter: int
    growth: float
    largest: float
    dense_limit: int
    iterations: int = 0
    lost: bool = False
    best: Pair | None = None
    trace: list[tuple[float, float, float]] = field(default_factory=list)

    @property
    def error(self) -> float:
        """Return the error of the best pair."""
        return math.inf if self.best is None else self._error(self.best)

    # -- outer loop ---------------------------------------------------------------------------------

    def run(self) -> Status:
        """Minimise until the gap is closed or something ends the solve."""
        pair = self._judge(self._slopes())
        stalled, first = 0, self.kappa
        while True:
            if self._error(pair) <= self.tol:
                return Status.OPTIMAL
            size = max(abs(pair.primal), pair.floor)
            status, slopes = self._newton(max(1e-3 * self.tol * size, 1e-2 * self._open(pair)))
            before, pair = self._error(pair), self._judge(slopes)
            if status is not None:
                return Status.OPTIMAL if self._error(pair) <= self.tol else status
            if self.budget.report("newton", self.iterations, pair.primal, pair.dual):
                return Status.INTERRUPTED
            if self._error(pair) < 0.5 * before:
                stalled = 0
            elif not self.lost or self.kappa <= first:  # a penalty too large for the rounding is lowered first
                stalled += 1
            if stalled >= (3 if self.model.is_smooth else 8):
                return Status.INACCURATE
            if not self.model.is_smooth:
                self.centre = self.model.clip(slopes)
                self._adapt(self._error(pair) / before if 0 < before < math.inf else 1.0)

    def _adapt(self, gain: float) -> None:
        """Change the penalty: multipliers are known to about κ times the rounding of the arguments."""
        if self.lost:
            self.largest = self.kappa = self.kappa / self.growth
        elif gain > 0.05:
            self.kappa = min(self.kappa * self.growth, self.largest)

    def _judge(self, slopes: FloatArray) -> Pair:
        pair = self._pair(slopes)
        self.trace.append((time.monotonic() - self.budget.start, pair.primal, pair.dual))
        if self.best is None or not self._error(self.best) <= self._error(pair):
            self.best = pair
        return pair

    def _pair(self, slopes: FloatArray) -> Pair:
        """Return the feasible pair next to the present point."""
        return judge(self.model, self.x, slopes)

    def _renewed(self, v: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return arguments and slopes, after whatever of the model depends on the present point has changed."""
        return v, slopes

    def _direction(self, v: FloatArray, gradient: FloatArray, reach: FloatArray) -> FloatArray:
        """Return the Newton step."""
        rows = self.model.curvatures(v, self.centre, self.kappa)
        return Curvature(self.model, rows, self.dense_limit).step(gradient, reach)

    def _open(self, pair: Pair) -> float:
        """Return the gap in absolute terms; the primal value where there is no dual one."""
        gap = abs(pair.primal - pair.dual)
        return gap if math.isfinite(gap) else abs(pair.primal)

    def _error(self, pair: Pair) -> float:
        error = pair.error
        return error if math.isfinite(error) else math.inf

    # -- inner loop ---------------------------------------------------------------------------------

    def _arguments(self) -> FloatArray:
        return self.model.apply(self.x) + self.model.shifts

    def _slopes(self) -> FloatArray:
        return self.model.slopes(self._arguments(), self.centre, self.kappa)

    def _newton(self, target: float) -> tuple[Status | None, FloatArray]:
        """Minimise the augmented Lagrangian until its gradient costs at most `target` of gap."""
        model, r = self.model, self.model.rank
        v = self._arguments()
        slopes = model.slopes(v, self.centre, self.kappa)
        least, patience, self.lost = math.inf, 0, False
        while True:
            v, slopes = self._renewed(v, slopes)
            gradient = model.gradient(self.x, model.weights * slopes)
            reach = np.maximum(model.form.units[1], np.abs(self.x[r:]))
            cost = 0.5 * float(gradient[:r] @ gradient[:r]) + float(np.abs(gradient[r:]) @ reach)
            patience = 0 if cost < 0.5 * least else patience + 1
            least = min(cost, least)
            if cost <= target:
                return None, slopes
            if patience > (5 if cost < 1e-8 * self._value() else 60):
                self.lost = True
                return None, slopes
            if self.iterations >= self.max_iter:
                return Status.ITERATION_LIMIT, slopes
            if self.budget.expired:
                return Status.TIME_LIMIT, slopes
            self.iterations += 1
            step = self._direction(v, gradient, reach)
            found = self._move(v, step, gradient)
            if found is None:
                self.lost = True
                return None, slopes
            v, slopes, turned = found
            far = not turned or float(np.max(np.abs(self.x[r:]), initial=0.0)) > 1e6 * model.form.units[1]
            if far and self._falls_forever(step):
                return Status.UNBOUNDED, slopes

    def _value(self) -> float:
        known = self.best and math.isfinite(self.best.primal)
        return max(abs(self.best.primal) if self.best and known else 0.0, self.model.form.floor)

    def _move(self, v: FloatArray, step: FloatArray,
              gradient: FloatArray) -> tuple[FloatArray, FloatArray, bool] | None:
        """Search along the step; return the new arguments and slopes, None when it is lost in rounding."""
        model, r = self.model, self.model.rank
        change, w, dw = model.apply(step), self.x[:r], step[:r]
        linear = float(w @ dw) + float(model.form.losses.scalars.costs @ step[r + model.bias :])
        square = float(dw @ dw)
        weighted = model.weights * change
        last = v

        def slope(t: float) -> float:
            nonlocal last
            last = model.slopes(v + t * change, self.centre, self.kappa)
            return linear + t * square + float(last @ weighted)

        initial, noise = float(gradient @ step), self._noise(v, change)
        if not initial < -noise:
            return None
        t, turned = search(slope, initial, noise)
        self.x = self.x + t * step
        return v + t * change, last, turned

    def _noise(self, v: FloatArray, change: FloatArray) -> float:
        """Return what the rounding of the arguments does to the slope of the objective along a step."""
        moved = self._bends(v) * change * rounding(np.abs(v) + np.abs(self.model.shifts))
        return float(np.linalg.norm(moved))

    def _bends(self, v: FloatArray) -> FloatArray:
        """Return by how much the weighted slopes of the rows change with their arguments."""
        return self.model.curvatures(v, self.centre, self.kappa)

    def _falls_forever(self, step: FloatArray) -> bool:
        """Return whether the objective falls without end along the bias and scalar part of a step."""
        r, far = self.model.rank, np.array(step)
        far[:r] = 0.0
        size = float(np.max(np.abs(far), initial=0.0))
        if size == 0.0:
            return False
        far *= 1.0 / size
        terms = self.model.recession(self.model.apply(far))
        cost = float(self.model.form.losses.scalars.costs @ far[r + self.model.bias :])
        return float(np.sum(terms)) + cost < -1e-9 * (float(np.sum(np.abs(terms))) + abs(cost))
