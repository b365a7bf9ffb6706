"""The proof of branch and bound: a tree of partial labellings that covers B, one dual point a leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.program.branching import PointLosses, node_dual
from margindsl.program.certificates import Certificate, DualPoint
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray

Path = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Leaf:
    """Represent one end of the tree: the components decided on the way, their signs, and a dual point.

    Parameters
    ----------
    path : tuple of (component, sign)
        Decisions in the order they were taken.
    u, a : (n,) float arrays
        The dual point of the node (see `BranchNodeForm`).
    """

    path: Path
    u: FloatArray
    a: FloatArray


def complete_signs(labels: Any, path: Path) -> IntArray | None:
    """Return (N,) component signs, 0 where free, that B implies once a path is taken; None if none is left.

    A sign is implied when its opposite puts a bound lower ≤ ω·z ≤ upper out of reach of the free components.

    Parameters
    ----------
    labels : LabelSet
    path : tuple of (component, sign)
    """
    z = np.array(labels.pinned, dtype=np.int64)
    for component, sign in path:
        if z[component] == -sign:
            return None
        z[component] = sign
    for _ in range(len(z) + 1):
        before = z
        for bound in labels.bounds:
            size = np.abs(bound.omega)
            slack = bound.tolerance
            free = z == 0
            fixed, reach = float(bound.omega @ z), float(size[free].sum())
            if fixed + reach < bound.lower - slack or fixed - reach > bound.upper + slack:
                return None
            toward = np.sign(bound.omega).astype(np.int64)
            up = free & (fixed + reach - 2 * size < bound.lower - slack)
            down = free & (fixed - reach + 2 * size > bound.upper + slack)
            if np.any(up & down):
                return None
            z = np.where(up, toward, np.where(down, -toward, z))
        if np.array_equal(z, before):
            return z
    return z


def point_labels(labels: Any, z: IntArray) -> IntArray:
    """Return (n,) labels of component signs, 0 where free."""
    return np.asarray(labels.sign) * z[np.asarray(labels.component)]


def covers(labels: Any, paths: list[Path]) -> bool:
    """Return whether every member of B, up to a common sign when B is symmetric, follows one of the paths.

    At every node the paths must decide one common component; a sign no path takes must be infeasible, or at
    the first decision of a symmetric B be the mirror image of the other.
    """
    pending: list[tuple[Path, list[Path]]] = [((), paths)]
    while pending:
        prefix, group = pending.pop()
        depth = len(prefix)
        if any(len(path) == depth for path in group):
            continue
        if not group or len({path[depth][0] for path in group}) != 1:
            return False
        component = group[0][depth][0]
        sides = {sign: [path for path in group if path[depth][1] == sign] for sign in (-1, 1)}
        if sum(map(len, sides.values())) != len(group):
            return False
        mirrored = depth == 0 and labels.is_symmetric
        for sign, inside in sides.items():
            step = (*prefix, (component, sign))
            if inside:
                pending.append((step, inside))
            elif not (mirrored and sides[-sign]) and complete_signs(labels, step) is not None:
                return False
    return True


@dataclass(frozen=True, eq=False)
class BranchCertificate(Certificate):
    """Prove a bound by cases: the leaves of a branch and bound tree, each with its own dual point.

    Parameters
    ----------
    program : MarginProgram
        Without free bias and decision bounds, its losses finite and piecewise quadratic with ρ(s) ≤ ρ(−s), s ≥ 0.
    leaves : tuple of Leaf
    """

    program: MarginProgram
    leaves: tuple[Leaf, ...]

    def verify(self) -> bool:
        """Check that the leaves cover B and recompute the dual value of every leaf."""
        labels = self.program.labels
        if not self.leaves or not covers(labels, [leaf.path for leaf in self.leaves]):
            return False
        table, phi = PointLosses.build(self.program.losses), self.program.features.toarray()
        for leaf in self.leaves:
            z = complete_signs(labels, leaf.path)
            if z is None:
                continue
            value = node_dual(table, phi, point_labels(labels, z), leaf.u, leaf.a)
            if not self.bound <= value + 1e-11 * abs(value):
                return False
        return True

    def dual_point(self) -> DualPoint:
        """Return the leaves as cases; a path names the first point of every component it decides."""
        labels = self.program.labels
        component, sign = np.asarray(labels.component), np.asarray(labels.sign)
        first = np.zeros(labels.count, dtype=int)
        first[component[::-1]] = np.arange(len(component))[::-1]
        paths = np.zeros((len(self.leaves), max(len(leaf.path) for leaf in self.leaves)), dtype=int)
        for row, leaf in zip(paths, self.leaves):
            row[: len(leaf.path)] = [s * sign[first[c]] * (first[c] + 1) for c, s in leaf.path]
        return DualPoint("cases", {
            "u": np.stack([leaf.u for leaf in self.leaves]), "q": np.stack([leaf.a for leaf in self.leaves]),
            "tau": np.zeros((len(self.leaves), 0)), "paths": paths})

    def describe(self) -> str:
        """Return one line saying what the proof is."""
        return f"branch and bound tree with {len(self.leaves)} leaves, a dual point each"
