"""Linear parts of constraints: weights on labels and on decision values, and the bounds on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import rounding, without_rounding
from margindsl.language import grammar
from margindsl.language.atoms import Aggregate, Mean, Total, Variance
from margindsl.language.entries import constant_value
from margindsl.language.expressions import Absolute, Expression, Index, Negation, Product, Quotient, Sum
from margindsl.language.margins import Hyperplane, Labels, Margin
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class LinearPart:
    """Represent label weights · y + decision weights · f + constant.

    `noise` is what rounding can have done to a sum of labels where weights cancel in part, `sizes` are those of the
    parts of decision weights where these cancel.
    """

    n: int
    labels: FloatArray | None = None
    decision: FloatArray | None = None
    constant: float = 0.0
    label_node: Labels | None = None
    decision_node: Hyperplane | None = None
    noise: float = 0.0
    sizes: FloatArray | None = None


def linear_part(expression: Expression, n: int, at: str) -> LinearPart:
    """Return the linear part of a single number built from labels or decision values."""
    into = _Sums(n, at)
    _collect(expression, np.ones((2, 1)), None, into)
    return LinearPart(n, into.total("labels"), into.total("decision"), float(without_rounding(*into.constant)),
                      into.nodes.get("labels"), into.nodes.get("decision"), into.noise(),
                      into.sizes())


class _Sums:
    """Gather weights and constants, each (2, ...) with the sum of the sizes of its parts: those that cancel are zero.

    Parameters
    ----------
    at : str
        The formula, for messages.
    """

    def __init__(self, n: int, at: str) -> None:
        self.n, self.at = n, at
        self.totals: dict[str, FloatArray] = {}
        self.nodes: dict[str, Any] = {}
        self.constant = np.zeros(2)

    def total(self, key: str) -> FloatArray | None:
        """Return the weights on labels or decision values, None where neither occurs."""
        return without_rounding(*self.totals[key]) if key in self.totals else None

    def noise(self) -> float:
        """Return what rounding can have done to a sum of labels: to weights that cancel in part, not to one number."""
        if "labels" not in self.totals:
            return 0.0
        totals, sizes = np.column_stack([self.totals["labels"], self.constant])
        left = (sizes > 2 * np.abs(totals)) & (without_rounding(totals, sizes) != 0)
        return float(np.sum(rounding(sizes), where=left))

    def sizes(self) -> FloatArray | None:
        """Return the sizes of the parts of decision weights, None where nothing cancels."""
        totals, sizes = self.totals.get("decision", np.zeros((2, self.n)))
        return sizes if np.any(sizes > 2 * np.abs(totals)) else None

    def add(self, node: Labels | Hyperplane, factor: FloatArray, rows: IntArray) -> None:
        """Add factor · labels or decision values at the rows."""
        key = "labels" if isinstance(node, Labels) else "decision"
        if self.nodes.setdefault(key, node) is not node:
            raise grammar.TWO_PROBLEMS.broken_by(
                self.at, what="labellings" if key == "labels" else "hyperplanes")
        found = [np.bincount(rows, weights=part, minlength=self.n) for part in np.broadcast_to(factor, (2, len(rows)))]
        self.totals[key] = self.totals.get(key, np.zeros((2, self.n))) + found


def _collect(expression: Expression, factor: FloatArray, rows: IntArray | None, into: _Sums) -> None:
    """Add factor · expression at the rows to the sums; factors (2, m) hold numbers and their sizes."""
    if expression.is_constant:
        value = _sized(constant_value(expression))
        if value.ndim > 1 and rows is not None:
            value = value[:, rows]
        into.constant += np.sum(factor * value.reshape(2, -1), axis=1)
        return
    if isinstance(expression, Margin):
        raise grammar.MARGIN_CONSTRAINT.broken_by(into.at)
    if isinstance(expression, (Labels, Hyperplane)):
        if rows is None:
            raise grammar.ENTRYWISE_CONSTRAINT.broken_by(into.at)
        into.add(expression, factor, rows)
        return
    if not expression.shape and rows is not None:
        rows = np.zeros(len(rows), dtype=int)  # a single number is the same at every row
    rule = _LINEAR_RULES.get(type(expression))
    if rule is None:
        raise grammar.NONLINEAR_CONSTRAINT.broken_by(into.at)
    rule(expression, factor, rows, into)


def _sized(values: Any) -> FloatArray:
    return np.stack([np.asarray(values, dtype=float), np.abs(np.asarray(values, dtype=float))])


def _collect_sum(e: Sum, factor: FloatArray, rows: IntArray | None, into: _Sums) -> None:
    _collect(e.left, factor, rows, into)
    _collect(e.right, factor, rows, into)


def _collect_negation(e: Negation, factor: FloatArray, rows: IntArray | None, into: _Sums) -> None:
    _collect(e.inner, factor * [[-1.0], [1.0]], rows, into)


def _collect_product(e: Product | Quotient, factor: FloatArray, rows: IntArray | None, into: _Sums) -> None:
    value = _sized(e.divisor() if isinstance(e, Quotient) else constant_value(e.constant))
    if value.ndim > 1 and rows is not None:
        value = value[:, rows]
    value = value.reshape(2, -1)
    _collect(e.inner, factor * value if isinstance(e, Product) else factor / value, rows, into)


def _collect_index(e: Index, factor: FloatArray, rows: IntArray | None, into: _Sums) -> None:
    _collect(e.inner, factor, e.index if rows is None else e.index[rows], into)


def _collect_aggregate(e: Aggregate, factor: FloatArray, rows: IntArray | None, into: _Sums) -> None:
    if isinstance(e, Variance):
        raise grammar.NONLINEAR_CONSTRAINT.broken_by(into.at)
    count = e.inner.shape[0]
    scale = 1.0 / count if isinstance(e, Mean) else 1.0
    _collect(e.inner, np.repeat(np.sum(factor, axis=1)[:, None] * scale, count, axis=1), np.arange(count), into)


_LINEAR_RULES: dict[type, Any] = {
    Sum: _collect_sum, Negation: _collect_negation, Product: _collect_product, Quotient: _collect_product,
    Index: _collect_index, Total: _collect_aggregate, Mean: _collect_aggregate, Variance: _collect_aggregate,
}


def split_inequality(left: Expression, right: Expression, n: int, at: str) -> tuple[LinearPart, float, float]:
    """Return (linear part without constant, lower, upper) of ``left <= right``."""
    _refuse_entries(left, right, at)
    modulus, factor = _modulus(left)
    if modulus is not None:
        if not right.is_constant or factor < 0:
            raise grammar.NONLINEAR_CONSTRAINT.broken_by(at)
        radius = constant_value(right) / factor
        part = linear_part(modulus, n, at)
        return part, 0.0 - radius - part.constant, radius - part.constant
    if _modulus(right)[0] is not None:
        raise grammar.NONCONVEX_BOUND.broken_by(at)
    part = linear_part(left - right, n, at)
    return part, -np.inf, 0.0 - part.constant


def split_equality(left: Expression, right: Expression, n: int, at: str) -> tuple[LinearPart, float, float]:
    """Return (linear part without constant, lower, upper) of ``left == right``."""
    _refuse_entries(left, right, at)
    part = linear_part(left - right, n, at)
    return part, 0.0 - part.constant, 0.0 - part.constant


def _refuse_entries(left: Expression, right: Expression, at: str) -> None:
    if left.shape or right.shape:
        raise grammar.ENTRYWISE_CONSTRAINT.broken_by(at)


def _modulus(expression: Expression) -> tuple[Expression | None, float]:
    """Return (x, k) of k |x|, or (None, 1)."""
    factor = 1.0
    while isinstance(expression, (Product, Quotient)) and not expression.constant.shape:
        if isinstance(expression, Product):
            factor = factor * constant_value(expression.constant)
        else:
            factor = factor / expression.divisor()
        expression = expression.inner
    if isinstance(expression, Absolute) and factor != 0:
        return expression.inner, factor
    return None, 1.0
