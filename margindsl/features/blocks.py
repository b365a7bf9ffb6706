"""Features read from a large array or memory map, one block of rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.features.dense import DenseFeatures, FactorFeatures
from margindsl.features.maps import LinearMap, PointMap
from margindsl.features.operator import FeatureOperator, Index, as_index
from margindsl.features.points import release, row_blocks
from margindsl.host.clock import check
from margindsl.host.frozen import frozen
from margindsl.typing import FloatArray, IntArray

HELD = 2**24  # entries of chosen rows that are held in memory, 128 MB


class BlockFeatures(FeatureOperator):
    """Map the rows of a stored array to features in row blocks: less their mean, or through landmarks of a kernel.

    Rows stay where they are (and in their type); every product is accumulated in float64 with one block of
    about 8 MB in memory. Pages of a memory map are given back to the system after each block. Features are never held:
    a pass over the points maps them anew.

    Parameters
    ----------
    source : ndarray (N, d)
    point_map : PointMap
    rank : int, optional
        Columns of the map; default: those of the source.
    width : int, optional
        Numbers a point needs while it is mapped, which sets the size of blocks; default: as many.
    residual : ndarray (N,), non-negative, optional
        Diagonal of K - Phi Phi^T before centring.
    selection : ndarray of int (n,) or None
        The rows in use; all when None.
    """

    is_streamed = True

    def __init__(self, source: FloatArray, point_map: PointMap, label: str = "linear, in row blocks",
                 rank: int | None = None, width: int | None = None, residual: FloatArray | None = None,
                 selection: IntArray | None = None) -> None:
        self.source, self.point_map, self.label, self.selection = frozen(source), point_map, label, frozen(selection)
        self.n = source.shape[0] if selection is None else len(selection)
        self.rank, self.residual = source.shape[1] if rank is None else rank, frozen(residual)
        self.width = self.rank if width is None else width
        if residual is not None:
            self.trace_error = float(residual.sum() if selection is None else residual[selection].sum())

    @classmethod
    def from_points(cls, points: FloatArray, centre: bool = True) -> BlockFeatures:
        """Build from a dense array or memory map (n, d) that was checked, subtracting the column means if asked."""
        n, d = points.shape
        mean = None
        if centre:
            mean = np.zeros(d)
            for block in row_blocks(n, d):
                check()
                mean += points[block].sum(axis=0, dtype=np.float64)
                release(points)
            mean /= n
        label = f"linear, {d} columns, in row blocks ({points.dtype})"
        return cls(points, LinearMap(d, mean), label + (", centred" if centre else ""))

    @property
    def offset(self) -> FloatArray | None:
        return self.point_map.offset

    def rows(self, index: Index) -> FloatArray:
        index = as_index(index)
        part = self.point_map.rows(self.source[index if self.selection is None else self.selection[index]])
        release(self.source)
        return part

    def take(self, index: Index) -> FeatureOperator:
        chosen = (np.arange(self.n) if self.selection is None else self.selection)[as_index(index)]
        if len(chosen) == self.n or len(chosen) * self.rank > HELD:
            return BlockFeatures(self.source, self.point_map, self.label, self.rank, self.width, self.residual, chosen)
        # reading scattered rows again and again is slow; block by block, for what maps them may need as much again
        rows = np.empty((len(chosen), self.rank))
        for block in row_blocks(len(chosen), self.width):
            check()
            rows[block] = self.point_map.rows(self.source[chosen[block]])
            release(self.source)
        if self.residual is None:
            return DenseFeatures(rows, self.point_map, self.label)
        return FactorFeatures(rows, self.point_map, self.label, self.residual[chosen])

    def transform(self, X_new: Any) -> FloatArray:
        return self.point_map(X_new)
