"""Safeguarded Newton iteration for the optimality condition of one-dimensional convex problems."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from margindsl.errors import CalculusError
from margindsl.typing import FloatArray

_EPS = float(np.finfo(float).eps)


def monotone_root(
    derivative: Callable[[FloatArray], FloatArray],
    curvature: Callable[[FloatArray], FloatArray],
    domain: tuple[float, float],
    x: FloatArray,
    step: FloatArray | None,
) -> FloatArray:
    """Solve 0 ∈ v − x + step ∂ρ(v) elementwise, or 0 ∈ ∂ρ(v) − x when step is None.

    Parameters
    ----------
    derivative, curvature : callables
        Vectorised ρ' (nondecreasing) and ρ''.
    domain : (float, float)
        Ends of the domain of ρ.
    x : array
    step : array of the shape of x, or None

    Returns
    -------
    array of the shape of x

    Raises
    ------
    CalculusError
        If no sign change is found.
    """
    x = np.asarray(x, dtype=float)

    def residual(v: FloatArray) -> FloatArray:
        slope = np.asarray(derivative(v))
        return slope - x if step is None else v - x + step * slope

    def growth(v: FloatArray) -> FloatArray:
        return np.asarray(curvature(v)) if step is None else 1.0 + step * np.asarray(curvature(v))

    v = np.clip(np.zeros_like(x) if step is None else x, *domain)
    # ρ' does not decrease: at v₁ = x − step ρ'(v) the residual, step (ρ'(v₁) − ρ'(v)), has the other sign than at v
    ahead = -np.asarray(residual(v))
    ahead = ahead if step is not None else np.where(ahead == 0, 0.0, np.copysign(np.inf, ahead))
    low = _bracket(residual, v, np.clip(v + np.minimum(ahead, 0.0), *domain), -1.0)
    high = _bracket(residual, v, np.clip(v + np.maximum(ahead, 0.0), *domain), 1.0)
    done = np.zeros(x.shape, dtype=bool)
    before = last = np.full(x.shape, np.inf)
    for _ in range(300):
        gap = residual(v)
        low, high = np.where(gap <= 0, v, low), np.where(gap >= 0, v, high)
        with np.errstate(all="ignore"):
            move = -gap / growth(v)
        done |= np.abs(move) <= 4 * _EPS * (np.abs(v) + np.abs(x))
        done |= high - low <= _EPS * (np.abs(low) + np.abs(high) + np.abs(x)) + 1e-300
        if done.all():
            break
        # Newton may cycle about a kink or creep: halve the bracket if two steps have not halved the residual
        size = np.abs(gap)
        newton = (v + move >= low) & (v + move <= high) & ((size <= before / 2) | np.isinf(before))
        v = np.where(done, v, np.where(newton, v + move, low + (high - low) / 2))
        before, last = last, size
    return np.clip(v, low, high)


def _bracket(
    residual: Callable[[FloatArray], FloatArray], start: FloatArray, end: FloatArray, side: float
) -> FloatArray:
    """Return points between `start` and `end` where the residual has the sign of `side`, as it has at the end."""
    point, width = start, 1.0
    wrong = point != end
    for _ in range(1100):
        if not np.any(wrong):
            return point
        reach = start + side * width * (1 + np.abs(start))
        point = np.where(wrong, np.minimum(reach, end) if side > 0 else np.maximum(reach, end), point)
        wrong &= point != end
        if np.any(wrong):
            wrong &= side * residual(point) < 0
        width *= 2
        if not np.isfinite(width):
            break
    raise CalculusError("no minimiser was found: the function decreases without end; "
                        "give its class an `argmin` method")
