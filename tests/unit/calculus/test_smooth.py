"""The logistic loss, compounds of it, and a loss of the user's own."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from margindsl.calculus import PLQ, ConvexFunction, Logistic, absolute, huber, maximum, pos, square
from margindsl.errors import CalculusError

inf = np.inf
loss = Logistic()
x = np.linspace(-6, 6, 49)


class Exponential(ConvexFunction):
    """exp(-x), written with the required methods only."""

    domain = (-inf, inf)

    def __call__(self, x):
        return np.exp(-np.asarray(x, float))

    def derivative(self, x):
        return -np.exp(-np.asarray(x, float))

    def curvature(self, x):
        return np.exp(-np.asarray(x, float))

    def conic(self, cp, x):
        y = cp.Variable(x.shape)
        return cp.exp(-y), [y == x]


def compounds():
    return list(_compounds())


def _compounds():
    yield loss
    yield 2 * loss
    yield loss.precompose(-2.0, 0.5)
    yield loss + 0.5 * square()
    yield loss + absolute() + 1.0
    yield 0.5 * (loss.precompose(-1.0) + loss)
    yield loss.envelope(0.5)
    yield (loss + PLQ.indicator(-1, 2)).precompose(-2.0)
    yield loss.conjugate()
    yield 2 * loss.conjugate().precompose(-1, -0.5)
    yield Exponential() + PLQ.affine(0.5)


def test_logistic_is_stable_far_out():
    far = np.array([-1e6, -800.0, 0.0, 800.0, 1e6])
    assert np.allclose(loss(far), [1e6, 800, np.log(2), 0, 0])
    assert np.all(np.isfinite(loss.prox(far, 3.0)))
    assert np.allclose(loss.prox(far[[0, -1]], 3.0), [-1e6 + 3, 1e6])
    assert loss.derivative(-1e6) == -1.0 and loss.curvature(-1e6) == 0.0
    assert loss.minimum() == 0.0 and loss.argmin() == (inf, inf) and loss.is_smooth and loss.is_nonincreasing


@pytest.mark.parametrize("f", compounds())
def test_derivatives_are_those_of_the_values(f):
    inner = np.clip(x, f.domain[0] + 0.01, f.domain[1] - 0.01)
    inner = np.unique(inner[np.abs(inner) > 0.01])
    h = 1e-6
    assert np.allclose((f(inner + h) - f(inner - h)) / (2 * h), f.derivative(inner), atol=1e-5, rtol=1e-5)
    lo, hi = f.subdifferential(inner)
    assert np.all((lo <= f.derivative(inner)) & (f.derivative(inner) <= hi))
    slope = (f.derivative(inner + h) - f.derivative(inner - h)) / (2 * h)
    assert np.allclose(slope, f.curvature(inner), atol=1e-4, rtol=1e-4)
    assert not f.is_smooth or np.all(f.curvature(inner) <= f.smoothness + 1e-12)


@pytest.mark.parametrize("f", compounds())
@pytest.mark.parametrize("step", [0.1, 4.0])
def test_prox_minimises_and_envelope_is_the_minimum(f, step):
    v = f.prox(x, step)
    best = f(v) + (v - x) ** 2 / (2 * step)
    grid = np.clip(np.linspace(-12, 12, 4001), *f.domain)
    assert np.all(best[:, None] <= f(grid) + (grid - x[:, None]) ** 2 / (2 * step) + 1e-9)
    e = f.envelope(step)
    assert np.allclose(e(x), best) and np.allclose(e.derivative(x), (x - v) / step, atol=1e-9)
    assert np.all((f.prox_derivative(x, step) >= 0) & (f.prox_derivative(x, step) <= 1))


@pytest.mark.parametrize("f", compounds())
def test_conic_form_has_the_value(f):
    data = np.clip(np.array([-1.5, -0.25, 0.5, 1.0]), f.domain[0] + 0.05, f.domain[1] - 0.05)
    y, d, c = cp.Variable(4), cp.Parameter(4), cp.Parameter(4, nonneg=True)
    expression, constraints = f.conic(cp, y + d)
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(c, expression))), [*constraints, y == 0])
    assert problem.is_dpp()
    c.value, d.value = np.full(4, 0.5), data
    assert problem.solve(solver=cp.CLARABEL) == pytest.approx(0.5 * f(data).sum(), abs=1e-5)


def test_entropy_is_the_conjugate():
    u = np.linspace(-1, 0, 21)[1:-1]
    grid = np.linspace(-40, 40, 80001)
    assert np.allclose(loss.conjugate()(u), np.max(u[:, None] * grid - loss(grid), axis=1), atol=1e-6)
    assert loss.conjugate().conjugate() == loss and loss.conjugate().minimum() == -loss(0.0)
    assert loss.conjugate()(np.array([-1.0, 0.0, 0.1])).tolist() == [0.0, 0.0, inf]
    assert loss.conjugate().subdifferential(0.0) == (inf, -inf)


def test_minimum_with_quadratic_against_a_grid():
    s = np.linspace(-10, 10, 200001)
    for f in (loss, 2 * loss, loss + absolute(), loss.precompose(-1.0, 2.0)):
        for curvature, lower in [(1.0, -inf), (0.3, 1.0), (0.3, -2.0)]:
            grid = np.min((0.7 * f(s) + curvature * s**2 / 2)[s >= lower])
            assert f.minimum_with_quadratic(0.7, curvature, lower) == pytest.approx(grid, abs=1e-8)
    both = loss + (pos().precompose(-1, 0.8).square() + 0.4 * pos().precompose(1, -1.2).square())
    for curvature, lower in [(-0.3, 0.0), (-0.45, 1.0), (0.0, 0.5), (0.2, 0.0)]:
        grid = np.min((0.7 * both(s) + curvature * s**2 / 2)[s >= lower])
        assert both.minimum_with_quadratic(0.7, curvature, lower) == pytest.approx(grid, abs=1e-8)
    assert np.isneginf(both.minimum_with_quadratic(0.7, np.array([-0.57, -1.0]), 0.0)).all()
    assert loss.minimum_with_quadratic(1.0, 0.0, 2.0) == 0.0
    assert loss.minimum_with_quadratic(1.0, -0.1) == -inf
    assert loss.minimum_with_quadratic(0.0, 1.0, 2.0) == 2.0
    assert loss.precompose(-1.0).minimum_with_quadratic(1.0, 0.0, 2.0) == pytest.approx(loss(-2.0))


def test_minima_and_splits_of_compounds():
    even = loss + loss.precompose(-1.0)
    assert even.argmin() == pytest.approx((0.0, 0.0), abs=1e-12)
    assert even.minimum() == pytest.approx(2 * np.log(2))
    for f in (even, loss + 0.5 * absolute(), 3 * loss.precompose(-1.0), loss.envelope(1.0)):
        d, i = f.split()
        assert d.is_nonincreasing and i.is_nondecreasing and np.allclose(d(x) + i(x), f(x))
    assert (loss + 1.0).minimum() == 1.0 and (2 * loss).minimum() == 0.0


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_concave_quadratics_beside_kinks(unit):
    steep = maximum(square().precompose(1, 0), PLQ.affine(-30.0, 9.0)) + square()
    summed, s = (2 * loss + steep).precompose(1 / unit), np.linspace(0.0, 20.0, 400_001)
    for curvature in (-3.0, -1.0, -1e-3, 1e-3, 1.0):
        grid = np.min(2 * loss(s) + steep(s) + curvature * s**2 / 2)
        found = summed.minimum_with_quadratic(1.0, curvature / unit**2, 0.0)
        assert found == pytest.approx(grid, abs=1e-3) and found <= grid + 1e-9


@pytest.mark.parametrize("summed", [
    loss + pos(), 3 * loss + absolute().square(), loss + loss.precompose(-1.0) + huber(0.5).precompose(2.0, -1.0)])
def test_conjugates_of_sums(summed):
    x = np.linspace(-60.0, 60.0, 240_001)
    for u in summed.derivative(np.linspace(-3.0, 3.0, 25)):
        assert summed.conjugate()(u) == pytest.approx(float(np.max(u * x - summed(x))), abs=1e-6)
    assert summed.conjugate().conjugate() == summed


def test_zero_and_constant_compositions():
    assert (0 * loss) == PLQ.constant(0) and (0 * loss.conjugate()) == PLQ.indicator(-1, 0)
    assert loss.precompose(0, 0.0).isclose(PLQ.constant(np.log(2)))
    assert loss.precompose(2, 1).precompose(0.5, -0.5) == loss
    assert 2 * (3 * loss) == 6 * loss and loss + PLQ.constant(0) == loss


@pytest.mark.parametrize(("build", "words"), [
    (lambda: Exponential().split(), "give its class a `split` method"),
    (lambda: (Exponential() + PLQ.affine(-0.5)).argmin(), "no minimiser was found"),
    (lambda: (2 * loss + pos()).minimum_with_quadratic(1.0, -1.0), "use a piecewise linear-quadratic loss"),
    (lambda: loss.prox(0.0, -1.0), "step must be positive"),
    (lambda: loss.minimum_with_quadratic(-1.0, 1.0), "weight -1"),
])
def test_refusals_say_what_is_missing(build, words):
    with pytest.raises(CalculusError, match=words):
        build()


@pytest.mark.parametrize("loss", [Logistic(), Logistic().precompose(1.0, -0.7), Logistic().precompose(-2.0, 0.3),
                                  PLQ.affine(-1.0, 1.0).positive_part()])
def test_a_loss_is_its_unshifted_one_at_shifted_arguments(loss):
    base, shift = loss.unshifted()
    x = np.linspace(-4.0, 4.0, 17)
    np.testing.assert_allclose(base(x + shift), loss(x), rtol=1e-13)
    assert base.unshifted() == (base, 0.0)
