"""Lower convex fixed-cluster forms to cvxpy problems."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.accuracy import greatest_ratio, relative_gap
from margindsl.program.clusters import ClusterForm
from margindsl.typing import FloatArray
from margindsl_solvers.engines.conic import modelling as cp
from margindsl_solvers.engines.conic.forms import Lowering, reduced
from margindsl_solvers.engines.rows.cluster_rows import ClusterRows


class ClusterLowering(Lowering[ClusterForm]):
    """Write min ½‖V‖² + Σ cρ↓(t) + Σ cρ↑(s), t ≤ f_y − f_q for q ≠ y, s = f_y − f_runner, f = ΦVBᵀ + Bβ.

    ρ↓ falls, so that t is the margin at an optimum; multipliers of t ≤ f_y − f_q are u_q, of s = … t.
    """

    def build(self, form: ClusterForm) -> cp.Problem:
        """Return the problem of one labelling."""
        self.model = ClusterRows(form, np.zeros(form.n, dtype=int) if form.runner is None else form.runner)
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
        value, constraints = self._falling(form, own, flat)
        rising, more = self._rising(form, own, flat)
        self.balance = [self._balance(form, outputs, bound, sign) for bound in form.decision for sign in (1.0, -1.0)]
        constraints += [*more, *self.balance]
        return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(self.V) + value + rising), constraints)

    def _falling(self, form: ClusterForm, own: Any, flat: Any) -> tuple[Any, list[Any]]:
        losses, model = form.parts.falling, self.model
        self.least: list[Any] = []
        if not losses.rows:
            return 0.0, []
        t = cp.Variable(losses.rows, name="t")
        others = model.others[losses.points]
        self.least = [t <= own[losses.points] - flat[losses.points * form.clusters + others[:, j]]
                      for j in range(model.width)]
        value, constraints = _weighted(losses, t)
        return value, [*constraints, *self.least]

    def _rising(self, form: ClusterForm, own: Any, flat: Any) -> tuple[Any, list[Any]]:
        losses = form.parts.rising
        self.definition: Any = None
        if not losses.rows:
            return 0.0, []
        s = cp.Variable(losses.rows, name="s")
        rows = losses.points
        self.definition = s == own[rows] - flat[rows * form.clusters + self.model.runner[rows]]
        value, constraints = _weighted(losses, s)
        return value, [*constraints, self.definition]

    @staticmethod
    def _balance(form: ClusterForm, outputs: Any, bound: Any, sign: float) -> Any:
        first, second = np.triu_indices(form.clusters, 1)
        sums = bound.weights @ outputs
        return sign * (sums[first] - sums[second]) <= bound.upper

    def load(self, form: ClusterForm) -> None:
        """Do nothing: the labels are in the problem."""

    def fits(self, form: ClusterForm) -> bool:
        """Return whether it is the very form the problem was built from."""
        return form is self.form

    def read(self, form: ClusterForm) -> dict[str, FloatArray]:
        """Return w, u, t, tau, runner and clusters."""
        model, V = self.model, np.asarray(self.V.value)
        w = (V if self.basis is None else self.basis @ V).T.ravel()
        x = np.append(w, np.asarray(self.beta.value)) if form.free_bias else w
        parts = [np.zeros(0)]
        if self.least:
            parts.append(-np.stack([np.ravel(c.dual_value) for c in self.least], axis=1).ravel())
        if self.definition is not None:
            parts.append(-np.ravel(self.definition.dual_value))
        tau = [np.ravel(up.dual_value) - np.ravel(down.dual_value)
               for up, down in zip(self.balance[::2], self.balance[1::2])]
        multipliers = np.concatenate([*parts, *tau])
        return model.variables(model.judge(x, model.normalised(multipliers)))

    def error(self, form: ClusterForm, variables: dict[str, FloatArray]) -> float:
        """Return the larger of the gap and the violation of the balance, computed anew."""
        w, bias, duals = variables["w"], variables["bias"], [variables[name] for name in ("u", "tau", "t")]
        primal, dual = form.majorant(w, bias), form.dual_objective(*duals)
        owed = np.abs(form.bias_terms(*duals).sum(axis=0)) * np.maximum(np.abs(bias), form.units[1])
        return max(relative_gap(primal, dual), form.primal_residual(w, bias),
                   greatest_ratio(owed, max(abs(primal), form.floor)))


def _weighted(losses: Any, argument: Any) -> tuple[Any, list[Any]]:
    value: Any = 0.0
    constraints: list[Any] = []
    for term, part in losses.slices():
        if term.rows:
            expression, extra = term.loss.conic(cp, argument[part])
            value = value + term.weights @ expression
            constraints += extra
    return value, constraints
