"""The expression tree a user's formulas build: nodes, operators and constants."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any, ClassVar

import numpy as np

from margindsl.errors import DeclarationError, GrammarError
from margindsl.language import printing
from margindsl.language.entries import Shape, as_index, as_values, broadcast, constant_value, fix_once, is_number
from margindsl.language.printing import array_text, bracket, bracket_latex, index_text, number_text
from margindsl.language.unanswered import Unanswered


class Expression(Unanswered):
    """Represent a formula; a node of an immutable tree.

    Expressions combine with ``+ - * / **`` and `abs`, are indexed like arrays, and compare with
    ``<= >= == !=`` to constraints. `shape` is ``()`` for numbers and ``(m,)`` for one value a point.
    """

    __array_ufunc__: ClassVar[None] = None  # numpy arrays leave arithmetic to us,
    __pandas_priority__: ClassVar[int] = 10_000  # and so do columns of pandas
    __hash__ = object.__hash__

    shape: Shape = ()
    precedence: ClassVar[int] = 100

    @property
    def children(self) -> tuple[Expression, ...]:
        """Return the sub-expressions."""
        return ()

    def text(self) -> str:
        """Return the expression as the user would write it."""
        raise TypeError(f"{type(self).__name__} has no text")

    def latex(self) -> str:
        """Return the expression as LaTeX mathematics."""
        raise TypeError(f"{type(self).__name__} has no LaTeX form")

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
                           "Use the functions of margindsl: md.sum, md.mean, md.maximum, abs.")

    def __array_function__(self, function: Any, *_: Any) -> Any:
        if function is np.shape:
            return self.shape
        raise GrammarError(f"np.{function.__name__}({self.text()})", "functions of numpy do not take expressions",
                           "Use those of margindsl: md.sum, md.mean, md.maximum, abs.")

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
        return self.__array_function__(np.matmul)
    __rmatmul__ = __matmul__

    def __truediv__(self, other: Any) -> Expression:
        return divide(self, as_expression(other))

    def __rtruediv__(self, other: Any) -> Expression:
        return divide(as_expression(other), self)

    def __pow__(self, exponent: Any) -> Expression:
        power = exponent if is_number(exponent) else None
        if power == 1:
            return self
        if power != 2:
            raise GrammarError(f"{bracket(self, 90)}**{exponent}", "only squares are piecewise quadratic",
                               "Write **2, or give your own loss with md.plq or a subclass of md.ConvexFunction.")
        return squared(self)

    def __abs__(self) -> Expression:
        return modulus(self)

    def __getitem__(self, index: Any) -> Expression:
        return Index(self, index)

    # -- comparison -----------------------------------------------------------------------------------

    def __le__(self, other: Any) -> Any:
        return at_most(self, as_expression(other))

    def __ge__(self, other: Any) -> Any:
        return at_most(as_expression(other), self)

    def __lt__(self, other: Any) -> Any:
        raise GrammarError(f"{self.text()} < {other}", "strict inequalities do not close a set", "Write <=.")

    def __gt__(self, other: Any) -> Any:
        raise GrammarError(f"{self.text()} > {other}", "strict inequalities do not close a set", "Write >=.")

    def __eq__(self, other: Any) -> Any:
        return equal(self, as_expression(other))

    def __ne__(self, other: Any) -> Any:
        return different(self, as_expression(other))


class Constant(Expression):
    """Represent a number or an array of one number a point."""

    def __init__(self, value: Any) -> None:
        self.value = as_values(value)
        self.shape = self.value.shape
        self.symbol = "c" if self.shape else None

    @property
    def precedence(self) -> int:  # type: ignore[override]
        """Return that of a negation below zero."""
        return 100 if self.shape or self.value >= 0 else 20

    @property
    def is_constant(self) -> bool:
        return True

    def numeric(self) -> Any:
        return self.value[()]

    def text(self) -> str:
        return array_text(self.value) if self.shape else number_text(self.value)

    def latex(self) -> str:
        if not self.shape:
            return printing.number_latex(self.value)
        return printing.entry_latex(printing.lettered(self, "mathbf"), True)


class Sum(Expression):
    """Represent the sum of two expressions."""

    precedence = 10

    def __init__(self, left: Expression, right: Expression) -> None:
        self.left, self.right = left, right
        self.shape = broadcast(left, right, "+")

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.left, self.right)

    def numeric(self) -> Any:
        return self.left.numeric() + self.right.numeric()

    def text(self) -> str:
        if isinstance(self.right, Negation):
            return f"{self.left.text()} - {bracket(self.right.inner, 21)}"
        return f"{self.left.text()} + {self.right.text()}"

    def latex(self) -> str:
        if isinstance(self.right, Negation):
            return f"{self.left.latex()} - {bracket_latex(self.right.inner, 21)}"
        return f"{self.left.latex()} + {self.right.latex()}"


class Negation(Expression):
    """Represent the negative of an expression."""

    precedence = 20

    def __init__(self, inner: Expression) -> None:
        self.inner = inner
        self.shape = inner.shape

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.inner,)

    def numeric(self) -> Any:
        return -self.inner.numeric()

    def text(self) -> str:
        return f"-{bracket(self.inner, 21)}"

    def latex(self) -> str:
        return f"-{bracket_latex(self.inner, 21)}"


class Product(Expression):
    """Represent a constant times an expression (`constant` is written first or last)."""

    precedence = 30

    def __init__(self, constant: Expression, inner: Expression) -> None:
        self.constant, self.inner = constant, inner
        self.shape = broadcast(constant, inner, "*")

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.constant, self.inner)

    def numeric(self) -> Any:
        return self.constant.numeric() * self.inner.numeric()

    def text(self) -> str:
        return f"{bracket(self.constant, 30)} * {bracket(self.inner, 31)}"

    def latex(self) -> str:
        return rf"{bracket_latex(self.constant, 30)} \, {bracket_latex(self.inner, 31)}"


class Quotient(Expression):
    """Represent an expression divided by a constant."""

    precedence = 30

    def __init__(self, inner: Expression, constant: Expression) -> None:
        self.inner, self.constant = inner, constant
        self.shape = broadcast(inner, constant, "/")

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.inner, self.constant)

    def divisor(self) -> Any:
        """Return the present value of the divisor."""
        value = constant_value(self.constant)
        if np.any(np.asarray(value) == 0):
            raise GrammarError(self.text(), "division by zero", "Give a non-zero divisor.")
        return value

    def numeric(self) -> Any:
        return self.inner.numeric() / self.divisor()

    def text(self) -> str:
        return f"{bracket(self.inner, 30)} / {bracket(self.constant, 31)}"

    def latex(self) -> str:
        return rf"\frac{{{self.inner.latex()}}}{{{self.constant.latex()}}}"


class Index(Expression):
    """Represent the entries of an expression at some points."""

    def __init__(self, inner: Expression, index: Any) -> None:
        if not inner.shape:
            raise DeclarationError(f"`{inner.text()}` is a single number and cannot be indexed")
        self.inner = inner
        self.index, self.is_item = as_index(index, inner.shape[0], bracket(inner, 95))
        self.index.flags.writeable = False
        self.shape = () if self.is_item else (len(self.index),)
        self.is_slice = not self.is_item and len(self.index) > 1 and bool(np.all(np.diff(self.index) == 1))
        self.symbol = None if self.is_item or self.is_slice else "I"

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.inner,)

    def numeric(self) -> Any:
        values = np.broadcast_to(self.inner.numeric(), self.inner.shape)[self.index]
        return values[0] if self.is_item else values

    def text(self) -> str:
        shown = str(int(self.index[0])) if self.is_item else index_text(self.index)
        return f"{bracket(self.inner, 95)}[{shown}]"

    def latex(self) -> str:
        first, place = str(int(self.index[0])) if len(self.index) else "", printing.index_latex() or "i"
        if not self.is_item:
            listed = f"{printing.lettered(self, 'mathcal')}_{{{place}}}"
            first = listed if not self.is_slice else place if first == "0" else f"{first}+{place}"
        with printing.entries(first):
            return self.inner.latex()


# -- building blocks ------------------------------------------------------------------------------------

# What the operators make is registered, for all expressions, where it is defined: those modules import this one.

@singledispatch
def squared(inner: Expression) -> Expression:
    """Return the square of an expression."""
    raise NotImplementedError


@singledispatch
def modulus(inner: Expression) -> Expression:
    """Return the absolute value of an expression."""
    raise NotImplementedError


@singledispatch
def at_most(left: Expression, right: Expression) -> Any:
    """Return the constraint left <= right."""
    raise NotImplementedError


@singledispatch
def equal(left: Expression, right: Expression) -> Any:
    """Return the constraint left == right."""
    raise NotImplementedError


@singledispatch
def different(left: Expression, right: Expression) -> Any:
    """Return the constraint left != right."""
    raise NotImplementedError


@singledispatch
def margin_of(left: Expression, right: Expression) -> Expression | None:
    """Return the margins that a product of labels and decision values is, None where it is none."""
    raise NotImplementedError


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
    if (product := margin_of(left, right)) is not None:
        return product
    raise GrammarError(
        f"{bracket(left, 30)} * {bracket(right, 31)}",
        "a product needs a constant factor (only labels times decision values, y * f, makes margins)",
        "Scale by numbers, arrays or md.Parameter, or use md.square.")


def divide(inner: Expression, constant: Expression) -> Expression:
    """Return the quotient by a non-zero constant."""
    if not constant.is_constant:
        raise GrammarError(f"{bracket(inner, 30)} / {bracket(constant, 31)}",
                           "only constants divide", "Multiply out, or fix the divisor as md.Parameter.")
    quotient = Quotient(inner, constant)
    quotient.divisor()
    return quotient
