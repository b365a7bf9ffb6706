"""Features read from a large array or memory map, one block of rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.features.dense import DenseFeatures, FactorFeatures
from margindsl.features.maps import Centring, LinearMap, PointMap
from margindsl.features.operator import FeatureOperator, Index, as_index
from margindsl.features.points import check_points, release, row_blocks
from margindsl.host.clock import check
from margindsl.host.frozen import frozen
from margindsl.typing import FloatArray, IntArray

HELD = 2**24  # entries of chosen rows that are held in memory, 128 MB


class BlockFeatures(FeatureOperator):
    """Read Phi = X - e m^T from a stored array in row blocks, centring each block as it passes.

    Rows stay where they are (and in their type); every product is accumulated in float64 with one block of
    about 8 MB in memory. Pages of a memory map are given back to the system after each block.

    Parameters
    ----------
    mean : ndarray (d,) or None
        Subtracted from every row when given.
    selection : ndarray of int (n,) or None
        The rows in use; all when None.
    """

    walks = True

    def __init__(
        self,
        source: FloatArray,
        mean: FloatArray | None = None,
        label: str = "linear, in row blocks",
        selection: IntArray | None = None,
    ) -> None:
        self.source, self.mean, self.label, self.selection = frozen(source), frozen(mean), label, frozen(selection)
        self.n = source.shape[0] if selection is None else len(selection)
        self.rank = self.width = source.shape[1]

    @classmethod
    def from_points(cls, X: Any, centre: bool = True) -> BlockFeatures:
        """Build from a dense array or memory map, subtracting the column means if asked.

        Shapes: `X` (n, d).
        """
        points = check_points(X)
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
        return cls(points, mean, label + (", centred" if centre else ""))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def offset(self) -> FloatArray | None:
        return self.mean

    def rows(self, index: Index) -> FloatArray:
        index = as_index(index)
        part = self._features(self.source[index if self.selection is None else self.selection[index]])
        release(self.source)
        return part

    def take(self, index: Index) -> FeatureOperator:
        chosen = self._chosen(index)
        if len(chosen) < self.n and len(chosen) * self.rank <= HELD:  # reading scattered rows again and again is slow
            return self._held(self._read(chosen), chosen)
        return self._part(chosen)

    def _read(self, chosen: IntArray) -> FloatArray:
        """Return the features (m, r) of rows of the source, block by block: what maps them may need as much again."""
        rows = np.empty((len(chosen), self.rank))
        for block in row_blocks(len(chosen), self.width):
            check()
            rows[block] = self._features(self.source[chosen[block]])
            release(self.source)
        return rows

    def transform(self, X_new: Any) -> FloatArray:
        return LinearMap(self.rank, self.mean)(X_new)

    def _features(self, part: FloatArray) -> FloatArray:
        return Centring(self.mean)(part)

    def _held(self, rows: FloatArray, chosen: IntArray) -> FeatureOperator:
        return DenseFeatures(rows, LinearMap(self.rank, self.mean), self.label)

    def _part(self, chosen: IntArray) -> FeatureOperator:
        return BlockFeatures(self.source, self.mean, self.label, chosen)

    def _chosen(self, index: Index) -> IntArray:
        chosen = np.arange(self.n) if self.selection is None else self.selection
        return chosen[as_index(index)]


class MappedBlockFeatures(BlockFeatures):
    """Map stored points through landmarks of a kernel, one block of rows at a time.

    Phi is never held: a pass over the points evaluates the kernel against the landmarks.

    Parameters
    ----------
    rank : int
        Columns of the map.
    width : int
        Numbers a point needs while it is mapped, which sets the size of blocks.
    residual : ndarray (N,), non-negative
        Diagonal of K - Phi Phi^T before centring.
    """

    def __init__(self, source: FloatArray, point_map: PointMap, rank: int, width: int, label: str,
                 residual: FloatArray, selection: IntArray | None = None) -> None:
        super().__init__(source, None, label, selection)
        self.point_map, self.rank, self.width, self.residual = point_map, rank, width, frozen(residual)
        self.trace_error = float(residual.sum() if selection is None else residual[selection].sum())

    def _held(self, rows: FloatArray, chosen: IntArray) -> FeatureOperator:
        return FactorFeatures(rows, self.point_map, self.label, self.residual[chosen])

    def _part(self, chosen: IntArray) -> FeatureOperator:
        return MappedBlockFeatures(self.source, self.point_map, self.rank, self.width, self.label, self.residual,
                                   chosen)

    @property
    def offset(self) -> FloatArray | None:
        return self.point_map.offset

    def transform(self, X_new: Any) -> FloatArray:
        return self.point_map(X_new)

    def _features(self, part: FloatArray) -> FloatArray:
        return self.point_map(np.asarray(part, dtype=np.float64))
