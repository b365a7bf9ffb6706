"""What sizes, pins, cannot-links and sums force: limits tightened, components pinned, refusals if nothing is left."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from margindsl.errors import InfeasibleError
from margindsl.host.clock import check
from margindsl.labelset.bound import LinearBound, force_components
from margindsl.labelset.components import Constraints, allowed_clusters, pinned_sizes
from margindsl.typing import BoolArray, IntArray

Path: TypeAlias = tuple[tuple[int, int], ...]  # (component, its value), in the order of the decisions


def tighten_sizes(labels: Constraints) -> tuple[IntArray, IntArray]:
    """Return the limits of the sizes moved to what sizes of the others and pinned points leave."""
    low, high, n = labels.at_least, labels.at_most, labels.n
    crossed = np.flatnonzero(low > high)
    if crossed.size:
        q = int(crossed[0])
        raise InfeasibleError(
            f"sizes ask at least {low[q]} and at most {high[q]} points in cluster {q}; exchange or relax these limits."
        )
    fixed = labels.pinned_sizes
    full = np.flatnonzero(fixed > high)
    if full.size:
        q = int(full[0])
        raise InfeasibleError(
            f"known labels and must-links put {fixed[q]} points into cluster {q}, which may hold at most {high[q]}; "
            "raise the limit, or remove known labels or links."
        )
    low = np.maximum(low, fixed)
    if low.sum() > n or high.sum() < n:
        asked = f"at least {low.sum()}" if low.sum() > n else f"at most {high.sum()}"
        raise InfeasibleError(
            f"sizes and known labels ask {asked} points in all {labels.clusters} clusters "
            f"together, but there are {n} points; relax the size bounds."
        )
    return np.maximum(low, n - (high.sum() - high)), np.minimum(high, n - (low.sum() - low))


def force_clusters(labels: Constraints, held: IntArray, at_least: IntArray, at_most: IntArray) -> IntArray:
    """Return the places (N,) that components are forced to, -1 where free, given those of some."""
    held = held.copy()
    allowed = allowed_clusters(labels, held, at_most)
    _refuse_homeless(labels, held, allowed, at_most)

    # 1. Components with one cluster left go there.
    forced = np.flatnonzero((held < 0) & (allowed.sum(axis=1) == 1))
    held[forced] = np.argmax(allowed[forced], axis=1)

    # 2. Neighbours of pinned components may not join their cluster, and are pinned where one is left.
    linked = labels.neighbours
    queue = np.flatnonzero((held >= 0) & (np.diff(linked.indptr) > 0)).tolist()
    while queue:
        check()
        here = queue.pop()
        q = held[here]
        for there in linked.indices[linked.indptr[here] : linked.indptr[here + 1]].tolist():
            if held[there] == q:
                raise InfeasibleError(
                    f"points {labels.first[here]} and {labels.first[there]} are parted by cannot-links, but known "
                    f"labels, links and sizes force both into cluster {q}; change one of the labels, links or sizes."
                )
            if held[there] < 0 and allowed[there, q]:
                allowed[there, q] = False
                left = np.flatnonzero(allowed[there])
                if len(left) == 1:
                    held[there] = left[0]
                    queue.append(there)

    # 3. So are components without which a cluster cannot reach its lower limit.
    fixed = np.flatnonzero(held >= 0)
    possible = allowed.copy()
    possible[fixed] = False
    possible[fixed, held[fixed]] = True
    reach = labels.size @ possible
    short = np.flatnonzero(reach < at_least)
    if short.size:
        q = int(short[0])
        raise InfeasibleError(
            f"cluster {q} must hold at least {at_least[q]} points, but known labels and links let only {reach[q]} join "
            "it; lower the limit, or remove known labels or links."
        )
    needed = (held < 0)[:, None] & possible & (labels.size[:, None] > reach - at_least)
    twice = np.flatnonzero(needed.sum(axis=1) > 1)
    if twice.size:
        one, other = np.flatnonzero(needed[twice[0]])[:2]
        raise InfeasibleError(
            f"clusters {one} and {other} both need the points linked with point {labels.first[twice[0]]} to reach "
            "their lower limits; lower one of the limits, or remove known labels or links."
        )
    forced = np.flatnonzero(needed.any(axis=1))
    held[forced] = np.argmax(needed[forced], axis=1)
    return held


def _refuse_homeless(labels: Constraints, held: IntArray, allowed: BoolArray, at_most: IntArray) -> None:
    """Raise when pinned points exceed a limit, or when a component has no cluster left."""
    fixed = pinned_sizes(held, labels.size, labels.clusters)
    full = np.flatnonzero(fixed > at_most)
    if full.size:
        q = int(full[0])
        raise InfeasibleError(
            f"known labels, links and sizes force {fixed[q]} points into cluster {q}, which may hold at most "
            f"{at_most[q]}; raise the limit, or remove known labels or links."
        )
    homeless = np.flatnonzero(~allowed.any(axis=1))
    if not homeless.size:
        return
    c = int(homeless[0])
    point, many = int(labels.first[c]), int(labels.size[c])
    what = f"point {point}" if many == 1 else f"the {many} must-linked points with point {point}"
    if held[c] >= 0:
        raise InfeasibleError(f"{what} cannot be in cluster {held[c]}, which known labels or links put it into; change "
                              "one of the labels.")
    if (many > at_most).all():
        raise InfeasibleError(
            f"{what} fit into no cluster: none may hold more than {at_most.max()}; raise the limits or remove "
            "must-links."
        )
    others, reasons = labels.cannot[(labels.cannot == c).any(axis=1)], []
    others = others[others != c]
    for q in range(labels.clusters):
        inside, barred = others[held[others] == q], labels.barred is not None and labels.barred[c, q]
        reason = (f"holds the cannot-linked point {labels.first[inside[0]]}" if inside.size else
                  "is one it is kept out of" if barred else "has no room")
        reasons.append(f"cluster {q} {reason}")
    raise InfeasibleError(f"no cluster is left for {what}: {', '.join(reasons)}; change one of the links, known labels "
                          "or sizes.")


def implied(labels: Constraints, path: Path) -> IntArray | None:
    """Return (N,) component labels, open where free, that B implies once a path is taken; None if none is left.

    A label is implied when all others put a bound out of reach of the free components, or are excluded by cannot-links
    and the room left in the clusters.
    """
    z = np.array(labels.pinned, dtype=np.int64)
    for component, label in path:
        if z[component] not in (-1, label):
            return None
        z[component] = label
    i, j = labels.cannot.T
    while True:
        before = z
        for bound in labels.bounds:
            if not bound.is_in_reach(labels.signs(z)):
                return None
            z = forced(labels, [bound], z)
        sizes, free = pinned_sizes(z, labels.size, labels.clusters), z < 0
        allowed = allowed_clusters(labels, z, labels.at_most)
        torn = ((z[i] == z[j]) & (z[i] >= 0)).any() or (sizes > labels.at_most).any()
        short = np.maximum(labels.at_least - sizes, 0).sum() > labels.size[free].sum()
        for part in labels.parts:
            q = int(np.argmax(part.code))
            inside = float(part.omega[z == q].sum())
            short = short or inside > part.upper or inside + part.omega[free & allowed[:, q]].sum() < part.lower
        if torn or short or not allowed.any(axis=1).all():
            return None
        z = np.where(free & (allowed.sum(axis=1) == 1), allowed.argmax(axis=1), z)
        if np.array_equal(z, before):
            return z


def forced(labels: Constraints, bounds: list[LinearBound], z: IntArray) -> IntArray:
    """Return component labels (N,) with those added that bounds on sums leave no other label."""
    for bound in bounds:
        signs = force_components(bound, labels.signs(z))
        z = np.where(signs == 0, z, (signs + 1) // 2)
    return z
