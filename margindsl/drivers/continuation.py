"""Continuation in the loss weight: from a weight at which labels move freely to the one that was asked for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from margindsl.drivers.alternation import alternate
from margindsl.drivers.run import Run
from margindsl.errors import DeclarationError
from margindsl.program.passes import Answer
from margindsl.typing import FloatArray, IntArray


def weight_factors(steps: int, start: float) -> FloatArray:
    """Return the (steps + 1,) factors of the loss weight, geometric from `start` to one.

    Parameters
    ----------
    steps : int
        Steps before the last factor, 1; none when 0.
    start : float
        First factor, in (0, 1].

    Examples
    --------
    >>> weight_factors(2, 0.01).round(6).tolist()
    [0.01, 0.1, 1.0]
    """
    if not 0 < start <= 1:
        raise DeclarationError(f"the first factor of a continuation is {start}; expected a number in (0, 1]")
    return np.append(start ** (1.0 - np.arange(steps) / max(steps, 1)), 1.0)


def continue_weights(run: Run, labels: IntArray, factors: Iterable[float], tol: float = 1e-7) -> Answer:
    """Alternate at every factor of the loss weight in turn, labels and hyperplane carried over.

    With a small weight ½‖w‖² rules, decision values stay short of the margin and nearly every label can still
    change sides; at the full weight alternation sticks at once (mathematics, 3.4). Every labelling on the way
    lies in B. The last factor is always 1, added when it is missing, so that the returned fit is one of the
    run's own program.

    Parameters
    ----------
    labels : (n,) int array
        A member of B.
    factors : iterable of float
        Positive factors of the loss weights, usually rising.
    tol : float
        Relative accuracy of the fixed-label solves at the full weight.

    Returns
    -------
    Answer
        A fixed point of alternation at the full weight, or, once the time is up or the callback asks to stop,
        the best of this run.
    """
    steps = [float(factor) for factor in factors]
    if steps and steps[-1] == 1.0:
        steps.pop()
    fit: Answer | None = None
    for step, factor in enumerate(steps):
        stage = Run(run.program.rescaled(factor), run.solver, run.fixed_solver, run.budget.replace(callback=None),
                    run.rng)
        # Half-way labels need no accuracy: they are only where the next weight starts.
        first = None if fit is None else stage.fit(fit.labels, fit, tol=max(tol, 1e-4))
        fit = alternate(stage, labels if fit is None else fit.labels, tol=max(tol, 1e-4), fit=first)
        stop = run.record("continuation", step, _value_here(run, fit))
        if stop or run.stopped:
            return run.fit(fit.labels, fit, tol)
    first = None if fit is None else run.fit(fit.labels, fit, tol)
    return alternate(run, labels if fit is None else fit.labels, tol=tol, fit=first)


def _value_here(run: Run, fit: Answer) -> float:
    return run.program.value_at(fit.labels, fit.w, fit.bias, fit.scalars)
