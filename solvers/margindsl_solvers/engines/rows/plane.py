"""Rows of a fixed-label form: feasible pairs with their values, starts, answers and Newton steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.contract import RawSolution, Status
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import WORDS
from margindsl_solvers.engines.nearest import nearest
from margindsl_solvers.engines.rows.envelopes import Pair
from margindsl_solvers.engines.rows.model import RowModel
from margindsl_solvers.engines.rows.system import Curvature


@dataclass(frozen=True, eq=False)
class PlaneRows(RowModel):
    """Judge points of a fixed-label form, read starts and write answers."""

    # -- judging ------------------------------------------------------------------------------------

    def charges(self, v: FloatArray) -> FloatArray:
        return self.form.losses.row_losses(v)

    def inside(self, x: FloatArray) -> FloatArray:
        x = self.with_signs(x)
        if self.form.decision:
            N = self.form.bound_normals
            x[: N.shape[1]] = nearest(x[: N.shape[1]], N, *self.form.bound_ends)
        return x

    def violation(self, x: FloatArray) -> float:
        return self.form.primal_residual(*self.split(x))

    def refusal(self) -> RawSolution | None:
        """Return the answer where no point satisfies the decision bounds or nothing holds the bias, None elsewhere."""
        if self.form.contradiction:
            return RawSolution(Status.INFEASIBLE, message="no weights and bias satisfy the decision bounds")
        return RawSolution(Status.UNBOUNDED, message=WORDS[Status.UNBOUNDED]) if self.is_endless() else None

    def is_endless(self) -> bool:
        """Return whether the losses fall without end along the bias, beside any value however large."""
        tilted = any(not group.conjugate.domain[0] <= 0.0 <= group.conjugate.domain[1] for group in self.groups)
        if not (tilted and self.bias) or np.any(self.form.bound_rows[1]):
            return False
        along = np.eye(self.bias, self.rank + self.border, self.rank)
        return any(map(self.falls_forever, (*along, *-along)))

    # -- starts and answers -------------------------------------------------------------------------

    def start(self, start: RawSolution | None) -> tuple[FloatArray, FloatArray, bool]:
        """Return (x, normalised multipliers, whether the start was usable) from a solution or zeros."""
        x, centre, used = np.zeros(self.rank + self.border), np.zeros(len(self.weights)), False
        for name, part in (("w", slice(0, self.rank)), ("bias", slice(self.rank, self.rank + self.bias)),
                           ("scalars", slice(self.rank + self.bias, None))):
            value = _given(start, name, x[part].shape)
            if value is not None:
                x[part], used = value, True
        for name, part, sign in (("u", self.loss_rows, -1.0), ("tau", self.decision_rows, 1.0)):
            weights = self.weights[part]
            value = _given(start, name, weights.shape)
            if value is not None:
                centre[part] = sign * self.normalised(value, part)
                used = True
        return x, self.clip(centre), used

    def variables(self, pair: Pair) -> dict[str, FloatArray]:
        w, b, s = self.split(pair.x)
        tau = (self.weights * pair.slopes)[self.decision_rows]
        return {"w": w.copy(), "bias": np.asarray(b), "scalars": s.copy(), "u": self.duals(pair.slopes), "tau": tau}

    def duals(self, slopes: FloatArray) -> FloatArray:
        """Return u = −c p, nudged so that −u/c stays inside the conjugates' domains after rounding."""
        weights = self.weights[self.loss_rows]
        u = -weights * slopes[self.loss_rows]
        for group in self.groups:
            if group.part.stop > self.loss_rows.stop:
                continue
            low, high = group.conjugate.domain
            c, part = weights[group.part], u[group.part]
            ratio = np.divide(-part, c, out=np.full(len(c), np.clip(0.0, low, high)), where=c > 0)
            # One unit in the last place: (c p)/c may exceed the end p it came from.
            part[ratio > high] = np.nextafter(part[ratio > high], np.inf)
            part[ratio < low] = np.nextafter(part[ratio < low], -np.inf)
        return u

    # -- Newton -------------------------------------------------------------------------------------

    def newton_step(self, v: FloatArray, centre: FloatArray, kappa: float, gradient: FloatArray, reach: FloatArray,
                    limit: int) -> FloatArray:
        return Curvature(self, self.curvatures(v, centre, kappa), limit).step(gradient, reach)


def _given(start: RawSolution | None, name: str, shape: tuple[int, ...]) -> FloatArray | None:
    """Return a variable of a start where it has the shape and is finite."""
    value = np.ravel(np.asarray(start.get(name, ()), dtype=float)) if start else np.zeros(0)
    return value if value.shape == shape and len(value) and bool(np.all(np.isfinite(value))) else None
