"""How far points lie inside the fences of their clusters: margins from below, distances from above."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from margindsl.estimators.models import cluster_codes
from margindsl.features.points import is_lazy, row_blocks
from margindsl.labelset import Names
from margindsl.typing import FloatArray

BEYOND = np.array([2.0, 3.0])  # interquartile ranges: few margins of clean clouds lie beyond two; three is Tukey's
RIDGE, WIDEST = 0.1, 300  # of the scatter, in mean variances; columns up to which it is a matrix, not variances alone


class Fences:
    """Hold the quartiles of margins in clusters, and of distances from their means, with the scatter within them.

    Shapes: `X` (n, d), `decision` (n,) or (n, k).
    """

    def __init__(self, X: Any, clusters: int, decision: FloatArray, is_kernel: bool) -> None:
        self.names = Names(clusters)
        self.metric: FloatArray | None = None
        own = cluster_codes(self.names.predicted(decision), clusters)
        if not (is_kernel or is_lazy(X)):
            self.means = np.zeros((clusters, X.shape[1]))
            for q in np.unique(own):
                self.means[q] = X[own == q].mean(axis=0)
            wide, scatter = X.shape[1] > WIDEST, np.zeros(())
            for block in row_blocks(*X.shape):
                rest = self._rest(X, block, own)
                scatter = scatter + ((rest**2).sum(axis=0) if wide else rest.T @ rest)
            ridge = RIDGE * float(np.sum(scatter if wide else np.diag(scatter))) / X.shape[1] or 1.0
            self.metric = 1.0 / (scatter + ridge) if wide else np.linalg.inv(scatter + ridge * np.eye(X.shape[1]))

    def placed(self, X: Any, decision: FloatArray) -> FloatArray:
        """Place the fences by the quartiles of points (n, d), and return how far these lie inside, as `inside` does."""
        own, found = self._measured(X, decision)
        self.low, self.width = np.zeros((2, len(self.names.values), found.shape[1]))
        for q in np.unique(own):
            self.low[q], high = np.quantile(found[own == q], (0.25, 0.75), axis=0)
            self.width[q] = high - self.low[q]
        return self._inside(own, found)

    def inside(self, X: Any, decision: FloatArray) -> FloatArray:
        """Return how far points (m, d) lie inside both fences, in interquartile ranges."""
        return self._inside(*self._measured(X, decision))

    def _inside(self, own: Any, found: FloatArray) -> FloatArray:
        width = np.where(self.width > 0, self.width, 1.0)
        return np.asarray(np.min((found - self.low[own]) / width[own] + BEYOND[: found.shape[1]], axis=1))

    def _measured(self, X: Any, decision: FloatArray) -> tuple[Any, FloatArray]:
        """Return clusters, and (m, 2) margins and opposites of distances, without a metric margins alone."""
        own = cluster_codes(self.names.predicted(np.asarray(decision)), len(self.names.values))
        found = np.zeros((len(own), 1 if self.metric is None else 2))
        found[:, 0] = margins_of(decision)
        if self.metric is None:
            return own, found
        for block in row_blocks(*X.shape):
            rest = self._rest(X, block, own)
            moved = rest @ self.metric if self.metric.ndim > 1 else rest * self.metric
            found[block, 1] = -np.sqrt(np.sum(moved * rest, axis=1))
        return own, found

    def _rest(self, X: Any, block: slice, own: Any) -> FloatArray:
        """Return a block of points less the means of their clusters."""
        rows = X[block].toarray() if issparse(X) else X[block]
        return np.asarray(rows - self.means[own[block]])


def margins_of(decision: Any) -> FloatArray:
    """Return the margins (m,) of points in the clusters that decision values (m,) or (m, k) say."""
    values = np.sort(np.asarray(decision).reshape(len(decision), -1), axis=1)
    return np.abs(values[:, 0]) if values.shape[1] == 1 else np.asarray(values[:, -1] - values[:, -2])
