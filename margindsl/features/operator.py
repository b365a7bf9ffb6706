"""The one interface through which every engine sees features: products with Phi and its transpose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from margindsl.clock import check, product
from margindsl.errors import DeclarationError, SizeError
from margindsl.points import NEW_POINTS, check_points, is_lazy, row_blocks
from margindsl.typing import FloatArray, IntArray

Index: TypeAlias = Any  # slice, integer array or boolean mask over points

GRAM_LIMIT = 20_000
ARRAY_LIMIT = 2**28


class FeatureOperator(ABC):
    """Give products with the n x r feature matrix Phi, one row phi_i per point.

    Attributes
    ----------
    n : int
        Number of points.
    rank : int
        Number of columns r of Phi.
    label : str
        What the features are, for `describe`.
    is_dense : bool
        Whether `matrix`, an in-memory (n, r) array equal to Phi, exists, so that plain BLAS may be used.
    walks : bool
        Whether products are read block by block, so that a caller's own loop over `walk` costs no more.
    skips_zeros : bool
        Whether `gram` costs nothing at points of weight zero.
    trace_error : float
        tr(K - Phi Phi^T) >= 0 of the kernel before centring, an upper bound on it after centring; 0 when
        exact.
    """

    n: int
    rank: int
    label: str
    is_dense: bool = False
    walks: bool = False
    skips_zeros: bool = False
    trace_error: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, rank)."""
        return self.n, self.rank

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the storage type of Phi; products are accumulated in float64."""
        return np.dtype(np.float64)

    @property
    def matrix(self) -> FloatArray:
        """Return Phi as stored in memory, shape (n, r); only where `is_dense`.

        Raises
        ------
        DeclarationError
            If the features are not held densely in memory.
        """
        raise DeclarationError(
            f"{self.describe()} holds no dense matrix. Use apply and adjoint, or toarray() if it fits in "
            "memory."
        )

    @abstractmethod
    def apply(self, W: FloatArray) -> FloatArray:
        """Return Phi W.

        Parameters
        ----------
        W : ndarray (r,) or (r, p)

        Returns
        -------
        ndarray (n,) or (n, p)
        """

    @abstractmethod
    def adjoint(self, R: FloatArray) -> FloatArray:
        """Return Phi^T R.

        Parameters
        ----------
        R : ndarray (n,) or (n, p)

        Returns
        -------
        ndarray (r,) or (r, p)
        """

    @abstractmethod
    def rows(self, index: Index) -> FloatArray:
        """Return the dense features of some points.

        Parameters
        ----------
        index : int, slice, integer array (m,) or boolean mask (n,)

        Returns
        -------
        ndarray (m, r)
        """

    @abstractmethod
    def take(self, index: Index) -> FeatureOperator:
        """Restrict to a subset of the points, keeping the map (mean and pivots included).

        Parameters
        ----------
        index : int, slice, integer array (m,) or boolean mask (n,)

        Returns
        -------
        FeatureOperator
            With m points and the same columns.
        """

    @abstractmethod
    def transform(self, X_new: Any) -> FloatArray:
        """Map new points through the same map, centring included.

        Parameters
        ----------
        X_new : array-like (m, d)
            For a precomputed kernel, the values (m, n) against the points the kernel matrix was given for.

        Returns
        -------
        ndarray (m, r)

        Raises
        ------
        DeclarationError
            If the number of columns differs, or the entries are not finite real numbers.
        """

    def apply_to(self, X_new: Any, W: FloatArray) -> FloatArray:
        """Return phi(X_new) W block by block, never holding all new features at once.

        Parameters
        ----------
        X_new : array-like (m, d)
        W : ndarray (r,) or (r, p)

        Returns
        -------
        ndarray (m,) or (m, p)
        """
        points = check_points(X_new, n_min=0, name=NEW_POINTS)
        blocks = row_blocks(points.shape[0], max(self.rank, points.shape[1])) or [slice(0, 0)]
        out = np.empty((points.shape[0], *np.shape(W)[1:]))
        for block in blocks:
            part = points[block]
            out[block] = self.transform(part.compute() if is_lazy(part) else part) @ W
        return out

    def gram(self, weights: FloatArray | None = None, *, limit: int = GRAM_LIMIT) -> FloatArray:
        """Return Phi^T diag(weights) Phi.

        Parameters
        ----------
        weights : ndarray (n,), any sign, or None for ones
        limit : int
            Largest r accepted.

        Returns
        -------
        ndarray (r, r), symmetric

        Raises
        ------
        SizeError
            If r exceeds `limit`.
        """
        self._check_gram(limit)
        check(self.n * self.rank**2)
        product(self.n * self.rank, self.rank)
        total = np.zeros((self.rank, self.rank))
        for block in row_blocks(self.n, self.rank):
            check()
            part = self.rows(block)
            total += part.T @ (part if weights is None else np.asarray(weights)[block, None] * part)
        return (total + total.T) / 2

    def walk(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield (slice of points, their features) in order, in blocks of about 8 MB.

        Yields
        ------
        slice, ndarray (m, r)
        """
        for block in row_blocks(self.n, self.rank):
            check()
            yield block, self.rows(block)

    def row_norms(self) -> FloatArray:
        """Return the squared norms of the features, the diagonal of Phi Phi^T.

        Returns
        -------
        ndarray (n,)
        """
        norms = np.empty(self.n)
        for block in row_blocks(self.n, self.rank):
            check()
            part = self.rows(block)
            norms[block] = np.einsum("ij,ij->i", part, part)
        return norms

    def component_sums(self, component: IntArray, weights: FloatArray, count: int) -> FloatArray:
        """Return the sums over components of weighted features, block by block.

        Parameters
        ----------
        component : ndarray of int (n,)
            The component of each point, 0..count-1.
        weights : ndarray (n,)
        count : int

        Returns
        -------
        ndarray (count, r)
            Row C is the sum of weights_i phi_i over the points of component C.
        """
        if self.is_dense and count == self.n and np.array_equal(component, np.arange(self.n)):
            return self.matrix * np.asarray(weights)[:, None]
        total = np.zeros((count, self.rank))
        for block in row_blocks(self.n, self.rank):
            check()
            inside = component[block]
            # Only the components a block meets: many blocks of singletons must not cost count rows each.
            met, local = np.unique(inside, return_inverse=True)
            places = (local, np.arange(len(inside)))
            share = sp.csr_array((np.asarray(weights)[block], places), shape=(len(met), len(inside)))
            total[met] += share @ self.rows(block)
        return total

    @property
    def offset(self) -> FloatArray | None:
        """Return the mean (r,) that was subtracted from the rows, None where none was."""
        return None

    def magnitudes(self, weights: FloatArray) -> FloatArray:
        """Return what the rounding of Phi^T w is relative to: sum_i |w_i| (|phi_ij| + |offset_j|).

        Parameters
        ----------
        weights : ndarray (n,)

        Returns
        -------
        ndarray (r,)
        """
        sizes, total = np.abs(weights), np.zeros(self.rank)
        for block in row_blocks(self.n, self.rank):
            total += sizes[block] @ np.abs(self.rows(block))
        return total if self.offset is None else total + sizes.sum() * np.abs(self.offset)

    @cached_property
    def trace(self) -> float:
        """Return tr(Phi Phi^T), the sum of squared norms, found once."""
        return float(self.row_norms().sum())

    def toarray(self) -> FloatArray:
        """Return a new dense array equal to Phi.

        Returns
        -------
        ndarray (n, r)

        Raises
        ------
        SizeError
            If features held sparsely or on disk would need more than 2^28 entries.
        """
        if not self.is_dense and self.n * self.rank > ARRAY_LIMIT:
            raise SizeError(
                f"a dense copy of {self.n} x {self.rank} features needs "
                f"{self.n * self.rank * 8 / 2**30:.1f} GB. "
                "Use apply and adjoint, or rows(index) for a part."
            )
        return np.array(self.rows(slice(0, self.n)))

    def materialise(self) -> FloatArray:
        """Return Phi densely: the stored matrix itself where `is_dense`, else a new array.

        Returns
        -------
        ndarray (n, r)
        """
        return self.matrix if self.is_dense else self.toarray()

    def describe(self) -> str:
        """Return one line saying what the features are.

        Returns
        -------
        str
        """
        return self.label

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.n} x {self.rank}: {self.describe()}>"

    def _check_gram(self, limit: int) -> None:
        if self.rank > limit:
            raise SizeError(
                f"the {self.rank} x {self.rank} Gram matrix needs {self.rank**2 * 8 / 2**30:.1f} GB; the "
                f"limit is r = {limit}. "
                "Pass limit= to allow it, or reduce the columns first."
            )


def columns(block: FloatArray) -> int:
    """Return how many columns a product takes: one of a vector."""
    return int(np.shape(block)[1]) if np.ndim(block) > 1 else 1


def as_index(index: Index) -> Index:
    """Turn one integer into an array of one, so that rows stay two-dimensional."""
    return np.atleast_1d(index) if isinstance(index, (int, np.integer)) else _as_array(index)


def _as_array(index: Index) -> Index:
    if isinstance(index, slice):
        return index
    array = np.asarray(index)
    return array.astype(np.intp) if array.size == 0 else array
