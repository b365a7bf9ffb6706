"""Loss atoms, aggregates, regularisers and named objectives: the functions formulas are made of."""

from __future__ import annotations

import itertools
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from margindsl.calculus import PLQ, ConvexFunction, Logistic
from margindsl.calculus import huber as huber_function
from margindsl.calculus.protocol import checked_loss
from margindsl.errors import DeclarationError, GrammarError
from margindsl.features.kernels import Linear
from margindsl.language.entries import is_number
from margindsl.language.expressions import (
    NUMPY,
    Constant,
    Expression,
    Maximum,
    Operation,
    PositivePart,
    Truncated,
    as_expression,
    even_argument,
)
from margindsl.language.graphs import as_laplacian
from margindsl.language.margins import Hyperplane
from margindsl.language.printing import number_text
from margindsl.language.rows import PairEnergy
from margindsl.language.symbols import Parameter, Scalar, within


class Curve(Operation):
    """Represent ρ(x) for a given one-dimensional convex function ρ.

    Parameters
    ----------
    word : str
        Its name.
    before, after : str
        What is printed within the brackets before and after the argument.
    """

    parts = ("inner",)
    is_constant = False  # a loss of a constant is left to the compiler
    inner: Expression

    def __init__(self, function: ConvexFunction, argument: Expression, word: str, before: str = "",
                 after: str = "") -> None:
        self.function, self.word, self.before, self.after = function, word, before, after
        super().__init__(argument)


def pos(x: Any) -> Expression:
    """Return the positive part max(x, 0), entry by entry."""
    return PositivePart(as_expression(x))


def square(x: Any) -> Expression:
    """Return x², entry by entry (also written ``x**2``)."""
    return as_expression(x) ** 2


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


def minimum(loss: Any, cap: Any) -> Expression:
    """Return a loss that stops at a cap (ramp and truncated losses), entry by entry.

    Parameters
    ----------
    loss : expression
        Piecewise linear in the margins of two clusters, such as ``md.hinge(y * f)``.
    cap : number or Parameter
        Above the least value of the loss. `Solution.outliers` are the points there.
    """
    loss, cap = as_expression(loss), as_expression(cap)
    if loss.is_constant:
        loss, cap = cap, loss
    return Truncated(loss, cap)


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
    if not is_number(threshold) or not 0 < threshold < np.inf:
        raise DeclarationError(f"md.huber(threshold={threshold!r}): expected a positive number")
    after = "" if threshold == 1 else f", {number_text(threshold)}"
    return Curve(huber_function(float(threshold)), even_argument(as_expression(x)), "huber", after=after)


def logistic(x: Any) -> Expression:
    """Return log(1 + exp(x)), entry by entry; the logistic margin loss is ``md.logistic(-g)``."""
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
        If the pieces are not continuous or not convex; if a function is not, is infinite somewhere, or has slopes or a
        conjugate of another.
    DeclarationError
        If they are not in order.

    Examples
    --------
    >>> hinge = plq([(1.0, (0.0, -1.0, 1.0)), (float("inf"), (0.0, 0.0, 0.0))])
    """
    function = checked_loss(pieces) if isinstance(pieces, ConvexFunction) else _plq_from_pieces(pieces)
    shown = repr(function) if not isinstance(function, PLQ) else "[" + ", ".join(
        f"({number_text(end)}, ({number_text(q)}, {number_text(s)}, {number_text(c)}))"
        for _, end, q, s, c in function.pieces) + "]"

    def loss(argument: Any) -> Expression:
        return Curve(function, as_expression(argument), "plq", before=f"{shown}, ")

    return loss if x is None else loss(x)


def _plq_from_pieces(pieces: Any) -> PLQ:
    try:
        pieces = list(pieces)
        ends = [float(end) for end, _ in pieces]
        rows = [tuple(float(v) for v in row) for _, row in pieces]
    except (TypeError, ValueError, OverflowError) as error:
        raise DeclarationError(
            f"md.plq: expected pairs (upper end, (q, s, c)), in order; could not read them ({error})") from None
    if not rows or any(len(row) != 3 for row in rows) or ends[-1] != float("inf"):
        raise DeclarationError("md.plq: expected pairs (upper end, (q, s, c)), the last upper end inf; given ends "
                               f"{ends} with {', '.join(str(len(row)) for row in rows)} coefficients")
    if any(a >= b for a, b in itertools.pairwise(ends)):
        raise DeclarationError(f"md.plq: upper ends {ends} are not increasing")
    return PLQ(np.array(ends[:-1]), np.array(rows))


# -- aggregates -----------------------------------------------------------------------------------------


class Aggregate(Expression):
    """Represent a sum, mean or variance over points."""

    parts = ("inner",)

    def __init__(self, inner: Expression) -> None:
        self.inner = inner


class Total(Aggregate):
    """Represent the sum over points."""

    def numeric(self) -> float:
        return float(np.sum(self.inner.numeric()))


class Mean(Aggregate):
    """Represent the mean over points."""

    def numeric(self) -> float:
        return float(np.mean(self.inner.numeric()))


class Greatest(Aggregate):
    """Represent the greatest entry of a constant, whose parameters may change."""

    def numeric(self) -> float:
        return float(np.max(self.inner.numeric()))


class Variance(Aggregate):
    """Represent the variance over points, min over s of the mean of (x − s)²; it is lowered, not evaluated."""

    is_constant = False

    def __init__(self, inner: Expression) -> None:
        super().__init__(inner)
        self.centre = Scalar(name="mean")


def sum(x: Any) -> Expression:
    """Return the sum over points, or over pairs: ``md.sum(s * (y[i] != y[j]))``."""
    return x if isinstance(x, PairEnergy) else Total(_entries(x, "sum"))


def mean(x: Any) -> Expression:
    """Return the mean over points; write weights as factors, ``md.mean(c * loss)``."""
    return Mean(_entries(x, "mean"))


def var(x: Any) -> Expression:
    """Return the variance over points (population variance, divided by their number)."""
    return Variance(_entries(x, "var"))


def max(x: Any) -> Expression:
    """Return the greatest entry: min over s of s + Σ (x − s)₊, by the duality of linear programs.

    Parameters
    ----------
    x : expression
        Affine in the margin, such as ``-g``, or the positive part of what is, such as ``md.hinge(g)``, or the greatest
        of several such.

    Raises
    ------
    GrammarError
        If it is anything else.
    """
    x = _entries(x, "max")
    parts = x.children if isinstance(x, Maximum) else (x.inner, Constant(0.0)) if isinstance(x, PositivePart) else (x,)
    fixed = [part for part in parts if part.is_constant]
    top: Expression = Scalar(name="top", nonneg=bool(fixed))
    if any(isinstance(node, Parameter) for part in fixed for node in part.walk()):
        top = top + Greatest(fixed[0] if len(fixed) == 1 else Maximum(*fixed))
    elif np.any(greatest := [float(np.max(part.numeric())) for part in fixed]):
        top = top + np.max(greatest)
    return reduce(add, (Total(PositivePart(part - top)) for part in parts if not part.is_constant), top)


def min(x: Any) -> Expression:
    """Return the smallest entry, −max(−x); as an objective ``-md.min(y * f)`` is minimised."""
    return -max(-as_expression(x))


NUMPY.update({"sum": sum, "mean": mean, "var": var, "max": max, "amax": max, "min": min, "amin": min,
              "maximum": maximum, "fmax": maximum, "minimum": minimum, "fmin": minimum})


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

    parts = ("hyperplane",)

    def __init__(self, hyperplane: Hyperplane) -> None:
        self.hyperplane = hyperplane


class Norm(Expression):
    """Represent Σ ‖w_v‖ over blocks of weights: all of them, those of single columns, of kernels, of groups of columns.
    """

    parts = ("hyperplane",)

    def __init__(self, hyperplane: Hyperplane, groups: Any) -> None:
        self.hyperplane, self.groups = hyperplane, groups  # 2, 1, "kernels", or (d,) the group of each column

    @property
    def by_columns(self) -> bool:
        """Return whether the columns of the points have to stay apart."""
        return isinstance(self.groups, np.ndarray) or self.groups == 1

    def block(self, features: Any) -> Any:
        """Return the block of each column of features."""
        if isinstance(self.groups, np.ndarray):
            return self.groups
        return np.arange(features.rank) if self.groups == 1 else (
            features.block if self.groups == "kernels" else np.zeros(features.rank, dtype=int))

    def is_like(self, other: Norm) -> bool:
        """Return whether another norm has the same blocks."""
        return self.ord() == other.ord() and np.array_equal(self.groups, other.groups)

    def ord(self) -> str:
        """Return the second argument as it is written."""
        if isinstance(self.groups, np.ndarray):
            return ", groups"
        return "" if self.groups == 2 else f", {self.groups!r}"


class CvxpyTerm(Expression):
    """Represent a convex function of the weights and the bias that is written in CVXPY."""

    parts = ("hyperplane",)

    def __init__(self, hyperplane: Hyperplane, function: Any) -> None:
        self.hyperplane, self.function = hyperplane, function


def cvxpy_term(f: Any, function: Any) -> Expression:
    """Return a term of the objective that is written in CVXPY: ``md.cvxpy_term(f, lambda w, b: cp.norm(A @ w))``.

    It is part of every fit, which goes through CVXPY; bounds of relaxations leave it out where its sign says that it is
    never negative, and are refused elsewhere.

    Parameters
    ----------
    f : Hyperplane
        The only one, of two clusters.
    function : callable
        Takes the weights (r,) in the coordinates of the features and the bias, 0 without one, as expressions of CVXPY;
        returns a convex number.
    """
    if not isinstance(f, Hyperplane) or not callable(function):
        raise GrammarError("md.cvxpy_term(...)", "the term is a function of a hyperplane's weights and bias",
                           "Write md.cvxpy_term(f, lambda w, b: cvxpy.norm1(w)) with f = md.Hyperplane(X).")
    return CvxpyTerm(f, function)


class Manifold(Expression):
    """Represent fᵀLf for a graph Laplacian L."""

    parts = ("hyperplane",)

    def __init__(self, hyperplane: Hyperplane, laplacian: Any) -> None:
        self.hyperplane, self.laplacian = hyperplane, laplacian


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


def norm(f: Any, ord: Any = 2) -> Expression:
    """Return a norm of the weights of a hyperplane, alone or squared: ``md.norm(f)``, ``md.norm(f, "kernels")**2 / 2``.

    Parameters
    ----------
    f : Hyperplane
        Without a penalised bias.
    ord : 2, 1, "kernels" or (d,) array
        ‖w‖, not squared; Σ|w_j| over the columns of a linear kernel, which selects some of them; Σ‖w_v‖ over the
        kernels of a hyperplane that has several, or over groups of columns, given by the group of each one. Half the
        square of the latter is min over d ≥ 0, Σd = 1 of ½Σ‖w_v‖²/d_v, so that kernels are chosen with weights d
        (`Solution.kernel_weights`).

    References
    ----------
    F. Bach, G. Lanckriet, M. Jordan (2004). Multiple kernel learning, conic duality, and the SMO algorithm.
    B. Zhao, J. Kwok, C. Zhang (2009). Multiple kernel clustering.
    """
    if not isinstance(f, Hyperplane):
        raise GrammarError(f"md.norm({as_expression(f).text()})", "the norm is of a hyperplane",
                           "Write md.norm(f) with f = md.Hyperplane(X).")
    linear = isinstance(f.kernel, Linear) or (isinstance(f.kernel, str) and f.kernel == "linear")
    if isinstance(ord, str) and ord == "kernels" and isinstance(f.kernel, (list, tuple)):
        return Norm(f, ord)
    if is_number(ord) and ord in (1, 2) and (linear or ord == 2):
        return Norm(f, int(ord))
    if not isinstance(ord, str) and not is_number(ord) and linear and f.X is not None:
        _, groups = np.unique(np.asarray(ord), return_inverse=True)
        if groups.shape == (f.X.shape[1],):
            return Norm(f, groups)
    raise GrammarError(
        f"md.norm({f.text()}, {ord!r})", "the blocks of a norm are kernels, columns, or groups of columns",
        "Write md.norm(f), md.norm(f, 'kernels') with kernel=[...], and of a linear kernel md.norm(f, 1) or "
        "md.norm(f, groups) with the group of every column.")


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
    if not isinstance(f, Hyperplane):
        raise GrammarError(f"md.manifold({as_expression(f).text()}, graph)", "the manifold term is of a hyperplane",
                           "Write md.manifold(f, graph) with f = md.Hyperplane(X).")
    return Manifold(f, as_laplacian(graph, f.n))


# -- named objectives ------------------------------------------------------------------------------------


def hinge(g: Any) -> Expression:
    """Return the hinge loss (1 − γ)₊ of margins (SVM; ODMC's min-margin objective)."""
    return pos(1 - as_expression(g))


def squared_hinge(g: Any) -> Expression:
    """Return the squared hinge loss (1 − γ)₊² of margins."""
    return pos(1 - as_expression(g)) ** 2


def odm(g: Any, nu: float | Parameter = 0.5, theta: float | Parameter = 0.2) -> Expression:
    """Return the optimal-margin-distribution loss of margins.

    [(1 − θ − γ)₊² + ν (γ − 1 − θ)₊²] / (1 − θ)² (ODMC Eq. 1; ssODM Eq. 1).

    Parameters
    ----------
    g : expression
        Margins.
    nu : float, (m,) array or Parameter
        Weight ν ≥ 0 of margins above the band.
    theta : float, (m,) array or Parameter
        Half width θ ∈ [0, 1) of the band in which no loss is suffered.

    Raises
    ------
    DeclarationError
        If nu is negative or theta outside [0, 1), now or, of parameters, when the formula is solved.
    """
    g = as_expression(g)
    weight = within(nu, "md.odm", "nu")
    band = within(theta, "md.odm", "theta", upper=1.0)
    return (pos(1 - band - g) ** 2 + weight * pos(g - 1 - band) ** 2) / (1 - band) ** 2


def mean_variance(g: Any, eta: float | Parameter = 1.0, lam: float | Parameter = 1.0) -> Expression:
    """Return the first margin-distribution objective, −η γ̄ + λ mean (γ − γ̄)² with γ̄ a free scalar.

    (ODMC, the formulation before Eq. 1.)

    Parameters
    ----------
    g : expression
        Margins.
    eta, lam : float or Parameter
        Weights of margin mean, η ≥ 0, and margin variance, λ > 0.

    Raises
    ------
    DeclarationError
        If eta is negative or lam is not positive, now or, of parameters, when the formula is solved.
    """
    centre = Scalar(name="margin_mean")
    weight, scale = within(eta, "md.mean_variance", "eta"), within(lam, "md.mean_variance", "lam", strict=True)
    return -weight * centre + scale * mean((as_expression(g) - centre) ** 2)


def epsilon_insensitive(g: Any, eps: float | Parameter = 0.1) -> Expression:
    """Return the ε-insensitive loss (|1 − γ| − ε)₊ of margins (IterSVR, Zhang et al. 2007).

    Parameters
    ----------
    g : expression
        Margins.
    eps : float, (m,) array or Parameter
        Half width ε ≥ 0.

    Raises
    ------
    DeclarationError
        If eps is negative, now or, of a parameter, when the formula is solved.
    """
    return pos(abs(1 - as_expression(g)) - within(eps, "md.epsilon_insensitive", "eps"))
