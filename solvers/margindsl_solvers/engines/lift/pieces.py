"""Losses as quadratic pieces: the conic form of D(u, q) = min over x of cρ(x) + u x − q x², row by row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from margindsl.calculus import PLQ, ConvexFunction
from margindsl.program.losses import Losses
from margindsl.typing import BoolArray, FloatArray, IntArray

FIRST = 16  # knots of a loss that is not piecewise quadratic, before it is refined
THIN = 1e-6  # times the unit: the least width of a piece that an interval leaves
LINE = 1e-12  # relative: a tail that bends less is a line
FAR = 1e8  # times the reach: where the curvature of a tail is read off


@dataclass(frozen=True, eq=False)
class Pieces:
    """Represent the conditions p(x) = c(a₂x² + a₁x + a₀) + u x − q x² − δ ≥ 0 on the pieces of all rows.

    With x = m + hτ each is a 2 × 2 matrix z = (α, β, ε), [[α, β/2], [β/2, ε]] ⪰ 0, affine in (u, q, δ, σ): for τ
    in [−1, 1], ατ² + βτ + ε = p − σ(1 − τ²); where τ ≥ 0, p − στ; on a line, p. By the S-lemma there is a σ ≥ 0 exactly
    where p ≥ 0, so that the greatest δ is D. Of an affine p on τ ≥ 0 both coefficients are to be non-negative; they are
    on the diagonal, as a definite matrix has no zero there. Of losses by label q stands for θ, p = … + u x + 2θ − δ,
    and a piece more says δ ≤ cρ(d). Rows that are looked at for both labels s = ±1 have all pieces twice, with su for u
    where only that tells labels apart, or else with u + sv for u and δ − se for δ.
    """

    losses: Losses
    weights: FloatArray  # (m,), c
    squares: BoolArray  # (m,), whether there is a q
    unit: float  # length of τ on half-lines
    kept: IntArray  # (K,), the rows of the losses that have pieces
    row: IntArray  # (P,), ascending, of those kept
    table: FloatArray  # (P, 7), ends, a₂, a₁, a₀ and error of ρ, −1 where it is of another label; s, 0 of both
    pairs: BoolArray  # (m,), whether there are v and e
    base: FloatArray = field(init=False)  # (P, 3), z at zero
    slope: FloatArray = field(init=False)  # (P, 3, ·), the derivatives of z by u, q, v and e where they are, δ, σ
    ends: FloatArray = field(init=False)  # (P, 2), those of τ
    ends_apart: BoolArray = field(init=False)  # (P,), whether p is affine on a half-line
    off: FloatArray = field(init=False)  # (P,), the most that p is off by
    first: IntArray = field(init=False)  # (m,), the first piece of every row
    slack: BoolArray = field(init=False)  # (P,), whether there is a σ

    @classmethod
    def of_losses(cls, losses: Losses, weights: FloatArray, squares: BoolArray, unit: float, kept: BoolArray,
                  reach: float, falling: BoolArray, domain: FloatArray | None, both: BoolArray, pairs: BoolArray
                  ) -> Pieces:
        """Return the pieces of c_r ρ_r(x + d_r) by row.

        `reach`: how far from zero losses that are not piecewise quadratic are followed; `falling` (m,): the rows that
        enter by the falling part of their loss alone; `domain` (m, 2): ends of x, for the label +1 of rows that are
        looked at for `both` (m,), of which `pairs` (m,) have v and e.
        """
        tables = [(part.start + np.flatnonzero(falling[part] == falls),
                   quadratics(term.loss.split()[0] if falls else term.loss, reach))
                  for term, part in losses.slices() for falls in np.unique(falling[part])]
        row = np.concatenate([np.repeat(rows, len(table)) for rows, table in tables])
        table, turned = np.concatenate([np.tile(table, (len(rows), 1)) for rows, table in tables]), losses.bare != 0
        there = losses.row_losses(losses.shifts) / np.maximum(losses.weights, 1e-300)
        away = np.array([(-np.inf, np.inf, 0.0, 0.0, value, -1.0) for value in there[turned]]).reshape(-1, 6)
        row, table = np.append(row, np.flatnonzero(turned)), np.vstack([table, away])
        table = np.column_stack([table, 1.0 * both[row]])
        row, table = np.append(row, row[both[row]]), np.vstack([table, table[both[row]] * [1, 1, 1, 1, 1, 1, -1]])
        order = np.argsort(row, kind="stable")
        row, table = row[order], table[order]
        if domain is not None:
            ends = np.where(table[:, 6:] < 0, -domain[row, ::-1], domain[row])
            low, high = (ends + THIN * unit * np.array([-1.0, 1.0]) + losses.shifts[row, None]).T
            table[:, 0], table[:, 1] = np.maximum(table[:, 0], low), np.minimum(table[:, 1], high)
            inside = table[:, 1] - table[:, 0] > 0.25 * THIN * unit
            row, table = row[inside], table[inside]
        return cls(losses, weights, squares, unit, np.flatnonzero(kept), (np.cumsum(kept) - 1)[row[kept[row]]],
                   table[kept[row]], pairs)

    def refined(self, parts: IntArray) -> Pieces:
        """Return as many pieces in place of each, where a loss is not piecewise quadratic."""
        row, table = np.repeat(self.row, parts), np.repeat(self.table, parts, axis=0)
        index, many = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts), np.repeat(parts, parts)
        width = (table[:, 1] - table[:, 0]) / many
        for term, part in self.losses.slices():
            own = (many > 1) & (self.kept[row] >= part.start) & (self.kept[row] < part.stop)
            left = table[own, 0] + index[own] * width[own]
            table[own, :6] = parabolas(term.loss, left, left + width[own])
        return replace(self, row=row, table=table)

    def same(self, other: Pieces) -> BoolArray:
        """Return (m,) which rows have the same pieces as others of the same rows."""
        many, before = np.bincount(self.row), np.bincount(other.row)
        same = many == before
        here, there = same[self.row], same[other.row]
        differ = np.any(self.table[here] != other.table[there], axis=1)
        same[self.row[here][differ]] = False
        return same

    def __post_init__(self) -> None:
        of = self.kept[self.row]
        d, (low, high, a2, a1, a0, _, s) = self.losses.shifts[of], self.table.T
        low, high, a1, a0 = low - d, high - d, a1 + 2 * a2 * d, (a2 * d + a1) * d + a0
        a2, a1, a0 = self.weights[of] * np.stack([a2, a1, a0])
        left, right = np.isfinite(low), np.isfinite(high)
        low, high = np.where(left, low, np.where(right, high, 0.0)), np.where(right, high, np.where(left, low, 0.0))
        m, h = (low + high) / 2, np.where(left & right, (high - low) / 2, np.where(right, -self.unit, self.unit))
        bounded, half = left & right, left ^ right
        base = np.stack([h**2 * a2, h * (2 * a2 * m + a1), (a2 * m + a1) * m + a0], axis=1)
        slope, pairs = np.zeros((len(of), 3, 6 if self.pairs.any() else 4)), self.pairs[of]
        slope[:, 1, 0], slope[:, 2, 0] = h, m
        slope[:, 0, 1], slope[:, 1, 1], slope[:, 2, 1] = -h**2, -2 * h * m, -m**2
        slope[:, 2, -2] = -1.0
        slope[bounded, 0, -1], slope[bounded, 2, -1], slope[half, 1, -1] = 1.0, -1.0, -1.0
        if self.pairs.any():
            slope[pairs, :, 2], slope[pairs, 2, 3] = s[pairs, None] * slope[pairs, :, 0], s[pairs]
        slope[~pairs & (s < 0), :, 0] *= -1.0
        apart = half & (a2 == 0) & ~self.squares[of]
        base[apart, 0], slope[apart, 0] = base[apart, 1], slope[apart, 1]
        slope[apart, 0, -1], base[apart, 1], slope[apart, 1] = 0.0, 0.0, 0.0
        turned, away = self.losses.bare[of] != 0, self.table[:, 5] < 0
        slope[turned, :, 1], base[away, 0], slope[away, :, 0] = [0.0, 0.0, 2.0], 1.0, 0.0
        slope[away, 2, 1] = 0.0
        ends = np.stack([np.where(bounded, -1.0, np.where(half, 0.0, -np.inf)), np.where(bounded, 1.0, np.inf)], axis=1)
        vars(self).update(base=base, slope=slope, ends=ends, ends_apart=apart,
                          off=self.weights[of] * np.maximum(self.table[:, 5], 0.0),
                          first=np.flatnonzero(np.diff(self.row, prepend=-1)), slack=slope[:, :, -1].any(axis=1))

    def total(self, values: FloatArray) -> FloatArray:
        """Return the sums (m, ...) over the pieces of every row."""
        return np.add.reduceat(values, self.first, axis=0) if len(values) else values

    def change(self, arguments: FloatArray, delta: FloatArray, sigma: FloatArray) -> FloatArray:
        """Return (P, 3) the linear part of z, of arguments (·, m), which are u, q, v, e."""
        return np.einsum("pai,ip->pa", self.slope, np.vstack([np.vstack([arguments, delta])[:, self.row], sigma]))

    def least(self, arguments: FloatArray) -> FloatArray:
        """Return (m,) D(u, q), −inf where it has none."""
        zero = np.zeros(len(self.row))
        alpha, beta, epsilon = (self.base + self.change(arguments, zero[:arguments.shape[1]], zero)).T
        alpha, beta = np.where(self.ends_apart, 0.0, alpha), np.where(self.ends_apart, alpha, beta)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
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

    def centred(self, z: FloatArray, sigma: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return multipliers μz⁻¹ (P, 3) of z and μ/σ (P,) of σ, with one μ a row at which all are of mass one."""
        x = adjugate(z) / determinant(z)[:, None]
        mu = (1.0 / self.total(x[:, 2]))[self.row]
        return mu[:, None] * x, mu / np.where(self.slack, sigma, 1.0)

    def start(self, arguments: FloatArray, room: float) -> tuple[FloatArray, FloatArray]:
        """Return δ (m,), at least `room` below D, and σ (P,) at which every z is definite.

        Raises
        ------
        ValueError
            If there are none: D has no interior there.
        """
        delta, sigma = self.least(arguments) - room, np.zeros(len(self.row))
        for _ in range(60):
            alpha, beta, epsilon = (self.base + self.change(arguments, delta, np.zeros(len(self.row)))).T
            bounded, half = np.isfinite(self.ends[:, 1]), self.slack & ~np.isfinite(self.ends[:, 1])
            # where the determinant is positive: (α + σ)(ε − σ) > β²/4 or |β − σ| < 2√(αε)
            middle = np.where(bounded, (epsilon - alpha) / 2, beta)
            width = np.where(bounded, np.sqrt(np.maximum((epsilon + alpha)**2 - beta**2, 0.0)) / 2,
                             2 * np.sqrt(np.maximum(alpha * epsilon, 0.0)))
            low, high = np.maximum(middle - width, 0.0), middle + width
            sigma = np.where(bounded | half, (low + high) / 2, 0.0)
            alpha, beta, epsilon = (self.base + self.change(arguments, delta, sigma)).T
            good = (alpha > 0) & (4 * alpha * epsilon > beta**2) & ((sigma > 0) | ~self.slack)
            bad = np.minimum.reduceat(good, self.first) == 0
            if not bad.any():
                return delta, sigma
            delta[bad] -= room
            room *= 1.5
        raise ValueError("D has no interior")


def adjugate(z: FloatArray) -> FloatArray:
    """Return (P, 3) the adjugates of 2 × 2 matrices z, as (x₁, x₂, x₃) of [[x₁, x₂], [x₂, x₃]]."""
    return np.stack([z[:, 2], -z[:, 1] / 2, z[:, 0]], axis=1)


def determinant(z: FloatArray) -> FloatArray:
    """Return (P,) the determinants of 2 × 2 matrices z."""
    return np.asarray(z[:, 0] * z[:, 2] - z[:, 1]**2 / 4)


def symmetric_product(x: FloatArray, z: FloatArray, inverse: FloatArray) -> FloatArray:
    """Return the symmetric parts of the products of 2 × 2 matrices X Z Z₀⁻¹."""
    def full(v: FloatArray, half: float) -> FloatArray:
        return np.stack([v[:, 0], half * v[:, 1], half * v[:, 1], v[:, 2]], axis=1).reshape(-1, 2, 2)

    product = full(x, 1.0) @ full(z, 0.5) @ full(inverse, 1.0)
    return np.stack([product[:, 0, 0], 0.5 * (product[:, 0, 1] + product[:, 1, 0]), product[:, 1, 1]], axis=1)


def local_reach(z: FloatArray, dz: FloatArray) -> float:
    """Return the longest step at which all quadratics z + t dz are ≥ 0: by the least eigenvalue of Z⁻¹dZ."""
    det = determinant(z)
    if not np.all(det > 0):
        return 0.0
    trace = (z[:, 2] * dz[:, 0] - 0.5 * z[:, 1] * dz[:, 1] + z[:, 0] * dz[:, 2]) / det
    least = float(np.min(0.5 * trace - np.sqrt(np.maximum(0.25 * trace**2 - determinant(dz) / det, 0.0)), initial=0.0))
    return -1.0 / least if least < 0 else np.inf


def quadratics(loss: ConvexFunction, reach: float) -> FloatArray:
    """Return rows (from, to, a₂, a₁, a₀, error), the pieces of a loss, or of a piecewise quadratic function near it.

    What is near serves to find multipliers alone; the certificate evaluates the loss itself.
    """
    if isinstance(loss, PLQ):
        return np.array([(*piece, 0.0) for piece in loss.pieces])
    # 1. parabolas on intervals, the worst of which are halved
    low, high = (float(np.clip(end, -reach, reach)) for end in loss.domain)
    knots = np.linspace(low, high, 9)
    while len(knots) < FIRST:
        table = parabolas(loss, knots[:-1], knots[1:])
        worst = table[:, 5] >= 0.25 * table[:, 5].max()
        knots = np.sort(np.append(knots, table[worst, :2].mean(axis=1)))
    table = parabolas(loss, knots[:-1], knots[1:])
    # 2. tangents beyond them, with the curvature far out
    for end, far in ((low, -np.inf), (high, np.inf)):
        if abs(end) == reach:
            value, slope = float(loss(end)), float(loss.derivative(end))
            bend = 0.5 * float(np.min(loss.curvature(np.sign(far) * reach * np.array([1.0, FAR**0.5, FAR]))))
            bend *= bend * reach**2 > LINE * max(abs(value), abs(slope) * reach)
            table = np.vstack([table, [min(far, end), max(far, end), bend, slope - 2 * bend * end,
                                       value - slope * end + bend * end**2, 0.0]])
    return table[np.argsort(table[:, 0])]


def parabolas(loss: ConvexFunction, a: FloatArray, b: FloatArray) -> FloatArray:
    """Return rows (a, b, a₂, a₁, a₀, error) of the parabolas that interpolate a loss at the ends and the middle of
    intervals; the error is that of the quarters.
    """
    t = np.linspace(0.0, 1.0, 5)
    values = np.asarray(loss(a[:, None] + (b - a)[:, None] * t))
    alpha = 2 * (values[:, 0] - 2 * values[:, 2] + values[:, 4])  # ρ(a) + βτ + ατ², τ = (x − a)/(b − a)
    beta = values[:, 4] - values[:, 0] - alpha
    error = np.abs(values[:, :1] + t * (beta[:, None] + t * alpha[:, None]) - values).max(axis=1)
    a2, slope = alpha / (b - a)**2, beta / (b - a)  # the slope at a
    return np.stack([a, b, a2, slope - 2 * a2 * a, values[:, 0] - slope * a + a2 * a * a, error], axis=1)
