"""Fixed labels: newton and lbfgs against cvxpy written by hand, and against their own certificates."""

import time

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from margindsl.calculus import PLQ, Logistic, huber, maximum, square
from margindsl.contract import Budget, RawSolution, Status
from margindsl.features import DenseFeatures
from margindsl.features.maps import LinearMap
from margindsl.program.bounds import DecisionBound
from margindsl.program.forms import FixedLabelForm, SaddleForm
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl_solvers.lbfgs import LBFGS
from margindsl_solvers.newton import Newton

LINE = PLQ.affine
HINGE = LINE(-1, 1).positive_part()
# Each loss with the same function written for cvxpy.
LOSSES = {
    "hinge": (HINGE, lambda g: cp.pos(1 - g)),
    "squared-hinge": (HINGE.square(), lambda g: cp.square(cp.pos(1 - g))),
    "odm": (LINE(-1, 0.75).positive_part().square() + 0.5 * LINE(1, -1.25).positive_part().square(),
            lambda g: cp.square(cp.pos(0.75 - g)) + 0.5 * cp.square(cp.pos(g - 1.25))),
    "epsilon-insensitive": ((LINE(1, -1).absolute() - 0.25).positive_part(),
                            lambda g: cp.pos(cp.abs(g - 1) - 0.25)),
    "least-squares": (LINE(1, -1).square(), lambda g: cp.square(g - 1)),
    "huber": (huber(0.5).precompose(1, -1), lambda g: cp.huber(g - 1, 0.5)),
    "maximum": (maximum(LINE(-1, 1).square(), LINE(-3, 2)),
                lambda g: cp.maximum(cp.square(1 - g), 2 - 3 * g)),
    "logistic": (Logistic(), lambda g: cp.logistic(-g)),
}
SMOOTH = ["squared-hinge", "odm", "least-squares", "huber", "logistic"]


def make_form(X, y, loss, weight, *, slope=1.0, coupling=None, scalars=None, decision=(), bias=False):
    """Return a form with one row a point."""
    n = len(y)
    scalars = scalars or SharedScalars.none()
    coupling = np.zeros((n, scalars.count)) if coupling is None else coupling
    weights = np.broadcast_to(np.asarray(weight, dtype=float), (n,)).copy()
    term = LossTerm(loss, np.arange(n), weights, np.full(n, slope), np.zeros(n), coupling)
    return FixedLabelForm(DenseFeatures(np.asarray(X, dtype=float), LinearMap(X.shape[1])),
                          Losses(n, (term,), scalars), (y + 1) // 2, decision=decision, free_bias=bias)


def random_data(seed, n=40, r=5, shift=1.0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    return rng.normal(size=(n, r)) + shift * y[:, None] * rng.normal(size=r), y


def values(form, solution):
    primal = form.objective(solution["w"], solution["bias"], solution["scalars"])
    return primal, form.dual_objective(solution["u"], solution["tau"])


def assert_certified(form, solution, tol=1e-9):
    primal, dual = values(form, solution)
    scale = max(1.0, abs(primal))
    assert solution.status is Status.OPTIMAL, solution.message
    assert abs(primal - dual) <= tol * scale
    assert form.dual_residual(solution["u"], solution["tau"]) <= tol * scale
    assert form.primal_residual(solution["w"], solution["bias"], solution["scalars"]) <= 1e-9
    return primal


@pytest.mark.parametrize("name, bias", [(name, i % 2 == 1) for i, name in enumerate(LOSSES)])
def test_newton_reaches_the_value_of_an_independent_model(name, bias):
    loss, atom = LOSSES[name]
    for seed in range(5):
        X, y = random_data(seed)
        weight = [0.01, 0.1, 1.0, 10.0, 100.0][seed]
        form = make_form(X, y, loss, weight, bias=bias)
        value = assert_certified(form, Newton(tol=1e-9).solve(form))
        w, b = cp.Variable(X.shape[1]), cp.Variable()
        margins = cp.multiply(y, X @ w + (b if bias else 0))
        problem = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + weight * cp.sum(atom(margins))))
        problem.solve(solver=cp.CLARABEL)
        assert value == pytest.approx(problem.value, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_decision_bounds_hold_and_are_optimal(name):
    loss, atom = LOSSES[name]
    X, y = random_data(7, shift=0.3)
    a = np.random.default_rng(1).normal(size=len(y))
    decision = (DecisionBound(np.full(len(y), 1 / len(y)), 0.05, 0.1), DecisionBound(a, -0.5, 0.5))
    form = make_form(X, y, loss, 2.0, decision=decision, bias=True)
    value = assert_certified(form, Newton(tol=1e-9).solve(form))
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    f = X @ w + b
    constraints = [bound.weights @ f >= bound.lower for bound in decision]
    constraints += [bound.weights @ f <= bound.upper for bound in decision]
    objective = cp.sum_squares(w) / 2 + 2 * cp.sum(atom(cp.multiply(y, f)))
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL)
    assert value == pytest.approx(problem.value, rel=1e-5)


@pytest.mark.parametrize("nonneg", [False, True])
@pytest.mark.parametrize("cost", [-1.0, -0.2, 0.3])
@pytest.mark.parametrize("bias", [False, True])
def test_adaptive_threshold(nonneg, cost, bias):
    X, y = random_data(3, shift=0.1)
    n = len(y)
    scalars = SharedScalars(np.array([cost]), np.array([nonneg]), ("s",))
    form = make_form(X, y, LINE(1, 0).positive_part(), 2 / n, slope=-1.0, coupling=np.ones((n, 1)),
                     scalars=scalars, bias=bias)
    solution = Newton(tol=1e-9).solve(form)
    if cost > 0 and not nonneg:
        assert solution.status is Status.UNBOUNDED
        assert "falls without end" in solution.message
        return
    value = assert_certified(form, solution)
    w, b, s = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
    hinge = cp.sum(cp.pos(s - cp.multiply(y, X @ w + (b if bias else 0)))) * 2 / n
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + cost * s + hinge), [s >= 0] if nonneg else [])
    problem.solve(solver=cp.CLARABEL)
    assert value == pytest.approx(problem.value, abs=1e-6)


def test_mean_variance_form_has_its_closed_solution():
    X, y = random_data(5)
    n = len(y)
    scalars = SharedScalars(np.array([-1.0]), np.array([False]), ("mean",))
    form = make_form(X, y, square(), 2 / n, coupling=-np.ones((n, 1)), scalars=scalars)
    value = assert_certified(form, Newton(tol=1e-10).solve(form))
    A = np.column_stack([y[:, None] * X, -np.ones(n)])
    H = np.diag([1.0] * X.shape[1] + [0.0]) + 4 / n * A.T @ A
    q = np.r_[np.zeros(X.shape[1]), -1.0]
    assert value == pytest.approx(-0.5 * q @ np.linalg.solve(H, q), rel=1e-10)


def is_one_sided(term, y):
    """Return whether there are rows, and a bias makes all their arguments large."""
    sides = np.sign(term.slopes * y[term.points])[term.weights > 0]
    return len(np.unique(sides)) == 1


@example(seed=0, name="logistic", bias=True, exponent=-5.0, rows=2)
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(LOSSES)), bias=st.booleans(),
       exponent=st.floats(-6, 4), rows=st.integers(2, 60))
def test_gap_closes_for_any_rows(seed, name, bias, exponent, rows):
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(2, 20)), int(rng.integers(1, 30))
    X, y = rng.normal(size=(n, r)), np.where(rng.random(n) < 0.5, 1, -1)
    weights = 10**exponent * rng.random(rows) * (rng.random(rows) < 0.8)
    term = LossTerm(LOSSES[name][0], rng.integers(0, n, rows), weights, rng.normal(size=rows),
                    rng.normal(size=rows), np.zeros((rows, 0)))
    form = FixedLabelForm(DenseFeatures(X, LinearMap(r)), Losses(n, (term,)), (y + 1) // 2, free_bias=bias)
    solution = Newton(tol=1e-8).solve(form)
    if solution.status is Status.UNBOUNDED:
        far = [form.objective(np.zeros(r), b) for b in (-1e9, 1e9)]
        assert min(far) < form.objective(np.zeros(r), 0.0) - 1.0
        return
    if name == "logistic" and bias and is_one_sided(term, y):  # the infimum is zero, which no finite bias attains
        assert solution.status in (Status.OPTIMAL, Status.INACCURATE)
        assert 0 <= values(form, solution)[0] <= 1e-6 * form.objective(np.zeros(r), 0.0)
        return
    primal = assert_certified(form, solution, 1e-8)
    for _ in range(5):  # no nearby point is better
        other = solution["w"] + 1e-3 * rng.normal(size=r)
        moved = solution["bias"] + (1e-3 * rng.normal() if bias else 0.0)
        assert form.objective(other, moved) >= primal - 1e-8 * max(1.0, abs(primal))


@pytest.mark.parametrize("name", LOSSES)
def test_multipliers_are_subgradients(name):
    X, y = random_data(11)
    loss = LOSSES[name][0]
    form = make_form(X, y, loss, 1.0, bias=True)
    solution = Newton(tol=1e-10).solve(form)
    margins = form.margins(form.outputs(solution["w"], solution["bias"]))
    nearby = np.stack([margins - 1e-5, margins + 1e-5])
    low, high = np.asarray(loss.derivative(nearby[0])), np.asarray(loss.derivative(nearby[1]))
    assert np.all(-solution["u"] >= low - 1e-4) and np.all(-solution["u"] <= high + 1e-4)
    np.testing.assert_allclose(form.dual_direction(solution["u"], solution["tau"]), solution["w"], atol=1e-4)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    "kind", ["two", "duplicates", "zero features", "one class", "rank", "wide", "no weight"])
def test_degenerate_problems(name, kind):
    X, y = random_data(2)
    weight = 3.0
    if kind == "two":
        X, y, weight = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1, -1]), 1e6
    elif kind == "duplicates":
        X, y = np.repeat(X[:3], 20, axis=0), np.repeat([1, -1, 1], 20)
    elif kind == "zero features":
        X = 0 * X
    elif kind == "one class":
        y = np.ones(len(y), dtype=int)
    elif kind == "rank":
        X = np.column_stack([X, X, X])
    elif kind == "wide":
        X = np.random.default_rng(0).normal(size=(40, 150))
    else:
        weight = 0.0
    form = make_form(X, y, LOSSES[name][0], weight, bias=True)
    solution = Newton(tol=1e-9).solve(form)
    assert_certified(form, solution)
    if kind == "no weight":
        np.testing.assert_array_equal(solution["w"], 0.0)


@pytest.mark.parametrize("limit", [3, 4000])
def test_wide_features_agree_with_narrow_ones(limit):
    """Woodbury (4000) and conjugate gradients (3) find the value of the same kernel with fewer columns."""
    X = np.random.default_rng(0).normal(size=(30, 200))
    narrow = np.linalg.cholesky(X @ X.T)
    y = np.where(np.arange(30) % 2, 1, -1)
    bound = (DecisionBound(np.full(30, 1 / 30), 0.5, 0.5),)
    wide_form, narrow_form = (make_form(Z, y, HINGE, 0.02, bias=True, decision=bound) for Z in (X, narrow))
    wide = assert_certified(wide_form, Newton(tol=1e-9, dense_limit=limit).solve(wide_form))
    assert wide == pytest.approx(assert_certified(narrow_form, Newton(tol=1e-9).solve(narrow_form)), rel=1e-8)


@pytest.mark.parametrize("name", SMOOTH)
def test_lbfgs_agrees_with_newton(name):
    X, y = random_data(4)
    for weight in (0.01, 1.0, 100.0):
        form = make_form(X, y, LOSSES[name][0], weight, bias=True)
        value = assert_certified(form, LBFGS(tol=1e-6).solve(form), 1e-6)
        assert value == pytest.approx(assert_certified(form, Newton(tol=1e-9).solve(form)), rel=1e-6)


def test_lbfgs_sees_a_free_fall():
    X, y = random_data(0)
    form = make_form(X, y, LINE(-1, 0), 1.0, bias=True)
    for solver in (LBFGS(), Newton()):
        solution = solver.solve(form)
        assert solution.status is Status.UNBOUNDED and "falls without end" in solution.message


def test_lbfgs_refuses_and_says_what_to_use():
    X, y = random_data(0)
    n = len(y)
    bound = (DecisionBound(np.ones(n), -1.0, 1.0),)
    signed = SharedScalars(np.ones(1), np.array([True]))
    cases = {
        "smooth loss": make_form(X, y, HINGE, 1.0),
        "1 decision bounds": make_form(X, y, square(), 1.0, decision=bound),
        "non-negative": make_form(X, y, square(), 1.0, coupling=np.ones((n, 1)), scalars=signed),
    }
    for word, form in cases.items():
        refusal = LBFGS().accepts(form)
        assert not refusal and word in str(refusal) and "solver='newton' or 'clarabel'" in str(refusal)
        solution = LBFGS().solve(form)
        assert solution.status is Status.FAILED and word in solution.message
        assert Newton().accepts(form)
    saddle = SaddleForm(cases["smooth loss"].features, cases["smooth loss"].losses, (y[None, :] + 1) // 2)
    for solver in (Newton(), LBFGS()):
        assert "not a SaddleForm" in str(solver.accepts(saddle))


@pytest.mark.parametrize("solver,name", [(Newton(tol=1e-9), k) for k in LOSSES] + [(LBFGS(tol=1e-6), "odm")])
def test_a_warm_start_saves_iterations(solver, name):
    X, y = random_data(8, n=80, shift=0.3)
    form = make_form(X, y, LOSSES[name][0], 1.0, bias=True)
    cold = solver.solve(form)
    warm = solver.solve(form, start=cold)
    assert warm.status is Status.OPTIMAL and warm.iterations < cold.iterations
    assert values(form, warm)[0] == pytest.approx(values(form, cold)[0], rel=1e-6)


def test_a_start_of_another_shape_or_not_finite_is_ignored():
    X, y = random_data(8)
    form = make_form(X, y, HINGE, 1.0, bias=True)
    value = assert_certified(form, Newton(tol=1e-9).solve(form))
    for w in (np.zeros(2), np.full(X.shape[1], np.nan)):
        start = RawSolution(Status.OPTIMAL, {"w": w, "u": np.zeros(3)})
        again = assert_certified(form, Newton(tol=1e-9).solve(form, start=start))
        assert again == pytest.approx(value, rel=1e-8)


def test_impossible_decision_bounds_are_named():
    X, y = random_data(0)
    mean = np.full(len(y), 1 / len(y))
    for bounds in ((DecisionBound(mean, 0.1, 0.2), DecisionBound(mean, 0.3, 0.4)),
                   (DecisionBound(0 * mean, 0.1, 0.2),)):
        solution = Newton().solve(make_form(X, y, HINGE, 1.0, decision=bounds, bias=True))
        assert solution.status is Status.INFEASIBLE and "decision bounds" in solution.message
    centred = make_form(X - X.mean(axis=0), y, HINGE, 1.0, decision=(DecisionBound(mean, 0.1, 0.2),))
    assert Newton().solve(centred).status is Status.INFEASIBLE


@pytest.mark.parametrize("name", ["odm", "hinge"])
def test_limits_are_honoured_with_a_usable_answer(name):
    X, y = random_data(9, n=200, shift=0.2)
    form = make_form(X, y, LOSSES[name][0], 100.0, bias=True)
    best = assert_certified(form, Newton(tol=1e-9).solve(form))
    stops = {
        Status.ITERATION_LIMIT: Budget(tol=1e-12, max_iter=1),
        Status.TIME_LIMIT: Budget(tol=1e-12, deadline=time.monotonic()),
        Status.INTERRUPTED: Budget(tol=1e-12, callback=lambda progress: True),
    }
    for status, budget in stops.items():
        solution = Newton().solve(form, budget)
        assert solution.status is status and solution.iterations <= 20
        assert values(form, solution)[0] >= best * (1 - 1e-9)


def test_the_trace_ends_with_the_closed_gap():
    X, y = random_data(9)
    for solver, name in ((Newton(tol=1e-9), "hinge"), (LBFGS(tol=1e-6), "odm")):
        solution = solver.solve(make_form(X, y, LOSSES[name][0], 1.0))
        seconds, primal, dual = (np.array(column) for column in zip(*solution.trace))
        assert np.all(np.diff(seconds) >= 0)
        assert abs(primal[-1] - dual[-1]) <= solver.tol * max(1.0, abs(primal[-1]))
        assert {"compile", "solve"} <= set(solution.seconds)


def test_many_points():
    X, y = random_data(1, n=50_000, r=20, shift=0.1)
    for name in ("odm", "hinge"):
        form = make_form(X, y, LOSSES[name][0], 100 / len(y), bias=True)
        assert_certified(form, Newton(tol=1e-9).solve(form))
