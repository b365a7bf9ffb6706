"""Weight lifting by a low-rank factor: min ½‖W‖² + Σ cρ(‖Wᵀφ‖), rank grown by the certificate."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from margindsl.clock import EIGEN_WORK, check
from margindsl.contract import Budget, RawSolution, Status
from margindsl.program.forms import WeightLiftForm
from margindsl.program.losses import Losses, LossTerm
from margindsl.program.weight_certificate import (
    curvatures,
    is_wide,
    lowest_curvatures,
    repair_weight_lift,
    weighted_gram,
)
from margindsl.typing import FloatArray
from margindsl_solvers.engines.factors.quasinewton import QuasiNewton
from margindsl_solvers.engines.factors.smoothing import Smoothed
from margindsl_solvers.engines.factors.sweep import Sum, Sweep, threads

SUBSAMPLE = 10_000  # points from which the first solve starts
SHRINK = 8  # ratio of the nested subsamples above that
ROUND, LARGE_ROUND = 40, 12  # evaluations before the certificate is tried and the factor may grow; on large data
FIRST_STEP = 0.1  # Moreau step of kinked losses, in units of the margin
GROWTH = 4  # columns appended at a time
PATIENCE = 12  # rounds without a better bound after which the descent gives up


@dataclass(frozen=True, eq=False)
class WeightLift:
    """Solve weight-lift forms.

    Parameters
    ----------
    width : int
        First number of columns of W.
    max_iter : int
        Most quasi-Newton iterations in all.
    seed : int
    """

    width: int
    max_iter: int
    seed: int

    def run(self, form: WeightLiftForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Return W, a, η with status and trace of (seconds, primal, certified bound)."""
        with threads(form.n * form.features.rank * self.width) as gather:
            return self._run(form, budget, start, gather, QuasiNewton())

    def _run(self, form: WeightLiftForm, budget: Budget, start: RawSolution | None, gather: Sum,
             newton: QuasiNewton) -> RawSolution:
        began = time.perf_counter()
        W, eta = self._start(form, min(form.order, self.width), start, budget, gather, newton)
        sweep = Sweep(form, gather)
        trace: list[tuple[float, float, float]] = []
        best: tuple[float, FloatArray, FloatArray] | None = None
        lowest = W
        smooth = Smoothed.build(form.losses, FIRST_STEP)
        evaluations, accuracy, status = 0, 3e-2, Status.ITERATION_LIMIT
        while evaluations < self.max_iter:
            left = self.max_iter - evaluations
            W, eta, used, ended = self._solve(
                sweep, newton, smooth.losses, W, eta, budget.replace(tol=accuracy * budget.tol),
                min(ROUND if form.n <= 2 * SUBSAMPLE else LARGE_ROUND, left))
            evaluations += used
            norms = form.lengths(W)
            a = np.maximum(curvatures(form, norms, smooth.losses), lowest_curvatures(form))
            gram = None if is_wide(form) else weighted_gram(form, a)
            certificate = repair_weight_lift(form, W, a, eta, gram)
            value = feasible_value(form, W, norms)
            trace.append((time.perf_counter() - began, value, certificate.bound))
            if value <= min(t[1] for t in trace):
                lowest = W
            if best is None or certificate.bound > best[0]:
                best = (certificate.bound, a, eta)
            stop = budget.report("burer-monteiro", evaluations, value, best[0])
            if min(t[1] for t in trace) - best[0] <= budget.tol * abs(value):
                status = Status.OPTIMAL
                break
            if stop or ended is Status.TIME_LIMIT or budget.expired:
                status = Status.INTERRUPTED if stop else Status.TIME_LIMIT
                break
            progress = best[0] - max((t[2] for t in trace[:-PATIENCE]), default=-np.inf)
            if progress <= 0.02 * budget.tol * abs(value):
                status = Status.INACCURATE
                break
            if ended is not Status.ITERATION_LIMIT:
                accuracy = max(0.1 * accuracy, 1e-9 / budget.tol)
            smooth, _ = smooth.advance(norms)
            if len(trace) % 8 == 0:
                smooth = smooth.sharpen(0.3)
            W = self._grow(form, smooth.losses, W, leading(form, a, eta, gram), norms)
            newton.fit(W.shape[1])
        assert best is not None
        return RawSolution(status, {"W": lowest, "a": best[1], "eta": best[2]}, objective=min(t[1] for t in trace),
                           iterations=evaluations, trace=tuple(trace),
                           seconds={"compile": 0.0, "solve": time.perf_counter() - began})

    # -- one smooth problem -------------------------------------------------------------------------

    def _solve(self, sweep: Sweep, newton: QuasiNewton, losses: Losses, W: FloatArray, eta: FloatArray,
               budget: Budget, most: int) -> tuple[FloatArray, FloatArray, int, Status]:
        """Return the minimiser over W, with multipliers of decision bounds by an augmented Lagrangian."""
        form = sweep.form
        used, ended = 0, Status.CONVERGED
        penalty = 1.0 / form.n if form.decision else 0.0
        for _ in range(25 if form.decision else 1):
            oracle = partial(value_and_gradient, sweep, losses, eta=eta, penalty=penalty)
            done = newton.descend(oracle, W, budget, budget.tol, most - used)
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
        return W, eta, used, ended

    def _start(self, form: WeightLiftForm, p: int, start: RawSolution | None, budget: Budget, gather: Sum,
               newton: QuasiNewton) -> tuple[FloatArray, FloatArray]:
        eta = np.zeros(len(form.decision))
        if start is not None and start.get("W") is not None and len(start["W"]) == form.order:
            W = np.array(start["W"])
            if np.any(form.outputs(W)):  # zero is stationary
                return W, np.asarray(start.get("eta", eta))
        rng = np.random.default_rng(self.seed)
        if form.n > 2 * SUBSAMPLE:
            size = max(SUBSAMPLE, form.n // SHRINK)
            small = subsample(form, np.sort(rng.choice(form.n, size, replace=False)))
            inner = replace(self, max_iter=200)._run(
                small, budget.replace(tol=max(0.5 * budget.tol, 1e-3), callback=None), None, gather, newton)
            W = np.array(inner["W"])
            newton.fit(W.shape[1])  # the lowest point may be narrower than the last one
            return W, np.asarray(inner["eta"])
        W = rng.standard_normal((form.order, p))
        norms = form.lengths(W)
        return W / max(float(np.median(norms)), 1e-300), eta

    def _grow(self, form: WeightLiftForm, losses: Losses, W: FloatArray, found: tuple[FloatArray, FloatArray],
              norms: FloatArray) -> FloatArray:
        """Append the directions in which Σ aφφᵀ exceeds the identity, as long as pays most at the lengths s (n,)."""
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
            size = max(best_length(form, losses, new, norms), size / float(np.linalg.norm(new, axis=0).max()))
        return np.column_stack([W, size * new])


def leading(form: WeightLiftForm, a: FloatArray, eta: FloatArray,
            gram: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues and vectors of Σ aφφᵀ − Σ ησσᵀ, ascending; without the matrix the greatest `GROWTH`.

    Parameters
    ----------
    form : WeightLiftForm
    a : (n,), eta : (L,) float arrays
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
    form : WeightLiftForm
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
    found = minimize_scalar(value, bounds=(0.0, most), method="bounded", options={"xatol": 1e-3 * most, "maxiter": 12})
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
        ratios = np.sqrt(limits / np.maximum(bound_values(form, W), 1e-300))
        if np.any(ratios < 1.0 - 1e-6):
            factor = float(min(1.0, ratios.min()))
    penalised = W[:-1] if form.free_bias else W
    return 0.5 * factor**2 * float(np.sum(penalised**2)) + form.losses.value(factor * norms)


def subsample(form: WeightLiftForm, index: FloatArray) -> WeightLiftForm:
    """Return the form on some points, weights scaled so that the total stays the same."""
    position = np.full(form.n, -1)
    position[index] = np.arange(len(index))
    factor = form.n / len(index)
    terms = []
    for term in form.losses.terms:
        keep = position[term.points] >= 0
        terms.append(LossTerm(term.loss, position[term.points][keep], term.weights[keep] * factor, term.slopes[keep],
                              term.shifts[keep], term.coupling[keep]))
    decision = tuple(replace(bound, weights=bound.weights[index] * factor) for bound in form.decision)
    return WeightLiftForm(form.features.take(index), Losses(len(index), tuple(terms), form.losses.scalars),
                          decision=decision, free_bias=form.free_bias)
