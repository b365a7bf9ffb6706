"""Codes of labels: one unit vector a cluster, −1 and +1 of two; labellings by them, and by names that mean nothing."""

from __future__ import annotations

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.typing import FloatArray, IntArray


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


def runner_up(decision: FloatArray, labels: IntArray) -> IntArray:
    """Return the (n,) strongest cluster other than a point's own, of decision values (n, k)."""
    rest = np.array(decision)
    rest[np.arange(len(labels)), labels] = -np.inf
    return rest.argmax(axis=1)


def code_rows(labellings: IntArray, codes: FloatArray) -> FloatArray | IntArray:
    """Return (T q, n) coordinates of the codes (k, q) of T labellings (T, n), those of one labelling together.

    Examples
    --------
    >>> code_rows(np.array([[1, 0]]), np.array([[-1.0], [1.0]])).tolist()
    [[1, -1]]
    """
    whole = codes.astype(np.int8)  # an eighth of the memory
    rows = (whole if np.array_equal(whole, codes) else codes)[labellings]
    return rows.transpose(0, 2, 1).reshape(-1, labellings.shape[1])


def stacked(columns: FloatArray, width: int) -> FloatArray:
    """Return (q r, T) vectors w, the columns of V one after another, of V (r, q) side by side, (r, T q)."""
    return np.ascontiguousarray(columns.T).reshape(columns.shape[1] // width, -1).T


def first_names(labellings: IntArray, heights: FloatArray | None = None) -> tuple[IntArray, FloatArray]:
    """Return labellings (T, n) with clusters numbered by first appearance, and heights (T, k) of clusters so named.

    Both are equal where names alone differ; heights of clusters that are empty are zero.

    Examples
    --------
    >>> first_names(np.array([[2, 0, 2, 1], [0, 1, 0, 2]]))[0].tolist()
    [[0, 1, 0, 2], [0, 1, 0, 2]]
    """
    k = int(labellings.max()) + 1 if heights is None else heights.shape[1]
    found = [labellings == name for name in range(k)]
    first = np.stack([np.where(own.any(axis=1), own.argmax(axis=1), own.shape[1]) for own in found], axis=1)
    order = np.argsort(first, axis=1, kind="stable")
    out = np.zeros(labellings.shape, dtype=np.min_scalar_type(k))
    for own, position in zip(found, np.argsort(order, axis=1, kind="stable").T):
        out += own * position[:, None].astype(out.dtype)
    given = np.zeros(first.shape) if heights is None else np.where(first < labellings.shape[1], heights, 0.0)
    return out, np.take_along_axis(given, order, axis=1) + 0.0  # no negative zeros
