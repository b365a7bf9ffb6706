"""Label lifting by low-rank factors: vector labels V (unit rows) and weights W, multipliers for the bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from margindsl.contract import Budget, RawSolution, Status
from margindsl.program.forms import Form, LabelLiftForm
from margindsl.program.label_certificate import LabelLiftCertificate, escape_direction, repair_dual_point
from margindsl.program.moment import MomentLiftForm
from margindsl.program.moment_certificate import MomentLiftCertificate, escape_moment, repair_moment_lift
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import Bracket, Course
from margindsl_solvers.engines.factors.descent import Descent, descend
from margindsl_solvers.engines.factors.quasinewton import QuasiNewton
from margindsl_solvers.engines.factors.smoothing import Smoothed
from margindsl_solvers.engines.factors.vectors import TINY, VectorLabels
from margindsl_solvers.engines.solver import of_form

FIRST_STEP = 0.1  # Moreau step of kinked losses, in units of the margin
ROUND = 100  # evaluations before the certificate is tried and the factor may grow; twice that where it does not help
PATIENCE = 12  # rounds without a better bound after which the engine gives up


class Proof(NamedTuple):
    """Represent how a label lift is proved: by the repair of a dual point (u, d, κ, η, τ); else there is a way out.

    The way out is a direction (N,) of one more column along which the objective falls, None where there is none.
    """

    certify: Callable[..., LabelLiftCertificate | MomentLiftCertificate]
    escape: Callable[..., FloatArray | None]


PROOFS: Mapping[type[Form], Proof] = {
    LabelLiftForm: Proof(lambda form, *dual: repair_dual_point(form, *dual[:4]),
                         lambda form, *dual: escape_direction(form, *dual[:4])),
    MomentLiftForm: Proof(lambda form, u, *dual: repair_moment_lift(form, u, None, *dual), escape_moment)}


class LabelRun(Course[Bracket]):
    """Descend over (W, V, s) by quasi-Newton steps, with multipliers of the bounds, and widen the factor.

    Parameters
    ----------
    start : RawSolution or None
        Factors W and V of the right orders are used.
    width : int
        First number of columns.
    """

    stage, counted = "burer-monteiro", "evaluations"

    def __init__(self, form: LabelLiftForm, budget: Budget, start: RawSolution | None, width: int, seed: int) -> None:
        super().__init__(budget)
        self.width, self.seed = width, seed
        proof = of_form(PROOFS, form)
        assert proof is not None
        self.proof = proof
        problem, W, V, s = self._first_point(form, start)
        losses = form.losses
        # rows of length √c make the curvature of all variables alike
        weights = np.bincount(form.component[losses.points], weights=losses.weights, minlength=form.count)
        lengths = np.sqrt(np.maximum(weights, 1e-3 * float(weights.mean()) + TINY))
        self.problem, self.smooth = problem, Smoothed.build(losses, FIRST_STEP)
        self.x = np.concatenate([W.ravel(), (lengths[:, None] * V).ravel(), s])
        at_zero = losses.arguments(np.zeros(form.n), s)
        scale = float(np.abs(losses.row_losses(at_zero)).sum() + np.abs(losses.derivative(at_zero)).sum()
                      + np.abs(losses.scalars.costs).sum() + 1e-2 * losses.weights.sum()) + TINY
        self.multipliers = self._first_multipliers(problem, start)
        self.penalty = np.full(len(self.multipliers), 2.0 * scale / max(form.count, 1))
        J, L = len(form.balance), len(form.decision)
        self.penalty[J:J + L] = scale / np.maximum(problem.decision_bounds[1], 1e-6)
        self.ceiling, self.accuracy = 1e4 * self.penalty, 1e-2
        self.violation, self.bound = np.inf, -np.inf
        self.answer: dict[str, FloatArray] = {}
        self.newton, self.round = QuasiNewton(), ROUND

    def init(self) -> Status | None:
        self.ended, before = self._descend().status, self.bound
        self._judge()
        if self.ended is Status.ITERATION_LIMIT and not self.bound > before:
            self.round *= 2
        return self.ended if self.ended is Status.TIME_LIMIT else None

    def step(self) -> Status | None:
        if self._rests():
            return Status.INACCURATE
        if self.ended is not Status.ITERATION_LIMIT:
            self.accuracy = max(0.2 * self.accuracy, 1e-9 / self.tol)
        self._advance()
        return self.init()

    def is_better(self, point: Bracket) -> bool:
        return True

    def variables(self) -> dict[str, FloatArray]:
        return self.answer

    # -- rounds -------------------------------------------------------------------------------------

    def _rests(self) -> bool:
        """Return whether the bound has long not risen, by the size of values that need not be told from zero at least.

        None at all so far is no progress either.
        """
        past = [bound for _, _, bound in self.trace[:-PATIENCE]]
        size = max(abs(self.trace[-1][1]), self.problem.form.floor)
        return bool(past) and not self.bound > max(past) + 0.02 * self.tol * size

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
        W = rng.standard_normal((order, width)) * bool(form.floor)  # at zero itself where that is least
        F = problem.outputs(W)
        lengths = np.linalg.norm(F, axis=1)
        unit = float(np.median(lengths)) or float(lengths.max())
        W *= 1.0 / unit if unit else 0.0  # of features that vanish there is nothing to weigh
        V = problem.gather(F)
        V += 0.1 * (float(np.abs(V).mean()) or 1.0) * rng.standard_normal(V.shape)
        return problem, W, V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), TINY), s

    def _first_multipliers(self, problem: VectorLabels, start: RawSolution | None) -> FloatArray:
        squares = np.append(problem.label_bounds[2], problem.decision_bounds[2])
        tau = np.zeros(problem.cuts.count)
        if start is None or start.get("kappa") is None or start.get("eta") is None:
            return np.append(np.zeros(len(squares)), tau)
        given, given_tau = np.append(start["kappa"], start["eta"]), start.get("tau")
        tau = given_tau if given_tau is not None and np.shape(given_tau) == tau.shape else tau
        return np.append(given * squares if given.shape == squares.shape else np.zeros(len(squares)), tau)

    def _descend(self) -> Descent:
        problem, losses = self.problem, self.smooth.losses
        task = (lambda x: problem.oracle(x, losses, self.multipliers, self.penalty), self.x, self.budget,
                1e-2 * self.accuracy * self.tol, int(min(self.round, self.max_iter - self.iterations)))
        signs = losses.scalars.nonneg
        if np.any(signs):
            free = np.full(len(self.x) - len(signs), -np.inf)
            done = descend(*task, lower=np.append(free, np.where(signs, 0.0, -np.inf)))
        else:
            done = self.newton.descend(*task)
        self.x, self.iterations = done.point, self.iterations + done.evaluations
        return done

    def _judge(self) -> None:
        """Book value and certified bound of the point, the excess over the bounds and whether it is worth much."""
        problem, form, losses = self.problem, self.problem.form, self.smooth.losses
        W, X, s = problem.split(self.x)
        V = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), TINY)
        excess = self.excess = problem.excess(W, V)
        active = problem.active(self.multipliers, self.penalty, excess)
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
        self.dual = (u, d, kappa, eta, tau)
        certificate = self.proof.certify(form, *self.dual)
        # what lies outside a bound is charged at its price
        value = problem.objective(W, V, s) + 0.5 * float(np.abs(active) @ problem.violation(excess))
        short = np.abs(problem.shortfall(excess, self.multipliers, self.penalty))
        unpaid = float(np.maximum(np.abs(active), np.abs(self.multipliers)) @ short)
        begun = bool(self.answer)
        self.answer |= {"V": V, "W": W.copy(), "scalars": s.copy()}  # the point that value and violation are judged at
        if not begun or certificate.bound > self.bound:
            self.bound = certificate.bound
            self.answer |= {"u": certificate.u, "d": certificate.d, "kappa": certificate.kappa, "eta": certificate.eta}
            if isinstance(certificate, MomentLiftCertificate):
                self.answer["tau"] = certificate.tau
        self.owed = unpaid > 0.1 * self.tol * abs(value)
        scale = max(abs(value), TINY)
        self.certify(Bracket(value, self.bound, max(value - self.bound, unpaid) / scale))

    def _advance(self) -> None:
        """Move multipliers of bounds and of kinks; raise penalties that do too little; widen the factor."""
        problem, excess = self.problem, self.excess
        W, X, s = problem.split(self.x)
        V = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), TINY)
        if len(excess):
            shortfall = problem.shortfall(excess, self.multipliers, self.penalty)
            self.multipliers = problem.active(self.multipliers, self.penalty, excess)
            worst = float(np.abs(shortfall).max())
            if self.owed and worst > 0.25 * self.violation:
                self.penalty = np.minimum(self.penalty * 3.0, self.ceiling)
            self.violation = worst
        self.smooth, _ = self.smooth.advance(problem.margins(W, V), s)
        if len(self.trace) % 8 == 0:
            self.smooth = self.smooth.sharpen(0.3)
        direction = self.proof.escape(problem.form, *self.dual)
        if direction is not None and problem.width < problem.form.count + problem.order:
            self.problem, self.x = problem.widened(self.x, direction)
            self.newton = QuasiNewton()

