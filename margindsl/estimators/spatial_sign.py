"""A view of points in which far values and far points count no more than others."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from margindsl.errors import DeclarationError
from margindsl.features.points import is_lazy, map_chunks, on_cpu, row_blocks
from margindsl.typing import FloatArray

MEASURED = 100_000  # rows of a Dask array that are measured, spread over it: means and deviations to .3 %


class SpatialSign(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Bend columns beyond some standard deviations, then points towards one length: a soft spatial sign.

    A centred column x becomes z = s tanh(x / s), s its `deviations` standard deviations, and a centred point z becomes
    z / √(‖z‖² + (r ℓ)²), ℓ the median of ‖z‖ and r the `radius`: of radius 0 only its direction is left. Units of the
    columns stay; standardise them where they mean nothing. Sparse points are not centred, so that they stay sparse. Of
    a Dask array some 100,000 rows are measured, spread over all of it.

    Parameters
    ----------
    deviations : float
        Above 0, in standard deviations; infinity leaves columns straight.
    radius : float
        At least 0, in lengths of the points. Of 0, .25, .5 and 1, each with margin clusters of 60 data sets, the mean
        adjusted Rand indices were within .006; in few dimensions 1 keeps what lengths tell.

    Attributes
    ----------
    location_, scale_, centre_ : (d,) float arrays
        Means of the columns, the s of each, and means of the z.
    length_ : float
        r ℓ.
    n_features_in_ : int

    References
    ----------
    S. Serneels, E. De Nolf, P. J. Van Espen (2006). Spatial sign preprocessing: a simple way to impart moderate
    robustness to multivariate estimators.

    Examples
    --------
    >>> SpatialSign(radius=0.0).fit_transform([[-3.0, 0.0], [3.0, 0.0], [0.0, -9.0], [0.0, 9.0]]).round(9).tolist()
    [[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]]
    """

    def __init__(self, deviations: float = 2.0, radius: float = 1.0) -> None:
        self.deviations, self.radius = deviations, radius

    def fit(self, X: Any, y: Any = None) -> SpatialSign:
        """Measure points (n, d); y is ignored.

        Raises
        ------
        DeclarationError
            If a parameter is outside its domain.
        """
        if not self.deviations > 0:
            raise DeclarationError(f"deviations={self.deviations!r}: expected a positive number")
        if not 0 <= self.radius < np.inf:
            raise DeclarationError(f"radius={self.radius!r}: expected a finite number of at least 0")
        X = self._read(X, reset=True)
        if is_lazy(X):
            X = self._read(X[::-(-X.shape[0] // MEASURED)].compute(), reset=False)
        with np.errstate(over="ignore"):
            if issparse(X):
                self.location_, deviations = np.zeros(X.shape[1]), np.sqrt(X.multiply(X).mean(axis=0))
            else:
                self.location_, deviations = (np.asarray(x, dtype=float) for x in (X.mean(axis=0), X.std(axis=0)))
        if not np.isfinite(deviations).all():
            raise DeclarationError("X: the squares of its entries are no numbers; standardise the columns")
        self.scale_ = np.full(deviations.shape, np.inf)
        np.multiply(self.deviations, deviations, where=deviations > 0, out=self.scale_)
        self.centre_ = np.zeros(X.shape[1])
        bent = self._bend(X)
        if not issparse(X):
            self.centre_ = np.asarray(bent.mean(axis=0), dtype=float)
            bent = bent - self.centre_
        self.length_ = self.radius * float(np.median(_norms(bent)))
        return self

    def transform(self, X: Any) -> Any:
        """Return the view of points (m, d), in the container they came in."""
        check_is_fitted(self)
        X = self._read(X, reset=False)
        if issparse(X) and (self.location_.any() or self.centre_.any()):  # about means that are not zero none are
            X = X.toarray()
        return map_chunks(self._view, X, X.shape[1:], X.dtype) if is_lazy(X) else self._view(X)

    def measures(self) -> dict[str, Any]:
        """Return what the fit measured, as numbers and lists."""
        names = ("location_", "scale_", "centre_", "length_")
        return {name: np.asarray(getattr(self, name)).tolist() for name in names}

    @classmethod
    def of_measures(cls, measures: dict[str, Any]) -> SpatialSign:
        """Return the view that measured this."""
        view = cls()
        for name, value in measures.items():
            setattr(view, name, np.asarray(value, dtype=float)[()])
        view.n_features_in_ = len(view.location_)
        return view

    def _read(self, X: Any, reset: bool) -> Any:
        if is_lazy(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        X = validate_data(self, on_cpu(X), reset=reset, accept_sparse=["csr"], dtype=[np.float64, np.float32])
        return csr_array(X) if issparse(X) else X

    def _bend(self, X: Any) -> Any:
        """Return the z of points, those that are not sparse about their mean."""
        scale = np.where(np.isfinite(self.scale_), self.scale_, 1.0)  # of columns that are constant, or stay straight
        if issparse(X):
            bent, own = X.copy(), scale[X.indices]
            straight = ~np.isfinite(self.scale_)[X.indices]
            bent.data = np.where(straight, X.data, own * np.tanh(X.data / own)).astype(X.dtype)
            return bent
        bent = np.empty(X.shape)
        for block in row_blocks(*X.shape):
            moved = X[block] - self.location_
            bent[block] = np.where(np.isfinite(self.scale_), scale * np.tanh(moved / scale), moved) - self.centre_
        return bent

    def _view(self, X: Any) -> Any:
        bent = self._bend(X)
        lengths = np.hypot(_norms(bent), self.length_)
        shrunk = 1.0 / np.where(lengths > 0, lengths, 1.0)
        seen = csr_array(diags_array(shrunk) @ bent) if issparse(X) else np.multiply(bent, shrunk[:, None], out=bent)
        return seen.astype(X.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _norms(points: Any) -> FloatArray:
    if issparse(points):
        return np.sqrt(np.asarray(points.multiply(points).sum(axis=1), dtype=float))
    return np.sqrt(np.einsum("ij,ij->i", points, points))
