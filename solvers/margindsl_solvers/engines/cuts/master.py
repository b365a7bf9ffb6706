"""The master of one-slack cutting planes: its dual, one weight a cut and one multiplier a bound (SKMMC Eq. 30)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.program.quadratic import minimise
from margindsl.typing import BoolArray, FloatArray, IntArray
from margindsl_solvers.engines.rows.model import Rows

USABLE = 1e-6  # error of the quadratic programme, relative, beyond which it had no feasible point
NEAR = 0.9  # share of the box from which a point leans on it


@dataclass(frozen=True, eq=False)
class Bounds:
    """Represent the finite sides of bounds on linear functions: ⟨row, x⟩ ≤ limit.

    Parameters
    ----------
    index : (R,) int array
        The bound each side belongs to.
    sides : (R,) float array
        +1 for upper sides, −1 for lower ones.
    count : int
        The number of bounds.
    """

    rows: FloatArray  # (R, size of x)
    limits: FloatArray  # (R,)
    index: IntArray
    sides: FloatArray
    count: int

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
    """Represent a solution of the master problem.

    Parameters
    ----------
    x : float array
        (w, b, s).
    value : float
        The master's dual value: a lower bound of the problem, unless the point leans on the box.
    alpha : (K,) float array
        Weights of the cuts, summing to one.
    tau : (J,) float array
        Multipliers of the bounds.
    signs : float array
        Multipliers of the scalars' signs, non-positive.
    slack : float
        How much of the dual equalities is paid for by the box around the bias and the scalars.
    leans : bool
        Whether the bias or a scalar is at the box.
    usable : bool
        Whether the quadratic programme was solved: else no point meets the bounds.
    """

    x: FloatArray
    value: float
    alpha: FloatArray
    tau: FloatArray
    signs: FloatArray
    slack: float
    leans: bool
    usable: bool = True


def solve_master(model: Rows, bounds: Bounds, gradients: FloatArray, offsets: FloatArray, box: float,
                 accuracy: float) -> Answer:
    """Minimise ½‖w‖² + qᵀs + max_k (⟨g_k, x⟩ + o_k) inside the bounds, by its dual over cut weights.

    Shapes: `gradients` (K, r + border), `offsets` (K,).

    Parameters
    ----------
    box : float
        Bound on the bias and the scalars, which a few cuts need not hold.
    accuracy : float
        Accuracy of the value.
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
