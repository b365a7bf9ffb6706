"""Find the triangle inequalities that a label matrix violates most."""

from __future__ import annotations

import numpy as np

from margindsl.program.cuts import MatrixCuts
from margindsl.typing import FloatArray, IntArray

MIXED: IntArray = np.array([[1, 1, -1], [1, -1, 1], [-1, 1, 1]])  # hold for the codes of any number of clusters
PATTERNS: IntArray = np.vstack([[[1, 1, 1]], MIXED])


def violated_triangles(M: FloatArray, most: int, tol: float = 1e-4, patterns: IntArray = PATTERNS) -> MatrixCuts:
    """Return the most violated inequalities s_ij M_ij + s_ik M_ik + s_jk M_jk ≥ −1 of a label matrix.

    Parameters
    ----------
    M : (N, N) float array
        Symmetric, with unit diagonal.
    most : int
        Most cuts returned.
    tol : float
        Violation that is passed over.
    patterns : (p, 3) int array
        The signs looked at.

    Returns
    -------
    MatrixCuts
        Most violated first.

    Examples
    --------
    >>> M = np.full((3, 3), -0.5) + 1.5 * np.eye(3)
    >>> violated_triangles(M, 10).rows.tolist()
    [[0, 0, 1]]
    """
    found: list[tuple[FloatArray, IntArray, IntArray]] = []
    for i in range(len(M) - 2):
        j, k = np.triu_indices(len(M) - i - 1, 1)
        j, k = j + i + 1, k + i + 1
        products = np.stack([patterns[:, 0] * patterns[:, 1], patterns[:, 0] * patterns[:, 2],
                             patterns[:, 1] * patterns[:, 2]])
        values = products.T @ np.stack([M[i, j], M[i, k], M[j, k]])
        pattern, pair = np.nonzero(values < -1.0 - tol)
        depth = values[pattern, pair]
        if len(depth) > most:
            chosen = np.argpartition(depth, most)[:most]
            pattern, pair, depth = pattern[chosen], pair[chosen], depth[chosen]
        found.append((depth, np.column_stack([np.full(len(pair), i), j[pair], k[pair]]), patterns[pattern]))
    if not found:
        return MatrixCuts.none()
    depth, triples, signs = (np.concatenate(part) for part in zip(*found))
    order = np.argsort(depth, kind="stable")[:most]
    return MatrixCuts.triangles(triples[order], signs[order])
