"""Labels, hyperplanes and the margins they make."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from margindsl.errors import Called, DeclarationError, GrammarError
from margindsl.features.kernels import as_kernel
from margindsl.features.points import Owned, check_points, column_names
from margindsl.labelset import Names
from margindsl.language.entries import read_flag
from margindsl.language.expressions import (
    COMPARED,
    Constant,
    Expression,
    Index,
    Negation,
    Product,
    Quotient,
    Sum,
    Transformed,
)
from margindsl.language.printing import subscript
from margindsl.language.symbols import Named, check_name
from margindsl.typing import Bias, KernelName

if TYPE_CHECKING:
    from margindsl.features import Kernel


class Labels(Called, Named):
    """Declare the unknown labelling: y ∈ {−1, +1}^n, or one of k clusters a point.

    Parameters
    ----------
    n : int
        Number of points, at least 2.
    clusters : int
        Number of clusters, at least 2.
    name : str
        How it is printed.

    Raises
    ------
    DeclarationError
        If n or clusters is not an integer of at least 2, or there are more clusters than points.

    Examples
    --------
    >>> y = Labels(4)
    >>> y[0] == y[2]
    y[0] == y[2]
    """

    meant: ClassVar = dict.fromkeys(("k", "K", "n_clusters", "n_labels"), "Write md.Labels(n, clusters=k).")

    def __init__(self, n: int, clusters: int = 2, name: str = "y") -> None:
        self.n = _count(n, "Labels(n)")
        self.clusters = _count(clusters, "Labels(clusters=)")
        if self.clusters > self.n:
            raise DeclarationError(f"Labels: {self.clusters} clusters for {self.n} points; give fewer clusters")
        self.name = check_name(name, "Labels")
        self.shape = (self.n,)

    @property
    def names(self) -> Names:
        """Return how the labels are written: two clusters as signs, several by number."""
        return Names(self.clusters)


class Hyperplane(Called, Named):
    """Declare the decision values f_i = ⟨w, φ(x_i)⟩ (+ b) at n points.

    Parameters
    ----------
    X : array, scipy sparse matrix, memory map or DataFrame of shape (n, d)
        The points, n ≥ 2, finite. With ``kernel=md.Precomputed(K)`` X may be None.
    kernel : str, kernel, callable, or a list of such
        ``"linear"``, ``"rbf"``, `md.RBF`, `md.Polynomial`, `md.Precomputed`, or ``k(X, Z)``. Of a list f is the sum,
        with weights for each kernel; ``md.norm(f, "kernels")**2 / 2`` chooses among them.
    bias : bool or "penalised"
        False (default), True (free, unpenalised) or ``"penalised"`` (a constant feature).
    centre : bool
        Whether features are centred, φ − mean φ (default). Without centring and without a bias, balance
        and objective fight.
    name : str
        How it is printed.

    Raises
    ------
    DeclarationError
        If X is not two-dimensional, not numeric, holds NaN or infinity, or has fewer than two rows, or bias
        is not one of the three values, or centre is neither True nor False.
    """

    meant: ClassVar = {"center": "Write centre=.", "gamma": "Write kernel=md.RBF(width).", "intercept": "Write bias=.",
             "fit_intercept": "Write bias=."}

    def __init__(self, X: Any, kernel: KernelName | Kernel | Callable[[Any, Any], Any] | list[Any] = "linear",
                 bias: Bias = False, *, centre: bool = True, name: str = "f") -> None:
        penalised = isinstance(bias, str) and bias in ("penalised", "penalized")
        if not (penalised or isinstance(bias, (bool, np.bool_))):
            raise DeclarationError(
                f"Hyperplane(bias={bias!r}): expected False, True (free) or 'penalised' (a constant feature)")
        as_kernel(kernel)
        matrix = getattr(kernel, "owned", None)
        if X is None and matrix is None:
            raise DeclarationError("Hyperplane(X=None) needs kernel=md.Precomputed(K)")
        own = () if X is None else (Owned(check_points(X), "X"),)
        self._owned: tuple[Owned, ...] = own if matrix is None else (matrix, *own)  # the last one has a row a point
        self._has_points = X is not None
        self.column_names = column_names(X)
        self.n = int(self._owned[-1].points.shape[0])
        self.kernel = kernel
        self.bias: Bias = "penalised" if penalised else bool(bias)
        self.centre = read_flag(centre, "Hyperplane(centre=")
        self.name = check_name(name, "Hyperplane")
        self.shape = (self.n,)

    @property
    def X(self) -> Any:
        """Return the points as they were declared: a read-only copy, or a memory map, Dask array or large array."""
        return self._owned[-1].points if self._has_points else None

    def check_unchanged(self) -> None:
        """Raise if the points, or a kernel matrix, are no longer what was declared; those that were copied always are.

        Raises
        ------
        DeclarationError
            If a memory map, a Dask array or an array above 512 MB changed.
        """
        for owned in self._owned:
            owned.check()

    def definition(self, clusters: int = 2, mark: str = "") -> list[str]:
        """Return what f is, as lines of formulas over the points X, with the weights w (W of several clusters).

        Letters have a mark where there are several hyperplanes.
        """
        linear = self.kernel == "linear" if isinstance(self.kernel, str) else False
        phi, w = f"X{mark}" if linear else f"phi(X{mark})", ("w" if clusters == 2 else "W") + mark
        features = f"({phi} - mean({phi}, axis=0))" if self.centre else phi
        f, bias = self.text(), f" + b{mark}" if self.bias else ""
        lines = [f"{f} = {features} @ {w}{bias}"]
        if not linear:
            kernel = as_kernel(self.kernel) if isinstance(self.kernel, (list, tuple)) else self.kernel
            describe = getattr(kernel, "describe", None)
            name = describe() if describe else getattr(self.kernel, "__name__", str(self.kernel))
            lines.append(f"phi of {name}")
        if self.bias == "penalised":
            lines.append(f"md.sq_norm({f}) = sum({w}**2) + sum(b{mark}**2)")
        return lines

    def definition_latex(self, mark: str = "") -> str:
        """Return what f is, one point."""
        features = r"\phi(x_i) - \bar\phi" if self.centre else r"\phi(x_i)"
        bias = f" + b{mark}" if self.bias else ""
        return rf"{subscript(self.letter(), 'i')} = \langle w{mark}, {features} \rangle{bias}"


class Margin(Expression):
    """Represent margins: y_i f_i, or a k-cluster margin.

    Parameters
    ----------
    labels : Labels, or some of them
    hyperplane : Hyperplane, or what is linear in several
    coding : str
        ``"binary"``, ``"crammer-singer"`` or ``"simplex"``.
    """

    parts = ("labels", "hyperplane")

    def __init__(self, labels: Expression, hyperplane: Expression, coding: str = "binary") -> None:
        self.labels, self.hyperplane, self.coding = labels, hyperplane, coding
        if labels.shape != hyperplane.shape:
            (n, points) = ((x.shape or (1,))[0] for x in (labels, hyperplane))
            raise DeclarationError(f"`{self.text()}`: {n} labels against {points} points; "
                                   "declare both over the same points")
        self.shape = labels.shape


def margin(labels: Labels, hyperplane: Any,
           coding: Literal["crammer-singer", "simplex"] = "crammer-singer") -> Margin:
    """Return the margins γ of a labelling and decision values.

    For two clusters this is ``y * f``. For k clusters, the Crammer-Singer margin
    γ_i = f_{i,y_i} − max_{r ≠ y_i} f_{i,r} or the simplex-coded one.

    Parameters
    ----------
    labels : Labels
    hyperplane : Hyperplane or expression
        A hyperplane, or a sum of several.
    coding : {"crammer-singer", "simplex"}

    Raises
    ------
    DeclarationError
        If the arguments are not labels and a hyperplane, or the coding is unknown.
    """
    if not isinstance(labels, Labels) or not _is_linear(hyperplane):
        raise DeclarationError("md.margin(y, f): expected md.Labels and md.Hyperplane, in this order")
    if coding not in ("crammer-singer", "simplex"):
        raise DeclarationError(f"md.margin(coding={coding!r}): expected 'crammer-singer' or 'simplex'")
    return Margin(labels, hyperplane, "binary" if labels.clusters == 2 else coding)


def _inside(factor: Expression) -> Expression:
    """Return an index of a negative, multiple, part or selection as that of an index: (c y)[i] is c[i] y[i]."""
    if not isinstance(factor, Index):
        return factor
    inner, index = factor.inner, factor.index[0] if factor.is_item else factor.index
    if isinstance(inner, Index):
        return _inside(Index(inner.inner, inner.index[index]))
    if isinstance(inner, Negation):
        return Negation(Index(inner.inner, index))
    if isinstance(inner, Product | Quotient):
        constant, rest = (part[index] if part.shape else part for part in (inner.constant, inner.inner))
        return Product(constant, rest) if isinstance(inner, Product) else Quotient(rest, constant)
    return factor


def _around(factor: Negation | Product | Quotient, inner: Expression) -> Expression:
    """Return the negative, multiple or part of an expression that a factor is of its own."""
    if isinstance(factor, Negation):
        return Negation(inner)
    return Product(factor.constant, inner) if isinstance(factor, Product) else Quotient(inner, factor.constant)


def margin_product(left: Expression, right: Expression) -> Expression | None:
    """Return y * f as margins (also of equal selections y[i] * f[i]), or None when it is something else."""
    left, right = _inside(left), _inside(right)
    for factor, other in ((left, right), (right, left)):  # (c y) f is c (y f), as -y * f, which reads (-y) * f
        if isinstance(factor, Negation | Product | Quotient):
            product = margin_product(factor.inner, other)
            return None if product is None else _around(factor, product)
    if _is(right, Labels):
        left, right = right, left
    if not (_is(left, Labels) and _is_linear(right)):
        return None
    if isinstance(left, Labels):
        if left.clusters > 2:
            raise GrammarError(f"{left.text()} * {right.text()}", f"labels of {left.clusters} clusters are names, not "
                               "numbers", f"Write md.margin({left.text()}, {right.text()}).")
        return Margin(left, right)
    alike = _is(right, Hyperplane) and len(getattr(right, "inner", right)) == len(left.inner)  # type: ignore[attr-defined]
    if isinstance(left, Index) and isinstance(right, Index) and alike and np.array_equal(left.index, right.index):
        index = left.index[0] if left.is_item and right.is_item else left.index
        return Index(margin_product(left.inner, right.inner), index)  # type: ignore[arg-type]
    if not alike:
        return Margin(left, right)
    raise GrammarError(f"{left.text()} * {right.text()}", "labels and decision values are of different points",
                       "Index both the same way: (y * f)[index].")


def _is_linear(x: Any) -> bool:
    """Return whether an expression is linear in decision values, without labels and constants."""
    if isinstance(x, Index | Negation | Product | Quotient | Transformed):
        return _is_linear(x.inner)
    return isinstance(x, Hyperplane) or (isinstance(x, Sum) and all(
        _is_linear(term) or (isinstance(term, Constant) and not np.any(term.value)) for term in x.children))


def even_argument(x: Expression) -> Expression:
    """Return y (a y + b f) = a + b y f, of which an even function has the value of a y + b f, for such an argument."""
    if not any(isinstance(node, Labels) and node.clusters == 2 for node in outside_margins(x)):
        return x
    product = _times_labels(x, next(node for node in outside_margins(x) if isinstance(node, Labels)))
    return x if product is None else product


def outside_margins(x: Expression) -> Iterator[Expression]:
    """Yield an expression and what is below it but for margins."""
    yield x
    for child in () if isinstance(x, Margin) else x.children:
        yield from outside_margins(child)


def _times_labels(x: Expression, labels: Labels) -> Expression | None:
    """Return y x for x linear in the labels y and in decision values, None where it is not."""
    if x is labels:
        return Constant(1.0)
    if isinstance(x, Hyperplane | Transformed) and x.shape == labels.shape and _is_linear(x):
        return Margin(labels, x)
    if isinstance(x, Sum):
        terms = [_times_labels(term, labels) for term in x.children]
        return None if any(term is None for term in terms) else reduce(Sum, terms)  # type: ignore[arg-type]
    inner = _times_labels(x.inner, labels) if isinstance(x, Index | Negation | Product | Quotient) else None
    if inner is not None and isinstance(x, Index):
        return Index(inner, x.index[0] if x.is_item else x.index) if inner.shape else inner
    return None if inner is None else _around(x, inner)  # type: ignore[arg-type]


def product_advice(left: Expression, right: Expression) -> str:
    """Return what to write in place of a product that makes no margins."""
    kinds = [{type(node) for node in outside_margins(side)} for side in (left, right)]
    for own, other in (kinds, kinds[::-1]):
        if Labels in own and Hyperplane in other:
            return ("A shift of decision values is a bias: declare md.Hyperplane(X, bias=True), or bias='penalised', "
                    "and write y * f; a shift of margins is y * f + c.")
    if any(Labels in own for own in kinds):
        return "Labels are paired by constraints, y[i] == y[j], and by md.must_link(y, pairs)."
    return "Scale by numbers, arrays or md.Parameter, or use md.square."


COMPARED.update({"*": margin_product, "even": even_argument, "advice": product_advice})


def _is(expression: Expression, kind: type) -> bool:
    return isinstance(expression, kind) or (
        isinstance(expression, Index) and isinstance(expression.inner, kind))


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 2:
        found = f"an array of shape {value.shape}" if getattr(value, "shape", ()) else repr(value)
        raise DeclarationError(f"{name}: given {found}, expected an integer of at least 2")
    return int(value)
