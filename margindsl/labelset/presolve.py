"""From links, known labels, bounds and sizes to a label set, or to an explanation why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from margindsl.errors import InfeasibleError
from margindsl.host.clock import check
from margindsl.labelset.bound import LinearBound, force_components, tighten
from margindsl.labelset.declaration import read_bounds, read_count, read_known, read_pairs, read_sizes
from margindsl.labelset.existence import refuse_empty
from margindsl.labelset.labelset import LabelSet
from margindsl.labelset.names import Names, Signs
from margindsl.labelset.sizes import force_clusters, tighten_sizes
from margindsl.labelset.sums import binds, intersect, refuse_unattained, renamed
from margindsl.typing import IntArray


def presolve(n: int, names: Names | None = None, *, must: Any = None, cannot: Any = None, known: Any = None,
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
    names : Names, optional
        How labels are written: `Signs()`, the default, or `Clusters(k)`.
    must, cannot : array_like of int, shape (m, 2), optional
        Pairs of points with equal, and with different, labels.
    known : (array_like of int, array_like), optional
        Indices and values of known labels.
    bounds : sequence of (weights, lower, upper), optional
        Of signs. Weights of shape (n,), None for all ones; limits may be infinite.
    sizes : sequence of (at_least, at_most), optional
        Pairs of array_like, shape (k,), limits on the numbers of points of the clusters; all of them hold.

    Returns
    -------
    LabelSet
        Never empty.

    Examples
    --------
    >>> from margindsl.labelset import Clusters
    >>> labels = presolve(5, must=[(0, 3)], cannot=[(1, 3)], known=([4], [1]), bounds=[(None, -2, 2)])
    >>> labels.component, labels.sign, labels.pinned
    (array([0, 0, 1, 0, 2]), array([ 1, -1,  1,  1,  1]), array([0, 0, 1]))
    >>> labels = presolve(5, Clusters(3), must=[(0, 3)], cannot=[(1, 3)], known=([4], [2]))
    >>> labels.component, labels.pinned, labels.cannot
    (array([0, 1, 2, 0, 3]), array([-1, -1, -1,  2]), array([[0, 1]]))
    """
    names = Signs() if names is None else names
    n = read_count(n)
    must, cannot = read_pairs(must, n, "must-link"), read_pairs(cannot, n, "cannot-link")
    labelled, (limits, stated) = read_known(known, n, names), names.stated(n, read_sizes(sizes, n, names.clusters))
    sums = read_bounds([*(bounds or ()), *stated], n)
    turning, parting = names.divided(cannot)
    component, sign, apart = linked(n, must, cannot, len(turning) > 0)
    pinned = np.full(int(component.max()) + 1, names.open)
    pinned[component[labelled[0]]] = labelled[1] * sign[labelled[0]]
    if len(must) or len(cannot):
        from margindsl.labelset.contradiction import refuse_clashes

        refuse_clashes(component, sign, pinned, labelled, names, must, cannot)
    declared = LabelSet(n, names, component, sign, np.bincount(component), pinned, apart, *limits, tuple(intersect(
        [LinearBound.contracted(w, lower, upper, component, sign, f"bound {position}")
         for position, (w, lower, upper) in enumerate(sums)])))
    try:
        labels = _settle(declared)
        refuse_unattained(labels)
        refuse_empty(labels)
    except InfeasibleError:
        if len(parting):  # a clique among the links explains more than what it leads to
            from margindsl.labelset.contradiction import refuse_clique

            refuse_clique(parting, component, names.clusters)
        raise
    return labels


def linked(n: int, must: IntArray, cannot: IntArray, two: bool) -> tuple[IntArray, IntArray, IntArray]:
    """Return what `link_components` does; networkx is loaded where there are links."""
    if not (len(must) or len(cannot)):
        return np.arange(n), np.ones(n, dtype=np.intp), cannot
    from margindsl.labelset.links import link_components

    return link_components(n, must, cannot, two)


def _settle(labels: LabelSet) -> LabelSet:
    """Tighten limits and pin forced components until nothing moves."""
    limits = tighten_sizes(labels) if labels.asks_sizes else (labels.at_least, labels.at_most)
    bounds = [tighten(bound, labels.pinned, labels.size) for bound in labels.bounds]
    while True:
        check()
        pinned = labels.pinned
        for bound in bounds:
            pinned = force_components(bound, pinned)
        held = force_clusters(labels, replace(labels, pinned=pinned).held, *limits)
        pinned = np.where(held < 0, pinned, labels.values[held])
        if np.array_equal(labels.pinned, pinned):
            break
        labels = replace(labels, pinned=pinned)
        bounds = [tighten(renamed(bound, bounds), pinned, labels.size) for bound in bounds]
    binding = tuple(bound for bound in bounds if binds(bound, pinned))
    return replace(labels, bounds=binding, at_least=limits[0], at_most=limits[1])
