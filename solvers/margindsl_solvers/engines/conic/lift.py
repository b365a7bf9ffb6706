"""Lower label-lifted forms to semidefinite programs: through the lifted weights, or through the dual."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from margindsl.features.operator import FeatureOperator
from margindsl.program.forms import Form, LabelLiftForm
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.conic import modelling as cp
from margindsl_solvers.engines.conic.forms import CouplingRows, LossParameters, LossRows, Lowering, into_domain

_FLOORS = (0.0, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4)


def is_uncoupled(form: LabelLiftForm) -> bool:
    """Return whether M is constrained on its diagonal only: no lifted bound, no component of two points."""
    return not form.balance and int(np.bincount(form.component, minlength=form.count).max()) <= 1


def psd_order(form: LabelLiftForm) -> int:
    """Return the order of the semidefinite cone: r without coupling, else N + r (+1 for a free bias)."""
    rank = min(form.features.rank, form.n) + int(form.free_bias)
    return rank if is_uncoupled(form) else form.count + rank


def lift_lowering(form: LabelLiftForm) -> type[LabelLowering[LabelLiftForm]]:
    """Return the smaller of the two programs that gives the value of the form."""
    return LiftedWeights if is_uncoupled(form) else LiftedDual


def full_rank_factor(features: FeatureOperator) -> FloatArray:
    """Return F of full column rank with FFᵀ = ΦΦᵀ up to round-off."""
    phi = np.asarray(features.toarray(), dtype=float)
    left, values, _ = scipy.linalg.svd(phi, full_matrices=False)
    keep = values > 1e-9 * max(values[0], np.finfo(float).tiny)
    keep[0] = True
    return left[:, keep] * values[keep]


def same_lift(a: LabelLiftForm, b: LabelLiftForm) -> bool:
    """Return whether components and lifted bounds are the same."""
    return (a.count == b.count and np.array_equal(a.component, b.component) and np.array_equal(a.sign, b.sign)
            and len(a.balance) == len(b.balance)
            and all(s.radius == t.radius and np.array_equal(s.vector, t.vector)
                    for s, t in zip(a.balance, b.balance)))


L = TypeVar("L", bound=LabelLiftForm)


class LabelLowering(Lowering[L], Generic[L]):
    """Hold a program of a label lift: its slopes are constants, weights, shifts and costs parameters."""

    constant_slopes = True

    def fits(self, form: L) -> bool:
        return super().fits(form) and same_lift(self.form, form)

    def prepare(self, form: L) -> FloatArray:
        """Set up parameters; return the factor of Φ, with a last column of ones for a free bias."""
        self.parameters = LossParameters(form.losses)
        factor = full_rank_factor(form.features)
        return np.column_stack([factor, np.ones(form.n)]) if form.free_bias else factor

    def load(self, form: L) -> None:
        self.parameters.load(form.losses)


def decision_directions(form: Form, factor: FloatArray) -> FloatArray:
    """Return the (L, r) rows σ_l = Fᵀa_l of the decision bounds."""
    weights = [bound.weights for bound in form.decision]
    return np.stack(weights) @ factor if weights else np.zeros((0, factor.shape[1]))


def label_directions(form: LabelLiftForm) -> FloatArray:
    """Return the (J, N) rows ω_j of the lifted label bounds."""
    return np.array([bound.vector for bound in form.balance]).reshape(len(form.balance), form.count)


class LiftedWeights(LabelLowering[LabelLiftForm]):
    """Write min ½ tr(PW) + qᵀs + Σcρ(ag + Bs + d), W ⪰ 0, g_i² ≤ φ_iᵀWφ_i, σ_lᵀWσ_l ≤ ℓ_l².

    Without coupling the label block of the lift has only its diagonal constrained, and chordal completion
    leaves W and one scalar a point; P = I, with 0 at a free bias. With λ the multiplier of g² ≤ φᵀWφ the dual
    point is d = ũ²/(2λ) = ũ g, and η is twice the multiplier of the decision rows.
    """

    def build(self, form: LabelLiftForm) -> cp.Problem:
        losses = form.losses
        self.factor = self.prepare(form)
        rank = self.factor.shape[1]
        rows, columns = np.triu_indices(rank)
        self.entries = cp.Variable(len(rows), name="W")
        self.g = cp.Variable(form.n, name="g")
        self.loss_rows = LossRows(losses, self.parameters, [(losses.slopes, self.g)])
        trace = ((rows == columns) & (rows < rank - int(form.free_bias))).astype(float)
        used = np.unique(losses.points)
        self.used = used
        forms = quadratic_rows(self.factor[used], rows, columns) @ self.entries
        self.squares = cp.square(self.g[used]) <= forms
        matrix = cp.reshape(symmetric_places(rows, columns, rank) @ self.entries, (rank, rank), order="F")
        constraints = [*self.loss_rows.constraints, matrix >> 0, self.squares]
        sigma = decision_directions(form, self.factor)
        limits = np.array([bound.upper ** 2 for bound in form.decision])
        self.outputs = quadratic_rows(sigma, rows, columns) @ self.entries <= limits if len(sigma) else None
        constraints += [] if self.outputs is None else [self.outputs]
        return cp.Problem(cp.Minimize(0.5 * (trace @ self.entries) + self.loss_rows.cost), constraints)

    def read(self, form: LabelLiftForm) -> dict[str, FloatArray]:
        u = self.loss_rows.multipliers(form.losses)
        eta = 2 * constraint_multipliers(self.outputs)
        d = np.zeros(form.count)
        np.add.at(d, form.component, self._diagonal(form, u, eta))
        return {"u": u, "d": d, "kappa": np.zeros(0), "eta": eta, "V": self._unit_vectors(form)}

    def _diagonal(self, form: LabelLiftForm, u: FloatArray, eta: FloatArray) -> FloatArray:
        # the best of ũ g and ũ²/(2λ), each scaled until Fᵀ Diag(ũ²/d) F ⪯ P
        spread, g = form.losses.spread(u), np.asarray(self.g.value)
        slack = np.zeros(form.n)
        slack[self.used] = 2 * np.maximum(np.ravel(self.squares.dual_value), 0.0)
        safe = slack > 1e-9 * slack.max(initial=0.0)
        by_multiplier = np.divide(spread ** 2, slack, out=spread * g, where=safe)
        largest, reach = np.abs(spread).max(initial=0.0), np.abs(g).max(initial=0.0)
        choices = []
        for floor in _FLOORS:
            # where ũ is round-off, ũ²/d must be too
            least = np.minimum(np.abs(spread), floor * largest) * reach
            choices += [np.maximum(spread * g, least), np.maximum(by_multiplier, least)]
        scaled = [d * self._excess(form, spread, d, eta) for d in choices]
        return min(scaled, key=lambda d: float(d.sum()))

    def _excess(self, form: LabelLiftForm, spread: FloatArray, d: FloatArray, eta: FloatArray) -> float:
        sigma = decision_directions(form, self.factor)
        P = np.diag(np.append(np.ones(self.factor.shape[1] - 1), 0.0 if form.free_bias else 1.0))
        P = P + sigma.T @ (eta[:, None] * sigma)
        ratio = np.divide(spread ** 2, d, out=np.zeros(len(d)), where=d > 0)
        try:
            top = scipy.linalg.eigvalsh(self.factor.T @ (ratio[:, None] * self.factor), P)[-1]
        except np.linalg.LinAlgError:  # P is singular: nothing to scale by
            return 1.0
        return max(1.0, float(top))

    def _unit_vectors(self, form: LabelLiftForm) -> FloatArray:
        rank = self.factor.shape[1]
        W = np.zeros((rank, rank))
        W[np.triu_indices(rank)] = self.entries.value
        values, vectors = np.linalg.eigh(W + np.triu(W, 1).T)
        V = np.zeros((form.count, rank))
        V[form.component] = form.sign[:, None] * (self.factor @ (vectors * np.sqrt(np.maximum(values, 0.0))))
        return unit_rows(V)


def symmetric_places(rows: IntArray, columns: IntArray, order: int) -> sp.csr_array:
    """Return the matrix that puts numbers into cells of a symmetric matrix of some order, flattened."""
    index = np.arange(len(rows))
    off = rows != columns
    cells = np.concatenate([rows + order * columns, (columns + order * rows)[off]])
    entries = np.concatenate([index, index[off]])
    return sp.csr_array((np.ones(len(cells)), (cells, entries)), shape=(order * order, len(rows)))


def unit_rows(V: FloatArray) -> FloatArray:
    """Return the rows scaled to length one, the last axis in place of empty ones."""
    norms = np.linalg.norm(V, axis=1)
    empty = norms <= 1e-12 * max(float(norms.max(initial=0.0)), np.finfo(float).tiny)
    last = np.eye(1, V.shape[1], V.shape[1] - 1)
    return np.where(empty[:, None], last, V) / np.where(empty, 1.0, norms)[:, None]


def quadratic_rows(vectors: FloatArray, rows: IntArray, columns: IntArray) -> FloatArray:
    """Return the matrix that maps the upper triangle of W to the numbers φᵀWφ."""
    return vectors[:, rows] * vectors[:, columns] * np.where(rows == columns, 1.0, 2.0)


class LiftedDual(LabelLowering[L], Generic[L]):
    """Write the dual of the label lift, O(n) variables and one linear matrix inequality of order N + r.

    min Σcρ*(−ũ) + uᵀd_shift + ½(Σd + Σκβ² + Σηℓ²) with
    [[Diag(d) + Σκωωᵀ, H(u)], [H(u)ᵀ, P + Σησσᵀ]] ⪰ 0, Bᵀu = q. Twice the label block of the multiplier is M.
    """

    is_dual = True

    def build(self, form: L) -> cp.Problem:
        losses = form.losses
        factor = self.prepare(form)
        omega, sigma = self.declare(form, factor)
        value, constraints = self.parameters.total(losses, -self.ut, conjugate=True)
        self.coupling = CouplingRows(losses, self.u, self.parameters.costs)
        order = form.count + factor.shape[1]
        stack = cp.hstack([x for x in (self.u, self.d, self.kappa, self.eta) if x is not None])
        constant, maps = lift_matrix(form, factor, omega, sigma)
        self.inequality = cp.reshape(maps @ stack + constant, (order, order), order="F") >> 0
        constraints += [self.u == cp.multiply(self.parameters.weights, self.ut), self.inequality,
                        *self.coupling.constraints]
        objective = value + self.parameters.shifts @ self.u + 0.5 * self._radii(form)
        return cp.Problem(cp.Minimize(objective), constraints)

    def declare(self, form: LabelLiftForm, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Set up the variables u/c, u, d, κ, η; return the rows ω of the label bounds and σ of the decision bounds."""
        omega, sigma = label_directions(form), decision_directions(form, factor)
        self.ut = cp.Variable(form.losses.rows, name="u/c")
        self.u, self.d = cp.Variable(form.losses.rows, name="u"), cp.Variable(form.count, name="d")
        self.kappa = cp.Variable(len(omega), nonneg=True, name="kappa") if len(omega) else None
        self.eta = cp.Variable(len(sigma), nonneg=True, name="eta") if len(sigma) else None
        return omega, sigma

    def _radii(self, form: LabelLiftForm) -> Any:
        total = cp.sum(self.d)
        if self.kappa is not None:
            total = total + np.array([b.radius ** 2 for b in form.balance]) @ self.kappa
        if self.eta is not None:
            total = total + np.array([b.upper ** 2 for b in form.decision]) @ self.eta
        return total

    def read(self, form: L) -> dict[str, FloatArray]:
        M = unit_diagonal(np.asarray(self.inequality.dual_value)[:form.count, :form.count])
        return {"u": into_domain(form.losses, np.asarray(self.u.value)), "d": np.asarray(self.d.value),
                "kappa": multiplier_values(self.kappa), "eta": multiplier_values(self.eta), "M": M}


def multiplier_values(variable: Any) -> FloatArray:
    """Return the values of non-negative multipliers, none for no variable."""
    return np.zeros(0) if variable is None else np.maximum(np.asarray(variable.value), 0.0)


def constraint_multipliers(constraint: Any) -> FloatArray:
    """Return the multipliers of an inequality, none for no constraint."""
    return np.zeros(0) if constraint is None else np.maximum(np.ravel(constraint.dual_value), 0.0)


def unit_diagonal(block: FloatArray) -> FloatArray:
    """Return the symmetric matrix scaled to a diagonal of ones."""
    M = block + block.T
    scale = np.sqrt(np.maximum(np.diag(M), 1e-12))
    M = M / np.outer(scale, scale)
    np.fill_diagonal(M, 1.0)
    return np.asarray(M)


def lift_matrix(form: LabelLiftForm, factor: FloatArray, omega: FloatArray,
                sigma: FloatArray) -> tuple[FloatArray, sp.csr_array]:
    """Return (constant, maps): by columns, the inequality's matrix is maps @ (u, d, κ, η) + constant."""
    count, (n, rank) = form.count, factor.shape
    order = count + rank
    label, weight = np.arange(count), count + np.arange(rank)
    penalised = weight[:rank - int(form.free_bias)]
    constant = np.zeros(order * order)
    constant[penalised * (order + 1)] = 1.0
    cells = form.component[:, None] + order * weight[None, :]
    mirror = weight[None, :] + order * form.component[:, None]
    values = np.tile((form.sign[:, None] * factor).ravel(), 2)
    place = np.concatenate([cells.ravel(), mirror.ravel()])
    point = np.tile(np.repeat(np.arange(n), rank), 2)
    by_point = sp.csr_array((values, (place, point)), shape=(order * order, n))
    losses = form.losses
    spread = sp.csr_array((losses.slopes, (losses.points, np.arange(losses.rows))), shape=(n, losses.rows))
    diagonal = sp.csr_array((np.ones(count), (label * (order + 1), label)), shape=(order * order, count))
    blocks = [by_point @ spread, diagonal]
    blocks += [outer_columns(omega, label, order)] if len(omega) else []
    blocks += [outer_columns(sigma, weight, order)] if len(sigma) else []
    return constant, sp.csr_array(sp.hstack(blocks))


def outer_columns(vectors: FloatArray, index: IntArray, order: int) -> sp.csr_array:
    """Return the columns vvᵀ of the rows v, placed at an index of a matrix of some order, each flattened."""
    cells = (index[:, None] + order * index[None, :]).ravel()
    values = np.einsum("ji,jk->ikj", vectors, vectors).reshape(len(cells), len(vectors))
    rows, columns = np.nonzero(values)
    return sp.csr_array((values[rows, columns], (cells[rows], columns)), shape=(order * order, len(vectors)))
