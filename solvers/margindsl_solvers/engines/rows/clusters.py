"""The rows of a fixed-cluster form: blocks of k − 1 differences, single differences, pairwise balance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from margindsl.calculus import ConvexFunction
from margindsl.program.clusters import ClusterForm
from margindsl.program.losses import LossTerm
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.rows.model import FLAT, directional


@dataclass(frozen=True)
class Block:
    """Represent rows m_1, …, m_{k−1} a point with one function h(m) = ρ(min_q m_q), ρ nonincreasing.

    Its Moreau envelope has a closed form: prox(m) = max(m, t), t the minimiser of ρ(t) + κ/2 Σ (t − m_q)₊²,
    that is prox_{ρ/(jκ)} of the mean of the j smallest m for the j it lies between.

    Parameters
    ----------
    function : ConvexFunction
        The function ρ.
    part : slice
        Its rows.
    width : int
        The number k − 1 of rows a point.
    """

    function: ConvexFunction
    part: slice
    width: int

    @cached_property
    def conjugate(self) -> ConvexFunction:
        """Return ρ*."""
        return self.function.conjugate()

    def level(self, m: FloatArray, kappa: float) -> tuple[FloatArray, IntArray, FloatArray]:
        """Return (t, j, mean) of every point, t the least entry of prox(m) and j how many entries reach it."""
        ordered = np.sort(m, axis=1)
        sums = np.cumsum(ordered, axis=1)
        level = np.asarray(self.function.prox(sums[:, 0], 1.0 / kappa))
        count, mean = np.ones(len(m), dtype=int), sums[:, 0].copy()
        for j in range(2, self.width + 1):
            more = np.flatnonzero((count == j - 1) & (level > ordered[:, j - 1]))
            if not len(more):
                break
            count[more], mean[more] = j, sums[more, j - 1] / j
            level[more] = self.function.prox(mean[more], 1.0 / (j * kappa))
        return level, count, mean

    def slopes(self, m: FloatArray, kappa: float) -> FloatArray:
        """Return κ(m − prox(m)), entries of a subgradient of h."""
        return np.minimum(kappa * (m - self.level(m, kappa)[0][:, None]), 0.0)

    def clip(self, p: FloatArray) -> FloatArray:
        """Return slopes moved into the domain of h*: p ≤ 0 and Σp in the domain of ρ*."""
        low, high = self.conjugate.domain
        p = np.minimum(p, 0.0)
        total = p.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            p = np.where((total < low)[:, None], p * (low / total)[:, None], p)
        short = np.flatnonzero(total > high)
        p[short, 0] += high - total[short]
        return p


@dataclass(eq=False)
class ClusterModel:
    """Write a convex fixed-cluster form as min ½‖w‖² + Σ c h(v), v = A x, x = (w, β), as `RowModel` does.

    The rows are the blocks of the falling losses (differences f_y − f_q, q ≠ y), the differences of rising
    losses to the runner-up, and those of the pairwise balance.

    Parameters
    ----------
    form : ClusterForm
    runner : (n,) int array
        The clusters at which rising losses are majorised; a solver may move them.
    """

    form: ClusterForm
    runner: IntArray

    is_smooth: ClassVar[bool] = False

    @cached_property
    def rank(self) -> int:
        """Return the number r(k−1) of weights."""
        return self.form.size_of_w

    @property
    def bias(self) -> int:
        """Return the number of coordinates of a free bias."""
        return self.form.border

    @property
    def border(self) -> int:
        """Return the number of unpenalised variables, the coordinates of a free bias."""
        return self.form.border

    @property
    def signed(self) -> IntArray:
        """Return the scalars constrained in sign: there are none."""
        return np.zeros(0, dtype=int)

    def normalised(self, multipliers: FloatArray, part: slice = slice(None)) -> FloatArray:
        """Return multipliers of some rows over their weights, zero where these are."""
        weights = self.weights[part]
        return np.divide(multipliers, weights, out=np.zeros_like(weights), where=weights > 0)

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray | float, FloatArray]:
        """Return w, the bias (k,) and no scalars."""
        return (*self.form.split(x), np.zeros(0))

    @cached_property
    def width(self) -> int:
        """Return k − 1."""
        return self.form.clusters - 1

    @cached_property
    def others(self) -> IntArray:
        """Return the (n, k−1) clusters that are not a point's own."""
        every = np.arange(self.width)
        return every + (every >= self.form.labels[:, None])

    @cached_property
    def block_rows(self) -> slice:
        """Return the rows of all blocks."""
        return slice(0, self.form.parts.falling.rows * self.width)

    @cached_property
    def rising_rows(self) -> slice:
        """Return the rows of the rising losses."""
        return slice(self.block_rows.stop, self.block_rows.stop + self.form.parts.rising.rows)

    @property
    def loss_rows(self) -> slice:
        """Return the rows of all losses."""
        return slice(0, self.rising_rows.stop)

    @cached_property
    def balance_rows(self) -> slice:
        """Return the rows of the pairwise balance."""
        return slice(self.rising_rows.stop, self.rising_rows.stop + len(self.form.balance[1]))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Return the falling losses with their rows."""
        k = self.width
        return tuple(Block(term.loss, slice(part.start * k, part.stop * k), k)
                     for term, part in self.form.parts.falling.slices() if term.rows)

    @cached_property
    def singles(self) -> tuple[tuple[ConvexFunction, ConvexFunction, slice], ...]:
        """Return (ρ, ρ*, rows) of the rising losses."""
        start, out = self.rising_rows.start, []
        for term, part in self.form.parts.rising.slices():
            if term.rows:
                out.append((term.loss, term.loss.conjugate(), slice(start + part.start, start + part.stop)))
        return tuple(out)

    @cached_property
    def radii(self) -> FloatArray:
        """Return the (J,) radii l of the balance rows, whose function is the indicator of [−l, l]."""
        return np.asarray(self.form.balance[1], dtype=float)

    @cached_property
    def weights(self) -> FloatArray:
        """Return the weight of every row; that of a balance row balances its penalty with the losses."""
        parts = self.form.parts
        total = 1.0 + float(parts.falling.weights.sum() + parts.rising.weights.sum())
        norms = np.sum(self.form.balance[0] ** 2, axis=1)
        return np.concatenate([np.repeat(parts.falling.weights, self.width), parts.rising.weights,
                               total / np.where(norms > 0, norms, 1.0)])

    @cached_property
    def shifts(self) -> FloatArray:
        """Return zeros: constants are inside the functions."""
        return np.zeros(self.balance_rows.stop)

    # -- the linear map -----------------------------------------------------------------------------

    def apply(self, x: FloatArray) -> FloatArray:
        """Return A x."""
        form, everyone = self.form, np.arange(self.form.n)
        outputs = form.outputs(*form.split(x))
        own = outputs[everyone, form.labels]
        falling, rising = form.parts.falling, form.parts.rising
        parts = []
        if falling.rows:
            differences = own[:, None] - np.take_along_axis(outputs, self.others, axis=1)
            parts.append(_gathered(falling.points, differences).ravel())
        if rising.rows:
            parts.append(_gathered(rising.points, own - outputs[everyone, self.runner]))
        if form.decision:
            parts.append(form.balance[0] @ x)
        return np.concatenate(parts) if parts else np.zeros(0)

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        """Return Aᵀλ."""
        form, n = self.form, self.form.n
        falling, rising = form.parts.falling, form.parts.rising
        everyone = np.arange(n)
        table = np.zeros((n, form.clusters))
        if falling.rows:
            spread = _spread(falling.points, multipliers[self.block_rows].reshape(-1, self.width), n)
            np.put_along_axis(table, self.others, -spread, axis=1)
            table[everyone, form.labels] = spread.sum(axis=1)
        if rising.rows:
            single = rising.spread(multipliers[self.rising_rows])
            table[everyone, form.labels] += single
            table[everyone, self.runner] -= single
        x = form.join(form.features.adjoint(table @ form.codes).T.ravel(), table.sum(axis=0))
        return x + form.balance[0].T @ multipliers[self.balance_rows] if form.decision else x

    def gradient(self, x: FloatArray, multipliers: FloatArray) -> FloatArray:
        """Return (w, 0) + Aᵀλ."""
        out = self.adjoint(multipliers)
        out[: self.rank] += x[: self.rank]
        return out

    # -- envelopes ----------------------------------------------------------------------------------

    def slopes(self, v: FloatArray, centre: FloatArray, kappa: float) -> FloatArray:
        """Return the normalised multipliers κ(x − prox(x)), x = v + centre/κ."""
        out, x = np.empty(len(v)), v + centre / kappa
        for block in self.blocks:
            out[block.part] = block.slopes(x[block.part].reshape(-1, self.width), kappa).ravel()
        for rho, _, part in self.singles:
            out[part] = rho.derivative(v[part]) if rho.is_smooth else kappa * (x[part] - rho.prox(x[part], 1.0 / kappa))
        outside = x[self.balance_rows]
        out[self.balance_rows] = kappa * (outside - np.clip(outside, -self.radii, self.radii))
        return out

    def clip(self, slopes: FloatArray) -> FloatArray:
        """Return the slopes moved into the domains of the conjugates."""
        out = np.array(slopes, dtype=float)
        for block in self.blocks:
            out[block.part] = block.clip(out[block.part].reshape(-1, self.width)).ravel()
        for _, conjugate, part in self.singles:
            out[part] = np.clip(out[part], *conjugate.domain)
        return out

    def values(self, v: FloatArray) -> float:
        """Return Σ c h(v) of the losses."""
        parts, total = self.form.parts, self.form.parts.constant
        if parts.falling.rows:
            total += float(np.sum(parts.falling.row_losses(v[self.block_rows].reshape(-1, self.width).min(axis=1))))
        if parts.rising.rows:
            total += float(np.sum(parts.rising.row_losses(v[self.rising_rows])))
        return total

    def conjugate_value(self, slopes: FloatArray) -> float:
        """Return Σ c h*(p) − constant."""
        total = -self.form.parts.constant
        for block in self.blocks:
            weights = self.weights[block.part][:: self.width]
            values = np.asarray(block.conjugate(self.sums(slopes[block.part], block)))
            total += float(np.sum(np.where(weights > 0, weights * values, 0.0)))
        for _, conjugate, part in self.singles:
            weights, values = self.weights[part], np.asarray(conjugate(slopes[part]))
            total += float(np.sum(np.where(weights > 0, weights * values, 0.0)))
        # The support function of [−l, l] is l|p|.
        return total + float(np.sum(self.weights[self.balance_rows] * self.radii * np.abs(slopes[self.balance_rows])))

    def recession(self, rows: FloatArray) -> FloatArray:
        """Return the weighted limits c h(v + t d)/t for growing t, by the ends of the conjugates' domains."""
        out = []
        for block in self.blocks:
            least = rows[block.part].reshape(-1, self.width).min(axis=1)
            out.append(self.weights[block.part][:: self.width] * directional(block.conjugate, least))
        for _, conjugate, part in self.singles:
            out.append(self.weights[part] * directional(conjugate, rows[part]))
        out.append(np.where(np.abs(rows[self.balance_rows]) > FLAT, np.inf, 0.0))
        return np.concatenate(out)

    def sums(self, slopes: FloatArray, block: Block) -> FloatArray:
        """Return Σ_q p_q of the points of a block, rounding kept inside the domain of ρ*."""
        return np.clip(slopes.reshape(-1, self.width).sum(axis=1), *block.conjugate.domain)

    def curvature(self, v: FloatArray, centre: FloatArray, kappa: float) -> csr_array:
        """Return the (nk, nk) generalised second derivative in the decision values, a k × k block a point."""
        form, k = self.form, self.form.clusters
        x = v + centre / kappa
        places: list[tuple[IntArray, IntArray, IntArray, FloatArray]] = []
        for block, term in zip(self.blocks, (t for t in form.parts.falling.terms if t.rows)):
            m = x[block.part].reshape(-1, self.width)
            places += self._block_curvature(block, term, m, kappa)
        if form.parts.rising.rows:
            points = np.arange(form.n)
            single = self._single_curvature(v, x, kappa)
            labels, runner = form.labels, self.runner
            places += [(points, a, b, sign * single) for a, b, sign in (
                (labels, labels, 1), (runner, runner, 1), (labels, runner, -1), (runner, labels, -1))]
        if not places:
            return csr_array((form.n * k, form.n * k))
        point, first, second, value = (np.concatenate(column) for column in zip(*places))
        kept = value != 0
        point, first, second = point[kept], first[kept], second[kept]
        return csr_array((value[kept], (point * k + first, point * k + second)), shape=(form.n * k, form.n * k))

    def _block_curvature(self, block: Block, term: LossTerm, m: FloatArray,
                         kappa: float) -> list[tuple[IntArray, IntArray, IntArray, FloatArray]]:
        """Return κ(I − prox'(m)) on the entries that reach the level, as places in the decision values."""
        level, count, mean = block.level(m, kappa)
        alive = np.flatnonzero(m.min(axis=1) < level)
        share = np.asarray(block.function.prox_derivative(mean[alive], 1.0 / (count[alive] * kappa)))
        active = m[alive] < level[alive, None]
        curved = active[:, :, None] * np.eye(self.width) - (
            (share / count[alive])[:, None, None] * (active[:, :, None] & active[:, None, :]))
        curved *= (kappa * term.weights[alive])[:, None, None]
        own, points = curved.sum(axis=2), term.points[alive]
        others, labels = self.others[points], self.form.labels[points]
        row, a, b = np.nonzero(curved)
        side, c = np.nonzero(own)
        return [(points[row], others[row, a], others[row, b], curved[row, a, b]),
                (points[side], labels[side], others[side, c], -own[side, c]),
                (points[side], others[side, c], labels[side], -own[side, c]),
                (points, labels, labels, own.sum(axis=1))]

    def _single_curvature(self, v: FloatArray, x: FloatArray, kappa: float) -> FloatArray:
        """Return the (n,) curvatures of the rising losses in the difference to the runner-up."""
        start = self.rising_rows.start
        out = np.zeros(self.form.parts.rising.rows)
        for rho, _, part in self.singles:
            rows = slice(part.start - start, part.stop - start)
            out[rows] = (rho.curvature(v[part]) if rho.is_smooth
                         else kappa * (1.0 - rho.prox_derivative(x[part], 1.0 / kappa)))
        return self.form.parts.rising.spread(self.form.parts.rising.weights * np.maximum(out, 0.0))

    def balance_curvature(self, v: FloatArray, centre: FloatArray, kappa: float) -> FloatArray:
        """Return the (J,) weighted curvatures of the balance rows."""
        part = self.balance_rows
        x = v[part] + centre[part] / kappa
        return self.weights[part] * np.where(np.abs(x) > self.radii, kappa, 0.0)


def _gathered(points: IntArray, values: FloatArray) -> FloatArray:
    return values if _is_range(points, len(values)) else values[points]


def _spread(points: IntArray, values: FloatArray, n: int) -> FloatArray:
    if _is_range(points, n):
        return values
    out = np.zeros((n, values.shape[1]))
    np.add.at(out, points, values)
    return out


def _is_range(points: IntArray, n: int) -> bool:
    return len(points) == n and bool(np.array_equal(points, np.arange(n)))
