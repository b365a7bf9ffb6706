"""Exact line search of a convex function by its monotone derivative."""

from __future__ import annotations

import math
from collections.abc import Callable

ACCEPT = 0.2


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
    left, at_left, t = 0.0, initial, 1.0
    target = max(ACCEPT * abs(initial), noise)
    value = slope(t)
    while value < -target:
        if t >= largest:
            return t, False
        guess = t - value * (t - left) / (value - at_left) if value > at_left else 10.0 * t
        left, at_left = t, value
        t = min(max(guess, 2.0 * t), 100.0 * t)
        value = slope(t)
    if value <= target:
        return t, True

    # A bracket is narrowed by lines through two points, of one side or of both, and by halving: a line along a steep
    # ramp reaches its foot, where chords across the bracket only skirt it.
    low, high = (left, at_left), (t, value)
    before, last, slow = high, high, False  # the two points found last on one side
    for _ in range(100):
        middle = 0.5 * (low[0] + high[0]) if low[0] > 0.01 * high[0] else 0.1 * high[0]
        skewed, guess = not 1e-2 < -low[1] / high[1] < 1e2, math.nan
        for one, other in ((last, before), (low, high)):
            rise = (other[1] - one[1]) * (other[0] - one[0])
            guess = one[0] - one[1] * (other[0] - one[0]) / (other[1] - one[1]) if rise > 0 else math.nan
            if low[0] < guess < high[0] or skewed:
                break
        t = middle if slow or not low[0] < guess < high[0] else guess
        value = slope(t)
        target = max(target, low[1] - value, value - high[1])  # what is not monotone is rounding
        if abs(value) <= target or high[0] - low[0] <= 1e-15 * high[0]:
            break
        width, last = high[0] - low[0], (t, value)
        before, low, high = (low, last, high) if value < 0 else (high, low, last)
        slow = high[0] - low[0] > 0.5 * width
    return t, True
