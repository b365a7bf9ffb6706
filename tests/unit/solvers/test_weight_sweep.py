"""The sweep of weight lifting and its quasi-Newton descent."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

import margindsl as md
from margindsl.contract import Budget, Status
from margindsl.features.blocks import BlockFeatures
from margindsl.program import Losses, LossTerm, WeightLiftForm
from margindsl_solvers.burer_monteiro import BurerMonteiro
from margindsl_solvers.engines.factors import sweep as sweeps
from margindsl_solvers.engines.factors import weight
from margindsl_solvers.engines.factors.quasinewton import QuasiNewton
from margindsl_solvers.engines.factors.sweep import Sweep
from margindsl_solvers.engines.factors.weight import SUBSAMPLE
from margindsl_solvers.engines.threads import threads


def form_of(X, weight=10.0, bias=False):
    y, f = md.Labels(X.shape[0]), md.Hyperplane(X, bias=bias)
    constraints = [] if not bias else [abs(md.sum(f)) <= 0.5]
    loss = md.mean(md.odm(y * f, theta=0.2, nu=0.4))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * loss), constraints)
    return md.WeightLifting().lower(problem.program())


def reference(form, W):
    """Return value and gradient point by point."""
    value, gradient = 0.0, np.zeros_like(W)
    for i, phi in enumerate(form.features.toarray()):
        phi = np.append(phi, 1.0) if form.free_bias else phi
        g = W.T @ phi
        s = float(np.linalg.norm(g))
        term = form.losses.terms[0]
        value += term.weights[i] * term.loss(s)
        gradient += term.weights[i] * term.loss.derivative(s) / s * np.outer(phi, g)
    return value, gradient


@pytest.mark.parametrize("bias", [False, True])
def test_the_sweep_is_the_sum_over_points(bias, monkeypatch):
    monkeypatch.setattr(sweeps, "CACHED", 64 * 5)
    form = form_of(np.random.default_rng(0).normal(size=(517, 5)), bias=bias)
    W = np.random.default_rng(1).normal(size=(form.order, 3))
    value, gradient = Sweep(form, map).loss(form.losses, W)
    expected, slope = reference(form, W)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-12)


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(sweeps, "CACHED", 64 * 6)
    form = form_of(np.random.default_rng(0).normal(size=(3001, 6)))
    W = np.random.default_rng(1).normal(size=(6, 4))
    alone = Sweep(form, map).loss(form.losses, W)
    with ThreadPoolExecutor(3) as pool:
        together = Sweep(form, pool.map).loss(form.losses, W)
    assert alone[0] == together[0]
    np.testing.assert_array_equal(alone[1], together[1])


def test_every_storage_gives_the_same_sum():
    X = np.random.default_rng(0).normal(size=(400, 7))
    dense = form_of(X)
    losses, W = dense.losses, np.random.default_rng(1).normal(size=(7, 3))
    expected = Sweep(dense, map).loss(losses, W)
    forms = [WeightLiftForm(BlockFeatures.from_points(X), losses), form_of(sp.csr_array(X))]
    order = np.random.default_rng(2).permutation(400)
    term = losses.terms[0]
    shuffled = Losses(400, (LossTerm(term.loss, order, term.weights[order], term.slopes, term.shifts, term.coupling),))
    forms.append(WeightLiftForm(dense.features, shuffled))
    for form in forms:
        value, gradient = Sweep(form, map).loss(form.losses, W)
        np.testing.assert_allclose(value, expected[0], rtol=1e-12)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-9, atol=1e-12)


def test_losses_of_several_kinds_in_the_order_of_the_points():
    X = np.random.default_rng(0).normal(size=(90, 4))
    y, f = md.Labels(90), md.Hyperplane(X)
    loss = 30 * md.mean(md.odm(y[:20] * f[:20])) + md.mean(md.squared_hinge(y[20:] * f[20:]))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss), [abs(md.sum(y)) <= 4])
    form = md.WeightLifting().lower(problem.program())
    assert form.losses.is_identity and len(form.losses.terms) == 2
    W = np.random.default_rng(1).normal(size=(4, 3))
    value, gradient = Sweep(form, map).loss(form.losses, W)
    step = 1e-6 * np.random.default_rng(2).normal(size=W.shape)
    lengths = np.linalg.norm(form.features.toarray() @ W, axis=1)
    np.testing.assert_allclose(value, form.losses.value(lengths), rtol=1e-12)
    ahead, behind = (Sweep(form, map).loss(form.losses, W + s * step)[0] for s in (1, -1))
    np.testing.assert_allclose(ahead - behind, 2 * np.sum(gradient * step), rtol=1e-5)
    solution = problem.solve("weight-lifting", random_state=0)
    assert solution.bound <= solution.value and abs(solution.labels.sum()) <= 4


def test_a_point_at_the_origin_has_no_direction():
    X = np.random.default_rng(0).normal(size=(50, 3))
    X = np.vstack([X, -X, np.zeros((1, 3))])
    form = form_of(X)
    value, gradient = Sweep(form, map).loss(form.losses, np.eye(3))
    assert np.isfinite(value)
    assert np.all(np.isfinite(gradient))


def test_small_work_stays_on_one_thread():
    with threads(10) as gather:
        assert gather is map


def bowl(order, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(order, order))
    Q, b = A @ A.T + 0.1 * np.eye(order), rng.normal(size=(order, 1))
    return (lambda x: (float(0.5 * np.vdot(x, Q @ x) - np.vdot(b, x)), Q @ x - b)), np.linalg.solve(Q, b)


def rosenbrock(x):
    a, b = x.ravel()
    return (float((1 - a) ** 2 + 100 * (b - a * a) ** 2),
            np.array([[-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)]]).reshape(x.shape))


def test_descent_finds_the_minimum():
    oracle, solution = bowl(12)
    done = QuasiNewton().descend(oracle, np.zeros((12, 1)), Budget(), 1e-15, 2000)
    assert done.status is Status.CONVERGED
    np.testing.assert_allclose(done.point, solution, rtol=1e-4, atol=1e-5)
    done = QuasiNewton().descend(rosenbrock, np.array([[-1.2], [1.0]]), Budget(), 1e-14, 500)
    np.testing.assert_allclose(done.point.ravel(), [1.0, 1.0], atol=1e-4)


def test_pairs_learnt_before_save_evaluations():
    oracle, _ = bowl(12, seed=3)
    newton = QuasiNewton()
    start = np.ones((12, 1))
    cold = newton.descend(oracle, start, Budget(), 1e-8, 2000)
    warm = newton.descend(oracle, start, Budget(), 1e-8, 2000)
    assert len(newton.pairs) > 0
    assert warm.evaluations < 0.7 * cold.evaluations, (warm.evaluations, cold.evaluations)


def test_descent_keeps_to_its_evaluations_and_to_the_deadline():
    calls = []

    def counted(x):
        calls.append(1)
        return rosenbrock(x)

    start = np.array([[-1.2], [1.0]])
    done = QuasiNewton().descend(counted, start, Budget(), 0.0, 7)
    assert len(calls) == done.evaluations <= 7
    assert done.status is Status.ITERATION_LIMIT
    assert done.value < rosenbrock(start)[0]
    late = QuasiNewton().descend(rosenbrock, start, Budget(deadline=time.monotonic() - 1.0), 0.0, 100)
    assert late.status is Status.TIME_LIMIT
    assert late.evaluations == 1


def test_pairs_grow_with_the_factor():
    newton = QuasiNewton()
    newton.pairs.append((np.ones((4, 2)), np.full((4, 2), 2.0)))
    newton.fit(5)
    s, y = newton.pairs[0]
    assert s.shape == y.shape == (4, 5)
    assert float(np.vdot(s, y)) == 16.0


def test_pairs_of_a_wider_factor_are_cut_where_they_still_curve():
    newton = QuasiNewton()
    newton.pairs.append((np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])))
    newton.pairs.append((np.array([[1.0, 3.0]]), np.array([[-1.0, 1.0]])))  # curves in its second column only
    newton.fit(1)
    assert [(s.tolist(), y.tolist()) for s, y in newton.pairs] == [([[1.0]], [[2.0]])]


@pytest.mark.parametrize("seed", range(2))
def test_a_subsample_whose_lowest_point_is_not_its_last(seed, monkeypatch):
    """Heavy weights over isotropic noise: the nested solve ends in a point narrower than its pairs."""
    monkeypatch.setattr(weight, "SUBSAMPLE", 250)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2_000, 64))
    X[:, :8] += 0.7 * np.where(rng.random(2_000) < 0.5, 1, -1)[:, None]
    y, f = md.Labels(2_000), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 100 * md.mean(md.odm(y * f, 0.4, 0.2))),
                         [abs(md.sum(y)) <= 60])
    nested = problem.solve(md.WeightLifting(rounding=1, polish="none"), random_state=0)
    monkeypatch.setattr(weight, "SUBSAMPLE", 10_000)
    whole = problem.solve(md.WeightLifting(rounding=1, polish="none"), random_state=0)
    assert np.isclose(nested.bound, whole.bound, rtol=1e-3)


def test_a_large_problem_is_certified_in_few_evaluations():
    rng = np.random.default_rng(0)
    n = 2 * SUBSAMPLE + 2_000
    X = rng.normal(size=(n, 16)) / 4
    X[:, 0] += 0.4 * np.where(rng.random(n) < 0.5, 1, -1)
    form = form_of(X)
    raw = BurerMonteiro(max_iter=500).solve(form, Budget(tol=1e-2))
    assert raw.status is Status.OPTIMAL
    assert raw.iterations <= 40
    value, bound = form.objective(raw["W"]), max(t[2] for t in raw.trace)
    np.testing.assert_allclose(value, raw.objective, rtol=1e-9)
    assert bound <= value <= bound + 1e-2 * value


def test_nothing_grows_where_the_curvature_is_zero():
    """Without the matrix, ARPACK refuses a product that is zero."""
    form = form_of(np.random.default_rng(0).normal(size=(40, 12)))
    values, vectors = weight.leading(form, np.zeros(40), np.zeros(0), None)
    assert vectors.shape == (12, len(values)) and np.all(values <= 1.0)
    usual, _ = weight.leading(form, np.ones(40), np.zeros(0), None)
    assert np.isclose(usual[-1], np.linalg.norm(form.features.toarray(), 2) ** 2, rtol=1e-2)
