"""From links, known labels, bounds and sizes, read and checked, to a label set, or to why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.errors import ContradictionError, DeclarationError, InfeasibleError
from margindsl.host.clock import check
from margindsl.labelset.bound import LinearBound, binds, intersect, refuse_unattained, renamed, tighten
from margindsl.labelset.existence import refuse_empty
from margindsl.labelset.forcing import force_clusters, forced, tighten_sizes
from margindsl.labelset.labelset import LabelSet
from margindsl.labelset.names import Names, read_count
from margindsl.typing import FloatArray, IntArray


def read_pairs(pairs: Any, n: int, kind: str) -> IntArray:
    """Check an (m, 2) array of point indices and return it as integers."""
    table = _numeric(() if pairs is None else pairs, f"{kind} pairs", "an integer array of shape (m, 2)")
    if table.size == 0:
        return np.zeros((0, 2), dtype=np.intp)
    if table.ndim != 2 or table.shape[1] != 2:
        raise DeclarationError(f"{kind} pairs have shape {table.shape}; expected (m, 2), one row (i, j) per link.")
    _refuse_indices(table, n, f"{kind} pair")
    links: IntArray = table.astype(np.intp)
    loops = np.flatnonzero(links[:, 0] == links[:, 1])
    if loops.size:
        row = int(loops[0])
        raise DeclarationError(f"{kind} pair {_shown(links[row])} at position {row} links a point with itself; "
                               "remove it or link two different points.")
    return links


def read_known(known: Any, n: int, names: Names) -> tuple[IntArray, IntArray]:
    """Check a pair (indices, written values) of known labels and return indices and labels 0..k-1."""
    if known is None:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    try:
        raw_index, raw_value = known
    except (TypeError, ValueError):
        raise DeclarationError(
            "known labels were not given as a pair (indices, values); pass two arrays.") from None
    index = _numeric(raw_index, "known-label indices", "an integer array")
    value = _numeric(raw_value, "known-label values", f"an array whose entries are {names.expected}")
    if index.ndim != 1 or index.shape != value.shape:
        raise DeclarationError(f"known labels have {index.shape} indices and {value.shape} values; expected two arrays "
                               "of one length.")
    _refuse_indices(index[:, None], n, "known-label index")
    wrong = np.flatnonzero(~names.is_label(value))
    if wrong.size:
        place = int(wrong[0])
        raise DeclarationError(f"the known label of point {int(index[place])} at position {place} is {value[place]!s}; "
                               f"expected {names.expected}.")
    index, value = index.astype(np.intp), names.read(value)
    order = np.argsort(index, kind="stable")
    twice = order[1:][(np.diff(index[order]) == 0) & (np.diff(value[order]) != 0)]
    if twice.size:
        point = int(index[twice[0]])
        labels = [names.shown(label) for label in dict.fromkeys(value[index == point].tolist())]
        raise ContradictionError(f"point {point} has two known labels, {labels[0]} and {labels[1]}; keep one of them.",
                                 [(point, point, "known label")])
    return index, value


def read_bounds(bounds: Iterable[Any], n: int) -> list[tuple[FloatArray, float, float]]:
    """Check a sequence of (weights, lower, upper) and return weights as float vectors of length n."""
    return [_read_bound(entry, n, position) for position, entry in enumerate(bounds or ())]


def _read_bound(entry: Any, n: int, position: int) -> tuple[FloatArray, float, float]:
    try:
        given, lower, upper = entry
        lower, upper = float(lower), float(upper)
    except (TypeError, ValueError):
        raise DeclarationError(f"bound {position} was not given as (weights, lower, upper) with two numbers; pass such "
                               "a triple.") from None
    weights = np.ones(n)
    if given is not None:
        weights = _numeric(given, f"weights of bound {position}", f"a vector of length {n}").astype(float)
    if weights.shape != (n,):
        raise DeclarationError(
            f"weights of bound {position} have shape {weights.shape}; expected ({n},), one weight per point.")
    if not np.isfinite(weights).all():
        point = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise DeclarationError(
            f"weights of bound {position} hold {weights[point]} at point {point}; expected finite numbers.")
    if np.isnan(lower) or np.isnan(upper) or lower == np.inf or upper == -np.inf:
        raise DeclarationError(f"bound {position} has limits [{lower:g}, {upper:g}]; expected numbers, or -inf below "
                               "and inf above.")
    if lower > upper:
        raise InfeasibleError(f"bound {position} has its lower limit {lower:g} above its upper limit {upper:g}; "
                              "exchange or relax them.")
    return weights, lower, upper


def read_sizes(sizes: Iterable[Any] | None, n: int, clusters: int) -> tuple[IntArray, IntArray]:
    """Check a sequence of (at_least, at_most) and return their intersection, whole numbers within 0..n."""
    at_least, at_most = np.zeros(clusters, dtype=np.intp), np.full(clusters, n, dtype=np.intp)
    for position, entry in enumerate(() if sizes is None else sizes):
        try:
            low, high = (np.asarray(limits, dtype=float) for limits in entry)
        except (TypeError, ValueError):
            raise DeclarationError(f"sizes {position} were not given as (at_least, at_most) with two vectors of "
                                   "numbers; pass such a pair.") from None
        for name, limit in (("at_least", low), ("at_most", high)):
            if limit.shape != (clusters,):
                raise DeclarationError(f"{name} of sizes {position} has shape {limit.shape}; expected ({clusters},), "
                                       "one limit per cluster.")
            if np.isnan(limit).any():
                q = int(np.flatnonzero(np.isnan(limit))[0])
                raise DeclarationError(f"{name} of sizes {position} is nan for cluster {q}; expected numbers.")
        fewest, most = whole_sizes(low, high, n)
        at_least, at_most = np.maximum(at_least, fewest), np.minimum(at_most, most)
    return at_least, at_most


def whole_sizes(low: Any, high: Any, n: int) -> tuple[IntArray, IntArray]:
    """Return the whole numbers within limits on sizes, which may be fractions of n off by rounding."""
    return (np.ceil(_lowered(np.clip(low, 0, n + 1))).astype(np.intp),
            np.floor(-_lowered(-np.clip(high, -1, n))).astype(np.intp))


def _lowered(limits: FloatArray) -> FloatArray:
    """Return limits less what rounding may have added to them, so that 0.1 * 30 asks for three points."""
    return np.asarray(limits - rounding(np.abs(limits), 1))


def _numeric(values: Any, what: str, expected: str) -> Any:
    try:
        table = np.asarray(values)
    except ValueError:
        raise DeclarationError(f"{what} are ragged; expected {expected}.") from None
    if table.size == 0:
        return table.astype(float)
    if table.dtype.kind not in "iuf":
        raise DeclarationError(f"{what} have type {table.dtype}; expected {expected}.")
    return table


def _refuse_indices(rows: Any, n: int, what: str) -> None:
    if rows.dtype.kind == "f":
        fractional = np.flatnonzero((rows != np.floor(rows)).any(axis=1) | ~np.isfinite(rows).all(axis=1))
        if fractional.size:
            row = int(fractional[0])
            raise DeclarationError(
                f"{what} {_shown(rows[row])} at position {row} is not made of whole numbers; pass integer indices.")
    outside = np.flatnonzero(((rows < 0) | (rows >= n)).any(axis=1))
    if outside.size:
        row = int(outside[0])
        raise DeclarationError(
            f"{what} {_shown(rows[row])} at position {row} is out of range; expected indices from 0 to {n - 1}.")


def _shown(row: Any) -> str:
    parts = [f"{entry:g}" if row.dtype.kind == "f" else str(int(entry)) for entry in row]
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def presolve(n: int, clusters: int = 2, *, must: Any = None, cannot: Any = None, known: Any = None,
             bounds: Iterable[Any] = (), sizes: Iterable[Any] | None = None) -> LabelSet:
    """Reduce declared label constraints to free values of components.

    B = {y : y_i = y_j (must), y_i != y_j (cannot), y_i given (known), lower <= sum_i w_i y_i <= upper (bounds),
    at_least_q <= |{i : y_i = q}| <= at_most_q (sizes)} becomes y = A z with one value z_C a component of what links
    decide. Limits are tightened to sums and sizes that are attained, and components that links, known labels, bounds
    or sizes force are pinned.

    Parameters
    ----------
    n : int
        Number of points, at least 2.
    clusters : int
        Number k of clusters.
    must, cannot : array_like of int, shape (m, 2), optional
        Pairs of points with equal, and with different, labels.
    known : (array_like of int, array_like), optional
        Indices and values of known labels as users write them: -1 and +1 of two clusters, numbers of more.
    bounds : sequence of (weights, lower, upper), optional
        Of two clusters, whose labels count -1 and +1. Weights of shape (n,), None for all ones; limits may be infinite.
    sizes : sequence of (at_least, at_most), optional
        Pairs of array_like, shape (k,), limits on the numbers of points of the clusters; all of them hold.

    Returns
    -------
    LabelSet
        Never empty.

    Examples
    --------
    >>> labels = presolve(5, must=[(0, 3)], cannot=[(1, 3)], known=([4], [1]), bounds=[(None, -2, 2)])
    >>> labels.component, labels.sign, labels.pinned
    (array([0, 0, 1, 0, 2]), array([ 1, -1,  1,  1,  1]), array([-1, -1,  1]))
    >>> labels = presolve(5, 3, must=[(0, 3)], cannot=[(1, 3)], known=([4], [2]))
    >>> labels.component, labels.pinned, labels.cannot
    (array([0, 1, 2, 0, 3]), array([-1, -1, -1,  2]), array([[0, 1]]))
    """
    names, n = Names(clusters), read_count(n)
    must, cannot = read_pairs(must, n, "must-link"), read_pairs(cannot, n, "cannot-link")
    (points, given), limits = read_known(known, n, names), read_sizes(sizes, n, clusters)
    stated = list(bounds or ())
    if clusters == 2:  # sizes are bounds on the sum of codes
        at_least, at_most = limits
        low = max(2 * at_least[1], 2 * (n - at_most[0])) - n
        high = min(2 * at_most[1], 2 * (n - at_least[0])) - n
        stated += [(None, low, high)] if low > -n or high < n else []
        limits = np.zeros_like(at_least), np.full_like(at_most, n)
    sums = read_bounds(stated, n)
    component, sign, apart = linked(n, must, cannot, clusters)
    pinned = np.full(int(component.max()) + 1, -1)
    pinned[component[points]] = forced = np.where(sign[points] > 0, given, 1 - given)
    if len(must) or len(cannot):
        from margindsl.labelset.contradiction import refuse_clashes

        refuse_clashes(component, pinned, points, given, forced, names, must, cannot)
    declared = LabelSet(n, names, component, sign, np.bincount(component), pinned, apart, *limits, tuple(intersect(
        [LinearBound.contracted(w, lower, upper, component, sign, f"bound {position}")
         for position, (w, lower, upper) in enumerate(sums)])))
    try:
        labels = _settle(declared)
        refuse_unattained(list(labels.bounds), labels.signs(labels.pinned))
        refuse_empty(labels)
    except InfeasibleError:
        if len(apart):  # a clique among the links explains more than what it leads to
            from margindsl.labelset.contradiction import refuse_clique

            refuse_clique(cannot, component, clusters)
        raise
    return labels


def linked(n: int, must: IntArray, cannot: IntArray, clusters: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return what `link_components` does; networkx is loaded where there are links."""
    if not (len(must) or len(cannot)):
        return np.arange(n), np.ones(n, dtype=np.intp), cannot
    from margindsl.labelset.links import link_components

    return link_components(n, must, cannot, clusters)


def _settle(labels: LabelSet) -> LabelSet:
    """Tighten limits and pin forced components until nothing moves."""
    limits = tighten_sizes(labels) if labels.asks_sizes else (labels.at_least, labels.at_most)
    signs = labels.signs(labels.pinned)
    bounds = [tighten(bound, signs, labels.size) for bound in labels.bounds]
    while True:
        check()
        pinned = force_clusters(labels, forced(labels, bounds, labels.pinned), *limits)
        if np.array_equal(labels.pinned, pinned):
            break
        labels, signs = replace(labels, pinned=pinned), labels.signs(pinned)
        bounds = [tighten(renamed(bound, bounds), signs, labels.size) for bound in bounds]
    binding = tuple(bound for bound in bounds if binds(bound, signs))
    return replace(labels, bounds=binding, at_least=limits[0], at_most=limits[1])
