"""What rounding does to sums, and gaps relative to the values they lie between."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

EPS = float(np.finfo(float).eps)


def rounding(parts: Any, count: Any = 1) -> Any:
    """Return how far rounding may move a floating-point sum of so many terms, `parts` being the sum of their sizes.

    Pairwise sums err by at most eps log2(m) of their parts; what users compute, as 0.1 * n, by a few eps more.
    """
    return EPS * (8.0 + np.log2(np.maximum(count, 1))) * parts


def without_rounding(totals: Any, parts: Any) -> Any:
    """Return sums, zero where they are what rounding leaves of parts that cancel.

    Parameters
    ----------
    totals, parts : float or array
        Sums, and the sums of the sizes of what was added up.

    Examples
    --------
    >>> without_rounding([0.1 + 0.2 - 0.3, 1e-17], [0.6, 1e-17]).tolist()
    [0.0, 1e-17]
    """
    return np.where(np.abs(totals) <= rounding(np.asarray(parts)), 0.0, totals)


def relative_gap(value: float, bound: float, noise: float = 0.0, negligible: float = 0.0) -> float:
    """Return (|value − bound| − noise)₊ / |value|: 0 where the two agree but for rounding, inf where one is infinite.

    The one measure of accuracy: it has no unit, so that objectives times c are solved alike for every c > 0.

    Parameters
    ----------
    noise : float
        What rounding may have done to the difference, `rounding` of the sizes of all that was summed.
    negligible : float
        Least size the difference is compared with, of a problem whose value may be zero exactly.
    """
    difference = abs(value - bound) - noise
    if not difference > 0:
        return 0.0 if math.isfinite(difference) else math.inf
    size = max(abs(value), negligible)
    return difference / size if size > 0 else math.inf


def greatest_ratio(numbers: Any, sizes: Any) -> float:
    """Return max |number| / size, 0 where a number is zero whatever its size."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(numbers) / np.asarray(sizes)
    return float(np.max(np.where(np.asarray(numbers) == 0, 0.0, ratios), initial=0.0))


def eigenvalues(matrix: Any) -> Any:
    """Return the eigenvalues of a symmetric matrix in ascending order, −inf and inf where they cannot be had."""
    found = eigenpairs(matrix, vectors=False)
    return np.array([-math.inf, math.inf]) if found is None else found[0]


def eigenpairs(matrix: Any, vectors: bool = True) -> tuple[Any, Any] | None:
    """Return (eigenvalues, eigenvectors) of a symmetric matrix; None where entries overflowed or nothing converges.

    Shapes: `matrix` (N, N).

    Parameters
    ----------
    vectors : bool
        Whether eigenvectors are wanted.
    """
    if not np.all(np.isfinite(matrix)):
        return None
    try:
        return np.linalg.eigh(matrix) if vectors else (np.linalg.eigvalsh(matrix), None)
    except np.linalg.LinAlgError:
        return None
