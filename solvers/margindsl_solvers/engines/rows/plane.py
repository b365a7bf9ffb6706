"""Rows of a form whose margins are linear in the weights: one a loss; starts, answers and Newton steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.contract import RawSolution
from margindsl.program.labelled import FixedLabelForm
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray
from margindsl_solvers.engines.rows.model import Pair, Rows, given
from margindsl_solvers.engines.rows.system import Curvature


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
        spread = tables[0]
        return np.append(self.form.rows.adjoint(spread), spread @ self.form.own[:, : self.bias])

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
