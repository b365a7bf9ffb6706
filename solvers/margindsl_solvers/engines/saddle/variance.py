"""Mirror prox with variance reduction: full gradients at an anchor, one labelling at every step."""

from __future__ import annotations

import math

import numpy as np

from margindsl.contract import Budget
from margindsl.typing import FloatArray
from margindsl_solvers.engines.saddle.model import Point, SaddleModel
from margindsl_solvers.engines.saddle.run import LEAST_MASS, RANGE, Iterate, SaddleCourse, Steps, first_steps
from margindsl_solvers.engines.saddle.sampling import draw, mixed

WORSE, SHRINK, GROW = 1.5, 0.5, 1.2  # of the anchor's gap over one epoch, and what it does to the step

REWEIGHT = 0.1  # of the primal weight at an epoch, in the logarithm


class AnchoredGradient:
    """Estimate (‖v_k‖²)_k and aγ + d from their values at an anchor and one labelling j ~ q.

    ‖v_k‖² ≈ anchor + e_j(‖v_j(x)‖² − anchor)/q_j, aγ ≈ anchor + a y_j∘Φ(μ_jv_j(x) − anchor)/q_j, where q follows
    the anchor's μ_k‖v_k‖; unbiased, and exact at the anchor.
    """

    def __init__(self, model: SaddleModel, anchor: Point) -> None:
        self.model, self.anchor = model, anchor
        self.law = mixed(anchor.mu * np.sqrt(anchor.norms))

    def __call__(self, met: Iterate, j: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        model, anchor, q = self.model, self.anchor, float(self.law[j])
        mu, x, s = met
        v = model.direction(model.losses.scatter(-model.weights * x), j)
        norms = anchor.norms.copy()
        norms[j] += (float(v @ v) - norms[j]) / q
        change = (mu[j] * v - anchor.mu[j] * anchor.directions[j]) / q
        arguments = anchor.arguments + model.losses.at_rows(model.margin(change, j))
        if not len(s):
            return norms, arguments, anchor.slack
        slack = model.costs + model.coupling.T @ (model.weights * x)
        return norms, arguments + model.coupling @ (s - anchor.scalars), slack


class AnchoredRun(SaddleCourse):
    """Run mirror prox with variance reduction (Alacaoglu and Malitsky 2022, Algorithm 2) with an adaptive step.

    Every epoch of K = |B| steps begins with the full gradient at the anchor, the mean of the last epoch. Half and
    full step start from the centre α z + (1 − α) z̄ (in the mirror coordinates), α = 1 − 1/K.

    `start`: the first (μ, x, s); `weight`: fixed weight of the step in μ against that in x; None adapts it.
    """

    stage = "mirror prox, variance reduced"

    def __init__(self, model: SaddleModel, budget: Budget, *, rng: np.random.Generator, start: Iterate,
                 weight: float | None = None) -> None:
        super().__init__(model, budget)
        self.start, self.rng, self.fixed_weight = start, rng, weight
        self.epoch = max(model.count, 8)

    def init(self) -> None:
        self.anchor = self._judge(*self.start)
        first = first_steps(self.model, self.anchor, self.fixed_weight)
        self.steps = Steps(first.step / math.sqrt(self.epoch), first.weight, first.metric)
        self.weight_range = first.weight * RANGE[0], first.weight * RANGE[1]
        self.z = self.mean = mirrored(self.start)

    def step(self) -> None:
        gradient, alpha = AnchoredGradient(self.model, self.anchor), 1.0 - 1.0 / self.epoch
        z, mean, met_mean = self.z, Iterate(*map(np.zeros_like, self.z)), Iterate(*map(np.zeros_like, self.z))
        for k in range(self.epoch):
            centre = mixture(z, self.mean, 1.0 - alpha)
            half = self._move(centre, self.anchor.norms, self.anchor.arguments, self.anchor.slack)
            met = half._replace(mu=np.exp(half.mu))
            z = self._move(centre, *gradient(met, draw(gradient.law, self.rng)))
            mean, met_mean = mixture(mean, z, 1.0 / (k + 1)), mixture(met_mean, met, 1.0 / (k + 1))
            self.iterations += 1
            if self.iterations >= self.max_iter or self.budget.expired:
                break
        # Back to the best point with a shorter step, or on from the epoch's end
        found, steps = self._judge(*met_mean), self.steps
        if found.gap > WORSE * self.best.gap or not np.isfinite(found.gap):
            steps.step *= SHRINK
            self.anchor, self.z = self.best, mirrored(self.best)
            self.mean = self.z
            return
        if found.gap < 0.9 * self.anchor.gap:
            steps.step *= GROW
        # The primal weight balances the distances travelled by μ and x over the epoch
        far = float(np.abs(found.mu - self.anchor.mu).sum()), math.sqrt(
            float(self.model.weights @ (found.x - self.anchor.x) ** 2))
        if min(far) > 1e-12 and self.fixed_weight is None:
            weight = (far[0] / far[1]) ** REWEIGHT * steps.weight ** (1 - REWEIGHT)
            steps.weight = min(max(weight, self.weight_range[0]), self.weight_range[1])
        self.anchor, self.z, self.mean = found, z, mean

    def _move(self, centre: Iterate, norms: FloatArray, arguments: FloatArray, slack: FloatArray) -> Iterate:
        """Return (log μ, x, s), the prox-mapping along given gradients."""
        tau, sigma = self.steps.step / self.steps.weight, self.steps.step * self.steps.weight
        logits = centre.mu + 0.5 * sigma * norms
        logits = logits - logits.max()
        logits = np.maximum(logits - math.log(float(np.exp(logits).sum())), math.log(LEAST_MASS))
        s = centre.scalars - sigma * slack / self.steps.metric if len(slack) else centre.scalars
        return Iterate(logits, self.model.prox(centre.x + tau * arguments, tau),
                       np.where(self.model.losses.scalars.nonneg, np.maximum(s, 0.0), s))

    def _judge(self, mu: FloatArray, x: FloatArray, scalars: FloatArray) -> Point:
        return self.judge(mu / mu.sum(), x, scalars)


def mirrored(point: Point | Iterate) -> Iterate:
    """Return (log μ, x, s)."""
    return Iterate(np.log(np.maximum(point.mu, LEAST_MASS)), point.x, point.scalars)


def mixture(a: Iterate, b: Iterate, share: float) -> Iterate:
    """Return a + share (b − a)."""
    return Iterate(*(one + share * (other - one) for one, other in zip(a, b)))
