"""Vector labels: the factored label lift as one function of one array."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from margindsl.program.cuts import MatrixCuts
from margindsl.program.forms import Form, LabelLiftForm
from margindsl.program.losses import Losses
from margindsl.program.moment import MomentLiftForm
from margindsl.typing import BoolArray, FloatArray, IntArray
from margindsl_solvers.engines.solver import of_form

TINY = 1e-300
CUTS: Mapping[type[Form], Callable[[Any], MatrixCuts]] = {MomentLiftForm: lambda form: form.cuts}  # of those with any


@dataclass(frozen=True, eq=False)
class VectorLabels:
    """Represent min ½‖W‖² + qᵀs + Σ cρ(a t_i⟨Wᵀφ_i, v_C(i)⟩ + bs + d) over W (R × p), unit rows v_C and s.

    One flat vector holds W, rows x_C with v_C = x_C/‖x_C‖, and s. Lifted bounds enter as ‖Vᵀω̂_j‖² ≤ β̂_j²
    and decision bounds as ‖Wᵀσ̂_l‖² ≤ ℓ̂_l², vectors normed; cuts on the label matrix as −⟨T_k, VVᵀ⟩ − 1 ≤ 0 (= 0).

    Parameters
    ----------
    width : int
        The number p of columns.
    """

    form: LabelLiftForm
    width: int

    @property
    def order(self) -> int:
        """Return the rows R of W: r, plus one with a free bias."""
        return self.form.features.rank + int(self.form.free_bias)

    @cached_property
    def indicator(self) -> csr_array | None:
        """Return the (N, n) matrix Aᵀ, None when every point is its own component."""
        form = self.form
        if form.count == form.n and np.array_equal(form.component, np.arange(form.n)):
            return None
        return csr_array((form.sign.astype(float), (form.component, np.arange(form.n))), shape=(form.count, form.n))

    @cached_property
    def label_bounds(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (ω̂ (N, J), β̂² (J,), ‖ω‖² (J,))."""
        omegas = np.array([b.vector for b in self.form.balance]).reshape(-1, self.form.count)
        return _normed(omegas, np.array([b.radius for b in self.form.balance]))

    @cached_property
    def decision_bounds(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (σ̂ (R, L), ℓ̂² (L,), ‖σ‖² (L,))."""
        G, h = self.form.decision_rows
        sigma = np.column_stack([G, h]) if self.form.free_bias else G
        return _normed(sigma, np.array([b.upper for b in self.form.decision]))

    @cached_property
    def cuts(self) -> MatrixCuts:
        """Return the cuts on the label matrix, none for a plain label lift."""
        cuts = of_form(CUTS, self.form)
        return MatrixCuts.none() if cuts is None else cuts(self.form)

    @cached_property
    def free(self) -> BoolArray:
        """Return which multipliers may be negative, those of equalities, shape (J + L + K,)."""
        bounds = np.zeros(len(self.form.balance) + len(self.form.decision), dtype=bool)
        return np.append(bounds, self.cuts.equal)

    @cached_property
    def _cut_entries(self) -> tuple[csr_array, IntArray]:
        """Return the pattern of Σ τT and, for every entry of every cut, its place in the pattern's data."""
        rows, columns = self.cuts.rows, self.cuts.columns
        i, j = np.append(rows.ravel(), columns.ravel()), np.append(columns.ravel(), rows.ravel())
        entries, place = np.unique(i.astype(np.int64) * self.form.count + j, return_inverse=True)
        where = np.divmod(entries, self.form.count)
        return csr_array((np.ones(len(entries)), where), shape=(self.form.count, self.form.count)), place

    def cut_matrix(self, tau: FloatArray) -> csr_array:
        """Return Σ τT as a sparse (N, N) matrix; the next call overwrites it."""
        pattern, place = self._cut_entries
        values = np.tile((0.5 * tau[:, None] * self.cuts.products).ravel(), 2)
        pattern.data[:] = np.bincount(place, values, minlength=pattern.nnz)
        return pattern

    def active(self, multipliers: FloatArray, penalty: FloatArray, excess: FloatArray) -> FloatArray:
        """Return multiplier + penalty · excess, at least zero but for equalities."""
        moved = multipliers + penalty * excess
        return np.where(self.free, moved, np.maximum(0.0, moved))

    def violation(self, excess: FloatArray) -> FloatArray:
        """Return how far each bound is broken."""
        return np.where(self.free, np.abs(excess), np.maximum(excess, 0.0))

    def shortfall(self, excess: FloatArray, multipliers: FloatArray, penalty: FloatArray) -> FloatArray:
        """Return the step of each multiplier in units of the bounds; zero at complementary slackness."""
        return np.where(self.free, excess, np.maximum(excess, -multipliers / penalty))

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (W (R, p), X (N, p), s (S,)) as views of the flat vector."""
        first, second = self.order * self.width, (self.order + self.form.count) * self.width
        return (x[:first].reshape(self.order, self.width), x[first:second].reshape(self.form.count, self.width),
                x[second:])

    def outputs(self, W: FloatArray) -> FloatArray:
        """Return the (n, p) products Wᵀφ_i, with the bias."""
        if not self.form.free_bias:
            return self.form.features.apply(W)
        return self.form.features.apply(W[:-1]) + W[-1]

    def adjoint(self, R: FloatArray) -> FloatArray:
        """Return the (R, p) adjoint of `outputs`."""
        below = self.form.features.adjoint(R)
        return np.vstack([below, R.sum(axis=0)[None, :]]) if self.form.free_bias else below

    def spread(self, V: FloatArray) -> FloatArray:
        """Return the (n, p) signed vectors t_i v_C(i) of the points."""
        return self.form.sign[:, None] * (V if self.indicator is None else V[self.form.component])

    def gather(self, F: FloatArray) -> FloatArray:
        """Return AᵀF, the adjoint of `spread`."""
        return self.form.sign[:, None] * F if self.indicator is None else np.asarray(self.indicator @ F)

    def margins(self, W: FloatArray, V: FloatArray) -> FloatArray:
        """Return the (n,) margins t_i⟨Wᵀφ_i, v_C(i)⟩."""
        return np.einsum("np,np->n", self.outputs(W), self.spread(V))

    def excess(self, W: FloatArray, V: FloatArray) -> FloatArray:
        """Return (J + L + K,) the squared lengths minus their limits, normed, and the cuts' violations."""
        (omega, beta, _), (sigma, ell, _) = self.label_bounds, self.decision_bounds
        bounds = np.append(np.sum((omega.T @ V) ** 2, axis=1) - beta, np.sum((sigma.T @ W) ** 2, axis=1) - ell)
        return np.append(bounds, -1.0 - self.cuts.factor_values(V)) if self.cuts.count else bounds

    def penalised(self, W: FloatArray) -> FloatArray:
        """Return the rows of W that the regulariser sees."""
        return W[:-1] if self.form.free_bias else W

    def objective(self, W: FloatArray, V: FloatArray, s: FloatArray) -> float:
        """Return the objective, the bounds not included."""
        return 0.5 * float(np.sum(self.penalised(W) ** 2)) + self.form.losses.value(self.margins(W, V), s)

    def oracle(self, x: FloatArray, losses: Losses, multipliers: FloatArray,
               penalty: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient of the augmented Lagrangian; one pass over the data each way."""
        W, X, s = self.split(x)
        lengths = np.sqrt(np.einsum("cp,cp->c", X, X))[:, None]
        V = X / np.maximum(lengths, TINY)
        F, labels = self.outputs(W), self.spread(V)
        v = losses.arguments(np.einsum("np,np->n", F, labels), s)
        slope = losses.derivative(v)
        value = 0.5 * float(np.sum(self.penalised(W) ** 2)) + float(np.sum(losses.row_losses(v)))
        by_point = losses.spread(slope)[:, None]
        to_W, to_V = self.adjoint(by_point * labels), self.gather(by_point * F)
        to_W[:self.form.features.rank] += W[:self.form.features.rank]
        to_s = losses.scalars.costs + losses.coupling.T @ slope
        value += float(losses.scalars.costs @ s)
        if len(multipliers):
            (omega, _, _), (sigma, _, _) = self.label_bounds, self.decision_bounds
            active = self.active(multipliers, penalty, self.excess(W, V))
            value += 0.25 * float(np.sum((active**2 - multipliers**2) / penalty))
            J, L = omega.shape[1], sigma.shape[1]
            to_V = to_V + omega @ (active[:J, None] * (omega.T @ V))
            to_W += sigma @ (active[J:J + L, None] * (sigma.T @ W))
            if self.cuts.count:
                to_V = to_V - self.cut_matrix(active[J + L:]) @ V
        to_X = (to_V - V * np.einsum("cp,cp->c", V, to_V)[:, None]) / np.maximum(lengths, TINY)
        return value, np.concatenate([to_W.ravel(), to_X.ravel(), to_s])

    def widened(self, x: FloatArray, direction: FloatArray) -> tuple[VectorLabels, FloatArray]:
        """Return the problem and point with one more column: labels along a direction (N,), weights zero."""
        W, X, s = self.split(x)
        lengths = np.linalg.norm(X, axis=1)
        top = max(float(np.abs(direction).max(initial=0.0)), TINY)
        X = np.column_stack([X, 0.1 * lengths * direction / top])
        W = np.column_stack([W, np.zeros(len(W))])
        return VectorLabels(self.form, self.width + 1), np.concatenate([W.ravel(), X.ravel(), s])


def _normed(rows: FloatArray, radii: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    squares = np.maximum(np.einsum("jc,jc->j", rows, rows), TINY)
    return (rows / np.sqrt(squares)[:, None]).T, radii**2 / squares, squares
