"""Named parts of formulas: parameters and shared scalars."""

from __future__ import annotations

import numbers

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.language.expressions import Expression
from margindsl.language.printing import latex_name


class Named(Expression):
    """Represent an expression that is printed by its name."""

    name: str

    def text(self) -> str:
        """Return the name."""
        return self.name

    def latex(self) -> str:
        """Return the name."""
        return self.name


class Parameter(Expression):
    """Represent a constant that may change between solves without compiling again.

    Parameters
    ----------
    value : float
        The present value, finite.
    name : str, optional
        How it is printed.

    Raises
    ------
    DeclarationError
        If the value is not a finite real number.

    Examples
    --------
    >>> lam = Parameter(10.0, name="lam")
    >>> (2 * lam).numeric()
    20.0
    """

    def __init__(self, value: float, name: str | None = None) -> None:
        self._value: float
        self.name = name
        self.value = value

    @property
    def value(self) -> float:
        """Return or set the present value."""
        return self._value

    @value.setter
    def value(self, value: float) -> None:
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not np.isfinite(value):
            raise DeclarationError(f"Parameter: given {value!r}, expected a finite real number")
        self._value = float(value)

    @property
    def is_constant(self) -> bool:
        """Return True."""
        return True

    def numeric(self) -> float:
        """Return the present value."""
        return self._value

    def text(self) -> str:
        """Return the name, or the value when there is none."""
        return self.name or f"{self._value:.6g}"

    def latex(self) -> str:
        """Return the name as LaTeX."""
        return latex_name(self.name) if self.name else f"{self._value:.6g}"


class Scalar(Named):
    """Represent a shared scalar variable, such as an adaptive threshold or the free margin mean.

    Parameters
    ----------
    nonneg : bool
        Whether it is constrained to be non-negative.
    name : str
        How it is printed.
    """

    def __init__(self, nonneg: bool = False, name: str = "s") -> None:
        self.nonneg = bool(nonneg)
        self.name = name

    def latex(self) -> str:
        """Return the name as LaTeX."""
        return latex_name(self.name)
