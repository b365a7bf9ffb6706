"""Named parts of formulas: parameters and shared scalars."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.language.entries import is_number, read_flag
from margindsl.language.expressions import Expression
from margindsl.language.printing import entry_latex, latex_name, number_latex, number_text, shown_name


class Named(Expression):
    """Represent an expression that is printed by its name."""

    name: str

    def text(self) -> str:
        return shown_name(self, self.name)

    def latex(self) -> str:
        return entry_latex(self.letter(), bool(self.shape))

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
    >>> float((2 * lam).numeric())
    20.0
    """

    def __init__(self, value: float, name: str | None = None) -> None:
        self._value: float
        self.name = None if name is None else check_name(name, "Parameter")
        self.value = value

    @property
    def value(self) -> float:
        """Return or set the present value."""
        return self._value

    @value.setter
    def value(self, value: float) -> None:
        try:
            number = float(value) if is_number(value) else np.nan
        except OverflowError:  # an integer or fraction beyond the largest float
            number = np.inf
        if not np.isfinite(number):
            raise DeclarationError(f"Parameter: given {value!r}, expected a finite real number")
        self._value = number

    @property
    def precedence(self) -> int:  # type: ignore[override]
        """Return that of a number where there is no name."""
        return 100 if self.name or self._value >= 0 else 20

    @property
    def is_constant(self) -> bool:
        return True

    def numeric(self) -> Any:
        return np.float64(self._value)

    def text(self) -> str:
        return shown_name(self, self.name) if self.name else number_text(self._value)

    def latex(self) -> str:
        return latex_name(self.text()) if self.name else number_latex(self._value)


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
