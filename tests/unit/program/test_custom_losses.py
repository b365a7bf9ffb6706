"""A loss built from atoms has the optimum of the same formula written by hand in cvxpy."""

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.errors import CalculusError

RNG = np.random.default_rng(5)
N = 12
X = RNG.normal(size=(N, 3))
Y = np.where(RNG.random(N) < 0.5, 1, -1)
C = RNG.uniform(0.1, 2.0, N)
SHIFT = RNG.normal(size=N)
EVEN, ODD = np.arange(0, N, 2), np.arange(1, N, 2)
PIECES = [(0.0, (0.0, -2.0, 1.0)), (1.0, (1.0, -2.0, 1.0)), (np.inf, (0.0, 0.0, 0.0))]


def plq_by_hand(m):
    """Return max(1 − 2m, pos(1 − m)²): linear left of 0, quadratic up to 1, zero beyond."""
    z = cp.Variable(m.size)  # the infimal convolution of u² and 2(·)₊ at 1 − m
    return cp.square(z) + 2 * cp.pos(1 - m - z)


def shared(g):
    s = md.Scalar(name="s")
    return 3 * md.mean(md.pos(s - g)) + 2 * md.mean(md.square(g - s)) - s


def shared_by_hand(m):
    s = cp.Variable()
    return 3 * cp.sum(cp.pos(s - m)) / N + 2 * cp.sum_squares(m - s) / N - s


# name -> (declared in the language, written in cvxpy); single numbers of margins
LOSSES = {
    "maximum of three": (
        lambda g: md.sum(md.maximum(1 - g, 2 - 4 * g, 0.1 * g)),
        lambda m: cp.sum(cp.maximum(1 - m, 2 - 4 * m, 0.1 * m))),
    "square of a positive part of a modulus": (
        lambda g: md.sum(md.pos(abs(g - 1) - 0.3) ** 2), lambda m: cp.sum_squares(cp.pos(cp.abs(m - 1) - 0.3))),
    "modulus of a positive part": (
        lambda g: md.sum(abs(md.pos(1 - g))), lambda m: cp.sum(cp.pos(1 - m))),
    "nested maxima": (
        lambda g: md.sum(md.maximum(md.pos(1 - g), md.square(g) - 2)),
        lambda m: cp.sum(cp.maximum(cp.pos(1 - m), cp.square(m) - 2))),
    "weights and shifts a point": (
        lambda g: md.sum(C * md.pos(1 + SHIFT - g) ** 2 + C * md.pos(g - 2)),
        lambda m: C @ cp.square(cp.pos(1 + SHIFT - m)) + C @ cp.pos(m - 2)),
    "shifts inside a square of a kink": (
        lambda g: md.sum(md.square(md.pos(SHIFT - g))), lambda m: cp.sum_squares(cp.pos(SHIFT - m))),
    "pieces": (lambda g: md.sum(md.plq(PIECES, g)), lambda m: cp.sum(plq_by_hand(m))),
    "huber and logistic": (
        lambda g: md.sum(md.huber(g - 1, 0.5)) + md.sum(md.logistic(1 - 2 * g)),
        lambda m: cp.sum(cp.huber(m - 1, 0.5)) + cp.sum(cp.logistic(1 - 2 * m))),
    "different losses on different points": (
        lambda g: 2 * md.sum(md.hinge(g)[EVEN]) + md.mean(md.odm(g, 0.3, 0.1)[ODD]),
        lambda m: 2 * cp.sum(cp.pos(1 - m[EVEN])) + cp.sum(
            cp.square(cp.pos(0.9 - m[ODD])) + 0.3 * cp.square(cp.pos(m[ODD] - 1.1))) / 0.81 / len(ODD)),
    "variance": (
        lambda g: md.sum(md.hinge(g)) + 4 * md.var(g) - 0.5 * md.mean(g),
        lambda m: cp.sum(cp.pos(1 - m)) + 4 * cp.sum_squares(m - cp.sum(m) / N) / N - 0.5 * cp.sum(m) / N),
    "negative multiples of concave parts": (
        lambda g: md.sum(-1.5 * (-md.pos(1 - g))) + 1.0, lambda m: 1.5 * cp.sum(cp.pos(1 - m)) + 1.0),
    "a shared scalar": (shared, shared_by_hand),
    "one point alone": (lambda g: 5 * md.hinge(g)[3] + md.sum(md.square(1 - g)),
                        lambda m: 5 * cp.pos(1 - m[3]) + cp.sum_squares(1 - m)),
}


@pytest.mark.parametrize("ridge", [1.0, 0.2])
@pytest.mark.parametrize("name", LOSSES)
def test_the_compiler_and_cvxpy_agree(name, ridge):
    declared, by_hand = LOSSES[name]
    y, f = md.Labels(N), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(ridge / 2 * md.sq_norm(f) + declared(y * f)), [y == Y])
    solution = problem.solve("supervised", tol=1e-9)
    w = cp.Variable(3)
    margins = cp.multiply(Y, (X - X.mean(axis=0)) @ w)
    model = cp.Problem(cp.Minimize(ridge / 2 * cp.sum_squares(w) + by_hand(margins)))
    model.solve(solver=cp.CLARABEL)
    assert solution.value == pytest.approx(model.value, rel=1e-6, abs=1e-6)
    assert solution.bound == pytest.approx(solution.value, rel=1e-6, abs=1e-6)
    assert np.allclose(solution.weights, w.value, atol=2e-3)


class Falling(md.ConvexFunction):
    """(t + √(t² + ¼))/2 at t = 1 − x: a loss of one's own with what must be given, and nothing more."""

    domain = (-np.inf, np.inf)
    falls = True

    def __call__(self, x):
        t = 1 - np.asarray(x, dtype=float)
        return (self.falls * t + np.hypot(t, 0.5)) / 2

    def derivative(self, x):
        t = 1 - np.asarray(x, dtype=float)
        return -(self.falls + t / np.hypot(t, 0.5)) / 2

    def curvature(self, x):
        return 0.125 / np.hypot(1 - np.asarray(x, dtype=float), 0.5) ** 3

    def conic(self, cp, x):
        height = cp.Variable(x.shape)
        return (self.falls * (1 - x) + height) / 2, [
            cp.norm(cp.vstack([1 - x, 0.5 * np.ones(x.shape)]), 2, axis=0) <= height]


class Known(Falling):
    """One that says that it falls; its least value is its limit."""

    is_nonincreasing = True


class Turning(Falling):
    """√(t² + ¼)/2, least at margins of one."""

    falls = False


class Wave(Falling):
    """cos t + 1, not convex."""

    def __call__(self, x):
        return np.cos(np.asarray(x, dtype=float)) + 1

    def derivative(self, x):
        return -np.sin(np.asarray(x, dtype=float))


class Liar(Turning):
    """One that rises and says that it does not."""

    is_nonincreasing = True


class Backwards(Falling):
    """One with the slopes of another."""

    def derivative(self, x):
        return -super().derivative(x)


class Lower(Falling):
    """One with a conjugate that is too low, which would prove too much."""

    def conjugate(self):
        return md.ConvexFunction.conjugate(self) + -0.1


class Dented(Falling):
    """One with a dent of a width of a fiftieth."""

    def __call__(self, x):
        return super().__call__(x) - 0.3 * np.exp(-(((np.asarray(x, dtype=float) - 1) / 0.02) ** 2))

    def derivative(self, x):
        x = np.asarray(x, dtype=float)
        return super().derivative(x) + 0.3 * np.exp(-(((x - 1) / 0.02) ** 2)) * 2 * (x - 1) / 0.02**2


class Raised(Falling):
    """One that names a least value it does not have, which would be believed as a bound."""

    def minimum(self):
        return 0.1


class Flat(Falling):
    """One that forgets how many numbers it was given."""

    def derivative(self, x):
        return -1.0


@pytest.mark.parametrize("loss,words", [
    (Wave, "is not convex"), (Backwards, "its derivative is not its own"), (Lower, "its conjugate is not its own"),
    (lambda: Falling().conjugate(), "is infinite outside"), (Liar, "says that it never rises"),
    (Dented, "is not convex"), (Raised, "below the 0.1 that its `minimum` says"), (Flat, "arrays of other shapes")])
def test_losses_of_ones_own_that_would_prove_what_is_false_are_refused(loss, words):
    y, f = md.Labels(3), md.Hyperplane(np.eye(3))
    with pytest.raises(CalculusError, match=words):
        md.plq(loss(), y * f)


@pytest.mark.parametrize("loss,k,relaxations", [
    (Falling(), 2, (md.SDP, md.Minimax)), (Known(), 3, (md.SDP, md.WeightLifting)),
    (Turning(), 2, (md.Minimax, md.WeightLifting))])
def test_losses_of_ones_own_are_solved_and_bounded_by_every_relaxation(loss, k, relaxations):
    n = 6
    points = RNG.normal(size=(n, 2)) + 1.5 * np.eye(3)[np.arange(n) % k, :2]
    y, f = md.Labels(n, clusters=k), md.Hyperplane(points)
    g = y * f if k == 2 else md.margin(y, f, coding="simplex")
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.plq(loss, g))), [md.sizes(y, at_least=2)])
    least = problem.solve(md.Exact(method="enumeration"), "clarabel").value
    plain = [make(polish="none") for make in relaxations]  # bounds hold at any labels
    for relaxation in ("exact", *plain, "alternating", "cccp"):
        found = problem.solve(relaxation, random_state=0)
        assert found.bound <= least * (1 + 1e-6) and found.value >= least * (1 - 1e-6), relaxation
        assert found.verify() and found.status in ("optimal", "converged"), (relaxation, found.message)
        if relaxation == "exact" or isinstance(relaxation, md.SDP):
            assert found.bound >= (1 - 1e-4 if relaxation == "exact" else 0.5) * least
    assert loss.conjugate().conjugate() is loss and (not loss.is_nonincreasing or loss.minimum() == 0.0)


def test_a_limit_that_is_not_reached_is_no_least_value():
    class Slow(Known):
        def __call__(self, x):
            return 1 / np.log(3 + np.maximum(np.asarray(x, dtype=float), 0))

    with pytest.raises(CalculusError, match="give its class a `minimum` method"):
        Slow().minimum()
