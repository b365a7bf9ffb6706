"""Nodes of branch and bound: Newton's method on the lifted weight matrix, bounds read off every step."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from margindsl.contract import Budget, RawSolution, Session, Status
from margindsl.program.branching import BranchNodeForm, PointLosses, node_dual
from margindsl.typing import FloatArray
from margindsl_solvers.engines.hull import Bend, MomentHull, SoftKinks

LARGEST_ORDER = 60  # features; the Newton system has r(r+3)/2 unknowns
STEPS = 60  # most Newton steps a node
SHRINK = 0.1  # factor of the barrier weight between stages
FIRST = 0.1  # barrier weight, share of the value over the order of the barrier: of .03 to .2 the fewest steps on heart
LEAST = 1e-150  # of squares, whose roots are divided by
BLEND = 0.1  # how far a warm start is drawn to the middle of the cone
CLOSED = 0.15  # share of the distance to the target at which a node that misses it is accurate enough


class Shape(NamedTuple):
    """Hold what all nodes of one problem share."""

    codes: int  # q, coordinates of a code
    phi: FloatArray  # (n, r)
    pairs: FloatArray  # (n, r(r+1)/2): φᵀPφ = pairs · vech P
    rows: FloatArray  # entries of Y: V first, column by column, then vech P
    columns: FloatArray
    counts: FloatArray  # 1 on the diagonal, 2 off it
    kinks: SoftKinks
    hull: MomentHull
    root: PointLosses  # of points whose labels are absorbed
    root_kinks: SoftKinks


class Iterate(NamedTuple):
    """Hold what is known at one Y: derivatives by f and z, values, a Cholesky factor."""

    bend: Bend
    shares: FloatArray | None  # (m, p), softened, of those of which margins are the least
    slopes: FloatArray  # (m, q r), derivatives of margins
    root: tuple[FloatArray, FloatArray]  # derivatives of h(√z) by z
    z: FloatArray
    value: float
    L: FloatArray


class NodeSession(Session[BranchNodeForm]):
    """Solve nodes that share features and losses; a budget's iterations are nodes, `max_iter` caps Newton steps."""

    def __init__(self, form: BranchNodeForm, max_iter: int = STEPS, tol: float | None = None) -> None:
        self.max_iter, self.tol = max_iter, tol
        phi = np.ascontiguousarray(form.columns)
        r, q = phi.shape[1], form.codes.shape[-1]
        i, j = np.triu_indices(r)
        counts = np.where(i == j, 1.0, 2.0)
        (smooth, jumps), (root, steps) = form.table.split_kinks(), form.absorbed.split_kinks()
        self.shape = Shape(q, phi, phi[:, i] * phi[:, j] * counts, np.concatenate([np.repeat(np.arange(q), r), i + q]),
                           np.concatenate([np.tile(np.arange(q, q + r), q), j + q]),
                           np.concatenate([np.full(q * r, 2.0), counts]),
                           SoftKinks.build(form.table.knots, jumps), MomentHull.build(smooth, lifted=q == 1), root,
                           SoftKinks.build(form.absorbed.knots, steps))

    def solve(self, form: BranchNodeForm, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        began = time.perf_counter()
        if self.tol is not None and np.isfinite(form.target):
            form = replace(form, accuracy=self.tol * abs(form.target))
        run = NodeRun(self.shape, form, self.max_iter)
        Y = None if start is None else start.get("Y")
        q, r = self.shape.codes, self.shape.phi.shape[1]
        usable = Y is not None and np.shape(Y) == (q + r,) * 2 and np.all(np.isfinite(Y))
        status = run.run(np.asarray(Y) if usable else None, budget)
        variables = {"u": run.u, "a": run.a, "w": run.Y[:q, q:].ravel(), "Y": run.Y, "z": run.z,
                     "eta": np.asarray(run.eta), "tau": np.asarray(run.tilt),
                     "bound": np.asarray(run.bound), "value": np.asarray(run.value)}
        return RawSolution(status, variables, f"{run.steps} Newton steps", objective=run.value, iterations=run.steps,
                           seconds={"compile": 0.0, "solve": time.perf_counter() - began})


class NodeRun:
    """Follow Newton steps of ½ tr P + ΣH + Σh(√z) − τ log det Y to τ below the accuracy.

    A lifted bias t, the last entry of w, is kept within limits by −log(ℓ² − P_tt), and by −log(t − low) − log(high − t)
    where they are unequal.
    """

    def __init__(self, shape: Shape, form: BranchNodeForm, max_iter: int = STEPS) -> None:
        self.shape, self.form, self.max_iter = shape, form, max_iter
        n, r, q = *shape.phi.shape, shape.codes
        self.n, self.r, self.q = n, r, q
        self.fixed, self.free = np.flatnonzero(~form.free), np.flatnonzero(form.free)
        codes = form.codes.reshape(n, -1, q)[self.fixed]
        self.signed = (codes[..., None] * shape.phi[self.fixed, None, None]).reshape(*codes.shape[:2], q * r)
        # of the least of several each is one more wall, in units of τ
        self.several, self.rivals = form.codes.ndim > 2, codes.any(axis=2)
        self.table, rivals = form.table.take(self.fixed), np.maximum(self.rivals.sum(axis=1), 1)
        self.steep = np.maximum(np.abs(self.table.s).max(axis=1), 1e-12)
        self.Qf, self.Qz = shape.pairs[self.fixed], shape.pairs[self.free]
        self.hull, self.root = shape.hull.take(self.fixed), shape.root.take(self.free)
        self.kinks, self.root_kinks = shape.kinks.take(self.fixed), shape.root_kinks.take(self.free)
        self.walls = 0 if not form.bias.reach > 0 else 1 if form.bias.is_symmetric else 3
        self.order = max(shape.kinks.count, shape.root_kinks.count) * 2 + r + q + self.walls + np.log(rivals).sum()
        self.eta = self.tilt = 0.0
        self.penalised = np.arange(r) < form.features.rank
        self.u, self.a, self.z = np.zeros(form.codes.shape[:-1]), np.zeros(n), np.zeros(n)
        self.bound, self.value, self.steps = float("-inf"), float("inf"), 0
        self.Y = np.eye(q + r)

    def run(self, start: FloatArray | None, budget: Budget) -> Status:
        """Run the stages; return OPTIMAL when settled or accurate."""
        # 1. Begin at the middle of the cone, drawn to a start
        form, bias = self.form, self.form.bias
        scale = float(np.median(np.einsum("nr,nr->n", self.shape.phi, self.shape.phi)))
        self.Y[self.q:, self.q:] /= max(scale, 1e-12)
        if self.walls:
            middle = 0.5 * (bias.low + bias.high)
            self.Y[0, -1] = self.Y[-1, 0] = middle
            self.Y[-1, -1] = 0.5 * (bias.reach**2 + middle**2)
        if start is not None:
            self.Y = (1.0 - BLEND) * start + BLEND * self.Y
        first, final = self._merit(self.Y, 1e-12)[1], 0.5 * form.accuracy / self.order
        value = 1.0 if first is None else abs(first.value)
        tau = max(final, FIRST * value / self.order)

        # 2. Newton steps at one barrier weight after the other
        while True:
            merit, iterate = self._merit(self.Y, tau)
            if iterate is None:
                return Status.FAILED
            while True:
                if self.steps >= self.max_iter:
                    return Status.ITERATION_LIMIT
                step, decrement = self._direction(iterate, tau)
                self.steps += 1
                if decrement < 2.0 * tau * (self.r + self.q):
                    self._read_duals(step, iterate, tau)
                    # The target is reached, or certainly missed with a bound good enough to branch on
                    miss = form.target - self.bound
                    wanted = form.accuracy if not np.isfinite(miss) else max(form.accuracy, CLOSED * miss)
                    if miss <= 0 or self.value - self.bound <= wanted:
                        return Status.OPTIMAL
                if decrement < (0.01 if tau <= final else 0.5) * tau:
                    break
                if budget.expired:
                    return Status.TIME_LIMIT
                for halvings in range(30):
                    length = 0.5**halvings
                    lower, found = self._merit(self.Y + length * step, tau)
                    if found is not None and lower <= merit - 0.1 * length * decrement:
                        break
                else:  # lost in rounding
                    break
                self.Y, merit, iterate = self.Y + length * step, lower, found
            if tau <= final:
                return Status.INACCURATE
            tau = max(SHRINK * tau, final)

    # -- values and derivatives ---------------------------------------------------------------------

    def _rooms(self, Y: FloatArray) -> FloatArray:
        """Return ℓ² − P_tt, high − t and t − low, infinite where there is no such term."""
        t, bias = float(Y[0, -1]), self.form.bias
        rooms = np.array([bias.reach**2 - float(Y[-1, -1]), bias.high - t, t - bias.low])
        return np.where(np.arange(3) < self.walls, rooms, np.inf)

    def _merit(self, Y: FloatArray, tau: float) -> tuple[float, Iterate | None]:
        """Return the barrier function and what is known at Y = LLᵀ, inf and None outside the cone."""
        try:
            L = np.linalg.cholesky(Y)
        except np.linalg.LinAlgError:
            return float("inf"), None
        rooms = self._rooms(Y)[: self.walls]
        if not np.all((rooms > 0) & np.isfinite(rooms)):
            return float("inf"), None
        P, w, phi = Y[self.q:, self.q:], Y[:self.q, self.q:].ravel(), self.shape.phi
        z = np.einsum("nr,nr->n", phi @ P, phi)
        each = self.signed @ w
        f, shares, lost, slopes = each[:, 0], None, 0.0, self.signed[:, 0]
        if self.several:  # −μ log Σ exp(−/μ), μ = τ/steepness
            least, mu = np.min(each, axis=1, where=self.rivals, initial=np.inf), tau / self.steep
            shares = np.exp(-np.where(self.rivals, each - least[:, None], np.inf) / mu[:, None])
            total = shares.sum(axis=1)
            f, shares = least - mu * np.log(total), shares / total[:, None]
            lost = float(np.sum(self.table.value(least) - self.table.value(f)))
            slopes = np.einsum("mp,mpr->mr", shares, self.signed)
        bend = self.hull.at(f, z[self.fixed])
        soft = self.kinks.at(f, tau)
        bend = Bend(bend.value, bend.by_f + soft[1], bend.by_z, bend.ff + soft[2], bend.fz, bend.zz)
        s = np.sqrt(np.maximum(z[self.free], LEAST))
        value, first, second = self.root.at(s)
        lifted = self.root_kinks.at(s, tau)
        first, second = first + lifted[1], second + lifted[2]
        root = (first / (2 * s), np.maximum(second - first / s, 0.0) / (4 * s * s))
        rest = 0.5 * float(np.diag(P) @ self.penalised) + float(bend.value.sum()) + float(value.sum())
        softened = rest + float(soft[0].sum()) + float(lifted[0].sum())
        walls = float(np.log(rooms).sum()) + 2.0 * float(np.log(np.diag(L)).sum())
        exact = rest + float(soft[3].sum()) + float(lifted[3].sum()) + lost
        return softened - tau * walls, Iterate(bend, shares, slopes, root, z, exact, L)

    def _direction(self, iterate: Iterate, tau: float) -> tuple[FloatArray, float]:
        """Return the Newton direction of Y and the decrease it predicts (twice the quadratic model's)."""
        bend, root = iterate.bend, iterate.root
        shape, r = self.shape, self.q * self.r
        inverse = np.linalg.inv(iterate.L)
        N = inverse.T @ inverse
        Qf, Qz = self.Qf, self.Qz
        i, j, m = shape.rows, shape.columns, shape.counts
        p = len(m)
        gradient = -tau * m * N[i, j]
        gradient[:r] += iterate.slopes.T @ bend.by_f
        gradient[r:] += Qf.T @ bend.by_z + Qz.T @ root[0]
        gradient[r:][shape.rows[r:] == shape.columns[r:]] += 0.5 * self.penalised
        Ni, Nj = N[i], N[j]
        H = Ni[:, i] * Nj[:, j] + Ni[:, j] * Nj[:, i]
        H *= (0.5 * tau) * m[:, None] * m[None, :]
        curved = bend.ff if iterate.shares is None else bend.ff + bend.by_f * self.steep / tau
        H[:r, :r] += (iterate.slopes.T * curved) @ iterate.slopes
        if iterate.shares is not None:
            each = self.signed.reshape(-1, r)
            H[:r, :r] -= (each.T * (iterate.shares * (bend.by_f * self.steep / tau)[:, None]).ravel()) @ each
        cross = (iterate.slopes.T * bend.fz) @ Qf
        H[:r, r:] += cross
        H[r:, :r] += cross.T
        H[r:, r:] += (Qf.T * bend.zz) @ Qf + (Qz.T * root[1]) @ Qz
        if self.walls:  # the bias is the last entry of w, its square that of vech P
            square, above, below = 1.0 / self._rooms(self.Y)
            gradient[[r - 1, p - 1]] += tau * np.array([above - below, square])
            H[[r - 1, p - 1], [r - 1, p - 1]] += tau * np.array([above**2 + below**2, square**2])
        try:
            step = -cho_solve(cho_factor(H, check_finite=False), gradient, check_finite=False)
        except LinAlgError:
            H[np.diag_indices(p)] *= 1.0 + 1e-10
            step = -np.linalg.lstsq(H, gradient, rcond=None)[0]
        D = np.zeros_like(N)
        D[i, j] = step
        D[j, i] = step
        return D, float(-gradient @ step)

    # -- duals --------------------------------------------------------------------------------------

    def _read_duals(self, step: FloatArray, iterate: Iterate, tau: float) -> None:
        """Take u and a from the linear model of the gradients along a step; keep the best bound."""
        bend, root = iterate.bend, iterate.root
        phi = self.shape.phi
        df = iterate.slopes @ step[:self.q, self.q:].ravel()
        dz = np.einsum("nr,nr->n", phi @ step[self.q:, self.q:], phi)
        u: FloatArray = np.zeros(self.n)
        a: FloatArray = np.zeros(self.n)
        u[self.fixed] = -(bend.by_f + bend.ff * df + bend.fz * dz[self.fixed])
        a[self.fixed] = -2.0 * (bend.by_z + bend.fz * df + bend.zz * dz[self.fixed])
        a[self.free] = -2.0 * (root[0] + root[1] * dz[self.free])

        # Duals at which the minima over t are finite
        table, labelled = self.form.table, ~self.form.free
        first, last = table.q[:, 0], table.q[:, -1]
        lowest = np.zeros(self.n) if self.q > 1 else -2.0 * np.minimum(first, last)
        margin = 1e-9 * np.abs(table.q).max(axis=1)
        a = np.where(a < lowest + margin, lowest, a)
        u = np.where(labelled & (last + 0.5 * a <= 0), np.maximum(u, -table.s[:, -1]), u)
        u = np.where(labelled & (first + 0.5 * a <= 0), np.minimum(u, -table.s[:, 0]), u)
        falls = (last + 0.5 * a <= 0) & (table.s[:, -1] < 0) | (first + 0.5 * a <= 0) & (table.s[:, 0] > 0)
        a = np.where(~labelled & falls, lowest + margin, a)

        # Those of the limits of a bias, of the same linear model
        square, above, below = 1.0 / self._rooms(self.Y)
        dt, dz_t = float(step[0, -1]), float(step[-1, -1])
        eta = 2.0 * tau * square * max(1.0 + square * dz_t, 1e-9)
        tilt = tau * (above * max(1.0 + above * dt, 0.0) - below * max(1.0 - below * dt, 0.0))

        # Shares of the least of several margins, which may not be negative
        if iterate.shares is not None:
            each = self.signed @ step[:self.q, self.q:].ravel()
            shares = iterate.shares * np.maximum(1.0 - (each - df[:, None]) * (self.steep / tau)[:, None], 0.0)
            parts = np.zeros(self.u.shape)
            parts[self.fixed] = np.maximum(u[self.fixed], 0.0)[:, None] * shares / shares.sum(axis=1)[:, None]
            u = parts

        # No more than the norm takes
        scaled = phi / np.where(self.penalised, 1.0, np.sqrt(eta)) if eta > 0 else phi
        top = float(np.linalg.eigvalsh((scaled.T * a) @ scaled)[-1])
        if top >= 1.0 - 1e-9:
            a = a * ((1.0 - 1e-8) / top)
        bound = node_dual(table, phi, self.form.codes, u, a, self.form.bias, eta, tilt)
        if bound > self.bound or self.steps <= 1:
            self.bound, self.u, self.a, self.eta, self.tilt = bound, u, a, eta, tilt
        self.value, self.z = min(self.value, iterate.value), iterate.z
