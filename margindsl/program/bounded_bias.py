"""A free bias that bounds on decision values hold: features about another centre, a bias in an interval.

With c = Φᵀa / Σa decision values are f_i = ⟨w, φ_i − c⟩ + t, and Σ a f = (Σa) t: a bound on the sum is one on t alone.
The bias of the declaration is t − ⟨w, c⟩.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from margindsl.calculus import PLQ
from margindsl.calculus.accuracy import rounding
from margindsl.features import FeatureOperator
from margindsl.program.bounds import DecisionBound
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl.typing import BoolArray, FloatArray, IntArray


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

    def end(self, sums: FloatArray) -> FloatArray:
        """Return the t of that maximum."""
        return np.where(sums > 0, self.high, self.low)

    @property
    def ends(self) -> tuple[FloatArray, ...]:
        """Return the limits (1,), once where they are equal."""
        return tuple(np.array([end]) for end in sorted({self.low, self.high}))


NO_BIAS = Interval(0.0, 0.0)


@dataclass(frozen=True, eq=False)
class ClusterLimits:
    """Represent the biases β (q,) of k coded clusters with |⟨c_p − c_q, β⟩| ≤ width for every two of them.

    The corners have ⟨c_p, β⟩ higher by the width in some clusters than in the others.

    Parameters
    ----------
    codes : (k, q) float array
        Rows that sum to zero.
    """

    codes: FloatArray
    width: float

    is_symmetric = True

    @property
    def is_finite(self) -> bool:
        """Return whether the width is."""
        return bool(np.isfinite(self.width))

    @property
    def reach(self) -> float:
        """Return the greatest ‖β‖: that of a corner with half of the clusters higher."""
        return self.norm_of(self.codes, self.width)

    @staticmethod
    def norm_of(codes: FloatArray, width: float) -> float:
        """Return the greatest norm of a vector whose products with two codes differ by at most a width."""
        k = len(codes)
        square = float(np.sum(codes[0] ** 2)) * k / (k - 1)  # CᵀC = square I
        return width * float(np.sqrt((k // 2) * (k - k // 2) / k / square)) if width else 0.0

    def support(self, sums: FloatArray) -> FloatArray:
        """Return max ⟨β, s⟩ over the limits, s on the last axis."""
        heights = self._heights(sums)
        return self.width * np.maximum(heights, 0.0).sum(axis=-1) if self.width else np.zeros(heights.shape[:-1])

    def end(self, sums: FloatArray) -> FloatArray:
        """Return the β of that maximum, for s (q,)."""
        return self._corner(self._heights(sums) > 0)

    @property
    def ends(self) -> tuple[FloatArray, ...]:
        """Return a corner for every cluster, on whose side the others are not."""
        corners = tuple(self._corner(own) for own in np.eye(len(self.codes), dtype=bool))
        return corners if self.width else corners[:1]

    def inside(self, beta: FloatArray) -> FloatArray:
        """Return β shrunk into the limits."""
        spread = float(np.ptp(self.codes @ beta))
        return beta * min(1.0, self.width / spread) if spread > 0 else beta

    def pairs(self) -> FloatArray:
        """Return the rows c_p − c_q (k(k−1)/2, q)."""
        first, second = np.triu_indices(len(self.codes), 1)
        return np.asarray(self.codes[first] - self.codes[second])

    def _heights(self, sums: FloatArray) -> FloatArray:
        return np.asarray(sums @ self.codes.T) / float(np.sum(self.codes[:, 0] ** 2))

    def _corner(self, high: BoolArray) -> FloatArray:
        return self.width * (high @ self.codes) / float(np.sum(self.codes[:, 0] ** 2))


def limit_terms(losses: Losses, features: FeatureOperator, limits: ClusterLimits) -> tuple[LossTerm, ...]:
    """Return the losses that keep a bias, the last scalars beside those of some losses, within its limits."""
    if not limits.is_finite:
        return ()
    rows = np.column_stack([np.zeros((len(pairs := limits.pairs()), losses.scalars.count)), pairs])
    outside = PLQ.affine(1.0, -limits.width).positive_part() + PLQ.affine(-1.0, -limits.width).positive_part()
    zeros, steep = np.zeros(len(rows)), np.full(len(rows), slopes_within(losses, features, limits.width))
    return (LossTerm(outside, zeros.astype(int), steep, zeros, zeros, rows),)


def biased_losses(losses: Losses, limits: ClusterLimits, held: tuple[LossTerm, ...], clustering: IntArray) -> Losses:
    """Return losses of margins to which a bias ⟨c_{y_i}, β⟩ is added, β shared scalars, and those of its limits."""
    own, codes, q = losses.scalars, limits.codes, limits.codes.shape[1]
    terms = tuple(replace(term, coupling=np.column_stack(
        [term.coupling, term.slopes[:, None] * codes[clustering[term.points]]])) for term in losses.terms)
    names, symbols = (*own.names, *(f"bias {j}" for j in range(q))), (*own.symbols, *[None] * q)
    return Losses(losses.n, (*terms, *held), SharedScalars(np.append(own.costs, np.zeros(q)),
                                                 np.append(own.nonneg, np.zeros(q, dtype=bool)), names, symbols))


def slopes_within(losses: Losses, features: FeatureOperator, bias: float) -> float:
    """Return Σ c|aρ'| where weights no worse than w = 0 and a bias can take the margins, generously with scalars."""
    zero = losses.arguments(np.zeros(losses.n))
    lost = np.inf if losses.scalars.count else losses.value(np.zeros(losses.n)) - losses.least_value()
    steps = np.abs(losses.slopes) * (np.sqrt(np.asarray(features.row_norms()))[losses.points] * np.sqrt(2.0 * lost)
                                     + bias)
    found = [losses.derivative(zero + sign * (steps if np.isfinite(lost) else 0.0)) for sign in (-1.0, 0.0, 1.0)]
    total = float(np.sum(np.abs(losses.slopes) * np.max(np.abs(found), axis=0)))
    return total if np.isfinite(lost) else 64.0 * (total + float(np.abs(losses.scalars.costs).sum()))


def summed(features: FeatureOperator, weights: FloatArray, sizes: FloatArray | None = None) -> FloatArray:
    """Return Φᵀa, its entries zero where they are what rounding leaves of sums that are zero.

    Parameters
    ----------
    sizes : (n,) float array, optional
        Of the parts that weights are sums of, where they cancel.
    """
    sums = features.adjoint(weights)
    parts = features.magnitudes(weights if sizes is None else sizes)
    return np.where(np.abs(sums) <= rounding(parts, features.n), 0.0, sums)


def sum_vanishes(features: FeatureOperator, weights: FloatArray, sizes: FloatArray | None = None) -> bool:
    """Return whether Φᵀa is what rounding leaves of a sum that is zero; see `summed`."""
    return not np.any(summed(features, weights, sizes))


def moves_with_bias(weights: FloatArray, sizes: FloatArray | None = None) -> bool:
    """Return whether Σ a is not zero, so that Σ a f moves with a bias."""
    parts = np.abs(weights).sum() if sizes is None else np.sum(sizes)
    return bool(abs(np.sum(weights)) > rounding(parts, len(weights)))


def holder(bounds: Sequence[DecisionBound]) -> int | None:
    """Return the place of the narrowest of bounds `lower` ≤ Σ a f ≤ `upper` that hold a bias, None without one."""
    widths = {place: (b.upper - b.lower) / abs(float(b.weights.sum())) for place, b in enumerate(bounds)
              if moves_with_bias(b.weights) and np.isfinite(b.upper - b.lower)}
    return min(widths, key=lambda place: widths[place]) if widths else None


def centre_of(features: FeatureOperator, bounds: tuple[DecisionBound, ...]) -> FloatArray | None:
    """Return the centre (r,) about which the narrowest bound that holds a bias is one on the bias alone.

    None where no bound holds it, or features are about such a centre already.
    """
    place = holder(bounds)
    if place is None or sum_vanishes(features, bounds[place].weights):
        return None
    weights = bounds[place].weights
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


__all__ = [
    "NO_BIAS", "ClusterLimits", "Interval", "bias_limits", "biased_losses", "centre_of", "holder", "limit_terms",
    "moves_with_bias", "sum_vanishes", "summed"]
