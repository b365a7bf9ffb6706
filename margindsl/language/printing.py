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
_SPECIAL = {"\\": r"\backslash ", "{": r"\{", "}": r"\}", "^": r"\hat{\ }", "~": r"\sim ", "<": r"\lt ", ">": r"\gt ",
            " ": r"\ ", **{character: "\\" + character for character in "_&%$#"}}
_ENTRY: ContextVar[str] = ContextVar("the index of the entry being printed", default="")
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
    if name in _GREEK or (len(name) == 1 and name not in _SPECIAL):
        return _GREEK.get(name, name)
    return rf"\mathrm{{{''.join(_SPECIAL.get(character, character) for character in name)}}}"


def words_latex(text: str) -> str:
    """Return words as they are written, within LaTeX mathematics."""
    kept = {**_SPECIAL, " ": " ", "<": "<", ">": ">", "\\": r"\textbackslash ", "^": r"\^{}", "~": r"\~{}"}
    return rf"\text{{{''.join(kept.get(character, character) for character in text)}}}"


def number_latex(value: Any) -> str:
    """Return the shortest LaTeX that reads as the same number."""
    mantissa, _, exponent = number_text(value).partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def subscript(latex: str, index: str) -> str:
    """Return an entry of something; what has an index of its own is grouped first."""
    return f"{{{latex}}}_{{{index}}}" if "_" in latex else f"{latex}_{index if len(index) == 1 else f'{{{index}}}'}"


def lettered(node: Any, font: str) -> str:
    """Return the letter of an array or a list of points, told from others by a number."""
    letter, _, number = shown_name(node, node.symbol or "").partition("_")
    return rf"\{font}{{{letter}}}" + (f"^{{({number})}}" if number else "")


def index_latex() -> str:
    """Return the index of the entry that is printed, nothing where whole arrays are."""
    return _ENTRY.get()


def entry_latex(latex: str, is_array: bool) -> str:
    """Return an array as LaTeX: its entry where entries are printed."""
    return subscript(latex, _ENTRY.get()) if is_array and _ENTRY.get() else latex


@contextmanager
def entries(index: str = "i") -> Iterator[None]:
    """Print arrays by their entry of an index: formulas of one point."""
    token = _ENTRY.set(index)
    try:
        yield
    finally:
        _ENTRY.reset(token)


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
        In the order in which they are read; those without a name, or a `symbol` for what has none, are passed over.
    """
    names: dict[int, str] = {}
    found = list(nodes)
    for node, name in [(node, getattr(node, what, None)) for what in ("name", "symbol") for node in found]:
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
