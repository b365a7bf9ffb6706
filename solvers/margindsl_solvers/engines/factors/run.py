"""Descent over the factors of the lift, with multipliers of its bounds, widened where the certificate asks for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy

from margindsl.contract import Budget, RawSolution, Status
from margindsl.program.lift import LiftForm
from margindsl.program.lift_certificate import DENSE_ORDER, admissible, falling_labels, repaired_point, scaled
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import Bracket, Course
from margindsl_solvers.engines.factors.factored import TINY, Factored, Rows, Sum
from margindsl_solvers.engines.factors.quasinewton import QuasiNewton
from margindsl_solvers.engines.factors.smoothing import Smoothed

SUBSAMPLE = 10_000  # points from which the first solve of weights alone starts
SHRINK = 8  # ratio of the nested subsamples above that
ON_SAMPLE = 0.5  # part of the time left for a subsample, so that some is left for passes over all points
ROUND, WEIGHT_ROUND, LARGE_ROUND = 100, 40, 12  # evaluations before the certificate is tried: with labels, without
FIRST_STEP = 0.1  # Moreau step of kinked losses, in units of the margin
LEAST = 1e-4  # of a non-negative scalar at first: of its root zero is stationary
GROWTH = 4  # most columns appended at a time
PATIENCE = 12  # rounds without a better bound after which the descent gives up


class FactorRun(Course[Bracket]):
    """Descend over (W, V, s) by quasi-Newton steps; multipliers of bounds and kinks move, columns are appended.

    `start`: factors W and V of the right orders are used; `workers`: maps a function over blocks of points; see
    `threads`; `newton`: what earlier descents learned of the curvature; `width`: first number of columns.
    """

    stage, counted = "burer-monteiro", "evaluations"

    def __init__(self, form: LiftForm, budget: Budget, start: RawSolution | None, workers: Sum, newton: QuasiNewton,
                 width: int, seed: int) -> None:
        super().__init__(budget)
        self.form, self.newton, self.width, self.seed = form, newton, width, seed
        self.problem = problem = Factored(form, Rows.of_form(form), workers)
        self.smooth = Smoothed.build(problem.rows.losses, FIRST_STEP)
        losses, J, L = form.losses, len(form.balance), len(form.decision)
        at_zero = losses.arguments(np.zeros(form.n))
        scale = float(np.abs(losses.row_losses(at_zero)).sum() + np.abs(losses.derivative(at_zero)).sum()
                      + np.abs(losses.scalars.costs).sum() + 1e-2 * losses.weights.sum()) + TINY
        self.penalty = np.full(J + L + form.cuts.count, 2.0 * scale / max(form.count, 1))
        self.penalty[J:J + L] = scale / np.maximum(problem.bounds[0][J:J + L], 1e-6)
        self.ceiling, self.violation = 1e4 * self.penalty, np.inf
        # rows of length √c make the curvature of all variables alike
        held = ~form.absorbed[losses.points]
        weights = np.bincount(form.component[losses.points[held]], losses.weights[held], form.count)
        self.lengths = np.sqrt(np.maximum(weights, 1e-3 * float(weights.mean()) + TINY)) if form.count else weights
        self.accuracy = 1e-4 if form.count else 3e-2
        self.round = ROUND if form.count else WEIGHT_ROUND if form.n <= 2 * SUBSAMPLE else LARGE_ROUND
        self.Y, self.active = self._start(start, workers)
        self.bound = -np.inf
        self.answer: dict[str, FloatArray] = {}

    def init(self) -> Status | None:
        done = self.newton.descend(
            lambda Y: self.problem.oracle(Y, self.smooth.losses, self.active, self.penalty), self.Y, self.budget,
            self.accuracy * self.tol, int(min(self.round, self.max_iter - self.iterations)))
        self.Y, self.iterations, self.ended = done.point, self.iterations + done.evaluations, done.status
        before = self.bound
        self._judge()
        if self.form.count and self.ended is Status.ITERATION_LIMIT and not self.bound > before:
            self.round *= 2
        return self.ended if self.ended is Status.TIME_LIMIT else None

    def step(self) -> Status | None:
        past = [bound for _, _, bound in self.trace[:-PATIENCE]]
        size = max(abs(self.trace[-1][1]), self.form.negligible)  # of values that need not be told from zero at least
        if past and not self.bound > max(past) + 0.02 * self.tol * size:  # none at all so far is no progress either
            return Status.INACCURATE
        if self.ended is not Status.ITERATION_LIMIT:
            self.accuracy = max((0.2 if self.form.count else 0.1) * self.accuracy,
                                (1e-11 if self.form.count else 1e-9) / self.tol)
        self._advance()
        return self.init()

    def is_better(self, point: Bracket) -> bool:
        return True

    def settle(self, status: Status) -> Status:
        if self.problem.rows.is_exact:
            return status
        self.remark = "the lift may prove more: some losses enter as functions below their hulls"
        return Status.CONVERGED if status is Status.OPTIMAL else status

    def variables(self) -> dict[str, FloatArray]:
        return self.answer

    # -- where it starts ----------------------------------------------------------------------------

    def _start(self, start: RawSolution | None, workers: Sum) -> tuple[FloatArray, FloatArray]:
        """Return the array and multipliers of a given start, of the solution on a subsample, or at random."""
        form, bounds = self.form, self.problem.bounds
        none, scalars = np.zeros(len(self.penalty)), np.zeros(form.losses.scalars.count)
        rng = np.random.default_rng(self.seed)
        if start is None and not form.count and form.n > 2 * SUBSAMPLE:
            index = np.sort(rng.choice(form.n, max(SUBSAMPLE, form.n // SHRINK), replace=False))
            limited = self.budget.share(ON_SAMPLE).replace(tol=max(0.5 * self.tol, 1e-3), callback=None, max_iter=200)
            inner = FactorRun(sample(form, index), limited, None, workers, self.newton, self.width, self.seed)
            inner.run()
            start = RawSolution(Status.CONVERGED, variables=inner.answer)
        W, V = (None, None) if start is None else (start.get("W"), start.get("V", np.zeros((form.count, 0))))
        if start is not None and W is not None and V is not None and len(W) == form.order and len(V) == form.count and (
                np.any(W) and (not form.count or np.shape(V)[1] == np.shape(W)[1])):  # zero is stationary
            given = [start.get(name) for name in ("kappa", "eta", "gamma")]
            multipliers = none if any(part is None for part in given) else np.concatenate(given)
            s = start.get("scalars", scalars)
            self.newton.fit(np.shape(W)[1])
            return self._joined(np.asarray(W), np.asarray(V), s if np.shape(s) == scalars.shape else scalars), (
                multipliers * bounds[1] if multipliers.shape == none.shape else none)
        W = rng.standard_normal((form.order, min(self.width, form.count + form.order)))
        W *= bool(form.negligible)  # at zero itself where that is least
        lengths = self.problem.lengths(W)
        unit = float(np.median(lengths)) or float(lengths.max(initial=0.0))
        W *= 1.0 / unit if unit else 0.0  # of features that vanish there is nothing to weigh
        V = np.zeros((form.count, W.shape[1]))
        if form.count:
            V = self.problem.indicator @ form.outputs(W)
            V += 0.1 * float(np.abs(V).mean()) * rng.standard_normal(V.shape)
            V[~np.any(V, axis=1), 0] = 1.0
            V /= np.linalg.norm(V, axis=1, keepdims=True)
        return self._joined(W, V, scalars), none

    def _joined(self, W: FloatArray, V: FloatArray, s: FloatArray) -> FloatArray:
        Y = np.zeros((len(W) + len(V) + len(s), W.shape[1]))
        s = np.where(self.form.losses.scalars.nonneg, np.sqrt(np.maximum(s, LEAST)), s)
        Y[:len(W)], Y[len(W):len(W) + len(V)], Y[len(W) + len(V):, 0] = W, self.lengths[:, None] * V, s
        return Y

    # -- what is proved -----------------------------------------------------------------------------

    def _judge(self) -> None:
        """Book value and certified bound of the point, the excess over the bounds and whether it is worth much."""
        problem, form, losses = self.problem, self.form, self.smooth.losses
        W, X, s = problem.split(self.Y)
        V = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), TINY)
        self.excess = problem.excess(W, V)
        active = problem.active(self.active, self.penalty, self.excess)
        # 1. the dual point, and the value
        F, labels, self.margins = problem.seen(W, V)
        u, q = problem.multipliers(F, labels, self.margins, s, losses)
        value = problem.objective(W, F, labels, self.margins, s)
        force = -problem.label_force(active, V)
        if form.count:
            force += problem.indicator @ (form.losses.scatter(u)[:, None] * F)
        kappa, eta, gamma = np.split(active / problem.bounds[1], np.cumsum([len(form.balance), len(form.decision)]))
        raw = {"u": u, "q": q, "d": np.einsum("cp,cp->c", V, force), "kappa": kappa, "gamma": gamma, "eta": eta}
        # 2. its bound, and where it fails
        start, bound, point = admissible(form, raw)[0], -np.inf, None
        if form.cuts.count:
            labels_out = falling_labels(form, start, GROWTH)
            self.escape = labels_out, np.zeros((form.order, labels_out.shape[1]))
        else:
            point, *both = scaled(form, start, most=GROWTH)
            self.escape = both[0], both[1]
            bound = -np.inf if point is None else form.value(point)
        if form.count and (form.count <= DENSE_ORDER or form.cuts.count):
            other, other_bound = repaired_point(form, raw)
            point, bound = (other, other_bound) if not other_bound < bound else (point, bound)
        # 3. what lies outside a bound is charged at its price
        value = max(value, bound) + 0.5 * float(np.abs(active) @ problem.violation(self.excess))
        short = np.abs(problem.shortfall(self.excess, self.active, self.penalty))
        unpaid = float(np.maximum(np.abs(active), np.abs(self.active)) @ short)
        if not self.answer or bound > self.bound:
            self.bound = bound
            self.answer |= raw if point is None else vars(point)
        self.answer |= {"V": V, "W": W.copy(), "scalars": s.copy()}  # the point that value and violation are judged at
        self.unmet = unpaid > 0.1 * self.tol * abs(value)
        self.certify(Bracket(value, self.bound, max(value - self.bound, unpaid) / max(abs(value), TINY)))

    # -- what comes next ----------------------------------------------------------------------------

    def _advance(self) -> None:
        """Move multipliers of bounds and of kinks; raise penalties that do too little; widen the factor."""
        problem, form = self.problem, self.form
        W, _, s = problem.split(self.Y)
        if len(self.excess):
            shortfall = problem.shortfall(self.excess, self.active, self.penalty)
            self.active = problem.active(self.active, self.penalty, self.excess)
            worst = float(np.abs(shortfall).max())
            if self.unmet and worst > 0.25 * self.violation:
                self.penalty = np.minimum(self.penalty * 3.0, self.ceiling)
            self.violation = worst
        self.smooth = self.smooth.advance(self.margins, s)
        if len(self.trace) % 8 == 0:
            self.smooth = self.smooth.sharpen(0.3)
        Z, U = self.escape
        room = min(form.order + form.count - W.shape[1], Z.shape[1])
        if room <= 0:
            return
        Z, U = Z[:, :room], U[:, :room]
        if form.count and np.any(Z):  # labels turn by a tenth at most
            size = 0.1 / np.maximum(np.abs(Z).max(axis=0), 1e-300)
        else:
            size = self._best_length(U) * np.ones(room)
        more = np.vstack([size * U, size * self.lengths[:, None] * Z, np.zeros((len(s), room))])
        self.Y = np.column_stack([self.Y, more])
        if form.count:  # labels turn, curvature is another
            self.newton = QuasiNewton()
        self.newton.fit(self.Y.shape[1])

    def _best_length(self, U: FloatArray) -> float:
        """Return √t ≥ 0 minimising ½t‖U‖² + Σ cρ(√(s² + t‖Uᵀφ‖²)), convex in t, with one product for all t."""
        problem, losses = self.problem, self.smooth.losses
        gain, squares = problem.lengths(U)**2, self.margins**2
        half = 0.5 * float(np.sum(problem.penalised(U) ** 2))

        def value(t: float) -> float:
            return half * t + float(np.sum(losses.row_losses(losses.arguments(np.sqrt(squares + t * gain)))))

        most = float(squares.sum()) / max(float(gain.sum()), 1e-300)
        found = scipy.optimize.minimize_scalar(value, bounds=(0.0, most), method="bounded",
                                               options={"xatol": 1e-3 * most, "maxiter": 12})
        small = 1e-2 * float(np.linalg.norm(self.Y)) / np.sqrt(self.Y.shape[1])
        return max(float(np.sqrt(found.x)) if found.fun < value(0.0) else 0.0,
                   small / max(float(np.linalg.norm(U, axis=0).max()), 1e-300))


def sample(form: LiftForm, index: FloatArray) -> LiftForm:
    """Return the form on some points, weights scaled so that the total stays the same."""
    factor = form.n / len(index)
    decision = tuple(replace(bound, weights=bound.weights[index] * factor) for bound in form.decision)
    return replace(form, features=form.features.take(index), losses=form.losses.restricted(index), decision=decision,
                   component=form.component[index], sign=form.sign[index])
