"""From links, known labels, bounds and sizes to a label set, or to an explanation why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from margindsl.errors import InfeasibleError
from margindsl.host.clock import check
from margindsl.labelset.bound import LinearBound, binds, intersect, refuse_unattained, renamed, tighten
from margindsl.labelset.declaration import read_known, read_sizes
from margindsl.labelset.existence import refuse_empty
from margindsl.labelset.forcing import force_clusters, forced, tighten_sizes
from margindsl.labelset.labelset import LabelSet
from margindsl.labelset.names import Names, read_count
from margindsl.typing import IntArray


def presolve(n: int, clusters: int = 2, *, must: Any = (), cannot: Any = (), known: Any = ((), ()),
             bounds: Iterable[Any] = (), sizes: Iterable[Any] = (), barred: Any = None,
             groups: Iterable[Any] = ()) -> LabelSet:
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
    must, cannot : array_like of int, shape (m, 2)
        Pairs of points with equal, and with different, labels.
    known : (array_like of int, array_like)
        Indices and values of known labels as users write them: -1 and +1 of two clusters, numbers of more.
    bounds : sequence of (weights, lower, upper)
        Of two clusters, whose labels count -1 and +1. Weights of shape (n,), None for all ones; limits may be infinite.
    sizes : sequence of (at_least, at_most)
        Of several clusters, whose labels are numbers: pairs of array_like, shape (k,), limits on how many points they
        hold; all of them hold.
    barred : (ndarray of int, ndarray of int), optional
        Points and clusters of several that they are kept out of.
    groups : sequence of (points, at_least, at_most), optional
        Limits (k,) on how many of some points clusters of several hold.

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
    must, cannot = (np.asarray(pairs, dtype=np.intp).reshape(-1, 2) for pairs in (must, cannot))
    (points, given), limits = read_known(known, names), read_sizes(sizes, n, clusters)
    sums = [(np.ones(n) if weights is None else np.asarray(weights, dtype=float), lower, upper)
            for weights, lower, upper in bounds]
    component, sign, apart = np.arange(n), np.broadcast_to(np.intp(1), n), cannot
    if len(must) or len(cannot):  # networkx is loaded where there are links
        from margindsl.labelset.links import link_components

        component, sign, apart = link_components(n, must, cannot, clusters)
    if np.any(sign < 0):  # of two clusters, whose linked points lie in both: sizes are limits of a sum of labels
        low, high = 2 * limits[0] - n, 2 * limits[1] - n
        sums.append((np.ones(n), float(max(low[1], -high[0])), float(min(high[1], -low[0]))))
        limits = read_sizes((), n, clusters)
    pinned = np.full(int(component.max()) + 1, -1)
    pinned[component[points]] = forced = np.where(sign[points] > 0, given, 1 - given)
    if len(must) or len(cannot):
        from margindsl.labelset.contradiction import refuse_clashes

        refuse_clashes(component, pinned, points, given, forced, names, must, cannot)
    declared = LabelSet(n, names, component, sign, np.bincount(component), pinned, apart, *limits, tuple(intersect(
        [LinearBound.contracted(w, lower, upper, component, sign, f"bound {position}")
         for position, (w, lower, upper) in enumerate(sums)])))
    closed, parts = np.zeros((declared.count, clusters), dtype=bool), []
    if barred is not None:
        closed[component[barred[0]], barred[1]] = True
    for position, (own, low, high) in enumerate(groups):
        omega = np.bincount(component[own], minlength=declared.count).astype(float)
        for q, (least, most) in enumerate(zip(low, high)):
            if most < 1:
                closed[omega > 0, q] = True
            if least > 0 or 0 < most < omega.sum():
                parts.append(LinearBound(omega, float(least), float(most), f"sizes in group {position}, cluster {q}",
                                         code=tuple(np.eye(clusters)[q].tolist())))
    declared = replace(declared, barred=closed if closed.any() else None, parts=tuple(parts))
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


def _is_roomy(labels: LabelSet, bounds: list[LinearBound], at_least: IntArray, at_most: IntArray) -> bool:
    """Return whether sizes and sums alone are limited, and leave room for any component anywhere: none is forced."""
    if len(labels.cannot) or labels.parts or labels.barred is not None or not labels.free.all():
        return False
    largest, weights = int(labels.size.max()), [np.abs(bound.omega) for bound in bounds]
    return bool(np.all(at_most >= largest) and np.all(at_least <= labels.n - largest) and all(
        2 * w.max() <= w.sum() + min(bound.upper, -bound.lower) for bound, w in zip(bounds, weights)))


def _settle(labels: LabelSet) -> LabelSet:
    """Tighten limits and pin forced components until nothing moves."""
    asked = (labels.at_least > 0).any() or (labels.at_most < labels.n).any()
    limits = tighten_sizes(labels) if asked else (labels.at_least, labels.at_most)
    signs = labels.signs(labels.pinned)
    bounds = [tighten(bound, signs, labels.size) for bound in labels.bounds]
    while not _is_roomy(labels, bounds, *limits):
        check()
        pinned = force_clusters(labels, forced(labels, bounds, labels.pinned), *limits)
        if np.array_equal(labels.pinned, pinned):
            break
        labels, signs = replace(labels, pinned=pinned), labels.signs(pinned)
        bounds = [tighten(renamed(bound, bounds), signs, labels.size) for bound in bounds]
    binding = tuple(bound for bound in bounds if binds(bound, signs))
    return replace(labels, bounds=binding, at_least=limits[0], at_most=limits[1])
