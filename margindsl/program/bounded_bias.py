"""A free bias that bounds on decision values hold: features about another centre, a bias in an interval.

With c = Φᵀa / Σa decision values are f_i = ⟨w, φ_i − c⟩ + t, and Σ a f = (Σa) t: a bound on the sum is one on t alone.
The bias of the declaration is t − ⟨w, c⟩.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from margindsl.accuracy import rounding
from margindsl.features import FeatureOperator, ShiftedFeatures
from margindsl.program.bounds import DecisionBound
from margindsl.typing import FloatArray


@dataclass(frozen=True)
class Interval:
    """Represent low ≤ t ≤ high."""

    low: float
    high: float

    @property
    def is_finite(self) -> bool:
        """Return whether both ends are."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    @property
    def reach(self) -> float:
        """Return the greatest |t|."""
        return max(abs(self.low), abs(self.high))

    @property
    def is_symmetric(self) -> bool:
        """Return whether −t is within the limits with every t."""
        return self.low == -self.high

    def support(self, sums: FloatArray) -> FloatArray:
        """Return max {t s : low ≤ t ≤ high} for every s."""
        return np.maximum(self.low * sums, self.high * sums)

    def end(self, total: float) -> float:
        """Return the t of that maximum."""
        return self.high if total > 0 else self.low

    @property
    def ends(self) -> tuple[float, ...]:
        """Return the limits, once where they are equal."""
        return (self.low,) if self.low == self.high else (self.low, self.high)


NO_BIAS = Interval(0.0, 0.0)


def sum_vanishes(features: FeatureOperator, weights: FloatArray) -> bool:
    """Return whether Φᵀa is what rounding leaves of a sum that is zero."""
    return bool(np.all(np.abs(features.adjoint(weights)) <= rounding(features.magnitudes(weights), features.n)))


def moves_with_bias(weights: FloatArray) -> bool:
    """Return whether Σ a is not zero, so that Σ a f moves with a bias."""
    return bool(abs(np.sum(weights)) > rounding(np.abs(weights).sum(), len(weights)))


def holder(bounds: Sequence[DecisionBound]) -> int | None:
    """Return the place of the narrowest of bounds `lower` ≤ Σ a f ≤ `upper` that hold a bias, None without one."""
    widths = {place: (b.upper - b.lower) / abs(float(b.weights.sum())) for place, b in enumerate(bounds)
              if moves_with_bias(b.weights) and np.isfinite(b.upper - b.lower)}
    return min(widths, key=lambda place: widths[place]) if widths else None


def centred_by(features: FeatureOperator, bounds: tuple[DecisionBound, ...]) -> FeatureOperator:
    """Return features about the centre at which the narrowest bound that holds a bias is one on the bias alone.

    The features themselves where there is none, or they are about such a centre already.

    Parameters
    ----------
    features : FeatureOperator
    bounds : tuple of DecisionBound
    """
    place = holder(bounds)
    if place is None:
        return features
    weights = bounds[place].weights
    if sum_vanishes(features, weights):
        return features
    return ShiftedFeatures(features, features.adjoint(weights) / weights.sum())


def bias_limits(features: FeatureOperator, bounds: tuple[DecisionBound, ...]) -> tuple[Interval, list[bool]]:
    """Return the limits that bounds on the bias alone set to it, and which bounds are of that kind.

    Parameters
    ----------
    features : FeatureOperator
    bounds : tuple of DecisionBound
    """
    low, high, alone = -np.inf, np.inf, []
    for bound in bounds:
        alone.append(moves_with_bias(bound.weights) and sum_vanishes(features, bound.weights))
        if alone[-1]:
            ends = sorted(end / float(bound.weights.sum()) for end in (bound.lower, bound.upper))
            low, high = max(low, ends[0]), min(high, ends[1])
    return Interval(low, high), alone


__all__ = ["NO_BIAS", "Interval", "bias_limits", "centred_by", "holder", "moves_with_bias", "sum_vanishes"]
