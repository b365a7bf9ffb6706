"""How formulas are printed: one table of text, LaTeX and precedence, brackets, numbers in full, names told apart."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

SHOWN_ENTRIES = 12  # arrays up to this length are printed in full

_GREEK = {"lam": r"\lambda", "lambda": r"\lambda", "nu": r"\nu", "theta": r"\theta", "eta": r"\eta",
          "rho": r"\rho", "beta": r"\beta", "gamma": r"\gamma", "mu": r"\mu", "eps": r"\varepsilon"}
_SPECIAL = {"\\": r"\backslash ", "{": r"\{", "}": r"\}", "^": r"\hat{\ }", "~": r"\sim ", "<": r"\lt ", ">": r"\gt ",
            " ": r"\ ", **{character: "\\" + character for character in "_&%$#"}}
_ENTRY: ContextVar[str] = ContextVar("the index of the entry being printed", default="")
_NAMES: ContextVar[Mapping[int, str]] = ContextVar("names of the formula being printed")


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
    """Return the shortest text that reads as the same number, 0.64 for 0.6400000000000001."""
    text, rounded = repr(float(value)), repr(float(f"{float(value):.15g}"))
    return (rounded if len(rounded) < len(text) - 4 else text).removesuffix(".0")


def array_text(values: np.ndarray) -> str:
    """Return ``array([...])``, of many entries the first three and the last."""
    if len(values) > SHOWN_ENTRIES:
        first, last = ", ".join(f"{value:.6g}" for value in values[:3]), f"{values[-1]:.6g}"
        return f"array([{first}, ..., {last}])"
    return f"array([{', '.join(map(number_text, values))}])"


def index_text(index: np.ndarray) -> str:
    """Return ``a:b``, ``[i, j]``, or ``index(m)`` of many points without order."""
    if len(index) > 1 and np.all(np.diff(index) == 1):
        return f"{int(index[0])}:{int(index[-1]) + 1}"
    return str(index.tolist()) if len(index) <= SHOWN_ENTRIES else f"index({len(index)})"


@contextmanager
def distinct_names(nodes: Iterable[Any]) -> Iterator[None]:
    """Print different symbols of one name under different names: the second ``s`` is ``s_2``.

    `nodes`: in the order in which they are read; those without a name, or a `symbol` for what has none, are passed
    over.
    """
    names: dict[int, str] = {}
    found = list(nodes)
    for node, name in [(node, getattr(node, what, None)) for what in ("name", "symbol") for node in found]:
        if name and id(node) not in names:
            names[id(node)] = free_name(name, names.values())
    token = _NAMES.set(names)
    try:
        yield
    finally:
        _NAMES.reset(token)


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name, with the first number from 2 on that makes it none of those taken."""
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    return next(unique for unique in itertools.chain([name], numbered) if unique not in taken)


def shown_name(node: Any, name: str) -> str:
    """Return the name under which a symbol is printed at present."""
    return _NAMES.get({}).get(id(node), name)


@dataclass(frozen=True)
class Shown:
    """Represent a node in a template: ``{0:30}`` is its first child, in brackets where that binds less than 30."""

    node: Any
    is_latex: bool

    def __format__(self, least: str) -> str:
        return show(self.node, int(least or 0), self.is_latex)


Template = str | Callable[[Any], str]  # of the children, or what makes the whole of the node


def show(node: Any, least: int = 0, is_latex: bool = False) -> str:
    """Return a node as text or LaTeX, in brackets when it binds less than `least`."""
    written = node.latex() if is_latex else node.text()
    if node.precedence >= least:
        return str(written)
    return rf"\left({written}\right)" if is_latex else f"({written})"


def written(node: Any, is_latex: bool) -> str:
    """Return a node as the table says; a derived class without a row is written as the class it derives from."""
    row = next((FORMS[cls.__name__] for cls in type(node).__mro__ if cls.__name__ in FORMS), None)
    if row is None:
        raise TypeError(f"{type(node).__name__} has no {'LaTeX form' if is_latex else 'text'}")
    template = row[2] if is_latex else row[1]
    if callable(template):
        return template(node)
    return template.format(*(Shown(child, is_latex) for child in node.children))


def precedence(node: Any) -> int:
    """Return how tightly a node binds; a negative number binds as a negation does."""
    binds = next((FORMS[cls.__name__][0] for cls in type(node).__mro__ if cls.__name__ in FORMS), 100)
    return binds(node) if callable(binds) else binds


def _sum(is_latex: bool) -> Callable[[Any], str]:
    def write(e: Any) -> str:
        first, *rest = e.children
        signed = [(" - ", show(term.inner, 21, is_latex)) if type(term).__name__ == "Negation" else
                  (" + ", show(term, 0, is_latex)) for term in rest]
        return show(first, 0, is_latex) + "".join(map("".join, signed))

    return write


def _index_latex(e: Any) -> str:
    """Return the expression at the points indexed: at one of them, or at every one of a list."""
    first, entry = str(int(e.index[0])) if len(e.index) else "", index_latex() or "i"
    if not e.is_item:
        listed = f"{lettered(e, 'mathcal')}_{{{entry}}}"
        first = listed if not e.is_slice else entry if first == "0" else f"{first}+{entry}"
    with entries(first):
        return str(e.inner.latex())


def _curve_latex(e: Any) -> str:
    before, after = (words_latex(text) if text else "" for text in (e.before, e.after))
    return rf"\mathrm{{{e.word}}}\left({before}{e.inner.latex()}{after}\right)"


def _total_latex(e: Any) -> str:
    """Return a sum sign, with the range of its index where it does not go over all points."""
    is_part = any(type(node).__name__ == "Index" and node.shape for node in e.inner.walk())
    with entries():
        return rf"\sum_{f'{{i=0}}^{{{len(e.inner) - 1}}}' if is_part else 'i'} {show(e.inner, 30, True)}"


def _variance_latex(e: Any) -> str:
    with entries():
        return rf"\operatorname{{var}}_i\left({e.inner.latex()}\right)"


def _whole(e: Any) -> str:
    with entries(""):
        return show(e, 31, True)


def _margin_latex(e: Any) -> str:
    index = index_latex() or "i"
    if e.coding == "binary":
        with entries(index):
            return f"{e.labels.latex()} {show(e.hyperplane, 31, True)}"
    gamma = subscript(r"\gamma", index)
    with entries(""):
        return f"{gamma}({e.labels.latex()}, {e.hyperplane.latex()})"


def _norm_latex(e: Any) -> str:
    f = e.hyperplane.letter()
    return {"": rf"\|{f}\|", ", 1": rf"\|{f}\|_1"}.get(e.ord(), rf"\sum_v \|{subscript(f, 'v')}\|")


def _pairs_latex(e: Any) -> str:
    sign, (i, j) = r"\ne" if e.kind == "must-link" else "=", (subscript(e.labels.letter(), index) for index in "ij")
    with entries("ij"):
        weight = show(e.weights, 30, True)
    return rf"\sum_{{(i,j) \in \mathcal{{P}},\, |\mathcal{{P}}| = {len(e.pairs)}}} {weight} \, [{i} {sign} {j}]"


# How tightly each node binds, and how it is written as text and as LaTeX.
FORMS: dict[str, tuple[int | Callable[[Any], int], Template, Template]] = {
    "Constant": (lambda e: 100 if e.shape or e.value >= 0 else 20,
                 lambda e: array_text(e.value) if e.shape else number_text(e.value),
                 lambda e: entry_latex(lettered(e, "mathbf"), True) if e.shape else number_latex(e.value)),
    "Parameter": (lambda e: 100 if e.name or e.shape or e.value >= 0 else 20,
                  lambda e: (shown_name(e, e.name) if e.name else array_text(e.value) if e.shape else
                             number_text(e.value)),
                  lambda e: (entry_latex(latex_name(e.text()), bool(e.shape)) if e.name else
                             r"\mathbf{p}" if e.shape else number_latex(e.value))),
    "Named": (100, lambda e: shown_name(e, e.name), lambda e: entry_latex(e.letter(), bool(e.shape))),
    "Within": (lambda e: e.inner.precedence, "{0}", "{0}"),
    "Sum": (10, _sum(False), _sum(True)),
    "Negation": (20, "-{0:21}", "-{0:21}"),
    "Product": (30, "{0:30} * {1:31}", r"{0:30} \, {1:31}"),
    "Quotient": (30, "{0:30} / {1:31}", r"\frac{{{0}}}{{{1}}}"),
    "Margin": (30, lambda e: (f"{e.labels.text()} * {show(e.hyperplane, 31)}" if e.coding == "binary" else
                              f"md.margin({e.labels.text()}, {show(e.hyperplane, 31)}, coding={e.coding!r})"),
               _margin_latex),
    "Transformed": (30, "A @ {0:31}", lambda e: entry_latex(rf"\left(A \, {_whole(e.inner)}\right)", True)),
    "Square": (90, "{0:95}**2", lambda e: (f"{e.inner.latex()}^2" if type(e.inner).__name__ == "PositivePart" else
                                           rf"\left({e.inner.latex()}\right)^2")),
    "Index": (100, lambda e: f"{show(e.inner, 95)}[{int(e.index[0]) if e.is_item else index_text(e.index)}]",
              _index_latex),
    "PositivePart": (100, "md.pos({0})", r"\left({0}\right)_+"),
    "Absolute": (100, "abs({0})", r"\left|{0}\right|"),
    "Maximum": (100, lambda e: f"md.maximum({', '.join(a.text() for a in e.children)})",
                lambda e: rf"\max\left({', '.join(a.latex() for a in e.children)}\right)"),
    "Truncated": (100, "md.minimum({0}, {1})", r"\min\left({0}, {1}\right)"),
    "ByLabel": (100, lambda e: f"md.by_label({e.labels.text()}, {{+1: {e.upper.text()}, -1: {e.lower.text()}}})",
                lambda e: rf"\begin{{cases}} {e.upper.latex()} & {e.labels.latex()} = +1 \\ {e.lower.latex()} & "
                          rf"{e.labels.latex()} = -1 \end{{cases}}"),
    "Curve": (100, lambda e: f"md.{e.word}({e.before}{e.inner.text()}{e.after})", _curve_latex),
    "Total": (100, "md.sum({0})", _total_latex),
    "Greatest": (100, "md.max({0})", r"\max\left({0}\right)"),
    "Mean": (100, "md.mean({0})",
             lambda e: rf"\frac{{1}}{{{len(e.inner) if e.inner.shape else 1}}}{_total_latex(e)}"),
    "Variance": (100, "md.var({0})", _variance_latex),
    "PairEnergy": (100, lambda e: f"md.{e.kind.replace('-', '_')}({e.labels.text()}, {len(e.pairs)} pairs, "
                                  f"weight={e.weights.text()})",
                   _pairs_latex),
    "SquaredNorm": (100, "md.sq_norm({0})", lambda e: rf"\|{e.hyperplane.letter()}\|^2"),
    "CvxpyTerm": (100, "md.cvxpy_term({0}, ...)", lambda e: r"t\left(w, b\right)"),
    "Norm": (100, lambda e: f"md.norm({e.hyperplane.text()}{e.ord()})", _norm_latex),
    "Manifold": (100, "md.manifold({0}, graph)", lambda e: rf"{e.hyperplane.letter()}^\top L {e.hyperplane.letter()}")}
