"""Features of a Dask array: one task a chunk of rows, on whatever scheduler is active."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import dask
import numpy as np

from margindsl.clock import product
from margindsl.features.maps import LinearMap, PointMap
from margindsl.features.operator import GRAM_LIMIT, FeatureOperator, Index, as_index, columns
from margindsl.points import check_points
from margindsl.typing import FloatArray

RowMap = Callable[[FloatArray], FloatArray]


class DaskFeatures(FeatureOperator):
    """Compute products with the chunks of a Dask array, as many at a time as the scheduler has workers.

    Threads of this process by default; the workers of a `dask.distributed.Client` where one is active. Partial
    sums are added in the order of the chunks, so that the scheduler does not change the answer.

    Parameters
    ----------
    source : dask.array.Array (n, d)
        Chunked along rows only.
    row_map : callable
        Sends a chunk of points to its features; pickled to the workers.
    point_map : PointMap
        The map of new points.
    rank : int
        Columns of the features.
    label : str
    trace_error : float
    """

    def __init__(self, source: Any, row_map: RowMap, point_map: PointMap, rank: int, label: str,
                 trace_error: float = 0.0) -> None:
        self.source, self.row_map, self.point_map = source, row_map, point_map
        self.n, self.rank, self.label, self.trace_error = int(source.shape[0]), rank, label, trace_error
        self._chunks = list(source.to_delayed().ravel())
        ends = np.concatenate([[0], np.cumsum(source.chunks[0])]).astype(int)
        self._blocks = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]

    @classmethod
    def from_points(cls, X: Any, centre: bool = True) -> DaskFeatures:
        """Build linear features from a Dask array, subtracting the column means if asked.

        Parameters
        ----------
        X : dask.array.Array (n, d)
        centre : bool

        Returns
        -------
        DaskFeatures
        """
        points = check_points(X)
        n, d = points.shape
        mean = np.asarray(points.sum(axis=0, dtype=np.float64).compute()) / n if centre else None
        label = f"linear, {d} columns, in {len(points.chunks[0])} Dask chunks ({points.dtype})"
        return cls(points, Centring(mean), LinearMap(d, mean), d, label + (", centred" if centre else ""))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the storage type of the source."""
        return np.dtype(self.source.dtype)

    @property
    def offset(self) -> FloatArray | None:
        return self.point_map.offset

    def apply(self, W: FloatArray) -> FloatArray:
        product(self.n * self.rank, columns(W))
        parts = self._each(_apply, lambda block: W)
        return np.concatenate(parts) if parts else np.zeros((0, *W.shape[1:]))

    def adjoint(self, R: FloatArray) -> FloatArray:
        product(self.n * self.rank, columns(R))
        return sum(self._each(_adjoint, lambda block: R[block]), start=np.zeros((self.rank, *R.shape[1:])))

    def gram(self, weights: FloatArray | None = None, *, limit: int = GRAM_LIMIT) -> FloatArray:
        self._check_gram(limit)
        product(self.n * self.rank, self.rank)
        c = None if weights is None else np.asarray(weights, dtype=np.float64)
        parts = self._each(_gram, lambda block: None if c is None else c[block])
        total = sum(parts, start=np.zeros((self.rank, self.rank)))
        return (total + total.T) / 2

    def row_norms(self) -> FloatArray:
        return np.concatenate(self._each(_norms, lambda block: None))

    def rows(self, index: Index) -> FloatArray:
        index = as_index(index)
        if not isinstance(index, slice) and np.asarray(index).dtype == bool:
            index = np.flatnonzero(index)
        return self.row_map(np.asarray(self.source[index].compute()))

    def take(self, index: Index) -> FeatureOperator:
        index = as_index(index)
        if not isinstance(index, slice) and np.asarray(index).dtype == bool:
            index = np.flatnonzero(index)
        return DaskFeatures(self.source[index], self.row_map, self.point_map, self.rank, self.label, self.trace_error)

    def transform(self, X_new: Any) -> FloatArray:
        return self.point_map(X_new)

    def _each(self, function: Callable[..., FloatArray], argument: Callable[[slice], Any]) -> list[FloatArray]:
        """Return function(features of a chunk, its argument) for every chunk."""
        task = dask.delayed(function, pure=False)
        row_map = dask.delayed(self.row_map, pure=False)
        return list(dask.compute(*[
            task(chunk, row_map, argument(block)) for chunk, block in zip(self._chunks, self._blocks)]))


class Centring:
    """Subtract a mean from rows, in float64.

    Parameters
    ----------
    mean : ndarray (d,) or None
    """

    def __init__(self, mean: FloatArray | None) -> None:
        self.mean = mean

    def __call__(self, part: FloatArray) -> FloatArray:
        rows = np.array(part, dtype=np.float64)
        if self.mean is not None:
            rows -= self.mean
        return rows


def _apply(part: FloatArray, row_map: RowMap, W: FloatArray) -> FloatArray:
    return row_map(part) @ W


def _adjoint(part: FloatArray, row_map: RowMap, R: FloatArray) -> FloatArray:
    return row_map(part).T @ R


def _gram(part: FloatArray, row_map: RowMap, weights: FloatArray | None) -> FloatArray:
    rows = row_map(part)
    return rows.T @ (rows if weights is None else weights[:, None] * rows)


def _norms(part: FloatArray, row_map: RowMap, _: None) -> FloatArray:
    rows = row_map(part)
    return np.einsum("ij,ij->i", rows, rows)
