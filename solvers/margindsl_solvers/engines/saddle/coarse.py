"""A start for many points: the same labellings on a sample of the points, solved roughly."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from margindsl.contract import Budget, RawSolution, Status
from margindsl.program.forms import SaddleForm
from margindsl.program.losses import Losses, LossTerm
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.saddle.model import SaddleModel
from margindsl_solvers.engines.saddle.run import starting_pair

LARGE, SHARE = 20_000, 8  # points from which a sample is solved first, and points for one of the sample
TOLERANCE = 1e-3
KINK = 5.0  # inverse width over which kinks are smoothed when duals are read off the margins


def restrict(form: SaddleForm, points: IntArray) -> SaddleForm:
    """Return the form on some points, its weights scaled up to the same total weight.

    Parameters
    ----------
    form : SaddleForm
    points : (m,) int array
        Distinct points, in increasing order.
    """
    place = np.full(form.n, -1)
    place[points] = np.arange(len(points))
    total, terms = float(form.losses.weights.sum()), []
    for term in form.losses.terms:
        kept = np.flatnonzero(place[term.points] >= 0)
        terms.append(LossTerm(term.loss, place[term.points[kept]], term.weights[kept], term.slopes[kept],
                              term.shifts[kept], term.coupling[kept]))
    losses = Losses(len(points), tuple(terms), form.losses.scalars)
    found = float(losses.weights.sum())
    scaled = Losses(losses.n, tuple(
        LossTerm(t.loss, t.points, t.weights * (total / found if found else 1.0), t.slopes, t.shifts, t.coupling)
        for t in terms), form.losses.scalars)
    return SaddleForm(form.features.take(points), scaled, labellings=form.labellings[:, points], biases=form.biases,
                      codes=form.codes)


def coarse_start(model: SaddleModel, budget: Budget, rng: np.random.Generator,
                 solve: Callable[[SaddleForm, Budget], RawSolution]) -> RawSolution | None:
    """Return a start from a sample of the points, None when there are too few of them.

    Parameters
    ----------
    model : SaddleModel
    budget : Budget
    rng : numpy.random.Generator
    solve : callable
        Solves the smaller form.
    """
    form = model.form
    if form.n < LARGE or not hasattr(form.features, "take"):
        return None
    points = np.sort(rng.choice(form.n, form.n // SHARE, replace=False))
    deadline = min(budget.deadline, time.monotonic() + 0.3 * budget.remaining)
    sample = solve(restrict(form, points), budget.replace(tol=max(TOLERANCE, budget.tol), deadline=deadline))
    margins = model.margins(np.ascontiguousarray(sample["W"][:, model.first].T), model.merge(sample["mu"]))
    x = model.rescale(duals(model, form.losses.arguments(margins, sample["scalars"])))
    found = RawSolution(Status.CONVERGED, {"mu": sample["mu"], "u": -model.weights * x, "scalars": sample["scalars"]})
    # A sample too small to stand for the points can mislead.
    warm, cold = (model.judge(model.evaluate(*starting_pair(model, start))) for start in (found, None))
    return found if warm.gap < cold.gap else None


def duals(model: SaddleModel, arguments: FloatArray) -> FloatArray:
    """Return x = ρ'(v), of the envelopes of kinked losses."""
    x = np.zeros(len(arguments))
    for conjugate, (term, part) in zip(model.conjugates, model.losses.slices()):
        v = arguments[part]
        x[part] = term.loss.derivative(v) if term.loss.is_smooth else conjugate.prox(KINK * v, KINK)
    return model.clip(x)
