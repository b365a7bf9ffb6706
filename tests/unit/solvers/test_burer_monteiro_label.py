"""Vector labels: the same values as conic solvers, certified gaps, gradients, bounds, warm starts, limits."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import check_grad

from margindsl.calculus import PLQ, Logistic
from margindsl.contract import Budget, Status
from margindsl.errors import CalculusError
from margindsl.program.bounds import DecisionBound, QuadraticBound
from margindsl.program.forms import LabelLiftForm
from margindsl.program.label_certificate import escape_direction, repair_dual_point, repair_label_lift
from margindsl.program.lift import LiftForm
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl.program.moment import MomentLiftForm
from margindsl_solvers.burer_monteiro import BurerMonteiro
from margindsl_solvers.conic import Clarabel
from margindsl_solvers.engines.factors.vectors import VectorLabels

HINGE = PLQ.affine(-1, 1).positive_part()
SHORT, LONG = (PLQ.affine(side, -side - 0.2).positive_part().square() for side in (-1, 1))
ODM = (SHORT + 0.5 * LONG) * 1.5625
LEAST_SQUARES = PLQ.affine(-1, 1).square()


class Matrix:
    """The least a feature operator can be."""

    is_remote = False

    def __init__(self, phi):
        self.phi = np.asarray(phi, dtype=float)
        self.n, self.rank = self.phi.shape
        self.trace, self.trace_error = float(np.sum(self.phi**2)), 0.0

    def apply(self, W):
        return self.phi @ W

    def adjoint(self, R):
        return self.phi.T @ R

    def toarray(self):
        return self.phi


def clusters(n, r, seed=0, share=0.5):
    """Return two centred clouds, of which the first holds a share of the points, and the truth."""
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < share * n, 1, -1)
    X = rng.normal(size=(n, r)) + 1.5 * truth[:, None] * np.eye(r)[0]
    return (X - X.mean(axis=0)) / np.sqrt(r), truth


def lifted(n=24, r=4, loss=ODM, weight=10.0, seed=0, share=0.5, links=0, beta=None, ell=None, bias=False):
    """Return a label lift with links that the truth satisfies, |Σy| ≤ β and |Σf| ≤ ℓ."""
    X, truth = clusters(n, r, seed, share)
    rng = np.random.default_rng(seed + 1)
    component, sign = np.arange(n), np.ones(n, dtype=int)
    for _ in range(links):
        i, j = rng.choice(n, 2, replace=False)
        if component[i] != component[j]:
            flip = truth[i] * truth[j] * sign[i] * sign[j]
            members = component == component[j]
            component[members], sign[members] = component[i], sign[members] * flip
    _, component = np.unique(component, return_inverse=True)
    count = int(component.max()) + 1
    omega = np.bincount(component, weights=sign, minlength=count)
    balance = () if beta is None else (QuadraticBound(omega, float(beta)),)
    decision = () if ell is None else (DecisionBound(np.ones(n), -ell, ell),)
    term = LossTerm(loss, np.arange(n), np.full(n, weight / n), np.ones(n), np.zeros(n), np.zeros((n, 0)))
    return LabelLiftForm(Matrix(X), Losses(n, (term,)), component, sign, count, balance,
                         decision=decision, free_bias=bias)


def as_lift(form):
    return LiftForm(form.features, form.losses, form.component, form.sign, form.count, form.balance,
                    decision=form.decision, free_bias=form.free_bias)


def certified(form, raw):
    return repair_label_lift(form, raw["u"], raw["d"], raw["kappa"], raw["eta"]).bound


CASES = {
    "plain": {}, "links": {"links": 8}, "loose balance": {"beta": 12.0}, "balance": {"share": 0.75, "beta": 2.0},
    "exact balance": {"share": 0.75, "beta": 0.0}, "links and balance": {"links": 8, "share": 0.7, "beta": 1.0},
    "decision balance": {"ell": 1.0, "bias": True},
    "all": {"links": 6, "share": 0.7, "beta": 2.0, "ell": 0.5, "bias": True},
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_values_are_those_of_an_interior_point_method(case):
    form = lifted(n=16, r=3, loss=HINGE, **CASES[case])
    expected = Clarabel().solve(as_lift(form), Budget(tol=1e-7))
    raw = BurerMonteiro().solve(form, Budget(tol=2e-5))
    bound = certified(form, raw)
    assert raw.objective == pytest.approx(expected.objective, rel=1e-4)
    assert bound == pytest.approx(expected.objective, rel=1e-4)
    assert bound <= expected.objective * (1 + 1e-6)
    V = raw["V"]
    assert np.allclose(np.linalg.norm(V, axis=1), 1.0)
    for lifted_bound, price in zip(form.balance, raw["kappa"]):
        excess = np.sum((V.T @ lifted_bound.vector) ** 2) - lifted_bound.radius**2
        assert 0.5 * price * excess <= 2e-5 * raw.objective  # what leaving the bound gains is within the tolerance
        assert excess <= 0.01 * np.sum(lifted_bound.vector**2)  # and small beside what labels without a bound may have


def test_the_gradient_of_the_augmented_lagrangian_is_right():
    form = lifted(n=9, r=2, loss=LEAST_SQUARES, links=3, share=0.7, beta=1.0, ell=0.5, bias=True)
    coupled = replace(form.losses.terms[0], coupling=np.full((9, 1), -1.0))
    form = replace(form, losses=Losses(9, (coupled,), SharedScalars(np.array([-0.3]), np.array([False]))))
    problem = VectorLabels(form, 3)
    rng = np.random.default_rng(0)
    size = (problem.order + form.count) * 3 + 1
    multipliers, penalty = np.array([0.4, 0.2]), np.array([2.0, 3.0])
    for _ in range(5):
        x = rng.normal(size=size)
        error = check_grad(lambda z: problem.oracle(z, form.losses, multipliers, penalty)[0],
                           lambda z: problem.oracle(z, form.losses, multipliers, penalty)[1], x)
        assert error <= 1e-4


@pytest.mark.parametrize("nonneg", [False, True])
def test_shared_scalars_reach_the_conic_value(nonneg):
    form = lifted(n=12, r=3, loss=LEAST_SQUARES, weight=4.0, links=2)
    term = replace(form.losses.terms[0], loss=PLQ.affine(1, 0).square(), coupling=np.full((12, 1), -1.0))
    scalars = SharedScalars(np.array([0.5 if nonneg else -0.5]), np.array([nonneg]))
    form = replace(form, losses=Losses(12, (term,), scalars))
    expected = Clarabel().solve(as_lift(form), Budget(tol=1e-7)).objective
    raw = BurerMonteiro().solve(form, Budget(tol=1e-5))
    assert raw.objective == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert certified(form, raw) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_single_column_is_widened_until_the_certificate_closes():
    form = lifted(n=40, r=6, links=6, share=0.7, beta=2.0)
    raw = BurerMonteiro(width=1).solve(form, Budget(tol=1e-4))
    assert raw.status is Status.OPTIMAL and raw["V"].shape[1] > 1
    assert certified(form, raw) >= raw.objective * (1 - 1e-4)


def test_an_escape_direction_is_one_of_negative_curvature():
    form = lifted(n=20, r=3, share=0.7, beta=2.0)
    rng = np.random.default_rng(2)
    u, d, kappa = rng.uniform(0.1, 1, 20), np.full(20, 0.05), np.array([0.01])
    z = escape_direction(form, u, d, kappa, np.zeros(0))
    H = form.component_features(u)
    slack = np.diag(d) + kappa[0] * np.outer(form.balance[0].vector, form.balance[0].vector) - H @ H.T
    assert z @ slack @ z < 0
    assert escape_direction(form, u, np.full(20, 1e3), kappa, np.zeros(0)) is None


def test_repair_by_scaling_is_valid_beyond_the_dense_order(monkeypatch):
    form = lifted(n=60, r=4, links=10, share=0.7, beta=3.0)
    raw = BurerMonteiro().solve(form, Budget(tol=1e-4))
    dense = repair_dual_point(form, raw["u"], raw["d"], raw["kappa"], raw["eta"])
    monkeypatch.setattr("margindsl.program.label_certificate.DENSE_ORDER", 10)
    rng = np.random.default_rng(0)
    for noise in (0.0, 1e-3, 0.3):
        d = raw["d"] * (1 + noise * rng.normal(size=form.count))
        reduced = repair_dual_point(form, raw["u"], d, raw["kappa"], raw["eta"])
        slack = np.diag(reduced.d) - form.component_features(reduced.u) @ form.component_features(reduced.u).T
        for bound, kappa in zip(form.balance, reduced.kappa):
            slack += kappa * np.outer(bound.vector, bound.vector)
        assert np.linalg.eigvalsh(slack)[0] >= -1e-9 * np.abs(slack).max()
        assert reduced.bound <= raw.objective
        assert noise or reduced.bound == pytest.approx(dense.bound, rel=1e-3)


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
    assert short.status is Status.ITERATION_LIMIT and certified(form, short) <= full * (1 + 1e-6)
    late = BurerMonteiro().solve(form, Budget(tol=1e-9, deadline=time.monotonic()))
    assert late.status is Status.TIME_LIMIT and certified(form, late) <= full * (1 + 1e-6)
    stopped = BurerMonteiro().solve(form, Budget(tol=1e-9, callback=lambda progress: True))
    assert stopped.status is Status.INTERRUPTED and certified(form, stopped) <= full * (1 + 1e-6)


def test_a_moment_lift_is_refused():
    form = lifted(n=8, r=2)
    moments = MomentLiftForm(form.features, form.losses, form.component, form.sign, form.count)
    refusal = BurerMonteiro().accepts(moments)
    assert not refusal and "clarabel" in str(refusal)
    assert BurerMonteiro().accepts(form)


def test_losses_that_are_not_finite_everywhere_are_refused():
    refusal = BurerMonteiro().accepts(lifted(n=8, loss=PLQ.indicator(-1.0, 2.0)))
    assert not refusal and "is infinite outside (-1.0, 2.0)" in str(refusal)


class NoConjugate(Logistic):
    """A loss without a conjugate."""

    def conjugate(self):
        raise CalculusError("no closed form")


def test_losses_without_a_conjugate_are_refused():
    refusal = BurerMonteiro().accepts(lifted(n=8, loss=NoConjugate()))
    assert not refusal and "the certificate needs the conjugate of a loss: no closed form" in str(refusal)
    form = lifted(n=12, loss=Logistic())
    raw = BurerMonteiro().solve(form, Budget(tol=1e-4))
    assert raw.status is Status.OPTIMAL and certified(form, raw) >= raw.objective * (1 - 1e-4)


def test_two_thousand_points_with_links_and_balance_are_certified_in_seconds():
    form = lifted(n=2000, r=64, weight=10.0, links=200, share=0.7, beta=100.0)
    began = time.process_time()
    raw = BurerMonteiro().solve(form, Budget(tol=1e-3))
    bound = certified(form, raw)
    assert bound >= raw.objective * (1 - 1e-3)
    assert raw["kappa"][0] > 0
    assert time.process_time() - began < 60


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
