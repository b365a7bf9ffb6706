"""Labellings by the coordinates of their codes, and by names that mean nothing."""

from __future__ import annotations

import numpy as np

from margindsl.typing import FloatArray, IntArray


def runner_up(decision: FloatArray, labels: IntArray) -> IntArray:
    """Return the (n,) strongest cluster other than a point's own, of decision values (n, k)."""
    rest = np.array(decision)
    rest[np.arange(len(labels)), labels] = -np.inf
    return rest.argmax(axis=1)


def code_rows(labellings: IntArray, codes: FloatArray | None) -> FloatArray | IntArray:
    """Return (T q, n) coordinates of the codes of T labellings, those of one labelling together; signs are their own.

    Shapes: `codes` (k, q).

    Parameters
    ----------
    labellings : (T, n) int array
        Signs, or clusters 0..k−1 where codes are given.

    Examples
    --------
    >>> code_rows(np.array([[1, -1]]), None).tolist(), code_rows(np.array([[1, 0]]), np.array([[-1.0], [1.0]])).tolist()
    ([[1, -1]], [[1.0, -1.0]])
    """
    if codes is None:
        return labellings
    return codes[labellings].transpose(0, 2, 1).reshape(-1, labellings.shape[1])


def stacked(columns: FloatArray, width: int) -> FloatArray:
    """Return (q r, T) vectors w, the columns of V one after another, of V (r, q) side by side, (r, T q)."""
    return np.ascontiguousarray(columns.T).reshape(columns.shape[1] // width, -1).T


def first_names(labellings: IntArray) -> IntArray:
    """Return labellings (T, n) with clusters numbered by first appearance: equal where names alone differ.

    Examples
    --------
    >>> first_names(np.array([[2, 0, 2, 1], [0, 1, 0, 2], [-1, 1, 1, 1]])).tolist()
    [[0, 1, 0, 2], [0, 1, 0, 2], [0, 1, 1, 1]]
    """
    found = [labellings == name for name in range(int(labellings.min()), int(labellings.max()) + 1)]
    first = np.stack([np.where(own.any(axis=1), own.argmax(axis=1), own.shape[1]) for own in found], axis=1)
    rank = np.argsort(np.argsort(first, axis=1, kind="stable"), axis=1, kind="stable")
    out = np.zeros(labellings.shape, dtype=np.min_scalar_type(len(found)))
    for own, place in zip(found, rank.T):
        out += own * place[:, None].astype(out.dtype)
    return out
