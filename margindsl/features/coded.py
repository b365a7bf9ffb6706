"""Features that carry the codes of labels, so that margins are linear in one vector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np

from margindsl.features.operator import FeatureOperator, weighted_squares
from margindsl.host.clock import check
from margindsl.host.frozen import frozen
from margindsl.typing import FloatArray, IntArray

BLOCK = 4_000_000  # entries of features held at once


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
        self.own = frozen(codes[self.labels])
        self.rank = int(base.rank) * codes.shape[1]

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
        squares = (self.codes[:, :, None] * self.codes[:, None, :]).reshape(len(self.codes), -1)
        kinds, kind = np.unique(squares, axis=0, return_inverse=True)
        total = np.zeros((q, r, q, r))
        for number, square in enumerate(kinds):
            inside = np.where(kind.ravel()[self.labels] == number, weights, 0.0) if len(kinds) > 1 else weights
            chosen = np.flatnonzero(inside)
            if len(chosen):
                few = 3 * len(chosen) <= len(weights)
                part = weighted_gram(self.base, chosen, inside[chosen]) if few else np.array(self.base.gram(inside))
                total += np.multiply.outer(square.reshape(q, q), part).transpose(0, 2, 1, 3)
        return total.reshape(q * r, q * r)

    def rows(self, index: IntArray) -> FloatArray:
        """Return the dense rows of some points."""
        return _coded(self.base.rows(index), self.own[index])

    def fold(self, function: Callable[..., Any], *rows: FloatArray | None) -> Any:
        """Return the sums of what a function makes of blocks of rows, and of arrays with an entry a point."""
        return self.base.fold(partial(_after_codes, function), self.own, *rows)


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
