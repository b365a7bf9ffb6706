"""Features of rows over several hyperplanes, and of further rows in columns of their own beside those of the points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from margindsl.errors import DeclarationError
from margindsl.features.dense import DenseFeatures
from margindsl.features.maps import NoMap
from margindsl.features.operator import FeatureOperator, Index, as_index
from margindsl.features.sparse import SparseFeatures
from margindsl.host.frozen import frozen_property
from margindsl.typing import FloatArray, IntArray

DENSE = 4_000_000  # entries up to which they are held densely


class Blocks(FeatureOperator):
    """Give the features [c_1 S_1 Φ_1, ..., c_V S_V Φ_V] of rows over several hyperplanes: views, never copies.

    Parameters
    ----------
    bases : tuple of FeatureOperator
        Φ_v, of n_v points each.
    factors : tuple of float
        c_v.
    weights : tuple of (n, n_v) sparse arrays
        S_v.
    view : tuple of (m, n_v) sparse arrays
        By which points have decision values, and are seen by starts.
    parents : (n - m,) int array
        The point of every further row, −1 for none.
    """

    def __init__(self, bases: tuple[FeatureOperator, ...], factors: tuple[float, ...], weights: tuple[Any, ...],
                 view: tuple[Any, ...] = (), parents: IntArray | None = None) -> None:
        self.bases, self.factors, self.weights, self.view, self.parents = bases, factors, weights, view, parents
        self.n, self.rank = weights[0].shape[0], sum(base.rank for base in bases)
        self.ends = np.cumsum([0, *(base.rank for base in bases)])
        self.is_dense = self.n * self.rank <= DENSE and not any(base.is_streamed for base in bases)
        self.trace_error = sum(base.trace_error * c**2 * float(abs(S).sum(axis=0).max() * abs(S).sum(axis=1).max())
                               for base, c, S in zip(bases, factors, weights) if base.trace_error)
        self.is_remote = any(base.is_remote for base in bases)
        one = bases[0].label if len(bases) == 1 else "; ".join(base.describe() for base in bases)
        self.label = f"{one}; {self.n} rows of {len(bases)} hyperplane{'' if len(bases) == 1 else 's'}"

    @frozen_property
    def _dense(self) -> FloatArray:
        return np.hstack([c * (S @ base.toarray()) for base, c, S in self._parts()])

    @property
    def matrix(self) -> FloatArray:
        return self._dense if self.is_dense else super().matrix

    def _parts(self) -> Any:
        return zip(self.bases, self.factors, self.weights)

    def _split(self, W: FloatArray) -> list[FloatArray]:
        return [W[a:b] for a, b in zip(self.ends, self.ends[1:])]

    def apply(self, W: FloatArray) -> FloatArray:
        if self.is_dense:
            return self._dense @ W
        return sum(S @ base.apply(c * w) for (base, c, S), w in zip(self._parts(), self._split(W)))

    def adjoint(self, R: FloatArray) -> FloatArray:
        if self.is_dense:
            return self._dense.T @ R
        return np.concatenate([c * base.adjoint(S.T @ R) for base, c, S in self._parts()])

    def rows(self, index: Index) -> FloatArray:
        if self.is_dense:
            return self._dense[as_index(index)]
        found = []
        for base, c, S in self._parts():
            own = S[as_index(index)]
            held = np.unique(own.indices)
            found.append(c * (own[:, held] @ base.rows(held)))
        return np.hstack(found)

    def take(self, index: Index) -> Blocks:
        rows = np.arange(self.n)[as_index(index)]
        return Blocks(self.bases, self.factors, tuple(S[rows] for S in self.weights), self.view)

    def magnitudes(self, weights: FloatArray) -> FloatArray:
        return np.concatenate([c * base.magnitudes(abs(S).T @ np.abs(weights)) for base, c, S in self._parts()])

    @property
    def clustered(self) -> FeatureOperator:
        if self.parents is None:
            return self
        return self.of(self.view).take(np.append(np.arange(self.view[0].shape[0]), np.maximum(self.parents, 0)))

    def of(self, weights: tuple[Any, ...]) -> Blocks:
        """Return the features of other rows."""
        return Blocks(self.bases, self.factors, weights)

    def viewed(self, W: FloatArray) -> tuple[FeatureOperator, FloatArray]:
        """Return features of the points, without factors, and weights (r, ...) for them."""
        scaled = np.concatenate([c * w for c, w in zip(self.factors, self._split(W))])
        return Blocks(self.bases, (1.0,) * len(self.bases), self.view, self.view), scaled

    def per_point(self) -> list[float]:
        """Return how often the decision values of hyperplanes count at new points."""
        held = [S.data if S.nnz else np.ones(1) for S in self.view]
        return [float(x[0]) if np.all(x == x[0]) else 1.0 for x in held]

    def _given(self, X_new: Any) -> list[Any]:
        parts = [X_new] if len(self.bases) == 1 and not isinstance(X_new, (list, tuple)) else X_new
        if not isinstance(parts, (list, tuple)) or len(parts) != len(self.bases) or all(x is None for x in parts):
            raise DeclarationError(f"new points of {len(self.bases)} hyperplanes are a list of as many arrays, in the "
                                   "order of problem.hyperplanes, None for those whose decision values are left "
                                   "out: solution.predict([X1, X2])")
        counts = {np.shape(x)[0] for x in parts if x is not None}
        if len(counts) > 1:
            raise DeclarationError(f"new points of several hyperplanes have {sorted(counts)} rows; give as many")
        return list(parts)

    def transform(self, X_new: Any) -> FloatArray:
        found = [None if x is None else c * base.transform(x)
                 for base, c, x in zip(self.bases, self.per_point(), self._given(X_new))]
        m = next(len(x) for x in found if x is not None)
        return np.hstack([np.zeros((m, base.rank)) if x is None else x for base, x in zip(self.bases, found)])

    def apply_to(self, X_new: Any, W: FloatArray) -> FloatArray:
        return sum(c * base.apply_to(x, w) for base, c, x, w in zip(  # type: ignore[return-value]
            self.bases, self.per_point(), self._given(X_new), self._split(W)) if x is not None)


class Stacked(FeatureOperator):
    """Hold features `base` of the points, and with them `seen` of all rows by which starts cluster."""

    base: FeatureOperator
    seen: FeatureOperator
    turned: Any  # S
    squares: FloatArray  # of the own columns of rows of S that are not zero

    @property
    def clustered(self) -> FeatureOperator:
        return self.seen


class _Dense(Stacked, DenseFeatures):
    """Hold them densely."""


class _Sparse(Stacked, SparseFeatures):
    """Hold them sparsely."""


def stacked(base: FeatureOperator, parents: IntArray, turned: Any, matrix: Any) -> Stacked:
    """Return [[Φ, 0], [SΦ, A]] for sparse S (P, n), A (P, m); starts see rows where their parents lie, −1 for none.

    The operator has `base`, and the weights of Φ come first.
    """
    phi = base.toarray()
    label = f"{base.describe()}; {matrix.shape[1]} columns of pairs"
    below = [sp.csr_array(turned @ phi), sp.csr_array(matrix)]
    whole = sp.csr_array(sp.block_array([[sp.csr_array(phi), None], below]))
    features = (_Dense(whole.toarray(), NoMap(), label) if np.prod(whole.shape) <= DENSE else
                _Sparse(whole, label=label))
    features.base, features.trace_error, features.turned = base, base.trace_error, turned
    features.squares = np.diff(turned.indptr) * (sp.csr_array(matrix)**2).sum(axis=1)
    features.seen = base.clustered.take(np.concatenate([np.arange(base.n), np.maximum(parents, 0)]))
    return features
