"""Newton steps of one pass over the points each, where points are read block by block from a file or by workers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from margindsl.calculus import ConvexFunction
from margindsl.contract import Budget, RawSolution
from margindsl.program.labelled import FixedLabelForm
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray
from margindsl_solvers.engines.rows.model import Pair, Rows, given
from margindsl_solvers.engines.rows.system import Curvature, solve_positive

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
    return bool(model.form.features.is_streamed and simple and model.is_smooth and model.rank <= limit)


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
            if flat or 0.5 * fall <= 0.1 * budget.tol * max(abs(found[0]), model.form.negligible):
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


@dataclass(frozen=True, eq=False)
class PlaneRows(Rows):
    """Write a fixed-label form as rows, one a loss."""

    form: FixedLabelForm

    @property
    def losses(self) -> tuple[tuple[Losses, int | None], ...]:
        return ((self.form.losses, None),)

    def margins(self, w: FloatArray, bias: FloatArray) -> list[FloatArray]:
        margins = self.form.rows.apply(w)
        return [margins + self.form.own @ bias if self.bias else margins]

    def pulled(self, tables: list[FloatArray]) -> FloatArray:
        scatter = tables[0]
        return np.append(self.form.rows.adjoint(scatter), scatter @ self.form.own[:, : self.bias])

    # -- starts and answers -------------------------------------------------------------------------

    def start(self, start: RawSolution | None) -> tuple[FloatArray, FloatArray, bool]:
        """Return (x, normalised multipliers, whether the start was usable) from a solution or zeros."""
        (x, used), centre = self.plane_of(start), np.zeros(len(self.weights))
        for name, part, sign in (("u", self.loss_rows, -1.0), ("tau", self.decision_rows, 1.0)):
            value = given(start, name, self.weights[part].shape)
            if value is not None:
                centre[part], used = sign * self.normalised(value, part), True
        return x, self.clip(centre), used

    def variables(self, pair: Pair) -> dict[str, FloatArray]:
        w, b, s = self.split(pair.x)
        tau = (self.weights * pair.slopes)[self.decision_rows]
        return {"w": w.copy(), "bias": np.asarray(b), "scalars": s.copy(), "u": self.duals(pair.slopes), "tau": tau}

    def duals(self, slopes: FloatArray) -> FloatArray:
        """Return u = −c p, nudged so that −u/c stays inside the conjugates' domains after rounding."""
        weights = self.weights[self.loss_rows]
        u = -weights * slopes[self.loss_rows]
        for group in self.loss_groups:
            low, high = group.conjugate.domain
            c, part = weights[group.part], u[group.part]
            ratio = np.divide(-part, c, out=np.full(len(c), np.clip(0.0, low, high)), where=c > 0)
            # One unit in the last place: (c p)/c may exceed the end p it came from.
            part[ratio > high] = np.nextafter(part[ratio > high], np.inf)
            part[ratio < low] = np.nextafter(part[ratio < low], -np.inf)
        return u

    def newton_step(self, v: FloatArray, centre: FloatArray, kappa: float, gradient: FloatArray, reach: FloatArray,
                    limit: int) -> FloatArray:
        return Curvature(self, self.curvatures(v, centre, kappa), limit).step(gradient, reach)


__all__ = ['approach', 'suits']
