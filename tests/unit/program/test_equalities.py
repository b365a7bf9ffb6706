"""Dual points on the equalities of shared scalars and of a free bias at once."""

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.program.equalities import onto_equalities

POINTS = np.random.default_rng(3).normal(size=(5, 2))
LOSSES = {"hinge": md.hinge, "squared hinge": md.squared_hinge, "logistic": md.logistic}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_point_near_the_equalities_is_moved_onto_them(seed, scale):
    rng = np.random.default_rng(seed)
    m, S = 12, int(rng.integers(1, 4))
    lower, upper = np.where(rng.random(m) < 0.8, 0.0, -np.inf), np.where(rng.random(m) < 0.6, 1.0, np.inf)
    E, at_most = rng.normal(size=(m, S)), rng.random(S) < 0.3
    x = np.clip(rng.normal(size=m), lower, upper)  # many entries at a limit, as complementarity has them
    target = E.T @ x
    found = onto_equalities(scale * (x + 1e-6 * rng.normal(size=m)), (scale * lower, scale * upper), E, scale * target,
                            at_most) / scale
    off = target - E.T @ found
    assert np.all(np.where(at_most, -off, np.abs(off)) <= 1e-13 * (np.abs(E).T @ np.abs(found)))
    assert np.all((lower <= found) & (found <= upper)) and np.allclose(found, x, atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_equalities_far_from_a_point_are_reached_where_they_can_be(seed):
    rng = np.random.default_rng(seed)
    E, box, one = rng.normal(size=(8, 2)), (np.zeros(8), np.ones(8)), np.zeros(2, dtype=bool)
    target = E.T @ rng.uniform(size=8)
    for start in (np.zeros(8), np.ones(8), rng.uniform(size=8)):
        assert np.allclose(E.T @ onto_equalities(start, box, E, target, one), target, rtol=0, atol=1e-13)
    outside = onto_equalities(np.full(8, 0.5), box, E, np.array([1e3, 0.0]), one)
    assert np.all((outside >= 0) & (outside <= 1)) and np.abs(E.T @ outside - [1e3, 0.0]).max() > 1.0


def by_hand(loss, objective, labellings, bounds):
    """Return the least value over labellings, each by plain cvxpy."""
    best = np.inf
    for y in labellings:
        w, b = cp.Variable(2), cp.Variable()
        f = POINTS @ w + b
        g = cp.multiply(y, f)
        rows = {"hinge": cp.pos(1 - g), "squared hinge": cp.square(cp.pos(1 - g)), "logistic": cp.logistic(-g)}[loss]
        paid = 3 * cp.sum(rows) / 5 + (2 * cp.sum_squares(g - cp.sum(g) / 5) / 5 if objective == "variance" else 0)
        best = min(best, cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + paid), bounds(f)).solve(solver="CLARABEL"))
    return best


@pytest.mark.parametrize("loss, objective, bounded", [
    (loss, objective, (i + j) % 2 == 0) for i, loss in enumerate(LOSSES)
    for j, objective in enumerate(["plain", "variance"])])
def test_branch_and_bound_proves_the_optimum_beside_a_free_bias(loss, objective, bounded):
    weights = np.array([1.0, 2.0, 0.0, 0.0, -1.0])
    y, f = md.Labels(5), md.Hyperplane(POINTS, bias=True)
    paid = 3 * md.mean(LOSSES[loss](y * f)) + (2 * md.var(y * f) if objective == "variance" else 0)
    constraints = [abs(md.sum(y)) <= 1, *([md.sum(weights * f) >= 0.5] if bounded else [])]
    solution = md.Problem(md.Minimize(md.sq_norm(f) / 2 + paid), constraints).solve("exact", random_state=0)
    signs = 1 - 2 * ((np.arange(32)[:, None] >> np.arange(5)) & 1)
    best = by_hand(loss, objective, signs[np.abs(signs.sum(axis=1)) <= 1],
                   lambda f: [weights @ f >= 0.5] if bounded else [])
    assert solution.status == "optimal" and solution.verify()
    assert np.isclose(solution.value, best, rtol=1e-6) and np.isclose(solution.bound, best, rtol=1e-6)


def test_a_threshold_beside_a_free_bias_is_proved_too():
    y, f, threshold = md.Labels(5), md.Hyperplane(POINTS, bias=True), md.Scalar()
    paid = 3 * md.mean(md.pos(threshold - y * f)) - 2 * threshold
    solution = md.Problem(md.Minimize(md.sq_norm(f) / 2 + paid), [abs(md.sum(y)) <= 1]).solve("exact", random_state=0)
    assert solution.status == "optimal" and solution.verify()


@pytest.mark.parametrize("loss", ["hinge", "squared hinge"])
def test_labels_that_are_all_alike_cost_nothing_beside_a_free_bias(loss):
    y, f = md.Labels(5), md.Hyperplane(POINTS, bias=True)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(LOSSES[loss](y * f))), [md.sum(y) >= 5])
    solution = problem.solve("exact", random_state=0)
    assert solution.status == "optimal" and solution.value == 0.0
