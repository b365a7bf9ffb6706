"""Lower output lifts to the semidefinite program of generalised maximum margin clustering."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from margindsl.program.output_lift import OutputLiftForm
from margindsl.typing import FloatArray
from margindsl_solvers.engines.conic import modelling as cp
from margindsl_solvers.engines.conic.forms import Lowering
from margindsl_solvers.engines.conic.lift import decision_directions, full_rank_factor, multiplier_values, unit_diagonal

LEAST_LIMIT = 1e-5  # of the mean output: with a limit of 0 the dual's supremum is not attained


def output_order(form: OutputLiftForm) -> int:
    """Return the order of the matrix inequality: points with a loss, directions of the bounds, bias."""
    touched = int(np.linalg.matrix_rank(form.decision_rows[0])) if form.decision else 0
    return len(form.kept) + touched + int(form.free_bias)


class OutputDual(Lowering[OutputLiftForm]):
    """Write max ½ Σγ − ½ Σηℓ² with PᵀK_c⁻¹P + Σησσᵀ ⪰ Diag(γ, 0), γ, η ≥ 0, one variable a point.

    Rows and columns of the points are scaled by (2c)^{−1/2}, γ by 1/2c, so that K_c⁻¹ becomes
    (I + BBᵀ)⁻¹ = I − U Diag(s²/(1 + s²)) Uᵀ for the singular vectors and values of B = Diag(2c)^{1/2} Φ: nothing is
    inverted. Weights along the directions σ of bounds stay beside the outputs, the others are eliminated.
    """

    is_dual = True

    def build(self, form: OutputLiftForm) -> cp.Problem:
        self.scale = np.sqrt(2.0 * form.weights[form.kept])
        base, sigma = output_matrix(form)
        count, order = len(form.kept), len(base)
        self.share = cp.Variable(count, nonneg=True, name="gamma/2c")
        norms = np.linalg.norm(sigma, axis=1)
        self.length = np.where(norms > 0, norms, 1.0)  # a bound on zero binds nothing: its multiplier is 0
        self.eta = cp.Variable(len(sigma), nonneg=True, name="eta |sigma|^2") if len(sigma) else None
        corner = sp.csr_array((np.ones(count), (np.arange(count), np.arange(count))), shape=(order, count))
        matrix = base - cp.diag(corner @ self.share)
        value = 0.5 * (self.scale**2 @ self.share)
        for l in range(len(sigma)):
            assert self.eta is not None
            unit, least = sigma[l] / self.length[l], LEAST_LIMIT * np.abs(form.decision[l].weights).sum()
            matrix = matrix + self.eta[l] * np.outer(unit, unit)
            value = value - 0.5 * self.eta[l] * (max(form.decision[l].upper, least) / self.length[l]) ** 2
        self.inequality = matrix >> 0
        return cp.Problem(cp.Minimize(-value), [self.inequality])

    def fits(self, form: OutputLiftForm) -> bool:
        return form is self.form

    def load(self, form: OutputLiftForm) -> None:
        """Set nothing: the problem has no parameters."""

    def read(self, form: OutputLiftForm) -> dict[str, FloatArray]:
        kept, count = form.kept, len(form.kept)
        share = np.clip(np.asarray(self.share.value), 0.0, 1.0)
        gamma, d, v = np.zeros(form.n), np.zeros(form.n), np.zeros(form.n)
        gamma[kept] = self.scale**2 * share
        d[kept] = gamma[kept] * (1.0 - share)
        _, vectors = np.linalg.eigh(np.asarray(self.inequality.args[0].value))
        v[kept] = vectors[:count, 0] / self.scale
        M = np.eye(form.n)
        M[np.ix_(kept, kept)] = unit_diagonal(
            np.asarray(self.inequality.dual_value)[:count, :count] / np.outer(self.scale, self.scale))
        return {"u": gamma, "d": d, "kappa": np.zeros(0), "M": M, "v": v,
                "eta": multiplier_values(self.eta) / self.length**2}


def output_matrix(form: OutputLiftForm) -> tuple[FloatArray, FloatArray]:
    """Return (PᵀK_c⁻¹P, rows σ) over scaled outputs, weights along the bounds, and the bias."""
    kept, scale = form.kept, np.sqrt(2.0 * form.weights[form.kept])
    factor = full_rank_factor(form.features)
    G = decision_directions(form, factor)
    touched = scipy.linalg.orth(G.T) if len(G) and np.abs(G).max() > 1e-9 * form.n * np.abs(factor).max() else (
        np.zeros((factor.shape[1], 0)))
    rest = factor - factor @ touched @ touched.T
    left, values, _ = scipy.linalg.svd(scale[:, None] * rest[kept], full_matrices=False)
    beside = [-scale[:, None] * (factor @ touched)[kept]]
    beside += [-scale[:, None]] if form.free_bias else []
    P = np.column_stack([np.eye(len(kept)), *beside])
    along = left.T @ P
    base = P.T @ P - along.T @ ((values**2 / (1.0 + values**2))[:, None] * along)
    inner = len(kept) + np.arange(touched.shape[1])
    base[inner, inner] += 1.0
    sigma = np.column_stack([np.zeros((len(G), len(kept))), G @ touched])
    if form.free_bias:
        sigma = np.column_stack([sigma, form.decision_rows[1]])
    return (base + base.T) / 2, sigma
