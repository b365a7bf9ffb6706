"""A view of points with their neighbours: `md.walked`, for points to come, too."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted, validate_data

from margindsl.features.points import on_cpu
from margindsl.features.walk import NEIGHBOURS, OWN, STEPS, beside, random_walk


class Walked(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Put beside points what a few steps of a walk over nearest neighbours make of them, as `margindsl.walked`.

    New points take the mean of their nearest neighbours before the last step, a point of the fit what it has there.

    Parameters
    ----------
    neighbours, steps : int
    own : float
        Factor of the points themselves.

    Attributes
    ----------
    moved_ : (n, d) array or sparse matrix
        The walked points.
    n_features_in_ : int

    Examples
    --------
    >>> view = Walked(neighbours=1, steps=1).fit([[0.0], [2.0], [10.0], [12.0]])
    >>> view.transform([[2.0], [3.0]]).round(2).tolist()
    [[1.0, 1.02], [1.5, 2.04]]
    """

    def __init__(self, neighbours: int = NEIGHBOURS, steps: int = STEPS, own: float = OWN) -> None:
        self.neighbours, self.steps, self.own = neighbours, steps, own

    def fit(self, X: Any, y: Any = None) -> Walked:
        """Walk over points (n, d); y is ignored."""
        X = self._read(X, reset=True)
        self._points, (self.moved_, self._before) = X, random_walk(X, self.neighbours, self.steps)
        self._nearest = NearestNeighbors(n_neighbors=min(self.neighbours, X.shape[0])).fit(X)
        self._n_features_out = 2 * X.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """Return points (m, d) as (m, 2 d) features."""
        check_is_fitted(self)
        X = self._read(X, reset=False)
        near = self._nearest.kneighbors(X, return_distance=False)
        m, p = near.shape
        mean = csr_array((np.full(m * p, 1.0 / p), near.ravel(), np.arange(0, m * p + 1, p)),
                         shape=(m, self.moved_.shape[0]))
        own = csr_array((np.ones(m), near[:, 0], np.arange(m + 1)), shape=mean.shape)
        held = np.asarray(abs(X - own @ self._points).sum(axis=1)).ravel() == 0  # distances are rounded
        moved = diags_array((~held).astype(float)) @ mean @ self._before + diags_array(
            held.astype(float)) @ own @ self.moved_
        return beside(X, moved, self.own)

    def _read(self, X: Any, reset: bool) -> Any:
        X = validate_data(self, on_cpu(X), reset=reset, accept_sparse=["csr"], dtype=np.float64,
                          ensure_min_samples=2 if reset else 1)
        return csr_array(X) if issparse(X) else X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
