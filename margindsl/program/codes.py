"""Codes of k clusters: one unit vector a cluster, and features that carry them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.frozen import frozen
from margindsl.program.protocols import Features
from margindsl.typing import FloatArray, IntArray

BLOCK = 4_000_000  # entries of features held at once


def contrasts(clusters: int) -> FloatArray:
    """Return an orthonormal basis B (k, k−1) of the vectors that sum to zero (Helmert's).

    Decision values f = Φ V Bᵀ of k clusters sum to zero at every point, and ‖V Bᵀ‖ = ‖V‖.

    Parameters
    ----------
    clusters : int, at least 2

    Raises
    ------
    DeclarationError
        If there are fewer than two clusters.

    Examples
    --------
    >>> contrasts(2).round(4).tolist()
    [[-0.7071], [0.7071]]
    """
    if clusters < 2:
        raise DeclarationError(f"codes of {clusters} clusters: expected at least 2")
    step = np.arange(1, clusters)
    basis = np.where(np.arange(clusters)[:, None] < step, -1.0, 0.0)
    basis[step, step - 1] = step
    return basis / np.sqrt(step * (step + 1.0))


def simplex_codes(clusters: int) -> FloatArray:
    """Return unit vectors c_0, …, c_{k−1} in R^{k−1} with inner products −1/(k−1), as rows.

    For two clusters c_0 = −1 and c_1 = +1.

    Parameters
    ----------
    clusters : int, at least 2

    References
    ----------
    Y. Mroueh, T. Poggio, L. Rosasco, J.-J. Slotine (2012). Multiclass learning with simplex coding, Definition 1.

    Examples
    --------
    >>> simplex_codes(2).round(4).tolist()
    [[-1.0], [1.0]]
    >>> (simplex_codes(3) @ simplex_codes(3).T).round(4).tolist()
    [[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]]
    """
    return contrasts(clusters) * np.sqrt(clusters / (clusters - 1.0))


class CodedFeatures:
    """Give products with the rows c_{y_i} ⊗ φ_i, so that ⟨c_{y_i}, Vᵀφ_i⟩ is linear in one vector w.

    w holds the columns of V (r, k−1) one after the other.

    Parameters
    ----------
    base : Features
        The features φ.
    labels : (n,) int array
        The cluster y_i of each point.
    codes : (k, q) float array
        The codes as rows.
    """

    is_dense = False
    skips_zeros = True  # `gram` costs nothing at points of weight zero

    def __init__(self, base: Features, labels: IntArray, codes: FloatArray) -> None:
        self.base, self.labels, self.codes = base, frozen(np.asarray(labels)), frozen(codes)
        self.n, self.rank = base.n, base.rank * codes.shape[1]
        self.trace_error = base.trace_error
        self._own = frozen(codes[self.labels])

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, rank)."""
        return self.n, self.rank

    @property
    def trace(self) -> float:
        """Return the sum of the squared norms of the rows."""
        return float(self.row_norms().sum())

    def unpack(self, w: FloatArray) -> FloatArray:
        """Return V (r, q) of a vector w."""
        return w.reshape(self.codes.shape[1], self.base.rank).T

    def apply(self, W: FloatArray) -> FloatArray:
        """Return the products of the rows with W, (r q,) or (r q, p)."""
        if W.ndim == 1:
            return np.einsum("nq,nq->n", self.base.apply(self.unpack(W)), self._own)
        return np.stack([self.apply(column) for column in W.T], axis=1) if W.shape[1] else np.zeros((self.n, 0))

    def adjoint(self, R: FloatArray) -> FloatArray:
        """Return the products of the transpose with R, (n,) or (n, p)."""
        if R.ndim == 1:
            return self.base.adjoint(R[:, None] * self._own).T.ravel()
        return np.stack([self.adjoint(c) for c in R.T], axis=1) if R.shape[1] else np.zeros((self.rank, 0))

    def gram(self, weights: FloatArray | None = None, **options: Any) -> FloatArray:
        """Return Σ_i weights_i (c c^T) ⊗ (φφ^T) with c the code of point i, cluster by cluster."""
        r, q = self.base.rank, self.codes.shape[1]
        total = np.zeros((q, r, q, r))
        for cluster, code in enumerate(self.codes):
            inside = self.labels == cluster
            chosen = np.flatnonzero(inside if weights is None else inside & (weights != 0))
            if len(chosen):
                part = weighted_gram(self.base, chosen, None if weights is None else weights[chosen])
                total += np.multiply.outer(np.outer(code, code), part).transpose(0, 2, 1, 3)
        return total.reshape(q * r, q * r)

    def rows(self, index: Any) -> FloatArray:
        """Return the rows of some points, dense."""
        base, own = self.base.rows(index), np.atleast_2d(self._own[index])
        return np.asarray((own[:, :, None] * base[:, None, :]).reshape(len(base), own.shape[1] * base.shape[1]))

    def row_norms(self) -> FloatArray:
        """Return the squared norms of the rows."""
        return np.asarray(self.base.row_norms() * np.einsum("nq,nq->n", self._own, self._own))

    def toarray(self) -> FloatArray:
        """Return the rows of all points."""
        return self.rows(slice(0, self.n))

    def materialise(self) -> FloatArray:
        """Return the rows of all points."""
        return self.toarray()

    def take(self, index: Any) -> CodedFeatures:
        """Restrict to some points."""
        return CodedFeatures(self.base.take(index), self.labels[index], self.codes)

    def transform(self, X: Any) -> FloatArray:
        """Return the base's features of new points, which have no code yet."""
        return np.asarray(self.base.transform(X))

    def describe(self) -> str:
        """Return one line saying what the features are."""
        return f"{self.base.describe()}, coded for {len(self.codes)} clusters"


def weighted_gram(features: Features, index: IntArray, weights: FloatArray | None) -> FloatArray:
    """Return Σ over the points of an index of weight · φφ^T, block by block.

    Parameters
    ----------
    features : Features
    index : (m,) int array
    weights : (m,) float array or None for ones
    """
    r = features.rank
    if len(index) == features.n:
        full = None if weights is None else np.empty(features.n)
        if full is not None:
            full[index] = weights
        return np.array(features.gram(full))
    total = np.zeros((r, r))
    for block in _blocks(len(index), r):
        rows = features.rows(index[block])
        total += rows.T @ (rows if weights is None else weights[block, None] * rows)
    return (total + total.T) / 2


def _blocks(count: int, width: int) -> Iterator[slice]:
    size = max(1, BLOCK // max(width, 1))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
