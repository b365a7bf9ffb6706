"""No argument of an estimator is dropped: it reaches the model, or is an error."""

import inspect
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

import margindsl as md
from margindsl.errors import DeclarationError, UnknownNameError
from margindsl.estimators import MarginClusterer, MaximumMarginEmbedding, SemiSupervisedODM
from margindsl.estimators.walked import Walked
from margindsl.recipes.recipe import traits_of

CLOUDS = make_blobs([20, 20], centers=[[-3, -1], [3, 1]], random_state=0)[0]


class Shorter(BaseEstimator):
    """A view that loses a point."""

    def fit_transform(self, X, y=None):
        return X[1:]

    def transform(self, X):
        return X

X, TRUTH = make_blobs(24, centers=[[-2, 0], [2, 0]], random_state=0)
TRAITS = {name: traits_of(getattr(md.recipes, name)) for name in md.recipes.__all__}
TWO = [name for name in TRAITS if name not in ("cpm3c", "maximum_margin_embedding")]
WEIGHTS = [name for name in TWO if TRAITS[name].weight and name != "odm"]  # odm needs all labels
BALANCED = [name for name in TWO if TRAITS[name].label_share or TRAITS[name].decision_sum]
NO_PLACE = ["cs4vm", "cuts3vm", "fair", "lapsvm", "miodm", "s4vm", "ssodm", "svm", "tsvm", "usvm"]
SMALL = {"relaxation": md.Alternating(restarts=1, polish="none"), "random_state": 0, "time_limit": 5.0}


def declared(model, **arguments):
    """Return the problem an estimator declares, as text."""
    return MarginClusterer(model=model, **SMALL, **arguments).fit(X).problem_.text()


def recipe(model, **arguments):
    return getattr(md.recipes, model)(X, **arguments).text()


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("model", WEIGHTS)
def test_lam_is_the_weight_of_a_recipe(model):
    name = TRAITS[model].weight
    assert declared(model, lam=3.0) == recipe(model, **{name: 3.0}) != recipe(model)
    assert declared(model) == recipe(model)


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("model", BALANCED)
def test_balance_bounds_labels_or_decision_values(model):
    share, total = TRAITS[model].label_share, TRAITS[model].decision_sum
    own = {share: 0.25} if share else {total: 0.25 * len(X)}
    assert declared(model, balance=0.25) == recipe(model, **own) != recipe(model)


def test_balance_of_several_clusters():
    problem = MarginClusterer(3, model="cpm3c", balance=0.5, random_state=0).fit(X).problem_
    assert problem.text() == md.recipes.cpm3c(X, 3, balance=12.0, kernel="linear").text()


@pytest.mark.parametrize("model", ["cpmmc", "itersvr", "mmc"])
def test_lam_changes_the_value(model):
    values = [MarginClusterer(model=model, lam=lam, **SMALL).fit(X).value_ for lam in (0.1, 1000.0)]
    assert values[0] < values[1]


def test_every_recipe_says_what_it_takes():
    assert {*WEIGHTS, *BALANCED, *NO_PLACE, "odm", "cpm3c", "maximum_margin_embedding"} == set(TRAITS)
    assert len(WEIGHTS) == len(BALANCED) == 15
    for name, traits in TRAITS.items():
        taken = inspect.signature(getattr(md.recipes, name)).parameters
        assert {traits.weight, traits.label_share, traits.decision_sum} - {""} <= set(taken), name


@pytest.mark.parametrize("model", [*NO_PLACE, "cpm3c", "maximum_margin_embedding"])
def test_a_weight_without_a_place_is_an_error(model):
    with pytest.raises(DeclarationError, match=f"lam=3.0: model '{model}' has no such argument"):
        MarginClusterer(model=model, lam=3.0).fit(X)


@pytest.mark.parametrize("arguments, message", [
    ({"model": "tsvm", "balance": 0.2}, "balance=0.2: model 'tsvm' has no such argument"),
    ({"model": "cpmmc", "balance": None}, "balance=None: model 'cpmmc' does not go without"),
    ({"model": "itersvr", "balance": 7}, "balance=7: expected None or a number between 0 and 1"),
    ({"model": "cpmmc", "lam": 1.0, "parameters": {"C": 2.0}}, "lam=1.0: parameters give 'C' too"),
    ({"lam": 1.0, "parameters": {"lam": 2.0}}, "lam=1.0: parameters give 'lam' too; leave lam='auto'"),
    ({"lam": "a"}, "lam='a': expected 'auto' or a positive number"),
    ({"lam": -1.0}, "lam=-1.0: expected 'auto' or a positive number"),
    ({"lam": float("nan"), "model": "cpmmc"}, "lam=nan: expected 'auto' or a positive number"),
    ({"parameters": 3}, "parameters=3: expected None or a dict"),
    ({"model": lambda X: md.recipes.cpmmc(X), "lam": 2.0}, "lam=2.0: model '<lambda>' has no such argument"),
    ({"model": lambda X: md.recipes.cpmmc(X), "kernel": md.RBF()}, "has no such argument; .* leave kernel='auto'"),
    ({"model": lambda X: md.recipes.cpmmc(X), "n_clusters": 3}, "returned a problem of 2 clusters, n_clusters=3")])
def test_what_would_be_dropped_is_an_error(arguments, message):
    with pytest.raises(DeclarationError, match=message):
        MarginClusterer(**arguments).fit(X)


def test_a_function_of_any_keywords_gets_what_is_given():
    given = []

    def model(X, **parameters):
        given.append(parameters)
        return md.recipes.cpmmc(X)

    MarginClusterer(model=model, lam=2.0, balance=None, parameters={"depth": 1}, random_state=0).fit(X)
    MarginClusterer(model=model, random_state=0).fit(X)
    assert given == [{"lam": 2.0, "balance": None, "depth": 1}, {}]


@pytest.mark.parametrize("make, name, error, message", [
    (partial(SemiSupervisedODM, "ssodm"), "lam1", DeclarationError, "lam1 is an argument of the estimator"),
    (partial(SemiSupervisedODM, "ssodm"), "nue", UnknownNameError, "unknown parameter of model 'ssodm' 'nue'"),
    (MaximumMarginEmbedding, "C", DeclarationError, "C is an argument of the estimator; give it there"),
    (MaximumMarginEmbedding, "epsilom", UnknownNameError, "Did you mean 'epsilon'")])
def test_parameters_of_the_other_estimators(make, name, error, message):
    y = np.where(np.arange(24) < 12, TRUTH, -1)
    with pytest.raises(error, match=message):
        make(parameters={name: 1.0}).fit(X, y)
    with pytest.raises(DeclarationError, match="parameters=3: expected None or a dict"):
        make(parameters=3).fit(X, y)


def test_classes_that_are_strings():
    names = np.array(["left", "right"], dtype=object)[TRUTH]
    y = names.copy()
    y[12:] = -1
    model = SemiSupervisedODM("ssodm", parameters={"max_iter": 100}, random_state=0).fit(X, y)
    numbers = SemiSupervisedODM("ssodm", parameters={"max_iter": 100}, random_state=0).fit(
        X, np.where(np.arange(24) < 12, TRUTH, -1))
    assert model.classes_.tolist() == ["left", "right"]
    assert np.array_equal(model.labels_ == "right", numbers.labels_ == 1)
    assert model.score(X, names) == numbers.score(X, TRUTH)
    with pytest.raises(DeclarationError, match="'-1' is a class like any other; give np.array"):
        SemiSupervisedODM().fit(X, y.astype(str))
    y[0] = 5
    with pytest.raises(DeclarationError, match="known classes are strings and numbers"):
        SemiSupervisedODM().fit(X, y)


def test_a_model_of_other_points_is_refused():
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.raises(DeclarationError, match="5 points, X has 30"):
        MarginClusterer(model=lambda points: md.recipes.mmc(points[:5])).fit(X)


def test_one_cluster_keeps_its_sizes():
    for sizes in ({"max_size": 3}, {"min_size": 40}):
        with pytest.raises(DeclarationError, match="n_clusters=1 of such sizes have .* points, and there are 12"):
            MarginClusterer(1, **sizes).fit(np.eye(12))
    assert not MarginClusterer(1, max_size=12).fit(np.eye(12)).labels_.any()
    for name in ("optimise", "view"):
        with pytest.raises(DeclarationError, match=f"{name}='yes': expected"):
            MarginClusterer(1, **{name: "yes"}).fit(np.eye(12))


def test_influences_that_are_not_known_are_no_attribute():
    X = np.random.default_rng(0).normal(size=(12, 2)) + np.repeat([[-3, 0], [3, 0]], 6, axis=0)
    assert not hasattr(MarginClusterer(2, kernel="precomputed").fit(X @ X.T), "feature_importances_")


def test_a_second_fit_of_named_classes_begins_anew():
    X = np.random.default_rng(0).normal(size=(12, 2)) + np.repeat([[-3, 0], [3, 0]], 6, axis=0)
    classes = np.array(["a", *[None] * 10, "b"], dtype=object)
    model = SemiSupervisedODM("ssodm", warm_start=True).fit(X, classes)
    assert np.array_equal(model.fit(X, classes).predict(X), np.repeat(["a", "b"], 6))
    for weights, words in ((np.ones((12, 1)), "a weight a point"), ([-1.0] * 3 + [1.0] * 9, "at least 0")):
        with pytest.raises(DeclarationError, match=words):
            model.score(X, np.repeat(["a", "b"], 6), sample_weight=weights)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_walked_points_are_recognised_in_many_columns(make):
    Z = np.random.default_rng(1).normal(size=(60, 40))
    found = Walked().fit(make(Z)).transform(make(Z))
    assert abs(found - md.walked(Z)).max() < 1e-12


def test_pairs_of_dates_are_names():
    X = np.random.default_rng(0).normal(size=(12, 2)) + np.repeat([[-3, 0], [3, 0]], 6, axis=0)
    days = pd.date_range("2020-01-01", periods=12)
    pairs = pd.DataFrame({"i": days[:2], "j": days[6:8]})
    labels = MarginClusterer().fit(pd.DataFrame(X, index=days, columns=["a", "b"]), cannot_link=pairs).labels_
    assert labels[0] != labels[6] and labels[1] != labels[7]


@pytest.mark.parametrize("arguments, message", [
    ({"max_size": 3}, "max_size=3: n_clusters=2 of such sizes have 0 to 6 points, and there are 40"),
    ({"min_size": 80}, "min_size=80, max_size=None: n_clusters=2 of such sizes have 160 to 80 points"),
    ({"view": TSNE()}, "expected 'auto', None, or a transformer such as SpatialSign.. with fit_transform and, for"),
    ({"view": Shorter()}, "gives 39 rows of 40 points")])
def test_sizes_and_views_that_cannot_be(arguments, message):
    with pytest.raises(DeclarationError, match=message):
        MarginClusterer(**arguments).fit(CLOUDS)


def test_all_points_may_be_in_one_cluster():
    free = MarginClusterer(balance=None, random_state=0).fit(CLOUDS)
    assert MarginClusterer(max_size=1.0, random_state=0).fit(CLOUDS).value_ == pytest.approx(free.value_)


@pytest.mark.parametrize("make", [partial(MarginClusterer, kernel="linear"), partial(
    MarginClusterer, kernel="linear", view=PCA(1).set_output(transform="pandas"))])
def test_frames_of_views_are_points(make):
    plain = make(random_state=0).fit(CLOUDS)
    with config_context(transform_output="pandas"):
        framed = make(random_state=0).fit(pd.DataFrame(CLOUDS, columns=["a", "b"]))
        np.testing.assert_array_equal(framed.predict(pd.DataFrame(CLOUDS, columns=["a", "b"])), plain.labels_)
        known = np.where(np.arange(40) % 8 == 0, plain.labels_, -1)
        assert SemiSupervisedODM().fit(CLOUDS, known).score(CLOUDS, plain.labels_) == 1.0
    seen = np.asarray(framed.view_.transform(pd.DataFrame(CLOUDS, columns=["a", "b"])))
    np.testing.assert_allclose(seen @ framed.coef_[0] + framed.intercept_, framed.solution_.decision, atol=1e-8)


def test_links_are_read_once_and_again():
    found = [MarginClusterer(random_state=0).fit(CLOUDS, must_link=pairs, cannot_link=iter([(0, 1)])).labels_
             for pairs in ([(0, 39)], zip([0], [39]), {"a": (0, 39)}.values())]
    assert found[0][0] == found[0][39] != found[0][1]
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_auto_tries_numbers_that_links_and_labels_allow():
    apart = list(combinations(range(4), 2))
    assert MarginClusterer("auto", random_state=0).fit(CLOUDS, cannot_link=apart).n_clusters_ >= 4
    none = MarginClusterer("auto", random_state=0).fit(CLOUDS, cannot_link=[])
    assert none.stability_.to_frame().clusters.min() == 1
    with pytest.raises(DeclarationError, match="no number of clusters from 1 to 10 goes with"):
        MarginClusterer("auto").fit(CLOUDS, cannot_link=list(combinations(range(12), 2)))


def test_series_of_weights_are_read_by_their_index():
    frame, weights = pd.DataFrame(CLOUDS), pd.Series(np.linspace(0.1, 3.0, 40))
    one, other = (MarginClusterer(random_state=0).fit(frame, sample_weight=own).value_ for own in (
        weights, weights[::-1]))
    assert one == other


def test_auto_takes_known_labels_of_many_clusters():
    labels = np.where(np.arange(40) < 4, [14, 3, 0, 1] * 10, -1)
    assert MarginClusterer("auto", balance=None, random_state=0).fit(CLOUDS, labels=labels).n_clusters_ == 15
