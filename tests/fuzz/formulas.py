"""Loss formulas told three ways: in the language, in plain numpy, and as rows of a conic program.

The first is what the library gets. The other two are read off the formula here and know nothing of the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from conic import Builder, Rows


@dataclass
class Margins:
    """Represent what a formula is evaluated at: margins at chosen points, and the shared scalars."""

    g: Any
    index: np.ndarray
    scalars: Sequence[Any]
    md: Any = None
    number: Any = float  # how a number is handed to the language: as it is, or as a parameter


def at(value: Any, index: np.ndarray) -> Any:
    """Return a number as it is and the chosen entries of an array."""
    return value[index] if isinstance(value, np.ndarray) else value


class Formula:
    """Represent a convex function of margins, entry by entry."""

    nonnegative = False
    falling = False

    def value(self, e: Margins) -> np.ndarray:
        raise NotImplementedError

    def expression(self, e: Margins) -> Any:
        raise NotImplementedError

    def rows(self, e: Margins, b: Builder) -> Rows:
        """Return rows whose least value, over what the builder adds, is the formula."""
        raise NotImplementedError


@dataclass
class Affine(Formula):
    """Represent slope · g + shift + Σ coupling · s."""

    slope: Any = 1.0
    shift: Any = 0.0
    coupling: tuple[tuple[int, float], ...] = ()

    @property
    def falling(self) -> bool:  # type: ignore[override]
        return bool(np.all(np.asarray(self.slope) <= 0))

    def value(self, e: Margins) -> np.ndarray:
        out = at(self.slope, e.index) * e.g + at(self.shift, e.index)
        for s, c in self.coupling:
            out = out + c * e.scalars[s]
        return out

    def expression(self, e: Margins) -> Any:
        slope, shift = at(self.slope, e.index), at(self.shift, e.index)
        whole = not isinstance(slope, np.ndarray)
        if whole and slope == -1 and not isinstance(shift, np.ndarray) and shift != 0 and not self.coupling:
            return e.number(shift) - e.g
        out = e.g if whole and slope == 1 else -e.g if whole and slope == -1 else slope * e.g
        if isinstance(shift, np.ndarray) or shift != 0:
            out = out + shift
        for s, c in self.coupling:
            out = out + c * e.scalars[s]
        return out

    def rows(self, e: Margins, b: Builder) -> Rows:
        out = e.g.times(at(self.slope, e.index)).plus(Rows(np.zeros(len(e.index)) + at(self.shift, e.index)))
        for s, c in self.coupling:
            out = out.plus(b.scalar(s, len(e.index)).times(c))
        return out


@dataclass
class Pos(Formula):
    inner: Formula
    nonnegative = True

    @property
    def falling(self) -> bool:  # type: ignore[override]
        return self.inner.falling

    def value(self, e: Margins) -> np.ndarray:
        return np.maximum(self.inner.value(e), 0.0)

    def expression(self, e: Margins) -> Any:
        return e.md.pos(self.inner.expression(e))

    def rows(self, e: Margins, b: Builder) -> Rows:
        z = b.new(len(e.index))
        b.at_least(z, b.plain(self.inner.rows(e, b)))
        b.at_least(z, Rows(np.zeros(len(e.index))))
        return z


@dataclass
class Abs(Formula):
    """Represent the modulus of an affine function, or of a convex one that is nowhere negative."""

    inner: Formula
    negated: bool = False
    nonnegative = True

    @property
    def falling(self) -> bool:  # type: ignore[override]
        return not isinstance(self.inner, Affine) and self.inner.falling

    def value(self, e: Margins) -> np.ndarray:
        return np.abs(self.inner.value(e))

    def expression(self, e: Margins) -> Any:
        inner = self.inner.expression(e)
        return abs(-inner) if self.negated else abs(inner)

    def rows(self, e: Margins, b: Builder) -> Rows:
        inner = self.inner.rows(e, b)
        if not isinstance(self.inner, Affine):
            return inner
        z = b.new(len(e.index))
        b.at_least(z, inner)
        b.at_least(z, inner.times(-1.0))
        return z


@dataclass
class Square(Formula):
    """Represent the square of an affine function, or of a convex one that is nowhere negative."""

    inner: Formula
    power: bool = True
    nonnegative = True

    @property
    def falling(self) -> bool:  # type: ignore[override]
        return not isinstance(self.inner, Affine) and self.inner.falling

    def value(self, e: Margins) -> np.ndarray:
        return self.inner.value(e) ** 2

    def expression(self, e: Margins) -> Any:
        inner = self.inner.expression(e)
        return inner**2 if self.power else e.md.square(inner)

    def rows(self, e: Margins, b: Builder) -> Rows:
        inner = b.plain(self.inner.rows(e, b))
        v = b.new(len(e.index))
        if isinstance(self.inner, Affine):
            b.equal(v, inner)
        else:
            b.at_least(v, inner)
            b.at_least(v, Rows(np.zeros(len(e.index))))
        return v.squared()


@dataclass
class Maximum(Formula):
    inner: tuple[Formula, ...]

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        return any(f.nonnegative for f in self.inner)

    @property
    def falling(self) -> bool:  # type: ignore[override]
        return all(f.falling for f in self.inner)

    def value(self, e: Margins) -> np.ndarray:
        return np.max([np.broadcast_to(f.value(e), (len(e.index),)) for f in self.inner], axis=0)

    def expression(self, e: Margins) -> Any:
        return e.md.maximum(*(f.expression(e) for f in self.inner))

    def rows(self, e: Margins, b: Builder) -> Rows:
        z = b.new(len(e.index))
        for f in self.inner:
            b.at_least(z, b.plain(f.rows(e, b)))
        return z


@dataclass
class Constant(Formula):
    number: float = 0.0
    falling = True

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        return self.number >= 0

    def value(self, e: Margins) -> np.ndarray:
        return np.full(len(e.index), self.number)

    def expression(self, e: Margins) -> Any:
        return self.number

    def rows(self, e: Margins, b: Builder) -> Rows:
        return Rows(np.full(len(e.index), self.number))


@dataclass
class Huber(Formula):
    inner: Affine
    threshold: float
    nonnegative = True

    def value(self, e: Margins) -> np.ndarray:
        x, m = np.abs(self.inner.value(e)), self.threshold
        return np.where(x <= m, x**2, 2 * m * x - m**2)

    def expression(self, e: Margins) -> Any:
        return e.md.huber(self.inner.expression(e), self.threshold)

    def rows(self, e: Margins, b: Builder) -> Rows:
        m = len(e.index)
        u, v, a = b.new(m), b.new(m), b.new(m)
        b.equal(u.plus(v), self.inner.rows(e, b))
        b.at_least(a, v)
        b.at_least(a, v.times(-1.0))
        return u.squared().plus(a.times(2 * self.threshold))


@dataclass
class Logistic(Formula):
    inner: Affine
    nonnegative = True

    @property
    def falling(self) -> bool:  # type: ignore[override]
        return self.inner.falling

    def value(self, e: Margins) -> np.ndarray:
        return np.logaddexp(0.0, self.inner.value(e))

    def expression(self, e: Margins) -> Any:
        return e.md.logistic(self.inner.expression(e))

    def rows(self, e: Margins, b: Builder) -> Rows:
        m = len(e.index)
        z, p, q = b.new(m), b.new(m), b.new(m)
        b.exponential(p, self.inner.rows(e, b).plus(z.times(-1.0)))
        b.exponential(q, z.times(-1.0))
        b.at_least(Rows(np.ones(m)), p.plus(q))
        return z


@dataclass
class Pieces(Formula):
    """Represent q x² + s x + c piece by piece; `ends` are the inner breakpoints, the rest follows from one value."""

    inner: Affine
    ends: tuple[float, ...]
    table: tuple[tuple[float, float, float], ...]

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        return False

    @property
    def falling(self) -> bool:  # type: ignore[override]
        q, s, _ = self.table[-1]
        return not self.inner.falling and q == 0 and s <= 0

    def value(self, e: Margins) -> np.ndarray:
        x = self.inner.value(e)
        piece = np.searchsorted(np.array(self.ends), x)
        q, s, c = np.array(self.table)[piece].T
        return q * x**2 + s * x + c

    def expression(self, e: Margins) -> Any:
        return e.md.plq(list(zip((*self.ends, np.inf), self.table)), self.inner.expression(e))

    def rows(self, e: Margins, b: Builder) -> Rows:
        m, x = len(e.index), self.inner.rows(e, b)
        if not self.ends:
            q, s, c = self.table[0]
            v = b.new(m)
            b.equal(v, x)
            return v.squared().times(q).plus(v.times(s)).plus(Rows(np.full(m, c)))
        zero, first = Rows(np.zeros(m)), self.ends[0]
        q, s, c = self.table[0]
        cost = Rows(np.full(m, q * first**2 + s * first + c))
        left = b.new(m)
        b.at_least(left, zero)
        cost = cost.plus(left.squared().times(q)).plus(left.times(-(2 * q * first + s)))
        position = Rows(np.full(m, first)).plus(left.times(-1.0))
        for k, start in enumerate(self.ends):
            q, s, _ = self.table[k + 1]
            step = b.new(m)
            b.at_least(step, zero)
            if k + 1 < len(self.ends):
                b.at_least(Rows(np.full(m, self.ends[k + 1] - start)), step)
            cost = cost.plus(step.squared().times(q)).plus(step.times(2 * q * start + s))
            position = position.plus(step)
        b.equal(position, x)
        return cost


@dataclass
class Sum(Formula):
    """Represent a weighted sum, weights numbers or one a point, none negative."""

    inner: tuple[Formula, ...]
    weights: tuple[Any, ...]
    divide: bool = False

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        return all(f.nonnegative for f in self.inner)

    @property
    def falling(self) -> bool:  # type: ignore[override]
        return all(f.falling for f in self.inner)

    def value(self, e: Margins) -> np.ndarray:
        return sum(at(c, e.index) * f.value(e) for c, f in zip(self.weights, self.inner))

    def expression(self, e: Margins) -> Any:
        out = None
        for c, f in zip(self.weights, self.inner):
            c, inner = at(c, e.index), f.expression(e)
            if isinstance(c, np.ndarray):
                part = c * inner
            else:
                part = inner if c == 1 else inner / (1 / c) if self.divide and c != 0 else e.number(c) * inner
            out = part if out is None else out + part
        return out

    def rows(self, e: Margins, b: Builder) -> Rows:
        out = Rows(np.zeros(len(e.index)))
        for c, f in zip(self.weights, self.inner):
            out = out.plus(f.rows(e, b).times(at(c, e.index)))
        return out


@dataclass
class Named(Formula):
    """Represent a loss the language has a word for, with the formula its page gives."""

    word: str
    arguments: tuple[float, ...]
    meaning: Formula
    argument: Affine

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        return self.meaning.nonnegative

    @property
    def falling(self) -> bool:  # type: ignore[override]
        return self.meaning.falling

    def value(self, e: Margins) -> np.ndarray:
        return self.meaning.value(e)

    def expression(self, e: Margins) -> Any:
        return getattr(e.md, self.word)(self.argument.expression(e), *map(e.number, self.arguments))

    def rows(self, e: Margins, b: Builder) -> Rows:
        return self.meaning.rows(e, b)


def below(argument: Affine, end: float) -> Affine:
    """Return end − argument."""
    return Affine(-np.asarray(argument.slope) if isinstance(argument.slope, np.ndarray) else -argument.slope,
                  end - argument.shift, tuple((s, -c) for s, c in argument.coupling))


def hinge(g: Affine) -> Named:
    return Named("hinge", (), Pos(below(g, 1.0)), g)


def squared_hinge(g: Affine) -> Named:
    return Named("squared_hinge", (), Square(Pos(below(g, 1.0))), g)


def odm(g: Affine, nu: float, theta: float) -> Named:
    over = Affine(g.slope, g.shift - 1 - theta, g.coupling)
    unit = 1 / (1 - theta) ** 2
    return Named("odm", (nu, theta), Sum((Square(Pos(below(g, 1 - theta))), Square(Pos(over))), (unit, nu * unit)), g)


def epsilon_insensitive(g: Affine, eps: float) -> Named:
    return Named("epsilon_insensitive", (eps,), Pos(Sum((Abs(below(g, 1.0)), Constant(-eps)), (1.0, 1.0))), g)
