"""Images of points under weights, of which only sums over points and a few columns are ever made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from margindsl.features.operator import FeatureOperator
from margindsl.host.clock import product
from margindsl.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Image:
    """Stand for the (n, p) product Φ W + 1 shiftᵀ, which would outgrow the points' memory where p is near r."""

    features: FeatureOperator
    W: FloatArray  # (r, p)
    shift: FloatArray | float = 0.0  # (p,)

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, p)."""
        return self.features.n, self.W.shape[1]

    def __array__(self, dtype: object = None, copy: bool | None = None) -> FloatArray:
        return np.asarray(self.features.apply(self.W) + self.shift)

    def __matmul__(self, mix: FloatArray) -> FloatArray:
        return np.asarray(self.features.apply(self.W @ mix) + np.broadcast_to(self.shift, self.W.shape[1]) @ mix)

    def moment(self) -> FloatArray:
        """Return the (p, p) sum over points of outer products: one pass over the points."""
        product(self.features.n * self.features.rank, self.W.shape[1])
        return np.asarray(self.features.fold(partial(_moment, self.W, self.shift)))


def _moment(W: FloatArray, shift: FloatArray | float, phi: FloatArray) -> FloatArray:
    F = phi @ W + shift
    return np.asarray(F.T @ F)
