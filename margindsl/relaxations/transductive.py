"""Transductive: begin with the known labels, let the weight of the unknown ones grow (Joachims 1999)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from margindsl.contract import Status, integers, numbers
from margindsl.drivers.alternation import alternate
from margindsl.drivers.rounding import polish as polish_candidates
from margindsl.drivers.run import Run
from margindsl.drivers.starts import labels_from_known, weigh_unknown
from margindsl.program.passes import Answer
from margindsl.program.program import MarginProgram
from margindsl.relaxations.local import InductiveRelaxation
from margindsl.relaxations.relaxation import Outcome
from margindsl.typing import IntArray


@dataclass(frozen=True, kw_only=True)
class Transductive(InductiveRelaxation):
    """Label the unknown points by the known ones, then switch labels while their weight grows; local.

    The first labels are the best in B for the hyperplane of the known labels alone. The loss of unknown points
    then weighs `first`, and twice as much at every level until its full weight; at each level labels and
    hyperplane alternate until no switch pays. Where the algorithm of the paper switches one pair at a time, the
    exact oracle makes all switches that pay at once. A warm start is a second beginning, at full weight.

    Parameters
    ----------
    first : float
        First weight of the unknown points relative to the full one, in (0, 1].
    growth : float
        Factor from level to level, above 1.
    rounds : int
        Most alternations a level.
    polish : {"auto", "none", "alternate", "search"} or bool
        "none" by default: the plain method; "search" adds flips and swaps at the end.

    References
    ----------
    T. Joachims (1999). Transductive inference for text classification using support vector machines, Figure 3.
    """

    name: ClassVar[str] = "transductive"
    summary: ClassVar[str] = "known labels first, the weight of the unknown points grows"
    bound: ClassVar[str] = "none"

    first: float = numbers(0.0, 1.0).option(1e-5)
    growth: float = numbers(1.0).option(2.0)
    rounds: int = integers(1).option(100)
    polish: str | bool = "none"

    def run(self, run: Run) -> Outcome:
        labels, factor, level = labels_from_known(run), self.first, 0
        run.current = labels
        while factor < 1 and not run.stopped:
            fit = self._settle(run, weigh_unknown(run.program, factor), labels)
            run.current = labels = fit.labels
            level += 1
            if run.record("unlabelled weight", level, fit.value):
                return Outcome(Status.INTERRUPTED, answer=run.fit(labels))
            factor *= self.growth
        fit = self._settle(run, run.program, labels)
        ends = [fit.labels, *(self._settle(run, run.program, start).labels for start in run.starts)]
        best = min((run.fit(end) for end in ends), key=lambda end: end.value)
        if self.polish != "none":
            best = polish_candidates(run, ends, str(self.polish))
        return Outcome(run.stopped or Status.CONVERGED, answer=best)

    def _settle(self, run: Run, program: MarginProgram, labels: IntArray) -> Answer:
        """Alternate at one weight with the solver of the solve."""
        stage = Run(program, run.solver, run.solver, run.budget.replace(callback=None), run.rng,
                    late_solver=run.fixed_solver)
        return alternate(stage, labels, rounds=self.rounds)
