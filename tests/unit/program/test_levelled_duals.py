"""Dual points moved onto equalities by rounding alone: of free biases, and where losses curve only far out."""

import numpy as np
import pytest

import margindsl as md

FALLING = {
    "hinge": lambda g: md.pos(1 - g) + 0.2 * (1 - g),
    "heavier hinge": lambda g: md.pos(1 - g) + 0.38 * (1 - g),
    "squared hinge": lambda g: md.square(md.pos(1 - g)) + 0.2 * (1 - g),
    "linear": lambda g: 1 - g,
    "logistic": lambda g: md.logistic(-g) + 0.1 * (1 - g),
}


@pytest.mark.parametrize("seed, loss", [*enumerate(FALLING)])
def test_falls_without_end_beside_a_free_bias_are_proved(loss, seed):
    """Multipliers of such losses have a lower limit: they are levelled inside their limits, not divided."""
    X = np.random.default_rng(seed).normal(size=(6, 2))
    y, f = md.Labels(6, clusters=3), md.Hyperplane(X, bias=True)
    objective = md.sq_norm(f) / 2 + md.sum(FALLING[loss](md.margin(y, f)))
    problem = md.Problem(md.Minimize(objective), [md.sizes(y, at_least=2, at_most=2)])
    exact = problem.solve("exact", random_state=0)
    assert exact.status == "optimal"
    assert exact.verify()
    assert problem.solve("exact", "clarabel", random_state=0).value == pytest.approx(exact.value, rel=1e-6)


def test_codes_that_fall_without_end_do_not_make_a_problem_unbounded():
    """The search descends in simplex codes, whose margins do not hold the bias as those of all clusters do."""
    X, w = np.array([[-1.0], [0.0], [0.5], [2.0], [3.0]]), np.array([0.5, 1, 1, 1, 1])
    y, f = md.Labels(5, clusters=3), md.Hyperplane(X, bias=True)
    g = md.margin(y, f)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.sum(w * (md.pos(1 - g) + 0.38 * (1 - g)))),
                         [md.sizes(y, at_least=1, at_most=2)])
    exact = problem.solve("exact", random_state=0)
    assert exact.status == "optimal"
    for relaxation in ("alternating", "cccp"):
        assert problem.solve(relaxation, random_state=0).value >= exact.bound


@pytest.mark.parametrize("relaxation, slope", [
    *(("exact", slope) for slope in (1.0, 1.03, 2.0, 3.0, 0.1, 7.7)),
    *(("minimax", slope) for slope in (1.03, 3.0, 0.1)), *(("sdp", slope) for slope in (1.0, 2.0, 7.7))])
def test_logistic_losses_of_any_slope_are_proved(slope, relaxation):
    """The check and the proof multiply slopes in the same order, for their sums have to cancel to the last digit."""
    X = np.random.default_rng(0).normal(size=(8, 2))
    y, f = md.Labels(8), md.Hyperplane(X)
    objective = md.sq_norm(f) / 2 + 10 * md.mean(md.logistic(-slope * (y * f)) + md.logistic(-0.3 * (y * f)))
    solution = md.Problem(md.Minimize(objective), [abs(md.sum(y)) <= 2]).solve(relaxation, random_state=0)
    assert solution.bound >= 0.5 * solution.value
    assert relaxation != "exact" or solution.status == "optimal"
    assert solution.verify()


@pytest.mark.parametrize("seed", range(3))
def test_multipliers_of_several_clusters_add_up_without_rounding(seed):
    X = np.random.default_rng(seed).normal(size=(4, 2))
    y, f = md.Labels(4, clusters=4), md.Hyperplane(X)
    objective = md.sq_norm(f) / 2 + 15 * md.mean(md.logistic(-md.margin(y, f)))
    solution = md.Problem(md.Minimize(objective)).solve("exact", random_state=0)
    assert solution.status == "optimal"
