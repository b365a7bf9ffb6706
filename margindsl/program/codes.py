"""Codes of k clusters: one unit vector a cluster."""

from __future__ import annotations

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.typing import FloatArray


def contrasts(clusters: int) -> FloatArray:
    """Return an orthonormal basis B (k, k−1) of the vectors that sum to zero (Helmert's).

    Decision values f = Φ V Bᵀ of k clusters sum to zero at every point, and ‖V Bᵀ‖ = ‖V‖.

    Parameters
    ----------
    clusters : int, at least 2

    Raises
    ------
    DeclarationError
        If there are fewer than two clusters.

    Examples
    --------
    >>> contrasts(2).round(4).tolist()
    [[-0.7071], [0.7071]]
    """
    if clusters < 2:
        raise DeclarationError(f"codes of {clusters} clusters: expected at least 2")
    step = np.arange(1, clusters)
    basis = np.where(np.arange(clusters)[:, None] < step, -1.0, 0.0)
    basis[step, step - 1] = step
    return basis / np.sqrt(step * (step + 1.0))


def simplex_codes(clusters: int) -> FloatArray:
    """Return unit vectors c_0, …, c_{k−1} in R^{k−1} with inner products −1/(k−1), as rows.

    For two clusters c_0 = −1 and c_1 = +1.

    Parameters
    ----------
    clusters : int, at least 2

    References
    ----------
    Y. Mroueh, T. Poggio, L. Rosasco, J.-J. Slotine (2012). Multiclass learning with simplex coding, Definition 1.

    Examples
    --------
    >>> simplex_codes(2).round(4).tolist()
    [[-1.0], [1.0]]
    >>> (simplex_codes(3) @ simplex_codes(3).T).round(4).tolist()
    [[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]]
    """
    return contrasts(clusters) * np.sqrt(clusters / (clusters - 1.0))
