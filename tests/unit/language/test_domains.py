"""Domains of constants: held by every formula, whenever a parameter changes and whichever formula it enters."""

from fractions import Fraction

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError

X = np.array([[-2.0], [-1.5], [-1.0], [1.0], [1.6], [2.0]])


def declare(make, constraints=lambda y, f: []):
    y, f = md.Labels(6), md.Hyperplane(X)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + make(y * f)), [abs(md.sum(y)) <= 0, *constraints(y, f)])


# formula of a parameter, a value inside the domain, values outside, words of the error
FORMULAS = [
    (lambda g, p: md.mean(md.odm(g, 0.4, p)), 0.2, [1.0, 1.5, -0.1], r"md.odm\(theta=.*expected 0 <= theta < 1"),
    (lambda g, p: md.mean(md.odm(g, 0.4, p - 5)), 5.2, [6.0, 4.9], r"theta=.*p - 5 is .*expected 0 <= theta < 1"),
    (lambda g, p: md.mean(md.odm(g, p, 0.2)), 0.4, [-0.5], r"md.odm\(nu=-0.5\).*expected nu >= 0"),
    (lambda g, p: md.mean(md.odm(g[:3], p, 0.2)) + md.mean(md.hinge(g)), 0.4, [-1e-9], r"expected nu >= 0"),
    (lambda g, p: md.mean(md.epsilon_insensitive(g, p)), 0.1, [-0.5], r"md.epsilon_insensitive\(eps=-0.5\)"),
    (lambda g, p: md.mean_variance(g, 1.0, p), 1.0, [0.0, -1.0], r"md.mean_variance\(lam=.*expected lam > 0"),
    (lambda g, p: md.mean_variance(g, p, 1.0), 1.0, [-1.0], r"md.mean_variance\(eta=-1\).*expected eta >= 0"),
    (lambda g, p: md.mean(md.hinge(g) / p), 2.0, [0.0], r"`md.pos\(1 - y \* f\) / p`: division by zero"),
    (lambda g, p: md.mean(md.hinge(g)) / p, 2.0, [0.0], r"md.mean\(md.pos\(1 - y \* f\)\) / p`: division by zero"),
    (lambda g, p: md.mean(md.pos(1 - g / p)), 2.0, [0.0], r"`y \* f / p`: division by zero"),
    (lambda g, p: md.mean(md.hinge(g)) / (1 - p) ** 2, 0.5, [1.0], r"/ \(1 - p\)\*\*2`: division by zero"),
    (lambda g, p: 3 / p * md.mean(md.hinge(g)), 2.0, [0.0], "`3 / p`: division by zero"),
    (lambda g, p: (2 + 1 / (p - 2)) * md.mean(md.hinge(g)), 4.0, [2.0], r"`1 / \(p - 2\)`: division by zero"),
    (lambda g, p: p * md.mean(md.hinge(g)), 2.0, [-1.0], "`p`: is -1 and turns a loss concave"),
    (lambda g, p: (p - 5) * md.mean(md.hinge(g)), 6.0, [3.0], "is concave: margin losses must be convex"),
    (lambda g, p: md.mean(md.hinge(g)) / p, 2.0, [-1.0], "`p`: is -1 and turns a loss concave"),
    (lambda g, p: md.mean(md.hinge(g)) + p * md.var(g), 2.0, [-1.0], "`p`: is -1 and turns a loss concave"),
    (lambda g, p: md.mean(md.hinge(g) - p * abs(g)), -1.0, [1.0], "difference of two convex functions"),
    (lambda g, p: md.mean(md.pos(p * abs(g) + 1)), 1.0, [-1.0], "is not convex: a function"),
    (lambda g, p: md.mean(md.hinge(g)) * (1e300 * p), 1e-300, [1e200], "has no finite value at the present values"),
    (lambda g, p: p**2 * md.mean(md.hinge(g)), 1.0, [1e200], r"`p\*\*2`: has no finite value"),
    (lambda g, p: md.mean(md.hinge(g)) / (1e-300 * p), 1e300, [1e-200], "division by zero"),
]


@pytest.mark.parametrize("formula,good,bad,words", FORMULAS)
def test_a_value_outside_a_domain_names_the_formula_whenever_it_was_set(formula, good, bad, words):
    p = md.Parameter(good, name="p")
    problem = declare(lambda g: formula(g, p))
    problem.lower()
    for value in bad:
        fresh = md.Parameter(value, name="p")
        with pytest.raises(DeclarationError, match=words):
            declare(lambda g, own=fresh: formula(g, own))
        p.value = value
        for use in (problem.lower, problem.program, lambda: problem.solve("cccp"), lambda: problem.compile("sdp")):
            with pytest.raises(DeclarationError, match=words):
                use()
    p.value = good
    problem.lower()


def test_regularisers_and_bounds_are_asked_too():
    p, y, f = md.Parameter(1.0, name="p"), md.Labels(6), md.Hyperplane(X)
    loss = md.mean(md.hinge(y * f))
    ridge = md.Problem(md.Minimize(p * md.sq_norm(f) + loss))
    graph = md.Problem(md.Minimize(md.sq_norm(f) + p * md.manifold(f, np.ones((6, 6))) + loss))
    bound = md.Problem(md.Minimize(md.sq_norm(f) + loss), [abs(md.sum(f)) / p <= 2])
    for problem, value, words in ((ridge, -1.0, "has coefficient -1"), (ridge, 0.0, "has no regulariser"),
                                  (graph, -1.0, "has coefficient -1"), (bound, 0.0, "division by zero")):
        p.value = value
        with pytest.raises(DeclarationError, match=words):
            problem.lower()
        p.value = 1.0


def test_known_labels_and_bounds_follow_their_parameters():
    p, b = md.Parameter(1.0, name="p"), md.Parameter(0.0, name="b")
    y, f = md.Labels(6), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))), [y[0] == p,
        abs(md.sum(y)) <= b])
    assert set(map(id, problem.parameters)) == {id(p), id(b)}
    assert problem.solve("exact").labels[0] == 1
    p.value = -1.0
    assert problem.solve("exact").labels[0] == -1
    p.value = 0.5
    with pytest.raises(DeclarationError, match="point 0 is given 0.5, expected \\+1 or"):
        problem.solve("exact")
    p.value, b.value = 1.0, -1.0
    with pytest.raises(DeclarationError):
        problem.solve("exact")
    b.value = 0.0
    assert [len(s.labels) for s in problem.path(b, [0.0, 2.0], relaxation="exact")] == [6, 6]


@pytest.mark.parametrize("value", [
    np.nan, np.inf, -np.inf, None, "1", b"1", True, np.bool_(True), 1j,
    10**400, -10**400, Fraction(10**400), md.Parameter(1.0), object(), np.datetime64("2020"), np.timedelta64(3)],
    ids=lambda given: type(given).__name__)
def test_parameters_are_finite_numbers(value):
    p = md.Parameter(2.0)
    with pytest.raises(DeclarationError, match="expected a finite real number"):
        p.value = value
    assert p.value == 2.0
    with pytest.raises(DeclarationError, match="expected a finite real number"):
        md.Parameter(value)


@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), [1.0], (), [np.nan] * 6, ["a"] * 6, np.ones((6, 1)), 1.0])
def test_parameters_of_points_keep_their_length(value):
    p, number = md.Parameter(np.ones(6)), md.Parameter(2.0)
    with pytest.raises(DeclarationError):
        p.value = value
    if np.ndim(value):
        with pytest.raises(DeclarationError):
            number.value = value
    assert number.value == 2.0 and p.value.tolist() == [1.0] * 6


def test_parameters_weigh_points_without_compiling_anew():
    X = np.random.default_rng(0).normal(size=(6, 2))
    y, f, c = md.Labels(6), md.Hyperplane(X), md.Parameter(np.ones(6), name="c", nonneg=True)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(c * md.hinge(y * f))), [abs(md.sum(y)) <= 0])
    weights = np.arange(6.0)
    for solution, values in zip(problem.path(c, [np.ones(6), weights], relaxation="exact"), (np.ones(6), weights)):
        plain = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(values * md.hinge(y * f))), [abs(md.sum(y)) <= 0])
        assert solution.value == pytest.approx(plain.solve("exact").value, abs=1e-9) and solution.verify()
    with pytest.raises(DeclarationError, match="nonneg=True.: given -1, expected at least 0"):
        c.value = -weights / 5
    with pytest.raises(DeclarationError, match="given None, expected a finite real number"):
        md.Parameter(nonneg=True)


@pytest.mark.parametrize("value", [np.float32(0.5), np.float16(0.5), np.int8(3), np.uint64(3), Fraction(1, 4), 3])
def test_parameters_take_numbers_of_every_kind(value):
    assert md.Parameter(value).value == float(value) and type(md.Parameter(value).value) is float


@pytest.mark.parametrize("theta", [np.array([0.1, 0.2, 0.3, 0.1, 0.2, 0.3]), [0.1] * 6])
def test_domains_of_arrays(theta):
    assert declare(lambda g: md.mean(md.odm(g, 0.4, theta))).solve("exact").status == "optimal"
    with pytest.raises(DeclarationError, match="theta=1.*expected 0 <= theta < 1"):
        declare(lambda g: md.mean(md.odm(g, 0.4, np.array([0.1, 1.0, 0.3, 0.1, 0.2, 0.3]))))


@pytest.mark.parametrize("make", [
    lambda g, s: md.odm(g, s), lambda g, s: md.odm(g, 0.4, g), lambda g, s: md.epsilon_insensitive(g, s),
    lambda g, s: md.mean_variance(g, s)])
def test_settings_of_losses_are_constants(make):
    with pytest.raises(DeclarationError, match="expected a number, one number a point, or md.Parameter"):
        make(md.Labels(6) * md.Hyperplane(X), md.Scalar())


@pytest.mark.parametrize("threshold", [0, -1, np.nan, np.inf, True, "1", None, 1j, md.Parameter(1.0)])
def test_thresholds_of_huber(threshold):
    with pytest.raises(DeclarationError, match="expected a positive number"):
        md.huber(md.Labels(6) * md.Hyperplane(X), threshold)


@pytest.mark.parametrize("pieces", [
    [(np.nan, (0, 0, 0)), (np.inf, (0, 0, 0))], [(np.inf, (0, np.nan, 0))], [(np.inf, (0, np.inf, 0))], [], None, 3,
    "ab",
    [(np.inf, (0, 0))], [(np.inf, (0, 10**400, 0))], [(1.0, (0, 0, 0))], {1: 2}, np.zeros((2, 4)),
    [(np.inf, (0, md.Parameter(1.0), 0))], [(np.inf, (0, 1j, 0))]], ids=str)
def test_pieces_are_numbers(pieces):
    with pytest.raises(DeclarationError):
        md.plq(pieces)


def test_skmmc_keeps_the_domain_of_its_weight():
    C = md.Parameter(10.0, name="C")
    problem = md.recipes.skmmc(X, C=C)
    C.value = 0.5
    with pytest.raises(DeclarationError, match="grows without end"):
        problem.lower()
