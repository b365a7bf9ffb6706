"""The label set of two clusters, B = {y = A z : z in {-1, +1}^N, pins, bounds}."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from margindsl.errors import SizeError
from margindsl.labelset import lifting, violation
from margindsl.labelset.bound import LiftedBound, LinearBound
from margindsl.labelset.implication import Path, implied_signs
from margindsl.labelset.labelset import LabelSet
from margindsl.labelset.oracle import maximise_signs
from margindsl.labelset.orientation import GlobalSign
from margindsl.typing import ArrayLike, BoolArray, FloatArray, IntArray

_ENUMERABLE = 22


@dataclass(frozen=True, eq=False)
class SignSet(LabelSet):
    """Hold a presolved label set of signs; build it with `presolve`.

    A labelling is y_i = sign_i z_{component_i} with z in {-1, +1}^N, z_C = pinned_C where that is not zero,
    and lower <= omega.z <= upper for every bound.

    Parameters
    ----------
    n : int
        Number of points.
    component : ndarray of int, shape (n,)
        Component of each point, numbered by first point.
    sign : ndarray of int, shape (n,)
        Sign of each point in its component; +1 for the component's first point (in `merged` sets, the
        known label for points of the pinned component).
    size : ndarray of int, shape (N,)
        Number of points of each component.
    pinned : ndarray of int, shape (N,)
        Forced sign of each component, 0 where free.
    bounds : tuple of LinearBound
        Bounds that are not implied by the pins.
    """

    codings: ClassVar[tuple[str, ...]] = ("binary",)
    open: ClassVar[int] = 0
    words: ClassVar[tuple[str, str]] = ("links", "signs")
    telling: ClassVar[ModuleType] = violation
    unbalanced: ClassVar[str] = (
        "neither a balance constraint, known labels nor cannot-links exclude the all-equal labelling, and decision "
        "values may all have one sign; add abs(md.sum(y)) <= b")
    clusters: ClassVar[int] = 2  # type: ignore[misc]

    n: int
    component: IntArray
    sign: IntArray
    size: IntArray
    pinned: IntArray
    bounds: tuple[LinearBound, ...] = ()

    @property
    def is_symmetric(self) -> bool:
        """Return whether B = -B by construction: nothing pinned and every bound symmetric."""
        return not self.pinned.any() and all(bound.is_symmetric for bound in self.bounds)

    def orientation(self, y: IntArray) -> GlobalSign:
        """Return the sign under which the first point of y has label +1; none where B tells signs apart."""
        return GlobalSign(int(y[0])) if self.is_symmetric else GlobalSign()

    def oriented(self, members: IntArray) -> BoolArray:
        """Return which members (M, n) bear the names of their `orientation`: one of y and −y where both are in B."""
        return np.asarray((members[:, 0] > 0) | (not self.is_symmetric))

    def aligned(self, y: IntArray, other: IntArray) -> IntArray:
        """Return y under the names in which it agrees best with another labelling, of those B does not tell apart."""
        return -y if self.is_symmetric and int(y.astype(int) @ other) < 0 else y

    def implied(self, path: Path) -> IntArray | None:
        """Return component signs (N,) that B implies once a path is taken, 0 where free; None if none is left."""
        return implied_signs(self, path)

    def branches(self, path: Path) -> list[int]:
        """Return the signs that the next component on a path can take, of exchangeable ones not taken yet one.

        Parameters
        ----------
        path : tuple of (component, sign)
        """
        return [1] if self.is_symmetric and not path else [1, -1]

    def steps(self, path: Path) -> list[int]:
        """Return a path by points: the number of a component's first point, from 1, times its label."""
        return [int(value * self.sign[self.first[c]] * (self.first[c] + 1)) for c, value in path]

    def by_components(self, costs: FloatArray) -> FloatArray:
        """Return the costs (N, 2) of components with z = -1 and z = +1, of points in clusters -1 and +1 (n, 2)."""
        turned = np.where(self.sign[:, None] < 0, costs[:, ::-1], costs)
        return np.stack([np.bincount(self.component, column, self.count) for column in turned.T], axis=1)

    @property
    def values(self) -> IntArray:
        """Return the signs -1, +1."""
        return np.array([-1, 1])

    @property
    def has_links(self) -> bool:
        """Return whether some component holds several points."""
        return self.count < self.n

    @property
    def is_unconstrained(self) -> bool:
        """Return whether B = {-1, +1}^n."""
        return not (self.has_links or self.pinned.any() or self.bounds)

    def lines(self, coding: str) -> list[str]:
        """Return components and bounds as lines of text."""
        return [f"label set: {self.count} components, {int(np.sum(~self.free))} pinned, {len(self.bounds)} bounds",
                *[f"label bound: {b.lower:.6g} <= omega z <= {b.upper:.6g}" for b in self.bounds]]

    @property
    def admits_one(self) -> bool:
        """Return whether neither bounds, pins nor cannot-links keep all labels from being equal."""
        return not (self.bounds or self.pinned.any() or (self.has_links and (self.sign < 0).any()))

    @property
    def expected(self) -> str:
        """Return what labels are, for messages."""
        return "+1 or -1"

    def is_label(self, values: Any) -> BoolArray:
        """Return which numbers are +1 or -1."""
        return np.asarray(np.abs(values) == 1)

    def holds(self, z: IntArray) -> bool:
        """Return whether component signs meet the bounds."""
        return all(bool(bound.holds(bound.omega @ z)) for bound in self.bounds)

    def nearest(self, candidate: ArrayLike) -> IntArray:
        """Return the member of B nearest to signs, or best for gains (n,)."""
        return self.maximise(candidate).astype(np.int8)

    def _best(self, gain: FloatArray) -> IntArray:
        return maximise_signs(self, gain)

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """Draw members of B, shape (size, n).

        Signs are uniform when there is no bound; otherwise each draw maximises a standard normal gain over
        the components. Every member z has positive probability, for it is the only maximiser of gains near
        z itself, but members are not equally likely.
        """
        if not self.bounds:
            z = rng.choice(np.array([-1, 1]), size=(size, self.count))
            z = np.where(self.pinned != 0, self.pinned, z)
        else:
            gains = rng.standard_normal((size, self.count))
            z = np.array([maximise_signs(self, gain) for gain in gains]).reshape(size, self.count)
        return np.asarray(self.sign * z[:, self.component])

    def enumerate(self) -> Iterator[IntArray]:
        """Yield every member of B, in lexicographic order of the free component signs from -1 to +1.

        Raises
        ------
        SizeError
            When more than 22 components are free.
        """
        free = np.flatnonzero(self.free)
        if len(free) > _ENUMERABLE:
            raise SizeError(
                f"{len(free)} components are free, 2^{len(free)} labellings; enumerate refuses above "
                f"{_ENUMERABLE}. Use sample, or maximise with a gain."
            )
        return self._members(free)

    def _members(self, free: IntArray) -> Iterator[IntArray]:
        total, block = 1 << len(free), 4096
        shifts = np.arange(len(free))[::-1]
        for start in range(0, total, block):
            codes = np.arange(start, min(start + block, total))
            z = np.tile(self.pinned, (len(codes), 1))
            z[:, free] = 2 * ((codes[:, None] >> shifts) & 1) - 1
            inside = np.ones(len(codes), dtype=bool)
            for bound in self.bounds:
                inside &= bound.holds(z @ bound.omega)
            for signs in z[inside]:
                yield self.sign * signs[self.component]

    def feasible_moves(self, y: ArrayLike) -> BoolArray:
        """Return which components can move alone to which other side and leave y in B, shape (N, 2)."""
        return self.feasible_flips(y)[:, None] & (np.arange(2) != self.places(y)[:, None])

    def feasible_flips(self, y: ArrayLike) -> BoolArray:
        """Return which components can change sign alone and leave y in B, shape (N,)."""
        z = self.contract(y)
        return self._feasible_changes(z, self.free, [float(bound.omega @ z) for bound in self.bounds])

    def feasible_swaps(self, y: ArrayLike, first: int, candidates: ArrayLike) -> BoolArray:
        """Return for which candidate components flipping them together with ``first`` leaves y in B.

        Parameters
        ----------
        y : array_like, shape (n,)
            Labelling that satisfies the links.
        first : int
            Component that flips in every case.
        candidates : array_like of int, shape (m,)
            Components to flip with it; ``first`` itself is never feasible.

        Returns
        -------
        ndarray of bool, shape (m,)
        """
        z, others = self.contract(y), np.asarray(candidates, dtype=np.intp)
        moved = z.copy()
        moved[first] = -moved[first]
        allowed = self.free & bool(self.pinned[first] == 0)
        allowed[first] = False
        sums = [float(bound.omega @ moved) for bound in self.bounds]
        return np.asarray(self._feasible_changes(moved, allowed, sums)[others])

    def _feasible_changes(self, z: IntArray, allowed: BoolArray, sums: list[float]) -> BoolArray:
        feasible = allowed.copy()
        for bound, total in zip(self.bounds, sums):
            feasible &= bound.holds(total - 2 * bound.omega * z)
        return feasible

    def merged(self) -> SignSet:
        """Return the same B with all pinned components merged into one, pinned at z = +1.

        Semidefinite relaxations see z only up to a global sign, so they can carry one pin at most. Signs of
        the points of the merged component are their known labels.
        """
        return lifting.merge_pins(self)

    def lifted_bounds(self) -> list[LiftedBound]:
        """Return every bound lower <= omega.z <= upper as (omega_lift.z)^2 <= radius^2.

        The middle of an asymmetric bound is carried by the first pinned component (take `merged` sets, so
        that there is one only); when nothing is pinned, by an extra reference variable: every ``omega`` then
        has N + 1 entries, the last one minus the middle, and ``reference`` is None.
        """
        return lifting.lift_bounds(self)
