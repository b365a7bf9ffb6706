"""Sparse features, centred without ever being densified."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from margindsl.features.distances import CANCELLED
from margindsl.features.operator import GRAM_LIMIT, FeatureOperator, Index, as_index
from margindsl.features.points import Points, check_new_points, row_blocks
from margindsl.host.clock import check
from margindsl.host.frozen import frozen
from margindsl.typing import FloatArray

SPARSE_COST = 30  # of one multiply-add of a sparse product beside a dense one


class SparseFeatures(FeatureOperator):
    """Hold Phi = S - e m^T with S sparse (CSR) and m the subtracted mean.

    The mean is applied inside each product, so Phi is never formed. A column whose mean far exceeds its spread has next
    to no zeros: `from_points` subtracts the mean of columns without zeros from what is stored, so that products lose no
    more digits than those of dense features.

    Parameters
    ----------
    mean : ndarray (d,) or None
        Subtracted from every row when given.
    shift : ndarray (d,) or None
        What was subtracted from `points` before, and is from new ones too.
    """

    skips_zeros = True

    def __init__(self, points: Points, mean: FloatArray | None = None, label: str = "linear, sparse",
                 shift: FloatArray | None = None) -> None:
        self.points = frozen(points if isinstance(points, sp.csr_array) else sp.csr_array(points))
        self.across = self.points.T  # of the same arrays; made anew it takes longer than a product of few numbers
        self.mean, self.label, self.shift = frozen(mean), label, frozen(shift)
        self.n, self.rank = self.points.shape

    @classmethod
    def from_points(cls, points: sp.csr_array, centre: bool = True) -> SparseFeatures:
        """Build from a sparse matrix that was checked, subtracting the column means if asked."""
        n, d = points.shape
        label = f"linear, {d} columns, sparse ({100 * points.nnz / (n * d):.2g} % non-zero)"
        if not centre:
            return cls(points, label=label)
        full = np.bincount(points.indices, minlength=d) == n
        shift = np.where(full, _column_means(points), 0.0) if np.any(full) else None
        if shift is not None:
            points = sp.csr_array((points.data - shift[points.indices], points.indices, points.indptr), (n, d))
        return cls(points, _column_means(points), label + ", centred", shift)

    def apply(self, W: FloatArray) -> FloatArray:
        return _without_mean(np.asarray(self.points @ W), self.mean, W)

    def adjoint(self, R: FloatArray) -> FloatArray:
        found = np.asarray(self.across @ R)
        if self.mean is None:
            return found
        return found - np.multiply.outer(self.mean, np.sum(R, axis=0))

    @property
    def offset(self) -> FloatArray | None:
        return self.mean if self.mean is None or self.shift is None else self.mean + self.shift

    def magnitudes(self, weights: FloatArray) -> FloatArray:
        sizes = np.abs(weights)
        total = np.asarray(abs(self.points).T @ sizes)
        return total if self.offset is None else total + sizes.sum() * np.abs(self.offset)

    def rows(self, index: Index) -> FloatArray:
        return _without_mean(_dense(self.points[as_index(index)]), self.mean)

    def take(self, index: Index) -> FeatureOperator:
        return SparseFeatures(self.points[as_index(index)], self.mean, self.label, self.shift)

    def transform(self, X_new: Any) -> FloatArray:
        return _without_mean(_dense(check_new_points(X_new, self.rank)), self.offset)

    def apply_to(self, X_new: Any, W: FloatArray) -> FloatArray:
        return _without_mean(np.asarray(check_new_points(X_new, self.rank) @ W), self.offset, W)

    def gram(self, weights: FloatArray | None = None, *, limit: int = GRAM_LIMIT) -> FloatArray:
        self._check_gram(limit)
        c = np.ones(self.n) if weights is None else np.asarray(weights, dtype=np.float64)
        held = np.flatnonzero(c)
        points = self.points if len(held) == self.n else self.points[held]
        squares = points.nnz * points.nnz / max(len(held), 1)
        check(squares * SPARSE_COST)
        total = (points.T @ points.multiply(c[held, None]).tocsr()).toarray()
        if self.mean is not None:
            # S^T C S - m s^T - s m^T + (e^T c) m m^T with s = S^T c
            before, cross = np.diag(total).copy(), np.outer(self.mean, self.points.T @ c)
            total += c.sum() * np.outer(self.mean, self.mean) - cross - cross.T
            if np.any(np.abs(np.diag(total)) < CANCELLED * np.abs(before)):
                blocks = row_blocks(*points.shape)
                parts = ((_without_mean(_dense(points[block]), self.mean), c[held][block]) for block in blocks)
                total = sum((part.T @ (heft[:, None] * part) for part, heft in parts), np.zeros_like(total))
        return (total + total.T) / 2

    def row_norms(self) -> FloatArray:
        squares = np.asarray(self.points.multiply(self.points).sum(axis=1)).ravel()
        if self.mean is None:
            return squares
        centred = squares - 2 * (self.points @ self.mean) + self.mean @ self.mean
        lost = np.flatnonzero(centred < CANCELLED * squares)
        for block in row_blocks(len(lost), self.rank):
            centred[lost[block]] = np.sum(_without_mean(_dense(self.points[lost[block]]), self.mean)**2, axis=1)
        return np.maximum(centred, 0.0)


def _dense(points: Points) -> FloatArray:
    return points.toarray() if sp.issparse(points) else np.asarray(points, dtype=np.float64)


def _without_mean(values: FloatArray, offset: FloatArray | None, W: FloatArray | None = None) -> FloatArray:
    return values if offset is None else values - (offset if W is None else offset @ W)


def _column_means(points: Points) -> FloatArray:
    return np.asarray(points.sum(axis=0)).ravel() / points.shape[0]
