"""Linear parts of constraints: weights on labels and on decision values, and the bounds on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import rounding, without_rounding
from margindsl.language import grammar
from margindsl.language.atoms import Mean, Total
from margindsl.language.entries import constant_value
from margindsl.language.expressions import Absolute, Expression, Index, Negation, Product, Quotient, Sum, Transformed
from margindsl.language.margins import Hyperplane, Labels, Margin
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class LinearPart:
    """Represent label weights · y + decision weights · f + constant.

    `noise` is what rounding can have done to a sum of labels where weights cancel in part, `sizes` are those of the
    parts of decision weights where these cancel.
    """

    labels: FloatArray | None = None
    constant: float = 0.0
    label_node: Labels | None = None
    noise: float = 0.0
    planes: dict[Hyperplane, tuple[FloatArray, FloatArray | None]] = field(default_factory=dict)  # weights, sizes


def linear_part(expression: Expression, at: str) -> LinearPart:
    """Return the linear part of a single number built from labels or decision values; `at` is for messages.

    Weights and constants are gathered as (2, ...) arrays, with the sum of the sizes of their parts beside each: those
    that cancel are zero.
    """
    totals: dict[Any, FloatArray] = {}  # by "labels" and hyperplane
    nodes: list[Labels] = []
    constant = np.zeros(2)

    def sized(values: Any, rows: IntArray | None) -> FloatArray:
        found = np.stack([np.asarray(values, dtype=float), np.abs(np.asarray(values, dtype=float))])
        return (found[:, rows] if found.ndim > 1 and rows is not None else found).reshape(2, -1)

    def collect(e: Any, factor: FloatArray, rows: IntArray | None) -> None:
        """Add factor (2, m) · e at the rows, at all of them where there are none."""
        kind = type(e)
        if e.is_constant:
            constant[:] += np.sum(factor * sized(constant_value(e), rows), axis=1)
            return
        if isinstance(e, Margin):
            raise grammar.MARGIN_CONSTRAINT.broken_by(at)
        if isinstance(e, (Labels, Hyperplane)):
            if rows is None:
                raise grammar.NONLINEAR_CONSTRAINT.broken_by(at)
            if isinstance(e, Labels):
                nodes.append(e)
                if e is not nodes[0]:
                    raise grammar.TWO_PROBLEMS.broken_by(at, what="labellings")
            key: Any = "labels" if isinstance(e, Labels) else e
            found = [np.bincount(rows, weights=part, minlength=e.n) for part in np.broadcast_to(factor, (2, len(rows)))]
            totals[key] = totals.get(key, np.zeros((2, e.n))) + found
            return
        if not e.shape and rows is not None:
            rows = np.zeros(len(rows), dtype=int)  # a single number is the same at every row
        if kind is Sum:
            for term in e.children:
                collect(term, factor, rows)
        elif kind is Negation:
            collect(e.inner, factor * [[-1.0], [1.0]], rows)
        elif kind is Product:
            collect(e.inner, factor * sized(constant_value(e.constant), rows), rows)
        elif kind is Quotient:
            collect(e.inner, factor / sized(e.divisor(), rows), rows)
        elif kind is Index:
            collect(e.inner, factor, e.index if rows is None else e.index[rows])
        elif kind is Transformed:
            some = e.matrix if rows is None else e.matrix[rows]
            collect(e.inner, np.stack([factor[0] @ some, factor[1] @ abs(some)]), np.arange(len(e.inner)))
        elif kind in (Total, Mean):
            count = e.inner.shape[0]
            scale = 1.0 / count if kind is Mean else 1.0
            collect(e.inner, np.repeat(np.sum(factor, axis=1)[:, None] * scale, count, axis=1), np.arange(count))
        else:
            raise grammar.NONLINEAR_CONSTRAINT.broken_by(at)

    collect(expression, np.ones((2, 1)), None)
    noise = 0.0  # what rounding can have done to a sum of labels: to weights that cancel in part, not to one number
    if "labels" in totals:
        sums, sizes = np.column_stack([totals["labels"], constant])
        noise = float(np.sum(rounding(sizes), where=(sizes > 2 * np.abs(sums)) & (without_rounding(sums, sizes) != 0)))
    labels = without_rounding(*totals.pop("labels")) if nodes else None
    return LinearPart(labels, float(without_rounding(*constant)), nodes[0] if nodes else None, noise, {
        plane: (without_rounding(sums, sizes), sizes if np.any(sizes > 2 * np.abs(sums)) else None)
        for plane, (sums, sizes) in totals.items()})


def split_inequality(left: Expression, right: Expression, at: str) -> tuple[LinearPart, float, float]:
    """Return (linear part without constant, lower, upper) of ``left <= right``."""
    modulus, factor = _modulus(left)
    if modulus is not None:
        if not right.is_constant or factor < 0:
            raise grammar.NONLINEAR_CONSTRAINT.broken_by(at)
        radius = constant_value(right) / factor
        part = linear_part(modulus, at)
        return part, 0.0 - radius - part.constant, radius - part.constant
    if _modulus(right)[0] is not None:
        raise grammar.NONCONVEX_BOUND.broken_by(at)
    part = linear_part(left - right, at)
    return part, -np.inf, 0.0 - part.constant


def split_equality(left: Expression, right: Expression, at: str) -> tuple[LinearPart, float, float]:
    """Return (linear part without constant, lower, upper) of ``left == right``."""
    part = linear_part(left - right, at)
    return part, 0.0 - part.constant, 0.0 - part.constant


def _modulus(expression: Expression) -> tuple[Expression | None, float]:
    """Return (x, k) of k |x|, of entries k |x|[i] too, or (None, 1)."""
    factor, entries = 1.0, list[Index]()
    while isinstance(expression, (Index, Product, Quotient)):
        if isinstance(expression, Index):
            entries.append(expression)
        elif expression.constant.shape:
            return None, 1.0
        elif isinstance(expression, Product):
            factor = factor * constant_value(expression.constant)
        else:
            factor = factor / expression.divisor()
        expression = expression.inner
    if isinstance(expression, Absolute) and factor != 0:
        inner = expression.inner
        for entry in reversed(entries):
            inner = inner[entry.index[0] if entry.is_item else entry.index]
        return inner, factor
    return None, 1.0
