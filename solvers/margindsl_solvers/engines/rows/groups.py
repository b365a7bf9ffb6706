"""Rows that share a function, one or a block of them a loss, and the envelopes of that function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from margindsl.calculus import ConvexFunction
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Group:
    """Represent rows sharing one function ρ, each weighted by its entry of `Rows.weights`.

    Parameters
    ----------
    function : ConvexFunction
        The one-dimensional function ρ.
    part : slice
        Its rows.
    smooth : bool
        Whether ρ enters by its derivative; otherwise by its Moreau envelope.
    width : int
        Rows an argument of ρ; all have its weight.
    """

    function: ConvexFunction
    part: slice
    smooth: bool = False
    width: int = 1

    @cached_property
    def conjugate(self) -> ConvexFunction:
        """Return ρ*."""
        return self.function.conjugate()

    def slopes(self, x: FloatArray, kappa: float) -> FloatArray:
        """Return ρ'(x), or the derivative κ(x − prox(x)) of the envelope.

        That is the prox of κρ* at κx: far out, where x and prox(x) agree to most digits, the end of its domain and not
        their difference.
        """
        return np.asarray(self.function.derivative(x) if self.smooth else self.conjugate.prox(kappa * x, kappa))

    def curvatures(self, x: FloatArray, kappa: float) -> FloatArray:
        """Return the generalised derivatives of `slopes`, row by row."""
        rho = self.function
        return np.asarray(rho.curvature(x) if self.smooth else kappa * (1.0 - rho.prox_derivative(x, 1.0 / kappa)))

    def clip(self, p: FloatArray) -> FloatArray:
        """Return slopes moved into the domain of the conjugate."""
        return np.clip(p, *self.conjugate.domain)

    def argument(self, x: FloatArray) -> FloatArray:
        """Return the arguments of ρ at its rows."""
        return x

    def subgradient(self, weights: FloatArray, v: FloatArray) -> FloatArray:
        """Return a weighted subgradient at the rows, of weights and values of all rows."""
        return np.asarray(weights[self.part] * self.function.derivative(v[self.part]))

    def entered(self, p: FloatArray) -> FloatArray:
        """Return the slopes in the arguments of ρ, of slopes of its rows."""
        return p


@dataclass(frozen=True)
class Block(Group):
    """Represent rows m_1, …, m_{k−1} a point with one function h(m) = ρ(min_q m_q), ρ nonincreasing.

    Its Moreau envelope has a closed form: prox(m) = max(m, t), t the minimiser of ρ(t) + κ/2 Σ (t − m_q)₊²,
    that is prox_{ρ/(jκ)} of the mean of the j smallest m for the j it lies between.
    """

    def table(self, x: FloatArray) -> FloatArray:
        """Return rows by points, (m, k − 1)."""
        return x.reshape(-1, self.width)

    def level(self, m: FloatArray, kappa: float) -> tuple[FloatArray, IntArray, FloatArray, FloatArray]:
        """Return (t, j, mean, p) of every point, t the least entry of prox(m), j how many reach it, p in ∂ρ(t)."""
        ordered = np.sort(m, axis=1)
        sums = np.cumsum(ordered, axis=1)
        count, mean = np.ones(len(m), dtype=int), sums[:, 0].copy()
        slope = np.asarray(self.conjugate.prox(kappa * mean, kappa))
        level = mean - slope / kappa
        for j in range(2, self.width + 1):
            below = kappa * (ordered[:, j - 1] - mean) + slope / (j - 1) < 0  # the level, where they differ by digits
            more = np.flatnonzero((count == j - 1) & below)
            if not len(more):
                break
            count[more], mean[more] = j, sums[more, j - 1] / j
            slope[more] = self.conjugate.prox(j * kappa * mean[more], j * kappa)
            level[more] = mean[more] - slope[more] / (j * kappa)
        return level, count, mean, slope

    def slopes(self, x: FloatArray, kappa: float) -> FloatArray:
        m = self.table(x)
        _, count, mean, slope = (column[:, None] for column in self.level(m, kappa))
        return np.minimum(kappa * (m - mean) + slope / count, 0.0).ravel()

    def curvatures(self, x: FloatArray, kappa: float) -> FloatArray:
        return np.zeros(len(x))

    def clip(self, p: FloatArray) -> FloatArray:
        low, high = self.conjugate.domain
        p = np.minimum(self.table(p), 0.0)
        total = p.sum(axis=1)
        scale = np.divide(low, total, out=np.ones(len(total)), where=total < low)
        p = p * scale[:, None]
        short = np.flatnonzero(total > high)
        p[short, 0] += high - total[short]
        return p.ravel()

    def argument(self, x: FloatArray) -> FloatArray:
        return self.table(x).min(axis=1)

    def subgradient(self, weights: FloatArray, v: FloatArray) -> FloatArray:
        m = self.table(v[self.part])
        least, out = m.argmin(axis=1)[:, None], np.zeros(m.shape)  # it lies on the least entry
        slopes = self.function.derivative(np.take_along_axis(m, least, axis=1))
        np.put_along_axis(out, least, weights[self.part][:: self.width, None] * slopes, axis=1)
        return out.ravel()

    def entered(self, p: FloatArray) -> FloatArray:
        return np.clip(self.table(p).sum(axis=1), *self.conjugate.domain)
