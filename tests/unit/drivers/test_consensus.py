"""Starts by consensus: better than k-means, in any units, under constraints."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits, make_blobs
from sklearn.preprocessing import StandardScaler

import margindsl as md
from margindsl.drivers.consensus import SAMPLE, consensus
from margindsl.drivers.means import best_k_means
from margindsl.drivers.starts import kept, linked_directions
from margindsl.features import build
from margindsl.metrics import clustering_accuracy


def digits(*names):
    """Return standardised points and classes of some digits."""
    data = load_digits()
    chosen = np.isin(data.target, names)
    return StandardScaler().fit_transform(data.data[chosen]), np.searchsorted(names, data.target[chosen])


@pytest.mark.parametrize("names", [(3, 5), (1, 2, 7, 9)])
@pytest.mark.parametrize("make", [np.asarray, lambda X: 1e-9 * X, csr_array])
def test_digits_are_told_apart_where_k_means_fails(names, make):
    X, truth = digits(*names)
    features, rng = build(make(X)), np.random.default_rng(0)
    found = clustering_accuracy(truth, consensus(features, len(names), rng).argmax(axis=1))
    plain = clustering_accuracy(truth, best_k_means(features, len(names), rng).argmax(axis=1))
    assert found > plain + 0.03


@pytest.mark.parametrize("clusters", [2, 3])
def test_points_outside_the_sample_follow_their_neighbours(clusters):
    X, truth = make_blobs(SAMPLE + 500, 5, centers=4 * np.eye(clusters, 5), random_state=0, cluster_std=0.5)
    gains = consensus(build(X), clusters, np.random.default_rng(0))
    assert clustering_accuracy(truth, gains.argmax(axis=1)) == 1.0


@pytest.mark.parametrize("clusters", [2, 3])
def test_known_labels_name_the_clusters_of_a_start(clusters):
    X, truth = make_blobs(90, 5, centers=4 * np.eye(clusters, 5), random_state=0, cluster_std=0.5)
    y, f = md.Labels(90, clusters=clusters), md.Hyperplane(X)
    known = 2 * truth[:9] - 1 if clusters == 2 else truth[:9]
    loss = md.mean(md.hinge(md.margin(y, f, coding="simplex")))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * loss), [y[np.arange(9)] == known])
    for start in ("consensus", "kmeans"):
        for seed in range(2):
            method = md.Alternating(restarts=1, start=start, rounds=1, polish="none")
            found = problem.solve(method, random_state=seed).labels
            assert np.array_equal((found + 1) // 2 if clusters == 2 else found, truth)


@pytest.mark.parametrize("X", [np.ones((5, 2)), np.arange(3.0)[:, None]])
def test_few_points_and_points_that_are_alike(X):
    gains = consensus(build(X), 2, np.random.default_rng(0))
    assert gains.shape == (len(X), 2) and np.isfinite(gains).all()


@pytest.mark.parametrize("clusters", [2, 3])
def test_what_keeps_links_counts_for_more(clusters):
    rng = np.random.default_rng(0)
    truth = rng.integers(clusters, size=60)
    pairs = rng.permutation(60).reshape(-1, 2)
    same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
    y, f = md.Labels(60, clusters=clusters), md.Hyperplane(rng.normal(size=(60, 3)))
    total = md.sq_norm(f) / 2 + md.mean(md.hinge(md.margin(y, f, coding="simplex")))
    program = md.Problem(md.Minimize(total), [md.must_link(y, pairs[same]), md.cannot_link(y, pairs[~same])]).program()
    points, wrong = np.arange(60), np.where(points_of(pairs, 20), (truth + 1) % clusters, truth)
    assert kept(program, points, truth) == kept(program, points, (truth + 1) % clusters) == 1.0
    assert kept(program, points, wrong) < 1.0 and kept(program, points, np.zeros(60, dtype=int)) < 1.0
    free = md.Problem(md.Minimize(total), [md.sizes(y, at_least=1)]).program()
    assert kept(free, points, wrong) == 1.0


def points_of(pairs, count):
    """Return which points come first in the first pairs: moving them alone breaks each of these links."""
    first = np.zeros(pairs.size, dtype=bool)
    first[pairs[:count, 0]] = True
    return first


def test_clouds_of_unequal_sizes_are_what_most_clusterings_agree_upon():
    X, truth = make_blobs([250, 80, 40, 30], 4, cluster_std=1.2, random_state=1)[:2]
    features = build(X, md.RBF(0.35 * md.mean_distance, rank=50)).clustered
    labels = consensus(features, 4, np.random.default_rng(0)).argmax(axis=1)
    assert clustering_accuracy(truth, labels) >= 0.98


@pytest.mark.parametrize("clusters", [2, 3])
@pytest.mark.parametrize("told", ["links", "labels"])
def test_a_start_lies_along_the_directions_that_links_and_labels_tell(clusters, told):
    rng, n = np.random.default_rng(0), 150
    truth = np.arange(n) % clusters
    X = rng.normal(size=(n, 6)) * [1, 1, 1, 4, 4, 4] + 5 * np.eye(clusters, 6)[truth]  # the classes vary least
    y, f = md.Labels(n, clusters=clusters), md.Hyperplane(X)
    i, j = rng.integers(n, size=(2, 90))
    same = truth[i] == truth[j]
    index = np.arange(0, n, 4)
    constraints = ([md.must_link(y, np.c_[i, j][same & (i != j)]), md.cannot_link(y, np.c_[i, j][~same])]
                   if told == "links" else [y[index] == (truth if clusters > 2 else 2 * truth - 1)[index]])
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(md.margin(y, f)))), constraints)
    along = linked_directions(problem.program())
    found = best_k_means(build(along), clusters, rng).argmax(axis=1)
    assert along.shape == (n, clusters - 1) and clustering_accuracy(truth, found) > 0.95
    assert linked_directions(md.Problem(problem.objective).program()) is None
