"""Squares of weighted sums of decision values are regularisers: values of models written by hand."""

import itertools

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.errors import GrammarError

rng = np.random.default_rng(0)
X = rng.normal(size=(8, 2)) + 0.7
A = rng.random(8) - 0.2
Y = np.where(X[:, 0] > 0.7, 1, -1)
N = len(X)


def declare(term, constraints=lambda y: [], loss=md.squared_hinge, **options):
    y, f = md.Labels(N), md.Hyperplane(X, **options)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(loss(y * f)) + term(f)), constraints(y))


def by_hand(labels, matrix, centre, penalised, power=2):
    """Return the value at fixed labels, the soft term ½ fᵀLf written as it stands."""
    Z = X - X.mean(axis=0) if centre else X
    w, b = cp.Variable(2), cp.Variable()
    f = Z @ w + (b if penalised else 0)
    norm = cp.sum_squares(w) / 2 + (cp.square(b) / 2 if penalised else 0)
    soft = sum(mu * cp.square(a @ f) for mu, a in matrix)
    hinge = cp.power(cp.pos(1 - cp.multiply(labels, f)), power)
    return cp.Problem(cp.Minimize(norm + 3 * cp.sum(hinge) / N + soft)).solve("CLARABEL")


TERMS = {
    "sum": (lambda f: 0.4 * md.sum(f) ** 2, [(0.4, np.ones(N))]),
    "weights": (lambda f: md.square(md.sum(A * f)) / 2, [(0.5, A)]),
    "mean and entries": (lambda f: (md.mean(f) - 2 * f[3] + md.sum(f[:2])) ** 2,
                         [(1.0, 1 / N - 2.0 * (np.arange(N) == 3) + (np.arange(N) < 2))]),
    "two": (lambda f: md.sum(f) ** 2 + 0.1 * md.sum(A * f) ** 2, [(1.0, np.ones(N)), (0.1, A)]),
    "a parameter": (lambda f: md.Parameter(0.3) * md.sum(f) ** 2, [(0.3, np.ones(N))]),
}


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("options", [{"bias": "penalised"}, {"centre": False}, {"bias": "penalised", "centre": False}],
                         ids=str)
def test_values_with_known_labels(term, options):
    declared, matrix = TERMS[term]
    solution = declare(declared, lambda y: [y == Y], **options).solve()
    expected = by_hand(Y, matrix, options.get("centre", True), "bias" in options)
    assert solution.value == pytest.approx(expected, rel=1e-6)
    assert solution.verify()
    assert solution.decision_function(X) == pytest.approx(solution.decision, abs=1e-9)


def test_a_sum_that_centring_makes_zero_costs_nothing():
    with_term = declare(lambda f: 5 * md.sum(f) ** 2, lambda y: [y == Y]).solve().value
    assert with_term == pytest.approx(declare(lambda f: 0 * md.sum(f) ** 2, lambda y: [y == Y]).solve().value, rel=1e-9)


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
def test_the_soft_term_of_gmmc():
    # over centred features C_e (sum f)^2 is C_e n^2 b^2: a penalised bias with another weight
    problem = declare(lambda f: 0.2 * md.sum(f) ** 2, bias="penalised")
    half = ((1, *y) for y in itertools.product((-1, 1), repeat=N - 1))  # the others are the same under other names
    best = min(by_hand(np.array(y), [(0.2, np.ones(N))], True, True) for y in half)
    relaxed, exact = problem.solve("gmmc", random_state=0), problem.solve("exact")
    assert exact.value == pytest.approx(best, rel=1e-6)
    assert relaxed.bound <= best * (1 + 1e-7) and relaxed.value >= best * (1 - 1e-6)
    assert relaxed.verify() and exact.verify() and relaxed.verify()


@pytest.mark.parametrize("term,words", [
    (lambda y, f: -md.sum(f) ** 2, "must be convex"),
    (lambda y, f: (md.sum(f) - 1) ** 2, "not the square of a weighted sum alone"),
    (lambda y, f: (md.sum(f) + md.sum(y)) ** 2, "not the square of a weighted sum alone"),
    (lambda y, f: (md.sum(f) + md.Scalar()) ** 2, "not the square of a weighted sum alone"),
    (lambda y, f: md.square(md.sum(abs(f))), "not the square of a weighted sum alone")])
def test_what_is_no_soft_balance(term, words):
    y, f = md.Labels(N), md.Hyperplane(X)
    with pytest.raises(GrammarError, match=words):
        md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f)) + term(y, f)))


def test_a_free_bias_is_refused_where_it_moves_the_sum():
    with pytest.raises(GrammarError, match=r"a free bias moves.*Declare md.Hyperplane\(X, bias='penalised'\)"):
        declare(lambda f: md.sum(f) ** 2, bias=True)
    contrast = np.where(np.arange(N) % 2, 1.0, -1.0)
    solution = declare(lambda f: 0.5 * md.sum(contrast * f) ** 2, lambda y: [y == Y], bias=True).solve()
    Z, (w, b) = X - X.mean(axis=0), (cp.Variable(2), cp.Variable())
    f = Z @ w + b
    hinge = cp.square(cp.pos(1 - cp.multiply(Y, f)))
    expected = cp.Problem(cp.Minimize(
        cp.sum_squares(w) / 2 + 3 * cp.sum(hinge) / N + 0.5 * cp.square(contrast @ f))).solve("CLARABEL")
    assert solution.value == pytest.approx(expected, rel=1e-6) and solution.verify()
