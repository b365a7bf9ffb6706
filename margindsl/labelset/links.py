"""The signed graph of must-links and cannot-links: its components and their 2-colouring."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from margindsl.labelset.contradiction import raise_labels, raise_links
from margindsl.labelset.names import Names
from margindsl.typing import BoolArray, IntArray


def sign_components(n: int, must: IntArray, cannot: IntArray) -> tuple[IntArray, IntArray]:
    """Return (component, sign), both (n,), such that links hold iff y = sign * z[component].

    Components are numbered by their first point, whose sign is +1. The 2-colouring is read off the
    connected components of the double cover: points (i, +) and (i, -), a must-link joining equal and a
    cannot-link opposite halves; a component is contradictory iff some (i, +) meets (i, -).
    """
    component = np.arange(n)
    links, flips = _flipped(must, cannot)
    if not len(links):
        return component, np.broadcast_to(np.intp(1), n)
    sign = np.ones(n, dtype=np.intp)
    points, flat = np.unique(links, return_inverse=True)
    ends = flat.reshape(-1, 2)
    upper, lower = _double_cover(len(points), ends, flips)
    torn = np.flatnonzero(upper == lower)
    if torn.size:
        inside = upper[ends[:, 0]] == upper[torn[0]]
        raise_links(links[inside], flips[inside])
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


def refuse_torn(component: IntArray, must: IntArray, cannot: IntArray) -> None:
    """Raise when a cannot-link joins two points that must-links join, with the cycle of both."""
    torn = cannot[component[cannot[:, 0]] == component[cannot[:, 1]]]
    if len(torn):
        inside = component[must[:, 0]] == component[torn[0, 0]]
        raise_links(*_flipped(must[inside], torn[:1]))


def pin_components(component: IntArray, sign: IntArray, known: tuple[IntArray, IntArray], names: Names,
                   must: IntArray, cannot: IntArray) -> IntArray:
    """Return pinned (N,): the value known labels force on each component, open without any.

    Shapes: `component` (n,), `sign` (n,), `known` (index, value).

    Parameters
    ----------
    must, cannot : (m, 2) int arrays
        The links within components.
    """
    index, value = known
    where, forced = component[index], value * sign[index]
    pinned = np.full(int(component.max()) + 1, names.open, dtype=np.intp)
    pinned[where] = forced
    clashing = where[pinned[where] != forced]
    if clashing.size:
        members = where == clashing.min()
        alike = members & (forced == forced[members.argmax()])
        here, there = (_said(index[part], value[part], names) for part in (alike, members & ~alike))
        inside = [pairs[component[pairs[:, 0]] == clashing.min()] for pairs in (must, cannot)]
        raise_labels(here, there, *_flipped(*inside))
    return pinned


def refuse_equal(component: IntArray, pinned: IntArray, known: tuple[IntArray, IntArray], names: Names,
                 must: IntArray, cannot: IntArray) -> None:
    """Raise when a cannot-link joins components with equal known labels.

    Shapes: `component` (n,), `pinned` (n,), `known` (index, value).

    Parameters
    ----------
    must, cannot : (m, 2) int arrays
        The links within components and those between them.
    """
    ends = component[cannot]
    equal = cannot[(pinned[ends[:, 0]] == pinned[ends[:, 1]]) & (pinned[ends[:, 0]] != names.open)]
    if len(equal):
        index, value = known
        here, there = (component[index] == c for c in component[equal[0]])
        inside = must[np.isin(component[must[:, 0]], component[equal[0]])]
        raise_labels(_said(index[here], value[here], names), _said(index[there], value[there], names),
                     *_flipped(inside, equal[:1]))


def _said(index: IntArray, value: IntArray, names: Names) -> dict[int, str]:
    return {point: names.shown(label) for point, label in zip(index.tolist(), value.tolist())}


def _flipped(must: IntArray, cannot: IntArray) -> tuple[IntArray, BoolArray]:
    return np.vstack([must, cannot]), np.arange(len(must) + len(cannot)) >= len(must)


__all__ = ["pin_components", "refuse_equal", "refuse_torn", "sign_components"]
