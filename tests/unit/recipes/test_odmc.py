"""ODMC: Eq. 2 at fixed labels, balance, the published rule and what departs from it."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.errors import DeclarationError, UnknownNameError
from margindsl.metrics import clustering_accuracy


def digits(first, second, count=80):
    images, classes = load_digits(return_X_y=True)
    chosen = np.isin(classes, (first, second))
    return images[chosen][:count] / 16, np.where(classes[chosen][:count] == first, 1, -1)


def test_the_value_is_that_of_equation_2_at_the_labels_returned():
    X, _ = digits(3, 8, 40)
    lam, nu, theta = 5.0, 0.6, 0.3
    solution = md.recipes.odmc(X, lam=lam, nu=nu, theta=theta, max_iter=300).solve(
        random_state=0)
    Z, y = X - X.mean(axis=0), solution.labels

    def objective(w):
        g = y * (Z @ w)
        loss = np.maximum(1 - theta - g, 0) ** 2 + nu * np.maximum(g - 1 - theta, 0) ** 2
        return 0.5 * w @ w + lam / len(y) * loss.sum() / (1 - theta) ** 2

    best = minimize(objective, np.zeros(X.shape[1]), tol=1e-9)
    assert solution.value == pytest.approx(best.fun, rel=1e-5)
    assert solution.bound <= solution.value and solution.solver == "mirror-prox"


@pytest.mark.parametrize("count,balance", [(40, 0.3), (41, 0.0)])
def test_balance_is_kept_as_far_as_parity_allows(count, balance):
    X, _ = digits(3, 8, count)
    labels = md.recipes.odmc(X, balance=balance, max_iter=50).solve(random_state=0).labels
    assert abs(labels.sum()) <= max(balance * count, count % 2)


@pytest.mark.parametrize("kernel", ["linear", md.RBF(md.sqrt_mean_distance)])
def test_digits_are_clustered_and_new_points_predicted(kernel):
    X, truth = digits(0, 1)
    solution = md.recipes.odmc(X[:60], balance=0.1, kernel=kernel, max_iter=600).solve(random_state=0)
    assert clustering_accuracy(truth[:60], solution.labels) >= 0.95
    assert clustering_accuracy(truth, np.concatenate([solution.labels, solution.predict(X[60:])])) >= 0.95


def test_the_box_of_the_duals_is_the_slope_at_margin_minus_one():
    X, _ = digits(3, 8, 40)
    problem = md.recipes.odmc(X, lam=7.0, nu=0.6, theta=0.3, sampling="labels")
    term = problem.program().losses.terms[0]
    slope = term.weights[0] * abs(float(term.loss.derivative(np.array([-1.0]))[0]))
    assert problem.solver.tau == pytest.approx(slope)
    assert md.recipes.odmc(X, lam=md.Parameter(7.0), sampling="labels").solver.tau is None
    assert md.recipes.odmc(X, sampling="labels", tau=0.3, step_factor=1.0).solver == md.Solver(
        "mirror-descent", sampling="labels", max_iter=2000, tau=0.3)


def test_sampled_labellings_converge():
    X, _ = digits(3, 8, 30)
    solution = md.recipes.odmc(X).solve(random_state=0)
    exact = md.recipes.odmc(X).solve(solver="mirror-prox", random_state=0)
    assert solution.status == "converged" and solution.estimate == pytest.approx(exact.estimate, rel=2e-2)


def test_rounding_departs_to_a_value_no_higher():
    X, _ = digits(3, 8, 60)
    published = md.recipes.odmc(X, labels="sign", max_iter=100).solve(random_state=0)
    rounded = md.recipes.odmc(X, max_iter=100).solve(random_state=0)
    assert rounded.value <= published.value + 1e-9
    elsewhere = md.recipes.odmc(X).solve(relaxation="alternating", solver="newton", random_state=0)
    assert elsewhere.relaxation == "alternating"


def test_the_labels_follow_the_weighted_vote_of_the_labellings():
    X, _ = digits(0, 1, 40)
    rule = md.Minimax(rounding="sign", polish="none")
    solution = md.recipes.odmc(X, balance=0.2).solve(rule, "mirror-prox", random_state=0)
    labellings, mu = solution.label_weights
    aligned = labellings * np.where(labellings @ labellings[int(np.argmax(mu))] < 0, -1, 1)[:, None]
    vote = mu @ aligned
    sure = np.abs(vote) > 0.5
    assert sure.mean() > 0.5 and abs((solution.labels * np.sign(vote))[sure].mean()) > 0.9


@pytest.mark.parametrize("options,error,message", [
    ({"balance": -0.1}, DeclarationError, r"odmc\(balance=-0.1\): expected None or a non-negative fraction"),
    ({"labels": "signs"}, UnknownNameError, "unknown rule for labels in odmc 'signs'. Did you mean 'sign'"),
    ({"theta": 1.0}, DeclarationError, "expected 0 <= theta < 1"),
    ({"sampling": "labels", "tau": -1.0}, DeclarationError, "expected a positive finite number"),
    ({"tau": 0.1}, DeclarationError, r"odmc\(tau=, step_factor=\): .*give sampling='labels'"),
    ({"sampling": "label"}, UnknownNameError, "Did you mean 'labels'")])
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        md.recipes.odmc(np.arange(12.0).reshape(6, 2), **options)
