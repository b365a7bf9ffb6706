"""The rows of a fixed-cluster form: blocks of k − 1 differences, single differences, pairwise balance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from margindsl.calculus import PLQ
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
        """Return κ(m − prox(m)), entries of a subgradient of h."""
        m = self.table(x)
        _, count, mean, slope = (column[:, None] for column in self.level(m, kappa))
        return np.minimum(kappa * (m - mean) + slope / count, 0.0).ravel()

    def curvatures(self, x: FloatArray, kappa: float) -> FloatArray:
        """Return zeros: the rows of a point curve together, as `ClusterModel.curvature` says."""
        return np.zeros(len(x))

    def clip(self, p: FloatArray) -> FloatArray:
        """Return slopes moved into the domain of h*: p ≤ 0 and Σp in the domain of ρ*."""
        low, high = self.conjugate.domain
        p = np.minimum(self.table(p), 0.0)
        total = p.sum(axis=1)
        scale = np.divide(low, total, out=np.ones(len(total)), where=total < low)
        p = p * scale[:, None]
        short = np.flatnonzero(total > high)
        p[short, 0] += high - total[short]
        return p.ravel()

    def charged(self, weights: FloatArray) -> FloatArray:
        """Return the weights of the points."""
        return weights[self.part][:: self.width]

    def argument(self, x: FloatArray) -> FloatArray:
        """Return the least entries of the points."""
        return self.table(x).min(axis=1)

    def pull(self, p: FloatArray) -> FloatArray:
        """Return Σ_q p_q of the points, rounding kept inside the domain of ρ*."""
        return np.clip(self.table(p).sum(axis=1), *self.conjugate.domain)


@dataclass(eq=False)
class ClusterModel(Rows):
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

    @property
    def constant(self) -> float:
        """Return the constant of the losses that were split."""
        return self.form.parts.constant

    @cached_property
    def rank(self) -> int:
        """Return the number r(k−1) of weights."""
        return self.form.size_of_w

    @property
    def bias(self) -> int:
        """Return the number of coordinates of a free bias."""
        return self.form.border

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
    def _moved(self) -> tuple[tuple[Block, ...], FloatArray]:
        """Return the falling losses with their rows, equal ones but for a shift as one, and shifts of the points."""
        k, falling, blocks = self.width, self.form.parts.falling, list[Block]()
        shifts = np.zeros(falling.rows)
        for term, part in falling.slices():
            if not term.rows:
                continue
            loss, shifts[part] = term.loss.unshifted()
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
        """Return the functions with their rows: falling and rising losses, and indicators of the pairwise balance."""
        start, pairs = self.rising_rows.start, len(self.form.pairs)
        rising = [Group(term.loss, slice(start + part.start, start + part.stop), bool(term.loss.is_smooth))
                  for term, part in self.form.parts.rising.slices() if term.rows]
        held = [Group(PLQ.indicator(-bound.upper, bound.upper), slice(at, at + pairs)) for at, bound in zip(
            range(self.balance_rows.start, self.balance_rows.stop, pairs), self.form.decision)]
        return (*self.blocks, *rising, *held)

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
        """Return the constants d; most are inside the functions."""
        out = np.zeros(self.balance_rows.stop)
        out[self.block_rows] = np.repeat(self._moved[1], self.width)
        return out

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

    # -- envelopes ----------------------------------------------------------------------------------

    def charges(self, v: FloatArray) -> FloatArray:
        """Return the losses of the rows at differences v, and the constant."""
        rising, parts = self.form.parts.rising, [np.array([self.constant])]
        for block in self.blocks:
            parts.append(block.charged(self.weights) * block.function(block.argument(v[block.part])))
        if rising.rows:
            parts.append(rising.row_losses(v[self.rising_rows]))
        return np.concatenate(parts)

    def curvature(self, v: FloatArray, centre: FloatArray, kappa: float, rows: FloatArray) -> PointBlocks:
        """Return the generalised second derivative in the decision values, a k × k block a point.

        The `curvatures` of rows are those of the rising losses, in the difference to the runner-up.
        """
        form, x = self.form, v + centre / kappa
        places: list[tuple[IntArray, IntArray, IntArray, FloatArray]] = []
        for block in self.blocks:
            places += self._block_curvature(block, block.table(x[block.part]), kappa)
        if form.parts.rising.rows:
            points = np.arange(form.n)
            single = form.parts.rising.spread(rows[self.rising_rows])
            labels, runner = form.labels, self.runner
            places += [(points, a, b, sign * single) for a, b, sign in (
                (labels, labels, 1), (runner, runner, 1), (labels, runner, -1), (runner, labels, -1))]
        if not places:
            nowhere = np.zeros(0, dtype=int)
            return PointBlocks(nowhere, nowhere, nowhere, np.zeros(0))
        point, first, second, value = (np.concatenate(column) for column in zip(*places))
        kept = value != 0
        return PointBlocks(point[kept], first[kept], second[kept], value[kept])

    def _block_curvature(self, block: Block, m: FloatArray,
                         kappa: float) -> list[tuple[IntArray, IntArray, IntArray, FloatArray]]:
        """Return κ(I − prox'(m)) on the entries that reach the level, as places in the decision values."""
        level, count, mean, _ = block.level(m, kappa)
        alive = np.flatnonzero(m.min(axis=1) < level)
        share = np.asarray(block.function.prox_derivative(mean[alive], 1.0 / (count[alive] * kappa)))
        active = m[alive] < level[alive, None]
        curved = active[:, :, None] * np.eye(self.width) - (
            (share / count[alive])[:, None, None] * (active[:, :, None] & active[:, None, :]))
        curved *= (kappa * block.charged(self.weights)[alive])[:, None, None]
        own, points = curved.sum(axis=2), self.form.parts.falling.points[block.part.start // self.width + alive]
        others, labels = self.others[points], self.form.labels[points]
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
    value : float array
    """

    point: IntArray
    first: IntArray
    second: IntArray
    value: FloatArray

    @property
    def trace(self) -> float:
        """Return the sum of the diagonals."""
        return float(self.value[self.first == self.second].sum())

    def matrix(self, n: int, k: int) -> csr_array:
        """Return the (nk, nk) matrix with the blocks on its diagonal."""
        places = self.point * k + self.first, self.point * k + self.second
        return csr_array((self.value, places), shape=(n * k, n * k))


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
