"""Names of clusters that mean nothing, chosen the same way everywhere: in the order of first points.

The rule reads labels alone. One that reads decision values, as the sign of the largest, turns over with the last digit
wherever two points tie, and ties are what symmetric data have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Renaming:
    """Represent a permutation of clusters: cluster q is called `new[q]`, of shape (k,)."""

    new: IntArray

    def rename(self, labels: IntArray) -> IntArray:
        """Return labels under the new names."""
        return np.asarray(self.new[labels])

    def reorder(self, outputs: FloatArray) -> FloatArray:
        """Return decision values (n, k), weights (r, k) or a bias (k,) in the new order."""
        return np.asarray(outputs)[..., np.argsort(self.new)]


def by_first_point(labels: IntArray, groups: IntArray, order: IntArray) -> Renaming:
    """Return the names under which the clusters of each group bear its names by their first points, empty ones last.

    Parameters
    ----------
    labels : (n,) int array
    groups : (k,) int array
        Clusters of equal group may exchange names.
    order : (k,) int array
        The names, those of a group together, in the order of first points.
    """
    first = np.full(len(groups), len(labels))
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    new = np.empty(len(groups), dtype=np.intp)
    new[np.lexsort((first, groups))] = order
    return Renaming(new)


__all__ = ["Renaming", "by_first_point"]
