"""Mirror prox on minimax masters: against cvxpy, weak duality, invariances, warm starts, limits."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from margindsl.calculus import PLQ, ConvexFunction, Logistic, absolute, huber, pos, square
from margindsl.contract import Budget, RawSolution, Status
from margindsl.features import build
from margindsl.program.forms import FixedLabelForm, SaddleForm
from margindsl.program.losses import Losses, LossTerm
from margindsl_solvers.engines.saddle.newton import simplex_quadratic
from margindsl_solvers.mirror import MirrorProx
from margindsl_solvers.newton import Newton


def odm(theta: float = 0.2, nu: float = 0.4) -> PLQ:
    lower, upper = pos().precompose(-1, 1 - theta), pos().precompose(1, -1 - theta)
    return (lower.square() + nu * upper.square()) * (1 / (1 - theta) ** 2)


HINGE = pos().precompose(-1, 1)
LOSSES: dict[str, ConvexFunction] = {
    "hinge": HINGE,
    "odm": odm(),
    "squared hinge": HINGE.square(),
    "least squares": square().precompose(1, -1),
    "huber": huber(0.5).precompose(-1, 1),
    "epsilon-insensitive": absolute().precompose(1, -1) + 0.5 * pos().precompose(1, -1.5),
    "logistic": Logistic(),
}


def instance(seed: int, loss: ConvexFunction, n: int = 24, d: int = 3, T: int = 6, total: float = 5.0) -> SaddleForm:
    rng = np.random.default_rng(seed)
    features = build(rng.normal(size=(n, d)), "linear")
    weights = rng.uniform(0.5, 1.5, n) * total / n
    term = LossTerm(loss, np.arange(n), weights, np.ones(n), np.zeros(n), np.zeros((n, 0)))
    return SaddleForm(features, Losses(n, (term,)), labellings=np.where(rng.random((T, n)) < 0.5, 0, 1))


def several_rows(seed: int, n: int = 15) -> SaddleForm:
    """Two terms, repeated and missing points, slopes, shifts, and rows without weight."""
    rng = np.random.default_rng(seed)
    terms = []
    for loss, m in ((HINGE, 20), (odm(), 10)):
        weights = rng.uniform(0, 0.5, m) * (rng.random(m) < 0.8)
        terms.append(LossTerm(loss, rng.integers(n - 2, size=m), weights, rng.uniform(-1, 2, m),
                              rng.normal(size=m), np.zeros((m, 0))))
    return SaddleForm(build(rng.normal(size=(n, 4)), "linear"), Losses(n, tuple(terms)),
                      labellings=np.where(rng.random((5, n)) < 0.5, 0, 1))


def reference(form: SaddleForm) -> float:
    """Solve min ½(Σ‖w_k‖)² + Σ cρ(v) as written."""
    phi, losses = form.features.toarray(), form.losses
    W = cp.Variable((form.features.rank, form.count))
    margins = cp.sum(cp.multiply(form.coded().T, phi @ W), axis=1)
    v = cp.multiply(losses.slopes, margins[losses.points]) + losses.shifts
    value, constraints = 0.5 * cp.square(cp.sum(cp.norm(W, 2, axis=0))), []
    for term, part in losses.slices():
        expression, extra = term.loss.conic(cp, v[part])
        value, constraints = value + cp.sum(cp.multiply(term.weights, expression)), constraints + extra
    problem = cp.Problem(cp.Minimize(value), constraints)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def certified(form: SaddleForm, solution: RawSolution) -> tuple[float, float]:
    """Return primal and dual as the form itself computes them, having checked the variables and weak duality."""
    mu = solution["mu"]
    assert mu.shape == (form.count,) and np.all(mu >= 0) and mu.sum() == pytest.approx(1.0)
    assert solution["u"].shape == (form.losses.rows,)
    assert solution["W"].shape == (form.features.rank, form.count)
    primal, dual = form.primal_objective(solution["W"]), form.dual_objective(solution["u"])
    assert dual <= primal + form.n * np.finfo(float).eps * abs(primal)  # sums of n terms
    return primal, min(dual, primal)


@pytest.mark.parametrize("limit", [0, 1500], ids=["mirror prox alone", "with newton"])
@pytest.mark.parametrize("name", LOSSES)
def test_agrees_with_cvxpy(name: str, limit: int) -> None:
    form = instance(3, LOSSES[name])
    # first-order steps alone may rest for some thousand iterations before they close the gap
    solution = MirrorProx(newton_limit=limit, stall_limit=4000).solve(form, Budget(tol=1e-6))
    primal, dual = certified(form, solution)
    assert solution.status is Status.OPTIMAL, solution.message
    assert dual <= primal <= dual + 2e-6 * abs(primal)
    assert primal == pytest.approx(reference(form), rel=5e-6)


@pytest.mark.parametrize("seed", range(4))
def test_rows_with_slopes_shifts_and_repetitions(seed: int) -> None:
    form = several_rows(seed)
    solution = MirrorProx().solve(form, Budget(tol=1e-8))
    primal, dual = certified(form, solution)
    assert solution.status is Status.OPTIMAL, solution.message
    assert primal - dual <= 2e-8 * abs(primal)
    assert primal == pytest.approx(reference(form), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("total", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("name", ["hinge", "odm"])
def test_weak_duality_holds_along_the_trace_for_any_weight(name: str, total: float) -> None:
    form = instance(5, LOSSES[name], total=total)
    solution = MirrorProx().solve(form, Budget(tol=1e-8))
    seconds, primal, dual = np.array(solution.trace).T
    best = primal.min()
    assert solution.status is Status.OPTIMAL, solution.message
    assert np.all(np.diff(seconds) >= 0)
    assert np.all(primal >= dual.max() - 1e-10 * abs(best))
    assert np.all(dual <= best + 1e-10 * abs(best))


@pytest.mark.parametrize("name", ["hinge", "odm", "logistic"])
def test_one_labelling_is_the_fixed_label_problem(name: str) -> None:
    form = instance(7, LOSSES[name], T=1)
    fixed = FixedLabelForm(form.features, form.losses, form.labellings[0])
    solution = MirrorProx().solve(form, Budget(tol=1e-8))
    known = Newton().solve(fixed, Budget(tol=1e-10))
    primal, dual = certified(form, solution)
    assert primal == pytest.approx(fixed.objective(known["w"]), rel=3e-8)
    assert dual == pytest.approx(primal, rel=2e-8)
    assert solution["mu"] == pytest.approx([1.0])


def test_value_is_invariant_to_the_order_and_names_of_labellings() -> None:
    form = instance(11, odm(), T=8)
    order, turned = np.random.default_rng(0).permutation(8), np.array([0, 1] * 4)
    moved = SaddleForm(form.features, form.losses, labellings=turned[:, None] ^ form.labellings[order])
    values = [certified(f, MirrorProx().solve(f, Budget(tol=1e-9)))[0] for f in (form, moved)]
    assert values[0] == pytest.approx(values[1], rel=3e-9)


def test_duplicates_and_opposites_change_nothing() -> None:
    form = instance(13, HINGE, T=5)
    Y = form.labellings
    crowded = SaddleForm(form.features, form.losses, labellings=np.vstack([Y, Y[1:3], 1 - Y[:2], Y[:1]]))
    plain = certified(form, MirrorProx().solve(form, Budget(tol=1e-8)))[0]
    primal, dual = certified(crowded, MirrorProx().solve(crowded, Budget(tol=1e-8)))
    assert primal - dual <= 2e-8 * primal
    assert primal == pytest.approx(plain, rel=3e-8)


def test_more_labellings_never_raise_the_value() -> None:
    form = instance(17, odm(), T=10)
    values = []
    for T in (1, 3, 10):
        part = SaddleForm(form.features, form.losses, labellings=form.labellings[:T])
        values.append(certified(part, MirrorProx().solve(part, Budget(tol=1e-8)))[0])
    assert values[0] >= values[1] - 1e-7 and values[1] >= values[2] - 1e-7


@pytest.mark.parametrize("limit", [0, 1500])
def test_warm_start_after_growth_saves_iterations(limit: int) -> None:
    # A duplicate is the growth that leaves the optimum where it was.
    form = instance(19, odm(), n=60, T=12, total=30.0)
    solver, budget = MirrorProx(newton_limit=limit), Budget(tol=1e-5)
    before = solver.solve(form, budget)
    grown = SaddleForm(form.features, form.losses, labellings=np.vstack([form.labellings, form.labellings[:1]]))
    cold, warm = solver.solve(grown, budget), solver.solve(grown, budget, start=before)
    assert warm.status is Status.OPTIMAL
    assert warm.iterations < cold.iterations


def test_a_hostile_start_does_no_harm() -> None:
    form = instance(23, HINGE)
    start = RawSolution(Status.FAILED, {"mu": np.full(3, np.nan), "u": np.full(form.n, 1e6)})
    primal, dual = certified(form, MirrorProx().solve(form, Budget(tol=1e-7), start=start))
    assert primal - dual <= 2e-7 * primal


def test_zero_weights_give_zero() -> None:
    form = instance(29, HINGE, total=0.0)
    solution = MirrorProx().solve(form)
    assert solution.status is Status.OPTIMAL
    assert certified(form, solution) == (0.0, 0.0)


def test_limits_are_said_and_the_answer_still_certified() -> None:
    form = instance(31, HINGE, n=60, T=20, total=50.0)
    capped = MirrorProx(newton_limit=0).solve(form, Budget(tol=1e-12, max_iter=10))
    assert capped.status is Status.ITERATION_LIMIT and capped.iterations == 10
    assert "raise max_iter" in capped.message
    late = MirrorProx().solve(form, Budget.within(0.0, tol=1e-12))
    assert late.status is Status.TIME_LIMIT and "time is up" in late.message
    asked = MirrorProx().solve(form, Budget(tol=1e-12, callback=lambda progress: True))
    assert asked.status is Status.INTERRUPTED and "callback" in asked.message
    for solution in (capped, late, asked):
        primal, dual = certified(form, solution)
        assert dual <= primal


def test_an_impossible_tolerance_ends_by_itself() -> None:
    form = instance(37, odm())
    solution = MirrorProx().solve(form, Budget.within(600.0, tol=0.0))
    assert solution.status in (Status.INACCURATE, Status.OPTIMAL)
    primal, dual = certified(form, solution)
    assert primal - dual <= 1e-12 * primal


def test_a_primal_weight_does_not_change_the_answer() -> None:
    form = instance(41, odm())
    solution = MirrorProx(newton_limit=0, primal_weight=1.0).solve(form, Budget(tol=1e-4))
    primal, dual = certified(form, solution)
    assert primal - dual <= 1.1e-4 * primal


def test_refusals_say_what_to_use() -> None:
    form = instance(43, HINGE)
    fixed = FixedLabelForm(form.features, form.losses, form.labellings[0])
    assert "minimax masters, not a FixedLabelForm" in str(MirrorProx().accepts(fixed))
    assert MirrorProx().accepts(form)


def test_simplex_quadratic_against_a_grid() -> None:
    rng = np.random.default_rng(0)
    ticks = np.linspace(0, 1, 61)
    grid = np.array([(a, b, 1 - a - b) for a in ticks for b in ticks if a + b <= 1 + 1e-12])
    for _ in range(20):
        root, gradient, centre = rng.normal(size=(rng.integers(1, 4), 3)), rng.normal(size=3), rng.dirichlet(np.ones(3))
        S = root.T @ root
        mu = simplex_quadratic(S, gradient, centre)
        moves = np.vstack([mu, grid]) - centre
        values = 0.5 * np.einsum("pi,ij,pj->p", moves, S, moves) + moves @ gradient
        assert mu.sum() == pytest.approx(1.0) and mu.min() >= 0
        assert values[0] <= values[1:].min() + 1e-6


