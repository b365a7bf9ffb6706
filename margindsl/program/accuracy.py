"""What rounding does to sums, and gaps relative to the values they lie between."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

EPS = float(np.finfo(float).eps)


def rounding(parts: Any, count: Any = 1) -> Any:
    """Return how far rounding may move a floating-point sum of so many terms, `parts` being the sum of their sizes.

    Pairwise sums err by at most eps log2(m) of their parts; what users compute, as 0.1 * n, by a few eps more.

    Parameters
    ----------
    parts : float or array
    count : int or int array
    """
    return EPS * (8.0 + np.log2(np.maximum(count, 1))) * parts


def relative_gap(value: float, bound: float, noise: float = 0.0) -> float:
    """Return (|value − bound| − noise)₊ / |value|: 0 where the two agree but for rounding, inf where none is finite.

    The one measure of accuracy: it has no unit, so that objectives times c are solved alike for every c > 0.

    Parameters
    ----------
    value, bound : float
    noise : float
        What rounding may have done to the difference, `rounding` of the sizes of all that was summed.

    Examples
    --------
    >>> relative_gap(2e-12, 1e-12), relative_gap(0.0, 0.0)
    (0.5, 0.0)
    """
    difference = abs(value - bound) - noise
    if not difference > 0:
        return 0.0 if math.isfinite(difference) else math.inf
    return difference / abs(value) if value else math.inf


__all__ = ["EPS", "relative_gap", "rounding"]
