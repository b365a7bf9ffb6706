"""Explaining contradictions of links and known labels among k clusters: paths, cliques."""

from __future__ import annotations

from itertools import combinations, islice, pairwise

from margindsl.errors import ContradictionError
from margindsl.labelset.contradiction import Edge, raise_torn, sentence
from margindsl.typing import IntArray

_CLIQUES = 20_000
_SHOWN = 12


def refuse_torn(must: IntArray, cannot: IntArray, component: IntArray) -> None:
    """Raise when a cannot-link joins two points that must-links join, with the cycle of both."""
    torn = cannot[component[cannot[:, 0]] == component[cannot[:, 1]]]
    if len(torn):
        start, end = torn[0].tolist()
        path = must_path(must, start, end)
        raise_torn(path, [*path, (end, start, "cannot-link")])


def refuse_labels(index: IntArray, value: IntArray, must: IntArray, component: IntArray) -> None:
    """Raise when known labels of one component disagree, with a path of must-links between two points."""
    holder: dict[int, tuple[int, int]] = {}
    for point, label in zip(index.tolist(), value.tolist()):
        before, other = holder.setdefault(int(component[point]), (point, label))
        if other == label:
            continue
        if before == point:
            raise ContradictionError(
                f"point {point} has two known labels, {other} and {label}; keep one of them.",
                [(point, point, "known label")],
            )
        path = must_path(must, before, point)
        raise ContradictionError(
            f"known labels contradict the links: point {before} is labelled {other} and point {point} is "
            f"labelled {label}, against {sentence(path)}. Change one of the two labels or one of these links.",
            [*path, (point, before, "known label")],
        )


def refuse_equal(
    index: IntArray, value: IntArray, must: IntArray, cannot: IntArray, component: IntArray
) -> None:
    """Raise when a cannot-link joins components with equal known labels."""
    known = dict(zip(component[index].tolist(), zip(index.tolist(), value.tolist())))
    for i, j in cannot.tolist():
        here, there = known.get(int(component[i])), known.get(int(component[j]))
        if here is None or there is None or here[1] != there[1]:
            continue
        path = [*must_path(must, here[0], i), (i, j, "cannot-link"), *must_path(must, j, there[0])]
        raise ContradictionError(
            f"known labels contradict the links: points {here[0]} and {there[0]} are both labelled {here[1]}, "
            f"against {sentence(path)}. Change one of the two labels or one of these links.",
            [*path, (there[0], here[0], "known label")],
        )


def refuse_clique(cannot: IntArray, component: IntArray, clusters: int) -> None:
    """Raise when more than k components are found that are pairwise cannot-linked.

    Members of such a clique have at least k neighbours that have at least k neighbours and so on (the
    k-core); the number of maximal cliques looked at is capped.
    """
    # Loaded here for it is slow to import and needed only once something is infeasible.
    import networkx as nx

    links: dict[tuple[int, int], tuple[int, int]] = {}
    for i, j in cannot.tolist():
        a, b = int(component[i]), int(component[j])
        links.setdefault((min(a, b), max(a, b)), (i, j))
    core = nx.k_core(nx.Graph(sorted(links)), clusters)
    for clique in islice(nx.find_cliques(core), _CLIQUES):
        if len(clique) > clusters:
            members = sorted(clique)[: clusters + 1]
            edges = [(*links[pair], "cannot-link") for pair in combinations(members, 2)]
            raise ContradictionError(
                f"links contradict one another: cannot-links part every two of {clusters + 1} points"
                f"{'' if _is_plain(edges) else ' or groups of must-linked points'} ("
                f"{', '.join(f'{i}-{j}' for i, j, _ in edges[:_SHOWN])}"
                f"{f', and {len(edges) - _SHOWN} more' if len(edges) > _SHOWN else ''}), and there are only "
                f"{clusters} clusters. Remove one of these links or declare more clusters.",
                edges,
            )


def _is_plain(edges: list[Edge]) -> bool:
    points = {point for i, j, _ in edges for point in (i, j)}
    return 2 * len(edges) == len(points) * (len(points) - 1)


def must_path(must: IntArray, start: int, end: int) -> list[Edge]:
    """Return the edges of a shortest path of must-links between two points of one component."""
    import networkx as nx

    if start == end:
        return []
    path = nx.shortest_path(nx.Graph(must.tolist()), start, end)
    return [(i, j, "must-link") for i, j in pairwise(path)]
