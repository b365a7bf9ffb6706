"""Piecewise quadratic functions as tables: the polyline of the subdifferential, and values at many points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.calculus import pieces as rows
from margindsl.host.frozen import frozen, frozen_property
from margindsl.typing import FloatArray

CACHED = 4096  # numbers evaluated together: their temporaries stay in a core's cache
STEPS = 16  # tables of a prox that are kept: rows of several clusters ask for a few steps in turn


@dataclass(frozen=True, eq=False)
class Polyline:
    """Represent the graph {(x, g): g ∈ ∂ρ(x)} of ρ(x) = q x² + s x + c, piece by piece."""

    knots: FloatArray  # (P+1,), the ends of the pieces; the first and last may be infinite, or equal if P = 1
    coefficients: FloatArray  # (P, 3), rows (q, s, c)

    @frozen_property
    def slopes(self) -> FloatArray:
        """Return the (P, 2) slopes of ρ at the two ends of each piece."""
        return np.column_stack([rows.slopes_at(self.coefficients, self.knots[:-1]),
                                rows.slopes_at(self.coefficients, self.knots[1:])])

    @frozen_property
    def values(self) -> FloatArray:
        """Return the (P+1,) values of ρ at the knots."""
        return np.append(rows.values_at(self.coefficients, self.knots[:-1]),
                         rows.values_at(self.coefficients[-1:], self.knots[-1:]))

    @frozen_property
    def corners(self) -> tuple[FloatArray, FloatArray]:
        """Return the corners (x, g) in order, without the infinite ends."""
        t = np.repeat(self.knots, 2)[1:-1]
        finite = np.isfinite(t)
        return t[finite], self.slopes.ravel()[finite]

    @frozen_property
    def segments(self) -> tuple[FloatArray, ...]:
        """Return for each segment: moves in x (1) or stands (0), s, t, 2q, and c or ρ(t)."""
        parts = []
        for k, (q, s, c) in enumerate(self.coefficients):
            if np.isfinite(self.knots[k]):
                parts.append((0.0, 0.0, self.knots[k], 0.0, self.values[k]))
            parts.append((1.0, s, 0.0, 2 * q, c))
        if np.isfinite(self.knots[-1]):
            parts.append((0.0, 0.0, self.knots[-1], 0.0, self.values[-1]))
        return tuple(np.array(column) for column in zip(*parts))

    def meeting(self, x: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return slope and constant of x ↦ v on the segment on which v + step·g = x, for each x."""
        if step.ndim == 0:  # where segments end for one step, with slope and constant of each, is kept
            kept: dict[float, tuple[FloatArray, FloatArray, FloatArray]] = self.__dict__.setdefault("_kept", {})
            found = kept.get(float(step))
            if found is None:
                at, rise = self.corners
                ends = np.maximum.accumulate(at + step * rise)  # shearing can only reorder corners by rounding
                if len(kept) >= STEPS:
                    kept.clear()
                found = kept[float(step)] = frozen((ends, *_resolved(self.segments[:4], step)))
            ends, slope, constant = found
            index = ends.searchsorted(x, side="right")
            return slope[index], constant[index]
        index = np.zeros(np.broadcast_shapes(x.shape, step.shape), dtype=np.intp)
        for t, g in zip(*self.corners):
            index += x >= t + step * g
        return _resolved(tuple(column[index] for column in self.segments[:4]), step)

    def zeros(self) -> tuple[float, float]:
        """Return the ends of {x: 0 ∈ ∂ρ(x)}, or the infinity towards which ρ decreases, twice."""
        t, slope = self.knots, self.slopes
        if t[0] == t[-1]:
            return float(t[0]), float(t[0])
        rising, falling = np.flatnonzero(slope[:, 1] >= 0), np.flatnonzero(slope[:, 0] <= 0)
        lo, hi = t[-1], t[0]
        if rising.size:
            k = int(rising[0])
            lo = t[k] if slope[k, 0] >= 0 else self._vertex(k)
        if falling.size:
            k = int(falling[-1])
            hi = t[k + 1] if slope[k, 1] <= 0 else self._vertex(k)
        return float(lo), float(hi)

    def lipschitz(self) -> float:
        """Return the Lipschitz constant of ρ' on R, ∞ where the polyline jumps or ends."""
        if np.isfinite(self.knots[0]) or np.isfinite(self.knots[-1]):
            return float("inf")
        before, after = self.slopes[:-1, 1], self.slopes[1:, 0]
        height = np.abs(self.coefficients[:-1]) + np.abs(self.coefficients[1:])
        jumps = after - before > rows.CHECK * rows.slopes_at(height, np.abs(self.knots[1:-1]))
        return float("inf") if np.any(jumps) else float(2 * self.coefficients[:, 0].max())

    def conjugate(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return knots and coefficients of ρ*, whose polyline has the axes swapped, and its value and slope at places.

        Where ρ bends little ρ* bends much: coefficients about zero lose its values by cancellation. ρ*(2qt + s) is
        q t² − c, with slope t, at any point t of a piece.

        Returns
        -------
        knots, coefficients : arrays
        anchors : (P, 3) array
            Rows (u, ρ*'(u), ρ*(u)) of a place of each piece.
        """
        t, slope = self.knots, self.slopes
        if t[0] == t[-1]:
            return (np.array([-np.inf, np.inf]), np.array([[0.0, t[0], -self.values[0]]]),
                    np.array([[0.0, t[0], -self.values[0]]]))
        starts, table, anchors = [], [], []
        for k, (q, s, c) in enumerate(self.coefficients):
            if np.isfinite(t[k]):
                # a vertical segment at x = t_k becomes the affine piece t_k u − ρ(t_k)
                starts.append(slope[k - 1, 1] if k else -np.inf)
                table.append([0.0, t[k], -self.values[k]])
                anchors.append(_mirrored(self.coefficients[max(k - 1, 0):k + 1], t[k], t[k]))
            if q > 0:
                top = s * s / (4 * q)
                starts.append(slope[k, 0])
                table.append([1 / (4 * q), -s / (2 * q), float(rows.snapped(top - c, top + abs(c)))])
                anchors.append(_mirrored(self.coefficients[k:k + 1], t[k], t[k + 1]))
        if np.isfinite(t[-1]):
            starts.append(slope[-1, 1])
            table.append([0.0, t[-1], -self.values[-1]])
            anchors.append(_mirrored(self.coefficients[-1:], t[-1], t[-1]))
        if not table:
            # affine: finite at its slope alone
            return slope[0], np.array([[0.0, 0.0, -self.coefficients[0, 2]]]), np.array(
                [_mirrored(self.coefficients, 0.0, 0.0)])
        last = np.inf if np.isfinite(t[-1]) else slope[-1, 1]
        return np.array([*starts, last]), np.array(table), np.array(anchors)

    def envelope(self, h: float) -> tuple[FloatArray, FloatArray]:
        """Return knots and coefficients of the Moreau envelope with step h: (x, g) of ρ becomes (x + hg, g)."""
        moving, s, t, growth, c = self.segments
        # a piece becomes c + (q x² + s x − hs²/2)/(1 + 2hq), growth being 2q; a knot t becomes ρ(t) + (x − t)²/2h
        stretch, drop, rise = 1 + h * growth, h * s * s / 2, t * t / (2 * h)
        lift = rows.snapped(c * stretch - drop, np.abs(c) * stretch + drop)
        peak = rows.snapped(rise + c, rise + np.abs(c))
        table = np.where(moving[:, None] > 0,
                         np.column_stack([growth / 2, s, lift]) / stretch[:, None],
                         np.column_stack([np.full_like(t, 1 / (2 * h)), -t / h, peak]))
        at, slope = self.corners
        return np.concatenate([[-np.inf], at + h * slope, [np.inf]]), table

    def _vertex(self, k: int) -> float:
        q, s, _ = self.coefficients[k]
        return float(np.clip(-s / (2 * q), self.knots[k], self.knots[k + 1]))


def _resolved(segments: tuple[FloatArray, ...], step: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """Return slope and constant of x ↦ v where v + step·g = x, on segments (moves, s, t, 2q)."""
    moving, shift, at, growth = segments
    slope = moving / (1 + step * growth)
    return slope, at - slope * (step * shift)


def _mirrored(pieces: FloatArray, low: float, high: float) -> tuple[float, float, float]:
    """Return slope, place and conjugate value where that is smallest: an end of [low, high], the vertex or near zero.

    On several pieces, which meet there, it is that whose numbers are the smallest.
    """
    row = pieces[np.argmin(np.abs(pieces[:, 0]) * low * low + np.abs(pieces[:, 2]))] if len(pieces) > 1 else pieces[0]
    vertex = -row[1] / (2 * row[0]) if row[0] else 0.0
    positions = np.array([t for t in (*np.clip([0.0, vertex], low, high), low, high) if np.isfinite(t)])
    table = np.tile(row, (len(positions), 1))
    slopes = rows.slopes_at(table, positions)
    values = rows.values_at(table * [1.0, 0.0, -1.0], positions)
    best = int(np.argmin(np.abs(values)))
    return float(slopes[best]), float(positions[best]), float(values[best])


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Represent the pieces of ρ as a table in which points are looked up.

    A piece is evaluated about a point a of it, ρ(a) + (x − a)(ρ'(a) + q (x − a)), where its value is small: of
    x² − 2x + 1 near 1, say, nothing is left but the rounding of its coefficients.

    Parameters
    ----------
    lower, upper : float
        Ends of the domain.
    anchors : (P, 3) float array or None
        Rows (a, ρ'(a), ρ(a)) where they are known better than by the coefficients.
    """

    breakpoints: FloatArray  # (P-1,)
    coefficients: FloatArray  # (P, 3), rows (q, s, c)
    lower: float
    upper: float
    anchors: FloatArray | None = None

    def both(self, x: FloatArray, value: bool = True, slope: bool = True) -> tuple[FloatArray, FloatArray]:
        """Return what is asked for of value and derivative, in blocks that fit the cache."""
        if x.size <= 2 * CACHED:
            return self._part(x, value, slope)
        flat = np.ascontiguousarray(x).ravel()
        values, slopes = np.empty_like(flat) if value else flat, np.empty_like(flat) if slope else flat
        for start in range(0, len(flat), CACHED):
            block = slice(start, start + CACHED)
            part = self._part(flat[block], value, slope)
            if value:
                values[block] = part[0]
            if slope:
                slopes[block] = part[1]
        return values.reshape(x.shape), slopes.reshape(x.shape)

    def slopes(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends (lo, hi) of the interval ∂ρ(x), (∞, −∞) where it is empty."""
        q, a, s, _ = (column[np.searchsorted(self.breakpoints, x, side="left")] for column in self._columns)
        with np.errstate(invalid="ignore"):
            lo, hi = np.where(q == 0, s, s + 2 * q * (x - a)), self.both(x, value=False)[1]
        # rounding must not make the interval of a smooth breakpoint look empty
        lo = np.where(x == self.lower, -np.inf, np.minimum(lo, hi))
        hi = np.where(x == self.upper, np.inf, hi)
        empty = (x < self.lower) | (x > self.upper)
        return np.where(empty, np.inf, lo), np.where(empty, -np.inf, hi)

    def curvature(self, x: FloatArray) -> Any:
        """Return ρ'', that of the piece on the right at a breakpoint."""
        return 2 * self._columns[0][self._locate(x)]

    def size(self, x: FloatArray) -> FloatArray:
        """Return |q| x² + |s| |x| + |c|, by which rounding of the value is measured."""
        q, s, c = np.abs(self.coefficients[self._locate(x)]).T
        return q * x * x + s * np.abs(x) + c

    @frozen_property
    def _columns(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return q, and the points a of the pieces with slope and value there, rounding snapped to zero."""
        if self.anchors is not None:
            a, slope, value = np.ascontiguousarray(self.anchors.T)
            return np.ascontiguousarray(self.coefficients[:, 0]), a, slope, value
        ends = np.concatenate([[self.lower], self.breakpoints, [self.upper]])
        a = np.empty(len(self.coefficients))
        for k, (row, low, high) in enumerate(zip(self.coefficients, ends[:-1], ends[1:])):
            # among the ends of a piece, its vertex and zero, the point at which its value is smallest
            vertex = -row[1] / (2 * row[0]) if row[0] else 0.0
            tried = [end for end in (low, high) if np.isfinite(end)]
            tried += [point for point in (0.0, vertex) if low < point < high and np.isfinite(point)]
            a[k] = tried[int(np.argmin(np.abs(rows.values_at(np.tile(row, (len(tried), 1)), np.array(tried)))))]
        return (np.ascontiguousarray(self.coefficients[:, 0]), a, rows.slopes_at(self.coefficients, a),
                rows.values_at(self.coefficients, a))

    def _locate(self, x: FloatArray) -> Any:
        if x.size < 64 or len(self.breakpoints) > 8:
            return np.searchsorted(self.breakpoints, x, side="right")
        # few comparisons, which no processor mispredicts; NaN goes last, as in the search
        index = np.full(x.shape, len(self.breakpoints), dtype=np.intp)
        for knot in self.breakpoints:
            index -= x < knot
        return index

    def _part(self, x: FloatArray, value: bool, slope: bool) -> tuple[FloatArray, FloatArray]:
        """Return `both` of points that fit the cache, x in place of what is not asked for."""
        index = self._locate(x) if len(self.coefficients) > 1 else 0
        q, a, s, c = (column[index] for column in self._columns)
        d, values, slopes = x - a, x, x
        if value:
            with np.errstate(invalid="ignore", over="ignore"):  # infinite beyond the range of numbers
                values = (q * d + s) * d + c
            if np.isnan(values).any():
                values = np.where(np.isinf(x), self._limits(x), values)
            values = self._outside(x, values, np.inf, np.inf)
        if slope:
            with np.errstate(invalid="ignore"):
                slopes = 2 * q * d + s
            if np.isnan(slopes).any():
                slopes = np.where(np.isinf(x) & (q == 0), s, slopes)
            slopes = self._outside(x, slopes, -np.inf, np.inf)
        return values, slopes

    def _outside(self, x: FloatArray, inner: FloatArray, below: float, above: float) -> FloatArray:
        if np.isfinite(self.lower):
            inner = np.where(x < self.lower, below, inner)
        if np.isfinite(self.upper):
            inner = np.where(x > self.upper, above, inner)
        return inner

    def _limits(self, x: FloatArray) -> FloatArray:
        left = rows.values_at(self.coefficients[:1], np.array([-np.inf]))[0]
        right = rows.values_at(self.coefficients[-1:], np.array([np.inf]))[0]
        first, last = self.coefficients[0], self.coefficients[-1]
        left, right = (np.inf if first[0] else left), (np.inf if last[0] else right)
        return np.where(x > 0, right, left)
