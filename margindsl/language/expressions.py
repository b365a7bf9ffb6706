"""The expression tree a user's formulas build: nodes, operators and constants."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from margindsl.errors import DeclarationError, GrammarError
from margindsl.language import printing
from margindsl.language.entries import (
    HINTS,
    Shape,
    Unanswered,
    as_index,
    as_values,
    broadcast,
    constant_value,
    fix_once,
    is_number,
)
from margindsl.language.printing import show
from margindsl.typing import FloatArray

# What comparisons, products of labels and decision values, and even functions make; where those are declared, this
# module is imported. Functions of numpy by their names, beside operators.
COMPARED: dict[str, Callable[..., Any]] = {}
NUMPY: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "negative": operator.neg, "positive": operator.pos, "power": operator.pow, "absolute": abs,
    "square": lambda x: x**2,
    "less_equal": operator.le, "greater_equal": operator.ge, "less": operator.lt, "greater": operator.gt,
    "equal": operator.eq, "not_equal": operator.ne}
BUILTIN = "The larger of two, for which max(a, b) of Python asks, is md.maximum(a, b), or md.pos(a) where b is 0."


class Expression(Unanswered):
    """Represent a formula; a node of an immutable tree.

    Expressions combine with ``+ - * / **`` and `abs`, are indexed like arrays, and compare with
    ``<= >= == !=`` to constraints. `shape` is ``()`` for numbers and ``(m,)`` for one value a point.
    """

    __pandas_priority__: ClassVar[int] = 10_000  # columns of pandas leave arithmetic to us, as numpy's arrays do
    __hash__ = object.__hash__

    shape: Shape = ()
    parts: ClassVar[tuple[str, ...]] = ()  # names of the attributes that are sub-expressions

    @property
    def children(self) -> tuple[Expression, ...]:
        """Return the sub-expressions."""
        return tuple(getattr(self, name) for name in self.parts)

    @property
    def precedence(self) -> int:
        """Return how tightly the expression binds."""
        return printing.precedence(self)

    def text(self) -> str:
        """Return the expression as the user would write it."""
        return printing.written(self, False)

    def latex(self) -> str:
        """Return the expression as LaTeX mathematics."""
        return printing.written(self, True)

    def walk(self) -> Iterator[Expression]:
        """Yield this node and all nodes below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def is_constant(self) -> bool:
        """Return whether only numbers and parameters occur."""
        return bool(self.children) and all(child.is_constant for child in self.children)

    def numeric(self) -> Any:
        """Return the present value of a constant expression (float or (m,) array); ask `constant_value` for it."""
        raise GrammarError(self.text(), "this is not a constant", "Use numbers, arrays and md.Parameter only.")

    def __setattr__(self, name: str, value: Any) -> None:
        fix_once(self, name, value)

    def __repr__(self) -> str:
        return self.text()

    def _repr_latex_(self) -> str:
        with printing.distinct_names(self.walk()), printing.entries("i" if self.children and self.shape else ""):
            return f"${self.latex()}$"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"`{self.text()}` is a single number and has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        raise GrammarError(
            self.text(), "an expression has no truth value",
            "Put constraints into the list of md.Problem instead of joining them with `and`, `or`, `not`.")

    def __iter__(self) -> Iterator[Expression]:
        raise GrammarError(self.text(), "expressions are not looped over",
                           "Write the formula for all points at once, or index it: expr[index].")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise GrammarError(self.text(), "expressions hold no numbers for numpy",
                           "Use md.sum, md.mean, md.maximum, abs; of a loss of your own md.plq(loss, g).")

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return self._numpy(function.__name__ if method == "__call__" else method, inputs, options)

    def __array_function__(self, function: Any, _: Any, inputs: Any, options: Any) -> Any:
        return self.shape if function is np.shape else self._numpy(function.__name__, inputs, options)

    def _numpy(self, name: str, inputs: Any, options: Any) -> Any:
        """Return what a function of numpy is in the language, or say what to write."""
        if name == "matmul" and not options and isinstance(inputs[1], Expression):
            return Transformed(inputs[0], inputs[1])
        if name in NUMPY and not options:
            # as constants, for arrays would ask us again
            return NUMPY[name](*(Constant(x) if isinstance(x, np.ndarray | np.generic) else x for x in inputs))
        raise GrammarError(f"np.{name}({self.text()})", "this function of numpy does not take expressions",
                           HINTS.get(name, "Use those of margindsl: md.sum, md.mean, md.maximum, abs."))

    # -- arithmetic -----------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expression:
        return Sum(self, as_expression(other))

    def __radd__(self, other: Any) -> Expression:
        return Sum(as_expression(other), self)

    def __sub__(self, other: Any) -> Expression:
        return Sum(self, Negation(as_expression(other)))

    def __rsub__(self, other: Any) -> Expression:
        return Sum(as_expression(other), Negation(self))

    def __neg__(self) -> Expression:
        return Negation(self)

    def __pos__(self) -> Expression:
        return self

    def __mul__(self, other: Any) -> Expression:
        return multiply(self, as_expression(other))

    def __rmul__(self, other: Any) -> Expression:
        return multiply(as_expression(other), self)

    def __matmul__(self, other: Any) -> Expression:
        raise GrammarError(f"{self.text()} @ array", "products with what stands behind are not part of formulas",
                           HINTS["matmul"])

    def __rmatmul__(self, matrix: Any) -> Expression:
        return Transformed(matrix, self)

    def __truediv__(self, other: Any) -> Expression:
        return divide(self, as_expression(other))

    def __rtruediv__(self, other: Any) -> Expression:
        return divide(as_expression(other), self)

    def __rpow__(self, base: Any) -> Expression:
        raise GrammarError(f"{base}**{show(self, 90)}", "expressions are no exponents", HINTS["exp"])

    def __pow__(self, exponent: Any) -> Expression:
        power = exponent if is_number(exponent) else None
        if power == 1:
            return self
        if power != 2:
            raise GrammarError(f"{show(self, 90)}**{exponent}", "only squares are piecewise quadratic",
                               "Write **2, or give your own loss with md.plq or a subclass of md.ConvexFunction.")
        return Square(even_argument(self))

    def __abs__(self) -> Expression:
        return Absolute(even_argument(self))

    def __getitem__(self, index: Any) -> Expression:
        return Index(self, index)

    # -- comparison -----------------------------------------------------------------------------------

    def __le__(self, other: Any) -> Constraint:
        return COMPARED["<="](self, as_expression(other))

    def __ge__(self, other: Any) -> Constraint:
        return COMPARED["<="](as_expression(other), self)

    def __lt__(self, other: Any) -> Any:
        raise GrammarError(f"{self.text()} < {other}", "strict inequalities do not close a set",
                           f"Write <=. {BUILTIN}")

    def __gt__(self, other: Any) -> Any:
        raise GrammarError(f"{self.text()} > {other}", "strict inequalities do not close a set",
                           f"Write >=. {BUILTIN}")

    def __eq__(self, other: Any) -> Constraint:  # type: ignore[override]
        return COMPARED["=="](self, as_expression(other))

    def __ne__(self, other: Any) -> Constraint:  # type: ignore[override]
        return COMPARED["!="](self, as_expression(other))


class Constraint(ABC):
    """Represent one constraint of a problem; combine several by listing them, not with ``and``."""

    @abstractmethod
    def text(self) -> str:
        """Return the constraint as the user would write it."""

    @abstractmethod
    def lower(self, into: Any) -> None:
        """Add the constraint to the conditions of a problem, as arrays.

        `into`: check with `Conditions.check_own` that labels and hyperplane are those of the problem, then add to its
        lists.
        """

    parts: ClassVar[tuple[str, ...]] = ()  # names of the attributes that are expressions

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Return the expressions that occur; their parameters are those of the problem."""
        return tuple(getattr(self, name) for name in self.parts)

    def latex(self) -> str:
        """Return the constraint as LaTeX mathematics."""
        return printing.words_latex(self.text())

    def _repr_latex_(self) -> str:
        with printing.distinct_names(node for expression in self.expressions for node in expression.walk()):
            return f"${self.latex()}$"

    def __repr__(self) -> str:
        return self.text()

    def __setattr__(self, name: str, value: Any) -> None:
        fix_once(self, name, value)

    def __bool__(self) -> bool:
        raise GrammarError(
            self.text(), "a constraint has no truth value (chained comparisons and `and` ask for one)",
            "Write two constraints, a <= md.sum(y) and md.sum(y) <= b, as separate entries of the list.")

    def __and__(self, other: Any) -> bool:
        return bool(self)

    __or__ = __and__


class Constant(Expression):
    """Represent a number or an array of one number a point."""

    is_constant = True
    value: FloatArray

    def __init__(self, value: Any) -> None:
        self.value = as_values(value)
        self.shape = self.value.shape
        self.symbol = "c" if self.shape else None

    def numeric(self) -> Any:
        return self.value[()]


class Operation(Expression):
    """Represent a function of expressions, entry by entry; `compute` is that of their values."""

    compute: ClassVar[Callable[..., Any]]

    def __init__(self, *operands: Expression) -> None:
        for name, operand in zip(self.parts, operands):
            setattr(self, name, operand)
        self.shape = broadcast(self)

    def numeric(self) -> Any:
        return type(self).compute(*(child.numeric() for child in self.children))


class Sum(Expression):
    """Represent the sum of expressions; sums of sums share one list of terms, so that building it is linear in them."""

    _terms: list[Expression]
    _count: int

    def __init__(self, left: Expression, right: Expression) -> None:
        terms, count = (left._terms, left._count) if type(left) is Sum else ([left], 1)
        if len(terms) > count:  # another sum went on from the same beginning
            terms = terms[:count]
        terms.append(right)
        if terms[count] is not right:  # in another thread
            terms = [*terms[:count], right]
        self._terms, self._count = terms, count + 1
        self.shape = left.shape or right.shape
        if left.shape and right.shape and left.shape != right.shape:
            broadcast(self)

    @property
    def children(self) -> tuple[Expression, ...]:
        return tuple(self._terms[:self._count])

    def numeric(self) -> Any:
        return reduce(np.add, (term.numeric() for term in self.children))


class Negation(Operation):
    """Represent the negative of an expression."""

    parts, compute = ("inner",), np.negative
    inner: Expression


class Product(Operation):
    """Represent a constant times an expression (`constant` is written first or last)."""

    parts, compute = ("constant", "inner"), np.multiply
    constant: Expression
    inner: Expression


class Quotient(Operation):
    """Represent an expression divided by a constant."""

    parts = ("inner", "constant")
    inner: Expression
    constant: Expression

    def divisor(self) -> Any:
        """Return the present value of the divisor."""
        value = constant_value(self.constant)
        if np.any(np.asarray(value) == 0):
            raise GrammarError(self.text(), "division by zero", "Give a non-zero divisor.")
        return value

    def numeric(self) -> Any:
        return self.inner.numeric() / self.divisor()


class PositivePart(Operation):
    """Represent max(x, 0)."""

    parts, compute = ("inner",), staticmethod(lambda x: np.maximum(x, 0.0))
    inner: Expression


class Absolute(Operation):
    """Represent |x|."""

    parts, compute = ("inner",), np.abs
    inner: Expression


class Square(Operation):
    """Represent x²."""

    parts, compute = ("inner",), np.square
    inner: Expression


class Maximum(Operation):
    """Represent the largest of several expressions."""

    compute = staticmethod(lambda *values: reduce(np.maximum, values))

    def __init__(self, *arguments: Expression) -> None:
        self.arguments = arguments
        super().__init__()

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.arguments


class Truncated(Operation):
    """Represent min(loss, cap), which is not convex: a point at its cap is an outlier."""

    parts, compute = ("inner", "cap"), np.minimum
    inner: Expression
    cap: Expression


class ByLabel(Operation):
    """Represent a loss that is one expression where the label is +1 and another where it is −1."""

    def __init__(self, labels: Expression, margin: Any, upper: Expression, lower: Expression) -> None:
        self.labels, self.margin, self.upper, self.lower = labels, margin, upper, lower
        self.shape = labels.shape

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.upper, self.lower, self.margin


class Index(Expression):
    """Represent the entries of an expression at some points."""

    parts = ("inner",)
    inner: Expression

    def __init__(self, inner: Expression, index: Any) -> None:
        if not inner.shape:
            raise DeclarationError(f"`{inner.text()}` is a single number and cannot be indexed")
        self.inner = inner
        self.index, self.is_item = as_index(index, inner.shape[0], show(inner, 95))
        self.index.flags.writeable = False
        self.shape = () if self.is_item else (len(self.index),)
        self.is_slice = not self.is_item and len(self.index) > 1 and bool(np.all(np.diff(self.index) == 1))
        self.symbol = None if self.is_item or self.is_slice else "I"

    def numeric(self) -> Any:
        values = np.broadcast_to(self.inner.numeric(), self.inner.shape)[self.index]
        return values[0] if self.is_item else values


class Transformed(Expression):
    """Represent A x, sums of entries by the rows of a matrix."""

    parts = ("inner",)
    inner: Expression

    def __init__(self, matrix: Any, inner: Expression) -> None:
        import scipy.sparse as sp

        shape = np.shape(matrix) if not sp.issparse(matrix) else matrix.shape
        if len(shape) != 2 or shape[1:] != inner.shape:
            raise GrammarError(f"A @ {show(inner, 31)}", f"products of arrays of shape {shape} with {inner.shape} are "
                               "not part of formulas", HINTS["matmul"])
        self.matrix = sp.csr_array(matrix, dtype=float)
        if not np.all(np.isfinite(self.matrix.data)):
            raise DeclarationError(f"`A @ {inner.text()}`: NaN or infinity in A; expected finite numbers")
        self.inner, self.shape = inner, (self.matrix.shape[0],)

    def numeric(self) -> Any:
        return self.matrix @ self.inner.numeric()


def even_argument(x: Expression) -> Expression:
    """Return the argument of an even function in terms of margins: y - f is 1 - y * f up to its sign."""
    return COMPARED["even"](x)


def as_expression(value: Any) -> Expression:
    """Return an expression, wrapping numbers and arrays as constants."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, str):
        raise DeclarationError(f"the string {value!r} entered a formula; expected a number or an expression")
    return Constant(value)


def multiply(left: Expression, right: Expression) -> Expression:
    """Return the product, where one factor is constant or the pair makes margins."""
    if left.is_constant:
        return Product(left, right)
    if right.is_constant:
        return Product(right, left)
    if (product := COMPARED["*"](left, right)) is not None:
        return product
    raise GrammarError(
        f"{show(left, 30)} * {show(right, 31)}",
        "a product needs a constant factor (only labels times decision values, y * f, makes margins)",
        COMPARED["advice"](left, right))


def divide(inner: Expression, constant: Expression) -> Expression:
    """Return the quotient by a non-zero constant."""
    if not constant.is_constant:
        raise GrammarError(f"{show(inner, 30)} / {show(constant, 31)}",
                           "only constants divide", "Multiply out, or fix the divisor as md.Parameter.")
    quotient = Quotient(inner, constant)
    quotient.divisor()
    return quotient
