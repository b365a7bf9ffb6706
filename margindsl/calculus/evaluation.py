"""Values, slopes and curvatures of piecewise quadratic functions at many points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.calculus import pieces as rows
from margindsl.frozen import frozen_property
from margindsl.typing import FloatArray

CACHED = 4096  # numbers evaluated together: their temporaries stay in a core's cache


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Represent the pieces of ρ as a table in which points are looked up.

    Parameters
    ----------
    breakpoints : (P-1,) float array
    coefficients : (P, 3) float array
        Rows (q, s, c).
    lower, upper : float
        Ends of the domain.
    """

    breakpoints: FloatArray
    coefficients: FloatArray
    lower: float
    upper: float

    def both(self, x: FloatArray, value: bool = True, slope: bool = True) -> tuple[FloatArray, FloatArray]:
        """Return what is asked for of value and derivative, in blocks that fit the cache."""
        if x.size <= 2 * CACHED:
            q, s, c = self._at(x)
            return self._value(x, q, s, c) if value else x, self._slope(x, q, s) if slope else x
        flat = np.ascontiguousarray(x).ravel()
        values, slopes = np.empty_like(flat) if value else flat, np.empty_like(flat) if slope else flat
        for start in range(0, len(flat), CACHED):
            part = flat[start:start + CACHED]
            q, s, c = self._at(part)
            if value:
                values[start:start + CACHED] = self._value(part, q, s, c)
            if slope:
                slopes[start:start + CACHED] = self._slope(part, q, s)
        return values.reshape(x.shape), slopes.reshape(x.shape)

    def slopes(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends (lo, hi) of the interval ∂ρ(x), (∞, −∞) where it is empty."""
        left = np.take(self.coefficients, np.searchsorted(self.breakpoints, x, side="left"), axis=0)
        lo, hi = 2 * left[..., 0] * x + left[..., 1], self.both(x, value=False)[1]
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
    def _columns(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        q, s, c = (np.ascontiguousarray(column) for column in self.coefficients.T)
        return q, s, c

    def _locate(self, x: FloatArray) -> Any:
        if x.size < 64 or len(self.breakpoints) > 8:
            return np.searchsorted(self.breakpoints, x, side="right")
        # few comparisons, which no processor mispredicts; NaN goes last, as in the search
        index = np.full(x.shape, len(self.breakpoints), dtype=np.intp)
        for knot in self.breakpoints:
            index -= x < knot
        return index

    def _at(self, x: FloatArray) -> tuple[Any, Any, Any]:
        if len(self.coefficients) == 1:
            q, s, c = self.coefficients[0]
            return q, s, c
        index = self._locate(x)
        q, s, c = self._columns
        return q[index], s[index], c[index]

    def _value(self, x: FloatArray, q: Any, s: Any, c: Any) -> FloatArray:
        with np.errstate(invalid="ignore"):
            value = (q * x + s) * x + c
        if np.isnan(value).any():
            value = np.where(np.isinf(x), self._limits(x), value)
        return self._outside(x, value, np.inf, np.inf)

    def _slope(self, x: FloatArray, q: Any, s: Any) -> FloatArray:
        with np.errstate(invalid="ignore"):
            slope = 2 * q * x + s
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
