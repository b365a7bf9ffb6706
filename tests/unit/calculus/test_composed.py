"""Maxima and compositions without formulas of their own: convex analysis on a grid, and against plain search."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from margindsl.calculus import PLQ, Logistic, absolute, pos, square
from margindsl.calculus.composed import compose, maximum

GRID = np.linspace(-6.0, 6.0, 2401)
LOGISTIC = Logistic()
HINGE = pos().precompose(-1, 1)
CASES = {
    "logistic or hinge": (maximum(LOGISTIC, HINGE), np.maximum(LOGISTIC(GRID), HINGE(GRID))),
    "two logistics": (maximum(LOGISTIC, LOGISTIC.precompose(1.0, -3.0)),
                      np.maximum(LOGISTIC(GRID), LOGISTIC(GRID - 3.0))),
    "rising": (maximum(LOGISTIC.precompose(-1.0, 0.0), pos()), np.maximum(LOGISTIC(-GRID), np.maximum(GRID, 0))),
    "valley": (maximum(maximum(LOGISTIC, absolute()), LOGISTIC.precompose(-2.0, 1.0)),
               np.maximum.reduce([LOGISTIC(GRID), np.abs(GRID), LOGISTIC(1 - 2 * GRID)])),
    "floored": (maximum(LOGISTIC, PLQ.constant(0.5)), np.maximum(LOGISTIC(GRID), 0.5)),
    "squared logistic": (compose(square(), LOGISTIC), LOGISTIC(GRID) ** 2),
    "squared valley": (compose(square(), maximum(LOGISTIC, absolute())), np.maximum(LOGISTIC(GRID), np.abs(GRID)) ** 2),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def test_values_are_pointwise(case):
    function, values = case
    np.testing.assert_allclose(function(GRID), values, rtol=1e-14)
    together = function.value_and_derivative(GRID)
    np.testing.assert_allclose(together[0], values, rtol=1e-14)
    np.testing.assert_array_equal(together[1], function.derivative(GRID))


def test_subgradients_support(case):
    function, values = case
    low, high = function.subdifferential(GRID)
    assert np.all(low <= high + 1e-14)
    for slope in (low, high, function.derivative(GRID)):
        below = values[:, None] + slope[:, None] * (GRID - GRID[:, None])
        assert np.all(below <= values + 1e-9)


def test_curvature_is_the_slope_of_the_derivative(case):
    function, _ = case
    step = 1e-5
    low, high = function.subdifferential(GRID - step), function.subdifferential(GRID + step)
    slope = (np.asarray(high[0]) - low[1]) / (2 * step)
    smooth = np.abs(slope) < 1e3  # no kink between the two points
    assert smooth.sum() > 2000
    np.testing.assert_allclose(function.curvature(GRID)[smooth], slope[smooth], rtol=1e-3, atol=1e-4)


def test_least_values_are_those_of_the_grid(case):
    function, values = case
    least, (low, high) = function.minimum(), function.argmin()
    far = function(np.array([-1e6, 1e6]))
    assert least <= min(values.min(), *far) + 1e-9
    assert least >= min(values.min() - 2e-2, *far)  # slopes of 4 over half a step of the grid
    for end in (low, high):
        if np.isfinite(end):
            assert function(end) == pytest.approx(least, abs=1e-7)
    assert low <= high


def test_conjugates_are_suprema(case):
    function, values = case
    conjugate = function.conjugate()
    low, high = np.asarray(function.derivative(-5.0)), np.asarray(function.derivative(5.0))
    for u in np.linspace(low, high, 7)[1:-1]:
        assert conjugate(u) >= np.max(u * GRID - values) - 1e-12
        assert conjugate.derivative(u) * u - function(conjugate.derivative(u)) == pytest.approx(conjugate(u), abs=1e-9)
    assert conjugate.conjugate() is function
    assert conjugate(high + 1e3) > 1e3 or np.isinf(conjugate(high + 1e3))


@pytest.mark.parametrize("step", [0.1, 3.0])
def test_proximal_points_are_least(case, step):
    function, _ = case
    for x in (-4.0, -0.3, 0.0, 1.0, 3.7):
        near = function.prox(x, step)
        found = minimize_scalar(lambda v, x=x: step * function(v) + (v - x) ** 2 / 2, bounds=(-30, 30),
                                method="bounded", options={"xatol": 1e-12})
        assert step * function(near) + (near - x) ** 2 / 2 <= found.fun + 1e-9
        dual = function.conjugate().prox(x / step, 1 / step)
        assert x - step * dual == pytest.approx(near, abs=1e-7)


def test_conic_forms_have_the_value(case):
    function, _ = case
    x = cp.Variable(3)
    expression, constraints = function.conic(cp, x)
    at = np.array([-1.3, 0.4, 2.0])
    problem = cp.Problem(cp.Minimize(cp.sum(expression)), [*constraints, x == at])
    assert problem.solve(solver="CLARABEL") == pytest.approx(np.sum(function(at)), rel=1e-5)
