"""TSVM: the objective of OP 2 by hand, the class ratio, and the local search against enumeration."""

import itertools

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, RefusalError
from margindsl.relaxations.transductive import Transductive


def points(n=40, labelled=3, seed=0, shift=1.5):
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < n // 2, -1, 1)
    X = rng.standard_normal((n, 2)) * [0.6, 1.5] + truth[:, None] * [shift, 0.0]
    y = np.zeros(n, dtype=int)
    for sign in (-1, 1):
        y[rng.permutation(np.flatnonzero(truth == sign))[:labelled]] = sign
    return X, truth, y


def svm_value(X, y, weights):
    """Return min over w, b of ½‖w‖² + Σ c_i (1 − y_i f_i)₊ by the dual, independently."""
    import cvxpy as cp

    w, b = cp.Variable(X.shape[1]), cp.Variable()
    loss = cp.multiply(weights, cp.pos(1 - cp.multiply(y, X @ w + b)))
    return cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + cp.sum(loss))).solve(solver="CLARABEL")


def test_the_value_is_that_of_op_2_at_the_labels_returned():
    X, _, y = points()
    solution = md.recipes.tsvm(X, y, C=2.0, C_u=0.5).solve(random_state=0)
    expected = svm_value(X, solution.labels, np.where(y != 0, 2.0, 0.5))
    assert solution.value == pytest.approx(expected, rel=1e-5)
    assert np.array_equal(solution.labels[y != 0], y[y != 0])
    assert (solution.relaxation, solution.solver) == ("transductive", "newton")


@pytest.mark.parametrize("n,labelled", [(30, 3), (31, 2), (24, 5)])
def test_the_share_of_positives_is_the_labelled_ones(n, labelled):
    X, _, y = points(n, labelled, seed=n)
    y[np.flatnonzero(y == 1)[0]] = 0
    free, ratio = int((y == 0).sum()), y[y != 0].mean()
    total = md.recipes.tsvm(X, y).solve(random_state=0).labels[y == 0].sum()
    assert abs(total - free * ratio) <= 1.0


def test_unlabelled_points_correct_two_misleading_labels():
    # The labelled pair differs along the second axis; the gap between the clusters is along the first.
    rng = np.random.default_rng(3)
    truth = np.where(np.arange(60) < 30, -1, 1)
    X = rng.standard_normal((60, 2)) * [0.3, 1.5] + truth[:, None] * [2.0, 0.0]
    y = np.zeros(60, dtype=int)
    y[0], y[30] = -1, 1
    X[0], X[30] = [-2.0, -3.0], [2.0, 3.0]
    alone = md.recipes.odm(X, y, lam=100.0, bias=True).solve()
    solution = md.recipes.tsvm(X, y).solve(random_state=0)
    assert np.mean(alone.labels == truth) < 0.9 and np.mean(solution.labels == truth) == 1.0
    assert np.array_equal(solution.predict(X + 0.01), truth)


def test_the_local_search_lies_between_the_optimum_and_the_median_labelling():
    X, _, y = points(10, 2, seed=5, shift=0.8)
    problem = md.recipes.tsvm(X, y)
    solution = problem.solve(random_state=0)
    free = np.flatnonzero(y == 0)
    positives = int((solution.labels[free] == 1).sum())
    values = []
    for chosen in itertools.combinations(free, positives):
        labels = np.where(y != 0, y, -1)
        labels[list(chosen)] = 1
        values.append(svm_value(X, labels, np.ones(10)))
    assert min(values) - 1e-6 <= solution.value <= np.median(values)
    assert problem.solve(Transductive(polish="search"), random_state=0).value <= solution.value + 1e-9


def test_all_labels_known_is_the_svm():
    X, truth, _ = points()
    solution = md.recipes.tsvm(X, truth, C=3.0).solve(relaxation="supervised")
    assert solution.value == pytest.approx(svm_value(X, truth, np.full(40, 3.0)), rel=1e-5)


def test_refusals():
    X, _, y = points()
    with pytest.raises(RefusalError, match="begins with the hyperplane of the known labels, and none is known"):
        md.recipes.odmc(X).solve(relaxation=Transductive())
    with pytest.raises(DeclarationError, match=r"Transductive\(first=0\): expected a number in \(0, 1\]"):
        Transductive(first=0)
    with pytest.raises(DeclarationError, match=r"Transductive\(growth=1.0\): expected a finite number above 1"):
        Transductive(growth=1.0)
    with pytest.raises(DeclarationError, match=r"tsvm\(balance=-1\)"):
        md.recipes.tsvm(X, y, balance=-1)


def test_a_time_limit_returns_labels_of_the_set():
    X, _, y = points()
    solution = md.recipes.tsvm(X, y).solve(time_limit=1e-6)
    assert solution.status == "time_limit" and np.array_equal(solution.labels[y != 0], y[y != 0])


@pytest.mark.parametrize("recipe", ["tsvm", "s4vm", "usvm"])
def test_labelled_points_without_weight_are_told_from_missing_labels(recipe):
    X, _, y = points()
    with pytest.raises(RefusalError, match="the loss of every labelled point has weight 0. Make its weight positive"):
        getattr(md.recipes, recipe)(X, y, C=0).solve(random_state=0)
