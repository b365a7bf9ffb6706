"""Cuts: linearisations of the whole separable part, kept with their multipliers in compact form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from margindsl.calculus import PLQ
from margindsl.program.quadratic import minimise
from margindsl.typing import BoolArray, FloatArray, IntArray
from margindsl_solvers.engines.rows.model import Block, Group, Rows

Packed = tuple[tuple[FloatArray, ...], ...]


@dataclass(frozen=True, eq=False)
class Linearisation:
    """Linearise the losses R as a function of x = (w, β, s), at any point."""

    model: Rows

    @property
    def rows(self) -> int:
        """Return the number of rows that are losses; they come first."""
        return self.model.loss_rows.stop

    def arguments(self, x: FloatArray) -> FloatArray:
        """Return the arguments v = A x + d of the losses; one product with the features."""
        return (self.model.apply(x) + self.model.shifts)[: self.rows]

    def value(self, v: FloatArray) -> float:
        """Return R at arguments v."""
        return float(np.sum(self.model.charges(v)))

    def cut(self, v: FloatArray) -> tuple[FloatArray, float, Packed]:
        """Return (g, o, multipliers) with R(x) ≥ ⟨g, x⟩ + o, equal at v.

        For the hinge the multipliers are −c_i where the margin is below one and 0 elsewhere: the most
        violated constraint of the one-slack program (CPMMC Eq. 6; slides Eq. 17 for clusters).
        """
        slopes = self.model.subgradient(v)
        offset = self.value(v) - float(slopes @ (v - self.model.shifts[: self.rows]))
        rest = np.zeros(len(self.model.weights) - self.rows)
        return self.model.adjoint(np.concatenate([slopes, rest])), offset, self.pack(v, slopes)

    def pack(self, v: FloatArray, slopes: FloatArray) -> Packed:
        """Return the slopes at v: numbers of pieces, a byte a row; of blocks the few that are not zero."""
        packed: list[tuple[FloatArray, ...]] = []
        for group, table in zip(self.model.loss_groups, self._tables):
            own = slopes[group.part]
            if table is not None:
                packed.append((np.searchsorted(table[0], v[group.part], side="right").astype(np.uint8),))
            elif isinstance(group, Block):
                used = np.flatnonzero(own)
                packed.append((used.astype(np.int32), own[used]))
            else:
                packed.append((own.copy(),))
        return tuple(packed)

    def combine(self, packed: list[Packed], weights: FloatArray) -> FloatArray:
        """Return the multipliers Σ_k α_k λ_k."""
        total = np.zeros(self.rows)
        for cut, alpha in zip(packed, weights):
            for group, table, values in zip(self.model.loss_groups, self._tables, cut):
                part = total[group.part]
                if len(values) == 2:
                    part[values[0]] += alpha * values[1]
                elif table is None:
                    part += alpha * values[0]
                else:
                    part += alpha * (self.model.weights[group.part] * table[1][values[0]])
        return total

    @cached_property
    def _tables(self) -> list[tuple[FloatArray, FloatArray] | None]:
        return [_pieces(group) for group in self.model.loss_groups]


def _pieces(group: Group) -> tuple[FloatArray, FloatArray] | None:
    """Return the knots and slopes of a piecewise linear function of single rows, None of another one."""
    loss = group.function
    if isinstance(group, Block) or not isinstance(loss, PLQ) or np.any(loss.coefficients[:, 0]):
        return None
    return (loss.breakpoints, np.asarray(loss.coefficients[:, 1])) if len(loss.coefficients) < 256 else None


USABLE = 1e-6  # error of the quadratic programme, relative, beyond which it had no feasible point
NEAR = 0.9  # share of the box from which a point leans on it


@dataclass(frozen=True, eq=False)
class Bounds:
    """Represent the finite sides of bounds on linear functions: ⟨row, x⟩ ≤ limit."""

    rows: FloatArray  # (R, size of x)
    limits: FloatArray  # (R,)
    index: IntArray  # (R,), the bound each side belongs to
    sides: FloatArray  # (R,), +1 for upper sides, −1 for lower ones
    count: int  # the number of bounds

    @classmethod
    def of(cls, model: Rows) -> Bounds:
        """Return the finite sides of the decision bounds."""
        N, (lower, upper) = model.form.bound_normals, model.form.bound_ends
        N = np.column_stack([N, np.zeros((len(N), model.form.losses.scalars.count))])
        up, down = np.flatnonzero(np.isfinite(upper)), np.flatnonzero(np.isfinite(lower))
        return cls(np.vstack([N[up], -N[down]]), np.concatenate([upper[up], -lower[down]]), np.append(up, down),
                   np.append(np.ones(len(up)), -np.ones(len(down))), len(N))

    def only(self, held: BoolArray) -> Bounds:
        """Return some of the sides."""
        return Bounds(self.rows[held], self.limits[held], self.index[held], self.sides[held], self.count)


@dataclass(frozen=True, eq=False)
class Answer:
    """Represent a solution of the master problem."""

    x: FloatArray  # (w, b, s)
    value: float  # the master's dual value: a lower bound of the problem, unless the point leans on the box
    alpha: FloatArray  # (K,), weights of the cuts, summing to one
    tau: FloatArray  # (J,), multipliers of the bounds
    signs: FloatArray  # multipliers of the scalars' signs, non-positive
    slack: float  # how much of the dual equalities is paid for by the box around the bias and the scalars
    leans: bool  # whether the bias or a scalar is at the box
    usable: bool = True  # whether the quadratic programme was solved: else no point meets the bounds


def solve_master(model: Rows, bounds: Bounds, gradients: FloatArray, offsets: FloatArray, box: float,
                 accuracy: float) -> Answer:
    """Minimise ½‖w‖² + qᵀs + max_k (⟨g_k, x⟩ + o_k) inside the bounds, by its dual over cut weights.

    Shapes: `gradients` (K, r + border), `offsets` (K,).

    `box`: bound on the bias and the scalars, which a few cuts need not hold; `accuracy`: accuracy of the value.
    """
    r, k, count, held = model.rank, model.border, len(offsets), len(bounds.limits)
    low, high = np.full(k, -box), np.full(k, box)
    signed = model.bias + model.signed
    low[signed] = 0.0
    base = float(offsets.max())
    B = np.vstack([gradients[:, :r], bounds.rows[:, :r], np.zeros((2 * k, r))])
    c = np.concatenate([base - offsets, bounds.limits, high, -low])
    border = np.vstack([gradients[:, r:], bounds.rows[:, r:], np.eye(k), -np.eye(k)])
    E = np.vstack([np.arange(len(c)) < count, border.T]).astype(float)
    costs = np.concatenate([np.zeros(model.bias), model.form.losses.scalars.costs])
    z, y, error = minimise(B @ B.T, c, E, np.concatenate([[1.0], -costs]), accuracy)
    z = z / z[:count].sum()
    w, edge = -(B.T @ z), np.clip(y[1:], low, high)
    up, down = z[len(z) - 2 * k : len(z) - k], z[len(z) - k :]
    pay = up + down
    pay[signed] = up[signed]
    tau = np.bincount(bounds.index, weights=bounds.sides * z[count : count + held], minlength=bounds.count)
    return Answer(np.concatenate([w, edge]), base - 0.5 * float(w @ w) - float(c @ z), z[:count], tau, -down[signed],
                  float(pay.max(initial=0.0)), bool(np.any(np.abs(edge) >= NEAR * box)), error <= USABLE)
