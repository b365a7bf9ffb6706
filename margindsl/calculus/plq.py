"""Piecewise linear-quadratic convex functions and their exact algebra."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from margindsl.calculus import pieces as rows
from margindsl.calculus.conic import conic_form
from margindsl.calculus.polyline import Evaluation, Polyline
from margindsl.calculus.protocol import (
    ConvexFunction,
    checked_step,
    finite_member,
    number,
    refuse_negative_weights,
    shaped,
)
from margindsl.errors import CalculusError
from margindsl.host.frozen import frozen, frozen_property
from margindsl.typing import ArrayLike, FloatArray


@dataclass(frozen=True, eq=False, repr=False, init=False)
class PLQ(ConvexFunction):
    """Represent a closed convex function that is quadratic, q x² + s x + c, on each of some intervals.

    Its subdifferential is a maximal monotone polyline; the conjugate swaps the axes of this polyline, the
    prox and the Moreau envelope shear it: every operation costs O(pieces) and is exact up to rounding
    (mathematics: PLQ functions are closed under what the compiler needs).

    Parameters
    ----------
    breakpoints : (P-1,) array_like of float, increasing
        Where the pieces meet.
    coefficients : (P, 3) array_like of float
        One row (q, s, c) for each piece, q ≥ 0.
    lower, upper : float
        Ends of the domain; the function is +∞ outside [lower, upper].

    Raises
    ------
    CalculusError
        If the shapes do not fit, a number is not finite, or the pieces are not continuous and convex.

    Examples
    --------
    >>> hinge = PLQ([1.0], [[0, -1, 1], [0, 0, 0]])
    >>> hinge(-1.0), hinge.derivative(0.0)
    (2.0, -1.0)
    >>> hinge.conjugate()
    PLQ(x if -1 <= x <= 0)
    """

    breakpoints: FloatArray
    coefficients: FloatArray
    lower: float
    upper: float

    def __init__(
        self, breakpoints: ArrayLike, coefficients: ArrayLike, lower: float = -np.inf, upper: float = np.inf
    ) -> None:
        inner: FloatArray = np.asarray(breakpoints, dtype=float)
        table: FloatArray = np.array(coefficients, dtype=float)
        if inner.ndim != 1:
            raise CalculusError(f"breakpoints of shape {inner.shape}; expected a one-dimensional list")
        knots: FloatArray = np.concatenate([[float(lower)], inner, [float(upper)]]) + 0.0
        knots, table = rows.canonical(knots, table)
        inner, table = knots[1:-1].copy(), table + 0.0
        for name, value in (("breakpoints", frozen(inner)), ("coefficients", frozen(table)),
                            ("lower", float(knots[0])), ("upper", float(knots[-1]))):
            object.__setattr__(self, name, value)

    # -- builders -----------------------------------------------------------------------------------

    @classmethod
    def affine(cls, slope: float, intercept: float = 0.0) -> PLQ:
        """Return x ↦ slope·x + intercept."""
        return cls([], [[0.0, slope, intercept]])

    @classmethod
    def constant(cls, value: float) -> PLQ:
        """Return x ↦ value."""
        return cls.affine(0.0, value)

    @classmethod
    def indicator(cls, lower: float, upper: float) -> PLQ:
        """Return the function that is 0 on [lower, upper] and +∞ elsewhere."""
        return cls([], [[0.0, 0.0, 0.0]], lower, upper)

    @classmethod
    def from_points(cls, x: ArrayLike, y: ArrayLike) -> PLQ:
        """Return the piecewise linear interpolation of points, its end pieces continued to ±∞.

        A CalculusError if the points are fewer than two, not in order, or not in convex position.
        """
        x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
        if x.ndim != 1 or x.shape != y.shape or len(x) < 2 or not np.all(np.diff(x) > 0):
            raise CalculusError(f"points of shapes {x.shape} and {y.shape} do not define a piecewise linear "
                                "function; give two or more with strictly increasing x")
        slope = np.diff(y) / np.diff(x)
        return cls(x[1:-1], np.column_stack([np.zeros_like(slope), slope, y[:-1] - slope * x[:-1]]))

    @classmethod
    def _on(cls, knots: list[float] | FloatArray, table: ArrayLike) -> PLQ:
        # rounding may put knots that should coincide in the wrong order
        ordered, table = np.maximum.accumulate(np.asarray(knots, dtype=float)), np.array(table, dtype=float)
        wide = np.diff(ordered) > 0
        if not wide.any():
            wide[0] = True
        ends, table = ordered[:-1][wide], table[wide]
        try:
            return cls(ends[1:], table, float(ends[0]), float(ordered[-1]))
        except CalculusError:  # rounding parted them: each goes on where the one before ends
            table[1:, 2] -= np.cumsum(rows.values_at(table[1:], ends[1:]) - rows.values_at(table[:-1], ends[1:]))
            return cls(ends[1:], table, float(ends[0]), float(ordered[-1]))

    # -- values and derivatives ---------------------------------------------------------------------

    @property
    def domain(self) -> tuple[float, float]:
        return self.lower, self.upper

    @property
    def pieces(self) -> tuple[tuple[float, float, float, float, float], ...]:
        """Return the pieces (from, to, q, s, c) in order."""
        knots = self._knots.tolist()
        return tuple((a, b, *row) for a, b, row in zip(knots, knots[1:], self.coefficients.tolist()))

    def __call__(self, x: ArrayLike) -> Any:
        return shaped(self._evaluation.both(np.asarray(x, dtype=float), slope=False)[0])

    def derivative(self, x: ArrayLike) -> Any:
        return shaped(self._evaluation.both(np.asarray(x, dtype=float), value=False)[1])

    def value_and_derivative(self, x: ArrayLike) -> tuple[Any, Any]:
        value, slope = self._evaluation.both(np.asarray(x, dtype=float))
        return shaped(value), shaped(slope)

    def subdifferential(self, x: ArrayLike) -> tuple[Any, Any]:
        lo, hi = self._evaluation.slopes(np.asarray(x, dtype=float))
        return shaped(lo), shaped(hi)

    def curvature(self, x: ArrayLike) -> Any:
        return shaped(self._evaluation.curvature(np.asarray(x, dtype=float)))

    # -- duality ------------------------------------------------------------------------------------

    def conjugate(self) -> PLQ:
        return self._conjugate

    @cached_property
    def _conjugate(self) -> PLQ:
        knots, table, anchors = self._polyline.conjugate()
        found = PLQ._on(knots, table)
        inside = np.array([rows.inner_point(low, high) for low, high in zip(found._knots[:-1], found._knots[1:])])
        kept = frozen(anchors[np.searchsorted(np.maximum.accumulate(knots)[1:-1], inside, side="right")])
        found.__dict__["_evaluation"] = replace(found._evaluation, anchors=kept)
        return found

    def prox(self, x: ArrayLike, step: ArrayLike = 1.0) -> Any:
        x, step = np.asarray(x, dtype=float), checked_step(step)
        slope, at = self._polyline.meeting(x, step)
        return shaped(slope * x + at)

    def prox_derivative(self, x: ArrayLike, step: ArrayLike = 1.0) -> Any:
        return shaped(self._polyline.meeting(np.asarray(x, dtype=float), checked_step(step))[0])

    def envelope(self, step: float) -> PLQ:
        return PLQ._on(*self._polyline.envelope(float(checked_step(step))))

    # -- shape --------------------------------------------------------------------------------------

    @cached_property
    def smoothness(self) -> float:
        if np.isfinite(self.lower) or np.isfinite(self.upper):
            return float("inf")
        return self._polyline.lipschitz()

    @property
    def is_affine(self) -> bool:
        return self._is_linear() and bool(np.isinf(self._knots).all())

    @property
    def is_nonincreasing(self) -> bool:
        return bool(np.isposinf(self.upper) and self._polyline.slopes[-1, 1] <= 0)

    @property
    def is_nondecreasing(self) -> bool:
        return bool(np.isneginf(self.lower) and self._polyline.slopes[0, 0] >= 0)

    @cached_property
    def is_root_convex(self) -> bool:
        # on a piece ρ'(s)/s = 2q + s_k/s, nondecreasing iff s_k ≤ 0; jumps at breakpoints only go up
        positive = self._knots[1:] > 0
        q, s, _ = self.coefficients[positive].T
        size = np.abs(q * np.where(np.isfinite(self._knots[:-1]), self._knots[:-1], 0.0)[positive])
        return bool(np.all(s <= rows.MERGE * size)) or bool(self.lower == self.upper)

    def argmin(self) -> tuple[float, float]:
        return self._polyline.zeros()

    def minimum(self) -> float:
        point = self._lowest()
        return -np.inf if point is None else float(self(point))

    def _lowest(self) -> float | None:
        """Return a minimiser, within a flat piece if there is one: its ends are as other pieces round there."""
        lower, upper = self.argmin()
        end = finite_member(lower, upper)
        if end is None or lower == upper:
            return end
        reach = (abs(end) or 1.0) if np.isinf(upper - lower) else (upper - lower) / 2
        return end + reach if end == lower else end - reach

    # -- algebra ------------------------------------------------------------------------------------

    def split(self) -> tuple[PLQ, PLQ]:
        point = self._lowest()
        if point is None:
            falls = self.argmin()[0] > 0
            constant = float(self.coefficients[-1 if falls else 0, 2])
            return (self, PLQ.constant(0.0)) if falls else (PLQ.constant(constant), self - constant)
        falling, rising = rows.parted(self._table, point, float(self(point)))
        return PLQ._on(*falling), PLQ._on(*rising)

    def __add__(self, other: ConvexFunction | float) -> ConvexFunction:
        if isinstance(other, PLQ):
            return self._plus(other)
        if isinstance(other, Real):
            return self._plus(PLQ.constant(number(other, "summand")))
        return super().__add__(other)

    def __sub__(self, other: float) -> PLQ:
        return self._plus(PLQ.constant(-number(other, "constant")))

    def __mul__(self, factor: float) -> PLQ:
        if not isinstance(factor, Real):
            return NotImplemented
        return PLQ(self.breakpoints, self._factor(factor) * self.coefficients, self.lower, self.upper)

    def __rmul__(self, factor: float) -> PLQ:
        return self * factor

    def precompose(self, a: float, b: float = 0.0) -> PLQ:
        a, b = number(a, "slope"), number(b, "shift")
        if a == 0:
            return PLQ.constant(self(b))
        return PLQ._on(*rows.precomposed(self._table, a, b))

    def positive_part(self) -> PLQ:
        """Return max(ρ, 0).

        Examples
        --------
        >>> PLQ.affine(-1, 1).positive_part()
        PLQ(-x + 1 if x <= 1; 0 if x >= 1)
        """
        return self._maximum(PLQ.constant(0.0))

    def absolute(self) -> PLQ:
        """Return |ρ|, for ρ linear on its domain or non-negative.

        A CalculusError if ρ bends and takes negative values: |ρ| is not convex.
        """
        if self._is_nonnegative():
            return self
        if self._is_linear():
            return self._maximum(PLQ._on(self._knots, -self.coefficients))
        raise CalculusError(f"the absolute value of {self!r} is not convex: it is not affine and falls to "
                            f"{self.minimum():g} < 0; take it of an affine or a non-negative function")

    def square(self) -> PLQ:
        """Return ρ², for ρ linear on its domain or piecewise linear and non-negative.

        A CalculusError if ρ² is not convex, or not piecewise quadratic.

        Examples
        --------
        >>> PLQ.affine(-1, 1).positive_part().square()
        PLQ(x^2 - 2 x + 1 if x <= 1; 0 if x >= 1)
        """
        if np.any(self.coefficients[:, 0] > 0):
            raise CalculusError(f"the square of {self!r} is not piecewise quadratic: it has quadratic "
                                "pieces; square a piecewise linear function")
        if not (self._is_linear() or self._is_nonnegative()):
            raise CalculusError(f"the square of {self!r} is not convex: it is not affine and falls to "
                                f"{self.minimum():g} < 0; take its positive part first")
        return PLQ._on(*rows.squared(self._table))

    def isclose(self, other: PLQ, rtol: float = 1e-9) -> bool:
        """Return whether two functions agree, in domain and values, to a relative tolerance."""
        if not np.allclose(self.domain, other.domain, rtol=rtol, atol=rtol):
            return False
        knots = rows.refinement(self._table, other._table)
        # two quadratics that agree at three points are equal
        x = np.concatenate([rows.three_points(a, b) for a, b in pairwise(knots)])
        size = np.maximum(self._evaluation.size(x), other._evaluation.size(x))
        return bool(np.all(np.abs(self(x) - other(x)) <= rtol * np.max(size)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PLQ) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"PLQ({rows.pieces_text(self._knots, self.coefficients)})"

    # -- what forms need ----------------------------------------------------------------------------

    def minimum_with_quadratic(
        self, weight: ArrayLike, curvature: ArrayLike, lower: ArrayLike = -np.inf
    ) -> Any:
        w, k, least = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (weight, curvature, lower)))
        refuse_negative_weights(w)
        best = np.full(w.shape, np.inf)
        for a, b, q, s, c in self.pieces:
            best = np.minimum(best, rows.minimum_on(w * q + k / 2, w * s, w * c, np.maximum(least, a), b))
        point = self._lowest()
        if point is not None:  # the function's own least value, without the rounding of its coefficients
            best = np.where((k == 0) & (least <= point), w * float(self(point)), best)
        return shaped(best)

    def conic(self, cp: Any, x: Any) -> tuple[Any, list[Any]]:
        lo, hi = self.argmin()
        # start where ρ is least: the flat piece if there is one, else a piece that holds the minimiser
        centre = int(np.searchsorted(self.breakpoints, lo, side="right" if lo < hi else "left"))
        return conic_form(cp, x, self.pieces, centre)

    # -- inside -------------------------------------------------------------------------------------

    @frozen_property
    def _knots(self) -> FloatArray:
        return np.concatenate([[self.lower], self.breakpoints, [self.upper]])

    @property
    def _table(self) -> rows.Table:
        return self._knots, self.coefficients

    @cached_property
    def _key(self) -> tuple[float, float, bytes, bytes]:
        return self.lower, self.upper, (self.breakpoints + 0.0).tobytes(), self.coefficients.tobytes()

    @cached_property
    def _evaluation(self) -> Evaluation:
        return Evaluation(self.breakpoints, self.coefficients, self.lower, self.upper)

    @cached_property
    def _polyline(self) -> Polyline:
        return Polyline(self._knots, self.coefficients)

    def _is_linear(self) -> bool:
        return len(self.coefficients) == 1 and bool(self.coefficients[0, 0] == 0)

    def _is_nonnegative(self) -> bool:
        lowest = self.minimum()
        finite = self._knots[np.isfinite(self._knots)]
        return lowest >= -rows.MERGE * float(np.max(self._evaluation.size(finite), initial=0.0))

    def _plus(self, other: PLQ) -> PLQ:
        knots = rows.refinement(self._table, other._table)
        left, right = rows.restricted(self._table, knots), rows.restricted(other._table, knots)
        return PLQ._on(knots, rows.snapped(left + right, np.abs(left) + np.abs(right)))

    def _maximum(self, other: PLQ) -> PLQ:
        knots = rows.refinement(self._table, other._table)
        if knots[0] == knots[-1]:
            return PLQ._on(knots, [[0.0, 0.0, max(self(knots[0]), other(knots[0]))]])
        return PLQ._on(*rows.maximum_on(knots, self._table, other._table))
