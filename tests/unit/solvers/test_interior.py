"""The interior point engine of the lift: values of an independent conic solver, below every optimum, at the edges."""

from dataclasses import replace

import numpy as np
import pytest

import margindsl as md
from margindsl.calculus import PLQ, Logistic
from margindsl.contract import Budget, Status
from margindsl.features import DenseFeatures, build
from margindsl.features.maps import LinearMap
from margindsl.program.bounds import DecisionBound, QuadraticBound
from margindsl.program.lift import Cuts, LiftForm
from margindsl.program.lift_certificate import repair_lift
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl.relaxations.lift import lift, violated_products, violated_triangles
from margindsl_solvers.conic import Clarabel
from margindsl_solvers.engines.lift import interior
from margindsl_solvers.engines.lift.pieces import Pieces
from margindsl_solvers.interior import Interior

pytestmark = pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")

HINGE = PLQ.affine(-1, 1).positive_part()
SHORT, LONG = (PLQ.affine(side, -side - 0.2).positive_part().square() for side in (-1, 1))
FUNCTIONS = {"hinge": HINGE, "squared hinge": HINGE.square(), "odm": (SHORT + 0.5 * LONG) * 1.5625,
             "least squares": PLQ.affine(-1, 1).square(), "ramp": HINGE + PLQ.affine(1, -2).positive_part(),
             "logistic": Logistic().precompose(1.0)}
LOSSES = {"hinge": md.hinge, "squared hinge": md.squared_hinge, "odm": lambda g: md.odm(g, 0.4, 0.2),
          "least squares": lambda g: md.square(1 - g), "huber": lambda g: md.huber(1 - g, 1.0),
          "logistic": lambda g: md.logistic(-g)}
LABELS = {
    "nothing": lambda y, f: [],
    "known": lambda y, f: [y[[0, 1, 2]] == [1, -1, -1]],
    "balance": lambda y, f: [abs(md.sum(y)) <= 3],
    "all": lambda y, f: [y[0] == 1, y[1] == -1, y[2] == y[3], md.sum(y) <= 3, md.sum(y) >= -2, abs(md.sum(f[:4])) <= 1]}


def bound_of(form, solver=None, tol=1e-8):
    raw = (solver or Interior()).solve(form, Budget(tol=tol))
    assert raw.has_answer, raw.message
    return repair_lift(form, raw).bound


def equals_clarabel(form):
    """Assert that a claim holds at a usual tolerance, and that a small one brings the last digits."""
    raw, other = Interior().solve(form, Budget(tol=1e-6)), bound_of(form, Clarabel(max_psd_order=200), 1e-10)
    if raw.status is Status.OPTIMAL:  # "inaccurate" is said where squares of both sides nearly cancel
        assert [raw.objective, repair_lift(form, raw).bound] == pytest.approx([other, other], rel=5e-6)
    assert raw.status in (Status.OPTIMAL, Status.INACCURATE)
    assert bound_of(form) == pytest.approx(other, rel=1e-6)
    return other


def drawn(seed):
    """Return a lift of 6 to 9 points with ingredients at random, losses scaled and shifted, components of any size."""
    rng = np.random.default_rng([5, seed])
    n, r = int(rng.integers(6, 10)), int(rng.integers(1, 12))
    count = int(rng.integers(0, n))
    component = rng.integers(-1, count, n) if rng.random() < 0.7 else np.arange(n) % max(count, 1) - (count == 0)
    sign = np.where(component < 0, 1, rng.choice([-1, 1], n))
    shared = bool(np.all(component >= 0) and rng.random() < 0.5)
    terms = []
    for name in rng.choice(list(FUNCTIONS), int(rng.integers(1, 3)), replace=False):
        points = np.flatnonzero(rng.random(n) < 0.8)
        m = len(points)
        held = component[points] >= 0
        terms.append(LossTerm(
            FUNCTIONS[name], points, rng.uniform(0.1, 3, m), np.where(held, rng.uniform(0.5, 2, m), 1.0),
            np.where(held, rng.uniform(-1, 1, m), 0.0) * (name != "logistic"), np.full((m, int(shared)), -0.5)))
    scalars = SharedScalars(np.full(int(shared), -0.1), np.zeros(int(shared), dtype=bool))
    omega, h = rng.integers(1, 4, count) * rng.choice([-1, 1], count), rng.uniform(0.5, 1.5, n)
    balance = (QuadraticBound(omega.astype(float), 1.0 + rng.random()),) if count > 3 and rng.random() < 0.5 else ()
    bias = bool(rng.random() < 0.3)
    decision = (DecisionBound(h, -2.0, 2.0),) if bias or rng.random() < 0.3 else ()
    places = np.array([[0, 1, 2], [1, 2, 3]]) if count > 3 and rng.random() < 0.5 else np.zeros((0, 3), dtype=int)
    return LiftForm(
        build(rng.normal(size=(n, r)) + 0.5, centre=False), Losses(n, tuple(terms), scalars), component, sign, count,
        balance, decision=decision, free_bias=bias, cuts=Cuts.odd(places, np.resize([1, -1, 1], places.shape)))


@pytest.mark.parametrize("seed", range(15))
def test_random_lifts_have_the_value_of_a_conic_solver(seed):
    equals_clarabel(drawn(seed))


def declared(loss, labels, seed=0, n=7, weight=8.0, **options):
    rng = np.random.default_rng(seed)
    y, f = md.Labels(n), md.Hyperplane(rng.normal(size=(n, 3)), **options)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(LOSSES[loss](y * f))), LABELS[labels](y, f))


def is_below_the_optimum(problem, bound):
    program = problem.program()
    return bound <= (problem.solve("exact", random_state=0).value - program.constant) / program.scale * (1 + 1e-8)


@pytest.mark.parametrize("loss, labels", [
    *zip(LOSSES, ["nothing", "known", "all"] * 2), ("hinge", "all"), ("odm", "nothing"), ("logistic", "known")])
def test_bounds_of_models_are_those_of_a_conic_solver_and_below_the_optimum(loss, labels):
    problem = declared(loss, labels, seed=len(labels))
    form = lift(problem.program())
    equals_clarabel(form)
    assert is_below_the_optimum(problem, bound_of(form))


@pytest.mark.parametrize("rules", [lambda y, f: [], lambda y, f: [y[[0, 1, 2]] == [1, -1, -1]],
                                   lambda y, f: [y[0] == 1, abs(md.sum(f[:4])) <= 1, md.sum(f[:9]) == 0]])
@pytest.mark.parametrize("loss", ["hinge", "odm"])
def test_both_matrices_of_newton_systems_lead_to_one_bound(loss, rules, monkeypatch):
    X = np.random.default_rng(3).normal(size=(30, 2)) + 1.0 * (np.arange(30) < 12)[:, None]
    y, f = md.Labels(30), md.Hyperplane(X)
    form = lift(md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.sum(LOSSES[loss](y * f))), rules(y, f)).program())
    bounds = []
    for fine in (0.0, np.inf):  # by the entries of S, by all multipliers
        monkeypatch.setattr(interior, "FINE", fine)
        bounds.append(bound_of(form, tol=1e-4))
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-6) and bounds[0] > 0


@pytest.mark.parametrize("options", [{"bias": "penalised"}, {"kernel": md.RBF(1.5)}, {"kernel": md.Polynomial(2, 1.0)}])
def test_features_of_more_columns_than_points_and_a_penalised_bias(options):
    problem = declared("odm", "all", seed=1, n=6, **options)
    form = lift(problem.program())
    value = equals_clarabel(form)
    assert is_below_the_optimum(problem, value * (1 - 1e-6))
    raw = Interior().solve(form, Budget(tol=1e-8))
    assert raw["W"].shape[0] == form.order and np.allclose(np.linalg.norm(raw["V"], axis=1), 1, atol=1e-5)


def test_shared_scalars_are_paid_for():
    y, f = md.Labels(7), md.Hyperplane(np.random.default_rng(0).normal(size=(7, 3)))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean_variance(y * f, 1.0, 4.0)), [y[0] == y[1]])
    form = lift(problem.program())
    assert equals_clarabel(form) < 0
    assert form.losses.scalar_residual(Interior().solve(form, Budget())["u"]) <= 1e-12
    assert is_below_the_optimum(problem, bound_of(form))


@pytest.mark.parametrize("loss, options, rows", [
    ("odm", {}, lambda y, f: [md.sum(y) == 0]), ("huber", {}, lambda y, f: [md.sum(y) == 0]),
    ("odm", {"bias": True}, lambda y, f: [md.sum(f[:4]) == 0, md.sum(f[2:]) == 0]),
    ("hinge", {}, lambda y, f: [y[7] == 1, md.sum(y) == 0, md.sum(y[:4]) == 0, md.sum(f[:4]) == 0])])
def test_bounds_of_zero_leave_a_face_on_which_the_solve_converges(loss, options, rows):
    y, f = md.Labels(8), md.Hyperplane(np.random.default_rng(6).normal(size=(8, 3)), **options)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 8 * md.mean(LOSSES[loss](y * f))), rows(y, f))
    form = lift(problem.program())
    assert any(bound.radius == 0 for bound in form.balance) or any(bound.upper == 0 for bound in form.decision)
    raw = Interior().solve(form, Budget(tol=1e-7))
    bound = repair_lift(form, raw).bound
    assert raw.status is Status.OPTIMAL and raw.iterations <= 40
    assert bound == pytest.approx(raw.objective, rel=1e-5)  # multipliers are as great as half the digits allow
    assert bound_of(form, Clarabel(), 1e-9) * (1 - 1e-6) <= bound and is_below_the_optimum(problem, bound)
    flat = form.limits[0] == 0
    np.testing.assert_allclose(form.omega[flat] @ raw["V"], 0.0, atol=1e-6)


@pytest.mark.parametrize("clusters", [3, 4])
@pytest.mark.parametrize("rules", [lambda y, k: [y[c] == c for c in range(k)],
                                   lambda y, k: [y[c] != y[d] for c in range(k) for d in range(c)]])
def test_codes_of_k_labels_that_differ_sum_to_zero_and_the_solve_converges(rules, clusters):
    y, f = md.Labels(8, clusters=clusters), md.Hyperplane(np.random.default_rng(4).normal(size=(8, 3)), centre=False)
    loss = md.mean(md.hinge(md.margin(y, f, coding="simplex")))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 8 * loss), rules(y, clusters))
    form = lift(problem.program(), whole=True)
    raw = Interior().solve(form, Budget(tol=1e-7))
    assert raw.status is Status.OPTIMAL and raw.iterations <= 40
    np.testing.assert_allclose(np.abs(raw["V"][form.component[:clusters]].sum(axis=0)), 0.0, atol=1e-6)
    bound = repair_lift(form, raw).bound
    assert bound == pytest.approx(raw.objective, rel=2e-5)  # as above
    assert bound_of(form, Clarabel(), 1e-9) * (1 - 2e-5) <= bound
    solution, best = problem.solve("sdp", "interior", random_state=0), problem.solve("exact", random_state=0).value
    assert bound * (1 - 1e-5) <= solution.bound <= best * (1 + 1e-9) and solution.verify()


@pytest.mark.parametrize("loss", ["hinge", "least squares"])
def test_triangles_take_part_and_never_cross_the_optimum(loss):
    problem = declared(loss, "balance", seed=2)
    form = lift(problem.program(), whole=True)
    plain = bound_of(form)
    form = replace(form, cuts=violated_triangles(Interior().solve(form, Budget())["V"], 40))
    assert form.cuts.count
    assert equals_clarabel(form) > plain * (1 + 1e-4)
    assert is_below_the_optimum(problem, bound_of(form))


@pytest.mark.parametrize("loss", ["squared hinge", "odm"])
def test_three_clusters_with_products_of_codes(loss):
    rng = np.random.default_rng(3)
    y, f = md.Labels(6, clusters=3), md.Hyperplane(rng.normal(size=(6, 2)) + np.repeat(np.eye(3)[:, :2] * 2, 2, axis=0))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 6 * md.mean(LOSSES[loss](md.margin(y, f, coding="simplex")))),
                         [y[0] == 0, y[3] == 1, y[4] != y[5], md.sizes(y, at_least=1, at_most=4)])
    form = lift(problem.program(), whole=True)
    form = replace(form, cuts=form.cuts.joined(violated_products(Interior().solve(form, Budget())["V"], 3, 20)))
    assert np.any(form.cuts.equal) and np.any(~form.cuts.equal)
    equals_clarabel(form)
    assert is_below_the_optimum(problem, bound_of(form))


@pytest.mark.parametrize("weight", [1.0, 60.0])
def test_rising_losses_of_clusters_whose_labels_are_minimised_out(weight):
    rng = np.random.default_rng(3)
    y, f = md.Labels(6, clusters=3), md.Hyperplane(rng.normal(size=(6, 2)) + np.repeat(np.eye(3)[:, :2] * 2, 2, axis=0))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(md.odm(
        md.margin(y, f, coding="simplex"), 0.4, 0.2))), [y[0] == y[1], y[2] != y[4]])
    form = lift(problem.program())
    assert 0 < form.absorbed.sum() < 6
    equals_clarabel(form)
    assert is_below_the_optimum(problem, bound_of(form))


# -- at the edges ------------------------------------------------------------------------------------------


def small(X, components, weights=1.0, loss="odm", **options):
    n = len(X)
    one = np.ones(n)
    losses = Losses(n, (LossTerm(FUNCTIONS[loss], np.arange(n), weights * one, one, 0 * one, np.zeros((n, 0))),))
    features = DenseFeatures(np.asarray(X, dtype=float), LinearMap(len(X[0])))
    return LiftForm(features, losses, np.asarray(components), one.astype(int), max(components) + 1, **options)


FEW = [([[2.0]], [0]), ([[2.0]], [-1]), ([[1.0, 2.0]] * 4, [0, 1, 2, 3]), ([[1.0, 2.0]] * 4, [-1] * 4),
       ([[1.0], [-3.0], [0.0]], [0, 0, 0])]


@pytest.mark.parametrize("X, components, loss", [  # every loss and all points at least twice
    (*FEW[(i + turn) % 5], loss) for turn in (0, 2) for i, loss in enumerate(FUNCTIONS)])
def test_few_points_and_equal_ones(X, components, loss):
    form = small(X, components, loss=loss)
    raw = Interior().solve(form, Budget(tol=1e-6))
    assert raw.status is Status.OPTIMAL, raw.message
    assert repair_lift(form, raw).bound == pytest.approx(bound_of(form, Clarabel(), 1e-9), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("loss, X, components", [
    (loss, X, [[0, 1], [-1, 0]][(i + j) % 2]) for i, loss in enumerate(FUNCTIONS)
    for j, X in enumerate([[[0.0], [0.0]], [[], []]])])
def test_points_without_features_pay_their_losses_at_zero(X, components, loss):
    form = small(X, components, loss=loss)
    raw = Interior().solve(form, Budget(tol=1e-6))
    assert raw.status is Status.OPTIMAL and raw["W"].shape[0] == form.order
    assert repair_lift(form, raw).bound == pytest.approx(2 * FUNCTIONS[loss](0.0), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_weights_far_from_one(scale):
    X = np.random.default_rng(0).normal(size=(8, 2))
    near = small(np.sqrt(scale) * X, np.arange(8))
    assert bound_of(small(X, np.arange(8), scale)) == pytest.approx(scale * bound_of(near, Clarabel(), 1e-10), rel=1e-6)
    form = small(X, np.arange(8), weights=np.where(np.arange(8) < 3, 0.0, 1.0))
    assert bound_of(form) == pytest.approx(bound_of(form, Clarabel(), 1e-10), rel=1e-6)


def test_labels_that_cannot_be_are_told_and_nothing_else_is_called_optimal():
    X = np.random.default_rng(0).normal(size=(3, 2))
    form = small(X, [0, 1, 2], balance=(QuadraticBound(np.array([3.0, 1.0, 1.0]), 0.5),))
    assert Interior().solve(form, Budget()).status is Status.INFEASIBLE
    raw = Interior().solve(small(X, [0, 1, 2]), Budget(max_iter=2))
    assert raw.status is Status.ITERATION_LIMIT and np.isfinite(repair_lift(small(X, [0, 1, 2]), raw).bound)
    raw = Interior().solve(small(X, [0, 1, 2], loss="hinge", free_bias=True), Budget())
    assert raw.status is Status.FAILED and "bias" in raw.message


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pieces_have_the_least_value_of_the_loss(name):
    rng = np.random.default_rng(0)
    m = 6
    term = LossTerm(FUNCTIONS[name], np.arange(m), rng.uniform(0.5, 2, m), np.ones(m), rng.uniform(-1, 1, m),
                    np.zeros((m, 0)))
    losses = Losses(m, (term,))
    every, bent = np.ones(m, dtype=bool), isinstance(FUNCTIONS[name], PLQ)
    even, pairs = (np.arange(m) % (3 if bent else m + 2) == rest for rest in (1, 2 if bent else m + 1))
    pieces = Pieces.of_losses(losses, losses.weights, every, 2.0, every, 40.0, ~every, None, even | pairs, pairs)
    for _ in range(2):
        pieces = pieces.refined(np.where(pieces.off > 0, 8, 1))
    assert np.all(pieces.off <= 1e-6) and np.all(np.diff(pieces.row) >= 0)
    t = np.linspace(-40, 40, 160_001) + np.zeros((m, 1))
    t = np.column_stack([t, *(kink - term.shifts for kink in (1.0, 2.0))])
    u, q, v, e = rng.uniform(-0.3, 0.3, m), -rng.uniform(0.1, 1, m), *(pairs * rng.uniform(-0.2, 0.2, (2, m)))
    values = losses.weights[:, None] * FUNCTIONS[name](t + term.shifts[:, None]) - q[:, None] * t**2
    plus = np.min(values + (u + v)[:, None] * t, axis=1) + e
    minus = np.min(values + np.where(even, -u, u - v)[:, None] * t, axis=1) - e
    least = np.where(even | pairs, np.minimum(plus, minus), plus)
    arguments = np.stack([u, q, v, e][:4 if pairs.any() else 2])
    np.testing.assert_allclose(pieces.least(arguments), least, atol=1e-6)
    delta, sigma = pieces.start(arguments, 1e-3)
    z = pieces.base + pieces.change(arguments, delta, sigma)
    assert np.all(delta < pieces.least(arguments)) and np.all(sigma[pieces.slack] > 0)
    assert np.all(z[:, 0] > 0) and np.all(4 * z[:, 0] * z[:, 2] > z[:, 1] ** 2)


@pytest.mark.parametrize("scale", [1e-4, 1e3])
@pytest.mark.parametrize("limit", [1.0, 1e6])
def test_scalars_and_wide_bounds_have_any_unit(scale, limit):
    """Decision values and the scalar go with the points, values with their squares."""
    points, found = np.random.default_rng(0).normal(size=(10, 3)), []
    for c in (1.0, scale):
        y, f, s = md.Labels(10), md.Hyperplane(c * points, bias=False), md.Scalar(nonneg=True)
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 - s + 3 * md.mean(md.pos(s - y * f))),
                             [abs(md.sum(y)) <= 4, abs(md.sum(f)) <= limit * c**2])
        found.append(problem.solve("sdp", "interior", random_state=0))
    assert found[1].status == "converged" and found[1].bound == pytest.approx(scale**2 * found[0].bound, rel=1e-5)


def test_a_scalar_that_nothing_sees_changes_nothing():
    y, f = md.Labels(8), md.Hyperplane(np.random.default_rng(0).normal(size=(8, 2)), bias=False)
    objective, rules = md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f)), [abs(md.sum(y)) <= 2]
    found = [md.Problem(md.Minimize(objective + more), rules).solve("sdp", "interior", random_state=0)
             for more in (0.0, 0.0 * md.Scalar(nonneg=True))]
    assert found[1].bound == pytest.approx(found[0].bound, rel=1e-4)
