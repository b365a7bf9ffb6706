"""Attempts of one solve: from a solver that fails to the next one, when the user named none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from margindsl.contract import Budget, Solver, Status
from margindsl.errors import SolverError, UnansweredError
from margindsl.runtime.solution import Solution


class Attempt(Protocol):
    """Solve with one solver, beginning with what earlier attempts found; `UnansweredError` where it fails."""

    def __call__(self, solver: Solver, earlier: Solution | None) -> Solution: ...


def hand_over(solvers: Iterable[Solver], attempt: Attempt, proves: bool, budget: Budget) -> Solution:
    """Return the answer of the first solver that has one, or the best of those that ended short of it.

    Parameters
    ----------
    solvers : iterable of Solver
        In order of preference; the next one is tried where one fails, while the budget lasts.
    attempt : callable
    proves : bool
        Whether the relaxation proves bounds.
    budget : Budget
        One for all attempts.

    Returns
    -------
    Solution
        Its message names the solvers that failed, with their words.

    Raises
    ------
    UnansweredError
        If none answers.
    SolverError
        If an attempt ends in another one, as of the label set, and no labels were found before.
    """
    best: Solution | None = None
    failed: dict[str, str] = {}  # how solvers failed, by name
    for solver in solvers:
        if failed and budget.expired:
            failed[solver.name] = f"{solver.name!r} was not begun: the time was up"
            break
        try:
            found = attempt(solver, best)
        except UnansweredError as error:
            failed[solver.name] = error.words
            continue
        except SolverError as error:
            if best is None:
                raise
            failed[solver.name] = f"{solver.name!r} ended in an error: {error}"
            continue
        best = found if best is None else better(best, found)
        trouble = trouble_of(found, proves) or ("" if best is found else f"{solver.name!r} found nothing better")
        if not trouble:
            break
        failed[solver.name] = trouble
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
    solution : Solution
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


__all__ = ["Attempt", "better", "hand_over", "trouble_of"]
