"""IterSVR: regression onto the labels and balanced labels in turn."""

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError


def points(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 3)) + np.where(np.arange(n) < n // 2, -1.0, 1.0)[:, None] * [1.5, 0, 0] + 3.0


def regression(X, y, C, epsilon):
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    loss = cp.sum(cp.pos(cp.abs(y - X @ w - b) - epsilon)) * C / len(y)
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + loss)).solve("CLARABEL")


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_the_value_is_that_of_regression_onto_the_labels(epsilon):
    X = points()
    solution = md.recipes.itersvr(X, C=6.0, epsilon=epsilon).solve(random_state=0)
    assert solution.value == pytest.approx(regression(X, solution.labels, 6.0, epsilon), rel=1e-6)


def test_every_round_lowers_the_objective_and_the_end_is_a_fixed_point():
    X = points(seed=1)
    solution = md.recipes.itersvr(X, C=20.0, balance=0.1).solve(random_state=0)
    values = np.array([record.value for record in solution.history])
    assert np.all(np.diff(values) <= 1e-7 * values[:-1])
    f, slack = solution.decision, 0.1 * len(X)
    assert abs(solution.labels.sum()) <= slack
    gain = np.maximum(abs(1 - f) - 0.1, 0) - np.maximum(abs(1 + f) - 0.1, 0)  # of -1 over +1
    order, count = np.argsort(gain), np.arange(len(X) + 1)
    sums = 2 * count - len(X)
    best = min(gain[order[:k]].sum() for k in count[np.abs(sums) <= slack])
    assert gain[solution.labels == 1].sum() == pytest.approx(best, abs=1e-6)


def test_it_finds_two_overlapping_clouds():
    X = points(n=60, seed=2)
    truth = np.where(np.arange(60) < 30, -1, 1)
    labels = md.recipes.itersvr(X).solve(random_state=0).labels
    assert abs((labels * truth).sum()) >= 50


def test_wrong_options_are_refused():
    with pytest.raises(DeclarationError, match="non-negative fraction"):
        md.recipes.itersvr(np.eye(4), balance=-1)
    with pytest.raises(DeclarationError, match="expected eps >= 0"):
        md.recipes.itersvr(np.eye(4), epsilon=-1)
