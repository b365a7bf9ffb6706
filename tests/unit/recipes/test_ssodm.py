"""ssODM: Eq. 2 at fixed labels, the class ratio at its nearest attainable sum, known labels kept."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.errors import DeclarationError, UnknownNameError


def digits(first, second, count, known, seed=0):
    images, classes = load_digits(return_X_y=True)
    chosen = np.isin(classes, (first, second))
    X, truth = images[chosen][:count] / 16, np.where(classes[chosen][:count] == first, 1, -1)
    y = np.zeros(count, dtype=int)
    for sign in (-1, 1):
        index = np.random.default_rng(seed).permutation(np.flatnonzero(truth == sign))[:known]
        y[index] = sign
    return X, truth, y


@pytest.mark.parametrize("centre", [True, False])
def test_the_value_is_that_of_equation_2_at_the_labels_returned(centre):
    X, _, y = digits(3, 8, 50, 3)
    lam1, lam2, nu, theta = 20.0, 4.0, 0.6, 0.3
    solution = md.recipes.ssodm(X, y, lam1=lam1, lam2=lam2, nu=nu, theta=theta, max_iter=300,
                                centre=centre).solve(random_state=0)
    known, m, l = y != 0, len(y), int((y != 0).sum())
    # λ_i as printed below Eq. 2
    weights = np.where(known, (lam1 * (m - l) - lam2 * l) / (l * (m - l)), 0.0) + lam2 / (m - l)
    Z = X - X.mean(axis=0) if centre else X

    def objective(w):
        g = solution.labels * (Z @ w)
        loss = np.maximum(1 - theta - g, 0) ** 2 + nu * np.maximum(g - 1 - theta, 0) ** 2
        return 0.5 * w @ w + weights @ loss / (1 - theta) ** 2

    printed = weights.copy()
    printed[known] = lam1 / l
    assert weights == pytest.approx(printed)
    assert solution.value == pytest.approx(minimize(objective, np.zeros(X.shape[1]), tol=1e-9).fun, rel=1e-5)


@pytest.mark.parametrize("negative,positive,free", [(1, 2, 10), (5, 1, 9)])
def test_the_sum_of_the_unlabelled_is_the_nearest_attainable(negative, positive, free):
    rng = np.random.default_rng(negative + 10 * positive)
    y = np.array([-1] * negative + [1] * positive + [0] * free)
    X = rng.standard_normal((len(y), 2)) + 1.5 * y[:, None]
    total = md.recipes.ssodm(X, y, max_iter=100).solve(random_state=0).labels[y == 0].sum()
    target = free * (positive - negative) / (positive + negative)
    attainable = np.arange(-free, free + 1, 2)
    assert abs(total - target) == pytest.approx(np.min(np.abs(attainable - target)))


def test_known_labels_stay_and_new_points_are_predicted():
    X, truth, y = digits(3, 8, 140, 6)
    inside = np.arange(140) < 100
    solution = md.recipes.ssodm(X[inside], y[inside], balance=0.1, max_iter=500).solve(random_state=0)
    assert np.array_equal(solution.labels[y[inside] != 0], y[inside][y[inside] != 0])
    assert np.mean(solution.labels == truth[inside]) >= 0.85
    assert np.mean(solution.predict(X[~inside]) == truth[~inside]) >= 0.85
    assert (solution.relaxation, solution.solver) == ("minimax", "mirror-prox")


def test_no_unlabelled_point_leaves_the_supervised_machine():
    X, truth, _ = digits(0, 1, 30, 1)
    solution = md.recipes.ssodm(X, truth, lam1=3.0, max_iter=300).solve(random_state=0)
    assert np.array_equal(solution.labels, truth)
    assert solution.value == pytest.approx(md.recipes.odm(X, truth, lam=3.0).solve().value, rel=1e-6)


def test_without_a_ratio_and_with_links():
    X, _, y = digits(3, 8, 40, 3)
    free = np.flatnonzero(y == 0)
    problem = md.recipes.ssodm(X, y, balance=None, max_iter=100)
    tied = problem.with_constraints(problem.labels[free[0]] != problem.labels[free[1]]).solve(random_state=0)
    assert tied.labels[free[0]] != tied.labels[free[1]]


def test_bad_balance():
    with pytest.raises(DeclarationError, match=r"ssodm\(balance='ratio'\): expected None or a non-negative fraction"):
        md.recipes.ssodm(np.eye(3), [1, -1, 0], balance="ratio")


def test_polished_labels_are_the_best_for_their_own_hyperplane_and_published_ones_need_not_be():
    X = np.random.default_rng(0).standard_normal((60, 8))
    y = np.r_[-np.ones(3, dtype=int), np.ones(3, dtype=int), np.zeros(54, dtype=int)]
    free, excess = y == 0, {}

    def loss(g):
        return (np.maximum(0.8 - g, 0) ** 2 + 0.4 * np.maximum(g - 1.2, 0) ** 2) / 0.64

    for rule in ("sign", "polished"):
        solution = md.recipes.ssodm(X, y, lam1=100.0, labels=rule, max_iter=100).solve(random_state=0)
        decision = solution.decision_function(X)[free]
        price = loss(decision) - loss(-decision)
        chosen = solution.labels[free] > 0
        # With the number of +1 prescribed, the best labels take the least prices.
        excess[rule] = price[chosen].sum() - np.sort(price)[:chosen.sum()].sum()
        excess[rule, "value"] = solution.value
    assert excess["polished"] == pytest.approx(0.0, abs=1e-6)
    assert excess["sign"] > 1e-3
    assert excess["polished", "value"] < excess["sign", "value"]


def test_unknown_rule_for_labels():
    with pytest.raises(UnknownNameError, match="unknown rule for labels in ssodm 'polish'. Did you mean 'polished'"):
        md.recipes.ssodm(np.eye(3), [1, -1, 0], labels="polish")
