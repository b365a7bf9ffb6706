"""GMMC: the lift of the squared hinge, whose value is that of the published dual."""

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, RefusalError, UnknownNameError
from margindsl.relaxations.gmmc import GMMC

OUTPUTS, MATRIX = GMMC(rounding=0, polish="none"), md.SDP(rounding=0, polish="none")
pytestmark = pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")


def points(n=12, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[: n // 2, 0] += 2.0
    return X


def declare(X, C=10.0, bounds=lambda y, f: [], loss=md.squared_hinge, **options):
    y, f = md.Labels(len(X)), md.Hyperplane(X, **options)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(loss(y * f))), bounds(y, f))


def published(K, C, l=None):
    """Return max ½ Σγ with K_c⁻¹ − Diag γ ⪰ 0, bordered by P and the balance of a bias when l is given."""
    n = len(K)
    inverse = np.linalg.inv(K + n / (2 * C) * np.eye(n))
    gamma, eta = cp.Variable(n, nonneg=True), cp.Variable(nonneg=True)
    if l is None:
        return cp.Problem(cp.Maximize(cp.sum(gamma) / 2), [inverse - cp.diag(gamma) >> 0]).solve("CLARABEL")
    P, corner = np.column_stack([np.eye(n), -np.ones(n)]), np.zeros((n + 1, n + 1))
    corner[n, n] = n**2  # centred features: Σf = n b
    matrix = P.T @ inverse @ P + eta * corner - cp.diag(cp.hstack([gamma, 0.0]))
    return cp.Problem(cp.Maximize(cp.sum(gamma) / 2 - eta * l**2 / 2), [matrix >> 0]).solve("CLARABEL")


@pytest.mark.parametrize("kernel", ["linear", md.RBF(2.0)], ids=["linear", "rbf"])
def test_without_bias_and_balance_it_equals_the_label_sdp(kernel):
    problem = declare(points(), kernel=kernel)
    outputs = problem.solve(OUTPUTS, "clarabel", random_state=0)
    matrix = problem.solve(MATRIX, "clarabel", random_state=0)
    Phi = problem.program().features.toarray()
    assert outputs.estimate == pytest.approx(matrix.estimate, rel=1e-6)
    assert outputs.estimate == pytest.approx(published(Phi @ Phi.T, 10.0), rel=1e-6)
    assert outputs.bound == pytest.approx(matrix.bound, rel=1e-5)


def test_other_solvers_reach_the_same_value():
    problem = declare(points(seed=1))
    value = problem.solve(OUTPUTS, "clarabel", random_state=0).bound
    assert problem.solve(OUTPUTS, "scs", random_state=0).bound == pytest.approx(value, rel=1e-4)
    assert problem.solve(OUTPUTS, "burer-monteiro", random_state=0).bound == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize("l", [0.5, 4.0])
def test_a_free_bias_under_decision_balance(l):
    problem = declare(points(seed=2), bias=True, bounds=lambda y, f: [abs(md.sum(f)) <= l])
    solution = problem.solve(OUTPUTS, "clarabel", random_state=0)
    Z = points(seed=2) - points(seed=2).mean(axis=0)
    assert solution.estimate == pytest.approx(published(Z @ Z.T, 10.0, l), rel=1e-5)
    assert solution.estimate == pytest.approx(problem.solve(MATRIX, "clarabel", random_state=0).estimate, rel=1e-5)
    assert abs(solution.decision.sum()) <= l * (1 + 1e-6)


def test_bounds_along_the_weights_and_without_a_bias():
    X, a = points(seed=3), np.random.default_rng(0).random(12)

    def bounds(y, f):
        return [abs(md.sum(a * f)) <= 1.0, abs(md.sum(f[:5])) <= 0.5]

    for bias in (False, True):
        problem = declare(X, bias=bias, centre=False, bounds=bounds)
        outputs, matrix = (problem.solve(r, "clarabel", random_state=0) for r in (OUTPUTS, MATRIX))
        assert outputs.estimate == pytest.approx(matrix.estimate, rel=1e-5)


def test_a_bound_that_centring_makes_vacuous_changes_nothing():
    bounded = declare(points(), bounds=lambda y, f: [abs(md.sum(f)) <= 1]).solve(OUTPUTS, "clarabel", random_state=0)
    assert bounded.bound == pytest.approx(declare(points()).solve(OUTPUTS, "clarabel", random_state=0).bound, rel=1e-7)
    assert bounded.verify()


def test_a_bound_of_zero_loses_little():
    problem = declare(points(seed=4), bias=True, bounds=lambda y, f: [abs(md.sum(f)) <= 0])
    centred = declare(points(seed=4)).solve(OUTPUTS, "clarabel", random_state=0)
    solution = problem.solve(OUTPUTS, "clarabel", random_state=0)
    assert solution.bound == pytest.approx(centred.bound, rel=1e-3) and solution.bound <= centred.estimate * (1 + 1e-7)


def test_label_constraints_tighten_the_certificate_and_are_kept():
    X = points(n=12, d=2, seed=5)

    def bounds(y, f):
        return [abs(md.sum(y)) <= 2, y[0] == y[1], y[2] != y[3], y[4] == 1]

    problem, free = declare(X, bounds=bounds), declare(X)
    solution, exact = problem.solve(GMMC(), random_state=0), problem.solve("exact")
    assert solution.verify()
    assert free.solve(GMMC(), random_state=0).bound < solution.bound <= exact.value * (1 + 1e-9)
    y = solution.labels
    assert y[0] == y[1] and y[2] != y[3] and y[4] == 1 and abs(y.sum()) <= 2


def test_points_without_a_loss_and_uneven_weights():
    X, weights = points(seed=6), np.where(np.arange(12) < 4, 0.0, np.arange(12) + 1.0)
    problem = declare(X, loss=lambda g: weights * md.squared_hinge(g) + weights[::-1] * md.pos(2 - 2 * g) ** 2 / 8)
    outputs, matrix = (problem.solve(r, "clarabel", random_state=0) for r in (OUTPUTS, MATRIX))
    assert outputs.estimate == pytest.approx(matrix.estimate, rel=1e-5)
    bare = declare(X, loss=lambda g: weights * md.squared_hinge(g))
    outputs, matrix = (bare.solve(r, "clarabel", random_state=0) for r in (OUTPUTS, MATRIX))
    assert outputs.estimate == pytest.approx(matrix.estimate, rel=1e-5)


def test_what_it_refuses():
    X = points()
    for loss in (md.hinge, md.odm, lambda g: md.pos(2 - g) ** 2):
        with pytest.raises(RefusalError, match="the squared hinge alone"):
            declare(X, loss=loss).solve(GMMC())
    with pytest.raises(RefusalError, match="free bias makes gmmc trivial"):
        declare(X, bias=True).solve(GMMC())
    with pytest.raises(RefusalError, match="free bias makes gmmc trivial"):
        declare(X, bounds=lambda y, f: [md.sum(f) <= 1], bias=True).solve(GMMC())
    with pytest.raises(DeclarationError, match="expected a positive finite number or None"):
        GMMC(tol=-1.0)


def test_the_recipe_declares_it():
    X = points(n=20, d=2, seed=7) * [3.0, 1.0]
    problem = md.recipes.gmmc(X, C=5.0, l=1.0)
    by_hand = declare(X, C=5.0, bias=True, bounds=lambda y, f: [abs(md.sum(f)) <= 1.0])
    solution = problem.solve()
    assert solution.relaxation == "gmmc"
    assert solution.bound == pytest.approx(by_hand.solve(problem.relaxation).bound, rel=1e-9)
    rounded = md.recipes.gmmc(X, C=5.0, l=1.0, labels="rounded").solve(random_state=0)
    assert rounded.bound <= rounded.value * (1 + 1e-9) and rounded.value <= solution.value * (1 + 1e-9)
    with pytest.raises(UnknownNameError, match="rule for labels in gmmc"):
        md.recipes.gmmc(X, labels="votes")


def test_the_published_rule_parts_two_clouds():
    rng = np.random.default_rng(8)
    X = np.vstack([rng.normal(-3, 0.5, (12, 2)), rng.normal(3, 0.5, (18, 2))])
    labels = md.recipes.gmmc(X).solve().labels
    assert np.array_equal(labels * labels[0], np.where(np.arange(30) < 12, 1, -1))
