"""Attempts of one solve: one solver after another, until one has a usable answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from margindsl.contract import Budget, Solver, Status
from margindsl.errors import SolverError, UnansweredError
from margindsl.runtime.evidence import Evidence
from margindsl.runtime.solution import Solution

KEPT = "the answer is the warm start: nothing lower was found in the time"


class Attempts:
    """Say what is tried next, and keep the best of what was found.

    A solver that has no usable answer hands over to the next, while the budget lasts. Iterate, and note how each
    attempt ended.

    Parameters
    ----------
    solvers : iterable of Solver
        In order of preference.
    proves : bool
        Whether the relaxation proves bounds.
    budget : Budget
        One for all attempts.
    """

    def __init__(self, solvers: Iterable[Solver], proves: bool, budget: Budget) -> None:
        self.solvers, self.proves, self.budget = solvers, proves, budget
        self.best: Solution | None = None
        self.failed: dict[str, str] = {}  # how solvers failed, by name
        self._settled = False

    def __iter__(self) -> Iterator[tuple[Solver, Solution | None]]:
        """Yield a solver and the best that earlier ones found, as long as there is reason for another."""
        for solver in self.solvers:
            if self.failed and self.budget.expired:
                self.failed[solver.name] = f"{solver.name!r} was not begun: the time was up"
                return
            yield solver, self.best
            if self._settled:
                return

    def note(self, name: str, end: Solution | SolverError) -> None:
        """Note how the attempt of a solver ended.

        Raises
        ------
        SolverError
            The one given, where it says more than that the solver has no answer and nothing was found before.
        """
        if isinstance(end, Solution):
            self.best = end if self.best is None else better(self.best, end)
            trouble = trouble_of(end, self.proves) or ("" if self.best is end else f"{name!r} found nothing better")
            self._settled = not trouble
            self.failed |= {name: trouble} if trouble else {}
        elif isinstance(end, UnansweredError):
            self.failed[name] = end.words
        elif self.best is None:
            raise end
        else:
            self.failed[name] = f"{name!r} ended in an error: {end}"

    def result(self) -> Solution:
        """Return the answer of the first solver that has one, or the best of those that ended short of it.

        Its message names the solvers that failed, with their words.
        """
        best, failed = self.best, self.failed
        if best is None:
            raise UnansweredError("; ".join(failed.values()))
        alone = not failed or (list(failed) == [best.solver] and best.state.has_answer)
        return best if alone else replace(best, message=_told(best, failed))


def _told(best: Solution, failed: dict[str, str]) -> str:
    """Return what to say of solvers that failed, then of the one that answered, in its own words."""
    if best.solver in failed:
        return "; ".join(failed.values())
    own = f": {best.message}" if best.message else ""
    return "; ".join([*failed.values(), f"{best.solver!r} answered{own}"])


def trouble_of(solution: Solution, proves: bool) -> str:
    """Return how a solver ended without a usable answer, empty when it did not.

    Parameters
    ----------
    proves : bool
        Whether a bound beyond that of the losses alone is expected. After a limit or an interrupt none is missed.
    """
    said = f": {solution.message}" if solution.message else ""
    if not solution.state.has_answer:
        return f"{solution.solver!r} ended as {solution.status}{said}"
    ended = solution.state in (Status.CONVERGED, Status.INACCURATE)
    if ended and proves and (solution.certificate is None or solution.certificate.is_trivial):
        return f"{solution.solver!r} ended as {solution.status}, without a bound{said}"
    return ""


def better(first: Solution, second: Solution) -> Solution:
    """Return the solution of lower value, or of higher bound at equal labels up to rounding."""
    slack = 1e-9 * abs(first.value)
    if second.value < first.value - slack:
        return second
    return second if second.value <= first.value + slack and second.bound > first.bound else first


def no_worse(found: Solution, start: object) -> Solution:
    """Return a solution with the labels and hyperplane of its warm start, where those have a lower value.

    The time may end before labels are fitted anew. Both are of one declaration with the same values of its parameters.
    """
    if not isinstance(start, Solution) or not start.value < found.value:
        return found
    theirs = start.evidence
    if not (isinstance(theirs, Evidence) and found.evidence is not None and theirs.judges_as(found.evidence)):
        return found
    own = replace(found.evidence, weights=theirs.weights, scalars=theirs.scalars)
    bound, estimate = min(found.bound, start.value), min(found.estimate, start.value)
    cut = found.state in (Status.TIME_LIMIT, Status.INTERRUPTED)  # whose words are about what was found
    return replace(found, labels=start.labels, value=start.value, weights=start.weights, bias=start.bias,
                   decision=start.decision, scalars=start.scalars, features=start.features, bound=bound,
                   estimate=estimate, evidence=own, message=KEPT if cut else found.message)


__all__ = ["Attempts", "better", "no_worse", "trouble_of"]
