"""Newton steps on the optimality system: its linear system, dense or by Woodbury, and a model on the simplex."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
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
FORCING, FORCED = 0.3, (1e-4, 0.1)  # of the root of the relative gap, and its range


@dataclass(frozen=True, eq=False)
class Rows:
    """Represent the free rows at a point: H = diag κ + √c a ((YᵀDiag(μ)Y)∘K) a √c, residual √c R."""

    points: IntArray  # (m,), their points
    scaled: FloatArray  # (m,), √c a
    kappa: FloatArray  # (m,), the inverse curvatures κ ≥ 0 left by the conjugates
    residual: FloatArray  # (m,), √c R
    coupling: FloatArray  # (m, S), √c B, one column a shared scalar


def heavy(mu: FloatArray, negligible: float) -> IntArray:
    """Return the fewest labellings that hold all mass but a negligible part."""
    order = np.argsort(-mu)
    count = 1 + int(np.searchsorted(np.cumsum(mu[order]), (1.0 - negligible) * mu.sum()))
    return np.sort(order[:count])


class DenseSystem:
    """Factor H itself, Q = [√c a y_k∘(Φv_k + b_k)]_k beside √c B.

    Attributes
    ----------
    curvature : (T + S, T + S) float array
        QᵀH⁻¹Q.
    rest : (T + S,) float array
        QᵀH⁻¹√c R.
    """

    def __init__(self, model: SaddleModel, base: Point, rows: Rows) -> None:
        features, signs = model.form.features.rows(rows.points), model.labels[:, rows.points]
        Q = rows.scaled[:, None] * model.products(features, base.directions, signs.T)
        self.Q = np.column_stack([Q, rows.coupling])
        phi, active = features * rows.scaled[:, None], np.flatnonzero(base.mu > 0)
        labels = signs[model.coordinates(active)].astype(float)
        H = phi @ phi.T
        H *= (labels * np.repeat(base.mu[active], model.width)[:, None]).T @ labels
        diagonal = np.einsum("ii->i", H)
        diagonal += rows.kappa + DAMPING * float(np.mean(diagonal + rows.kappa) if len(H) else 0.0)
        self.solved = np.column_stack([rows.residual, self.Q])
        if len(H):
            factor = scipy.linalg.cho_factor(H, overwrite_a=True, check_finite=False)
            self.solved = scipy.linalg.cho_solve(factor, self.solved, check_finite=False)
        if not np.all(np.isfinite(self.solved)):
            raise scipy.linalg.LinAlgError
        self.curvature, self.rest = self.Q.T @ self.solved[:, 1:], self.Q.T @ self.solved[:, 0]

    def step(self, change: FloatArray) -> FloatArray:
        """Return H⁻¹(√c R + QΔ) for a step Δ (T + S,) of masses and scalars."""
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

    Attributes
    ----------
    curvature, rest : float arrays
        As of `DenseSystem`.
    """

    def __init__(self, model: SaddleModel, base: Point, rows: Rows, active: IntArray) -> None:
        self.model, self.base, self.rows, self.active = model, base, rows, active
        self.root, m, order = np.sqrt(base.mu[active]), len(rows.points), len(active) * model.order
        self.inverse = 1.0 / (rows.kappa + DAMPING * float(rows.kappa.mean()))

        # 1. All rows, or a sample of which each stands for `share`
        one_pass = 4.0 * model.form.n * model.form.features.rank * model.count
        size = int(max(max(GRAM_PASSES * one_pass, SMALL_WORK) / order**2, GRAM_ROWS * order))
        self.is_exact = m <= size
        sample = np.arange(m) if self.is_exact else np.sort(np.random.default_rng(m).choice(m, size, replace=False))
        share, held, root = m / max(len(sample), 1), model.coordinates(active), np.repeat(self.root, model.width)

        # 2. I + Bᵀκ⁻¹B and S = Qᵀκ⁻¹Q − Qᵀκ⁻¹B (I + Bᵀκ⁻¹B)⁻¹ Bᵀκ⁻¹Q
        def part(begin: int) -> tuple[FloatArray, ...]:
            part = sample[begin:begin + width]
            points, weight = rows.points[part], np.sqrt(share * self.inverse[part]) * rows.scaled[part]
            signs = model.labels[:, points].T * weight[:, None]
            phi = model.form.features.rows(points)
            B = ((signs[:, held] * root)[:, :, None] * phi[:, None, :]).reshape(len(part), order)
            Q = model.products(phi, base.directions, signs)
            Q = np.column_stack([Q, np.sqrt(share * self.inverse[part])[:, None] * rows.coupling[part]])
            return B.T @ B, B.T @ Q, Q.T @ Q

        total = model.count + rows.coupling.shape[1]
        gram, self.cross, square = np.zeros((order, order)), np.zeros((order, total)), np.zeros((total, total))
        width = max(2**22 // order, 1)
        for found in model.workers(part, range(0, len(sample), width)):
            gram += found[0]
            self.cross += found[1]
            square += found[2]
        np.einsum("ii->i", gram)[:] += 1.0
        self.factor = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
        half = scipy.linalg.solve_triangular(self.factor[0], self.cross, trans=0 if self.factor[1] else 1,
                                             lower=self.factor[1], check_finite=False)
        self.curvature = square - half.T @ half

        # 3. QᵀH⁻¹√c R = Qᵀκ⁻¹(√c R − B z), z = (I + Bᵀκ⁻¹B)⁻¹Bᵀκ⁻¹√c R; the part with z from the sample
        self.free = self.inverse * rows.residual
        scatter = np.bincount(rows.points, weights=rows.scaled * self.free, minlength=model.form.n)
        images = model.adjoint(scatter)
        self.held = (self.root[:, None] * images[active]).ravel()  # Bᵀκ⁻¹√c R
        masses = np.einsum("kr,kr->k", images, base.directions) + model.sums(scatter)
        z = scipy.linalg.cho_solve(self.factor, self.held, check_finite=False)
        self.rest = np.append(masses, self.free @ rows.coupling) - self.cross.T @ z

    def step(self, change: FloatArray) -> FloatArray:
        """Return H⁻¹(√c R + QΔ) = κ⁻¹(√c R + QΔ − B z), z = (I + Bᵀκ⁻¹B)⁻¹Bᵀκ⁻¹(√c R + QΔ)."""
        masses, rows = change[:self.model.count], self.rows
        z = scipy.linalg.cho_solve(self.factor, self.held + self.cross @ change, check_finite=False)
        W = masses[:, None] * self.base.directions
        W[self.active] -= self.root[:, None] * z.reshape(len(self.active), -1)
        gathered = rows.scaled * self.model.margins(W, masses)[rows.points]
        return np.asarray(self.free + self.inverse * (gathered + rows.coupling @ change[self.model.count:]))


def newton_step(model: SaddleModel, point: Point, width: float, limit: int, damping: float = 0.0) -> Point | None:
    """Return the point one damped semismooth Newton step ahead, or None if there is no such step.

    Rows at a kink of ρ* (prox derivative zero) are put there. On the other rows, with e = √c Δx, the
    linearised optimality system is H e − QΔμ = √c R, H = diag κ + √c a ((YᵀDiag(μ)Y)∘K) a √c; what is
    left is the convex quadratic min over μ ∈ Δ of ½ΔμᵀSΔμ + gᵀΔμ, S = QᵀH⁻¹Q, g = −½‖v_k‖² + QᵀH⁻¹√c R. Shared
    scalars are further columns √c B of Q, of gradient q − Bᵀu and without a simplex.
    With damping δ it linearises a proximal-point step: δ is added to κ and δ max‖v_k‖² to the diagonal of S.

    `width`: the step of the prox that tells free rows from fixed ones; `limit`: largest order of a linear system; above
    it there is no step; `damping`: the inverse length δ ≥ 0 of the proximal step; x and the margins are of order one.

    Returns
    -------
    Point or None
        Evaluated and judged.
    """
    # 1. Fixed rows move first, so that the residual of the free ones is exact
    z = point.x + width * point.arguments
    target, slope = model.prox(z, width), model.prox_derivative(z, width)
    is_free = (slope > 1e-9) & (model.weights > 0)
    free = np.flatnonzero(is_free)
    x = np.where(is_free, point.x, target)
    base = point if np.array_equal(x, point.x) else model.evaluate(point.mu, x, point.scalars)
    kappa = np.maximum(1.0 / slope[free] - 1.0, 0.0) / width
    residual = base.arguments[free] - (z - target)[free] / width - kappa * (base.x - target)[free]
    root = np.sqrt(model.weights[free])
    rows = Rows(model.losses.points[free], root * model.losses.slopes[free], kappa + damping, root * residual,
                root[:, None] * model.coupling[free])

    # 2. The cheaper system, to an accuracy that does not slow the steps (Eisenstat and Walker 1996)
    accuracy = float(np.clip(FORCING * np.sqrt(point.error), *FORCED))
    m, active = len(free), heavy(base.mu, NEGLIGIBLE * accuracy)
    order = len(active) * model.order
    has_curvature = bool(m and rows.kappa.min() > 1e-6 * rows.kappa.mean())
    dense = m**2 * (m / 3 + model.form.features.rank + 2 * model.count)
    system: DenseSystem | WoodburySystem
    try:
        if m <= limit and (dense <= m * float(order) ** 2 or order > limit or not has_curvature):
            system = DenseSystem(model, base, rows)
        elif has_curvature and order <= limit:
            system = WoodburySystem(model, base, rows, active)
        else:
            return None
    except scipy.linalg.LinAlgError:
        return None

    # 3. A quadratic in (μ, s), the scalars at their best: they move by first + tilt Δμ
    T = model.count
    S, gradient = system.curvature.copy(), system.rest + np.append(-base.costs, base.slack)
    S[:T, :T] += damping * float(base.norms.max()) * np.eye(T)
    inverse = np.linalg.pinv(S[T:, T:], rcond=1e-12, hermitian=True) if len(S) > T else S[T:, T:]
    first, tilt = -inverse @ gradient[T:], -inverse @ S[T:, :T]
    mu = simplex_quadratic(S[:T, :T] + S[T:, :T].T @ tilt, gradient[:T] + S[T:, :T].T @ first, base.mu)

    # 4. The free rows follow
    change = np.append(mu - base.mu, first + tilt @ (mu - base.mu))
    x = base.x.copy()
    x[free] += system.step(change) / root
    s = base.scalars + change[T:]
    return model.judge(model.evaluate(mu, model.clip(x), np.where(model.losses.scalars.nonneg, np.maximum(s, 0.0), s)))


def simplex_quadratic(S: FloatArray, gradient: FloatArray, centre: FloatArray) -> FloatArray:
    """Return argmin over μ ∈ Δ of ½(μ − μ₀)ᵀS(μ − μ₀) + gᵀ(μ − μ₀).

    With S = LᵀL it is the point of least norm of a polytope, min |Pμ|², P = L − b1ᵀ, and by homogeneity
    the non-negative least-squares solution of [P; 1ᵀ]μ = [0; 1], normalised (Wolfe 1976; Lawson and Hanson).

    Parameters
    ----------
    S : (T, T) float array
        Positive semidefinite.
    gradient, centre : (T,) float arrays
        g and μ₀ ∈ Δ.

    Examples
    --------
    >>> import numpy as np
    >>> simplex_quadratic(np.eye(2), np.array([1.0, 0.0]), np.array([0.5, 0.5])).round(6)
    array([0., 1.])
    """
    g = gradient - centre @ gradient
    shift = DAMPING * max(float(np.mean(np.diag(S))), 1e-3 * float(np.abs(g).max()), 1e-300)
    values, vectors = np.linalg.eigh(S + shift * np.eye(len(S)))
    values = np.sqrt(np.maximum(values, shift))
    L = values[:, None] * vectors.T
    P = L - (L @ centre - (vectors.T @ g) / values)[:, None]
    P /= max(float(np.linalg.norm(P @ centre)), 1e-3 * float(np.abs(P).max()), 1e-300)
    try:
        mu, _ = scipy.optimize.nnls(np.vstack([P, np.ones(len(S))]), np.append(np.zeros(len(P)), 1.0))
    except RuntimeError:  # its iteration cap; the old masses remain feasible
        return centre
    total = float(mu.sum())
    return mu / total if total > 0 else centre
