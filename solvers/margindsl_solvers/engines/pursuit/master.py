"""The cutting-plane dual: one weight a cut, one multiplier a bound (SKMMC Eq. 30)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.typing import FloatArray
from margindsl_solvers.engines.qp import minimise
from margindsl_solvers.engines.rows.model import RowModel

USABLE = 1e-6  # error of the quadratic programme, relative, beyond which its point means nothing


@dataclass(frozen=True, eq=False)
class Answer:
    """Represent a solution of the master problem.

    Parameters
    ----------
    x : float array
        (ω, b, s).
    value : float
        The master's dual value: a lower bound in the subspace, unless the box holds the point.
    alpha : (K,) float array
        Weights of the cuts, summing to one.
    tau : (J,) float array
        Multipliers of the decision bounds.
    signs : float array
        Multipliers of the scalars' signs, non-positive.
    leans : bool
        Whether the bias or a scalar is at the box.
    """

    x: FloatArray
    value: float
    alpha: FloatArray
    tau: FloatArray
    signs: FloatArray
    leans: bool


def solve_master(model: RowModel, gradients: FloatArray, offsets: FloatArray, box: float,
                 accuracy: float) -> Answer | None:
    """Minimise ½‖ω‖² + qᵀs + max_k (⟨g_k, x⟩ + o_k) inside the bounds, by its dual over cut weights.

    Parameters
    ----------
    model : RowModel
        The problem in the coordinates of the basis.
    gradients : (K, p + border) float array
    offsets : (K,) float array
    box : float
        Bound on the bias and the scalars, which a few cuts need not hold.
    accuracy : float
        Accuracy of the value.

    Returns
    -------
    Answer or None
        None where the quadratic programme has no answer: no point of the subspace meets the bounds.
    """
    p, k, count = model.rank, model.border, len(offsets)
    rows, limits, index, direction = _bound_rows(model)
    low, high = np.full(k, -box), np.full(k, box)
    low[model.bias + model.signed] = 0.0
    base = float(offsets.max())
    B = np.vstack([gradients[:, :p], rows[:, :p], np.zeros((2 * k, p))])
    c = np.concatenate([base - offsets, limits, high, -low])
    border = np.vstack([gradients[:, p:], rows[:, p:], np.eye(k), -np.eye(k)])
    E = np.vstack([np.arange(len(c)) < count, border.T]).astype(float)
    costs = np.concatenate([np.zeros(model.bias), model.form.losses.scalars.costs])
    z, y, error = minimise(B @ B.T, c, E, np.concatenate([[1.0], -costs]), accuracy)
    if error > USABLE:
        return None
    z = z / z[:count].sum()
    w = -(B.T @ z)
    value = base - 0.5 * float(w @ w) - float(c @ z)
    edge = np.clip(y[1:], low, high)
    tau = np.bincount(index, weights=direction * z[count : count + len(limits)], minlength=len(model.form.decision))
    signs = -z[len(z) - k :][model.bias + model.signed]
    return Answer(np.concatenate([w, edge]), value, z[:count], tau, signs, bool(np.any(np.abs(edge) >= 0.9 * box)))


def _bound_rows(model: RowModel) -> tuple[FloatArray, FloatArray, np.ndarray, FloatArray]:
    """Return (rows, limits, bound, ±1) of the finite sides of the decision bounds: ⟨row, x⟩ ≤ limit."""
    form = model.form
    G, h = form.decision_rows
    N = np.column_stack([G, *([h] if model.bias else []), np.zeros((len(G), form.losses.scalars.count))])
    upper = np.array([bound.upper for bound in form.decision], dtype=float)
    lower = np.array([bound.lower for bound in form.decision], dtype=float)
    up, down = np.flatnonzero(np.isfinite(upper)), np.flatnonzero(np.isfinite(lower))
    return (np.vstack([N[up], -N[down]]), np.concatenate([upper[up], -lower[down]]), np.concatenate([up, down]),
            np.concatenate([np.ones(len(up)), -np.ones(len(down))]))
