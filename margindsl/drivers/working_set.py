"""Working set of cuts of the mean loss, solved over its dual by an interior-point method."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray


class WorkingSet:
    """Hold the cuts Ω, one row of slopes C/n c_k each, and solve Problem 11 over them at the present labels.

    Parameters
    ----------
    program : MarginProgram
        Two clusters, a loss of the margin alone that does not rise, one bound |Σf| ≤ l.
    labels : (n,) int array
    """

    def __init__(self, program: MarginProgram, labels: IntArray) -> None:
        self.program, self.labels = program, labels
        self.slack = 0.0
        self.mean = program.features.adjoint(np.full(program.n, 1.0 / program.n))
        self.reach = program.decision[0].upper / program.n
        self.slopes, self.offsets = np.zeros((0, program.n)), np.zeros(0)
        self.rows = np.zeros((0, program.features.rank))
        self.add(np.zeros(program.n))

    @property
    def count(self) -> int:
        """Return the number of cuts."""
        return len(self.offsets)

    def loss(self, f: FloatArray) -> float:
        """Return the loss at decision values and the present labels."""
        return self.program.losses.value(self.labels * f)

    def add(self, f: FloatArray) -> None:
        """Add the cut that is most violated at decision values f: the loss linearised at their margins (Eq. 6)."""
        losses, margins = self.program.losses, self.labels * f
        slopes = losses.spread(losses.derivative(losses.arguments(margins)))
        self.slopes = np.vstack([self.slopes, slopes])
        self.offsets = np.append(self.offsets, losses.value(margins) - float(slopes @ margins))
        self.rows = np.vstack([self.rows, self.program.features.adjoint(slopes * self.labels)])

    def relabel(self, labels: IntArray) -> bool:
        """Move the cuts to other labels and return whether any changed."""
        changed = np.flatnonzero(labels != self.labels)
        if len(changed):
            step = self.slopes[:, changed] * (labels - self.labels)[changed]
            self.rows = self.rows + step @ self.program.features.rows(changed)
            self.labels = labels
        return len(changed) > 0

    def solve(self) -> tuple[FloatArray, float]:
        """Return the decision values and the value of the minimiser of ½‖w‖² + ξ over w, |mean f| ≤ l/n and ξ.

        With t = mean f the cuts read o_k + ⟨g_k − β_k mean φ, w⟩ + β_k t ≤ ξ, β_k the sum of y_i times the slopes; the
        dual is a quadratic programme over their weights.
        """
        tilts = self.slopes @ self.labels
        G = np.vstack([self.rows - np.outer(tilts, self.mean), np.zeros(self.program.features.rank)])
        offsets, tilts = np.append(self.offsets, 0.0), np.append(tilts, 0.0)  # the last cut is ξ ≥ 0
        weights, t = weigh_cuts(G @ G.T, offsets, tilts, self.reach)
        w = -weights @ G
        self.slack = float(np.max(offsets + G @ w + tilts * t))
        f = self.program.features.apply(w) + (t - float(self.mean @ w))
        return f, 0.5 * float(w @ w) + self.slack


def weigh_cuts(gram: FloatArray, offsets: FloatArray, tilts: FloatArray, reach: float) -> tuple[FloatArray, float]:
    """Return the cut weights λ and t of min over w, |t| ≤ reach of ½‖w‖² + max_k(o_k + ⟨g_k, w⟩ + β_k t).

    By Mehrotra's interior-point method on min ½λᵀGλ − oᵀλ + reach (p + q), Σλ = 1, Σβλ + p − q = 0, all ≥ 0, in which
    t is the multiplier of the last equality and w = −Σ λ_k g_k.

    Parameters
    ----------
    gram : (K, K) float array
        Inner products of the g_k.
    offsets, tilts : (K,) float array
        The o_k and β_k.
    reach : float
        At least 0.

    Examples
    --------
    >>> weights, t = weigh_cuts(np.array([[4.0, 0.0], [0.0, 0.0]]), np.array([1.0, 0.0]), np.array([-1.0, 0.0]), 0.5)
    >>> weights.round(6).tolist(), round(t, 6)
    ([0.125, 0.875], 0.5)
    """
    K, tilt = len(offsets), np.abs(tilts).max()
    # cuts of a loss without weight vanish; any unit serves them
    unit = max(float(np.diag(gram).max()), float(np.abs(offsets).max())) or reach * tilt or 1.0
    sides = 2 if reach * tilt > 0 else 0
    Q = np.zeros((K + sides, K + sides))
    Q[:K, :K] = gram / unit
    c = np.concatenate([-offsets, np.full(sides, reach * tilt)]) / unit
    E = np.zeros((1 + sides // 2, K + sides))
    E[0, :K] = 1.0
    if sides:
        E[1] = np.concatenate([tilts / tilt, [1.0, -1.0]])
    z, y = interior_point(Q, c, E, np.eye(len(E))[0])
    t = float(y[1]) * unit / tilt if sides else 0.0
    return z[:K] / z[:K].sum(), float(np.clip(t, -reach, reach))


def interior_point(Q: FloatArray, c: FloatArray, E: FloatArray, e: FloatArray,
                   accuracy: float = 1e-10) -> tuple[FloatArray, FloatArray]:
    """Return z and the multipliers y of min ½zᵀQz + cᵀz subject to Ez = e, z ≥ 0, data of order one."""
    N = len(c)
    z, s, y = np.full(N, 1.0 / N), np.ones(N), np.zeros(len(e))
    for _ in range(60):
        dual, primal, mu = Q @ z + c - E.T @ y - s, E @ z - e, float(z @ s) / N
        if max(mu * N, np.abs(dual).max(), np.abs(primal).max()) <= accuracy:
            break
        try:
            factor = cho_factor(Q + np.diag(s / z), check_finite=False)
        except LinAlgError:
            break  # rounding: no better point is to be had
        step = _newton(factor, E, z, s, dual, primal, z * s)
        ahead = _longest(z, s, step)
        centre = (float((z + ahead * step[0]) @ (s + ahead * step[1])) / N / mu) ** 3
        step = _newton(factor, E, z, s, dual, primal, z * s + step[0] * step[1] - centre * mu)
        length = 0.99 * _longest(z, s, step)
        z, s, y = z + length * step[0], s + length * step[1], y + length * step[2]
    return z, y


Step = tuple[FloatArray, FloatArray, FloatArray]


def _newton(factor: Any, E: FloatArray, z: FloatArray, s: FloatArray, dual: FloatArray, primal: FloatArray,
            products: FloatArray) -> Step:
    """Return the steps of z, s and y that cancel the residuals and take zs to zs − products, to first order."""
    right = -dual - products / z
    solved = cho_solve(factor, np.column_stack([right, E.T]), check_finite=False)
    dy = np.linalg.solve(E @ solved[:, 1:], -primal - E @ solved[:, 0])
    dz = solved[:, 0] + solved[:, 1:] @ dy
    return dz, -(products + s * dz) / z, dy


def _longest(z: FloatArray, s: FloatArray, step: Step) -> float:
    """Return the longest step up to 1 that keeps z and s positive, (0, 1] over 0.99."""
    values, moves = np.concatenate([z, s]), np.concatenate(step[:2])
    falling = moves < 0
    return float(min(1.0, np.min(-values[falling] / moves[falling], initial=1.0)))
