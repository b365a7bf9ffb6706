"""What functions take and give: numbers, steps, weights, points of intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.errors import CalculusError
from margindsl.typing import ArrayLike, FloatArray


def shaped(values: ArrayLike) -> Any:
    """Return an array as it is, and a zero-dimensional one as a float."""
    return float(values) if np.ndim(values) == 0 else values  # type: ignore[arg-type]


def number(value: object, name: str) -> float:
    """Return a finite float, or refuse with a sentence naming it."""
    try:
        result = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        result = float("nan")
    if not np.isfinite(result):
        raise CalculusError(f"{name} {value!r} is not a finite number; give a real number")
    return result


def finite_member(lower: float, upper: float) -> float | None:
    """Return a finite point of an interval: an end, else zero; None for an interval at infinity."""
    return next((x for x in (lower, upper, 0.0) if np.isfinite(x) and lower <= x <= upper), None)


def checked_step(step: ArrayLike) -> FloatArray:
    """Return the steps as an array of positive finite floats, or refuse."""
    values = np.asarray(step, dtype=float)
    if values.ndim == 0 and 0.0 < float(values) < np.inf:
        return values
    if values.size and not (values.min() > 0 and values.max() < np.inf):
        raise CalculusError("a proximal step must be positive and finite; "
                            f"given a smallest step of {values.min():g}")
    return values


def refuse_negative_weights(weights: FloatArray) -> None:
    """Refuse weights that are negative or NaN."""
    if weights.size and not np.all(weights >= 0):
        raise CalculusError(f"weight {weights.min():g} of a convex function would make it concave; "
                            "give non-negative weights")
