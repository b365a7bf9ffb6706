"""Convex analysis holds for random piecewise linear-quadratic functions."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from margindsl.calculus import PLQ, Logistic, absolute, huber, maximum, pos, square

moderate = settings(deadline=None, max_examples=40)
X = np.linspace(-12, 12, 481)
numbers = st.floats(-4, 4).map(lambda v: round(v, 2))
slopes = st.sampled_from([-2.0, -1.0, -0.5, 0.5, 1.0, 3.0])
steps = st.sampled_from([0.05, 0.5, 1.0, 7.0])


@st.composite
def atoms(draw):
    kind = draw(st.sampled_from(["affine", "pos", "abs", "square", "huber", "hinge2", "box", "halfline"]))
    if kind == "affine":
        return PLQ.affine(draw(numbers), draw(numbers))
    if kind in ("box", "halfline"):
        lower = draw(numbers)
        return PLQ.indicator(lower - 6, np.inf if kind == "halfline" else 6 + abs(lower))
    base = {"pos": pos, "abs": absolute, "square": square, "hinge2": lambda: pos().square(),
            "huber": lambda: huber(draw(st.sampled_from([0.5, 2.0])))}[kind]()
    return base.precompose(draw(slopes), draw(numbers)) * draw(st.sampled_from([0.3, 1.0, 2.0]))


@st.composite
def functions(draw):
    f = draw(atoms())
    for _ in range(draw(st.integers(0, 3))):
        g = draw(atoms())
        f = f + g if draw(st.booleans()) else maximum(f, g)
    return f


def close(a, b, tol=1e-8):
    a, b = np.asarray(a, float), np.asarray(b, float)
    both = (a == b) | (np.isinf(a) & (a == b))
    with np.errstate(invalid="ignore"):
        return bool(np.all(both | (np.abs(a - b) <= tol * (1 + np.abs(a) + np.abs(b)))))


def inside(f, x):
    return np.clip(x, *f.domain)


@moderate
@given(functions(), functions())
def test_sum_and_maximum_are_pointwise(f, g):
    assert close((f + g)(X), f(X) + g(X))
    assert close(maximum(f, g)(X), np.maximum(f(X), g(X)))


@moderate
@given(functions(), slopes, numbers, st.sampled_from([0.0, 0.5, 3.0]))
def test_composition_and_scaling_are_pointwise(f, a, b, c):
    g, y = f.precompose(a, b), inside(f, X)
    assert close(g((y - b) / a)[1:-1][np.isfinite(g((y - b) / a)[1:-1])],
                 f(y)[1:-1][np.isfinite(g((y - b) / a)[1:-1])])
    assert close((c * f)(y), c * f(y))
    assert (f * 0.0).domain == f.domain


@moderate
@given(functions())
def test_convex_on_a_grid_and_subgradients_support(f):
    y = np.unique(inside(f, X))
    values, slope = f(y), f.derivative(y)
    lines = values[:, None] + slope[:, None] * (y[None] - y[:, None])
    assert np.all(lines <= values[None] + 1e-8 * (1 + np.abs(values[None]) + np.abs(lines)))
    lo, hi = f.subdifferential(y)
    assert np.all(lo <= slope) and np.all(slope <= hi)


@moderate
@given(functions())
def test_fenchel_young_with_equality_at_subgradients(f):
    conjugate, y = f.conjugate(), inside(f, X)
    u = np.linspace(-9, 9, 61)
    total = f(y)[:, None] + conjugate(u)[None]
    assert np.all(total >= np.outer(y, u) - 1e-8 * (1 + np.abs(np.outer(y, u))))
    slope = inside(conjugate, f.derivative(y))
    assert close(slope, f.derivative(y))
    assert close(f(y) + conjugate(slope), y * slope)


@moderate
@given(functions())
def test_biconjugate_is_the_function(f):
    assert f.conjugate().conjugate().isclose(f)


@moderate
@given(functions(), steps)
def test_prox_is_optimal(f, step):
    v = f.prox(X, step)
    lo, hi = f.subdifferential(v)
    g = (X - v) / step
    # v carries rounding: ask for the subgradient at v ± 1e-9
    below, above = f.subdifferential(inside(f, v - 1e-9))[0], f.subdifferential(inside(f, v + 1e-9))[1]
    tol = 1e-7 * (1 + np.abs(g))
    assert np.all((np.minimum(lo, below) - tol <= g) & (g <= np.maximum(hi, above) + tol))
    assert close(f.prox(X, np.full_like(X, step)), v)
    slope = f.prox_derivative(X, step)
    assert np.all((slope >= 0) & (slope <= 1))
    # the prox is the integral of its derivative away from kinks
    h = 1e-6
    change = (f.prox(X + h, step) - f.prox(X - h, step)) / (2 * h)
    smooth = np.abs(f.prox_derivative(X + h, step) - f.prox_derivative(X - h, step)) < 1e-12
    assert np.all(np.abs(change - slope)[smooth] < 1e-6)


@moderate
@given(functions(), steps)
def test_moreau_identity(f, step):
    assert close(f.prox(X, step) + step * f.conjugate().prox(X / step, 1 / step), X)


@moderate
@given(functions(), steps)
def test_envelope_is_the_infimum(f, step):
    e = f.envelope(step)
    v = f.prox(X, step)
    assert close(e(X), f(v) + (v - X) ** 2 / (2 * step))
    grid = inside(f, np.linspace(-30, 30, 2001))
    assert np.all(e(X[::20])[:, None] <= f(grid) + (grid - X[::20, None]) ** 2 / (2 * step) + 1e-7)
    assert e.is_smooth and e.smoothness <= 1 / step + 1e-9
    assert (f.conjugate() + step / 2 * square()).isclose(e.conjugate())


@moderate
@given(functions())
def test_split_is_monotone_and_adds_up(f):
    d, i = f.split()
    assert close(d(X) + i(X), f(X))
    assert d.is_nonincreasing and i.is_nondecreasing
    assert (d + i).isclose(f)


@moderate
@given(functions())
def test_minimum_and_argmin(f):
    lo, hi = f.argmin()
    assert np.all(f(X) >= f.minimum() - 1e-9 * (1 + abs(f.minimum()) if np.isfinite(f.minimum()) else 1))
    assert f.minimum() == -np.inf or np.isclose(f.minimum(), -f.conjugate()(0.0), atol=1e-8)
    if np.isfinite(lo):
        assert np.isclose(f(lo), f.minimum(), atol=1e-8)
        assert f(lo - 1e-3) > f.minimum()
    if np.isfinite(hi):
        assert f(hi + 1e-3) > f.minimum()


@moderate
@given(functions())
def test_root_convexity_is_that_of_the_composition(f):
    lower, upper = max(f.lower, 0.0), min(f.upper, max([40.0, *(2 * f.breakpoints)]))
    if lower >= upper:
        return
    s = np.unique(np.concatenate([np.linspace(lower, upper, 400)[1:-1], f.breakpoints,
                                  lower + np.geomspace(1e-6, 1, 30)]))
    s = s[(s > lower) & (s < upper)]
    ratio = f.derivative(s) / s
    numerically = bool(np.all(np.diff(ratio) >= -1e-9 * (1 + np.abs(ratio[1:]))))
    assert f.is_root_convex == numerically


@moderate
@given(functions(), st.sampled_from([0.0, 0.5, 2.0]), st.sampled_from([-3.0, -0.5, 0.0, 1.0]),
       st.sampled_from([-np.inf, 0.0, 1.5]))
def test_minimum_with_quadratic_is_a_lower_bound_and_attained(f, weight, curvature, lower):
    value = f.minimum_with_quadratic(weight, curvature, lower)
    s = np.concatenate([np.linspace(-60, 60, 6001), f.breakpoints, np.array(f.domain), [lower]])
    s = s[np.isfinite(s)]
    s = s[(s >= max(f.lower, lower)) & (s <= f.upper)]
    grid = np.min(weight * f(s) + curvature * s**2 / 2) if s.size else np.inf
    if value == -np.inf:
        far = np.array([max(-1e6, f.lower, lower), min(1e6, f.upper)])
        falls, parts = weight * f(far) + curvature * far**2 / 2, weight * np.abs(f(far)) + abs(curvature) * far**2 / 2
        assert np.any((falls < -1e3) | ((falls < 0) & (-falls < 64 * np.finfo(float).eps * parts)))  # cancelled, or not
    else:
        assert value <= grid + 1e-8 * (1 + abs(grid)) and grid <= value + 0.05 * (1 + abs(value))


@moderate
@given(functions())
def test_smoothness_bounds_difference_quotients(f):
    if f.is_smooth:
        quotient = np.diff(f.derivative(X)) / np.diff(X)
        assert np.all(quotient <= f.smoothness + 1e-8)
    else:
        t = np.concatenate([f.breakpoints, [e for e in f.domain if np.isfinite(e)]])
        lo, hi = f.subdifferential(t)
        assert np.any(hi > lo)


@settings(deadline=None, max_examples=12)
@given(functions(), st.sampled_from([0.7, 2.0]))
def test_conic_form_has_the_value(f, weight):
    lower, upper = max(f.lower, -5.0), min(f.upper, 5.0)
    data = np.linspace(lower, upper, 7)
    x, c, d = cp.Variable(7), cp.Parameter(7, nonneg=True), cp.Parameter(7)
    expression, constraints = f.conic(cp, x + d)
    assert expression.shape == (7,) and expression.is_convex()
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(c, expression))), [*constraints, x == 0])
    assert problem.is_dpp() and problem.is_qp()
    c.value, d.value = np.full(7, weight), data
    problem.solve(solver=cp.CLARABEL)
    assert np.isclose(problem.value, weight * f(data).sum(), rtol=1e-6, atol=1e-5)


@moderate
@given(st.floats(-50, 50), steps)
def test_logistic_prox_and_moreau(x, step):
    loss = Logistic()
    v = loss.prox(x, step)
    assert np.isclose((x - v) / step, loss.derivative(v), atol=1e-12, rtol=1e-9)
    assert np.isclose(v + step * loss.conjugate().prox(x / step, 1 / step), x, atol=1e-12)


@moderate
@given(slopes, numbers, st.sampled_from([0.5, 2.0]), st.floats(-5, 5))
def test_fenchel_young_of_compounds(a, b, factor, x):
    for f in (factor * Logistic().precompose(a, b), Logistic() + factor * square() + PLQ.affine(b, 1.0),
              (factor * Logistic()).envelope(0.7)):
        u = f.derivative(x)
        assert np.isclose(f(x) + f.conjugate()(u), x * u, atol=1e-7)
        v = f.prox(x, 1.3)
        assert np.isclose((x - v) / 1.3, f.derivative(v), atol=1e-8)
