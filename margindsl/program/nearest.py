"""The nearest point within bounds on linear functions: the correction that makes a primal point feasible."""

from __future__ import annotations

import math

import numpy as np
import scipy

from margindsl.typing import FloatArray

ROUNDS = 3  # corrections of what rounding leaves
ROUNDING = 1e-14  # relative size of a violation that is rounding alone


def nearest(z: FloatArray, N: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the point of {lower ≤ N z ≤ upper} nearest to z, by least distance programming.

    The step d of least norm with G d ≥ h, h = the ends less G z, is read off a non-negative least squares
    problem (Lawson and Hanson 1974, chapter 23), so that bounds that meet in an edge or in a point are met
    too. Where no point is within the bounds, all violated rows are met in the sense of least squares.

    Shapes: `z` (p,).

    Parameters
    ----------
    N : (J, p) float array
        A few rows.
    lower, upper : (J,) float arrays
        Ends, infinite where there is none.

    Examples
    --------
    >>> N, half = np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([0.5, -np.inf])
    >>> nearest(np.array([0.0, 1.0]), N, half, np.array([np.inf, 0.3])).round(9).tolist()
    [0.5, 0.0]
    """
    z = np.array(z, dtype=float)
    norms = np.linalg.norm(N, axis=1)
    kept = norms > 0
    N, lower, upper = N[kept] / norms[kept, None], lower[kept] / norms[kept], upper[kept] / norms[kept]
    ends = np.concatenate([lower, -upper])
    finite = np.isfinite(ends)
    rows, ends = np.vstack([N, -N])[finite], ends[finite]
    for _ in range(ROUNDS):
        missing = ends - rows @ z
        if not np.any(missing > ROUNDING * np.abs(ends)):
            break
        z += _step(rows, missing)
    return z


def _step(rows: FloatArray, missing: FloatArray) -> FloatArray:
    """Return the shortest d with ⟨row, d⟩ ≥ missing."""
    basis = np.linalg.qr(rows.T)[0]  # the step lies in the span of the rows
    G, scale = rows @ basis, float(missing.max())
    target = np.append(np.zeros(G.shape[1]), 1.0)
    try:
        weights, _ = scipy.optimize.nnls(np.vstack([G.T, missing / scale]), target)
    except RuntimeError:
        weights = np.zeros(len(missing))
    residual = target - np.vstack([G.T, missing / scale]) @ weights
    violated = missing > 0
    if residual[-1] > math.sqrt(np.finfo(float).eps):
        violated = weights > 0
    return basis @ np.linalg.lstsq(G[violated], missing[violated], rcond=None)[0]
