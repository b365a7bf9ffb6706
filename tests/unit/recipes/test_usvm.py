"""USVM: decision balance, descent from the labelled points' machine, the same objective as TSVM."""

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, RefusalError


def points(n=40, labelled=3, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < n // 2, -1, 1)
    X = rng.standard_normal((n, 2)) * [0.6, 1.5] + truth[:, None] * [1.5, 0.0]
    y = np.zeros(n, dtype=int)
    for sign in (-1, 1):
        y[rng.permutation(np.flatnonzero(truth == sign))[:labelled]] = sign
    return X, truth, y


def test_the_mean_decision_value_of_the_unlabelled_is_the_ratio():
    X, truth, y = points()
    y[np.flatnonzero(y == 1)[0]] = 0
    solution = md.recipes.usvm(X, y).solve()
    assert solution.decision[y == 0].mean() == pytest.approx(y[y != 0].mean(), abs=1e-4)
    assert np.array_equal(solution.labels[y != 0], y[y != 0])
    assert np.mean(solution.labels == truth) >= 0.9
    assert (solution.relaxation, solution.solver) == ("cccp", "newton")
    assert solution.predict(X[:5] + 0.01).shape == (5,)


def test_the_value_is_the_symmetric_hinge_of_the_unlabelled():
    X, _, y = points(seed=1)
    solution = md.recipes.usvm(X, y, C=2.0, C_u=0.5).solve()
    known, f = y != 0, solution.decision
    expected = (0.5 * np.sum(solution.weights**2) + 2.0 * np.maximum(1 - y[known] * f[known], 0).sum()
                + 0.5 * np.maximum(1 - np.abs(f[~known]), 0).sum())
    assert solution.value == pytest.approx(expected, rel=1e-6)


def test_a_step_is_no_worse_than_the_machine_of_the_labelled_points():
    X, _, y = points(seed=2)
    problem = md.recipes.usvm(X, y, balance=False)
    alone = md.Problem(md.Minimize(md.sq_norm(f := md.Hyperplane(X, bias=True)) / 2 + md.sum(
        md.hinge((z := md.Labels(40)) * f)[y != 0])), [z[y != 0] == y[y != 0]]).solve(relaxation="supervised")
    program = problem.program()
    start = program.objective(program.labels.names.read(alone.labels), alone.weights, alone.bias)
    assert problem.solve().value <= start + 1e-6


def test_the_start_needs_known_labels():
    with pytest.raises(RefusalError, match="start='known' begins at the hyperplane of the known labels"):
        md.recipes.odmc(np.eye(4)).solve(relaxation=md.Alternating(start="known"), solver="newton")


@pytest.mark.parametrize("balance", ["no", 0, None, np.array([True])], ids=str)
def test_balance_is_true_or_false(balance):
    X, _, y = points()
    with pytest.raises(DeclarationError, match=r"usvm\(balance=.*: expected True or False"):
        md.recipes.usvm(X, y, balance=balance)
