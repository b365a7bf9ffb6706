"""Semismooth Newton inside a proximal augmented Lagrangian, for fixed labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.contract import Budget, Status
from margindsl.program.clusters import ClusterForm
from margindsl.program.forms import FixedLabelForm
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import Course
from margindsl_solvers.engines.line_search import search
from margindsl_solvers.engines.rows.model import Pair, Rows, reach

HEAVY = 1e10  # the largest κ Σca²‖φ‖²/n: multipliers are known to that times the rounding of arguments


@dataclass(frozen=True)
class Penalty:
    """Represent the penalty κ of an augmented Lagrangian: rows are smoothed over a width 1/κ of their argument.

    Parameters
    ----------
    growth : float
        Factor of κ from one outer step to the next.
    """

    first: float = 1.0
    growth: float = 10.0
    largest: float = 1e6

    @classmethod
    def for_form(cls, form: FixedLabelForm | ClusterForm, first: float, growth: float, warm: int = 0) -> Penalty:
        """Return the penalty in units of how far w can move a margin; `warm` steps further where multipliers are known.

        A multiplier estimate near the answer deserves a tight envelope at once, heavy losses a wide one.
        """
        far, typical = reach(form), 0.5 * form.units[1]
        unit = first / (max(min(typical, max(1e-4 * typical, far)), far / HEAVY) if far > 0 else typical)
        return cls(unit * growth**warm, growth, 1e6 * unit)


class NewtonRun(Course[Pair]):
    """Take semismooth Newton steps inside a proximal augmented Lagrangian.

    Parameters
    ----------
    x : float array
        The current (w, b, s).
    centre : float array
        The normalised multiplier estimates of the augmented Lagrangian.
    dense_limit : int
        Largest dense system.
    """

    stage, counted, stall_limit = "newton", "Newton steps", 100  # where it gets on, the error halves within a dozen

    def __init__(self, model: Rows, budget: Budget, x: FloatArray, centre: FloatArray, penalty: Penalty,
                 dense_limit: int = 4000) -> None:
        super().__init__(budget)
        self.model, self.x, self.centre, self.dense_limit = model, x, centre, dense_limit
        self.kappa, self.first = penalty.first, penalty.first
        self.growth, self.largest = penalty.growth, penalty.largest
        self.lost, self.stalled, self.gain = False, 0, math.nan

    # -- outer loop ---------------------------------------------------------------------------------

    def init(self) -> None:
        self.slopes = self._slopes()
        self.pair = self.certify(self.model.judge(self.x, self.slopes))
        if not self.pair.negligible and np.any(self.x):  # losses without weight: only the origin has no gap
            self.x = np.zeros_like(self.x)
            self.init()

    def step(self) -> Status | None:
        if not math.isnan(self.gain):
            if self.stalled >= (3 if self.model.is_smooth else 8):
                return Status.INACCURATE
            if not self.model.is_smooth:
                self.centre = self.model.clip(self.slopes)
                self._adapt(self.gain)
        size = max(abs(self.pair.primal), self.pair.negligible)
        ended, self.slopes = self._newton(max(1e-3 * self.tol * size, 1e-2 * self._open(self.pair)))
        before = self._error(self.pair)
        self.pair = self.certify(self.model.judge(self.x, self.slopes))
        error = self._error(self.pair)
        self.gain = error / before if 0 < before < math.inf else 1.0
        if error < 0.5 * before:
            self.stalled = 0
        elif not self.lost or self.kappa <= self.first:  # a penalty too large for the rounding is lowered first
            self.stalled += 1
        return ended

    def variables(self) -> Mapping[str, FloatArray]:
        assert self.best is not None
        return self.model.variables(self.best)

    def _adapt(self, gain: float) -> None:
        """Change the penalty: multipliers are known to about κ times the rounding of the arguments."""
        if self.lost:
            self.largest = self.kappa = self.kappa / self.growth
        elif gain > 0.05:
            self.kappa = min(self.kappa * self.growth, self.largest)

    def _open(self, pair: Pair) -> float:
        """Return the gap in absolute terms; the primal value where there is no dual one, or one as far above it."""
        gap, size = abs(pair.primal - pair.dual), max(abs(pair.primal), pair.negligible)
        return size if not math.isfinite(gap) or pair.dual > pair.primal + size else gap

    @staticmethod
    def _error(pair: Pair) -> float:
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
            if model.renew(self.x):
                v, slopes = self._arguments(), self._slopes()
            gradient = model.gradient(self.x, model.weights * slopes)
            reach = np.maximum(model.form.units[1], np.abs(self.x[r:]))
            cost = 0.5 * float(gradient[:r] @ gradient[:r]) + float(np.abs(gradient[r:]) @ reach)
            patience = 0 if cost < 0.5 * least else patience + 1
            least = min(cost, least)
            if cost <= target:
                return None, slopes
            if patience > 30 or (patience > 5 and cost < max(1e-8 * self._value(), self._rounded(v, slopes))):
                self.lost = True
                return None, slopes
            ended = self.spent()
            if ended is not None:
                return ended, slopes
            self.iterations += 1
            step = model.newton_step(v, self.centre, self.kappa, gradient, reach, self.dense_limit)
            found = self._move(v, slopes, step, gradient)
            if found is None:
                self.lost = True
                return None, slopes
            v, slopes, turned = found
            far = not turned or float(np.max(np.abs(self.x[r:]), initial=0.0)) > 1e6 * model.form.units[1]
            if far and model.falls_forever(step):
                return Status.UNBOUNDED, slopes

    def _value(self) -> float:
        known = self.best and math.isfinite(self.best.primal)
        return max(abs(self.best.primal) if self.best and known else 0.0, self.model.form.negligible)

    def _rounded(self, v: FloatArray, slopes: FloatArray) -> float:
        """Return what a gradient costs that is the rounding of the arguments: heavy losses turn it into large slopes.

        On one side of a kink nothing tells of it, so that both are asked.
        """
        model, costs = self.model, []
        for sign in (-1.0, 1.0):
            change = model.slopes(self._beside(v, sign), self.centre, self.kappa) - slopes
            force = model.adjoint(model.weights * change)[: model.rank]
            costs.append(0.5 * float(force @ force))
        return max(costs)

    def _beside(self, v: FloatArray, signs: FloatArray | float) -> FloatArray:
        return v + signs * rounding(np.abs(v) + np.abs(self.model.shifts))

    def _move(self, v: FloatArray, slopes: FloatArray, step: FloatArray,
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

        initial = float(gradient @ step)
        # Of features that nearly cancel, A step and Aᵀλ do not know the slope alike
        noise = max(self._noise(v, slopes, change), abs(initial - linear - float(slopes @ weighted)))
        if not initial < -noise:
            return None
        t, turned = search(slope, initial, noise)
        self.x = self.x + t * step
        return v + t * change, last, turned

    def _noise(self, v: FloatArray, slopes: FloatArray, change: FloatArray) -> float:
        """Return what the rounding of the arguments does to the slope of the objective along a step.

        Slopes are compared across the rounding, ahead, so that a kink as near as that is seen.
        """
        model, beside = self.model, self._beside(v, np.sign(change))
        ahead = model.slopes(beside, self.centre, self.kappa)
        return float(np.linalg.norm(model.weights * (ahead - slopes) * change))
