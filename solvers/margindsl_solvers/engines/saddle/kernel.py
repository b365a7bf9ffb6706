"""Steps of the published stochastic methods, compiled by numba; imported when the first long run begins."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

FAST = {"reassoc", "contract", "nsz"}  # sums in any order, so that they are vectorised


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def gradient(i: int, j: int, u: Any, Phi: Any, labels: Any, weights: Any, shifts: Any, term: Any, first: Any,
             knots: Any, pieces: Any, ends: Any, second: Any) -> float:
    """Return G(u, y_i) and write ∂_uG(u, y_j) to `second`; for the arrays see `sweep`."""
    n, r = Phi.shape
    towards, met = np.zeros(r), np.zeros(r)
    linear = 0.0
    for p in range(n):
        second[p], c = 0.0, weights[p]
        if c > 0.0:
            t = term[p]
            x = min(max(-u[p] / c, ends[t, 0]), ends[t, 1])
            piece = first[t]
            while piece < first[t + 1] and x >= knots[piece]:
                piece += 1
            a, value, slope, bend = pieces[piece + t]
            linear -= c * (value + (x - a) * (slope + bend * (x - a))) - c * x * shifts[p]
            second[p] = slope + 2.0 * bend * (x - a) - shifts[p]
        own, other = labels[j, p] * u[p], labels[i, p] * u[p]
        for d in range(r):
            towards[d] += own * Phi[p, d]
        if i != j:
            for d in range(r):
                met[d] += other * Phi[p, d]
    for p in range(n):
        margin = 0.0
        for d in range(r):
            margin += Phi[p, d] * towards[d]
        second[p] -= labels[j, p] * margin
    square = 0.0
    for d in range(r):
        v = towards[d] if i == j else met[d]
        square += v * v
    return linear - 0.5 * square


@numba.njit(cache=True, nogil=True)
def drawn(law: Any, at: float) -> int:
    """Return the index at which the running sum of a law passes a share of its total."""
    goal, total = at * law.sum(), 0.0
    for k in range(len(law)):
        total += law[k]
        if total > goal:
            return k
    return len(law) - 1


@numba.njit(cache=True, nogil=True)
def descend(mu: Any, u: Any, i: int, change: float, second: Any, length: float, lower: Any, upper: Any,
            new_mu: Any, new_u: Any) -> None:
    """Write μ with entry i times exp(change), normalised, and Π(u + length · second)."""
    logits = np.log(np.maximum(mu, 1e-300))
    logits[i] += change
    logits = np.exp(logits - logits.max())
    new_mu[:] = logits / logits.sum()
    for p in range(len(u)):
        new_u[p] = min(max(u[p] + length * second[p], lower[p]), upper[p])


@numba.njit(cache=True, nogil=True)
def sweep(draws: Any, done: int, rate: float, length: float, mu: Any, u: Any, mean_mu: Any, mean_u: Any, lower: Any,
          upper: Any, Phi: Any, labels: Any, weights: Any, shifts: Any, term: Any, first: Any, knots: Any, pieces: Any,
          ends: Any) -> None:
    """Take steps of mirror descent, or of mirror prox where each has two pairs of draws; all is updated in place.

    Shapes: `Phi` (n, r), `labels` (T, n).

    `draws` (steps, 1 or 2, 2): uniform numbers that draw i and j at each gradient; `done`: steps in the means so far;
    `rate`, `length`: η/a and η/b; `lower`, `upper` (n,): the box; `term` (n,): the loss of each point; its conjugate
    has the knots ``knots[first[t] : first[t + 1]]`` and its pieces follow ``pieces[first[t] + t :]``, rows (a, ρ*(a),
    ρ*'(a), ρ*''/2); ``ends[t]`` is its domain.
    """
    count = len(mu)
    half_mu, half_u, second = mu.copy(), u.copy(), np.empty(len(u))
    for k in range(len(draws)):
        at_mu, at_u = mu, u
        for g in range(draws.shape[1]):
            i = min(int(draws[k, g, 0] * count), count - 1)
            value = gradient(i, drawn(at_mu, draws[k, g, 1]), at_u, Phi, labels, weights, shifts, term, first, knots,
                             pieces, ends, second)
            if g + 1 < draws.shape[1]:
                descend(mu, u, i, -rate * count * value, second, length, lower, upper, half_mu, half_u)
                at_mu, at_u = half_mu, half_u
        share = 1.0 / (done + k + 1)
        mean_mu += (at_mu - mean_mu) * share
        mean_u += (at_u - mean_u) * share
        descend(mu, u, i, -rate * count * value, second, length, lower, upper, mu, u)
