"""Values, slopes and curvatures of piecewise quadratic functions at many points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.calculus import pieces as rows
from margindsl.host.frozen import frozen_property
from margindsl.typing import FloatArray

CACHED = 4096  # numbers evaluated together: their temporaries stay in a core's cache


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Represent the pieces of ρ as a table in which points are looked up.

    A piece is evaluated about a point a of it, ρ(a) + (x − a)(ρ'(a) + q (x − a)), where its value is small: of
    x² − 2x + 1 near 1, say, nothing is left but the rounding of its coefficients.

    Parameters
    ----------
    coefficients : (P, 3) float array
        Rows (q, s, c).
    lower, upper : float
        Ends of the domain.
    anchors : (P, 3) float array or None
        Rows (a, ρ'(a), ρ(a)) where they are known better than by the coefficients.
    """

    breakpoints: FloatArray  # (P-1,)
    coefficients: FloatArray
    lower: float
    upper: float
    anchors: FloatArray | None = None

    def both(self, x: FloatArray, value: bool = True, slope: bool = True) -> tuple[FloatArray, FloatArray]:
        """Return what is asked for of value and derivative, in blocks that fit the cache."""
        if x.size <= 2 * CACHED:
            at = self._at(x)
            return self._value(x, *at) if value else x, self._slope(x, *at) if slope else x
        flat = np.ascontiguousarray(x).ravel()
        values, slopes = np.empty_like(flat) if value else flat, np.empty_like(flat) if slope else flat
        for start in range(0, len(flat), CACHED):
            part = flat[start:start + CACHED]
            at = self._at(part)
            if value:
                values[start:start + CACHED] = self._value(part, *at)
            if slope:
                slopes[start:start + CACHED] = self._slope(part, *at)
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
        a = np.array([_anchor(row, low, high) for row, low, high in zip(self.coefficients, ends[:-1], ends[1:])])
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

    def _at(self, x: FloatArray) -> tuple[Any, Any, Any, Any]:
        if len(self.coefficients) == 1:
            q, a, s, c = (column[0] for column in self._columns)
            return q, x - a, s, c
        index = self._locate(x)
        q, a, s, c = self._columns
        return q[index], x - a[index], s[index], c[index]

    def _value(self, x: FloatArray, q: Any, d: FloatArray, s: Any, c: Any) -> FloatArray:
        with np.errstate(invalid="ignore", over="ignore"):  # infinite beyond the range of numbers
            value = (q * d + s) * d + c
        if np.isnan(value).any():
            value = np.where(np.isinf(x), self._limits(x), value)
        return self._outside(x, value, np.inf, np.inf)

    def _slope(self, x: FloatArray, q: Any, d: FloatArray, s: Any, c: Any) -> FloatArray:
        with np.errstate(invalid="ignore"):
            slope = 2 * q * d + s
        if np.isnan(slope).any():
            slope = np.where(np.isinf(x) & (q == 0), s, slope)
        return self._outside(x, slope, -np.inf, np.inf)

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


def _anchor(row: FloatArray, low: float, high: float) -> float:
    """Return the point of a piece, among its ends, its vertex and zero, at which its value is smallest."""
    q, s, _ = row
    tried = [end for end in (low, high) if np.isfinite(end)]
    tried += [point for point in (0.0, -s / (2 * q) if q else 0.0) if low < point < high and np.isfinite(point)]
    sizes = np.abs(rows.values_at(np.tile(row, (len(tried), 1)), np.array(tried)))
    return float(tried[int(np.argmin(sizes))])
