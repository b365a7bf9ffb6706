"""Classification by optimal margin distribution: all labels known, or some."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.estimators.base import LinearWeights, MarginEstimator, generator, weights_of
from margindsl.estimators.calibration import calibrate
from margindsl.estimators.models import check_parameters, cluster_codes, known_labels
from margindsl.points import is_lazy, map_chunks
from margindsl.typing import ArrayLike, BoolArray, FloatArray, IntArray


def _is_calibrated(classifier: Any) -> bool:
    if classifier.calibration is None:
        raise AttributeError(f"{type(classifier).__name__} has probabilities with calibration='sigmoid' or "
                             "'isotonic', which fits further models; calibration is None")
    return True


class _MarginClassifier(LinearWeights, ClassifierMixin, MarginEstimator):
    """What classifiers share: prediction in the user's classes, probabilities, weights of points and classes."""

    calibration: Any
    class_weight: Any
    calibrated_: Any
    classes_: Any

    def hide(self, y: Any, weights: Any, hidden: IntArray) -> tuple[Any, Any]:
        """Return classes and weights with which the classes of some points do not count."""
        kept = np.ones(len(y)) if weights is None else weights.copy()
        kept[hidden] = 0.0
        return y, kept

    def _weights(self, y: Any, known: IntArray, sample_weight: Any) -> Any:
        """Return weights of points times those of the known points' classes, None where neither are given."""
        weights = weights_of(sample_weight, len(y))
        if self.class_weight is None:
            return weights
        weights = np.ones(len(y)) if weights is None else weights
        weights[known] *= compute_sample_weight(self.class_weight, y[known])
        return weights_of(weights, len(y))

    def _calibrate(self, X: Any, y: Any, known: IntArray, sample_weight: Any) -> None:
        if self.calibration is not None:
            self.calibrated_ = calibrate(self, X, y, known, weights_of(sample_weight, len(y)))

    @available_if(_is_calibrated)
    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities (m, k) of the classes, which need a `calibration`.

        They are calibrated on decision values of points whose classes were hidden from the fit, in up to five folds;
        near the boundary the most probable class may differ from `predict`, which goes by the sign of the decision
        value.
        """
        values = np.asarray(self.decision_function(X))
        probabilities: FloatArray = self.calibrated_.predict_proba(values.reshape(len(values), -1))
        return probabilities

    def predict(self, X: Any) -> Any:
        """Return the classes of points (m, d)."""
        X = self._read(X, reset=False)
        codes = cluster_codes(self.solution_.predict(X), len(self.classes_))
        return map_chunks(self.classes_.take, codes, None, self.classes_.dtype) if is_lazy(X) else self.classes_[codes]

    def decision_function(self, X: Any) -> FloatArray:
        """Return decision values (m,) for two classes, positive for ``classes_[1]``, or (m, k)."""
        X = self._read(X, reset=False)
        return self.solution_.decision_function(X)


class ODMClassifier(_MarginClassifier):
    """Classify by the optimal margin distribution machine.

    minimise ½‖w‖² + λ mean ρ(γ), ρ the loss of `md.odm`, with a penalised bias; Crammer-Singer margins for more than
    two classes.

    Parameters
    ----------
    lam : float
        Weight λ > 0.
    nu, theta : float
        Weight ν of margins above the band and its half width θ.
    kernel : str or kernel
        With "precomputed" X is the kernel matrix (n, n), and new points are rows (m, n) of it.
    class_weight : dict, "balanced" or None
        Weights of the classes' losses; "balanced" gives every class the same in all.
    calibration : {"sigmoid", "isotonic", None}
        Whether there is `predict_proba`, and how decision values become probabilities.
    solver : str, object or None
    tol : float
    time_limit : float or None
        Seconds.
    verbose : int, bool or None
        As of `Problem.solve`: None shows a line on a terminal, 0 nothing, 1 writes a line a round.

    Attributes
    ----------
    classes_ : (k,) array
    coef_, intercept_ : (1, d) or (k, d), (1,) or (k,) float arrays
        Of linear kernels: decision values are X @ coef_.T + intercept_.
    solution_ : Solution
    problem_ : Problem
    margins_ : (n,) float array
    n_features_in_ : int

    References
    ----------
    T. Zhang, Z.-H. Zhou (2016). Optimal margin distribution machine.

    Examples
    --------
    >>> model = ODMClassifier().fit([[-2.0], [-1.0], [1.0], [2.0]], ["a", "a", "b", "b"])
    >>> model.predict([[-3.0], [0.5]]).tolist()
    ['a', 'b']
    """

    def __init__(self, *, lam: float = 100.0, nu: float = 0.4, theta: float = 0.2, kernel: Any = "linear",
                 class_weight: Any = None, calibration: str | None = None, solver: Any = None, tol: float = 1e-6,
                 time_limit: float | None = None, verbose: Any = None) -> None:
        self.lam, self.nu, self.theta, self.kernel = lam, nu, theta, kernel
        self.class_weight, self.calibration = class_weight, calibration
        self.solver, self.tol, self.time_limit, self.verbose = solver, tol, time_limit, verbose

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ODMClassifier:
        """Fit to points (n, d) and classes (n,).

        Parameters
        ----------
        X : (n, d) array, sparse matrix or DataFrame
        y : (n,) array
        sample_weight : (n,) array, optional
            Weights of the points' losses; features are centred about the mean of all points.

        Raises
        ------
        DeclarationError
            If there is one class only.
        """
        X, y = self._read(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DeclarationError(f"ODMClassifier: the data hold one class only, {str(self.classes_[0])!r}; give two")
        everyone = np.arange(len(codes))
        weights = self._weights(y, everyone, sample_weight)
        labels = md.Labels(X.shape[0], clusters=len(self.classes_))
        f = md.Hyperplane(X, kernel=self._kernel(X), bias="penalised")
        loss = md.odm(md.margin(labels, f), self.nu, self.theta)
        mean = md.mean(loss if weights is None else weights * loss)
        self.problem_ = md.Problem(md.Minimize(md.sq_norm(f) / 2 + self.lam * mean), known_labels(labels, codes))
        self.solution_ = self.problem_.solve(relaxation="supervised", solver=self.solver, tol=self.tol,
                                             time_limit=self.time_limit, verbose=self.verbose)
        self.margins_ = self.solution_.margins
        self._calibrate(X, y, everyone, sample_weight)
        return self


class SemiSupervisedODM(_MarginClassifier):
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

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> SemiSupervisedODM:
        """Fit to points (n, d) and classes (n,), −1 where unknown.

        Classes that are strings come in an array of objects, so that the number −1 stays one.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or DataFrame
        y : (n,) array
        sample_weight : (n,) array, optional
            Weights of the points' losses, in the mean of the labelled and in that of the unlabelled points.

        Raises
        ------
        DeclarationError
            If the known points are not of exactly two classes, classes are strings and numbers, −1 has become a string,
            or parameters are no dict.
        UnknownNameError
            If the recipe has no such parameter.
        """
        X, y = self._read(X, y)
        further = check_parameters(md.recipes.ssodm, self.parameters, ("y", "lam1", "lam2", "kernel", "sample_weight"))
        classes: Any = _plain(np.asarray(y))
        known = _known(classes)
        if np.any(known):
            _check_classes(classes[known])
        self.classes_ = np.unique(classes[known])
        if len(self.classes_) != 2:
            raise DeclarationError(
                f"SemiSupervisedODM: Only binary classification is supported; the known labels hold "
                f"{len(self.classes_)} class(es); -1 says that a label is unknown, so give the classes other names")
        signs: IntArray = np.where(known, np.where(classes == self.classes_[1], 1, -1), 0)
        found = np.flatnonzero(known)
        weights = self._weights(classes, found, sample_weight)
        self.problem_ = md.recipes.ssodm(X, signs, lam1=self.lam1, lam2=self.lam2, kernel=self._kernel(X),
                                         sample_weight=weights, **further)
        self.solution_ = self.problem_.solve(
            relaxation=self.relaxation, solver=self.solver, tol=self.tol, time_limit=self.time_limit,
            warm_start=self._start(X.shape[0]), verbose=self.verbose, random_state=generator(self.random_state))
        self.labels_ = self.classes_[(self.solution_.labels + 1) // 2]
        self.bound_, self.gap_, self.margins_ = self.solution_.bound, self.solution_.gap, self.solution_.margins
        self._calibrate(X, classes, found, sample_weight)
        return self

    def hide(self, y: Any, weights: Any, hidden: IntArray) -> tuple[Any, Any]:
        """Return classes with some of them unknown, and the weights as they are."""
        covered = y.astype(object) if y.dtype.kind in "OUS" else y.copy()
        covered[hidden] = -1
        return covered, weights

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of points of known class that are predicted right; points of class −1 do not count.

        Parameters
        ----------
        X : (m, d) array, sparse matrix or DataFrame
        y : (m,) array
            Classes, −1 where unknown, strings in an array of objects as for `fit`.
        sample_weight : (m,) array, optional

        Raises
        ------
        DeclarationError
            If no class is known, or the weights of those that are known sum to zero.
        ValueError
            If y holds NaN, or lengths differ.
        """
        predicted = self.predict(X)
        classes = _plain(column_or_1d(y))
        check_consistent_length(predicted, classes, sample_weight)
        assert_all_finite(classes, input_name="y")
        known = _known(classes)
        weights = np.ones(len(known)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        if not np.any(known):
            raise DeclarationError("SemiSupervisedODM.score: no class is known, all are -1; give points of known "
                                   "class, or more of them where a cross-validation makes folds without any")
        if not weights[known].sum() > 0:
            raise DeclarationError("SemiSupervisedODM.score: the sample weights of the points of known class sum to "
                                   f"{weights[known].sum():g}; expected a positive number")
        right = predicted[known].astype(object) == classes[known].astype(object)
        return float(np.average(right.astype(float), weights=weights[known]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _plain(y: Any) -> Any:
    """Return classes that are numbers in an array of objects as an array of numbers."""
    if y.dtype != object or any(isinstance(value, str) for value in y):
        return y
    return np.array(y.tolist())


def _known(y: Any) -> BoolArray:
    """Return which classes are known, those that are not the number −1."""
    if y.dtype.kind in "US":
        if np.any(y.astype(str) == "-1"):
            raise DeclarationError("SemiSupervisedODM: y is an array of strings, in which '-1' is a class like any "
                                   "other; give np.array(..., dtype=object), with the number -1 where a class is "
                                   "unknown")
        return np.ones(len(y), dtype=bool)
    return np.array([isinstance(value, str) or value != -1 for value in y], dtype=bool)


def _check_classes(known: Any) -> None:
    if known.dtype == object and len({isinstance(value, str) for value in known}) > 1:
        raise DeclarationError("SemiSupervisedODM: the known classes are strings and numbers; give them one type")
    check_classification_targets(known)


__all__ = ["ODMClassifier", "SemiSupervisedODM"]
