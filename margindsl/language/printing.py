"""How formulas are printed: brackets where they are needed, numbers in full, and names told apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from margindsl.language.expressions import Expression

SHOWN_ENTRIES = 12  # arrays up to this length are printed in full

_GREEK = {"lam": r"\lambda", "lambda": r"\lambda", "nu": r"\nu", "theta": r"\theta", "eta": r"\eta",
          "rho": r"\rho", "beta": r"\beta", "gamma": r"\gamma", "mu": r"\mu", "eps": r"\varepsilon"}
_NAMES: ContextVar[Mapping[int, str]] = ContextVar("names of the formula being printed")


def bracket(expression: Expression, precedence: int) -> str:
    """Return the text, in brackets when the expression binds less tightly."""
    text = expression.text()
    return f"({text})" if expression.precedence < precedence else text


def bracket_latex(expression: Expression, precedence: int) -> str:
    """Return the LaTeX, in brackets when the expression binds less tightly."""
    text = expression.latex()
    return rf"\left({text}\right)" if expression.precedence < precedence else text


def latex_name(name: str) -> str:
    """Return a name as LaTeX: a Greek letter, a letter, or upright text; a number after _ is an index."""
    stem, _, number = name.rpartition("_")
    if stem and number.isdigit():
        return rf"{latex_name(stem)}_{{{number}}}"
    return _GREEK.get(name, name if len(name) == 1 else rf"\mathrm{{{name}}}")


def number_text(value: Any) -> str:
    """Return the shortest text that reads as the same number."""
    text = repr(float(value))
    return text.removesuffix(".0")


def array_text(values: np.ndarray) -> str:
    """Return ``array([...])``, or ``array(m)`` of many entries."""
    if len(values) > SHOWN_ENTRIES:
        return f"array({len(values)})"
    return f"array([{', '.join(map(number_text, values))}])"


def index_text(index: np.ndarray) -> str:
    """Return ``a:b``, ``[i, j]``, or ``index(m)`` of many points without order."""
    if len(index) > 1 and np.all(np.diff(index) == 1):
        return f"{int(index[0])}:{int(index[-1]) + 1}"
    return str(index.tolist()) if len(index) <= SHOWN_ENTRIES else f"index({len(index)})"


@contextmanager
def distinct_names(nodes: Iterable[Expression]) -> Iterator[None]:
    """Print different symbols of one name under different names: the second ``s`` is ``s_2``.

    Parameters
    ----------
    nodes : iterable of Expression
        In the order in which they are read; those without a name are passed over.
    """
    names: dict[int, str] = {}
    for node in nodes:
        name = getattr(node, "name", None)
        if name and id(node) not in names:
            number, taken = 1, set(names.values())
            while (unique := name if number == 1 else f"{name}_{number}") in taken:
                number += 1
            names[id(node)] = unique
    token = _NAMES.set(names)
    try:
        yield
    finally:
        _NAMES.reset(token)


def shown_name(node: Expression, name: str) -> str:
    """Return the name under which a symbol is printed at present."""
    return _NAMES.get({}).get(id(node), name)
