"""Pivoted (incomplete) Cholesky factorisation of a kernel matrix seen one column at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpstrf

from margindsl.errors import DeclarationError
from margindsl.host.clock import check
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class CholeskyFactor:
    """Hold K ~ factor factor^T with the pivots in the order they were chosen.

    Parameters
    ----------
    factor : ndarray (n, r)
        Its rows at `pivots` form the lower triangular L_pp.
    residual : ndarray (n,), non-negative
        Diagonal of K - factor factor^T.
    """

    factor: FloatArray
    pivots: IntArray  # (r,)
    residual: FloatArray


def pivoted_cholesky(
    column: Callable[[int], FloatArray], diagonal: FloatArray, rank: int, tol: float
) -> CholeskyFactor:
    """Factor a positive semidefinite matrix by diagonal pivoting, asking for `rank` columns at most.

    Each step takes the point with the largest remaining diagonal; the remaining trace is the trace error. It
    stops at trace error <= tol * trace of H K H, at `rank` columns, or when only rounding is left. What all points
    share, and a mean or a bias takes away, may be far larger than what tells them apart. O(n r^2) time, O(n r) memory.

    Parameters
    ----------
    column : callable
        ``column(j)`` returns column j of K, shape (n,).
    diagonal : ndarray (n,)
        Diagonal of K.

    References
    ----------
    Harbrecht, Peters and Schneider, On the low-rank approximation by the pivoted Cholesky decomposition,
    2012.

    Examples
    --------
    >>> K = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> L = pivoted_cholesky(lambda j: K[:, j], np.diag(K), rank=2, tol=0.0).factor
    >>> bool(np.allclose(L @ L.T, K))
    True
    """
    left = np.array(diagonal, dtype=np.float64)
    n, variation, largest = left.size, 0.0, float(left.max())
    _check_start(left, largest)
    least = n * np.finfo(float).eps * largest
    rank = min(rank, n)
    store, pivots = np.empty((min(rank, 64), n)), np.empty(rank, dtype=np.intp)
    found = 0
    while found < rank:
        check()
        pivot = int(np.argmax(left))
        if left.sum() <= tol * (variation + left.sum()) or left[pivot] <= least:
            break
        if found == store.shape[0]:
            store = np.concatenate([store, np.empty((min(found, rank - found), n))])
        root = np.sqrt(left[pivot])
        row = (column(pivot) - store[:found, pivot] @ store[:found]) / root
        row[pivots[:found]] = 0.0
        row[pivot] = root
        left -= row * row
        left[pivot] = 0.0
        _check_remaining(left, largest)
        np.maximum(left, 0.0, out=left)
        store[found], pivots[found] = row, pivot
        variation += float(row @ row - row.sum() ** 2 / n)
        found += 1
    return CholeskyFactor(np.ascontiguousarray(store[:found].T), pivots[:found].copy(), left)


def pivoted_cholesky_dense(K: FloatArray, rank: int, tol: float) -> CholeskyFactor:
    """Factor a positive semidefinite matrix held in memory; otherwise as `pivoted_cholesky`.

    LAPACK's blocked routine finds all columns, then those past the tolerance are dropped: at full rank some
    twenty times faster than column by column.

    Examples
    --------
    >>> pivoted_cholesky_dense(np.ones((3, 3)), rank=3, tol=0.0).factor.ravel().tolist()
    [1.0, 1.0, 1.0]
    """
    diagonal = np.diag(K)
    n, largest = len(K), float(diagonal.max())
    _check_start(diagonal, largest)
    check(n**3)
    packed, order, found, _ = dpstrf(K, lower=1, tol=n * np.finfo(float).eps * largest)
    order = order - 1  # LAPACK counts from one
    lower = np.tril(packed)[:, :found]
    squares = np.einsum("ij,ij->j", lower, lower)
    missing, variation = diagonal.sum() - np.cumsum(squares), np.cumsum(squares - lower.sum(axis=0) ** 2 / n)
    enough = np.flatnonzero(missing <= tol * (variation + missing))
    kept = min(rank, found, *(enough[:1] + 1))
    factor = np.empty((n, kept))
    factor[order] = lower[:, :kept]
    left = diagonal - np.einsum("ij,ij->i", factor, factor)
    left[order[:kept]] = 0.0
    _check_remaining(left, largest)
    return CholeskyFactor(factor, order[:kept].astype(np.intp), np.maximum(left, 0.0))


def _check_start(diagonal: FloatArray, largest: float) -> None:
    if diagonal.min() < 0:
        worst = int(diagonal.argmin())
        raise DeclarationError(
            f"the kernel is not positive semidefinite: k(x, x) = {diagonal[worst]:.3g} at point {worst}. "
            "Use a positive semidefinite kernel, or Precomputed(K, repair='clip')."
        )
    if largest == 0:
        raise DeclarationError(
            "the kernel is zero at every point. Use another kernel, or points that are not all zero."
        )


def _check_remaining(left: FloatArray, largest: float) -> None:
    if left.min() < -1e-7 * largest:
        raise DeclarationError(
            f"the kernel is not positive semidefinite: pivot {left.min():.3g} at point "
            f"{int(left.argmin())} is negative. "
            "Use a positive semidefinite kernel, or Precomputed(K, repair='clip')."
        )
