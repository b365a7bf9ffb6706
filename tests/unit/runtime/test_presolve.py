"""From a declaration to a program: earlier solutions, manifold terms, bounds in units of their own."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import margindsl as md
from margindsl.errors import DeclarationError, InfeasibleError, RefusalError
from margindsl.features import DenseFeatures, build
from margindsl.features.maps import NoMap
from margindsl.language.decisions import DecisionRows
from margindsl.program.bounds import DecisionBound
from margindsl.runtime.presolve import (
    _complement,
    _manifold_metric,
    _project_out,
    _settle_decision,
    _within_points,
    outline,
)

RNG = np.random.default_rng(0)
N, D = 7, 4
X = RNG.normal(size=(N, D))
SIGNS = np.array([1, -1, 1, -1, 1, -1, 1])
LABELS = (SIGNS + 1) // 2


def features(points=X, centre=True):
    return build(points, "linear", centre=centre)


def chain(weight):
    return sp.diags_array([np.r_[1.0, 2 * np.ones(N - 2), 1.0], -np.ones(N - 1), -np.ones(N - 1)],
                          offsets=[0, 1, -1]).tocsr() * weight


@pytest.mark.parametrize("weights", [(1.0,), (1e-3, 5.0), (1e5,)])
@pytest.mark.parametrize("ridge", [1.0, 2.5])
def test_manifold_terms_are_in_the_norm_of_the_weights(weights, ridge):
    base = features()
    plane = md.Hyperplane(X)
    rows = DecisionRows(None, {plane: np.arange(N)})
    found = _manifold_metric(base, tuple((mu, chain(1.0 + k), rows) for k, mu in enumerate(weights)), ridge, (plane,))
    for v in RNG.normal(size=(5, D)):
        w = found.matrix_map @ v  # of the features as they were
        energy = sum(mu * (1.0 + k) * np.sum(np.diff(base.apply(w)) ** 2) for k, mu in enumerate(weights))
        assert np.allclose(found.apply(v), base.apply(w), rtol=1e-9)
        assert v @ v / 2 == pytest.approx(w @ w / 2 + energy / ridge, rel=1e-6)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("centre", [False, True])
def test_features_orthogonal_to_earlier_weights(size, centre):
    base = features(centre=centre)
    W = RNG.normal(size=(D, 2)) * [size, 1.0]
    earlier = tuple(SimpleNamespace(weights=w, bias=0.0, decision=base.apply(w)) for w in W.T)
    found = _project_out(base, earlier)
    q, _ = np.linalg.qr(W / np.linalg.norm(W, axis=0))
    assert np.allclose(found.toarray(), base.toarray() @ (np.eye(D) - q @ q.T), atol=1e-9)
    for v in RNG.normal(size=(5, D)):
        assert np.allclose(W.T @ (found.matrix_map @ v) / np.linalg.norm(W, axis=0), 0.0, atol=1e-10)


def test_earlier_solutions_that_leave_nothing_or_are_of_other_points():
    base = features()
    spanning = tuple(SimpleNamespace(weights=w, bias=0.0, decision=base.apply(w)) for w in np.eye(D))
    with pytest.raises(DeclarationError, match="span all"):
        _project_out(base, spanning)
    with pytest.raises(DeclarationError, match="earlier solution has 3 weights"):
        _project_out(base, (SimpleNamespace(weights=np.ones(3), bias=0.0, decision=np.ones(N)),))
    with pytest.raises(DeclarationError, match="earlier solution 1 give"):
        _project_out(base, (spanning[0], SimpleNamespace(weights=np.ones(D), bias=0.0, decision=np.ones(N))))


@pytest.mark.parametrize("stray", [0.0, 1e-4])
def test_a_line_of_points_is_left_with_nothing_by_weights_along_it(stray):
    line, off = np.outer(RNG.normal(size=N), [1.0, 2.0, 0.0, -1.0]), np.array([2.0, -1.0, 0.0, 0.0])
    flat = DenseFeatures(line, NoMap(), "line")
    for weights, left in ((line[0] + stray * off, 0.0), (np.zeros(D), np.abs(line).max()), (off, np.abs(line).max())):
        earlier = SimpleNamespace(weights=weights, bias=0.0, decision=flat.apply(weights))
        assert np.abs(_project_out(flat, (earlier,)).toarray()).max() == pytest.approx(left, rel=1e-9)


def test_the_complement_of_weights_and_what_rounding_leaves_of_it():
    base = features(centre=False)
    W = RNG.normal(size=(D, 1))
    once, noise = _complement(base, W)
    twice, noisier = _complement(base, np.hstack([W, 3 * W, W + 1e-5 * RNG.normal(size=(D, 1))]))
    assert np.trace(once.matrix_map) == pytest.approx(D - 1) and np.trace(twice.matrix_map) == pytest.approx(D - 2)
    assert 0 < noise < 1e-12 and 1e3 < noisier / noise < 1e7
    none, least = _complement(base, np.zeros((D, 1)))
    assert np.allclose(none.matrix_map, np.eye(D)) and 0 < least < 1e-12


def test_weights_within_the_span_of_the_points():
    plane = RNG.normal(size=(N, 2)) @ RNG.normal(size=(2, D))
    raw = SimpleNamespace(gram=lambda: plane.T @ plane, n=N)
    W = RNG.normal(size=(D, 3))
    found = _within_points(raw, W)
    assert np.allclose(plane @ found, plane @ W) and np.linalg.matrix_rank(np.vstack([plane, found.T]), tol=1e-9) == 2


@pytest.mark.parametrize("low, high, holds", [(-1, 1, True), (0, 1, True), (-1, 0, True), (0.5, 1, False),
                                              (-1, -0.5, False)])
def test_sums_that_always_vanish_are_identities_or_never_hold(low, high, holds):
    bound, base = DecisionBound(np.full(N, 2.0), low, high), features()
    if not holds:
        with pytest.raises(InfeasibleError, match="never holds"):
            _settle_decision((bound,), base, False)
    else:
        kept, said = _settle_decision((bound,), base, False)
        assert not kept and len(said) == 1
    kept, said = _settle_decision((bound,), base, True)
    assert len(kept) == 1 and not said, "a free bias moves the sum"
    balanced = DecisionBound(SIGNS - SIGNS.mean(), low, high)
    assert len(_settle_decision((balanced,), base, True)[0]) == 1
    constant = features(np.ones((N, D)) + 1.0, centre=False)
    if holds:
        assert not _settle_decision((balanced,), constant, True)[0], "neither weights nor bias move it"


@pytest.mark.parametrize("bias", [False, True])
def test_the_value_of_a_program_is_the_objective_of_the_user(bias):
    y, f, graph = md.Labels(N), md.Hyperplane(X, bias=bias, centre=False), -chain(1.0)
    graph.setdiag(0.0)
    program = md.Problem(md.Minimize(1.25 * md.sq_norm(f) + 3 * md.mean(md.hinge(y * f)) + 0.1 * md.manifold(f, graph)
                                     + 0.7), [abs(md.sum(f)) <= 1]).program()
    assert program.free_bias == bias
    for v in RNG.normal(size=(5, D)):
        direction = program.features.apply(v)
        w, decision = np.linalg.lstsq(X - bias * X.mean(axis=0), direction, rcond=None)[0], direction + 0.2 * bias
        expected = 1.25 * w @ w + 3 * np.mean(np.maximum(0, 1 - SIGNS * decision)) + 0.1 * np.sum(
            np.diff(decision) ** 2) + 0.7
        assert program.objective(LABELS, v, 0.2 * bias) == pytest.approx(expected, rel=1e-9)


def test_bounds_that_clusters_do_not_take():
    y, f = md.Labels(N, clusters=3), md.Hyperplane(X)
    objective = md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(md.margin(y, f))))
    with pytest.raises(RefusalError, match="has no sign"):
        md.Problem(objective, [md.sum(f * np.arange(N)) <= 1]).program()
    assert len(md.Problem(objective, [abs(md.sum(f * np.arange(N))) <= 1]).program().decision) == 1


@pytest.mark.parametrize("coding, bias, weights, refused", [
    ("simplex", True, True, True), ("simplex", True, False, False), ("simplex", False, True, False),
    ("crammer-singer", True, True, False)])
def test_bounds_on_weights_beside_a_bias_of_simplex_codes(coding, bias, weights, refused):
    y, f = md.Labels(N, clusters=3), md.Hyperplane(X, bias=bias)
    held = [abs(md.sum(f)) <= 1, *([abs(md.sum(f * np.arange(N))) <= 1] if weights else [])]
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(md.margin(y, f, coding=coding)))), held)
    if refused:
        with pytest.raises(RefusalError, match="simplex-coded"):
            problem.program()
    else:
        assert problem.program().coding == coding


def test_labels_are_presolved_with_all_that_is_declared():
    y, f = md.Labels(N), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [
        md.must_link(y, [(0, 1)]), md.cannot_link(y, [(1, 2)]), y[3] == -1, abs(md.sum(y)) <= 1])
    labels = problem.program().labels
    for code in range(2 ** N):
        signs = np.where((code >> np.arange(N)) & 1, 1, -1)
        expected = signs[0] == signs[1] != signs[2] and signs[3] == -1 and abs(signs.sum()) <= 1
        assert bool(labels.violations(signs)) != expected and labels.contains((signs + 1) // 2) == expected


@pytest.mark.parametrize("held", [[], [-1.0, 2.0]])
def test_the_outline_of_a_problem_has_its_value_without_weights(held):
    y, f = md.Labels(N), md.Hyperplane(X, centre=False)
    bounds = [md.sum(f * np.arange(N)) >= held[0], md.sum(f * np.arange(N)) <= held[1]] if held else []
    program = md.Problem(md.Minimize(1.25 * md.sq_norm(f) + 3 * md.mean(md.squared_hinge(y * f - 0.1)) + 0.7),
                         bounds).program()
    found = outline(program.source, program.labels)
    assert np.all(found.features.toarray() == 0.0) and len(found.decision) == len(program.decision)
    assert found.objective(LABELS, np.zeros(found.features.rank)) == program.objective(LABELS, np.zeros(D))
    for a, b in zip(found.decision, program.decision):
        assert (a.lower / a.weights[-1], a.upper / a.weights[-1]) == (b.lower / b.weights[-1], b.upper / b.weights[-1])
