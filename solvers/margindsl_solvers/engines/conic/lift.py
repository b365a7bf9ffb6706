"""Lower the lift to a semidefinite program through its dual, one linear matrix inequality of order N + r."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from margindsl.calculus import PLQ
from margindsl.program.lift import LiftForm
from margindsl.program.losses import LossTerm
from margindsl.typing import BoolArray, FloatArray, IntArray
from margindsl_solvers.engines.conic import modelling as cp
from margindsl_solvers.engines.conic.forms import CouplingRows, Lowering, reduced


class LiftDual(Lowering[LiftForm]):
    """Write min −ΣD + ½(Σd + Σκβ² − Σγl + Σηℓ²) with S(u, q, d, κ, γ, η) ⪰ 0; twice the multiplier is the lift.

    D(u, q) ≤ cρ(t) + ut − qt² on a piece of ρ is a rotated cone, by the S-lemma. Of other losses D(u, 0) is −cρ*(−u/c)
    and D(0, q) = max_v −cρ*(v/c) + v²/4q.
    """

    is_dual = True

    def build(self, form: LiftForm) -> cp.Problem:
        """Return the semidefinite program of order N + r."""
        losses = form.losses
        phi, self.basis = reduced(form.features)
        phi = np.column_stack([phi, np.ones(form.n)]) if form.free_bias else phi
        # 1. variables; those of rows are divided by the weights
        counts = {"u": losses.rows, "q": losses.rows, "d": form.count, "kappa": len(form.balance),
                  "gamma": form.cuts.count, "eta": len(form.decision)}
        self.x = x = {name: cp.Variable(count, name=name) for name, count in counts.items() if count}
        signed = [x[name] for name in ("kappa", "eta") if name in x]
        signed += [x["gamma"][np.flatnonzero(~form.cuts.equal)]] if np.any(~form.cuts.equal) else []
        constraints: list[Any] = [multiplier >= 0 for multiplier in signed]
        none = [("u", ~form.linear), ("q", ~form.squared)]
        constraints += [x[name][np.flatnonzero(rows)] == 0 for name, rows in none if np.any(rows)]
        low = np.flatnonzero(form.squared & (form.ceiling == 0))
        constraints += [x["q"][low] <= 0] if len(low) else []
        # 2. what the losses pay
        value: Any = 0.0
        for term, part in losses.slices():
            charge, more = _charge(term, x["u"][part], x["q"][part], form.linear[part], form.squared[part])
            value, constraints = value + charge, constraints + more
        u, q = (sp.diags_array(losses.weights) @ x[name] for name in ("u", "q"))
        self.coupling = CouplingRows(losses, u, losses.scalars.costs)
        # 3. the matrix
        order = form.count + phi.shape[1]
        label, weight = np.arange(form.count), form.count + np.arange(phi.shape[1])
        by_point = sp.csr_array((losses.slopes, (losses.points, np.arange(losses.rows))), shape=(form.n, losses.rows))
        squares = sp.csr_array((losses.slopes**2, (losses.points, np.arange(losses.rows))), shape=by_point.shape)
        sigma = np.stack([b.weights for b in form.decision]) @ phi if form.decision else np.zeros((0, len(weight)))
        matrix: Any = np.zeros(order * order)
        matrix[weight[: len(weight) - int(form.free_bias)] * (order + 1)] = 1.0
        # the columns t_i (e_C(i) φ_iᵀ + φ_i e_C(i)ᵀ) of points with a component, flattened, none of the others
        points = np.flatnonzero(~form.absorbed)
        across, down = np.repeat(form.component[points], len(weight)), np.tile(weight, len(points))
        cells, columns = np.concatenate([across + order * down, down + order * across]), np.repeat(points, len(weight))
        entries = np.tile((form.sign[points, None] * phi[points]).ravel(), 2)
        joined = sp.csr_array((entries, (cells, np.tile(columns, 2))), shape=(order * order, form.n))
        matrix = matrix - joined @ by_point @ u + _outer(phi, weight, order) @ (2.0 * squares @ q)
        radii, limits = form.limits
        b = form.cuts.matrix(form.count).toarray()
        parts = [("d", 1.0, np.eye(form.count), label, np.ones(form.count)), ("kappa", 1.0, form.omega, label, radii),
                 ("gamma", -1.0, b, label, form.cuts.least), ("eta", 1.0, sigma, weight, limits)]
        for name, turn, vectors, position, price in parts:
            if name in x:
                matrix = matrix + turn * (_outer(vectors, position, order) @ x[name])
                value = value + 0.5 * turn * (price @ x[name])
        self.inequality = cp.reshape(matrix, (order, order), order="F") >> 0
        return cp.Problem(cp.Minimize(value), [*constraints, self.inequality, *self.coupling.constraints])

    def load(self, form: LiftForm) -> None:
        """Set nothing: the problem has no parameters."""

    def fits(self, form: LiftForm) -> bool:
        return form is self.form

    def read(self, form: LiftForm) -> dict[str, FloatArray]:
        """Return u, q, d, kappa, gamma, eta, V and W."""
        both = np.asarray(self.inequality.dual_value)
        both = both + both.T
        scale = np.ones(len(both))
        scale[: form.count] = 1.0 / np.sqrt(np.maximum(np.diag(both)[: form.count], 1e-12))
        values, vectors = np.linalg.eigh(scale[:, None] * both * scale)
        keep = values > 1e-10 * max(float(values[-1]), 1e-300)
        keep[-1] = True
        factor = vectors[:, keep] * np.sqrt(np.maximum(values[keep], 0.0))
        V, W = factor[: form.count], factor[form.count:]
        if self.basis is not None:
            W = np.vstack([self.basis @ W[: self.basis.shape[1]], W[self.basis.shape[1]:]])
        found = {name: np.asarray(variable.value) for name, variable in self.x.items()}
        found |= {name: form.losses.weights * found[name] for name in ("u", "q")}
        return found | {"W": W, "V": V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-300)}


def _charge(term: LossTerm, u: Any, q: Any, linear: BoolArray, squared: BoolArray) -> tuple[Any, list[Any]]:
    """Return −ΣD of the rows of a term and its constraints; u and q divided by the weights."""
    if not term.rows:
        return 0.0, []
    if isinstance(term.loss, PLQ) and np.any(squared):
        least = cp.Variable(term.rows)
        return -(term.weights @ least), _piece_cones(term, u, q, least)
    value: Any = (term.weights * term.shifts) @ u
    constraints: list[Any] = []
    for rows, kind in ((np.flatnonzero(linear), "u"), (np.flatnonzero(~linear), "q")):
        if not len(rows):
            continue
        slope = -u[rows]
        if kind == "q":
            slope, height = cp.Variable(len(rows)), cp.Variable(len(rows))
            a = -2.0 * q[rows]
            constraints.append(cp.SOC(height + a, cp.vstack([np.sqrt(2.0) * slope, height - a]), axis=0))
            value = value + term.weights[rows] @ height
        expression, extra = term.loss.conjugate().conic(cp, slope)
        value, constraints = value + term.weights[rows] @ expression, constraints + extra
    return value, constraints


def _piece_cones(term: LossTerm, u: Any, q: Any, least: Any) -> list[Any]:
    """Return constraints saying ρ(t + d) + ut − qt² ≥ D for all t, one cone a piece of ρ and row.

    At² + Bt + C ≥ 0 on [l, h] iff A + λ, B − λ(l + h), C + λlh are the coefficients of a sum of squares for some
    λ ≥ 0; with one end infinite λ(t − l) or λ(h − t) is taken off instead.
    """
    constraints: list[Any] = []
    assert isinstance(term.loss, PLQ)
    shift = term.shifts
    for left, right, square, slope, constant in term.loss.pieces:
        a, b = left - shift, right - shift
        A, B = square - q, 2.0 * square * shift + slope + u
        C = (square * shift + slope) * shift + constant - least
        if left == right:
            constraints.append(cp.multiply(a * a, A) + cp.multiply(a, B) + C >= 0)
            continue
        if np.isfinite(left) or np.isfinite(right):
            take = cp.Variable(term.rows, nonneg=True)
            if np.isfinite(left) and np.isfinite(right):
                A, B, C = A + take, B - cp.multiply(a + b, take), C + cp.multiply(a * b, take)
            elif np.isfinite(left):
                B, C = B - take, C + cp.multiply(a, take)
            else:
                B, C = B + take, C - cp.multiply(b, take)
        constraints.append(cp.SOC(A + C, cp.vstack([B, A - C]), axis=0))
    return constraints


def _outer(vectors: FloatArray, index: IntArray, order: int) -> sp.csr_array:
    """Return the columns vvᵀ of the rows v, placed at an index of a matrix of some order, each flattened."""
    cells = (index[:, None] + order * index[None, :]).ravel()
    values = np.einsum("ji,jk->ikj", vectors, vectors).reshape(len(cells), len(vectors))
    rows, columns = np.nonzero(values)
    return sp.csr_array((values[rows, columns], (cells[rows], columns)), shape=(order * order, len(vectors)))
