"""The linearised optimality system H e = b of the free rows: dense, or through a Woodbury system of order r·s."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.linalg

from margindsl.host.clock import SMALL_WORK
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.saddle.model import Point, SaddleModel

DAMPING = 1e-9  # proximal weights of the step, relative to the mean diagonals of its systems
# The Gram matrix of the Woodbury system is of a sample of the rows where all would cost more passes than that, and more
# than a moment; a sample has so many rows for every column. More of either cost more than the steps they saved (copies
# of digits, 100,000 to 1,000,000 points): steps of a sampled curvature still cut the gap to a tenth.
GRAM_PASSES, GRAM_ROWS = 1.0, 2.0
NEGLIGIBLE = 0.1  # mass of labellings left out of the Woodbury system, relative to the accuracy asked of it


@dataclass(frozen=True, eq=False)
class Rows:
    """Represent the free rows at a point: H = diag κ + √c a ((YᵀDiag(μ)Y)∘K) a √c, residual √c R.

    Parameters
    ----------
    points : (m,) int array
        Their points.
    scaled : (m,) float array
        √c a.
    kappa : (m,) float array
        The inverse curvatures κ ≥ 0 left by the conjugates.
    residual : (m,) float array
        √c R.
    coupling : (m, S) float array
        √c B, one column a shared scalar.
    """

    points: IntArray
    scaled: FloatArray
    kappa: FloatArray
    residual: FloatArray
    coupling: FloatArray


class System(Protocol):
    """What a Newton step needs of the linearised system, Q = [√c a y_k∘(Φv_k + b_k)]_k beside √c B."""

    @property
    def curvature(self) -> FloatArray:
        """Return QᵀH⁻¹Q (T + S, T + S)."""

    @property
    def pull(self) -> FloatArray:
        """Return QᵀH⁻¹√c R (T + S,)."""

    def step(self, change: FloatArray) -> FloatArray:
        """Return e = H⁻¹(√c R + QΔ) for a step Δ (T + S,) of masses and scalars."""


def linear_system(model: SaddleModel, base: Point, rows: Rows, limit: int, accuracy: float = 1e-4) -> System | None:
    """Return the cheaper system of order at most `limit`, None if there is none or it is singular.

    Parameters
    ----------
    accuracy : float
        Of the system, relative.
    """
    m, active = len(rows.points), heavy(base.mu, NEGLIGIBLE * accuracy)
    order = len(active) * model.order
    has_curvature = bool(m and rows.kappa.min() > 1e-6 * rows.kappa.mean())
    dense = m**2 * (m / 3 + model.form.features.rank + 2 * model.count)
    try:
        if m <= limit and (dense <= m * float(order) ** 2 or order > limit or not has_curvature):
            return DenseSystem(model, base, rows)
        return WoodburySystem(model, base, rows, active) if has_curvature and order <= limit else None
    except scipy.linalg.LinAlgError:
        return None


def heavy(mu: FloatArray, negligible: float) -> IntArray:
    """Return the fewest labellings that hold all mass but a negligible part."""
    order = np.argsort(-mu)
    count = 1 + int(np.searchsorted(np.cumsum(mu[order]), (1.0 - negligible) * mu.sum()))
    return np.sort(order[:count])


class DenseSystem:
    """Factor H itself."""

    def __init__(self, model: SaddleModel, base: Point, rows: Rows) -> None:
        self.Q = np.column_stack([rows.scaled[:, None] * model.columns(base.directions, rows.points), rows.coupling])
        phi = model.form.features.rows(rows.points) * rows.scaled[:, None]
        active = np.flatnonzero(base.mu > 0)
        labels = model.labels[model.coordinates(active)][:, rows.points].astype(float)
        H = phi @ phi.T
        H *= (labels * np.repeat(base.mu[active], model.width)[:, None]).T @ labels
        diagonal = np.einsum("ii->i", H)
        diagonal += rows.kappa + DAMPING * float(np.mean(diagonal + rows.kappa) if len(H) else 0.0)
        right = np.column_stack([rows.residual, self.Q])
        self.solved = solve_positive(H, right) if len(H) else right
        self.curvature, self.pull = self.Q.T @ self.solved[:, 1:], self.Q.T @ self.solved[:, 0]

    def step(self, change: FloatArray) -> FloatArray:
        """Return H⁻¹(√c R + QΔ)."""
        return self.solved[:, 0] + self.solved[:, 1:] @ change


class WoodburySystem:
    """Solve H = diag κ + BBᵀ, B = [√μ_k √c a y_k∘Φ]_k, through I + Bᵀκ⁻¹B of order r·s, s labellings with mass.

    When the Gram matrix would cost too much it is estimated from a sample of the rows; so is, then, all that goes
    through it. What does not, the residual above all, stays exact, so that steps close the gap all the same, each by
    a factor (Pilanci and Wainwright 2017; Roosta-Khorasani and Mahoney 2019). A step takes one adjoint and one product.

    Parameters
    ----------
    active : (s,) int array
        The labellings with mass.
    """

    def __init__(self, model: SaddleModel, base: Point, rows: Rows, active: IntArray) -> None:
        self.model, self.base, self.rows, self.active = model, base, rows, active
        self.root = np.sqrt(base.mu[active])
        self.inverse = 1.0 / (rows.kappa + DAMPING * float(rows.kappa.mean()))
        m, order = len(rows.points), len(active) * model.order
        one_pass = 4.0 * model.form.n * model.form.features.rank * model.count
        size = int(max(max(GRAM_PASSES * one_pass, SMALL_WORK) / order**2, GRAM_ROWS * order))
        self.is_exact = m <= size
        sample = np.arange(m) if self.is_exact else np.sort(np.random.default_rng(m).choice(m, size, replace=False))
        self._factor(sample, m / max(len(sample), 1))

    def _factor(self, sample: IntArray, share: float) -> None:
        """Factor I + Bᵀκ⁻¹B and form S from a sample of the rows, each standing for `share` of them."""
        model, rows, order = self.model, self.rows, len(self.active) * self.model.order
        held, root = model.coordinates(self.active), np.repeat(self.root, model.width)

        def part(begin: int) -> tuple[FloatArray, ...]:
            part = sample[begin:begin + width]
            points, weight = rows.points[part], np.sqrt(share * self.inverse[part]) * rows.scaled[part]
            signs = model.labels[:, points].T * weight[:, None]
            phi = model.form.features.rows(points)
            B = ((signs[:, held] * root)[:, :, None] * phi[:, None, :]).reshape(len(part), order)
            Q = model.products(phi, self.base.directions, signs)
            Q = np.column_stack([Q, np.sqrt(share * self.inverse[part])[:, None] * rows.coupling[part]])
            return B.T @ B, B.T @ Q, Q.T @ Q

        total = model.count + rows.coupling.shape[1]
        gram, self.cross, square = np.zeros((order, order)), np.zeros((order, total)), np.zeros((total, total))
        width = max(2**22 // order, 1)
        for found in model.gather(part, range(0, len(sample), width)):
            gram += found[0]
            self.cross += found[1]
            square += found[2]
        np.einsum("ii->i", gram)[:] += 1.0
        self.factor = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
        half = scipy.linalg.solve_triangular(self.factor[0], self.cross, trans=0 if self.factor[1] else 1,
                                             lower=self.factor[1], check_finite=False)
        self.curvature = square - half.T @ half

    @cached_property
    def _free(self) -> FloatArray:
        return self.inverse * self.rows.residual

    @cached_property
    def _images(self) -> FloatArray:
        return self.model.adjoint(self._spread(self._free))

    @cached_property
    def pull(self) -> FloatArray:
        """Return QᵀH⁻¹√c R = Qᵀκ⁻¹(√c R − B z), z = (I + Bᵀκ⁻¹B)⁻¹Bᵀκ⁻¹√c R; the part with z from the sample."""
        masses = np.einsum("kr,kr->k", self._images, self.base.directions) + self.model.sums(self._spread(self._free))
        return np.append(masses, self._free @ self.rows.coupling) - self.cross.T @ self._precondition(self._held)

    @property
    def _held(self) -> FloatArray:
        return (self.root[:, None] * self._images[self.active]).ravel()

    def step(self, change: FloatArray) -> FloatArray:
        """Return H⁻¹(√c R + QΔ) = κ⁻¹(√c R + QΔ − B z), z = (I + Bᵀκ⁻¹B)⁻¹Bᵀκ⁻¹(√c R + QΔ)."""
        masses = change[:self.model.count]
        z = self._precondition(self._held + self.cross @ change)
        W = masses[:, None] * self.base.directions
        W[self.active] -= self.root[:, None] * z.reshape(len(self.active), -1)
        return self._free + self.inverse * (
            self._gather(W, masses) + self.rows.coupling @ change[self.model.count:])

    def _precondition(self, right: FloatArray) -> FloatArray:
        solved: FloatArray = scipy.linalg.cho_solve(self.factor, right, check_finite=False)
        return solved

    def _gather(self, W: FloatArray, masses: FloatArray | None = None) -> FloatArray:
        return self.rows.scaled * self.model.margins(W, masses)[self.rows.points]

    def _spread(self, p: FloatArray) -> FloatArray:
        return np.bincount(self.rows.points, weights=self.rows.scaled * p, minlength=self.model.form.n)


def solve_positive(H: FloatArray, right: FloatArray) -> FloatArray:
    """Return H⁻¹ right for a positive definite H, which is overwritten."""
    factor = scipy.linalg.cho_factor(H, overwrite_a=True, check_finite=False)
    solved: FloatArray = scipy.linalg.cho_solve(factor, right, check_finite=False)
    if not np.all(np.isfinite(solved)):
        raise scipy.linalg.LinAlgError
    return solved
