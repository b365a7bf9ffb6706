"""Mirror prox with variance reduction: full gradients at an anchor, one labelling at every step."""

from __future__ import annotations

import math

import numpy as np

from margindsl.contract import Budget
from margindsl.typing import FloatArray
from margindsl_solvers.engines.saddle.iteration import FLOOR, Average, Steps
from margindsl_solvers.engines.saddle.model import Point, SaddleModel
from margindsl_solvers.engines.saddle.run import RANGE, SaddleCourse, first_steps
from margindsl_solvers.engines.saddle.sampling import draw, mixed

WORSE, SHRINK, GROW = 1.5, 0.5, 1.2  # of the anchor's gap over one epoch, and what it does to the step

REWEIGHT = 0.1  # of the primal weight at an epoch, in the logarithm


class AnchoredGradient:
    """Estimate (‖v_k‖²)_k and aγ + d from their values at an anchor and one labelling j ~ q.

    ‖v_k‖² ≈ anchor + e_j(‖v_j(x)‖² − anchor)/q_j, aγ ≈ anchor + a y_j∘Φ(μ_jv_j(x) − anchor)/q_j, where q follows
    the anchor's μ_k‖v_k‖; unbiased, and exact at the anchor.

    Parameters
    ----------
    model : SaddleModel
    anchor : Point
    """

    def __init__(self, model: SaddleModel, anchor: Point) -> None:
        self.model, self.anchor = model, anchor
        self.law = mixed(anchor.mu * np.sqrt(anchor.norms))

    def __call__(self, mu: FloatArray, x: FloatArray, j: int) -> tuple[FloatArray, FloatArray]:
        """Return the estimates for a given index."""
        model, anchor, q = self.model, self.anchor, float(self.law[j])
        v = model.direction(model.losses.spread(-model.weights * x), j)
        norms = anchor.norms.copy()
        norms[j] += (float(v @ v) - norms[j]) / q
        change = (mu[j] * v - anchor.mu[j] * anchor.directions[j]) / q
        return norms, anchor.arguments + model.losses.gather(model.margin(change, j))


class AnchoredRun(SaddleCourse):
    """Run mirror prox with variance reduction (Alacaoglu and Malitsky 2022, Algorithm 2) with an adaptive step.

    Every epoch of K = |B| steps begins with the full gradient at the anchor, the mean of the last epoch. Half and
    full step start from the centre α z + (1 − α) z̄ (in the mirror coordinates), α = 1 − 1/K.

    Parameters
    ----------
    model : SaddleModel
    budget : Budget
    rng : numpy.random.Generator
    start : tuple of arrays
        The first (μ, x).
    """

    stage = "mirror prox, variance reduced"

    def __init__(self, model: SaddleModel, budget: Budget, *, rng: np.random.Generator,
                 start: tuple[FloatArray, FloatArray]) -> None:
        super().__init__(model, budget)
        self.start, self.rng = start, rng
        self.epoch = max(model.count, 8)

    def init(self) -> None:
        """Judge the start and choose steps at its scales."""
        self.anchor = self._judge(*self.start)
        first = first_steps(self.model, self.anchor, None)
        self.steps = Steps(first.step / math.sqrt(self.epoch), first.weight)
        self.weight_range = first.weight * RANGE[0], first.weight * RANGE[1]
        self.z = self.mean = (np.log(np.maximum(self.start[0], FLOOR)), self.start[1])

    def step(self) -> None:
        """Take an epoch."""
        gradient, alpha = AnchoredGradient(self.model, self.anchor), 1.0 - 1.0 / self.epoch
        average = Average((self.model.count, len(self.z[1])))
        z, mean = self.z, (np.zeros(self.model.count), np.zeros(len(self.z[1])))
        for k in range(self.epoch):
            centre = tuple(alpha * a + (1.0 - alpha) * b for a, b in zip(z, self.mean))
            half = self._move(centre, self.anchor.norms, self.anchor.arguments)
            met = np.exp(half[0]), half[1]
            z = self._move(centre, *gradient(*met, draw(gradient.law, self.rng)))
            mean = mean[0] + (z[0] - mean[0]) / (k + 1), mean[1] + (z[1] - mean[1]) / (k + 1)
            average.add_pair(*met, 1.0)
            self.iterations += 1
            if self.iterations >= self.max_iter or self.budget.expired:
                break
        self._adopt(self._judge(average.mu, average.x), z, mean)

    def _adopt(self, found: Point, z: tuple[FloatArray, FloatArray], mean: tuple[FloatArray, FloatArray]) -> None:
        """Go on from the epoch's end, or back to the best point with a shorter step."""
        if found.gap > WORSE * self.best.gap or not np.isfinite(found.gap):
            self.steps.step *= SHRINK
            self.anchor = self.best
            self.z = self.mean = np.log(np.maximum(self.best.mu, FLOOR)), self.best.x
            return
        if found.gap < 0.9 * self.anchor.gap:
            self.steps.step *= GROW
        self._reweigh(found)
        self.anchor, self.z, self.mean = found, z, mean

    def _reweigh(self, found: Point) -> None:
        """Balance the distances travelled by μ and x over the epoch."""
        travelled = float(np.abs(found.mu - self.anchor.mu).sum()), math.sqrt(
            float(self.model.weights @ (found.x - self.anchor.x) ** 2))
        if min(travelled) > 1e-12:
            weight = (travelled[0] / travelled[1])**REWEIGHT * self.steps.weight ** (1 - REWEIGHT)
            self.steps.weight = min(max(weight, self.weight_range[0]), self.weight_range[1])

    def _move(self, centre: tuple[FloatArray, ...], norms: FloatArray,
              arguments: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (log μ, x), the prox-mapping along given gradients."""
        tau, sigma = self.steps.step / self.steps.weight, self.steps.step * self.steps.weight
        logits = centre[0] + 0.5 * sigma * norms
        logits = logits - logits.max()
        logits = np.maximum(logits - math.log(float(np.exp(logits).sum())), math.log(FLOOR))
        return logits, self.model.prox(centre[1] + tau * arguments, tau)

    def _judge(self, mu: FloatArray, x: FloatArray) -> Point:
        return self.judge(mu / mu.sum(), x)
