"""What a label set implies once some components are decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from margindsl.labelset.bound import force_components
from margindsl.labelset.domain import allowed_clusters, pinned_sizes
from margindsl.typing import IntArray

if TYPE_CHECKING:
    from margindsl.labelset.labelset import LabelSet

Path: TypeAlias = tuple[tuple[int, int], ...]  # (component, its value), in the order of the decisions


def implied(labels: LabelSet, path: Path) -> IntArray | None:
    """Return (N,) component values, open where free, that B implies once a path is taken; None if none is left.

    A value is implied when all others put a bound out of reach of the free components, or are excluded by cannot-links
    and the room left in the clusters.
    """
    z = np.array(labels.pinned, dtype=np.int64)
    for component, value in path:
        if z[component] not in (labels.names.open, value):
            return None
        z[component] = value
    while (left := _implied_once(labels, z)) is not None and not np.array_equal(left, z):
        z = left
    return left


def _implied_once(labels: LabelSet, z: IntArray) -> IntArray | None:
    for bound in labels.bounds:
        if not bound.is_in_reach(z):
            return None
        z = force_components(bound, z)
    held = np.where(labels.is_decided(z), np.searchsorted(labels.values, z), -1)
    sizes, free = pinned_sizes(held, labels.size, labels.clusters), held < 0
    allowed = allowed_clusters(held, labels.cannot, labels.size, labels.at_most)
    i, j = labels.cannot.T
    torn = ((held[i] == held[j]) & (held[i] >= 0)).any() or (sizes > labels.at_most).any()
    short = np.maximum(labels.at_least - sizes, 0).sum() > labels.size[free].sum()
    if torn or short or not allowed.any(axis=1).all():
        return None
    return np.where(free & (allowed.sum(axis=1) == 1), labels.values[allowed.argmax(axis=1)], z)


__all__ = ["Path", "implied"]
