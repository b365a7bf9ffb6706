"""One sweep over coordinates of the dual, compiled by numba; imported when the first solve runs."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


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
        piece, at_knot = high - low, False
        for b in range(low, high):
            if x < knots[b] + step * (coefficients[base + b - low, 0] * knots[b] + coefficients[base + b - low, 1]):
                piece = b - low
                break
            right = coefficients[base + b - low + 1, 0] * knots[b] + coefficients[base + b - low + 1, 1]
            if x < knots[b] + step * right:
                piece, at_knot = b - low, True
                break
        if at_knot:
            moved = knots[low + piece]
            new = (moved - x) / q
        else:
            growth, s = coefficients[base + piece, 0], coefficients[base + piece, 1]
            moved = (x - step * s) / (1.0 + step * growth)
            new = -c * (growth * moved + s)
        delta = new - u[i]
        worst = max(worst, abs(q * delta))
        if delta != 0.0:
            u[i] = new
            scale = a * delta
            for j in range(r):
                w[j] += scale * phi[j]
        elif not at_knot and coefficients[base + piece, 0] == 0.0:
            near = np.inf
            if piece > 0:
                near = min(near, v - knots[low + piece - 1])
            if piece < high - low:
                near = min(near, knots[low + piece] - v)
            if near > threshold:
                keep[i] = False
    return worst
