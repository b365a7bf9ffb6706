"""Sums, maxima, parts and compositions of piecewise quadratic functions, as knots and rows."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import numpy as np

from margindsl.calculus import pieces as rows
from margindsl.typing import FloatArray

Table: TypeAlias = tuple[FloatArray, FloatArray]  # (P+1,) knots with the ends of the domain, (P, 3) rows (q, s, c)


def refinement(f: Table, g: Table) -> FloatArray:
    """Return the knots of both functions on the common part of their domains."""
    lower, upper = max(f[0][0], g[0][0]), min(f[0][-1], g[0][-1])
    inner = np.union1d(f[0][1:-1], g[0][1:-1])
    return np.concatenate([[lower], inner[(inner > lower) & (inner < upper)], [upper]])


def restricted(f: Table, knots: FloatArray) -> FloatArray:
    """Return the rows of the pieces between consecutive knots of a refinement."""
    index = np.searchsorted(f[0][1:-1], knots[:-1], side="right")
    return f[1][index]


def sum_on(knots: FloatArray, f: Table, g: Table) -> Table:
    """Return f + g on a common refinement."""
    left, right = restricted(f, knots), restricted(g, knots)
    return knots, rows.snapped(left + right, np.abs(left) + np.abs(right))


def maximum_on(knots: FloatArray, f: Table, g: Table) -> Table:
    """Return max(f, g) on a common refinement that is more than a point."""
    ends, table = [knots[0]], []
    for row, other, a, b in zip(restricted(f, knots), restricted(g, knots), knots, knots[1:]):
        difference = rows.snapped(row - other, np.abs(row) + np.abs(other))
        cuts = [a, *rows.crossings(difference, a, b), b]
        for left, right in pairwise(cuts):
            # the point of largest difference: elsewhere the two may touch
            ahead = rows.values_at(difference[None], rows.three_points(left, right))
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
    left = rows.values_at(falling[-1:], np.array([point])) if len(falling) else np.array([least])
    right = rows.values_at(rising[:1], np.array([point])) if len(rising) else np.array([least])
    return ((np.array([*before, point, np.inf]), np.array([*falling, [0.0, 0.0, left[0]]])),
            (np.array([-np.inf, point, *after]), np.array([[0.0, 0.0, 0.0], *(rising - [0.0, 0.0, right[0]])])))


def precomposed(f: Table, a: float, b: float) -> Table:
    """Return x ↦ f(a x + b) for a ≠ 0."""
    q, s, c = f[1].T
    slope = rows.snapped(2 * q * b + s, 2 * np.abs(q * b) + np.abs(s))
    table = np.column_stack([q * a * a, slope * a, rows.values_at(f[1], np.full_like(c, b))])
    knots = (f[0] - b) / a
    return (knots, table) if a > 0 else (knots[::-1], table[::-1])


def squared(f: Table) -> Table:
    """Return f² for f linear on every piece."""
    _, s, c = f[1].T
    return f[0], np.column_stack([s * s, 2 * s * c, c * c])
