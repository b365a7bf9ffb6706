"""Descents over labels: alternation with the exact oracle, from small moves that help, along rising loss weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from margindsl.drivers.run import Run
from margindsl.features.stacked import Stacked
from margindsl.program.passes import Answer
from margindsl.typing import FloatArray, IntArray

ROUGH = 1e-2  # relative accuracy of fits on the way
Proposals = Callable[[Answer], Iterable[IntArray]]


def best_labels(run: Run, fit: Answer) -> IntArray:
    """Return the labels in B that minimise the objective at the hyperplane of a fit (exact)."""
    program, features = run.program, run.program.features
    if callable(fit.found) and (chosen := program.chosen(fit.w, fit.bias)) is not None:
        return chosen
    decision = fit.decision
    whole = features if isinstance(features, Stacked) else getattr(features, "base", None)
    if isinstance(whole, Stacked) and whole.turned.nnz:
        pairs, c = program.losses.terms[-1], getattr(features, "factor", 1.0)
        own = pairs.weights * pairs.slopes * c**2 * whole.squares[pairs.points - whole.base.n]
        decision = decision.copy()  # what a cap is worth at its row's other label, whose own weights would change
        decision[pairs.points] -= own[:, None] * (program.codes[fit.labels[pairs.points]] @ program.codes.T)
    return program.labels.maximise(program.gains(decision, fit.scalars))


def alternate(run: Run, labels: IntArray, rounds: int = 100, tol: float = 1e-7, fit: Answer | None = None) -> Answer:
    """Alternate from a labelling until the labels repeat; each round lowers the objective.

    On the way fits have an accuracy of `ROUGH`, which moves most labels as the exact ones do; they are exact where
    rough ones lead no further, and from there on. A fit of the labels is given where it is known already.
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


def descend(run: Run, fit: Answer, proposals: Proposals, rounds: int, tol: float) -> Answer:
    """Accept small moves until none of the proposed labels, the most promising first, helps; never end worse."""
    for iteration in range(rounds):
        if run.done:
            break
        for labels in proposals(fit):
            better = run.fit(labels, fit, tol, cutoff=fit.value)
            if better.value < fit.value - 1e-9 * abs(fit.value):
                break
            if run.done:
                return fit
        else:
            return fit
        fit = alternate(run, better.labels, tol=tol, fit=better)
        if run.record("local search", iteration, fit.value):
            break
    return fit


def weight_factors(steps: int, start: float) -> FloatArray:
    """Return the (steps + 1,) factors of the loss weight, geometric from `start`, in (0, 1], to one.

    >>> weight_factors(2, 0.01).round(6).tolist()
    [0.01, 0.1, 1.0]
    """
    return np.append(start ** (1.0 - np.arange(steps) / max(steps, 1)), 1.0)


def continue_weights(run: Run, labels: IntArray, factors: Iterable[float], tol: float = 1e-7) -> Answer:
    """Alternate at every factor of the loss weight in turn, labels and hyperplane carried over.

    With a small weight ½‖w‖² rules, decision values stay short of the margin and nearly every label can still
    change sides; at the full weight alternation sticks at once (mathematics, 3.4). Every labelling on the way
    lies in B. The last factor is always 1, added when it is missing, so that the returned fit is one of the
    run's own program: a fixed point at the full weight, or, once the time is up, the best of this run.
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
        stop = run.record("continuation", step, run.program.value_at(fit.labels, fit.w, fit.bias, fit.scalars))
        if stop or run.stopped:
            return run.fit(fit.labels, fit, tol)
    first = None if fit is None else run.fit(fit.labels, fit, tol)
    return alternate(run, labels if fit is None else fit.labels, tol=tol, fit=first)
