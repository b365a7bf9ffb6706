"""The closure of must-links and what it makes of cannot-links, on a graph of the linked points alone."""

from __future__ import annotations

from itertools import chain

import networkx as nx
import numpy as np

from margindsl.labelset.contradiction import flipped, refuse_odd, refuse_torn
from margindsl.typing import IntArray


def closure(n: int, links: IntArray) -> IntArray:
    """Return (n,) the group of each of n points that links (m, 2) join, groups numbered by their first points."""
    first = np.arange(n)
    # Networkx takes 5 s for 10^6 links; so that it has few left, points first go with the least linked to them, twice.
    for _ in range(2):
        pairs, least = first[links], np.arange(n)
        np.minimum.at(least, pairs.ravel(), pairs[:, ::-1].ravel())
        while not np.array_equal(least, least[least]):
            least = least[least]
        first = least[first]
    graph = nx.Graph()
    graph.add_edges_from(distinct(first[links], n).tolist())
    groups = list(nx.connected_components(graph))
    members = np.fromiter(chain.from_iterable(groups), dtype=np.intp)
    least[members] = np.repeat([min(group) for group in groups], [len(group) for group in groups])
    return np.unique(least[first], return_inverse=True)[1]


def link_components(n: int, must: IntArray, cannot: IntArray, clusters: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return (component, sign, apart): links hold iff y_i = sign_i z[component_i] and z differs on the pairs apart.

    Components are numbered by their first point, whose sign is +1. Without signs cannot-links stand between components,
    (m, 2) pairs i < j; two clusters leave none: components that are parted from the same one are equal.
    """
    group = closure(n, must)
    torn = cannot[group[cannot[:, 0]] == group[cannot[:, 1]]]
    if len(torn):
        refuse_torn(must[np.isin(group[must[:, 0]], group[torn[:, 0]])], torn)
    count = int(group.max()) + 1
    apart = distinct(group[cannot], count)
    if clusters > 2:
        return group, np.ones(n, dtype=np.intp), apart
    here, there = np.vstack([apart, apart[:, ::-1]]).T
    other = np.arange(count)
    other[here] = there  # one of those that each is parted from
    side = closure(count, np.column_stack([there, other[here]]))
    opposite = np.arange(int(side.max()) + 1)
    opposite[side[here]] = side[there]
    odd = np.flatnonzero(side[here] == side[there])
    if len(odd):
        links, flips = flipped(must, cannot)
        inside = side[group[links[:, 0]]] == side[here[odd[0]]]
        refuse_odd(links[inside], flips[inside])
    leader = np.minimum(side, opposite[side])
    component = np.unique(leader, return_inverse=True)[1][group].astype(np.intp)
    return component, np.where(side == leader, 1, -1)[group], apart[:0]


def distinct(pairs: IntArray, n: int) -> IntArray:
    """Return the pairs (m, 2) of numbers below n as pairs i < j without repeats."""
    low, high = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1).T
    return np.stack(np.divmod(np.unique(low * n + high), n), axis=1)
