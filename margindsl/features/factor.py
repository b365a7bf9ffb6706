"""Kernel factors as feature operators: pivoted Cholesky, Nystroem, and given kernel matrices."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, eigvalsh

from margindsl.calculus.accuracy import EPS
from margindsl.errors import AccuracyWarning, DeclarationError
from margindsl.features.cholesky import pivoted_cholesky, pivoted_cholesky_dense
from margindsl.features.dense import FactorFeatures, about_mean
from margindsl.features.kernels import Kernel, Precomputed
from margindsl.features.maps import ColumnMap, LandmarkMap, PointMap, Whitening
from margindsl.features.nystrom import nystrom
from margindsl.features.operator import FeatureOperator
from margindsl.features.points import Points, check_points, is_lazy
from margindsl.features.streamed import kernel_column, kernel_diagonal, load, stream_kernel
from margindsl.host.clock import EIGEN_WORK, check
from margindsl.typing import FloatArray

FULL_RANK_POINTS = 2_000
DEFAULT_RANK = 500
CHOLESKY_POINTS = 20_000
FACTOR_BYTES = 2**28
CANCELLED = 1e8  # times the rounding of kernel values: what is left of fewer has lost half its digits


def factor_kernel(X: Points, kernel: Kernel, centre: bool, rng: np.random.Generator) -> FeatureOperator:
    """Factor a kernel on points: K ~ Phi Phi^T, centred to H K H if asked.

    Parameters
    ----------
    kernel : Kernel
        Its method "auto" is pivoted Cholesky up to 20,000 points, Nystroem above, whatever holds the points.
    centre : bool
        Subtract the mean feature.
    rng : numpy Generator
        Draws landmarks and the sample for a relative width.

    Returns
    -------
    FeatureOperator
        The factor in memory; or, for a Nystroem factor of a Dask array, and of a memory map where it would exceed
        256 MB, an operator that maps the points anew at each pass.
    """
    n = X.shape[0]
    kernel = kernel.fit(X, rng)
    rank = kernel.rank or (n if n <= FULL_RANK_POINTS else DEFAULT_RANK)
    sketched = kernel.method == "nystrom" or (kernel.method == "auto" and n > CHOLESKY_POINTS)
    if sketched and (is_lazy(X) or (isinstance(X, np.memmap) and 8 * n * rank > FACTOR_BYTES)):
        return stream_kernel(X, kernel, rank, centre, rng)
    if is_lazy(X) and 8 * n * X.shape[1] <= FACTOR_BYTES:
        X = load(X)
    if sketched:
        sketch = nystrom(kernel, X, rank, rng)
        whitening = Whitening(sketch.projection, triangular=False)
        point_map: PointMap = LandmarkMap(kernel, X[sketch.landmarks], whitening)
        return _finish(sketch.factor, point_map, f"{kernel.describe()}, Nystroem", sketch.residual, centre)

    if is_lazy(X):
        found = pivoted_cholesky(lambda j: kernel_column(X, kernel, j), kernel_diagonal(X, kernel), rank, kernel.tol)
    elif n <= FULL_RANK_POINTS and rank == n:
        # The factor itself may be n x n, so the whole matrix costs no more; blocks bound a callable's memory.
        blocks = []
        for start in range(0, n, 256):
            check()
            blocks.append(kernel.matrix(X[start : start + 256], X))
        found = pivoted_cholesky_dense(np.concatenate(blocks), rank, kernel.tol)
    else:
        found = pivoted_cholesky(
            lambda j: kernel.matrix(X, X[j : j + 1])[:, 0], kernel.diagonal(X), rank, kernel.tol)
    whitening = Whitening(found.factor[found.pivots], triangular=True)
    point_map = LandmarkMap(kernel, load(X[found.pivots]), whitening)
    return _finish(found.factor, point_map, f"{kernel.describe()}, pivoted Cholesky", found.residual, centre)


def factor_precomputed(kernel: Precomputed, centre: bool) -> FactorFeatures:
    """Factor a given kernel matrix, repairing it if the declaration says so.

    Parameters
    ----------
    centre : bool
        Subtract the mean feature, which gives H K H.
    """
    K = check_kernel_matrix(kernel.K)
    check(len(K) ** 3)
    n, lowest = len(K), lowest_eigenvalue(K)
    if lowest < 0 and kernel.repair is None:
        raise DeclarationError(
            f"the kernel matrix is indefinite: its lowest eigenvalue is {lowest:.3g} (largest "
            f"{eigvalsh(K)[-1]:.3g}). "
            "A positive semidefinite matrix is expected: repair='shift' adds it to the diagonal, "
            "repair='clip' sets negative eigenvalues to zero."
        )
    label = f"{kernel.describe()}, pivoted Cholesky"
    if lowest < 0 and kernel.repair == "clip":
        check(EIGEN_WORK * n**3)
        values, vectors = eigh(K)
        kept = values > 1e-12 * values[-1]
        root = vectors[:, kept] * np.sqrt(values[kept])
        point_map = ColumnMap(
            n, slice(None), Whitening(vectors[:, kept] / np.sqrt(values[kept]), triangular=False)
        )
        return _finish(root, point_map, f"{kernel.describe()}, eigenvectors", np.zeros(n), centre)
    if lowest < 0:
        K = K - lowest * np.eye(n)
    found = pivoted_cholesky_dense(K, kernel.rank or n, kernel.tol)
    whitening = Whitening(found.factor[found.pivots], triangular=True)
    return _finish(found.factor, ColumnMap(n, found.pivots, whitening), label, found.residual, centre)


def check_kernel_matrix(K: Any) -> FloatArray:
    """Check that a matrix is square, finite and symmetric, and average rounding asymmetry away."""
    checked = check_points(K, name="the kernel matrix")
    matrix = np.asarray(checked if isinstance(checked, np.ndarray) else checked.toarray(), dtype=np.float64)
    if matrix.shape[0] != matrix.shape[1]:
        raise DeclarationError(
            f"the kernel matrix has shape {matrix.shape}; a square (n, n) matrix is expected, one row and "
            "column per point."
        )
    gap = np.abs(matrix - matrix.T)
    if gap.max() > 1e-8 * np.abs(matrix).max():
        i, j = np.unravel_index(gap.argmax(), gap.shape)
        raise DeclarationError(
            f"the kernel matrix is not symmetric: K[{i}, {j}] and K[{j}, {i}] differ by {gap.max():.2e}. "
            "Give (K + K.T) / 2 if that is what you mean."
        )
    return (matrix + matrix.T) / 2


def lowest_eigenvalue(K: FloatArray) -> float:
    """Return the lowest eigenvalue of K if it is negative beyond rounding, else 0.

    Examples
    --------
    >>> lowest_eigenvalue(np.diag([1.0, -2.0])), lowest_eigenvalue(np.eye(2))
    (-2.0, 0.0)
    """
    slack = 1e-10 * max(float(np.abs(np.diag(K)).sum()), np.finfo(float).tiny)
    try:
        # A Cholesky factor of K + slack I exists iff lambda_min > -slack; far cheaper than eigenvalues.
        cholesky(K + slack * np.eye(len(K)), lower=True, overwrite_a=True, check_finite=False)
        return 0.0
    except LinAlgError:
        return min(0.0, float(eigvalsh(K, subset_by_index=[0, 0])[0]))


def _finish(
    factor: FloatArray, point_map: Any, label: str, residual: FloatArray, centre: bool
) -> FactorFeatures:
    if not centre:
        return FactorFeatures(factor, point_map, label, residual)
    centred, mean = about_mean(factor)
    shared, apart = (float(np.sum(part**2)) for part in (factor, centred))
    if 0.0 < apart < CANCELLED * EPS * shared:
        digits = max(math.log10(apart / shared / EPS), 0.0)
        warnings.warn(f"{label}: centring leaves {digits:.0f} digits of the kernel values, which share far more than "
                      "what tells the points apart: move the points near zero, or use kernel='linear', which does it "
                      "exactly", AccuracyWarning, stacklevel=2)
    whitening = point_map.whitening.centred(mean)
    centred_map = type(point_map)(**{**point_map.__dict__, "whitening": whitening})
    return FactorFeatures(centred, centred_map, label, residual, centred=True)
