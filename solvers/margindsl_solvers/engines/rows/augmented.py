"""Semismooth Newton inside a proximal augmented Lagrangian, for fixed labels."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.contract import Budget, Status
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import Course
from margindsl_solvers.engines.line_search import search
from margindsl_solvers.engines.rows.model import Pair, Rows, reach

HEAVY = 1e10  # the largest κ Σca²‖φ‖²/n: multipliers are known to that times the rounding of arguments
LARGEST = 1e6  # times the first κ: beyond it envelopes are as good as the functions
ULPS = float(rounding(1.0))  # of an argument, relative: what its rounding may be


class NewtonRun(Course[Pair]):
    """Take semismooth Newton steps inside a proximal augmented Lagrangian, penalty κ, rows smoothed over a width 1/κ.

    Parameters
    ----------
    x : float array
        The current (w, b, s).
    centre : float array
        The normalised multiplier estimates of the augmented Lagrangian.
    penalty, growth : float
        The first κ in units of how far w can move a margin, and its factor from one outer step to the next.
    warm : int
        Outer steps that κ begins ahead where multipliers are known: an estimate near the answer deserves a tight
        envelope at once.
    dense_limit : int
        Largest dense system.
    """

    stage, counted, stall_limit = "newton", "Newton steps", 100  # where it gets on, the error halves within a dozen

    def __init__(self, model: Rows, budget: Budget, x: FloatArray, centre: FloatArray, penalty: float = 1.0,
                 growth: float = 10.0, warm: int = 0, dense_limit: int = 4000) -> None:
        super().__init__(budget)
        self.model, self.x, self.centre, self.dense_limit = model, x, centre, dense_limit
        far, typical = reach(model.form), 0.5 * model.form.units[1]
        # Heavy losses get a wide envelope
        unit = penalty / (max(min(typical, max(1e-4 * typical, far)), far / HEAVY) if far > 0 else typical)
        self.kappa = self.first = unit * growth**warm
        self.growth, self.largest = growth, LARGEST * unit
        self.lost, self.stalled, self.gain = False, 0, math.nan

    def init(self) -> None:
        model = self.model
        if not model.form.negligible:  # losses without weight: only the origin has no gap
            self.x = np.zeros_like(self.x)
        slopes = model.slopes(model.apply(self.x) + model.shifts, self.centre, self.kappa)
        self.pair = self.certify(model.judge(self.x, slopes))

    def step(self) -> Status | None:
        model, form, r = self.model, self.model.form, self.model.rank

        last = self.centre

        def slope(t: float) -> float:
            """Return the derivative of the augmented Lagrangian along the present step."""
            nonlocal last
            last = model.slopes(v + t * change, self.centre, self.kappa)
            return linear + t * square + float(last @ weighted)

        # 1. Multipliers p ← κ(v + p/κ − prox), known to about κ times the rounding of the arguments, and the penalty
        if not math.isnan(self.gain):
            if self.stalled >= (3 if model.is_smooth else 8):
                return Status.INACCURATE
            if not model.is_smooth:
                self.centre = self.pair.slopes
                if self.lost:
                    self.largest = self.kappa = self.kappa / self.growth
                elif self.gain > 0.05:
                    self.kappa = min(self.kappa * self.growth, self.largest)
        v = model.apply(self.x) + model.shifts
        slopes = model.slopes(v, self.centre, self.kappa)

        # 2. The augmented Lagrangian is minimised until its gradient costs a hundredth of the gap
        before, size = self.pair, max(abs(self.pair.primal), self.pair.negligible)
        gap = abs(before.primal - before.dual)
        if not math.isfinite(gap) or before.dual > before.primal + size:
            gap = size
        target, ended, least, patience, self.lost = max(1e-3 * self.tol * size, 1e-2 * gap), None, math.inf, 0, False
        while True:
            if model.renew(self.x):
                v = model.apply(self.x) + model.shifts
                slopes = model.slopes(v, self.centre, self.kappa)
            gradient = model.gradient(self.x, model.weights * slopes)
            far = np.maximum(form.units[1], np.abs(self.x[r:]))
            cost = 0.5 * float(gradient[:r] @ gradient[:r]) + float(np.abs(gradient[r:]) @ far)
            patience = 0 if cost < 0.5 * least else patience + 1
            least = min(cost, least)
            if cost <= target:
                break
            if patience > 5:
                # What costs no more may be the rounding of the arguments, which heavy losses turn into large slopes;
                # on one side of a kink nothing tells of it, so that both are asked
                known = abs(self.best.primal) if self.best and math.isfinite(self.best.primal) else 0.0
                noise, moved = 1e-8 * max(known, form.negligible), ULPS * (np.abs(v) + np.abs(model.shifts))
                for beside in (v - moved, v + moved):
                    change = model.slopes(beside, self.centre, self.kappa) - slopes
                    force = model.adjoint(model.weights * change)[:r]
                    noise = max(noise, 0.5 * float(force @ force))
                self.lost = patience > 30 or cost < noise
            ended = None if self.lost else self.spent()
            if self.lost or ended is not None:
                break
            self.iterations += 1
            step = model.newton_step(v, self.centre, self.kappa, gradient, far, self.dense_limit)

            # 3. Exact line search along the step, unless its slope is lost in rounding: that of the arguments, slopes
            # compared ahead so that a kink as near as that is seen, or of features that nearly cancel, of which
            # A step and Aᵀλ do not know the slope alike
            change, dw = model.apply(step), step[:r]
            linear = float(self.x[:r] @ dw) + float(form.losses.scalars.costs @ step[r + model.bias :])
            square, weighted, initial = float(dw @ dw), model.weights * change, float(gradient @ step)
            ahead = v + np.copysign(ULPS * (np.abs(v) + np.abs(model.shifts)), change)
            turn = (model.slopes(ahead, self.centre, self.kappa) - slopes) * weighted
            noise = max(math.sqrt(float(turn @ turn)), abs(initial - linear - float(slopes @ weighted)))
            if not initial < -noise:
                self.lost = True
                break

            t, turned = search(slope, initial, noise)
            self.x, v, slopes = self.x + t * step, v + t * change, last
            away = model.border and (not turned or float(np.abs(self.x[r:]).max()) > 1e6 * form.units[1])
            if away and model.falls_forever(step):
                ended = Status.UNBOUNDED
                break

        # 4. What the point proves
        self.pair = self.certify(model.judge(self.x, slopes))
        error, past = (pair.error if math.isfinite(pair.error) else math.inf for pair in (self.pair, before))
        self.gain = error / past if 0 < past < math.inf else 1.0
        if error < 0.5 * past:
            self.stalled = 0
        elif not self.lost or self.kappa <= self.first:  # a penalty too large for the rounding is lowered first
            self.stalled += 1
        return ended

    def variables(self) -> Mapping[str, FloatArray]:
        assert self.best is not None
        return self.model.variables(self.best)
