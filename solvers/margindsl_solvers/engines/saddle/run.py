"""Composite mirror prox and mirror descent: entropy on μ, the conjugates' own prox on u, adaptive steps, restarts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from margindsl.contract import Budget, RawSolution, Refusal, Status
from margindsl.errors import CalculusError
from margindsl.program.forms import Form
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import Course
from margindsl_solvers.engines.saddle.alternation import AlternationRun
from margindsl_solvers.engines.saddle.model import Point, SaddleModel
from margindsl_solvers.engines.saddle.newton import newton_step

Advance = Callable[..., tuple[Point, Point, float]]  # (model, point, steps) -> point to average, next, step
LEAST_MASS = 1e-14  # least relative mass, so that a labelling written off can return


class Iterate(NamedTuple):
    """Represent (μ, x, s)."""

    mu: FloatArray
    x: FloatArray
    scalars: FloatArray


@dataclass
class Steps:
    """Hold the step η and the weight ω: μ moves by η ω, x by η/ω, shared scalars by η ω/e."""

    step: float
    weight: float
    metric: FloatArray = field(default_factory=lambda: np.zeros(0))  # (S,), e, the lengths of the scalars' coordinates


def move(model: SaddleModel, centre: Point, at: Point, steps: Steps) -> Iterate:
    """Return the prox-mapping of the centre along the operator at a point.

    μ ∝ μ₀ exp(ηω(½‖v_k‖² + b_k y_kᵀũ)), x = prox_{τρ*}(x₀ + τ(aγ + Bs + d)) with τ = η/ω, s = s₀ − (ηω/e)(q − Bᵀu).
    """
    tau, sigma = steps.step / steps.weight, steps.step * steps.weight
    logits = np.log(np.maximum(centre.mu, LEAST_MASS)) + sigma * at.costs
    mu = np.exp(logits - logits.max())
    mu = np.maximum(mu / mu.sum(), LEAST_MASS)
    s = centre.scalars - sigma * at.slack / steps.metric if len(centre.scalars) else centre.scalars
    return Iterate(mu / mu.sum(), model.prox(centre.x + tau * at.arguments, tau),
                   np.where(model.losses.scalars.nonneg, np.maximum(s, 0.0), s))


def divergence(model: SaddleModel, a: Iterate | Point, b: Point, steps: Steps) -> float:
    """Return the weighted Bregman distance KL(a, b)/ω + ω‖Δx‖²_c/2 + ‖Δs‖²_e/2ω."""
    kl = float(a.mu @ np.log(np.maximum(a.mu, LEAST_MASS) / np.maximum(b.mu, LEAST_MASS)))
    far = 0.5 * float(steps.metric @ (a.scalars - b.scalars) ** 2) if len(a.scalars) else 0.0
    return (max(kl, 0.0) + far) / steps.weight + 0.5 * steps.weight * float(model.weights @ (a.x - b.x) ** 2)


def extragradient(model: SaddleModel, centre: Point, steps: Steps, shrink: float = 0.7,
                  grow: float = 1.3) -> tuple[Point, Point, float]:
    """Take one mirror-prox step with backtracking and update the step length.

    The half point is accepted when η⟨F(half) − F(centre), half − next⟩ ≤ D(half, centre) + D(next, half)
    (Nemirovski 2004, Eq. 3.3), which makes the method converge without a Lipschitz constant.

    Returns
    -------
    half, next : Point
    step : float
        The accepted step, the weight of `half` in the average.
    """
    while True:
        half = model.evaluate(*move(model, centre, centre, steps))
        ahead = move(model, centre, half, steps)
        change = -float((half.costs - centre.costs) @ (half.mu - ahead.mu))
        change -= float((model.weights * (half.arguments - centre.arguments)) @ (half.x - ahead.x))
        change += float((half.slack - centre.slack) @ (half.scalars - ahead.scalars))
        bound = divergence(model, half, centre, steps) + divergence(model, ahead, half, steps)
        used = steps.step
        slack = 1e-13 * float(half.norms.max())
        if used * change <= bound + used * slack or used < 1e-200:
            # Grow faster when far from the limit.
            steps.step *= grow if used * change <= 0.7 * bound else 1.0
            return half, model.evaluate(*ahead), used
        steps.step *= shrink


def descend(model: SaddleModel, centre: Point, steps: Steps, shrink: float = 0.7,
            grow: float = 1.1) -> tuple[Point, Point, float]:
    """Take one mirror-descent step with backtracking and update the step length.

    The step is accepted when η(|½⟨Δ‖v‖², Δμ⟩| + |⟨Δ(aγ), Δx⟩_c|) ≤ D(next, centre): the change of each gradient
    along the step is covered by its distance. Unlike mirror prox it says nothing of the rotation between the
    blocks, so that only averages converge.

    Returns
    -------
    centre, next : Point
    step : float
        The accepted step, the weight of the centre in the average.
    """
    while True:
        found = model.evaluate(*move(model, centre, centre, steps))
        change = abs(float((found.costs - centre.costs) @ (found.mu - centre.mu)))
        change += abs(float((model.weights * (found.arguments - centre.arguments)) @ (found.x - centre.x)))
        change += abs(float((found.slack - centre.slack) @ (found.scalars - centre.scalars)))
        bound = divergence(model, found, centre, steps)
        used, slack = steps.step, 1e-13 * float(centre.norms.max())
        if used * change <= bound + used * slack or used < 1e-200:
            steps.step *= grow if used * change <= 0.7 * bound else 1.0
            return centre, found, used
        steps.step *= shrink


CHECK = 8  # mirror-prox iterations between two checks of the gap
SUFFICIENT, NECESSARY, ARTIFICIAL = 0.2, 0.8, 0.36  # restart rules of PDLP (Applegate et al. 2021, Sec. 3.2)
RANGE = 0.3, 1e3  # of the primal weight, relative to the first guess
NEWTON_FIRST, NEWTON_AGAIN = 0.5, 0.5  # relative gap of the first attempt, and its fall before the next
FAILURES = 4  # Newton steps in a row that do not halve the gap, after which first-order steps go on
HALVED, QUICK = 0.5, 0.2  # times the gap: what a Newton step should reach, and what is quick
# Of the damping after a step that fell short, after a quick one and after another; 0.2 after all that halved the gap
# let every second step fall short (hinge loss, 100,000 and 1,000,000 points). And the range of the damping.
RAISE, LOWER, EASE, DAMPING = 4.0, 0.2, 0.4, (1e-6, 10.0)
RESTS = 40  # iterations in which the gap did not fall by a tenth, after which kinks are smoothed
# What smoothing of kinks costs at first, relative to the value, about; times the width from one level to the next, and
# levels at most; error of a level, relative to that of its point, and changes of masses in a level. On hinge losses of
# 8 to 60 points: half the changes did not close one feature, nor did Newton steps alone.
ROUGH, FINER, LEVELS, EXACT, CHANGES = 0.25, 0.2, 40, 0.1, 100
LATER = 1.3, 32  # or this multiple of the iterations at the last attempt, and as many more
RESERVE, NEWCOMERS = 1e-4, 0.1  # mass spread over all labellings at a warm start
BLEND = 1e-2  # mass taken from the last mirror-prox iterate after Newton steps
# Prox step telling free rows from fixed ones: x and the margins are of order one, unless x, and with it the step, is
# smaller by more than the second number, as of heavy losses.
WIDTH, SMALL = 1.0, 1e-3
SMOOTHING = 0.5  # of the primal weight, in the logarithm (same, Sec. 3.3)


class SaddleCourse(Course[Point]):
    """Carry one solve of a saddle problem: the best point is that of least gap.

    `begin`: `time.monotonic` at which the trace begins; None is now.
    """

    stage = "saddle point"
    best: Point

    def __init__(self, model: SaddleModel, budget: Budget, begin: float | None = None) -> None:
        super().__init__(budget, begin)
        self.model = model

    def judge(self, mu: FloatArray, x: FloatArray, scalars: FloatArray | None = None) -> Point:
        """Return a place judged and booked."""
        return self.certify(self.model.judge(self.model.evaluate(mu, x, scalars)))

    def is_better(self, point: Point) -> bool:
        return point.gap < self.best.gap

    def variables(self) -> dict[str, FloatArray]:
        return self.model.variables(self.best)


class MirrorRun(SaddleCourse):
    """Take first-order steps with restarts, and Newton steps once they are near.

    Neither gets on where weights are of many magnitudes, as no step is right for all rows, or where kinks leave duals
    open. Then kinks are smoothed, and masses change by Newton steps of the value at masses (see `AlternationRun`).

    Parameters
    ----------
    start : Point, tuple of arrays or SaddleCourse
        The first one, judged, or its (μ, x, s); or a course of the same model to go on from.
    advance : callable
        Takes one first-order step: `extragradient` or `descend`.
    weight : float or None
        Fixed weight of the step in μ against that in x; None adapts it.
    newton_limit : int
        Largest order of a Newton system.
    stall_limit : float
        Iterations in which the gap has to fall by a tenth.
    begin : float or None
        `time.monotonic` at which the trace begins; None is now.
    """

    def __init__(self, model: SaddleModel, budget: Budget, start: Iterate | Point | SaddleCourse, advance: Advance, *,
                 weight: float | None = None, newton_limit: int = 2000, stall_limit: float = math.inf,
                 begin: float | None = None) -> None:
        super().__init__(model, budget, begin)
        self.start, self.advance = start, advance
        self.fixed_weight, self.newton_limit = weight, newton_limit
        self.last_newton, self.stall_limit = 0, stall_limit
        self.threshold = NEWTON_FIRST
        self.steps: Steps | None = None  # at the scales of the point where the first one is taken

    def init(self) -> None:
        model, start = self.model, self.start
        if not isinstance(start, SaddleCourse):
            self.point = self.certify(start) if isinstance(start, Point) else self.judge(*start)
            return
        self.trace, self.best, self.point = list(start.trace), start.best, start.best
        self.iterations, self.mark, self.marked = start.iterations, start.mark, start.marked
        if self.stop() is None:  # the gradients are to be those of its masses, whatever weights its value is of
            mu = (1 - RESERVE) * self.best.mu + RESERVE / model.count
            point = model.judge(model.evaluate(mu, self.best.x))
            if self.best.primal < point.primal:
                point = replace(point, primal=self.best.primal, scale=self.best.scale, W=self.best.W)
            self.best = self.point = self.certify(point)

    def step(self) -> Status | None:
        model = self.model

        # 1. Newton steps from time to time, and with smoothed kinks where no step gets on
        if self.newton_limit and (
                self.best.error <= self.threshold or self.iterations >= LATER[0] * self.last_newton + LATER[1]):
            self._newton()
            if self.iterations - self.marked > RESTS:
                self._smooth()
            self.threshold = NEWTON_AGAIN * self.best.error
            self.last_newton = self.iterations
            if (status := self.stop()) is not None:
                return status

        # 2. First-order steps from one restart to the next, and the step-weighted mean of their half points
        if self.steps is None:
            self.steps = first_steps(model, self.point, self.fixed_weight)
            self.weight_range = self.steps.weight * RANGE[0], self.steps.weight * RANGE[1]
        steps, origin, last_gap, length, mass = self.steps, self.point, math.inf, 0, 0.0
        means = np.zeros(model.count), np.zeros(len(origin.x)), np.zeros(len(origin.scalars))
        while True:
            for _ in range(CHECK):
                half, self.point, used = self.advance(model, self.point, steps)
                mass += used
                for mean, new in zip(means, (half.mu, half.x, half.scalars)):
                    mean += (used / mass) * (new - mean)
                self.iterations += 1
                if self.iterations >= self.max_iter or self.budget.expired:
                    break
            length += CHECK
            self.point = self.certify(model.judge(self.point))
            average = self.judge(*(mean.copy() for mean in means))
            candidate = average if average.gap < self.point.gap else self.point
            if (status := self.stop()) is not None:
                return status
            good = candidate.gap <= SUFFICIENT * origin.gap
            stalled = candidate.gap <= NECESSARY * origin.gap and candidate.gap > last_gap
            last_gap = candidate.gap
            if good or stalled or length >= ARTIFICIAL * self.iterations:
                break
        self.point = candidate

        # 3. The primal weight balances the distances travelled by μ and x since the last restart
        kl = float(candidate.mu @ np.log(np.maximum(candidate.mu, 1e-300) / np.maximum(origin.mu, 1e-300)))
        far = math.sqrt(2 * max(kl, 0.0)), math.sqrt(float(model.weights @ (candidate.x - origin.x) ** 2))
        if min(far) > 1e-12 and self.fixed_weight is None:
            weight = (far[0] / far[1]) ** SMOOTHING * steps.weight ** (1 - SMOOTHING)
            # Without a floor a μ that hardly moves is given ever shorter steps.
            steps.weight = min(max(weight, self.weight_range[0]), self.weight_range[1])
        return None

    def _newton(self) -> None:
        """Take damped Newton steps while they close the gap; go on from their best point if it is far better."""
        model, before, current, failures = self.model, self.best.gap, self.best, 0
        damping = min(self.best.error, 1.0)  # as the step is shorter far from the solution (Levenberg, Marquardt)
        while failures < FAILURES and self.stop() is None:
            x, slopes = (math.sqrt(float(model.weights @ part**2)) for part in (current.x, current.arguments))
            width = min(WIDTH, x / slopes / SMALL) if x > 0 and slopes > 0 else WIDTH
            trial = newton_step(model, current, width, self.newton_limit, damping)
            if trial is None or not np.isfinite(trial.gap):
                break
            self.iterations += 1
            fall = trial.gap / self.best.gap
            failures = failures + 1 if fall >= HALVED else 0
            damping *= RAISE if fall >= HALVED else LOWER if fall < QUICK else EASE
            damping = float(np.clip(damping, *DAMPING))
            # The gap of a proximal step may rise for a while: the next one starts there all the same.
            current = self.certify(trial)
        if self.best.gap < 0.5 * before and self.stop() is None:
            # Entropy hardly leaves a face of the simplex: labellings a Newton step dropped keep some mass.
            mu = (1 - BLEND) * self.best.mu + BLEND * self.point.mu
            self.point = model.judge(model.evaluate(mu, self.best.x, self.best.scalars))

    def _smooth(self) -> None:
        """Solve at given masses and change these by Newton steps, with kinks smoothed ever less; go on from the best.

        At envelopes of the losses the least value at given masses is smooth and convex in them, and duals are unique.
        """
        model, failures, before, turn = self.model, 0, self.best, None
        mu, square = (1 - BLEND) * before.mu + BLEND / model.count, float(model.weights @ before.proved**2)
        if model.is_biased or model.count * model.order > self.newton_limit or not square > 0:
            return
        width = 2 * ROUGH * abs(before.primal) / square
        for level in range(LEVELS):
            if failures >= FAILURES or self.stop() is not None:
                break
            run = AlternationRun(
                model.softened(width * FINER**level), self.budget, mu, 1.0, self.newton_limit, turn)
            ended = run.init()
            while ended is None and self.stop() is None:
                self.iterations += 1
                turn, mu = run.turn, run.turn.mu
                point = self.certify(model.judge_weights(run.masses(turn), turn.x, turn.scalars, turn.W))
                ended = Status.CONVERGED if turn.error <= EXACT * point.error else \
                    Status.ITERATION_LIMIT if run.iterations >= CHANGES else run.descend()
            failures += ended is not Status.CONVERGED
        if self.best is not before:
            self.point = self.best


def starting_masses(model: SaddleModel, start: RawSolution | None, reserve: float) -> FloatArray:
    """Return uniform masses, or those of a start for the beginning of the working set, mixed with them.

    `reserve`: share of the uniform masses: a labelling needs some mass to grow from. Labellings not seen before add to
    it.
    """
    mu = np.full(model.count, 1.0 / model.count)
    given = None if start is None else start.get("mu")
    if given is None or len(given) > model.form.count or not np.all(np.isfinite(given)) or not np.sum(given) > 0:
        return mu
    old = np.bincount(model.group[:len(given)], weights=np.maximum(given, 0.0), minlength=model.count)
    unseen = 1.0 - len(np.unique(model.group[:len(given)])) / model.count
    share = reserve + NEWCOMERS * unseen
    return (1 - share) * old / old.sum() + share * mu


def starting_pair(model: SaddleModel, start: RawSolution | None) -> Iterate:
    """Return (μ, x, s) from a warm start for the beginning of the working set, or from w = 0."""
    mu, s = starting_masses(model, start, RESERVE), np.zeros(len(model.costs))
    u, scalars = (None, None) if start is None else (start.get("u"), start.get("scalars"))
    if u is not None and u.shape == model.weights.shape and np.all(np.isfinite(u)):
        x = model.clip(np.divide(-u, model.weights, out=np.zeros(len(u)), where=model.weights > 0))
    else:
        x = model.first_guess()
    if scalars is not None and scalars.shape == s.shape and np.all(np.isfinite(scalars)):
        s = np.asarray(scalars)
    return Iterate(mu, x, s)


def first_steps(model: SaddleModel, point: Point, weight: float | None) -> Steps:
    """Return steps at the scales of the point: σ·½max‖v‖² ~ 1, τ·curvature ~ 1."""
    change = model.evaluate(point.mu, point.x * 0.0, point.scalars).arguments - point.arguments
    square = float(model.weights @ point.x**2)
    bend = float(model.weights @ (point.x * change)) / square if square > 0 else 1.0
    tau = 1.0 / bend if bend > 0 else 1.0
    scatter = 0.5 * float(point.norms.max())
    sigma = 1.0 / scatter if scatter > 0 else 1.0
    step = math.sqrt(sigma * tau)
    metric = step**2 * max(len(model.costs), 1) * (model.weights @ model.coupling**2)  # steps of x and s alike
    return Steps(step, math.sqrt(sigma / tau) if weight is None else weight, np.where(metric > 0, metric, 1.0))


def refuse_unconjugated(name: str, form: Form) -> Refusal | None:
    """Return why a saddle engine of that name does not take a form with a loss that has no conjugate, or None."""
    try:
        for term in form.losses.terms:
            term.loss.conjugate()
    except CalculusError as error:
        return Refusal(f"{name} needs the conjugate of every loss: {error}", "use solver='clarabel'")
    return None
