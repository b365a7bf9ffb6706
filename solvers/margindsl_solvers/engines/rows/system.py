"""Newton systems of a fixed-label form: dense, by Woodbury's identity, or by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dposv
from scipy.sparse.linalg import LinearOperator, cg

from margindsl.host.clock import check
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.rows.model import Rows

TINY = float(np.finfo(float).tiny)
_PRODUCTS = 2e8  # of a dense Woodbury system of features that are not dense; above, products with them are cheaper


@dataclass(frozen=True, eq=False)
class Curvature:
    """Represent AᵀDA of the rows, gathered by points.

    Parameters
    ----------
    rows : (M,) float array
        The curvature of every row.
    limit : int
        Largest dense system; larger ones are solved by conjugate gradients.
    """

    model: Rows
    rows: FloatArray
    limit: int = 4000

    def points(self) -> FloatArray:
        """Return the (n,) curvatures Σ_{r at i} a_r² D_r."""
        losses, values = self.model.form.losses, self.rows[self.model.loss_rows]
        return values if losses.is_identity else losses.scatter(values * losses.slopes)

    def crossed(self, points: FloatArray) -> FloatArray:
        """Return the (n, p) columns whose adjoint couples w with the bias and the scalars."""
        form, values = self.model.form, self.rows[self.model.loss_rows]
        scalars = [form.losses.scatter(values * b) for b in form.losses.coupling.T]
        return np.column_stack([points[:, None] * form.own[:, : self.model.bias], *scalars])

    def corner(self, points: FloatArray, crossed: FloatArray) -> FloatArray:
        """Return the (p, p) block of the bias and the scalars."""
        model, losses, k = self.model, self.model.form.losses, self.model.bias
        out = np.zeros((model.border, model.border))
        out[:k] = model.form.own[:, :k].T @ crossed
        out[k:, :k] = out[:k, k:].T
        H = model.form.bound_rows[1][:, :k]
        out[:k, :k] += (H.T * self.tau) @ H
        out[k:, k:] += losses.coupling.T @ (losses.coupling * self.rows[model.loss_rows][:, None])
        index = k + model.signed
        out[index, index] += self.rows[model.sign_rows]
        return out

    @property
    def tau(self) -> FloatArray:
        """Return the curvatures of the decision rows."""
        return self.rows[self.model.decision_rows]

    def step(self, gradient: FloatArray, reach: FloatArray) -> FloatArray:
        """Return the Newton step −(blkdiag(I, damping) + AᵀDA)⁻¹ gradient; `reach` are sizes of bias and scalars."""
        model, r = self.model, self.model.rank
        points = self.points()
        crossed = self.crossed(points)
        corner = self.corner(points, crossed)
        corner += np.diag(model.damping(np.diag(corner), gradient[r:], reach))
        side = model.form.rows.adjoint(crossed) if model.border else np.zeros((r, 0))
        if model.bias and model.form.decision:
            G, H = model.form.bound_rows
            side[:, : model.bias] += (G.T * self.tau) @ H
        active = np.flatnonzero(points)
        small = len(active) + len(self.tau)
        if r <= min(small, self.limit) or r <= 64:
            return self._direct(gradient, side, corner, points)
        return bordered(self._inverse(points, active), gradient, side, corner, r)

    def _direct(self, gradient: FloatArray, side: FloatArray, corner: FloatArray, points: FloatArray) -> FloatArray:
        r, size = self.model.rank, len(gradient)
        H = np.empty((size, size))
        H[:r, :r] = self._gram(points)
        H[:r, r:], H[r:, :r], H[r:, r:] = side, side.T, corner
        return -solve_positive(H, gradient)

    def _gram(self, points: FloatArray) -> FloatArray:
        out = self.model.form.rows.gram(points)
        if len(self.tau):
            G = self.model.form.bound_rows[0]
            out += (G.T * self.tau) @ G
        out.flat[:: len(out) + 1] += 1.0
        return out

    def _inverse(self, points: FloatArray, active: IntArray) -> Callable[[FloatArray], FloatArray]:
        """Return X ↦ (I + ΦᵀDΦ + GᵀτG)⁻¹X of more features than rows or than the limit."""
        small = len(active) + len(self.tau)
        dense = self.model.form.features.is_dense
        if small > self.limit or (not dense and small**2 * self.model.rank > _PRODUCTS):
            direct = small <= self.limit
            return self._iterative(points, (lambda: self._woodbury(points, active)) if direct else None)
        return self._woodbury(points, active)

    def _woodbury(self, points: FloatArray, active: IntArray) -> Callable[[FloatArray], FloatArray]:
        R = self.model.form.rows.rows(active) * np.sqrt(points[active])[:, None]
        if len(self.tau):
            R = np.vstack([R, self.model.form.bound_rows[0] * np.sqrt(self.tau)[:, None]])
        inner = R @ R.T
        inner.flat[:: len(inner) + 1] += 1.0
        return lambda X: X - R.T @ solve_positive(inner, R @ X)  # once a step

    def _iterative(self, points: FloatArray, otherwise: Callable[[], Callable[[FloatArray], FloatArray]] | None = None
                   ) -> Callable[[FloatArray], FloatArray]:
        """Return the inverse by conjugate gradients, or the other one where they do not converge."""
        rows, r, G = self.model.form.rows, self.model.rank, self.model.form.bound_rows[0]

        def product(x: FloatArray) -> FloatArray:
            x = x.ravel()
            return x + rows.adjoint(points * rows.apply(x)) + G.T @ (self.tau * (G @ x))

        operator = LinearOperator((r, r), matvec=product, dtype=float)

        def inverse(X: FloatArray) -> FloatArray:
            solved = [cg(operator, column, rtol=1e-10, maxiter=1000) for column in X.T]
            if otherwise is not None and any(unfinished for _, unfinished in solved):
                return otherwise()(X)
            return np.stack([column for column, _ in solved], axis=1)

        return inverse


def bordered(inverse: Callable[[FloatArray], FloatArray], gradient: FloatArray, side: FloatArray,
             corner: FloatArray, r: int) -> FloatArray:
    """Return the step by eliminating w: the Schur complement of the bias and the scalars."""
    solved = inverse(np.column_stack([gradient[:r], side]))
    if not len(corner):
        return -solved[:, 0]
    schur = corner - side.T @ solved[:, 1:]
    border = solve_positive(0.5 * (schur + schur.T), gradient[r:] - side.T @ solved[:, 0])
    return -np.concatenate([solved[:, 0] - solved[:, 1:] @ border, border])


def solve_positive(H: FloatArray, right: FloatArray, lower: bool = False) -> FloatArray:
    """Solve H x = right by one triangle of H, lifting the diagonal until Cholesky succeeds."""
    if not right.size:  # which scipy before 1.14 does not factor
        return right
    check(len(H) ** 3 / 3)
    lift = 0.0
    for _ in range(12):
        _, solved, failed = dposv(lifted(H, lift) if lift else H, right, lower=lower)
        if not failed:
            return np.asarray(solved).reshape(right.shape)
        lift = max(1e-14, 30.0 * lift)
    return (right.T / np.maximum(np.abs(np.diag(H)), TINY)).T


def lifted(H: FloatArray, lift: float) -> FloatArray:
    """Return H with a part of its diagonal added to it."""
    return H + np.diag(lift * np.maximum(np.abs(np.diag(H)), TINY))
