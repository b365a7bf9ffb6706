"""Cutting planes inside the span of few points, and more points where the dual asks for them."""

from __future__ import annotations

import math

import numpy as np

from margindsl.contract import Budget, Status
from margindsl.features import DenseFeatures
from margindsl.features.maps import LinearMap
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import PROGRESS, Course
from margindsl_solvers.engines.cuts.basis import Basis
from margindsl_solvers.engines.cuts.bundle import IDLE, Bundle
from margindsl_solvers.engines.rows.model import Pair
from margindsl_solvers.engines.rows.plane import PlaneRows

SHARE, FINER = 0.1, 0.1  # of the whole gap, to which it is closed inside the span first, and its factor from then on


class PursuitRun(Course[Pair]):
    """Close the gap inside the span, and widen the span where the whole dual misses it.

    `x` and `points` as for `CutsRun`, x of the whole problem; `eta`: gap allowed in units of the loss at zero margins;
    `most`, `per_round`: cap on basis vectors, and least number added at once.
    """

    stage, counted = "cpsp", "cuts"

    def __init__(self, model: PlaneRows, budget: Budget, basis: Basis, x: FloatArray, points: list[FloatArray],
                 eta: float | None, most: int, per_round: int) -> None:
        super().__init__(budget)
        self.model, self.basis = model, basis
        self.eta, self.per_round, self.cap = eta, per_round, min(most, basis.features.rank)
        self.share, self.box = SHARE, 0.0
        self.slopes: FloatArray | None = None
        self.dual = -math.inf
        size = basis.size
        V = model.form.unpack(x[: model.rank])
        for part in (V, *(row[:, None] for row in model.form.decision_rows[0])):
            missing = np.linalg.norm(self.basis.residual(part))
            if self.basis.size < self.cap and missing > 1e-3 * np.linalg.norm(part):
                self.basis = self.basis.grown(part, 1)
        coordinates = np.append((self.basis.directions.T @ V).T, x[model.rank :])
        self._enter(coordinates, [self._padded(p, size) for p in points])

    def init(self) -> Status | None:
        return self.step()

    def step(self) -> Status | None:
        status = self._cut()
        missing, residual = self._certify()
        if self.is_closed():
            return None
        # A span too narrow for the bounds, or for progress, is widened like one that misses the dual.
        if status is not None:
            return None if status is Status.INACCURATE and self._grow(residual) else status
        inner = self.bundle.open_gap
        if missing > inner or not math.isfinite(inner):
            if self._grow(residual):
                return None
            if inner <= 0.5 * self.goal:
                return Status.INACCURATE
        # The span is good enough, or all there is: more accuracy inside it.
        self.share *= FINER
        return None

    def settle(self, status: Status) -> Status:
        self.remark = f"{self.basis.size} basis vectors"
        if status is Status.INACCURATE and self.basis.size == self.cap < self.basis.features.rank:
            self.remark += "; a larger max_basis closes it further"
        return status

    def variables(self) -> dict[str, FloatArray]:
        assert self.best is not None
        return self.model.variables(self.best) | {
            self.basis.key: self.basis.chosen.copy(),
            "coefficients": self.basis.coefficients(
                self.model.form.unpack(self.best.x[: self.model.rank])).T.ravel()}

    # -- what is known ------------------------------------------------------------------------------

    @property
    def goal(self) -> float:
        """Return the gap to reach, absolute (tolerance, or SKMMC Eq. 13)."""
        if not math.isfinite(self.bundle.value):
            return self.tol
        goal = self.tol * self.bundle.size
        if self.eta is None:
            return goal
        losses, (_, _, s) = self.model.form.losses, self.bundle.model.form.split(self.bundle.best)
        at_zero = losses.row_losses(losses.arguments(np.zeros(losses.n), s))
        return max(goal, self.eta * float(np.sum(at_zero)))

    def is_closed(self) -> bool:
        pair = self.best
        return pair is not None and pair.error * max(abs(pair.primal), pair.negligible) <= 1.0000001 * self.goal

    # -- the basis ----------------------------------------------------------------------------------

    def _certify(self) -> tuple[float, FloatArray]:
        """Judge on the whole problem; return what the span misses of the dual, ½‖(I − P)Ψ‖², and (I − P)Ψ."""
        assert self.bundle.answer is not None
        slopes, leans = self.bundle.slopes(), self.bundle.answer.leans
        inner, x = self.bundle.model, self.bundle.best
        x = np.append(self.basis.lift(inner.form.unpack(x[: inner.rank])).T, x[inner.rank :])
        found, kept = self.model.judge(x, slopes), None if self.slopes is None else self.model.judge(x, self.slopes)
        # A dual point that leans on the box violates the equalities: its value is none, however high.
        if kept is None or not kept.error <= found.error:
            self.slopes, self.dual = slopes, -math.inf if leans else found.dual
        else:
            found = kept
        self.certify(found)
        pulled = self.model.adjoint(self.model.weights * slopes)[: self.model.rank]
        residual = self.basis.residual(self.model.form.unpack(pulled))
        return 0.5 * float(np.sum(residual**2)), residual

    def _grow(self, residual: FloatArray) -> bool:
        """Add points that approximate what is missing; return whether there were any."""
        size = self.basis.size
        count = min(self.cap - size, max(self.per_round, size // 4))
        if count > 0:
            self.basis = self.basis.grown(residual, count)
        if self.basis.size == size:
            return False
        bundle = self.bundle
        kept = bundle.kept(len(bundle.points), IDLE)
        self._enter(self._padded(bundle.best, size), [self._padded(p, size) for p in kept], bundle.box)
        return True

    def _padded(self, x: FloatArray, size: int) -> FloatArray:
        end = size * self.model.form.width  # the coordinates of columns of V one after another
        columns = np.pad(x[:end].reshape(self.model.form.width, size), ((0, 0), (0, self.basis.size - size)))
        return np.append(columns, x[end:])

    def _enter(self, x: FloatArray, points: list[FloatArray], box: float = 0.0) -> None:
        """Restrict the problem to the present span and linearise at x and at the points."""
        features = DenseFeatures(self.basis.columns, LinearMap(self.basis.size), "span of few points")
        inner = PlaneRows(self.model.form.spanned(features, self.basis.directions))
        self.bundle = Bundle(inner, narrow=True)
        self.bundle.enter(x, points, box)

    # -- cutting planes in the span -----------------------------------------------------------------

    def _cut(self) -> Status | None:
        """Add cuts until the gap inside the span is a share of the whole one; return what ended the solve, if any."""
        bundle, whole, mark, since = self.bundle, self.bundle.value - self.dual, math.inf, 0
        while True:
            if not bundle.solve(self.goal):
                bundle.fall_back()
                return Status.INACCURATE
            gap = bundle.open_gap
            whole = whole if math.isfinite(whole) else gap
            if math.isfinite(gap) and gap <= max(0.5 * self.goal, self.share * whole):
                return None
            status = self.stop(Status.UNBOUNDED if bundle.is_unbounded else None)
            if status is not None:
                return status
            self.iterations += 1
            mark, since = (gap, 0) if not gap > PROGRESS * mark else (mark, since + 1)
            if since >= bundle.patience:
                return Status.INACCURATE
            bundle.advance()
