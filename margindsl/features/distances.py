"""Inner products and distances between two sets of points, dense or sparse."""

from __future__ import annotations

import numpy as np
import scipy
import scipy.sparse as sp

from margindsl.features.points import Points, row_blocks
from margindsl.typing import FloatArray

CANCELLED = 1e-4  # of the norms: distances this small have lost four digits of an expansion


def squared_distances(X: Points, Z: Points) -> FloatArray:
    """Return |x_i - z_j|^2, non-negative.

    Large dense sets go through a matrix product about the mean of Z, so that a common offset costs no digits.

    Shapes: `X` (n, d), `Z` (m, d).
    """
    if sp.issparse(X) or sp.issparse(Z):
        norms = squared_norms(X)
        values = norms[:, None] + squared_norms(Z) - 2 * inner_products(X, Z)
        _take_differences(values, X, Z, norms)
        return np.maximum(values, 0.0, out=values)
    X, Z = np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64)
    if Z.shape[0] < 16 or Z.shape[1] < 16:
        return np.asarray(scipy.spatial.distance.cdist(X, Z, "sqeuclidean"))
    # |x|^2 + |z|^2 - 2 <x, z> expanded about a centre, differences where over four digits cancel.
    centre = Z.mean(axis=0)
    about_x, about_z = X - centre, Z - centre
    values = about_x @ about_z.T
    values *= -2
    norms_x, norms_z = squared_norms(about_x), squared_norms(about_z)
    values += norms_x[:, None]
    values += norms_z
    if np.count_nonzero(values < CANCELLED * norms_x[:, None]) > values.size // 50:
        return np.asarray(scipy.spatial.distance.cdist(X, Z, "sqeuclidean"))
    _take_differences(values, X, Z, norms_x)
    return np.maximum(values, 0.0, out=values)


def _take_differences(values: FloatArray, X: Points, Z: Points, norms: FloatArray) -> None:
    """Replace expanded distances in which over four digits cancel against the norms (n,) of X, in blocks of pairs."""
    i, j = np.nonzero(values < CANCELLED * norms[:, None])
    width = max(1, (X.nnz + Z.nnz) // (X.shape[0] + Z.shape[0])) if sp.issparse(X) and sp.issparse(Z) else X.shape[1]
    for begin in range(0, len(i), step := max(2**22 // max(width, 1), 1)):
        rows, columns = i[begin:begin + step], j[begin:begin + step]
        values[rows, columns] = squared_norms(X[rows] - Z[columns])


def inner_products(X: Points, Z: Points) -> FloatArray:
    """Return <x_i, z_j> densely, shape (n, m), for ndarray or csr_array X (n, d) and Z (m, d)."""
    values = X @ Z.T
    return values.toarray() if sp.issparse(values) else np.asarray(values, dtype=np.float64)


def squared_norms(X: Points) -> FloatArray:
    """Return |x_i|^2, shape (n,), for an ndarray, memory map or csr_array X (n, d)."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    norms = np.empty(X.shape[0])
    for block in row_blocks(*X.shape):
        part = np.asarray(X[block], dtype=np.float64)
        norms[block] = np.einsum("ij,ij->i", part, part)
    return norms
