"""Nystroem factors through landmarks drawn from the points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from margindsl.errors import DeclarationError
from margindsl.features.kernels import Kernel
from margindsl.features.points import Points, row_blocks
from margindsl.host.clock import EIGEN_WORK, check
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class NystromFactor:
    """Hold K ~ factor factor^T with factor = K[:, landmarks] projection.

    Parameters
    ----------
    projection : ndarray (m, r)
        U Lambda^{-1/2} of the landmark kernel matrix U Lambda U^T.
    residual : ndarray (n,), non-negative
        Diagonal of K - factor factor^T.
    """

    factor: FloatArray  # (n, r)
    landmarks: IntArray  # (m,)
    projection: FloatArray
    residual: FloatArray


def nystrom(kernel: Kernel, X: Points, rank: int, rng: np.random.Generator) -> NystromFactor:
    """Factor the kernel matrix through `rank` landmarks drawn uniformly without replacement.

    With equal generators the landmarks of a smaller rank are among those of a larger one, so the trace error
    never grows with the rank. O(n m (d + m)) time, O(n m) memory.

    Parameters
    ----------
    rank : int
        Landmarks m; the factor has fewer columns if their kernel matrix is rank deficient.

    References
    ----------
    Williams and Seeger, Using the Nystroem method to speed up kernel machines, NIPS 2000.
    """
    n = X.shape[0]
    landmarks = rng.permutation(n)[: min(rank, n)]
    projection = inverse_root(kernel.matrix(X[landmarks], X[landmarks]))
    factor = np.empty((n, projection.shape[1]))
    for block in row_blocks(n, max(len(landmarks), X.shape[1])):
        check()
        factor[block] = kernel.matrix(X[block], X[landmarks]) @ projection
    residual = kernel.diagonal(X) - np.einsum("ij,ij->i", factor, factor)
    return NystromFactor(factor, landmarks, projection, np.maximum(residual, 0.0))


def inverse_root(W: FloatArray) -> FloatArray:
    """Return U Lambda^{-1/2} of the kernel matrix U Lambda U^T of landmarks, without its null space."""
    check(EIGEN_WORK * len(W) ** 3)
    values, vectors = eigh((W + W.T) / 2)
    if values[-1] <= 0 or values[0] < -1e-8 * values[-1]:
        raise DeclarationError(
            f"the kernel matrix of {len(W)} landmarks has eigenvalues from {values[0]:.3g} to "
            f"{values[-1]:.3g}; "
            "a positive semidefinite, non-zero kernel is expected. Use another kernel."
        )
    kept = values > 1e-12 * values[-1]
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))
