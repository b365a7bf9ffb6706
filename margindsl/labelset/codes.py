"""Codes of labels: one unit vector a cluster, −1 and +1 of two."""

from __future__ import annotations

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.typing import FloatArray


def contrasts(clusters: int, square: float = 1.0) -> FloatArray:
    """Return a basis B (k, k−1) of the vectors that sum to zero (Helmert's), BᵀB = square · I.

    Decision values f = Φ V Bᵀ of k clusters sum to zero at every point, and ‖V Bᵀ‖ = ‖V‖ where B is orthonormal.

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
    return np.asarray(basis * np.sqrt(square / (step * (step + 1.0))))


def simplex_codes(clusters: int) -> FloatArray:
    """Return unit vectors c_0, …, c_{k−1} in R^{k−1} with inner products −1/(k−1), as rows; two are −1 and +1 exactly.

    References
    ----------
    Y. Mroueh, T. Poggio, L. Rosasco, J.-J. Slotine (2012). Multiclass learning with simplex coding, Definition 1.

    Examples
    --------
    >>> simplex_codes(2).tolist()
    [[-1.0], [1.0]]
    >>> (simplex_codes(3) @ simplex_codes(3).T).round(4).tolist()
    [[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]]
    """
    return contrasts(clusters, clusters / (clusters - 1.0))


def differences(codes: FloatArray) -> FloatArray:
    """Return the rows (P, q) whose products with outputs are bounded where sums of decision values are.

    They are the differences c_p − c_q of every two clusters, p < q; of two alone the code +1, whose product is f.
    """
    first, second = np.triu_indices(len(codes), 1)
    return np.asarray(codes[1:] if len(codes) == 2 else codes[first] - codes[second])
