"""Losses as quadratic pieces: the conic form of D(u, q) = min over x of cρ(x) + u x − q x², row by row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from margindsl.calculus import PLQ, ConvexFunction
from margindsl.program.losses import Losses
from margindsl.typing import BoolArray, FloatArray, IntArray

MOST = 384  # pieces of a loss that is not piecewise quadratic
FAR = 1e8  # times the reach: where the curvature of a tail is read off


@dataclass(frozen=True, eq=False)
class Pieces:
    """Represent the conditions p(x) = c(a₂x² + a₁x + a₀) + u x − q x² − δ ≥ 0 on the pieces of all rows.

    With x = m + hτ each is a 2 × 2 matrix z = (α, β, ε), [[α, β/2], [β/2, ε]] ⪰ 0, affine in (u, q, δ, σ): for τ
    in [−1, 1], ατ² + βτ + ε = p − σ(1 − τ²); where τ ≥ 0, p − στ; on a line, p. By the S-lemma there is a σ ≥ 0 exactly
    where p ≥ 0, so that the greatest δ is D. Of an affine p on τ ≥ 0 both coefficients are to be non-negative; they are
    put on the diagonal, as a definite matrix has no zero there.
    """

    row: IntArray  # (P,), ascending
    base: FloatArray  # (P, 3), z at zero
    slope: FloatArray  # (P, 3, 4), the derivatives of z by u, q, δ, σ
    ends: FloatArray  # (P, 2), of τ
    ends_apart: BoolArray  # (P,), whether p is affine on a half-line
    off: FloatArray  # (P,), most that p is off by

    @classmethod
    def build(cls, losses: Losses, weights: FloatArray, squares: BoolArray, unit: float, reach: float,
              kept: BoolArray, close: float) -> Pieces:
        """Return the pieces of c_r ρ_r(x + d_r) by row.

        Parameters
        ----------
        losses : Losses
        weights : (m,) float array
        squares : (m,) bool array
            Which rows have a q.
        unit : float
            Length of τ on half-lines.
        reach : float
            How far from zero losses that are not piecewise quadratic are followed.
        kept : (m,) bool array
            The rows that have pieces; they are counted anew.
        close : float
            How far off losses that are not piecewise quadratic should be, relative to their size.
        """
        tables = [np.array(quadratics(term.loss, reach, close)).reshape(-1, 6) for term in losses.terms]
        row = np.concatenate([np.repeat(np.arange(part.start, part.stop), len(table))
                              for (_, part), table in zip(losses.slices(), tables)])
        table = np.concatenate([np.tile(table, (term.rows, 1)) for term, table in zip(losses.terms, tables)])
        row, table = row[kept[row]], table[kept[row]]
        d = losses.shifts[row]
        low, high, a2, a1, a0, off = table.T
        low, high, a1, a0 = low - d, high - d, a1 + 2 * a2 * d, (a2 * d + a1) * d + a0
        a2, a1, a0 = weights[row] * np.stack([a2, a1, a0])
        left, right = np.isfinite(low), np.isfinite(high)
        low, high = np.where(left, low, np.where(right, high, 0.0)), np.where(right, high, np.where(left, low, 0.0))
        m, h = (low + high) / 2, np.where(left & right, (high - low) / 2, np.where(right, -unit, unit))
        bounded, half = left & right, left ^ right
        base = np.stack([h**2 * a2, h * (2 * a2 * m + a1), (a2 * m + a1) * m + a0], axis=1)
        slope = np.zeros((len(row), 3, 4))
        slope[:, 1, 0], slope[:, 2, 0] = h, m
        slope[:, 0, 1], slope[:, 1, 1], slope[:, 2, 1] = -h**2, -2 * h * m, -m**2
        slope[:, 2, 2] = -1.0
        slope[bounded, 0, 3], slope[bounded, 2, 3], slope[half, 1, 3] = 1.0, -1.0, -1.0
        apart = half & (a2 == 0) & ~squares[row]
        base[apart, 0], slope[apart, 0] = base[apart, 1], slope[apart, 1]
        slope[apart, 0, 3], base[apart, 1], slope[apart, 1] = 0.0, 0.0, 0.0
        ends = np.stack([np.where(bounded, -1.0, np.where(half, 0.0, -np.inf)), np.where(bounded, 1.0, np.inf)], axis=1)
        return cls((np.cumsum(kept) - 1)[row], base, slope, ends, apart, weights[row] * off)

    @cached_property
    def first(self) -> IntArray:
        """Return (m,) the first piece of every row."""
        return np.flatnonzero(np.diff(self.row, prepend=-1))

    @cached_property
    def slack(self) -> BoolArray:
        """Return (P,) whether there is a σ."""
        return np.asarray(self.slope[:, :, 3].any(axis=1))

    def total(self, values: FloatArray) -> FloatArray:
        """Return the sums (m, ...) over the pieces of every row."""
        return np.add.reduceat(values, self.first, axis=0) if len(values) else values

    def change(self, u: FloatArray, q: FloatArray, delta: FloatArray, sigma: FloatArray) -> FloatArray:
        """Return (P, 3) the linear part of z."""
        x = np.stack([u[self.row], q[self.row], delta[self.row], sigma], axis=1)
        return np.einsum("pai,pi->pa", self.slope, x)

    def least(self, u: FloatArray, q: FloatArray) -> FloatArray:
        """Return (m,) D(u, q), −inf where it has none."""
        zero = np.zeros(len(self.row))
        alpha, beta, epsilon = (self.base + self.change(u, q, zero[:len(u)], zero)).T
        alpha, beta = np.where(self.ends_apart, 0.0, alpha), np.where(self.ends_apart, alpha, beta)
        with np.errstate(divide="ignore", invalid="ignore"):
            far = [np.where(alpha > 0, np.inf, np.where((alpha == 0) & (beta * np.sign(t) >= 0), 0.0, -np.inf))
                   for t in self.ends.T]
            ends = [np.where(np.isfinite(t), alpha * t * t + beta * t, limit) for t, limit in zip(self.ends.T, far)]
            t = np.where(alpha > 0, np.clip(-beta / (2 * alpha), *self.ends.T), 0.0)
        t = np.clip(t, *np.clip(self.ends.T, -1e300, 1e300))
        inner = np.where(alpha > 0, alpha * t * t + beta * t, np.inf)
        return np.minimum.reduceat(np.minimum(inner, np.minimum(*ends)) + epsilon, self.first)

    def interior(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (m,) the ends of u between which D is finite without q, and the q below which it is finite."""
        tail, h = np.isinf(self.ends[:, 1]), self.slope[:, 1, 0]
        end, line = -self.base[:, 0] / np.where(self.ends_apart, self.slope[:, 0, 0], 1.0), self.ends_apart
        rising = line & (self.slope[:, 0, 0] > 0)
        low = np.maximum.reduceat(np.where(rising, end, -np.inf), self.first)
        high = np.minimum.reduceat(np.where(line & ~rising, end, np.inf), self.first)
        bend = np.where(tail & ~line, self.base[:, 0] / np.where(h == 0, 1.0, h)**2, np.inf)
        return low, high, np.minimum.reduceat(bend, self.first)

    def start(self, u: FloatArray, q: FloatArray, room: float) -> tuple[FloatArray, FloatArray]:
        """Return δ (m,), at least `room` below D, and σ (P,) at which every z is definite.

        Raises
        ------
        ValueError
            If there are none: D has no interior at (u, q).
        """
        delta, sigma = self.least(u, q) - room, np.zeros(len(self.row))
        for _ in range(60):
            alpha, beta, epsilon = (self.base + self.change(u, q, delta, np.zeros(len(self.row)))).T
            bounded, half = np.isfinite(self.ends[:, 1]), self.slack & ~np.isfinite(self.ends[:, 1])
            # where the determinant is positive: (α + σ)(ε − σ) > β²/4 or |β − σ| < 2√(αε)
            middle = np.where(bounded, (epsilon - alpha) / 2, beta)
            width = np.where(bounded, np.sqrt(np.maximum((epsilon + alpha)**2 - beta**2, 0.0)) / 2,
                             2 * np.sqrt(np.maximum(alpha * epsilon, 0.0)))
            low, high = np.maximum(middle - width, 0.0), middle + width
            sigma = np.where(bounded | half, (low + high) / 2, 0.0)
            alpha, beta, epsilon = (self.base + self.change(u, q, delta, sigma)).T
            good = (alpha > 0) & (4 * alpha * epsilon > beta**2) & ((sigma > 0) | ~self.slack)
            bad = np.minimum.reduceat(good, self.first) == 0
            if not bad.any():
                return delta, sigma
            delta[bad] -= room
            room *= 1.5
        raise ValueError("D has no interior")


def quadratics(loss: ConvexFunction, reach: float, close: float) -> list[tuple[float, ...]]:
    """Return (from, to, a₂, a₁, a₀, error), the pieces of a loss, or of a piecewise quadratic function close to it.

    What is close serves to find multipliers alone; the certificate evaluates the loss itself.
    """
    if isinstance(loss, PLQ):
        return [(*piece, 0.0) for piece in loss.pieces]
    # 1. parabolas through the ends and the middle of intervals, the worst of which are halved
    low, high = (float(np.clip(end, -reach, reach)) for end in loss.domain)
    knots = np.linspace(low, high, 9)
    while True:
        a, b = knots[:-1], knots[1:]
        quarters = a[:, None] + (b - a)[:, None] * np.linspace(0.0, 1.0, 5)
        values = np.asarray(loss(quarters))
        curve = 2 * (values[:, 0] - 2 * values[:, 2] + values[:, 4])  # of (b − a)² τ², τ from a to b in [0, 1]
        rise = values[:, 4] - values[:, 0] - curve
        model = values[:, :1] + np.linspace(0.0, 1.0, 5) * (rise[:, None] + np.linspace(0.0, 1.0, 5) * curve[:, None])
        error = np.abs(model - values).max(axis=1)
        worst = error > max(close * float(np.abs(loss(0.5 * (low + high)))), 0.25 * float(error.max()))
        if not worst.any() or len(a) + worst.sum() > MOST:
            break
        knots = np.sort(np.append(knots, (a + b)[worst] / 2))
    a2, a1 = curve / (b - a)**2, rise / (b - a)
    pieces = list(zip(a, b, a2, a1 - 2 * a2 * a, values[:, 0] - a1 * a + a2 * a * a, error))
    # 2. tangents beyond them, with the curvature far out
    for end, far in ((low, -np.inf), (high, np.inf)):
        if abs(end) == reach:
            value, slope = float(loss(end)), float(loss.derivative(end))
            bend = 0.5 * float(np.min(loss.curvature(np.sign(far) * reach * np.array([1.0, FAR**0.5, FAR]))))
            pieces.append((min(far, end), max(far, end), bend, slope - 2 * bend * end,
                           value - slope * end + bend * end**2, 0.0))
    return [tuple(map(float, piece)) for piece in sorted(pieces)]
