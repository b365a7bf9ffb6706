"""What users of scikit-learn expect of an estimator beside its checks: weights, probabilities, searches."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import margindsl as md
from margindsl.errors import DeclarationError, UnknownNameError
from margindsl.estimators import MarginClusterer, MaximumMarginEmbedding, ODMClassifier, SemiSupervisedODM

X, species = load_iris(return_X_y=True)
TWO, of_two = X[50:], species[50:]
known = np.where(np.arange(100) % 4 == 0, of_two, -1)
FEW = {"relaxation": "cccp", "random_state": 0}


@pytest.mark.parametrize("model,points,given", [
    (ODMClassifier(), TWO, of_two), (ODMClassifier(), X, species), (SemiSupervisedODM("ssodm", **FEW), TWO, known),
    (MarginClusterer(kernel="linear", random_state=0), TWO, None),
    (MarginClusterer(3, kernel="linear", random_state=0), X, None)],
    ids=["two-classes", "three-classes", "semi-supervised", "two-clusters", "three-clusters"])
def test_coefficients_give_the_decision_values(model, points, given):
    model = clone(model).fit(points, given)
    view = getattr(model, "view_", None)
    values = (points if view is None else view.transform(points)) @ model.coef_.T + model.intercept_
    decided = model.decision_function(points)
    assert model.coef_.shape == (values.shape[1], 4) and model.intercept_.shape == (values.shape[1],)
    np.testing.assert_allclose(values.reshape(decided.shape), decided, rtol=1e-9, atol=1e-9)


def test_other_kernels_have_no_coefficients():
    model = ODMClassifier(kernel=md.RBF(1.0)).fit(TWO, of_two)
    assert not hasattr(model, "coef_")
    with pytest.raises(AttributeError, match="linear kernels only; the kernel is RBF"):
        model.coef_  # noqa: B018


def test_a_weight_of_two_is_a_point_twice():
    """Points are mirrored, so that the centre is the same with weights and with repetitions."""
    points = np.concatenate([TWO - TWO.mean(0), TWO.mean(0) - TWO])
    classes = np.concatenate([of_two, of_two])
    weights = np.tile(1.0 + np.arange(100) % 2, 2)
    by_weight = ODMClassifier(tol=1e-9).fit(points, classes, sample_weight=weights)
    twice = np.repeat(np.arange(200), weights.astype(int))
    repeated = ODMClassifier(tol=1e-9).fit(points[twice], classes[twice])
    np.testing.assert_allclose(by_weight.decision_function(points), repeated.decision_function(points), atol=1e-5)


@pytest.mark.parametrize("model,given", [(ODMClassifier(), of_two), (SemiSupervisedODM("ssodm", **FEW), known)],
                         ids=["supervised", "semi-supervised"])
def test_equal_weights_change_nothing(model, given):
    plain = clone(model).fit(TWO, given).decision_function(TWO)
    np.testing.assert_allclose(clone(model).fit(TWO, given, sample_weight=np.full(100, 3.0)).decision_function(TWO),
                               plain, atol=1e-5)


def test_a_clusterer_weighs_losses():
    weights = np.where(of_two == 1, 10.0, 0.1)
    weighted = MarginClusterer(view=None, kernel="linear", tol=1e-6, random_state=0).fit(TWO, sample_weight=weights)
    y, f = weighted.problem_.labels, weighted.problem_.hyperplane
    scale = 30.0 / np.mean(np.sum((TWO - TWO.mean(0))**2, axis=1))
    losses = md.sum(weights / weights.sum() * md.odm(y * f, 0.4, 0.2))
    own = md.Problem(md.Minimize(md.sq_norm(f) / 2 + scale * losses),
                     [y[np.arange(100)] == weighted.solution_.labels])
    assert np.isclose(own.solve("supervised").value, weighted.value_, rtol=1e-5)


def test_a_recipe_without_weights_refuses_them():
    with pytest.raises(DeclarationError, match="sample_weight: model 'odmc' has no such argument"):
        MarginClusterer(model="odmc").fit(TWO, sample_weight=np.ones(100))


@pytest.mark.parametrize("model,given", [(ODMClassifier(), of_two), (SemiSupervisedODM("ssodm", **FEW), known)],
                         ids=["supervised", "semi-supervised"])
def test_a_weight_of_a_class_is_that_of_its_points(model, given):
    by_class = clone(model).set_params(class_weight={1: 1.0, 2: 9.0}).fit(TWO, given)
    weights = np.where(given == 2, 9.0, 1.0)
    by_point = clone(model).fit(TWO, given, sample_weight=weights)
    np.testing.assert_allclose(by_class.decision_function(TWO), by_point.decision_function(TWO), atol=1e-5)
    assert (by_class.predict(TWO) == 2).sum() >= (clone(model).fit(TWO, given).predict(TWO) == 2).sum()


@pytest.mark.parametrize("wrong,said", [(np.ones(7), "shape"), (np.full(100, -1.0), "at least 0"),
                                        (np.zeros(100), "zero"), (np.full(100, np.nan), "finite")])
@pytest.mark.parametrize("model", [ODMClassifier(), SemiSupervisedODM("ssodm", **FEW), MarginClusterer()],
                         ids=["supervised", "semi-supervised", "clusterer"])
def test_weights_that_are_none_are_refused(model, wrong, said):
    with pytest.raises(DeclarationError, match=said):
        model.fit(TWO, known, sample_weight=wrong)


@pytest.mark.parametrize("model,points,given,truth", [
    (ODMClassifier(calibration="sigmoid"), TWO, of_two, of_two),
    (ODMClassifier(calibration="isotonic"), TWO, of_two, of_two),
    (ODMClassifier(calibration="sigmoid"), X, species, species),
    (SemiSupervisedODM("ssodm", calibration="sigmoid", **FEW), TWO, known, of_two)],
    ids=["sigmoid", "isotonic", "three-classes", "semi-supervised"])
def test_probabilities_are_calibrated(model, points, given, truth):
    model.fit(points, given)
    probabilities = model.predict_proba(points)
    assert probabilities.shape == (len(points), len(model.classes_))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    shares = np.bincount(truth)[np.unique(truth)] / len(truth)
    assert log_loss(truth, probabilities) < 0.5 * log_loss(truth, np.tile(shares, (len(truth), 1)))
    assert np.mean(model.classes_[probabilities.argmax(axis=1)] == model.predict(points)) > 0.9


def test_probabilities_come_from_points_that_were_hidden():
    """Without signal a fit of many columns separates its own points; probabilities must not believe it."""
    rng = np.random.default_rng(0)
    noise, coins = rng.normal(size=(60, 80)), np.arange(60) % 2
    model = ODMClassifier(calibration="sigmoid").fit(noise, coins)
    assert model.score(noise, coins) == 1.0
    fresh = model.predict_proba(rng.normal(size=(400, 80)))
    assert np.abs(fresh - 0.5).mean() < 0.25


def test_without_calibration_there_are_no_probabilities():
    model = ODMClassifier().fit(TWO, of_two)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(UnknownNameError, match="sigmoid"):
        ODMClassifier(calibration="platt").fit(TWO, of_two)
    with pytest.raises(DeclarationError, match="single known point"):
        SemiSupervisedODM(calibration="sigmoid").fit(TWO, np.where(np.arange(100) % 99 == 0, of_two, -1))


@pytest.mark.parametrize("model,given", [(ODMClassifier(), of_two), (MarginClusterer(warm_start=of_two), None),
                                         (SemiSupervisedODM("ssodm", **FEW), known)],
                         ids=["supervised", "clusterer", "semi-supervised"])
def test_a_precomputed_kernel_is_the_kernel(model, given):
    K = TWO @ TWO.T
    plain = clone(model).set_params(kernel="linear", **({"view": None} if given is None else {})).fit(TWO, given)
    pairwise = clone(model).set_params(kernel="precomputed").fit(K, given)
    np.testing.assert_allclose(pairwise.decision_function(K[:30]), plain.decision_function(TWO[:30]), atol=1e-4)
    assert pairwise.__sklearn_tags__().input_tags.pairwise and not plain.__sklearn_tags__().input_tags.pairwise


def test_cross_validation_slices_a_precomputed_kernel():
    folds = StratifiedKFold(4)
    plain = cross_val_score(ODMClassifier(), TWO, of_two, cv=folds)
    sliced = cross_val_score(ODMClassifier(kernel="precomputed"), TWO @ TWO.T, of_two, cv=folds)
    np.testing.assert_allclose(sliced, plain)


def test_a_kernel_matrix_that_is_not_square_is_refused():
    with pytest.raises(DeclarationError, match="square"):
        MarginClusterer(kernel="precomputed").fit(TWO)


@pytest.mark.parametrize("kernel", ["rbf", md.RBF(1.0, rank=40)])
def test_parameters_of_kernels_are_searched(kernel):
    search = GridSearchCV(make_pipeline(StandardScaler(), ODMClassifier(kernel=kernel)),
                          {"odmclassifier__kernel__width": [1e-3, 1.0]}, cv=3).fit(TWO, of_two)
    assert search.best_params_ == {"odmclassifier__kernel__width": 1.0}
    chosen = search.best_estimator_[-1].kernel
    assert chosen.width == 1.0 and chosen.rank == getattr(kernel, "rank", None)


def test_a_kernel_in_use_is_not_changed_by_a_search():
    kernel = md.RBF(1.0)
    model = ODMClassifier(kernel=kernel).set_params(kernel__width=2.0)
    assert kernel.width == 1.0 and model.kernel == md.RBF(2.0)
    assert model.get_params()["kernel__width"] == 2.0 and clone(model).kernel == md.RBF(2.0)
    with pytest.raises(UnknownNameError, match="width"):
        model.set_params(kernel__widht=1.0)
    with pytest.raises(DeclarationError, match="precomputed"):
        model.set_params(kernel="precomputed", kernel__width=1.0)


def test_labels_to_begin_with():
    start = np.where(np.arange(100) % 2, "a", "b")
    first = MarginClusterer(warm_start=start, random_state=0).fit(TWO)
    again = MarginClusterer(warm_start=True, random_state=0).fit(TWO)
    value = again.value_
    assert again.fit(TWO).value_ <= value * (1 + 1e-9) and np.isfinite(first.value_)
    with pytest.raises(DeclarationError):
        MarginClusterer(warm_start=start[:50]).fit(TWO)


@pytest.mark.parametrize("clusters,columns", [(1, 1), (2, 1), (3, 3)])
def test_a_clusterer_transforms_to_decision_values_with_names(clusters, columns):
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = MarginClusterer(clusters, random_state=0).set_output(transform="pandas")
    values = model.fit_transform(frame)
    assert values.shape == (150, columns) and list(values.columns) == list(model.get_feature_names_out())
    np.testing.assert_array_equal(values.to_numpy().ravel(), model.decision_function(frame).ravel())


def test_a_score_is_the_mean_hinge_loss_of_new_points():
    points, _ = make_blobs(200, centers=[[-3, 0], [3, 0]], random_state=0)
    model = MarginClusterer(random_state=0).fit(points[:100])
    losses = np.maximum(0, 1 - np.abs(model.decision_function(points[100:])))
    assert np.isclose(model.score(points[100:]), -losses.mean())
    weights = np.arange(100.0)
    assert np.isclose(model.score(points[100:], sample_weight=weights), -np.average(losses, weights=weights))
    three = MarginClusterer(3, random_state=0).fit(points)
    assert three.score(points) <= 0


def test_links_and_weights_are_routed():
    with config_context(enable_metadata_routing=True):
        clusterer = MarginClusterer(random_state=0).set_fit_request(must_link=True, cannot_link=True, labels=True)
        pipeline = make_pipeline(StandardScaler(), clusterer)
        pipeline.fit(TWO, must_link=[(0, 99)], cannot_link=[(1, 2)])
        search = GridSearchCV(ODMClassifier().set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
                              {"lam": [1.0, 10.0]}, cv=2).fit(TWO, of_two, sample_weight=np.ones(100))
    labels = pipeline[-1].labels_
    assert labels[0] == labels[99] and labels[1] != labels[2] and search.best_score_ > 0.8


class Tensor:
    """Stand for an array of another library: it says where it lies, and can be read from the CPU."""

    def __init__(self, values, device):
        self.values, self.device, self.shape, self.ndim = np.asarray(values), device, np.shape(values), np.ndim(values)

    def __dlpack_device__(self):
        return {"cpu": 1, "cuda:0": 2}[self.device], 0

    def __array__(self, dtype=None, copy=None):
        if self.device != "cpu":
            raise TypeError("not on the CPU")
        return self.values if dtype is None else self.values.astype(dtype)

    def __len__(self):
        return len(self.values)


@pytest.mark.parametrize("model", [ODMClassifier(), MarginClusterer(random_state=0),
                                   MaximumMarginEmbedding(1, random_state=0)], ids=["classifier", "clusterer", "map"])
def test_tensors_of_the_cpu_are_arrays_and_others_are_refused(model):
    plain, tensors = clone(model).fit(TWO, of_two), clone(model).fit(Tensor(TWO, "cpu"), Tensor(of_two, "cpu"))
    method = "transform" if hasattr(model, "transform") else "decision_function"
    np.testing.assert_array_equal(getattr(plain, method)(TWO), getattr(tensors, method)(Tensor(TWO, "cpu")))
    with pytest.raises(DeclarationError, match=r"X has device cuda:0.*CPU"):
        clone(model).fit(Tensor(TWO, "cuda:0"), of_two)
    with pytest.raises(DeclarationError, match=r"X has device cuda:0.*CPU"):
        md.Hyperplane(Tensor(TWO, "cuda:0"))
