"""Certificates of wide sparse features, whose rows are never formed."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import margindsl as md
from margindsl.features import SparseFeatures, build
from margindsl.program import component_rows, forms, label_certificate, weight_certificate
from margindsl.program.component_rows import ComponentRows, greatest_eigenvalue
from margindsl.program.label_certificate import escape_direction, repair_dual_point, repair_label_lift
from margindsl.program.weight_certificate import excess, is_wide, repair_weight_lift
from margindsl.relaxations.sdp import lift_labels
from margindsl.relaxations.weight_lifting import WeightLifting
from margindsl.runtime import presolve

X = sp.random(300, 1100, density=0.01, format="csr", random_state=0)


@pytest.fixture
def unrotated(monkeypatch):
    monkeypatch.setattr(presolve, "in_span", lambda features: features)


def compiled(points, relaxation, links=0, **bound):
    f = md.Hyperplane(points)
    y = md.Labels(f.n)
    constraints = [abs(md.sum(y)) <= 40] if bound else []
    constraints += [md.must_link(y, [(i, i + 1) for i in range(links)])] if links else []
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))), constraints).compile(relaxation)


@pytest.mark.parametrize("component", [np.arange(30), np.arange(30) % 7])
def test_products_and_lengths_are_those_of_the_rows(component):
    rng, features = np.random.default_rng(1), SparseFeatures.from_points(X[:30])
    weights, count = rng.normal(size=30), component.max() + 1
    rows = ComponentRows(features, component, weights, count)
    A = np.zeros((count, 30))
    A[component, np.arange(30)] = weights
    H = A @ features.toarray()
    for tail in ((), (3,)):
        W, Z = rng.normal(size=(1100, *tail)), rng.normal(size=(count, *tail))
        assert np.allclose(rows @ W, H @ W) and np.allclose(rows.T @ Z, H.T @ Z)
    assert rows.shape == H.shape and np.allclose(rows.norms, np.sum(H**2, axis=1))


def test_lengths_of_long_rows_are_summed_block_by_block(monkeypatch):
    monkeypatch.setattr(component_rows, "BLOCK", 4000)
    rows = ComponentRows(SparseFeatures.from_points(X[:30]), np.arange(30) % 7, np.ones(30), 7)
    assert np.allclose(rows.norms, np.sum((rows.T @ np.eye(7)) ** 2, axis=0))


@pytest.mark.parametrize("decay", [0.0, 1.0, 3.0])
def test_the_greatest_eigenvalue_is_bounded_from_above_and_closely(decay):
    rng = np.random.default_rng(2)
    values = (1.0 + np.arange(800)) ** -decay * rng.uniform(0.9, 1.0, 800)
    theta, bound, vector = greatest_eigenvalue(lambda v: values * v, 800)
    assert theta <= values.max() * (1 + 1e-12) and values.max() <= bound <= 1.003 * values.max()
    v = vector()
    assert float(v @ (values * v)) / float(v @ v) == pytest.approx(theta, rel=1e-6)


def test_a_vanishing_matrix_has_the_eigenvalue_zero():
    assert greatest_eigenvalue(lambda v: 0.0 * v, 5)[:2] == (0.0, 0.0)


def test_few_steps_promise_nothing():
    assert greatest_eigenvalue(lambda v: np.arange(50.0) * v, 50, steps=3)[1] == np.inf


@pytest.mark.parametrize("links, bound", [(0, {}), (0, {"at": 1}), (30, {})])
def test_a_wide_certificate_is_nearly_that_of_the_dense_rows(unrotated, monkeypatch, links, bound):
    program = compiled(X, "sdp", links, **bound).program
    form = lift_labels(program)
    u = 0.5 * form.losses.weights
    assert isinstance(form.component_rows(u), ComponentRows)
    wide = repair_label_lift(form, u)
    monkeypatch.setattr(forms, "WIDE", 10**6)
    dense = repair_label_lift(form, u)
    assert dense.bound - 5e-3 * abs(dense.bound) <= wide.bound <= dense.bound + 1e-3 * abs(dense.bound)


def test_escape_directions_agree(unrotated, monkeypatch):
    form = lift_labels(compiled(X, "sdp").program)
    u = form.losses.weights
    d = 0.5 * repair_label_lift(form, u).d
    wide = escape_direction(form, u, d, np.zeros(0), np.zeros(0))
    H = form.component_features(u)
    assert wide @ (d * wide) < np.sum((H.T @ wide) ** 2)
    assert escape_direction(form, u, 4 * d, np.zeros(0), np.zeros(0)) is None


def test_weight_lifting_proves_the_same_of_wide_features(unrotated):
    form = WeightLifting().lower(compiled(X, "weight-lifting").program)
    assert is_wide(form)
    a = np.random.default_rng(3).uniform(0.5, 1.0, form.n)
    true = float(np.linalg.eigvalsh(form.features.gram(a))[-1])
    assert true <= excess(form, a, np.zeros(0)) <= 1.003 * true
    certificate = repair_weight_lift(form, np.zeros((form.order, 1)), a)
    assert certificate.bound <= repair_weight_lift(form, np.zeros((form.order, 1)), a, gram=form.features.gram(a)).bound


@pytest.mark.parametrize("relaxation", ["weight-lifting", "sdp", "minimax", "alternating", "cccp"])
def test_wide_solves_agree_with_rotated_ones(relaxation, request, monkeypatch):
    for module in (forms, weight_certificate):  # a hundred columns are as wide as a thousand, and sooner solved for
        monkeypatch.setattr(module, "WIDE", 50)
    points = sp.random(8, 110, density=0.2, format="csr", random_state=1)
    rotated = compiled(points, relaxation).solve(random_state=0, tol=1e-3)
    request.getfixturevalue("unrotated")
    wide = compiled(points, relaxation).solve(random_state=0, tol=1e-3)
    assert not wide.features.is_dense and wide.weights.shape == rotated.weights.shape == (110,)
    assert wide.value == pytest.approx(rotated.value, rel=0.1)  # labels may be other local optima
    assert max(wide.bound, rotated.bound) <= min(wide.value, rotated.value) * (1 + 1e-9)
    if relaxation not in ("alternating", "cccp"):
        assert wide.verify() and wide.bound == pytest.approx(rotated.bound, rel=1e-2)


def test_narrow_and_dense_features_keep_dense_rows():
    for points in (X[:, :500], X[:40].toarray()):
        form = lift_labels(compiled(points, "sdp").program)
        assert isinstance(form.component_rows(form.losses.weights), np.ndarray)
    assert build(X).rank == 1100


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "held bias"])
@pytest.mark.parametrize("links", [0, 12])
def test_rows_that_stay_with_workers_prove_what_rows_in_memory_prove(links, bias, monkeypatch):
    points = np.random.default_rng(4).normal(size=(60, 4))
    f, y = md.Hyperplane(da.from_array(points, chunks=(25, 4)), bias=bias), md.Labels(60)
    constraints = [abs(md.sum(y)) <= 8, *([md.must_link(y, [(i, i + 1) for i in range(links)])] if links else [])]
    constraints += [abs(md.sum(f)) <= 3.0] if bias else []
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))), constraints)
    form = lift_labels(problem.compile("sdp").program)
    u, kappa = 0.5 * form.losses.weights, np.full(len(form.balance), 1e-3)
    d = repair_label_lift(form, u, kappa).d / 2
    monkeypatch.setattr(label_certificate, "DENSE_ORDER", 0)
    near = repair_dual_point(form, u, d, kappa, np.full(len(form.decision), 0.1))
    monkeypatch.setattr(forms, "FETCHED", 0)
    assert isinstance(form.component_rows(u), ComponentRows)
    far = repair_dual_point(form, u, d, kappa, np.full(len(form.decision), 0.1))
    assert np.isfinite(far.bound)
    assert far.bound == pytest.approx(near.bound, rel=1e-9)
