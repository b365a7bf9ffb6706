"""Minimax masters with more than masses and duals: a bias a labelling, shared scalars."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from margindsl.calculus import PLQ, pos, square
from margindsl.contract import Budget, Solver
from margindsl.features import build
from margindsl.program.forms import SaddleForm
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl_solvers.alternating_mu import AlternatingMu
from margindsl_solvers.conic import Clarabel
from margindsl_solvers.mirror import MirrorDescent, MirrorProx

FREE, SIGNED = SharedScalars(np.array([0.1]), np.array([False]), ("s",)), SharedScalars(
    np.array([-1.0]), np.array([True]), ("s",))
# loss, coupling, slope of the margin: hinge, squared hinge; adaptive threshold (s − γ)₊; mean and variance
LOSSES = {
    "hinge": (SharedScalars.none(), [(pos().precompose(-1, 1), 0, 1)]),
    "squared hinge": (SharedScalars.none(), [(pos().precompose(-1, 1).square(), 0, 1)]),
    "threshold": (SIGNED, [(pos(), 1, -1)]),
    "mean and variance": (FREE, [(square(), -1, 1), (PLQ.affine(1.0, 0.0), 0, -0.3)]),
}


def instance(seed: int, loss: str, tau: float, n: int = 25, T: int = 8) -> SaddleForm:
    """Labellings near two clusters, with biases ±τ."""
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < n // 2, 0, 1)
    X = rng.normal(size=(n, 3)) + (2 * truth - 1)[:, None] * [1.0, 0.5, 0.0]
    labellings = np.where(rng.random((T, n)) < 0.2, 1 - truth, truth)
    scalars, parts = LOSSES[loss]
    terms = tuple(
        LossTerm(rho, np.arange(n), rng.uniform(1.0, 3.0, n) * 2 / n, np.full(n, float(slope)), np.zeros(n),
                 np.full((n, scalars.count), float(b)))
        for rho, b, slope in parts)
    return SaddleForm(build(X, "linear"), Losses(n, terms, scalars), labellings,
                      biases=tau * np.where(rng.random(T) < 0.5, -1.0, 1.0))


def reference(form: SaddleForm) -> float:
    """Solve min ½Σ‖w_k‖²/μ_k + qᵀs + Σ cρ(Σ_k y_k∘(Φw_k + μ_k b_k)) as written."""
    phi, losses = form.features.toarray(), form.losses
    W, mu, s = cp.Variable((phi.shape[1], form.count)), cp.Variable(form.count), cp.Variable((losses.scalars.count, 1))
    tilts = cp.reshape(cp.multiply(form.biases[:, 0], mu), (1, form.count), order="F")
    outputs = phi @ W + np.ones((form.n, 1)) @ tilts
    margins = cp.sum(cp.multiply(form.coded().T, outputs), axis=1)
    value = cp.sum([cp.quad_over_lin(W[:, k], mu[k]) for k in range(form.count)]) / 2
    constraints = [mu >= 0, cp.sum(mu) == 1]
    v = cp.multiply(losses.slopes, margins[losses.points]) + losses.shifts
    if losses.scalars.count:
        v = v + (losses.coupling @ s)[:, 0]
        value = value + losses.scalars.costs @ s[:, 0]
        constraints += [s[losses.scalars.nonneg] >= 0] if losses.scalars.nonneg.any() else []
    for term, part in losses.slices():
        expression, extra = term.loss.conic(cp, v[part])
        value, constraints = value + cp.sum(cp.multiply(term.weights, expression)), constraints + extra
    problem = cp.Problem(cp.Minimize(value), constraints)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


@pytest.mark.parametrize("loss, tau", [*zip(LOSSES, [0.0, 0.4] * len(LOSSES))])
def test_biases_and_scalars_against_the_problem_as_written(loss: str, tau: float) -> None:
    form = instance(0, loss, tau)
    expected = reference(form)
    for solver in (MirrorProx(), MirrorDescent(), Clarabel()):
        answer = solver.solve(form, Budget(tol=1e-7))
        primal = form.primal_objective(answer["W"], answer["scalars"], answer["mu"])
        dual = form.dual_objective(answer["u"])
        size = max(abs(expected), 0.01)
        assert dual == pytest.approx(expected, abs=3e-6 * size), solver.name
        assert primal == pytest.approx(expected, abs=3e-6 * size), solver.name
        assert dual <= primal + 1e-7 * size
        assert form.losses.scalar_residual(answer["u"]) <= 1e-7
        assert np.all(answer["scalars"][form.losses.scalars.nonneg] >= -1e-9)


def test_first_order_steps_alone_take_biases_and_scalars() -> None:
    for loss in LOSSES:
        form = instance(5, loss, 0.4)
        answer = MirrorProx(newton_limit=0).solve(form, Budget(tol=1e-3))
        assert form.dual_objective(answer["u"]) == pytest.approx(reference(form), rel=2e-3, abs=1e-4), loss


def test_a_bias_in_an_interval_is_a_mixture_of_its_ends() -> None:
    form = instance(7, "hinge", 0.4, T=2)
    y = form.labellings[:1]
    ends = SaddleForm(form.features, form.losses, np.vstack([y, y]), biases=np.array([-0.4, 0.4]))
    phi, b, w = form.features.toarray(), cp.Variable(), cp.Variable(3)
    losses = cp.sum(cp.multiply(form.losses.weights, cp.pos(1 - cp.multiply(form.coded()[0], phi @ w + b))))
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + losses), [cp.abs(b) <= 0.4])
    problem.solve(solver=cp.CLARABEL)
    assert MirrorProx().solve(ends, Budget(tol=1e-8)).objective == pytest.approx(problem.value, rel=1e-6)


def test_a_labelling_and_its_negative_with_the_other_bias_are_one() -> None:
    form = instance(9, "squared hinge", 0.4)
    twice = SaddleForm(form.features, form.losses, np.vstack([form.labellings, 1 - form.labellings]),
                       biases=np.append(form.biases, -form.biases))
    same, found = (MirrorProx().solve(f, Budget(tol=1e-8)).objective for f in (form, twice))
    assert found == pytest.approx(same, rel=1e-7)


@pytest.mark.parametrize("solver, loss, tau, words", [
    (MirrorProx(sampling="labels"), "threshold", 0.0, "moves masses and duals alone, no shared scalars"),
    (AlternatingMu(), "hinge", 0.4, "closed form of the masses holds without a bias")])
def test_what_is_refused_says_why(solver: Solver, loss: str, tau: float, words: str) -> None:
    assert words in str(solver.accepts(instance(0, loss, tau)))
