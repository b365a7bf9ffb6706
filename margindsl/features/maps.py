"""Maps of new points to feature rows: linear, through landmarks, through columns of a given kernel matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from margindsl.features.kernels import Kernel
from margindsl.features.points import Points, check_new_points
from margindsl.host.frozen import freeze_fields
from margindsl.typing import FloatArray, IntArray


class PointMap(ABC):
    """Map points to feature rows; what it maps by cannot be written to."""

    columns: int  # of the points

    def __post_init__(self) -> None:
        freeze_fields(self)

    @abstractmethod
    def rows(self, X: Any) -> FloatArray:
        """Return the (m, r) features of points (m, d) as they are stored, in float64, which belong to the caller."""

    def __call__(self, X: Any) -> FloatArray:
        """Return the (m, r) features of new points, which are checked first."""
        return self.rows(check_new_points(X, self.columns))

    def blocks(self, X: Any, size: int) -> Iterator[FloatArray]:
        """Yield the features of so many stored points at a time, of none at least once.

        Whoever takes a block may write to it, and loses it with the next one.
        """
        for start in range(0, max(len(X), 1), size):
            yield self.rows(X[start:start + size])

    @property
    def offset(self) -> FloatArray | None:
        """Return the mean (r,) that is subtracted, None where none is."""
        return None


class NoMap(PointMap):
    """Map points to no features, where the time was up before there were any."""

    def rows(self, X: Any) -> FloatArray:
        return np.zeros((np.shape(X)[0], 0))

    def __call__(self, X: Any) -> FloatArray:
        return self.rows(X)


@dataclass(frozen=True, eq=False)
class LinearMap(PointMap):
    """Map x to (x - mean) basis."""

    columns: int  # columns d of the points
    mean: FloatArray | None = None  # subtracted when given
    basis: FloatArray | None = None  # orthonormal columns; the identity when None

    @property
    def offset(self) -> FloatArray | None:
        if self.mean is None or self.basis is None:
            return self.mean
        return np.full(self.basis.shape[1], float(np.linalg.norm(self.mean)))

    def rows(self, X: Any) -> FloatArray:
        dense = X.toarray() if sp.issparse(X) else np.array(X, dtype=np.float64)
        if self.mean is not None:
            dense -= self.mean
        return dense if self.basis is None else dense @ self.basis

    def blocks(self, X: Any, size: int) -> Iterator[FloatArray]:
        # one room for all blocks: the workers of Dask give memory back at once (MALLOC_TRIM_THRESHOLD_), so that new
        # room for every block took twice as long as the rest of a pass
        assert self.basis is None  # of stored points
        room = np.empty((min(size, len(X)), X.shape[1]))
        for start in range(0, max(len(X), 1), size):
            part = X[start:start + size]
            yield np.subtract(part, 0.0 if self.mean is None else self.mean, out=room[:len(part)])


@dataclass(frozen=True, eq=False)
class JoinedMap(PointMap):
    """Map points by several maps, their features side by side."""

    maps: tuple[PointMap, ...]

    @property
    def columns(self) -> int:  # type: ignore[override]
        """Return the number of columns of the points."""
        return self.maps[0].columns

    @property
    def offset(self) -> FloatArray | None:
        found = [point_map.offset for point_map in self.maps]
        return None if any(mean is None for mean in found) else np.concatenate(found)  # type: ignore[arg-type]

    def rows(self, X: Any) -> FloatArray:
        return np.hstack([point_map.rows(X) for point_map in self.maps])


@dataclass(frozen=True, eq=False)
class Whitening:
    """Turn kernel values against landmarks into features with inner product k.

    Parameters
    ----------
    root : ndarray (m, r)
        Lower triangular L_pp (features c L_pp^{-T}) when `triangular`, else the projection itself (c root).
    """

    root: FloatArray
    triangular: bool
    mean: FloatArray | None = None  # mean feature, subtracted when given

    def __post_init__(self) -> None:
        freeze_fields(self)

    def __call__(self, values: FloatArray) -> FloatArray:
        if self.triangular:
            features = np.ascontiguousarray(solve_triangular(self.root, values.T, lower=True).T)
        else:
            features = values @ self.root
        return features if self.mean is None else features - self.mean

    def centred(self, mean: FloatArray) -> Whitening:
        """Return the same whitening with `mean` subtracted."""
        return replace(self, mean=mean)


@dataclass(frozen=True, eq=False)
class LandmarkMap(PointMap):
    """Map x to the whitened kernel values k(x, landmarks)."""

    kernel: Kernel
    landmarks: Points
    whitening: Whitening

    @property
    def columns(self) -> int:  # type: ignore[override]
        """Return the number of columns of the points."""
        return int(self.landmarks.shape[1])

    @property
    def offset(self) -> FloatArray | None:
        return self.whitening.mean

    def rows(self, X: Any) -> FloatArray:
        points = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        return self.whitening(self.kernel.matrix(points, self.landmarks))


@dataclass(frozen=True, eq=False)
class ColumnMap(PointMap):
    """Map a row of kernel values against all n training points to features, through the pivot columns."""

    columns: int
    pivots: IntArray | slice
    whitening: Whitening

    @property
    def offset(self) -> FloatArray | None:
        return self.whitening.mean

    def rows(self, X: Any) -> FloatArray:
        dense = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        return self.whitening(dense[:, self.pivots])
