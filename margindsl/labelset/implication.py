"""What a label set implies once some components are decided, and into which cases it is split at one more."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from margindsl.typing import IntArray

if TYPE_CHECKING:
    from margindsl.labelset.partition import PartitionSet
    from margindsl.labelset.signs import SignSet

Path: TypeAlias = tuple[tuple[int, int], ...]  # (component, its sign or cluster), in the order of the decisions


def decided(pinned: IntArray, path: Path, undecided: int) -> IntArray | None:
    """Return pinned signs or clusters (N,) with the decisions of a path, None where they differ."""
    z = np.array(pinned, dtype=np.int64)
    for component, value in path:
        if z[component] not in (undecided, value):
            return None
        z[component] = value
    return z


def implied_signs(labels: SignSet, path: Path) -> IntArray | None:
    """Return (N,) component signs, 0 where free, that B implies once a path is taken; None if none is left.

    A sign is implied when its opposite puts a bound lower ≤ ω·z ≤ upper out of reach of the free components.
    """
    z = decided(labels.pinned, path, 0)
    before = None
    while z is not None and not (before is not None and np.array_equal(z, before)):
        before = z
        for bound in labels.bounds:
            size, slack, free = np.abs(bound.omega), bound.tolerance, z == 0
            fixed, reach = float(bound.omega @ z), float(size[free].sum())
            if fixed + reach < bound.lower - slack or fixed - reach > bound.upper + slack:
                return None
            toward = np.sign(bound.omega).astype(np.int64)
            up = free & (fixed + reach - 2 * size < bound.lower - slack)
            down = free & (fixed - reach + 2 * size > bound.upper + slack)
            if np.any(up & down):
                return None
            z = np.where(up, toward, np.where(down, -toward, z))
    return z


def implied_clusters(labels: PartitionSet, path: Path) -> IntArray | None:
    """Return (N,) component clusters, -1 where free, that the set implies once a path is taken; None if none is left.

    A cluster is implied when cannot-links and the room left in the clusters exclude all others.
    """
    z, names = decided(labels.pinned, path, -1), np.arange(labels.clusters)
    before = None
    while z is not None and not (before is not None and np.array_equal(z, before)):
        before, free = z, z < 0
        sizes = np.array([labels.size[z == q].sum() for q in names])
        allowed = np.where(free[:, None], sizes + labels.size[:, None] <= labels.at_most, z[:, None] == names)
        for here, there in (labels.cannot.T, labels.cannot.T[::-1]):
            known = z[there] >= 0
            allowed[here[known], z[there[known]]] = False
        short = np.maximum(labels.at_least - sizes, 0).sum() > labels.size[free].sum()
        if short or np.any(sizes > labels.at_most) or not allowed.any(axis=1).all():
            return None
        z = np.where(free & (allowed.sum(axis=1) == 1), allowed.argmax(axis=1), z)
    return z


__all__ = ["Path", "implied_clusters", "implied_signs"]
