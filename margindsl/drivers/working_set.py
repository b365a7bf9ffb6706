"""Working set of cuts of the mean loss, solved over its dual by an interior-point method."""

from __future__ import annotations

import numpy as np

from margindsl.program.program import MarginProgram
from margindsl.program.quadratic import minimise
from margindsl.typing import FloatArray, IntArray

ACCURACY = 1e-10  # of the master, in units of its data


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
        self.reach = program.bias.reach
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
    Q[:K, :K] = gram
    c = np.concatenate([-offsets, np.full(sides, reach * tilt)])
    E = np.zeros((1 + sides // 2, K + sides))
    E[0, :K] = 1.0
    if sides:
        E[1] = np.concatenate([tilts / tilt, [1.0, -1.0]])
    z, y, _ = minimise(Q, c, E, np.eye(len(E))[0], ACCURACY * unit)
    t = float(y[1]) / tilt if sides else 0.0
    return z[:K] / z[:K].sum(), float(np.clip(t, -reach, reach))
