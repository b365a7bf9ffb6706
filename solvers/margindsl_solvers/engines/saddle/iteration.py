"""Composite mirror prox and mirror descent: entropy on μ, the conjugates' own prox on u, adaptive steps, restarts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from margindsl.typing import FloatArray
from margindsl_solvers.engines.saddle.model import Point, SaddleModel

Advance = Callable[..., tuple[Point, Point, float]]  # (model, point, steps) -> point to average, next, step
FLOOR = 1e-14  # least relative mass, so that a labelling written off can return


@dataclass
class Steps:
    """Hold the step η and the weight ω: μ moves by η ω, x by η/ω.

    Parameters
    ----------
    step, weight : float
    """

    step: float
    weight: float


def move(model: SaddleModel, centre: Point, at: Point, steps: Steps) -> tuple[FloatArray, FloatArray]:
    """Return the prox-mapping of the centre along the operator at a point.

    μ ∝ μ₀ exp(ηω ½‖v_k‖²), x = prox_{τρ*}(x₀ + τ(aγ + d)) with τ = η/ω.
    """
    tau, sigma = steps.step / steps.weight, steps.step * steps.weight
    logits = np.log(np.maximum(centre.mu, FLOOR)) + 0.5 * sigma * at.norms
    mu = np.exp(logits - logits.max())
    mu = np.maximum(mu / mu.sum(), FLOOR)
    return mu / mu.sum(), model.prox(centre.x + tau * at.arguments, tau)


def divergence(model: SaddleModel, a: tuple[FloatArray, FloatArray], b: tuple[FloatArray, FloatArray],
               steps: Steps) -> float:
    """Return the weighted Bregman distance KL(a, b)/ω + ω‖Δx‖²_c/2."""
    kl = float(a[0] @ np.log(np.maximum(a[0], FLOOR) / np.maximum(b[0], FLOOR)))
    return max(kl, 0.0) / steps.weight + 0.5 * steps.weight * float(model.weights @ (a[1] - b[1]) ** 2)


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
        mu, x = move(model, centre, half, steps)
        change = -0.5 * float((half.norms - centre.norms) @ (half.mu - mu))
        change -= float((model.weights * (half.arguments - centre.arguments)) @ (half.x - x))
        bound = divergence(model, (half.mu, half.x), (centre.mu, centre.x), steps)
        bound += divergence(model, (mu, x), (half.mu, half.x), steps)
        used = steps.step
        slack = 1e-13 * float(half.norms.max())
        if used * change <= bound + used * slack or used < 1e-200:
            # Grow faster when far from the limit.
            steps.step *= grow if used * change <= 0.7 * bound else 1.0
            return half, model.evaluate(mu, x), used
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
        mu, x = move(model, centre, centre, steps)
        found = model.evaluate(mu, x)
        change = 0.5 * abs(float((found.norms - centre.norms) @ (mu - centre.mu)))
        change += abs(float((model.weights * (found.arguments - centre.arguments)) @ (x - centre.x)))
        bound = divergence(model, (mu, x), (centre.mu, centre.x), steps)
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
        The numbers of labellings and rows.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        self.mass = 0.0
        self.mu, self.x = np.zeros(size[0]), np.zeros(size[1])

    def add(self, point: Point, step: float) -> None:
        """Add a half point."""
        self.add_pair(point.mu, point.x, step)

    def add_pair(self, mu: FloatArray, x: FloatArray, step: float) -> None:
        """Add a pair (μ, x)."""
        self.mass += step
        self.mu += (step / self.mass) * (mu - self.mu)
        self.x += (step / self.mass) * (x - self.x)
