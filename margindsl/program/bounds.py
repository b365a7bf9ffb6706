"""Linear bounds on decision values, and their squares in a lift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from margindsl.calculus.accuracy import greatest_ratio
from margindsl.errors import DeclarationError
from margindsl.host.frozen import freeze_fields
from margindsl.typing import FloatArray


@dataclass(frozen=True, eq=False)
class DecisionBound:
    """Represent lower ≤ Σ_i a_i f_i ≤ upper on the decision values.

    Parameters
    ----------
    weights : (n,) float array
        The coefficients a.
    lower, upper : float
        The bounds; ±inf when absent.
    sizes : (n,) float array, optional
        Of the parts that coefficients are sums of, where they cancel: what their rounding is relative to.
    """

    weights: FloatArray
    lower: float
    upper: float
    sizes: FloatArray | None = None

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise DeclarationError(
                f"decision bound {self.lower} <= sum <= {self.upper} is empty; exchange the bounds")
        freeze_fields(self)

    @property
    def name(self) -> str:
        """Return how the bounded sum is called in messages: by its points."""
        points = np.flatnonzero(self.weights)
        few = ", ".join(map(str, points[:4])) + (", ..." if len(points) > 4 else "")
        return f"f[{few}]" if len(points) == 1 else f"the sum of decision values of points {few}"

    @property
    def is_symmetric(self) -> bool:
        """Return whether the bound reads |Σ a f| ≤ ℓ."""
        return self.lower == -self.upper

    @property
    def reach(self) -> float:
        """Return the greatest |Σ a f|."""
        return max(abs(self.lower), abs(self.upper))

    def symmetric(self) -> DecisionBound:
        """Return |Σ a f| ≤ ℓ with the least ℓ that holds: itself where it reads so already."""
        return self if self.is_symmetric else DecisionBound(self.weights, -self.reach, self.reach)

    def violation(self, value: float, size: float) -> float:
        """Return how far a value of Σ a f lies outside, relative to the size of its terms and the limit it breaks."""
        over, limit = max((self.lower - value, self.lower), (value - self.upper, self.upper))
        return greatest_ratio(max(over, 0.0), size + abs(limit)) if over > 0 else 0.0

    def support(self, multiplier: float) -> float:
        """Return sup {τ z : lower ≤ z ≤ upper}, its term in the dual."""
        if multiplier == 0:
            return 0.0
        return multiplier * (self.upper if multiplier > 0 else self.lower)


def joined(bounds: Sequence[DecisionBound]) -> tuple[DecisionBound, ...]:
    """Return bounds with those on multiples of one sum made one, unless they exclude each other."""
    kept: list[DecisionBound] = []
    for bound in bounds:
        for place, other in enumerate(kept):
            at = int(np.argmax(np.abs(other.weights)))
            ratio = bound.weights[at] / other.weights[at] if other.weights[at] else 0.0
            if ratio == 0 or not np.array_equal(bound.weights, ratio * other.weights):
                continue
            low, high = sorted((bound.lower / ratio, bound.upper / ratio))
            low, high = max(low, other.lower), min(high, other.upper)
            if low <= high:
                kept[place] = replace(other, lower=low, upper=high)
                break
        else:
            kept.append(bound)
    return tuple(kept)


@dataclass(frozen=True, eq=False)
class QuadraticBound:
    """Represent (v·x)² ≤ radius², the lifted form of a linear bound on labels or decisions.

    Parameters
    ----------
    vector : float array
        The coefficients v.
    radius : float
        The radius, non-negative.
    """

    vector: FloatArray
    radius: float

    def __post_init__(self) -> None:
        freeze_fields(self)
