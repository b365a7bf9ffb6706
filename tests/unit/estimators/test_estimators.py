"""What the estimators solve, and that they fit into scikit-learn."""

import pickle
import time

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import margindsl as md
from margindsl.errors import ContradictionError, DeclarationError, UnknownNameError
from margindsl.estimators import MarginClusterer, MaximumMarginEmbedding, ODMClassifier, SemiSupervisedODM, SpatialSign
from margindsl.metrics import clustering_accuracy


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(60, centers=[[-4, 0], [4, 0], [0, 6]], random_state=0)


@pytest.fixture(scope="module")
def pair():
    digits = load_digits(n_class=2)
    return digits.data[:120] / 16, digits.target[:120]


@pytest.mark.parametrize("clusters", [2, 3])
def test_the_clusterer_is_the_declaration_solved(pair, clusters):
    X, _ = pair
    model = MarginClusterer(clusters, lam=10.0, balance=0.2, tol=1e-6, random_state=0).fit(X)
    seen = SpatialSign().fit_transform(X)
    y, f = md.Labels(len(X), clusters=clusters), md.Hyperplane(seen)
    weight = 10 / np.mean(np.sum((seen - seen.mean(axis=0)) ** 2, axis=1))
    least, most = int(0.8 * 120 / clusters), int(120 / clusters / 0.8)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(md.odm(md.margin(y, f), 0.4, 0.2))),
                         [md.sizes(y, at_least=least, at_most=most)])
    fixed = problem.with_constraints(y == model.solution_.labels).solve("supervised")
    assert model.value_ == pytest.approx(fixed.value, rel=1e-6)
    sizes = np.bincount(model.labels_)
    assert least <= sizes.min() and sizes.max() <= most
    assert np.array_equal(model.predict(X) != model.labels_, model.held_)
    if clusters == 2:
        assert np.allclose(model.margins_, (2 * model.labels_ - 1) * model.decision_function(X))


@pytest.mark.parametrize("kernel, scale", [("linear", 1e-6), ("linear", 1e6), (md.Polynomial(2, offset=0), 1e2),
                                           (md.RBF("median"), 1e3)])
def test_units_of_the_points_do_not_matter(blobs, kernel, scale):
    X, _ = blobs
    model, scaled = (MarginClusterer(3, kernel=kernel, random_state=0).fit(Z) for Z in (X, scale * X))
    assert np.array_equal(model.labels_, scaled.labels_)
    assert scaled.value_ == pytest.approx(model.value_, rel=1e-4)


@pytest.mark.parametrize("clusters", [2, 3])
def test_points_that_nothing_holds_are_where_the_hyperplanes_put_them(blobs, clusters):
    X, _ = blobs
    free = MarginClusterer(clusters, balance=None, random_state=0).fit(X)
    assert np.array_equal(free.predict(X), free.labels_) and not free.held_.any()


def test_links_hold_points_and_the_estimator_says_which(blobs):
    X, truth = blobs
    pairs = [(int(np.flatnonzero(truth == 0)[0]), int(np.flatnonzero(truth == 1)[0]))]
    tied = MarginClusterer(3, kernel="linear", random_state=0).fit(X, must_link=pairs)
    assert tied.held_.any() and np.array_equal(tied.held_, tied.predict(X) != tied.labels_)


@pytest.mark.parametrize("container", [np.asarray, csr_array])
def test_a_view_bends_far_values_and_far_points(container):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)) * [1.0, 20.0, 0.0] + [5.0, 0.0, 1.0]
    X[0] = [1e6, -1e6, 1.0]
    for radius in (0.0, 1.0):
        seen = SpatialSign(radius=radius).fit_transform(container(X))
        seen = seen.toarray() if hasattr(seen, "toarray") else seen
        lengths = np.linalg.norm(seen, axis=1)
        assert np.all(lengths <= 1 + 1e-12) and (radius > 0 or np.allclose(lengths, 1))
        assert np.all(np.isfinite(seen)) and lengths[0] < 3 * np.median(lengths)
    straight = SpatialSign(deviations=np.inf, radius=1e9).fit_transform(X)  # of a great radius points only shrink
    moved = X - X.mean(axis=0)
    assert np.allclose(straight / np.linalg.norm(straight), moved / np.linalg.norm(moved))
    assert np.allclose(SpatialSign().fit(X).transform(container(X)), SpatialSign().fit_transform(X))


def test_a_view_of_a_dask_array_is_that_of_its_rows_and_a_limit_leaves_the_clusters_of_a_sample():
    da, rng = pytest.importorskip("dask.array"), np.random.default_rng(0)
    truth = rng.integers(0, 2, 30_000)
    X = rng.exponential(size=(30_000, 12)) + 4.0 * truth[:, None]
    chunks = da.from_array(X, chunks=(4_000, 12))
    assert SpatialSign().fit(chunks).measures() == SpatialSign().fit(X).measures()

    def slow(part):  # the time is up while the problem is compiled
        time.sleep(0.05)
        return part

    with pytest.warns(ConvergenceWarning, match="time limit"):
        model = MarginClusterer(time_limit=1e-3, random_state=0).fit(chunks.map_blocks(slow, meta=np.empty((0, 0))))
    same = np.mean(model.labels_ == truth)
    assert max(same, 1 - same) > 0.95  # not any labels that the sizes allow


@pytest.mark.parametrize("size, least", [({"min_size": 0.3}, [18] * 3), ({"min_size": 19}, [19] * 3),
                                         ({"min_size": [5, 30, 5]}, [5, 30, 5]), ({"max_size": [25, 0.3, 60]}, None)])
def test_sizes_are_points_or_fractions_of_all_or_of_each(blobs, size, least):
    X, _ = blobs
    found = MarginClusterer(3, random_state=0, **size).fit(X)
    sizes = np.bincount(found.labels_, minlength=3)
    assert np.all(sizes >= least) if least else np.all(sizes <= [25, 18, 60])
    with pytest.raises(DeclarationError, match="min_size=-1: expected positive numbers"):
        MarginClusterer(min_size=-1).fit(X)


def test_an_empty_cluster_an_early_end_and_misplaced_links_do_not_pass_in_silence(blobs):
    X, _ = blobs
    with pytest.warns(ConvergenceWarning, match="of 4 clusters are empty"):
        MarginClusterer(4, model=lambda X, clusters: md.Problem(
            md.Minimize(md.sq_norm(f := md.Hyperplane(X)) / 2 + md.mean(md.hinge(md.margin(y := md.Labels(
                len(X), clusters=clusters), f)))), [y[np.arange(len(X))] == np.arange(len(X)) % 2],
            relaxation="supervised")).fit(X)
    with pytest.raises(DeclarationError, match="links go to must_link="):
        MarginClusterer(3).fit(X, [(0, 1)])


@pytest.mark.parametrize("make", [
    lambda limit: ODMClassifier(time_limit=limit), lambda limit: SemiSupervisedODM(time_limit=limit),
    lambda limit: SemiSupervisedODM("ssodm", time_limit=limit), lambda limit: MarginClusterer(time_limit=limit),
    lambda limit: MaximumMarginEmbedding(1, time_limit=limit)], ids=["odm", "graph", "ssodm", "clusterer", "embedding"])
def test_an_early_end_is_warned_of_where_fit_was_called(make):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 30)), rng.integers(0, 2, 400)
    with pytest.warns(ConvergenceWarning, match="the solve ended as time limit"):
        make(1e-3).fit(X, y)


def test_dask_arrays_of_unknown_chunks_are_named_and_classes_may_be_lazy():
    da = pytest.importorskip("dask.array")
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.repeat([0, 1], 20)
    lazy = da.from_array(X, chunks=10)
    assert np.array_equal(ODMClassifier().fit(lazy, da.from_array(y, chunks=10)).predict(X),
                          ODMClassifier().fit(lazy, y).predict(X))
    for model in (ODMClassifier(), MarginClusterer()):
        with pytest.raises(DeclarationError, match="compute_chunk_sizes"):
            model.fit(lazy[lazy[:, 0] > -9], y)


@pytest.mark.parametrize("arguments", [{"deviations": 0.0}, {"radius": -1.0}, {"radius": np.inf}])
def test_a_view_refuses_what_it_cannot_be(blobs, arguments):
    with pytest.raises(DeclarationError, match=next(iter(arguments))):
        SpatialSign(**arguments).fit(blobs[0])


def test_the_view_is_the_users(blobs):
    X, truth = blobs
    plain = MarginClusterer(3, view=None, random_state=0).fit(X)
    scaled = MarginClusterer(3, view=StandardScaler(), random_state=0).fit(X)
    assert plain.view_ is None and np.allclose(scaled.view_.transform(X).std(axis=0), 1)
    assert clustering_accuracy(truth, plain.labels_) == clustering_accuracy(truth, scaled.labels_) == 1.0
    with pytest.raises(DeclarationError, match="view='robust': expected 'auto', None, or a transformer"):
        MarginClusterer(view="robust").fit(X)


@pytest.mark.parametrize("model", [None, "cpmmc"])
def test_optimising_is_no_worse_and_has_a_bound(pair, model):
    X = pair[0][::5]
    refined, best = (MarginClusterer(model=model, optimise=how, random_state=0).fit(X) for how in (False, True))
    assert refined.bound_ == -np.inf and best.value_ <= refined.value_ * (1 + 1e-6)
    assert -np.inf < best.bound_ <= best.value_ and best.gap_ == best.solution_.gap
    assert best.solution_.verify()


def test_kernels_given_as_matrices_are_measured_too(blobs):
    X, _ = blobs
    given = MarginClusterer(3, kernel=md.Precomputed(X @ X.T), random_state=0).fit(X)
    linear = MarginClusterer(3, view=None, kernel="linear", random_state=0).fit(X)
    assert given.value_ == pytest.approx(linear.value_, rel=1e-6)


def test_three_clusters_links_and_known_labels_are_kept(blobs):
    X, truth = blobs
    must, cannot = [(0, 1), (2, 3)], [(0, 2)]
    known = np.full(60, -1)
    known[:6] = truth[:6]
    free = MarginClusterer(3, random_state=0).fit(X)
    assert clustering_accuracy(truth, free.labels_) == 1.0
    assert free.decision_function(X).shape == (60, 3)
    held = MarginClusterer(3, random_state=0).fit(X, must_link=must, cannot_link=cannot)
    assert held.labels_[0] == held.labels_[1] and held.labels_[2] == held.labels_[3]
    assert held.labels_[0] != held.labels_[2]
    told = MarginClusterer(3, random_state=0).fit(X, labels=known)
    assert np.array_equal(told.labels_, truth)


def test_recipes_by_name_and_own_declarations(pair):
    X, truth = pair
    by_name = MarginClusterer(model="cpmmc", parameters={"C": 10.0, "l": 5.0}, random_state=0).fit(X)
    recipe = md.recipes.cpmmc(X, C=10.0, l=5.0).solve(random_state=0)
    assert by_name.value_ == pytest.approx(recipe.value, rel=1e-6)

    def own(X, lam):
        y, f = md.Labels(len(X)), md.Hyperplane(X)
        return md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 20])

    model = MarginClusterer(model=own, lam=7.0, relaxation="alternating", random_state=0).fit(X)
    assert model.problem_.constraints and clustering_accuracy(truth, model.labels_) > 0.9
    clusters = MarginClusterer(3, model="cpm3c", random_state=0).fit(make_blobs(45, random_state=1)[0])
    assert set(clusters.labels_) <= {0, 1, 2}


@pytest.mark.parametrize("arguments, error, message", [
    ({"model": "odmcc"}, UnknownNameError, "unknown recipe 'odmcc'. Did you mean 'odmc'"),
    ({"model": 3}, DeclarationError, "expected the name of a recipe, a function of X, or None"),
    ({"model": lambda X: None}, DeclarationError, "returned NoneType, expected md.Problem"),
    ({"model": "odmc", "n_clusters": 3}, DeclarationError, "a problem of 2 clusters, n_clusters=3"),
    ({"parameters": {"lambda_": 1}}, UnknownNameError, "unknown parameter of model 'margin_distribution' 'lambda_'"),
    ({"optimise": "yes"}, DeclarationError, "optimise='yes': expected True or False"),
    ({"balance": 2}, DeclarationError, "expected None or a number between 0 and 1"),
    ({"n_clusters": 0}, DeclarationError, "n_clusters=0: expected a positive integer"),
    ({"n_clusters": 200}, DeclarationError, "n_samples=120 should be >= n_clusters=200")])
def test_wrong_parameters(pair, arguments, error, message):
    with pytest.raises(error, match=message):
        MarginClusterer(**arguments).fit(pair[0])


def test_wrong_side_information(pair):
    X, _ = pair
    with pytest.raises(ContradictionError):
        MarginClusterer().fit(X, must_link=[(0, 1)], cannot_link=[(0, 1)])
    with pytest.raises(DeclarationError, match=r"expected \(120,\) integers from -1"):
        MarginClusterer().fit(X, labels=[0, 1])
    with pytest.raises(DeclarationError, match=r"expected \(120,\) integers from -1"):
        MarginClusterer().fit(X, labels=np.full(120, 2))


def test_pipelines_searches_clones_and_pickles(pair):
    X, truth = pair
    model = make_pipeline(StandardScaler(), MarginClusterer(lam=1.0, random_state=0))
    search = GridSearchCV(model, {"marginclusterer__lam": [1.0, 10.0]}, cv=2,
                          scoring=lambda fitted, X, y: clustering_accuracy(y, fitted.predict(X)))
    assert search.fit(X, truth).best_score_ > 0.9
    fitted = search.best_estimator_[-1]
    assert clone(fitted).get_params() == fitted.get_params()
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(X), fitted.predict(X)) and again.value_ == fitted.value_


def test_sparse_points_and_data_frames(pair):
    pandas = pytest.importorskip("pandas")
    X, _ = pair
    dense = MarginClusterer(view=None, random_state=0).fit(X)
    sparse = MarginClusterer(view=None, random_state=0).fit(csr_array(X))
    assert clustering_accuracy(MarginClusterer(random_state=0).fit(csr_array(X)).labels_, dense.labels_) > 0.9
    assert sparse.value_ == pytest.approx(dense.value_, rel=1e-6)
    frame = pandas.DataFrame(X, columns=[f"pixel {k}" for k in range(X.shape[1])])
    named = MarginClusterer(view=None, random_state=0).fit(frame)
    assert named.feature_names_in_[3] == "pixel 3" and clustering_accuracy(named.labels_, dense.labels_) == 1


def test_one_cluster_is_everything(pair):
    model = MarginClusterer(1).fit(pair[0])
    assert not model.labels_.any() and not model.predict(pair[0][:5]).any()
    assert model.decision_function(pair[0][:5]).shape == (5,)


def test_the_classifier_of_several_classes():
    X, species = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[species]
    X = StandardScaler().fit_transform(X)
    model = ODMClassifier().fit(X, names)
    assert model.score(X, names) > 0.95 and model.decision_function(X).shape == (150, 3)
    two = ODMClassifier().fit(X[:100], names[:100])
    assert two.score(X[:100], names[:100]) == 1.0 and two.decision_function(X).shape == (150,)
    assert np.array_equal(two.predict(X[:100]) == "versicolor", two.decision_function(X[:100]) >= 0)
    with pytest.raises(DeclarationError, match="one class only, 'setosa'"):
        ODMClassifier().fit(X[:50], names[:50])


def test_few_labels(pair):
    X, truth = pair
    y = np.full(120, -1)
    index = [np.flatnonzero(truth == c)[:3] for c in (0, 1)]
    y[np.concatenate(index)] = truth[np.concatenate(index)]
    model = SemiSupervisedODM("ssodm", parameters={"max_iter": 300}, random_state=0).fit(X, y)
    assert np.array_equal(model.labels_[y >= 0], y[y >= 0])
    assert model.score(X, truth) > 0.95 and model.bound_ <= model.solution_.value
    recipe = md.recipes.ssodm(X, np.where(y < 0, 0, 2 * y - 1), max_iter=300)
    assert model.solution_.solver == recipe.solver.name
    with pytest.raises(DeclarationError, match="Only binary classification .*; the known labels hold 1"):
        SemiSupervisedODM("ssodm").fit(X, np.where(y == 0, 0, -1))


@pytest.mark.parametrize("model, missing", [
    *(("graph", missing) for missing in (None, np.nan, pd.NA, "?", -1)), ("ssodm", pd.NA), ("ssodm", "?")], ids=str)
def test_unknown_classes_are_missing_or_marked(pair, missing, model):
    X, truth = pair
    y = pd.Series(np.array(["a", "b"], dtype=object)[truth], dtype=object)
    y[np.arange(120) % 10 > 0] = missing
    given = {"parameters": {"max_iter": 50}, "random_state": 0} if model == "ssodm" else {}
    for classes in (y, y.tolist()):
        found = SemiSupervisedODM(model, unknown="?" if isinstance(missing, str) else -1, **given).fit(X, classes)
        assert found.classes_.tolist() == ["a", "b"] and found.score(X, np.array(["a", "b"], dtype=object)[truth]) > 0.9
        assert found.margins_.shape == (120,) and np.array_equal(found.labels_[::10], y.to_numpy()[::10])


def test_several_classes_of_few_known():
    X, species = load_iris(return_X_y=True)
    y = np.where(np.arange(150) % 10 == 0, species, -1).astype(float)
    y[y < 0] = np.nan
    model = SemiSupervisedODM(calibration="sigmoid").fit(X, y)
    assert model.score(X, species) >= 0.9 and model.predict_proba(X).shape == (150, 3)
    agree = model.predict(X)[y != y] == model.labels_[y != y]
    assert agree.all() and model.predict(X + 1e-9).shape == (150,)
    sparse = SemiSupervisedODM().fit(csr_array(X), y)
    assert np.mean(sparse.predict(csr_array(X)) == model.predict(X)) > 0.95
    with pytest.raises(AttributeError, match="through a walk"):
        _ = model.coef_
    for wrong in ({"lam2": 1.0}, {"relaxation": "auto"}, {"kernel": "precomputed"}):
        with pytest.raises(DeclarationError, match=next(iter(wrong))):
            SemiSupervisedODM(**wrong).fit(X[:, :2] if "kernel" not in wrong else X @ X.T, y)
    with pytest.raises(DeclarationError, match="steps=0"):
        md.walked(X, steps=0)


def few_known(truth, count=40):
    """Return classes as numbers and as strings, the last ones unknown, and the strings of all."""
    names = np.array(["zero", "one"], dtype=object)[truth]
    strings = names.copy()
    strings[count:] = -1
    return np.where(np.arange(len(truth)) < count, truth, -1), strings, names


def test_unknown_classes_do_not_count_in_the_score(pair):
    X, truth = pair
    numbers, strings, names = few_known(truth)
    weights = np.random.default_rng(0).uniform(size=120)
    for y, full in ((numbers, truth), (strings, names), (numbers.astype(object), truth),
                    (numbers.astype(float), truth)):
        model = SemiSupervisedODM("ssodm", parameters={"max_iter": 50}, random_state=0).fit(X, y)
        right = model.predict(X) == full
        swapped = np.where(np.arange(120) % 3 == 0, full[::-1], full)  # some known classes wrong
        partial = np.where(np.arange(120) < 40, swapped, y)
        share = np.mean(model.predict(X)[:40] == swapped[:40])
        assert model.score(X, y) == np.mean(right[:40]) and model.score(X, full) == np.mean(right)
        assert 0 < share < 1 and model.score(X, partial) == pytest.approx(share)
        assert model.score(X, partial, weights) == pytest.approx(
            np.average(model.predict(X)[:40] == swapped[:40], weights=weights[:40]))
        with pytest.raises(DeclarationError, match="no class is known"):
            model.score(X[40:], y[40:])
        with pytest.raises(DeclarationError, match="weights of the points of known class sum to 0"):
            model.score(X, y, np.arange(120) >= 40)
    with pytest.raises(DeclarationError, match="'-1' is a class like any other; give np.array"):
        model.score(X, strings.astype(str))
    assert model.score(X, np.where(np.arange(120) < 5, np.nan, truth)) == model.score(X[5:], truth[5:])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(X, truth[:50])


def test_a_search_over_few_labels_has_finite_scores(pair):
    X, truth = pair
    numbers, strings, _ = few_known(truth)
    best = []
    for y, cv in ((numbers, 2), (numbers, KFold(2, shuffle=True, random_state=0)),
                  (strings, KFold(2, shuffle=True, random_state=0))):
        model = SemiSupervisedODM("ssodm", parameters={"max_iter": 20}, random_state=0)
        search = GridSearchCV(model, {"lam1": [10.0] if best else [1.0, 10.0]}, cv=cv).fit(X, y)
        assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
        best.append(search.best_score_)
    assert min(best) > 0.9 and best[1] == best[2]


@pytest.mark.parametrize("make", [
    lambda y: y.astype(float), lambda y: y.astype(object), lambda y: y.astype(float).astype(object),
    lambda y: y.tolist(), lambda y: y.astype(np.int8)])
def test_known_clusters_are_whole_numbers_of_any_type(blobs, make):
    X, truth = blobs
    known = np.where(np.arange(60) < 6, truth, -1)
    assert np.array_equal(MarginClusterer(3, random_state=0).fit(X, labels=make(known)).labels_, truth)


@pytest.mark.parametrize("value, shown", [
    (3, "3"), (-2, "-2"), (0.5, "0.5"), (np.inf, "inf"), ("a", "'a'"), (True, "True"),
    (10**30, "1000000000000000000000000000000")])
def test_a_wrong_cluster_is_named_with_its_place(blobs, value, shown):
    labels = np.full(60, -1, dtype=object)
    labels[7] = value
    kinds = [labels, labels.tolist()] if not isinstance(value, float) else [labels, labels.astype(float)]
    for given in kinds if not isinstance(value, (str, bool)) else [labels]:
        with pytest.raises(DeclarationError, match=rf"labels\[7\] is {shown}, expected \(60,\) integers from -1 "):
            MarginClusterer(3).fit(blobs[0], labels=given)


def test_the_embedding_is_orthogonal(pair):
    X, truth = pair
    model = MaximumMarginEmbedding(2, random_state=0)
    Z = model.fit_transform(X)
    assert Z.shape == (120, 2) and np.allclose(Z, model.embedding_) and np.allclose(Z, model.transform(X))
    first, second = (s.weights for s in model.solutions_)
    assert abs(first @ second) <= 1e-8 * np.linalg.norm(first) * np.linalg.norm(second)
    assert clustering_accuracy(truth, Z[:, 0] > 0) > 0.9
    assert model.get_feature_names_out().tolist() == ["maximummarginembedding0", "maximummarginembedding1"]
    with pytest.raises(DeclarationError, match="expected a positive integer"):
        MaximumMarginEmbedding(0).fit(X)


def test_what_a_model_or_a_single_cluster_cannot_take(pair):
    X, truth = pair
    for model in ("svm", "ssodm", "tsvm", "lapsvm"):
        with pytest.raises(DeclarationError, match=f"model '{model}' needs labels y: give parameters"):
            MarginClusterer(model=model).fit(X)
    known = np.where(np.arange(len(X)) < 20, 2 * truth - 1, 0)
    given = MarginClusterer(model="lapsvm", parameters={"y": known}).fit(X)
    assert np.array_equal(given.labels_[:20], truth[:20])
    with pytest.raises(DeclarationError, match="n_clusters=1: given 1 cannot-links, which need two clusters"):
        MarginClusterer(1).fit(X, cannot_link=[(0, 1)])
    with pytest.raises(DeclarationError, match=r"expected \(120,\) integers from -1 \(unknown\) to 0"):
        MarginClusterer(1).fit(X, labels=truth + 1)
    assert not MarginClusterer(1).fit(X, must_link=[(0, 1)], labels=np.zeros(120, dtype=int)).labels_.any()
