"""Factors of the lift: the values of conic solvers, certified gaps, gradients, bounds, warm starts, limits, storage."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import check_grad

import margindsl as md
from margindsl.calculus import PLQ, Logistic
from margindsl.contract import Budget, Status
from margindsl.errors import CalculusError
from margindsl.features import build
from margindsl.features.blocks import BlockFeatures
from margindsl.host.threads import threads
from margindsl.program.bounds import DecisionBound, QuadraticBound
from margindsl.program.lift import Cuts, LiftForm, LiftPoint
from margindsl.program.lift_certificate import falling_labels, repair_lift, scaled
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl_solvers.burer_monteiro import BurerMonteiro
from margindsl_solvers.conic import Clarabel
from margindsl_solvers.engines.factors import factored, run
from margindsl_solvers.engines.factors.factored import Factored, Rows
from margindsl_solvers.engines.factors.quasinewton import QuasiNewton
from margindsl_solvers.engines.factors.run import SUBSAMPLE

HINGE = PLQ.affine(-1, 1).positive_part()
SHORT, LONG = (PLQ.affine(side, -side - 0.2).positive_part().square() for side in (-1, 1))
ODM = (SHORT + 0.5 * LONG) * 1.5625
LEAST_SQUARES = PLQ.affine(-1, 1).square()
KINKED = PLQ([0.8, 1.0, 1.2], [[1.0, -1.9, 0.94], [0.0, -0.3, 0.3], [0.0, 0.0, 0.0], [0.4, -0.96, 0.576]])
NONE = Cuts.none()
LOSSES = {"hinge": HINGE, "odm": ODM, "least squares": LEAST_SQUARES, "kinked": KINKED}


def clusters(n, r, seed=0, share=0.5):
    """Return two centred clouds, of which the first holds a share of the points, and the truth."""
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < share * n, 1, -1)
    X = rng.normal(size=(n, r)) + 1.5 * truth[:, None] * np.eye(r)[0]
    return (X - X.mean(axis=0)) / np.sqrt(r), truth


def lifted(n=24, r=4, loss=ODM, weight=10.0, seed=0, share=0.5, links=0, beta=None, ell=None, bias=False, apart=0,
           cuts=NONE):
    """Return a lift with links that the truth satisfies, |Σy| ≤ β, |Σf| ≤ ℓ, the last labels minimised out."""
    X, truth = clusters(n, r, seed, share)
    rng = np.random.default_rng(seed + 1)
    component, sign = np.arange(n), np.ones(n, dtype=int)
    for _ in range(links):
        i, j = rng.choice(n, 2, replace=False)
        if component[i] != component[j]:
            flip = truth[i] * truth[j] * sign[i] * sign[j]
            members = component == component[j]
            component[members], sign[members] = component[i], sign[members] * flip
    component[n - apart:] = -1
    component = np.unique(component, return_inverse=True)[1] - (apart > 0)
    count = int(component.max()) + 1
    omega = np.bincount(component[component >= 0], weights=sign[component >= 0], minlength=count)
    balance = () if beta is None else (QuadraticBound(omega, float(beta)),)
    decision = () if ell is None else (DecisionBound(np.ones(n), -ell, ell),)
    term = LossTerm(loss, np.arange(n), np.full(n, weight / n), np.ones(n), np.zeros(n), np.zeros((n, 0)))
    return LiftForm(build(X, centre=False), Losses(n, (term,)), component, sign, count, balance, decision=decision,
                    free_bias=bias, cuts=cuts)


CASES = {
    "plain": {}, "links": {"links": 8}, "loose balance": {"beta": 12.0}, "balance": {"share": 0.75, "beta": 2.0},
    "vanishing balance": {"share": 0.75, "beta": 0.0}, "links and balance": {"links": 8, "share": 0.7, "beta": 1.0},
    "decision balance": {"ell": 1.0, "bias": True}, "weights": {"apart": 16}, "some": {"apart": 10, "beta": 2.0},
    "weights and decision": {"apart": 16, "ell": 0.5, "bias": True},
    "cuts": {"cuts": Cuts.odd(np.array([[0, 1, 2], [3, 4, 9], [0, 5, 10]]), np.ones((3, 3), dtype=int))},
    "all": {"links": 6, "share": 0.7, "beta": 2.0, "ell": 0.5, "bias": True, "apart": 3},
}


@pytest.mark.parametrize("case,loss", [(case, loss) for i, case in enumerate(sorted(CASES)) for j, loss in enumerate(
    ["hinge"] if case == "vanishing balance" else ["hinge", "odm", "least squares"]) if not j or (i + j) % 2])
def test_values_are_those_of_an_interior_point_method(case, loss):
    form = lifted(n=16, r=3, loss=LOSSES[loss], **CASES[case])
    expected = Clarabel().solve(form, Budget(tol=1e-8))
    # where a sum is to vanish, κ grows without end: the dual is not attained
    raw = BurerMonteiro().solve(form, Budget(tol=1e-4 if case == "vanishing balance" else 2e-5))
    bound = repair_lift(form, raw).bound
    assert raw.objective == pytest.approx(expected.objective, rel=1e-4)
    assert bound == pytest.approx(expected.objective, rel=3e-4 if case == "vanishing balance" else 1e-4)
    assert bound <= expected.objective * (1 + 1e-6)
    V = raw["V"]
    assert np.allclose(np.linalg.norm(V, axis=1), 1.0)
    for lifted_bound, price in zip(form.balance, raw["kappa"]):
        excess = np.sum((V.T @ lifted_bound.vector) ** 2) - lifted_bound.radius**2
        # what leaving the bound gains is within the tolerance
        assert 0.5 * price * excess <= (2e-5 if lifted_bound.radius else 3e-4) * raw.objective
        assert excess <= 0.01 * np.sum(lifted_bound.vector**2)  # and small beside what labels without a bound may have


def test_kinks_beside_a_hull_cost_little():
    """Their squares are not lifted: the value is below the lift's, and far above that of the labels alone."""
    form = lifted(n=16, r=3, loss=KINKED, beta=2.0, weight=30.0)
    expected = Clarabel().solve(form, Budget(tol=1e-8)).objective
    without = Clarabel().solve(replace(form, losses=replace(form.losses, terms=tuple(replace(
        term, slopes=term.slopes * 1.0, loss=Squareless(KINKED)) for term in form.losses.terms))), Budget()).objective
    raw = BurerMonteiro().solve(form, Budget(tol=1e-4))
    assert raw.status is Status.CONVERGED and "the lift may prove more" in raw.message
    found = repair_lift(form, raw).bound
    assert without * 1.05 < found <= expected * (1 + 1e-6) and found >= 0.95 * expected


def test_bounds_on_sums_are_lifted_where_losses_rise_beyond_their_least_value():
    """Of such losses labels that are minimised out leave less, whether or not the answer fulfils the bounds."""
    y, f = md.Labels(6), md.Hyperplane(np.random.default_rng(3).normal(size=(6, 3)))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.huber(1 - y * f, 1.0))), [abs(md.sum(y)) <= 2])
    factors, interior = (problem.solve(md.SDP(cuts="none", polish="none", tol=1e-6), solver, random_state=0)
                         for solver in ("burer-monteiro", "interior"))
    assert factors.bound == pytest.approx(interior.bound, rel=1e-5)


class Squareless(Logistic):
    """A loss whose pieces no lift sees."""

    def __init__(self, loss):
        object.__setattr__(self, "loss", loss)

    def __call__(self, x):
        return self.loss(x)

    def derivative(self, x):
        return self.loss.derivative(x)

    def conjugate(self):
        return self.loss.conjugate()

    def subdifferential(self, x):
        return self.loss.subdifferential(x)


@pytest.mark.parametrize("apart", [0, 4, 9])
@pytest.mark.parametrize("loss", [LEAST_SQUARES, ODM, Logistic()])
def test_the_gradient_of_the_augmented_lagrangian_is_right(apart, loss):
    cuts = Cuts.odd(np.array([[0, 1, 2]]), np.array([[1, -1, 1]])) if not apart else Cuts.none()
    form = lifted(n=9, r=2, loss=loss, links=0, share=0.7, beta=None if apart == 9 else 1.0, ell=0.5, bias=True,
                  apart=apart, cuts=cuts)
    if not apart:
        coupled = replace(form.losses.terms[0], coupling=np.tile([-1.0, 0.5], (9, 1)))
        scalars = SharedScalars(np.array([-0.3, 0.2]), np.array([False, True]))
        form = replace(form, losses=Losses(9, (coupled,), scalars))
    problem = Factored(form, Rows.of_form(form), map)
    rng, shape = np.random.default_rng(0), (form.order + form.count + form.losses.scalars.count, 3)
    count = len(problem.bounds[0])
    multipliers, penalty = rng.uniform(0.1, 0.5, count), rng.uniform(1.0, 3.0, count)

    def at(x, part):
        out = problem.oracle(x.reshape(shape), problem.rows.losses, multipliers, penalty)[part]
        return out.ravel() if part else out

    for _ in range(5):
        x = rng.normal(size=shape)
        x[form.order + form.count:, 1:] = 0.0
        assert check_grad(lambda z: at(z, 0), lambda z: at(z, 1), x.ravel()) <= 2e-4 * (1 + np.abs(at(x, 1)).max())


@pytest.mark.parametrize("nonneg", [False, True])
def test_shared_scalars_reach_the_conic_value(nonneg):
    form = lifted(n=12, r=3, loss=LEAST_SQUARES, weight=4.0, links=2)
    term = replace(form.losses.terms[0], loss=PLQ.affine(1, 0).square(), coupling=np.full((12, 1), -1.0))
    scalars = SharedScalars(np.array([0.5 if nonneg else -0.5]), np.array([nonneg]))
    form = replace(form, losses=Losses(12, (term,), scalars))
    expected = Clarabel().solve(form, Budget(tol=1e-7)).objective
    raw = BurerMonteiro().solve(form, Budget(tol=1e-5))
    assert raw.objective == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert repair_lift(form, raw).bound == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_single_column_is_widened_until_the_certificate_closes():
    form = lifted(n=40, r=6, links=6, share=0.7, beta=2.0)
    raw = BurerMonteiro(width=1).solve(form, Budget(tol=1e-4))
    assert raw.status is Status.OPTIMAL and raw["V"].shape[1] > 1
    assert repair_lift(form, raw).bound >= raw.objective * (1 - 1e-4)


@pytest.mark.parametrize("apart", [0, 12])
def test_columns_are_appended_along_directions_of_negative_curvature(apart):
    form = lifted(n=20, r=3, share=0.7, beta=2.0, apart=apart)
    rng, N = np.random.default_rng(2), 20 - apart
    point = LiftPoint(np.where(form.absorbed, 0.0, rng.uniform(0.1, 1, 20)), np.where(form.absorbed, -0.2, 0.01),
                      np.full(N, 0.05), np.array([0.01]), np.zeros(0), np.zeros(0))
    F, omega = form.features.toarray(), form.omega[0]
    H = np.zeros((N, 3))
    np.add.at(H, form.component[~form.absorbed], (point.u[:, None] * F)[~form.absorbed])
    S = np.block([[np.diag(point.d) + 0.01 * np.outer(omega, omega), -H],
                  [-H.T, np.eye(3) + 2 * F.T @ (point.q[:, None] * F)]])
    _, Z, W = scaled(form, point, most=3)
    assert 1 <= Z.shape[1] == W.shape[1] <= 3
    both = np.vstack([Z, W])
    assert np.all(np.einsum("ij,ij->j", both, S @ both) < 0)
    assert scaled(form, replace(point, d=np.full(N, 1e3), q=0.0 * point.q))[1].shape[1] == 0
    for z in falling_labels(form, point, 2).T:
        assert np.min(np.linalg.eigvalsh(S[:N, :N] - H @ np.linalg.inv(S[N:, N:]) @ H.T)) < 0 and z @ (
            S[:N, :N] - H @ np.linalg.inv(S[N:, N:]) @ H.T) @ z < 0


def test_a_warm_start_saves_work_and_another_shape_is_passed_over():
    form = lifted(n=60, r=5, links=10, share=0.7, beta=3.0)
    cold = BurerMonteiro().solve(form, Budget(tol=1e-5))
    warm = BurerMonteiro().solve(form, Budget(tol=1e-5), start=cold)
    assert warm.iterations < cold.iterations
    assert warm.objective == pytest.approx(cold.objective, rel=1e-4)
    other = BurerMonteiro().solve(lifted(n=30, r=5), Budget(tol=1e-4), start=cold)
    assert other.status is Status.OPTIMAL


def test_limits_leave_a_valid_bound():
    form = lifted(n=60, r=5, loss=HINGE, links=10, share=0.7, beta=3.0)
    full = BurerMonteiro().solve(form, Budget(tol=1e-5)).objective
    short = BurerMonteiro(max_iter=5).solve(form, Budget(tol=1e-9))
    late = BurerMonteiro().solve(form, Budget(tol=1e-9, deadline=time.monotonic()))
    stopped = BurerMonteiro().solve(form, Budget(tol=1e-9, callback=lambda progress: True))
    for raw, status in ((short, Status.ITERATION_LIMIT), (late, Status.TIME_LIMIT), (stopped, Status.INTERRUPTED)):
        assert raw.status is status and repair_lift(form, raw).bound <= full * (1 + 1e-6)
    assert BurerMonteiro(max_iter=5).solve(form, Budget(tol=1e-5, max_iter=5000)).status is Status.OPTIMAL


class NoConjugate(Logistic):
    """A loss without a conjugate."""

    def conjugate(self):
        raise CalculusError("no closed form")


def test_losses_without_a_conjugate_are_refused():
    refusal = BurerMonteiro().accepts(lifted(n=8, loss=NoConjugate()))
    assert not refusal and "the certificate needs the conjugate of a loss: no closed form" in str(refusal)
    form = lifted(n=12, loss=Logistic())
    raw = BurerMonteiro().solve(form, Budget(tol=1e-4))
    assert raw.status is Status.OPTIMAL and repair_lift(form, raw).bound >= raw.objective * (1 - 1e-4)


def test_two_thousand_points_with_links_and_balance_are_certified():
    form = lifted(n=2000, r=64, weight=10.0, links=200, share=0.7, beta=100.0)
    raw = BurerMonteiro().solve(form, Budget(tol=1e-3))
    bound = repair_lift(form, raw).bound
    assert bound >= raw.objective * (1 - 1e-3)
    assert raw["kappa"][0] > 0


def test_losses_that_are_least_at_zero_are_solved_at_zero():
    solution = BurerMonteiro().solve(lifted(loss=PLQ([], [[1.0, 0.0, 0.0]])), Budget(tol=1e-6))
    assert solution.status is Status.OPTIMAL and solution.objective == 0.0 and not np.any(solution["W"])


def test_what_proves_nothing_and_what_creeps_below_any_size_of_a_value_ends():
    # a free bias without balance: the value is zero, and no dual point has a finite bound
    solution = BurerMonteiro().solve(lifted(n=6, bias=True), Budget(tol=1e-6))
    assert solution.status is not Status.ITERATION_LIMIT and solution.objective < 1e-9
    # |f| has a kink at its least value: smoothed ever more sharply, values fall for ever and never are zero
    solution = BurerMonteiro().solve(lifted(loss=PLQ([0.0], [[0.0, -1.0, 0.0], [0.0, 1.0, 0.0]])), Budget(tol=1e-6))
    assert solution.status is not Status.ITERATION_LIMIT and 0 <= solution.objective < 1e-4


# -- weights alone: one pass over the data a gradient ------------------------------------------------------


def weights_of(X, weight=10.0, bias=False):
    y, f = md.Labels(X.shape[0]), md.Hyperplane(X, bias=bias)
    constraints = [] if not bias else [abs(md.sum(f)) <= 0.5]
    loss = md.mean(md.odm(y * f, theta=0.2, nu=0.4))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * loss), constraints)
    return md.WeightLifting().lower(problem.program())


def swept(form, W, gather=map):
    problem = Factored(form, Rows.of_form(form), gather)
    return problem.oracle(W, problem.rows.losses, *np.zeros((2, len(form.decision))) + 1e-9)


def reference(form, W):
    """Return value and gradient point by point."""
    free = np.arange(len(W)) < form.features.rank
    value, gradient = 0.5 * float(np.sum(W[free] ** 2)), W * free[:, None]
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
    monkeypatch.setattr(factored, "CACHED", 64 * 5)
    form = weights_of(np.random.default_rng(0).normal(size=(517, 5)), bias=bias)
    W = np.random.default_rng(1).normal(size=(form.order, 3))
    value, gradient = swept(form, W)
    expected, slope = reference(form, W)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(gradient, slope, rtol=1e-5, atol=1e-5)


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(factored, "CACHED", 64 * 6)
    form = weights_of(np.random.default_rng(0).normal(size=(3001, 6)))
    W = np.random.default_rng(1).normal(size=(6, 4))
    alone = swept(form, W)
    with ThreadPoolExecutor(3) as pool:
        together = swept(form, W, pool.map)
    assert alone[0] == together[0]
    np.testing.assert_array_equal(alone[1], together[1])


def test_every_storage_gives_the_same_sum():
    X = np.random.default_rng(0).normal(size=(400, 7))
    dense, W = weights_of(X), np.random.default_rng(1).normal(size=(7, 3))
    expected = swept(dense, W)
    order, term = np.random.default_rng(2).permutation(400), dense.losses.terms[0]
    shuffled = LossTerm(term.loss, order, term.weights[order], term.slopes, term.shifts, term.coupling)
    for form in (replace(dense, features=BlockFeatures.from_points(X)), weights_of(sp.csr_array(X)),
                 replace(dense, losses=Losses(400, (shuffled,)))):
        value, gradient = swept(form, W)
        np.testing.assert_allclose(value, expected[0], rtol=1e-12)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-9, atol=1e-12)


def test_losses_of_several_kinds_in_the_order_of_the_points():
    X = np.random.default_rng(0).normal(size=(90, 4))
    y, f = md.Labels(90), md.Hyperplane(X)
    loss = 30 * md.mean(md.odm(y[:20] * f[:20])) + md.mean(md.squared_hinge(y[20:] * f[20:]))
    form = md.WeightLifting().lower(md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss)).program())
    assert form.losses.is_identity and len(form.losses.terms) == 2
    W = np.random.default_rng(1).normal(size=(4, 3))
    value, gradient = swept(form, W)
    step = 1e-6 * np.random.default_rng(2).normal(size=W.shape)
    lengths = np.linalg.norm(form.features.toarray() @ W, axis=1)
    np.testing.assert_allclose(value, 0.5 * np.sum(W**2) + form.losses.value(lengths), rtol=1e-12)
    ahead, behind = (swept(form, W + s * step)[0] for s in (1, -1))
    np.testing.assert_allclose(ahead - behind, 2 * np.sum(gradient * step), rtol=1e-5)


def test_a_point_at_the_origin_has_no_direction():
    X = np.random.default_rng(0).normal(size=(50, 3))
    value, gradient = swept(weights_of(np.vstack([X, -X, np.zeros((1, 3))])), np.eye(3))
    assert np.isfinite(value) and np.all(np.isfinite(gradient))


def test_small_work_stays_on_one_thread():
    with threads(10) as gather:
        assert gather is map


def test_a_subsample_whose_lowest_point_is_not_its_last(monkeypatch):
    """Heavy weights over isotropic noise: the nested solve ends in a point narrower than its pairs."""
    monkeypatch.setattr(run, "SUBSAMPLE", 250)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2_000, 64))
    X[:, :8] += 0.7 * np.where(rng.random(2_000) < 0.5, 1, -1)[:, None]
    y, f = md.Labels(2_000), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 100 * md.mean(md.odm(y * f, 0.4, 0.2))),
                         [abs(md.sum(y)) <= 60])
    nested = problem.solve(md.WeightLifting(rounding=1, polish="none"), random_state=0)
    monkeypatch.setattr(run, "SUBSAMPLE", 10_000)
    whole = problem.solve(md.WeightLifting(rounding=1, polish="none"), random_state=0)
    assert np.isclose(nested.bound, whole.bound, rtol=1e-3)


def test_a_large_problem_is_certified_in_few_evaluations():
    rng = np.random.default_rng(0)
    n = 2 * SUBSAMPLE + 2_000
    X = rng.normal(size=(n, 16)) / 4
    X[:, 0] += 0.4 * np.where(rng.random(n) < 0.5, 1, -1)
    form = weights_of(X)
    raw = BurerMonteiro(max_iter=500).solve(form, Budget(tol=1e-2))
    assert raw.status is Status.OPTIMAL
    assert raw.iterations <= 40
    value, bound = swept(form, raw["W"])[0], max(t[2] for t in raw.trace)
    np.testing.assert_allclose(value, raw.objective, rtol=1e-9)
    assert bound <= value <= bound + 1e-2 * value


# -- the descent -------------------------------------------------------------------------------------------


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
