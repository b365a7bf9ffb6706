"""Names that mean nothing, chosen the same way everywhere: signs from the first point, clusters in order of it.

The rule reads labels alone. One that reads decision values, as the sign of the largest, turns over with the last digit
wherever two points tie, and ties are what symmetric data have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True)
class GlobalSign:
    """Represent y -> sign y, with which f, w and the bias turn."""

    sign: int = 1

    def rename(self, labels: IntArray) -> IntArray:
        """Return labels under the new sign."""
        return np.asarray(self.sign * labels)

    def reorder(self, outputs: FloatArray | float) -> FloatArray:
        """Return decision values, weights or a bias under the new sign."""
        return np.asarray(self.sign * np.asarray(outputs) + 0.0)  # no negative zeros


@dataclass(frozen=True, eq=False)
class ClusterNames:
    """Represent a permutation of clusters: cluster q is called `new[q]`, of shape (k,)."""

    new: IntArray

    def rename(self, labels: IntArray) -> IntArray:
        """Return labels under the new names."""
        return np.asarray(self.new[labels])

    def reorder(self, outputs: FloatArray | float) -> FloatArray:
        """Return decision values (n, k), weights (r, k) or a bias (k,) in the new order, a number as it is."""
        values = np.asarray(outputs)
        return values if values.ndim == 0 else values[..., np.argsort(self.new)]


def by_first_point(labels: IntArray, groups: IntArray) -> ClusterNames:
    """Return the names under which the clusters of each group are numbered by their first point, empty ones last.

    Shapes: `labels` (n,).

    Parameters
    ----------
    groups : (k,) int array
        Clusters of equal group may exchange names.
    """
    clusters = len(groups)
    first = np.full(clusters, len(labels))
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    new = np.empty(clusters, dtype=np.intp)
    new[np.lexsort((first, groups))] = np.argsort(groups, kind="stable")
    return ClusterNames(new)


__all__ = ["ClusterNames", "GlobalSign", "by_first_point"]
