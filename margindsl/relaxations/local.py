"""What local methods share: starts, rounds, no bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from margindsl.contract import Offer, Refusal, Status, integers, numbers
from margindsl.drivers.alternation import continue_weights, weight_factors
from margindsl.drivers.checkpoint import pack
from margindsl.drivers.rounding import polish as polish_candidates
from margindsl.drivers.run import Run
from margindsl.drivers.starts import lacks_known, starting_labels
from margindsl.program.program import MarginProgram
from margindsl.relaxations.relaxation import Outcome, Relaxation, check_choice, refuse_split
from margindsl.typing import IntArray

STAGE = "starts"
STARTS = ("mixed", "kmeans", "spectral", "random", "consensus", "known")


@dataclass(frozen=True, kw_only=True)
class LocalRelaxation(Relaxation):
    """Descend from several starting labellings; no bound is certified. Options are those of `Alternating`."""

    restarts: int = integers(1).option(5)
    start: str = "mixed"
    rounds: int = integers(1).option(100)
    continuation: int = integers(0).option(0)
    continuation_start: float = numbers(most=1.0).option(0.01)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "start", STARTS)

    def starts(self, run: Run) -> Iterator[IntArray]:
        """Yield the labellings to descend from: the starting ones, carried through the continuation."""
        state = run.resume(STAGE)
        waiting = starting_labels(run, self.restarts, self.start) if state is None else list(state["waiting"])
        for index, labels in enumerate(waiting):
            left = waiting[index:]
            run.keep(STAGE, lambda left=left: {"waiting": pack(left)})  # type: ignore[misc]
            if self.continuation:
                factors = weight_factors(self.continuation, self.continuation_start)
                labels = continue_weights(run, labels, factors).labels
            yield labels

    def finish(self, run: Run, ends: list[IntArray], status: Status, message: str) -> Outcome:
        """Return the best of the labellings reached, polished if asked; the last status where there is none."""
        if not ends:
            return Outcome(status, message=message)
        with run.stage("polish"):
            fit = run.best
            if self.polish != "none":
                fit = polish_candidates(run, ends, str(self.polish), is_relaxed=False)
        end = Status.CONVERGED if status.has_answer else Status.INACCURATE  # the last descent was cut short
        if Status.ITERATION_LIMIT in (status, fit and fit.raw.status):
            end = Status.ITERATION_LIMIT  # exact fits may lead on
        return Outcome(run.stopped or end, answer=fit, message=message)


@dataclass(frozen=True, kw_only=True)
class InductiveRelaxation(Relaxation):
    """Begin with the hyperplane of the known labels alone; no bound is certified."""

    most_clusters: ClassVar[float] = math.inf

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        lacking = lacks_known(program)
        if lacking is not None:
            return Refusal(f"the method begins with the hyperplane of the known labels, and {lacking[0]}",
                           f"{lacking[1]}, or use relaxation='alternating'")
        refusal = refuse_split(program)
        return Offer("local: no bound") if refusal is None else refusal
