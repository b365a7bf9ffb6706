"""Explaining contradictions: shortest odd cycles of links, paths between clashing known labels, cliques."""

from __future__ import annotations

from collections import deque
from itertools import combinations, groupby, islice
from typing import NoReturn, TypeAlias

from margindsl.errors import ContradictionError
from margindsl.typing import IntArray

Edge: TypeAlias = tuple[int, int, str]
Graph: TypeAlias = dict[int, list[tuple[int, bool]]]

_VISITS = 2_000_000
_SHOWN = 12
_CLIQUES = 20_000


def odd_cycle(links: IntArray, flips: IntArray) -> list[Edge]:
    """Return a cycle with an odd number of cannot-links in a connected contradictory signed graph.

    Every odd cycle crosses a link that a spanning tree's colouring violates, so breadth-first searches in
    the double cover from the ends of these links find a shortest one; the number of searches is capped, and
    past the cap the cycle is odd and simple but perhaps not shortest.
    """
    graph = _adjacency(links, flips)
    best: list[Edge] = []
    visits = 0
    for root in _violated_ends(graph, int(links[0, 0])):
        walk, seen = _odd_walk(graph, root, len(best) or None)
        if walk:
            cycle = _simple_odd_part(walk)
            best = cycle if not best or len(cycle) < len(best) else best
        visits += seen
        if visits > _VISITS or len(best) == 2:
            break
    return best


def raise_links(links: IntArray, flips: IntArray) -> NoReturn:
    """Raise the error for links that hold a cycle with an odd number of cannot-links, and show a shortest one.

    Parameters
    ----------
    links : (m, 2) int array
        Of one component.
    flips : (m,) bool array
        Which of them are cannot-links.
    """
    cycle = odd_cycle(links, flips)
    cannot = [k for k, (*_, kind) in enumerate(cycle) if kind == "cannot-link"]
    if len(cannot) == 1:
        path = [*cycle[cannot[0] + 1:], *cycle[: cannot[0]]]
        raise ContradictionError(
            f"links contradict one another: {joined(path)}, a cannot-link parts them. Remove or change one of these "
            "links.", [*path, cycle[cannot[0]]])
    raise ContradictionError(
        f"links contradict one another: the cycle of {sentence(cycle)} holds {len(cannot)} cannot-links, an odd "
        "number, and two clusters allow only even ones. Remove or change one of these links.", cycle)


def raise_labels(here: dict[int, str], there: dict[int, str], links: IntArray, flips: IntArray) -> NoReturn:
    """Raise the error for known labels that links exclude together, with the shortest path between two of them.

    The closing edge ``(j, i, "known label")`` joins the two labelled points.

    Parameters
    ----------
    here, there : dict
        Points with their labels as text; every one of the first excludes every one of the second.
    links : (m, 2) int array
        What joins them.
    flips : (m,) bool array
        Which of them are cannot-links.
    """
    twice = sorted(here.keys() & there.keys())
    if twice:
        point = twice[0]
        raise ContradictionError(
            f"point {point} has two known labels, {here[point]} and {there[point]}; keep one of them.",
            [(point, point, "known label")])
    path = _label_path(_adjacency(links, flips), here, there)
    start, end = path[0][0], path[-1][1]
    raise ContradictionError(
        f"known labels contradict the links: point {start} is labelled {here[start]} and point {end} is labelled "
        f"{there[end]}, against {sentence(path)}. Change one of the two labels or one of these links.",
        [*path, (end, start, "known label")])


def _adjacency(links: IntArray, flips: IntArray) -> Graph:
    graph: Graph = {}
    for (i, j), flip in zip(links.tolist(), flips.tolist()):
        graph.setdefault(i, []).append((j, flip))
        graph.setdefault(j, []).append((i, flip))
    return graph


def _violated_ends(graph: Graph, root: int) -> list[int]:
    colour, queue = {root: False}, deque([root])
    ends: dict[int, None] = {}
    while queue:
        i = queue.popleft()
        for j, flip in graph[i]:
            if j not in colour:
                colour[j] = colour[i] ^ flip
                queue.append(j)
            elif colour[j] != colour[i] ^ flip and j not in ends:
                ends[i] = None
    return list(ends)


def _odd_walk(graph: Graph, root: int, limit: int | None) -> tuple[list[Edge], int]:
    start, goal = (root, False), (root, True)
    parent: dict[tuple[int, bool], tuple[tuple[int, bool], str] | None] = {start: None}
    level, depth = [start], 0
    while level and goal not in parent and (limit is None or depth + 1 < limit):
        following = []
        for i, side in level:
            for j, flip in graph[i]:
                node = (j, side ^ flip)
                if node not in parent:
                    parent[node] = ((i, side), "cannot-link" if flip else "must-link")
                    following.append(node)
        level, depth = following, depth + 1
    return (_trace(parent, goal) if goal in parent else []), len(parent)


def _trace(
    parent: dict[tuple[int, bool], tuple[tuple[int, bool], str] | None], node: tuple[int, bool]
) -> list[Edge]:
    walk: list[Edge] = []
    step = parent[node]
    while step is not None:
        before, kind = step
        walk.append((before[0], node[0], kind))
        node, step = before, parent[before]
    return walk[::-1]


def _simple_odd_part(walk: list[Edge]) -> list[Edge]:
    """Cut closed sub-walks off an odd closed walk until an odd one without repeated points remains."""
    kept: list[Edge] = []
    place: dict[int, int] = {}
    for edge in walk:
        place[edge[0]] = len(kept)
        kept.append(edge)
        position = place.get(edge[1])
        if position is not None:
            loop = kept[position:]
            if sum(kind == "cannot-link" for *_, kind in loop) % 2:
                return loop
            del kept[position:]
            for i, _, _ in loop:
                del place[i]
    return kept


def _label_path(graph: Graph, here: dict[int, str], there: dict[int, str]) -> list[Edge]:
    parent: dict[tuple[int, bool], tuple[tuple[int, bool], str] | None] = {
        (i, False): None for i in sorted(here)
    }
    queue = deque(parent)
    while queue:
        node = queue.popleft()
        if node[0] in there:
            return _trace(parent, node)
        for j, flip in graph.get(node[0], ()):
            if (j, False) not in parent:
                parent[(j, False)] = (node, "cannot-link" if flip else "must-link")
                queue.append((j, False))
    raise AssertionError("clashing labels of one component are joined by links")


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
