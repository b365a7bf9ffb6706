"""Nystroem features of points that stay where they are: on disk or in a Dask array."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.features.blocks import BlockFeatures
from margindsl.features.kernels import Kernel
from margindsl.features.maps import LandmarkMap, PointMap, Whitening
from margindsl.features.nystrom import inverse_root
from margindsl.features.operator import FeatureOperator
from margindsl.features.points import Points, is_lazy
from margindsl.typing import FloatArray


def stream_kernel(X: Points, kernel: Kernel, rank: int, centre: bool, rng: np.random.Generator) -> FeatureOperator:
    """Build Nystroem features that are computed anew at every pass; landmarks as in `nystrom`.

    A pass costs O(n m (d + m)) and holds one block of rows; two passes here find the mean feature and the
    trace error.

    Parameters
    ----------
    kernel : Kernel
        Already fitted to the points.
    rank : int
        Landmarks m.
    centre : bool
        Subtract the mean feature.
    rng : numpy Generator
        Draws the landmarks.
    """
    n = X.shape[0]
    landmarks = load(X[rng.permutation(n)[: min(rank, n)]])
    whitening = Whitening(inverse_root(kernel.matrix(landmarks, landmarks)), triangular=False)
    plain = _operator(X, LandmarkMap(kernel, landmarks, whitening), np.zeros(n), "")
    residual = np.maximum(kernel_diagonal(X, kernel) - plain.row_norms(), 0.0)
    mean = plain.adjoint(np.ones(n)) / n if centre else None
    point_map = LandmarkMap(kernel, landmarks, whitening if mean is None else whitening.centred(mean))
    label = (f"{kernel.describe()}, Nystroem in row blocks, rank {plain.rank}, trace error {residual.sum():.1e}"
             f"{', centred' if centre else ''}")
    return _operator(X, point_map, residual, label)


def _operator(X: Points, point_map: LandmarkMap, residual: FloatArray, label: str) -> FeatureOperator:
    landmarks, rank = point_map.landmarks.shape[0], point_map.whitening.root.shape[1]
    return _mapped(X, point_map, rank, max(landmarks, rank, X.shape[1]), residual, label)


def _mapped(X: Points, point_map: PointMap, rank: int, width: int, residual: FloatArray, label: str) -> FeatureOperator:
    if not is_lazy(X):
        return BlockFeatures(X, point_map, label, rank, width, residual)
    operator: FeatureOperator = importlib.import_module("margindsl.features.dask").DaskFeatures(
        X, point_map, rank, label, float(residual.sum()))
    return operator


def load(points: Points) -> Points:
    """Return points in memory: float64 of arrays, memory maps and Dask arrays, sparse ones as they are."""
    if is_lazy(points):
        points = points.compute()
    return np.array(points, dtype=np.float64) if isinstance(points, np.ndarray) else points


def kernel_diagonal(X: Points, kernel: Kernel) -> FloatArray:
    """Return k(x_i, x_i) of all points, in one pass over them."""
    n, d = X.shape
    return _mapped(X, _Diagonal(kernel), 1, d, np.zeros(n), "").apply(np.ones(1))


def kernel_column(X: Points, kernel: Kernel, j: int) -> FloatArray:
    """Return k(x_i, x_j) of all points, in one pass over them."""
    n, d = X.shape
    return _mapped(X, _Column(kernel, load(X[j : j + 1])), 1, d, np.zeros(n), "").apply(np.ones(1))


@dataclass(frozen=True)
class _Diagonal(PointMap):
    """Map points to the single column k(x, x)."""

    kernel: Kernel

    def rows(self, X: Any) -> FloatArray:
        return np.asarray(self.kernel.diagonal(np.asarray(X, dtype=np.float64)))[:, None]


@dataclass(frozen=True)
class _Column(PointMap):
    """Map points to the single column k(x, z) of one point z."""

    kernel: Kernel
    point: FloatArray

    def rows(self, X: Any) -> FloatArray:
        return self.kernel.matrix(np.asarray(X, dtype=np.float64), self.point)
