"""Descent over labellings: the first proposal that is lower, alternation from it, until none is."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from margindsl.drivers.alternation import alternate
from margindsl.drivers.run import Run
from margindsl.program.passes import Answer
from margindsl.typing import IntArray

Proposals = Callable[[Answer], Iterable[IntArray]]


def descend(run: Run, fit: Answer, proposals: Proposals, rounds: int, tol: float) -> Answer:
    """Accept small moves until none of the most promising helps.

    Parameters
    ----------
    proposals : callable
        Takes a fit; gives members of B to evaluate exactly, the most promising first.
    rounds : int
        Most accepted moves.
    tol : float
        Relative accuracy of the fixed-label solves.

    Returns
    -------
    Answer
        Never worse than the one given.
    """
    for iteration in range(rounds):
        if run.done:
            break
        better = first_lower(run, fit, proposals(fit), tol)
        if better is None:
            break
        fit = alternate(run, better.labels, tol=tol, fit=better)
        if run.record("local search", iteration, fit.value):
            break
    return fit


def first_lower(run: Run, fit: Answer, labellings: Iterable[IntArray], tol: float) -> Answer | None:
    """Return the first labelling, evaluated, that lowers the objective, or None."""
    for labels in labellings:
        candidate = run.fit(labels, fit, tol, cutoff=fit.value)
        if candidate.value < fit.value - 1e-9 * abs(fit.value):
            return candidate
        if run.done:
            return None
    return None
