"""Linear systems of Newton steps: positive definite ones, and with a border that is eliminated last."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dposv

from margindsl.host.clock import check
from margindsl.typing import FloatArray

TINY = float(np.finfo(float).tiny)


def bordered(inverse: Callable[[FloatArray], FloatArray], gradient: FloatArray, side: FloatArray,
             corner: FloatArray, r: int) -> FloatArray:
    """Return the step by eliminating w: the Schur complement of the bias and the scalars."""
    solved = inverse(np.column_stack([gradient[:r], side]))
    if not len(corner):
        return -solved[:, 0]
    schur = corner - side.T @ solved[:, 1:]
    border = solve_positive(0.5 * (schur + schur.T), gradient[r:] - side.T @ solved[:, 0])
    return -np.concatenate([solved[:, 0] - solved[:, 1:] @ border, border])


def solve_positive(H: FloatArray, right: FloatArray, lower: bool = False) -> FloatArray:
    """Solve H x = right by one triangle of H, lifting the diagonal until Cholesky succeeds."""
    if not right.size:  # which scipy before 1.14 does not factor
        return right
    check(len(H) ** 3 / 3)
    lift, sizes = 0.0, np.maximum(np.abs(np.diag(H)), TINY)
    for _ in range(12):
        _, solved, failed = dposv(H + np.diag(lift * sizes) if lift else H, right, lower=lower)
        if not failed:
            return np.asarray(solved).reshape(right.shape)
        lift = max(1e-14, 30.0 * lift)
    return (right.T / sizes).T
