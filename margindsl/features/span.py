"""Wide features in coordinates of the space that the points span."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from margindsl.features.dense import HeldMatrix
from margindsl.features.derived import AffineFeatures
from margindsl.features.operator import FeatureOperator, Index, row_blocks
from margindsl.host.clock import EIGEN_WORK, check
from margindsl.host.frozen import frozen
from margindsl.typing import FloatArray

SPAN_POINTS = 1000  # points up to which an eigenvalue problem of their order is small work
ZERO, CLEAR = 1e-13, 1e-8  # eigenvalues relative to the largest: those below may be rounding, those above are accurate
OUTSIDE = 1e-10  # part of the longest row outside the span, above the rounding of M


class SpanMap:
    """Give products with M = ΦᵀC, orthonormal columns in the span of the points, without forming M.

    Parameters
    ----------
    features : FeatureOperator
        Φ.
    coefficients : ndarray (n, r')
        C.
    """

    def __init__(self, features: FeatureOperator, coefficients: FloatArray) -> None:
        self.features, self.coefficients = features, frozen(coefficients)

    def __matmul__(self, W: FloatArray) -> FloatArray:
        return self.features.adjoint(self.coefficients @ W)


class SpanFeatures(HeldMatrix, AffineFeatures):
    """Hold Φ' = ΦM densely, n × r' with r' ≤ n: the r columns rotated onto the span of the points.

    Inner products are unchanged, and so are the values and weights Mw' of every problem over the points.

    Parameters
    ----------
    base : FeatureOperator
        Φ.
    span : SpanMap
        M.
    matrix : ndarray (n, r')
        Φ'.
    """

    def __init__(self, base: FeatureOperator, span: SpanMap, matrix: FloatArray) -> None:
        self.base, self.matrix_map, self.factor = base, frozen(span), 1.0
        self.shift = self.constant = None
        self.n, self.rank = matrix.shape
        self.label, self.is_dense, self.trace_error = base.label, True, base.trace_error
        self._matrix = frozen(matrix)

    def magnitudes(self, weights: FloatArray) -> FloatArray:
        return np.full(self.rank, float(np.linalg.norm(self.base.magnitudes(weights))))

    def take(self, index: Index) -> FeatureOperator:
        return SpanFeatures(self.base.take(index), self.matrix_map, self.rows(index))

    def transform(self, X_new: Any) -> FloatArray:
        return self.base.apply_to(X_new, self.matrix_map @ np.eye(self.rank))

    def describe(self) -> str:
        return f"{self.base.describe()}, rotated to rank {self.rank}"


def in_span(features: FeatureOperator, most: int = SPAN_POINTS) -> FeatureOperator:
    """Return features with more columns than points in coordinates of the space that the points span.

    With ΦΦᵀ = UΛUᵀ, M = ΦᵀUΛ^{-1/2} and ΦM = UΛ^{1/2}. Features in memory as a dense matrix, of more than `most`
    points, or with eigenvalues between rounding and the accurate ones are returned as they are, and so are those with
    a direction so short beside the longest one that its eigenvalue is rounding, though losses may depend on it.

    Parameters
    ----------
    most : int
        Most points.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from margindsl.features import SparseFeatures
    >>> wide = SparseFeatures(sp.csr_array(([3.0, 4.0], ([0, 1], [5, 70])), shape=(2, 100)))
    >>> phi = in_span(wide)
    >>> phi.shape, (phi.matrix @ phi.matrix.T).round(9).tolist()
    ((2, 2), [[9.0, 0.0], [0.0, 16.0]])
    """
    n = features.n
    if features.is_dense or features.rank <= n or n > most:
        return features
    gram = np.empty((n, n))
    for block in row_blocks(n, features.rank):
        unit = np.zeros((n, len(range(*block.indices(n)))))
        unit[block] = np.eye(unit.shape[1])
        gram[:, block] = features.apply(features.adjoint(unit))
    check(EIGEN_WORK * n**3)
    values, vectors = eigh((gram + gram.T) / 2)
    kept = values > ZERO * n * values[-1]
    if not np.any(kept) or values[-1] <= 0 or np.any(values[kept] < CLEAR * values[-1]):
        return features
    root = np.sqrt(values[kept])
    span = SpanMap(features, vectors[:, kept] / root)
    if not np.all(kept) and _outside(features, vectors[:, ~kept]) > OUTSIDE * float(np.sqrt(values[-1])):
        return features
    return SpanFeatures(features, span, vectors[:, kept] * root)


def _outside(features: FeatureOperator, left_out: FloatArray) -> float:
    return max(float(np.linalg.norm(features.adjoint(left_out[:, block]), axis=0).max())
               for block in row_blocks(left_out.shape[1], features.rank))
