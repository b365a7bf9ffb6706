"""Domains of constants: asked whenever a formula is evaluated, so that parameters may change and stay inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.language.entries import constant_value
from margindsl.language.expressions import Constant, Expression, as_expression


class Within(Expression):
    """Represent a constant that has to lie in an interval, asked whenever its value is.

    Parameters
    ----------
    inner : Expression
        The constant, printed as if it stood alone.
    where : str
        What it is the argument of, for instance ``"md.odm"``.
    name : str
        What the argument is called.
    strict : bool
        Whether the lower end is excluded; a finite upper end always is.
    reason : str
        Why, said after the interval.
    """

    def __init__(self, inner: Expression, where: str, name: str, lower: float = 0.0, upper: float = np.inf, *,
                 strict: bool = False, reason: str = "") -> None:
        if not inner.is_constant:
            raise DeclarationError(
                f"{where}({name}={inner.text()}): expected a number, one number a point, or md.Parameter")
        self.inner, self.where, self.name_of = inner, where, name
        self.lower, self.upper, self.strict, self.reason = lower, upper, strict, reason
        self.shape = inner.shape
        constant_value(self)

    @property
    def precedence(self) -> int:  # type: ignore[override]
        """Return that of the constant."""
        return self.inner.precedence

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.inner,)

    def numeric(self) -> Any:
        """Return the value."""
        value = np.asarray(constant_value(self.inner))
        outside = ~((value > self.lower if self.strict else value >= self.lower) & (value < self.upper))
        if np.any(outside):
            given, shown = f"{value[outside].flat[0]:.6g}", self.inner.text()
            formula = "" if isinstance(self.inner, Constant) or shown == given else f"{shown} is {given}, "
            raise DeclarationError(
                f"{self.where}({self.name_of}={given}): {formula}expected {self._interval()}{self.reason}")
        return value[()]

    def _interval(self) -> str:
        below, above = f"{self.lower:g}", f"{self.upper:g}"
        if np.isinf(self.upper):
            return f"{self.name_of} {'>' if self.strict else '>='} {below}"
        return f"{below} {'<' if self.strict else '<='} {self.name_of} < {above}"

    def text(self) -> str:
        return self.inner.text()

    def latex(self) -> str:
        return self.inner.latex()


def within(value: Any, where: str, name: str, lower: float = 0.0, upper: float = np.inf, *,
           strict: bool = False, reason: str = "") -> Within:
    """Return an argument of a formula with its domain; see `Within`."""
    try:
        expression = as_expression(value)
    except DeclarationError as error:
        raise DeclarationError(f"{where}({name}={value!r}): {error}") from None
    return Within(expression, where, name, lower, upper, strict=strict, reason=reason)
