"""Lower weight lifts to semidefinite programs of the features' order, through the dual."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from margindsl.calculus import PLQ
from margindsl.program.forms import WeightLiftForm
from margindsl.typing import FloatArray
from margindsl_solvers.engines.conic import modelling as cp
from margindsl_solvers.engines.conic.forms import LossParameters, Lowering
from margindsl_solvers.engines.conic.lift import decision_directions, multiplier_values, outer_columns
from margindsl_solvers.engines.conic.moment import piece_cones


class WeightDual(Lowering[WeightLiftForm]):
    """Write the dual of the weight lift, max ΣD − ½Σηℓ² with D_r ≤ c_rρ_r(s) + ½a_rs² for all s ≥ 0.

    The matrix inequality is diag(I, 0) + Σησσᵀ − Σ aφφᵀ ⪰ 0, of the features' order; twice its multiplier is P.
    """

    is_dual = True

    def build(self, form: WeightLiftForm) -> cp.Problem:
        losses, order = form.losses, form.order
        self.parameters = LossParameters(losses)
        phi = np.asarray(form.features.toarray(), dtype=float)
        phi = np.column_stack([phi, np.ones(form.n)]) if form.free_bias else phi
        sigma = decision_directions(form, phi)
        self.at, self.a = cp.Variable(losses.rows, name="a/c"), cp.Variable(losses.rows, name="a")
        self.eta = cp.Variable(len(sigma), nonneg=True, name="eta") if len(sigma) else None
        least = cp.Variable(losses.rows, name="D/c")
        constraints = [self.a == cp.multiply(self.parameters.weights, self.at)]
        for term, part in losses.slices():
            right = replace(term, loss=term.loss + PLQ.indicator(0.0, np.inf))
            constraints += piece_cones(right, 0.0 * self.at[part], -self.at[part], least[part])
        spread = sp.csr_array((np.ones(losses.rows), (losses.points, np.arange(losses.rows))),
                              shape=(form.n, losses.rows))
        corner = np.ones(order)
        corner[order - 1] = 0.0 if form.free_bias else 1.0
        matrix = np.diag(corner).ravel(order="F") - outer_columns(phi, np.arange(order), order) @ (spread @ self.a)
        value = cp.sum(cp.multiply(self.parameters.weights, least))
        if self.eta is not None:
            matrix = matrix + outer_columns(sigma, np.arange(order), order) @ self.eta
            value = value - 0.5 * (np.array([bound.upper**2 for bound in form.decision]) @ self.eta)
        self.inequality = cp.reshape(matrix, (order, order), order="F") >> 0
        return cp.Problem(cp.Minimize(-value), [*constraints, self.inequality])

    def load(self, form: WeightLiftForm) -> None:
        self.parameters.load(form.losses)

    def read(self, form: WeightLiftForm) -> dict[str, FloatArray]:
        P = np.asarray(self.inequality.dual_value)
        values, vectors = np.linalg.eigh(P + P.T)  # the multiplier of the inequality is P / 2
        keep = values > 1e-10 * max(float(values[-1]), 1e-300)
        a = np.bincount(form.losses.points, weights=np.asarray(self.a.value), minlength=form.n)
        return {"W": vectors[:, keep] * np.sqrt(values[keep]), "a": a, "eta": multiplier_values(self.eta)}
