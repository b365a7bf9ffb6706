"""Features made from features: affine maps of their columns, wide ones in the span of the points, times codes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
from scipy.linalg import eigh

from margindsl.errors import DeclarationError
from margindsl.features.dense import HeldMatrix
from margindsl.features.operator import GRAM_LIMIT, FeatureOperator, Index, weighted_squares
from margindsl.features.points import row_blocks
from margindsl.host.clock import EIGEN_WORK, check
from margindsl.host.frozen import frozen, frozen_property
from margindsl.typing import BoolArray, FloatArray, IntArray

SPAN_POINTS = 1000  # points up to which an eigenvalue problem of their order is small work
ZERO, CLEAR = 1e-13, 1e-8  # eigenvalues relative to the largest: those below may be rounding, those above are accurate
OUTSIDE = 1e-10  # part of the longest row outside the span, above the rounding of M
BLOCK = 4_000_000  # entries of features held at once


class DerivedFeatures(FeatureOperator):
    """Share what features made from other features have in common.

    Parameters
    ----------
    rank : int
        Number of columns.
    is_dense : bool, optional
        Default: whether the base is.
    """

    def __init__(self, base: FeatureOperator, rank: int, is_dense: bool | None = None) -> None:
        self.base, self.n, self.rank = base, base.n, rank
        self.label, self.is_dense = base.label, base.is_dense if is_dense is None else is_dense
        self.trace_error = base.trace_error
        self.is_streamed, self.is_remote = base.is_streamed, base.is_remote

    @frozen_property
    def _dense(self) -> FloatArray:
        return self._extend(self.base.matrix)

    @property
    def matrix(self) -> FloatArray:
        return self._dense if self.is_dense else super().matrix

    @property
    def clustered(self) -> FeatureOperator:
        return self if self.base.clustered is self.base else self.base.clustered

    @abstractmethod
    def _extend(self, rows: FloatArray) -> FloatArray:
        """Return features of the base as features of this operator."""

    def parts(self, function: Callable[..., Any], *rows: FloatArray | None) -> Iterator[tuple[slice, Any]]:
        if not self.is_streamed:
            return super().parts(function, *rows)
        return self.base.parts(self._after(function), *rows)

    def fold(self, function: Callable[..., Any], *rows: FloatArray | None) -> Any:
        return self.base.fold(self._after(function), *rows) if self.is_streamed else super().fold(function, *rows)

    def each(self, function: Callable[..., FloatArray], *rows: FloatArray | None) -> FloatArray:
        return self.base.each(self._after(function), *rows) if self.is_streamed else super().each(function, *rows)

    def rows(self, index: Index) -> FloatArray:
        return self._extend(self.base.rows(index))

    def transform(self, X_new: Any) -> FloatArray:
        return self._extend(self.base.transform(X_new))

    def _after(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of features of this operator as one of features of the base."""
        alone = copy(self)  # what is sent to workers must not take the points along
        alone.base, alone.__dict__["_dense"] = None, None  # type: ignore[assignment]
        return partial(_extended, alone._extend, function)


def _extended(extend: Callable[[FloatArray], FloatArray], function: Callable[..., Any], phi: FloatArray,
              *rows: FloatArray | None) -> Any:
    return function(extend(phi), *rows)


class AffineFeatures(DerivedFeatures):
    """Map the columns of other features affinely: Φ' = [c ΦM − 1tᵀ, v1].

    Parameters
    ----------
    matrix : ndarray (r, r'), optional
        M (projection, metric, compression, weights); default: the identity.
    factor : float
        c; a power of two loses no digit.
    shift : ndarray (r',), optional
        t, the centre that features are about.
    constant : float, optional
        v ≠ 0, whose coordinate of w is a penalised bias b: it costs (b/v)²/2.
    words : str
        What M does, for `describe`.
    is_dense : bool, optional
        Whether Φ' is held in memory once it is asked for; default: whether the base is.

    Notes
    -----
    `trace_error` is NaN where M maps an inexact base: what M does to the missing part is not known.
    """

    matrix_map: Any  # M, or None

    def __init__(self, base: FeatureOperator, matrix: FloatArray | None = None, *, factor: float = 1.0,
                 shift: FloatArray | None = None, constant: float | None = None, words: str = "mapped",
                 is_dense: bool | None = None) -> None:
        M = None if matrix is None else np.array(matrix, dtype=np.float64)
        if M is not None and (M.ndim != 2 or M.shape[0] != base.rank or M.shape[1] == 0):
            raise DeclarationError(f"the map has shape {M.shape}; ({base.rank}, r') with r' >= 1 is expected, one row "
                                   "per feature column.")
        if M is not None and not np.isfinite(M).all():
            raise DeclarationError("the map has NaN or infinite entries; a finite matrix is expected.")
        if constant is not None and (not np.isfinite(constant) or constant == 0):
            raise DeclarationError(f"the constant feature is {constant!r}; a finite non-zero number is expected, such "
                                   "as 1.0.")
        super().__init__(base, (base.rank if M is None else M.shape[1]) + (constant is not None), is_dense)
        self.matrix_map, self.factor, self.constant = None if M is None else frozen(M), factor, constant
        self.shift = None if shift is None else frozen(np.array(shift, dtype=np.float64))
        self.words, self.skips_zeros = words, base.skips_zeros and self._is_scaling
        exact = base.trace_error == 0 or M is None
        self.trace_error = base.trace_error * factor**2 if exact else float("nan")
        self._from_memory = self.is_dense and (M is not None or shift is not None)

    @property
    def _is_scaling(self) -> bool:
        return self.matrix_map is None and self.shift is None and self.constant is None

    @property
    def offset(self) -> FloatArray | None:
        if self.matrix_map is not None or self.constant is not None:
            return None
        base = None if self.base.offset is None else self.base.offset * self.factor
        return self.shift if base is None else base if self.shift is None else base + self.shift

    def to_base(self, w: FloatArray) -> FloatArray:
        """Return weights of the base with the same products, but for what shift and constant column add."""
        inner = w if self.constant is None else w[:-1]
        inner = inner if self.matrix_map is None else self.matrix_map @ inner
        return inner if self.factor == 1.0 else np.asarray(inner * self.factor)

    def _beside(self, W: FloatArray) -> Any:
        """Return what shift and constant column add to products with W."""
        added = 0.0 if self.shift is None else -(self.shift @ (W if self.constant is None else W[:-1]))
        return added if self.constant is None else added + self.constant * W[-1]

    def apply(self, W: FloatArray) -> FloatArray:
        return self._dense @ W if self._from_memory else np.asarray(self.base.apply(self.to_base(W)) + self._beside(W))

    def apply_to(self, X_new: Any, W: FloatArray) -> FloatArray:
        return np.asarray(self.base.apply_to(X_new, self.to_base(W)) + self._beside(W))

    def adjoint(self, R: FloatArray) -> FloatArray:
        if self._from_memory:
            return np.asarray(self._dense.T @ R)
        found = self.base.adjoint(R)
        found = found if self.matrix_map is None else self.matrix_map.T @ found
        found = found if self.factor == 1.0 else found * self.factor
        total = np.sum(R, axis=0)
        found = found if self.shift is None else found - np.multiply.outer(self.shift, total)
        return found if self.constant is None else np.concatenate([found, [self.constant * total]])

    def magnitudes(self, weights: FloatArray) -> FloatArray:
        if self.shift is not None:
            return super().magnitudes(weights)
        found = self.base.magnitudes(weights) * self.factor
        found = found if self.matrix_map is None else np.abs(self.matrix_map).T @ found
        return found if self.constant is None else np.append(found, abs(self.constant) * np.abs(weights).sum())

    def gram(self, weights: FloatArray | None = None, *, limit: int = GRAM_LIMIT) -> FloatArray:
        if self.matrix_map is not None or self.shift is not None:
            return super().gram(weights, limit=limit)
        self._check_gram(limit)
        found = self.base.gram(weights, limit=limit) * self.factor**2
        if self.constant is None:
            return np.asarray(found)
        c = np.ones(self.n) if weights is None else np.asarray(weights, dtype=np.float64)
        side = (self.constant * self.factor) * self.base.adjoint(c)[:, None]
        return np.block([[found, side], [side.T, np.array([[self.constant**2 * c.sum()]])]])

    def row_norms(self) -> FloatArray:
        if self.matrix_map is not None or self.shift is not None:
            return super().row_norms()
        return np.asarray(self.base.row_norms() * self.factor**2 + (self.constant or 0.0) ** 2)

    @cached_property
    def typical_lengths(self) -> tuple[float, float]:
        if not self._is_scaling:
            return super().typical_lengths
        median, greatest = self.base.typical_lengths
        return median * abs(self.factor), greatest * abs(self.factor)

    @frozen_property
    def trace(self) -> float:
        return self.base.trace * self.factor**2 if self._is_scaling else float(self.row_norms().sum())

    def component_sums(self, component: IntArray, weights: FloatArray, count: int) -> FloatArray:
        if not self._is_scaling:
            return super().component_sums(component, weights, count)
        return np.asarray(self.base.component_sums(component, weights, count) * self.factor)

    def take(self, index: Index) -> FeatureOperator:
        return AffineFeatures(self.base.take(index), self.matrix_map, factor=self.factor, shift=self.shift,
                              constant=self.constant, words=self.words)

    def describe(self) -> str:
        parts = [self.base.describe()]
        parts += [] if self.matrix_map is None else [f"{self.words} to {self.matrix_map.shape[1]} columns"]
        parts += [] if self.factor == 1.0 else [f"divided by {1.0 / self.factor:g}"]
        parts += [] if self.shift is None else ["about the mean of a bound on decision values"]
        return ", ".join(parts + ([] if self.constant is None else [f"constant column {self.constant:g}"]))

    def _extend(self, rows: FloatArray) -> FloatArray:
        rows = rows if self.matrix_map is None else rows @ self.matrix_map
        rows = rows if self.factor == 1.0 else np.asarray(rows * rows.dtype.type(self.factor))
        rows = rows if self.shift is None else rows - self.shift
        return rows if self.constant is None else np.hstack([rows, np.full((rows.shape[0], 1), self.constant)])

    def _after(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return partial(_scaled, self.factor, function) if self._is_scaling else super()._after(function)


def _scaled(factor: float, function: Callable[..., Any], phi: FloatArray, *rows: FloatArray | None) -> Any:
    phi *= phi.dtype.type(factor)  # what is read for a pass belongs to it
    return function(phi, *rows)


def image(features: FeatureOperator, W: FloatArray, shift: FloatArray | None = None) -> AffineFeatures:
    """Return ΦW + 1 shiftᵀ (n, p), never held: p may be near r, and what is wanted are sums and a few columns."""
    return AffineFeatures(features, W, shift=None if shift is None else -shift, is_dense=False)


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
    left_out, least = vectors[:, ~kept], OUTSIDE * float(np.sqrt(values[-1]))
    if any(np.linalg.norm(features.adjoint(left_out[:, block]), axis=0).max() > least
           for block in row_blocks(left_out.shape[1], features.rank)):
        return features
    return SpanFeatures(features, span, vectors[:, kept] * root)


class CodedRows:
    """Give products with the rows c(y_i) ⊗ φ_i (n × q r), without a copy of the features.

    A vector holds the columns of V (r, q) one after the other, so that its product with a row is ⟨c(y_i), Vᵀφ_i⟩.

    Parameters
    ----------
    base : FeatureOperator
        The features φ.
    labels : (n,) int array
        0..k−1.
    codes : (k, q) float array
        The codes as rows.
    """

    def __init__(self, base: FeatureOperator, labels: IntArray, codes: FloatArray) -> None:
        self.base, self.labels, self.codes = base, frozen(np.asarray(labels)), frozen(codes)
        self.rank = int(base.rank) * codes.shape[1]

    @frozen_property
    def own(self) -> FloatArray:
        """Return the codes (n, q) of the points."""
        return self.codes[self.labels]

    @frozen_property
    def _narrow(self) -> IntArray:
        return self.labels.astype(np.min_scalar_type(len(self.codes)))

    def apply(self, W: FloatArray) -> FloatArray:
        """Return the products (n,) with a vector (q r,), (n, p) with columns (q r, p)."""
        q, r, p = self.codes.shape[1], self.base.rank, prod(W.shape[1:])
        outputs = self.base.apply(W.reshape(q, r, p).transpose(1, 0, 2).reshape(r, q * p))
        return np.einsum("nqp,nq->np", outputs.reshape(-1, q, p), self.own).reshape(-1, *W.shape[1:])

    def adjoint(self, R: FloatArray) -> FloatArray:
        """Return the adjoint (q r,) of a vector (n,), (q r, p) of columns (n, p)."""
        q, r, p = self.codes.shape[1], self.base.rank, prod(R.shape[1:])
        turned = self.own[:, :, None] * R.reshape(-1, 1, p)
        found = self.base.adjoint(turned.reshape(-1, q * p)).reshape(r, q, p)
        return np.ascontiguousarray(found.transpose(1, 0, 2)).reshape(q * r, *R.shape[1:])

    def gram(self, weights: FloatArray) -> FloatArray:
        """Return Σ_i weights_i (c cᵀ) ⊗ (φφᵀ), c the code of point i; clusters of one c cᵀ together, as −1 and +1."""
        q, r = self.codes.shape[1], self.base.rank
        total = np.zeros((q, r, q, r))
        for square, members in self._squares:
            inside = weights if members is None else np.where(members, weights, 0.0)
            chosen = np.flatnonzero(inside)
            if len(chosen):
                few = 3 * len(chosen) <= len(weights)
                part = weighted_gram(self.base, chosen, inside[chosen]) if few else self.base.gram(inside)
                total += square[:, None, :, None] * part[:, None, :]
        return total.reshape(q * r, q * r)

    @cached_property
    def _squares(self) -> list[tuple[FloatArray, BoolArray | None]]:
        """Return the different c cᵀ, each with the points (n,) that have it, None for all."""
        squares = self.codes[:, :, None] * self.codes[:, None, :]
        if np.all(squares == squares[0]):
            return [(squares[0], None)]
        first, kind = np.unique(squares.reshape(len(squares), -1), axis=0, return_index=True, return_inverse=True)[1:]
        return [(squares[one], kind.ravel()[self.labels] == number) for number, one in enumerate(first)]

    def rows(self, index: IntArray) -> FloatArray:
        """Return the dense rows of some points."""
        return _coded(self.base.rows(index), self.own[index])

    def fold(self, function: Callable[..., Any], *rows: FloatArray | None) -> Any:
        """Return the sums of what a function makes of blocks of rows, and of arrays with an entry a point."""
        return self.base.fold(partial(_after_codes, function, self.codes), self._narrow, *rows)


def _coded(phi: FloatArray, own: FloatArray) -> FloatArray:
    return np.asarray((own[:, :, None] * phi[:, None, :]).reshape(len(phi), own.shape[1] * phi.shape[1]))


def _after_codes(function: Callable[..., Any], codes: FloatArray, phi: FloatArray, labels: IntArray,
                 *rows: FloatArray | None) -> Any:
    return function(_coded(phi, codes[labels]), *rows)


def weighted_gram(features: FeatureOperator, index: IntArray, weights: FloatArray | None) -> FloatArray:
    """Return Σ over the points of an index of weight · φφ^T, block by block."""
    r = features.rank
    if len(index) == features.n or features.skips_zeros:
        ones = np.ones(len(index)) if weights is None else weights
        return np.array(features.gram(np.bincount(index, weights=ones, minlength=features.n)))
    check(len(index) * r**2)
    total, step = np.zeros((r, r)), max(1, BLOCK // max(r, 1))
    for start in range(0, len(index), step):
        block = slice(start, start + step)
        rows = features.rows(index[block])
        total += rows.T @ rows if weights is None else weighted_squares(rows, weights[block])
    return (total + total.T) / 2
