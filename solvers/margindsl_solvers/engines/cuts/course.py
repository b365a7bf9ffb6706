"""Cutting planes on their way: a master, a step towards its point and a new cut a round."""

from __future__ import annotations

from margindsl.contract import Budget, Status
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import Bracket, Course, Judged
from margindsl_solvers.engines.cuts.bundle import Bundle
from margindsl_solvers.engines.rows.model import Pair


class CutsRun(Course[Judged]):
    """Add cuts until the gap between best value and master is closed.

    Parameters
    ----------
    x : float array
        The first point.
    points : list of float arrays
        Further points to cut at, those of an earlier solve.
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
        self.bundle.prune()
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
            paid = 2.0 * bundle.answer.slack / bundle.size
            self.certify(Bracket(bundle.value, bundle.lower, max(bundle.gap, paid)))
        else:  # nothing to measure a gap by: the pair itself decides
            self.certify(self._pair())
        return Status.UNBOUNDED if bundle.is_endless else None
