"""Loss atoms, aggregates and regularisers: the functions formulas are made of."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np

from margindsl.calculus import PLQ, ConvexFunction
from margindsl.errors import DeclarationError, GrammarError
from margindsl.language.entries import is_number
from margindsl.language.expressions import Expression, Index, as_expression, modulus, squared
from margindsl.language.margins import Hyperplane
from margindsl.language.printing import bracket, bracket_latex, entries, number_text, words_latex
from margindsl.language.symbols import Scalar


class Atom(Expression):
    """Represent a function applied entry by entry."""

    word: ClassVar[str] = ""

    def __init__(self, *arguments: Expression) -> None:
        self.arguments = arguments
        shapes = {a.shape for a in arguments if a.shape}
        if len(shapes) > 1:
            raise DeclarationError(
                f"`{self.text()}`: arguments of different lengths {sorted(shapes)}; index them to the same points")
        self.shape = shapes.pop() if shapes else ()

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.arguments

    def text(self) -> str:
        return f"md.{self.word}({', '.join(a.text() for a in self.arguments)})"


class PositivePart(Atom):
    """Represent max(x, 0)."""

    word = "pos"

    def numeric(self) -> Any:
        return np.maximum(self.arguments[0].numeric(), 0.0)

    def latex(self) -> str:
        return rf"\left({self.arguments[0].latex()}\right)_+"


class Absolute(Atom):
    """Represent |x|."""

    word = "abs"

    def numeric(self) -> Any:
        return np.abs(self.arguments[0].numeric())

    def text(self) -> str:
        return f"abs({self.arguments[0].text()})"

    def latex(self) -> str:
        return rf"\left|{self.arguments[0].latex()}\right|"


class Square(Atom):
    """Represent x²."""

    word = "square"
    precedence = 90

    def numeric(self) -> Any:
        return np.square(self.arguments[0].numeric())

    def text(self) -> str:
        return f"{bracket(self.arguments[0], 95)}**2"

    def latex(self) -> str:
        inner = self.arguments[0].latex()
        if isinstance(self.arguments[0], PositivePart):
            return inner + "^2"
        return rf"\left({inner}\right)^2"


class Maximum(Atom):
    """Represent the largest of several expressions."""

    word = "maximum"

    def numeric(self) -> Any:
        result = self.arguments[0].numeric()
        for argument in self.arguments[1:]:
            result = np.maximum(result, argument.numeric())
        return result

    def latex(self) -> str:
        return r"\max\left(" + ", ".join(a.latex() for a in self.arguments) + r"\right)"


class Curve(Atom):
    """Represent ρ(x) for a given one-dimensional convex function ρ.

    Parameters
    ----------
    word : str
        Its name.
    before, after : str
        What is printed within the brackets before and after the argument.
    """

    def __init__(self, function: ConvexFunction, argument: Expression, word: str, before: str = "",
                 after: str = "") -> None:
        self.function, self.before, self.after = function, before, after
        self.word = word  # type: ignore[misc]
        super().__init__(argument)

    def text(self) -> str:
        return f"md.{self.word}({self.before}{self.arguments[0].text()}{self.after})"

    @property
    def is_constant(self) -> bool:
        return False

    def latex(self) -> str:
        before, after = (words_latex(text) if text else "" for text in (self.before, self.after))
        return rf"\mathrm{{{self.word}}}\left({before}{self.arguments[0].latex()}{after}\right)"


def pos(x: Any) -> Expression:
    """Return the positive part max(x, 0), entry by entry."""
    return PositivePart(as_expression(x))


@modulus.register(Expression)
def absolute(x: Any) -> Expression:
    """Return |x|, entry by entry (also written ``abs(x)``)."""
    return Absolute(as_expression(x))


@squared.register(Expression)
def square(x: Any) -> Expression:
    """Return x², entry by entry (also written ``x**2``)."""
    return Square(as_expression(x))


def maximum(*arguments: Any) -> Expression:
    """Return the largest of two or more expressions, entry by entry.

    Raises
    ------
    DeclarationError
        With fewer than two arguments.
    """
    if len(arguments) < 2:
        raise DeclarationError(f"md.maximum: given {len(arguments)} argument(s), expected at least two")
    return Maximum(*map(as_expression, arguments))


def huber(x: Any, threshold: float = 1.0) -> Expression:
    """Return the Huber function: x² where |x| ≤ M, 2M|x| − M² beyond.

    Parameters
    ----------
    x : expression
    threshold : float
        M, positive.

    Raises
    ------
    DeclarationError
        If the threshold is not a positive number.
    """
    from margindsl.calculus import huber as huber_function

    if not is_number(threshold) or not 0 < threshold < np.inf:
        raise DeclarationError(f"md.huber(threshold={threshold!r}): expected a positive number")
    after = "" if threshold == 1 else f", {number_text(threshold)}"
    return Curve(huber_function(float(threshold)), as_expression(x), "huber", after=after)


def logistic(x: Any) -> Expression:
    """Return log(1 + exp(x)), entry by entry; the logistic margin loss is ``md.logistic(-g)``."""
    from margindsl.calculus import Logistic

    return Curve(Logistic().precompose(-1.0, 0.0), as_expression(x), "logistic")


def plq(pieces: Any, x: Any = None) -> Any:
    """Return a loss given by its pieces, or that loss applied to x.

    Parameters
    ----------
    pieces : sequence of (upper end, (q, s, c)) or ConvexFunction
        In order: on each piece up to its upper end (the last one ``inf``) the loss is q x² + s x + c.
    x : expression, optional
        The argument; without it a function of one expression is returned.

    Raises
    ------
    CalculusError
        If the pieces are not continuous or not convex.
    DeclarationError
        If they are not in order.

    Examples
    --------
    >>> hinge = plq([(1.0, (0.0, -1.0, 1.0)), (float("inf"), (0.0, 0.0, 0.0))])
    """
    function = pieces if isinstance(pieces, ConvexFunction) else _plq_from_pieces(pieces)
    shown = _pieces_text(function) if isinstance(function, PLQ) else repr(function)

    def loss(argument: Any) -> Expression:
        return Curve(function, as_expression(argument), "plq", before=f"{shown}, ")

    return loss if x is None else loss(x)


def _pieces_text(function: PLQ) -> str:
    return "[" + ", ".join(f"({number_text(end)}, ({number_text(q)}, {number_text(s)}, {number_text(c)}))"
                           for _, end, q, s, c in function.pieces) + "]"


def _plq_from_pieces(pieces: Any) -> PLQ:
    try:
        pieces = list(pieces)
        ends = [float(end) for end, _ in pieces]
        rows = [tuple(float(v) for v in row) for _, row in pieces]
    except (TypeError, ValueError, OverflowError) as error:
        raise DeclarationError(
            f"md.plq: expected pairs (upper end, (q, s, c)), in order; could not read them ({error})") from None
    if not rows or any(len(row) != 3 for row in rows) or ends[-1] != float("inf"):
        raise DeclarationError("md.plq: expected pairs (upper end, (q, s, c)), the last upper end inf")
    if any(a >= b for a, b in itertools.pairwise(ends)):
        raise DeclarationError(f"md.plq: upper ends {ends} are not increasing")
    return PLQ(np.array(ends[:-1]), np.array(rows))


# -- aggregates -----------------------------------------------------------------------------------------


class Aggregate(Expression):
    """Represent a sum, mean or variance over points."""

    word: ClassVar[str] = ""

    def __init__(self, inner: Expression) -> None:
        self.inner = inner

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.inner,)

    @property
    def is_constant(self) -> bool:
        return self.inner.is_constant

    def text(self) -> str:
        return f"md.{self.word}({self.inner.text()})"

    def _summand(self) -> str:
        with entries():
            return bracket_latex(self.inner, 30)

    def _range(self) -> str:
        """Return the index of a sum, with its range where it does not go over all points."""
        part = any(isinstance(node, Index) and node.shape for node in self.inner.walk())
        return f"{{i=0}}^{{{len(self.inner) - 1}}}" if part else "i"


class Total(Aggregate):
    """Represent the sum over points."""

    word = "sum"

    def numeric(self) -> float:
        return float(np.sum(self.inner.numeric()))

    def latex(self) -> str:
        return rf"\sum_{self._range()} {self._summand()}"


class Mean(Aggregate):
    """Represent the mean over points."""

    word = "mean"

    def numeric(self) -> float:
        return float(np.mean(self.inner.numeric()))

    def latex(self) -> str:
        count = len(self.inner) if self.inner.shape else 1
        return rf"\frac{{1}}{{{count}}}\sum_{self._range()} {self._summand()}"


class Variance(Aggregate):
    """Represent the variance over points, min over s of the mean of (x − s)²."""

    word = "var"

    def __init__(self, inner: Expression) -> None:
        super().__init__(inner)
        self.centre = Scalar(name="mean")

    @property
    def is_constant(self) -> bool:
        return False

    def latex(self) -> str:
        with entries():
            return rf"\operatorname{{var}}_i\left({self.inner.latex()}\right)"


def sum(x: Any) -> Expression:
    """Return the sum over points."""
    return Total(_entries(x, "sum"))


def mean(x: Any) -> Expression:
    """Return the mean over points; write weights as factors, ``md.mean(c * loss)``."""
    return Mean(_entries(x, "mean"))


def var(x: Any) -> Expression:
    """Return the variance over points (population variance, divided by their number)."""
    return Variance(_entries(x, "var"))


def _entries(x: Any, word: str) -> Expression:
    x = as_expression(x)
    if not x.shape:
        raise DeclarationError(f"`md.{word}({x.text()})`: a single number; expected one value a point")
    if x.shape == (0,):
        raise DeclarationError(f"`md.{word}({x.text()})`: no points are left; check the index")
    return x


# -- regularisers ---------------------------------------------------------------------------------------


class SquaredNorm(Expression):
    """Represent ‖w‖² of a hyperplane, without its bias."""

    def __init__(self, hyperplane: Hyperplane) -> None:
        self.hyperplane = hyperplane

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.hyperplane,)

    def text(self) -> str:
        return f"md.sq_norm({self.hyperplane.text()})"

    def latex(self) -> str:
        return rf"\|{self.hyperplane.letter()}\|^2"


class Manifold(Expression):
    """Represent fᵀLf for a graph Laplacian L."""

    def __init__(self, hyperplane: Hyperplane, laplacian: Any) -> None:
        self.hyperplane, self.laplacian = hyperplane, laplacian

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.hyperplane,)

    def text(self) -> str:
        return f"md.manifold({self.hyperplane.text()}, graph)"

    def latex(self) -> str:
        name = self.hyperplane.letter()
        return rf"{name}^\top L {name}"


def sq_norm(f: Any) -> Expression:
    """Return the squared norm ‖w‖² of a hyperplane.

    Raises
    ------
    GrammarError
        If the argument is not a `Hyperplane`.
    """
    if not isinstance(f, Hyperplane):
        raise GrammarError(f"md.sq_norm({as_expression(f).text()})", "the norm is of a hyperplane",
                           "Write md.sq_norm(f) with f = md.Hyperplane(X).")
    return SquaredNorm(f)


def manifold(f: Any, graph: Any) -> Expression:
    """Return the manifold term fᵀLf of a weighted graph on the points (Laplacian SVM).

    Parameters
    ----------
    f : Hyperplane
    graph : (n, n) scipy sparse matrix, array or networkx graph
        Symmetric non-negative weights; L is its unnormalised Laplacian.

    Raises
    ------
    GrammarError
        If f is not a hyperplane.
    DeclarationError
        If the graph is not an n × n symmetric matrix of non-negative weights.
    """
    from margindsl.language.graphs import as_laplacian

    if not isinstance(f, Hyperplane):
        raise GrammarError(f"md.manifold({as_expression(f).text()}, graph)", "the manifold term is of a hyperplane",
                           "Write md.manifold(f, graph) with f = md.Hyperplane(X).")
    return Manifold(f, as_laplacian(graph, f.n))
