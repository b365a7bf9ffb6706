"""ODM: Eq. 1 on the labelled points, and labels for the others."""

import numpy as np
import pytest
from scipy.optimize import minimize

import margindsl as md
from margindsl.errors import DeclarationError, RefusalError


def points(n=30, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < n // 2, -1, 1)
    return rng.standard_normal((n, 3)) + truth[:, None] * [1.2, 0.4, 0.0], truth


def odm_loss(margin, nu, theta):
    low, high = np.maximum(1 - theta - margin, 0), np.maximum(margin - 1 - theta, 0)
    return (low**2 + nu * high**2) / (1 - theta) ** 2


def test_the_value_is_that_of_equation_1():
    X, truth = points()
    y = np.where(np.arange(30) % 3 == 0, truth, 0)
    known, Z = y != 0, X - X.mean(axis=0)

    def objective(w):
        return 0.5 * w @ w + 7.0 * odm_loss(y[known] * (Z[known] @ w), 0.6, 0.3).mean()

    solution = md.recipes.odm(X, y, lam=7.0, nu=0.6, theta=0.3).solve()
    best = minimize(objective, np.zeros(3), tol=1e-10)
    assert solution.value == pytest.approx(best.fun, rel=1e-6) and solution.gap <= 1e-6
    assert solution.weights == pytest.approx(best.x, abs=1e-4)


def test_unknown_points_follow_the_decision_values_and_known_ones_stay():
    X, truth = points(seed=1)
    y = np.where(np.arange(30) % 3 == 0, truth, 0)
    y[0] = -y[0]
    solution = md.recipes.odm(X, y, kernel=md.RBF("median")).solve()
    assert np.array_equal(solution.labels[y != 0], y[y != 0])
    assert np.array_equal(solution.labels[y == 0], np.where(solution.decision[y == 0] >= 0, 1, -1))
    assert np.array_equal(solution.predict(X)[y == 0], solution.labels[y == 0])
    assert solution.predict(X[:4] + 0.01).shape == (4,)


def test_all_labels_known_and_links_on_the_others():
    X, truth = points(seed=2)
    assert np.array_equal(md.recipes.odm(X, truth).solve().labels, truth)
    y = np.where(np.arange(30) % 3 == 0, truth, 0)
    problem = md.recipes.odm(X, y)
    linked = problem.with_constraints(problem.labels[1] != problem.labels[2]).solve()
    assert linked.labels[1] != linked.labels[2]
    assert linked.value == pytest.approx(problem.solve().value)


def test_supervised_still_refuses_a_loss_on_unknown_labels():
    X, truth = points()
    y, f = md.Labels(30), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.odm(y * f))), [y[:20] == truth[:20]])
    with pytest.raises(RefusalError, match="10 label components are unknown"):
        problem.solve(relaxation="supervised")


@pytest.mark.parametrize("y,message", [
    (np.ones(3), r"odm: y of shape \(3,\) for 4 points"),
    ([1, -1, 2, 0], r"odm: y\[2\] is 2; expected -1, \+1, or 0"),
    ([1, -1, np.nan, 0], r"odm: y\[2\] is nan"),
    ([1, 1, 0, 0], "odm: no point is labelled -1"),
    ([0, 0, 0, 0], "odm: no point is labelled -1")])
def test_bad_labels(y, message):
    with pytest.raises(DeclarationError, match=message):
        md.recipes.odm(np.arange(8.0).reshape(4, 2), y)
