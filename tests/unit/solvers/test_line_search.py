"""The line search finds where a monotone derivative vanishes, and does not look for it inside rounding."""

from __future__ import annotations

import numpy as np
import pytest

from margindsl_solvers.engines.line_search import ACCEPT, search


def counted(slope):
    calls = []

    def told(t):
        calls.append(t)
        return slope(t)

    return told, calls


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("place", [1e-9, 0.3, 1.0, 7.0, 1e9])
def test_the_slope_is_small_at_the_step(scale, place):
    def slope(t):
        return scale * (np.expm1(min(t / place, 50.0)) - 1.0)

    told, calls = counted(slope)
    step, turned = search(told, slope(0.0))
    assert turned and step == calls[-1]
    assert abs(slope(step)) <= ACCEPT * abs(slope(0.0)) * (1 + 1e-12)


@pytest.mark.parametrize("place", [1e-9, 0.3, 7.0])
def test_a_jump_is_enclosed(place):
    told, calls = counted(lambda t: -1.0 if t < place else 5.0)
    step, turned = search(told, -1.0)
    assert turned and abs(step - place) <= 2e-15 * place and len(calls) < 120


def test_what_is_not_monotone_is_rounding_and_not_searched():
    rng = np.random.default_rng(0)

    def slope(t):
        return (-1.0 if t < 0.3 else 1e6) + 3.0 * rng.standard_normal()

    told, calls = counted(slope)
    search(told, -1.0)
    assert len(calls) < 30


@pytest.mark.parametrize("steep", [1e3, 1e7, 1e12])
@pytest.mark.parametrize("foot", [0.0123, 0.1057, 0.77, 1.4, 42.0])
def test_the_foot_of_a_steep_ramp_is_reached_along_the_ramp(steep, foot):
    told, calls = counted(lambda t: -1.0 + 0.1 * t / foot + steep * min(max(t - foot, 0.0), 0.3))
    step, turned = search(told, -1.0)
    assert turned and foot < step < foot + 2.0 / steep + 4e-15 * foot
    assert len(calls) < 30
