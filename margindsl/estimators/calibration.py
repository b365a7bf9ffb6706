"""Probabilities of classes, calibrated on decision values of points whose classes were hidden from the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold

from margindsl.errors import DeclarationError, one_of
from margindsl.estimators.base import mean_one
from margindsl.typing import FloatArray, IntArray

METHODS = ("sigmoid", "isotonic")
FOLDS = 5


class Decided(ClassifierMixin, BaseEstimator):
    """Represent a classifier whose points are decision values already."""

    def __init__(self, classes: Any = None) -> None:
        self.classes = classes

    def fit(self, X: Any, y: Any = None) -> Decided:
        """Do nothing: there is nothing to learn."""
        return self

    @property
    def classes_(self) -> Any:
        """Return the classes."""
        return self.classes

    def decision_function(self, X: Any) -> FloatArray:
        """Return the points."""
        return X[:, 0] if X.shape[1] == 1 else X

    def predict(self, X: Any) -> Any:
        """Return the classes of the greatest decision values."""
        values = self.decision_function(X)
        return self.classes[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]

    def __sklearn_is_fitted__(self) -> bool:
        return True


def calibrate(estimator: Any, X: Any, y: Any, known: IntArray, weights: FloatArray | None) -> Any:
    """Return probabilities as a function of decision values, fitted to points whose classes are hidden in turn.

    Shapes: `X` (n, d).

    Parameters
    ----------
    estimator : classifier
        With a `calibration` of "sigmoid" (Platt) or "isotonic", and `hide(y, weights, hidden)`, what it is fitted to
        where the classes of some points are hidden.
    y : (n,) array
        Classes.
    known : (m,) int array
        The points whose classes are known.

    Returns
    -------
    CalibratedClassifierCV
        Its points are decision values (m, 1), or (m, k) of more than two classes.
    """
    one_of("calibration", estimator.calibration, METHODS)
    classes, codes = np.unique(y[known], return_inverse=True)
    folds = min(FOLDS, int(np.bincount(codes).min()))
    if folds < 2:
        raise DeclarationError("calibration: a class has a single known point; give two of every class, or "
                               "calibration=None")
    values = np.zeros((len(known), 1 if len(classes) == 2 else len(classes)))
    drawn = StratifiedKFold(folds, shuffle=True, random_state=0)
    for _, part in drawn.split(np.zeros(len(known)), codes):
        judge = clone(estimator).set_params(calibration=None)
        hidden_y, hidden_weights = estimator.hide(y, weights, known[part])
        judge.fit(X, hidden_y, sample_weight=hidden_weights)
        values[part] = np.asarray(judge.decision_function(X[known[part]])).reshape(len(part), -1)
    whole = np.arange(len(known))
    scale = CalibratedClassifierCV(FrozenEstimator(Decided(classes)), method=estimator.calibration,
                                   cv=[(whole, whole)], ensemble=False)
    return scale.fit(values, y[known], sample_weight=mean_one(None if weights is None else weights[known]))


__all__ = ["calibrate"]
