"""Linear parts of constraints: weights on labels and on decision values, and the bounds on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.language import grammar
from margindsl.language.atoms import Absolute, Aggregate, Mean, Total, Variance
from margindsl.language.entries import constant_value
from margindsl.language.expressions import Expression, Index, Negation, Product, Quotient, Sum
from margindsl.language.margins import Hyperplane, Labels, Margin
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class LinearPart:
    """Represent label weights · y + decision weights · f + constant."""

    n: int
    labels: FloatArray | None = None
    decision: FloatArray | None = None
    constant: float = 0.0
    label_node: Labels | None = None
    decision_node: Hyperplane | None = None


def linear_part(expression: Expression, n: int, at: str) -> LinearPart:
    """Return the linear part of a single number built from labels or decision values.

    Raises
    ------
    GrammarError
        If the expression is not linear, or constrains margins.
    """
    totals: dict[str, FloatArray] = {}
    nodes: dict[str, Any] = {}
    constant = _collect(expression, np.ones(1), None, n, totals, nodes, at)
    return LinearPart(n, totals.get("labels"), totals.get("decision"), constant,
                      nodes.get("labels"), nodes.get("decision"))


def _collect(expression: Expression, factor: FloatArray, rows: IntArray | None, n: int,
             totals: dict[str, FloatArray], nodes: dict[str, Any], at: str) -> float:
    """Add factor · expression at the rows to the totals; return its constant part."""
    if expression.is_constant:
        value = np.asarray(constant_value(expression))
        if value.ndim and rows is not None:
            value = value[rows]
        return float(np.sum(factor * value))
    if isinstance(expression, Margin):
        raise grammar.MARGIN_CONSTRAINT.broken_by(at)
    if isinstance(expression, (Labels, Hyperplane)):
        key = "labels" if isinstance(expression, Labels) else "decision"
        if nodes.setdefault(key, expression) is not expression:
            raise grammar.TWO_PROBLEMS.broken_by(
                at, what="labellings" if key == "labels" else "hyperplanes")
        if rows is None:
            raise grammar.ENTRYWISE_CONSTRAINT.broken_by(at)
        weights = np.broadcast_to(factor, rows.shape)
        totals[key] = totals.get(key, np.zeros(n)) + np.bincount(rows, weights=weights, minlength=n)
        return 0.0
    if not expression.shape and rows is not None:
        rows = np.zeros(len(rows), dtype=int)  # a single number is the same at every row
    rule = _LINEAR_RULES.get(type(expression))
    if rule is not None:
        return float(rule(expression, factor, rows, n, totals, nodes, at))
    raise grammar.NONLINEAR_CONSTRAINT.broken_by(at)


def _collect_sum(e: Sum, factor: Any, rows: Any, *rest: Any) -> float:
    return _collect(e.left, factor, rows, *rest) + _collect(e.right, factor, rows, *rest)


def _collect_negation(e: Negation, factor: Any, rows: Any, *rest: Any) -> float:
    return _collect(e.inner, -factor, rows, *rest)


def _collect_product(e: Product | Quotient, factor: Any, rows: Any, *rest: Any) -> float:
    value = np.asarray(e.divisor() if isinstance(e, Quotient) else constant_value(e.constant))
    if value.ndim and rows is not None:
        value = value[rows]
    return _collect(e.inner, factor * value if isinstance(e, Product) else factor / value, rows, *rest)


def _collect_index(e: Index, factor: Any, rows: Any, *rest: Any) -> float:
    return _collect(e.inner, factor, e.index if rows is None else e.index[rows], *rest)


def _collect_aggregate(e: Aggregate, factor: Any, rows: Any, *rest: Any) -> float:
    if isinstance(e, Variance):
        raise grammar.NONLINEAR_CONSTRAINT.broken_by(rest[-1])
    count = e.inner.shape[0]
    scale = 1.0 / count if isinstance(e, Mean) else 1.0
    return _collect(e.inner, np.full(count, float(np.sum(factor)) * scale), np.arange(count), *rest)


_LINEAR_RULES: dict[type, Any] = {
    Sum: _collect_sum, Negation: _collect_negation, Product: _collect_product, Quotient: _collect_product,
    Index: _collect_index, Total: _collect_aggregate, Mean: _collect_aggregate, Variance: _collect_aggregate,
}


def split_inequality(left: Expression, right: Expression, n: int, at: str) -> tuple[LinearPart, float, float]:
    """Return (linear part without constant, lower, upper) of ``left <= right``.

    Raises
    ------
    GrammarError
        If it bounds a modulus from below, is not linear, or has one value a point.
    """
    _refuse_entries(left, right, at)
    modulus, factor = _modulus(left)
    if modulus is not None:
        if not right.is_constant or factor < 0:
            raise grammar.NONLINEAR_CONSTRAINT.broken_by(at)
        radius = constant_value(right) / factor
        part = linear_part(modulus, n, at)
        return part, -radius - part.constant, radius - part.constant
    if _modulus(right)[0] is not None:
        raise grammar.NONCONVEX_BOUND.broken_by(at)
    part = linear_part(left - right, n, at)
    return part, -np.inf, -part.constant


def split_equality(left: Expression, right: Expression, n: int, at: str) -> tuple[LinearPart, float, float]:
    """Return (linear part without constant, lower, upper) of ``left == right``.

    Raises
    ------
    GrammarError
        If it is not linear, or has one value a point.
    """
    _refuse_entries(left, right, at)
    part = linear_part(left - right, n, at)
    return part, -part.constant, -part.constant


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
        return expression.arguments[0], factor
    return None, 1.0
