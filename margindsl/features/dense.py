"""Features held in memory as one dense matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.features.maps import JoinedMap, PointMap
from margindsl.features.operator import FeatureOperator, Index, as_index
from margindsl.host.frozen import frozen
from margindsl.typing import FloatArray


class HeldMatrix:
    """Read Phi off a dense matrix in memory."""

    _matrix: FloatArray
    is_streamed = is_remote = False

    @property
    def matrix(self) -> FloatArray:
        """Return Phi as stored in memory, shape (n, r), read-only."""
        return self._matrix

    def apply(self, W: FloatArray) -> FloatArray:
        return self._matrix @ W

    def adjoint(self, R: FloatArray) -> FloatArray:
        return self._matrix.T @ R

    def rows(self, index: Index) -> FloatArray:
        return self._matrix[as_index(index)]


def about_mean(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a matrix less its mean row, and that row; a column that is constant but for rounding carries nothing."""
    mean = matrix.mean(axis=0)
    centred = matrix - mean
    largest, left = (np.abs(x).max(axis=0, initial=0.0) for x in (matrix, centred))
    centred[:, left <= rounding(largest, len(matrix))] = 0.0
    return centred, mean



class DenseFeatures(HeldMatrix, FeatureOperator):
    """Hold Phi as a dense matrix, already centred if asked.

    Parameters
    ----------
    matrix : ndarray (n, r)
        Phi; it is made read-only.
    point_map : PointMap
        The map of new points; it must send training points to their rows.
    label : str
        One line saying what the features are.
    """

    is_dense = True

    def __init__(self, matrix: FloatArray, point_map: PointMap, label: str = "linear") -> None:
        self._matrix = frozen(matrix)
        self.point_map, self.label = point_map, label
        self.n, self.rank = matrix.shape

    @property
    def offset(self) -> FloatArray | None:
        return self.point_map.offset

    def take(self, index: Index) -> FeatureOperator:
        return DenseFeatures(self.rows(index), self.point_map, self.label)

    def transform(self, X_new: Any) -> FloatArray:
        return self.point_map(X_new)


class JoinedFeatures(DenseFeatures):
    """Hold features of several kernels side by side; `block` (r,) says which one a column is of."""

    def __init__(self, parts: Sequence[FeatureOperator]) -> None:
        maps = JoinedMap(tuple(part.point_map for part in parts))  # type: ignore[attr-defined]
        super().__init__(np.hstack([part.toarray() for part in parts]), maps, "; ".join(p.describe() for p in parts))
        self.block = frozen(np.repeat(np.arange(len(parts)), [part.rank for part in parts]))
        self.trace_error = float(sum(part.trace_error for part in parts))


class FactorFeatures(DenseFeatures):
    """Hold a factor Phi with K ~ Phi Phi^T, the map of new points and what the factor misses.

    Parameters
    ----------
    matrix : ndarray (n, r)
        The factor, centred if asked.
    residual : ndarray (n,), non-negative
        Diagonal of K - Phi Phi^T before centring; its sum is `trace_error`.
    centred : bool
        For `describe` only.
    """

    def __init__(
        self, matrix: FloatArray, point_map: PointMap, label: str, residual: FloatArray, centred: bool = False
    ) -> None:
        super().__init__(matrix, point_map, label)
        self.residual, self.centred = frozen(residual), centred
        self.trace_error = float(residual.sum())

    def magnitudes(self, weights: FloatArray) -> FloatArray:
        lengths = np.sqrt(self.row_norms() + self.residual)
        rough = float(np.abs(weights) @ lengths) / np.sqrt(rounding(1.0, self.n))
        return np.maximum(super().magnitudes(weights), rough)

    def take(self, index: Index) -> FeatureOperator:
        residual = self.residual[as_index(index)]
        return FactorFeatures(self.rows(index), self.point_map, self.label, residual, self.centred)

    def describe(self) -> str:
        end = ", centred" if self.centred else ""
        return f"{self.label} rank {self.rank}, trace error {self.trace_error:.1e}{end}"
