"""scikit-learn's own checks; every exception is listed with its reason."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from margindsl.estimators import MarginClusterer, MaximumMarginEmbedding, ODMClassifier, SemiSupervisedODM

UNLABELLED = "-1 says that a label is unknown; the check uses -1 as a class, or labels of three classes"
EXCEPTIONS: dict[str, dict[str, str]] = {
    "SemiSupervisedODM": {
        "check_classifiers_classes": UNLABELLED,
    },
}

ESTIMATORS = [
    MarginClusterer(),
    ODMClassifier(),
    SemiSupervisedODM(parameters={"max_iter": 200}),
    MaximumMarginEmbedding(n_components=1),
]


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda e: EXCEPTIONS.get(type(e).__name__, {}))
def test_scikit_learn_checks(estimator, check):
    check(estimator)
