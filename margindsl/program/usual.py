"""How large values and decision values usually are where losses are zero at zero, and fall there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from margindsl.program.losses import Losses

REACH = 1 << 9  # powers of two, up and down, between which a step is sought


def least_along(losses: Losses, square: float) -> tuple[float, float] | None:
    """Return (gain, t) at a t within a factor of two below the least ½t²/s + Σ c ρ(d ± at), None where none falls.

    The signs are those in which the losses of a point fall at margins and scalars zero.

    Parameters
    ----------
    square : float
        s > 0.
    """
    fall = -np.sign(losses.spread(losses.derivative(losses.arguments(np.zeros(losses.n)))))

    def along(t: float) -> tuple[float, float]:
        values, slopes = losses.values_and_derivatives(losses.arguments(t * fall))
        return 0.5 * t * t / square + float(values.sum()), t / square + float(fall @ losses.spread(slopes))

    end = -along(0.0)[1] * square  # losses rise, or fall as at zero at most
    return _lowest(along, end, 0) if end > 0 and np.isfinite(end) else None


def least_of_scalars(losses: Losses) -> tuple[float, float] | None:
    """Return (gain, t) at margins zero as scalars go the way their costs fall, t the margin that weighs as much.

    None where losses do not stop them; the step is found to a factor of two.
    """
    costs = losses.scalars.costs
    way = np.where(losses.scalars.nonneg, np.maximum(-costs, 0.0), -costs)
    rate, pushed, start = float(costs @ way), losses.coupling @ way, losses.arguments(np.zeros(losses.n))

    def along(t: float) -> tuple[float, float]:
        values, slopes = losses.values_and_derivatives(start + t * pushed)
        return t * rate + float(values.sum()), rate + float(slopes @ pushed)

    found = _lowest(along, 1.0, REACH)
    steepest = float(np.abs(losses.slopes).max(initial=0.0))
    if found is None or not steepest or not pushed.any():
        return None
    return found[0], found[1] * float(np.abs(pushed).max()) / steepest


@np.errstate(over="ignore", invalid="ignore")
def _lowest(along: Callable[[float], tuple[float, float]], end: float, most: int) -> tuple[float, float] | None:
    """Return (gain, t), t a power of two of an end, no more than 2^most, below which a convex function falls.

    Its values may be infinite where it rises.
    """
    low, high = -REACH, most
    if most and not along(end * 2.0**low)[1] < 0 <= along(end * 2.0**high)[1]:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if along(end * 2.0**middle)[1] < 0 else (low, middle)
    t = end * 2.0**low
    gain = along(0.0)[0] - along(t)[0]
    return (gain, t) if gain > 0 else None


__all__ = ["least_along", "least_of_scalars"]
