"""One sweep over coordinates of the dual, compiled by numba; imported when the first solve runs."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def place_of(x: float, step: float, low: int, high: int, base: int, knots: Any, coefficients: Any) -> tuple[int, bool]:
    """Return the piece on which v + step ρ'(v) = x has its solution, or the knot at which v stands; and which."""
    for b in range(low, high):
        if x < knots[b] + step * (coefficients[base + b - low, 0] * knots[b] + coefficients[base + b - low, 1]):
            return b - low, False
        right = coefficients[base + b - low + 1, 0] * knots[b] + coefficients[base + b - low + 1, 1]
        if x < knots[b] + step * right:
            return b - low, True
    return high - low, False


@numba.njit(cache=True, nogil=True)
def distance(v: float, piece: int, low: int, high: int, knots: Any) -> float:
    """Return how far v is from the ends of its piece."""
    near = np.inf
    if piece > 0:
        near = min(near, v - knots[low + piece - 1])
    if piece < high - low:
        near = min(near, knots[low + piece] - v)
    return near


@numba.njit(cache=True, nogil=True)
def sweep(order: Any, Phi: Any, place: Any, slope: Any, shift: Any, weight: Any, norm: Any, term: Any,
          first: Any, knots: Any, coefficients: Any, u: Any, w: Any, threshold: float, keep: Any) -> float:
    """Minimise the dual over each coordinate in turn; return the largest change of an argument.

    With Q = a²‖φ‖² the argument moves by v' = v + Q(u' − u), and u' = −cρ'(v') gives
    v' = prox_{Qcρ}(v − Qu). The graph of ρ' is a polyline: pieces and, between them, knots where v stands.

    Parameters
    ----------
    order : (k,) int array
        The rows to visit.
    Phi : (N, r) float array
        Features; row i of the losses uses Phi[place[i]].
    slope : (m,) float array
        a_r times the label.
    shift, weight, norm : (m,) float arrays
        d, c and ‖φ‖².
    term : (m,) int array
        The function of each row; its knots are ``knots[first[t] : first[t + 1]]`` and its pieces follow
        ``coefficients[first[t] + t :]``, rows (2q, s).
    u, w : float arrays
        The dual point and w = Σ u a φ, updated.
    threshold : float
        A row on a linear piece, farther than this from its knots, is left out of the next sweeps.
    keep : (m,) bool array
        Cleared for such rows.
    """
    worst = 0.0
    r = Phi.shape[1]
    for k in range(len(order)):
        i = order[k]
        c, a, q = weight[i], slope[i], norm[i] * slope[i] * slope[i]
        if c == 0.0:
            keep[i] = False
            continue
        phi = Phi[place[i]]
        f = 0.0
        for j in range(r):
            f += phi[j] * w[j]
        v = a * f + shift[i]
        x, step = v - q * u[i], q * c
        low, high = first[term[i]], first[term[i] + 1]
        base = low + term[i]
        piece, at_knot = place_of(x, step, low, high, base, knots, coefficients)
        if at_knot:
            new = (knots[low + piece] - x) / q
        else:
            growth, s = coefficients[base + piece, 0], coefficients[base + piece, 1]
            new = -c * (growth * (x - step * s) / (1.0 + step * growth) + s)
        delta = new - u[i]
        worst = max(worst, abs(q * delta))
        if delta != 0.0:
            u[i] = new
            scale = a * delta
            for j in range(r):
                w[j] += scale * phi[j]
        elif not at_knot and coefficients[base + piece, 0] == 0.0 and distance(v, piece, low, high, knots) > threshold:
            keep[i] = False
    return worst
