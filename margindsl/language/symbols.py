"""Named parts of formulas, parameters and shared scalars, and the domains of constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.language.entries import as_values, constant_value, is_number, read_flag
from margindsl.language.expressions import Constant, Expression, as_expression
from margindsl.language.printing import latex_name
from margindsl.typing import FloatArray


class Named(Expression):
    """Represent an expression that is printed by its name."""

    name: str

    def letter(self) -> str:
        """Return the name as LaTeX."""
        return latex_name(self.text())


def check_name(name: Any, what: str) -> str:
    """Return a name."""
    if not isinstance(name, str) or not name.strip():
        raise DeclarationError(f"{what}(name={name!r}): expected a word, such as 'lam'")
    return name


class Parameter(Expression):
    """Represent a constant that may change between solves without compiling again.

    Formulas check the value whenever they are solved: `md.odm` with a θ outside [0, 1) is an error that names the
    formula, whenever the value was set.

    Parameters
    ----------
    value : float or (m,) array
        The present value, finite; one number a point may change to others, as many.
    name : str, optional
        How it is printed.
    nonneg : bool
        Whether negative values are refused.

    Raises
    ------
    DeclarationError
        If the value is not finite, or negative and should not be, or of another length than before.

    Examples
    --------
    >>> lam = Parameter(10.0, name="lam")
    >>> float((2 * lam).numeric())
    20.0
    """

    is_constant = True

    def __init__(self, value: Any = None, name: str | None = None, nonneg: bool = False) -> None:
        self._value: float | FloatArray
        self.name = None if name is None else check_name(name, "Parameter")
        self.nonneg = read_flag(nonneg, "Parameter(nonneg=")
        self.value = value
        self.shape = np.shape(self._value)
        self.symbol = "p" if self.shape else None

    @property
    def value(self) -> Any:
        """Return or set the present value."""
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        value = value[()] if isinstance(value, np.ndarray) else value  # a number of an array without dimensions
        several = isinstance(value, np.ndarray | list | tuple) or hasattr(value, "to_numpy")
        array = value if several else None
        try:
            number = float(value) if is_number(value) else np.nan
        except OverflowError:  # an integer or fraction beyond the largest float
            number = np.inf
        if array is None and not np.isfinite(number):
            raise DeclarationError(f"Parameter: given {value!r}, expected a finite real number, or an array of one a "
                                   "point; a parameter has a value from the start, md.Parameter(1.0)")
        found = float(number) if array is None else as_values(array)
        if "shape" in self.__dict__ and np.shape(found) != self.shape:
            expected = f"{self.shape[0]} numbers" if self.shape else "a finite real number"
            raise DeclarationError(f"Parameter: given {value!r}, expected {expected}, as it was declared with")
        if self.nonneg and np.any(np.asarray(found) < 0):
            raise DeclarationError(f"Parameter(nonneg=True): given {np.min(found):g}, expected at least 0")
        self._value = found

    def numeric(self) -> Any:
        return np.asarray(self._value)[()]


class Scalar(Named):
    """Represent a shared scalar variable, such as an adaptive threshold or the free margin mean.

    Parameters
    ----------
    nonneg : bool
        Whether it is constrained to be non-negative.
    name : str
        How it is printed; of several scalars of one name in a problem, the second is ``s_2``.

    Raises
    ------
    DeclarationError
        If nonneg is no bool, or the name no word.
    """

    def __init__(self, nonneg: bool = False, name: str = "s") -> None:
        self.nonneg = read_flag(nonneg, "Scalar(nonneg=", "; a name goes to name=")
        self.name = check_name(name, "Scalar")


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

    parts = ("inner",)

    def __init__(self, inner: Expression, where: str, name: str, lower: float = 0.0, upper: float = np.inf, *,
                 strict: bool = False, reason: str = "") -> None:
        if not inner.is_constant:
            raise DeclarationError(
                f"{where}({name}={inner.text()}): expected a number, one number a point, or md.Parameter")
        self.inner, self.where, self.name_of = inner, where, name
        self.lower, self.upper, self.strict, self.reason = lower, upper, strict, reason
        self.shape = inner.shape
        constant_value(self)

    def numeric(self) -> Any:
        """Return the value, and refuse one outside [lower, upper), or (lower, upper) where that is strict."""
        value = np.asarray(constant_value(self.inner))
        outside = ~((value > self.lower if self.strict else value >= self.lower) & (value < self.upper))
        if np.any(outside):
            given, shown = f"{value[outside].flat[0]:.6g}", self.inner.text()
            formula = "" if isinstance(self.inner, Constant) or shown == given else f"{shown} is {given}, "
            sign = ">" if self.strict else ">="
            interval = (f"{self.name_of} {sign} {self.lower:g}" if np.isinf(self.upper) else
                        f"{self.lower:g} {sign.replace('>', '<')} {self.name_of} < {self.upper:g}")
            raise DeclarationError(f"{self.where}({self.name_of}={given}): {formula}expected {interval}{self.reason}")
        return value[()]


def within(value: Any, where: str, name: str, lower: float = 0.0, upper: float = np.inf, *,
           strict: bool = False, reason: str = "") -> Within:
    """Return an argument of a formula with its domain; see `Within`."""
    try:
        expression = as_expression(value)
    except DeclarationError as error:
        raise DeclarationError(f"{where}({name}={value!r}): {error}") from None
    return Within(expression, where, name, lower, upper, strict=strict, reason=reason)
