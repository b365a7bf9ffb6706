"""Compositions and maxima of convex functions that leave the piecewise quadratic ones, and their conjugates."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from margindsl.calculus import pieces as rows
from margindsl.calculus.plq import PLQ
from margindsl.calculus.protocol import FAR, ConvexFunction, checked_step, shaped
from margindsl.calculus.root import monotone_root
from margindsl.errors import CalculusError
from margindsl.host.frozen import frozen_property
from margindsl.typing import ArrayLike, FloatArray

NEAR = 1e-8  # relative distance over which a slope that jumps is taken to bend
ULPS = 4 * float(np.finfo(float).eps)  # relative distance of the neighbours of a point known to its last digits
INSIDE = 1e-13  # how far, relative to the domain of a conjugate, its ends are approached


def compose(outer: ConvexFunction, inner: ConvexFunction) -> ConvexFunction:
    """Return x ↦ outer(inner(x)) where it is convex.

    An affine inner function may be anything; another one needs an outer function that rises over its values. Two
    piecewise quadratic functions give one, where no square is squared.

    Parameters
    ----------
    outer : ConvexFunction
        Finite everywhere.

    Examples
    --------
    >>> from margindsl.calculus import Logistic, absolute, square
    >>> compose(square(), absolute())
    PLQ(x^2)
    >>> compose(square(), Logistic()).is_nonincreasing
    True
    """
    if isinstance(inner, PLQ) and inner.is_affine:
        (_, slope, shift), = inner.coefficients.tolist()
        return outer.precompose(slope, shift)
    if isinstance(outer, PLQ) and isinstance(inner, PLQ) and not (
            np.any(outer.coefficients[:, 0] > 0) and np.any(inner.coefficients[:, 0] > 0)):
        knots: list[float] = [inner.lower]
        for (a, b), row in zip(pairwise([inner.lower, *inner.breakpoints, inner.upper]), inner.coefficients):
            cuts = [r for t in outer.breakpoints for r in rows.crossings(row - np.array([0.0, 0.0, t]), a, b)]
            knots += [*sorted(cuts), b]
        points = np.array([rows.three_points(a, b) for a, b in pairwise(knots)])  # the inner values may touch a knot
        own = inner.coefficients[np.searchsorted(inner.breakpoints, points[:, 1])]
        values = np.array([rows.values_at(row, three) for row, three in zip(own, points)])
        over = outer.coefficients[np.searchsorted(outer.breakpoints, values).max(axis=1)]
        (q, s, c), (Q, S, C) = over.T, own.T
        table = np.column_stack([q * S * S + s * Q, 2 * q * S * C + s * S, q * C * C + s * C + c])
        return PLQ._on(knots, table)
    try:
        least = inner.minimum()
    except CalculusError:
        least = -np.inf
    rises = outer.is_nondecreasing or (np.isfinite(least) and outer.subdifferential(least)[1] >= 0)
    if not rises or not np.all(np.isinf(outer.domain)):
        raise CalculusError(f"{outer!r} of {inner!r} is not known to be convex: a function of a convex one has to rise "
                            f"over its values, which begin at {least:g}")
    return Composed(outer, inner)


def maximum(first: ConvexFunction, second: ConvexFunction) -> ConvexFunction:
    """Return max(first, second), its piecewise quadratic members gathered into one.

    Examples
    --------
    >>> from margindsl.calculus import Logistic
    >>> loss = maximum(Logistic(), PLQ.affine(-1.0, 1.0))
    >>> loss(0.0), loss.is_nonincreasing
    (1.0, True)
    """
    terms: list[ConvexFunction] = []
    quadratic: PLQ | None = None
    for function in (first, second):
        for term in function.terms if isinstance(function, Largest) else (function,):
            if isinstance(term, PLQ):
                quadratic = term if quadratic is None else quadratic._maximum(term)
            elif term not in terms:  # max(f, f) is f
                terms.append(term)
    if quadratic is not None:
        terms.append(quadratic)  # last, where `Largest` looks for it
    return terms[0] if len(terms) == 1 else Largest(tuple(terms))


class Compound(ConvexFunction):
    """Share what compositions and maxima have in common: slopes that jump."""

    def derivative(self, x: ArrayLike) -> Any:
        lo, hi = self.subdifferential(x)
        return shaped(np.where(np.isfinite(hi) | (np.asarray(hi) < lo), hi, lo))

    def prox_derivative(self, x: ArrayLike, step: ArrayLike = 1.0) -> Any:
        near = np.asarray(self.prox(x, step))
        reach = NEAR * (1.0 + np.abs(near))  # a kink within reach holds the prox fast, though rounding ends beside it
        bend = (np.asarray(self.derivative(near + reach)) - self.derivative(near - reach)) / (2 * reach)
        return shaped(1.0 / (1.0 + checked_step(step) * bend))


@dataclass(frozen=True)
class Composed(Compound):
    """Represent x ↦ outer(inner(x)), outer rising over the values of inner."""

    outer: ConvexFunction
    inner: ConvexFunction

    @property
    def domain(self) -> tuple[float, float]:
        return self.inner.domain

    def __call__(self, x: ArrayLike) -> Any:
        return self.outer(self.inner(x))

    def derivative(self, x: ArrayLike) -> Any:
        return self.value_and_derivative(x)[1]

    def value_and_derivative(self, x: ArrayLike) -> tuple[Any, Any]:
        value, slope = self.inner.value_and_derivative(x)
        slope = np.asarray(slope)
        left, right = (np.maximum(end, 0.0) for end in self.outer.subdifferential(value))
        with np.errstate(invalid="ignore"):
            inside = np.where(slope < 0, left, right) * slope
        return self.outer(value), shaped(np.where(np.isfinite(slope), inside, slope))

    def subdifferential(self, x: ArrayLike) -> tuple[Any, Any]:
        low, high = map(np.asarray, self.inner.subdifferential(x))
        left, right = (np.maximum(slope, 0.0) for slope in self.outer.subdifferential(self.inner(x)))
        with np.errstate(invalid="ignore"):
            lo, hi = np.where(low < 0, right * low, left * low), np.where(high > 0, right * high, left * high)
        return shaped(np.where(low > high, low, lo)), shaped(np.where(low > high, high, hi))

    def curvature(self, x: ArrayLike) -> Any:
        value, slope = self.inner.value_and_derivative(x)
        bend = self.outer.curvature(value) * np.square(slope)
        return shaped(bend + np.maximum(self.outer.derivative(value), 0.0) * self.inner.curvature(x))

    @property
    def is_nonincreasing(self) -> bool:
        return self.inner.is_nonincreasing

    @property
    def is_nondecreasing(self) -> bool:
        return self.inner.is_nondecreasing

    def minimum(self) -> float:
        return float(self.outer(self.inner.minimum()))

    def conic(self, cp: Any, x: Any) -> tuple[Any, list[Any]]:
        expression, constraints = self.inner.conic(cp, x)
        height = cp.Variable(x.shape)
        above, more = self.outer.conic(cp, height)
        return above, [*constraints, *more, expression <= height]


@dataclass(frozen=True)
class Joined(ConvexFunction):
    """Represent a function of several terms at one point, which rises, falls and is finite where all of them do."""

    terms: tuple[ConvexFunction, ...]

    @property
    def domain(self) -> tuple[float, float]:
        lowers, uppers = zip(*(term.domain for term in self.terms))
        return max(lowers), min(uppers)

    @property
    def is_nonincreasing(self) -> bool:
        return all(term.is_nonincreasing for term in self.terms)

    @property
    def is_nondecreasing(self) -> bool:
        return all(term.is_nondecreasing for term in self.terms)


@dataclass(frozen=True)
class Largest(Joined, Compound):
    """Represent max_k ρ_k(x), of which at most one, the last, is piecewise quadratic."""

    def __call__(self, x: ArrayLike) -> Any:
        return shaped(np.max([np.asarray(term(x)) for term in self.terms], axis=0))

    def subdifferential(self, x: ArrayLike) -> tuple[Any, Any]:
        values, (lows, highs) = self._table(x)
        active = values == values.max(axis=0)
        return (shaped(np.where(active, lows, np.inf).min(axis=0)),
                shaped(np.where(active, highs, -np.inf).max(axis=0)))

    def curvature(self, x: ArrayLike) -> Any:
        values, (_, highs) = self._table(x)
        first = np.where(values == values.max(axis=0), highs, -np.inf).argmax(axis=0)
        bends = np.array([np.asarray(term.curvature(x)) for term in self.terms])
        return shaped(np.take_along_axis(bends, first[None], axis=0)[0])

    def _table(self, x: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return values and ends of the subdifferential of every term, terms first."""
        ends = [term.subdifferential(x) for term in self.terms]
        return np.array([np.asarray(term(x)) for term in self.terms]), np.array(
            [[np.asarray(end[side]) for end in ends] for side in (0, 1)])

    def minimum(self) -> float:
        if self.is_nonincreasing or self.is_nondecreasing:  # all fall towards the same end
            return float(max(term.minimum() for term in self.terms))
        return super().minimum()

    def conic(self, cp: Any, x: Any) -> tuple[Any, list[Any]]:
        height, constraints = cp.Variable(x.shape), []
        for term in self.terms:
            expression, more = term.conic(cp, x)
            constraints += [*more, expression <= height]
        return height, constraints


@dataclass(frozen=True)
class Conjugate(ConvexFunction):
    """Represent ρ*(u) = sup_x u x − ρ(x) by the x that attains it, found to the last digits."""

    base: ConvexFunction

    @frozen_property
    def domain(self) -> tuple[float, float]:
        lower, upper = self.base.domain
        return (-np.inf if np.isfinite(lower) else _end_slope(self.base, -1.0),
                np.inf if np.isfinite(upper) else _end_slope(self.base, 1.0))

    def __call__(self, u: ArrayLike) -> Any:
        u = np.asarray(u, dtype=float)
        lower, upper = self.domain
        x = self._attained(u)
        near = np.stack([x, *(np.clip(x + side * ULPS * np.abs(x), *self.base.domain) for side in (-1, 1))])
        # the two sides of a kink are rounded in two ways, and one of them often is exact
        value = np.max(u * near - self.base(near), axis=0)
        return shaped(np.where((u < lower) | (u > upper), np.inf, value))

    def derivative(self, u: ArrayLike) -> Any:
        u = np.asarray(u, dtype=float)
        lower, upper = self.domain
        return shaped(np.where(u < lower, -np.inf, np.where(u > upper, np.inf, self._attained(u))))

    def curvature(self, u: ArrayLike) -> Any:
        bend = np.asarray(self.base.curvature(self._attained(np.asarray(u, dtype=float))))
        return shaped(np.divide(1.0, bend, out=np.zeros_like(bend), where=bend > 0))

    def conjugate(self) -> ConvexFunction:
        return self.base

    def prox(self, x: ArrayLike, step: ArrayLike = 1.0) -> Any:
        x, step = np.asarray(x, dtype=float), checked_step(step)  # Moreau
        return shaped(x - step * np.asarray(self.base.prox(x / step, 1.0 / step)))

    def conic(self, cp: Any, x: Any) -> tuple[Any, list[Any]]:
        raise CalculusError(f"the conjugate of {self.base!r} has no conic form; use a piecewise linear-quadratic loss")

    def _attained(self, u: FloatArray) -> FloatArray:
        lower, upper = self.domain
        slack = INSIDE * (upper - lower if np.isfinite(upper - lower) else 1.0)
        return monotone_root(self.base, np.clip(u, lower + slack, upper - slack), None)


def _end_slope(function: ConvexFunction, side: float) -> float:
    """Return lim ρ'(x) for x → ±∞."""
    near, far = (float(function.derivative(side * x)) for x in (FAR / 1000, FAR))
    return side * np.inf if abs(far) > 10 * abs(near) + 1 else far
