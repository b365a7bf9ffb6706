"""The set of admissible k-cluster labellings: links, known labels and sizes, with an exact linear oracle."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

from margindsl.clock import check
from margindsl.errors import DeclarationError, SizeError, SolverError
from margindsl.labelset import partition_violation
from margindsl.labelset.implication import Path, implied_clusters
from margindsl.labelset.orientation import ClusterNames, by_first_point
from margindsl.labelset.partition_domain import allowed_clusters, greatest_squares, pinned_sizes
from margindsl.labelset.partition_existence import draw_linked, greedy_member
from margindsl.labelset.partition_oracle import maximise_clusters
from margindsl.typing import ArrayLike, BoolArray, FloatArray, IntArray

_ENUMERABLE = 1 << 22
_BLOCK = 4096
_DRAWS = 10


@dataclass(frozen=True, eq=False)
class PartitionSet:
    """Hold a presolved set of labellings by k clusters; build it with `presolve_partition`.

    A labelling is y_i = z_{component_i} with z in {0, ..., k-1}^N, z_C = pinned_C where that is not -1,
    z_C != z_D for every row (C, D) of cannot, and at_least_q <= sum {size_C : z_C = q} <= at_most_q.

    Parameters
    ----------
    n : int
        Number of points.
    clusters : int
        Number of clusters k, at least 2.
    component : ndarray of int, shape (n,)
        Component of each point, numbered by first point; must-links are closed transitively.
    size : ndarray of int, shape (N,)
        Number of points of each component.
    pinned : ndarray of int, shape (N,)
        Forced cluster of each component, -1 where free.
    cannot : ndarray of int, shape (m, 2)
        Pairs i < j of components in different clusters, without repeats.
    at_least, at_most : ndarray of int, shape (k,)
        Limits on the numbers of points of the clusters; 0 and n where nothing is asked.
    """

    n: int
    clusters: int
    component: IntArray
    size: IntArray
    pinned: IntArray
    cannot: IntArray
    at_least: IntArray
    at_most: IntArray

    @property
    def count(self) -> int:
        """Return the number of components N."""
        return len(self.size)

    @property
    def free(self) -> BoolArray:
        """Return which components have no forced cluster, shape (N,)."""
        return self.pinned < 0

    @property
    def is_single(self) -> bool:
        """Return whether every component has a forced cluster, so that there is exactly one labelling."""
        return not self.free.any()

    @property
    def has_links(self) -> bool:
        """Return whether some component holds several points or there are cannot-links."""
        return self.count < self.n or len(self.cannot) > 0

    @cached_property
    def member(self) -> IntArray | None:
        """Return clusters (N,) of a member that is found without search, None where none is."""
        return greedy_member(self)

    @cached_property
    def has_sizes(self) -> bool:
        """Return whether size bounds exclude labellings that links and known labels admit."""
        reach = self.size @ self.allowed
        return bool((self.at_least > self.pinned_sizes).any() or (self.at_most < reach).any())

    @property
    def is_unconstrained(self) -> bool:
        """Return whether every labelling is admissible."""
        return not (self.has_links or (self.pinned >= 0).any() or self.has_sizes)

    @property
    def is_symmetric(self) -> bool:
        """Return whether clusters may be renamed: nothing pinned and all clusters have the same size bounds."""
        same = (self.at_least == self.at_least[0]).all() and (self.at_most == self.at_most[0]).all()
        return bool(self.free.all() and same)

    @cached_property
    def groups(self) -> IntArray:
        """Return a number a cluster, equal where the clusters may exchange names without leaving the set, shape (k,).

        A cluster something is pinned to is alone; others go by their size bounds.
        """
        own = np.where(np.isin(np.arange(self.clusters), self.pinned), np.arange(self.clusters), -1)
        rows = np.column_stack([own, self.at_least, self.at_most])
        return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1]).ravel()

    def orientation(self, y: IntArray) -> ClusterNames:
        """Return the names under which clusters that may exchange theirs are numbered by first appearance in y."""
        return by_first_point(np.asarray(y), self.groups)

    def oriented(self, members: IntArray) -> BoolArray:
        """Return which members (M, n) bear the names of their `orientation`: one of all that differ in names only."""
        inside = [members == q for q in range(self.clusters)]
        first = np.stack([np.where(own.any(axis=1), own.argmax(axis=1), self.n) for own in inside], axis=1)
        order = np.argsort(self.groups, kind="stable")
        same = np.diff(self.groups[order]) == 0
        return np.asarray((np.diff(first[:, order], axis=1)[:, same] >= 0).all(axis=1))

    def aligned(self, y: IntArray, other: IntArray) -> IntArray:
        """Return y under the names in which it agrees best with another labelling, of those B does not tell apart."""
        shared = np.zeros((self.clusters, self.clusters))
        np.add.at(shared, (y, other), 1.0)
        same = self.groups[:, None] == self.groups
        return np.asarray(linear_sum_assignment(np.where(same, shared, -1.0 - self.n**2), maximize=True)[1][y])

    def implied(self, path: Path) -> IntArray | None:
        """Return component clusters (N,) that B implies once a path is taken, -1 where free; None if none is left."""
        return implied_clusters(self, path)

    def branches(self, path: Path) -> list[int]:
        """Return the clusters that the next component on a path can take, of exchangeable ones not taken yet one.

        Parameters
        ----------
        path : tuple of (component, cluster)
        """
        z = self.implied(path)
        taken = [] if z is None else np.unique(z[z >= 0]).tolist()
        unused = [q for q in range(self.clusters) if self.is_symmetric and q not in taken]
        return [q for q in range(self.clusters) if q not in unused[1:]]

    def is_decided(self, z: IntArray) -> BoolArray:
        """Return which of the component clusters (N,) are not -1."""
        return np.asarray(z >= 0)

    def steps(self, path: Path) -> list[int]:
        """Return a path by points: the number of a component's first point, from 1, and n times its cluster added."""
        return [int(self.first[c] + 1 + self.n * value) for c, value in path]

    def at_points(self, z: IntArray) -> IntArray:
        """Return the clusters (n,) of component clusters, -1 where free."""
        return np.asarray(z[self.component])

    def by_components(self, costs: FloatArray) -> FloatArray:
        """Return the costs (N, k) of components, of points in clusters (n, k)."""
        return self.contract_rows(costs)

    @property
    def values(self) -> IntArray:
        """Return the clusters 0, ..., k-1."""
        return np.arange(self.clusters)

    @property
    def sign(self) -> IntArray:
        """Return ones (n,): clusters have no relative signs within a component."""
        return np.ones(self.n, dtype=np.intp)

    @cached_property
    def first(self) -> IntArray:
        """Return the first point of each component, shape (N,)."""
        points = np.empty(self.count, dtype=np.intp)
        points[self.component[::-1]] = np.arange(self.n)[::-1]
        return points

    @cached_property
    def indicator(self) -> csr_array:
        """Return the indicator A of components, shape (n, N), with y = A z."""
        return csr_array((np.ones(self.n), self.component, np.arange(self.n + 1)), shape=(self.n, self.count))

    @cached_property
    def pinned_sizes(self) -> IntArray:
        """Return the number of points that are pinned to each cluster, shape (k,)."""
        return pinned_sizes(self.pinned, self.size, self.clusters)

    @property
    def needed_sizes(self) -> IntArray:
        """Return how many points each cluster lacks at least beside its pinned ones, shape (k,)."""
        return np.asarray(self.at_least - self.pinned_sizes)

    @property
    def room(self) -> IntArray:
        """Return how many points each cluster can take beside its pinned ones, shape (k,)."""
        return np.asarray(self.at_most - self.pinned_sizes)

    @cached_property
    def allowed(self) -> BoolArray:
        """Return which clusters each component may join, shape (N, k).

        A free component may not join the cluster of a pinned component it is cannot-linked to, nor one
        whose pinned points leave too little room for it.
        """
        return allowed_clusters(self.pinned, self.cannot, self.size, self.at_most)

    @cached_property
    def apart(self) -> IntArray:
        """Return the rows of cannot that still exclude something: both ends may join one cluster."""
        i, j = self.cannot.T
        return np.asarray(self.cannot[(self.allowed[i] & self.allowed[j]).any(axis=1)])

    @cached_property
    def apart_blocks(self) -> tuple[IntArray, IntArray]:
        """Return the components (m,) that `apart` names and its pairs as positions among them."""
        nodes, flat = np.unique(self.apart, return_inverse=True)
        return nodes, flat.reshape(-1, 2)

    @cached_property
    def _neighbours(self) -> csr_array:
        i, j = self.cannot.T
        ends = np.concatenate([i, j]), np.concatenate([j, i])
        return csr_array((np.ones(2 * len(i), dtype=np.intp), ends), shape=(self.count, self.count))

    def expand(self, z: ArrayLike) -> IntArray:
        """Return the labels y = A z of component clusters z, shape (n,)."""
        clusters = self._whole(z, self.count, "component clusters z", "component")
        return np.asarray(clusters[self.component])

    def contract(self, y: ArrayLike) -> IntArray:
        """Return the component clusters z with y = A z, shape (N,).

        Raises
        ------
        DeclarationError
            When y is not a vector of n clusters 0, ..., k-1 or breaks a must-link.
        """
        labels = self._whole(y, self.n, "labels y", "point")
        z = labels[self.first]
        wrong = np.flatnonzero(z[self.component] != labels)
        if wrong.size:
            raise DeclarationError(
                f"{partition_violation.link_sentence(self, labels, int(wrong[0]))}; only labellings that satisfy the "
                "must-links have component clusters."
            )
        return np.asarray(z)

    def contract_rows(self, rows: Any) -> FloatArray:
        """Return A^T U for U of shape (n,) or (n, p): sums over components, shape (N,) or (N, p)."""
        if not hasattr(rows, "toarray"):
            rows = np.asarray(rows, dtype=float)
        if rows.ndim not in (1, 2) or rows.shape[0] != self.n:
            raise DeclarationError(f"rows have shape {rows.shape}; expected ({self.n},) or ({self.n}, p).")
        if self.count == self.n:
            return rows.copy()
        answer: FloatArray = self.indicator.T @ rows
        return answer

    def maximise(self, gain: ArrayLike) -> IntArray:
        """Return an exact maximiser of sum_i gain[i, y_i], ties broken the same way every time.

        Parameters
        ----------
        gain : array_like, shape (n, k)
            Finite gains of each point in each cluster.

        Returns
        -------
        ndarray of int, shape (n,)

        Raises
        ------
        SolverError
            When links and size bounds need an integer programme that exceeds its time limit.

        Examples
        --------
        >>> from margindsl.labelset import presolve_partition
        >>> labels = presolve_partition(4, 3, cannot=[(0, 1)], sizes=[([1, 1, 1], [2, 2, 2])])
        >>> labels.maximise([[5, 0, 0], [4, 1, 0], [3, 0, 0], [1, 0, 0.5]])
        array([0, 1, 0, 2])
        """
        return self.expand(self.maximise_components(self.contract_rows(self._gain(gain, self.n, "point"))))

    def maximise_components(self, gain: ArrayLike) -> IntArray:
        """Return an exact maximiser z of sum_C gain[C, z_C] over component clusters, gain of shape (N, k)."""
        check()
        return maximise_clusters(self, self._gain(gain, self.count, "component"))

    def contains(self, y: ArrayLike) -> bool:
        """Return whether y is a member: n whole numbers 0, ..., k-1 that satisfy links, pins and sizes."""
        labels = np.asarray(y)
        if labels.shape != (self.n,) or labels.dtype.kind not in "iuf" or self._strange(labels).size:
            return False
        labels = labels.astype(np.intp)
        z = labels[self.first]
        if (z[self.component] != labels).any() or (self.free | (self.pinned == z)).sum() < self.count:
            return False
        i, j = self.cannot.T
        return bool((z[i] != z[j]).all() and self.holds_sizes(np.bincount(labels, minlength=self.clusters)))

    def violations(self, y: ArrayLike) -> list[str]:
        """Return one sentence for each thing that keeps y out of the set; empty iff ``contains(y)``."""
        return partition_violation.sentences(self, np.asarray(y))

    def holds_sizes(self, sizes: FloatArray) -> BoolArray:
        """Return whether cluster sizes (..., k) lie within the bounds, elementwise over the leading axes."""
        return np.asarray(((sizes >= self.at_least) & (sizes <= self.at_most)).all(axis=-1))

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """Draw members, shape (size, n).

        Clusters are uniform when there are neither cannot-links between free components nor size bounds;
        otherwise each draw places the cannot-linked components one after another and maximises standard
        normal gains over what remains open. Every member has positive probability, but members are not
        equally likely.

        Raises
        ------
        SolverError
            When draws fail and links and size bounds need an integer programme that exceeds its time limit.
        """
        if len(self.apart) or self.has_sizes:
            z = np.array([self._draw(rng) for _ in range(size)], dtype=np.intp).reshape(size, self.count)
        else:
            chances = np.where(self.allowed, rng.random((size, self.count, self.clusters)), -1.0)
            z = np.argmax(chances, axis=2)
        return np.asarray(z[:, self.component])

    def _draw(self, rng: np.random.Generator) -> IntArray:
        gain = rng.standard_normal((self.count, self.clusters))
        for _ in range(_DRAWS if len(self.apart) else 0):
            clusters = draw_linked(self, rng)
            if clusters is None:
                continue
            pinned = self.pinned.copy()
            pinned[self.apart_blocks[0]] = clusters
            try:
                return maximise_clusters(replace(self, pinned=pinned), gain)
            except SolverError:
                continue
        return maximise_clusters(self, gain)

    def enumerate(self) -> Iterator[IntArray]:
        """Yield every member, in lexicographic order of the clusters of the components.

        Raises
        ------
        SizeError
            When the clusters that components may join combine in more than 2^22 ways.
        """
        ways = [int(many) for many in self.allowed.sum(axis=1)]
        total = math.prod(ways)
        if total > _ENUMERABLE:
            raise SizeError(
                f"{int(self.free.sum())} free components may join {self.clusters} clusters in about "
                f"{_rounded(total)} ways; enumerate refuses above {_ENUMERABLE}. Use sample, or maximise with a gain."
            )
        return self._members(np.array(ways, dtype=np.intp), total)

    def _members(self, ways: IntArray, total: int) -> Iterator[IntArray]:
        place = np.cumprod(np.append(1, ways[:0:-1]))[::-1]
        choices = np.argsort(~self.allowed, axis=1, kind="stable")
        i, j = self.cannot.T
        rows = np.arange(self.count)
        for start in range(0, total, _BLOCK):
            codes = np.arange(start, min(start + _BLOCK, total))
            z = choices[rows, codes[:, None] // place % ways]
            z = z[(z[:, i] != z[:, j]).all(axis=1)]
            sizes = np.stack([(z == q) @ self.size for q in range(self.clusters)], axis=1)
            for clusters in z[self.holds_sizes(sizes)]:
                yield clusters[self.component]

    def places(self, y: ArrayLike) -> IntArray:
        """Return the cluster of each component, shape (N,)."""
        return self.contract(y)

    def moved(self, y: ArrayLike, component: int, place: int) -> IntArray:
        """Return y with one component in another cluster."""
        z = np.array(self.contract(y))
        z[component] = place
        return self.expand(z)

    def feasible_moves(self, y: ArrayLike) -> BoolArray:
        """Return which components can move alone to which other cluster and leave y in the set, shape (N, k)."""
        z = self.contract(y)
        conflicts, broken = self._conflicts(z)
        rows = np.arange(self.count)
        left = broken - conflicts[rows, z][:, None] + conflicts
        feasible = self._pins_hold(z) & self.free[:, None] & (left == 0)
        feasible[rows, z] = False
        sizes = np.bincount(z, weights=self.size, minlength=self.clusters)
        outside = (sizes < self.at_least) | (sizes > self.at_most)
        after, before = sizes + self.size[:, None], (sizes[z] - self.size)[:, None]
        feasible &= (after >= self.at_least) & (after <= self.at_most)
        feasible &= ((before >= self.at_least[z][:, None]) & (before <= self.at_most[z][:, None]))
        others = outside.sum() - outside[z][:, None] - outside
        return np.asarray(feasible & (others == 0))

    def feasible_swaps(self, y: ArrayLike, first: int, candidates: ArrayLike) -> BoolArray:
        """Return for which candidate components exchanging clusters with ``first`` leaves y in the set.

        Parameters
        ----------
        y : array_like, shape (n,)
            Labelling that satisfies the must-links.
        first : int
            Component that takes part in every case.
        candidates : array_like of int, shape (m,)
            Components to exchange with it; those of its own cluster, as ``first`` itself, are never feasible.

        Returns
        -------
        ndarray of bool, shape (m,)
        """
        z, others = self.contract(y), np.asarray(candidates, dtype=np.intp)
        conflicts, broken = self._conflicts(z)
        mine, theirs = z[first], z[others]
        linked = np.asarray(self._neighbours[[first]].toarray())[0, others]
        left = broken - conflicts[first, mine] - conflicts[others, theirs]
        left = left + conflicts[first, theirs] + conflicts[others, mine] - 2 * linked
        feasible = (theirs != mine) & self.free[others] & bool(self.free[first]) & self._pins_hold(z) & (left == 0)
        sizes = np.bincount(z, weights=self.size, minlength=self.clusters)
        after, shift = np.tile(sizes, (len(others), 1)), self.size[others] - self.size[first]
        after[:, mine] += shift
        after[np.arange(len(others)), theirs] -= shift
        return np.asarray(feasible & self.holds_sizes(after))

    def _conflicts(self, z: IntArray) -> tuple[IntArray, int]:
        """Return (N, k) numbers of cannot-linked components in each cluster, and of broken cannot-links."""
        pointers, shape = np.arange(self.count + 1), (self.count, self.clusters)
        members = csr_array((np.ones(self.count, dtype=np.intp), z, pointers), shape=shape)
        i, j = self.cannot.T
        return np.asarray((self._neighbours @ members).toarray()), int((z[i] == z[j]).sum())

    def _pins_hold(self, z: IntArray) -> bool:
        return bool((self.free | (self.pinned == z)).all())

    def size_radius_squared(self) -> float:
        """Return the greatest |sum_i c_{y_i}|^2 that the size bounds admit, c the simplex code.

        The codes c_0, ..., c_{k-1} are unit vectors with inner products -1/(k-1), so clusters of sizes n_q give
        k/(k-1) sum_q n_q^2 - n^2/(k-1). The maximum of this convex function over sizes between at_least and
        at_most with sum n is at a vertex: all but one of the sizes at a limit; a dynamic programme finds it.

        Examples
        --------
        >>> from margindsl.labelset import presolve_partition
        >>> presolve_partition(9, 3, sizes=[([3, 3, 3], [9, 9, 9])]).size_radius_squared()
        0.0
        """
        k = self.clusters
        greatest = max(greatest_squares(self.n, self.at_least, self.at_most, odd) for odd in range(k))
        return max((k * greatest - float(self.n) ** 2) / (k - 1), 0.0)

    def _gain(self, gain: ArrayLike, length: int, what: str) -> FloatArray:
        table = np.asarray(gain)
        if table.shape != (length, self.clusters):
            raise DeclarationError(
                f"gain has shape {table.shape}; expected ({length}, {self.clusters}), a row per {what} and a "
                "column per cluster."
            )
        if table.dtype.kind not in "iuf":
            raise DeclarationError(f"gain has type {table.dtype}; expected numbers.")
        table = table.astype(float)
        if not np.isfinite(table).all():
            row, q = np.argwhere(~np.isfinite(table))[0]
            raise DeclarationError(
                f"gain is {table[row, q]} at {what} {row} in cluster {q}; expected finite numbers."
            )
        return table

    def _strange(self, labels: Any) -> IntArray:
        return np.flatnonzero((labels != np.floor(labels)) | (labels < 0) | (labels >= self.clusters))

    def _whole(self, values: ArrayLike, length: int, name: str, what: str) -> IntArray:
        vector = np.asarray(values)
        if vector.shape != (length,):
            raise DeclarationError(f"{name} have shape {vector.shape}; expected ({length},), one per {what}.")
        if vector.dtype.kind not in "iuf":
            raise DeclarationError(f"{name} have type {vector.dtype}; expected numbers.")
        wrong = self._strange(vector)
        if wrong.size:
            place = int(wrong[0])
            raise DeclarationError(
                f"{name} hold {vector[place]} at {what} {place}; expected whole numbers from 0 to {self.clusters - 1}."
            )
        return vector.astype(np.intp)


def _rounded(total: int) -> str:
    return str(total) if total < 10**9 else f"10^{math.log10(total):.0f}"
