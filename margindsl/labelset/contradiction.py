"""Explaining contradictions: shortest cycles of links, paths between clashing known labels, cliques."""

from __future__ import annotations

from itertools import combinations, groupby, islice, pairwise
from typing import NoReturn, TypeAlias

import networkx as nx
import numpy as np

from margindsl.errors import ContradictionError
from margindsl.labelset.names import Names
from margindsl.typing import BoolArray, IntArray

Edge: TypeAlias = tuple[int, int, str]

_VISITS = 2_000_000  # links that searches for a shortest cycle look at, in about 2 s
_SHOWN = 12
_CLIQUES = 20_000


def flipped(must: IntArray, cannot: IntArray) -> tuple[IntArray, BoolArray]:
    """Return links (m, 2) of both kinds and which of them are cannot-links."""
    return np.vstack([must, cannot]), np.arange(len(must) + len(cannot)) >= len(must)


def refuse_torn(must: IntArray, cannot: IntArray) -> NoReturn:
    """Raise for cannot-links (m, 2) whose ends must-links join, with the shortest cycle of the first ones."""
    graph = nx.Graph(must.tolist())
    path = min((nx.shortest_path(graph, i, j) for i, j in cannot[: 1 + _VISITS // len(must)].tolist()), key=len)
    edges = [(i, j, "must-link") for i, j in pairwise(path)]
    raise ContradictionError(
        f"links contradict one another: {joined(edges)}, a cannot-link parts them. Remove or change one of these "
        "links.", [*edges, (path[-1], path[0], "cannot-link")])


def refuse_odd(links: IntArray, flips: BoolArray) -> NoReturn:
    """Raise for connected links (m, 2), cannot-links where they flip, that hold a cycle of an odd number of these.

    In the double cover, where a point i stands on two sides, 2i and 2i + 1, that cannot-links exchange, such a cycle is
    a path between the sides of a point. It holds a link that a colouring violates, so that searches from the ends of
    those find a shortest one; where there are too many of them, perhaps not the shortest.
    """
    cover, ends = nx.Graph(), 2 * links
    cover.add_edges_from(np.column_stack([ends[:, 0], ends[:, 1] + flips]).tolist())
    cover.add_edges_from(np.column_stack([ends[:, 0] + 1, ends[:, 1] + ~flips]).tolist())
    near = nx.single_source_shortest_path_length(cover, int(ends[0, 0]))
    colour = np.array([[near[end + 1] < near[end] for end in row] for row in ends.tolist()])
    roots = dict.fromkeys(links[colour[:, 0] ^ colour[:, 1] != flips, 0].tolist())
    tried = islice(roots, 1 + _VISITS // len(links))
    path = min((nx.shortest_path(cover, 2 * i, 2 * i + 1) for i in tried), key=len)
    while len(points := [end // 2 for end in path[1:]]) > len(set(points)):  # a point met twice is on a shorter cycle
        twice = max(points, key=points.count)
        path = nx.shortest_path(cover, 2 * twice, 2 * twice + 1)
    cycle = [(here // 2, there // 2, "cannot-link" if (here ^ there) & 1 else "must-link")
             for here, there in pairwise(path)]
    count = sum(kind == "cannot-link" for *_, kind in cycle)
    raise ContradictionError(
        f"links contradict one another: the cycle of {sentence(cycle)} holds {count} cannot-links, an odd number, and "
        "two clusters allow only even ones. Remove or change one of these links.", cycle)


def refuse_clashes(component: IntArray, pinned: IntArray, index: IntArray, value: IntArray, forced: IntArray,
                   names: Names, must: IntArray, cannot: IntArray) -> None:
    """Raise when known labels contradict links, with a shortest path between two of them.

    Points `index` have labels `value`, which pin their components to labels `forced`.

    The closing edge ``(j, i, "known label")`` joins the two points.
    """
    where = component[index]
    i, j = component[cannot].T
    clashing = where[pinned[where] != forced]
    equal = cannot[(i != j) & (pinned[i] == pinned[j]) & (pinned[i] >= 0)]
    if len(clashing):  # two labels of one component
        own = where == clashing.min()
        here = own & (forced == forced[own.argmax()])
        there, cannot = own & ~here, cannot[i == j]
    elif len(equal):  # equal labels of two that a cannot-link parts
        here, there = (where == c for c in component[equal[0]])
        cannot = equal[:1]
    else:
        return
    inside, graph = np.isin(component, where[here | there]), nx.Graph()
    for kind, links in (("must-link", must), ("cannot-link", cannot)):
        graph.add_edges_from(links[inside[links[:, 0]]].tolist(), kind=kind)
    graph.add_edges_from(("here", i) for i in index[here].tolist())
    graph.add_edges_from(("there", i) for i in index[there].tolist())
    points = nx.shortest_path(graph, "here", "there")[1:-1]
    path, start, end = [(i, j, graph[i][j]["kind"]) for i, j in pairwise(points)], points[0], points[-1]
    phrase = [names.shown(value[np.flatnonzero(index == point)[0]]) for point in (start, end)]
    raise ContradictionError(
        f"known labels contradict the links: point {start} is labelled {phrase[0]} and point {end} is labelled "
        f"{phrase[1]}, against {sentence(path)}. Change one of the two labels or one of these links.",
        [*path, (end, start, "known label")])


def sentence(edges: list[Edge]) -> str:
    """Return a path in words: its links in order, those of one kind that follow one another together.

    Examples
    --------
    >>> sentence([(0, 1, "must-link"), (1, 2, "must-link"), (2, 5, "cannot-link")])
    'must-links 0-1, 1-2, then cannot-link 2-5'
    """
    words = []
    for kind, run in groupby(edges[:_SHOWN], key=lambda edge: edge[2]):
        pairs = [f"{i}-{j}" for i, j, _ in run]
        words.append(f"{kind}{'s' if len(pairs) > 1 else ''} {', '.join(pairs)}")
    if len(edges) > _SHOWN:
        words.append(f"{len(edges) - _SHOWN} more to {edges[-1][1]}")
    return ", then ".join(words)


def joined(path: list[Edge]) -> str:
    """Return in words that a path of must-links joins its ends.

    Examples
    --------
    >>> joined([(0, 1, "must-link"), (1, 2, "must-link")])
    'must-links 0-1, 1-2 join points 0 and 2'
    """
    start, end = path[0][0], path[-1][1]
    words = "a must-link joins" if len(path) == 1 else f"{sentence(path)} join"
    return f"{words} points {start} and {end}"


def refuse_clique(cannot: IntArray, component: IntArray, clusters: int) -> None:
    """Raise when more than k components are found that are pairwise cannot-linked.

    Members of such a clique have at least k neighbours that have at least k neighbours and so on (the
    k-core); the number of maximal cliques looked at is capped.
    """
    links: dict[tuple[int, int], tuple[int, int]] = {}
    for i, j in cannot.tolist():
        a, b = int(component[i]), int(component[j])
        links.setdefault((min(a, b), max(a, b)), (i, j))
    core = nx.k_core(nx.Graph(sorted(links)), clusters)
    for clique in islice(nx.find_cliques(core), _CLIQUES):
        if len(clique) > clusters:
            members = sorted(clique)[: clusters + 1]
            edges = [(*links[pair], "cannot-link") for pair in combinations(members, 2)]
            points = {point for i, j, _ in edges for point in (i, j)}
            is_plain = 2 * len(edges) == len(points) * (len(points) - 1)
            raise ContradictionError(
                f"links contradict one another: cannot-links part every two of {clusters + 1} points"
                f"{'' if is_plain else ' or groups of must-linked points'} ("
                f"{', '.join(f'{i}-{j}' for i, j, _ in edges[:_SHOWN])}"
                f"{f', and {len(edges) - _SHOWN} more' if len(edges) > _SHOWN else ''}), and there are only "
                f"{clusters} clusters. Remove one of these links or declare more clusters.",
                edges,
            )
