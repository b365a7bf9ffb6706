"""Cutting-plane subspace pursuit: values at a full basis, honest gaps at a small one, sessions, limits."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from margindsl.calculus import PLQ, Logistic
from margindsl.contract import Budget, RawSolution, Status
from margindsl.errors import DeclarationError, UnknownNameError
from margindsl.features import RBF, DenseFeatures, Polynomial, build
from margindsl.features.maps import LinearMap
from margindsl.program.bounds import DecisionBound
from margindsl.program.forms import FixedLabelForm, SaddleForm
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl_solvers.conic import Clarabel
from margindsl_solvers.cpsp import CPSP
from margindsl_solvers.engines.cuts.basis import Basis, PreImages
from margindsl_solvers.newton import Newton

LINE = PLQ.affine
HINGE = LINE(-1, 1).positive_part()
LOSSES = {
    "hinge": HINGE,
    "squared-hinge": HINGE.square(),
    "odm": LINE(-1, 0.8).positive_part().square() + 0.4 * LINE(1, -1.2).positive_part().square(),
    "epsilon-insensitive": (LINE(1, -1).absolute() - 0.25).positive_part(),
    "logistic": Logistic(),
}


def points(seed, n=60, r=5):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1, 0)
    return rng.normal(size=(n, r)) + (y - 0.5)[:, None] * rng.normal(size=r), y


def make_form(features, y, loss, weight, *, decision=(), bias=False):
    n = len(y)
    term = LossTerm(loss, np.arange(n), np.full(n, float(weight)), np.ones(n), np.zeros(n), np.zeros((n, 0)))
    return FixedLabelForm(features, Losses(n, (term,)), y, decision=decision, free_bias=bias)


def dense(X):
    return DenseFeatures(np.asarray(X, dtype=float), LinearMap(X.shape[1]))


def threshold_form(features, y, C=10.0, l=0.0):
    """SKMMC Eq. 10 with the balance of Eq. 3: losses C/n (rho - y f)_+, linear term -rho."""
    n = len(y)
    scalars = SharedScalars(np.array([-1.0]), np.array([True]), ("rho",))
    term = LossTerm(LINE(1, 0).positive_part(), np.arange(n), np.full(n, C / n), np.full(n, -1.0), np.zeros(n),
                    np.ones((n, 1)))
    return FixedLabelForm(features, Losses(n, (term,), scalars), y, decision=(DecisionBound(np.ones(n), -l, l),),
                          free_bias=True)


def gaussian(seed=0, n=120):
    """Two overlapping clouds under a Gaussian kernel: classes that a hyperplane parts up to a few points."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1, 0)
    X = rng.normal(size=(n, 2)) + np.column_stack([3.0 * y - 1.5, 0 * y])
    return build(X, RBF(1.0)), y


def values(form, raw):
    return (form.dual_objective(raw["u"], raw["tau"]),
            form.objective(raw["w"], raw["bias"], raw["scalars"]))


def assert_certified(form, raw, tol=1e-6):
    lower, upper = values(form, raw)
    scale = max(1.0, abs(upper))
    assert raw.status is Status.OPTIMAL, raw.message
    assert -1e-9 * scale <= upper - lower + tol * scale and upper - lower <= 2 * tol * scale
    assert form.dual_residual(raw["u"], raw["tau"]) <= tol * scale
    assert form.primal_residual(raw["w"], raw["bias"], raw["scalars"]) <= 1e-9
    return upper


@pytest.mark.parametrize("name, bias", [(name, i % 2 == 1) for i, name in enumerate(LOSSES)])
def test_values_at_a_full_basis_are_those_of_newton(name, bias):
    for seed, weight in enumerate((0.01, 1.0, 30.0)):
        X, y = points(seed)
        form = make_form(dense(X), y, LOSSES[name], weight, bias=bias)
        value = assert_certified(form, CPSP().solve(form))
        assert value == pytest.approx(Newton(tol=1e-9).solve(form).objective, rel=2e-6, abs=2e-6)


def test_the_threshold_problem_agrees_with_clarabel():
    features, y = gaussian()
    for form in (threshold_form(features, y), threshold_form(features, y, C=3.0, l=2.0)):
        raw = CPSP(tol=1e-7).solve(form)
        reference = Clarabel().solve(form)
        assert raw["scalars"][0] > 0
        assert assert_certified(form, raw, 1e-7) == pytest.approx(form.objective(
            reference["w"], reference["bias"], reference["scalars"]), abs=2e-7)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(LOSSES)), bias=st.booleans())
@example(seed=5000, name="logistic", bias=False)  # the bounds meet in a point
@example(seed=262143, name="hinge", bias=True)  # a dual point outside the equalities, of the highest value, was kept
def test_decision_bounds_that_exclude_zero_and_one_sided_ones(seed, name, bias):
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(6, 30)), int(rng.integers(2, 8))
    X, y = rng.normal(size=(n, r)), np.where(rng.random(n) < 0.5, 1, 0)
    y[:2] = 1, 0  # a bias with one class alone has no finite optimum for some losses
    decision = (DecisionBound(rng.normal(size=n), 0.5, 2.0), DecisionBound(rng.normal(size=n), -np.inf, 0.5))
    form = make_form(dense(X), y, LOSSES[name], rng.random() + 0.01, decision=decision, bias=bias)
    value = assert_certified(form, CPSP(tol=1e-5).solve(form), 1e-5)
    wide = dataclasses.replace(form, decision=(decision[0], DecisionBound(decision[1].weights, -1e4, 0.5)))
    assert value == pytest.approx(Newton(tol=1e-8).solve(wide).objective, rel=3e-5, abs=3e-5)


def test_the_gap_shrinks_with_the_basis_and_is_never_understated():
    features, y = gaussian()
    form = make_form(features, y, HINGE, 10 / len(y), bias=True)
    optimum = Newton(tol=1e-9).solve(form).objective
    gaps = []
    for size in (2, 5, 10, 20, 40):
        raw = CPSP(max_basis=size).solve(form)
        lower, upper = values(form, raw)
        assert len(raw["basis"]) <= size
        assert lower <= optimum + 1e-6 and optimum - 1e-6 <= upper
        if raw.status is not Status.OPTIMAL:
            assert raw.status is Status.INACCURATE and "a larger max_basis" in raw.message
        gaps.append(upper - lower)
    assert gaps[0] > 0.1 * optimum
    assert all(later <= 1.05 * earlier for earlier, later in pairwise(gaps))
    assert gaps[-1] <= 1e-3 * optimum


def test_what_the_span_misses_is_half_the_squared_residual():
    # gap of the whole problem = gap in the span + ½‖(I − P)Ψ‖² (the dual point is the same)
    features, y = gaussian()
    form = make_form(features, y, HINGE, 10 / len(y))
    raw = CPSP(max_basis=10, tol=1e-8).solve(form)
    psi = features.adjoint(form.own[:, 0] * raw["u"])
    rows = features.rows(raw["basis"])
    inside = rows.T @ np.linalg.lstsq(rows.T, psi, rcond=None)[0]
    lower, upper = values(form, raw)
    missed = 0.5 * float((psi - inside) @ (psi - inside))
    assert missed > 0
    assert upper - lower == pytest.approx(missed, rel=0.1)


def test_the_hyperplane_is_carried_by_the_basis():
    features, y = gaussian()
    form = threshold_form(features, y)
    raw = CPSP(max_basis=15).solve(form)
    assert len(set(raw["basis"].tolist())) == len(raw["basis"]) <= 15
    np.testing.assert_allclose(features.rows(raw["basis"]).T @ raw["coefficients"], raw["w"], atol=1e-8)


def test_the_next_point_is_the_best_of_all_points():
    features, _ = gaussian(n=50)
    rng = np.random.default_rng(3)
    target = features.adjoint(rng.normal(size=(50, 1)))
    basis, Phi = Basis.empty(features), features.toarray()

    def error(chosen):
        rows = Phi[chosen]
        return np.linalg.norm(target - rows.T @ np.linalg.lstsq(rows.T, target, rcond=None)[0])

    chosen: list[int] = []
    for _ in range(4):
        basis = basis.grown(target, 1)
        brute = min(error([*chosen, i]) for i in range(50) if i not in chosen)
        chosen = basis.chosen.tolist()
        assert error(chosen) == pytest.approx(brute, rel=1e-9)
        assert np.linalg.norm(basis.residual(target)) == pytest.approx(brute, rel=1e-6)
    Q = basis.directions
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(basis.columns, Phi @ Q, atol=1e-12)
    np.testing.assert_allclose(basis.left, np.sum((Phi - Phi @ Q @ Q.T) ** 2, axis=1), atol=1e-10)


def test_duplicates_add_nothing_to_a_basis():
    features = dense(np.repeat(np.eye(3)[:2], 5, axis=0))
    basis = Basis.empty(features).grown(np.ones((3, 1)), 10)
    assert basis.size == 2
    assert basis.grown(np.ones((3, 1)), 10).size == 2


def test_eta_bounds_the_gap_by_the_loss_at_zero_margins():
    features, y = gaussian()
    form = threshold_form(features, y)
    for eta in (0.3, 0.03):
        raw = CPSP(eta=eta).solve(form)
        lower, upper = values(form, raw)
        assert raw.status is Status.OPTIMAL
        assert upper - lower <= 1.001 * eta * 10.0 * raw["scalars"][0]  # Eq. 13: C ρ η
    assert CPSP(eta=0.3).solve(form).iterations < CPSP().solve(form).iterations


def test_a_session_keeps_the_basis_and_warm_starts():
    features, y = gaussian(n=300)
    form = make_form(features, y, HINGE, 10 / len(y), bias=True)
    session = CPSP().open(form)
    first = session.solve(form, Budget(tol=1e-5))
    changed = y.copy()
    changed[:3] = 1 - changed[:3]
    near = dataclasses.replace(form, labels=changed)
    warm, cold = session.solve(near, Budget(tol=1e-5), first), CPSP().solve(near, Budget(tol=1e-5))
    assert warm.objective == pytest.approx(cold.objective, rel=3e-5)
    assert warm.iterations < cold.iterations
    assert set(first["basis"]) <= set(warm["basis"])


def test_a_full_basis_makes_room_for_other_labels():
    features, y = gaussian()
    form = make_form(features, y, HINGE, 10 / len(y))
    other = dataclasses.replace(form, labels=np.where(np.arange(len(y)) % 2, 1, 0))
    session = CPSP(max_basis=12).open(form)
    session.solve(form, Budget())
    again, fresh = session.solve(other, Budget()), CPSP(max_basis=12).solve(other)
    assert len(again["basis"]) <= 12
    assert values(other, again)[0] <= values(other, fresh)[1]
    assert again.objective <= 1.2 * fresh.objective


def test_limits_and_hostile_inputs_end_in_a_status():
    features, y = gaussian()
    form = threshold_form(features, y)
    for budget, status in ((Budget(tol=1e-12, max_iter=1), Status.ITERATION_LIMIT),
                           (Budget.within(0.0), Status.TIME_LIMIT),
                           (Budget(callback=lambda progress: True), Status.INTERRUPTED)):
        raw = CPSP().solve(form, budget)
        assert raw.status is status
        assert form.primal_residual(raw["w"], raw["bias"], raw["scalars"]) <= 1e-9
    X, y = points(0)
    for hostile in (make_form(dense(0 * X), y, HINGE, 1.0, bias=True),
                    make_form(dense(X), np.ones_like(y), HINGE, 1.0, bias=True),
                    make_form(dense(X), y, HINGE, 0.0, bias=True),
                    make_form(dense(np.column_stack([X, X])), y, LOSSES["odm"], 1e-6),
                    make_form(dense(np.repeat(X[:2], 30, axis=0)), y, HINGE, 1e4),
                    make_form(dense(1e-6 * X), y, HINGE, 1e4)):
        assert_certified(hostile, CPSP(tol=1e-5).solve(hostile), 1e-5)
    impossible = make_form(dense(0 * X), y, HINGE, 1.0, decision=(DecisionBound(np.ones(len(y)), 1.0, 2.0),))
    answer = CPSP().solve(impossible)
    assert answer.status is Status.INFEASIBLE and "no weights and bias satisfy" in answer.message
    broken = RawSolution(Status.OPTIMAL, {"w": np.full(X.shape[1], np.nan)})
    good = make_form(dense(X), y, HINGE, 1.0)
    assert_certified(good, CPSP().solve(good, start=broken))


def test_a_threshold_that_nothing_holds_is_unbounded():
    features, y = gaussian()
    answer = CPSP().solve(threshold_form(features, y, C=0.5))
    assert answer.status is Status.UNBOUNDED and "falls without end" in answer.message


def test_refusals_and_options():
    X, y = points(0)
    form = make_form(dense(X), y, HINGE, 1.0)
    assert "cpsp solves fixed labels, not a SaddleForm" in str(
        CPSP().accepts(SaddleForm(form.features, form.losses, y[None])))
    assert CPSP().accepts(form) and CPSP().accepts(threshold_form(*gaussian()))
    with pytest.raises(DeclarationError, match=r"cpsp\(max_basis=0\): expected an integer of at least 1"):
        CPSP(max_basis=0)
    with pytest.raises(DeclarationError, match=r"cpsp\(eta=-0.1\): expected a positive finite number or None"):
        CPSP(eta=-0.1)
    with pytest.raises(UnknownNameError, match="basis_size"):
        CPSP(basis_size=3)


@pytest.mark.parametrize("constant", [False, True])
def test_preimages_are_points_of_space_that_carry_the_hyperplane(constant):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 2
    features = build(X, RBF(2.0), penalised_bias=constant)
    form = make_form(features, y, HINGE, 10 / 60, bias=not constant)
    value = assert_certified(form, CPSP(basis="preimages").solve(form))
    assert value == pytest.approx(assert_certified(form, CPSP().solve(form)), rel=2e-6)
    raw = CPSP(basis="preimages", max_basis=6, per_round=1).solve(form)
    lower, upper = values(form, raw)
    assert lower <= value + 1e-6 and value - 1e-6 <= upper and len(raw["preimages"]) == 6
    np.testing.assert_allclose(features.transform(raw["preimages"]).T @ raw["coefficients"], raw["w"], atol=1e-8)
    nearest = np.linalg.norm(raw["preimages"][:, None] - X, axis=2).min(axis=1)
    assert np.any(nearest > 0.1)


def test_a_preimage_is_where_the_derivative_of_equation_45_vanishes():
    rng = np.random.default_rng(1)
    X, z = rng.normal(size=(50, 3)), rng.normal(size=50)
    features = build(X, RBF(1.5), centre=False)
    psi = features.adjoint(z)[:, None]
    basis = PreImages.empty(features).grown(psi, 1)
    b = basis.chosen[0]
    for _ in range(200):  # Eq. 47 from there, by hand
        k = z * RBF(1.5).matrix(X, b[None])[:, 0]
        b = k @ X / k.sum()
    assert np.linalg.norm(b - basis.chosen[0]) < 0.5
    assert np.linalg.norm(basis.residual(psi)) <= np.linalg.norm(Basis.empty(features).grown(psi, 1).residual(psi))


def test_preimages_are_for_gaussian_kernels():
    X, y = points(0)
    for features in (dense(X), build(X, Polynomial(2))):
        answer = CPSP(basis="preimages").accepts(make_form(features, y, HINGE, 1.0))
        assert not answer and "Gaussian kernel" in str(answer) and "basis='points'" in str(answer)
