"""Components of linked points: labels y = A z of one value a component."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.labelset.names import Names
from margindsl.labelset.violation import link_sentence
from margindsl.typing import ArrayLike, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Components:
    """Hold which points move together: label y_i is z, the label of component_i, or k − 1 − z where sign_i is −1.

    Parameters
    ----------
    n : int
        Number of points.
    names : Names
        How labels are written.
    component : ndarray of int, shape (n,)
        Component of each point, numbered by first point.
    sign : ndarray of int, shape (n,)
        −1 where a point has the other one of two labels, +1 for the component's first point (in `merged` sets, the code
        of the known label for points of the pinned component), and everywhere of more labels.
    size : ndarray of int, shape (N,)
        Number of points of each component.
    """

    n: int
    names: Names
    component: IntArray
    sign: IntArray
    size: IntArray

    @property
    def clusters(self) -> int:
        """Return the number of clusters k."""
        return self.names.clusters

    @property
    def count(self) -> int:
        """Return the number of components N."""
        return len(self.size)

    @cached_property
    def first(self) -> IntArray:
        """Return the first point of each component, shape (N,)."""
        points = np.empty(self.count, dtype=np.intp)
        points[self.component[::-1]] = np.arange(self.n)[::-1]
        return points

    def expand(self, z: ArrayLike) -> IntArray:
        """Return the labels y = A z of component values z, shape (n,)."""
        return self.at_points(self._values(z, self.count, "component values z", "component"))

    def at_points(self, z: IntArray) -> IntArray:
        """Return the labels (..., n) of component labels (..., N), open where they are."""
        return self.turned(z[..., self.component], self.sign)

    def turned(self, labels: IntArray, sign: IntArray) -> IntArray:
        """Return the other one of two labels where signs are negative."""
        turned = sign < 0
        return np.where(turned & (labels >= 0), self.clusters - 1 - labels, labels) if turned.any() else labels

    def signs(self, z: IntArray) -> IntArray:
        """Return the codes −1 and +1 of component labels (..., N) of two clusters, 0 where open."""
        return np.where(z < 0, 0, 2 * z - 1)

    def contract(self, y: ArrayLike) -> IntArray:
        """Return the component values z with y = A z, shape (N,)."""
        labels = self._values(y, self.n, "labels y", "point")
        z = self.turned(labels[self.first], self.sign[self.first])
        wrong = np.flatnonzero(self.at_points(z) != labels)
        if wrong.size:
            raise DeclarationError(
                f"{link_sentence(self, labels, int(wrong[0]))}; only labellings that satisfy the links "
                "have component values.")
        return z

    def by_components(self, costs: FloatArray) -> FloatArray:
        """Return the costs (N, k) of components by their values, of points by their labels (n, k)."""
        if self.count == self.n:
            return costs
        turned = np.where(self.sign[:, None] < 0, costs[:, ::-1], costs)
        return np.stack([np.bincount(self.component, column, self.count) for column in turned.T], axis=1)

    def moved(self, y: ArrayLike, components: IntArray | int, clusters: IntArray | int) -> IntArray:
        """Return y with some components, or one, moved to other clusters."""
        z = np.array(self.contract(y))
        z[components] = clusters
        return self.at_points(z)

    def _gain(self, gain: ArrayLike, length: int, what: str) -> FloatArray:
        table, shape = np.asarray(gain), (length, self.clusters)
        if table.shape != shape:
            raise DeclarationError(f"gain has shape {table.shape}; expected {shape}, an entry per {what} and a column "
                                   "per cluster.")
        if table.dtype.kind not in "iuf":
            raise DeclarationError(f"gain has type {table.dtype}; expected numbers.")
        table = table.astype(float)
        if not np.isfinite(table).all():
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(table))[0])
            where = "".join(f" in cluster {q}" for q in place[1:])
            raise DeclarationError(f"gain is {table[place]} at {what} {place[0]}{where}; expected finite numbers.")
        return table

    def _values(self, given: ArrayLike, length: int, name: str, what: str) -> IntArray:
        vector = np.asarray(given)
        if vector.shape != (length,):
            raise DeclarationError(f"{name} have shape {vector.shape}; expected ({length},), one per {what}.")
        if vector.dtype.kind not in "iuf":
            raise DeclarationError(f"{name} have type {vector.dtype}; expected numbers.")
        wrong = np.flatnonzero(~np.isin(vector, np.arange(self.clusters)))
        if wrong.size:
            place = int(wrong[0])
            raise DeclarationError(
                f"{name} hold {vector[place]} at {what} {place}; expected a whole number from 0 to "
                f"{self.clusters - 1}.")
        return vector.astype(np.intp)


__all__ = ["Components"]
