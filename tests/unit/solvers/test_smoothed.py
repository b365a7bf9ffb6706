"""Proximal Newton steps on the smoothed primal: against cvxpy, bounds, invariances, envelopes, limits."""

from __future__ import annotations

import dataclasses

import cvxpy as cp
import numpy as np
import pytest

from margindsl.calculus import PLQ, ConvexFunction, Logistic, absolute, pos
from margindsl.contract import Budget, RawSolution, Status
from margindsl.features import build
from margindsl.labelset.codes import simplex_codes
from margindsl.program.forms import SaddleForm
from margindsl.program.losses import Losses, LossTerm
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.saddle.model import SaddleModel
from margindsl_solvers.engines.saddle.smoothed import SmoothedRun, segment, shrink, softened_slopes
from margindsl_solvers.mirror import MirrorProx


def odm(theta: float = 0.2, nu: float = 0.4) -> PLQ:
    lower, upper = pos().precompose(-1, 1 - theta), pos().precompose(1, -1 - theta)
    return (lower.square() + nu * upper.square()) * (1 / (1 - theta) ** 2)


HINGE = pos().precompose(-1, 1)
LOSSES: dict[str, ConvexFunction] = {
    "hinge": HINGE, "odm": odm(), "squared hinge": HINGE.square(), "logistic": Logistic(),
    "two kinks": absolute().precompose(1, -1) + 0.5 * pos().precompose(1, -1.5)}


def master(X: FloatArray, labellings: IntArray, loss: ConvexFunction, total: float = 10.0,
           clusters: int = 2) -> SaddleForm:
    n = len(X)
    term = LossTerm(loss, np.arange(n), np.full(n, total / n), np.ones(n), np.zeros(n), np.zeros((n, 0)))
    return SaddleForm(build(X, "linear"), Losses(n, (term,)), labellings=labellings, codes=simplex_codes(clusters))


def instance(seed: int, loss: ConvexFunction, n: int, d: int = 4, T: int = 6) -> SaddleForm:
    """Labellings that the features tell, but for a tenth of the points."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    labels = np.where((X @ rng.normal(size=(d, T)) > 0).T, 1, 0)
    return master(X, np.where(rng.random((T, n)) < 0.1, 1 - labels, labels), loss)


def with_rows(seed: int, n: int) -> SaddleForm:
    """Two terms with repeated points, slopes, shifts and rows without weight."""
    rng, form, terms = np.random.default_rng(seed), instance(seed, HINGE, n), []
    for loss in (HINGE, odm()):
        weights = rng.uniform(0, 10 / n, n) * (rng.random(n) < 0.8)
        terms.append(LossTerm(loss, rng.integers(n - 2, size=n), weights, rng.uniform(-1, 2, n), rng.normal(size=n),
                              np.zeros((n, 0))))
    return dataclasses.replace(form, losses=Losses(n, tuple(terms)))


def coded(seed: int, n: int) -> SaddleForm:
    """Labellings of three clusters, by their simplex codes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    labels = np.stack([np.argmax(X @ rng.normal(size=(4, 3)), axis=1) for _ in range(5)])
    wrong = rng.random(labels.shape) < 0.1
    return master(X, np.where(wrong, rng.integers(3, size=labels.shape), labels), HINGE, clusters=3)


def reference(form: SaddleForm) -> float:
    """Solve min ½(Σ‖w_k‖)² + Σ cρ(aγ + d), as written."""
    Phi, codes, losses = form.features.toarray(), form.coded(), form.losses
    W = [cp.Variable((Phi.shape[1], form.width)) for _ in range(form.count)]
    margins = sum(cp.sum(cp.multiply(codes[k * form.width:(k + 1) * form.width].T, Phi @ w), axis=1)
                  for k, w in enumerate(W))
    value = 0.5 * cp.square(sum(cp.norm(w, "fro") for w in W))
    constraints = []
    for term in losses.terms:
        expression, extra = term.loss.conic(cp, cp.multiply(term.slopes, margins[term.points]) + term.shifts)
        value, constraints = value + cp.sum(cp.multiply(term.weights, expression)), constraints + extra
    problem = cp.Problem(cp.Minimize(value), constraints)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def enclosed(form: SaddleForm, answer: RawSolution) -> tuple[float, float]:
    """Return the values of the answer, recomputed by the form, in the order that weak duality asks."""
    primal, dual = form.primal_objective(answer["W"], answer["scalars"]), form.dual_objective(answer["u"])
    assert dual <= primal + form.n * np.finfo(float).eps * abs(primal)  # sums of n terms
    return dual, primal


def run(form: SaddleForm, budget: Budget | None = None, seed: int = 0) -> SmoothedRun:
    return SmoothedRun(SaddleModel(form), budget or Budget(tol=1e-3), np.random.default_rng(seed), None)


CASES = [*(pytest.param(instance(3, loss, 900), id=name) for name, loss in LOSSES.items()),
         pytest.param(with_rows(5, 900), id="rows"), pytest.param(coded(7, 900), id="three clusters")]


@pytest.mark.parametrize("form", CASES)
def test_value_and_bound_enclose_the_optimum_of_the_problem_as_written(form: SaddleForm) -> None:
    answer = run(form).solve()
    dual, primal = enclosed(form, answer)
    expected = reference(form)
    assert dual <= expected * (1 + 1e-6) and primal >= expected * (1 - 1e-6)
    assert primal - dual <= 0.02 * primal
    steps = np.array(answer.trace)
    assert np.all(steps[:, 2] <= expected * (1 + 1e-6)) and np.all(steps[:, 1] >= expected * (1 - 1e-6))


@pytest.mark.parametrize("form", [instance(11, HINGE, 4_200), with_rows(13, 4_200), coded(17, 4_200)],
                         ids=["hinge", "rows", "three clusters"])
def test_samples_and_all_points_reach_the_value_of_all_points_alone(form: SaddleForm) -> None:
    grown, alone = (MirrorProx(sampling=s).solve(form, Budget(tol=1e-6)) for s in ("progressive", "none"))
    dual, primal = enclosed(form, grown)
    assert primal - dual <= 1.1e-6 * primal
    assert primal == pytest.approx(enclosed(form, alone)[1], rel=3e-6)


def test_labellings_that_coincide_count_once() -> None:
    form = instance(19, HINGE, 4_200)
    twice = dataclasses.replace(form, labellings=np.vstack([form.labellings, 1 - form.labellings, form.labellings[:2]]),
                                biases=np.zeros((14, 1)))
    # These coincide on every sample that leaves a point out, and differ on all points.
    near = form.labellings[:1].copy()
    near[0, np.random.default_rng(0).permutation(4_200)[-1]] ^= 1
    nearly = dataclasses.replace(form, labellings=np.vstack([form.labellings, near]), biases=np.zeros((7, 1)))
    known = enclosed(form, MirrorProx(sampling="progressive").solve(form, Budget(tol=1e-6)))
    same = enclosed(twice, MirrorProx(sampling="progressive").solve(twice, Budget(tol=1e-6)))
    assert same[1] >= known[0] * (1 - 1e-12) and same[0] <= known[1] * (1 + 1e-12)
    more = enclosed(nearly, MirrorProx(sampling="progressive").solve(nearly, Budget(tol=1e-6)))
    assert more[0] <= known[1] * (1 + 1e-12) and more[1] - more[0] <= 1.1e-6 * more[1]


def test_where_nothing_tells_the_labels_zero_weights_are_proved_best() -> None:
    half = instance(23, HINGE, 2_100)
    X = half.features.toarray()
    form = master(np.vstack([X, X]), np.hstack([half.labellings, 1 - half.labellings]), HINGE)
    answer = run(form, Budget(tol=1e-9)).solve()
    assert answer.status is Status.OPTIMAL
    assert enclosed(form, answer) == pytest.approx((10.0, 10.0), rel=1e-9)
    assert np.abs(answer["W"]).max() <= 1e-9


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_units_of_features_and_weights_change_nothing_but_the_value(scale: float) -> None:
    """Features times s and weights over s²: W over s, and a value over s²."""
    form = instance(29, HINGE, 900)
    other = master(scale * form.features.toarray(), form.labellings, HINGE, 10.0 / scale**2)
    known, found = enclosed(form, run(form).solve()), enclosed(other, run(other).solve())
    assert np.array(found) * scale**2 == pytest.approx(np.array(known), rel=2e-3)


def test_a_seed_gives_the_same_steps_and_every_seed_the_same_value() -> None:
    form = instance(31, odm(), 8_100)
    first, again, other = (MirrorProx(sampling="progressive", random_state=s).solve(form, Budget(tol=1e-5))
                           for s in (4, 4, 5))
    assert [step[1:] for step in first.trace] == [step[1:] for step in again.trace]
    assert np.array_equal(first["W"], again["W"]) and np.array_equal(first["u"], again["u"])
    assert enclosed(form, other)[1] == pytest.approx(enclosed(form, first)[1], rel=3e-5)


def test_a_short_limit_leaves_an_answer_that_is_proved_on_all_points() -> None:
    form = instance(37, HINGE, 30_000, d=16, T=20)
    answer = MirrorProx(sampling="progressive").solve(form, Budget.within(0.05, tol=1e-12))
    assert answer.status is Status.TIME_LIMIT
    dual, primal = enclosed(form, answer)
    assert primal < np.inf and dual >= 0.0


def test_inner_steps_end_with_the_budget() -> None:
    course = run(instance(41, HINGE, 900), Budget(tol=1e-9))
    course.init()
    place, rng = course.iterate, np.random.default_rng(0)
    quadratic = course._quadratic(np.arange(900), np.full(900, 0.1))
    metric, late = np.full(len(place.W), 1.0 / len(place.W)), Budget.within(0.0)

    def model(D: FloatArray) -> float:
        square = 0.5 * float(np.linalg.norm(place.W + D, axis=1).sum()) ** 2
        return square + float(np.sum(D * (0.5 * quadratic.product(D) - quadratic.V)))

    short, long = (quadratic.minimise(place.W, metric, 300, b, rng) for b in (late, course.budget))
    assert model(long) < model(short) < model(np.zeros_like(place.W))


def test_iterations_are_limited_over_all_kinds_of_steps() -> None:
    form = instance(43, odm(), 4_200)
    answer = MirrorProx(sampling="progressive").solve(form, Budget(tol=1e-13, max_iter=2))
    assert answer.status is Status.ITERATION_LIMIT and answer.iterations == 2
    enclosed(form, answer)


# -- parts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_shrink_is_the_least_of_its_problem(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, steps = rng.normal(size=(4, 3)) * rng.uniform(0, 2, (4, 1)), 10.0 ** rng.uniform(-2, 1, 4)
    W = shrink(Z, steps)

    def value(W: FloatArray) -> float:
        far = np.sum((W - Z) ** 2, axis=1)
        return 0.5 * float(np.linalg.norm(W, axis=1).sum()) ** 2 + float(np.sum(far / (2 * steps)))

    V = cp.Variable(Z.shape)
    far = cp.sum(cp.multiply(cp.sum(cp.square(V - Z), 1), 0.5 / steps))
    problem = cp.Problem(cp.Minimize(0.5 * cp.square(cp.sum(cp.norm(V, 2, axis=1))) + far))
    problem.solve(solver=cp.CLARABEL)
    assert value(W) <= problem.value * (1 + 1e-7)
    for length in (1e-3, 0.1):  # the problem is convex: what is least nearby is least
        for direction in rng.normal(size=(50, *Z.shape)):
            assert value(W) <= value(W + length * direction)
    assert not shrink(np.zeros((2, 3)), np.ones(2)).any()


@pytest.mark.parametrize("name", LOSSES)
def test_envelopes_lie_below_by_what_the_width_allows_and_have_feasible_slopes(name: str) -> None:
    form = instance(47, LOSSES[name], 300)
    course = run(form)
    course.init()
    rng, model = np.random.default_rng(0), course.model
    W = course.iterate.W + 0.1 * rng.normal(size=course.iterate.W.shape)
    D = rng.normal(size=W.shape)
    for width in (1e-2, 0.3, 5.0):
        course.width = width
        at = course._iterate(W, model.margins(W))
        slopes = softened_slopes(model, at.arguments, 0.0)
        assert -1e-9 <= at.exact - at.soft <= 0.5 * width * float(model.weights @ slopes**2) + 1e-9
        assert np.isfinite(form.dual_objective(-model.weights * at.x))
        ahead, behind = (course._iterate(W + t * D, model.margins(W + t * D)).soft for t in (1e-5, -1e-5))
        assert (ahead - behind) / 2e-5 == pytest.approx(-float(np.sum(model.directions(at.x) * D)), rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_point_of_a_segment_is_no_worse_than_its_ends(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, last = rng.normal(size=(2, 6, 3))
    known, new = rng.normal(size=2)

    def value(share: float) -> float:
        V = (1 - share) * first + share * last
        return (1 - share) * known + share * new - 0.5 * float(np.max(np.sum(V**2, axis=1)))

    share = segment(first, last, known, new)
    assert 0.0 <= share <= 1.0
    assert value(share) >= max(value(t) for t in np.linspace(0.0, 1.0, 11)) - 1e-12


def test_steps_never_raise_the_value_or_lower_the_bound() -> None:
    for form in (instance(53, HINGE, 900), with_rows(59, 900)):
        steps = np.array(run(form, Budget(tol=1e-6)).solve().trace)
        rounding = 1e-12 * steps[0, 1]
        assert np.all(np.diff(steps[:, 1]) <= rounding) and np.all(np.diff(steps[:, 2]) >= -rounding)
