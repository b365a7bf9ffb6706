"""Convex hulls of the moment curve (t, t², h(t)) for piecewise quadratics, with two derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from margindsl.program.branching import PointLosses
from margindsl.typing import BoolArray, FloatArray, IntArray

CURVED = 1e-9  # relative curvature below which a piece counts as affine


class Bend(NamedTuple):
    """Represent values, gradients and Hessians of functions of (f, z), one a point."""

    value: FloatArray
    by_f: FloatArray
    by_z: FloatArray
    ff: FloatArray
    fz: FloatArray
    zz: FloatArray


@dataclass(frozen=True, eq=False)
class MomentHull:
    """Evaluate H(f, z) ≤ hull of (t, t², h(t)), exactly the hull for one flat piece between two curved ones.

    With β the least curvature (½h'') of h, H(f, z) = βz + (h(f) − βf²) always bounds h from below at z = f². When
    h − βt² = α(l − t)₊² + α'(t − u)₊² + affine (ODM), points off the chord region take two atoms l − δ, u + ε
    with α(1 + g/ε) = α'(1 + g/δ) =: k, g = u − l, the larger root of Wk² − Tk + αα'W = 0, where A = f − l,
    B = u − f, W = z − f² − AB, T = αA² + α'B² + (z − f²)(α + α').
    """

    table: PointLosses  # the losses, smooth
    base: FloatArray
    slope: FloatArray
    level: FloatArray
    low: FloatArray
    high: FloatArray
    left: FloatArray
    right: FloatArray
    double: BoolArray

    @classmethod
    def build(cls, table: PointLosses, lifted: bool = True) -> MomentHull:
        """Return the hulls of a table; the losses themselves where z is not lifted from f² alone."""
        base = table.q.min(axis=1) * lifted
        n, pieces = table.q.shape
        if pieces != 3 or not lifted:
            zero = np.zeros(n)
            return cls(table, base, zero, zero, zero, zero + 1.0, zero + 1.0, zero + 1.0, np.zeros(n, dtype=bool))
        left, right = table.q[:, 0] - table.q[:, 1], table.q[:, 2] - table.q[:, 1]
        scale = CURVED * np.abs(table.q).max(axis=1)
        low, high = table.knots[:, 0], table.knots[:, 1]
        flat = (np.isfinite(high) & (left > scale) & (right > scale))
        for knot, (j, k) in ((low, (0, 1)), (high, (1, 2))):
            x = np.where(flat, knot, 0.0)
            jump = 2 * (table.q[:, k] - table.q[:, j]) * x + table.s[:, k] - table.s[:, j]
            flat &= np.abs(jump) <= 1e-9 * (np.abs(table.s).max(axis=1) + np.abs(table.q).max(axis=1) * (1 + np.abs(x)))
        return cls(table, base, table.s[:, 1], table.c[:, 1], np.where(flat, low, 0.0), np.where(flat, high, 1.0),
                   np.where(flat, left, 1.0), np.where(flat, right, 1.0), flat)

    def take(self, index: IntArray) -> MomentHull:
        """Return the hulls of some points."""
        return MomentHull(self.table.take(index), *(getattr(self, name)[index] for name in (
            "base", "slope", "level", "low", "high", "left", "right", "double")))

    def at(self, f: FloatArray, z: FloatArray) -> Bend:
        """Return H and its derivatives at f, z ≥ f² (n,)."""
        value, first, second = self.table.at(f)
        b, zero = self.base, np.zeros_like(f)
        plain = Bend(value + b * (z - f * f), first - 2 * b * f, b + zero, second - 2 * b, zero, zero)
        if not self.double.any():
            return plain

        # The hull of α(l − t)₊² + α'(t − u)₊² plus the middle piece
        al, ar, g = self.left, self.right, self.high - self.low
        A, B = f - self.low, self.high - f
        V = np.maximum(z - f * f, 0.0)
        W = V - A * B
        T = al * A * A + ar * B * B + V * (al + ar)
        root = np.sqrt(np.maximum(T * T - 4 * al * ar * W * W, 0.0))
        scatter = 1e-14 * g * g < W
        W = np.where(scatter, W, 1.0)
        T, root = np.where(scatter, T, 4.0 * (al + ar)), np.where(scatter, root, 1.0)
        k = (T + root) / (2 * W)
        most, least = np.maximum(al, ar), np.minimum(al, ar)
        inside = scatter & (k > most * (1 + 1e-12))
        k = np.where(inside, k, 2 * most)
        x1, x2 = self.low - g * ar / (k - ar), self.high + g * al / (k - al)
        beta = al * ar * (2 * k - al - ar) / (k * k - al * ar)
        sigma = -2 * al * (self.low - x1) - 2 * beta * x1
        level = al * (self.low - x1) ** 2 - beta * x1 * x1 - sigma * x1
        by_k = 2 * al * ar * ((k * k - al * ar) - k * (2 * k - al - ar)) / (k * k - al * ar) ** 2
        k_by_z = -(k - al) * (k - ar) / np.where(inside, np.maximum(root, 1e-300), 1.0)
        bend = np.where(inside, np.maximum(by_k * k_by_z, 0.0), 0.0)
        tilt = x1 + x2
        # one atom escapes to infinity on the side of less curvature
        far = scatter & ~inside
        edge, steep = np.where(al >= ar, self.low, self.high), most
        tail = steep * (f - edge) ** 2 + least * (z - f * f)
        value = np.where(inside, beta * z + sigma * f + level, np.where(far, tail, 0.0))
        by_f = np.where(inside, sigma, np.where(far, 2 * steep * (f - edge) - 2 * least * f, 0.0))
        by_z = np.where(inside, beta, np.where(far, least, 0.0))
        ff = np.where(inside, bend * tilt * tilt, np.where(far, 2 * (steep - least), 0.0))
        middle = self.table.q[:, 1]
        split = Bend(value + middle * z + self.slope * f + self.level, by_f + self.slope, by_z + middle,
                     ff, -bend * tilt, bend)
        return Bend(*(np.where(self.double, s, p) for s, p in zip(split, plain)))


@dataclass(frozen=True, eq=False)
class SoftKinks:
    """Represent Σ_k jump_k (x − knot_k)₊ softened: (x)₊ becomes min_t t − μ log t − μ log(t − x), μ = τ/jump.

    `knots`, `jumps`: jumps are zero where there is no kink.
    """

    knots: FloatArray
    jumps: FloatArray

    @classmethod
    def build(cls, knots: FloatArray, jumps: FloatArray) -> SoftKinks:
        """Return the kinks, columns without any dropped."""
        keep = np.any(jumps > 0, axis=0)
        return cls(np.where(jumps > 0, knots, 0.0)[:, keep], jumps[:, keep])

    @property
    def count(self) -> int:
        """Return the number of kinks."""
        return int(np.count_nonzero(self.jumps))

    def take(self, index: IntArray) -> SoftKinks:
        """Return the kinks of some points."""
        return SoftKinks(self.knots[index], self.jumps[index])

    def at(self, x: FloatArray, tau: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the (n,) softened values, derivatives, second derivatives, and the values themselves."""
        if not self.jumps.shape[1]:
            zero = np.zeros_like(x)
            return zero, zero, zero, zero
        d = x[:, None] - self.knots
        mu = np.divide(max(tau, 1e-300), self.jumps, out=np.ones_like(self.jumps), where=self.jumps > 0)
        R = np.sqrt(d * d + 4 * mu * mu)
        t, rest = 0.5 * (R + d) + mu, 0.5 * (R - d) + mu
        soft = t - mu * np.log(t * rest)
        return ((self.jumps * soft).sum(axis=1), (self.jumps * 0.5 * (1.0 + d / (R + 2 * mu))).sum(axis=1),
                (self.jumps * mu / (R * (R + 2 * mu))).sum(axis=1), (self.jumps * np.maximum(d, 0.0)).sum(axis=1))
