"""Nodes of branch and bound: Newton's method on the lifted weight matrix, bounds read off every step."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from margindsl.contract import Budget, RawSolution, Session, Status
from margindsl.program.bounded_bias import Interval
from margindsl.program.branching import BranchNodeForm, PointLosses, node_dual
from margindsl.typing import FloatArray
from margindsl_solvers.engines.hull import Bend, MomentHull, SoftKinks

LARGEST_ORDER = 60  # features; the Newton system has r(r+3)/2 unknowns
STEPS = 60  # most Newton steps a node
SHRINK = 0.1  # factor of the barrier weight between stages
COLD, WARM = 0.1, 0.03  # first barrier weights, shares of the value over the order of the barrier
LEAST = 1e-150  # of squares, whose roots are divided by
BLEND = 0.1  # how far a warm start is drawn to the middle of the cone
CLOSED = 0.15  # share of the distance to the target at which a node that misses it is accurate enough


class Shape(NamedTuple):
    """Hold what all nodes of one problem share."""

    phi: FloatArray  # (n, r)
    pairs: FloatArray  # (n, r(r+1)/2): φᵀPφ = pairs · vech P
    rows: FloatArray  # entries of Y: w first, then vech P
    columns: FloatArray
    counts: FloatArray  # 1 on the diagonal, 2 off it
    kinks: SoftKinks
    hull: MomentHull
    root: PointLosses  # of points whose labels are absorbed
    root_kinks: SoftKinks


class Iterate(NamedTuple):
    """Hold what is known at one Y: derivatives by f and z, values, a Cholesky factor."""

    bend: Bend
    root: tuple[FloatArray, FloatArray]  # derivatives of h(√z) by z
    z: FloatArray
    softened: float
    value: float
    L: FloatArray


def build_shape(form: BranchNodeForm) -> Shape:
    """Return the shared arrays of a family of nodes."""
    phi = np.ascontiguousarray(form.columns)
    r = phi.shape[1]
    i, j = np.triu_indices(r)
    counts = np.where(i == j, 1.0, 2.0)
    smooth, jumps = form.table.split_kinks()
    root, steps = form.absorbed.split_kinks()
    return Shape(phi, phi[:, i] * phi[:, j] * counts, np.concatenate([np.zeros(r, dtype=int), i + 1]),
                 np.concatenate([np.arange(1, r + 1), j + 1]), np.concatenate([np.full(r, 2.0), counts]),
                 SoftKinks.build(form.table.knots, jumps), MomentHull.build(smooth), root,
                 SoftKinks.build(form.absorbed.knots, steps))


class NodeSession(Session[BranchNodeForm]):
    """Solve nodes that share features and losses; the arrays common to all are built once.

    Parameters
    ----------
    max_iter : int
        Cap on Newton steps; that of a budget counts nodes.
    tol : float, optional
        Gap to reach, relative to the value at which a node is settled; None leaves it to the node.
    """

    def __init__(self, form: BranchNodeForm, max_iter: int = STEPS, tol: float | None = None) -> None:
        self.shape, self.max_iter, self.tol = build_shape(form), max_iter, tol

    def solve(self, form: BranchNodeForm, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        began = time.perf_counter()
        if self.tol is not None and np.isfinite(form.target):
            form = replace(form, accuracy=self.tol * abs(form.target))
        run = NodeRun(self.shape, form, self.max_iter)
        Y = None if start is None else start.get("Y")
        usable = Y is not None and np.shape(Y) == (self.shape.phi.shape[1] + 1,) * 2 and np.all(np.isfinite(Y))
        status = run.run(np.asarray(Y) if usable else None, budget)
        variables = {"u": run.u, "a": run.a, "w": run.Y[0, 1:].copy(), "Y": run.Y, "z": run.z,
                     "eta": np.asarray(run.eta), "tau": np.asarray(run.tilt),
                     "bound": np.asarray(run.bound), "value": np.asarray(run.value)}
        return RawSolution(status, variables, f"{run.steps} Newton steps", objective=run.value, iterations=run.steps,
                           seconds={"compile": 0.0, "solve": time.perf_counter() - began})


@dataclass(frozen=True)
class BiasBarrier:
    """Keep a lifted bias within limits: −log(ℓ² − P_tt), and −log(t − low) − log(high − t) where they are unequal.

    Parameters
    ----------
    bias : Interval
        There is no barrier where it is zero.
    """

    bias: Interval

    @property
    def count(self) -> int:
        """Return the number of terms."""
        return 0 if not self.bias.reach > 0 else 1 if self.bias.is_symmetric else 3

    @property
    def middle(self) -> float:
        """Return a bias inside."""
        return 0.5 * (self.bias.low + self.bias.high)

    def rooms(self, Y: FloatArray) -> FloatArray:
        """Return ℓ² − P_tt, high − t and t − low, infinite where there is no such term."""
        t, square = float(Y[0, -1]), self.bias.reach**2 - float(Y[-1, -1])
        rooms = np.array([square, self.bias.high - t, t - self.bias.low])
        return np.where(np.arange(3) < self.count, rooms, np.inf)

    def value(self, Y: FloatArray) -> float:
        """Return the barrier, inf outside."""
        rooms = self.rooms(Y)[: self.count]
        return float("inf") if np.any(rooms <= 0) else -float(np.log(rooms).sum())

    def derivatives(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return first and second derivatives by t and P_tt."""
        square, above, below = 1.0 / self.rooms(Y)
        return np.array([above - below, square]), np.array([above**2 + below**2, square**2])

    def multipliers(self, Y: FloatArray, step: FloatArray, tau: float) -> tuple[float, float]:
        """Return η and τ of the linear model of the gradients along a step, zero without a bias."""
        square, above, below = 1.0 / self.rooms(Y)
        dt, dz = float(step[0, -1]), float(step[-1, -1])
        eta = 2.0 * tau * square * max(1.0 + square * dz, 1e-9)
        return eta, tau * (above * max(1.0 + above * dt, 0.0) - below * max(1.0 - below * dt, 0.0))


@dataclass
class NodeRun:
    """Follow Newton steps of ½ tr P + ΣH + Σh(√z) − τ log det Y to τ below the accuracy."""

    shape: Shape
    form: BranchNodeForm
    max_iter: int = STEPS

    def __post_init__(self) -> None:
        labels = self.form.labels
        n, r = self.shape.phi.shape
        self.n, self.r = n, r
        self.fixed, self.free = np.flatnonzero(labels != 0), np.flatnonzero(labels == 0)
        self.y = labels[self.fixed].astype(float)
        self.signed = self.shape.phi[self.fixed] * self.y[:, None]
        self.Qf, self.Qz = self.shape.pairs[self.fixed], self.shape.pairs[self.free]
        self.hull = self.shape.hull.take(self.fixed)
        self.root = self.shape.root.take(self.free)
        self.kinks, self.root_kinks = self.shape.kinks.take(self.fixed), self.shape.root_kinks.take(self.free)
        self.limit = BiasBarrier(self.form.bias)
        self.order = max(self.shape.kinks.count, self.shape.root_kinks.count) * 2 + r + 1 + self.limit.count
        self.eta = self.tilt = 0.0
        self.penalised = np.arange(r) < self.form.features.rank
        self.u, self.a, self.z = np.zeros(n), np.zeros(n), np.zeros(n)
        self.bound, self.value, self.steps = float("-inf"), float("inf"), 0
        self.Y = np.eye(r + 1)

    def run(self, start: FloatArray | None, budget: Budget) -> Status:
        """Run the stages; return OPTIMAL when settled or accurate."""
        final = 0.5 * self.form.accuracy / self.order
        scale = float(np.median(np.einsum("nr,nr->n", self.shape.phi, self.shape.phi)))
        self.Y[1:, 1:] /= max(scale, 1e-12)
        if self.limit.count:
            self.Y[0, -1] = self.Y[-1, 0] = self.limit.middle
            self.Y[-1, -1] = 0.5 * (self.limit.bias.reach**2 + self.limit.middle**2)
        if start is not None:
            self.Y = (1.0 - BLEND) * start + BLEND * self.Y
        tau = max(final, (COLD if start is None else WARM) * abs(self._start_value()) / self.order)
        while True:
            status = self._stage(tau, budget, tau <= final)
            if status is not None:
                return status
            if tau <= final:
                return Status.INACCURATE
            tau = max(SHRINK * tau, final)

    def _start_value(self) -> float:
        iterate = self._merit(self.Y, 1e-12)[1]
        return 1.0 if iterate is None else iterate.value

    def _stage(self, tau: float, budget: Budget, last: bool) -> Status | None:
        """Take Newton steps at one barrier weight; return a status when the node is done."""
        merit, iterate = self._merit(self.Y, tau)
        if iterate is None:
            return Status.FAILED
        while self.steps < self.max_iter:
            step, decrement = self._direction(iterate, tau)
            self.steps += 1
            if decrement < 2.0 * tau * (self.r + 1):
                self._read_duals(step, iterate, tau)
                if self._is_closed():
                    return Status.OPTIMAL
            if decrement < (0.01 if last else 0.5) * tau:
                return None
            if budget.expired:
                return Status.TIME_LIMIT
            found = self._search(merit, step, decrement, tau)
            if found is None:
                return None
            self.Y, merit, iterate = found
        return Status.ITERATION_LIMIT

    def _search(self, merit: float, step: FloatArray, decrement: float,
                tau: float) -> tuple[FloatArray, float, Iterate] | None:
        """Return the first point of a halving line search with enough decrease."""
        length = 1.0
        for _ in range(30):
            trial = self.Y + length * step
            new, iterate = self._merit(trial, tau)
            if iterate is not None and new <= merit - 0.1 * length * decrement:
                return trial, new, iterate
            length *= 0.5
        return None

    def _is_closed(self) -> bool:
        """Return whether the target is reached, or certainly missed with a bound good enough to branch on."""
        miss = self.form.target - self.bound
        wanted = self.form.accuracy if not np.isfinite(miss) else max(self.form.accuracy, CLOSED * miss)
        return miss <= 0 or self.value - self.bound <= wanted

    # -- values and derivatives ---------------------------------------------------------------------

    def _evaluate(self, Y: FloatArray, L: FloatArray, tau: float) -> Iterate:
        """Return the values and derivatives at Y = LLᵀ."""
        P, w, phi = Y[1:, 1:], Y[0, 1:], self.shape.phi
        z = np.einsum("nr,nr->n", phi @ P, phi)
        f = self.signed @ w
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
        return Iterate(bend, root, z, softened, rest + float(soft[3].sum()) + float(lifted[3].sum()), L)

    def _merit(self, Y: FloatArray, tau: float) -> tuple[float, Iterate | None]:
        """Return the barrier function and the place, inf and None outside the cone."""
        try:
            L = np.linalg.cholesky(Y)
        except np.linalg.LinAlgError:
            return float("inf"), None
        walls = self.limit.value(Y)
        if not np.isfinite(walls):
            return float("inf"), None
        iterate = self._evaluate(Y, L, tau)
        return iterate.softened + tau * walls - 2.0 * tau * float(np.log(np.diag(L)).sum()), iterate

    def _direction(self, iterate: Iterate, tau: float) -> tuple[FloatArray, float]:
        """Return the Newton direction of Y and the decrease it predicts (twice the quadratic model's)."""
        bend, root = iterate.bend, iterate.root
        shape, r = self.shape, self.r
        inverse = np.linalg.inv(iterate.L)
        N = inverse.T @ inverse
        Qf, Qz = self.Qf, self.Qz
        i, j, m = shape.rows, shape.columns, shape.counts
        p = len(m)
        gradient = -tau * m * N[i, j]
        gradient[:r] += self.signed.T @ bend.by_f
        gradient[r:] += Qf.T @ bend.by_z + Qz.T @ root[0]
        gradient[r:][shape.rows[r:] == shape.columns[r:]] += 0.5 * self.penalised
        Ni, Nj = N[i], N[j]
        H = Ni[:, i] * Nj[:, j] + Ni[:, j] * Nj[:, i]
        H *= (0.5 * tau) * m[:, None] * m[None, :]
        H[:r, :r] += (self.signed.T * bend.ff) @ self.signed
        cross = (self.signed.T * bend.fz) @ Qf
        H[:r, r:] += cross
        H[r:, :r] += cross.T
        H[r:, r:] += (Qf.T * bend.zz) @ Qf + (Qz.T * root[1]) @ Qz
        if self.limit.count:  # the bias is the last entry of w, its square that of vech P
            first, second = self.limit.derivatives(self.Y)
            gradient[[r - 1, p - 1]] += tau * first
            H[[r - 1, p - 1], [r - 1, p - 1]] += tau * second
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
        df = self.signed @ step[0, 1:]
        dz = np.einsum("nr,nr->n", phi @ step[1:, 1:], phi)
        u, a = np.zeros(self.n), np.zeros(self.n)
        u[self.fixed] = -(bend.by_f + bend.ff * df + bend.fz * dz[self.fixed])
        a[self.fixed] = -2.0 * (bend.by_z + bend.fz * df + bend.zz * dz[self.fixed])
        a[self.free] = -2.0 * (root[0] + root[1] * dz[self.free])
        u, a = self._into_domain(u, a)
        eta, tilt = self.limit.multipliers(self.Y, step, tau)
        scaled = phi / np.where(self.penalised, 1.0, np.sqrt(eta)) if eta > 0 else phi
        top = float(np.linalg.eigvalsh((scaled.T * a) @ scaled)[-1])
        if top >= 1.0 - 1e-9:
            a = a * ((1.0 - 1e-8) / top)
        bound = node_dual(self.form.table, phi, self.form.labels, u, a, self.form.bias, eta, tilt)
        if bound > self.bound or self.steps <= 1:
            self.bound, self.u, self.a, self.eta, self.tilt = bound, u, a, eta, tilt
        self.value, self.z = min(self.value, iterate.value), iterate.z

    def _into_domain(self, u: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return duals at which the minima over t are finite."""
        table = self.form.table
        first, last = table.q[:, 0], table.q[:, -1]
        lowest = -2.0 * np.minimum(first, last)
        margin = 1e-9 * np.abs(table.q).max(axis=1)
        a = np.where(a < lowest + margin, lowest, a)
        labelled = self.form.labels != 0
        u = np.where(labelled & (last + 0.5 * a <= 0), np.maximum(u, -table.s[:, -1]), u)
        u = np.where(labelled & (first + 0.5 * a <= 0), np.minimum(u, -table.s[:, 0]), u)
        falls = (last + 0.5 * a <= 0) & (table.s[:, -1] < 0) | (first + 0.5 * a <= 0) & (table.s[:, 0] > 0)
        a = np.where(~labelled & falls, lowest + margin, a)
        return u, a
