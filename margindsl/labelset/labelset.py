"""The label set B of two or more clusters: components of the links, what is forced, and an exact linear oracle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from margindsl.clock import check
from margindsl.errors import DeclarationError
from margindsl.labelset.implication import Path
from margindsl.typing import ArrayLike, BoolArray, FloatArray, IntArray


class LabelSet(ABC):
    """Hold a presolved label set: labels y = A z of component values z, some of them forced, under side conditions.

    The value of a component is a sign of two clusters (`SignSet`), or one of k clusters (`PartitionSet`). Gains have an
    entry a point or component, of clusters a column each. Where names of clusters mean nothing, `oriented`, `aligned`,
    `orientation` and `branches` keep one of those that differ in names only.

    Parameters
    ----------
    n : int
        Number of points.
    clusters : int
        Number of clusters k.
    component : ndarray of int, shape (n,)
        Component of each point, numbered by first point.
    sign : ndarray of int, shape (n,)
        Sign of each point in its component; ones of clusters.
    size : ndarray of int, shape (N,)
        Number of points of each component.
    pinned : ndarray of int, shape (N,)
        Forced value of each component, `open` where free.
    """

    codings: ClassVar[tuple[str, ...]]  # of margins that its labels have
    open: ClassVar[int]  # the value of a component that is not decided
    words: ClassVar[tuple[str, str]]  # which links make components, and what their values are called
    telling: ClassVar[ModuleType]  # sentences about labellings outside
    unbalanced: ClassVar[str]  # what is said where all points may lie in one cluster

    n: int
    clusters: int
    component: IntArray
    sign: IntArray
    size: IntArray
    pinned: IntArray

    # -- components ---------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Return the number of components N."""
        return len(self.size)

    @property
    def free(self) -> BoolArray:
        """Return which components have no forced value, shape (N,)."""
        return self.pinned == self.open

    @property
    def is_single(self) -> bool:
        """Return whether every component has a forced value, so that B holds exactly one labelling."""
        return not self.free.any()

    @property
    @abstractmethod
    def has_links(self) -> bool:
        """Return whether some component holds several points, or links hold between components."""

    @property
    @abstractmethod
    def is_symmetric(self) -> bool:
        """Return whether clusters may exchange names without leaving B."""

    @property
    @abstractmethod
    def is_unconstrained(self) -> bool:
        """Return whether every labelling is in B."""

    @property
    @abstractmethod
    def values(self) -> IntArray:
        """Return the k values a component can have."""

    @abstractmethod
    def lines(self, coding: str) -> list[str]:
        """Return what the label set is, as lines of text."""

    @property
    @abstractmethod
    def admits_one(self) -> bool:
        """Return whether nothing keeps all points from one cluster."""

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
        return self.at_points(self._values(z, self.count, f"component {self.words[1]} z", "component"))

    def at_points(self, z: IntArray) -> IntArray:
        """Return the labels (n,) of component values, `open` where they are."""
        return np.asarray(self.sign * z[self.component])

    def contract(self, y: ArrayLike) -> IntArray:
        """Return the component values z with y = A z, shape (N,).

        Raises
        ------
        DeclarationError
            When y is not a labelling or breaks a link within a component.
        """
        labels = self._values(y, self.n, "labels y", "point")
        z = np.asarray(labels[self.first] * self.sign[self.first])
        wrong = np.flatnonzero(self.at_points(z) != labels)
        if wrong.size:
            raise DeclarationError(
                f"{self.telling.link_sentence(self, labels, int(wrong[0]))}; only labellings that satisfy the "
                f"{self.words[0]} have component {self.words[1]}.")
        return z

    def contract_rows(self, rows: Any) -> FloatArray:
        """Return A^T U for U of shape (n,) or (n, p): signed sums over components, shape (N,) or (N, p)."""
        if not hasattr(rows, "toarray"):
            rows = np.asarray(rows, dtype=float)
        if rows.ndim not in (1, 2) or rows.shape[0] != self.n:
            raise DeclarationError(f"rows have shape {rows.shape}; expected ({self.n},) or ({self.n}, p).")
        if rows.ndim == 1 and isinstance(rows, np.ndarray):
            return np.bincount(self.component, weights=self.sign * rows, minlength=self.count)
        answer: FloatArray = self.indicator.T @ rows
        return answer

    @abstractmethod
    def by_components(self, costs: FloatArray) -> FloatArray:
        """Return the costs (N, k) of components by their values, of points by their clusters (n, k)."""

    def is_decided(self, z: IntArray) -> BoolArray:
        """Return which of the component values (N,) are not `open`."""
        return np.asarray(z != self.open)

    def places(self, y: ArrayLike) -> IntArray:
        """Return the place 0, ..., k-1 of each component's value among `values`, shape (N,)."""
        return np.searchsorted(self.values, self.contract(y))

    def moved(self, y: ArrayLike, component: int, place: int) -> IntArray:
        """Return y with one component moved to another of the `values`."""
        z = np.array(self.contract(y))
        z[component] = self.values[place]
        return self.at_points(z)

    # -- members ------------------------------------------------------------------------------------

    def maximise(self, gain: ArrayLike) -> IntArray:
        """Return an exact maximiser over B of gain.y, of clusters of sum_i gain[i, y_i], ties broken the same way.

        Parameters
        ----------
        gain : array_like, shape (n,), or (n, k) of clusters
            Finite gains of each point.

        Returns
        -------
        ndarray of int, shape (n,)

        Raises
        ------
        SolverError
            When several side conditions need an integer programme that exceeds its time limit.

        Examples
        --------
        >>> from margindsl.labelset import presolve, presolve_partition
        >>> presolve(4, cannot=[(0, 1)], bounds=[(None, 0, 0)]).maximise([3.0, 1.0, 2.0, 1.0])
        array([ 1, -1,  1, -1])
        >>> labels = presolve_partition(4, 3, cannot=[(0, 1)], sizes=[([1, 1, 1], [2, 2, 2])])
        >>> labels.maximise([[5, 0, 0], [4, 1, 0], [3, 0, 0], [1, 0, 0.5]])
        array([0, 1, 0, 2])
        """
        return self.expand(self.maximise_components(self.contract_rows(self._gain(gain, self.n, "point"))))

    def maximise_components(self, gain: ArrayLike) -> IntArray:
        """Return an exact maximiser z over the component values of B, of gains (N,), of clusters (N, k)."""
        check()
        return self._best(self._gain(gain, self.count, "component"))

    @abstractmethod
    def nearest(self, candidate: ArrayLike) -> IntArray:
        """Return the member of B that agrees best with labels (n,), or is best for gains."""

    @abstractmethod
    def _best(self, gain: FloatArray) -> IntArray:
        """Return the best component values by the strategy for what binds."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """Return what labels are, for messages."""

    @abstractmethod
    def is_label(self, values: Any) -> BoolArray:
        """Return which numbers are labels, elementwise."""

    def contains(self, y: ArrayLike) -> bool:
        """Return whether y is in B: n labels that satisfy links, what is forced, and the side conditions."""
        given = np.asarray(y)
        if given.shape != (self.n,) or given.dtype.kind not in "iuf" or not self.is_label(given).all():
            return False
        labels = given.astype(np.intp)
        z = labels[self.first] * self.sign[self.first]
        met = (self.at_points(z) == labels).all() and (self.free | (self.pinned == z)).all()
        return bool(met) and self.holds(z)

    @abstractmethod
    def holds(self, z: IntArray) -> bool:
        """Return whether component values meet the side conditions."""

    def violations(self, y: ArrayLike) -> list[str]:
        """Return one sentence for each thing that keeps y out of B; empty iff ``contains(y)``."""
        told: list[str] = self.telling.sentences(self, np.asarray(y))
        return told

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """Draw members of B, shape (size, n): each with positive probability, but not equally likely."""

    @abstractmethod
    def enumerate(self) -> Iterator[IntArray]:
        """Yield every member of B, in lexicographic order of the component values.

        Raises
        ------
        SizeError
            When there are too many.
        """

    @abstractmethod
    def feasible_moves(self, y: ArrayLike) -> BoolArray:
        """Return which components can move alone to which other place and leave y in B, shape (N, k)."""

    @abstractmethod
    def feasible_swaps(self, y: ArrayLike, first: int, candidates: ArrayLike) -> BoolArray:
        """Return for which candidate components a move together with ``first`` leaves y in B."""

    # -- names and cases ----------------------------------------------------------------------------

    @abstractmethod
    def orientation(self, y: IntArray) -> Any:
        """Return the names under which y is given: one choice of those that B does not tell apart."""

    @abstractmethod
    def oriented(self, members: IntArray) -> BoolArray:
        """Return which members (M, n) bear the names of their `orientation`."""

    @abstractmethod
    def aligned(self, y: IntArray, other: IntArray) -> IntArray:
        """Return y under the names in which it agrees best with another labelling, of those B does not tell apart."""

    @abstractmethod
    def implied(self, path: Path) -> IntArray | None:
        """Return component values (N,) that B implies once a path is taken, `open` where free; None if none is left."""

    @abstractmethod
    def branches(self, path: Path) -> list[int]:
        """Return the values that the next component on a path can take, of exchangeable ones not taken yet one."""

    @abstractmethod
    def steps(self, path: Path) -> list[int]:
        """Return a path by points, as a proof holds it."""

    # -- what is given ------------------------------------------------------------------------------

    @property
    def _columns(self) -> tuple[int, ...]:
        """Return the shape of a point's gains."""
        return ()

    def _gain(self, gain: ArrayLike, length: int, what: str) -> FloatArray:
        table, shape = np.asarray(gain), (length, *self._columns)
        if table.shape != shape:
            columns = " and a column per cluster" if self._columns else ""
            raise DeclarationError(f"gain has shape {table.shape}; expected {shape}, an entry per {what}{columns}.")
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
        wrong = np.flatnonzero(~self.is_label(vector))
        if wrong.size:
            place = int(wrong[0])
            raise DeclarationError(
                f"{name} hold {vector[place]} at {what} {place}; expected {self.expected}.")
        return vector.astype(np.intp)


__all__ = ["LabelSet"]
