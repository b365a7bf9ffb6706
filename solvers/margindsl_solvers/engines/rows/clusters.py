"""The rows of a fixed-cluster form: blocks of k − 1 differences, single differences, pairwise balance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from margindsl.program.clusters import ClusterForm
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.rows.envelopes import Group, Rows


@dataclass(frozen=True)
class Block(Group):
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

    width: int = 1

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

    def charged(self, weights: FloatArray) -> FloatArray:
        return weights[self.part][:: self.width]

    def argument(self, x: FloatArray) -> FloatArray:
        return self.table(x).min(axis=1)

    def pull(self, p: FloatArray) -> FloatArray:
        return np.clip(self.table(p).sum(axis=1), *self.conjugate.domain)


@dataclass(eq=False)
class ClusterModel(Rows):
    """Write a convex fixed-cluster form as min ½‖w‖² + qᵀs + Σ c h(v), v = A x + d, x = (w, β, s), as `RowModel` does.

    The rows are the blocks of the falling losses (differences a(f_y − f_q) + bᵀs, q ≠ y), the differences of rising
    losses to the runner-up, those of the pairwise balance and of the signs of scalars.

    Parameters
    ----------
    runner : (n,) int array
        The clusters at which rising losses are majorised; a solver may move them.
    """

    form: ClusterForm
    runner: IntArray

    @property
    def constant(self) -> float:
        return self.form.parts.constant

    @cached_property
    def rank(self) -> int:
        return self.form.size_of_w

    @property
    def bias(self) -> int:
        return self.form.border

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray | float, FloatArray]:
        return self.form.split(x)

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
        return slice(0, self.rising_rows.stop)

    @cached_property
    def decision_rows(self) -> slice:
        return slice(self.rising_rows.stop, self.rising_rows.stop + len(self.form.bound_normals))

    @cached_property
    def _moved(self) -> tuple[tuple[Block, ...], FloatArray]:
        """Return the falling losses with their rows, equal ones but for a shift as one, and shifts of the points."""
        k, falling, blocks = self.width, self.form.parts.falling, list[Block]()
        shifts = np.zeros(falling.rows)
        for term, part in falling.slices():
            if not term.rows:
                continue
            loss, own = term.loss.unshifted()
            shifts[part] = term.shifts + own
            same = bool(blocks) and blocks[-1].function == loss
            start = blocks.pop().part.start if same else part.start * k
            blocks.append(Block(loss, slice(start, part.stop * k), width=k))
        return tuple(blocks), shifts

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Return the falling losses with their rows."""
        return self._moved[0]

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        start = self.rising_rows.start
        rising = [Group(term.loss, slice(start + part.start, start + part.stop), bool(term.loss.is_smooth))
                  for term, part in self.form.parts.rising.slices() if term.rows]
        return (*self.blocks, *rising, *self.bound_groups, *self.sign_groups)

    @cached_property
    def weights(self) -> FloatArray:
        parts = self.form.parts
        total = 1.0 + float(parts.falling.weights.sum() + parts.rising.weights.sum())
        norms = np.sum(self.form.bound_normals**2, axis=1)
        return np.concatenate([np.repeat(parts.falling.weights, self.width), parts.rising.weights,
                               total / np.where(norms > 0, norms, 1.0), self.sign_weights])

    @cached_property
    def shifts(self) -> FloatArray:
        out = np.zeros(self.sign_rows.stop)
        out[self.block_rows] = np.repeat(self._moved[1], self.width)
        out[self.rising_rows] = self.form.parts.rising.shifts
        return out

    # -- the linear map -----------------------------------------------------------------------------

    def apply(self, x: FloatArray) -> FloatArray:
        form, everyone = self.form, np.arange(self.form.n)
        w, bias, s = form.split(x)
        outputs = form.outputs(w, bias)
        own = outputs[everyone, form.labels]
        falling, rising = form.parts.falling, form.parts.rising
        parts = [s[self.signed]]
        if form.decision:
            parts.insert(0, form.bound_normals @ x[: self.rank + self.bias])
        if rising.rows:
            parts.insert(0, self.entered(rising, own - outputs[everyone, self.runner], x))
        if falling.rows:
            differences = own[:, None] - np.take_along_axis(outputs, self.others, axis=1)
            parts.insert(0, self.entered(falling, differences, x).ravel())
        return np.concatenate(parts)

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        form, n = self.form, self.form.n
        falling, rising = form.parts.falling, form.parts.rising
        everyone = np.arange(n)
        table, out = np.zeros((n, form.clusters)), np.zeros(self.rank + self.border)
        if falling.rows:
            spread = self.pull(falling, multipliers[self.block_rows].reshape(-1, self.width), out)
            np.put_along_axis(table, self.others, -spread, axis=1)
            table[everyone, form.labels] = spread.sum(axis=1)
        if rising.rows:
            single = self.pull(rising, multipliers[self.rising_rows], out)
            table[everyone, form.labels] += single
            table[everyone, self.runner] -= single
        out += form.drawn(table)
        if form.decision:
            out[: self.rank + self.bias] += form.bound_normals.T @ multipliers[self.decision_rows]
        out[self.rank + self.bias + self.signed] += multipliers[self.sign_rows]
        return out

    # -- envelopes ----------------------------------------------------------------------------------

    def charges(self, v: FloatArray) -> FloatArray:
        rising, parts = self.form.parts.rising, [np.array([self.constant])]
        for block in self.blocks:
            parts.append(block.charged(self.weights) * block.function(block.argument(v[block.part])))
        if rising.rows:
            parts.append(rising.row_losses(v[self.rising_rows]))
        return np.concatenate(parts)

    def curvature(self, v: FloatArray, centre: FloatArray, kappa: float, rows: FloatArray) -> PointBlocks:
        """Return the generalised second derivative in the decision values, a k × k block a point, and the scalars.

        The `curvatures` of rows are those of the rising losses, in the difference to the runner-up, and of the signs.
        """
        form, x, rising = self.form, v + centre / kappa, self.form.parts.rising
        nowhere = np.zeros(0, dtype=int)
        places: list[tuple[IntArray, IntArray, IntArray, FloatArray]] = [(nowhere, nowhere, nowhere, np.zeros(0))]
        crossed = np.zeros((form.n, form.clusters, form.losses.scalars.count))
        corner = np.zeros((crossed.shape[2], crossed.shape[2]))
        for block in self.blocks:
            places += self._block_curvature(block, block.table(x[block.part]), kappa, crossed, corner)
        if rising.rows:
            single, slopes, b = rows[self.rising_rows], rising.slopes, rising.coupling
            square, labels, runner = single * slopes**2, form.labels[rising.points], self.runner[rising.points]
            places += [(rising.points, p, q, sign * square) for p, q, sign in (
                (labels, labels, 1), (runner, runner, 1), (labels, runner, -1), (runner, labels, -1))]
            for clusters, sign in ((labels, 1), (runner, -1)):
                np.add.at(crossed, (rising.points, clusters), (sign * single * slopes)[:, None] * b)
            corner += b.T @ (single[:, None] * b)
        corner[self.signed, self.signed] += rows[self.sign_rows]
        point, first, second, value = (np.concatenate(column) for column in zip(*places))
        kept = value != 0
        return PointBlocks(point[kept], first[kept], second[kept], value[kept], crossed, corner)

    def _block_curvature(self, block: Block, m: FloatArray, kappa: float, crossed: FloatArray,
                         corner: FloatArray) -> list[tuple[IntArray, IntArray, IntArray, FloatArray]]:
        """Return κ(I − prox'(m)) on the entries that reach the level, as places in the decision values.

        What it is between them and the scalars is added to `crossed`, between scalars to `corner`.
        """
        level, count, mean, _ = block.level(m, kappa)
        alive = np.flatnonzero(m.min(axis=1) < level)
        share = np.asarray(block.function.prox_derivative(mean[alive], 1.0 / (count[alive] * kappa)))
        active = m[alive] < level[alive, None]
        curved = active[:, :, None] * np.eye(self.width) - (
            (share / count[alive])[:, None, None] * (active[:, :, None] & active[:, None, :]))
        curved *= (kappa * block.charged(self.weights)[alive])[:, None, None]
        falling, rows = self.form.parts.falling, block.part.start // self.width + alive
        points, slopes, b = falling.points[rows], falling.slopes[rows], falling.coupling[rows]
        others, labels, own = self.others[points], self.form.labels[points], curved.sum(axis=2)
        if b.shape[1]:
            total = own.sum(axis=1)
            np.add.at(crossed, (points[:, None], others), -(slopes[:, None] * own)[:, :, None] * b[:, None])
            np.add.at(crossed, (points, labels), (slopes * total)[:, None] * b)
            corner += b.T @ (total[:, None] * b)
        curved, own = curved * (slopes**2)[:, None, None], own * (slopes**2)[:, None]
        row, a, b = np.nonzero(curved)
        side, c = np.nonzero(own)
        return [(points[row], others[row, a], others[row, b], curved[row, a, b]),
                (points[side], labels[side], others[side, c], -own[side, c]),
                (points[side], others[side, c], labels[side], -own[side, c]),
                (points, labels, labels, own.sum(axis=1))]


@dataclass(frozen=True, eq=False)
class PointBlocks:
    """Represent a symmetric k × k block a point by its entries; those of one place are added up.

    Parameters
    ----------
    point, first, second : int arrays
        The places: a point, and two clusters.
    crossed : (n, k, S) float array
        Second derivatives in a decision value and a scalar.
    corner : (S, S) float array
        Those in two scalars.
    """

    point: IntArray
    first: IntArray
    second: IntArray
    value: FloatArray
    crossed: FloatArray
    corner: FloatArray

    @property
    def trace(self) -> float:
        """Return the sum of the diagonals."""
        return float(self.value[self.first == self.second].sum())

    def matrix(self, n: int, k: int) -> csr_array:
        """Return the (nk, nk) matrix with the blocks on its diagonal."""
        places = self.point * k + self.first, self.point * k + self.second
        return csr_array((self.value, places), shape=(n * k, n * k))
