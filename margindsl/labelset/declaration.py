"""Known labels and sizes as they were declared, checked where they are written: what they come to together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.errors import ContradictionError
from margindsl.labelset.names import Names
from margindsl.typing import FloatArray, IntArray


def read_known(known: Any, names: Names) -> tuple[IntArray, IntArray]:
    """Return indices and labels 0..k-1 of a pair (indices, written values); refuse two labels of one point."""
    index, value = np.asarray(known[0], dtype=np.intp), names.read(known[1])
    order = np.argsort(index, kind="stable")
    twice = order[1:][(np.diff(index[order]) == 0) & (np.diff(value[order]) != 0)]
    if twice.size:
        point = int(index[twice[0]])
        labels = [names.shown(label) for label in dict.fromkeys(value[index == point].tolist())]
        raise ContradictionError(f"point {point} has two known labels, {labels[0]} and {labels[1]}; keep one of them.",
                                 [(point, point, "known label")])
    return index, value


def read_sizes(sizes: Iterable[Any], n: int, clusters: int) -> tuple[IntArray, IntArray]:
    """Return what limits (at_least, at_most) come to together, whole numbers within 0..n."""
    at_least, at_most = np.zeros(clusters, dtype=np.intp), np.full(clusters, n, dtype=np.intp)
    for low, high in sizes:
        fewest, most = whole_sizes(low, high, n)
        at_least, at_most = np.maximum(at_least, fewest), np.minimum(at_most, most)
    return at_least, at_most


def whole_sizes(low: Any, high: Any, n: int) -> tuple[IntArray, IntArray]:
    """Return the whole numbers within limits on sizes, which may be fractions of n off by rounding."""
    return (np.ceil(_lowered(np.clip(low, 0, n + 1))).astype(np.intp),
            np.floor(-_lowered(-np.clip(high, -1, n))).astype(np.intp))


def _lowered(limits: FloatArray) -> FloatArray:
    """Return limits less what rounding may have added to them, so that 0.1 * 30 asks for three points."""
    return np.asarray(limits - rounding(np.abs(limits), 1))
