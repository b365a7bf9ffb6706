"""The set of admissible k-cluster labellings: links, known labels and sizes, with an exact linear oracle."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

from margindsl.errors import SizeError, SolverError
from margindsl.labelset import partition_violation
from margindsl.labelset.implication import Path, implied_clusters
from margindsl.labelset.labelset import LabelSet
from margindsl.labelset.orientation import ClusterNames, by_first_point
from margindsl.labelset.partition_domain import allowed_clusters, greatest_squares, pinned_sizes
from margindsl.labelset.partition_existence import draw_linked, greedy_member
from margindsl.labelset.partition_oracle import maximise_clusters
from margindsl.typing import ArrayLike, BoolArray, FloatArray, IntArray

_ENUMERABLE = 1 << 22
_BLOCK = 4096
_DRAWS = 10


@dataclass(frozen=True, eq=False)
class PartitionSet(LabelSet):
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

    codings: ClassVar[tuple[str, ...]] = ("crammer-singer", "simplex")
    open: ClassVar[int] = -1
    words: ClassVar[tuple[str, str]] = ("must-links", "clusters")
    telling: ClassVar[ModuleType] = partition_violation
    unbalanced: ClassVar[str] = (
        "neither cluster sizes, known labels nor cannot-links exclude a single cluster, and one may win everywhere; "
        "add md.sizes(y, at_least=m)")

    n: int
    clusters: int
    component: IntArray
    size: IntArray
    pinned: IntArray
    cannot: IntArray
    at_least: IntArray
    at_most: IntArray

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

    def steps(self, path: Path) -> list[int]:
        """Return a path by points: the number of a component's first point, from 1, and n times its cluster added."""
        return [int(self.first[c] + 1 + self.n * value) for c, value in path]

    def by_components(self, costs: FloatArray) -> FloatArray:
        """Return the costs (N, k) of components, of points in clusters (n, k)."""
        return self.contract_rows(costs)

    @property
    def values(self) -> IntArray:
        """Return the clusters 0, ..., k-1."""
        return np.arange(self.clusters)

    @cached_property
    def sign(self) -> IntArray:  # type: ignore[override]
        """Return ones (n,): clusters have no relative signs within a component."""
        return np.ones(self.n, dtype=np.intp)

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

    def lines(self, coding: str) -> list[str]:
        """Return clusters, components and sizes as lines of text."""
        sizes = ", ".join(f"{low}..{high}" for low, high in zip(self.at_least, self.at_most))
        return [f"label set: {self.clusters} clusters, {coding} margins, {self.count} components, "
                f"{int(np.sum(~self.free))} pinned, {len(self.cannot)} cannot-links",
                f"cluster sizes: {sizes}"]

    @property
    def admits_one(self) -> bool:
        """Return whether neither sizes, pins nor cannot-links keep all points from one cluster."""
        held = len(np.unique(self.pinned[self.pinned >= 0])) > 1 or len(self.cannot) > 0
        return not held and bool((self.at_most >= self.n).any())

    @property
    def expected(self) -> str:
        """Return what labels are, for messages."""
        return f"whole numbers from 0 to {self.clusters - 1}"

    def is_label(self, values: Any) -> BoolArray:
        """Return which numbers are whole and from 0 to k - 1."""
        return np.asarray((values == np.floor(values)) & (values >= 0) & (values < self.clusters))

    def holds(self, z: IntArray) -> bool:
        """Return whether component clusters meet cannot-links and sizes."""
        i, j = self.cannot.T
        sizes = np.bincount(z, self.size, minlength=self.clusters)
        return bool((z[i] != z[j]).all() and self.holds_sizes(sizes))

    @property
    def _columns(self) -> tuple[int, ...]:
        return (self.clusters,)

    def nearest(self, candidate: ArrayLike) -> IntArray:
        """Return the member nearest to clusters (n,), or best for gains (n, k)."""
        given = np.asarray(candidate)
        return self.maximise((given[:, None] == self.values).astype(float) if given.ndim == 1 else given)

    def _best(self, gain: FloatArray) -> IntArray:
        return maximise_clusters(self, gain)

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


def _rounded(total: int) -> str:
    return str(total) if total < 10**9 else f"10^{math.log10(total):.0f}"
