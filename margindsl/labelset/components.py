"""Components of linked points: labels y = A z of one value a component."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from margindsl.errors import DeclarationError
from margindsl.labelset.names import Names
from margindsl.labelset.violation import link_sentence
from margindsl.typing import ArrayLike, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Components:
    """Hold which points move together: y_i = sign_i z_{component_i}, where z_C is one of the k values of `names`.

    Parameters
    ----------
    n : int
        Number of points.
    names : Names
        How labels are written.
    component : ndarray of int, shape (n,)
        Component of each point, numbered by first point.
    sign : ndarray of int, shape (n,)
        Sign of each point in its component; +1 for the component's first point (in `merged` sets, the known label for
        points of the pinned component), and everywhere where labels are no signs.
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
    def values(self) -> IntArray:
        """Return the k values a component can have, ascending; a value's place is its index here."""
        return self.names.values

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

    @cached_property
    def indicator(self) -> csr_array:
        """Return the signed indicator A of components, shape (n, N), with y = A z."""
        return csr_array((self.sign.astype(float), self.component, np.arange(self.n + 1)), shape=(self.n, self.count))

    def expand(self, z: ArrayLike) -> IntArray:
        """Return the labels y = A z of component values z, shape (n,)."""
        return self.at_points(self._values(z, self.count, "component values z", "component"))

    def at_points(self, z: IntArray) -> IntArray:
        """Return the labels (..., n) of component values (..., N), open where they are."""
        return np.asarray(self.sign * z[..., self.component])

    def contract(self, y: ArrayLike) -> IntArray:
        """Return the component values z with y = A z, shape (N,)."""
        labels = self._values(y, self.n, "labels y", "point")
        z = np.asarray(labels[self.first] * self.sign[self.first])
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

    def is_decided(self, z: IntArray) -> BoolArray:
        """Return which of the component values (N,) are not open."""
        return np.asarray(z != self.names.open)

    def places(self, y: ArrayLike) -> IntArray:
        """Return the place 0, ..., k-1 of each component's value among `values`, shape (N,)."""
        return np.searchsorted(self.values, self.contract(y))

    def moved(self, y: ArrayLike, components: IntArray | int, places: IntArray | int) -> IntArray:
        """Return y with some components, or one, moved to other of the `values`."""
        z = np.array(self.contract(y))
        z[components] = self.values[places]
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
        wrong = np.flatnonzero(~self.names.is_label(vector))
        if wrong.size:
            place = int(wrong[0])
            raise DeclarationError(
                f"{name} hold {vector[place]} at {what} {place}; expected {self.names.expected}.")
        return vector.astype(np.intp)


__all__ = ["Components"]
