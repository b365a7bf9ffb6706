"""What comparisons, and functions of labels and hyperplanes, declare: constraints, or an error with a repair."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError, GrammarError
from margindsl.labelset.declaration import whole_sizes
from margindsl.language import grammar
from margindsl.language.constraints import Constraint, CvxpyConstraint, Equality, Known, Links, Orthogonal, Sizes
from margindsl.language.entries import constant_value, read_array
from margindsl.language.expressions import COMPARED, ByLabel, Expression, Index, as_expression
from margindsl.language.graphs import as_pairs, weighted_pairs
from margindsl.language.margins import Hyperplane, Labels, Margin
from margindsl.language.rows import PairEnergy
from margindsl.typing import FloatArray, IntArray


def equality(left: Expression, right: Expression) -> Constraint:
    """Return what ``left == right`` declares: a must-link, known labels, or a linear equality."""
    if _selection(right) is not None and _selection(left) is None:
        left, right = right, left
    chosen = _selection(left)
    if chosen is not None:
        labels, index = chosen
        other = _selection(right)
        if other is not None:
            return Links(labels, _pair(labels, index, other, "=="), "must-link", (left, right))
        if right.is_constant:
            return Known(labels, index, left, right)
    _refuse_decision_links(left, right, "==")
    return Equality(left, right)


def inequality_of_labels(left: Expression, right: Expression) -> Constraint:
    """Return what ``left != right`` declares: a cannot-link, or a label that is not a point's."""
    if _selection(right) is not None and _selection(left) is None:
        left, right = right, left
    chosen, other = _selection(left), _selection(right)
    if chosen is not None and other is not None:
        labels, index = chosen
        return Links(labels, _pair(labels, index, other, "!="), "cannot-link", (left, right))
    if chosen is not None and right.is_constant:
        return Known(*chosen, left, right, "!=")
    _refuse_decision_links(left, right, "!=")
    raise GrammarError(f"{left.text()} != {right.text()}", "only labels are declared different",
                       "Write y[i] != y[j] for a cannot-link.")


def must_link(labels: Labels, pairs: Any, weight: Any = None) -> Any:
    """Declare that the points of each pair share a cluster, or what it costs where they do not.

    Parameters
    ----------
    labels : Labels
    pairs : (m, 2) array, list of pairs, networkx graph or (n, n) sparse matrix
    weight : number, (m,) array, Parameter, or str, optional
        With it a term Σ s_ij [y_i ≠ y_j] of the objective is returned in place of a constraint. A word is an attribute
        of edges of a graph, or any word for the entries of a sparse matrix.

    Raises
    ------
    DeclarationError
        If a pair is out of range, links a point with itself, or the shape is wrong.
    GrammarError
        If the first argument is not `Labels`.
    """
    return _links(labels, pairs, "must_link", weight)


def cannot_link(labels: Labels, pairs: Any, weight: Any = None) -> Any:
    """Declare that the points of each pair lie in different clusters, or what it costs where not; see `must_link`."""
    return _links(labels, pairs, "cannot_link", weight)


def sizes(labels: Any, at_least: Any = None, at_most: Any = None) -> Sizes:
    """Bound the sizes of clusters, or how many points of a group each cluster holds.

    Parameters
    ----------
    labels : Labels, or labels of a group, y[group]
    at_least, at_most : int, sequence of k ints, or None
        Of two clusters that of −1 is the first. At most n where more is given.

    Raises
    ------
    DeclarationError
        If neither bound is given, a bound is not one number or k numbers, is negative, NaN or a share, at_least exceeds
        at_most, or clusters of such sizes cannot hold n points.
    """
    chosen = _selection(labels) if isinstance(labels, Expression) else None
    _require_labels(labels if chosen is None else chosen[0], "md.sizes")
    group = None if chosen is None or isinstance(labels, Labels) else np.unique(chosen[1])
    written, labels = labels, labels if chosen is None else chosen[0]
    n = labels.n if group is None else len(group)
    if at_least is None and at_most is None:
        raise DeclarationError("md.sizes: give at_least=, at_most= or both")
    low = _size_bound(labels, "at_least", 0 if at_least is None else at_least)
    high = _size_bound(labels, "at_most", n if at_most is None else at_most)
    if not np.all((low >= 0) & (low <= high)):
        raise DeclarationError(f"md.sizes(at_least={at_least}, at_most={at_most}): expected 0 <= at_least <= at_most")
    fewest, most = whole_sizes(low, high, n)
    if np.any(fewest > most):
        raise DeclarationError(f"md.sizes(at_least={at_least}, at_most={at_most}): no whole number lies between; "
                               "widen the bounds")
    if fewest.sum() > n or most.sum() < n:
        raise DeclarationError(
            f"md.sizes: {n} points cannot fill clusters of {fewest.sum()} to {most.sum()} points in all; "
            f"{'lower at_least' if fewest.sum() > n else 'raise at_most'}")
    if group is None:
        return Sizes(labels, low, np.minimum(high, n))
    return Sizes(labels, fewest.astype(float), most.astype(float), group, written)


class Count:
    """Represent the number of points of a group with a label; compare it with a number."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, known: Known) -> None:
        self.known, self.label = known, int(known.labels.names.read(np.unique(known.values()))[0])

    def _within(self, sign: str, number: float, least: float, most: float) -> Sizes:
        if not isinstance(number, Real) or number != number:
            given = number if isinstance(number, Real) else type(number).__name__
            raise DeclarationError(f"md.count(...) {sign} {given}: expected a number")
        labels, group, written = self.known.labels, np.unique(self.known.index), f"{sign} {float(number):g}"
        low, high = whole_sizes(least, most, len(group))
        if low > high:
            raise DeclarationError(f"md.count({self.known.text()}) {written}: no whole number of {len(group)} points "
                                   "is so; widen the bound")
        own = np.arange(labels.clusters) == self.label
        return Sizes(labels, np.where(own, float(low), 0.0), np.where(own, float(high), float(len(group))), group,
                     self.known.left, f"md.count({self.known.text()}) {written}")

    def __le__(self, most: float) -> Sizes:
        return self._within("<=", most, 0.0, most)

    def __ge__(self, least: float) -> Sizes:
        return self._within(">=", least, least, np.inf)

    def __eq__(self, number: float) -> Sizes:  # type: ignore[override]
        return self._within("==", number, number, number)

    def __lt__(self, number: Any) -> Sizes:
        raise GrammarError(f"md.count({self.known.text()})", "is compared by <=, >= or ==", "Write <= m - 1 for < m.")

    __gt__ = __ne__ = __lt__  # type: ignore[assignment]


def count(known: Any) -> Count:
    """Return the number of points of a group with a label, to be compared with a number.

    Parameters
    ----------
    known : comparison of labels with one label
        ``y[group] == 1``; ``md.count(y[group] == 1) >= 1`` asks for a witness in a bag.

    Examples
    --------
    >>> y = Labels(5, clusters=3)
    >>> count(y[:3] == 2) <= 1
    md.count(y[0:3] == 2) <= 1
    """
    if not isinstance(known, Known) or known.sign != "==" or np.ndim(constant_value(known.right)):
        raise GrammarError("md.count(...)", "counts the points of a group that have one label",
                           "Write md.count(y[group] == c) <= m with y = md.Labels(n).")
    return Count(known)


def _size_bound(labels: Labels, name: str, given: Any) -> FloatArray:
    held = given if isinstance(given, (list, tuple)) else (given,)
    if any(isinstance(part, Expression) for part in held):
        raise DeclarationError(f"md.sizes({name}={given!r}): sizes are plain numbers, no expressions; of an "
                               "md.Parameter give its .value")
    bound = read_array(given, f"md.sizes({name}=)")
    if bound.dtype.kind not in "iuf" or bound.shape not in ((), (labels.clusters,)):
        raise DeclarationError(
            f"md.sizes({name}={given!r}): expected one number, or one a cluster, {labels.clusters} in all")
    if np.any((bound > 0) & (bound < 1)):
        raise DeclarationError(f"md.sizes({name}={given!r}): expected numbers of points; a share of all is "
                               f"share * {labels.n}")
    return np.broadcast_to(bound, (labels.clusters,)).astype(float)


def cvxpy_constraint(f: Hyperplane, function: Any) -> CvxpyConstraint:
    """Return a constraint written in CVXPY: ``md.cvxpy_constraint(f, lambda w, b: w >= 0)``.

    Every fit keeps it; bounds of relaxations hold without it.

    Parameters
    ----------
    f : Hyperplane
        The only one, of two clusters.
    function : callable
        Takes weights and bias as that of `md.cvxpy_term` does; returns a convex constraint, or a list of such.
    """
    if not isinstance(f, Hyperplane) or not callable(function):
        raise GrammarError("md.cvxpy_constraint(...)", "it is a function of a hyperplane's weights and bias",
                           "Write md.cvxpy_constraint(f, lambda w, b: w >= 0) with f = md.Hyperplane(X).")
    return CvxpyConstraint(f, function)


def by_label(labels: Any, losses: Any) -> Expression:
    """Return a loss that is another one for each label, entry by entry: costs and margins of classes.

    Parameters
    ----------
    labels : Labels, or labels of some points, y[index]
        Of two clusters.
    losses : dict
        Convex expressions in decision values or margins, or numbers, for +1 and for -1.

    Raises
    ------
    GrammarError
        If it is no such table.

    References
    ----------
    Y. Lin, Y. Lee, G. Wahba (2002). Support vector machines for classification in nonstandard situations.

    Examples
    --------
    >>> import margindsl as md
    >>> y, f = md.Labels(4), md.Hyperplane([[0.0], [1.0], [2.0], [3.0]])
    >>> md.by_label(y, {+1: 3 * md.hinge(f), -1: md.hinge(-f)})
    md.by_label(y, {+1: 3 * md.pos(1 - f), -1: md.pos(1 - (-f))})
    """
    at = f"md.by_label({labels.text() if isinstance(labels, Expression) else labels!r}, ...)"
    own = labels.inner if isinstance(labels, Index) else labels
    if not isinstance(losses, dict) or set(losses) != {1, -1}:
        given = list(losses) if isinstance(losses, dict) else type(losses).__name__
        raise GrammarError(at, f"is given {given}", "Give a loss for each label, {+1: md.hinge(f), -1: md.hinge(-f)}.")
    if not isinstance(own, Labels) or own.clusters != 2:
        raise grammar.STATES.broken_by(at)
    upper, lower = (as_expression(losses[sign]) for sign in (1, -1))
    plane: Any = next((node for side in (upper, lower) for node in side.walk() if isinstance(node, Hyperplane)), None)
    if plane is None:
        margins = [node for side in (upper, lower) for node in side.walk() if isinstance(node, Margin)]
        plane = margins[0].hyperplane if margins else None
    if plane is None or any(side.shape not in ((), labels.shape) for side in (upper, lower)):
        raise grammar.STATES.broken_by(at)
    return ByLabel(labels, Margin(own, plane), upper, lower)


def orthogonal(hyperplane: Hyperplane, solutions: Any) -> Orthogonal:
    """Declare that the weight vector is orthogonal to those of earlier solutions (MME, slides Eq. 23).

    Parameters
    ----------
    hyperplane : Hyperplane
    solutions : Solution or sequence of Solution
        Solutions of problems over the same points and kernel.

    Raises
    ------
    DeclarationError
        If one is no solution, or has another number of points; when the problem is compiled, if its weights do not
        give the points of the hyperplane its decision values.
    """
    if not isinstance(hyperplane, Hyperplane):
        raise GrammarError("md.orthogonal(...)", "orthogonality is of hyperplanes",
                           "Write md.orthogonal(f, earlier) with f = md.Hyperplane(X).")
    many = tuple(solutions) if isinstance(solutions, (list, tuple)) else (solutions,)
    for solution in many:
        if not hasattr(solution, "weights"):
            raise DeclarationError(f"md.orthogonal: given {type(solution).__name__}, expected earlier solutions")
        if len(solution.labels) != hyperplane.n:
            raise DeclarationError(f"md.orthogonal: an earlier solution has {len(solution.labels)} points, these are "
                                   f"{hyperplane.n}; solve both over the same points")
    return Orthogonal(hyperplane, many)


def weighted(links: Links, weight: Any) -> PairEnergy:
    """Return Σ s [y_i ≠ y_j] for s * (y[i] != y[j]): the energy of a must-link, and the other way round."""
    kind = "must-link" if links.kind == "cannot-link" else "cannot-link"
    if links.sides is None:  # its own weight charges pairs that break it, as a product would those that keep it
        raise DeclarationError(f"s * {links.text()}: expected the weight inside, which is charged where a pair breaks "
                               f"it: md.{links.kind.replace('-', '_')}({links.labels.text()}, pairs, weight=s)")
    return PairEnergy(links.labels, links.pairs, as_expression(weight), kind)


COMPARED.update({"==": equality, "!=": inequality_of_labels, "pairs": weighted})

# -- inside ---------------------------------------------------------------------------------------------


def _selection(expression: Expression) -> tuple[Labels, IntArray] | None:
    """Return (labels, index) when the expression is y or y[index]."""
    if isinstance(expression, Labels):
        return expression, np.arange(expression.n)
    if isinstance(expression, Index):
        inner = _selection(expression.inner)
        if inner is not None:
            return inner[0], inner[1][expression.index]
    return None


def _pair(labels: Labels, index: IntArray, other: tuple[Labels, IntArray], sign: str) -> IntArray:
    if other[0] is not labels:
        raise grammar.TWO_PROBLEMS.broken_by(f"{labels.text()}[...] {sign} {other[0].text()}[...]", what="labellings")
    if len(index) != len(other[1]):
        raise DeclarationError(
            f"{labels.text()}[index] {sign} {labels.text()}[index]: {len(index)} points against {len(other[1])}")
    word = "must_link" if sign == "==" else "cannot_link"
    return as_pairs(np.column_stack([index, other[1]]), labels.n, word)


def _links(labels: Any, pairs: Any, word: str, weight: Any) -> Any:
    _require_labels(labels, f"md.{word}")
    if isinstance(weight, str):
        pairs, weight = weighted_pairs(pairs, labels.n, word, weight)
    array, kind = as_pairs(pairs, labels.n, word), word.replace("_", "-")
    return Links(labels, array, kind) if weight is None else PairEnergy(labels, array, as_expression(weight), kind)


def _require_labels(labels: Any, word: str) -> None:
    if isinstance(labels, Hyperplane):
        raise grammar.LINK_ON_DECISION.broken_by(f"{word}({labels.text()}, ...)")
    if not isinstance(labels, Labels):
        raise DeclarationError(f"{word}: first argument is {type(labels).__name__}, expected md.Labels")


def _refuse_decision_links(left: Expression, right: Expression, sign: str) -> None:
    """Refuse margins, and decision values where labels would make links or known labels."""
    shown = f"{left.text()} {sign} {right.text()}"
    sides = [_whole(left), _whole(right)]
    if any(isinstance(side, Margin) for side in sides):
        raise grammar.MARGIN_CONSTRAINT.broken_by(shown)
    decisions = [isinstance(side, Hyperplane) for side in sides]
    if all(decisions):
        raise grammar.LINK_ON_DECISION.broken_by(shown)
    if any(decisions) and any(side.is_constant for side in sides) and (left.shape or right.shape):
        raise grammar.KNOWN_ON_DECISION.broken_by(shown)


def _whole(expression: Expression) -> Expression:
    """Return what an expression selects from, itself where it selects nothing."""
    while isinstance(expression, Index):
        expression = expression.inner
    return expression
