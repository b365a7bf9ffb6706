"""Dual coordinate descent: values, certificates, exact steps, blocks, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import margindsl.features.points as points_module
from margindsl.calculus import PLQ, Logistic, huber, maximum
from margindsl.contract import Budget, RawSolution, Status
from margindsl.errors import DeclarationError, NotInstalledError
from margindsl.features import BlockFeatures, DenseFeatures
from margindsl.features.maps import LinearMap
from margindsl.program.bounds import DecisionBound
from margindsl.program.forms import FixedLabelForm, SaddleForm
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl_solvers.dual_coordinate import DualCoordinate
from margindsl_solvers.engines.coordinate.descent import Tables
from margindsl_solvers.engines.coordinate.kernel import sweep
from margindsl_solvers.newton import Newton

LINE = PLQ.affine
HINGE = LINE(-1, 1).positive_part()
LOSSES = {
    "hinge": HINGE,
    "squared-hinge": HINGE.square(),
    "odm": LINE(-1, 0.8).positive_part().square() + 0.4 * LINE(1, -1.2).positive_part().square(),
    "epsilon-insensitive": (LINE(1, -1).absolute() - 0.25).positive_part(),
    "least-squares": LINE(1, -1).square(),
    "huber": huber(0.5).precompose(1, -1),
    "mixed": maximum(LINE(-1, 1).square(), LINE(-3, 2)),
    "affine": LINE(-1, 2),
}


def make_form(X, y, loss, weight, *, features=None, **options):
    n = len(y)
    scalars = options.pop("scalars", SharedScalars.none())
    weights = np.broadcast_to(np.asarray(weight, dtype=float), (n,)).copy()
    term = LossTerm(loss, np.arange(n), weights, np.ones(n), np.zeros(n), np.zeros((n, scalars.count)))
    features = DenseFeatures(np.asarray(X, dtype=float), LinearMap(X.shape[1])) if features is None else features
    return FixedLabelForm(features, Losses(n, (term,), scalars), y, **options)


def data(seed, n=60, r=5, shift=1.0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    return rng.normal(size=(n, r)) + shift * y[:, None] * rng.normal(size=r), y


def assert_certified(form, solution, tol=1e-6):
    primal, dual = form.objective(solution["w"]), form.dual_objective(solution["u"])
    scale = max(1.0, abs(primal))
    assert solution.status is Status.OPTIMAL, solution.message
    assert -1e-10 * scale <= primal - dual <= 1.01 * tol * scale
    return primal


@pytest.mark.parametrize("shrinking", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_values_are_those_of_newton(name, shrinking):
    for seed, weight in enumerate((0.0, 0.01, 1.0)):
        form = make_form(*data(seed), LOSSES[name], weight)
        value = assert_certified(form, DualCoordinate(shrinking=shrinking).solve(form))
        assert value == pytest.approx(Newton(tol=1e-9).solve(form).objective, rel=2e-6, abs=2e-6)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), first=st.sampled_from(sorted(LOSSES)), second=st.sampled_from(sorted(LOSSES)))
def test_any_rows_of_two_losses(seed, first, second):
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(2, 20)), int(rng.integers(1, 10))
    terms = []
    for name in (first, second):
        m = int(rng.integers(0, 30))
        weights = 0.3 * rng.random(m) * (rng.random(m) < 0.8)
        terms.append(LossTerm(LOSSES[name], rng.integers(0, n, m), weights, rng.normal(size=m), rng.normal(size=m),
                              np.zeros((m, 0))))
    X = rng.normal(size=(n, r)) * (rng.random((n, 1)) < 0.9)
    form = FixedLabelForm(DenseFeatures(X, LinearMap(r)), Losses(n, tuple(terms)),
                          np.where(rng.random(n) < 0.5, 1, -1))
    value = assert_certified(form, DualCoordinate(tol=1e-5).solve(form), 1e-5)
    assert value == pytest.approx(Newton(tol=1e-9).solve(form).objective, rel=2e-5, abs=2e-5)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(LOSSES)))
def test_one_step_is_the_prox(seed, name):
    rng = np.random.default_rng(seed)
    loss, phi, w = LOSSES[name], rng.normal(size=(1, 4)), rng.normal(size=4)
    c, a, d, u = 2 * rng.random() + 1e-3, rng.normal(), rng.normal(), rng.normal()
    tables, q = Tables.build([loss]), a * a * float(phi[0] @ phi[0])
    point, weights, before = np.array([u]), w.copy(), a * float(phi[0] @ w) + d
    zero = np.zeros(1, dtype=np.int64)
    sweep(zero, phi, zero, np.array([a]), np.array([d]), np.array([c]), np.array([q / a**2]), zero, tables.first,
          tables.knots, tables.coefficients, point, weights, np.inf, np.ones(1, dtype=bool))
    after = a * float(phi[0] @ weights) + d
    assert after == pytest.approx(float(loss.prox(before - q * u, q * c)), abs=1e-9 * (1 + abs(before) + abs(q * u)))
    low, high = loss.subdifferential(after + np.array([-1e-7, 1e-7]))
    assert low[0] - 1e-5 <= -point[0] / c <= high[1] + 1e-5


def test_blocks_give_the_value_of_the_whole(tmp_path, monkeypatch):
    X, y = data(5, n=300, r=8, shift=0.4)
    disk = np.memmap(tmp_path / "points", dtype=np.float64, mode="w+", shape=X.shape)
    disk[:] = X
    whole = assert_certified(make_form(X, y, HINGE, 0.05), DualCoordinate().solve(make_form(X, y, HINGE, 0.05)))
    monkeypatch.setattr(points_module, "BLOCK_ENTRIES", 300)
    form = make_form(X, y, HINGE, 0.05, features=BlockFeatures(disk))
    assert len(points_module.row_blocks(300, 8)) > 5
    assert assert_certified(form, DualCoordinate().solve(form)) == pytest.approx(whole, rel=2e-6)


def test_a_solution_starts_the_next_solve():
    form = make_form(*data(6, n=200), LOSSES["odm"], 0.05)
    first = DualCoordinate().solve(form)
    again = DualCoordinate().solve(form, Budget(tol=1e-6), first)
    assert again.iterations <= 1 < first.iterations
    same = DualCoordinate().solve(form)
    np.testing.assert_array_equal(first["w"], same["w"])


def test_hostile_inputs_end_in_a_status():
    X, y = data(0)
    for form in (make_form(0 * X, y, HINGE, 1.0), make_form(np.repeat(X[:2], 30, axis=0), y, HINGE, 1.0),
                 make_form(1e3 * X, y, HINGE, 1e-3), make_form(X, np.ones(len(y), dtype=int), LOSSES["odm"], 0.1)):
        assert_certified(form, DualCoordinate().solve(form))
    form = make_form(X, y, HINGE, 1.0)
    assert DualCoordinate().solve(form, Budget(tol=1e-14, max_iter=1)).status is Status.ITERATION_LIMIT
    assert DualCoordinate().solve(form, Budget.within(0.0)).status is Status.TIME_LIMIT
    stop = DualCoordinate().solve(form, Budget(callback=lambda progress: True))
    assert stop.status is Status.INTERRUPTED and np.isfinite(form.dual_objective(stop["u"]))
    broken = RawSolution(Status.OPTIMAL, {"u": np.full(len(y), np.nan)})
    assert_certified(form, DualCoordinate().solve(form, start=broken))


def test_refusals_and_options(monkeypatch):
    X, y = data(0)
    scalars = SharedScalars(np.array([1.0]), np.array([True]), ("s",))
    plain = make_form(X, y, HINGE, 1.0)
    for form, words in (
            (make_form(X, y, HINGE, 1.0, free_bias=True), "a free bias couple"),
            (make_form(X, y, HINGE, 1.0, decision=(DecisionBound(np.ones(len(y)), -1, 1),)), "decision bounds couple"),
            (make_form(X, y, HINGE, 1.0, scalars=scalars), "shared scalars couple"),
            (make_form(X, y, Logistic(), 1.0), "needs piecewise quadratic losses"),
            (make_form(X, y, PLQ.indicator(-1, 1), 1.0), "needs finite losses"),
            (SaddleForm(plain.features, plain.losses, y[None]), "solves fixed labels, not a SaddleForm")):
        answer = DualCoordinate().accepts(form)
        assert not answer and words in str(answer)
    assert DualCoordinate().solve(make_form(X, y, Logistic(), 1.0)).status is Status.FAILED
    with pytest.raises(DeclarationError, match=r"dual-coordinate\(seed=-1\): expected an integer of at least 0"):
        DualCoordinate(seed=-1)
    monkeypatch.setattr(DualCoordinate, "requires", ("numba_that_is_absent",))
    with pytest.raises(NotInstalledError, match="needs the package numba_that_is_absent"):
        DualCoordinate().solve(plain)
