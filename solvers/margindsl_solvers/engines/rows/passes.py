"""Newton steps of one pass over the points each, where points are read block by block from a file or by workers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from margindsl.calculus import ConvexFunction
from margindsl.contract import Budget
from margindsl.typing import FloatArray
from margindsl_solvers.engines.rows.plane import PlaneRows
from margindsl_solvers.engines.rows.system import solve_positive

MOST = 40  # passes; what is left is for the engine that follows, which also proves the gap
ARMIJO, SHORTER = 1e-4, 0.25


def suits(model: PlaneRows, limit: int) -> bool:
    """Return whether one pass gives value, slope and curvature: smooth losses of one kind, a row a point, few columns.

    Parameters
    ----------
    limit : int
        Largest dense system.
    """
    losses = model.form.losses
    simple = len(losses.terms) == 1 and losses.is_identity and not losses.scalars.count
    return bool(model.form.features.walks and simple and model.is_smooth and model.rank <= limit)


def approach(model: PlaneRows, budget: Budget, x: FloatArray) -> FloatArray:
    """Return a point near the minimiser: Newton steps whose value, slope and curvature are summed where points are.

    Products with the features one after the other take three or four passes a step; this takes one, and neither
    margins nor slopes of the points leave the blocks.

    Parameters
    ----------
    model : PlaneRows
        One that `suits`.
    x : (r [+1],) float array
        Weights, and the bias where it is free.
    """
    found, step, t = _expand(model, x), None, 1.0
    for _ in range(MOST):
        if step is None:
            step = -solve_positive(found[2], found[1])
            fall, t = -float(found[1] @ step), 1.0
            flat = not np.isfinite(fall)  # nothing bends where a bias runs away from every loss
            if flat or 0.5 * fall <= 0.1 * budget.tol * max(abs(found[0]), model.form.floor):
                break
        if budget.expired:
            break
        there = _expand(model, x + t * step)
        if there[0] <= found[0] - ARMIJO * t * fall:
            x, found, step = x + t * step, there, None
        else:
            t *= SHORTER
    return x


def _expand(model: PlaneRows, x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Return the objective, its gradient and its Hessian at a point: one pass."""
    form, w = model.form, model.split(x)[0]
    term = form.losses.terms[0]
    bias = form.own if model.bias else None
    value, gradient, hessian = form.rows.fold(partial(_block, term.loss, x), bias, term.weights, term.shifts)
    penalised = np.arange(len(x)) < model.rank
    return value + 0.5 * float(w @ w), gradient + np.where(penalised, x, 0.0), hessian + np.diag(1.0 * penalised)


def _block(loss: ConvexFunction, x: FloatArray, rows: FloatArray, bias: FloatArray | None, weights: FloatArray,
           shifts: FloatArray) -> tuple[float, Any, Any]:
    """Return the part of one block of features."""
    rows = rows if bias is None else np.hstack([rows, bias])
    margins = rows @ x + shifts
    values, slopes = loss.value_and_derivative(margins)
    bends = weights * np.maximum(loss.curvature(margins), 0.0)
    gradient, held = (weights * slopes) @ rows, np.flatnonzero(bends)
    if 2 * len(held) < len(rows) or not rows.flags.writeable:
        rows, bends = rows[held], bends[held]
    rows *= np.sqrt(bends)[:, None]  # in place, and half a product
    return float(weights @ values), gradient, rows.T @ rows


__all__ = ["approach", "suits"]
