"""One-slack cutting planes: cuts with their multipliers, the best point, and what the master over them proves."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from margindsl.calculus.accuracy import EPS, relative_gap, rounding
from margindsl.contract import Budget, Status
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import Bracket, Course, Judged
from margindsl_solvers.engines.cuts.master import Answer, Bounds, Linearisation, Packed, solve_master
from margindsl_solvers.engines.line_search import search
from margindsl_solvers.engines.rows.model import Pair, Rows, reach

FAR = 1e9  # a bias or scalar driven beyond it, in units of decision values, means that nothing holds it
LEANING = 3  # masters that lean on the box before it is widened: the first cuts of each side make one lean
IDLE, PATIENCE = 1e-9, 30  # weight below which a cut does nothing; rounds without use after which it is dropped
MIX = 0.1  # share of the master's point in the point of a new cut, the rest is the best (Franc and Sonnenburg 2008)
STALLED, BLIND = 60, 20  # rounds for a tenth of the gap, at most 3 on digits; those of a master lost in rounding
KEPT = 1e-6  # least weight of a cut worth keeping for other labels
FEW, VIOLATED = 40, 1e-9  # sides of bounds that all enter a master; relative excess beyond which another one does
OUTSIDE = 1e-9  # relative violation of a bound beyond which a point of a span has no value


class Bundle:
    """Hold the cuts of one problem and improve its best point.

    `narrow`: whether the problem is one in a span, in which bounds may be out of reach.
    """

    def __init__(self, model: Rows, narrow: bool = False) -> None:
        self.line, self.model, self.bounds, self.narrow = Linearisation(model), model, Bounds.of(model), narrow
        self._held = np.full(len(self.bounds.limits), len(self.bounds.limits) <= FEW)
        self.box, self._leaning, self.lower, self._accuracy = 0.0, 0, -math.inf, 0.0  # the last master's, absolute
        self.answer: Answer | None = None
        self._proof: tuple[Answer, list[Packed]] | None = None  # the master of the highest value, and its cuts
        self.points: list[FloatArray] = []
        self._gradients = np.zeros((0, self.model.rank + self.model.border))
        self._offsets, self._idle = np.zeros(0), np.zeros(0, dtype=int)
        self._packed: list[Packed] = []

    def enter(self, x: FloatArray, points: list[FloatArray], box: float = 0.0) -> None:
        """Begin at a point, with cuts there and at other points.

        `box`: a bound the bias and the scalars are known to need.
        """
        # Where losses have no weight, nothing but the origin has no gap.
        self.best = self.model.inside(x if self.model.form.negligible else np.zeros_like(x))
        far = float(np.max(np.abs(self.best[self.model.rank :]), initial=0.0))
        self.box = max(box, 10.0 * self.model.form.units[1], 4.0 * far)
        self._v = self.line.arguments(self.best)
        self.value = self._value(self.best, self._v)
        self._add(self.best, self._v)
        for point in points:
            self._add(point, self.line.arguments(point))

    # -- what is known ------------------------------------------------------------------------------

    @property
    def size(self) -> float:
        """Return the size of a value that is not zero."""
        return max(abs(self.value), self.model.form.negligible)

    @property
    def open_gap(self) -> float:
        """Return value − lower bound."""
        return self.value - self.lower

    @property
    def gap(self) -> float:
        """Return the gap relative to |value|, rounding apart."""
        noise = rounding(abs(self.value) + abs(self.lower), self.model.form.n)
        return relative_gap(self.value, self.lower, float(noise), self.model.form.negligible)

    @property
    def patience(self) -> int:
        """Return the rounds that have to close a tenth of the gap; few where the master no longer sees it.

        Weights of cuts of slopes g are known to eps, and the value of their combination to eps ‖g‖².
        """
        if self.answer is None or not len(self.answer.alpha):
            return STALLED
        steep = np.sum(self._gradients[: len(self.answer.alpha), : self.model.rank] ** 2, axis=1)
        return BLIND if self.open_gap <= EPS * float(self.answer.alpha @ steep) else STALLED

    @property
    def is_unbounded(self) -> bool:
        """Return whether nothing holds the bias or a scalar."""
        return self.box > FAR * max(self.model.form.units[1], reach(self.model.form))

    def slopes(self) -> FloatArray:
        """Return the normalised multipliers of the last master, or of the highest where the last one is lower."""
        assert self.answer is not None
        answer, packed = self.answer, self._packed
        if self._proof is not None and answer.value < self.lower:
            answer, packed = self._proof
        return self.model.normalised(np.concatenate([
            self.line.combine(packed, answer.alpha), answer.tau, answer.signs]))

    def kept(self, most: int, least: float = KEPT) -> list[FloatArray]:
        """Return the points of the cuts with the largest weights."""
        if self.answer is None:
            return []
        order = np.argsort(-self.answer.alpha, kind="stable")[:most]
        return [self.points[k] for k in order if self.answer.alpha[k] > least]

    # -- rounds -------------------------------------------------------------------------------------

    def solve(self, goal: float) -> bool:
        """Solve the master over the cuts; return False where it has no point, and the last answer stays.

        `goal`: the gap to reach, absolute.
        """
        costs = self.model.form.losses.scalars.costs
        if not (self.size or np.any(self._gradients) or np.any(costs)):  # nothing is to be had, nor to be paid
            self.answer, self.lower = self._first(self.value, False), self.value
            return True

        # 1. Masters over more and more sides of bounds, until none is violated; each value is a lower bound. Those of
        # many clusters are many, one for every two of them, and far fewer hold with equality than are violated
        gap = self.open_gap if math.isfinite(self.open_gap) else abs(self.value)
        self._accuracy = 1e-2 * max(goal, gap)
        while True:
            answer = solve_master(self.model, self.bounds.only(self._held), self._gradients, self._offsets, self.box,
                                  self._accuracy)
            excess = np.where(self._held, -np.inf, self.bounds.rows @ answer.x - self.bounds.limits)
            violated = excess > VIOLATED * np.maximum(np.abs(self.bounds.limits), excess.max(initial=0.0))
            if not np.any(violated):
                break
            most = min(2 * len(self.model.form.codes), int(violated.sum()))
            self._held[np.argsort(-excess)[:most]] = True
        if self.narrow and not answer.usable:
            return False

        # 2. The highest value is the bound, unless the box has to be widened
        self.answer = answer
        self._leaning += answer.leans
        if self.lower - self.value > rounding(abs(self.value) + abs(self.lower), self.model.form.n):
            self.lower = -math.inf  # an earlier master was lost in rounding: what was attained is below its value
        if not answer.leans and answer.value >= self.lower:
            self.lower, self._proof = answer.value, (answer, list(self._packed))
        if self._leaning > LEANING:
            self.box, self._leaning = 10.0 * self.box, 0
        return True

    def fall_back(self) -> None:
        """Take the first cut alone for an answer where the last master does not weigh these cuts."""
        if self.answer is None or len(self.answer.alpha) != len(self._offsets):
            self.answer = self._first(-math.inf, True)

    def advance(self) -> None:
        """Move the best point towards the master's, add a cut near it, drop those that have long had no weight."""
        assert self.answer is not None
        x = self.model.inside(self.answer.x)
        v = self.line.arguments(x)
        if not math.isfinite(self.value):
            self.best, self._v, self.value = x, v, self._value(x, v)
            self._add(x, v)
        else:
            # 1. Exact line search from the best point, up to the master's
            step, change, r, losses = x - self.best, v - self._v, self.model.rank, self.model.form.losses
            linear = float(self.best[:r] @ step[:r]) + float(losses.scalars.costs @ step[r + self.model.bias :])
            square, arguments, t = float(step[:r] @ step[:r]), self._v, 0.0

            def slope(t: float) -> float:
                return linear + t * square + float(self.line.model.subgradient(arguments + t * change) @ change)

            initial = slope(0.0)
            if initial < 0:
                t = search(slope, initial, largest=1.0)[0]
                point, there = self.best + t * step, arguments + t * change
                value = self._objective(point, there)
                if value < self.value:
                    self.best, self._v, self.value = point, there, value

            # 2. A cut between it and the master's, no farther than the optimum can lie: ½‖w‖² is at most what the
            # losses at w = 0 are above all. Cuts farther out are steeper, the next master's point is farther still,
            # and so on until squares overflow. One that the master would not feel, of losses that are linear between
            # both, is followed by one at the master's point itself (Kelley)
            length, most, height = math.sqrt(square), 1.0, float((self._gradients @ x + self._offsets).max())
            if length > 0 and self._far > 0:
                most = min(1.0, (self._far + float(np.linalg.norm(self.best[:r]))) / length)
            for mix in (MIX, most) if t < 1 and most > MIX else (most,):
                self._add(self.best + mix * (x - self.best), self._v + mix * (v - self._v))
                if self._gradients[-1] @ x + self._offsets[-1] - height > self._accuracy:
                    break

        # 3. Cuts that have not held the master's point for a while go: their weights are as small as it is accurate,
        # and they lie below the others there by more than what is open
        count = len(self.answer.alpha)
        heights = self._gradients[:count] @ self.answer.x + self._offsets[:count]
        holds = (self.answer.alpha > IDLE) & (heights.max() - heights <= self.open_gap)
        self._idle[:count] = np.where(holds, 0, self._idle[:count] + 1)
        keep = self._idle <= PATIENCE
        if not np.all(keep):
            self._gradients, self._offsets, self._idle = self._gradients[keep], self._offsets[keep], self._idle[keep]
            self._packed = [p for p, k in zip(self._packed, keep) if k]
            self.points = [p for p, k in zip(self.points, keep) if k]

    @cached_property
    def _far(self) -> float:
        losses = self.model.form.losses
        return math.sqrt(2.0 * max(losses.value(np.zeros(losses.n)) - losses.least_value(), 0.0))

    # -- inside -------------------------------------------------------------------------------------

    def _first(self, value: float, leans: bool) -> Answer:
        alpha = np.zeros(len(self._offsets))
        alpha[0] = 1.0
        none = np.zeros(len(self.model.signed))
        return Answer(self.best, value, alpha, np.zeros(self.bounds.count), none, 0.0, leans)

    def _add(self, x: FloatArray, v: FloatArray) -> None:
        gradient, offset, packed = self.line.cut(v)
        if not (math.isfinite(offset) and np.all(np.isfinite(gradient))):
            return
        self._gradients = np.vstack([self._gradients, gradient])
        self._offsets, self._idle = np.append(self._offsets, offset), np.append(self._idle, 0)
        self._packed.append(packed)
        self.points.append(x)

    def _value(self, x: FloatArray, v: FloatArray) -> float:
        """Return the objective, infinite outside bounds that are out of reach."""
        outside = self.narrow and self.model.form.primal_residual(*self.model.form.split(x)) > OUTSIDE
        return math.inf if outside else self._objective(x, v)

    def _objective(self, x: FloatArray, v: FloatArray) -> float:
        w, _, s = self.model.form.split(x)
        return 0.5 * float(w @ w) + float(self.model.form.losses.scalars.costs @ s) + self.line.value(v)


class CutsRun(Course[Judged]):
    """Add cuts until the gap between best value and master is closed.

    `x`: the first point; `points`: further points to cut at, those of an earlier solve.
    """

    stage, counted = "cutting-plane", "cuts"

    def __init__(self, bundle: Bundle, budget: Budget, x: FloatArray, points: list[FloatArray]) -> None:
        super().__init__(budget)
        self.bundle = bundle
        bundle.enter(x, points)

    def init(self) -> Status | None:
        return self._master()

    def step(self) -> Status | None:
        self.iterations += 1
        if self.iterations - self.marked > self.bundle.patience:
            return Status.INACCURATE
        self.bundle.advance()
        return self._master()

    def is_better(self, point: Judged) -> bool:
        return True

    def settle(self, status: Status) -> Status:
        if status is not Status.UNBOUNDED:
            self.best = self._pair()
        return Status.INACCURATE if status is Status.OPTIMAL and self.error > 1.001 * self.tol else status

    def variables(self) -> dict[str, FloatArray]:
        return self.bundle.model.variables(self.best)  # type: ignore[arg-type]

    def _pair(self) -> Pair:
        return self.bundle.model.judge(self.bundle.best, self.bundle.slopes())

    def _master(self) -> Status | None:
        bundle = self.bundle
        bundle.solve(self.tol * bundle.size)
        assert bundle.answer is not None
        if bundle.size > 0:  # of the dual equalities the box may pay for half a part of the error
            charge = 2.0 * bundle.answer.slack / bundle.size
            self.certify(Bracket(bundle.value, bundle.lower, max(bundle.gap, charge)))
        else:  # nothing to measure a gap by: the pair itself decides
            self.certify(self._pair())
        return Status.UNBOUNDED if bundle.is_unbounded else None
