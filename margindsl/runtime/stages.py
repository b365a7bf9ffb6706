"""The stages of a solve: relax, round, polish, evaluate; each takes what was found so far and adds to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from margindsl.calculus.accuracy import relative_gap
from margindsl.contract import RawSolution, Status
from margindsl.drivers.guard import unanswered
from margindsl.drivers.rounding import polish, round_directions, round_vectors
from margindsl.drivers.run import Fit, Run
from margindsl.drivers.starts import answer_first, distinct, first_start, in_hand
from margindsl.errors import UnansweredError
from margindsl.host.clock import Cancelled
from margindsl.relaxations.relaxation import Outcome, Relaxation
from margindsl.runtime.verdict import least_proof

EVALUATION_SOLVER = "newton"
EVALUATION_TOL = 1e-10
# Parts of the allowance after a stop in which stages end that a loop of theirs did not end before.
RELAXED, ROUNDED, EVALUATED, FITTED = 0.4, 0.6, 0.75, 0.8


@dataclass(frozen=True, eq=False)
class Found:
    """Represent what the stages so far found.

    Parameters
    ----------
    outcome : Outcome or None
        Of the relaxation.
    state : Status
        How it ended.
    fit : Fit or None
        The labels of the answer, fitted to high accuracy.
    is_broken : bool
        Whether a stage failed: the labels in hand are evaluated, none are looked for.
    begun : int
        Fits of the first answer, 0 without one.
    """

    outcome: Outcome | None = None
    state: Status = Status.CONVERGED
    fit: Fit | None = None
    is_broken: bool = False
    begun: int = 0

    def is_answered(self, run: Run) -> bool:
        """Return whether labels were fitted that are worth more than a failure: the first answer alone is not."""
        return run.best is not None and not (self.begun and run.fits == self.begun)

    @property
    def is_open(self) -> bool:
        """Return whether labels are left to be found from what the relaxation returned."""
        return self.outcome is not None and self.outcome.fit is None and not self.is_broken

    def ended(self, state: Status) -> Found:
        """Return the same, ended by Ctrl-C, a callback or the time."""
        return replace(self, state=state)

    def failed(self, words: str) -> Found:
        """Return the same after a solver failed: what was proved stays, the labels are those in hand."""
        kept = Outcome(Status.FAILED) if self.outcome is None else self.outcome
        kept = replace(kept, candidates=(), factor=None, vectors=())
        return Found(replace(kept, status=Status.FAILED, message=words), Status.FAILED, is_broken=True)


@dataclass(frozen=True)
class Stage(ABC):
    """Do one step of a solve.

    Class attributes: `name` (in the list `explain` prints), `part` (of the allowance after a stop, in which it ends),
    `books` (under what its seconds are booked; empty where its loops do that), `is_last` (whether no stage comes after
    it that could still answer when it is cut short).
    """

    name: ClassVar[str]
    part: ClassVar[float]
    books: ClassVar[str] = ""
    is_last: ClassVar[bool] = False

    @abstractmethod
    def apply(self, run: Run, found: Found) -> Found:
        """Return what was found with what this stage adds."""

    def describe(self) -> str:
        """Return the name with its options."""
        return self.name


@dataclass(frozen=True)
class Begin(Stage):
    """Find a first answer, which callbacks see from the beginning and no later labels are worse than."""

    name: ClassVar[str] = "begin"
    part: ClassVar[float] = RELAXED
    books: ClassVar[str] = "begin"

    def apply(self, run: Run, found: Found) -> Found:
        with in_hand(run):
            answer_first(run)
        return replace(found, begun=run.fits)

    def describe(self) -> str:
        return "begin (one descent from k-means)"


@dataclass(frozen=True)
class Relax(Stage):
    """Run the relaxation."""

    name: ClassVar[str] = "relax"
    part: ClassVar[float] = RELAXED

    relaxation: Relaxation

    def apply(self, run: Run, found: Found) -> Found:
        """Return the outcome; an interrupt or a failure leaves the best labelling so far in the run.

        There is nothing to relax where no labels are better than w = 0.
        """
        least = least_proof(run.program) if self.relaxation.bound != "none" and run.program.allows_zero else None
        if least and relative_gap(run.program.losses.value(np.zeros(run.program.n)), least.bound) <= run.budget.tol:
            return replace(found, outcome=Outcome(Status.CONVERGED, (first_start(run),), certificate=least))
        try:
            with in_hand(run):
                outcome = self.relaxation.run(run)
        finally:
            if run.checkpoint is not None:
                run.checkpoint.write()
        if outcome.certificate is not None:
            incumbent = run.budget.incumbent
            incumbent.bound = max(incumbent.bound, run.program.to_user(outcome.certificate.bound))
        return replace(found, outcome=outcome, state=outcome.status)


@dataclass(frozen=True)
class Round(Stage):
    """Round what the relaxation returned to labels in B."""

    name: ClassVar[str] = "round"
    part: ClassVar[float] = ROUNDED
    books: ClassVar[str] = "round and polish"

    relaxation: Relaxation

    def apply(self, run: Run, found: Found) -> Found:
        outcome = found.outcome
        if outcome is None or not found.is_open:
            return found
        candidates = list(outcome.candidates) + list(run.starts)
        if outcome.factor is not None:
            candidates += round_directions(run, outcome.factor)
        for vectors, count in outcome.vectors:
            candidates += round_vectors(run, vectors, count)
        if not candidates:
            if not outcome.status.has_answer:
                raise unanswered(run.solver, RawSolution(outcome.status, message=outcome.message),
                                 f"on relaxation {self.relaxation.name!r}")
            candidates = [run.program.labels.any_member()]
        compact = np.min_scalar_type(-run.program.clusters)
        members = distinct([run.program.labels.nearest(candidate).astype(compact) for candidate in candidates])
        return replace(found, outcome=replace(outcome, candidates=tuple(members), factor=None, vectors=()))


@dataclass(frozen=True)
class Polish(Stage):
    """Improve the rounded labels of a convex relaxation."""

    name: ClassVar[str] = "polish"
    part: ClassVar[float] = ROUNDED
    books: ClassVar[str] = "round and polish"

    how: str

    def apply(self, run: Run, found: Found) -> Found:
        outcome = found.outcome
        if outcome is not None and found.is_open and outcome.candidates:
            bound = -np.inf if outcome.certificate is None else outcome.certificate.bound
            polish(run, list(outcome.candidates), self.how if found.state is outcome.status else "none", bound=bound)
        return found

    def describe(self) -> str:
        return f"polish ({self.how})"


@dataclass(frozen=True)
class Evaluate(Stage):
    """Fit the hyperplane to the best labels to high accuracy."""

    name: ClassVar[str] = "evaluate"
    part: ClassVar[float] = FITTED
    books: ClassVar[str] = "evaluate"
    is_last: ClassVar[bool] = True

    def apply(self, run: Run, found: Found) -> Found:
        known, labels = run.best, labels_in_hand(run, found.outcome)
        try:
            with run.finishing(EVALUATED):
                fit = run.apart().fit(labels, known, tol=EVALUATION_TOL)
            kept = known is not None and run.budget.expired and known.value < fit.value
            return replace(found, fit=known if kept else fit)
        except Cancelled as end:
            return replace(found, fit=run.plain_fit(labels) if known is None else known, state=run.ended_by(end))
        except (KeyboardInterrupt, UnansweredError) as end:
            if known is None:
                raise  # below: accurate to 1e-7 rather than to EVALUATION_TOL
            ended = Status.INTERRUPTED if isinstance(end, KeyboardInterrupt) else found.state
            return replace(found, fit=known, state=ended)

    def describe(self) -> str:
        return f"evaluate the labels with {EVALUATION_SOLVER!r} to {EVALUATION_TOL:g}"


def labels_in_hand(run: Run, outcome: Outcome | None) -> np.ndarray:
    """Return the best labels, without any those to be fitted, those of the warm start, or any of B."""
    if run.best is not None:
        return run.best.labels
    if outcome is not None and outcome.candidates:
        return outcome.candidates[0]
    return run.program.labels.nearest(run.starts[0]) if run.starts else run.program.labels.any_member()


def stages_of(relaxation: Relaxation) -> tuple[Stage, ...]:
    """Return the stages of a solve by a relaxation, in turn."""
    rest = Relax(relaxation), Round(relaxation), Polish(str(relaxation.polish)), Evaluate()
    searches = relaxation.polish in ("auto", "search")  # else the labels are those of the relaxation's own rule
    return (Begin(), *rest) if searches and relaxation.bound != "none" else rest


__all__ = [
    "EVALUATED", "EVALUATION_SOLVER", "EVALUATION_TOL", "FITTED", "Found", "Stage", "labels_in_hand", "stages_of"]
