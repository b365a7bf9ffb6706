"""Newton steps on the optimality system: a second-order model of μ ↦ max_u on the simplex, solved exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from margindsl.typing import FloatArray
from margindsl_solvers.engines.saddle.model import Point, SaddleModel
from margindsl_solvers.engines.saddle.system import DAMPING, Rows, linear_system

FORCING, FORCED = 0.3, (1e-4, 0.1)  # of the root of the relative gap, and its range

def newton_step(model: SaddleModel, point: Point, width: float, limit: int, damping: float = 0.0) -> Point | None:
    """Return the point one damped semismooth Newton step ahead, or None if there is no such step.

    Rows at a kink of ρ* (prox derivative zero) are put there. On the other rows, with e = √c Δx, the
    linearised optimality system is H e − QΔμ = √c R, H = diag κ + √c a ((YᵀDiag(μ)Y)∘K) a √c; what is
    left is the convex quadratic min over μ ∈ Δ of ½ΔμᵀSΔμ + gᵀΔμ, S = QᵀH⁻¹Q, g = −½‖v_k‖² + QᵀH⁻¹√c R. Shared
    scalars are further columns √c B of Q, of gradient q − Bᵀu and without a simplex.
    With damping δ it linearises a proximal-point step: δ is added to κ and δ max‖v_k‖² to the diagonal of S.

    Parameters
    ----------
    width : float
        The step of the prox that tells free rows from fixed ones.
    limit : int
        Largest order of a linear system; above it there is no step.
    damping : float
        The inverse length δ ≥ 0 of the proximal step; x and the margins are of order one.

    Returns
    -------
    Point or None
        Evaluated and judged.
    """
    z = point.x + width * point.arguments
    target, slope = model.prox(z, width), model.prox_derivative(z, width)
    is_free = (slope > 1e-9) & (model.weights > 0)
    free = np.flatnonzero(is_free)
    # Fixed rows move first, so that the residual of the free ones is exact.
    x = np.where(is_free, point.x, target)
    base = point if np.array_equal(x, point.x) else model.evaluate(point.mu, x, point.scalars)
    kappa = np.maximum(1.0 / slope[free] - 1.0, 0.0) / width
    residual = base.arguments[free] - (z - target)[free] / width - kappa * (base.x - target)[free]
    root = np.sqrt(model.weights[free])
    rows = Rows(model.losses.points[free], root * model.losses.slopes[free], kappa + damping, root * residual,
                root[:, None] * model.coupling[free])
    system = linear_system(model, base, rows, limit, forcing(point.error))
    if system is None:
        return None
    curvature, T = system.curvature.copy(), model.count
    curvature[:T, :T] += damping * float(base.norms.max()) * np.eye(T)
    reduced = WithoutScalars.of(curvature, system.pull + np.append(-base.costs, base.slack), T)
    mu = simplex_quadratic(reduced.curvature, reduced.gradient, base.mu)
    change = np.append(mu - base.mu, reduced.scalars(mu - base.mu))
    x = base.x.copy()
    x[free] += system.step(change) / root
    s = base.scalars + change[T:]
    return model.judge(model.evaluate(mu, model.clip(x), np.where(model.losses.scalars.nonneg, np.maximum(s, 0.0), s)))


def forcing(error: float) -> float:
    """Return the accuracy of a Newton system that does not slow the steps (Eisenstat and Walker 1996)."""
    return float(np.clip(FORCING * np.sqrt(error), *FORCED))


@dataclass(frozen=True, eq=False)
class WithoutScalars:
    """Represent a quadratic model of (μ, s) with the scalars at their best: s moves by `base` + `slope` Δμ."""

    curvature: FloatArray  # (T, T)
    gradient: FloatArray  # (T,)
    base: FloatArray  # (S,)
    slope: FloatArray  # (S, T)

    @classmethod
    def of(cls, curvature: FloatArray, gradient: FloatArray, count: int) -> WithoutScalars:
        """Return the Schur complement of the scalars, which come after `count` masses."""
        corner, side = curvature[count:, count:], curvature[count:, :count]
        inverse = np.linalg.pinv(corner, rcond=1e-12, hermitian=True) if len(corner) else corner
        base, slope = -inverse @ gradient[count:], -inverse @ side
        return cls(curvature[:count, :count] + side.T @ slope, gradient[:count] + side.T @ base, base, slope)

    def scalars(self, change: FloatArray) -> FloatArray:
        """Return the (S,) step of the scalars for a step of the masses."""
        return np.asarray(self.base + self.slope @ change)


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
