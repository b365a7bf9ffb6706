"""The label set B of two or more clusters: components of the links, what is forced, and an exact linear oracle."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
import scipy

from margindsl.errors import DeclarationError, SizeError, SolverError
from margindsl.host.clock import check
from margindsl.labelset.codes import simplex_codes
from margindsl.labelset.components import Constraints, link_sentence
from margindsl.labelset.existence import draw_linked, greedy_member
from margindsl.labelset.forcing import Path, implied, tighten_sizes
from margindsl.labelset.names import by_first_point
from margindsl.labelset.oracle import maximise
from margindsl.typing import ArrayLike, BoolArray, FloatArray, IntArray

_ENUMERABLE = 1 << 22
_BLOCK = 4096
_DRAWS = 10
_SHOWN = 10


@dataclass(frozen=True, eq=False)
class LabelSet(Constraints):
    """Hold a presolved label set. Build it with `presolve`; it is never empty.

    Gains have an entry a point or component and a column a cluster. Where names of clusters mean nothing,
    `oriented`, `matched`, `canonical` and `branches` keep one of those that differ in names only.
    """

    @property
    def is_symmetric(self) -> bool:
        """Return whether clusters may exchange names without leaving B."""
        return bool((self.groups == self.groups[0]).all())

    @cached_property
    def member(self) -> IntArray | None:
        """Return z (N,) of a member that is found without search, None where none is."""
        return greedy_member(self)

    # -- members ------------------------------------------------------------------------------------

    def maximise(self, gain: ArrayLike) -> IntArray:
        """Return an exact maximiser over B of sum_i gain[i, y_i], ties broken the same way.

        Parameters
        ----------
        gain : array_like, shape (n, k)
            Finite gains of each point in each cluster.

        Examples
        --------
        >>> from margindsl.labelset import presolve
        >>> presolve(4, cannot=[(0, 1)], bounds=[(None, 0, 0)]).maximise([[0, 3], [0, 1], [0, 2], [0, 1]])
        array([1, 0, 1, 0])
        >>> labels = presolve(4, 3, cannot=[(0, 1)], sizes=[([1, 1, 1], [2, 2, 2])])
        >>> labels.maximise([[5, 0, 0], [4, 1, 0], [3, 0, 0], [1, 0, 0.5]])
        array([0, 1, 0, 2])
        """
        table, shape = np.asarray(gain), (self.n, self.clusters)
        if table.shape != shape:
            raise DeclarationError(
                f"gain has shape {table.shape}; expected {shape}, an entry per point and a column per cluster.")
        if table.dtype.kind not in "iuf":
            raise DeclarationError(f"gain has type {table.dtype}; expected numbers.")
        wrong = np.argwhere(~np.isfinite(table))
        if len(wrong):
            i, q = wrong[0].tolist()
            raise DeclarationError(f"gain is {table[i, q]} at point {i} in cluster {q}; expected finite numbers.")
        check()
        table = self.by_components(np.asarray(table, dtype=float))
        member = None if table.any() or self.bounds or self.parts else self.member
        return self.at_points(maximise(self, table) if member is None else member)

    def any_member(self) -> IntArray:
        """Return a member of B, the same every time."""
        even = np.arange(self.n) % self.clusters
        return even if self.leaves(even) else self.maximise(np.zeros((self.n, self.clusters)))

    def nearest(self, candidate: ArrayLike) -> IntArray:
        """Return the member of B that agrees best with labels (n,), or themselves, or is best for gains."""
        if self.contains(candidate):
            return np.array(candidate, dtype=np.intp)
        given = np.asarray(candidate)
        return self.maximise(given if given.ndim > 1 else (given[:, None] == np.arange(self.clusters)).astype(float))

    def contains(self, y: ArrayLike) -> bool:
        """Return whether y is in B: n labels that satisfy links, what is forced, and the side conditions."""
        given = np.asarray(y)
        if given.shape != (self.n,) or given.dtype.kind not in "iuf" or not np.isin(given, range(self.clusters)).all():
            return False
        labels = given.astype(np.intp)
        z = self.turned(labels[self.first], self.sign[self.first])
        met = (self.at_points(z) == labels).all() and (self.free | (self.pinned == z)).all()
        return bool(met) and bool(self.holds(z))

    def holds(self, z: IntArray) -> BoolArray:
        """Return whether component values (..., N) meet the side conditions."""
        met = np.asarray((z[..., self.cannot[:, 0]] != z[..., self.cannot[:, 1]]).all(axis=-1))
        if self.barred is not None:
            met = met & ~self.barred[np.arange(self.count), z].any(axis=-1)
        for bound in self.sides:
            met = met & bound.holds(bound.sums(z))
        return met

    @cached_property
    def is_unlinked(self) -> bool:
        """Return whether there are no links, known or barred labels; sizes and sums may be bounded."""
        return self.count == self.n and not len(self.cannot) and self.barred is None and bool(self.free.all())

    def leaves(self, labels: IntArray) -> bool:
        """Return whether nothing keeps points from the labels (n,) that each would choose alone."""
        return self.is_unlinked and bool(self.holds(labels))

    def violations(self, y: ArrayLike) -> list[str]:
        """Return one sentence for each thing that keeps y, written as users do, out of B; at most ten of a kind."""
        given, names = np.asarray(y), self.names
        if given.shape != (self.n,):
            return [f"labels have shape {given.shape}, expected ({self.n},)"]
        if given.dtype.kind not in "iuf":
            return [f"labels have type {given.dtype}, expected {names.expected}"]
        if not names.is_label(given).all():
            return _shortened([f"point {i} has label {given[i]}, expected {names.expected}"
                               for i in np.flatnonzero(~names.is_label(given))])
        labels = names.read(given)
        z = self.turned(labels[self.first], self.sign[self.first])
        words = _shortened([link_sentence(self, labels, int(i)) for i in np.flatnonzero(self.at_points(z) != labels)])
        words += _shortened([f"points {i} and {j} both have label {names.shown(labels[i])} but cannot-links part them"
                            for i, j in self.first[self.cannot] if labels[i] == labels[j]])
        forced = self.at_points(self.pinned)
        words += _shortened([f"point {i} has label {names.shown(labels[i])} but known labels, links, bounds or sizes "
                            f"force {names.shown(forced[i])}" for i in self.first[~self.free & (self.pinned != z)]])
        sizes = np.bincount(labels, minlength=self.clusters)
        words += [f"cluster {q} holds {many} points, outside [{low}, {high}]"
                 for q, (many, low, high) in enumerate(zip(sizes, self.at_least, self.at_most))
                 if not low <= many <= high]
        if self.barred is not None:
            words += _shortened([f"point {self.first[c]} has label {z[c]}, which is excluded"
                                 for c in np.flatnonzero(self.barred[np.arange(self.count), z])])
        words += [f"{part.name}: {part.sums(z):g} points, outside [{part.lower:g}, {part.upper:g}]"
                  for part in self.parts if not part.holds(part.sums(z))]
        return words + [f"{bound.name}: the weighted sum of labels is {bound.declared(float(bound.sums(z))):g}, "
                       f"outside [{bound.declared(bound.lower):g}, {bound.declared(bound.upper):g}]"
                       for bound in self.bounds if not bound.holds(bound.sums(z))]

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """Draw members of B, shape (size, n): each with positive probability, but not equally likely.

        Component values are drawn alone where nothing binds them together; otherwise each draw places cannot-linked
        components one after another and maximises standard normal gains over what remains open.
        """
        if len(self.apart) or self.sides:
            z = np.array([self._draw(rng) for _ in range(size)], dtype=np.intp).reshape(size, self.count)
        else:
            ways = self.allowed.sum(axis=1)
            z = self._chosen(rng.integers(np.lcm.reduce(ways), size=(size, self.count)) % ways)
        return self.at_points(z)

    def _draw(self, rng: np.random.Generator) -> IntArray:
        gain = rng.standard_normal((self.count, self.clusters - 1)) @ simplex_codes(self.clusters).T
        for _ in range(_DRAWS if len(self.apart) else 0):
            clusters = draw_linked(self, rng)
            if clusters is None:
                continue
            pinned = self.pinned.copy()
            pinned[self.apart_blocks[0]] = clusters
            try:
                return maximise(replace(self, pinned=pinned), gain)
            except SolverError:
                continue
        return maximise(self, gain)

    def _chosen(self, ways: IntArray) -> IntArray:
        return np.argsort(~self.allowed, axis=1, kind="stable")[np.arange(self.count), ways]

    def enumerate(self) -> Iterator[IntArray]:
        """Yield every member of B, in lexicographic order of the component values."""
        return chain.from_iterable(self.blocks())

    def blocks(self) -> Iterator[IntArray]:
        """Yield the members of B in arrays (m, n), as `enumerate` does one by one."""
        total = math.prod(self.allowed.sum(axis=1).tolist())
        if total > _ENUMERABLE:
            many = str(total) if total < 10**9 else f"10^{math.log10(total):.0f}"
            raise SizeError(
                f"{int(self.free.sum())} components are free to join {self.clusters} clusters, in about {many} ways; "
                f"enumerate refuses above {_ENUMERABLE}. Use sample, or maximise with a gain.")
        return self._blocks(total)

    def _blocks(self, total: int) -> Iterator[IntArray]:
        ways = self.allowed.sum(axis=1)
        position = np.cumprod(np.append(1, ways[:0:-1]))[::-1]
        for start in range(0, total, _BLOCK):
            codes = np.arange(start, min(start + _BLOCK, total))
            z = self._chosen(codes[:, None] // position % ways)
            yield self.at_points(z[self.holds(z)])

    def feasible_moves(self, y: ArrayLike) -> BoolArray:
        """Return which components can move alone to which other cluster and leave y (..., n) in B: (..., N, k)."""
        rows, z = np.arange(self.count), self.contract(y)
        feasible = (z[..., None] != np.arange(self.clusters)) & self.free[:, None]
        feasible &= (self.free | (self.pinned == z)).all(axis=-1)[..., None, None]
        if len(self.cannot):
            conflicts, broken = self._conflicts(z)
            mine = np.take_along_axis(conflicts, z[..., None], axis=-1)
            feasible &= np.asarray(broken)[..., None, None] - mine + conflicts == 0
        if self.barred is not None:
            feasible &= ~self.barred
        for bound in self.sides:
            terms = bound.terms
            feasible &= bound.holds(bound.sums(z)[..., None, None] - terms[rows, z][..., None] + terms)
        return np.asarray(feasible)

    def feasible_pairs(self, y: ArrayLike, first: IntArray | int, position: IntArray | int, others: IntArray,
                       theirs: IntArray) -> BoolArray:
        """Return which pairs of components, each moved elsewhere, leave y in B.

        `y` (n,): labelling that satisfies the links within components; `first`, `position` (m,): one component of each
        pair, or the same of all, and where to; `others`, `theirs` (m,): the other one, and where to; none stays where
        it is.
        """
        first, position = np.broadcast_to(first, others.shape), np.broadcast_to(position, others.shape)
        z = self.contract(y)
        conflicts, broken = self._conflicts(z)
        mine, own = z[first], z[others]
        left = broken - conflicts[first, mine] - conflicts[others, own] + conflicts[first, position]
        left = left + conflicts[others, theirs]
        if len(self.cannot):
            linked = np.asarray(self.neighbours[first, others]).ravel()
            left = left + linked * ((own == mine).astype(int) - (own == position)
                                    - (theirs == mine) + (theirs == position))
        feasible = (others != first) & (theirs != own) & self.free[others] & (left == 0)
        feasible &= (position != mine) & self.free[first] & (self.free | (self.pinned == z)).all()
        if self.barred is not None:
            feasible &= ~self.barred[first, position] & ~self.barred[others, theirs]
        for bound in self.sides:
            terms = bound.terms
            step = (terms[first, position] - terms[first, mine]) + (terms[others, theirs] - terms[others, own])
            feasible &= bound.holds(bound.sums(z) + step)
        return np.asarray(feasible)

    def _conflicts(self, z: IntArray) -> tuple[IntArray, IntArray]:
        """Return numbers (..., N, k) of cannot-linked components in each cluster, and (...) of broken cannot-links."""
        members = np.moveaxis(z[..., None] == np.arange(self.clusters), -2, 0)
        conflicts = (self.neighbours @ members.reshape(self.count, -1).astype(np.intp)).reshape(members.shape)
        i, j = self.cannot.T
        return np.moveaxis(conflicts, 0, -2), np.sum(z[..., i] == z[..., j], axis=-1)

    # -- names and cases ----------------------------------------------------------------------------

    @cached_property
    def groups(self) -> IntArray:
        """Return a number a cluster, equal where the clusters may exchange names without leaving the set, shape (k,).

        A cluster something is pinned to is alone; others go by their size bounds. Sums of labels that are bounded on
        one side tell all apart.
        """
        clusters = np.arange(self.clusters)
        alone = np.isin(clusters, self.pinned) | (not all(bound.is_symmetric for bound in self.bounds))
        rows = [np.where(alone, clusters, -1), self.at_least, self.at_most]
        for omega in {part.omega.tobytes() for part in self.parts}:  # limits of all clusters in one group
            limits = np.tile([-np.inf, np.inf], (self.clusters, 1))
            for part in self.parts:
                if part.omega.tobytes() == omega:
                    limits[int(np.argmax(part.code))] = part.lower, part.upper
            rows.append(limits)
        table = np.column_stack([*rows, *([] if self.barred is None else [self.barred.T])])
        return np.asarray(np.unique(table, axis=0, return_inverse=True)[1]).ravel()

    def canonical(self, y: IntArray) -> IntArray:
        """Return the names (k,) of clusters under which y is given: those that may exchange theirs by first points."""
        return by_first_point(y, self.groups, self._order)

    @property
    def _order(self) -> IntArray:
        """Return the names in the order of first points, those of a group together."""
        return self.names.order[np.argsort(self.groups[self.names.order], kind="stable")]

    def oriented(self, members: IntArray) -> BoolArray:
        """Return which members (M, n) bear the names of their `canonical`: one of those that differ in names only."""
        inside = [members == label for label in range(self.clusters)]
        first = np.stack([np.where(own.any(axis=1), own.argmax(axis=1), self.n) for own in inside], axis=1)
        order, same = self._order, np.diff(self.groups[self._order]) == 0
        return np.asarray((np.diff(first[:, order], axis=1)[:, same] >= 0).all(axis=1))

    def matched(self, y: IntArray, other: IntArray) -> IntArray:
        """Return y under the names in which it agrees best with another labelling, of those B does not tell apart."""
        shared = np.eye(self.clusters) / (2 * self.clusters)  # names stay where others are no better
        np.add.at(shared, (y, other), 1.0)
        same = self.groups[:, None] == self.groups
        new = scipy.optimize.linear_sum_assignment(np.where(same, shared, -1.0 - self.n**2), maximize=True)[1]
        return np.asarray(new[y])

    def implied(self, path: Path) -> IntArray | None:
        """Return component values (N,) that B implies once a path is taken, open where free; None if none is left."""
        return implied(self, path)

    def branches(self, path: Path) -> list[int]:
        """Return the labels that the next component on a path can take, of exchangeable ones not taken yet one."""
        z, order = self.implied(path), self.names.order.tolist()
        unused = [label for label in order if self.is_symmetric and (z is None or label not in z)]
        return [label for label in order if label not in unused[1:]]

    def steps(self, path: Path) -> list[int]:
        """Return a path by points, as a proof holds it: a point from 1, and n times its label."""
        components, labels = np.array(path, dtype=int).reshape(-1, 2).T
        points = self.first[components]
        return [int(c) for c in points + 1 + self.n * self.turned(labels, self.sign[points])]

    # -- semidefinite relaxations -------------------------------------------------------------------

    def merged(self) -> LabelSet:
        """Return the same B of two clusters with all pinned components merged into one, pinned at z = 1, the code +1.

        Semidefinite relaxations see codes only up to a global sign, so they can carry one pin at most. Signs of
        the points of the merged component are the codes of their known labels.
        """
        pins, signs = np.flatnonzero(~self.free), self.signs(self.pinned)
        if not pins.size or (pins.size == 1 and signs[pins[0]] == 1):
            return self
        keep = np.array(self.free)
        keep[pins[0]] = True
        target = np.cumsum(keep) - 1
        target[pins] = target[pins[0]]
        turn, count = np.where(signs != 0, signs, 1), int(keep.sum())
        pinned = np.full(count, -1)
        pinned[target[pins[0]]] = 1
        return replace(
            self, component=target[self.component], sign=self.sign * turn[self.component], pinned=pinned,
            size=np.bincount(target, weights=self.size, minlength=count).astype(np.intp),
            bounds=tuple(replace(bound, omega=np.bincount(target, weights=bound.omega * turn, minlength=count))
                         for bound in self.bounds))

    def lifted_bounds(self) -> list[tuple[FloatArray, float]]:
        """Return every bound lower ≤ ω·z ≤ upper as (ω', radius), |ω'·z| ≤ radius.

        The middle of an asymmetric bound is carried by the pinned component of a `merged` set; where nothing is pinned,
        by a further reference variable of sign +1: every ω' has N + 1 entries then.
        """
        pins = np.flatnonzero(~self.free)
        extra = not pins.size and not all(bound.is_symmetric for bound in self.bounds)
        lifted = []
        for bound in self.bounds:
            omega = np.append(bound.omega, 0.0) if extra else bound.omega.copy()
            if not bound.is_symmetric:
                omega[int(pins[0]) if pins.size else -1] -= (bound.lower + bound.upper) / 2
            lifted.append((omega, (bound.upper - bound.lower) / 2))
        return lifted

    def size_radius_squared(self) -> float:
        """Return the greatest |sum_i c_{y_i}|^2 that the size bounds admit, c the simplex code.

        The codes c_0, ..., c_{k-1} are unit vectors with inner products -1/(k-1), so clusters of sizes n_q give
        k/(k-1) sum_q n_q^2 - n^2/(k-1). The maximum of this convex function over sizes between at_least and
        at_most with sum n is at a vertex: all but one of the sizes at a limit; a dynamic programme finds it.

        Examples
        --------
        >>> from margindsl.labelset import presolve
        >>> presolve(9, 3, sizes=[([3, 3, 3], [9, 9, 9])]).size_radius_squared()
        0.0
        """
        k, (lower, upper), greatest = self.clusters, tighten_sizes(self), -np.inf
        for odd in range(k):  # the size that is at no limit
            others = np.delete(np.arange(k), odd)
            base = int(lower[others].sum())
            # best[s]: greatest sum of squares of the others when s points are above their lower limits.
            best = np.full(max(self.n - int(lower[odd]) - base, 0) + 1, -np.inf)
            best[0] = float((lower[others].astype(float) ** 2).sum())
            for low, high in zip(lower[others].tolist(), upper[others].tolist()):
                if 0 < high - low < len(best):
                    best[high - low:] = np.maximum(best[high - low:], best[:low - high] + float(high**2 - low**2))
            rest = self.n - base - np.arange(len(best), dtype=float)
            within = (rest >= lower[odd]) & (rest <= upper[odd])
            greatest = max(greatest, float(np.where(within, best + rest**2, -np.inf).max()))
        return max((k * greatest - float(self.n) ** 2) / (k - 1), 0.0)

    def lines(self, coding: str) -> list[str]:
        """Return components, sizes and bounds as lines of text."""
        sizes = ", ".join(f"{low}..{high}" for low, high in zip(self.at_least, self.at_most))
        return [f"label set: {self.clusters} clusters, {coding} margins, {self.count} components, "
                f"{int(np.sum(~self.free))} pinned, {len(self.cannot)} cannot-links, {len(self.bounds)} bounds",
                *[f"cluster sizes: {sizes}"] * self.has_sizes,
                *[f"label bound: {b.declared(b.lower):.6g} <= omega z <= {b.declared(b.upper):.6g}"
                  for b in self.bounds]]


def _shortened(words: list[str]) -> list[str]:
    return words if len(words) <= _SHOWN else [*words[:_SHOWN], f"and {len(words) - _SHOWN} more of this kind"]
