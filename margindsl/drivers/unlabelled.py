"""Points of unknown label: their weight in the objective, and a start that leaves them out."""

from __future__ import annotations

import dataclasses

import numpy as np

from margindsl.drivers.run import Run
from margindsl.errors import RefusalError
from margindsl.program.losses import LossTerm
from margindsl.program.program import MarginProgram
from margindsl.typing import BoolArray, IntArray


def unknown_points(program: MarginProgram) -> BoolArray:
    """Return which of the n points have a label that neither known labels nor links fix."""
    return np.asarray(program.labels.free)[np.asarray(program.labels.component)]


def has_known(program: MarginProgram) -> bool:
    """Return whether some point with a loss has a known label."""
    points = program.losses.points[program.losses.weights > 0]
    return bool(points.size) and not bool(np.all(unknown_points(program)[points]))


def lacks_known(program: MarginProgram) -> tuple[str, str] | None:
    """Return why the known labels give no hyperplane and what to do, or None where they give one."""
    if has_known(program):
        return None
    if np.all(unknown_points(program)):
        return "none is known", "Give y[index] == values"
    return "the loss of every labelled point has weight 0", "Make its weight positive, such as C of a recipe"


def weigh_unknown(program: MarginProgram, factor: float) -> MarginProgram:
    """Return the program with the loss weights of points of unknown label times a factor; zero drops them.

    Parameters
    ----------
    factor : float
        At least 0.
    """
    unknown = unknown_points(program)
    terms = []
    for term in program.losses.terms:
        weights = np.where(unknown[term.points], factor, 1.0) * term.weights
        kept = weights > 0
        if np.any(kept):
            terms.append(LossTerm(term.loss, term.points[kept], weights[kept], term.slopes[kept], term.shifts[kept],
                                  term.coupling[kept]))
    return dataclasses.replace(program, losses=dataclasses.replace(program.losses, terms=tuple(terms)))


def labels_from_known(run: Run) -> IntArray:
    """Return the member of B that agrees best with the hyperplane fitted to the known labels alone.

    Under a bound on the sum of the unlabelled points these are the points of largest decision values
    (Joachims 1999, step 1). As other starts it takes the time it needs: cut short, it would be no start.
    """
    lacking = lacks_known(run.program)
    if lacking is not None:
        why, repair = lacking
        raise RefusalError(f"start='known' begins at the hyperplane of the known labels, and {why}. {repair}, or "
                           "choose start='kmeans'")
    program = weigh_unknown(run.program, 0.0)
    alone = Run(program, run.fixed_solver, run.fixed_solver, run.budget.replace(callback=None, deadline=np.inf),
                run.rng)
    fit = alone.fit(program.labels.any_member())
    return run.program.labels.maximise(fit.decision)
