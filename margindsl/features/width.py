"""Kernel widths relative to the distances between points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy
import scipy.sparse as sp

from margindsl.errors import DeclarationError, one_of
from margindsl.features.distances import squared_distances
from margindsl.features.points import Points

SAMPLE = 1000


@dataclass(frozen=True)
class MeanDistance:
    """Stand for a multiple of gamma^power, gamma the average distance between points.

    The papers use widths {0.25, 0.5, 1, 2, 4} times sqrt(gamma).

    Examples
    --------
    >>> 0.5 * mean_distance
    0.5 * mean_distance
    >>> sqrt_mean_distance / 4
    0.25 * sqrt_mean_distance
    """

    multiple: float = 1.0
    power: float = 1.0

    def __mul__(self, factor: float) -> MeanDistance:
        if isinstance(factor, bool) or not isinstance(factor, (int, float, np.integer, np.floating)):
            return NotImplemented
        return replace(self, multiple=self.multiple * float(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> MeanDistance:
        if divisor == 0:
            raise DeclarationError("a kernel width was divided by zero; a positive divisor is expected.")
        return self * (1.0 / divisor)

    def __repr__(self) -> str:
        name = {1.0: "mean_distance", 0.5: "sqrt_mean_distance"}.get(
            self.power, f"mean_distance**{self.power:g}"
        )
        return name if self.multiple == 1 else f"{self.multiple:g} * {name}"


mean_distance = MeanDistance()
sqrt_mean_distance = MeanDistance(power=0.5)

Width: TypeAlias = float | str | MeanDistance


def given(value: Any) -> str:
    """Return what was given for a parameter of a kernel, as messages show it."""
    if hasattr(value, "numeric"):
        return (f"{value!r}, a {type(value).__name__}: kernels are built once, so that their parameters are plain "
                "numbers; declare one problem a value")
    return repr(value) if isinstance(value, (str, int, float)) else f"{value!r} ({type(value).__name__})"


def check_width(width: Any) -> None:
    """Check a declared width before any data is seen."""
    if isinstance(width, str):
        one_of("kernel width", width, ["median", "mean"])
        return
    number = width.multiple if isinstance(width, MeanDistance) else width
    if isinstance(number, bool) or not isinstance(number, (int, float, np.integer, np.floating)):
        raise DeclarationError(
            f"width={given(width)}; a positive number, 'median', or a multiple such as 0.5 * mean_distance is "
            "expected."
        )
    if not (np.isfinite(number) and number > 0):
        raise DeclarationError(f"width={width!r}; a positive finite number is expected, or 'median'.")


def find_width(width: Width, X: Points, rng: np.random.Generator) -> float:
    """Turn a declared width into a number for given points.

    Distances are taken between all points, or between a sample of 1000 when there are more.

    Parameters
    ----------
    rng : numpy Generator
        Draws the sample.
    """
    check_width(width)
    if not isinstance(width, (str, MeanDistance)):
        return float(width)
    if X.shape[0] > SAMPLE:
        X = X[np.sort(rng.choice(X.shape[0], SAMPLE, replace=False))]
    distances = np.sqrt(squared_distances(X, X)[np.triu_indices(X.shape[0], 1)]) if sp.issparse(X) else (
        scipy.spatial.distance.pdist(np.asarray(X, dtype=np.float64)))
    if width == "median":
        middle = float(np.median(distances))
        # More than half of the pairs may coincide; the median of the others is still a scale.
        value = middle if middle > 0 or not distances.any() else float(np.median(distances[distances > 0]))
    else:
        law = mean_distance if isinstance(width, str) else width
        value = law.multiple * float(distances.mean()) ** law.power
    if not value > 0:
        raise DeclarationError(
            f"width={width!r} is zero because all points coincide. Give points that differ, or a positive "
            "number."
        )
    return value
