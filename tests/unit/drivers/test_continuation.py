"""Continuation in the loss weight: the rescaled program, the path of factors, members of B, better optima."""

import time

import numpy as np
import pytest
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.contract import Budget
from margindsl.drivers.alternation import alternate, best_labels, continue_weights, weight_factors
from margindsl.drivers.run import Run
from margindsl.errors import DeclarationError
from margindsl.runtime.registry import make_solver


def digits(first, second, count=None):
    points, target = load_digits(return_X_y=True)
    return points[np.isin(target, (first, second))][:count] / 16


def declare(X, weight, constraints=(), loss=None):
    y, f = md.Labels(len(X)), md.Hyperplane(X)
    loss = md.odm(y * f, nu=0.4, theta=0.2) if loss is None else loss(y * f)
    rules = [abs(md.sum(y)) <= 0.1 * len(X), *(make(y) for make in constraints)]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(loss)), rules)


def start(problem, **budget):
    newton = make_solver("newton")
    return Run(problem.program(), newton, newton, Budget(**budget), np.random.default_rng(0))


def test_rescaled_multiplies_losses_and_scalar_costs_only():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(9, 3))
    y, f = md.Labels(9), md.Hyperplane(X)
    program = md.Problem(md.Minimize(3 * md.sq_norm(f) / 2 + md.mean_variance(y * f, eta=0.7, lam=2.0))).program()
    labels, w, s = rng.integers(2, size=9), rng.normal(size=3), rng.normal(size=1)
    norm = program.to_user(0.5 * w @ w)
    for factor in (0.01, 0.5, 4.0):
        expected = norm + factor * (program.objective(labels, w, 0.0, s) - norm)
        assert program.rescaled(factor).objective(labels, w, 0.0, s) == pytest.approx(expected, rel=1e-12)


def test_weight_factors_rise_geometrically_to_one():
    factors = weight_factors(5, 1e-3)
    assert len(factors) == 6 and factors[0] == pytest.approx(1e-3) and factors[-1] == 1.0
    assert np.allclose(factors[1:] / factors[:-1], 10 ** (3 / 5))
    assert weight_factors(0, 0.5).tolist() == [1.0]


def test_without_steps_it_is_alternation():
    run = start(declare(digits(3, 8, 80), 20.0))
    labels = run.program.labels.sample(run.rng, 1)[0]
    plain = alternate(run, labels)
    for factors in ([], [1.0]):
        fit = continue_weights(run, labels, factors)
        assert fit.value == plain.value and np.array_equal(fit.labels, plain.labels)


def test_it_ends_at_a_fixed_point_of_the_full_program():
    run = start(declare(digits(2, 7, 120), 100.0))
    fit = continue_weights(run, run.program.labels.sample(run.rng, 1)[0], [0.001, 0.1])
    form = run.program.fix_labels(fit.labels)
    assert fit.value == pytest.approx(form.objective(fit.w, fit.bias, fit.scalars), rel=1e-12)
    again = alternate(run, fit.labels)
    assert again.value == pytest.approx(fit.value, rel=1e-6)
    gains, rows = run.program.gains(fit.decision, fit.scalars), np.arange(run.program.n)
    best, own = (gains[rows, y].sum()
                 for y in (best_labels(run, fit), fit.labels))
    assert best == pytest.approx(own, rel=1e-6)


def test_it_escapes_where_alternation_sticks():
    """Digits 2 against 7: from random labels alternation alone ends far above (mathematics, 3.4)."""
    run = start(declare(digits(2, 7), 100.0))
    for labels in run.program.labels.sample(np.random.default_rng(3), 3):
        assert continue_weights(run, labels, weight_factors(6, 1e-3)).value < 0.5 * alternate(run, labels).value


def test_links_balance_and_known_labels_hold():
    X = digits(8, 9, 90)
    rules = (lambda y: y[0] == y[1], lambda y: y[2] != y[3], lambda y: md.must_link(y, [(5, 6), (6, 7)]),
             lambda y: y[np.array([10, 11])] == np.array([1, -1]))
    problem = declare(X, 50.0, rules)
    run = start(problem)
    labels = run.program.labels.sample(run.rng, 1)[0]
    for factors in (weight_factors(4, 1e-2), [1e-3], [10.0, 0.1]):
        assert run.program.labels.contains(continue_weights(run, labels, factors).labels)
    for relaxation in (md.Alternating, md.CCCP):
        found = problem.solve(relaxation(restarts=2, continuation=4), random_state=0).labels
        assert found[0] == found[1] and found[2] != found[3] and len(set(found[5:8])) == 1
        assert found[10] == 1 and found[11] == -1 and abs(found.sum()) <= 9


@pytest.mark.parametrize("relaxation", [md.Alternating, md.CCCP])
def test_the_option_lowers_the_objective(relaxation):
    problem = declare(digits(2, 7), 100.0)
    plain = problem.solve(relaxation(restarts=2), random_state=0)
    continued = problem.solve(relaxation(restarts=2, continuation=6, continuation_start=1e-3), random_state=0)
    assert continued.value < 0.9 * plain.value
    assert any(record.stage == "continuation" for record in continued.history)
    assert not any(record.stage == "continuation" for record in plain.history)


@pytest.mark.parametrize("loss", [md.hinge, md.squared_hinge, md.logistic])
def test_other_losses(loss):
    wrapped = (lambda g: loss(-g)) if loss is md.logistic else loss
    problem = declare(digits(0, 1, 60), 10.0, loss=wrapped)
    solution = problem.solve(md.Alternating(restarts=2, continuation=3), random_state=0)
    assert np.isfinite(solution.value) and abs(solution.labels.sum()) <= 6


def test_decision_balance_and_a_free_bias_are_kept():
    X = digits(3, 8, 60)
    y, f = md.Labels(60), md.Hyperplane(X, bias=True)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))), [abs(md.sum(f)) <= 3.0])
    solution = problem.solve(md.Alternating(restarts=2, continuation=3), random_state=0)
    assert abs(solution.decision.sum()) <= 3.0 + 1e-4


def test_time_and_callbacks_stop_it_with_a_fit_of_the_full_program():
    problem = declare(digits(2, 7, 100), 100.0)
    for budget in ({"deadline": time.monotonic() - 1.0}, {"callback": lambda progress: True}):
        run = start(problem, **budget)
        labels = run.program.labels.sample(run.rng, 1)[0]
        fit = continue_weights(run, labels, weight_factors(6, 1e-3))
        form = run.program.fix_labels(fit.labels)
        assert fit.value == pytest.approx(form.objective(fit.w, fit.bias, fit.scalars), rel=1e-12)
        assert run.program.labels.contains(fit.labels)
        assert sum(record.stage == "continuation" for record in run.history) == 1


@pytest.mark.parametrize("options, words", [
    ({"continuation": -1}, r"continuation=-1\): expected an integer of at least 0"),
    ({"continuation": 2.5}, r"continuation=2.5\): expected an integer"),
    ({"continuation_start": 0.0}, r"continuation_start=0.0\): expected a number in \(0, 1\]"),
    ({"continuation_start": 2.0}, r"continuation_start=2.0\): expected a number in \(0, 1\]"),
    ({"continuation_start": "low"}, r"continuation_start='low'\): expected a number in \(0, 1\]"),
    ({"continuation_start": float("nan")}, r"continuation_start=nan\): expected a number in \(0, 1\]"),
])
def test_options_are_checked(options, words):
    with pytest.raises(DeclarationError, match=words):
        md.Alternating(**options)
