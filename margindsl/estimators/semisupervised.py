"""Classification where some classes are unknown: the class −1 says so."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.estimators.base import generator, mean_one
from margindsl.estimators.classifiers import MarginClassifier
from margindsl.estimators.models import check_parameters
from margindsl.typing import ArrayLike, BoolArray, IntArray


class SemiSupervisedODM(MarginClassifier):
    """Classify with few labels: ssODM, the optimal margin distribution of labelled and unlabelled points.

    The class −1 says that a class is unknown; `score` leaves such points out.

    Parameters
    ----------
    lam1, lam2 : float
        Weights of labelled and unlabelled points.
    kernel : str or kernel
        With "precomputed" X is the kernel matrix (n, n), and new points are rows (m, n) of it.
    class_weight : dict, "balanced" or None
        Weights of the known classes' losses.
    calibration : {"sigmoid", "isotonic", None}
        Whether there is `predict_proba`, and how decision values become probabilities.
    parameters : dict or None
        Further keyword arguments of the recipe `md.recipes.ssodm`.
    relaxation, solver : str, object or None
        None takes the recipe's.
    tol : float
    time_limit : float or None
    warm_start : bool or (n,) array
        Labels to begin with, of any names; True takes those of the last fit, if it had as many points.
    verbose : int, bool or None
        As of `Problem.solve`: None shows a line on a terminal, 0 nothing, 1 writes a line a round.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : (2,) array
    coef_, intercept_ : (1, d), (1,) float arrays
        Of linear kernels: decision values are X @ coef_.T + intercept_.
    labels_ : (n,) array
        Classes of the training points, known ones kept.
    bound_, gap_ : float
    margins_ : (n,) float array
    solution_ : Solution
    problem_ : Problem
    n_features_in_ : int

    References
    ----------
    T. Zhang, Z.-H. Zhou (2018). Semi-supervised optimal margin distribution machines, Algorithm 1.
    """

    def __init__(self, *, lam1: float = 10.0, lam2: float = 10.0, kernel: Any = "linear", class_weight: Any = None,
                 calibration: str | None = None, parameters: dict[str, Any] | None = None, relaxation: Any = None,
                 solver: Any = None, tol: float = 1e-4, time_limit: float | None = None, warm_start: Any = False,
                 verbose: Any = None, random_state: Any = None) -> None:
        self.lam1, self.lam2, self.kernel, self.parameters = lam1, lam2, kernel, parameters
        self.class_weight, self.calibration, self.warm_start, self.verbose = (
            class_weight, calibration, warm_start, verbose)
        self.relaxation, self.solver, self.tol = relaxation, solver, tol
        self.time_limit, self.random_state = time_limit, random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        """Fit to points (n, d) and classes (n,), −1 where unknown.

        Classes that are strings come in an array of objects, so that the number −1 stays one.

        Parameters
        ----------
        sample_weight : (n,) array, optional
            Weights of the points' losses, in the mean of the labelled and in that of the unlabelled points.
        """
        X, y = self._read(X, y)
        classes: Any = _plain(np.asarray(y))
        known = self._known(classes)
        if np.any(known):
            self._check_classes(classes[known])
        self.classes_ = np.unique(classes[known])
        if len(self.classes_) != 2:
            raise DeclarationError(
                f"{type(self).__name__}: Only binary classification is supported; the known labels hold "
                f"{len(self.classes_)} class(es); -1 says that a label is unknown, so give the classes other names")
        signs: IntArray = np.where(known, np.where(classes == self.classes_[1], 1, -1), 0)
        found = np.flatnonzero(known)
        further = check_parameters(md.recipes.ssodm, self.parameters, ("y", "lam1", "lam2", "kernel", "sample_weight"))
        self.problem_ = md.recipes.ssodm(X, signs, lam1=self.lam1, lam2=self.lam2, kernel=self._kernel(X),
                                         sample_weight=self._weights(classes, found, sample_weight), **further)
        self.solution_ = self.problem_.solve(
            relaxation=self.relaxation, solver=self.solver, tol=self.tol, time_limit=self.time_limit,
            warm_start=self._start(X.shape[0]), verbose=self.verbose, random_state=generator(self.random_state))
        self.labels_ = self.classes_[(self.solution_.labels + 1) // 2]
        self.bound_, self.gap_, self.margins_ = self.solution_.bound, self.solution_.gap, self.solution_.margins
        self._calibrate(X, classes, found, sample_weight)
        return self

    def hide(self, y: Any, weights: Any, hidden: IntArray) -> tuple[Any, Any]:
        covered = y.astype(object) if y.dtype.kind in "OUS" else y.copy()
        covered[hidden] = -1
        return covered, weights

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of points of known class that are predicted right; points of class −1 do not count.

        Shapes: `X` (m, d).

        Parameters
        ----------
        y : (m,) array
            Classes, −1 where unknown, strings in an array of objects as for `fit`.
        """
        predicted = self.predict(X)
        classes = _plain(column_or_1d(y))
        check_consistent_length(predicted, classes, sample_weight)
        assert_all_finite(classes, input_name="y")
        known = self._known(classes)
        weights = np.ones(len(known)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        name = type(self).__name__
        if not np.any(known):
            raise DeclarationError(f"{name}.score: no class is known, all are -1; give points of known class, or more "
                                   "of them where a cross-validation makes folds without any")
        if not weights[known].sum() > 0:
            raise DeclarationError(f"{name}.score: the sample weights of the points of known class sum to "
                                   f"{weights[known].sum():g}; expected a positive number")
        right = predicted[known].astype(object) == classes[known].astype(object)
        return float(np.average(right.astype(float), weights=mean_one(weights[known])))

    def _known(self, y: Any) -> BoolArray:
        """Return which classes are known, those that are not the number −1."""
        if y.dtype.kind in "US":
            if np.any(y.astype(str) == "-1"):
                raise DeclarationError(f"{type(self).__name__}: y is an array of strings, in which '-1' is a class "
                                       "like any other; give np.array(..., dtype=object), with the number -1 where a "
                                       "class is unknown")
            return np.ones(len(y), dtype=bool)
        return np.array([isinstance(value, str) or value != -1 for value in y], dtype=bool)

    def _check_classes(self, known: Any) -> None:
        if known.dtype == object and len({isinstance(value, str) for value in known}) > 1:
            raise DeclarationError(f"{type(self).__name__}: the known classes are strings and numbers; give them one "
                                   "type")
        check_classification_targets(known)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _plain(y: Any) -> Any:
    """Return classes that are numbers in an array of objects as an array of numbers."""
    if y.dtype != object or any(isinstance(value, str) for value in y):
        return y
    return np.array(y.tolist())


__all__ = ["SemiSupervisedODM"]
