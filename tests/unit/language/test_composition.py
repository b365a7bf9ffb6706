"""Composition: what is convex by the rules is accepted and solved, what is not is refused by its name."""

import re
from functools import cache

import numpy as np
import pytest

import margindsl as md
from margindsl.calculus import PLQ, Logistic, absolute, huber, pos, square
from margindsl.calculus.composed import Conjugate, compose, maximum
from margindsl.errors import CalculusError, DeclarationError, GrammarError
from margindsl.language import Expression
from margindsl.language.constraints import Constraint
from margindsl.program.bounds import DecisionBound

RNG = np.random.default_rng(11)
X = RNG.normal(size=(8, 2)) + np.repeat([[1.0], [-1.0]], 4, axis=0)
y, f = md.Labels(8), md.Hyperplane(X)
g = y * f
WEIGHTS = np.arange(1.0, 9.0)


def declare(loss, weight=4.0):
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * loss), [abs(md.sum(y)) <= 2])


def softplus(x):
    return np.logaddexp(0, x)


def up(x):
    return np.maximum(x, 0)


# a formula of margins, and the same in numpy
CONVEX = {
    "logistic and hinge": (lambda g: md.logistic(-g) + md.hinge(g), lambda m: softplus(-m) + up(1 - m)),
    "part of logistic": (lambda g: md.pos(md.logistic(-g) - 1), lambda m: up(softplus(-m) - 1)),
    "part of a sum": (lambda g: md.pos(md.logistic(-g) + md.hinge(g) - 1), lambda m: up(softplus(-m) + up(1 - m) - 1)),
    "maximum with logistic": (lambda g: md.maximum(md.logistic(-g), 1 - 2 * g), lambda m: np.maximum(softplus(-m),
    1 - 2 * m)),
    "maximum of three": (lambda g: md.maximum(md.logistic(-g), md.square(g) / 4, 0.5),
                         lambda m: np.maximum(np.maximum(softplus(-m), m**2 / 4), 0.5)),
    "square of logistic": (lambda g: md.logistic(-g) ** 2, lambda m: softplus(-m) ** 2),
    "logistic of a square": (lambda g: md.logistic((1 - g) ** 2), lambda m: softplus((1 - m) ** 2)),
    "logistic of logistic": (lambda g: md.logistic(md.logistic(-g)), lambda m: softplus(softplus(-m))),
    "huber of hinge": (lambda g: md.huber(md.hinge(g), 0.5),
                       lambda m: np.where(up(1 - m) <= 0.5, up(1 - m) ** 2, up(1 - m) - 0.25)),
    "fourth power": (lambda g: md.square(md.square(1 - g)), lambda m: (1 - m) ** 4),
    "falling of concave": (lambda g: md.plq([(0.0, (0, -1, 0)), (np.inf, (0, 0, 0))])(1 - md.logistic(-g)),
                           lambda m: up(softplus(-m) - 1)),
    "modulus of concave": (lambda g: abs(-md.logistic(-g)), lambda m: softplus(-m)),
    "part of what is never positive": (lambda g: md.pos(-abs(g)) + md.hinge(g), lambda m: up(1 - m)),
    "square of a hinge squared": (lambda g: md.hinge(g) ** 2 + md.pos(md.square(g) - 1),
    lambda m: up(1 - m) ** 2 + up(m**2 - 1)),
    "nested parts": (lambda g: md.pos(md.pos(1 - g) + md.pos(g - 2) - 0.5), lambda m: up(up(1 - m) + up(m - 2) - 0.5)),
    "weights": (lambda g: WEIGHTS * md.logistic(-g) + md.hinge(g), lambda m: WEIGHTS * softplus(-m) + up(1 - m)),
}


@pytest.mark.parametrize("formula,numeric", CONVEX.values(), ids=CONVEX)
def test_convex_compositions_are_solved_to_the_same_value(formula, numeric):
    problem = declare(md.mean(formula(g)))
    solution = problem.solve(md.Alternating(restarts=1, polish="none"), random_state=0)
    phi = X - X.mean(axis=0)

    def value(w):
        return w @ w / 2 + 4 * np.mean(numeric(solution.labels * (phi @ w)))

    assert solution.value == pytest.approx(value(solution.weights), rel=1e-9)
    near = solution.weights + 1e-3 * RNG.normal(size=(200, 2))
    assert min(map(value, near)) >= solution.value * (1 - 1e-9)


@cache
def optimum_of_one_mean():
    return declare(md.mean(md.logistic(-g) + md.hinge(g))).solve("exact").value


@pytest.mark.parametrize("relaxation", ["cccp", "alternating", "sdp", "minimax", "exact", "weight-lifting"])
def test_one_mean_of_two_losses_is_solved_wherever_two_means_are(relaxation):
    together = declare(md.mean(md.logistic(-g) + md.hinge(g)))
    apart = declare(md.mean(md.logistic(-g)) + md.mean(md.hinge(g)))
    values = [problem.solve(relaxation, random_state=0) for problem in (together, apart)]
    assert values[0].value == pytest.approx(values[1].value, rel=1e-7)
    assert values[0].bound == pytest.approx(values[1].bound, rel=1e-5)
    assert values[0].bound <= optimum_of_one_mean() * (1 + 1e-9)


@pytest.mark.parametrize("formula,named", [
    (lambda g: md.pos(1 - md.logistic(-g)), "md.pos(1 - md.logistic(-y * f))"),
    (lambda g: md.pos(-md.square(g) + 1), "md.pos(-(y * f)**2 + 1)"), (lambda g: abs(md.square(g) - 1),
    "abs((y * f)**2 - 1)"),
    (lambda g: md.square(md.hinge(g) - 1), "(md.pos(1 - y * f) - 1)**2"), (lambda g: md.logistic(-md.hinge(g)),
    "md.logistic("),
    (lambda g: md.huber(md.square(g) - 1), "md.huber((y * f)**2 - 1)"),
    (lambda g: md.plq([(0.0, (0, -1, 0)), (np.inf, (0, 0, 0))])(md.logistic(-g) - 1), "md.plq("),
    (lambda g: md.maximum(1 - g, -md.logistic(g)), "-md.logistic(y * f)"),
    (lambda g: md.maximum(1 - g, -md.hinge(g)), "-md.pos(1 - y * f)"),
    (lambda g: md.pos(1 - g + 0.1 * g[0]), "1 - y * f + 0.1 * (y * f)[0]"), (lambda g: md.pos(1 - g - md.mean(g)),
    "md.mean(y * f)"),
    (lambda g: md.pos(g[:4] + g[4:]), "(y * f)[0:4] + (y * f)[4:8]"),
    (lambda g: md.logistic(-g) - md.hinge(g), "md.logistic(-y * f) - md.pos(1 - y * f)")],
    ids=lambda part: part if isinstance(part, str) else "")
def test_what_is_not_convex_or_of_several_margins_is_refused(formula, named):
    with pytest.raises(GrammarError) as caught:
        declare(md.mean(formula(g)))
    assert named in str(caught.value)


def test_single_numbers_within_sums_of_labels_count_at_every_point():
    loss = md.mean(md.hinge(g))
    problem = md.Problem(md.Minimize(md.sq_norm(f) + loss), [md.sum(y + y[0]) <= 3, md.sum(f[0] - 2 * f) <= 1])
    (weights, low, high), = problem.lower().label_bounds
    assert weights.tolist() == [9, *[1] * 7] and (low, high) == (-np.inf, 3)
    assert problem.lower().decision[0].weights.tolist() == [6, *[-2] * 7]


class Cube(Expression):
    """An expression nobody handles."""

    def __init__(self, inner):
        self.inner, self.shape = inner, inner.shape

    @property
    def children(self):
        return (self.inner,)

    def text(self):
        return f"cube({self.inner.text()})"


def test_an_expression_nobody_handles_is_an_error():
    own = Cube(g)
    for use in (lambda: declare(md.mean(own)), lambda: declare(md.mean(md.pos(own))), lambda: declare(own[0]),
                lambda: declare(md.sum(own + md.hinge(g))), lambda: declare(md.var(own) + md.mean(md.hinge(g)))):
        with pytest.raises(GrammarError, match=r"`cube\(y \* f\)`: is not a sum of losses"):
            use()
    with pytest.raises(GrammarError, match="is not linear in labels"):
        md.Problem(md.Minimize(md.sq_norm(f) + md.mean(md.hinge(g))), [md.sum(Cube(y)) <= 1])

    class Kinder(type(md.hinge(g))):
        """A subclass that prints another formula is not taken for its base."""

        def text(self):
            return f"md.kinder({self.inner.text()})"

    with pytest.raises(GrammarError, match="md.kinder"):
        declare(md.mean(Kinder(1 - g)))


def test_a_symbol_of_a_derived_class_is_one_of_its_base():
    class Threshold(md.Scalar):
        """A shared scalar of a user's own."""

    for kind in (md.Scalar, Threshold):
        s = kind(nonneg=True)
        assert len(declare(s + md.mean(md.pos(1 - s - g))).lower().losses.scalars.names) == 1


@pytest.mark.parametrize("bound,words", [
    (DecisionBound(np.ones(3), 0.0, 1.0), "weights of decision bound 0 have shape (3,); expected"),
    (DecisionBound(np.full(8, np.nan), 0.0, 1.0), "one finite number per point"),
    ((np.ones(8), 0.0, 1.0), "decision bound 0 was given as tuple; expected DecisionBound")])
def test_bounds_that_own_constraints_add_are_checked(bound, words):
    class Own(Constraint):
        def text(self):
            return "own"

        def lower(self, into):
            into.decision.append(bound)

    with pytest.raises(DeclarationError, match=re.escape(words)):
        md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(g))), [Own()])


def test_a_constraint_that_does_not_lower_itself_cannot_be_made():
    class Named(Constraint):
        def text(self):
            return "one for all"

    with pytest.raises(TypeError, match="abstract"):
        Named()

    class First(Named):
        def lower(self, into):
            into.known.append((np.array([0]), np.array([1])))

    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(g))), [First(), abs(md.sum(y)) <= 2])
    assert "one for all" in str(problem) and problem.solve("exact").labels[0] == 1


# -- the calculus under it ------------------------------------------------------------------------------

PARTS = [Logistic(), Logistic().precompose(-1.0, 0.5), pos(), square(), absolute(), huber(0.5), PLQ.affine(-2.0, 1.0)]
GRID = np.linspace(-4, 4, 33)


def functions():
    for outer in PARTS:
        for inner in PARTS:
            try:
                yield compose(outer, inner), lambda x, a=outer, b=inner: a(b(x))
            except CalculusError:
                lowest, values = min(inner(GRID)), np.array(outer(inner(GRID)))
                assert (np.isfinite(lowest) and np.any(np.diff(values, 2) < -1e-12)) or not outer.is_nondecreasing
            yield maximum(outer, inner), lambda x, a=outer, b=inner: np.maximum(a(x), b(x))


def test_compositions_and_maxima_are_what_they_say():
    for made, plain in functions():
        np.testing.assert_allclose(made(GRID), plain(GRID), rtol=1e-12, atol=1e-12)
        assert np.all(np.diff(made(GRID), 2) >= -1e-9)
        h, off = 1e-6, GRID + 0.0137  # away from the kinks
        np.testing.assert_allclose(made.derivative(off), (made(off + h) - made(off - h)) / (2 * h), rtol=2e-4,
            atol=1e-6)
        lo, hi = made.subdifferential(GRID)
        assert np.all(lo <= np.asarray(hi) + 1e-12)
        if made.is_nonincreasing:
            assert np.all(np.diff(made(GRID)) <= 1e-12)
        if made.is_nondecreasing:
            assert np.all(np.diff(made(GRID)) >= -1e-12)


def test_conjugates_satisfy_fenchel_and_young():
    for made, _ in functions():
        dual = made.conjugate()
        slopes = np.asarray(made.derivative(GRID))
        np.testing.assert_allclose(dual(slopes) + made(GRID), slopes * GRID, atol=1e-8 * (1 + abs(slopes * GRID)).max())
        assert np.all(np.asarray(dual(slopes))[:, None] + np.asarray(made(GRID)) >= slopes[:, None] * GRID - 1e-7)
        if isinstance(dual, Conjugate):
            lower, upper = dual.domain
            outside = [end for end in (lower - 1, upper + 1) if np.isfinite(end)]
            assert np.all(np.isposinf(dual(np.array(outside)))) and dual.conjugate() is made


@pytest.mark.parametrize("parts", [
    (md.odm, md.hinge), (md.squared_hinge, md.epsilon_insensitive)])
def test_means_apart_have_the_bound_of_one_mean(parts):
    """Relaxations absorb labels row by row: two rows of one margin would see less than their sum."""
    X = np.random.default_rng(3).normal(size=(12, 2)) + np.where(np.arange(12)[:, None] < 6, 1.0, -1.0)

    def bound(objective):
        y, f = md.Labels(12), md.Hyperplane(X)
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + objective(y * f)), [abs(md.sum(y)) <= 4])
        return problem.solve("weight-lifting", random_state=0).bound

    first, second = parts
    apart = bound(lambda m: 7 * md.mean(first(m)) + md.mean(second(m)))
    assert apart == pytest.approx(bound(lambda m: md.mean(7 * first(m) + second(m))), rel=1e-6) and apart > 0


@pytest.mark.parametrize("cancelled", [
    lambda m: abs(8148.170701403459 * m[5] - 3737.093045111274 * m[5] - 4411.077656292185 * m[5]),
    lambda m: md.sum(abs(0.1 * m + 0.2 * m - 0.3 * m)),
    lambda m: md.sum(abs(1e8 * m + 0.1 * m - 1e8 * m - 0.1 * m)),
    lambda m: md.sum(md.pos(m + 0.1 + 0.2 - 0.3 - m)),
    lambda m: md.sum(md.square(np.linspace(0.1, 0.7, 6) * m + 3 * m - np.linspace(0.1, 0.7, 6) * m - 3 * m)),
], ids=["entry", "vector", "in turn", "shifts", "arrays"])
def test_coefficients_that_cancel_but_for_rounding_are_nothing(cancelled):
    X = np.random.default_rng(0).normal(size=(6, 2))
    y, f = md.Labels(6), md.Hyperplane(X, centre=True)
    m = md.margin(y, f)
    plain = md.sq_norm(f) / 2 + md.mean(md.hinge(m))
    values = [md.Problem(md.Minimize(o), [abs(md.sum(y)) <= 2]).solve("sdp", random_state=0).value
              for o in (plain, plain + 1e9 * cancelled(m))]
    assert values[0] == values[1]
