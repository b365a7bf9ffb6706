"""Limited-memory BFGS whose pairs outlive a call: a sampled problem teaches the full one its curvature."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy

from margindsl.contract import Budget, Status
from margindsl.typing import FloatArray

Oracle = Callable[[FloatArray], tuple[float, FloatArray]]

MEMORY = 20  # pairs kept
ARMIJO, CURVATURE = 1e-4, 0.9  # weak Wolfe conditions
TRIALS = 25  # steps of one line search


@dataclass(frozen=True, eq=False)
class Descent:
    """Represent the end of a descent: the best point, its value, evaluations, how it ended."""

    point: FloatArray
    value: float
    evaluations: int
    status: Status


@dataclass(eq=False)
class QuasiNewton:
    """Hold pairs (s, y) of steps and changes of the gradient, y ≈ ∇²f s."""

    pairs: deque[tuple[FloatArray, FloatArray]] = field(default_factory=lambda: deque(maxlen=MEMORY))

    def fit(self, columns: int) -> None:
        """Give every pair so many columns: zero ones are appended, or the last ones and what they curved dropped.

        `columns`: columns of the factor now.
        """
        fitted = ((_fitted(s, columns), _fitted(y, columns)) for s, y in self.pairs)
        self.pairs = deque((pair for pair in fitted if _curves(*pair)), MEMORY)

    def descend(self, oracle: Oracle, start: FloatArray, budget: Budget, tol: float, most: int) -> Descent:
        """Minimise a smooth function of an array.

        `oracle`: returns value and gradient; `budget`: its deadline is honoured at every evaluation; `tol`: relative
        decrease at which to stop; `most`: most evaluations.

        Returns
        -------
        Descent
            With status iteration-limit when `most` was reached first.
        """
        x, (value, gradient), used = start, oracle(start), 1
        while True:
            direction = self._direction(gradient)
            slope = float(np.vdot(direction, gradient))
            if not slope < 0.0:
                return Descent(x, value, used, Status.CONVERGED)
            first = 1.0 if self.pairs else min(1.0, 1.0 / float(scipy.linalg.norm(direction.ravel())))
            found = _search(oracle, x, value, direction, slope, first, budget, most - used)
            used += found.trials
            if found.status is not Status.CONVERGED:
                better = found.value < value
                return Descent(found.point if better else x, min(value, found.value), used, found.status)
            if found.gradient is None:  # no lower point within rounding
                return Descent(x, value, used, Status.CONVERGED)
            step, change = found.point - x, found.gradient - gradient
            if _curves(step, change):
                self.pairs.append((step, change))
            decrease, x, value, gradient = value - found.value, found.point, found.value, found.gradient
            if decrease <= tol * max(abs(value), 1e-100):
                return Descent(x, value, used, Status.CONVERGED)

    def _direction(self, gradient: FloatArray) -> FloatArray:
        """Return −H∇f by the two-loop recursion."""
        direction, shares = -gradient, []
        for s, y in reversed(self.pairs):
            share = float(np.vdot(s, direction)) / float(np.vdot(s, y))
            direction = direction - share * y
            shares.append(share)
        if self.pairs:
            s, y = self.pairs[-1]
            direction = direction * (float(np.vdot(s, y)) / float(np.vdot(y, y)))
        for (s, y), share in zip(self.pairs, reversed(shares)):
            direction = direction + (share - float(np.vdot(y, direction)) / float(np.vdot(s, y))) * s
        return direction


@dataclass(frozen=True, eq=False)
class _Found:
    point: FloatArray
    value: float
    gradient: FloatArray | None
    trials: int
    status: Status


def _search(oracle: Oracle, x: FloatArray, value: float, direction: FloatArray, slope: float, step: float,
            budget: Budget, most: int) -> _Found:
    """Return a point of the weak Wolfe conditions, by bracketing; the gradient is None when there is none."""
    low, high, low_value, low_slope = 0.0, np.inf, value, slope
    best: _Found | None = None
    for trial in range(1, TRIALS + 1):
        if trial > most or budget.expired:
            status = Status.TIME_LIMIT if budget.expired else Status.ITERATION_LIMIT
            return _Found(x if best is None else best.point, value if best is None else best.value, None,
                          trial - 1, status)
        point = x + step * direction
        there, gradient = oracle(point)
        turned = float(np.vdot(gradient, direction)) if np.isfinite(there) else np.inf
        if there < value and (best is None or there < best.value):
            best = _Found(point, there, gradient, trial, Status.CONVERGED)
        if not there <= value + ARMIJO * step * slope:
            high = step
            step = _cubic(low, low_value, low_slope, step, there, turned)
        elif turned < CURVATURE * slope:
            low, low_value, low_slope = step, there, turned
            step = 0.5 * (low + high) if np.isfinite(high) else 4.0 * step
        else:
            return _Found(point, there, gradient, trial, Status.CONVERGED)
        if np.isfinite(high) and high - low <= 1e-12 * high:
            break
    if best is None:
        return _Found(x, value, None, trial, Status.CONVERGED)
    return replace(best, trials=trial)


def _cubic(a: float, fa: float, da: float, b: float, fb: float, db: float) -> float:
    """Return the minimiser of the cubic through two values and slopes, kept within the middle of [a, b]."""
    width = b - a
    if np.isfinite(fb) and np.isfinite(db):
        first = da + db - 3.0 * (fb - fa) / width
        second = np.sqrt(max(first * first - da * db, 0.0))
        if db - da + 2.0 * second != 0.0:
            step = b - width * (db + second - first) / (db - da + 2.0 * second)
            if np.isfinite(step):
                return float(min(max(step, a + 0.1 * width), b - 0.1 * width))
    return a + 0.5 * width


def _curves(step: FloatArray, change: FloatArray) -> bool:
    return float(np.vdot(step, change)) > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change))


def _fitted(array: FloatArray, columns: int) -> FloatArray:
    return np.pad(array[:, :columns], ((0, 0), (0, max(columns - array.shape[1], 0))))
