"""Decision values computed again: whether features are those a solution was found over."""

from __future__ import annotations

import numpy as np

from margindsl.features.operator import FeatureOperator
from margindsl.typing import FloatArray

# Features built again agree to rounding on one machine; another one may sum in another order.
ACCURACY, ROUNDING = 1e-6, 1e-13


def first_other(features: FeatureOperator, weights: FloatArray, bias: FloatArray | float,
                decision: FloatArray) -> int | None:
    """Return the first point to which features and weights give another decision value, None when there is none.

    Shapes: `weights` (r,), `bias` (k,).

    Parameters
    ----------
    features : FeatureOperator
        As many points as decision values, of the rank of the weights.
    decision : (n,) or (n, k) float array
        The values features · weights + bias once had.
    """
    decision = np.asarray(decision, dtype=float)
    finite = np.isfinite(decision)
    if not np.any(finite):
        return None
    values = decision[finite]
    # Values that hardly differ from one another, beside a large bias, must not hide other features.
    weights = np.asarray(weights, dtype=float)
    allowed = ACCURACY * float(np.ptp(values)) + ROUNDING * (float(np.abs(values).max()) + float(np.abs(bias).max()))
    rounded = ROUNDING * np.outer(np.sqrt(features.row_norms()), np.linalg.norm(weights, axis=0))
    found = np.asarray(features.apply(weights)) + bias
    other = finite & ~(np.abs(found - decision) <= allowed + rounded.reshape(decision.shape))
    return int(np.argwhere(other)[0][0]) if np.any(other) else None


__all__ = ["first_other"]
