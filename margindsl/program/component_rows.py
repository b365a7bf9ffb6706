"""Rows of summed features that are never formed: products with H = AᵀDiag(ũ)Φ and the greatest eigenvalue they give."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.sparse import csr_array

from margindsl.features.operator import FeatureOperator
from margindsl.host.clock import EIGEN_WORK, check
from margindsl.typing import FloatArray, IntArray

BLOCK = 4_000_000  # entries of a block of rows
LANCZOS = 500  # steps
FAILURE = 1e-15  # probability, as rare as rounding, with which the bound may fail


@dataclass(frozen=True, eq=False)
class ComponentRows:
    """Give products with the (N, r) rows h_C = Σ_{i∈C} t_i ũ_i φ_i; for features too wide, or too far, for a dense H.
    """

    features: FeatureOperator
    component: IntArray  # (n,)
    weights: FloatArray  # (n,), the numbers t_i ũ_i
    count: int  # the number N of components
    is_wide: bool = True  # whether r × r numbers are too many

    @property
    def shape(self) -> tuple[int, int]:
        """Return (N, r)."""
        return self.count, self.features.rank

    @cached_property
    def T(self) -> TransposedRows:
        """Return Hᵀ."""
        return TransposedRows(self)

    def __matmul__(self, W: FloatArray) -> FloatArray:
        return np.asarray(self._sums @ self.features.apply(W))

    @cached_property
    def _sums(self) -> csr_array:
        """Return the (N, n) incidence of points and components, with the weights."""
        entries = self.weights, (self.component, np.arange(len(self.component)))
        return csr_array(entries, shape=(self.count, len(self.component)))

    def squares(self, weights: FloatArray) -> FloatArray:
        """Return Hᵀ Diag(weights) H (r, r) for weights (N,)."""
        if self._are_single:
            return self.features.gram(self.weights**2 * weights[self.component])
        order, width = self.features.rank, max(1, BLOCK // max(self.count, 1))
        units = (np.eye(order, min(width, order - start), -start) for start in range(0, order, width))
        return np.hstack([self.T @ (weights[:, None] * (self @ unit)) for unit in units])

    @cached_property
    def _are_single(self) -> bool:
        return bool(np.all(np.bincount(self.component, minlength=self.count) <= 1))

    @cached_property
    def norms(self) -> FloatArray:
        """Return the (N,) squared lengths of the rows."""
        if self._are_single:
            squares = self.weights**2 * self.features.row_norms()
            return np.bincount(self.component, weights=squares, minlength=self.count)
        out, width = np.empty(self.count), max(1, BLOCK // self.features.rank)
        for start in range(0, self.count, width):
            unit = np.eye(self.count, min(width, self.count - start), -start)
            out[start : start + width] = np.sum((self.T @ unit) ** 2, axis=0)
        return out


@dataclass(frozen=True, eq=False)
class TransposedRows:
    """Give products with Hᵀ."""

    rows: ComponentRows  # H

    def __matmul__(self, Z: FloatArray) -> FloatArray:
        return self.rows.features.adjoint((self.rows.weights * Z[self.rows.component].T).T)


@dataclass(frozen=True, eq=False)
class Inverse:
    """Represent (Diag d + Σκω̃ω̃ᵀ)⁻¹ = Diag(inverse) − T middle⁻¹ Tᵀ, T = Diag(inverse) ω̃."""

    inverse: FloatArray  # (N,)
    tilted: FloatArray  # (N, J), T
    middle: FloatArray  # (J, J)

    def __call__(self, Z: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore", over="ignore"):
            scaled, tilted = (self.inverse * Z.T).T, self.tilted.T @ Z
            return np.asarray(scaled - self.tilted @ self._held(tilted))

    def _held(self, Z: FloatArray) -> FloatArray:
        if not (np.all(np.isfinite(Z)) and np.all(np.isfinite(self.middle))):  # of d too small to divide by: no answer
            return np.full_like(Z, np.nan)
        return np.asarray(np.linalg.lstsq(self.middle, Z, rcond=None)[0])

    def between(self, H: FloatArray | ComponentRows) -> FloatArray:
        """Return Hᵀ(Diag d + Σκω̃ω̃ᵀ)⁻¹H for rows H (N, r), symmetric to the last digit."""
        check(H.shape[0] * H.shape[1] ** 2 + EIGEN_WORK * H.shape[1] ** 3 / 2)
        if isinstance(H, ComponentRows):
            edge = H.T @ self.tilted
            inner = H.squares(self.inverse) - edge @ self._held(edge.T)
        else:
            inner = H.T @ self(H)
        return np.asarray((inner + inner.T) / 2)


def greatest_eigenvalue(product: Callable[[FloatArray], FloatArray], order: int,
                        steps: int = LANCZOS) -> tuple[float, float, Callable[[], FloatArray]]:
    """Return (θ, bound, vector) of a positive semidefinite matrix by Lanczos steps from a random vector.

    θ = vᵀMv/‖v‖² is the greatest Ritz value, v what `vector()` returns. λ_max ≤ bound = θ/(1 − ε) but for an event
    of probability 1.648 √order exp(−√ε(2k − 1)), which is set to 10⁻¹⁵; exact arithmetic is assumed, as in most
    error bounds of eigenvalues. Orthogonality is lost only towards Ritz vectors that have converged.

    Parameters
    ----------
    product : callable
        v ↦ Mv.
    steps : int
        The number k of steps.

    References
    ----------
    J. Kuczyński, H. Woźniakowski (1992). Estimating the largest eigenvalue by the power and Lanczos algorithms
    with a random start, Theorem 4.2.

    Examples
    --------
    >>> theta, bound, _ = greatest_eigenvalue(lambda v: np.array([3.0, 1.0, 0.0]) * v, 3)
    >>> round(theta, 9), bool(theta <= bound < 1.01 * theta)
    (3.0, True)
    """
    v = np.random.default_rng(0).standard_normal(order)
    first = v = v / np.linalg.norm(v)
    diagonal: list[float] = []
    beside: list[float] = []
    last, largest, closed = np.zeros(order), 0.0, False
    for _ in range(steps):
        w = product(v)
        diagonal.append(float(v @ w))
        largest = max(largest, diagonal[-1])
        w = w - diagonal[-1] * v - (beside[-1] * last if beside else 0.0)
        length = float(np.linalg.norm(w))
        closed = length <= 1e-12 * largest
        if closed:
            break
        last, v = v, w / length
        beside.append(length)
    count = len(diagonal)
    values, ritz = eigh_tridiagonal(np.array(diagonal), np.array(beside[: count - 1]), select="i",
                                    select_range=(count - 1, count - 1))
    theta = max(float(values[0]), 0.0)
    # An invariant subspace of a random vector holds an eigenvector of every eigenvalue.
    share = 1e-9 if closed else (math.log(1.648 * math.sqrt(order) / FAILURE) / (2 * count - 1)) ** 2
    bound = theta / (1.0 - share) if share < 1.0 else math.inf
    return theta, bound, partial(_combined, product, first, diagonal, beside, ritz[:, 0])


def _combined(product: Callable[[FloatArray], FloatArray], first: FloatArray, diagonal: list[float],
              beside: list[float], weights: FloatArray) -> FloatArray:
    """Return Σ weights_j q_j over the Lanczos vectors, made a second time instead of kept."""
    total, v, last = weights[0] * first, first, np.zeros(len(first))
    for j in range(1, len(weights)):
        w = product(v) - diagonal[j - 1] * v - (beside[j - 2] * last if j > 1 else 0.0)
        last, v = v, w / beside[j - 1]
        total = total + weights[j] * v
    return np.asarray(total)
