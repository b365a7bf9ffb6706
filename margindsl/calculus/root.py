"""Safeguarded Newton iteration for the optimality condition of one-dimensional convex problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from margindsl.errors import CalculusError
from margindsl.typing import FloatArray

_EPS = float(np.finfo(float).eps)
LEAST = 1e-150  # of squares, where slopes are divided by their roots


class Curve(Protocol):
    """Describe a convex function by what a search for its minimum asks of it."""

    @property
    def domain(self) -> tuple[float, float]:
        """Return the ends of the domain."""

    def value_and_derivative(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ρ(x) and ρ'(x), which does not decrease."""

    def derivative(self, x: FloatArray) -> FloatArray:
        """Return ρ'(x)."""

    def curvature(self, x: FloatArray) -> FloatArray:
        """Return ρ''(x)."""


class OfRoots:
    """Represent q ↦ ρ(√q) where it is convex."""

    def __init__(self, base: Curve) -> None:
        self.base, self.domain = base, (0.0, np.inf)

    def value_and_derivative(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        value, slope = self.base.value_and_derivative(_root(x))
        return value, slope / (2 * _root(x))

    def derivative(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.base.derivative(_root(x))) / (2 * _root(x))

    def curvature(self, x: FloatArray) -> FloatArray:
        s = _root(x)
        bend = np.asarray(self.base.curvature(s)) - np.asarray(self.base.derivative(s)) / s
        return np.divide(bend, 4 * s * s, out=np.zeros_like(s), where=x > LEAST)  # at zero it may be infinite


def monotone_root(function: Curve, x: FloatArray, step: FloatArray | None) -> FloatArray:
    """Solve 0 ∈ v − x + step ∂ρ(v) elementwise, or 0 ∈ ∂ρ(v) − x when step is None.

    Newton steps; where two have not halved the residual, the root may be a kink of ρ, and tangents at both ends of the
    bracket meet nearer to it by the square of the distance. Every third time the bracket is halved instead.
    """
    x = np.asarray(x, dtype=float)

    def residual(v: FloatArray, slope: FloatArray) -> FloatArray:
        return slope - x if step is None else v - x + step * slope

    v = np.clip(np.zeros_like(x) if step is None else x, *function.domain)
    start, at = v, _tangent(function, v)
    # ρ' does not decrease: at v₁ = x − step ρ'(v) the residual, step (ρ'(v₁) − ρ'(v)), has the other sign than at v
    gap = residual(v, at[1])
    ahead = -gap if step is not None else np.where(gap == 0, 0.0, np.copysign(np.inf, -gap))
    end = _bracket(lambda v: residual(v, np.asarray(function.derivative(v))), v, np.clip(v + ahead, *function.domain))
    low, high = np.minimum(v, end), np.maximum(v, end)
    width, below = high - low, _tangent(function, end)
    above = below
    near = np.zeros_like(x) if step is None else np.abs(x)  # without a step x is a slope
    done = np.zeros(x.shape, dtype=bool)
    before, turn = np.full(x.shape, np.inf), np.zeros(x.shape, dtype=int)
    for _ in range(300):
        at = at if v is start else _tangent(function, v)
        gap, bend = residual(v, at[1]), np.asarray(function.curvature(v))
        left, right = gap <= 0, gap >= 0
        low, below = np.where(left, v, low), np.where(left, at, below)
        high, above = np.where(right, v, high), np.where(right, at, above)
        with np.errstate(all="ignore"):
            move = -gap / (bend if step is None else 1.0 + step * bend)
        room = _EPS * (np.abs(low) + np.abs(high) + near + np.minimum(width, _blur(below, above))) + 1e-300
        done |= (np.abs(move) <= 4 * _EPS * (np.abs(v) + near)) | (high - low <= room)
        if done.all():
            break
        size = np.abs(gap)
        newton = (v + move >= low) & (v + move <= high) & ((size <= before / 2) | np.isinf(before))
        turn, before = np.where(newton, 0, turn + 1), size
        with np.errstate(all="ignore"):
            meeting = low + (below[0] - above[0] + above[1] * (high - low)) / (above[1] - below[1])
        other = np.where((turn % 3 > 0) & np.isfinite(meeting), meeting, low + (high - low) / 2)
        v = np.where(done, v, np.where(newton, v + move, np.clip(other, low + room / 2, high - room / 2)))
    return np.clip(v, low, high)


def _blur(below: FloatArray, above: FloatArray) -> FloatArray:
    """Return how far values reach, by the steeper of two tangents: a kink at zero is not halved down to denormals."""
    size, steep = np.maximum(np.abs(below), np.abs(above))
    known = np.isfinite(size) & np.isfinite(steep) & (steep > 0)
    return np.divide(size, steep, out=np.zeros_like(size), where=known)


def _tangent(function: Curve, v: FloatArray) -> FloatArray:
    return np.array(function.value_and_derivative(v))


def _bracket(residual: Callable[[FloatArray], FloatArray], start: FloatArray, end: FloatArray) -> FloatArray:
    """Return points between `start` and `end` where the residual has the sign it has at the end."""
    point, width, side = start, 1.0, np.sign(end - start)
    wrong = point != end
    for _ in range(1100):
        if not np.any(wrong):
            return point
        reach = start + side * width * (1 + np.abs(start))
        point = np.where(wrong, np.where(side > 0, np.minimum(reach, end), np.maximum(reach, end)), point)
        wrong &= point != end
        if np.any(wrong):
            wrong &= side * residual(point) < 0
        width *= 2
        if not np.isfinite(width):
            break
    raise CalculusError("no minimiser was found: the function decreases without end; "
                        "give its class an `argmin` method")


def _root(q: FloatArray) -> FloatArray:
    return np.sqrt(np.maximum(q, LEAST))
