"""Alternation: labels by the exact linear oracle, hyperplane by the fixed-label solver, in turn."""

from __future__ import annotations

import numpy as np

from margindsl.drivers.run import Run
from margindsl.program.passes import Answer
from margindsl.typing import IntArray

ROUGH = 1e-2  # relative accuracy of fits on the way


def best_labels(run: Run, fit: Answer) -> IntArray:
    """Return the labels in B that minimise the objective at the hyperplane of a fit (exact)."""
    return run.program.labels.maximise(run.program.gains(fit.decision, fit.scalars))


def alternate(run: Run, labels: IntArray, rounds: int = 100, tol: float = 1e-7, fit: Answer | None = None) -> Answer:
    """Alternate from a labelling until the labels repeat; each round lowers the objective.

    On the way fits have an accuracy of `ROUGH`, which moves most labels as the exact ones do; they are exact where
    rough ones lead no further, and from there on.

    Parameters
    ----------
    labels : (n,) int array
        A member of B.
    rounds : int
        Most rounds.
    tol : float
        Relative accuracy of the fixed-label solves.
    fit : Answer, optional
        A fit of the labels, when it is known already.
    """
    accuracy = max(tol, ROUGH)
    fit = run.fit(labels, tol=accuracy) if fit is None else fit
    for iteration in range(rounds):
        if run.done:
            break
        candidate = _next(run, fit, accuracy)
        if candidate is None and accuracy > tol:
            accuracy, fit = tol, run.fit(fit.labels, fit, tol)
            candidate = _next(run, fit, accuracy)
        if candidate is None:
            return fit
        fit = candidate
        if run.record("alternation", iteration, fit.value):
            break
    return fit if accuracy <= tol or run.stopped else run.fit(fit.labels, fit, tol)


def _next(run: Run, fit: Answer, tol: float) -> Answer | None:
    """Return a fit of the best labels at the hyperplane of a fit, None where they are its own or no lower."""
    labels = best_labels(run, fit)
    if np.array_equal(labels, fit.labels):
        return None
    candidate = run.fit(labels, fit, tol)
    return candidate if candidate.value < fit.value - 1e-12 * abs(fit.value) else None
