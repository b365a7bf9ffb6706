"""The cutting-plane iteration: master over the cuts, line search, a new cut."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from margindsl.accuracy import relative_gap, rounding
from margindsl.contract import Budget, Status
from margindsl.typing import FloatArray
from margindsl_solvers.engines.cuts.linearisation import Linearisation, Packed
from margindsl_solvers.engines.line_search import search
from margindsl_solvers.engines.qp import minimise
from margindsl_solvers.engines.rows.judge import Pair, inside, judge
from margindsl_solvers.engines.rows.model import RowModel, reach

FAR = 1e9  # a bias or scalar driven beyond it, in units of decision values, means that nothing holds it


@dataclass(frozen=True, eq=False)
class Answer:
    """Represent a solution of the master problem.

    Parameters
    ----------
    x : float array
        (w, b, s).
    value : float
        The master's dual value, a lower bound of the problem when `inside`.
    alpha : (K,) float array
        Weights of the cuts, summing to one.
    tau : (J,) float array
        Multipliers of the decision bounds.
    signs : float array
        Multipliers of the scalars' signs, non-positive.
    slack : float
        How much of the dual equalities is paid for by the box around the bias and the scalars.
    inside : bool
        Whether the point keeps away from that box, which then changes no value.
    """

    x: FloatArray
    value: float
    alpha: FloatArray
    tau: FloatArray
    signs: FloatArray
    slack: float
    inside: bool


@dataclass(eq=False)
class Bundle:
    """Hold the state of one solve.

    Parameters
    ----------
    model : RowModel
    budget : Budget
    tol : float
        Relative gap to reach.
    max_iter : int
    patience : int
        Rounds without weight after which a cut is dropped.
    mix : float
        Share of the master's point in the point of the new cut; the rest is the best point.
    """

    model: RowModel
    budget: Budget
    tol: float
    max_iter: int
    patience: int
    mix: float
    iterations: int = 0
    box: float = 0.0
    best: FloatArray = field(default_factory=lambda: np.zeros(0))
    value: float = math.inf
    lower: float = -math.inf
    answer: Answer | None = None
    points: list[FloatArray] = field(default_factory=list)
    trace: list[tuple[float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.line = self._linearisation()
        self._gradients = np.zeros((0, self.model.rank + self.model.border))
        self._offsets = np.zeros(0)
        self._idle = np.zeros(0, dtype=int)
        self._packed: list[Packed] = []
        self._leaning = 0
        self._constraints = self._fixed_rows()

    # -- what depends on the kind of rows ------------------------------------------------------------

    def _linearisation(self) -> Any:
        return Linearisation(self.model)

    def _inside(self, x: FloatArray) -> FloatArray:
        """Return the point moved into the decision bounds and the signs of scalars."""
        return inside(self.model, x)

    # -- the iteration ------------------------------------------------------------------------------

    def run(self, x: FloatArray, points: list[FloatArray]) -> Status:
        """Iterate from x, with cuts at other points too (those of an earlier solve)."""
        self.best = self._inside(x)
        self._v = self.line.arguments(self.best)
        self.value = self._objective(self.best, self._v)
        far = float(np.max(np.abs(self.best[self.model.rank :]), initial=0.0))
        self.box = max(self.box, 10.0 * self.model.form.units[1], 4.0 * far)
        self._add(self.best, self._v)
        for point in points:
            self._add(point, self.line.arguments(point))
        stalled = 0
        while True:
            before = self.gap
            self.answer = self._master()
            self._watch_box()
            if self.answer.inside:
                self.lower = max(self.lower, self.answer.value)
            ended = self._ended()
            if ended is not None:
                return ended
            new = self._advance()
            stalled = 0 if new or self.gap < 0.99 * before or not math.isfinite(before) else stalled + 1
            if stalled >= 50:
                return Status.INACCURATE
            self._prune()

    @property
    def gap(self) -> float:
        """Return the gap relative to |value|, rounding apart."""
        noise = rounding(abs(self.value) + abs(self.lower), self.model.form.n)
        return relative_gap(self.value, self.lower, float(noise), self.model.form.floor)

    @property
    def _size(self) -> float:
        return max(abs(self.value), self.model.form.floor)

    def pair(self) -> Pair:
        """Return the best point with the dual point of the last master, judged."""
        assert self.answer is not None
        weights = self.model.weights
        multipliers = np.concatenate([
            self.line.combine(self._packed, self.answer.alpha), self.answer.tau, self.answer.signs])
        slopes = np.divide(multipliers, weights, out=np.zeros_like(multipliers), where=weights > 0)
        return judge(self.model, self.best, slopes)

    def kept(self, most: int) -> list[FloatArray]:
        """Return the points of the cuts with the largest weights."""
        if self.answer is None:
            return []
        order = np.argsort(-self.answer.alpha)[:most]
        return [self.points[k] for k in order if self.answer.alpha[k] > 1e-6]

    def _ended(self) -> Status | None:
        self.trace.append((time.monotonic() - self.budget.start, self.value, self.lower))
        assert self.answer is not None
        if self.gap <= self.tol and self.answer.slack <= 0.5 * self.tol * self._size:
            return Status.OPTIMAL
        if self.box > FAR * max(self.model.form.units[1], reach(self.model.form)):
            return Status.UNBOUNDED
        if self.iterations >= self.max_iter:
            return Status.ITERATION_LIMIT
        if self.budget.expired:
            return Status.TIME_LIMIT
        if self.budget.report("cutting-plane", self.iterations, self.value, self.lower):
            return Status.INTERRUPTED
        self.iterations += 1
        return None

    def _advance(self) -> bool:
        """Move the best point towards the master's and add the cut there; return whether it moved."""
        assert self.answer is not None
        x = self.answer.x
        step, v = x - self.best, self.line.arguments(x)
        change = v - self._v
        t = self._line(step, change)
        moved = False
        if t > 0:
            point, arguments = self.best + t * step, self._v + t * change
            value = self._objective(point, arguments)
            moved = value < self.value
            if moved:
                self.best, self._v, self.value = point, arguments, value
        mix = self.mix if t < 1 else 1.0
        self._add(self.best + mix * (x - self.best), self._v + mix * (v - self._v))
        return moved

    def _line(self, step: FloatArray, change: FloatArray) -> float:
        """Return the step in [0, 1] that minimises the objective from the best point."""
        losses, r = self.model.form.losses, self.model.rank
        linear = float(self.best[:r] @ step[:r]) + float(losses.scalars.costs @ step[r + self.model.bias :])
        square = float(step[:r] @ step[:r])

        def slope(t: float) -> float:
            return linear + t * square + float(self.line.derivative(self._v + t * change) @ change)

        initial = slope(0.0)
        return search(slope, initial, largest=1.0)[0] if initial < 0 else 0.0

    def _objective(self, x: FloatArray, v: FloatArray) -> float:
        w, _, s = self.model.split(x)
        return 0.5 * float(w @ w) + float(self.model.form.losses.scalars.costs @ s) + self.line.value(v)

    # -- cuts ---------------------------------------------------------------------------------------

    def _add(self, x: FloatArray, v: FloatArray) -> None:
        gradient, offset, packed = self.line.cut(v)
        if not (math.isfinite(offset) and np.all(np.isfinite(gradient))):
            return
        self._gradients = np.vstack([self._gradients, gradient])
        self._offsets = np.append(self._offsets, offset)
        self._idle = np.append(self._idle, 0)
        self._packed.append(packed)
        self.points.append(x)

    def _prune(self) -> None:
        assert self.answer is not None
        count = len(self.answer.alpha)
        self._idle[:count] = np.where(self.answer.alpha > 1e-9, 0, self._idle[:count] + 1)
        keep = self._idle <= self.patience
        if np.all(keep):
            return
        self._gradients, self._offsets = self._gradients[keep], self._offsets[keep]
        self._idle = self._idle[keep]
        self._packed = [p for p, k in zip(self._packed, keep) if k]
        self.points = [p for p, k in zip(self.points, keep) if k]

    # -- the master ---------------------------------------------------------------------------------

    def _fixed_rows(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (rows, limits, multiplier index): ⟨row, x⟩ ≤ limit for the finite decision bounds."""
        form, model = self.model.form, self.model
        G, h = form.decision_rows
        scalars = np.zeros((len(G), form.losses.scalars.count))
        N = np.column_stack([G, *([h] if model.bias else []), scalars])
        upper = np.array([bound.upper for bound in form.decision], dtype=float)
        lower = np.array([bound.lower for bound in form.decision], dtype=float)
        up, low = np.flatnonzero(np.isfinite(upper)), np.flatnonzero(np.isfinite(lower))
        return np.vstack([N[up], -N[low]]), np.concatenate([upper[up], -lower[low]]), np.concatenate([up, low])

    def _sides(self) -> tuple[FloatArray, int]:
        """Return +1 for upper and −1 for lower ends among the fixed rows, and the number of bounds."""
        bounds, count = self.model.form.decision, len(self._constraints[1])
        above = np.count_nonzero([np.isfinite(bound.upper) for bound in bounds])
        return np.where(np.arange(count) < above, 1.0, -1.0), len(bounds)

    def _master(self) -> Answer:
        """Minimise ½‖w‖² + qᵀs + max over cuts, inside the bounds, by its dual over cut weights."""
        model, r, k = self.model, self.model.rank, self.model.border
        rows, limits, _ = self._constraints
        low, high = np.full(k, -self.box), np.full(k, self.box)
        low[model.bias + model.signed] = 0.0
        count, fixed = len(self._offsets), len(limits)
        B = np.vstack([self._gradients[:, :r], rows[:, :r], np.zeros((2 * k, r))])
        base = float(self._offsets.max())
        c = np.concatenate([base - self._offsets, limits, high, -low])
        E = np.zeros((1 + k, len(c)))
        E[0, :count] = 1.0
        E[1:, : count + fixed] = np.vstack([self._gradients[:, r:], rows[:, r:]]).T
        E[1:, count + fixed :] = np.hstack([np.eye(k), -np.eye(k)])
        costs = np.concatenate([np.zeros(model.bias), model.form.losses.scalars.costs])
        open_gap = self.value - self.lower if math.isfinite(self.lower) else abs(self.value)
        tol = 1e-2 * max(open_gap, self.tol * self._size)
        z, y, _ = minimise(B @ B.T, c, E, np.concatenate([[1.0], -costs]), tol)
        return self._unpack(z / z[:count].sum(), y, B, c, base, count)

    def _unpack(self, z: FloatArray, y: FloatArray, B: FloatArray, c: FloatArray, base: float,
                count: int) -> Answer:
        model, k = self.model, self.model.border
        _, limits, index = self._constraints
        w = -(B.T @ z)
        value = base - 0.5 * float(w @ w) - float(c @ z)
        up, down = z[len(z) - 2 * k : len(z) - k], z[len(z) - k :]
        signed = model.bias + model.signed
        pay = up + down
        pay[signed] = up[signed]
        sides, number = self._sides()
        tau = np.bincount(index.astype(int), weights=sides * z[count : count + len(limits)], minlength=number)
        border = np.clip(y[1:], -self.box, self.box)
        free = bool(np.all(np.abs(border) < 0.9 * self.box))
        return Answer(self._inside(np.concatenate([w, border])), value, z[:count], tau, -down[signed],
                      float(pay.max(initial=0.0)), free)

    def _watch_box(self) -> None:
        """Widen the box when the master leans on it."""
        assert self.answer is not None
        if not self.answer.inside:
            self._leaning += 1
            # The first cuts of each side make the master lean once; more often, the box is too small.
            if self._leaning > 3:
                self.box, self._leaning = 10.0 * self.box, 0
