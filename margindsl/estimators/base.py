"""What the estimators share: how points are read, kernels whose parameters are searched."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

import margindsl as md
from margindsl.contract import Status
from margindsl.errors import DeclarationError
from margindsl.features.kernels import as_kernel
from margindsl.features.points import is_lazy, on_cpu, row_blocks
from margindsl.typing import FloatArray

PRECOMPUTED = "precomputed"


class MarginEstimator(BaseEstimator):
    """Represent an estimator over a declaration with one kernel."""

    kernel: Any
    feature_names_in_: Any
    warm_start: Any = False

    def set_params(self, **parameters: Any) -> Any:
        """Set parameters; ``kernel__width=2.0`` puts another kernel in place, kernels themselves are never changed."""
        nested = {name: value for name, value in parameters.items() if name.startswith("kernel__")}
        super().set_params(**{name: value for name, value in parameters.items() if name not in nested})
        if nested:
            if isinstance(self.kernel, str) and self.kernel == PRECOMPUTED:
                raise DeclarationError("kernel='precomputed' has no parameters; give a kernel such as md.RBF()")
            inner = {name.removeprefix("kernel__"): value for name, value in nested.items()}
            self.kernel = as_kernel(self.kernel).set_params(**inner)
        return self

    def _read(self, X: Any, *y: Any, reset: bool = True, **checks: Any) -> Any:
        """Return points, and targets where given, as scikit-learn checks them; of a Dask array the columns alone."""
        if not reset:
            check_is_fitted(self)
        if is_lazy(X):  # its entries are checked where they are, by the declaration
            if not X.shape[0] >= 0:
                raise DeclarationError("X: chunks of the Dask array have unknown sizes; call X.compute_chunk_sizes()")
            validate_data(self, X, reset=reset, skip_check_array=True)
            return (X, *(np.asarray(values) if is_lazy(values) else values for values in y)) if y else X
        return validate_data(self, on_cpu(X), *(on_cpu(values, "y") for values in y), reset=reset,
                             accept_sparse=False if self._is_pairwise else ["csr"],
                             dtype=[np.float64, np.float32], **checks)

    @property
    def _is_pairwise(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == PRECOMPUTED

    def _kernel(self, X: Any) -> Any:
        """Return the kernel of points; with "precomputed" they are its matrix."""
        if not self._is_pairwise:
            return self.kernel
        if X.shape[0] != X.shape[1]:
            raise DeclarationError(f"kernel='precomputed': X has shape {X.shape}, expected the square matrix of kernel "
                                   "values between the points")
        return md.Precomputed(X)

    def _start(self, n: int) -> Any:
        """Return the labels to begin with, None without any."""
        if isinstance(self.warm_start, (bool, np.bool_)):
            last = getattr(self, "labels_", None) if self.warm_start else None
            count = getattr(self, "n_clusters_", None)  # None of classes
            fits = last is not None and len(last) == n and (count is None or np.max(last) < count)
            return last if fits else None
        return None if self.warm_start is None else np.asarray(on_cpu(self.warm_start, "warm_start"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._is_pairwise
        tags.input_tags.pairwise = self._is_pairwise
        return tags


class LinearWeights:
    """Give the weights of the decision function in the coordinates of the points, where the kernel is linear."""

    problem_: Any
    solution_: Any
    n_features_in_: int

    @property
    def coef_(self) -> FloatArray:
        """Return the weights (1, d), or (k, d) of more than two classes: f(x) = coef_ @ x + intercept_."""
        self._check_linear("coef_")
        d, (point, size) = self.problem_.hyperplane.X.shape[1], self._surroundings()
        blocks = [self._decided(point + size * np.eye(d)[block]) - self._decided(point) for block in row_blocks(d, d)]
        return np.concatenate(blocks).T / size

    @property
    def intercept_(self) -> FloatArray:
        """Return the decision values (1,), or (k,), of the point 0, as f(x) - coef_ @ x where the points are."""
        self._check_linear("intercept_")
        point, _ = self._surroundings()
        return self._decided(point)[0] - self.coef_ @ point[0]

    def _surroundings(self) -> tuple[FloatArray, float]:
        """Return the mean (1, d) of the points and how far they lie from it: far from 0, values there are rounding."""
        features = self.solution_.features
        mean = np.asarray(self.problem_.hyperplane.X.mean(axis=0), dtype=float).reshape(1, -1)
        return mean, float(np.sqrt(features.trace / features.n)) or 1.0

    def _check_linear(self, name: str) -> None:
        check_is_fitted(self)
        kernel = None if self.problem_ is None else as_kernel(self.problem_.hyperplane.kernel)
        if not isinstance(kernel, md.Linear):
            reason = "there is no hyperplane" if kernel is None else f"the kernel is {kernel.describe()}"
            raise AttributeError(f"{name} exists for linear kernels only; {reason}")

    def _decided(self, X: Any) -> FloatArray:
        """Return decision values (m, 1) of two classes, (m, k) of more."""
        values = np.asarray(self.solution_.decision_function(X))
        return values.reshape(len(values), -1)


def weights_of(sample_weight: Any, n: int) -> FloatArray | None:
    """Return weights of points (n,), None being None."""
    if sample_weight is None:
        return None
    weights = np.asarray(on_cpu(sample_weight, "sample_weight"), dtype=float)
    if weights.shape != (n,):
        raise DeclarationError(f"sample_weight has shape {weights.shape}; expected ({n},), a weight a point")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise DeclarationError("sample_weight: expected finite numbers of at least 0")
    if not np.any(weights):
        raise DeclarationError("sample_weight: all weights are zero; give points that count a positive one")
    return weights


def mean_one(weights: FloatArray | None) -> FloatArray | None:
    """Return weights scaled to mean one, as losses in a mean take them; None being None."""
    if weights is None:
        return None
    weights = weights / weights.max()  # their sum may be more than a number holds
    return weights / weights.mean()


def generator(random_state: Any) -> np.random.Generator:
    """Return a numpy generator from anything scikit-learn takes as a random state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def warn_early(solution: Any) -> None:
    """Warn where a solve ended before its tolerance; called by `fit`."""
    if solution.state not in (Status.OPTIMAL, Status.CONVERGED):
        words = f": {solution.message}" if solution.message else ""
        warnings.warn(f"the solve ended as {solution.state.name.lower().replace('_', ' ')}{words}; give more "
                      "time_limit, or a greater tol", ConvergenceWarning, stacklevel=3)
