"""What pins, links and size limits leave open: sizes of pinned clusters, allowed clusters, extreme sizes."""

from __future__ import annotations

import numpy as np

from margindsl.typing import BoolArray, IntArray


def pinned_sizes(pinned: IntArray, size: IntArray, clusters: int) -> IntArray:
    """Return the number of points pinned to each cluster, shape (k,)."""
    fixed = pinned >= 0
    return np.bincount(pinned[fixed], weights=size[fixed], minlength=clusters).astype(np.intp)


def allowed_clusters(pinned: IntArray, cannot: IntArray, size: IntArray, at_most: IntArray) -> BoolArray:
    """Return which clusters each component may join given the pinned ones, shape (N, k)."""
    clusters = len(at_most)
    allowed = size[:, None] <= at_most - pinned_sizes(pinned, size, clusters)
    for here, there in (cannot.T, cannot.T[::-1]):
        known = pinned[here] >= 0
        allowed[there[known], pinned[here][known]] = False
    fixed = np.flatnonzero(pinned >= 0)
    allowed[fixed] = False
    allowed[fixed, pinned[fixed]] = True
    return np.asarray(allowed)


def greatest_squares(n: int, lower: IntArray, upper: IntArray, odd: int) -> float:
    """Return the greatest sum of squares of sizes with sum n, all but that of cluster odd at a limit."""
    others = np.delete(np.arange(len(lower)), odd)
    base = int(lower[others].sum())
    spare = n - int(lower[odd]) - base
    # best[s]: greatest sum of squares of the others when s points are above their lower limits.
    best = np.full(max(spare, 0) + 1, -np.inf)
    best[0] = float((lower[others].astype(float) ** 2).sum())
    for low, high in zip(lower[others].tolist(), upper[others].tolist()):
        width = high - low
        if 0 < width <= spare:
            best[width:] = np.maximum(best[width:], best[:-width] + (float(high) ** 2 - float(low) ** 2))
    rest = n - base - np.arange(len(best), dtype=float)
    return float(np.where((rest >= lower[odd]) & (rest <= upper[odd]), best + rest**2, -np.inf).max())
