"""Label lifting by low-rank factors: vector labels V (unit rows) and weights W, multipliers for the bounds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from margindsl.contract import Budget, RawSolution, Status
from margindsl.program.cuts import MatrixCuts, TriangleCuts
from margindsl.program.forms import LabelLiftForm
from margindsl.program.label_certificate import LabelLiftCertificate, escape_direction, repair_dual_point
from margindsl.program.losses import Losses
from margindsl.program.moment import MomentLiftForm
from margindsl.program.moment_certificate import MomentLiftCertificate, escape_moment, repair_moment_lift
from margindsl.typing import BoolArray, FloatArray, IntArray
from margindsl_solvers.engines.factors.descent import Descent, descend
from margindsl_solvers.engines.factors.smoothing import Smoothed

FIRST_STEP = 0.1  # Moreau step of kinked losses, in units of the margin
PATIENCE = 12  # rounds without a better bound after which the engine gives up
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class VectorLabels:
    """Represent min ½‖W‖² + qᵀs + Σ cρ(a t_i⟨Wᵀφ_i, v_C(i)⟩ + bs + d) over W (R × p), unit rows v_C and s.

    One flat vector holds W, rows x_C with v_C = x_C/‖x_C‖, and s. Lifted bounds enter as ‖Vᵀω̂_j‖² ≤ β̂_j²
    and decision bounds as ‖Wᵀσ̂_l‖² ≤ ℓ̂_l², vectors normed; cuts on the label matrix as −⟨T_k, VVᵀ⟩ − 1 ≤ 0 (= 0).

    Parameters
    ----------
    form : LabelLiftForm
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
        return self.form.cuts if isinstance(self.form, MomentLiftForm) else TriangleCuts.none()

    @cached_property
    def free(self) -> BoolArray:
        """Return which multipliers may be negative, those of equalities, shape (J + L + K,)."""
        bounds = np.zeros(len(self.form.balance) + len(self.form.decision), dtype=bool)
        return np.append(bounds, self.cuts.equal)

    @cached_property
    def _cut_entries(self) -> tuple[csr_array, IntArray]:
        """Return the pattern of Σ τT and, for every entry of every cut, its place in the pattern's data."""
        rows, columns = self.cuts.pairs()
        i, j = np.append(rows.ravel(), columns.ravel()), np.append(columns.ravel(), rows.ravel())
        entries, place = np.unique(i.astype(np.int64) * self.form.count + j, return_inverse=True)
        where = np.divmod(entries, self.form.count)
        return csr_array((np.ones(len(entries)), where), shape=(self.form.count, self.form.count)), place

    def cut_matrix(self, tau: FloatArray) -> csr_array:
        """Return Σ τT as a sparse (N, N) matrix; the next call overwrites it."""
        pattern, place = self._cut_entries
        values = np.tile((0.5 * tau[:, None] * self.cuts.products()).ravel(), 2)
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


def certify(form: LabelLiftForm, u: FloatArray, d: FloatArray, kappa: FloatArray, eta: FloatArray,
            tau: FloatArray) -> LabelLiftCertificate | MomentLiftCertificate:
    """Return the certificate of a dual point, repaired by shifting and scaling."""
    if isinstance(form, MomentLiftForm):
        return repair_moment_lift(form, u, None, d, kappa, eta, tau)
    return repair_dual_point(form, u, d, kappa, eta)


def escape(form: LabelLiftForm, u: FloatArray, d: FloatArray, kappa: FloatArray, eta: FloatArray,
           tau: FloatArray) -> FloatArray | None:
    """Return a direction (N,) of one more column along which the objective falls, or None."""
    if isinstance(form, MomentLiftForm):
        return escape_moment(form, u, d, kappa, eta, tau)
    return escape_direction(form, u, d, kappa, eta)


@dataclass(eq=False)
class _State:
    """Hold one run: the point, the multipliers, the best dual point and the course."""

    problem: VectorLabels
    x: FloatArray
    smooth: Smoothed
    multipliers: FloatArray
    penalty: FloatArray
    ceiling: FloatArray
    violation: float = np.inf
    bound: float = -np.inf
    dual: tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray] | None = None
    answer: dict[str, FloatArray] = field(default_factory=dict)
    trace: list[tuple[float, float, float]] = field(default_factory=list)
    evaluations: int = 0


@dataclass(frozen=True, eq=False)
class LabelLift:
    """Solve label-lift forms by quasi-Newton descent over (W, V, s) and multipliers of the bounds.

    Parameters
    ----------
    width : int
        First number of columns.
    max_iter : int
        Most evaluations in all.
    seed : int
    """

    width: int
    max_iter: int
    seed: int

    def run(self, form: LabelLiftForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Return u, d, κ, η, V, W, s with status and trace of (seconds, primal, certified bound)."""
        began = time.perf_counter()
        state = self._start(form, start)
        accuracy, status = 1e-2, Status.ITERATION_LIMIT
        while state.evaluations < self.max_iter:
            done = self._descend(state, budget, accuracy * budget.tol)
            excess, unpaid = self._judge(state, began)
            stop = budget.report("burer-monteiro", state.evaluations, state.trace[-1][1], state.bound)
            ended = self._ended(state, budget, stop, done.status, unpaid)
            if ended is not None:
                status = ended
                break
            accuracy = max(0.2 * accuracy, 1e-9 / budget.tol)
            owed = unpaid > 0.1 * budget.tol * abs(state.trace[-1][1])
            self._advance(state, excess, owed)
        return RawSolution(status, state.answer, objective=state.trace[-1][1], iterations=state.evaluations,
                           trace=tuple(state.trace), seconds={"compile": 0.0, "solve": time.perf_counter() - began})

    # -- rounds -------------------------------------------------------------------------------------

    def _start(self, form: LabelLiftForm, start: RawSolution | None) -> _State:
        problem, W, V, s = self._first_point(form, start)
        losses = form.losses
        # rows of length √c make the curvature of all variables alike
        weights = np.bincount(form.component[losses.points], weights=losses.weights, minlength=form.count)
        lengths = np.sqrt(np.maximum(weights, 1e-3 * float(weights.mean()) + TINY))
        x = np.concatenate([W.ravel(), (lengths[:, None] * V).ravel(), s])
        at_zero = losses.arguments(np.zeros(form.n), s)
        scale = float(np.abs(losses.row_losses(at_zero)).sum() + np.abs(losses.derivative(at_zero)).sum()
                      + np.abs(losses.scalars.costs).sum() + 1e-2 * losses.weights.sum()) + TINY
        multipliers = self._first_multipliers(problem, start)
        penalty = np.full(len(multipliers), 2.0 * scale / max(form.count, 1))
        J, L = len(form.balance), len(form.decision)
        penalty[J:J + L] = scale / np.maximum(problem.decision_bounds[1], 1e-6)
        return _State(problem, x, Smoothed.build(losses, FIRST_STEP), multipliers, penalty, 1e4 * penalty)

    def _first_point(self, form: LabelLiftForm, start: RawSolution | None
                     ) -> tuple[VectorLabels, FloatArray, FloatArray, FloatArray]:
        W, V = (None, None) if start is None else (start.get("W"), start.get("V"))
        order, s = form.features.rank + int(form.free_bias), np.zeros(form.losses.scalars.count)
        if W is not None and V is not None and np.shape(W) == (order, np.shape(V)[-1]) and len(V) == form.count:
            given = None if start is None else start.get("scalars")
            s = s if given is None or np.shape(given) != s.shape else np.array(given, dtype=float)
            return VectorLabels(form, np.shape(V)[1]), np.array(W, dtype=float), np.array(V, dtype=float), s
        width = min(self.width, form.count + order)
        problem = VectorLabels(form, width)
        rng = np.random.default_rng(self.seed)
        W = rng.standard_normal((order, width))
        F = problem.outputs(W)
        W /= max(float(np.median(np.linalg.norm(F, axis=1))), TINY)
        V = problem.gather(F)
        V += 0.1 * float(np.abs(V).mean() + TINY) * rng.standard_normal(V.shape)
        return problem, W, V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), TINY), s

    def _first_multipliers(self, problem: VectorLabels, start: RawSolution | None) -> FloatArray:
        squares = np.append(problem.label_bounds[2], problem.decision_bounds[2])
        tau = np.zeros(problem.cuts.count)
        if start is None or start.get("kappa") is None or start.get("eta") is None:
            return np.append(np.zeros(len(squares)), tau)
        given, given_tau = np.append(start["kappa"], start["eta"]), start.get("tau")
        tau = given_tau if given_tau is not None and np.shape(given_tau) == tau.shape else tau
        return np.append(given * squares if given.shape == squares.shape else np.zeros(len(squares)), tau)

    def _descend(self, state: _State, budget: Budget, tol: float) -> Descent:
        problem, losses = state.problem, state.smooth.losses
        lower = np.full(len(state.x), -np.inf)
        count = losses.scalars.count
        if count:
            lower[-count:] = np.where(losses.scalars.nonneg, 0.0, -np.inf)
        done = descend(lambda x: problem.oracle(x, losses, state.multipliers, state.penalty), state.x, budget,
                       1e-2 * tol, self.max_iter - state.evaluations, lower=lower if count else None)
        state.x, state.evaluations = done.point, state.evaluations + done.evaluations
        return done

    def _judge(self, state: _State, began: float) -> tuple[FloatArray, float]:
        """Book value and certified bound of the point; return the excess over the bounds and what it is worth."""
        problem, form, losses = state.problem, state.problem.form, state.smooth.losses
        W, X, s = problem.split(state.x)
        V = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), TINY)
        excess = problem.excess(W, V)
        active = problem.active(state.multipliers, state.penalty, excess)
        margins = problem.margins(W, V)
        u = -losses.derivative(losses.arguments(margins, s))
        J, L = len(form.balance), len(form.decision)
        kappa, eta = active[:J] / problem.label_bounds[2], active[J:J + L] / problem.decision_bounds[2]
        tau = active[J + L:]
        H = problem.gather(form.losses.spread(u)[:, None] * problem.outputs(W))
        omega = problem.label_bounds[0]
        pull = H - omega @ (active[:J, None] * (omega.T @ V))
        if len(tau):
            pull = pull + problem.cut_matrix(tau) @ V
        d = np.einsum("cp,cp->c", V, pull)
        state.dual = (u, d, kappa, eta, tau)
        certificate = certify(form, *state.dual)
        # what lies outside a bound is charged at its price
        value = problem.objective(W, V, s) + 0.5 * float(np.abs(active) @ problem.violation(excess))
        short = np.abs(problem.shortfall(excess, state.multipliers, state.penalty))
        unpaid = float(np.maximum(np.abs(active), np.abs(state.multipliers)) @ short)
        begun = bool(state.answer)
        state.answer |= {"V": V, "W": W.copy(), "scalars": s.copy()}  # the point that value and violation are judged at
        if not begun or certificate.bound > state.bound:
            state.bound = certificate.bound
            state.answer |= {"u": certificate.u, "d": certificate.d, "kappa": certificate.kappa, "eta": certificate.eta}
            if isinstance(certificate, MomentLiftCertificate):
                state.answer["tau"] = certificate.tau
        state.trace.append((time.perf_counter() - began, value, certificate.bound))
        return excess, unpaid

    def _ended(self, state: _State, budget: Budget, stop: bool, ended: Status, unpaid: float) -> Status | None:
        value, scale = state.trace[-1][1], max(abs(state.trace[-1][1]), 1e-12)
        if value - state.bound <= budget.tol * scale and unpaid <= budget.tol * scale:
            return Status.OPTIMAL
        if stop:
            return Status.INTERRUPTED
        if ended is Status.TIME_LIMIT or budget.expired:
            return Status.TIME_LIMIT
        past = [t[2] for t in state.trace[:-PATIENCE]]
        if past and state.bound - max(past) <= 0.02 * budget.tol * scale:
            return Status.INACCURATE
        return None

    def _advance(self, state: _State, excess: FloatArray, owed: bool) -> None:
        """Move multipliers of bounds and of kinks; raise penalties that do too little; widen the factor."""
        problem = state.problem
        W, X, s = problem.split(state.x)
        V = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), TINY)
        if len(excess):
            shortfall = problem.shortfall(excess, state.multipliers, state.penalty)
            state.multipliers = problem.active(state.multipliers, state.penalty, excess)
            worst = float(np.abs(shortfall).max())
            if owed and worst > 0.25 * state.violation:
                state.penalty = np.minimum(state.penalty * 3.0, state.ceiling)
            state.violation = worst
        state.smooth, _ = state.smooth.advance(problem.margins(W, V), s)
        if len(state.trace) % 8 == 0:
            state.smooth = state.smooth.sharpen(0.3)
        direction = None if state.dual is None else escape(problem.form, *state.dual)
        if direction is not None and problem.width < problem.form.count + problem.order:
            state.problem, state.x = problem.widened(state.x, direction)

