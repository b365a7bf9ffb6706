"""Lower coupled label lifts of low rank to a star of small semidefinite cones, one a component."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from margindsl.program.forms import LabelLiftForm
from margindsl.typing import FloatArray
from margindsl_solvers.engines.conic import modelling as cp
from margindsl_solvers.engines.conic.forms import LossRows
from margindsl_solvers.engines.conic.lift import (
    LabelLowering,
    constraint_multipliers,
    decision_directions,
    is_uncoupled,
    label_directions,
    quadratic_rows,
    symmetric_places,
    unit_rows,
)

STAR_ORDER = 14  # order of a cone up to which many small cones beat one large
STAR_COMPONENTS = 600  # cones, each an object of cvxpy
DUAL_ORDER = 40  # order of the single cone of the dual below which it is as fast


def star_order(form: LabelLiftForm) -> int:
    """Return the order of the cones of the star: one, the label bounds, the rank."""
    return 1 + len(form.balance) + min(form.features.rank, form.n) + int(form.free_bias)


def is_star(form: LabelLiftForm) -> bool:
    """Return whether the star is the lowering of a lift, by coupling, size and rank."""
    if is_uncoupled(form):
        return False
    single = form.count + min(form.features.rank, form.n) + int(form.free_bias)
    return single > DUAL_ORDER and star_order(form) <= STAR_ORDER and form.count <= STAR_COMPONENTS


class LiftedStar(LabelLowering[LabelLiftForm]):
    """Write min ½ tr(PW) + qᵀs + Σcρ(ag + Bs + d) over Q = [[S, R], [Rᵀ, W]] and rows v_C = (p_C, N_C).

    Q lifts the sums σ_j = ω_jᵀz of the label bounds together with w, and [[1, v_Cᵀ], [v_C, Q]] ⪰ 0 for every
    component, Σ_C ω_jC v_C = Qe_j, S_jj ≤ β_j², g_i = t_i F_iᵀN_C(i). Without label bounds a component of one point
    needs g² ≤ F_iᵀWF_i only. The cones have order 1 + J + r, where the single cone of the lift has N + r. What it
    drops, √ρ_C ≤ Σ_{D≠C} √ρ_D for the Schur residuals ρ, was seen to bind under very tight bounds among few components
    only (.1 % at |ωᵀz| ≤ ½, N = 10). Bounds are repaired in the dual of the lift, whatever was dropped.
    """

    def build(self, form: LabelLiftForm) -> cp.Problem:
        losses = form.losses
        self.factor = self.prepare(form)
        omega = label_directions(form)
        self.bounds, self.rank = len(omega), self.factor.shape[1]
        order = self.bounds + self.rank
        self.rows, self.columns = np.triu_indices(order)
        self.entries = cp.Variable(len(self.rows), name="Q")
        sizes = np.bincount(form.component, minlength=form.count)
        self.members = np.arange(form.count) if self.bounds else np.flatnonzero(sizes > 1)
        self.V = cp.Variable((len(self.members), order), name="V")
        self.g = cp.Variable(form.n, name="g")
        self.loss_rows = LossRows(losses, self.parameters, [(losses.slopes, self.g)])
        objective = 0.5 * (self._weights_diagonal(form) @ self.entries) + self.loss_rows.cost
        self.cones = [self._cone(k, order) >> 0 for k in range(len(self.members))]
        constraints = [*self.loss_rows.constraints, *self.cones, *self._margins(form), *self._sums(omega)]
        self.limits = [self.entries[self._place(j, j)] <= b.radius**2 for j, b in enumerate(form.balance)]
        sigma = decision_directions(form, self.factor)
        decision = np.array([bound.upper ** 2 for bound in form.decision])
        self.outputs = self._quadratic(sigma) @ self.entries <= decision if len(sigma) else None
        constraints += [*self.limits, *([] if self.outputs is None else [self.outputs])]
        return cp.Problem(cp.Minimize(objective), constraints)

    def _place(self, i: int, j: int) -> int:
        return int(np.flatnonzero((self.rows == min(i, j)) & (self.columns == max(i, j)))[0])

    def _weights_diagonal(self, form: LabelLiftForm) -> FloatArray:
        """Return the coefficients of the penalised trace of W among the entries of Q."""
        last = self.bounds + self.rank - int(form.free_bias)
        return ((self.rows == self.columns) & (self.rows >= self.bounds) & (self.rows < last)).astype(float)

    def _quadratic(self, vectors: FloatArray) -> FloatArray:
        """Return the rows that map the entries of Q to φᵀWφ."""
        padded = np.column_stack([np.zeros((len(vectors), self.bounds)), vectors])
        return quadratic_rows(padded, self.rows, self.columns)

    def _cone(self, k: int, order: int) -> Any:
        """Return [[1, vᵀ], [v, Q]] of one component."""
        size = order + 1
        fixed = np.zeros(size * size)
        fixed[0] = 1.0
        place = np.arange(1, size)
        row = np.concatenate([place, place * size])
        spread_v = sp.csr_array((np.ones(2 * order), (row, np.tile(np.arange(order), 2))), shape=(size * size, order))
        return cp.reshape(spread_v @ self.V[k] + self._block(size) @ self.entries + fixed, (size, size), order="F")

    def _block(self, size: int) -> sp.csr_array:
        return symmetric_places(self.rows + 1, self.columns + 1, size)

    def _margins(self, form: LabelLiftForm) -> list[Any]:
        """Return g_i = t_i F_iᵀN_C(i) in the star, g_i² ≤ F_iᵀWF_i outside."""
        inside = np.isin(form.component, self.members)
        number = np.searchsorted(self.members, form.component)
        used = np.flatnonzero(inside)
        constraints: list[Any] = []
        if len(used):
            signed = form.sign[used, None] * self.factor[used]
            chosen = self.V[number[used]][:, self.bounds:]
            constraints.append(self.g[used] == cp.sum(cp.multiply(signed, chosen), axis=1))
        alone = np.setdiff1d(np.unique(form.losses.points), used)
        self.alone, self.squares = alone, None
        if len(alone):
            self.squares = cp.square(self.g[alone]) <= self._quadratic(self.factor[alone]) @ self.entries
            constraints.append(self.squares)
        return constraints

    def _sums(self, omega: FloatArray) -> list[Any]:
        """Return Σ_C ω_jC v_C = Qe_j."""
        order = self.bounds + self.rank
        column = [[self._place(j, i) for i in range(order)] for j in range(self.bounds)]
        return [omega[j] @ self.V == self.entries[np.array(column[j])] for j in range(self.bounds)]

    def read(self, form: LabelLiftForm) -> dict[str, FloatArray]:
        u = self.loss_rows.multipliers(form.losses)
        eta = 2 * constraint_multipliers(self.outputs)
        kappa = 2 * np.array([float(np.maximum(limit.dual_value, 0.0)) for limit in self.limits])
        d = np.zeros(form.count)
        d[self.members] = [2 * float(np.asarray(cone.dual_value)[0, 0]) for cone in self.cones]
        outside = np.setdiff1d(np.arange(form.count), self.members)
        if len(outside):
            d[outside] = form.contract(form.losses.spread(u) * np.asarray(self.g.value) * form.sign)[outside]
        return {"u": u, "d": d, "kappa": kappa, "eta": eta, "V": self._unit_vectors(form)}

    def _unit_vectors(self, form: LabelLiftForm) -> FloatArray:
        """Return unit rows along Q^{-1/2}v_C in the star, along the lifted outputs outside."""
        order = self.bounds + self.rank
        Q = np.zeros((order, order))
        Q[self.rows, self.columns] = self.entries.value
        values, vectors = np.linalg.eigh(Q + np.triu(Q, 1).T)
        root = np.sqrt(np.maximum(values, 1e-9 * max(float(values[-1]), np.finfo(float).tiny)))
        V = np.zeros((form.count, order))
        lifted = np.column_stack([np.zeros((form.n, self.bounds)), self.factor]) @ (vectors * root)
        V[form.component] = form.sign[:, None] * lifted
        if len(self.members):
            V[self.members] = np.asarray(self.V.value) @ (vectors / root)
        return unit_rows(V)
