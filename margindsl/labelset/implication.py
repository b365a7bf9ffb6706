"""What a label set implies once some components are decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from margindsl.labelset.bound import LinearBound, force_components
from margindsl.labelset.domain import allowed_clusters, pinned_sizes
from margindsl.typing import IntArray

if TYPE_CHECKING:
    from margindsl.labelset.labelset import LabelSet

Path: TypeAlias = tuple[tuple[int, int], ...]  # (component, its value), in the order of the decisions


def implied(labels: LabelSet, path: Path) -> IntArray | None:
    """Return (N,) component labels, open where free, that B implies once a path is taken; None if none is left.

    A label is implied when all others put a bound out of reach of the free components, or are excluded by cannot-links
    and the room left in the clusters.
    """
    z = np.array(labels.pinned, dtype=np.int64)
    for component, label in path:
        if z[component] not in (-1, label):
            return None
        z[component] = label
    while (left := _implied_once(labels, z)) is not None and not np.array_equal(left, z):
        z = left
    return left


def _implied_once(labels: LabelSet, z: IntArray) -> IntArray | None:
    for bound in labels.bounds:
        if not bound.is_in_reach(labels.signs(z)):
            return None
        z = forced(labels, [bound], z)
    sizes, free = pinned_sizes(z, labels.size, labels.clusters), z < 0
    allowed = allowed_clusters(z, labels.cannot, labels.size, labels.at_most)
    i, j = labels.cannot.T
    torn = ((z[i] == z[j]) & (z[i] >= 0)).any() or (sizes > labels.at_most).any()
    short = np.maximum(labels.at_least - sizes, 0).sum() > labels.size[free].sum()
    if torn or short or not allowed.any(axis=1).all():
        return None
    return np.where(free & (allowed.sum(axis=1) == 1), allowed.argmax(axis=1), z)


def forced(labels: LabelSet, bounds: list[LinearBound], z: IntArray) -> IntArray:
    """Return component labels (N,) with those added that bounds on sums leave no other label."""
    for bound in bounds:
        signs = force_components(bound, labels.signs(z))
        z = np.where(signs == 0, z, (signs + 1) // 2)
    return z


__all__ = ["Path", "forced", "implied"]
