"""Deciding whether a set of k-cluster labellings has a member: greedily, else by integer programmes."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from margindsl.errors import InfeasibleError
from margindsl.host.clock import check
from margindsl.labelset.assignment import solve_assignment
from margindsl.labelset.domain import pinned_sizes
from margindsl.labelset.linked import connected_blocks
from margindsl.typing import BoolArray, IntArray

if TYPE_CHECKING:
    from margindsl.labelset.labelset import LabelSet

Choice: TypeAlias = Callable[[list[int], list[int], list[int]], int]

_SHRUNK = 40
_SHOWN = 12


def refuse_empty(labels: LabelSet) -> None:
    """Raise when a label set has no member.

    A greedy member settles most cases. Otherwise cannot-links alone, sizes alone and both together are
    tried in this order, each to proof, so that the message names what is to blame.
    """
    bounded, linked = labels.has_sizes, len(labels.apart) > 0
    if not (bounded or linked) or (not linked and _is_plain(labels)):
        return
    if greedy_member(labels) is not None:
        return
    if linked and _fill(labels, _colour(labels)) is not None:
        return
    if bounded and not _is_attained(labels, False):
        raise InfeasibleError(
            f"no assignment of the {int(labels.free.sum())} free components, of up to "
            f"{labels.size[labels.free].max(initial=1)} points each, meets the sizes {_asked(labels)} (proved by an "
            "integer programme, cannot-links between free points left out); relax the size bounds, or remove "
            "must-links or known labels."
        )
    if bounded and linked and not _is_attained(labels, True):
        raise InfeasibleError(
            f"cannot-links and sizes {_asked(labels)} exclude one another: each can be met alone, but no assignment of "
            f"the {int(labels.free.sum())} free components meets both (proved by an integer programme); relax the "
            "size bounds or remove cannot-links."
        )


def greedy_member(labels: LabelSet) -> IntArray | None:
    """Return clusters (N,) of a member that greedy placement finds, None where it finds none."""
    choices = (_roomiest, _lowest) if labels.has_sizes else (_lowest,)
    found = (_fill(labels, _place_linked(labels, choose)) for choose in choices)
    return next((z for z in found if z is not None), None)


def draw_linked(labels: LabelSet, rng: np.random.Generator) -> IntArray | None:
    """Draw clusters of the cannot-linked free components one after another, uniformly among those left.

    Returns
    -------
    ndarray of int, shape (m,), or None
        Clusters of ``apart_blocks[0]``, every possible choice with positive probability; None when the draw
        ran into a component without a cluster.
    """
    return _place_linked(labels, lambda options, need, room: options[int(rng.integers(len(options)))])


def _is_plain(labels: LabelSet) -> bool:
    # Presolve has checked that sums of limits, pinned points counted, lie on both sides of n.
    return bool((labels.size[labels.free] == 1).all() and labels.allowed[labels.free].all())


def _roomiest(options: list[int], need: list[int], room: list[int]) -> int:
    return max(options, key=lambda q: (max(need[q], 0), room[q]))


def _lowest(options: list[int], need: list[int], room: list[int]) -> int:
    return options[0]


def _place_linked(labels: LabelSet, choose: Choice) -> IntArray | None:
    """Place cannot-linked components greedily, those with fewest clusters left first; None if that fails."""
    nodes, edges = labels.apart_blocks
    need, room = (limit.tolist() for limit in (labels.needed_sizes, labels.room))
    near = _neighbours(len(nodes), edges)
    left = [set(np.flatnonzero(row).tolist()) for row in labels.allowed[nodes]]
    size = labels.size[nodes].tolist()
    heap = [(len(left[c]), -len(near[c]), c) for c in range(len(nodes))]
    heapify(heap)
    placed = np.full(len(nodes), -1)
    while heap:
        check()
        ways, _, c = heappop(heap)
        if placed[c] >= 0 or ways != len(left[c]):
            continue
        options = sorted(q for q in left[c] if room[q] >= size[c])
        if not options:
            return None
        q = placed[c] = choose(options, need, room)
        need[q] -= size[c]
        room[q] -= size[c]
        for d in near[c]:
            if placed[d] < 0 and q in left[d]:
                left[d].discard(q)
                heappush(heap, (len(left[d]), -len(near[d]), d))
    return placed


def _fill(labels: LabelSet, placed: IntArray | None) -> IntArray | None:
    """Return clusters of all components, the unlinked ones placed after the linked, largest first; None if that fails.
    """
    if placed is None:
        return None
    nodes, z = labels.apart_blocks[0], np.argmax(labels.allowed, axis=1)
    z[nodes] = placed
    if not labels.has_sizes:
        return z
    held = pinned_sizes(placed, labels.size[nodes], labels.clusters)
    need, room = (labels.needed_sizes - held).tolist(), (labels.room - held).tolist()
    rest = labels.free.copy()
    rest[nodes] = False
    order = np.flatnonzero(rest)
    order = order[np.argsort(-labels.size[order], kind="stable")]
    for c, allowed, many in zip(order, labels.allowed[order].tolist(), labels.size[order].tolist()):
        options = [q for q, open_ in enumerate(allowed) if open_ and room[q] >= many]
        if not options:
            return None
        q = z[c] = _roomiest(options, need, room)
        need[q] -= many
        room[q] -= many
    return z if max(need) <= 0 <= min(room) else None


def _colour(labels: LabelSet) -> IntArray:
    """Return clusters of the cannot-linked components without regard to sizes.

    A component with more clusters than neighbours can be placed after these, so it is set aside; connected
    components of what remains are solved as integer programmes.
    """
    nodes, edges = labels.apart_blocks
    allowed, placed = labels.allowed[nodes], np.full(len(nodes), -1)
    rounds, core = _set_aside(allowed.sum(axis=1), edges)
    if len(core):
        inside = np.unique(core)
        block = connected_blocks(len(nodes), core)
        for number in np.unique(block[inside]).tolist():
            members = inside[block[inside] == number]
            clusters = _colour_block(allowed, core, members)
            if clusters is None:
                raise InfeasibleError(_uncolourable(labels, nodes[_shrink(allowed, core, members)]))
            placed[members] = clusters
    left = allowed.copy()
    for i, j in (*edges.tolist(), *edges[:, ::-1].tolist()):
        if placed[i] >= 0:
            left[j, placed[i]] = False
    near = _neighbours(len(nodes), edges)
    for c in (c for many in reversed(rounds) for c in many.tolist()):
        placed[c] = np.argmax(left[c])
        left[near[c], placed[c]] = False
    return placed


def _set_aside(ways: IntArray, edges: IntArray) -> tuple[list[IntArray], IntArray]:
    alive = np.ones(len(ways), dtype=bool)
    rounds: list[IntArray] = []
    while True:
        check()
        degree = np.bincount(edges.ravel(), minlength=len(ways))
        easy = np.flatnonzero(alive & (degree < ways))
        if not easy.size:
            return rounds, edges
        rounds.append(easy)
        alive[easy] = False
        edges = edges[alive[edges].all(axis=1)]


def _neighbours(m: int, edges: IntArray) -> list[list[int]]:
    near: list[list[int]] = [[] for _ in range(m)]
    for i, j in edges.tolist():
        near[i].append(j)
        near[j].append(i)
    return near


def _colour_block(allowed: BoolArray, edges: IntArray, members: IntArray) -> IntArray | None:
    place = np.full(len(allowed), -1)
    place[members] = np.arange(len(members))
    inside = place[edges]
    inside = inside[(inside >= 0).all(axis=1)]
    gain = np.where(allowed[members], 0.0, -np.inf)
    counts = solve_assignment(gain, inside, np.ones(len(members), dtype=np.intp))
    return None if counts is None else np.argmax(counts, axis=1)


def _shrink(allowed: BoolArray, edges: IntArray, members: IntArray) -> IntArray:
    """Leave out members that are not needed for the contradiction, if there are few enough to try."""
    if len(members) > _SHRUNK:
        return members
    for member in members.tolist():
        fewer = members[members != member]
        if _colour_block(allowed, edges, fewer) is None:
            members = fewer
    return members


def _uncolourable(labels: LabelSet, guilty: IntArray) -> str:
    points = np.sort(labels.first[guilty]).tolist()
    shown = ", ".join(map(str, points[:_SHOWN]))
    rest = f" and {len(points) - _SHOWN} more" if len(points) > _SHOWN else ""
    known = bool((~labels.allowed[guilty]).any())
    return (
        f"cannot-links{' and known labels' if known else ''} admit no labelling: the points {shown}{rest} (with those "
        f"must-linked to them) cannot be divided among {labels.clusters} clusters (proved by an integer programme). "
        f"Remove some of the cannot-links between them{' or known labels' if known else ''}, or declare more clusters."
    )


def _is_attained(labels: LabelSet, with_links: bool) -> bool:
    """Decide whether sizes can be met; components of one size and equal choices are counted, not listed."""
    single = np.zeros(labels.count, dtype=bool)
    if with_links:
        single[labels.apart_blocks[0]] = True
    alone, rest = np.flatnonzero(single), np.flatnonzero(~single & labels.free)
    kinds, many = np.unique(
        np.column_stack([labels.size[rest], labels.allowed[rest]]), axis=0, return_counts=True
    )
    allowed = np.vstack([labels.allowed[alone], kinds[:, 1:] > 0])
    counts = solve_assignment(
        np.where(allowed, 0.0, -np.inf),
        labels.apart_blocks[1] if with_links else np.zeros((0, 2), dtype=np.intp),
        np.concatenate([labels.size[alone], kinds[:, 0]]),
        (labels.needed_sizes, labels.room),
        np.concatenate([np.ones(len(alone), dtype=np.intp), many]),
    )
    return counts is not None


def _asked(labels: LabelSet) -> str:
    pairs = [f"{low} to {high}" for low, high in zip(labels.at_least.tolist(), labels.at_most.tolist())]
    return f"({', '.join(pairs[:_SHOWN])}{', ...' if len(pairs) > _SHOWN else ''})"
