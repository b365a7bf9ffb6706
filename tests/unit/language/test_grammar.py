"""Every rule of the grammar: triggered, named as the user wrote it, and its repair tried."""

from types import SimpleNamespace

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, GrammarError
from margindsl.language.grammar import RULES

N = 6
X = np.random.default_rng(0).normal(size=(N, 2))
y, z, y3 = md.Labels(N), md.Labels(N, name="z"), md.Labels(N, clusters=3)
f, h = md.Hyperplane(X), md.Hyperplane(X, name="h")
g = y * f
s = md.Scalar(name="s")
R = md.sq_norm(f) / 2
SIGNED = np.array([1.0, -1.0, 1.0, 1.0, 1.0, 1.0])
FLAT = md.hinge(g)
EARLIER = SimpleNamespace(labels=np.ones(N), weights=np.ones(2), bias=0.0, decision=np.ones(N))


def objective(loss):
    return lambda: md.Problem(md.Minimize(R + loss()))


def constraint(make, loss=lambda: md.mean(FLAT)):
    return lambda: md.Problem(md.Minimize(R + loss()), [make()])


def free_bias(total):
    plane = md.Hyperplane(X, bias=True)
    return lambda: md.Problem(md.Minimize(md.sq_norm(plane) / 2 + md.mean(md.hinge(y * plane)) + total(plane) ** 2))


def beside(*more, bias=False):
    plane = md.Hyperplane(X, bias=bias, name="h")
    return lambda: md.Problem(md.Minimize(R + md.sq_norm(plane) / 2 + md.mean(md.hinge(g)) + md.mean(abs(plane))),
                              [make() for make in more])


def soft_links(bias):
    plane = md.Hyperplane(X, bias=bias)
    return lambda: md.Problem(md.Minimize(md.sq_norm(plane) / 2 + md.mean(md.hinge(y * plane)) + md.must_link(
        y, [(0, 1)], weight=2)))


# rule -> (declaration that breaks it, the words it must name, the repair its message suggests)
CASES = {
    "CONVEX_LOSS": (objective(lambda: md.mean(-md.pos(1 - g))), "-md.pos(1 - y * f)",
                    objective(lambda: md.mean(md.hinge(g)))),
    "NEGATIVE_PARAMETER": (objective(lambda: md.Parameter(-2.0, name="mu") * md.mean(md.hinge(g))), "`mu`: is -2",
                           objective(lambda: md.Parameter(2.0, name="mu") * md.mean(md.hinge(g)))),
    "MIXED_SUM": (objective(lambda: md.mean(md.hinge(g) - 0.5 * abs(g))), "md.pos(1 - y * f) - 0.5 * abs(y * f)",
                  objective(lambda: md.mean(md.hinge(g) + 0.5 * abs(g)))),
    "SIGNED_WEIGHT": (objective(lambda: md.mean(SIGNED * md.hinge(g))),
    "array([1, -1, 1, 1, 1, 1]) * md.pos(1 - y * f)",
                      objective(lambda: md.mean(abs(SIGNED) * md.hinge(g)))),
    "COMPOSITION": (objective(lambda: md.mean(md.pos(1 - abs(g)))), "md.pos(1 - abs(y * f))",
                    objective(lambda: md.mean(md.pos(1 - g) ** 2))),
    "MAXIMUM": (objective(lambda: md.mean(md.maximum(-abs(g), 1 - g))), "-abs(y * f)",
                objective(lambda: md.mean(md.maximum(abs(g), 1 - g)))),
    "ONE_MARGIN": (objective(lambda: md.mean(md.pos(md.pos(1 - g) + md.pos(s - g)))),
                   "md.pos(md.pos(1 - y * f) + md.pos(s - y * f))", objective(lambda: md.mean(md.pos(s - g)) - s / 2)),
    "BARE_DECISION": (objective(lambda: md.mean(md.hinge(md.margin(y3, f))) + md.mean(md.pos(1 - f))), "of 3 clusters",
                      objective(lambda: md.mean(md.hinge(g)) + md.mean(md.pos(1 - f)))),
    "BLOCK_BIAS": (beside(bias=True), "`h`: has a free bias", beside(bias="penalised")),
    "BLOCK_ORTHOGONAL": (beside(lambda: md.orthogonal(f, [EARLIER])), "md.orthogonal", beside()),
    "NORM": (objective(lambda: md.mean(md.hinge(g)) + md.norm(f) + md.norm(f, 1)), "md.norm(f",
             objective(lambda: md.mean(md.hinge(g)) + md.norm(f))),
    "OUTSIDE": (objective(lambda: md.mean(md.hinge(g)) + md.norm(f) + md.cvxpy_term(f, lambda w, b: b)), "md.",
                objective(lambda: md.mean(md.hinge(g)) + md.cvxpy_term(f, lambda w, b: b))),
    "STATES": (objective(lambda: md.mean(md.by_label(y, {1: md.logistic(f), -1: md.hinge(-f)}))), "md.by_label",
               objective(lambda: md.mean(md.by_label(y, {1: 2 * md.hinge(f), -1: md.hinge(-f)})))),
    "SOFT_BALANCE": (objective(lambda: md.mean(md.hinge(g)) + (md.sum(f) - 1) ** 2), "(md.sum(f) - 1)**2",
                     objective(lambda: md.mean(md.hinge(g)) + md.sum(SIGNED * f) ** 2)),
    "FREE_BALANCE": (free_bias(md.sum), "md.sum(f)**2", objective(lambda: md.mean(md.hinge(g)) + md.sum(f) ** 2)),
    "TWO_PROBLEMS": (objective(lambda: md.mean(md.hinge(g)) + md.mean(md.hinge(z * f))), "mixes two labellings",
                     objective(lambda: md.mean(md.hinge(g)))),
    "TWO_CODINGS": (objective(lambda: md.mean(md.hinge(md.margin(y3, f)) + md.hinge(md.margin(y3, f, "simplex")))),
                    "coding='simplex'", objective(lambda: md.mean(md.hinge(md.margin(y3, f))))),
    "NO_REGULARISER": (lambda: md.Problem(md.Minimize(md.mean(md.hinge(g)))), "md.mean(md.pos(1 - y * f))",
                       lambda: md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(g))))),
    "REGULARISER_SIGN": (lambda: md.Problem(md.Minimize(md.mean(md.hinge(g)) - 0.5 * md.sq_norm(f))),
                         "has coefficient -0.5", objective(lambda: md.mean(md.hinge(g)))),
    "VARIANCE": (objective(lambda: md.mean(md.hinge(g)) - md.var(g)), "md.var(y * f)",
                 objective(lambda: md.mean(md.hinge(g)) + md.var(g))),
    "NOT_SCALAR": (lambda: md.Minimize(R + md.hinge(g)), "md.sq_norm(f) / 2 + md.pos(1 - y * f)",
                   lambda: md.Minimize(R + md.sum(md.hinge(g)))),
    "LABELS_IN_OBJECTIVE": (objective(lambda: md.mean(md.hinge(g)) + md.sum(md.pos(y))), "md.pos(y)",
                            objective(lambda: md.mean(md.hinge(g)) + md.sum(y))),
    "LINK_ON_DECISION": (constraint(lambda: f[0] == f[1]), "f[0] == f[1]", constraint(lambda: y[0] == y[1])),
    "KNOWN_ON_DECISION": (constraint(lambda: f[[0, 1]] == [1, -1]), "f[0:2] == array([1, -1])",
                          constraint(lambda: y[[0, 1]] == [1, -1])),
    "MIXED_CONSTRAINT": (constraint(lambda: md.sum(y) + md.sum(f) <= 1), "md.sum(y) + md.sum(f) <= 1",
                         lambda: md.Problem(md.Minimize(R + md.mean(FLAT)),
                                            [abs(md.sum(y)) <= 2, abs(md.sum(f)) <= 1])),
    "NONLINEAR_CONSTRAINT": (constraint(lambda: md.sum(md.square(f)) <= 1), "md.sum(f**2) <= 1",
                             constraint(lambda: abs(md.sum(f)) <= 1)),
    "NONCONVEX_BOUND": (constraint(lambda: abs(md.sum(y)) >= 1), "1 <= abs(md.sum(y))",
                        constraint(lambda: abs(md.sum(y)) <= 2)),
    "MARGIN_CONSTRAINT": (constraint(lambda: md.sum(g) >= 1), "1 <= md.sum(y * f)",
                          objective(lambda: md.mean(md.pos(1 - g)))),
    "ENTRYWISE_CONSTRAINT": (constraint(lambda: md.Labels(600, name="long") <= 1), "long <= 1",
                             constraint(lambda: md.sum(y) <= 2)),
    "PAIR_WEIGHTS": (objective(lambda: md.mean(FLAT) + md.must_link(y, [(0, 1)], weight=[1, 2])), "md.must_link(y",
                     objective(lambda: md.mean(FLAT) + md.must_link(y, [(0, 1)], weight=[1]))),
    "PAIR_CODING": (lambda: md.Problem(md.Minimize(R + md.mean(md.hinge(md.margin(y3, f))) + md.must_link(
        y3, [(0, 1)], weight=1))), "md.must_link(y", lambda: md.Problem(md.Minimize(R + md.mean(md.hinge(md.margin(
            y3, f, coding="simplex"))) + md.must_link(y3, [(0, 1)], weight=1)))),
    "PAIR_BIAS": (soft_links(True), "md.must_link(y, 1 pairs, weight=2)", soft_links("penalised")),
    "RAMP": (objective(lambda: md.mean(md.minimum(g**2, 1))), "md.minimum((y * f)**2, 1)",
             objective(lambda: md.mean(md.minimum(md.hinge(g), 2)))),
    "RAMP_CLUSTERS": (lambda: md.Problem(md.Minimize(R + md.mean(md.minimum(md.hinge(md.margin(
        y3, f, coding="simplex")), 2)))), "y", objective(lambda: md.mean(md.minimum(md.hinge(g), 2)))),
    "LABEL_SUM": (lambda: md.Problem(md.Minimize(R + md.mean(md.hinge(md.margin(y3, f)))), [md.sum(y3) <= 1]),
                  "md.sum(y) <= 1", lambda: md.Problem(md.Minimize(R + md.mean(md.hinge(md.margin(y3, f)))),
                                                       [md.sizes(y3, at_most=4)])),
    "UNKNOWN_OBJECTIVE": (objective(lambda: md.mean(md.hinge(g)) + md.mean(np.ones(N) * md.sq_norm(f))),
                          "md.sq_norm(f)", objective(lambda: md.mean(md.hinge(g)))),
    "NO_MARGIN": (lambda: md.Problem(md.Minimize(R)), "md.sq_norm(f) / 2", objective(lambda: md.mean(md.hinge(y * f)))),
    "NOT_CONSTRAINT": (constraint(lambda: True), "True", constraint(lambda: y[0] == y[5])),
    "EMPTY_BOUND": (constraint(lambda: abs(md.sum(f)) <= -1), "abs(md.sum(f)) <= -1",
                    constraint(lambda: abs(md.sum(f)) <= 1)),
    "NOT_FINITE": (objective(lambda: md.mean(md.hinge(g)) / md.Parameter(1e-320, name="p")),
                   "md.mean(md.pos(1 - y * f)) / p", objective(lambda: md.mean(md.hinge(g)) / 1e-3)),
    "NO_VARIABLE": (constraint(lambda: md.Parameter(1.0) <= 2), "1 <= 2", objective(lambda: md.mean(FLAT))),
    "MANY_SETTINGS": (lambda: many(lambda m: md.square(md.pos(1 - m) + np.arange(600) * md.pos(-1 - m))),
                      "600 different per-point settings", lambda: many(lambda m: np.arange(600) * md.hinge(m))),
}


def many(loss):
    """Return a problem over 600 points whose loss has its own numbers at every point."""
    labels, plane = md.Labels(600), md.Hyperplane(np.random.default_rng(0).normal(size=(600, 2)))
    return md.Problem(md.Minimize(md.sq_norm(plane) / 2 + md.mean(loss(labels * plane))))



def test_every_rule_has_a_case():
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("name", CASES)
def test_a_broken_rule_names_the_expression_the_rule_and_a_repair_that_works(name):
    broken, words, repaired = CASES[name]
    with pytest.raises(GrammarError) as caught:
        broken()
    error, rule = caught.value, RULES[name]
    assert words in str(error)
    stem = rule.requirement.split("{")[0]
    assert stem in error.rule and error.rule in str(error)
    assert error.repair == rule.repair.format() and error.repair in str(error)
    repaired()


SENTENCES = {
    lambda: g**3: "`(y * f)**3`: only squares are piecewise quadratic. Write **2",
    lambda: g * g: "`y * f * (y * f)`: a product needs a constant factor",
    lambda: 1 / g: "only constants divide",
    lambda: g / 0: "division by zero. Give a non-zero divisor",
    lambda: (md.sum(y) <= 1) and (md.sum(y) >= -1): "`md.sum(y) <= 1`: a constraint has no truth value",
    lambda: -1 <= md.sum(y) <= 1: "Write two constraints, a <= md.sum(y) and md.sum(y) <= b",
    lambda: bool(g): "`y * f`: an expression has no truth value",
    lambda: list(g): "expressions are not looped over",
    lambda: md.sum(y) < 1: "strict inequalities do not close a set. Write <=",
    lambda: md.sum(y) > 1: "strict inequalities do not close a set. Write >=",
    lambda: y[[0, 1]] * f[[0, 2]]: "labels and decision values are of different points",
    lambda: md.sq_norm(y): "the norm is of a hyperplane",
    lambda: md.sum(y) != 1: "only labels are declared different",
    lambda: md.Problem(md.Minimize(R)): "has no margins: nothing would be clustered",
    lambda: md.Problem(md.Minimize(R + md.mean(FLAT)), [True]): "is not a constraint",
    lambda: md.Problem(md.Minimize(R + md.mean(FLAT)), [md.sum(z) <= 1]): "mixes two labellings",
    lambda: md.Problem(md.Minimize(R + md.mean(FLAT)), [md.sum(h) <= 1]): "mixes two hyperplanes",
    lambda: md.Problem(md.Minimize(R + md.mean(FLAT)), [y[0] == z[1]]): "mixes two labellings",
    lambda: md.must_link(f, [(0, 1)]): "links decision values: must-links and cannot-links are between labels",
    lambda: md.Problem(md.Minimize(R + md.mean(FLAT)), [md.Parameter(1.0) <= 2]): "holds neither labels nor decision",
    lambda: md.Problem(md.Minimize(R + md.mean(FLAT)), [abs(md.sum(f)) <= -1]): "asks a modulus to be at most -1",
    lambda: md.Problem(md.Minimize(R + md.mean(FLAT)), [2 * abs(md.sum(y)) <= md.Parameter(-1.0, name="p")]):
        "`2 * abs(md.sum(y)) <= p`: asks a modulus to be at most -0.5. Give a bound of at least 0",
    lambda: md.Problem(md.Minimize(R + md.mean(md.logistic(-g / md.Parameter(1e-320, name="p"))))):
        "(-y * f) / p`: multiplies or divides beyond the largest number",
    lambda: md.Problem(md.Minimize(md.Parameter(-1.0, name="k") * md.sq_norm(f) + md.mean(FLAT))):
        "`k * md.sq_norm(f)`: has coefficient -1",
    lambda: md.Problem(md.Minimize(R + md.Parameter(-1.0, name="k") * md.manifold(f, np.eye(N)) + md.mean(FLAT))):
        "`k * md.manifold(f, graph)`: has coefficient -1",
    lambda: md.Problem(md.Minimize(R + md.mean(FLAT)), [f[0] == md.sum(y)]): "mixes labels and decision values",
    lambda: md.Problem(md.Minimize(R + md.mean(FLAT)), [f[0] == y[1]]): "mixes labels and decision values",
    lambda: md.Problem(md.Minimize(R + md.mean(FLAT)), [f[0] == md.Scalar()]): "is not linear in labels or in decision",
    lambda: f[0] == f[1]: "links decision values: must-links and cannot-links are between labels",
    lambda: f[:3] == 1: "fixes decision values to labels: known labels are given to labels",
    lambda: md.manifold(y, np.eye(N)): "the manifold term is of a hyperplane",
    lambda: md.orthogonal(y, []): "orthogonality is of hyperplanes",
    lambda: md.Labels(N, clusters=3) * f: "labels of 3 clusters are names, not numbers. Write md.margin(y, f)",
}


@pytest.mark.parametrize("sentence", SENTENCES.values())
def test_sentences_of_the_language(sentence):
    make = next(m for m, words in SENTENCES.items() if words == sentence)
    with pytest.raises(GrammarError) as caught:
        make()
    assert sentence in str(caught.value)


@pytest.mark.parametrize("make,words", [
    (lambda: g[0:3] + g[1:3], "3 entries against 2; index both to the same points"),
    (lambda: y * md.Hyperplane(X[:4]), "6 labels against 4 points; declare both over the same points"),
    (lambda: 5 * md.must_link(y, [(0, 1)]), "md.must_link(y, pairs, weight=s)"),
    (lambda: md.count(y == 1) <= md.Parameter(2.0), "md.count(...) <= Parameter: expected a number"),
    (lambda: md.Problem(md.Minimize(R + md.mean(md.minimum(md.hinge(md.margin(md.Labels(N, clusters=3), f)), 1)))),
     "of several clusters, beside a loss with a cap"),
    (lambda: y[9], "y[9]: out of range for 6 points (0..5)"),
    (lambda: g[9], "(y * f)[9]: out of range for 6 points (0..5)"),
    (lambda: g[()], "(y * f)[()]: expected integers, a slice or a boolean mask of one dimension; "
     "write (y * f)[:] for all points"),
    (lambda: y[0.5], "expected integers, a slice or a boolean mask"),
    (lambda: y[[True, False]], "mask of shape (2,), expected (6,)"),
    (lambda: y[[[0, 1]]], "index of shape (1, 2), expected one dimension"),
    (lambda: g + np.nan, "NaN or infinity entered a formula"),
    (lambda: g + 1j, "a complex number entered a formula"),
    (lambda: g + np.ones((N, 1)), "an array of shape (6, 1) entered a formula"),
    (lambda: g + "1", "the string '1' entered a formula"),
    (lambda: y[[0, 1]] == ["oak", "elm"], "code names of labels as +1 and -1, or 0..k-1"),
    (lambda: g + None, "cannot enter a formula: expected a number"),
    (lambda: g + np.array([object()] * N), "cannot enter a formula"),
    (lambda: md.mean(md.sum(FLAT)), "a single number; expected one value a point"),
    (lambda: md.mean(FLAT[[]]), "no points are left; check the index"),
    (lambda: md.maximum(g), "given 1 argument(s), expected at least two"),
    (lambda: md.huber(g, 0), "md.huber(threshold=0): expected a positive number"),
    (lambda: md.odm(g, -1, 0.2), "md.odm(nu=-1): expected nu >= 0"),
    (lambda: md.odm(g, 0.5, 1.0), "md.odm(theta=1): expected 0 <= theta < 1"),
    (lambda: md.epsilon_insensitive(g, -0.1), "md.epsilon_insensitive(eps=-0.1): expected eps >= 0"),
    (lambda: md.plq([(1.0, (0, -1, 1))], g), "the last upper end inf"),
    (lambda: md.plq([(np.inf, (0, 1))], g), "given ends [inf] with 2 coefficients"),
    (lambda: md.PLQ.affine(-1, 1)(g), "of a loss of your own md.plq(loss, g)"),
    (lambda: md.by_label(y, {1: md.hinge(f)}), "is given [1]. Give a loss for each label"),
    (lambda: md.certify([1] * N, md.Problem(md.Minimize(R + md.mean(md.hinge(g))))), "certify: given list first"),
    (lambda: md.select(md.Problem(md.Minimize(R + md.mean(md.hinge(g)))), [[1] * N]), "given one problem, expected a"),
    (lambda: md.compare(md.Problem(md.Minimize(R + md.mean(md.hinge(g)))), []), "given no relaxations or no solvers"),
    (lambda: md.plq([(2.0, (0, -1, 1)), (1.0, (0, 0, 0)), (np.inf, (0, 0, 0))]), "are not increasing"),
    (lambda: md.plq(3), "expected pairs (upper end, (q, s, c))"),
    (lambda: md.plq([(0.0, (0, 1, 0)), (np.inf, (0, -1, 0))]), "slope falls"),
    (lambda: md.plq([(0.0, (0, 0, 0)), (np.inf, (0, 1, 1))]), "do not meet"),
    (lambda: md.Parameter(np.nan), "Parameter: given nan, expected a finite real number"),
    (lambda: md.Parameter(True), "Parameter: given True, expected a finite real number"),
    (lambda: md.Parameter("1"), "Parameter: given '1'"),
    (lambda: md.Problem(R + md.mean(FLAT)), "expected md.Minimize(expression)"),
    (lambda: md.sizes(y), "give at_least=, at_most= or both"),
    (lambda: md.sizes(y, at_least=4), "cannot fill clusters of 8 to 12 points"),
    (lambda: md.sizes(y, at_least=3, at_most=2), "expected 0 <= at_least <= at_most"),
    (lambda: md.sizes(y, at_most=[[1], [1, 2]]), "a ragged list entered md.sizes(at_most=)"),
    (lambda: md.sizes(y, at_least=0.3), "expected numbers of points; a share of all is share * 6"),
    (lambda: md.sizes(y, at_least=2.5, at_most=2.7), "no whole number lies between"),
    (lambda: md.sizes(y, at_most=md.Parameter(3.0, name="p")), "md.sizes(at_most=p): sizes are plain numbers"),
    (lambda: md.sizes(y, at_most=[3, md.Parameter(3.0, name="p")]), "sizes are plain numbers"),
    (lambda: md.Hyperplane(X, centre="no"), "Hyperplane(centre='no'): expected True or False"),
    (lambda: md.Hyperplane(X, centre=np.array([True, False])), "expected True or False"),
    (lambda: md.Hyperplane(X, bias=np.array([True, False])), "expected False, True (free) or 'penalised'"),
    (lambda: md.Hyperplane(X, bias=np.array([True])), "expected False, True (free) or 'penalised'"),
    (lambda: md.manifold(f, "x"), "expected a graph or a matrix of numbers of shape (6, 6)"),
    (lambda: md.manifold(f, [[1, 2], [3]]), "a ragged list entered md.manifold"),
    (lambda: md.margin(f, y), "expected md.Labels and md.Hyperplane, in this order"),
    (lambda: md.margin(y, f, coding="x"), "expected 'crammer-singer' or 'simplex'"),
    (lambda: md.manifold(f, np.eye(3)), "graph of shape (3, 3), expected (6, 6)"),
    (lambda: md.manifold(f, -np.ones((N, N))), "weights must be finite and non-negative"),
    (lambda: md.manifold(f, np.triu(np.ones((N, N)), 1)), "the graph is not symmetric"),
    (lambda: md.orthogonal(f, [3]), "given int, expected earlier solutions"),
])
def test_declaration_errors(make, words):
    with pytest.raises(DeclarationError) as caught:
        make()
    assert words in str(caught.value)
