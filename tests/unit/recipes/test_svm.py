"""SVM: Eq. 1 of the slides on the labelled points, checked against scikit-learn and cvxpy."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.svm import SVC

import margindsl as md
from margindsl.errors import DeclarationError


def points(n=24, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < n // 2, -1, 1)
    return rng.standard_normal((n, 3)) + truth[:, None] * [1.0, 0.3, 0.0] + 5.0, truth


def test_the_value_is_that_of_equation_1_with_a_free_bias():
    X, truth = points()
    y = np.where(np.arange(24) % 4 == 0, 0, truth)
    known = y != 0
    w, b = cp.Variable(3), cp.Variable()
    losses = cp.pos(1 - cp.multiply(y[known], X[known] @ w + b))
    value = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + 3.0 / known.sum() * cp.sum(losses))).solve("CLARABEL")
    solution = md.recipes.svm(X, y, C=3.0).solve()
    assert solution.value == pytest.approx(value, rel=1e-6) and solution.gap <= 1e-6
    assert solution.weights == pytest.approx(w.value, abs=1e-4)


def test_predictions_are_those_of_another_implementation():
    X, truth = points(n=60, seed=1)
    solution = md.recipes.svm(X, truth, C=60.0, kernel=md.RBF(2.0)).solve()
    other = SVC(C=1.0, kernel="rbf", gamma=1 / 8, tol=1e-8).fit(X, truth)
    Z = points(n=40, seed=2)[0]
    assert solution.decision_function(Z) == pytest.approx(other.decision_function(Z), abs=1e-4)


def test_unknown_points_are_predicted_and_known_ones_kept():
    X, truth = points(seed=3)
    y = np.where(np.arange(24) % 3 == 0, truth, 0)
    y[0] = -y[0]
    solution = md.recipes.svm(X, y).solve()
    assert np.array_equal(solution.labels[y != 0], y[y != 0])
    assert np.array_equal(solution.labels[y == 0], np.where(solution.decision[y == 0] >= 0, 1, -1))


@pytest.mark.parametrize("y, words", [([1, 1, 0, 0], "no point is labelled -1"), ([1, -1, 2, 0], "y\\[2\\] is 2"),
                                      ([1, -1], "for 4 points")])
def test_strange_labels_are_refused(y, words):
    with pytest.raises(DeclarationError, match=words):
        md.recipes.svm(np.eye(4), y)
