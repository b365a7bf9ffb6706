"""Deciding whether a set of k-cluster labellings has a member: greedily, else by integer programmes."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import numpy as np

from margindsl.errors import InfeasibleError
from margindsl.host.clock import check
from margindsl.labelset.components import Constraints, pinned_sizes
from margindsl.labelset.linked import connected_blocks
from margindsl.labelset.oracle import assign_parts
from margindsl.labelset.programme import solve_assignment
from margindsl.typing import BoolArray, IntArray

Choice: TypeAlias = Callable[[list[int], list[int], list[int]], int]  # of clusters, what they need and have room for

_SHRUNK = 40
_SHOWN = 12


def refuse_empty(labels: Constraints) -> None:
    """Raise when a label set has no member.

    A greedy member settles most cases. Otherwise cannot-links alone, sizes alone and both together are
    tried in this order, each to proof, so that the message names what is to blame.
    """
    bounded, linked = labels.has_sizes, len(labels.apart) > 0
    if labels.parts:
        if (assign_parts(labels, np.where(labels.allowed, 0.0, -np.inf))) is None:
            raise InfeasibleError(
                "no labelling meets the sizes in groups of points beside links, known labels and sizes of all (proved "
                "by an integer programme); relax one of them.")
        return
    nodes, edges = labels.apart_blocks
    # A component with more clusters than neighbours can be placed after these: what remains is the core.
    allowed, core, alive = labels.allowed[nodes], edges, np.ones(len(nodes), dtype=bool)
    ways = allowed.sum(axis=1)
    while (easy := alive & (np.bincount(core.ravel(), minlength=len(nodes)) < ways)).any():
        check()
        alive &= ~easy
        core = core[alive[core].all(axis=1)]
    if not bounded and (not len(core) or _assign_greedily(labels, _lowest, np.flatnonzero(alive), core) is not None):
        return
    # Sums of limits, pinned points counted, lie on both sides of n: enough for points that may join all clusters.
    free = labels.free
    if bounded and not linked and (labels.size[free] == 1).all() and labels.allowed[free].all():
        return
    if bounded and greedy_member(labels) is not None:
        return
    if len(core):
        inside = np.unique(core)
        block = connected_blocks(len(nodes), core)
        for number in np.unique(block[inside]).tolist():
            members = inside[block[inside] == number]
            if not _is_colourable(allowed, core, members):
                for member in members.tolist() if len(members) <= _SHRUNK else ():  # those that are not needed
                    fewer = members[members != member]
                    members = members if _is_colourable(allowed, core, fewer) else fewer
                points = np.sort(labels.first[nodes[members]]).tolist()
                shown, more = ", ".join(map(str, points[:_SHOWN])), len(points) - _SHOWN
                known = bool((~labels.allowed[nodes[members]]).any())
                raise InfeasibleError(
                    f"cannot-links{' and known labels' if known else ''} admit no labelling: the points {shown}"
                    f"{f' and {more} more' if more > 0 else ''} (with those must-linked to them) cannot be divided "
                    f"among {labels.clusters} clusters (proved by an integer programme). Remove some of the "
                    f"cannot-links between them{' or known labels' if known else ''}, or declare more clusters.")
    asked = ", ".join(f"{low} to {high}" for low, high in zip(labels.at_least[:_SHOWN], labels.at_most[:_SHOWN]))
    asked = f"({asked}{', ...' if labels.clusters > _SHOWN else ''})"
    if bounded and not _is_attained(labels, False):
        raise InfeasibleError(
            f"no assignment of the {int(labels.free.sum())} free components, of up to "
            f"{labels.size[labels.free].max(initial=1)} points each, meets the sizes {asked} (proved by an "
            "integer programme, cannot-links between free points left out); relax the size bounds, or remove "
            "must-links or known labels."
        )
    if bounded and linked and not _is_attained(labels, True):
        raise InfeasibleError(
            f"cannot-links and sizes {asked} exclude one another: each can be met alone, but no assignment of "
            f"the {int(labels.free.sum())} free components meets both (proved by an integer programme); relax the "
            "size bounds or remove cannot-links."
        )


def greedy_member(labels: Constraints) -> IntArray | None:
    """Return clusters (N,) of a member that greedy placement finds, None where it finds none.

    Cannot-linked components are placed first, those with fewest clusters left before others, then the rest, the largest
    first, to where most is needed or there is most room.
    """
    nodes, edges = labels.apart_blocks
    for choose in (_roomiest, _lowest) if labels.has_sizes else (_lowest,):
        placed = _assign_greedily(labels, choose, np.arange(len(nodes)), edges)
        if placed is None:
            continue
        z = np.argmax(labels.allowed, axis=1)
        z[nodes] = placed
        if not labels.has_sizes:
            return z
        held = pinned_sizes(placed, labels.size[nodes], labels.clusters)
        need, room = (labels.needed_sizes - held).tolist(), (labels.room - held).tolist()
        rest = labels.free.copy()
        rest[nodes] = False
        alike = rest & (labels.size == 1) & labels.allowed.all(axis=1)
        order, alone = np.flatnonzero(rest & ~alike), np.flatnonzero(alike)
        order = order[np.argsort(-labels.size[order], kind="stable")]
        for c, allowed, many in zip(order, labels.allowed[order].tolist(), labels.size[order].tolist()):
            options = [q for q, is_open in enumerate(allowed) if is_open and room[q] >= many]
            if not options:
                break
            q = z[c] = _roomiest(options, need, room)
            need[q] -= many
            room[q] -= many
        else:
            while len(alone) and max(room) > 0:  # many at a time, fewer than the neediest lacks where all are needed
                q = _roomiest([q for q in range(labels.clusters) if room[q] > 0], need, room)
                many = min(room[q], max(1, len(alone) // (2 * labels.clusters)))
                z[alone[:many]], alone = q, alone[many:]
                need[q] -= many
                room[q] -= many
            if max(need) <= 0 <= min(room) and not len(alone):
                return z
    return None


def draw_linked(labels: Constraints, rng: np.random.Generator) -> IntArray | None:
    """Draw clusters (m,) of the cannot-linked free components one after another, uniformly among those left.

    Every possible choice has a positive probability; None where a component has no cluster left.
    """
    nodes, edges = labels.apart_blocks
    return _assign_greedily(labels, lambda options, need, room: options[int(rng.integers(len(options)))],
                         np.arange(len(nodes)), edges)


def _roomiest(options: list[int], need: list[int], room: list[int]) -> int:
    return max(options, key=lambda q: (max(need[q], 0), room[q]))


def _lowest(options: list[int], need: list[int], room: list[int]) -> int:
    return options[0]


def _assign_greedily(labels: Constraints, choose: Choice, chosen: IntArray, edges: IntArray) -> IntArray | None:
    """Place chosen ones of the cannot-linked components greedily, those with fewest clusters left first.

    Returns clusters of all (m,), -1 of those not chosen; None if one is left without a cluster.
    """
    nodes = labels.apart_blocks[0]
    need, room = (limit.tolist() for limit in (labels.needed_sizes, labels.room))
    near: list[list[int]] = [[] for _ in nodes]
    for i, j in edges.tolist():
        near[i].append(j)
        near[j].append(i)
    left = [{q for q, is_open in enumerate(row) if is_open} for row in labels.allowed[nodes].tolist()]
    size, placed = labels.size[nodes].tolist(), np.full(len(nodes), -1)
    heap = [(len(left[c]), -len(near[c]), c) for c in chosen.tolist()]
    heapify(heap)
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


def _is_colourable(allowed: BoolArray, edges: IntArray, members: IntArray) -> bool:
    """Return whether members can be divided among their clusters, the ends of edges apart."""
    position = np.full(len(allowed), -1)
    position[members] = np.arange(len(members))
    inside = position[edges]
    gain = np.where(allowed[members], 0.0, -np.inf)
    return solve_assignment(gain, inside[(inside >= 0).all(axis=1)], np.ones(len(members), dtype=np.intp)) is not None


def _is_attained(labels: Constraints, with_links: bool) -> bool:
    """Decide whether sizes can be met; components of one size and equal choices are counted, not listed."""
    single = np.zeros(labels.count, dtype=bool)
    if with_links:
        single[labels.apart_blocks[0]] = True
    alone, rest = np.flatnonzero(single), np.flatnonzero(~single & labels.free)
    kinds, many = np.unique(np.column_stack([labels.size[rest], labels.allowed[rest]]), axis=0, return_counts=True)
    allowed = np.vstack([labels.allowed[alone], kinds[:, 1:] > 0])
    counts = solve_assignment(
        np.where(allowed, 0.0, -np.inf),
        labels.apart_blocks[1] if with_links else np.zeros((0, 2), dtype=np.intp),
        np.concatenate([labels.size[alone], kinds[:, 0]]),
        (labels.needed_sizes, labels.room),
        np.concatenate([np.ones(len(alone), dtype=np.intp), many]),
    )
    return counts is not None
