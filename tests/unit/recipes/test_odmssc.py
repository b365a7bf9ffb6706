"""ODMSSC: Eq. 2 at fixed labels, its scale against ODMC's, links kept, the output of Algorithm 1."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.contract import Budget, RawSolution, Status
from margindsl.drivers.generation import Generated
from margindsl.drivers.run import Run
from margindsl.errors import ContradictionError, UnknownNameError
from margindsl.program.forms import SaddleForm
from margindsl.relaxations.minimax import sign_rule, violated_rule


def digits_with_links(count=60, pairs=30, seed=0):
    images, classes = load_digits(return_X_y=True)
    chosen = np.isin(classes, (3, 8))
    X, truth = images[chosen][:count] / 16, np.where(classes[chosen][:count] == 3, 1, -1)
    drawn = np.array([np.random.default_rng(seed + k).choice(count, 2, replace=False) for k in range(pairs)])
    same = truth[drawn[:, 0]] == truth[drawn[:, 1]]
    return X, truth, drawn[same], drawn[~same]


def test_the_value_is_that_of_equation_2_at_the_labels_returned():
    X, _, must, cannot = digits_with_links()
    lam, nu, theta = 20.0, 0.6, 0.3
    solution = md.recipes.odmssc(X, must_link=must, cannot_link=cannot, lam=lam, nu=nu, theta=theta).solve(
        random_state=0)
    Z, y = X - X.mean(axis=0), solution.labels

    def objective(w):
        g = y * (Z @ w)
        loss = np.maximum(1 - theta - g, 0) ** 2 + nu * np.maximum(g - 1 - theta, 0) ** 2
        return 0.5 * w @ w + lam / (2 * len(y)) * loss.sum()

    assert solution.value == pytest.approx(minimize(objective, np.zeros(X.shape[1]), tol=1e-9).fun, rel=1e-5)


def test_every_link_is_kept():
    X, truth, must, cannot = digits_with_links(pairs=60)
    solution = md.recipes.odmssc(X, must_link=must, cannot_link=cannot).solve(random_state=0)
    y = solution.labels
    assert np.all(y[must[:, 0]] == y[must[:, 1]]) and np.all(y[cannot[:, 0]] != y[cannot[:, 1]])
    assert (solution.relaxation, solution.solver) == ("minimax", "alternating-mu")
    assert max(np.mean(y == truth), np.mean(y == -truth)) >= 0.8
    assert solution.predict(X[:3] + 0.01).shape == (3,)


@pytest.mark.parametrize("theta", [0.2, 0.6])
def test_its_weight_is_odmcs_times_2_over_the_squared_band(theta):
    X, _, must, cannot = digits_with_links()
    lam = 30.0
    here = md.recipes.odmssc(X, must_link=must, cannot_link=cannot, lam=lam, theta=theta)
    there = md.recipes.odmc(X, lam=lam * (1 - theta) ** 2 / 2, theta=theta, balance=None)
    there = there.with_constraints(md.must_link(there.labels, must), md.cannot_link(there.labels, cannot))
    first, second = here.program(), there.program()
    y, w = first.labels.sample(np.random.default_rng(0), 1)[0], np.linspace(-1, 1, first.features.rank)
    assert first.objective(y, w) == pytest.approx(second.objective(y, w), rel=1e-12)


def test_the_rule_is_the_output_of_algorithm_1():
    X, _, _, _ = digits_with_links(count=40)
    program = md.recipes.odmssc(X).program()
    rng = np.random.default_rng(0)
    labellings, mu, u = rng.integers(2, size=(5, 40)), np.full(5, 0.2), rng.random(40)
    form = SaddleForm(program.features, program.losses, labellings)
    raw = RawSolution(Status.OPTIMAL, {"mu": mu, "u": u}, "", 0.0, 0, {}, ())
    solver = md.Solver("newton")
    run = Run(program, solver, solver, Budget.within(None), rng)
    Y, Z, delta = form.coded(), X - X.mean(axis=0), program.losses.scatter(u)
    H = delta[:, None] * (Z @ Z.T) * delta
    worst = Y[np.argmax(np.einsum("ki,ij,kj->k", Y, H, Y))]
    assert np.array_equal(violated_rule(run, Generated(form, raw, 0.0, Status.CONVERGED)), H @ worst > 0)
    twice = RawSolution(Status.OPTIMAL, {"mu": np.array([0.5, 0.5]), "u": u}, "", 0.0, 0, {}, ())
    pair = SaddleForm(program.features, program.losses, np.stack([labellings[0], 1 - labellings[0]]))
    vote = sign_rule(run, Generated(pair, twice, 0.0, Status.CONVERGED))
    assert len(set(vote ^ labellings[0])) == 1  # one clustering under two names: their weights add, not cancel


def test_contradictory_links_name_the_cycle():
    with pytest.raises(ContradictionError):
        md.recipes.odmssc(np.eye(3), must_link=[(0, 1), (1, 2)], cannot_link=[(0, 2)]).solve()


def test_an_unknown_rule():
    with pytest.raises(UnknownNameError, match="unknown rule for labels in odmssc 'sign'"):
        md.recipes.odmssc(np.eye(3), labels="sign")


def test_the_alternation_stops_at_the_accuracy_labels_need():
    # to the accuracy of label generation some 15,000 changes of the masses and ten times the time were needed here
    X, changes = np.random.default_rng(0).normal(size=(30, 3)), []
    problem = md.recipes.odmssc(X)
    solution = problem.solve(
        random_state=0, callback=lambda progress: changes.append(progress.stage == "alternating masses"))
    exact = problem.solve(md.Minimax(), "mirror-prox", random_state=0)
    assert 100 <= sum(changes) <= 3000
    assert np.array_equal(solution.labels * solution.labels[0], exact.labels * exact.labels[0])
    assert solution.value == pytest.approx(exact.value, rel=1e-6) and solution.estimate == pytest.approx(
        exact.estimate, rel=0.02)
