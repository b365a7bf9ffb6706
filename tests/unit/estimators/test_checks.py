"""scikit-learn's own checks; every exception is listed with its reason."""

import pytest
from sklearn.base import ClassifierMixin
from sklearn.utils.estimator_checks import parametrize_with_checks

from margindsl.estimators import (
    MarginClusterer,
    MaximumMarginEmbedding,
    ODMClassifier,
    SemiSupervisedODM,
    SpatialSign,
    Walked,
)

UNLABELLED = "-1 says that a label is unknown; the check uses -1 as a class, or labels of three classes"
COUNTED = "weights are of losses: the mean of the points, sizes of clusters and starts of clusterings count points"


def weighed(reason):
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


EXCEPTIONS: dict[str, dict[str, str]] = {
    "MarginClusterer": weighed(COUNTED),
    "ODMClassifier": weighed(COUNTED),
    "SemiSupervisedODM": {**weighed(COUNTED),
                          "check_class_weight_classifiers": "without a bias no side holds all points"},
}

ESTIMATORS = [
    MarginClusterer(), ODMClassifier(), SemiSupervisedODM(), SemiSupervisedODM("ssodm", parameters={"max_iter": 60}),
    MaximumMarginEmbedding(n_components=1), SpatialSign(), Walked()]


def expected(estimator):
    """Return the checks that fail, and why."""
    of_kind = {"check_classifiers_classes": UNLABELLED} if isinstance(estimator, SemiSupervisedODM) else {}
    return {**of_kind, **EXCEPTIONS.get(type(estimator).__name__, {})}


CHECKS = parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected)


def is_met(case):
    """All estimators read sparse points by one call: classifiers are given arrays, the others matrices, too."""
    estimator, check = getattr(case, "values", case)
    return not isinstance(estimator, ClassifierMixin) or check.func.__name__ != "check_estimator_sparse_matrix"


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("estimator, check", [*filter(is_met, CHECKS.args[1])], ids=CHECKS.kwargs["ids"])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
