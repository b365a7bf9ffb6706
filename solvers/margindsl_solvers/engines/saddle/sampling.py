"""Sampled gradients of the saddle problem and the published stochastic methods built on them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from margindsl.calculus import PLQ
from margindsl.contract import Budget, RawSolution
from margindsl.typing import FloatArray
from margindsl_solvers.engines.saddle.box import BoxModel, TheoremSteps
from margindsl_solvers.engines.saddle.run import SaddleCourse, starting_pair

MIX = 0.2  # share of the uniform law in an adaptive one
COMPILED = 5e8  # multiply-adds of a run from which steps are compiled: interpreted, these take about a second
INTERPRETED = 5e5  # multiply-adds that take as long as what surrounds the products of an interpreted step
KERNEL = "margindsl_solvers.engines.saddle.kernel"
COMPILING = 10.0  # seconds that compiling may take, once on a machine
MOMENT = 3e7  # multiply-adds between two looks at the clock


def label_gradient(box: BoxModel, u: FloatArray, i: int, j: int) -> tuple[FloatArray, FloatArray]:
    """Return the estimates of (∂_μφ, ∂_uφ), φ = Σ μ_k G(u, y_k), at labellings i and j (ODMC and ssODM, Algorithm 1).

    ∂_μ: |B| G(u, y_i) in place i; ∂_u: ∂_uG(u, y_j). They are unbiased for i uniform, j ~ μ.
    """
    model, scatter = box.model, box.losses.scatter(u)
    second = model.direction(scatter, j)
    v = second if i == j else model.direction(scatter, i)
    first = np.zeros(model.count)
    first[i] = model.count * (box.linear(u) - 0.5 * float(v @ v))
    return first, box.linear_slope(u) - box.losses.at_rows(model.margin(second, j))


def draw(law: FloatArray, rng: np.random.Generator) -> int:
    """Return an index drawn from a law given up to its sum."""
    total = np.cumsum(law)
    return min(int(np.searchsorted(total, rng.random() * total[-1], side="right")), len(law) - 1)


def mixed(mass: FloatArray) -> FloatArray:
    """Return the law proportional to non-negative masses, mixed with the uniform one."""
    total, size = float(mass.sum()), len(mass)
    return (1.0 - MIX) * mass / total + MIX / size if total > 0 else np.full(size, 1.0 / size)


def descent(box: BoxModel, steps: TheoremSteps, mu: FloatArray, u: FloatArray,
            gradient: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return the mirror-descent step μ ∝ μ exp(−ηg/a), u = Π(u + ηg/b)."""
    logits = np.log(np.maximum(mu, 1e-300)) - steps.eta / steps.a * gradient[0]
    new = np.exp(logits - logits.max())
    return new / new.sum(), box.project(u + steps.eta / steps.b * gradient[1])


def start_in(box: BoxModel, start: RawSolution | None) -> tuple[FloatArray, FloatArray] | None:
    """Return the (μ, u) of a warm start moved into the box, None without one."""
    if start is None:
        return None
    mu, x, _ = starting_pair(box.model, start)
    return mu, box.project(-box.model.weights * x)


def compiled_steps(box: BoxModel) -> Callable[..., None] | None:
    """Return the compiled steps on a box; None where numba is missing or a form is not of the kind they take.

    They take features in memory, two clusters and piecewise quadratic losses.
    """
    model, losses = box.model, box.losses
    if model.matrix is None or model.width > 1 or not all(isinstance(conjugate, PLQ) for conjugate in model.conjugates):
        return None
    try:
        kernel = importlib.import_module(KERNEL)
    except ImportError:
        return None
    tables: list[Any] = model.conjugates
    first = np.concatenate([[0], np.cumsum([len(table.breakpoints) for table in tables])]).astype(np.int64)
    Phi, labels = np.ascontiguousarray(model.matrix, dtype=float), model.labels
    if not losses.is_identity:  # a row takes its point's features, by its slope
        Phi, labels = losses.slopes[:, None] * Phi[losses.points], np.ascontiguousarray(labels[:, losses.points])
    arrays = (Phi, labels, model.weights,
              np.asarray(losses.shifts, dtype=float),
              np.repeat(np.arange(len(tables)), [term.rows for term in losses.terms]), first,
              np.concatenate([table.breakpoints for table in tables]).astype(float),
              np.vstack([pieces_of(table) for table in tables]), np.array([table.domain for table in tables], float))

    def run(draws: FloatArray, done: int, rate: float, length: float, *state: FloatArray) -> None:
        kernel.sweep(draws, done, rate, length, *state, *arrays)

    return run


def pieces_of(function: PLQ) -> FloatArray:
    """Return a row (a, f(a), f'(a), f''/2) for every piece: from the point a on it has this Taylor series."""
    low, high = function.domain
    knots = np.asarray(function.breakpoints, dtype=float)
    inner = min(high, 0.0) if not len(knots) else knots[0] - 1.0
    a = np.append(low if np.isfinite(low) else inner, knots)
    value, slope = function.value_and_derivative(a)
    return np.column_stack([a, value, slope, np.asarray(function.curvature(a)) / 2.0])


class StochasticRun(SaddleCourse):
    """Run Algorithm 1 of ODMC (mirror descent) or of ssODM (mirror prox): fixed steps, averaging, duality gap.

    `budget`: its cap is the number T of iterations the steps are made for; `extra`: whether each iteration takes the
    second gradient of mirror prox; `start`: the first (μ, u); None takes the papers' uniform μ and u = 0.
    """

    stage = "stochastic"

    def __init__(self, box: BoxModel, steps: TheoremSteps, budget: Budget, *, rng: np.random.Generator, extra: bool,
                 start: tuple[FloatArray, FloatArray] | None = None) -> None:
        model = box.model
        super().__init__(model, budget)
        self.box, self.steps, self.rng, self.extra = box, steps, rng, extra
        self.mu: FloatArray = np.full(model.count, 1.0 / model.count) if start is None else start[0].copy()
        self.u: FloatArray = np.zeros(box.losses.rows) if start is None else start[1].copy()
        self.mean_mu, self.mean_u = np.zeros(model.count), np.zeros(box.losses.rows)
        # One gap costs a full gradient, that is about T sampled ones.
        self.check, self.due = max(8, 2 * model.count), 8
        work = min(self.max_iter, 1e9) * (model.form.n * model.form.features.rank + INTERPRETED)
        ready = KERNEL in sys.modules or budget.remaining > COMPILING
        self.compiled = compiled_steps(box) if work > COMPILED and ready else None

    def init(self) -> None:
        self.judge(self.mu.copy(), self.box.scaled(self.u))

    def step(self) -> None:
        model, steps = self.box.model, self.steps
        most = max(int(MOMENT / (model.form.n * model.form.features.rank)), 1)
        while True:
            if self.compiled is None:
                self._iterate()
            else:  # no more steps than are due and than a moment allows
                count = min(max(int(min(self.due, self.max_iter)) - self.iterations, 1), most)
                self.compiled(self.rng.random((count, 2 if self.extra else 1, 2)), self.iterations, steps.eta / steps.a,
                              steps.eta / steps.b, self.mu, self.u, self.mean_mu, self.mean_u, self.box.lower,
                              self.box.upper)
                self.iterations += count
            if self.iterations >= min(self.due, self.max_iter) or self.budget.expired:
                break
        self.judge(self.mean_mu.copy(), self.box.scaled(self.mean_u))  # both go on changing in place
        self.judge(self.mu.copy(), self.box.scaled(self.u))
        self.due = self.iterations + max(self.check, self.iterations // 16)

    def _iterate(self) -> None:
        centre = self.mu, self.u
        half = descent(self.box, self.steps, *centre, self._gradient(*centre))
        if self.extra:
            self.mu, self.u = descent(self.box, self.steps, *centre, self._gradient(*half))
            met = half
        else:
            (self.mu, self.u), met = half, centre
        self.iterations += 1
        self.mean_mu += (met[0] - self.mean_mu) / self.iterations
        self.mean_u += (met[1] - self.mean_u) / self.iterations

    def _gradient(self, mu: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        i = min(int(self.rng.random() * len(mu)), len(mu) - 1)
        return label_gradient(self.box, u, i, draw(mu, self.rng))
