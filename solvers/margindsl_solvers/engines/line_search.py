"""Exact line search of a convex function by its monotone derivative."""

from __future__ import annotations

from collections.abc import Callable

ACCEPT = 0.2


def search(slope: Callable[[float], float], initial: float, noise: float = 0.0,
           largest: float = 1e18) -> tuple[float, bool]:
    """Find a step t where the derivative φ'(t) has at most a fifth of its size at 0.

    The derivative of a convex function is monotone: expand until it turns positive, then alternate secant
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
    return _bracketed(slope, low, at_low, t, value, target), True


def _bracketed(slope: Callable[[float], float], low: float, at_low: float, high: float, at_high: float,
               target: float) -> float:
    t = high
    for turn in range(100):
        guess = low - at_low * (high - low) / (at_high - at_low)
        middle = 0.5 * (low + high) if low > 0.01 * high else 0.1 * high
        t = middle if turn % 3 == 2 or not low < guess < high else guess
        value = slope(t)
        target = max(target, at_low - value, value - at_high)  # what is not monotone is rounding
        if abs(value) <= target or high - low <= 1e-15 * high:
            break
        if value < 0:
            low, at_low = t, value
        else:
            high, at_high = t, value
    return t
