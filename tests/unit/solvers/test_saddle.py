"""The other saddle engines: sampled gradients, theorem bounds, alternating masses, large systems, coarse starts."""

from __future__ import annotations

import dataclasses
import itertools
from concurrent.futures import ThreadPoolExecutor

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from margindsl.calculus import PLQ, ConvexFunction, Logistic, pos
from margindsl.contract import Budget, RawSolution, Solver, Status
from margindsl.errors import DeclarationError
from margindsl.features import build
from margindsl.program.forms import FixedLabelForm, SaddleForm
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl.typing import FloatArray
from margindsl_solvers.alternating_mu import AlternatingMu
from margindsl_solvers.conic import Clarabel
from margindsl_solvers.engines.rows import plane
from margindsl_solvers.engines.rows.augmented import NewtonRun
from margindsl_solvers.engines.rows.plane import PlaneRows
from margindsl_solvers.engines.saddle import box as saddle_box
from margindsl_solvers.engines.saddle import model as saddle_model
from margindsl_solvers.engines.saddle import newton as saddle_system
from margindsl_solvers.engines.saddle import progressive, sampling
from margindsl_solvers.engines.saddle.alternation import SignedGram, StackedFeatures
from margindsl_solvers.engines.saddle.box import BoxModel, descent_steps, prox_steps
from margindsl_solvers.engines.saddle.model import SaddleModel, distinct
from margindsl_solvers.engines.saddle.newton import DenseSystem, Rows, WoodburySystem, heavy, newton_step
from margindsl_solvers.engines.saddle.sampling import StochasticRun, label_gradient
from margindsl_solvers.engines.saddle.variance import AnchoredGradient
from margindsl_solvers.mirror import MirrorDescent, MirrorProx
from margindsl_solvers.newton import Newton


def odm(theta: float = 0.2, nu: float = 0.4) -> PLQ:
    lower, upper = pos().precompose(-1, 1 - theta), pos().precompose(1, -1 - theta)
    return (lower.square() + nu * upper.square()) * (1 / (1 - theta) ** 2)


HINGE = pos().precompose(-1, 1)
LOSSES = {"hinge": HINGE, "odm": odm()}


def instance(seed: int, loss: ConvexFunction, n: int = 20, d: int = 3, T: int = 5, total: float = 2.0) -> SaddleForm:
    rng = np.random.default_rng(seed)
    term = LossTerm(loss, np.arange(n), rng.uniform(0.5, 1.5, n) * total / n, np.ones(n), np.zeros(n),
                    np.zeros((n, 0)))
    return SaddleForm(build(rng.normal(size=(n, d)), "linear"), Losses(n, (term,)),
                      labellings=np.where(rng.random((T, n)) < 0.5, 0, 1))


def rows_everywhere(seed: int, n: int = 15) -> SaddleForm:
    """Two terms with repeated points, slopes, shifts and rows without weight."""
    rng = np.random.default_rng(seed)
    terms = []
    for loss, m in ((HINGE, 20), (odm(), 12)):
        weights = rng.uniform(0, 0.5, m) * (rng.random(m) < 0.8)
        terms.append(LossTerm(loss, rng.integers(n - 2, size=m), weights, rng.uniform(-1, 2, m),
                              rng.normal(size=m), np.zeros((m, 0))))
    return SaddleForm(build(rng.normal(size=(n, 4)), "linear"), Losses(n, tuple(terms)),
                      labellings=np.where(rng.random((5, n)) < 0.5, 0, 1))


def values(form: SaddleForm, solution: RawSolution) -> tuple[float, float]:
    """Return primal and dual recomputed by the form, having checked the masses, and weak duality up to rounding."""
    mu = solution["mu"]
    assert mu.shape == (form.count,) and np.all(mu >= 0) and mu.sum() == pytest.approx(1.0)
    primal, dual = form.primal_objective(solution["W"], solution["scalars"]), form.dual_objective(solution["u"])
    assert dual <= primal + form.n * np.finfo(float).eps * abs(primal)  # sums of n terms
    return primal, min(dual, primal)


def optimum(form: SaddleForm) -> float:
    primal, dual = values(form, MirrorProx().solve(form, Budget(tol=1e-8)))
    assert primal - dual <= 2e-8 * abs(primal)
    return primal


def point_inside(box: BoxModel, seed: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.ones(box.model.count))
    return mu, box.lower + rng.random(len(box.lower)) * (box.upper - box.lower)


FORMS = [instance(1, HINGE), instance(2, odm()), rows_everywhere(3)]


# -- sampled gradients --------------------------------------------------------------------------------


def full_gradient(box: BoxModel, mu: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (G(u, y_k))_k and ρ*'(−u/c) − (aγ + d)."""
    point = box.model.evaluate(mu, box.scaled(u))
    return box.linear(u) - 0.5 * point.norms, box.linear_slope(u) - point.arguments + box.losses.shifts


@pytest.mark.parametrize("form", FORMS, ids=["hinge", "odm", "rows"])
def test_full_gradient_is_the_derivative_of_the_saddle_function(form: SaddleForm) -> None:
    box = BoxModel(SaddleModel(form))
    mu, u = point_inside(box, 0)
    labels = form.coded(box.model.first)

    def phi(mu: FloatArray, u: FloatArray) -> float:
        squares = np.sum(form.features.adjoint((labels * form.losses.scatter(u)).T) ** 2, axis=0)
        return -form.losses.conjugate_value(u) - 0.5 * float(mu @ squares)

    first, second = full_gradient(box, mu, u)
    for k in range(len(mu)):
        assert first[k] == pytest.approx(phi(np.eye(len(mu))[k], u), rel=1e-9, abs=1e-12)
    for r in np.flatnonzero(form.losses.weights > 0):
        step = 1e-6 * form.losses.weights[r] * np.eye(len(u))[r]
        slope = (phi(mu, u + step) - phi(mu, u - step)) / (2 * step[r])
        assert second[r] == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("form", FORMS, ids=["hinge", "odm", "rows"])
def test_published_gradients_are_unbiased(form: SaddleForm) -> None:
    box = BoxModel(SaddleModel(form))
    mu, u = point_inside(box, 1)
    T = len(mu)
    first, second = np.zeros(T), np.zeros(len(u))
    for i, j in itertools.product(range(T), range(T)):
        estimate = label_gradient(box, u, i, j)
        first, second = first + mu[j] / T * estimate[0], second + mu[j] / T * estimate[1]
    known = full_gradient(box, mu, u)
    assert first == pytest.approx(known[0]) and second == pytest.approx(known[1])


@pytest.mark.parametrize("form", FORMS, ids=["hinge", "odm", "rows"])
def test_anchored_gradients_are_unbiased_and_exact_at_the_anchor(form: SaddleForm) -> None:
    model = SaddleModel(form)
    box = BoxModel(model)
    anchor, other = (model.evaluate(mu, box.scaled(u)) for mu, u in (point_inside(box, 3), point_inside(box, 4)))
    gradient = AnchoredGradient(model, anchor)
    met = other.mu, other.x, other.scalars
    norms = sum(q * gradient(met, j)[0] for j, q in enumerate(gradient.law))
    arguments = sum(q * gradient(met, j)[1] for j, q in enumerate(gradient.law))
    assert norms == pytest.approx(other.norms) and arguments == pytest.approx(other.arguments)
    for j in range(model.count):
        still = gradient((anchor.mu, anchor.x, anchor.scalars), j)
        assert still[0] == pytest.approx(anchor.norms) and still[1] == pytest.approx(anchor.arguments)


def test_draws_follow_their_law() -> None:
    rng, law = np.random.default_rng(0), np.array([0.5, 0.0, 2.0, 1.5])
    from margindsl_solvers.engines.saddle.sampling import draw

    counts = np.bincount([draw(law, rng) for _ in range(8000)], minlength=4) / 8000
    assert counts[1] == 0
    assert counts == pytest.approx(law / 4, abs=0.03)


# -- theorems -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=["hinge", "odm", "rows"])
def test_box_constants_bound_values_and_slopes_and_hold_the_optimum(form: SaddleForm) -> None:
    box = BoxModel(SaddleModel(form))
    best = MirrorProx().solve(form, Budget(tol=1e-8))["u"]
    assert np.all(best >= box.lower - 1e-9) and np.all(best <= box.upper + 1e-9)
    corners = [(np.full(box.model.count, 1 / box.model.count), end) for end in (box.lower, box.upper)]
    for mu, u in [point_inside(box, seed) for seed in range(30)] + corners:
        first, _ = full_gradient(box, mu, u)
        assert np.max(np.abs(first)) <= box.bound_of_value
        for k in range(box.model.count):
            assert np.linalg.norm(label_gradient(box, u, k, k)[1]) <= box.bound_of_slope


def exact_gap(form: SaddleForm, mu: FloatArray, u: FloatArray) -> float:
    """Return max over u of φ(μ, u) less min over μ of φ(μ, u), by solving at fixed masses."""
    model = SaddleModel(form)
    stacked = StackedFeatures(model, np.flatnonzero(mu), np.sqrt(mu[mu > 0]), SignedGram(model))
    fixed = FixedLabelForm(stacked, form.losses, np.ones(form.n, dtype=int))  # type: ignore[arg-type]
    row = PlaneRows(fixed)
    run = NewtonRun(row, Budget(tol=1e-9, max_iter=1000), np.zeros(row.rank), np.zeros(form.n))
    assert run.run() is Status.OPTIMAL and run.best is not None
    assert np.hstack([r * y[:, None] * form.features.toarray() for r, y in zip(
        stacked.root, form.coded(model.first))]) @ run.best.x == pytest.approx(stacked.apply(run.best.x))
    return run.best.primal - form.dual_objective(u)


@pytest.mark.parametrize("name, extra", [("hinge", False), ("odm", True)], ids=["ODMC", "ssODM"])
def test_average_meets_the_bound_of_its_theorem(name: str, extra: bool) -> None:
    form = instance(5, LOSSES[name], n=12, T=4)
    box, T = BoxModel(SaddleModel(form)), 400
    steps = (prox_steps if extra else descent_steps)(box, T)
    gaps = []
    for seed in range(3):
        run = StochasticRun(box, steps, Budget(tol=0.0, max_iter=T), rng=np.random.default_rng(seed), extra=extra)
        assert run.run() is Status.ITERATION_LIMIT
        gaps.append(exact_gap(form, run.mean_mu, -form.losses.weights * box.scaled(run.mean_u)))
    assert 0 <= np.mean(gaps) <= steps.bound


def test_theorem_steps_are_those_printed() -> None:
    form = instance(6, odm(), T=7)
    box = BoxModel(SaddleModel(form), tau=0.3)
    L1, L2, B, T = box.bound_of_value, box.bound_of_slope, 7, 50
    root = 0.3 * np.sqrt(form.n)  # τ√m
    steps = descent_steps(box, T)
    assert box.radius == pytest.approx(root)
    assert steps.a == pytest.approx(B * L1 / np.sqrt(np.log(B)))
    assert steps.b == pytest.approx(np.sqrt(2) * L2 / root)
    assert steps.eta == pytest.approx(np.sqrt(2 / T))
    assert steps.bound == pytest.approx((B * L1 * np.sqrt(2 * np.log(B)) + L2 * root) / np.sqrt(T))
    extra = prox_steps(box, T)
    assert (extra.a, extra.b) == pytest.approx((1 / np.sqrt(np.log(B)), np.sqrt(2) / root))
    assert extra.times(2.0).eta == 2 * extra.eta and extra.times(2.0).bound == np.inf


@pytest.mark.parametrize("solver", [MirrorProx(sampling="labels", step_factor=30.0), MirrorDescent(sampling="labels")],
                         ids=lambda s: s.name)
@pytest.mark.parametrize("form", [*(instance(3, loss, n=23, T=6) for loss in LOSSES.values()), rows_everywhere(4)],
                         ids=[*LOSSES, "rows"])
def test_compiled_steps_are_the_interpreted_ones(form: SaddleForm, solver: Solver,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    budget = Budget(tol=1e-12, max_iter=90)
    plain = solver.solve(form, budget)
    monkeypatch.setattr(sampling, "COMPILED", 0.0)
    compiled = solver.solve(form, budget)
    assert compiled.iterations == plain.iterations == 90
    assert np.array(compiled.trace)[:, 1:] == pytest.approx(np.array(plain.trace)[:, 1:], rel=1e-9, abs=1e-12)
    assert compiled["mu"] == pytest.approx(plain["mu"], abs=1e-9)
    assert compiled["u"] == pytest.approx(plain["u"], abs=1e-9)
    assert np.subtract(*values(form, compiled)) == pytest.approx(np.diff(np.array(compiled.trace)[:, :0:-1]).min())


@pytest.mark.parametrize("name", LOSSES)
def test_pieces_give_values_and_slopes_of_their_function(name: str) -> None:
    function = LOSSES[name].conjugate()
    low, high = np.maximum(function.domain[0], -3.0), np.minimum(function.domain[1], 3.0)
    x = np.linspace(low, high, 41)[1:-1]
    a, value, slope, bend = sampling.pieces_of(function)[np.searchsorted(function.breakpoints, x, side="right")].T
    assert value + (x - a) * (slope + bend * (x - a)) == pytest.approx(function(x), abs=1e-12)
    assert slope + 2 * bend * (x - a) == pytest.approx(function.derivative(x), abs=1e-12)


@pytest.mark.parametrize("weight", [0.2, 5.0])
def test_a_primal_weight_turns_the_mirror_map_and_keeps_its_bound(weight: float) -> None:
    form = instance(5, odm(), n=12, T=4)
    box = BoxModel(SaddleModel(form))
    plain, turned = prox_steps(box, 400), prox_steps(box, 400, weight)
    assert (turned.a, turned.b) == pytest.approx((plain.a / weight, plain.b * weight))
    answers = [MirrorProx(sampling=rule, primal_weight=w, max_iter=60).solve(form, Budget(tol=1e-12))
               for rule in ("labels", "variance-reduced") for w in (None, weight)]
    assert not any(np.array_equal(a["mu"], b["mu"]) for a, b in zip(answers[::2], answers[1::2]))
    run = StochasticRun(box, turned, Budget(tol=0.0, max_iter=400), rng=np.random.default_rng(0), extra=True)
    run.run()
    assert exact_gap(form, run.mean_mu, -form.losses.weights * box.scaled(run.mean_u)) <= turned.bound


# -- solvers ------------------------------------------------------------------------------------------

ENGINES: dict[str, tuple[Solver, float]] = {
    "variance-reduced": (MirrorProx(sampling="variance-reduced"), 1e-4),
    "mirror descent": (MirrorDescent(), 1e-6),
    "mirror descent alone": (MirrorDescent(newton_limit=0), 1e-4),
    "alternating": (AlternatingMu(), 1e-3),
    "alternating, squared": (AlternatingMu(exponent=2.0), 1e-3),
    "labels": (MirrorProx(sampling="labels", step_factor=300.0, max_iter=4000), 5e-2),
    "descent, labels": (MirrorDescent(sampling="labels", step_factor=10.0, max_iter=4000), 5e-2),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("engine", ENGINES)
def test_engines_agree_with_the_deterministic_one(engine: str, name: str) -> None:
    solver, tol = ENGINES[engine]
    form = instance(11, LOSSES[name], total=1.0)
    solution = solver.solve(form, Budget.within(600, tol=tol))
    primal, dual = values(form, solution)
    assert solution.status is Status.OPTIMAL, solution.message
    assert 0 <= primal - dual <= 1.01 * tol * primal
    assert primal == pytest.approx(optimum(form), rel=2 * tol)


@pytest.mark.parametrize("solver", [MirrorDescent(), AlternatingMu(),
                                    MirrorProx(sampling="variance-reduced", max_iter=2000)], ids=lambda s: s.name)
def test_rows_with_slopes_shifts_and_repetitions(solver: Solver) -> None:
    form = rows_everywhere(8)
    solution = solver.solve(form, Budget.within(600, tol=1e-4))
    primal, dual = values(form, solution)
    assert dual <= primal <= dual + 1e-2 * abs(primal)
    assert primal == pytest.approx(optimum(form), rel=1e-2)


@pytest.mark.parametrize("build_solver", [
    lambda seed: MirrorProx(sampling="labels", random_state=seed),
    lambda seed: MirrorProx(sampling="variance-reduced", random_state=seed),
    lambda seed: MirrorDescent(sampling="labels", random_state=seed)], ids=["labels", "vr", "descent"])
def test_seeds_reproduce_and_differ(build_solver) -> None:  # type: ignore[no-untyped-def]
    form, budget = instance(13, odm()), Budget(tol=1e-12, max_iter=60)
    one, two, other = (build_solver(seed).solve(form, budget) for seed in (1, 1, 2))
    assert np.array_equal(one["u"], two["u"]) and np.array_equal(one["mu"], two["mu"])
    assert not np.array_equal(one["u"], other["u"])


def test_weak_duality_holds_along_every_trace() -> None:
    form = instance(17, odm(), total=20.0)
    best = optimum(form)
    for solver, _ in ENGINES.values():
        _, primal, dual = np.array(solver.solve(form, Budget(tol=1e-9, max_iter=100)).trace).T
        assert primal.min() >= best * (1 - 1e-7) and dual.max() <= best * (1 + 1e-7), solver


def test_alternating_lowers_the_value_at_every_turn() -> None:
    form = instance(19, odm(), T=8, total=10.0)
    solution = AlternatingMu().solve(form, Budget(tol=1e-7, max_iter=60))
    primal = np.array(solution.trace)[:, 1]
    assert np.all(np.diff(primal) <= 1e-7 * primal[0])


def test_alternating_takes_shared_scalars() -> None:
    rng = np.random.default_rng(23)
    n, T = 16, 4
    term = LossTerm(HINGE, np.arange(n), np.full(n, 2.0 / n), np.ones(n), -np.ones(n), -np.ones((n, 1)))
    scalars = SharedScalars(np.array([-1.0]), np.array([True]), ("rho",))  # (s − γ)₊ with s ≥ 0, cost −s
    form = SaddleForm(build(rng.normal(size=(n, 3)), "linear"), Losses(n, (term,), scalars),
                      labellings=np.where(rng.random((T, n)) < 0.5, 0, 1))
    solution = AlternatingMu().solve(form, Budget(tol=1e-5))
    primal, dual = values(form, solution)
    assert form.losses.scalar_residual(solution["u"]) <= 1e-5
    assert solution["scalars"][0] >= 0
    known = Clarabel().solve(form, Budget(tol=1e-8))
    assert primal == pytest.approx(known.objective, rel=1e-3, abs=1e-5)
    assert primal - dual <= 1e-3 * abs(primal) + 1e-6


def test_variance_reduction_takes_shared_scalars() -> None:
    rng = np.random.default_rng(23)
    n, T = 16, 4
    term = LossTerm(odm(), np.arange(n), np.full(n, 2.0 / n), np.ones(n), -np.ones(n), -np.ones((n, 1)))
    scalars = SharedScalars(np.array([-0.5]), np.array([True]), ("rho",))
    form = SaddleForm(build(rng.normal(size=(n, 3)), "linear"), Losses(n, (term,), scalars),
                      labellings=np.where(rng.random((T, n)) < 0.5, 0, 1))
    solution = MirrorProx(sampling="variance-reduced").solve(form, Budget.within(600, tol=1e-3))
    primal, dual = values(form, solution)
    known = Clarabel().solve(form, Budget(tol=1e-8))
    assert solution.status is Status.OPTIMAL and form.losses.scalar_residual(solution["u"]) <= 1e-9
    assert primal == pytest.approx(known.objective, rel=2e-3) and dual == pytest.approx(known.objective, rel=2e-3)


def test_stacked_features_are_those_of_the_paper() -> None:
    form = instance(29, odm())
    model, rng = SaddleModel(form), np.random.default_rng(0)
    active, root = np.array([0, 2, 3]), np.array([0.3, 0.9, 0.5])
    signed = SignedGram(model)
    stacked = StackedFeatures(model, active, root, signed)
    phi = np.hstack([r * form.coded(model.first)[k][:, None] * form.features.toarray()
                     for k, r in zip(active, root)])
    w, R = rng.normal(size=(phi.shape[1], 2)), rng.normal(size=(form.n, 2))
    weights = rng.random(form.n)
    assert stacked.apply(w) == pytest.approx(phi @ w) and stacked.adjoint(R) == pytest.approx(phi.T @ R)
    assert stacked.rows(np.arange(4)) == pytest.approx(phi[:4])
    assert stacked.gram() == pytest.approx(phi.T @ phi)
    assert stacked.gram(weights) == pytest.approx(phi.T @ (weights[:, None] * phi))
    for step in range(60):  # weights that change at few points, and labellings that leave and come back
        weights[rng.integers(form.n, size=3)] = rng.choice([0.0, 1.0, 1e6])
        kept = np.arange(3) if step % 7 else np.array([0, 2])
        blocks = (kept[:, None] * 3 + np.arange(3)).ravel()
        changed = StackedFeatures(model, active[kept], root[kept], signed).gram(weights)
        assert changed == pytest.approx(phi[:, blocks].T @ (weights[:, None] * phi[:, blocks]), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("solver", [MirrorDescent(newton_limit=0), MirrorDescent(sampling="labels"), AlternatingMu(),
                                    MirrorProx(sampling="variance-reduced"), MirrorProx(sampling="labels")],
                         ids=lambda s: f"{s.name} {getattr(s, 'sampling', '')}")
def test_limits_are_said_and_the_answer_still_certified(solver: Solver) -> None:
    form = instance(31, HINGE, n=60, T=20, total=50.0)
    capped = solver.solve(form, Budget(tol=1e-12, max_iter=5))
    late = solver.solve(form, Budget.within(0.0, tol=1e-12))
    asked = solver.solve(form, Budget(tol=1e-12, callback=lambda progress: True))
    assert capped.status is Status.ITERATION_LIMIT and "raise max_iter" in capped.message
    assert late.status is Status.TIME_LIMIT and "time is up" in late.message
    assert asked.status is Status.INTERRUPTED and "callback" in asked.message
    for solution in (capped, late, asked):
        primal, dual = values(form, solution)
        assert dual <= primal


@pytest.mark.parametrize("solver", [MirrorProx(sampling="labels"), MirrorProx(sampling="variance-reduced"),
                                    MirrorDescent(sampling="labels"), MirrorDescent(), AlternatingMu()],
                         ids=lambda s: f"{s.name} {getattr(s, 'sampling', '')}")
def test_warm_starts_are_used_and_hostile_ones_do_no_harm(solver: Solver) -> None:
    form = instance(37, odm(), total=10.0)
    good = MirrorProx().solve(form, Budget(tol=1e-8))
    bad = RawSolution(Status.FAILED, {"mu": np.full(3, np.nan), "u": np.full(form.n, 1e6)})
    budget = Budget(tol=1e-12, max_iter=10)
    cold, warm = (np.subtract(*values(form, solver.solve(form, budget, start))) for start in (None, good))
    assert warm < cold
    hostile = values(form, solver.solve(form, budget, bad))
    assert hostile[1] <= hostile[0]


def test_wrong_options_are_named() -> None:
    with pytest.raises(DeclarationError, match=r"sampling='points'\): expected one of 'auto', 'none', 'progressive'"):
        MirrorProx(sampling="points")
    with pytest.raises(DeclarationError, match=r"mirror-prox\(tau=-1\): expected a positive finite number"):
        MirrorProx(tau=-1)
    with pytest.raises(DeclarationError, match=r"mirror-descent\(step_factor=0\): expected a positive"):
        MirrorDescent(step_factor=0)
    with pytest.raises(DeclarationError, match=r"exponent=3\): expected a number in \(0, 2\]"):
        AlternatingMu(exponent=3)


def test_refusals_say_what_to_use() -> None:
    form = instance(41, Logistic())
    assert "bounded slopes" in str(MirrorProx(sampling="labels").accepts(form))
    assert "bounded slopes" in str(MirrorDescent(sampling="labels").accepts(form))
    assert MirrorProx().accepts(form) and MirrorDescent().accepts(form) and AlternatingMu().accepts(form)
    fixed = FixedLabelForm(form.features, form.losses, form.labellings[0])
    for solver in (AlternatingMu(), MirrorDescent()):
        assert "minimax masters, not a FixedLabelForm" in str(solver.accepts(fixed))


# -- large systems ------------------------------------------------------------------------------------


def linearised(seed: int, n: int = 80) -> tuple[SaddleModel, object, Rows]:
    form = instance(seed, odm(), n=n, d=4, T=6, total=20.0)
    model = SaddleModel(form)
    box = BoxModel(model)
    mu, u = point_inside(box, seed)
    mu[2] = 0.0
    base, rng = model.evaluate(mu / mu.sum(), box.scaled(u)), np.random.default_rng(seed)
    points = np.sort(rng.choice(n, n - 7, replace=False))
    rows = Rows(points, np.sqrt(form.losses.weights[points]), rng.uniform(0.2, 2.0, len(points)),
                rng.normal(size=len(points)), rng.normal(size=(len(points), 2)))
    return model, base, rows


def test_woodbury_system_equals_the_dense_one() -> None:
    model, base, rows = linearised(43)
    dense, low = DenseSystem(model, base, rows), WoodburySystem(model, base, rows, heavy(base.mu, 1e-9))
    change = np.random.default_rng(0).normal(size=model.count + 2)
    assert low.is_exact
    assert low.curvature == pytest.approx(dense.curvature, rel=1e-5, abs=1e-6)
    assert low.rest == pytest.approx(dense.rest, rel=1e-5, abs=1e-6)
    assert low.step(change) == pytest.approx(dense.step(change), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_steps_of_a_sampled_curvature_close_the_gap(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saddle_system, "GRAM_PASSES", 0.0)
    monkeypatch.setattr(saddle_system, "SMALL_WORK", 0.0)
    form = instance(47, LOSSES[name], n=3000, d=4, T=6, total=20.0)
    primal, dual = values(form, MirrorProx(newton_limit=100).solve(form, Budget.within(600, tol=1e-5)))
    assert primal - dual <= 1.01e-5 * primal
    assert primal == pytest.approx(optimum(form), rel=1e-5)


def test_a_sample_of_all_rows_is_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    model, base, rows = linearised(47, n=200)
    whole = WoodburySystem(model, base, rows, heavy(base.mu, 1e-9))
    monkeypatch.setattr(saddle_system, "GRAM_PASSES", 0.0)
    monkeypatch.setattr(saddle_system, "SMALL_WORK", 0.0)
    part = WoodburySystem(model, base, rows, heavy(base.mu, 1e-9))
    assert whole.is_exact and not part.is_exact
    error = np.linalg.norm(part.curvature - whole.curvature) / np.linalg.norm(whole.curvature)
    assert 0 < error < 0.5


@pytest.mark.parametrize("cached", [64, 2**16])
def test_blocks_and_threads_change_no_product(cached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    form = instance(49, odm(), n=203, d=4, T=6)
    monkeypatch.setattr(saddle_model, "CACHED", cached)
    rng, Phi, Y = np.random.default_rng(0), form.features.toarray(), form.coded()
    W, s = rng.normal(size=(6, 4)), rng.normal(size=203)
    with ThreadPoolExecutor(2) as pool:
        for model in (SaddleModel(form), SaddleModel(form, pool.map)):
            assert model.margins(W) == pytest.approx(np.sum(Y * (W @ Phi.T), axis=0))
            assert model.adjoint(s) == pytest.approx((Y * s) @ Phi)
            assert np.array_equal(model.adjoint(s), SaddleModel(form).adjoint(s))


def test_stopped_on_a_sample_the_answer_is_certified_on_all_points() -> None:
    form = instance(61, odm(), n=20_000, d=4, T=3, total=20.0)
    reports: list[float] = []
    stopped = MirrorProx(sampling="progressive").solve(
        form, Budget(tol=1e-9, callback=lambda progress: bool(reports.append(progress.value)) or len(reports) > 1))
    primal, dual = values(form, stopped)
    assert stopped.status is Status.INTERRUPTED and "the callback or Ctrl-C stopped" in stopped.message
    assert dual <= primal < np.inf


def test_labellings_that_differ_in_few_points_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    y = np.where(rng.random(50_000) < 0.5, 0, 1)
    close = y.copy()
    close[49_999] = 1 - close[49_999]
    first, group = distinct(np.array([y, close, 1 - y, 1 - close, y]), np.zeros((5, 2)))
    assert first.tolist() == [0, 1] and group.tolist() == [0, 1, 0, 1, 0]


def test_newton_needs_no_system_above_its_limit() -> None:
    form = instance(53, odm(), n=60)
    model = SaddleModel(form)
    point = model.judge(model.evaluate(np.full(5, 0.2), model.first_guess()))
    assert newton_step(model, point, 1.0, 4) is None
    ahead = newton_step(model, point, 1.0, 100)
    assert ahead is not None and ahead.gap < point.gap


@pytest.mark.parametrize("name", LOSSES)
def test_damping_shortens_newton_steps_and_moves_no_solution(name: str) -> None:
    form = instance(3, LOSSES[name], n=60, total=20.0)
    model = SaddleModel(form)
    start = model.judge(model.evaluate(np.full(model.count, 1 / model.count), model.first_guess()))
    # Rows at a kink are put there first, damped or not; the moves that are left shrink.
    still = newton_step(model, start, 1.0, 100, 1e12)
    assert still is not None
    np.testing.assert_allclose(still.mu, start.mu, atol=1e-6)
    steps = [newton_step(model, start, 1.0, 100, damping) for damping in (1e2, 1e4, 1e6)]
    moves = [float(np.linalg.norm(step.mu - still.mu) + np.linalg.norm(step.x - still.x)) for step in steps if step]
    assert len(moves) == 3 and moves[0] > moves[1] > moves[2]
    best = MirrorProx(tol=1e-12).solve(form)
    x = model.clip(np.divide(-best["u"], model.weights))
    solved = model.judge(model.evaluate(best["mu"][model.first], x))
    for damping in (0.0, 1e-3, 1.0):
        again = newton_step(model, solved, 1.0, 100, damping)
        assert again is not None and again.error <= 1e-7


def test_damped_newton_steps_finish_the_hinge_early() -> None:
    rng = np.random.default_rng(0)
    y = np.where(rng.random(200) < 0.5, 1, 0)
    X = rng.normal(size=(200, 8)) + (0.8 * y - 0.4)[:, None]
    labellings = np.array([np.where(X @ rng.normal(size=8) > 0, 1, 0) for _ in range(12)])
    for total in (3.0, 30.0, 300.0):
        term = LossTerm(HINGE, np.arange(200), np.full(200, total / 200), np.ones(200), np.zeros(200),
                        np.zeros((200, 0)))
        form = SaddleForm(build(X, "linear"), Losses(200, (term,)), labellings=labellings)
        quick, alone = MirrorProx(tol=1e-8).solve(form), MirrorProx(tol=1e-3, newton_limit=0).solve(form)
        assert quick.status is Status.OPTIMAL
        assert quick.iterations <= 0.6 * alone.iterations  # though the goal is a hundred thousand times nearer
        assert form.primal_objective(quick["W"]) <= form.primal_objective(alone["W"]) + 1e-9
        assert form.primal_objective(quick["W"]) >= form.dual_objective(alone["u"]) - 1e-9


def test_growing_samples_lead_to_the_same_value_by_a_better_start() -> None:
    for loss in (odm(), HINGE):
        form = instance(59, loss, n=36_000, d=4, T=5, total=5.0)
        grown, alone = (MirrorProx(sampling=s).solve(form, Budget(tol=1e-7)) for s in ("progressive", "none"))
        assert grown.status is Status.OPTIMAL, grown.message
        assert values(form, grown)[0] == pytest.approx(values(form, alone)[0], rel=2e-7)
        first = [solution.trace[0][1] - solution.trace[0][2] for solution in (grown, alone)]
        assert first[0] <= (1 + 1e-12) * first[1]  # labellings drawn at random mislead every sample
        assert MirrorProx().solve(form, Budget(tol=1e-7)).trace[0][1:] == grown.trace[0][1:]  # the default, so many


def test_samples_that_mislead_are_left_aside() -> None:
    """Nearly all the weight lies on points that no sample holds."""
    form = instance(61, odm(), n=9_000, d=3, T=4, total=5.0)
    heavy = np.full(9_000, 1e-9)
    heavy[np.random.default_rng(0).permutation(9_000)[-3:]] = 1.0
    terms = tuple(dataclasses.replace(t, weights=heavy[t.points]) for t in form.losses.terms)
    uneven = dataclasses.replace(form, losses=dataclasses.replace(form.losses, terms=terms))
    found = MirrorProx(sampling="progressive").solve(uneven, Budget(tol=1e-6))
    plain = MirrorProx(sampling="none").solve(uneven, Budget(tol=1e-6))
    assert values(uneven, found)[0] == pytest.approx(values(uneven, plain)[0], rel=3e-6)
    assert found.trace[0][1] - found.trace[0][2] <= (1 + 1e-12) * (plain.trace[0][1] - plain.trace[0][2])


def test_restricted_forms_keep_rows_of_their_points_and_the_total_weight() -> None:
    form = rows_everywhere(61)
    points = np.array([1, 4, 5, 9, 12])
    small = progressive.restrict(form, points)
    assert small.n == 5 and np.array_equal(small.labellings, form.labellings[:, points])
    assert small.losses.weights.sum() == pytest.approx(form.losses.weights.sum())
    kept = np.isin(form.losses.points, points)
    assert np.array_equal(points[small.losses.points], form.losses.points[kept])
    assert np.array_equal(small.losses.slopes, form.losses.slopes[kept])
    margins = np.random.default_rng(0).normal(size=form.n)
    known = form.losses.row_losses(form.losses.arguments(margins))
    expected = sum(term.weights.sum() / term.weights[kept[part]].sum() * known[part][kept[part]].sum()
                   for term, part in form.losses.slices() if kept[part].any())
    assert small.losses.value(margins[points]) == pytest.approx(expected)


@pytest.mark.parametrize("name", LOSSES)
def test_value_of_the_master_matches_the_primal_as_written(name: str) -> None:
    form = instance(67, LOSSES[name], n=15)
    W = cp.Variable((form.features.rank, form.count))
    margins = cp.sum(cp.multiply(form.coded().T, form.features.toarray() @ W), axis=1)
    term = form.losses.terms[0]
    expression, constraints = term.loss.conic(cp, margins)
    value = 0.5 * cp.square(cp.sum(cp.norm(W, 2, axis=0))) + cp.sum(cp.multiply(term.weights, expression))
    problem = cp.Problem(cp.Minimize(value), constraints)
    problem.solve(solver=cp.CLARABEL)
    for solver in (MirrorDescent(), AlternatingMu()):
        assert solver.solve(form, Budget(tol=1e-5)).objective == pytest.approx(problem.value, rel=3e-4)


@pytest.mark.parametrize("order", [0, 100])
def test_the_spectral_constant_is_an_eigenvalue_or_the_trace(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    form = instance(3, HINGE)
    monkeypatch.setattr(saddle_box, "DENSE_ORDER", order)
    phi = form.features.toarray()
    known = np.linalg.norm(phi, 2) ** 2 if order else np.sum(phi**2)
    assert BoxModel(SaddleModel(form)).spectral == pytest.approx(known)


def test_products_replace_the_dense_system_of_wide_sparse_features(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    features = build(sp.random(80, 300, density=0.1, format="csr", random_state=0))
    term = LossTerm(HINGE, np.arange(80), np.full(80, 0.1), np.ones(80), np.zeros(80), np.zeros((80, 0)))
    form = FixedLabelForm(features, Losses(80, (term,)), labels=np.where(rng.random(80) < 0.5, 1, 0), free_bias=True)
    run = Newton(tol=1e-9).open(form)
    direct = run.solve(form, Budget(tol=1e-9))
    monkeypatch.setattr(plane, "PRODUCTS", 0.0)
    products = run.solve(form, Budget(tol=1e-9))
    assert products.objective == pytest.approx(direct.objective, rel=1e-8)
    assert np.allclose(products["w"], direct["w"], atol=1e-6)


# -- losses that outweigh the norm ----------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Logistic(), odm(), HINGE], ids=["logistic", "odm", "hinge"])
@pytest.mark.parametrize("total", [1e5, 1e9])
def test_masters_of_heavy_losses_are_closed_in_a_few_hundred_iterations(loss: ConvexFunction, total: float) -> None:
    form = instance(5, loss, n=6, d=3, T=3, total=total)
    solution = MirrorProx().solve(form, Budget(tol=1e-6))
    assert solution.status is Status.OPTIMAL
    assert solution.iterations <= 500
    primal, dual = values(form, solution)
    assert primal - dual <= 1.01e-6 * abs(primal)
