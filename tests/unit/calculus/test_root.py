"""Kinks of functions without a closed form are found to the last digits, in a handful of evaluations."""

from __future__ import annotations

import numpy as np
import pytest

from margindsl.calculus import ConvexFunction, Logistic, absolute, pos
from margindsl.calculus.composed import compose, maximum
from margindsl.calculus.plq import PLQ
from margindsl.calculus.root import monotone_root


class Dented(ConvexFunction):
    """exp(-x) + 3 |x - 0.3|, written with the required methods only: nobody knows where its kink is."""

    domain = (-np.inf, np.inf)

    def __call__(self, x):
        x = np.asarray(x, float)
        return np.exp(-x) + 3 * np.abs(x - 0.3)

    def derivative(self, x):
        x = np.asarray(x, float)
        return -np.exp(-x) + 3 * np.where(x >= 0.3, 1, -1)

    def curvature(self, x):
        return np.exp(-np.asarray(x, float))

    def conic(self, cp, x):
        raise NotImplementedError


class Counted:
    """Count the evaluations of a function."""

    def __init__(self, function):
        self.function, self.domain, self.calls = function, function.domain, 0

    def value_and_derivative(self, x):
        self.calls += 1
        return self.function.value_and_derivative(x)

    def derivative(self, x):
        self.calls += 1
        return self.function.derivative(x)

    def curvature(self, x):
        return self.function.curvature(x)


KINKED = {
    "pos of a sum": compose(pos(), 2 * Logistic() + Logistic().precompose(3.0, 1.0) + (-0.7)),
    "maximum": maximum(Logistic(), PLQ.affine(-0.3, 0.5)),
    "two kinks": maximum(Logistic().precompose(-2.0), Logistic()) + absolute(),
    "one's own": Dented(),
}


@pytest.mark.parametrize("step", [1e-6, 0.1, 1.0, 1e3, 1e9])
@pytest.mark.parametrize("name", KINKED)
def test_the_prox_meets_the_kink(name, step):
    function, x = KINKED[name], np.linspace(-5.0, 5.0, 201)
    v = function.prox(x, step)
    room = 1e-14 * (np.abs(v) + np.abs(x) + min(step, 1.0))
    slack = 1e-13 * (np.abs(x) + step)
    assert np.all(v - room - x + step * function.derivative(v - room) <= slack)
    assert np.all(v + room - x + step * function.derivative(v + room) >= -slack)


@pytest.mark.parametrize("name", KINKED)
def test_kinks_take_no_halving_to_the_last_digit(name):
    counted, x = Counted(KINKED[name]), np.linspace(-5.0, 5.0, 201)
    monotone_root(counted, x, np.ones_like(x))
    assert counted.calls <= 26  # halving alone takes 52 and more


@pytest.mark.parametrize("name", KINKED)
def test_slopes_alone_and_with_values_agree(name):
    function, x = KINKED[name], np.linspace(-5.0, 5.0, 201)
    value, slope = function.value_and_derivative(x)
    low, high = function.subdifferential(x)
    assert np.array_equal(value, function(x)) and np.allclose(slope, function.derivative(x), rtol=1e-14)
    assert np.all(slope >= low - 1e-14 * np.abs(low)) and np.all(slope <= high + 1e-14 * np.abs(high))


@pytest.mark.parametrize("level", [0.1, 0.4, 3.0])
def test_the_conjugate_of_a_loss_that_reaches_zero_is_zero_at_zero(level):
    function = compose(pos(), Logistic() + (-level))
    assert function.conjugate()(0.0) == 0.0  # where it is not, bounds exceed values by the weight times the rounding
