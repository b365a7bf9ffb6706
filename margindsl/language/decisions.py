"""Decision values in rows: weighted sums over hyperplanes, each with the label of a point or with none."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import without_rounding
from margindsl.language.margins import Hyperplane
from margindsl.typing import IntArray


@dataclass(frozen=True, eq=False)
class DecisionRows:
    """Represent m sums of decision values, times the labels of some points, or of none."""

    labels: IntArray | None  # (m,) points
    planes: dict[Hyperplane, Any]  # of each its points (m,), or weights (m, n), a sparse array
    is_linear: bool = True  # as margins are but for those of Crammer and Singer

    def __len__(self) -> int:
        return int(next(iter(self.planes.values())).shape[0])

    def weights(self, plane: Hyperplane) -> Any:
        """Return the weights (m, n) of the points of a hyperplane, a sparse array."""
        import scipy.sparse as sp

        given = self.planes.get(plane, np.zeros(0, dtype=int))
        if not isinstance(given, np.ndarray):
            return given
        return sp.csr_array((np.ones(len(given)), given, np.minimum(np.arange(len(self) + 1), len(given))),
                            (len(self), plane.n))

    def is_same(self, other: DecisionRows) -> bool:
        """Return whether others are the same, entry by entry."""
        pairs = [(self.labels, other.labels), *((x, other.planes.get(plane)) for plane, x in self.planes.items())]
        return len(self.planes) == len(other.planes) and all(map(_equal, *zip(*pairs)))

    def transformed(self, matrix: Any, slope: Any) -> DecisionRows:
        """Return the sums of rows, times slopes, that a sparse matrix (m', m) says."""
        import scipy.sparse as sp

        scaled = matrix @ sp.diags_array(np.broadcast_to(slope, (len(self),)).astype(float))
        return DecisionRows(self.labels, {plane: sp.csr_array(scaled @ self.weights(plane)) for plane in self.planes})

    def plus(self, slope: Any, other: DecisionRows, factor: Any) -> tuple[float, DecisionRows]:
        """Return a number and rows, whose product is slope · self + factor · other; proportional sums have one row."""
        import scipy.sparse as sp

        own, more = (rows.transformed(sp.eye_array(len(rows)), c) for rows, c in ((self, slope), (other, factor)))
        planes: dict[Hyperplane, Any] = {**own.planes}
        for plane, right in more.planes.items():
            left = planes.get(plane, 0.0 * right)
            sizes = sp.coo_array(abs(left) + abs(right))
            found = sp.csr_array(left + right)[sizes.row, sizes.col]
            planes[plane] = sp.csr_array((without_rounding(found, sizes.data), (sizes.row, sizes.col)), right.shape)
            planes[plane].eliminate_zeros()
        unit = next((float(x.data[0]) for x in planes.values() if x.nnz), 1.0)
        return unit, DecisionRows(self.labels, {plane: x / unit for plane, x in planes.items()})


def _equal(left: Any, right: Any) -> bool:
    if left is right or left is None or right is None:
        return left is right
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and np.array_equal(left, right)
    return left.shape == right.shape and (left != right).nnz == 0


@dataclass(frozen=True, eq=False)
class RowTable:
    """Represent the rows of a program: those of the n points first, then further rows, of points or of no label.

    Parameters
    ----------
    positions : list of (m,) int array
        The row of every entry of the `DecisionRows` it was made of.
    parents : (P,) int array
        The point of every further row, −1 of those without a label.
    blocks, view : tuple of sparse arrays
        A hyperplane each: weights (n + P, n_v) of rows, and those (n, n_v) by which points have decision values.
    """

    positions: list[IntArray]
    parents: IntArray
    blocks: tuple[Any, ...]
    view: tuple[Any, ...]

    @classmethod
    def of(cls, n: int, planes: tuple[Hyperplane, ...], given: list[DecisionRows], bounded: list[DecisionRows]
           ) -> RowTable:
        """Return the table of some rows; the first one of a point is its own, rows that are equal are one.

        Parameters
        ----------
        bounded : list of DecisionRows
            Of which the label does not count; their positions come last.
        """
        import scipy.sparse as sp

        strict, given = sum(map(len, given)), [*given, *bounded]
        ends = np.cumsum([0, *map(len, given)])
        labels = np.concatenate([np.full(len(x), -1) if x.labels is None else x.labels for x in given]).astype(int)
        whole = [sp.csr_array(sp.vstack([x.weights(plane) for x in given])) for plane in planes]
        rng, keys = np.random.default_rng(0), np.zeros((ends[-1], 3))
        keys[:, 0] = labels
        for block in whole:  # rows with one product with two random vectors are equal
            block.sum_duplicates()
            keys[:, 1:] += block @ rng.normal(size=(block.shape[1], 2))
        _, first, kind = np.unique(keys[:, 1:], axis=0, return_index=True, return_inverse=True)
        keys[strict:, 0] = labels[first[kind.ravel()[strict:]]]
        _, first, kind = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        order, turn = np.argsort(first), np.empty(len(first), dtype=int)
        turn[order] = np.arange(len(first))
        first, kind = first[order], turn[kind.ravel()]
        own = keys[first, 0].astype(int)
        points, at = np.unique(own, return_index=True)
        at = at[points >= 0]
        position, further = np.empty(len(first), dtype=int), np.ones(len(first), dtype=bool)
        further[at], position[at] = False, own[at]
        position[further] = n + np.arange(np.count_nonzero(further))
        parents = own[further]
        pick = sp.csr_array((np.ones(len(first)), (position, first)), (n + len(parents), ends[-1]))
        views, alone = [], np.setdiff1d(np.arange(n), own)  # points in no margin are seen as the others are
        for block in whole:
            entries = sp.coo_array(block)
            held = labels[entries.row] >= 0
            i, j, values = labels[entries.row][held], entries.col[held], entries.data[held]
            _, once = np.unique(i * block.shape[1] + j, return_index=True)
            i, j, values = i[once], j[once], values[once]
            if len(i) and block.shape[1] == n and np.array_equal(i, j):
                i, j = np.append(i, alone), np.append(j, alone)
                values = np.append(values, np.full(len(alone), values[0]))
            views.append(sp.csr_array((values, (i, j)), (n, block.shape[1])))
        unseen = sp.csr_array((np.ones(len(alone)), (alone, alone)), (n + len(parents), n))
        return cls([position[kind[a:b]] for a, b in pairwise(ends)], parents,
                   tuple(sp.csr_array(pick @ block + unseen @ view) for block, view in zip(whole, views)), tuple(views))
