"""How formulas are printed: brackets where they are needed, and names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from margindsl.language.expressions import Expression

_GREEK = {"lam": r"\lambda", "lambda": r"\lambda", "nu": r"\nu", "theta": r"\theta", "eta": r"\eta",
          "rho": r"\rho", "beta": r"\beta", "gamma": r"\gamma", "mu": r"\mu", "eps": r"\varepsilon"}


def bracket(expression: Expression, precedence: int) -> str:
    """Return the text, in brackets when the expression binds less tightly."""
    text = expression.text()
    return f"({text})" if expression.precedence < precedence else text


def bracket_latex(expression: Expression, precedence: int) -> str:
    """Return the LaTeX, in brackets when the expression binds less tightly."""
    text = expression.latex()
    return rf"\left({text}\right)" if expression.precedence < precedence else text


def latex_name(name: str) -> str:
    """Return a name as LaTeX: a Greek letter, a letter, or upright text."""
    return _GREEK.get(name, name if len(name) == 1 else rf"\mathrm{{{name}}}")
