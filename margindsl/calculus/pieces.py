"""Rows of quadratic coefficients over an ordered line of knots: checks, merging, crossings, printing."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import numpy as np

from margindsl.errors import CalculusError
from margindsl.typing import FloatArray

Table: TypeAlias = tuple[FloatArray, FloatArray]  # (P+1,) knots with the ends of the domain, (P, 3) rows (q, s, c)

CHECK = 1e-9    # relative error of a value or slope still called continuous
MERGE = 1e-12   # relative difference of neighbouring pieces still called equal
ROUND = 4e-15   # relative size of a sum that is nothing but rounding


def values_at(coefficients: FloatArray, x: FloatArray) -> FloatArray:
    """Return q x² + s x + c row by row, with 0·∞ = 0 and mere rounding set to zero."""
    q, s, c = coefficients.T
    with np.errstate(invalid="ignore"):
        curved, linear = np.where(q == 0, 0.0, q * x * x), np.where(s == 0, 0.0, s * x)
        return snapped(curved + linear + c, np.abs(curved) + np.abs(linear) + np.abs(c))


def slopes_at(coefficients: FloatArray, x: FloatArray) -> FloatArray:
    """Return 2 q x + s row by row, with 0·∞ = 0 and mere rounding set to zero."""
    q, s, _ = coefficients.T
    with np.errstate(invalid="ignore"):
        curved = np.where(q == 0, 0.0, 2 * q * x)
        return snapped(curved + s, np.abs(curved) + np.abs(s))


def snapped(total: FloatArray, magnitude: FloatArray) -> FloatArray:
    """Return a sum with entries that are only rounding of terms of that magnitude set to zero."""
    return np.where((np.abs(total) <= ROUND * magnitude) & np.isfinite(magnitude), 0.0, total)


def canonical(knots: FloatArray, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return checked pieces in least number; on a domain of one point, a constant."""
    if coefficients.ndim != 2 or coefficients.shape[1:] != (3,) or len(coefficients) != len(knots) - 1:
        raise CalculusError(f"coefficients of shape {coefficients.shape} with {len(knots) - 2} breakpoints; "
                            f"expected ({len(knots) - 1}, 3): one row (q, s, c) for each piece")
    if not np.all(np.isfinite(coefficients)) or not np.all(np.isfinite(knots[1:-1])) or np.isnan(knots).any():
        raise CalculusError("breakpoints and coefficients must be finite numbers; given NaN or infinity")
    if knots[0] == np.inf or knots[-1] == -np.inf or knots[0] > knots[-1]:
        raise CalculusError(f"the domain [{knots[0]:g}, {knots[-1]:g}] is empty; give lower <= upper")
    if len(knots) > 2 and np.any(np.diff(knots) <= 0):
        raise CalculusError(f"breakpoints {knots[1:-1]} must increase strictly and lie strictly between "
                            f"the ends {knots[0]:g} and {knots[-1]:g} of the domain")
    if knots[0] == knots[-1]:
        coefficients = np.array([[0.0, 0.0, values_at(coefficients, knots[:1])[0]]])
    check_convex(knots, coefficients)
    # pieces no wider than rounding of their own knots are left out
    while len(coefficients) > 1:
        width = np.diff(knots)
        size = np.maximum(np.abs(knots[:-1]), np.abs(knots[1:]))
        thin = np.flatnonzero(np.isfinite(width) & (width <= 1e-14 * np.where(np.isfinite(size), size, 0.0)))
        if not thin.size:
            break
        k = int(thin[0])
        # an end of the domain must stay where it is, so the inner knot goes
        knots = np.delete(knots, k if k == len(coefficients) - 1 else k + 1)
        coefficients = np.delete(coefficients, k, axis=0)
    return merged(knots, coefficients)


def check_convex(knots: FloatArray, coefficients: FloatArray) -> None:
    """Refuse pieces that bend down, do not meet, or whose slopes decrease at a breakpoint."""
    bent = np.flatnonzero(coefficients[:, 0] < 0)
    if bent.size:
        k = bent[0]
        raise CalculusError(f"the piece on [{knots[k]:g}, {knots[k + 1]:g}] has quadratic coefficient "
                            f"{coefficients[k, 0]:g} < 0: not convex; give non-negative ones")
    t, left, right = knots[1:-1], coefficients[:-1], coefficients[1:]
    height = np.abs(left) + np.abs(right)
    # the floor forgives what cancelled on the way here
    slack = ROUND * float(np.max(np.abs(coefficients)))
    size = values_at(height, np.abs(t))
    gap = values_at(right, t) - values_at(left, t)
    broken = np.flatnonzero(np.abs(gap) > CHECK * size + slack)
    if broken.size:
        k = broken[0]
        raise CalculusError(f"the pieces do not meet at breakpoint {t[k]:g}: the value is "
                            f"{values_at(left, t)[k]:g} on the left and "
                            f"{values_at(right, t)[k]:g} on the right; make them equal")
    before, after = slopes_at(left, t), slopes_at(right, t)
    falling = np.flatnonzero(after - before < -CHECK * slopes_at(height, np.abs(t)) - slack)
    if falling.size:
        k = falling[0]
        raise CalculusError(f"the slope falls at breakpoint {t[k]:g}, from {before[k]:g} on the left to "
                            f"{after[k]:g} on the right: not convex; slopes must not decrease")


def merged(knots: FloatArray, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the same function with equal neighbouring pieces joined."""
    keep = [0]
    for k in range(1, len(coefficients)):
        left, right, t = coefficients[keep[-1]], coefficients[k], knots[k]
        height, gap = np.maximum(np.abs(left), np.abs(right)), np.abs(left - right)
        slope, value = 2 * height[0] * abs(t) + height[1], height[0] * t * t + height[1] * abs(t) + height[2]
        if not (gap[0] <= MERGE * height[0] and gap[1] <= MERGE * slope and gap[2] <= MERGE * value):
            keep.append(k)
    return np.append(knots[keep], knots[-1]), coefficients[keep]


def crossings(difference: FloatArray, lower: float, upper: float) -> list[float]:
    """Return where the quadratic (q, s, c) changes sign strictly inside (lower, upper), in order."""
    q, s, c = (float(a) for a in difference)
    if q == 0:
        roots = [] if s == 0 else [-c / s]
    else:
        discriminant = s * s - 4 * q * c
        # a double root only touches: no change of sign
        if discriminant <= 1e-14 * (s * s + 4 * abs(q * c)):
            return []
        # the larger root first: no cancellation
        half = -(s + np.copysign(np.sqrt(discriminant), s)) / 2
        roots = sorted({half / q, c / half})
    return [r for r in roots if np.isfinite(r) and r - lower > 1e-11 * abs(r) and upper - r > 1e-11 * abs(r)]


def minimum_on(q: FloatArray, s: FloatArray, c: FloatArray, a: FloatArray, b: float) -> FloatArray:
    """Return min of q x² + s x + c over [a, b] elementwise, +∞ where it is empty, −∞ where unbounded."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = np.where(q > 0, np.clip(-s / (2 * q), a, b), a)

        def value(x: FloatArray) -> FloatArray:
            curved = np.where(q == 0, 0.0, q * x * x)
            # at infinity the square outweighs the slope
            linear = np.where((s == 0) | (np.isinf(x) & (q != 0)), 0.0, s * x)
            return curved + linear + c

        best = np.minimum(np.minimum(value(a), value(np.full_like(a, b))), value(inner))
    return np.where((a > b) | np.isposinf(a), np.inf, best)


def inner_point(lower: float, upper: float) -> float:
    """Return a point strictly inside an interval with possibly infinite ends."""
    if np.isfinite(lower) and np.isfinite(upper):
        return lower + (upper - lower) / 2
    if np.isfinite(lower):
        return lower + 1 + abs(lower)
    return upper - 1 - abs(upper) if np.isfinite(upper) else 0.0


def three_points(lower: float, upper: float) -> FloatArray:
    """Return three points of an interval, distinct unless it is a point; they determine a quadratic on it."""
    middle = inner_point(lower, upper)
    reach = 1 + abs(middle)
    return np.array([lower if np.isfinite(lower) else middle - reach, middle,
                     upper if np.isfinite(upper) else middle + reach])


def polynomial(row: FloatArray) -> str:
    """Return a quadratic as text."""
    parts: list[str] = []
    for value, power in zip(row, ("x^2", "x", "")):
        if value == 0:
            continue
        size = f"{abs(value):.6g}"
        body = size if not power else (power if size == "1" else f"{size} {power}")
        sign = ("-" if value < 0 else "") if not parts else (" - " if value < 0 else " + ")
        parts.append(sign + body)
    return "".join(parts) or "0"


def pieces_text(knots: FloatArray, coefficients: FloatArray) -> str:
    """Return pieces with their intervals as text."""
    if len(coefficients) == 1 and np.all(np.isinf(knots)):
        return polynomial(coefficients[0])
    rows = []
    for row, lower, upper in zip(coefficients, knots[:-1], knots[1:]):
        if lower == upper:
            where = f"x = {lower:.6g}"
        elif np.isneginf(lower):
            where = f"x <= {upper:.6g}"
        elif np.isposinf(upper):
            where = f"x >= {lower:.6g}"
        else:
            where = f"{lower:.6g} <= x <= {upper:.6g}"
        rows.append(f"{polynomial(row)} if {where}")
    return "; ".join(rows)


def refinement(f: Table, g: Table) -> FloatArray:
    """Return the knots of both functions on the common part of their domains."""
    lower, upper = max(f[0][0], g[0][0]), min(f[0][-1], g[0][-1])
    inner = np.union1d(f[0][1:-1], g[0][1:-1])
    return np.concatenate([[lower], inner[(inner > lower) & (inner < upper)], [upper]])


def restricted(f: Table, knots: FloatArray) -> FloatArray:
    """Return the rows of the pieces between consecutive knots of a refinement."""
    return f[1][np.searchsorted(f[0][1:-1], knots[:-1], side="right")]


def maximum_on(knots: FloatArray, f: Table, g: Table) -> Table:
    """Return max(f, g) on a common refinement that is more than a point."""
    ends, table = [knots[0]], []
    for row, other, a, b in zip(restricted(f, knots), restricted(g, knots), knots, knots[1:]):
        difference = snapped(row - other, np.abs(row) + np.abs(other))
        cuts = [a, *crossings(difference, a, b), b]
        for left, right in pairwise(cuts):
            # the point of largest difference: elsewhere the two may touch
            ahead = values_at(difference[None], three_points(left, right))
            table.append(row if ahead[np.argmax(np.abs(ahead))] >= 0 else other)
            ends.append(right)
    return np.array(ends), np.array(table)


def parted(f: Table, point: float, least: float) -> tuple[Table, Table]:
    """Return f before a minimiser, then constant, and zero, then f less its minimum after it."""
    knots = f[0]
    before, after = knots[knots < point], knots[knots > point]
    falling, rising = restricted(f, np.append(before, point)), restricted(f, np.append(point, after))
    # each side ends at the value of its own piece: the two may differ by rounding, which a flat piece at
    # zero would not forgive
    left = values_at(falling[-1:], np.array([point])) if len(falling) else np.array([least])
    right = values_at(rising[:1], np.array([point])) if len(rising) else np.array([least])
    return ((np.array([*before, point, np.inf]), np.array([*falling, [0.0, 0.0, left[0]]])),
            (np.array([-np.inf, point, *after]), np.array([[0.0, 0.0, 0.0], *(rising - [0.0, 0.0, right[0]])])))


def precomposed(f: Table, a: float, b: float) -> Table:
    """Return x ↦ f(a x + b) for a ≠ 0."""
    q, s, c = f[1].T
    slope = snapped(2 * q * b + s, 2 * np.abs(q * b) + np.abs(s))
    table = np.column_stack([q * a * a, slope * a, values_at(f[1], np.full_like(c, b))])
    knots = (f[0] - b) / a
    return (knots, table) if a > 0 else (knots[::-1], table[::-1])


def squared(f: Table) -> Table:
    """Return f² for f linear on every piece."""
    _, s, c = f[1].T
    return f[0], np.column_stack([s * s, 2 * s * c, c * c])
