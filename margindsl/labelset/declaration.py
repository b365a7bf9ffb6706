"""Reading what the user declared: indices, pairs, known labels and bounds, checked first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.errors import ContradictionError, DeclarationError, InfeasibleError
from margindsl.labelset.names import Names
from margindsl.typing import FloatArray, IntArray


def read_pairs(pairs: Any, n: int, kind: str) -> IntArray:
    """Check an (m, 2) array of point indices and return it as integers."""
    table = _numeric(() if pairs is None else pairs, f"{kind} pairs", "an integer array of shape (m, 2)")
    if table.size == 0:
        return np.zeros((0, 2), dtype=np.intp)
    if table.ndim != 2 or table.shape[1] != 2:
        raise DeclarationError(f"{kind} pairs have shape {table.shape}; expected (m, 2), one row (i, j) per link.")
    _refuse_indices(table, n, f"{kind} pair")
    links: IntArray = table.astype(np.intp)
    loops = np.flatnonzero(links[:, 0] == links[:, 1])
    if loops.size:
        row = int(loops[0])
        raise DeclarationError(f"{kind} pair {_shown(links[row])} at position {row} links a point with itself; "
                               "remove it or link two different points.")
    return links


def read_known(known: Any, n: int, names: Names) -> tuple[IntArray, IntArray]:
    """Check a pair (indices, written values) of known labels and return indices and labels 0..k-1."""
    if known is None:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    try:
        raw_index, raw_value = known
    except (TypeError, ValueError):
        raise DeclarationError(
            "known labels were not given as a pair (indices, values); pass two arrays.") from None
    index = _numeric(raw_index, "known-label indices", "an integer array")
    value = _numeric(raw_value, "known-label values", f"an array whose entries are {names.expected}")
    if index.ndim != 1 or index.shape != value.shape:
        raise DeclarationError(f"known labels have {index.shape} indices and {value.shape} values; expected two arrays "
                               "of one length.")
    _refuse_indices(index[:, None], n, "known-label index")
    wrong = np.flatnonzero(~names.is_label(value))
    if wrong.size:
        at = int(wrong[0])
        raise DeclarationError(f"the known label of point {int(index[at])} at position {at} is {value[at]!s}; "
                               f"expected {names.expected}.")
    index, value = index.astype(np.intp), names.read(value)
    order = np.argsort(index, kind="stable")
    twice = order[1:][(np.diff(index[order]) == 0) & (np.diff(value[order]) != 0)]
    if twice.size:
        point = int(index[twice[0]])
        labels = [names.shown(label) for label in dict.fromkeys(value[index == point].tolist())]
        raise ContradictionError(f"point {point} has two known labels, {labels[0]} and {labels[1]}; keep one of them.",
                                 [(point, point, "known label")])
    return index, value


def read_bounds(bounds: Iterable[Any], n: int) -> list[tuple[FloatArray, float, float]]:
    """Check a sequence of (weights, lower, upper) and return weights as float vectors of length n."""
    found = []
    for position, entry in enumerate(bounds or ()):
        try:
            given, lower, upper = entry
            lower, upper = float(lower), float(upper)
        except (TypeError, ValueError):
            raise DeclarationError(f"bound {position} was not given as (weights, lower, upper) with two numbers; pass "
                                   "such a triple.") from None
        weights = np.broadcast_to(1.0, n) if given is None else np.asarray(
            _numeric(given, f"weights of bound {position}", f"a vector of length {n}"), dtype=float)
        if weights.shape != (n,):
            raise DeclarationError(
                f"weights of bound {position} have shape {weights.shape}; expected ({n},), one weight per point.")
        if not np.isfinite(weights).all():
            point = int(np.flatnonzero(~np.isfinite(weights))[0])
            raise DeclarationError(
                f"weights of bound {position} hold {weights[point]} at point {point}; expected finite numbers.")
        if np.isnan(lower) or np.isnan(upper) or lower == np.inf or upper == -np.inf:
            raise DeclarationError(f"bound {position} has limits [{lower:g}, {upper:g}]; expected numbers, or -inf "
                                   "below and inf above.")
        if lower > upper:
            raise InfeasibleError(f"bound {position} has its lower limit {lower:g} above its upper limit {upper:g}; "
                                  "exchange or relax them.")
        found.append((weights, lower, upper))
    return found


def read_sizes(sizes: Iterable[Any] | None, n: int, clusters: int) -> tuple[IntArray, IntArray]:
    """Check a sequence of (at_least, at_most) and return their intersection, whole numbers within 0..n."""
    at_least, at_most = np.zeros(clusters, dtype=np.intp), np.full(clusters, n, dtype=np.intp)
    for position, entry in enumerate(() if sizes is None else sizes):
        try:
            low, high = (np.asarray(limits, dtype=float) for limits in entry)
        except (TypeError, ValueError):
            raise DeclarationError(f"sizes {position} were not given as (at_least, at_most) with two vectors of "
                                   "numbers; pass such a pair.") from None
        for name, limit in (("at_least", low), ("at_most", high)):
            if limit.shape != (clusters,):
                raise DeclarationError(f"{name} of sizes {position} has shape {limit.shape}; expected ({clusters},), "
                                       "one limit per cluster.")
            if np.isnan(limit).any():
                q = int(np.flatnonzero(np.isnan(limit))[0])
                raise DeclarationError(f"{name} of sizes {position} is nan for cluster {q}; expected numbers.")
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


def _numeric(values: Any, what: str, expected: str) -> Any:
    try:
        table = np.asarray(values)
    except ValueError:
        raise DeclarationError(f"{what} are ragged; expected {expected}.") from None
    if table.size == 0:
        return table.astype(float)
    if table.dtype.kind not in "iuf":
        raise DeclarationError(f"{what} have type {table.dtype}; expected {expected}.")
    return table


def _refuse_indices(rows: Any, n: int, what: str) -> None:
    if rows.dtype.kind == "f":
        fractional = np.flatnonzero((rows != np.floor(rows)).any(axis=1) | ~np.isfinite(rows).all(axis=1))
        if fractional.size:
            row = int(fractional[0])
            raise DeclarationError(
                f"{what} {_shown(rows[row])} at position {row} is not made of whole numbers; pass integer indices.")
    outside = np.flatnonzero(((rows < 0) | (rows >= n)).any(axis=1))
    if outside.size:
        row = int(outside[0])
        raise DeclarationError(
            f"{what} {_shown(rows[row])} at position {row} is out of range; expected indices from 0 to {n - 1}.")


def _shown(row: Any) -> str:
    parts = [f"{entry:g}" if row.dtype.kind == "f" else str(int(entry)) for entry in row]
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
