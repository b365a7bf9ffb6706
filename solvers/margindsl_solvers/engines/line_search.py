"""Exact line search of a convex function by its monotone derivative."""

from __future__ import annotations

import math
from collections.abc import Callable

ACCEPT = 0.2
Point = tuple[float, float]  # a step t and φ'(t)


def search(slope: Callable[[float], float], initial: float, noise: float = 0.0,
           largest: float = 1e18) -> tuple[float, bool]:
    """Find a step t where the derivative φ'(t) has at most a fifth of its size at 0.

    The derivative of a convex function is monotone: expand until it turns positive, then alternate secants
    and bisection steps.

    Parameters
    ----------
    slope : callable
        t -> φ'(t); its last call is always at the returned step.
    initial : float
        φ'(0), negative.
    noise : float
        What rounding may have made of φ': no step is asked for a smaller one.
    largest : float
        Expansion stops there.

    Returns
    -------
    (float, bool)
        The step, and whether φ' turned (False: still falling steeply at `largest`).

    Examples
    --------
    >>> search(lambda t: t - 2.0, -2.0)
    (2.0, True)
    """
    low, at_low, t = 0.0, initial, 1.0
    target = max(ACCEPT * abs(initial), noise)
    value = slope(t)
    while value < -target:
        if t >= largest:
            return t, False
        guess = t - value * (t - low) / (value - at_low) if value > at_low else 10.0 * t
        low, at_low = t, value
        t = min(max(guess, 2.0 * t), 100.0 * t)
        value = slope(t)
    if value <= target:
        return t, True
    return _bracketed(slope, (low, at_low), (t, value), target), True


def _bracketed(slope: Callable[[float], float], low: Point, high: Point, target: float) -> float:
    """Narrow a bracket by lines through two points, of one side or of both, and by halving.

    A line along a steep ramp reaches its foot, where chords across the bracket only skirt it.
    """
    before, last, t = high, high, high[0]  # the two points found last on one side
    slow = False
    for _ in range(100):
        middle = 0.5 * (low[0] + high[0]) if low[0] > 0.01 * high[0] else 0.1 * high[0]
        line, skewed = _zero(last, before), not 1e-2 < -low[1] / high[1] < 1e2
        guess = line if low[0] < line < high[0] else middle if skewed else _zero(low, high)
        t = middle if slow or not low[0] < guess < high[0] else guess
        value = slope(t)
        target = max(target, low[1] - value, value - high[1])  # what is not monotone is rounding
        if abs(value) <= target or high[0] - low[0] <= 1e-15 * high[0]:
            break
        width, last = high[0] - low[0], (t, value)
        before, low, high = (low, last, high) if value < 0 else (high, low, last)
        slow = high[0] - low[0] > 0.5 * width
    return t


def _zero(one: Point, other: Point) -> float:
    """Return where the line through two points crosses zero, NaN where it does not rise."""
    (t, value), (s, before) = one, other
    rise = (before - value) * (s - t)
    return t - value * (s - t) / (before - value) if rise > 0 else math.nan
