"""Alternation: labels by the exact linear oracle, hyperplane by the fixed-label solver, in turn."""

from __future__ import annotations

import numpy as np

from margindsl.drivers.run import Fit, Run
from margindsl.typing import IntArray


def best_labels(run: Run, fit: Fit) -> IntArray:
    """Return the labels in B that minimise the objective at the hyperplane of a fit (exact)."""
    return run.program.labels.maximise(run.program.gains(fit.decision, fit.scalars))


def alternate(run: Run, labels: IntArray, rounds: int = 100, tol: float = 1e-7, fit: Fit | None = None) -> Fit:
    """Alternate from a labelling until the labels repeat; each round lowers the objective.

    Parameters
    ----------
    run : Run
    labels : (n,) int array
        A member of B.
    rounds : int
        Most rounds.
    tol : float
        Relative accuracy of the fixed-label solves.
    fit : Fit, optional
        A fit of the labels, when it is known already.
    """
    fit = run.fit(labels, tol=tol) if fit is None else fit
    for iteration in range(rounds):
        if run.done:
            break
        new = best_labels(run, fit)
        if np.array_equal(new, fit.labels):
            break
        candidate = run.fit(new, fit, tol)
        if candidate.value >= fit.value - 1e-12 * abs(fit.value):
            break
        fit = candidate
        if run.record("alternation", iteration, fit.value):
            break
    return fit
