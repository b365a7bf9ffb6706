"""Rows of a form with fixed labels, one a loss, and their Newton steps; those of one pass where points are streamed."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dposv
from scipy.sparse.linalg import LinearOperator, cg

from margindsl.calculus.accuracy import EPS
from margindsl.contract import Budget, RawSolution, Status
from margindsl.host.clock import check
from margindsl.program.labelled import FixedLabelForm
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import WORDS
from margindsl_solvers.engines.rows.model import Pair, Rows, into_domain

MOST = 40  # passes; what is left is for the engine that follows
TINY = float(np.finfo(float).tiny)
ARMIJO, SHORTER = 1e-4, 0.25
PRODUCTS = 2e8  # of a dense Woodbury system of features that are not dense; above, products with them are cheaper


def approach(form: FixedLabelForm, budget: Budget, start: RawSolution | None) -> RawSolution:
    """Take Newton steps on a form that `is_summed`; value, slope and curvature are summed where points are.

    Products with the features one after the other take three or four passes a step; this takes one, and neither
    margins nor slopes of the points leave the blocks. Without a free bias the slopes c ρ' are a dual point, whose gap
    is half of the squared gradient: once it is small enough the form is solved.
    """
    free = form.free_bias
    w, bias = (np.ravel(np.asarray(start.get(name, ()) if start else (), dtype=float)) for name in ("w", "bias"))
    x = form.packed(w if w.shape == (form.size_of_w,) else np.zeros(form.size_of_w),
                    bias if bias.shape == (form.width,) else 0.0)
    began, t = time.monotonic(), 1.0
    found, step, passes, fall = form.summed(x, True), None, 1, 0.0
    while True:
        error = 0.5 * float(found[1] @ found[1]) / max(abs(found[0]), form.negligible, TINY)
        if error <= budget.tol or passes == MOST or budget.expired:
            break
        if step is None:
            step, t = -solve_positive(found[2], found[1]), 1.0
            fall = -float(found[1] @ step)
            if not np.isfinite(fall):  # nothing bends where a bias runs away from every loss
                break
        there, passes = form.summed(x + t * step, True), passes + 1
        if there[0] <= found[0] - ARMIJO * t * fall:
            x, found, step = x + t * step, there, None
        elif not (t := t * SHORTER) > EPS:  # what is left is rounding
            break
    table, status = x.reshape(form.width, -1), Status.INTERRUPTED if budget.interrupted else Status.TIME_LIMIT
    if error <= budget.tol or not budget.expired:
        status = Status.OPTIMAL if error <= budget.tol and not free else Status.INACCURATE
    return RawSolution(status, {
        "w": table[:, :form.features.rank].ravel(), "bias": table[:, -1] if free else np.zeros(form.width),
        "scalars": np.zeros(0), "tau": np.zeros(0)}, WORDS[status].format(error=error, count=passes, counted="passes"),
        found[0], passes, {"solve": time.monotonic() - began})


class PlaneRows(Rows):
    """Write a fixed-label form as rows, one a loss."""

    def __init__(self, form: FixedLabelForm) -> None:
        super().__init__(form, ((form.losses, None),))

    def margins(self, w: FloatArray, bias: FloatArray) -> list[FloatArray]:
        margins = self.form.rows.apply(w)
        return [margins + self.form.own @ bias if self.bias else margins]

    def pulled(self, tables: list[FloatArray]) -> FloatArray:
        weights = np.asarray(self.form.rows.adjoint(tables[0]))
        return np.append(weights, tables[0] @ self.form.own) if self.bias else weights

    # -- starts and answers -------------------------------------------------------------------------

    def start(self, start: RawSolution | None) -> tuple[FloatArray, FloatArray, bool]:
        """Return (x, normalised multipliers, whether the start was usable) from a solution or zeros."""
        x, multipliers, used = np.zeros(self.rank + self.border), np.zeros(len(self.weights)), False
        end = self.rank + self.bias
        for name, target, part, sign in (
                ("w", x, slice(0, self.rank), 1.0), ("bias", x, slice(self.rank, end), 1.0),
                ("scalars", x, slice(end, None), 1.0), ("u", multipliers, self.loss_rows, -1.0),
                ("tau", multipliers, self.decision_rows, 1.0)):
            value = np.ravel(np.asarray(start.get(name, ()) if start else (), dtype=float))
            if len(value) and value.shape == target[part].shape and np.all(np.isfinite(value)):
                target[part], used = sign * value, True
        return x, self.clip(self.normalised(multipliers)), used

    def variables(self, pair: Pair) -> dict[str, FloatArray]:
        multipliers, (w, b, s) = self.weights * pair.slopes, self.form.split(pair.x)
        return {"w": w.copy(), "bias": np.asarray(b), "scalars": s.copy(),
                "u": into_domain(self.form.losses, -multipliers[self.loss_rows]),
                "tau": multipliers[self.decision_rows]}

    # -- Newton -------------------------------------------------------------------------------------

    def newton_step(self, v: FloatArray, centre: FloatArray, kappa: float, gradient: FloatArray, reach: FloatArray,
                    limit: int) -> FloatArray:
        """Return −(blkdiag(I, damping) + AᵀDA)⁻¹ gradient, D the curvatures of the rows; `reach` as for `damping`."""
        form, losses, r, k = self.form, self.form.losses, self.rank, self.bias
        D = self.curvatures(v, centre, kappa)
        own, tau, (G, B) = D[self.loss_rows], D[self.decision_rows], form.bound_rows

        # 1. Of every point Σ a² D; the columns that couple w with bias and scalars, and the block of these
        points = own if losses.is_identity else losses.scatter(own * losses.slopes)
        side, corner = np.zeros((r, self.border)), np.zeros((self.border, self.border))
        if self.border:
            crossed = np.column_stack([points[:, None] * form.own[:, :k],
                                       *(losses.scatter(own * b) for b in losses.coupling.T)])
            side += form.rows.adjoint(crossed)
            corner[:k] = form.own[:, :k].T @ crossed
            corner[k:, :k] = corner[:k, k:].T
            corner[k:, k:] += losses.coupling.T @ (losses.coupling * own[:, None])
            side[:, :k] += (G.T * tau) @ B[:, :k]
            corner[:k, :k] += (B[:, :k].T * tau) @ B[:, :k]
            corner[k + self.signed, k + self.signed] += D[self.sign_rows]
            corner += np.diag(self.damping(np.diag(corner), gradient[r:], reach))

        # 2. Few weights: one dense system
        active = np.flatnonzero(points)
        small = len(active) + len(tau)
        if r <= 64 or r <= min(small, limit):
            H = np.empty((len(gradient), len(gradient)))
            H[:r, :r], H[:r, r:], H[r:, :r], H[r:, r:] = form.rows.gram(points), side, side.T, corner
            if len(tau):
                H[:r, :r] += (G.T * tau) @ G
            H.flat[: r * len(H) : len(H) + 1] += 1.0
            return -solve_positive(H, gradient)

        # 3. Many: w is eliminated, by Woodbury's identity or where that is dear by conjugate gradients
        def woodbury(X: FloatArray) -> FloatArray:
            R = form.rows.rows(active) * np.sqrt(points[active])[:, None]
            R = np.vstack([R, G * np.sqrt(tau)[:, None]]) if len(tau) else R
            inner = R @ R.T
            inner.flat[:: len(inner) + 1] += 1.0
            return np.asarray(X - R.T @ solve_positive(inner, R @ X))

        def product(x: FloatArray) -> FloatArray:
            x = x.ravel()
            return np.asarray(x + form.rows.adjoint(points * form.rows.apply(x)) + G.T @ (tau * (G @ x)))

        def iterative(X: FloatArray) -> FloatArray:
            operator = LinearOperator((r, r), matvec=product, dtype=float)
            solved = [cg(operator, column, rtol=1e-10, maxiter=1000) for column in X.T]
            if small <= limit and any(unfinished for _, unfinished in solved):
                return woodbury(X)
            return np.stack([column for column, _ in solved], axis=1)

        dear = small > limit or (not form.features.is_dense and small**2 * r > PRODUCTS)
        return bordered(iterative if dear else woodbury, gradient, side, corner, r)


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
    lift, sizes = 0.0, np.maximum(np.abs(np.diag(H)), TINY)
    for _ in range(12):
        _, solved, failed = dposv(H + np.diag(lift * sizes) if lift else H, right, lower=lower)
        if not failed:
            return np.asarray(solved).reshape(right.shape)
        lift = max(1e-14, 30.0 * lift)
    return (right.T / sizes).T
