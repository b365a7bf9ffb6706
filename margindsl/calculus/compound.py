"""Sums, multiples, affine compositions and envelopes of functions that are not piecewise quadratic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.calculus.composed import Conjugate, Joined
from margindsl.calculus.plq import PLQ
from margindsl.calculus.protocol import OPERATIONS, ConvexFunction, checked_step, shaped
from margindsl.typing import ArrayLike


def scale(base: ConvexFunction, factor: float) -> ConvexFunction:
    """Return factor·base for a factor ≥ 0."""
    return PLQ.indicator(*base.domain) if factor == 0 else affine(base, factor, 1.0, 0.0)


def precompose(base: ConvexFunction, a: float, b: float) -> ConvexFunction:
    """Return x ↦ base(a x + b)."""
    return PLQ.constant(base(b)) if a == 0 else affine(base, 1.0, a, b)


def affine(base: ConvexFunction, factor: float, a: float, b: float) -> ConvexFunction:
    """Return x ↦ factor·base(a x + b)."""
    if isinstance(base, Affine):
        return affine(base.base, base.factor * factor, base.a * a, base.a * b + base.b)
    return base if (factor, a, b) == (1, 1, 0) else Affine(base, factor, a, b)


def add(f: ConvexFunction, g: ConvexFunction | float) -> ConvexFunction:
    """Return f + g, its piecewise quadratic summands gathered into one."""
    terms: list[ConvexFunction] = []
    regular = PLQ.constant(0.0)
    for h in (f, g if isinstance(g, ConvexFunction) else PLQ.constant(g)):
        for term in h.terms if isinstance(h, Summed) else (h,):
            if isinstance(term, PLQ):
                regular = regular._plus(term)
            else:
                terms.append(term)
    if regular != PLQ.constant(0.0):
        terms.append(regular)
    if not terms:
        return regular
    return terms[0] if len(terms) == 1 else Summed(tuple(terms))


@dataclass(frozen=True)
class Affine(ConvexFunction):
    """Represent x ↦ factor·ρ(a x + b) with factor > 0 and a ≠ 0."""

    base: ConvexFunction
    factor: float
    a: float
    b: float

    @property
    def domain(self) -> tuple[float, float]:
        return self._ends(*self.base.domain)

    def __call__(self, x: ArrayLike) -> Any:
        return self.factor * self.base(self._inner(x))

    def derivative(self, x: ArrayLike) -> Any:
        slope = self.factor * self.a
        if self.a > 0 or self.base.is_smooth:
            return slope * self.base.derivative(self._inner(x))
        # the right derivative comes from the left one of ρ
        lo, hi = self.subdifferential(x)
        found = np.where(np.isfinite(hi) | (hi < lo), hi, lo)
        inside = slope * np.asarray(self.base.derivative(self._inner(x)))
        return shaped(np.where(np.isfinite(found), found, inside))

    def value_and_derivative(self, x: ArrayLike) -> tuple[Any, Any]:
        if self.a < 0 and not self.base.is_smooth:
            return self(x), self.derivative(x)
        value, slope = self.base.value_and_derivative(self._inner(x))
        return self.factor * value, self.factor * self.a * slope

    def subdifferential(self, x: ArrayLike) -> tuple[Any, Any]:
        slope, (lo, hi) = self.factor * self.a, self.base.subdifferential(self._inner(x))
        if slope > 0:
            return slope * lo, slope * hi
        empty = np.asarray(lo) > np.asarray(hi)
        return (shaped(np.where(empty, np.inf, slope * np.asarray(hi))),
                shaped(np.where(empty, -np.inf, slope * np.asarray(lo))))

    def curvature(self, x: ArrayLike) -> Any:
        return self.factor * self.a**2 * self.base.curvature(self._inner(x))

    def conjugate(self) -> ConvexFunction:
        # c ρ*(u/(c a)) − b u/a
        found = affine(self.base.conjugate(), self.factor, 1 / (self.factor * self.a), 0.0)
        return found + PLQ.affine(-self.b / self.a) if self.b else found

    def unshifted(self) -> tuple[ConvexFunction, float]:
        return affine(self.base, self.factor, self.a, 0.0), self.b / self.a

    def prox(self, x: ArrayLike, step: ArrayLike = 1.0) -> Any:
        return (self.base.prox(self._inner(x), checked_step(step) * self.factor * self.a**2) - self.b) / self.a

    @property
    def smoothness(self) -> float:
        return self.factor * self.a**2 * self.base.smoothness

    @property
    def is_affine(self) -> bool:
        return self.base.is_affine

    @property
    def is_solved_apart(self) -> bool:
        return self.base.is_solved_apart

    @property
    def is_root_convex(self) -> bool:
        return super().is_root_convex or (self.a > 0 and self.b == 0 and self.base.is_root_convex)

    @property
    def is_nonincreasing(self) -> bool:
        return self.base.is_nonincreasing if self.a > 0 else self.base.is_nondecreasing

    @property
    def is_nondecreasing(self) -> bool:
        return self.base.is_nondecreasing if self.a > 0 else self.base.is_nonincreasing

    def argmin(self) -> tuple[float, float]:
        return self._ends(*self.base.argmin())

    def minimum(self) -> float:
        return self.factor * self.base.minimum()

    def atoms(self) -> tuple[tuple[float, float, float, ConvexFunction], ...]:
        return tuple((self.factor * c, a * self.a, a * self.b + b, base) for c, a, b, base in self.base.atoms())

    def split(self) -> tuple[ConvexFunction, ConvexFunction]:
        down, up = (part.precompose(self.a, self.b) * self.factor for part in self.base.split())
        return (down, up) if self.a > 0 else (up, down)

    def minimum_with_quadratic(self, weight: ArrayLike, curvature: ArrayLike, lower: ArrayLike = -np.inf) -> Any:
        if (self.a, self.b) != (1, 0):
            return super().minimum_with_quadratic(weight, curvature, lower)
        return self.base.minimum_with_quadratic(np.asarray(weight) * self.factor, curvature, lower)

    def conic(self, cp: Any, x: Any) -> tuple[Any, list[Any]]:
        expression, constraints = self.base.conic(cp, x if (self.a, self.b) == (1, 0) else self.a * x + self.b)
        return expression if self.factor == 1 else self.factor * expression, constraints

    def _inner(self, x: ArrayLike) -> Any:
        return self.a * np.asarray(x, dtype=float) + self.b

    def _ends(self, lower: float, upper: float) -> tuple[float, float]:
        ends = (lower - self.b) / self.a, (upper - self.b) / self.a
        return ends if self.a > 0 else ends[::-1]


@dataclass(frozen=True)
class Summed(Joined):
    """Represent a sum Σ ρ_k in which at most one summand, the last, is piecewise quadratic."""

    def __call__(self, x: ArrayLike) -> Any:
        return shaped(sum(np.asarray(term(x)) for term in self.terms))

    def derivative(self, x: ArrayLike) -> Any:
        return self.value_and_derivative(x)[1]

    def value_and_derivative(self, x: ArrayLike) -> tuple[Any, Any]:
        x = np.asarray(x, dtype=float)
        lower, upper = self.domain
        if lower == -np.inf and upper == np.inf:
            value, slope = (sum(map(np.asarray, parts)) for parts in zip(
                *(term.value_and_derivative(x) for term in self.terms)))
            return shaped(value), shaped(slope)
        total = sum(np.asarray(term.derivative(np.clip(x, lower, upper))) for term in self.terms)
        return self(x), shaped(np.where(x < lower, -np.inf, np.where(x > upper, np.inf, total)))

    def subdifferential(self, x: ArrayLike) -> tuple[Any, Any]:
        ends = [term.subdifferential(x) for term in self.terms]
        empty = np.any([np.asarray(lo) > np.asarray(hi) for lo, hi in ends], axis=0)
        lo = sum(np.where(empty, np.inf, lo) for lo, _ in ends)
        hi = sum(np.where(empty, -np.inf, hi) for _, hi in ends)
        return shaped(lo), shaped(hi)

    def curvature(self, x: ArrayLike) -> Any:
        return shaped(sum(np.asarray(term.curvature(x)) for term in self.terms))

    @property
    def is_solved_apart(self) -> bool:
        return self._quadratic is None or any(term.is_solved_apart for term in self.terms[:-1]) or (
            len(self.terms) > 2)

    def conjugate(self) -> ConvexFunction:
        if self.is_solved_apart or self._quadratic is None:
            return super().conjugate()
        # (f + q x² + s x + c)*(u) = envelope of f* with step 2q, at u − s, minus c
        (q, s, c), conjugate = self._quadratic, self.terms[0].conjugate()
        return (conjugate.envelope(2 * q) if q else conjugate).precompose(1.0, -s) + (-c)

    def prox(self, x: ArrayLike, step: ArrayLike = 1.0) -> Any:
        if self._quadratic is None or len(self.terms) > 2:
            return super().prox(x, step)
        (q, s, _), step = self._quadratic, checked_step(step)
        shrunk = 1.0 + 2.0 * q * step
        return self.terms[0].prox((np.asarray(x) - step * s) / shrunk, step / shrunk)

    @property
    def _quadratic(self) -> tuple[float, float, float] | None:
        """Return q, s, c where the last summand is q x² + s x + c."""
        last = self.terms[-1]
        one = isinstance(last, PLQ) and len(last.pieces) == 1 and bool(np.all(np.isinf(last.domain)))
        return last.pieces[0][2:] if one and isinstance(last, PLQ) else None

    @property
    def smoothness(self) -> float:
        return float(sum(term.smoothness for term in self.terms))

    @property
    def is_affine(self) -> bool:
        return all(term.is_affine for term in self.terms)

    @property
    def is_root_convex(self) -> bool:
        return all(term.is_root_convex for term in self.terms)

    def argmin(self) -> tuple[float, float]:
        if self.is_nonincreasing:
            # a minimiser of a nonincreasing sum minimises every summand
            return max(term.argmin()[0] for term in self.terms), np.inf
        if self.is_nondecreasing:
            return -np.inf, min(term.argmin()[1] for term in self.terms)
        return super().argmin()

    def minimum(self) -> float:
        if self.is_nonincreasing or self.is_nondecreasing:
            # all fall towards the same end, so the infima add
            return float(sum(term.minimum() for term in self.terms))
        return super().minimum()

    def atoms(self) -> tuple[tuple[float, float, float, ConvexFunction], ...]:
        return tuple(atom for term in self.terms for atom in term.atoms())

    def split(self) -> tuple[ConvexFunction, ConvexFunction]:
        downs, ups = zip(*(term.split() for term in self.terms))
        down, up = downs[0], ups[0]
        for more, further in zip(downs[1:], ups[1:]):
            down, up = down + more, up + further
        return down, up

    def conic(self, cp: Any, x: Any) -> tuple[Any, list[Any]]:
        forms = [term.conic(cp, x) for term in self.terms]
        return sum(expression for expression, _ in forms), [one for _, many in forms for one in many]


@dataclass(frozen=True)
class Envelope(ConvexFunction):
    """Represent the Moreau envelope x ↦ min_v ρ(v) + (v − x)²/(2 step); it falls, rises and is least where ρ does."""

    base: ConvexFunction
    step: float

    @property
    def domain(self) -> tuple[float, float]:
        return -np.inf, np.inf

    def __call__(self, x: ArrayLike) -> Any:
        near = self.base.prox(x, self.step)
        return shaped(np.asarray(self.base(near)) + (near - np.asarray(x)) ** 2 / (2 * self.step))

    def derivative(self, x: ArrayLike) -> Any:
        return shaped((np.asarray(x) - self.base.prox(x, self.step)) / self.step)

    def curvature(self, x: ArrayLike) -> Any:
        return shaped((1 - np.asarray(self.base.prox_derivative(x, self.step))) / self.step)

    def conjugate(self) -> ConvexFunction:
        return self.base.conjugate() + PLQ([], [[self.step / 2, 0.0, 0.0]])

    def prox(self, x: ArrayLike, step: ArrayLike = 1.0) -> Any:
        x, step = np.asarray(x, dtype=float), checked_step(step)
        total = step + self.step
        return shaped(x + step / total * (self.base.prox(x, total) - x))

    def envelope(self, step: float) -> ConvexFunction:
        return self.base.envelope(float(checked_step(step)) + self.step)

    @property
    def smoothness(self) -> float:
        return 1 / self.step

    @property
    def is_nonincreasing(self) -> bool:
        return self.base.is_nonincreasing

    @property
    def is_nondecreasing(self) -> bool:
        return self.base.is_nondecreasing

    @property
    def is_solved_apart(self) -> bool:
        return self.base.is_solved_apart

    def argmin(self) -> tuple[float, float]:
        return self.base.argmin()

    def minimum(self) -> float:
        return self.base.minimum()

    def conic(self, cp: Any, x: Any) -> tuple[Any, list[Any]]:
        near = cp.Variable(x.shape)
        gap = cp.Variable(x.shape)
        expression, constraints = self.base.conic(cp, near)
        return expression + cp.square(gap) / (2 * self.step), [*constraints, gap == x - near]


OPERATIONS.update(sum=add, multiple=scale, composition=precompose, constant=PLQ.constant, envelope=Envelope,
                  conjugate=Conjugate)
