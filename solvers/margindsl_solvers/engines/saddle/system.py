"""The linearised optimality system H e = b of the free rows: dense, or through a Woodbury system of order r·s."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.linalg

from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.saddle.model import Point, SaddleModel

DAMPING = 1e-9  # proximal weights of the step, relative to the mean diagonals of its systems
# The Gram matrix of the Woodbury system is of a sample of the rows where all would cost more passes than that; a sample
# has so many rows for every column.
GRAM_PASSES, GRAM_ROWS = 4.0, 2.0
NEGLIGIBLE = 1e-2  # mass of labellings left out of the Woodbury system, relative to its accuracy
STEPS = 30  # of the conjugate gradients that correct a sampled system


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
    model : SaddleModel
    base : Point
    rows : Rows
    limit : int
    accuracy : float
        Relative residual to which a sampled system is corrected.
    """
    m, active = len(rows.points), heavy(base.mu, NEGLIGIBLE * accuracy)
    order = len(active) * model.order
    has_curvature = bool(m and rows.kappa.min() > 1e-6 * rows.kappa.mean())
    dense = m**2 * (m / 3 + model.form.features.rank + 2 * model.count)
    try:
        if m <= limit and (dense <= m * float(order) ** 2 or order > limit or not has_curvature):
            return DenseSystem(model, base, rows)
        return WoodburySystem(model, base, rows, active, accuracy) if has_curvature and order <= limit else None
    except scipy.linalg.LinAlgError:
        return None


def heavy(mu: FloatArray, negligible: float) -> IntArray:
    """Return the fewest labellings that hold all mass but a negligible part."""
    order = np.argsort(-mu)
    count = 1 + int(np.searchsorted(np.cumsum(mu[order]), (1.0 - negligible) * mu.sum()))
    return np.sort(order[:count])


class DenseSystem:
    """Factor H itself.

    Parameters
    ----------
    model : SaddleModel
    base : Point
    rows : Rows
    """

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

    When the Gram matrix would cost too much it is estimated from a sample of the rows. It then gives the
    curvature S, and preconditions conjugate gradients for everything else, which stays exact.

    Parameters
    ----------
    model : SaddleModel
    base : Point
    rows : Rows
    active : (s,) int array
        The labellings with mass.
    accuracy : float
        Relative residual of the conjugate gradients.
    """

    def __init__(self, model: SaddleModel, base: Point, rows: Rows, active: IntArray, accuracy: float) -> None:
        self.model, self.base, self.rows, self.active, self.accuracy = model, base, rows, active, accuracy
        self.root = np.sqrt(base.mu[active])
        self.inverse = 1.0 / (rows.kappa + DAMPING * float(rows.kappa.mean()))
        m, order = len(rows.points), len(active) * model.order
        one_pass = 4.0 * model.form.n * model.form.features.rank * model.count
        size = int(max(GRAM_PASSES * one_pass / order**2, GRAM_ROWS * order))
        self.is_exact = m <= size
        sample = np.arange(m) if self.is_exact else np.sort(np.random.default_rng(m).choice(m, size, replace=False))
        self._factor(sample, m / max(len(sample), 1))

    def _factor(self, sample: IntArray, share: float) -> None:
        """Factor I + Bᵀκ⁻¹B and form S from a sample of the rows, each standing for `share` of them."""
        model, rows, order = self.model, self.rows, len(self.active) * self.model.order
        held, root = model.coordinates(self.active), np.repeat(self.root, model.width)
        total = model.count + rows.coupling.shape[1]
        gram, cross, square = np.zeros((order, order)), np.zeros((order, total)), np.zeros((total, total))
        width = max(2**22 // order, 1)
        for begin in range(0, len(sample), width):
            part = sample[begin:begin + width]
            points, weight = rows.points[part], np.sqrt(share * self.inverse[part]) * rows.scaled[part]
            signs = model.labels[:, points].T * weight[:, None]
            phi = model.form.features.rows(points)
            B = ((signs[:, held] * root)[:, :, None] * phi[:, None, :]).reshape(len(part), order)
            Q = model.products(phi, self.base.directions, signs)
            Q = np.column_stack([Q, np.sqrt(share * self.inverse[part])[:, None] * rows.coupling[part]])
            gram += B.T @ B
            cross += B.T @ Q
            square += Q.T @ Q
        np.einsum("ii->i", gram)[:] += 1.0
        self.factor = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
        half = scipy.linalg.solve_triangular(
            self.factor[0], cross, trans=0 if self.factor[1] else 1, lower=self.factor[1], check_finite=False)
        self.curvature = square - half.T @ half

    @cached_property
    def first(self) -> FloatArray:
        """Return H⁻¹√c R."""
        return self.solve(self.rows.residual)

    @cached_property
    def pull(self) -> FloatArray:
        """Return QᵀH⁻¹√c R."""
        spread = self._spread(self.first)
        masses = np.einsum("kr,kr->k", self.model.adjoint(spread), self.base.directions) + self.model.sums(spread)
        return np.append(masses, self.first @ self.rows.coupling)

    def step(self, change: FloatArray) -> FloatArray:
        """Return H⁻¹(√c R + QΔ)."""
        masses, scalars = change[:self.model.count], change[self.model.count:]
        right = self._gather(masses[:, None] * self.base.directions, masses) + self.rows.coupling @ scalars
        return self.first + self.solve(right)

    def solve(self, right: FloatArray) -> FloatArray:
        """Return H⁻¹b = κ⁻¹(b − B(I + Bᵀκ⁻¹B)⁻¹Bᵀκ⁻¹b)."""
        inside = self._solve_inside(self._collect(self.inverse * right))
        return self.inverse * (right - self._expand(inside))

    def _solve_inside(self, right: FloatArray) -> FloatArray:
        """Solve (I + Bᵀκ⁻¹B) z = b, by preconditioned conjugate gradients when the factor was sampled."""
        z = self._precondition(right)
        if self.is_exact:
            return z
        residual = right - self._inside(z)
        goal = self.accuracy * float(np.linalg.norm(right))
        towards = direction = self._precondition(residual)
        energy = float(residual @ towards)
        for _ in range(STEPS):
            if float(np.linalg.norm(residual)) <= goal or not energy > 0:
                break
            image = self._inside(direction)
            length = energy / float(direction @ image)
            z, residual = z + length * direction, residual - length * image
            towards = self._precondition(residual)
            last, energy = energy, float(residual @ towards)
            direction = towards + energy / last * direction
        return z

    def _precondition(self, right: FloatArray) -> FloatArray:
        solved: FloatArray = scipy.linalg.cho_solve(self.factor, right, check_finite=False)
        return solved

    def _inside(self, z: FloatArray) -> FloatArray:
        return z + self._collect(self.inverse * self._expand(z))

    def _expand(self, z: FloatArray) -> FloatArray:
        """Return B z."""
        W = np.zeros((self.model.count, self.model.order))
        W[self.active] = self.root[:, None] * z.reshape(len(self.active), -1)
        return self._gather(W)

    def _collect(self, p: FloatArray) -> FloatArray:
        """Return Bᵀp."""
        return (self.root[:, None] * self.model.adjoint(self._spread(p), self.active)).ravel()

    def _gather(self, W: FloatArray, masses: FloatArray | None = None) -> FloatArray:
        return self.rows.scaled * self.model.margins(W, masses)[self.rows.points]

    def _spread(self, p: FloatArray) -> FloatArray:
        return np.bincount(self.rows.points, weights=self.rows.scaled * p, minlength=self.model.form.n)


def solve_positive(H: FloatArray, right: FloatArray) -> FloatArray:
    """Return H⁻¹ right for a positive definite H, which is overwritten.

    Raises
    ------
    LinAlgError
        If H is not numerically positive definite.
    """
    factor = scipy.linalg.cho_factor(H, overwrite_a=True, check_finite=False)
    solved: FloatArray = scipy.linalg.cho_solve(factor, right, check_finite=False)
    if not np.all(np.isfinite(solved)):
        raise scipy.linalg.LinAlgError
    return solved
