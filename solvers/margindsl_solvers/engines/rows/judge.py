"""What a native solver of fixed labels returns: a feasible pair, its values, and the status they justify."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import linprog

from margindsl.accuracy import greatest_ratio, relative_gap, rounding
from margindsl.contract import RawSolution, Status
from margindsl.program.forms import FixedLabelForm
from margindsl.typing import FloatArray
from margindsl_solvers.engines.nearest import nearest
from margindsl_solvers.engines.rows.model import RowModel


@dataclass(frozen=True, eq=False)
class Pair:
    """Represent a primal point with a dual point and what they prove.

    Parameters
    ----------
    x : float array
        (w, b, s), inside the decision bounds and signs.
    slopes : float array
        The normalised multipliers, inside the domains of the conjugates.
    primal, dual : float
        The two values.
    residual : float
        What the violation of the dual equalities costs, relative to the primal value.
    violation : float
        The largest violation of the decision bounds, relative to their rows.
    noise : float
        What rounding may have done to the difference of the values.
    floor : float
        The form's size of values as good as zero.
    """

    x: FloatArray
    slopes: FloatArray
    primal: float
    dual: float
    residual: float
    violation: float
    noise: float = 0.0
    floor: float = 0.0

    @property
    def gap(self) -> float:
        """Return the gap relative to |primal|, rounding apart."""
        return relative_gap(self.primal, self.dual, self.noise, self.floor)

    @property
    def error(self) -> float:
        """Return the larger of gap and residuals."""
        return max(self.gap, self.residual, self.violation)


def judge(model: RowModel, x: FloatArray, slopes: FloatArray) -> Pair:
    """Return the feasible pair next to (x, slopes) with its values."""
    x, p = inside(model, x), model.clip(slopes)
    gradient = model.gradient(x, model.weights * p)
    w, b, s = model.split(x)
    v = (model.apply(x) + model.shifts)[model.loss_rows]
    rows, costs = model.form.losses.row_losses(v), model.form.losses.scalars.costs * s
    half = 0.5 * float(w @ w)
    direction = w - gradient[: model.rank]
    spent, conjugate = 0.5 * float(direction @ direction), model.conjugate_value(p)
    parts = half + float(np.abs(rows).sum() + np.abs(costs).sum()) + spent + abs(conjugate)
    primal, form = half + float(np.sum(rows)) + float(np.sum(costs)), model.form
    owed = np.abs(gradient[model.rank :]) * np.maximum(np.abs(x[model.rank :]), form.units[1])
    residual = greatest_ratio(owed, max(abs(primal), form.floor))
    return Pair(x, p, primal, -conjugate - spent, residual, form.primal_residual(w, b, s),
                float(rounding(parts, form.n)), form.floor)


def inside(model: RowModel, x: FloatArray) -> FloatArray:
    """Return the point with signs clipped and moved into the decision bounds by the shortest way."""
    x = np.array(x, dtype=float)
    index = model.rank + model.bias + model.signed
    x[index] = np.maximum(x[index], 0.0)
    if not model.form.decision:
        return x
    G, h = model.form.decision_rows
    N = np.column_stack([G, h]) if model.bias else G
    x[: N.shape[1]] = nearest(x[: N.shape[1]], N, *_ends(model.form))
    return x


def is_feasible(form: FixedLabelForm) -> bool:
    """Return whether some (w, b) satisfies the decision bounds."""
    if not form.decision:
        return True
    G, h = form.decision_rows
    N = np.column_stack([G, h]) if form.free_bias else G
    norms = np.linalg.norm(N, axis=1)
    sizes = np.array([np.linalg.norm(bound.weights) for bound in form.decision])
    N = np.where((norms > 1e-13 * sizes * math.sqrt(form.features.trace + form.n * form.free_bias))[:, None], N, 0.0)
    if np.linalg.matrix_rank(N) == len(N):
        return True
    lower, upper = _ends(form)
    ends = np.concatenate([upper, -lower])
    finite = np.isfinite(ends)
    result = linprog(np.zeros(N.shape[1]), A_ub=np.vstack([N, -N])[finite], b_ub=ends[finite],
                     bounds=(None, None), method="highs")
    return bool(result.status != 2)


def start_point(model: RowModel, start: RawSolution | None) -> tuple[FloatArray, FloatArray, bool]:
    """Return (x, normalised multipliers, whether the start was usable) from a solution or zeros."""
    x, centre = np.zeros(model.rank + model.border), np.zeros(len(model.weights))
    used = False
    for name, part in (("w", slice(0, model.rank)), ("bias", slice(model.rank, model.rank + model.bias)),
                       ("scalars", slice(model.rank + model.bias, None))):
        value = np.ravel(np.asarray(start.get(name, ()), dtype=float)) if start else np.zeros(0)
        if value.shape == x[part].shape and len(value) and np.all(np.isfinite(value)):
            x[part], used = value, True
    for name, part, sign in (("u", model.loss_rows, -1.0), ("tau", model.decision_rows, 1.0)):
        value = np.ravel(np.asarray(start.get(name, ()), dtype=float)) if start else np.zeros(0)
        weights = model.weights[part]
        if value.shape == weights.shape and len(value) and np.all(np.isfinite(value)):
            centre[part] = sign * np.divide(value, weights, out=np.zeros_like(value), where=weights > 0)
            used = True
    return x, model.clip(centre), used


class Endless(Protocol):
    """Describe a solve that found no end."""

    iterations: int
    trace: list[tuple[float, float, float]]


def unbounded(run: Endless, seconds: dict[str, float]) -> RawSolution:
    """Return the answer for a problem without a minimum."""
    return RawSolution(Status.UNBOUNDED, iterations=run.iterations, seconds=seconds, trace=tuple(run.trace),
                       message="the objective falls without end along the bias or a shared scalar")


def dual_of(model: RowModel, slopes: FloatArray) -> FloatArray:
    """Return u = −c p, nudged so that −u/c stays inside the conjugates' domains after rounding."""
    weights = model.weights[model.loss_rows]
    u = -weights * slopes[model.loss_rows]
    for group in model.groups:
        if group.part.stop > model.loss_rows.stop:
            continue
        low, high = group.conjugate.domain
        c, part = weights[group.part], u[group.part]
        ratio = np.divide(-part, c, out=np.full(len(c), np.clip(0.0, low, high)), where=c > 0)
        # One unit in the last place: (c p)/c may exceed the end p it came from.
        part[ratio > high] = np.nextafter(part[ratio > high], np.inf)
        part[ratio < low] = np.nextafter(part[ratio < low], -np.inf)
    return u


def variables(model: RowModel, pair: Pair) -> dict[str, FloatArray]:
    """Return the variables a fixed-label form asks for."""
    w, b, s = model.split(pair.x)
    tau = (model.weights * pair.slopes)[model.decision_rows]
    return {"w": w.copy(), "bias": np.asarray(b), "scalars": s.copy(), "u": dual_of(model, pair.slopes),
            "tau": tau}


def _ends(form: FixedLabelForm) -> tuple[FloatArray, FloatArray]:
    return (np.array([bound.lower for bound in form.decision], dtype=float),
            np.array([bound.upper for bound in form.decision], dtype=float))
