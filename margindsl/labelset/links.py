"""The signed graph of must-links and cannot-links: its components and their 2-colouring."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from margindsl.labelset.contradiction import odd_cycle, raise_labels, raise_links
from margindsl.typing import IntArray


def sign_components(n: int, must: IntArray, cannot: IntArray) -> tuple[IntArray, IntArray]:
    """Return (component, sign), both (n,), such that links hold iff y = sign * z[component].

    Components are numbered by their first point, whose sign is +1. The 2-colouring is read off the
    connected components of the double cover: points (i, +) and (i, -), a must-link joining equal and a
    cannot-link opposite halves; a component is contradictory iff some (i, +) meets (i, -).

    Raises
    ------
    ContradictionError
        When a cycle of links holds an odd number of cannot-links.
    """
    component, sign = np.arange(n), np.ones(n, dtype=np.intp)
    links = np.vstack([must, cannot])
    if not len(links):
        return component, sign
    points, flat = np.unique(links, return_inverse=True)
    ends = flat.reshape(-1, 2)
    flips = np.arange(len(links)) >= len(must)
    upper, lower = _double_cover(len(points), ends, flips)
    torn = np.flatnonzero(upper == lower)
    if torn.size:
        inside = upper[ends[:, 0]] == upper[torn[0]]
        raise_links(odd_cycle(links[inside], flips[inside]))
    # The lift pair {upper, lower} names the component; the smaller label is the same for all its points.
    name = np.minimum(upper, lower)
    _, first, member = np.unique(name, return_index=True, return_inverse=True)
    leader = points[first]
    component[points] = leader[member]
    sign[points] = np.where(upper == upper[first][member], 1, -1)
    return np.unique(component, return_inverse=True)[1].astype(np.intp), sign


def _double_cover(m: int, ends: IntArray, flips: IntArray) -> tuple[IntArray, IntArray]:
    i, j = ends[:, 0], ends[:, 1]
    rows = np.concatenate([i, i + m])
    columns = np.concatenate([np.where(flips, j + m, j), np.where(flips, j, j + m)])
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(2 * m, 2 * m)).tocsr()
    lift = connected_components(graph, directed=False)[1]
    return lift[:m], lift[m:]


def pin_components(
    component: IntArray, sign: IntArray, known: tuple[IntArray, IntArray], must: IntArray, cannot: IntArray
) -> IntArray:
    """Return pinned (N,) in {-1, 0, 1}: the sign known labels force on each component.

    Raises
    ------
    ContradictionError
        When two known labels of one component disagree.
    """
    index, value = known
    count = int(component.max()) + 1
    where, forced = component[index], value * sign[index]
    positive = np.bincount(where[forced > 0], minlength=count) > 0
    negative = np.bincount(where[forced < 0], minlength=count) > 0
    both = np.flatnonzero(positive & negative)
    if both.size:
        members = where == both[0]
        inside = [component[pairs[:, 0]] == both[0] for pairs in (must, cannot)]
        raise_labels(index[members], value[members], forced[members], must[inside[0]], cannot[inside[1]])
    return positive.astype(np.intp) - negative.astype(np.intp)
