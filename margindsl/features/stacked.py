"""Features of further rows, in columns of their own beside those of the points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from margindsl.features.dense import DenseFeatures
from margindsl.features.maps import NoMap
from margindsl.features.operator import FeatureOperator
from margindsl.features.sparse import SparseFeatures
from margindsl.typing import IntArray

DENSE = 4_000_000  # entries up to which they are held densely


class Stacked(FeatureOperator):
    """Hold features `base` of the points, and with them `seen` of all rows by which starts cluster."""

    base: FeatureOperator
    seen: FeatureOperator

    @property
    def clustered(self) -> FeatureOperator:
        return self.seen


class _Dense(Stacked, DenseFeatures):
    """Hold them densely."""


class _Sparse(Stacked, SparseFeatures):
    """Hold them sparsely."""


def stacked(base: FeatureOperator, parents: IntArray, turned: Any, matrix: Any) -> Stacked:
    """Return [[Φ, 0], [SΦ, A]] for sparse S (P, n), A (P, m); starts see rows where their parents lie, −1 for none.

    The operator has `base`, and the weights of Φ come first.
    """
    phi = base.toarray()
    label = f"{base.describe()}; {matrix.shape[1]} columns of pairs"
    below = [sp.csr_array(turned @ phi), sp.csr_array(matrix)]
    whole = sp.csr_array(sp.block_array([[sp.csr_array(phi), None], below]))
    features = (_Dense(whole.toarray(), NoMap(), label) if np.prod(whole.shape) <= DENSE else
                _Sparse(whole, label=label))
    features.base, features.trace_error = base, base.trace_error
    features.seen = base.take(np.concatenate([np.arange(base.n), np.maximum(parents, 0)]))
    return features
