"""Lower entrywise formulas to sums of one-dimensional convex functions of affine arguments."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from margindsl.calculus import PLQ, ConvexFunction
from margindsl.calculus import absolute as absolute_function
from margindsl.calculus import pos as pos_function
from margindsl.calculus import square as square_function
from margindsl.calculus.accuracy import without_rounding
from margindsl.calculus.composed import compose, maximum
from margindsl.errors import CalculusError
from margindsl.language import grammar
from margindsl.language.atoms import Curve, Mean, Total, Variance
from margindsl.language.decisions import DecisionRows
from margindsl.language.entries import constant_value
from margindsl.language.expressions import (
    Absolute,
    ByLabel,
    Expression,
    Index,
    Maximum,
    Negation,
    PositivePart,
    Product,
    Quotient,
    Square,
    Sum,
    Transformed,
    Truncated,
)
from margindsl.language.margins import Hyperplane, Labels, Margin
from margindsl.language.rows import OfLabel, Ramp
from margindsl.language.symbols import Named, Scalar
from margindsl.typing import FloatArray, IntArray

Coefficient = float | FloatArray


class PointwiseParameters(Exception):
    """Signal that arrays stand where only numbers can be merged; the caller groups the points."""


@dataclass(frozen=True, eq=False)
class Affine:
    """Represent a γ + Σ_s b_s s + d entry by entry; coefficients are numbers or (m,) arrays.

    `points` are the m margins, or decision values, that enter (None without any). `sizes` holds the sums of the sizes
    of what was added up, None where nothing was: coefficients that cancel are zero.
    """

    slope: Coefficient = 0.0
    shift: Coefficient = 0.0
    coupling: dict[Scalar, Coefficient] = field(default_factory=dict)
    points: DecisionRows | None = None
    sizes: Affine | None = None
    turn: Coefficient = 0.0  # beside a margin, of the decision value: of a loss by label

    @property
    def is_constant(self) -> bool:
        """Return whether neither margin nor scalar occurs."""
        return is_zero(self.slope) and all(is_zero(c) for c in self.coupling.values())

    def times(self, factor: Coefficient) -> Affine:
        """Return the affine function times a number or array."""
        coupling = {s: c * factor for s, c in self.coupling.items()}
        sizes = None if self.sizes is None else self.sizes.times(_size(factor))
        return Affine(self.slope * factor, self.shift * factor, coupling, self.points, sizes)

    def plus(self, other: Affine, at: Expression) -> Affine:
        """Return the sum of two affine functions, without what rounding leaves of coefficients."""
        sizes = self._sized()._added(other._sized())
        total = self._added(other)
        entering = [a for a in (self, other) if a.points is not None and not is_zero(a.slope)]
        points = entering[0].points if entering else self.points or other.points
        if len(entering) == 2 and not points.is_same(other.points):  # type: ignore[union-attr, arg-type]
            if not (_same_labels(points, other.points) and points.is_linear):  # type: ignore[union-attr]
                raise grammar.ONE_MARGIN.broken_by(at)
            unit, points = points.plus(self.slope, other.points, other.slope)  # type: ignore[union-attr, arg-type]
            total, sizes = replace(total, slope=unit), replace(sizes, slope=abs(unit))
        coupling = {s: _kept(c, sizes.coupling[s]) for s, c in total.coupling.items()}
        return Affine(_kept(total.slope, sizes.slope), _kept(total.shift, sizes.shift), coupling, points, sizes)

    def _added(self, other: Affine) -> Affine:
        coupling = {s: self.coupling.get(s, 0.0) + other.coupling.get(s, 0.0)
                    for s in dict.fromkeys((*self.coupling, *other.coupling))}
        return Affine(self.slope + other.slope, self.shift + other.shift, coupling)

    def _sized(self) -> Affine:
        coupling = {s: _size(c) for s, c in self.coupling.items()}
        return self.sizes or Affine(_size(self.slope), _size(self.shift), coupling)

    def direction(self) -> dict[Scalar | None, float]:
        """Return the non-zero coefficients of margin (key None) and scalars, numbers only."""
        if any(isinstance(c, np.ndarray) for c in (self.slope, self.shift, *self.coupling.values())):
            raise PointwiseParameters
        entries: dict[Scalar | None, float] = {None: float(self.slope)}
        entries.update({s: float(c) for s, c in self.coupling.items()})
        return {key: value for key, value in entries.items() if value != 0.0}


@dataclass(frozen=True, eq=False)
class Piece:
    """Represent weight · ρ(argument), weight ≥ 0 a number or array."""

    weight: Coefficient
    function: ConvexFunction | Ramp | OfLabel
    argument: Affine


@dataclass(frozen=True, eq=False)
class Lowered:
    """Represent affine + sign · Σ pieces; sign +1 convex, −1 concave, 0 affine."""

    affine: Affine
    pieces: tuple[Piece, ...] = ()
    sign: int = 0

    def negative(self) -> Lowered:
        """Return the negative of the lowered form."""
        return Lowered(self.affine.times(-1.0), self.pieces, -self.sign)

    @property
    def points(self) -> DecisionRows | None:
        """Return the margins that enter first."""
        for argument in (self.affine, *(piece.argument for piece in self.pieces)):
            if argument.points is not None:
                return argument.points
        return None


def _size(c: Coefficient) -> Coefficient:
    return np.abs(c) if isinstance(c, np.ndarray) else abs(c)


def _kept(total: Coefficient, size: Coefficient) -> Coefficient:
    kept = without_rounding(total, size)
    return kept if kept.ndim else float(kept)


def is_zero(c: Coefficient) -> bool:
    """Return whether a coefficient vanishes everywhere."""
    return bool(np.all(np.asarray(c) == 0.0))


def _same_labels(left: Any, right: Any) -> bool:
    return left.labels is right.labels or (
        left.labels is not None and right.labels is not None and np.array_equal(left.labels, right.labels))


def coefficient(expression: Expression, rows: IntArray) -> Coefficient:
    """Return a constant at the given rows: a number when all entries agree, else an array."""
    value = constant_value(expression)
    if not expression.shape:
        return float(value)
    entries = np.broadcast_to(value, expression.shape)[rows]
    return float(entries[0]) if len(entries) and np.all(entries == entries[0]) else np.array(entries, dtype=float)


def lower_entries(expression: Expression, rows: IntArray) -> Lowered:
    """Return the lowered form of an entrywise expression at some of its rows."""
    if expression.is_constant:
        return Lowered(Affine(shift=coefficient(expression, rows)))
    if not expression.shape:
        rows = np.zeros(len(rows), dtype=int)  # a single number is the same at every row
    # A symbol is what the class it derives from declares; an operation of a derived class may be another one.
    kinds = type(expression).__mro__ if isinstance(expression, Named) else (type(expression),)
    rule = next((_RULES[kind] for kind in kinds if kind in _RULES), None)
    if rule is None:
        raise grammar.UNKNOWN_OBJECTIVE.broken_by(expression)
    return rule(expression, rows)


def _lower_sum(expression: Sum, rows: IntArray) -> Lowered:
    total, *rest = [lower_entries(term, rows) for term in expression.children]
    for term in rest:
        if total.sign * term.sign < 0:
            raise grammar.MIXED_SUM.broken_by(expression)
        total = Lowered(total.affine.plus(term.affine, expression), total.pieces + term.pieces, total.sign or term.sign)
    return total


def _lower_product(expression: Product | Quotient, rows: IntArray) -> Lowered:
    factor = coefficient(expression.constant, rows)
    if isinstance(expression, Quotient):
        expression.divisor()
        with np.errstate(over="ignore"):  # `scale` looks
            factor = 1.0 / factor
    return scale(lower_entries(expression.inner, rows), factor, expression)


def scale(inner: Lowered, factor: Coefficient, at: Expression) -> Lowered:
    """Return a lowered form times a number or an array of one sign."""
    with np.errstate(over="ignore", invalid="ignore"):
        affine, weights = inner.affine.times(factor), [np.multiply(piece.weight, factor) for piece in inner.pieces]
    entering = (factor, affine.slope, affine.shift, *affine.coupling.values(), *weights)
    if not all(np.all(np.isfinite(c)) for c in entering):
        raise grammar.NOT_FINITE.broken_by(at)
    if not inner.pieces:
        return Lowered(affine)
    low, high = float(np.min(factor)), float(np.max(factor))
    if low < 0 < high:
        raise grammar.SIGNED_WEIGHT.broken_by(at)
    if low == high == 0:
        return Lowered(affine)
    flip = -1 if high <= 0 else 1
    pieces = tuple(replace(piece, weight=piece.weight * factor * flip) for piece in inner.pieces)
    return Lowered(affine, pieces, inner.sign * flip)


def merge(inner: Lowered) -> tuple[ConvexFunction, Affine]:
    """Return ρ and t with affine + Σ pieces = ρ(t), t a single affine argument."""
    candidates = [inner.affine, *(piece.argument for piece in inner.pieces)]
    rows = [a.points for a in candidates if a.points is not None and not is_zero(a.slope)]
    if any(not rows[0].is_same(other) for other in rows[1:]):
        raise LookupError
    direction = next((a for a in candidates if not a.is_constant), Affine(slope=1.0)).direction()
    pivot = None if None in direction else next(iter(direction))
    unit = direction[pivot]
    direction = {key: value / unit for key, value in direction.items()}
    total: ConvexFunction = PLQ.affine(*_along(inner.affine, direction, pivot))
    for piece in inner.pieces:
        if isinstance(piece.function, Ramp | OfLabel):
            raise LookupError
        if isinstance(piece.weight, np.ndarray):
            raise PointwiseParameters
        total = total + piece.function.precompose(*_along(piece.argument, direction, pivot)) * float(piece.weight)
    coupling: dict[Scalar, Coefficient] = {key: value for key, value in direction.items() if key is not None}
    argument = Affine(direction.get(None, 0.0), 0.0, coupling, rows[0] if rows else inner.points)
    return total, argument


def _along(argument: Affine, direction: dict[Scalar | None, float], pivot: Scalar | None) -> tuple[float, float]:
    """Return (k, d) with argument = k t + d, t the argument of the direction."""
    own = argument.direction()
    factor = own.get(pivot, 0.0)
    expected = {key: value * factor for key, value in direction.items() if factor}
    if set(own) != set(expected) or any(
            abs(own[key] - expected[key]) > 1e-12 * abs(own[key]) for key in own):
        raise LookupError
    return factor, float(argument.shift)


def _single(inner: Lowered, at: Expression) -> tuple[ConvexFunction, Affine]:
    if any(isinstance(piece.function, Ramp | OfLabel) for piece in inner.pieces):
        of_label = any(isinstance(piece.function, OfLabel) for piece in inner.pieces)
        raise (grammar.STATES if of_label else grammar.RAMP).broken_by(at)
    if not inner.pieces:
        return PLQ.affine(1.0, 0.0), inner.affine
    if len(inner.pieces) == 1 and inner.affine.is_constant and is_zero(inner.affine.shift) \
            and not isinstance(inner.pieces[0].weight, np.ndarray):
        piece = inner.pieces[0]
        assert not isinstance(piece.function, Ramp | OfLabel)
        return piece.function * float(piece.weight), piece.argument
    try:
        return merge(inner)
    except LookupError:
        raise grammar.ONE_MARGIN.broken_by(at) from None


def _compose(expression: Any, atom: ConvexFunction, rows: IntArray) -> Lowered:
    """Return atom(argument): the atom itself on affine arguments, else composed with the merged function."""
    inner = lower_entries(expression.inner, rows)
    if inner.sign < 0:  # atom(-v) of the convex v
        inner, atom = inner.negative(), atom.precompose(-1.0)
    if not inner.pieces:
        return Lowered(Affine(points=inner.points), (Piece(1.0, atom, inner.affine),), 1)
    function, affine = _single(inner, expression)
    try:
        result = compose(atom, function)
    except CalculusError:
        raise grammar.COMPOSITION.broken_by(expression) from None
    return Lowered(Affine(points=inner.points), (Piece(1.0, result, affine),), 1)


def _lower_maximum(expression: Maximum, rows: IntArray) -> Lowered:
    lowered = [lower_entries(argument, rows) for argument in expression.arguments]
    for term, inner in zip(expression.arguments, lowered):
        if inner.sign < 0:
            raise grammar.MAXIMUM.broken_by(term)
    left, *others = lowered
    for right in others:
        if not left.pieces and not right.pieces:  # max(a, b) = b + (a - b)_+, arrays welcome
            difference = left.affine.plus(right.affine.times(-1.0), expression)
            left = Lowered(right.affine, (Piece(1.0, pos_function(), difference),), 1)
            continue
        pair = [_single(left, expression), _single(right, expression)]
        try:
            _, argument = merge(Lowered(Affine(), tuple(Piece(1.0, *one) for one in pair), 1))
            direction = argument.direction()
            pivot = None if None in direction else next(iter(direction))
            sides = [function.precompose(*_along(own, direction, pivot)) for function, own in pair]
        except LookupError:
            raise grammar.ONE_MARGIN.broken_by(expression) from None
        left = Lowered(Affine(points=argument.points), (Piece(1.0, maximum(*sides), argument),), 1)
    return left


def _lower_truncated(expression: Truncated, rows: IntArray) -> Lowered:
    inner = lower_entries(expression.inner, rows)
    if not expression.cap.is_constant or inner.sign < 0 or inner.points is None:
        raise grammar.RAMP.broken_by(expression)
    function, argument = _single(inner, expression)
    cap = coefficient(expression.cap, rows)
    if isinstance(cap, np.ndarray):
        raise PointwiseParameters
    try:
        ramp = Ramp.of(function, cap)
    except CalculusError:
        raise grammar.RAMP.broken_by(expression) from None
    if argument.coupling or is_zero(argument.slope):
        raise grammar.RAMP.broken_by(expression)
    return Lowered(Affine(points=inner.points), (Piece(1.0, ramp, argument),), 1)


def _lower_margin(expression: Margin, rows: IntArray) -> Lowered:
    import scipy.sparse as sp

    labels, inner = rows, expression.labels
    while isinstance(inner, Index):
        labels, inner = inner.index[labels], inner.inner
    affine, is_linear = lower_entries(expression.hyperplane, rows).affine, expression.coding != "crammer-singer"
    points: Any = affine.points
    if not is_linear and not (isinstance(expression.hyperplane, Hyperplane)):  # of -f they are not those of f, negative
        points, affine = points.transformed(sp.eye_array(len(rows)), affine.slope), replace(affine, slope=1.0)
    return Lowered(replace(affine, points=replace(points, labels=labels, is_linear=is_linear)))


def _lower_by_label(expression: ByLabel, rows: IntArray) -> Lowered:
    labels: Labels = expression.margin.labels
    own = expression.labels.index[rows] if isinstance(expression.labels, Index) else rows
    points = lower_entries(expression.margin, own).affine.points
    pieces: list[Piece] = []
    for sign, loss in ((1.0, expression.upper), (-1.0, expression.lower)):
        inner = lower_entries(_in_state(loss, labels, sign), rows)
        if inner.sign < 0:
            raise grammar.CONVEX_LOSS.broken_by(loss)
        parts: tuple[Piece, ...]
        try:  # one row a point: apart, relaxations see less of them
            parts = (Piece(1.0, *merge(inner)),) if inner.pieces else ()
        except (PointwiseParameters, LookupError, CalculusError):
            parts = (*inner.pieces, Piece(1.0, PLQ.affine(1.0, 0.0), inner.affine))
        for piece in parts or (Piece(1.0, PLQ.affine(1.0, 0.0), inner.affine),):
            if not isinstance(piece.function, PLQ) or piece.argument.coupling or not np.all(
                    np.isfinite(piece.function(np.asarray(piece.argument.shift)))):
                raise grammar.STATES.broken_by(expression)
            if not _same_labels(piece.argument.points or points, points):
                raise grammar.STATES.broken_by(expression)
            argument = replace(piece.argument, points=piece.argument.points or points)
            pieces.append(replace(piece, function=OfLabel(piece.function, sign, labels), argument=argument))
    return Lowered(Affine(points=points), tuple(pieces), 1)


def _in_state(x: Expression, labels: Labels, sign: float) -> Expression:
    """Return an expression with margins in place of decision values, f = sign · y f where the label is so."""
    if isinstance(x, Hyperplane):
        return Margin(labels, x) if sign > 0 else Negation(Margin(labels, x))
    if isinstance(x, Margin) or x.is_constant:
        return x
    other = copy(x)
    for name, value in vars(x).items():
        if isinstance(value, Expression):
            vars(other)[name] = _in_state(value, labels, sign)
        elif isinstance(value, tuple | list) and value and isinstance(value[0], Expression):
            vars(other)[name] = type(value)(_in_state(part, labels, sign) for part in value)
    return other


def _transformed(expression: Any, matrix: Any) -> Lowered:
    """Return what a sparse matrix makes of decision values, from which aggregates in losses are made, too."""
    found = lower_entries(expression.inner, np.arange(len(expression.inner)))
    affine, m = found.affine, len(expression.inner)
    if found.pieces or affine.points is None or affine.points.labels is not None:
        raise grammar.ONE_MARGIN.broken_by(expression)
    shift, *coupled = (matrix @ np.broadcast_to(c, (m,)) for c in (affine.shift, *affine.coupling.values()))
    return Lowered(Affine(1.0, shift if np.ptp(shift) else float(shift[0]), dict(zip(affine.coupling, coupled)),
                          affine.points.transformed(matrix, affine.slope)))


def _lower_total(expression: Total | Mean, rows: IntArray) -> Lowered:
    import scipy.sparse as sp

    count = len(expression.inner)
    entry = 1.0 / count if isinstance(expression, Mean) else 1.0
    return _transformed(expression, sp.csr_array(np.full((len(rows), count), entry)))


def _refuse(expression: Expression, rows: IntArray) -> Lowered:
    raise (grammar.LABELS_IN_OBJECTIVE if isinstance(expression, Labels) else grammar.ONE_MARGIN).broken_by(expression)


_RULES: dict[type[Expression], Callable[[Any, IntArray], Lowered]] = {
    Margin: _lower_margin, Hyperplane: lambda e, rows: Lowered(Affine(1.0, points=DecisionRows(None, {e: rows}))),
    Transformed: lambda e, rows: _transformed(e, e.matrix[rows]), Total: _lower_total, Mean: _lower_total,
    Scalar: lambda e, rows: Lowered(Affine(coupling={e: 1.0})),
    Index: lambda e, rows: lower_entries(e.inner, e.index[rows]),
    Sum: _lower_sum, Negation: lambda e, rows: lower_entries(e.inner, rows).negative(),
    Product: _lower_product, Quotient: _lower_product,
    PositivePart: lambda e, rows: _compose(e, pos_function(), rows),
    Absolute: lambda e, rows: _compose(e, absolute_function(), rows),
    Square: lambda e, rows: _compose(e, square_function(), rows),
    Curve: lambda e, rows: _compose(e, e.function, rows), Maximum: _lower_maximum,
    Truncated: _lower_truncated, ByLabel: _lower_by_label, Labels: _refuse, Variance: _refuse}
