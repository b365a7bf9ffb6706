"""Lower moment lifts with cuts to semidefinite programs through the dual."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from margindsl.calculus import PLQ
from margindsl.program.cuts import MatrixCuts
from margindsl.program.losses import LossTerm
from margindsl.program.moment import MomentLiftForm
from margindsl.typing import FloatArray
from margindsl_solvers.engines.conic import modelling as cp
from margindsl_solvers.engines.conic.forms import CouplingRows, into_domain
from margindsl_solvers.engines.conic.lift import (
    LiftedDual,
    lift_matrix,
    multiplier_values,
    outer_columns,
    unit_diagonal,
)


class MomentDual(LiftedDual[MomentLiftForm]):
    """Write the dual of the moment lift, one linear matrix inequality of order N + r.

    min −ΣD + ½(Σd + Σκβ² + Σηℓ² + Στ) with
    [[Diag(d) + Σκωωᵀ − ΣτT, H(u)], [H(u)ᵀ, P + ΦᵀDiag(q̃)Φ + Σησσᵀ]] ⪰ 0. D ≤ cρ(t) + ut − ½qt² on a piece of ρ is one
    2 × 2 block, a rotated cone, by the S-lemma. Twice the label block of the multiplier is M.
    """

    def build(self, form: MomentLiftForm) -> cp.Problem:
        losses = form.losses
        factor = self.prepare(form)
        omega, sigma = self.declare(form, factor)
        self.tau = cp.Variable(form.cuts.count, name="tau") if form.cuts.count else None
        self.qt = cp.Variable(losses.rows, name="q/c") if form.moments else None
        self.q = cp.Variable(losses.rows, name="q") if form.moments else None
        value, constraints = self._separable(form)
        free = form.cuts.equal
        constraints += [self.tau[np.flatnonzero(~free)] >= 0] if self.tau is not None and not free.all() else []
        self.coupling = CouplingRows(losses, self.u, self.parameters.costs)
        order = form.count + factor.shape[1]
        constant, maps = lift_matrix(form, factor, omega, sigma)
        more = [x for x in (self.tau, self.q) if x is not None]
        stack = cp.hstack([x for x in (self.u, self.d, self.kappa, self.eta) if x is not None] + more)
        maps = sp.csr_array(sp.hstack([maps, *self._extra_columns(form, factor, order)]))
        self.inequality = cp.reshape(maps @ stack + constant, (order, order), order="F") >> 0
        constraints += [self.u == cp.multiply(self.parameters.weights, self.ut), self.inequality,
                        *self.coupling.constraints]
        radii = self._radii(form) if self.tau is None else self._radii(form) + cp.sum(self.tau)
        return cp.Problem(cp.Minimize(value + self.parameters.shifts @ self.u + 0.5 * radii), constraints)

    def fits(self, form: MomentLiftForm) -> bool:
        return (super().fits(form) and form.moments == self.form.moments
                and form.cuts.key() == self.form.cuts.key())

    def _separable(self, form: MomentLiftForm) -> tuple[Any, list[Any]]:
        """Return −ΣD and its constraints, everything divided by the weights."""
        losses = form.losses
        if self.qt is None or self.q is None:
            return self.parameters.total(losses, -self.ut, conjugate=True)
        least = cp.Variable(losses.rows, name="D/c")
        constraints: list[Any] = [self.q == cp.multiply(self.parameters.weights, self.qt)]
        for term, part in losses.slices():
            constraints += piece_cones(term, self.ut[part], self.qt[part], least[part])
        return -cp.sum(cp.multiply(self.parameters.weights, least)), constraints

    def _extra_columns(self, form: MomentLiftForm, factor: FloatArray, order: int) -> list[sp.csr_array]:
        columns = []
        if self.tau is not None:
            columns.append(cut_columns(form.cuts, order))
        if self.q is not None:
            losses = form.losses
            squares = outer_columns(factor, form.count + np.arange(factor.shape[1]), order)
            spread = sp.csr_array((losses.slopes, (losses.points, np.arange(losses.rows))), shape=(form.n, losses.rows))
            columns.append(squares @ spread)
        return columns

    def read(self, form: MomentLiftForm) -> dict[str, FloatArray]:
        M = unit_diagonal(np.asarray(self.inequality.dual_value)[:form.count, :form.count])
        u = np.asarray(self.u.value)
        return {"u": u if self.q is not None else into_domain(form.losses, u),
                "q": np.zeros(form.losses.rows) if self.q is None else np.asarray(self.q.value),
                "d": np.asarray(self.d.value), "kappa": multiplier_values(self.kappa),
                "eta": multiplier_values(self.eta), "M": M,
                "tau": form.cuts.admissible(None if self.tau is None else self.tau.value)}


def piece_cones(term: LossTerm, u: Any, q: Any, least: Any) -> list[Any]:
    """Return constraints saying ρ(t) + ut − ½qt² ≥ D for all t, one cone a piece of ρ and row.

    At² + Bt + C ≥ 0 on [l, h] iff A + λ, B − λ(l + h), C + λlh are the coefficients of a sum of squares for some
    λ ≥ 0; with one end infinite λ(t − l) or λ(h − t) is taken off instead.
    """
    constraints: list[Any] = []
    assert isinstance(term.loss, PLQ)
    for a, b, square, slope, constant in term.loss.pieces:
        A, B, C = square - 0.5 * q, slope + u, constant - least
        if a == b:
            constraints.append(a * a * A + a * B + C >= 0)
            continue
        if np.isfinite(a) or np.isfinite(b):
            take = cp.Variable(term.rows, nonneg=True)
            if np.isfinite(a) and np.isfinite(b):
                A, B, C = A + take, B - (a + b) * take, C + a * b * take
            elif np.isfinite(a):
                B, C = B - take, C + a * take
            else:
                B, C = B + take, C - b * take
        constraints.append(cp.SOC(A + C, cp.vstack([B, A - C]), axis=0))
    return constraints


def cut_columns(cuts: MatrixCuts, order: int) -> sp.csr_array:
    """Return the columns −T_k, each flattened."""
    rows, columns = cuts.rows, cuts.columns
    cells = np.concatenate([(rows + order * columns).ravel(), (columns + order * rows).ravel()])
    cut = np.tile(np.repeat(np.arange(cuts.count), rows.shape[1]), 2)
    values = np.tile(-0.5 * cuts.products.ravel(), 2)
    return sp.csr_array((values, (cells, cut)), shape=(order * order, cuts.count))
