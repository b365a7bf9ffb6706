"""Features that carry the codes of clusters, so that a multiclass machine is linear in one vector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from margindsl.features.derived import DerivedFeatures
from margindsl.features.operator import FeatureOperator, Index, weighted_squares
from margindsl.host.clock import check
from margindsl.host.frozen import frozen
from margindsl.typing import FloatArray, IntArray

BLOCK = 4_000_000  # entries of features held at once


class CodedFeatures(DerivedFeatures):
    """Give products with the rows c_{y_i} ⊗ φ_i, so that ⟨c_{y_i}, Vᵀφ_i⟩ is linear in one vector w.

    w holds the columns of V (r, k−1) one after the other.

    Parameters
    ----------
    base : FeatureOperator
        The features φ.
    labels : (n,) int array
        The cluster y_i of each point.
    codes : (k, q) float array
        The codes as rows.
    """

    skips_zeros = True

    def __init__(self, base: FeatureOperator, labels: IntArray, codes: FloatArray) -> None:
        super().__init__(base, base.rank * codes.shape[1], is_dense=False)
        self.labels, self.codes = frozen(np.asarray(labels)), frozen(codes)
        self._own = frozen(codes[self.labels])

    def unpack(self, w: FloatArray) -> FloatArray:
        """Return V (r, q) of a vector w."""
        return w.reshape(self.codes.shape[1], self.base.rank).T

    def apply(self, W: FloatArray) -> FloatArray:
        if W.ndim == 1:
            return np.einsum("nq,nq->n", self.base.apply(self.unpack(W)), self._own)
        return np.stack([self.apply(column) for column in W.T], axis=1) if W.shape[1] else np.zeros((self.n, 0))

    def adjoint(self, R: FloatArray) -> FloatArray:
        if R.ndim == 1:
            return self.base.adjoint(R[:, None] * self._own).T.ravel()
        return np.stack([self.adjoint(c) for c in R.T], axis=1) if R.shape[1] else np.zeros((self.rank, 0))

    def magnitudes(self, weights: FloatArray) -> FloatArray:
        return np.concatenate([self.base.magnitudes(weights * column) for column in self._own.T])

    def gram(self, weights: FloatArray | None = None, **options: Any) -> FloatArray:
        r, q = self.base.rank, self.codes.shape[1]
        total = np.zeros((q, r, q, r))
        for cluster, code in enumerate(self.codes):
            inside = self.labels == cluster
            chosen = np.flatnonzero(inside if weights is None else inside & (weights != 0))
            if len(chosen):
                part = weighted_gram(self.base, chosen, None if weights is None else weights[chosen])
                total += np.multiply.outer(np.outer(code, code), part).transpose(0, 2, 1, 3)
        return total.reshape(q * r, q * r)

    def rows(self, index: Index) -> FloatArray:
        return _coded(self.base.rows(index), np.atleast_2d(self._own[index]))

    def parts(self, function: Callable[..., Any], *rows: FloatArray | None) -> Iterator[tuple[slice, Any]]:
        if not self.walks:
            return super().parts(function, *rows)
        return self.base.parts(partial(_after_codes, function), self._own, *rows)

    def fold(self, function: Callable[..., Any], *rows: FloatArray | None) -> Any:
        if not self.walks:
            return super().fold(function, *rows)
        return self.base.fold(partial(_after_codes, function), self._own, *rows)

    def each(self, function: Callable[..., FloatArray], *rows: FloatArray | None) -> FloatArray:
        if not self.walks:
            return super().each(function, *rows)
        return self.base.each(partial(_after_codes, function), self._own, *rows)

    def row_norms(self) -> FloatArray:
        return np.asarray(self.base.row_norms() * np.einsum("nq,nq->n", self._own, self._own))

    def take(self, index: Index) -> CodedFeatures:
        return CodedFeatures(self.base.take(index), self.labels[index], self.codes)

    def describe(self) -> str:
        return f"{self.base.describe()}, coded for {len(self.codes)} clusters"

    def _extend(self, rows: FloatArray) -> FloatArray:
        return rows  # of new points, which have no code yet


def _coded(phi: FloatArray, own: FloatArray) -> FloatArray:
    return np.asarray((own[:, :, None] * phi[:, None, :]).reshape(len(phi), own.shape[1] * phi.shape[1]))


def _after_codes(function: Callable[..., Any], phi: FloatArray, own: FloatArray, *rows: FloatArray | None) -> Any:
    return function(_coded(phi, own), *rows)


def weighted_gram(features: FeatureOperator, index: IntArray, weights: FloatArray | None) -> FloatArray:
    """Return Σ over the points of an index of weight · φφ^T, block by block.

    Shapes: `index` (m,), `weights` (m,).
    """
    r = features.rank
    if len(index) == features.n or features.skips_zeros:
        ones = np.ones(len(index)) if weights is None else weights
        return np.array(features.gram(np.bincount(index, weights=ones, minlength=features.n)))
    check(len(index) * r**2)
    total = np.zeros((r, r))
    for block in _blocks(len(index), r):
        rows = features.rows(index[block])
        total += rows.T @ rows if weights is None else weighted_squares(rows, weights[block])
    return (total + total.T) / 2


def _blocks(count: int, width: int) -> Iterator[slice]:
    size = max(1, BLOCK // max(width, 1))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
