"""Linear features read from a large array or memory map, one block of rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.features.maps import LinearMap
from margindsl.features.operator import FeatureOperator, Index, as_index
from margindsl.points import check_points, row_blocks
from margindsl.typing import FloatArray, IntArray


class BlockFeatures(FeatureOperator):
    """Read Phi = X - e m^T from a stored array in row blocks, centring each block as it passes.

    Rows stay where they are (and in their type); every product is accumulated in float64 with one block of
    about 32 MB in memory.

    Parameters
    ----------
    source : ndarray or memmap (N, d)
    mean : ndarray (d,) or None
        Subtracted from every row when given.
    label : str
    selection : ndarray of int (n,) or None
        The rows in use; all when None.
    """

    def __init__(
        self,
        source: FloatArray,
        mean: FloatArray | None = None,
        label: str = "linear, in row blocks",
        selection: IntArray | None = None,
    ) -> None:
        self.source, self.mean, self.label, self.selection = source, mean, label, selection
        self.n = source.shape[0] if selection is None else len(selection)
        self.rank = source.shape[1]

    @classmethod
    def from_points(cls, X: Any, centre: bool = True) -> BlockFeatures:
        """Build from a dense array or memory map, subtracting the column means if asked.

        Parameters
        ----------
        X : ndarray or memmap (n, d)
        centre : bool

        Returns
        -------
        BlockFeatures
        """
        points = check_points(X)
        n, d = points.shape
        mean = None
        if centre:
            mean = sum(points[b].sum(axis=0, dtype=np.float64) for b in row_blocks(n, d)) / n
        label = f"linear, {d} columns, in row blocks ({points.dtype})"
        return cls(points, mean, label + (", centred" if centre else ""))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the storage type of the source."""
        return self.source.dtype

    def apply(self, W: FloatArray) -> FloatArray:
        blocks = row_blocks(self.n, self.rank) or [slice(0, 0)]
        return np.concatenate([self.rows(block) @ W for block in blocks])

    def adjoint(self, R: FloatArray) -> FloatArray:
        total = np.zeros((self.rank, *R.shape[1:]))
        for block in row_blocks(self.n, self.rank):
            total += self.rows(block).T @ R[block]
        return total

    def rows(self, index: Index) -> FloatArray:
        index = as_index(index)
        part = np.asarray(
            self.source[index if self.selection is None else self.selection[index]], dtype=np.float64
        )
        return part if self.mean is None else part - self.mean

    def take(self, index: Index) -> FeatureOperator:
        chosen = np.arange(self.n) if self.selection is None else self.selection
        return BlockFeatures(self.source, self.mean, self.label, chosen[as_index(index)])

    def transform(self, X_new: Any) -> FloatArray:
        return LinearMap(self.rank, self.mean)(X_new)
