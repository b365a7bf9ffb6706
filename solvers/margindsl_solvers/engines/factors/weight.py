"""Weight lifting by a low-rank factor: min ½‖W‖² + Σ cρ(‖Wᵀφ‖), rank grown by the certificate."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import scipy
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from margindsl.calculus.accuracy import greatest_ratio
from margindsl.contract import Budget, RawSolution, Status
from margindsl.host.clock import EIGEN_WORK, check
from margindsl.program.forms import WeightLiftForm
from margindsl.program.losses import Losses
from margindsl.program.sampling import restrict
from margindsl.program.weight_certificate import (
    curvatures,
    is_wide,
    lowest_curvatures,
    repair_weight_lift,
    weighted_gram,
)
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import Bracket, Course
from margindsl_solvers.engines.factors.quasinewton import QuasiNewton
from margindsl_solvers.engines.factors.smoothing import Smoothed
from margindsl_solvers.engines.factors.sweep import Sum, Sweep

SUBSAMPLE = 10_000  # points from which the first solve starts
SHRINK = 8  # ratio of the nested subsamples above that
ON_SAMPLE = 0.5  # part of the time left for a subsample, so that some is left for passes over all points
ROUND, LARGE_ROUND = 40, 12  # evaluations before the certificate is tried and the factor may grow; on large data
FIRST_STEP = 0.1  # Moreau step of kinked losses, in units of the margin
GROWTH = 4  # columns appended at a time
PATIENCE = 12  # rounds without a better bound after which the descent gives up


class WeightRun(Course[Bracket]):
    """Descend over W by quasi-Newton steps, and append the columns that the certificate asks for.

    Parameters
    ----------
    gather : callable
        Maps a function over blocks of rows; see `threads`.
    newton : QuasiNewton
        What earlier descents learned of the curvature.
    width : int
        First number of columns of W.
    """

    stage, counted = "burer-monteiro", "evaluations"

    def __init__(self, form: WeightLiftForm, budget: Budget, start: RawSolution | None, gather: Sum,
                 newton: QuasiNewton, width: int, seed: int) -> None:
        super().__init__(budget)
        self.form, self.gather, self.newton, self.width, self.seed = form, gather, newton, width, seed
        self.sweep, self.smooth = Sweep(form, gather), Smoothed.build(form.losses, FIRST_STEP)
        self.accuracy, self.value, self.bound = 3e-2, np.inf, -np.inf
        self.W, self.eta = self._start(min(form.order, width), start)

    def init(self) -> Status | None:
        self.W, self.eta, ended = self._solve()
        form, W = self.form, self.W
        self.norms = form.lengths(W)
        a = np.maximum(curvatures(form, self.norms, self.smooth.losses), lowest_curvatures(form))
        gram = None if is_wide(form) else weighted_gram(form, a)
        certificate = repair_weight_lift(form, W, a, self.eta, gram)
        value = feasible_value(form, W, self.norms)
        if value <= self.value:
            self.value, self.lowest = value, W
        if not self.trace or certificate.bound > self.bound:
            self.bound, self.dual = certificate.bound, (a, self.eta)
        self.size, self.ended, self.at = abs(value), ended, (a, self.eta, gram)
        self.certify(Bracket(self.value, self.bound, greatest_ratio(max(self.value - self.bound, 0.0), self.size)))
        return ended if ended is Status.TIME_LIMIT else None

    def step(self) -> Status | None:
        if len(self.trace) > PATIENCE:
            before, size = max(t[2] for t in self.trace[:-PATIENCE]), max(self.size, self.form.floor)
            if not self.bound > before + 0.02 * self.tol * size:  # none at all so far is no progress either
                return Status.INACCURATE
        if self.ended is not Status.ITERATION_LIMIT:
            self.accuracy = max(0.1 * self.accuracy, 1e-9 / self.tol)
        self.smooth, _ = self.smooth.advance(self.norms)
        if len(self.trace) % 8 == 0:
            self.smooth = self.smooth.sharpen(0.3)
        self.W = self._grow(leading(self.form, *self.at))
        self.newton.fit(self.W.shape[1])
        return self.init()

    def is_better(self, point: Bracket) -> bool:
        return True

    def variables(self) -> dict[str, FloatArray]:
        return {"W": self.lowest, "a": self.dual[0], "eta": self.dual[1]}

    # -- one smooth problem -------------------------------------------------------------------------

    def _solve(self) -> tuple[FloatArray, FloatArray, Status]:
        """Return the minimiser over W, with multipliers of decision bounds by an augmented Lagrangian."""
        form, W, eta, tol = self.form, self.W, self.eta, self.accuracy * self.tol
        most = int(min(ROUND if form.n <= 2 * SUBSAMPLE else LARGE_ROUND, self.max_iter - self.iterations))
        used, ended = 0, Status.CONVERGED
        penalty = 1.0 / form.n if form.decision else 0.0
        for _ in range(25 if form.decision else 1):
            oracle = partial(value_and_gradient, self.sweep, self.smooth.losses, eta=eta, penalty=penalty)
            done = self.newton.descend(oracle, W, self.budget, tol, most - used)
            used, W, ended = used + done.evaluations, done.point, done.status
            if not form.decision:
                break
            sums = bound_values(form, W)
            limits = np.array([bound.upper**2 for bound in form.decision])
            excess = sums - limits
            eta = np.maximum(0.0, eta + penalty * excess)
            if np.all(excess <= 1e-7 * np.maximum(limits, 1e-12)) or ended is Status.TIME_LIMIT or used >= most:
                break
            penalty *= 3.0
        self.iterations += used
        return W, eta, ended

    def _start(self, p: int, start: RawSolution | None) -> tuple[FloatArray, FloatArray]:
        form, budget = self.form, self.budget
        eta = np.zeros(len(form.decision))
        if start is not None and start.get("W") is not None and len(start["W"]) == form.order:
            W = np.array(start["W"])
            if np.any(form.outputs(W)):  # zero is stationary
                return W, np.asarray(start.get("eta", eta))
        rng = np.random.default_rng(self.seed)
        if form.n > 2 * SUBSAMPLE:
            size = max(SUBSAMPLE, form.n // SHRINK)
            small = subsample(form, np.sort(rng.choice(form.n, size, replace=False)))
            limited = budget.share(ON_SAMPLE).replace(tol=max(0.5 * budget.tol, 1e-3), callback=None, max_iter=200)
            inner = WeightRun(small, limited, None, self.gather, self.newton, self.width, self.seed)
            inner.run()
            self.newton.fit(inner.lowest.shape[1])  # the lowest point may be narrower than the last one
            return inner.lowest, inner.dual[1]
        W = rng.standard_normal((form.order, p))
        norms = form.lengths(W)
        return W / (float(np.median(norms)) or 1.0), eta  # any length where most points have none

    def _grow(self, found: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Return W with the directions in which Σ aφφᵀ exceeds the identity, as long as pays most at its lengths."""
        form, W = self.form, self.W
        room = form.order - W.shape[1]
        if room <= 0:
            return W
        values, vectors = found
        keep = np.flatnonzero(values > 1.0 + 1e-9)[::-1][: min(room, GROWTH)]
        if not len(keep):
            return W
        new = vectors[:, keep]
        size = 1e-2 * np.linalg.norm(W) / np.sqrt(W.shape[1])
        if not form.decision:
            new = new * np.sqrt(np.maximum(values[keep] - 1.0, 0.0))
            longest = float(np.linalg.norm(new, axis=0).max())
            size = max(best_length(form, self.smooth.losses, new, self.norms), size / longest)
        return np.column_stack([W, size * new])


def leading(form: WeightLiftForm, a: FloatArray, eta: FloatArray,
            gram: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues and vectors of Σ aφφᵀ − Σ ησσᵀ, ascending; without the matrix the greatest `GROWTH`.

    Shapes: `a` (n,), `eta` (L,).

    Parameters
    ----------
    gram : (r [+1], r [+1]) float array or None
        Σ aφφᵀ.
    """
    sigma = _decision_rows(form) if form.decision else np.zeros((0, form.order))
    if gram is not None:
        S = gram - (sigma.T * eta) @ sigma if form.decision else gram
        check(EIGEN_WORK * form.order**3)
        values, vectors = np.linalg.eigh((S + S.T) / 2)
        return np.asarray(values), np.asarray(vectors)

    def product(x: FloatArray) -> FloatArray:
        x = x.ravel()
        return form.features.adjoint(a * form.features.apply(x)) - sigma.T @ (eta * (sigma @ x))

    operator = LinearOperator((form.order, form.order), matvec=product, dtype=float)
    begin = np.random.default_rng(0).standard_normal(form.order)
    try:
        values, vectors = eigsh(operator, GROWTH, which="LA", tol=1e-3, v0=begin, maxiter=20)
    except ArpackNoConvergence as partial_answer:
        values, vectors = partial_answer.eigenvalues, partial_answer.eigenvectors
    except ArpackError:  # it takes a matrix that is nearly zero for a fault of its own; nothing grows there
        return np.zeros(0), np.zeros((form.order, 0))
    order = np.argsort(values)
    return np.asarray(values[order]), np.asarray(vectors[:, order])


def best_length(form: WeightLiftForm, losses: Losses, new: FloatArray, norms: FloatArray) -> float:
    """Return √t ≥ 0 minimising ½t‖N‖² + Σ cρ(√(s² + t‖Nᵀφ‖²)), convex in t, with one product for all t.

    Parameters
    ----------
    losses : Losses
        The form's, or their smooth stand-ins.
    new : (r [+1], k) float array
        The columns N.
    norms : (n,) float array
        The lengths s without them.
    """
    gain, squares = form.lengths(new) ** 2, norms**2
    half = 0.5 * float(np.sum((new[:-1] if form.free_bias else new) ** 2))

    def value(t: float) -> float:
        return half * t + float(np.sum(losses.row_losses(losses.arguments(np.sqrt(squares + t * gain)))))

    most = float(squares.sum()) / max(float(gain.sum()), 1e-300)
    found = scipy.optimize.minimize_scalar(value, bounds=(0.0, most), method="bounded",
                                           options={"xatol": 1e-3 * most, "maxiter": 12})
    return float(np.sqrt(found.x)) if found.fun < value(0.0) else 0.0


def value_and_gradient(sweep: Sweep, losses: Losses, W: FloatArray, eta: FloatArray,
                       penalty: float) -> tuple[float, FloatArray]:
    """Return ½‖W‖² + Σ cρ(‖Wᵀφ‖) + augmented decision terms, and the gradient; one pass over the data."""
    form = sweep.form
    value, gradient = sweep.loss(losses, W)
    penalised = W[:-1] if form.free_bias else W
    value += 0.5 * float(np.sum(penalised**2))
    if form.free_bias:
        gradient[:-1] += W[:-1]
    else:
        gradient += W
    if form.decision:
        extra, direction = _decision_terms(form, W, eta, penalty)
        value, gradient = value + extra, gradient + direction
    return value, gradient


def _decision_rows(form: WeightLiftForm) -> FloatArray:
    G, h = form.decision_rows
    return np.column_stack([G, h]) if form.free_bias else G


def bound_values(form: WeightLiftForm, W: FloatArray) -> FloatArray:
    """Return (L,) the values σᵀPσ of the decision bounds."""
    return np.sum((_decision_rows(form) @ W) ** 2, axis=1)


def _decision_terms(form: WeightLiftForm, W: FloatArray, eta: FloatArray,
                    penalty: float) -> tuple[float, FloatArray]:
    """Return ½ Σ ((η + ρ(g − ℓ²))₊² − η²)/(2ρ)·… for g = σᵀPσ ≤ ℓ², and its gradient."""
    sigma = _decision_rows(form)
    images = sigma @ W
    excess = np.sum(images**2, axis=1) - np.array([bound.upper**2 for bound in form.decision])
    active = np.maximum(0.0, eta + penalty * excess)
    value = 0.25 * float(np.sum((active**2 - eta**2) / penalty))
    return value, sigma.T @ (active[:, None] * images)


def feasible_value(form: WeightLiftForm, W: FloatArray, norms: FloatArray) -> float:
    """Return the objective at W, of lengths s (n,), scaled into the decision bounds."""
    factor = 1.0
    if form.decision:
        limits = np.array([bound.upper**2 for bound in form.decision])
        with np.errstate(over="ignore"):  # a bound far out of reach
            ratios = np.sqrt(limits / np.maximum(bound_values(form, W), 1e-300))
        if np.any(ratios < 1.0 - 1e-6):
            factor = float(min(1.0, ratios.min()))
    penalised = W[:-1] if form.free_bias else W
    return 0.5 * factor**2 * float(np.sum(penalised**2)) + form.losses.value(factor * norms)


def subsample(form: WeightLiftForm, index: FloatArray) -> WeightLiftForm:
    """Return the form on some points, weights scaled so that the total stays the same."""
    factor = form.n / len(index)
    decision = tuple(replace(bound, weights=bound.weights[index] * factor) for bound in form.decision)
    return WeightLiftForm(form.features.take(index), restrict(form.losses, index), decision=decision,
                          free_bias=form.free_bias)
