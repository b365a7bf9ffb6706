"""Lower convex fixed-cluster forms to cvxpy problems."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.program.clusters import ClusterForm
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray
from margindsl_solvers.engines.conic import modelling as cp
from margindsl_solvers.engines.conic.forms import Lowering, reduced
from margindsl_solvers.engines.rows.clusters import ClusterRows


class ClusterLowering(Lowering[ClusterForm]):
    """Write min ½‖V‖² + qᵀs + Σ cρ↓(t + d) + Σ cρ↑(v + d), t ≤ a(f_y − f_q) + gᵀs, v = a(f_y − f_runner) + gᵀs.

    Here q ≠ y and f = ΦVBᵀ + Bβ. ρ↓ falls, so that t is the least of the right sides at an optimum; multipliers of
    these rows are u_q, of those of v … t.
    """

    def build(self, form: ClusterForm) -> cp.Problem:
        self.model = ClusterRows(form, form.join(np.zeros(form.size_of_w), 0.0))
        phi, self.basis = reduced(form.features)
        k, everyone = form.clusters, np.arange(form.n)
        self.V = cp.Variable((phi.shape[1], k - 1), name="V")
        coded = phi @ self.V
        if form.free_bias:
            self.beta = cp.Variable((1, k - 1), name="beta")
            coded = coded + np.ones((form.n, 1)) @ self.beta
        outputs = coded @ form.codes.T
        flat = cp.vec(outputs, order="C")
        own = flat[everyone * k + form.labels]
        scalars = form.losses.scalars
        self.s = cp.Variable(scalars.count, name="s") if scalars.count else None
        value: Any = 0.0
        risen: Any = 0.0
        self.least: list[Any] = []
        self.definition: Any = None
        falling, rising, model = form.parts.falling, form.parts.rising, self.model
        constraints: list[Any] = []
        if falling.rows:
            t, rows = cp.Variable(falling.rows, name="t"), falling.points
            self.least = [t <= self._entered(falling, own[rows] - flat[rows * k + model.others[rows, j]])
                          for j in range(model.width)]
            value, more = _weighted(falling, t)
            constraints += [*more, *self.least]
        if rising.rows:
            v, rows = cp.Variable(rising.rows, name="v"), rising.points
            self.definition = v == self._entered(rising, own[rows] - flat[rows * k + model.runner[rows]])
            risen, more = _weighted(rising, v)
            constraints += [*more, self.definition]
        first, second = np.triu_indices(form.clusters, 1)
        self.balance = [sign * (sums[first] - sums[second]) <= bound.upper for bound in form.decision
                        for sums in [bound.weights @ outputs] for sign in (1.0, -1.0)]
        constraints += self.balance
        if self.s is not None:
            value = value + scalars.costs @ self.s
            nonneg = np.flatnonzero(scalars.nonneg)
            constraints += [self.s[nonneg] >= 0] if len(nonneg) else []
        return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(self.V) + value + risen), constraints)

    def _entered(self, losses: Losses, values: Any) -> Any:
        """Return aγ + gᵀs of rows, of values of their points."""
        rows = cp.multiply(losses.slopes, values)
        return rows if self.s is None else rows + losses.coupling @ self.s

    def load(self, form: ClusterForm) -> None:
        """Do nothing: the labels are in the problem."""

    def fits(self, form: ClusterForm) -> bool:
        return form is self.form

    def read(self, form: ClusterForm) -> dict[str, FloatArray]:
        model, V = self.model, np.asarray(self.V.value)
        w = (V if self.basis is None else self.basis @ V).T.ravel()
        x = np.append(w, np.asarray(self.beta.value)) if form.free_bias else w
        x = x if self.s is None else np.append(x, np.asarray(self.s.value))
        parts = [np.zeros(0)]
        if self.least:
            parts.append(-np.stack([np.ravel(c.dual_value) for c in self.least], axis=1).ravel())
        if self.definition is not None:
            parts.append(-np.ravel(self.definition.dual_value))
        tau = [np.ravel(up.dual_value) - np.ravel(down.dual_value)
               for up, down in zip(self.balance[::2], self.balance[1::2])]
        multipliers = np.concatenate([*parts, *tau, np.zeros(len(model.signed))])
        self.pair = model.judge(x, model.normalised(multipliers))
        return model.variables(self.pair)

    def error(self, form: ClusterForm, variables: dict[str, FloatArray]) -> float:
        return self.pair.error


def _weighted(losses: Losses, argument: Any) -> tuple[Any, list[Any]]:
    value: Any = 0.0
    constraints: list[Any] = []
    for term, part in losses.slices():
        if term.rows:
            expression, extra = term.loss.conic(cp, argument[part] + term.shifts)
            value = value + term.weights @ expression
            constraints += extra
    return value, constraints
