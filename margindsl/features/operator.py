"""The one interface through which every engine sees features: products with Phi and its transpose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial, reduce
from operator import add
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from margindsl.errors import DeclarationError, SizeError
from margindsl.features.points import NEW_POINTS, check_points, is_lazy, row_blocks
from margindsl.host.clock import check
from margindsl.typing import FloatArray, IntArray

Index: TypeAlias = Any  # slice, integer array or boolean mask over points

GRAM_LIMIT = 20_000
ARRAY_LIMIT = 2**28
SYMMETRIC = 64  # columns from which half a product is worth the roots of the weights
DUST = 1e-14  # lengths this small beside the greatest are what rounding leaves of zero


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
    is_streamed : bool
        Whether points are read block by block, from a file or by workers, so that a pass is what costs: a caller asks
        for all it wants of one (`fold`, `each`) rather than for products one after the other.
    is_remote : bool
        Whether the points may be on other machines, so that fetching them all is to be avoided.
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
    is_streamed: bool = False
    is_remote: bool = False
    skips_zeros: bool = False
    trace_error: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, rank)."""
        return self.n, self.rank

    @property
    def matrix(self) -> FloatArray:
        """Return Phi (n, r) as stored in memory; a DeclarationError unless `is_dense`."""
        raise DeclarationError(
            f"{self.describe()} holds no dense matrix. Use apply and adjoint, or toarray() if it fits in "
            "memory."
        )

    def apply(self, W: FloatArray) -> FloatArray:
        """Return Phi W (n,) or (n, p) for W (r,) or (r, p)."""
        return self.each(partial(_times, W)) if self.n else np.zeros((0, *np.shape(W)[1:]))

    def adjoint(self, R: FloatArray) -> FloatArray:
        """Return Phi^T R (r,) or (r, p) for R (n,) or (n, p)."""
        return np.asarray(self.fold(_sums, R)) if self.n else np.zeros((self.rank, *np.shape(R)[1:]))

    @abstractmethod
    def rows(self, index: Index) -> FloatArray:
        """Return the dense features (m, r) of some points: an integer, slice, integer array or boolean mask."""

    @abstractmethod
    def take(self, index: Index) -> FeatureOperator:
        """Return the features of some points alone, with the same map, mean and pivots included."""

    @abstractmethod
    def transform(self, X_new: Any) -> FloatArray:
        """Map new points (m, d) through the same map, centring included, to features (m, r).

        Of a precomputed kernel they are values (m, n) against the points of the kernel matrix. Other numbers of columns
        and entries that are not finite are a DeclarationError.
        """

    def apply_to(self, X_new: Any, W: FloatArray) -> FloatArray:
        """Return phi(X_new) W, (m,) or (m, p), block by block, never holding all new features at once."""
        points = check_points(X_new, n_min=0, name=NEW_POINTS)
        blocks = row_blocks(points.shape[0], max(self.rank, points.shape[1])) or [slice(0, 0)]
        out = np.empty((points.shape[0], *np.shape(W)[1:]))
        for block in blocks:
            part = points[block]
            out[block] = self.transform(part.compute() if is_lazy(part) else part) @ W
        return out

    def gram(self, weights: FloatArray | None = None, *, limit: int = GRAM_LIMIT) -> FloatArray:
        """Return Phi^T diag(weights) Phi (r, r) for weights (n,) of any sign; a SizeError if r exceeds `limit`."""
        self._check_gram(limit)
        check(self.n * self.rank**2)
        found = np.asarray(self.fold(_gram, None if weights is None else np.asarray(weights, dtype=np.float64)))
        return (found + found.T) / 2

    # -- passes over the points -----------------------------------------------------------------------

    @cached_property
    def width(self) -> int:
        """Return how many numbers a point needs while it is read, which sets the size of blocks."""
        return self.rank

    def parts(self, function: Callable[..., Any], *rows: FloatArray | None) -> Iterator[tuple[slice, Any]]:
        """Yield what a function makes of each block of points, in order, computed where the points are.

        Parameters
        ----------
        function : callable
            Takes the features (m, r) of a block and its part of every one of `rows`. It is sent to the workers where
            they hold the points, so that it must be a function of a module, or a `functools.partial` of one.
        *rows : ndarray (n, ...) or None
            What belongs to the points, beside the features.

        Yields
        ------
        slice, object
        """
        for block in row_blocks(self.n, self.width):
            check()
            yield block, function(self.rows(block), *cut(rows, block))

    def fold(self, function: Callable[..., Any], *rows: FloatArray | None) -> Any:
        """Return the sum over blocks of points of what a function makes of each: one pass, one small answer.

        Arguments are those of `parts`; the function returns an array or number, or a tuple of them.
        """
        return total(found for _, found in self.parts(function, *rows))

    def each(self, function: Callable[..., FloatArray], *rows: FloatArray | None) -> FloatArray:
        """Return what a function makes of every point, (n, ...), in one pass.

        Arguments are those of `parts`; the function returns one number or row a point.
        """
        return assembled(self.n, self.parts(function, *rows))

    def row_norms(self) -> FloatArray:
        """Return the squared norms (n,) of the features, the diagonal of Phi Phi^T."""
        return self.each(_norms)

    def lengths(self, W: FloatArray, shift: FloatArray | float = 0.0) -> FloatArray:
        """Return the lengths (n,) of the rows of Phi W + shift, W (r, p); the p numbers of a point stay where it is."""
        if not self.is_streamed:
            return np.sqrt(_norms(self.apply(W) + shift))
        return self.each(partial(_lengths, W, shift))

    def component_sums(self, component: IntArray, weights: FloatArray, count: int) -> FloatArray:
        """Return (count, r): row C is the sum of weights_i phi_i over the points of component C, block by block.

        Shapes: `component` (n,) of 0..count-1, `weights` (n,).
        """
        if self.is_dense and count == self.n and np.array_equal(component, np.arange(self.n)):
            return self.matrix * np.asarray(weights)[:, None]
        sums = np.zeros((count, self.rank))
        for _, (met, found) in self.parts(_component_sums, component, np.asarray(weights)):
            sums[met] += found
        return sums

    @property
    def clustered(self) -> FeatureOperator:
        """Return the features by which starts cluster the points."""
        return self

    @property
    def offset(self) -> FloatArray | None:
        """Return the mean (r,) that was subtracted from the rows, None where none was."""
        return None

    def magnitudes(self, weights: FloatArray) -> FloatArray:
        """Return what the rounding of Phi^T w is relative to, (r,): sum_i |w_i| (|phi_ij| + |offset_j|)."""
        sizes = np.abs(weights)
        found = np.asarray(self.fold(_magnitudes, sizes)) if self.n else np.zeros(self.rank)
        return found if self.offset is None else found + sizes.sum() * np.abs(self.offset)

    @cached_property
    def typical_lengths(self) -> tuple[float, float]:
        """Return the median and the greatest length of the points that are not zero, found once; zeros without any."""
        squares = np.asarray(self.row_norms())
        vars(self).setdefault("trace", float(squares.sum()))  # of the same pass
        found = np.sqrt(squares)
        found = found[found > DUST * np.max(found, initial=0.0)]
        return (float(np.median(found)), float(found.max())) if len(found) else (0.0, 0.0)

    @cached_property
    def trace(self) -> float:
        """Return tr(Phi Phi^T), the sum of squared norms, found once."""
        return float(self.row_norms().sum())

    def toarray(self) -> FloatArray:
        """Return a new dense array equal to Phi; a SizeError beyond 2^28 entries held sparsely or on disk."""
        if not self.is_dense and self.n * self.rank > ARRAY_LIMIT:
            raise SizeError(
                f"a dense copy of {self.n} x {self.rank} features needs "
                f"{self.n * self.rank * 8 / 2**30:.1f} GB. "
                "Use apply and adjoint, or rows(index) for a part."
            )
        return np.array(self.rows(slice(0, self.n)))

    def describe(self) -> str:
        """Return one line saying what the features are."""
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


def cut(rows: Iterable[FloatArray | None], block: slice) -> Iterator[FloatArray | None]:
    """Yield the part of every array that belongs to a block of points."""
    return (None if row is None else row[block] for row in rows)


def assembled(n: int, parts: Iterable[tuple[slice, FloatArray]]) -> FloatArray:
    """Return one array of n rows from those of its blocks."""
    out: FloatArray | None = None
    for block, found in parts:
        out = np.empty((n, *found.shape[1:]), found.dtype) if out is None else out
        out[block] = found
    return np.zeros(0) if out is None else out


def total(parts: Iterable[Any]) -> Any:
    """Return the sum of arrays, numbers, or tuples of them, added in order."""
    return reduce(lambda a, b: tuple(map(add, a, b)) if isinstance(a, tuple) else a + b, parts)


def _times(W: FloatArray, phi: FloatArray) -> FloatArray:
    return phi @ W


def _sums(phi: FloatArray, R: FloatArray) -> FloatArray:
    return phi.T @ R


def _gram(phi: FloatArray, weights: FloatArray | None) -> FloatArray:
    if weights is None:
        return phi.T @ phi
    held = np.flatnonzero(weights)
    phi, weights = (phi, weights) if len(held) == len(phi) else (phi[held], weights[held])
    return weighted_squares(phi, weights)


def weighted_squares(phi: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Φᵀ diag(weights) Φ; of weights that are not negative by half the work of a product."""
    if phi.shape[1] < SYMMETRIC or np.any(weights < 0):
        return np.asarray(phi.T @ (weights[:, None] * phi))
    rooted = np.sqrt(weights)[:, None] * phi
    return np.asarray(rooted.T @ rooted)


def _norms(phi: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", phi, phi))


def _lengths(W: FloatArray, shift: FloatArray | float, phi: FloatArray) -> FloatArray:
    return np.sqrt(_norms(phi @ W + shift))


def _magnitudes(phi: FloatArray, sizes: FloatArray) -> FloatArray:
    return np.asarray(sizes @ np.abs(phi))


def _component_sums(phi: FloatArray, component: IntArray, weights: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the components a block meets and their sums: many blocks of singletons must not cost count rows each."""
    met, local = np.unique(component, return_inverse=True)
    positions = (local, np.arange(len(component)))
    return met, sp.csr_array((weights, positions), shape=(len(met), len(component))) @ phi


def as_index(index: Index) -> Index:
    """Turn one integer into an array of one, so that rows stay two-dimensional."""
    if isinstance(index, (int, np.integer)):
        return np.atleast_1d(index)
    if isinstance(index, slice):
        return index
    array = np.asarray(index)
    return array.astype(np.intp) if array.size == 0 else array
