"""A free bias that bounds on decision values hold: features about another centre, a bias in an interval.

With c = Φᵀa / Σa decision values are f_i = ⟨w, φ_i − c⟩ + t, and Σ a f = (Σa) t: a bound on the sum is one on t alone.
The bias of the declaration is t − ⟨w, c⟩.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from margindsl.calculus.accuracy import EPS, rounding
from margindsl.features import FeatureOperator
from margindsl.labelset.codes import differences
from margindsl.program.bounds import DecisionBound
from margindsl.typing import BoolArray, FloatArray


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
        """Return max {t s : low ≤ t ≤ high} for every s, on a last axis of one."""
        return np.maximum(self.low * sums, self.high * sums)[..., 0]


NO_BIAS = Interval(0.0, 0.0)


@dataclass(frozen=True, eq=False)
class BiasLimits:
    """Represent the biases β (q,) with |⟨c_p − c_q, β − middle⟩| ≤ width for every two of k codes.

    The corners have ⟨c_p, β⟩ higher by the width in some clusters than in the others.
    """

    codes: FloatArray  # (k, q), rows that sum to zero
    width: float
    middle: FloatArray  # (q,)

    @classmethod
    def of(cls, codes: FloatArray, limits: Interval) -> BiasLimits:
        """Return the limits where `differences` of codes times β are in an interval."""
        bounded, (low, high) = differences(codes)[0], (limits.low, limits.high)
        apart, middle = codes[0] - codes[1], np.zeros(codes.shape[1])
        if limits.is_finite and low != -high:  # of two clusters alone
            middle = bounded * (low + high) / 2
        return cls(codes, (high - low) / 2 * float(np.linalg.norm(apart) / np.linalg.norm(bounded)), middle)

    @property
    def is_finite(self) -> bool:
        """Return whether the width is."""
        return bool(np.isfinite(self.width))

    @property
    def reach(self) -> float:
        """Return the greatest ‖β‖: that of a corner with half of the clusters higher."""
        k = len(self.codes)
        square = float(np.sum(self.codes[0] ** 2)) * k / (k - 1)  # CᵀC = square I
        corner = self.width * float(np.sqrt((k // 2) * (k - k // 2) / k / square)) if self.width else 0.0
        return corner + float(np.linalg.norm(self.middle))

    def support(self, sums: FloatArray) -> FloatArray:
        """Return max ⟨β, s⟩ over the limits, s on the last axis."""
        heights, fixed = sums @ self.codes.T / float(np.sum(self.codes[:, 0] ** 2)), sums @ self.middle
        return self.width * np.maximum(heights, 0.0).sum(axis=-1) + fixed if self.width else np.asarray(fixed)

    def end(self, sums: FloatArray) -> FloatArray:
        """Return the β of that maximum, for s (q,)."""
        return self._corner(sums @ self.codes.T > 0)

    @property
    def ends(self) -> tuple[FloatArray, ...]:
        """Return a corner for every cluster, on whose side the others are not."""
        corners = tuple(self._corner(own) for own in np.eye(len(self.codes), dtype=bool))
        return corners if self.width else corners[:1]

    def _corner(self, high: BoolArray) -> FloatArray:
        return self.middle + self.width * (high @ self.codes) / float(np.sum(self.codes[:, 0] ** 2))


def summed(features: FeatureOperator, weights: FloatArray, sizes: FloatArray | None = None) -> FloatArray:
    """Return Φᵀa, its entries zero where they are what rounding leaves of sums that are zero.

    Parameters
    ----------
    sizes : (n,) float array, optional
        Of the parts that weights are sums of, where they cancel.
    """
    sums = features.adjoint(weights)
    parts = features.magnitudes(weights if sizes is None else sizes)
    return np.where(np.abs(sums) <= EPS * (8.0 + features.n) * parts, 0.0, sums)  # products may add one by one


def sum_vanishes(features: FeatureOperator, weights: FloatArray, sizes: FloatArray | None = None) -> bool:
    """Return whether Φᵀa is what rounding leaves of a sum that is zero; see `summed`."""
    return not np.any(summed(features, weights, sizes))


def moves_with_bias(weights: FloatArray, sizes: FloatArray | None = None) -> bool:
    """Return whether Σ a is not zero, so that Σ a f moves with a bias."""
    parts = np.abs(weights).sum() if sizes is None else np.sum(sizes)
    return bool(abs(np.sum(weights)) > rounding(parts, len(weights)))


def narrowest(bounds: Sequence[DecisionBound]) -> int | None:
    """Return the place of the narrowest of bounds `lower` ≤ Σ a f ≤ `upper` that hold a bias, None without one."""
    widths = {position: (b.upper - b.lower) / abs(float(b.weights.sum())) for position, b in enumerate(bounds)
              if moves_with_bias(b.weights) and np.isfinite(b.upper - b.lower)}
    return min(widths, key=lambda position: widths[position]) if widths else None


def centre_of(features: FeatureOperator, bounds: tuple[DecisionBound, ...]) -> FloatArray | None:
    """Return the centre (r,) about which the narrowest bound that holds a bias is one on the bias alone.

    None where no bound holds it, or features are about such a centre already.
    """
    position = narrowest(bounds)
    if position is None or sum_vanishes(features, bounds[position].weights):
        return None
    weights = bounds[position].weights
    return features.adjoint(weights) / float(weights.sum())


def bias_limits(features: FeatureOperator, bounds: tuple[DecisionBound, ...]) -> tuple[Interval, list[bool]]:
    """Return the limits that bounds on the bias alone set to it, and which bounds are of that kind."""
    low, high, alone = -np.inf, np.inf, []
    for bound in bounds:
        alone.append(moves_with_bias(bound.weights) and sum_vanishes(features, bound.weights))
        if alone[-1]:
            ends = sorted(end / float(bound.weights.sum()) for end in (bound.lower, bound.upper))
            low, high = max(low, ends[0]), min(high, ends[1])
    return Interval(low, high), alone
