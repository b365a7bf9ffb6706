"""Whether the features of a proof are those of some points, and its decision values those of its weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.proof.check import EPS

CLOSE = 1e-9  # relative to the length of the points
ROUNDED = 64 * EPS  # times the largest size of the parts of a decision value, times their count
BLOCK = 5000


def check_decision(header: dict[str, Any], arrays: dict[str, Any]) -> list[str]:
    """Return how the decision values and the bias of a proof differ from those of its weights.

    Parameters
    ----------
    header, arrays : dict
        Of the proof, with `phi`.
    """
    phi, w = arrays["phi"], arrays["w"]
    f, size = phi @ w, np.max(np.abs(phi) @ np.abs(w))  # features may be what projections and means leave of large ones
    off = ~(np.abs(f - np.reshape(arrays["decision"], f.shape)).max(axis=1) <= ROUNDED * (sum(phi.shape) + 8) * size)
    if not header["penalised"] and np.any((w[-1] if header["free_bias"] else 0.0) != np.asarray(header["bias"])):
        return ["the bias is not that of the weights"]
    return [f"decision values are not those of the weights, at point {int(np.argmax(off))}"] if off.any() else []


def check_data(header: dict[str, Any], arrays: dict[str, Any], X: Any) -> list[str]:
    """Return how the features of a proof differ from linear features of points.

    Shapes: `X` (n, d).

    Parameters
    ----------
    header, arrays : dict
        Of the proof, with `phi`.
    """
    X, phi = np.asarray(X, dtype=float), arrays["phi"]
    if not header["linear"]:
        return ["the features are not linear ones of the points, and cannot be made again without the problem"]
    if X.ndim != 2 or len(X) != len(phi):
        return [f"the data have {len(X)} points, the proof {len(phi)}"]
    phi = phi[:, :-1] if header["free_bias"] else phi
    rough = 64 * EPS * np.sqrt(np.sum(X**2, axis=1))  # what centring may leave of points that are all alike
    X = X - X.mean(axis=0) if header["centre"] else X
    X = np.column_stack([X, np.ones(len(X))]) if header["penalised"] else X
    norms = np.sqrt(np.sum(X**2, axis=1)) + rough / CLOSE
    if X.shape == phi.shape and np.all(np.abs(X - phi) <= CLOSE * norms[:, None]):
        return []
    norms = norms + 64 * EPS * norms.max(initial=0.0) / CLOSE  # what rotating the others leaves of a point that is zero
    for i in range(0, len(X), BLOCK):  # features may be rotated: their products count
        part = slice(i, i + BLOCK)
        if np.any(np.abs(X[part] @ X.T - phi[part] @ phi.T) > CLOSE * np.outer(norms[part], norms)):
            return ["the features are not those of the data"]
    return []


__all__ = ["check_data", "check_decision"]
