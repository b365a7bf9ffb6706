"""The number of clusters by stability: the score against its definition, choices, what it refuses, the estimator."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.estimators import MarginClusterer
from margindsl.selection.stability import _agreement

X, CLASSES = make_blobs(160, 3, centers=4, cluster_std=0.6, random_state=3)


def test_what_halves_share_is_mutual_information_without_its_bias():
    rng = np.random.default_rng(0)
    a, b = rng.integers(3, size=5000), rng.integers(4, size=5000)
    kept, lost, index = _agreement(a, b)
    assert abs(kept) < 1e-3 and abs(index) < 1e-2  # independent
    entropy = -sum(p * np.log(p) for p in np.bincount(b) / 5000)
    assert kept + lost == pytest.approx(entropy)
    kept, lost, index = _agreement(b, 3 - b)
    assert kept == pytest.approx(entropy, abs=2e-3) and lost == pytest.approx(0, abs=2e-3) and index == 1.0


@pytest.mark.parametrize("clusterer", [None, KMeans(n_init=4, random_state=0)], ids=["own", "k-means"])
def test_four_blobs_are_four(clusterer):
    found = md.select_clusters(X, 6, clusterer)
    assert found.clusters == 4 and found.numbers == (1, 2, 3, 4, 5, 6) and found.scores[0] == 0.0
    assert str(found).count("\n") == 7 and "*" in str(found) and repr(found) == "Stability(4 of 1 to 6 clusters)"
    assert len(found.to_frame()) == 6 and "<table>" in found._repr_html_()


def test_a_cloud_is_one():
    assert md.select_clusters(np.random.default_rng(0).normal(size=(200, 8))).clusters == 1


def test_units_and_a_seed_change_nothing_but_the_draw():
    scores = md.select_clusters(X, [2, 4], random_state=1).scores
    assert np.allclose(md.select_clusters(1e6 * X + 7, [4, 2], random_state=1).scores, scores)


@pytest.mark.parametrize("given, words", [
    ({"clusters": 0}, "expected the most clusters"), ({"clusters": "many"}, "expected the most clusters"),
    ({"clusters": [2, 90]}, "each half"), ({"splits": 0}, "splits=0"), ({"clusterer": KMeans}, "fit and predict")])
def test_what_is_refused(given, words):
    with pytest.raises(DeclarationError, match=words):
        md.select_clusters(X, **given)


def test_the_estimator_takes_the_number_its_view_shows():
    model = MarginClusterer("auto", random_state=0).fit(X)
    assert model.n_clusters_ == model.stability_.clusters == 4 and set(model.labels_) == {0, 1, 2, 3}
    assert np.array_equal(model.predict(X)[~model.held_], model.labels_[~model.held_])
    assert model.n_clusters == "auto" and model.stability_.plot().get_xlabel() == "number of clusters"


def test_known_labels_links_and_sizes_bound_the_number():
    known = np.full(160, -1)
    known[:2] = 0, 4
    cloud = np.random.default_rng(0).normal(size=(160, 8))
    assert MarginClusterer("auto").fit(cloud).labels_.max() == 0
    assert MarginClusterer("auto").fit(cloud, labels=known).stability_.numbers[0] == 5
    assert MarginClusterer("auto").fit(cloud, cannot_link=[(0, 1)]).n_clusters_ >= 2
    assert MarginClusterer("auto", min_size=60).fit(X).stability_.numbers == (1, 2)
    with pytest.raises(DeclarationError, match="give a number"):
        MarginClusterer("auto", kernel="precomputed").fit(X @ X.T)
    with pytest.raises(DeclarationError, match="one a cluster"):
        MarginClusterer("auto", min_size=[1, 2]).fit(X)


def test_clusters_to_try_are_whole_numbers_and_points_of_any_sparse_kind():
    X = np.random.default_rng(0).normal(size=(24, 2)) + np.repeat([[-3, 0], [3, 0]], 12, axis=0)
    with pytest.raises(DeclarationError, match="whole numbers from 1 on"):
        md.select_clusters(X, [1, 2.7])
    assert str(md.select_clusters(sp.coo_array(X), [1, 2])) == str(md.select_clusters(sp.csr_array(X), [1, 2]))
