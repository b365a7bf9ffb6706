"""Certificates of wide sparse features, whose rows are never formed."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import margindsl as md
from margindsl.features import SparseFeatures, build
from margindsl.program import component_rows, lift_certificate
from margindsl.program.component_rows import ComponentRows, greatest_eigenvalue
from margindsl.program.lift import LiftPoint
from margindsl.program.lift_certificate import greatest_excess, is_wide, repair_lift
from margindsl.relaxations.lift import lift
from margindsl.runtime import presolve

X = sp.random(80, 1100, density=0.01, format="csr", random_state=0)


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


@pytest.mark.parametrize("links, bound, whole, given", [
    (0, {}, False, False), (0, {}, True, True), (30, {"at": 1}, True, False)])
def test_a_wide_certificate_is_nearly_that_of_the_dense_rows(unrotated, monkeypatch, links, bound, whole, given):
    form = lift(compiled(X, "sdp", links, **bound).program, whole=whole)
    monkeypatch.setattr(lift_certificate, "WIDE", 10**6)
    answer = {"u": 0.5 * form.losses.weights, "q": -0.1 * form.losses.weights}
    if given:
        answer["d"] = repair_lift(form, answer).arrays["d"][:form.count]
    elif form.count:  # the ascent to a d sees HHᵀ, not HP⁻¹Hᵀ, of wide features
        del answer["q"]
    dense = repair_lift(form, answer)
    monkeypatch.undo()
    monkeypatch.setattr(lift_certificate, "DENSE_ORDER", 0)  # a thousand columns are wide whatever the points
    assert is_wide(form)
    wide = repair_lift(form, answer)
    assert dense.bound - 5e-3 * abs(dense.bound) <= wide.bound <= dense.bound + 1e-3 * abs(dense.bound)


def test_an_excess_of_wide_features_is_bounded_closely(unrotated, monkeypatch):
    monkeypatch.setattr(lift_certificate, "DENSE_ORDER", 0)
    form = lift(compiled(X, "weight-lifting").program)
    a, none = np.random.default_rng(3).uniform(0.5, 1.0, form.n), np.zeros(0)
    true = float(np.linalg.eigvalsh(form.features.gram(a))[-1])
    values, W = greatest_excess(form, LiftPoint(np.zeros(form.n), -0.5 * a, none, none, none, none))
    found, vector = float(values[0]), W[:, 0]
    assert true <= found <= 1.003 * true
    assert vector @ form.features.adjoint(a * form.features.apply(vector)) > 0.99 * true * (vector @ vector)


@pytest.mark.parametrize("relaxation", ["weight-lifting", md.SDP(cuts="none"), "minimax", "alternating", "cccp"])
def test_wide_solves_agree_with_rotated_ones(relaxation, request, monkeypatch):
    monkeypatch.setattr(lift_certificate, "WIDE", 50)  # sixty columns are as wide as a thousand, and sooner solved
    points = sp.random(6, 60, density=0.2, format="csr", random_state=1)
    rotated = compiled(points, relaxation).solve(random_state=0, tol=1e-3)
    request.getfixturevalue("unrotated")
    wide = compiled(points, relaxation).solve(random_state=0, tol=1e-3)
    assert not wide.features.is_dense and wide.weights.shape == rotated.weights.shape == (60,)
    assert wide.value == pytest.approx(rotated.value, rel=0.1)  # labels may be other local optima
    assert max(wide.bound, rotated.bound) <= min(wide.value, rotated.value) * (1 + 1e-9)
    if relaxation not in ("alternating", "cccp"):
        rough = 5e-2 if relaxation == "minimax" else 1e-2  # labels are generated until none found pays
        assert wide.verify() and wide.bound == pytest.approx(rotated.bound, rel=rough)


def test_narrow_and_dense_features_keep_dense_rows():
    for points in (X[:, :500], X[:40].toarray()):
        form = lift(compiled(points, "sdp").program, whole=True)
        assert isinstance(lift_certificate.component_rows(form, form.losses.weights), np.ndarray)
    assert build(X).rank == 1100


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "held bias"])
@pytest.mark.parametrize("links", [0, 12])
def test_rows_that_stay_with_workers_prove_what_rows_in_memory_prove(links, bias, monkeypatch):
    points = np.random.default_rng(4).normal(size=(60, 4))
    f, y = md.Hyperplane(da.from_array(points, chunks=(25, 4)), bias=bias), md.Labels(60)
    constraints = [abs(md.sum(y)) <= 8, *([md.must_link(y, [(i, i + 1) for i in range(links)])] if links else [])]
    constraints += [abs(md.sum(f)) <= 3.0] if bias else []
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))), constraints)
    form = lift(problem.compile("sdp").program)
    u = 0.5 * form.losses.weights
    d = repair_lift(form, {"u": u}).arrays["d"] / 2
    answer = {"u": u, "d": d, "kappa": np.full(len(form.balance), 1e-3), "eta": np.full(len(form.decision), 0.1)}
    monkeypatch.setattr(lift_certificate, "DENSE_ORDER", 0)
    near = repair_lift(form, answer)
    monkeypatch.setattr(lift_certificate, "FETCHED", 0)
    assert isinstance(lift_certificate.component_rows(form, u), ComponentRows)
    far = repair_lift(form, answer)
    assert np.isfinite(far.bound) and far.bound == pytest.approx(near.bound, rel=1e-9)
