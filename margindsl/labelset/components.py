"""Components of linked points, of one label each, and the side conditions of these."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from margindsl.host.frozen import freeze_fields
from margindsl.labelset.bound import LinearBound
from margindsl.labelset.names import Names
from margindsl.typing import ArrayLike, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Components:
    """Hold which points move together: label y_i is z, the label of component_i, or k − 1 − z where sign_i is −1.

    Parameters
    ----------
    sign : ndarray of int, shape (n,)
        −1 where a point has the other one of two labels, +1 for the component's first point (in `merged` sets, the code
        of the known label for points of the pinned component), and everywhere of more labels.
    """

    n: int  # number of points
    names: Names  # how labels are written
    component: IntArray  # component of each point, numbered by first point
    sign: IntArray
    size: IntArray  # number of points of each component
    clusters: int = field(init=False)  # k
    count: int = field(init=False)  # N

    def __post_init__(self) -> None:
        vars(self).update(clusters=self.names.clusters, count=len(self.size))
        freeze_fields(self)

    @cached_property
    def first(self) -> IntArray:
        """Return the first point of each component, shape (N,)."""
        if self.count == self.n:
            return self.component
        points = np.empty(self.count, dtype=np.intp)
        points[self.component[::-1]] = np.arange(self.n)[::-1]
        return points

    def at_points(self, z: IntArray) -> IntArray:
        """Return the labels (..., n) of component labels (..., N), open where they are."""
        return self.turned(z if self.count == self.n else z[..., self.component], self.sign)

    def turned(self, labels: IntArray, sign: IntArray) -> IntArray:
        """Return the other one of two labels where signs are negative."""
        turned = sign < 0
        return np.where(turned & (labels >= 0), self.clusters - 1 - labels, labels) if turned.any() else labels

    def signs(self, z: IntArray) -> IntArray:
        """Return the codes −1 and +1 of component labels (..., N) of two clusters, 0 where open."""
        return np.where(z < 0, 0, 2 * z - 1)

    def contract(self, y: ArrayLike) -> IntArray:
        """Return the component values z (..., N) with y = A z, of labels (..., n) that satisfy the links."""
        labels = np.asarray(y, dtype=np.intp)
        return self.turned(labels[..., self.first], self.sign[self.first])

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


@dataclass(frozen=True, eq=False)
class Constraints(Components):
    """State side conditions of labels 0..k−1 of the points, given by those z of components.

    A label z_C is pinned_C where that is not open, z_C != z_D for every row (C, D) of cannot, at_least_q <=
    sum {size_C : z_C = q} <= at_most_q, and every bound holds.

    Parameters
    ----------
    n, names, component, sign, size
        As for `Components`.
    at_least, at_most : ndarray of int, shape (k,)
        Limits on the numbers of points of the clusters; 0 and n where nothing is asked.
    """

    pinned: IntArray  # forced label of each component, −1 where it is open
    cannot: IntArray  # pairs i < j of components of different labels, without repeats
    at_least: IntArray
    at_most: IntArray
    bounds: tuple[LinearBound, ...] = ()  # bounds on sums of labels that are not implied by the pins
    barred: BoolArray | None = None  # (N, k) clusters that labels known in part keep components out of
    parts: tuple[LinearBound, ...] = ()  # limits on how many points of a group a cluster of several holds

    @property
    def free(self) -> BoolArray:
        """Return which components have no forced value, shape (N,)."""
        return np.asarray(self.pinned < 0)

    @property
    def is_single(self) -> bool:
        """Return whether every component has a forced value, so that B holds exactly one labelling."""
        return not self.free.any()

    @cached_property
    def has_sizes(self) -> bool:
        """Return whether size bounds exclude labellings that links and known labels admit."""
        reach = self.size @ allowed_clusters(self, self.pinned, np.full(self.clusters, self.n))
        return bool((self.at_least > self.pinned_sizes).any() or (self.at_most < reach).any())

    @cached_property
    def pinned_sizes(self) -> IntArray:
        """Return the number of points that are pinned to each cluster, shape (k,)."""
        return pinned_sizes(self.pinned, self.size, self.clusters)

    @property
    def needed_sizes(self) -> IntArray:
        """Return how many points each cluster lacks at least beside its pinned ones, shape (k,)."""
        return np.maximum(self.at_least - self.pinned_sizes, 0)

    @property
    def room(self) -> IntArray:
        """Return how many points each cluster can take beside its pinned ones, shape (k,)."""
        return np.asarray(self.at_most - self.pinned_sizes)

    @cached_property
    def allowed(self) -> BoolArray:
        """Return (N, k) which clusters each component may join; see `allowed_clusters`."""
        return allowed_clusters(self, self.pinned, self.at_most)

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
    def neighbours(self) -> csr_array:
        """Return the symmetric incidence of cannot, shape (N, N)."""
        i, j = self.cannot.T
        ends = np.concatenate([i, j]), np.concatenate([j, i])
        return csr_array((np.ones(2 * len(i), dtype=np.intp), ends), shape=(self.count, self.count))

    @cached_property
    def sides(self) -> tuple[LinearBound, ...]:
        """Return the side conditions: bounds on sums of labels, on sizes that bind, and on those in groups."""
        rows = zip(self.at_least.astype(float), self.at_most.astype(float), np.eye(self.clusters).tolist())
        sizes = [LinearBound(self.size.astype(float), low, high, code=tuple(code)) for low, high, code in rows]
        return (*self.bounds, *(sizes if self.has_sizes else ()), *self.parts)


def link_sentence(labels: Components, y: IntArray, point: int) -> str:
    """Return the sentence for a point whose label disagrees with the first point of its component."""
    leader = int(labels.first[labels.component[point]])
    same = labels.sign[leader] == labels.sign[point]
    shown = labels.names.shown
    return (f"points {leader} and {point} have labels {shown(y[leader])} and {shown(y[point])} "
            f"but links make them {'equal' if same else 'opposite'}")


def pinned_sizes(pinned: IntArray, size: IntArray, clusters: int) -> IntArray:
    """Return the number of points pinned to each cluster, shape (k,)."""
    fixed = pinned >= 0
    return np.bincount(pinned[fixed], weights=size[fixed], minlength=clusters).astype(np.intp)


def allowed_clusters(labels: Constraints, pinned: IntArray, at_most: IntArray) -> BoolArray:
    """Return (N, k) which clusters each component may join beside pinned ones (N,).

    A free component may not join the cluster of a pinned one it is cannot-linked to, nor one whose pinned points leave
    too little room for it or its points in a group, nor one it is barred from; a pinned one has its own alone, unless
    it is barred from it, whether or not that fits.
    """
    allowed = labels.size[:, None] <= at_most - pinned_sizes(pinned, labels.size, labels.clusters)
    for part in labels.parts:
        q = int(np.argmax(part.code))
        allowed[:, q] &= part.omega <= part.upper - part.omega[pinned == q].sum()
    for here, there in (labels.cannot.T, labels.cannot.T[::-1]):
        known = pinned[here] >= 0
        allowed[there[known], pinned[here][known]] = False
    fixed = np.flatnonzero(pinned >= 0)
    allowed[fixed] = False
    allowed[fixed, pinned[fixed]] = True
    return np.asarray(allowed if labels.barred is None else allowed & ~labels.barred)
