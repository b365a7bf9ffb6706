"""Progressive sampling: the same labellings on growing samples of the points, each a start for the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from margindsl.contract import Budget, RawSolution, Status
from margindsl.program.forms import SaddleForm
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.saddle.model import Point, SaddleModel
from margindsl_solvers.engines.saddle.run import RESERVE, SaddleCourse, starting_masses, starting_pair
from margindsl_solvers.engines.saddle.smoothed import SmoothedRun, softened_slopes

# Of the samples, and points below which none is drawn; 2,000 took longer on 100,000 copies of digits with biases.
GROWTH, LEAST = 4, 1_000
SHARE = 0.3  # of the time for the samples
COARSEST = 0.1  # relative gap to which a sample is solved at least
MISLED = 0.5  # a sample may have misled where the relative gap is larger, or W of less than that length would be better
SHARPNESS = 160.0  # inverse width over which kinks are smoothed for duals; hinge on 60,000 copies of digits, 5 to 2,560


def restrict(form: SaddleForm, points: IntArray) -> SaddleForm:
    """Return the form on some distinct points (m,), weights scaled up to the whole."""
    return replace(form, features=form.features.take(points), losses=form.losses.restricted(points),
                   labellings=form.labellings[:, points])


def levels(n: int, growth: int = GROWTH) -> list[int]:
    """Return the sizes of the samples that precede n points, each `growth` times the one before.

    Examples
    --------
    >>> levels(1_000_000), levels(1_000)
    ([3906, 15625, 62500, 250000], [])
    """
    sizes = []
    while n > LEAST * growth:
        n //= growth
        sizes.append(n)
    return sizes[::-1]


def samples(model: SaddleModel, budget: Budget, rng: np.random.Generator) -> Iterator[tuple[SaddleModel, Budget]]:
    """Yield the model on each of the growing samples, nested, and what its solve may spend, while time is left."""
    form = model.form
    order = rng.permutation(form.n)
    limited = budget.replace(deadline=min(budget.deadline, time.monotonic() + SHARE * budget.remaining))
    for size in levels(form.n):
        yield SaddleModel(restrict(form, np.sort(order[:size])), model.workers), limited
        if budget.expired:
            break


def goal(first: Point, tol: float) -> float:
    """Return the relative gap to which a sample is solved that begins with some point: what the next one can tell."""
    return min(max(tol, first.error / (2 * GROWTH)), COARSEST)


def progressive_start(model: SaddleModel, budget: Budget, rng: np.random.Generator,
                      engine: Callable[[SaddleModel, Budget, Point], SaddleCourse]) -> Point:
    """Return a point of all n points that nested samples, each larger than the last, have led to.

    The optimum of m points misses that of n by a gap in proportion to 1/m, and what a level misses shows when it
    begins. So a level is solved no better than the next one can tell: to its first gap over twice its growth. Masses,
    W and scalars are handed over; the duals of new points are read off their margins.

    `model`: of all points; `rng`: draws the order of the points; `engine`: the course of a model from a point.

    Returns
    -------
    Point
        Judged on all points.

    References
    ----------
    H. Daneshmand, A. Lucchi, T. Hofmann (2016). Starting small: learning with adaptive sample sizes.
    A. Mokhtari et al. (2016). Adaptive Newton method for empirical risk minimization to statistical accuracy.
    """
    handed = None
    for level, limited in samples(model, budget, rng):
        point = warm_point(level, handed)
        course = engine(level, limited.replace(tol=goal(point, budget.tol)), point)
        course.run()
        handed = level.variables(course.best)
    return warm_point(model, handed)


def smoothed_start(model: SaddleModel, budget: Budget, rng: np.random.Generator, begin: float) -> SmoothedRun:
    """Return a course of all n points that proximal Newton steps on nested samples have led to, and then on all.

    Samples as in `progressive_start`; the weights are handed over, and the width of the smoothing.

    `model`: of all points, without biases and scalars; `rng`: draws the order of the points; `begin`: `time.monotonic`
    at which the trace begins.

    Returns
    -------
    SmoothedRun
        Ended by a limit, by its gap or because it no longer gets on.
    """
    W, width = None, np.inf
    for level, limited in samples(model, budget, rng):
        course = SmoothedRun(level, limited, rng, rows_of(level, W), width)
        course.init()
        course.tol = goal(course.best, budget.tol)
        course.run(begun=True)
        W, width = course.variables()["W"], course.width
    whole = SmoothedRun(model, budget, rng, rows_of(model, W), width, begin)
    whole.run()
    return whole


def rows_of(model: SaddleModel, W: FloatArray | None) -> FloatArray | None:
    """Return the (T, q r) weights of the distinct labellings: those of a sample are distinct on all points, too."""
    return None if W is None else np.ascontiguousarray(W[:, model.first].T)


def warm_point(model: SaddleModel, smaller: Mapping[str, FloatArray] | None) -> Point:
    """Return the judged point that masses, W and scalars of a smaller sample give, its duals read off the margins.

    Where the sample misled (a gap above MISLED, or a best factor of W below it) that with its duals rescaled and w = 0
    are tried, too; w = 0 alone where there is no smaller sample.
    """
    def origin() -> Point:
        return model.judge(model.evaluate(*starting_pair(model, None)))

    if smaller is None:
        return origin()
    start = RawSolution(Status.CONVERGED, dict(smaller))
    masses = np.bincount(model.group, weights=smaller["mu"], minlength=model.count)
    margins = model.margins(np.ascontiguousarray(smaller["W"][:, model.first].T), masses)
    x = softened_slopes(model, model.losses.arguments(margins, smaller["scalars"]), 1.0 / SHARPNESS)
    mu = starting_masses(model, start, RESERVE)
    point = model.judge(model.evaluate(mu, x, smaller["scalars"]))
    if point.error <= MISLED and point.scale >= MISLED:
        return point
    trials = [point, model.judge(model.evaluate(mu, model.rescale(x), smaller["scalars"])), origin()]
    return min(trials, key=lambda trial: trial.gap)
