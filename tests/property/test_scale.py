"""The answer does not depend on the units of the points: labels, values, bounds and gaps follow the scale."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import margindsl as md
import margindsl.errors
from margindsl.features import AffineFeatures

pytestmark = pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
RNG = np.random.default_rng(3)
TRUTH = np.repeat([-1, 1], 4)
X = 0.3 * RNG.normal(size=(8, 3)) + TRUTH[:, None] * np.array([1.5, 0.0, 0.0])
X -= X.mean(axis=0)
CORNERS = np.array([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]])
THREE = np.repeat(np.arange(3), 3)
X3 = CORNERS[THREE] + 0.3 * RNG.normal(size=(9, 2))
SCALES = [1e-3, 1e3]
LOSSES = {"hinge": md.hinge, "odm": lambda g: md.odm(g, theta=0.2, nu=0.5), "logistic": md.logistic,
          "squared hinge": md.squared_hinge}
WAYS = {
    "supervised": [(md.Supervised(), name) for name in ("newton", "cutting-plane", "clarabel")],
    "local": [("alternating", None), ("cccp", None)],
    "bounds": [("exact", None), ("sdp", "burer-monteiro"), ("sdp", "clarabel"), ("minimax", None),
               ("weight-lifting", None), ("weight-lifting", "clarabel")],
}
OTHERS = [("exact", None), ("alternating", None), ("sdp", "clarabel")]


def declare(points, loss, ridge=1.0, known=False, weight=6.0, kernel="linear"):
    n = len(points)
    y, f = md.Labels(n), md.Hyperplane(points, kernel=kernel)
    objective = ridge * md.sq_norm(f) / 2 + weight * md.mean(loss(y * f))
    return md.Problem(md.Minimize(objective), [y == TRUTH[:n]] if known else [abs(md.sum(y)) <= 0])


def declare_clusters(points, loss, ridge=1.0, coding="crammer-singer"):
    y, f = md.Labels(len(points), clusters=3), md.Hyperplane(points)
    margins = md.margin(y, f, coding=coding)
    return md.Problem(md.Minimize(ridge * md.sq_norm(f) / 2 + 6 * md.mean(loss(margins))),
                      [md.sizes(y, at_least=2, at_most=4)])


def solve(problem, relaxation, solver, **options):
    return problem.solve(relaxation, solver, random_state=0, **options)


@functools.cache
def at_unit_scale(relaxation, solver, loss, known=False):
    return solve(declare(X, LOSSES[loss], known=known), relaxation, solver)


@functools.cache
def three_at_unit_scale(relaxation, coding):
    return solve(declare_clusters(X3, md.hinge, coding=coding), relaxation, None)


def same_partition(a, b):
    return np.array_equal(a[:, None] == a[None, :], b[:, None] == b[None, :])


def assert_sound(solution):
    assert solution.bound <= solution.value
    if solution.certificate is not None:
        assert solution.verify()


def best_value(points, loss, ridge=1.0, weight=6.0):
    """Return the lowest value over B at the unit scale, every member fitted by Newton's method."""
    values = []
    for signs in itertools.product((-1, 1), repeat=len(points) - 1):
        labels = np.array((1, *signs))
        if labels.sum() == 0:
            y, f = md.Labels(len(points)), md.Hyperplane(points)
            objective = ridge * md.sq_norm(f) / 2 + weight * md.mean(loss(y * f))
            values.append(md.Problem(md.Minimize(objective), [y == labels]).solve("supervised").value)
    return min(values)


@pytest.mark.parametrize("relaxation,solver,scale", [
    (*way, scale) for way, scale in zip(itertools.chain(*WAYS.values()), itertools.cycle(SCALES))])
def test_points_and_regulariser_in_other_units(relaxation, solver, scale):
    known = isinstance(relaxation, md.Supervised)
    unit = at_unit_scale(relaxation, solver, "hinge", known)
    problem = declare(scale * X, LOSSES["hinge"], ridge=scale**2, known=known)
    solution = solve(problem, relaxation, solver)
    assert_sound(solution)
    assert same_partition(solution.labels, unit.labels)
    assert solution.value == pytest.approx(unit.value, rel=1e-6)
    assert np.allclose(solution.weights * scale, unit.weights, atol=1e-3) or np.allclose(
        -solution.weights * scale, unit.weights, atol=1e-3)
    if np.isfinite(unit.bound):
        assert solution.gap <= 10 * unit.gap + 2e-6


@pytest.mark.parametrize("relaxation,solver,loss,scale", [
    (*way, loss, SCALES[(i + j) % 2]) for j, way in enumerate(OTHERS)
    for i, loss in enumerate(["odm", "logistic", "squared hinge"]) if i != 2 - j])
def test_other_losses(relaxation, solver, loss, scale):
    unit = at_unit_scale(relaxation, solver, loss)
    problem = declare(scale * X, LOSSES[loss], ridge=scale**2)
    solution = solve(problem, relaxation, solver)
    assert_sound(solution)
    assert same_partition(solution.labels, unit.labels)
    assert solution.value == pytest.approx(unit.value, rel=1e-6)
    assert solution.gap == unit.gap or solution.gap <= 2 * unit.gap + 1e-5


@pytest.mark.parametrize("relaxation,solver,scale", [
    (md.Supervised(), "newton", 1e4), ("alternating", None, 1e4),
    ("cccp", None, 1e3), ("exact", None, 1e3)])
def test_large_points_under_a_plain_regulariser(relaxation, solver, scale):
    """Every labelling that can be separated is: the widest margin wins, and value · scale² is ½‖w‖² at unit scale."""
    known = isinstance(relaxation, md.Supervised)
    problem = declare(scale * X, md.hinge, known=known)
    hard = solve(declare(X, md.hinge, weight=1e5, known=True), md.Supervised(), "newton")
    solution = solve(problem, relaxation, solver)
    assert_sound(solution)
    assert same_partition(solution.labels, TRUTH)
    assert solution.value * scale**2 == pytest.approx(hard.value, rel=1e-5)
    if np.isfinite(solution.bound):
        assert (solution.status == "optimal") == (solution.gap <= 2e-6)


@pytest.mark.parametrize("scale", [1e4])
@pytest.mark.parametrize("relaxation,solver", [("sdp", "clarabel"), ("minimax", None), ("weight-lifting", None)])
def test_bounds_of_large_points_hold_and_are_not_called_optimal_in_vain(relaxation, solver, scale):
    problem = declare(scale * X, md.hinge)
    least = solve(declare(scale * X, md.hinge, known=True), md.Supervised(), "newton")
    solution = solve(problem, relaxation, solver, time_limit=0.3)
    assert_sound(solution)
    assert solution.bound <= least.value * (1 + 1e-6)
    assert solution.status != "optimal" or solution.gap <= 1e-5


@pytest.mark.parametrize("relaxation,coding,scale", [
    ("alternating", "crammer-singer", 1e-3), ("cccp", "simplex", 1e3)])
def test_three_clusters(relaxation, coding, scale):
    unit = three_at_unit_scale(relaxation, coding)
    problem = declare_clusters(scale * X3, md.hinge, ridge=scale**2, coding=coding)
    solution = solve(problem, relaxation, None)
    assert same_partition(solution.labels, unit.labels)
    assert solution.value == pytest.approx(unit.value, rel=1e-6)
    plain = solve(declare_clusters(scale * X3, md.hinge, coding=coding), relaxation, None)
    assert same_partition(plain.labels, THREE)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000), st.integers(-10, 10), st.sampled_from(["hinge", "odm"]))
def test_any_scale_of_random_points(seed, power, loss):
    points = np.random.default_rng(seed).normal(size=(4, 2))
    unit = best_value(points, LOSSES[loss])
    scale = 2.0**power
    problem = declare(scale * points, LOSSES[loss], ridge=scale**2)
    for relaxation in ("exact", "sdp"):
        solution = solve(problem, relaxation, None)
        assert_sound(solution)
        assert solution.bound <= unit * (1 + 1e-7)
        assert solution.value >= unit * (1 - 1e-7)
    assert solve(problem, "exact", None).value == pytest.approx(unit, rel=1e-6)


# -- hostile magnitudes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name,points", {
    "a column far above the others": X * np.array([1.0, 1e4, 1.0]),
    "a column far below the others": X * np.array([1.0, 1.0, 1e-6]),
    "a constant column": np.column_stack([X, np.full(8, 1e7)]),
    "one outlier": np.vstack([X[:7], [1e4, -1e4, 1e4]]),
    "single precision": (1e3 * X).astype(np.float32),
    "integers": np.round(1e3 * X).astype(int),
    "all but two zero": np.vstack([np.zeros((6, 3)), [[1e4, 0, 0], [-1e4, 0, 0]]]),
}.items())
def test_hostile_points(name, points):
    problem = declare(points, md.hinge)
    exact = solve(problem, "exact", None)
    assert_sound(exact)
    ways = [("alternating", None), ("sdp", "burer-monteiro"), ("minimax", None)]
    for relaxation, solver in ways[::2] if len(name) % 2 else ways[:2]:
        solution = solve(problem, relaxation, solver, time_limit=0.2)
        assert_sound(solution)
        assert solution.value >= exact.bound - 1e-7 * abs(exact.value)
        assert solution.bound <= exact.value * (1 + 1e-7)


def test_a_polynomial_kernel_of_large_values():
    unit = solve(declare(X, md.odm, kernel=md.Polynomial(3, 1.0)), "exact", None)
    problem = declare(1e2 * X, md.odm, kernel=md.Polynomial(3, 1e4), ridge=1e12)
    solution = solve(problem, "exact", None)
    assert_sound(solution)
    assert same_partition(solution.labels, unit.labels)
    assert solution.value == pytest.approx(unit.value, rel=1e-6)


@pytest.mark.parametrize("scale", SCALES)
def test_thresholds_without_a_unit_grow_with_the_square(scale):
    def value(c):
        y, f, rho = md.Labels(8), md.Hyperplane(c * X), md.Scalar(nonneg=True, name="rho")
        objective = md.sq_norm(f) / 2 + 3 * md.mean(md.pos(rho - y * f)) - rho
        problem = md.Problem(md.Minimize(objective), [abs(md.sum(y)) <= 0])
        solution = solve(problem, "alternating", None)
        assert same_partition(solution.labels, TRUTH)
        return solution.value, solution.scalars["rho"]

    (unit, threshold), (there, far) = value(1.0), value(scale)
    assert there == pytest.approx(scale**2 * unit, rel=1e-5)
    assert far == pytest.approx(scale**2 * threshold, rel=1e-3)


# -- the change of units itself --------------------------------------------------------------------------


def test_scaled_features_are_the_features_divided():
    base = declare(X, md.hinge).program().features
    scaled, expected = AffineFeatures(base, factor=0.25), base.toarray() / 4
    W, R, c = RNG.normal(size=(3, 2)), RNG.normal(size=(8, 2)), RNG.normal(size=8)
    for given_values, values in (
            (scaled.apply(W), expected @ W), (scaled.adjoint(R), expected.T @ R), (scaled.toarray(), expected),
            (scaled.gram(c), (expected.T * c) @ expected), (scaled.row_norms(), np.sum(expected**2, axis=1)),
            (scaled.rows(np.array([2, 5])), expected[[2, 5]]), (scaled.matrix, expected),
            (scaled.take(np.arange(3)).toarray(), expected[:3]), (scaled.trace, np.sum(expected**2)),
            (scaled.component_sums(np.arange(8) % 3, c, 3),
             np.stack([(c[k::3, None] * expected[k::3]).sum(axis=0) for k in range(3)])),
            (scaled.transform(X), base.transform(X) / 4), (scaled.apply_to(X, W), base.transform(X) @ W / 4)):
        assert np.allclose(given_values, values, rtol=1e-13, atol=1e-13)
    assert "divided by 4" in scaled.describe()


def test_usual_programs_are_left_alone():
    problem = declare(X, md.hinge)
    compiled = problem.compile("sdp", "clarabel")
    assert compiled.presolved.program is compiled.program and "presolve]" not in compiled.explain()
    assert "divided by" not in solve(problem, "sdp", "clarabel").certificate.words


def test_explain_shows_the_units_of_the_user_and_of_the_solve():
    compiled = declare(1e4 * X, md.hinge).compile("sdp", "clarabel")
    text = compiled.explain()
    assert "[presolve]\nfeatures divided by" in text and "value = 1 * program + 0" in text
    assert compiled.program.dump() in text and "6.7e+07" not in compiled.program.dump()


def test_histories_are_in_the_users_units():
    solutions = [solve(declare(c * X, md.hinge, ridge=c**2), "sdp", "burer-monteiro") for c in (1.0, 1024.0)]
    least = [min(line.value for line in s.history) for s in solutions]  # which descent is the last one may differ
    assert least[1] == pytest.approx(least[0], rel=1e-3)


@pytest.mark.parametrize("relaxation, slope", [("exact", 1.0), ("exact", 0.3), ("minimax", 2.0)])
def test_heavy_losses_of_separable_points_are_hard_margins(relaxation, slope):
    def solved(weight):
        y, f = md.Labels(len(X)), md.Hyperplane(X)
        objective = md.sq_norm(f) / 2 + weight * md.mean(md.hinge(slope * (y * f)))
        return solve(md.Problem(md.Minimize(objective), [abs(md.sum(y)) <= 0]), relaxation, None)

    usual, heavy = solved(1e4), solved(1e8)  # no multiplier reaches either weight
    assert heavy.bound <= heavy.value == pytest.approx(usual.value, rel=1e-6)
    assert relaxation != "exact" or slope == 0.3 or heavy.gap <= 1e-3  # its kink 1/.3 is rounded


@pytest.mark.parametrize("seed", range(4))
def test_losses_of_margins_and_scalars_that_cannot_be_negative_have_no_negative_bound(seed):
    rng, s = np.random.default_rng(seed), md.Scalar()
    points, shifts = rng.normal(size=(7, 2)) * 1e3, rng.integers(0, 3, size=7) * 0.3
    y, f = md.Labels(7), md.Hyperplane(points)
    margins = (1 + rng.integers(0, 2, size=7) * 0.5) * (y * f)
    losses = md.mean(md.hinge(margins + s + shifts)) + md.mean(md.pos(s - margins))
    solution = solve(md.Problem(md.Minimize(md.sq_norm(f) / 2 + 100 * losses), [abs(md.sum(y)) <= 3]), "exact", None)
    assert 0 <= solution.bound <= solution.value and solution.verify()


@pytest.mark.parametrize("threshold", [1e-3, 1.0, 1e3])
def test_thresholds_are_the_unit_of_decision_values(threshold):
    y, f = md.Labels(len(X)), md.Hyperplane(X)
    loss = md.mean(abs(threshold - y * f)) / threshold
    problem = md.Problem(md.Minimize(md.sq_norm(f) / (2 * threshold**2) + 3e4 * loss), [y == TRUTH])
    solution = problem.solve("supervised", "newton")
    reference = declare(X, lambda g: abs(1 - g), known=True, weight=3e4).solve("supervised", "clarabel")
    assert solution.status == "optimal" and solution.value == pytest.approx(reference.value, rel=1e-6)


@pytest.mark.parametrize("weight", [1e-7, 1e-8])
@pytest.mark.parametrize("relaxation", ["exact", "alternating"])
def test_scalars_beside_weak_losses_are_of_the_size_of_thresholds(relaxation, weight):
    y, f = md.Labels(len(X)), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean_variance(y * f)), [abs(md.sum(y)) <= 0])
    solution = solve(problem, relaxation, None)
    assert solution.value == pytest.approx(-weight / 4, rel=1e-6)  # min over s of s² − s, with w next to nothing
    assert relaxation == "alternating" or solution.status == "optimal"
