"""Formulas written in ways of mathematics, numpy and CVXPY: equal to their definitions, found by enumeration."""

from itertools import product

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, UnknownNameError

N = 6
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 2))
y, f = md.Labels(N), md.Hyperplane(X)
g, R = y * f, md.sq_norm(f) / 2
SIGNS = [np.array(signs) for signs in product((-1, 1), repeat=N)]


def problem(loss, constraints=()):
    return md.Problem(md.Minimize(R + loss), constraints)


def enumerated(objective, admitted=lambda labels: True):
    """Return the least value over labellings of a convex function of decision values and weights, found by cvxpy."""
    import cvxpy as cp

    w, labels = cp.Variable(2), cp.Parameter(N)
    model = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + objective(cp, labels, (X - X.mean(axis=0)) @ w)))
    best = np.inf
    for labels.value in filter(admitted, SIGNS):
        best = min(best, model.solve("CLARABEL"))
    return best


def balanced(labels):
    return abs(labels.sum()) <= 2


@pytest.mark.parametrize("loss,meaning", [
    (lambda: 2 * md.mean(md.square(y - f)), lambda cp, s, v: 2 * cp.sum_squares(s - v) / N),
    (lambda: 2 * md.mean(abs(f - y)), lambda cp, s, v: 2 * cp.norm1(s - v) / N),
    (lambda: 2 * md.mean(md.pos(abs(y / 2 - f) - 0.1)),
     lambda cp, s, v: 2 * cp.sum(cp.pos(cp.abs(s / 2 - v) - .1)) / N),
    (lambda: md.huber(y[0] - 2 * f[0]) + md.mean(md.hinge(g)),
     lambda cp, s, v: cp.huber(s[0] - 2 * v[0]) + cp.sum(cp.pos(1 - cp.multiply(s, v))) / N),
    (lambda: -2 * md.min(g), lambda cp, s, v: -2 * cp.min(cp.multiply(s, v))),
    (lambda: 3 * md.max(md.hinge(g)), lambda cp, s, v: 3 * cp.max(cp.pos(1 - cp.multiply(s, v)))),
    (lambda: 3 * np.max(md.maximum(1 - g, 0.5)), lambda cp, s, v: 3 * cp.max(cp.maximum(1 - cp.multiply(s, v), 0.5))),
    (lambda: md.max(md.maximum(1 - g, 2 - 4 * g)),
     lambda cp, s, v: cp.max(cp.maximum(1 - cp.multiply(s, v), 2 - 4 * cp.multiply(s, v)))),
    (lambda: np.sum(np.maximum(1 - g, 0)), lambda cp, s, v: cp.sum(cp.pos(1 - cp.multiply(s, v))))])
def test_a_loss_is_what_it_says(loss, meaning):
    declared, optimum = problem(loss(), [abs(md.sum(y)) <= 2]), enumerated(meaning, balanced)
    found = declared.solve("exact")
    assert found.value == pytest.approx(optimum, abs=1e-6) and found.verify()
    for relaxation in (md.SDP(polish="none"), "alternating"):
        other = declared.solve(relaxation, random_state=0)
        assert other.bound <= optimum + 1e-6 and other.value >= optimum - 1e-6 and other.verify()


@pytest.mark.parametrize("constraint,admitted", [
    (lambda: y[:-1] <= y[1:], lambda s: bool(np.all(np.diff(s) >= 0))),
    (lambda: y[:3] + y[3:] <= 0, lambda s: bool(np.all(s[:3] + s[3:] <= 0)))])
def test_constraints_point_by_point(constraint, admitted):
    declared = problem(md.mean(md.hinge(2 * g)), [constraint()])
    optimum = enumerated(lambda cp, s, v: cp.sum(cp.pos(1 - 2 * cp.multiply(s, v))) / N, admitted)
    found = declared.solve("exact")
    assert found.value == pytest.approx(optimum, abs=1e-6) and admitted(found.labels) and found.verify()


def test_decision_values_are_constrained_point_by_point():
    for constraint in ([f[3] == 1], [f[3] >= 1, f[3] <= 1]):
        found = problem(md.mean(md.hinge(g)), constraint).solve("exact")
        assert found.decision[3] == pytest.approx(1.0, abs=1e-5) and found.verify()


def test_thousands_of_losses_are_summed():
    total = sum(md.hinge(g[i % N]) for i in range(1_500))
    assert isinstance(total.text(), str) and len(list(total.walk())) > 1_500
    total = sum(md.hinge(g[i % N]) for i in range(1200))
    assert problem(total).solve("exact").value == pytest.approx(problem(200 * md.sum(md.hinge(g))).solve("exact").value)
    shared = md.hinge(g[0]) + md.hinge(g[1])
    assert [(shared + md.hinge(g[k])).text().count("[1]") for k in (1, 2)] == [2, 1] and len(shared.children) == 2


@pytest.mark.parametrize("write,words", [
    (lambda: md.Labels(6, k=3), "Write md.Labels\\(n, clusters=k\\)"), (lambda: md.RBF(gamma=0.5), "1 / sqrt"),
    (lambda: md.Labels(k=3), "Write md.Labels"), (lambda: md.Polynomial(coef0=1), "Write offset="),
    (lambda: md.RBF(sigma=1), "Write md.RBF\\(width\\)"), (lambda: md.Hyperplane(X, kernal="rbf"), "mean 'kernel'"),
    (lambda: md.Problem(md.Minimize(R), subject_to=[]), "Write constraints="), (lambda: 2**g, "no exponents"),
    (lambda: (y[0] == y[1]) & (y[2] == y[3]), "separate entries"), (lambda: md.ramp(g), "Write md.minimum"),
    (lambda: f.weights, "solution = problem.solve"), (lambda: md.MarginClusterer, "md.estimators"),
    (lambda: md.Labels(X), "given an array of shape"), (lambda: md.Minimize(R).solve(), "problem.solve"),
    (lambda: md.Hyperplane(X, kernel=md.RBF), "an instance is expected"),
    (lambda: md.Hyperplane(X, gamma=1), "md.RBF"),
    (lambda: md.abs(g), "Write abs"), (lambda: md.exp(-g), "md.logistic"),
    (lambda: max(1 - g, 0), "md.maximum\\(a, b\\)"),
    (lambda: y * (f + 1), "bias=True"), (lambda: g.sum(), "write md.sum"),
    (lambda: y[0] * y[1], "paired by constraints"),
    (lambda: y[0, 1], "write y\\[\\[0, 1\\]\\]"), (lambda: md.Maximize(R), "md.Minimize"),
    (lambda: md.compare([1, 2]), "given list, expected a md.Problem"),
    (lambda: problem(md.sum(md.hinge(g)), [g >= 1]), "lam \\* md.sum\\(md.pos\\(1 - g\\)\\)"),
    (lambda: problem(md.max(g**2)), "one affine combination|argument")])
def test_names_of_other_libraries_say_what_to_write(write, words):
    with pytest.raises((DeclarationError, UnknownNameError, AttributeError), match=words):
        write()


def test_long_arrays_show_some_entries():
    assert (np.arange(20) / 4 * md.Scalar()).text() == "array([0, 0.25, 0.5, ..., 4.75]) * s"
