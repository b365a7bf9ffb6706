"""Labellings by the coordinates of their codes, and by names that mean nothing."""

from __future__ import annotations

import numpy as np

from margindsl.typing import FloatArray, IntArray


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
