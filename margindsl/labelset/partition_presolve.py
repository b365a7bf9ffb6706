"""From links, known labels and sizes of k clusters to a label set, or to an explanation why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from margindsl.accuracy import rounding
from margindsl.clock import check
from margindsl.errors import DeclarationError, InfeasibleError
from margindsl.labelset.declaration import read_count, read_known, read_pairs
from margindsl.labelset.links import sign_components
from margindsl.labelset.partition import PartitionSet
from margindsl.labelset.partition_contradiction import refuse_clique, refuse_equal, refuse_labels, refuse_torn
from margindsl.labelset.partition_domain import allowed_clusters, pinned_sizes
from margindsl.labelset.partition_existence import refuse_empty
from margindsl.labelset.partition_links import connected_blocks
from margindsl.typing import BoolArray, FloatArray, IntArray


def presolve_partition(
    n: int,
    clusters: int,
    *,
    must: Any = None,
    cannot: Any = None,
    known: Any = None,
    sizes: Iterable[Any] | None = None,
) -> PartitionSet:
    """Reduce declared label constraints on k clusters to free component clusters.

    {y in {0, ..., k-1}^n : y_i = y_j (must), y_i != y_j (cannot), y_i given (known),
    at_least_q <= |{i : y_i = q}| <= at_most_q (sizes)} becomes y = A z with one cluster z_C per component of
    must-links. Size limits are tightened, and components that known labels, links or sizes force are pinned.

    Parameters
    ----------
    n : int
        Number of points, at least 2.
    clusters : int
        Number of clusters k, at least 2.
    must, cannot : array_like of int, shape (m, 2), optional
        Pairs of points in one cluster, and in different clusters.
    known : (array_like of int, array_like), optional
        Indices and clusters, 0, ..., k-1, of known labels.
    sizes : sequence of (at_least, at_most), optional
        Pairs of array_like, shape (k,), limits on the numbers of points of the clusters; all of them hold.

    Returns
    -------
    PartitionSet
        Never empty.

    Raises
    ------
    DeclarationError
        When an argument is malformed; the message names the entry and its position.
    ContradictionError
        When links and known labels contradict one another by a path, or more than k components are mutually
        cannot-linked; its ``cycle`` holds the edges that prove it.
    InfeasibleError
        When no labelling satisfies sizes, links and known labels together.
    SolverError
        When deciding that needs an integer programme that exceeds its time limit.

    Examples
    --------
    >>> labels = presolve_partition(5, 3, must=[(0, 3)], cannot=[(1, 3)], known=([4], [2]))
    >>> labels.component, labels.pinned, labels.cannot
    (array([0, 1, 2, 0, 3]), array([-1, -1, -1,  2]), array([[0, 1]]))
    """
    n = read_count(n)
    k = read_clusters(clusters)
    must, cannot = read_pairs(must, n, "must-link"), read_pairs(cannot, n, "cannot-link")
    index, value = read_known_clusters(known, n, k)
    at_least, at_most = read_sizes(sizes, n, k)
    component = _components(n, must)
    refuse_torn(must, cannot, component)
    refuse_labels(index, value, must, component)
    refuse_equal(index, value, must, cannot, component)
    if k == 2:
        sign_components(n, must, cannot)
    size = np.bincount(component)
    pinned = np.full(len(size), -1, dtype=np.intp)
    pinned[component[index]] = value
    apart = np.unique(np.sort(component[cannot], axis=1), axis=0).astype(np.intp)
    declared = PartitionSet(n, k, component, size, pinned, apart, at_least, at_most)
    try:
        labels = _settle(declared)
        refuse_empty(labels)
    except InfeasibleError:
        # A clique among the links explains more than what it leads to.
        refuse_clique(cannot, component, k)
        raise
    return labels


def read_clusters(clusters: Any) -> int:
    """Check the number of clusters: an integer of at least two."""
    try:
        return read_count(clusters)
    except DeclarationError:
        raise DeclarationError(
            f"the number of clusters = {clusters!r} was given; expected an integer, at least 2."
        ) from None


def read_known_clusters(known: Any, n: int, clusters: int) -> tuple[IntArray, IntArray]:
    """Check a pair (indices, values) of known labels with values 0, ..., clusters - 1."""
    if known is None:
        return read_known(None, n)
    try:
        raw_index, raw_value = known
        value = np.asarray(raw_value)
    except (TypeError, ValueError):
        raise DeclarationError(
            "known labels were not given as a pair (indices, values); pass two arrays."
        ) from None
    if value.size and value.dtype.kind not in "iuf":
        raise DeclarationError(
            f"known-label values have type {value.dtype}; expected whole numbers from 0 to {clusters - 1}."
        )
    # Values of +1 let the reader of two-cluster labels check indices and shapes.
    index, _ = read_known((raw_index, np.ones(value.shape)), n)
    wrong = np.flatnonzero((value != np.floor(value)) | (value < 0) | (value >= clusters))
    if wrong.size:
        place = int(wrong[0])
        raise DeclarationError(
            f"the known label of point {int(index[place])} at position {place} is {value[place]!s}; expected a "
            f"whole number from 0 to {clusters - 1}."
        )
    return index, value.astype(np.intp)


def read_sizes(sizes: Iterable[Any] | None, n: int, clusters: int) -> tuple[IntArray, IntArray]:
    """Check a sequence of (at_least, at_most) and return their intersection, whole numbers within 0..n."""
    at_least, at_most = np.zeros(clusters, dtype=np.intp), np.full(clusters, n, dtype=np.intp)
    for position, entry in enumerate(() if sizes is None else sizes):
        low, high = _read_size(entry, clusters, position)
        # Whole numbers within the limits, which may be fractions of n off by rounding.
        at_least = np.maximum(at_least, np.ceil(_lowered(np.clip(low, 0, n + 1))).astype(np.intp))
        at_most = np.minimum(at_most, np.floor(-_lowered(-np.clip(high, -1, n))).astype(np.intp))
    return at_least, at_most


def _lowered(limits: FloatArray) -> FloatArray:
    """Return limits less what rounding may have added to them, so that 0.1 * 30 asks for three points."""
    return np.asarray(limits - rounding(np.abs(limits), 1))


def _read_size(entry: Any, clusters: int, position: int) -> tuple[Any, Any]:
    try:
        raw_low, raw_high = entry
        limits = np.asarray(raw_low, dtype=float), np.asarray(raw_high, dtype=float)
    except (TypeError, ValueError):
        raise DeclarationError(
            f"sizes {position} were not given as (at_least, at_most) with two vectors of numbers; pass such a pair."
        ) from None
    for name, limit in zip(("at_least", "at_most"), limits):
        if limit.shape != (clusters,):
            raise DeclarationError(
                f"{name} of sizes {position} has shape {limit.shape}; expected ({clusters},), one limit per cluster."
            )
        if np.isnan(limit).any():
            q = int(np.flatnonzero(np.isnan(limit))[0])
            raise DeclarationError(f"{name} of sizes {position} is nan for cluster {q}; expected numbers.")
    return limits


def _components(n: int, must: IntArray) -> IntArray:
    block = connected_blocks(n, must) if len(must) else np.arange(n)
    _, first, member = np.unique(block, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[member]


def _settle(labels: PartitionSet) -> PartitionSet:
    """Tighten size limits and pin forced components until nothing moves."""
    at_least, at_most = _tighten_sizes(labels)
    pinned, linked = labels.pinned.copy(), _adjacency(labels)
    while True:
        check()
        allowed = allowed_clusters(pinned, labels.cannot, labels.size, at_most)
        _refuse_homeless(labels, pinned, allowed, at_most)
        before = pinned.copy()
        pinned[(pinned < 0) & (allowed.sum(axis=1) == 1)] = -2
        forced = np.flatnonzero(pinned == -2)
        pinned[forced] = np.argmax(allowed[forced], axis=1)
        _spread(labels, allowed, pinned, linked)
        _force_sizes(labels, allowed, pinned, at_least)
        if np.array_equal(before, pinned):
            break
    at_least = np.maximum(at_least, pinned_sizes(pinned, labels.size, labels.clusters))
    return replace(labels, pinned=pinned, at_least=at_least, at_most=at_most)


def _tighten_sizes(labels: PartitionSet) -> tuple[IntArray, IntArray]:
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


def _adjacency(labels: PartitionSet) -> csr_array:
    i, j = labels.cannot.T
    ends = np.concatenate([i, j]), np.concatenate([j, i])
    return coo_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(labels.count, labels.count)).tocsr()


def _spread(labels: PartitionSet, allowed: BoolArray, pinned: IntArray, linked: csr_array) -> None:
    """Forbid the neighbours of pinned components their cluster and pin those with one cluster left, in place."""
    queue = np.flatnonzero((pinned >= 0) & (np.diff(linked.indptr) > 0)).tolist()
    while queue:
        check()
        here = queue.pop()
        q = pinned[here]
        for there in linked.indices[linked.indptr[here] : linked.indptr[here + 1]].tolist():
            if pinned[there] == q:
                raise InfeasibleError(
                    f"points {labels.first[here]} and {labels.first[there]} are parted by cannot-links, but known "
                    f"labels, links and sizes force both into cluster {q}; change one of the labels, links or sizes."
                )
            if pinned[there] < 0 and allowed[there, q]:
                allowed[there, q] = False
                left = np.flatnonzero(allowed[there])
                if len(left) == 1:
                    pinned[there] = left[0]
                    queue.append(there)


def _force_sizes(labels: PartitionSet, allowed: BoolArray, pinned: IntArray, at_least: IntArray) -> None:
    """Pin components without which a cluster cannot reach its lower limit, in place."""
    fixed = np.flatnonzero(pinned >= 0)
    possible = allowed.copy()
    possible[fixed] = False
    possible[fixed, pinned[fixed]] = True
    reach = labels.size @ possible
    short = np.flatnonzero(reach < at_least)
    if short.size:
        q = int(short[0])
        raise InfeasibleError(
            f"cluster {q} must hold at least {at_least[q]} points, but known labels and links let only {reach[q]} join "
            "it; lower the limit, or remove known labels or links."
        )
    needed = (pinned < 0)[:, None] & possible & (reach - labels.size[:, None] < at_least)
    twice = np.flatnonzero(needed.sum(axis=1) > 1)
    if twice.size:
        one, other = np.flatnonzero(needed[twice[0]])[:2]
        raise InfeasibleError(
            f"clusters {one} and {other} both need the points linked with point {labels.first[twice[0]]} to reach "
            "their lower limits; lower one of the limits, or remove known labels or links."
        )
    forced = np.flatnonzero(needed.any(axis=1))
    pinned[forced] = np.argmax(needed[forced], axis=1)


def _refuse_homeless(labels: PartitionSet, pinned: IntArray, allowed: BoolArray, at_most: IntArray) -> None:
    """Raise when pinned points exceed a limit, or when a component has no cluster left."""
    fixed = pinned_sizes(pinned, labels.size, labels.clusters)
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
    if (many > at_most).all():
        raise InfeasibleError(
            f"{what} fit into no cluster: none may hold more than {at_most.max()}; raise the limits or remove "
            "must-links."
        )
    reasons = ", ".join(f"cluster {q} {_reason(labels, pinned, c, q)}" for q in range(labels.clusters))
    raise InfeasibleError(
        f"no cluster is left for {what}: {reasons}; change one of the links, known labels or sizes."
    )


def _reason(labels: PartitionSet, pinned: IntArray, component: int, cluster: int) -> str:
    ends = labels.cannot[(labels.cannot == component).any(axis=1)]
    others = ends[ends != component]
    inside = others[pinned[others] == cluster]
    return f"holds the cannot-linked point {labels.first[inside[0]]}" if inside.size else "has no room"
