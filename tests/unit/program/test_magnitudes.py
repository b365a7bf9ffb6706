"""Magnitudes: what is refused with words on what to do, and features divided by a power of two."""

from dataclasses import replace

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, InfeasibleError
from margindsl.program.bounds import DecisionBound
from margindsl.program.passes import NORMAL, PASSES, Answer, BoxedBias, Presolved, Units

RNG = np.random.default_rng(3)
N = 6
X = RNG.normal(size=(N, 2)) + np.where(np.arange(N) < 3, -1.0, 1.0)[:, None]
LABELS = np.repeat([0, 1], 3)


def program(c=1.0, weight=3.0, loss=md.hinge, bias=False, points=X, **options):
    y, f = md.Labels(N), md.Hyperplane(c * points, bias=bias, **options)
    return md.Problem(md.Minimize(2.5 * md.sq_norm(f) / 2 + weight * md.mean(loss(y * f)) + 0.7)).program()


def manifold(weight):
    y, f = md.Labels(N), md.Hyperplane(X)
    graph = weight * md.manifold(f, np.ones((N, N)) - np.eye(N))
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f)) + graph)).program()


OUTLIER = np.vstack([X[1:] / 10, [[1e9, 0.0]]])
WEIGHTS = np.array([1e-3, 1.0, 1.0, 1.0, 1.0, 1e6])
REFUSED = {
    "large entries": (lambda: program(1e12), "largest entry of X is", "between 1e-10 and 1e+10. Standardise"),
    "small entries": (lambda: program(1e-12), "largest entry of X is", "expected between 1e-10 and 1e+10"),
    "an outlier": (lambda: program(points=OUTLIER, centre=False), "longest point (length 1.0e+09) is",
                   "half of the points, expected at most 1e+08 times; leave outliers out, or standardise the columns"),
    "weights of points": (lambda: program(loss=lambda m: WEIGHTS * md.hinge(m)), "weights of losses go from 5.0e-04 to "
                          "5.0e+05, expected within a factor of 1e+08; set the small ones to zero, or standardise"),
    "a heavy loss": (lambda: program(1.0, 1e12), "the loss of a point weighs", "times the regulariser, at points of "
                     "length", "expected between 1e-10 and 1e+10: standardise the columns, or weigh the losses"),
    "a light loss": (lambda: program(1.0, 1e-12), "the loss of a point weighs"),
    "points too long for the loss": (lambda: program(1e7), "the loss of a point weighs"),
    "a far threshold": (lambda: program(loss=lambda m: md.hinge(m - 1e12)), "gone at decision values of 1.0e+12, "
                        "expected at most 1e+10; write thresholds in the unit of the decision values"),
    "a heavy manifold term": (lambda: manifold(1e14), "manifold terms weigh", "times the regulariser", "expected",
                              "weigh them less, or standardise the columns"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_magnitudes_that_no_clustering_has_are_refused(name):
    make, *words = REFUSED[name]
    with pytest.raises(DeclarationError) as caught:
        make()
    assert all(part in str(caught.value) for part in words), caught.value


@pytest.mark.parametrize("c, weight", [(1e-4, 1e8), (1e4, 1.0), (1.0, 1e8), (1.0, 1e-8)])
def test_others_are_taken(c, weight):
    assert program(c, weight).n == N


@pytest.mark.parametrize("lengths, expected", [
    ([0, 0, 0, 0, 1024.0], 1024.0), ([1e-3, 1024.0, 1e6], 1024.0), ([15.0] * 3, None), ([1 / 15.0] * 3, None),
    ([0.0] * 3, None), ([17.0] * 3, 16.0), ([1 / 17.0] * 3, 1 / 16.0)])
def test_the_median_length_that_is_not_zero_sets_the_scale(lengths, expected):
    y, f = md.Labels(len(lengths)), md.Hyperplane(np.array(lengths)[:, None], centre=False)
    found = Units.of(md.Problem(md.Minimize(md.sq_norm(f) / 2 + 1e-3 * md.mean(md.hinge(y * f)))).program())
    assert (found and found.scale) == expected


@pytest.mark.parametrize("c", [1.0, 1e3])
@pytest.mark.parametrize("low, high", [(-1.0, 2.0), (0.0, 0.0), (-np.inf, 2.0), (0.5, np.inf)])
def test_answers_come_back_through_boxed_bias_and_units(c, low, high):
    given = replace(program(c, 1e3, bias=True, centre=False), normal=None)
    given = replace(given, free_bias=True, decision=(
        DecisionBound(c * np.arange(1.0, N + 1), low, high),))
    found = Presolved.of(given, (*NORMAL, *PASSES))
    kinds = [type(step) for step in found.passes]
    boxed = int(np.isfinite(high - low))
    assert kinds == [BoxedBias] * boxed + [Units] * (c != 1.0)
    assert found.program.free_bias == (not low == high == 0.0)
    w, t = RNG.normal(size=2), 0.0 if low == high else 0.3
    there = (found.program.features.apply(w) + t)[:, None] * [-1.0, 1.0]
    answer = found.undo(Answer(LABELS, w, np.array([t]), np.zeros(0), there, 0.0, None))
    assert np.allclose(given.features.apply(answer.w) + answer.bias, answer.decision[:, 1], rtol=1e-9, atol=1e-9)
    assert given.objective(LABELS, answer.w, answer.bias) == pytest.approx(
        found.program.objective(LABELS, w, t), rel=1e-9)


def test_bounds_on_the_bias_that_contradict_one_another_are_refused():
    given = replace(program(1.0, bias=True), decision=(
        DecisionBound(np.ones(N), 1.0, np.inf), DecisionBound(2 * np.ones(N), -np.inf, 1.0)))
    with pytest.raises(InfeasibleError, match="contradict"):
        BoxedBias.of(given)
    touching = replace(given, decision=(given.decision[0], DecisionBound(2 * np.ones(N), -np.inf, 2.0)))
    assert BoxedBias.of(touching).limits.low == pytest.approx(1.0 / N)
    assert BoxedBias.of(replace(given, free_bias=False)) is None
    assert BoxedBias.of(replace(given, decision=())) is None


@pytest.mark.parametrize("clusters", [2, 3])
@pytest.mark.parametrize("light", [1e-6, 1e-3, 1.0, 1e3])
def test_a_light_loss_beside_a_heavy_one_is_no_unit(clusters, light):
    """A sum is measured in its heavier part, whichever is written first, and fitted as well as the heavier alone."""
    X = np.array([[-1.83], [-2.48], [-0.52], [-0.71], [-0.85]])
    w = np.array([0.9, 1.8, 1.2, 1.2, 1.2])
    labels = np.array([0, 0, 1, 2, 2]) if clusters == 3 else np.array([1, 1, -1, 1, -1])
    y, f = md.Labels(5, clusters=clusters), md.Hyperplane(X)
    g = md.margin(y, f)
    objective = (md.sq_norm(f) / 2 + 17.67 * md.sum(w * (light * md.pos(1 - g) + md.pos(1 - g) ** 2))
                 + 9.72 * md.mean(md.pos(0.84 - g)))
    problem = md.Problem(md.Minimize(objective), [y[[i]] == labels[[i]] for i in range(5)])
    newton, clarabel = (problem.solve("supervised", name) for name in ("newton", "clarabel"))
    assert newton.status == "optimal"
    assert newton.value == pytest.approx(clarabel.value, rel=1e-6)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("parts", [(1.0,), (0.3, 0.7)])
@pytest.mark.parametrize("relaxation", ["supervised", "alternating", "cccp", "exact"])
def test_mean_and_variance_of_points_of_any_size(size, parts, relaxation):
    """min over w and s of w²/2 + 10(−ηs + λ mean (yφw − s)²) has a closed form."""
    X = np.random.default_rng(0).normal(size=(10, 1)) * size
    labels = np.array([1, -1, 1, 1, -1, 1, -1, 1, -1, -1])
    y, f = md.Labels(10), md.Hyperplane(X)
    total = sum(part * 10 * md.mean_variance(y * f, 0.7, 0.003) for part in parts)
    solution = md.Problem(md.Minimize(md.sq_norm(f) / 2 + total), [y == labels]).solve(relaxation, random_state=0)
    margins = labels * (X - X.mean(axis=0))[:, 0]
    w = 7.0 * margins.mean() / (1 + 0.06 * margins.var())
    assert solution.value == pytest.approx(-3.5 * margins.mean() * w - 10 * 0.7**2 / 0.012, rel=1e-6)
