"""Composite mirror prox and mirror descent: entropy on μ, the conjugates' own prox on u, adaptive steps, restarts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from margindsl.typing import FloatArray
from margindsl_solvers.engines.saddle.model import Point, SaddleModel

Place = tuple[FloatArray, FloatArray, FloatArray]  # (μ, x, s)
Advance = Callable[..., tuple[Point, Point, float]]  # (model, point, steps) -> point to average, next, step
FLOOR = 1e-14  # least relative mass, so that a labelling written off can return


@dataclass
class Steps:
    """Hold the step η and the weight ω: μ moves by η ω, x by η/ω, shared scalars by η ω/e.

    Parameters
    ----------
    metric : (S,) float array
        e, the lengths of the scalars' coordinates.
    """

    step: float
    weight: float
    metric: FloatArray = field(default_factory=lambda: np.zeros(0))


def move(model: SaddleModel, centre: Point, at: Point, steps: Steps) -> Place:
    """Return the prox-mapping of the centre along the operator at a point.

    μ ∝ μ₀ exp(ηω(½‖v_k‖² + b_k y_kᵀũ)), x = prox_{τρ*}(x₀ + τ(aγ + Bs + d)) with τ = η/ω, s = s₀ − (ηω/e)(q − Bᵀu).
    """
    tau, sigma = steps.step / steps.weight, steps.step * steps.weight
    logits = np.log(np.maximum(centre.mu, FLOOR)) + sigma * at.costs
    mu = np.exp(logits - logits.max())
    mu = np.maximum(mu / mu.sum(), FLOOR)
    s = centre.scalars - sigma * at.slack / steps.metric if len(centre.scalars) else centre.scalars
    return (mu / mu.sum(), model.prox(centre.x + tau * at.arguments, tau),
            np.where(model.losses.scalars.nonneg, np.maximum(s, 0.0), s))


def divergence(model: SaddleModel, a: Place, b: Place, steps: Steps) -> float:
    """Return the weighted Bregman distance KL(a, b)/ω + ω‖Δx‖²_c/2 + ‖Δs‖²_e/2ω."""
    kl = float(a[0] @ np.log(np.maximum(a[0], FLOOR) / np.maximum(b[0], FLOOR)))
    far = 0.5 * float(steps.metric @ (a[2] - b[2]) ** 2) if len(a[2]) else 0.0
    return (max(kl, 0.0) + far) / steps.weight + 0.5 * steps.weight * float(model.weights @ (a[1] - b[1]) ** 2)


def place(point: Point) -> Place:
    """Return (μ, x, s) of a point."""
    return point.mu, point.x, point.scalars


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
        mu, x, s = move(model, centre, half, steps)
        change = -float((half.costs - centre.costs) @ (half.mu - mu))
        change -= float((model.weights * (half.arguments - centre.arguments)) @ (half.x - x))
        change += float((half.slack - centre.slack) @ (half.scalars - s))
        bound = divergence(model, place(half), place(centre), steps)
        bound += divergence(model, (mu, x, s), place(half), steps)
        used = steps.step
        slack = 1e-13 * float(half.norms.max())
        if used * change <= bound + used * slack or used < 1e-200:
            # Grow faster when far from the limit.
            steps.step *= grow if used * change <= 0.7 * bound else 1.0
            return half, model.evaluate(mu, x, s), used
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
        bound = divergence(model, place(found), place(centre), steps)
        used, slack = steps.step, 1e-13 * float(centre.norms.max())
        if used * change <= bound + used * slack or used < 1e-200:
            steps.step *= grow if used * change <= 0.7 * bound else 1.0
            return centre, found, used
        steps.step *= shrink


class Average:
    """Hold the step-weighted mean of the half points since the last restart.

    Parameters
    ----------
    size : tuple of int
        The numbers of labellings, rows and, where there are any, scalars.
    """

    def __init__(self, size: tuple[int, ...]) -> None:
        self.mass = 0.0
        self.mu, self.x, self.scalars = (np.zeros(length) for length in (*size, 0)[:3])

    def add(self, point: Point, step: float) -> None:
        """Add a half point."""
        self.mass += step
        self.mu += (step / self.mass) * (point.mu - self.mu)
        self.x += (step / self.mass) * (point.x - self.x)
        self.scalars += (step / self.mass) * (point.scalars - self.scalars)
