"""Partly known labels of the semi-supervised recipes: which points are labelled, and the class ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.typing import ArrayLike, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class KnownLabels:
    """Represent labels in {−1, +1}, with 0 where they are unknown."""

    values: IntArray  # (n,)
    labelled: IntArray  # points
    unlabelled: IntArray

    @property
    def ratio(self) -> float:
        """Return the mean of the known labels, eᵀy_L / l."""
        return float(self.values[self.labelled].mean())

    def constraints(self, y: md.Labels, slack: float | None = None) -> list[Any]:
        """Return y_L = known values and, with a slack, |eᵀy_U − nearest attainable sum| ≤ slack · (m − l)."""
        found: list[Any] = [y[self.labelled] == self.values[self.labelled]]
        count = len(self.unlabelled)
        if slack is None or not count:
            return found
        # the sum of unlabelled signs nearest to (m − l) eᵀy_L / l, of the parity of m − l
        positive = int(np.rint(0.5 * count * (1.0 + self.ratio)))
        total, target = md.sum(y[self.unlabelled]), 2 * min(max(positive, 0), count) - count
        if slack == 0:
            return [*found, total == target]
        return [*found, abs(total - target) <= slack * count]


def read_weights(name: str, sample_weight: ArrayLike | None, known: KnownLabels, *means: IntArray) -> FloatArray:
    """Return weights (n,) of the points' losses, one where none are given; of points of a mean they are scaled to mean
    one, in a sum they stay as they are, so that a weight of two is a point twice.
    """
    n = len(known.values)
    try:
        weights = np.ones(n) if sample_weight is None else np.array(sample_weight, dtype=float)
    except (TypeError, ValueError, OverflowError):
        weights = np.zeros(0)
    if weights.shape != (n,) or not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise DeclarationError(f"{name}(sample_weight=...): expected ({n},) finite weights of at least 0")
    for points, which in ((known.labelled, "labelled"), (known.unlabelled, "unlabelled")):
        if len(points) and not weights[points].any():
            raise DeclarationError(f"{name}(sample_weight=...): the weights of all {which} points are 0")
    for points in means:
        if len(points):
            weights[points] /= weights[points].max()  # their sum may be more than a number holds
            weights[points] /= weights[points].mean()
    return weights


def weighted(loss: Any, weights: FloatArray) -> Any:
    """Return losses (n,) times weights; as they are where all weights are one."""
    return loss if np.all(weights == 1.0) else loss * weights


def read_known(name: str, y: ArrayLike, n: int) -> KnownLabels:
    """Return the known labels a recipe is given, zero where unknown."""
    values = np.asarray(y)
    if values.shape != (n,):
        raise DeclarationError(f"{name}: y of shape {values.shape} for {n} points; expected one label a point, 0 where "
                               "it is unknown")
    strange = np.flatnonzero(~np.isin(values, (-1, 0, 1)))
    if len(strange):
        raise DeclarationError(f"{name}: y[{strange[0]}] is {values[strange[0]]}; expected -1, +1, or 0 where it is "
                               "unknown")
    for sign in (-1, 1):
        if not np.any(values == sign):
            raise DeclarationError(f"{name}: no point is labelled {sign:+d}; give at least one of each class")
    values = values.astype(int)
    return KnownLabels(values, np.flatnonzero(values), np.flatnonzero(values == 0))


def check_fraction(name: str, option: str, value: float | None, optional: bool = False) -> None:
    """Raise unless a bound on labels is a fraction of at least 0, or None where it is optional."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not (isinstance(value, (int, float, np.integer, np.floating)) and value >= 0):
        choice = "None or " if optional else ""
        raise DeclarationError(f"{name}({option}={value!r}): expected {choice}a non-negative fraction of the points")
