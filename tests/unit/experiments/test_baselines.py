"""K-means under links: links kept or paid for, and plain k-means where there are none."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from margindsl.errors import ContradictionError, DeclarationError
from margindsl.experiments.baselines import cop_kmeans, kmeans, link_groups, pc_kmeans, spectral
from margindsl.metrics import clustering_accuracy


def blobs(rng, n=40, clusters=2, distance=8.0):
    truth = np.arange(n) % clusters
    centres = distance * np.eye(clusters, 3)
    return centres[truth] + rng.normal(size=(n, 3)), truth


def true_links(rng, truth, count):
    pairs = np.array([rng.choice(len(truth), 2, replace=False) for _ in range(count)], dtype=int).reshape(-1, 2)
    same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
    return pairs[same], pairs[~same]


def broken(labels, must, cannot):
    return int(np.sum(labels[must[:, 0]] != labels[must[:, 1]]) + np.sum(labels[cannot[:, 0]] == labels[cannot[:, 1]]))


@given(st.integers(0, 10**6), st.integers(0, 60))
@settings(deadline=None, max_examples=40)
def test_cop_kmeans_keeps_every_feasible_link_of_two_classes(seed, count):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, 30)
    X = rng.normal(size=(30, 2))  # points know nothing of the classes: links alone bind
    must, cannot = true_links(rng, truth, count)
    labels = cop_kmeans(X, 2, must, cannot, rng, starts=2)
    assert broken(labels, must, cannot) == 0
    assert set(labels) <= {0, 1}


def test_cop_kmeans_without_links_is_k_means():
    rng = np.random.default_rng(0)
    X, truth = blobs(rng, n=60, clusters=3)
    assert clustering_accuracy(truth, cop_kmeans(X, 3, (), (), rng)) == 1.0
    assert clustering_accuracy(truth, kmeans(X, 3, rng)) == 1.0


def test_cop_kmeans_with_all_links_is_the_truth():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 12)
    pairs = np.array(list(itertools.combinations(range(12), 2)))
    same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
    assert clustering_accuracy(truth, cop_kmeans(rng.normal(size=(12, 2)), 2, pairs[same], pairs[~same], rng)) == 1.0


def test_cop_kmeans_says_when_it_fails_and_when_links_contradict():
    X = np.arange(4.0)[:, None]
    triangle = np.array([(0, 1), (1, 2), (0, 2)])
    with pytest.raises(DeclarationError, match="COP-KMeans found no assignment to 2 clusters"):
        cop_kmeans(X, 2, (), triangle, np.random.default_rng(0))
    with pytest.raises(ContradictionError, match="points 0 and 2 are cannot-linked, and must-links tie them together"):
        cop_kmeans(X, 2, [(0, 1), (1, 2)], [(0, 2)], np.random.default_rng(0))


def test_groups_are_the_transitive_closure():
    groups, graph = link_groups(6, [(0, 1), (1, 2), (4, 5)], [(2, 4), (0, 5), (3, 0)])
    assert groups[0] == groups[1] == groups[2] != groups[4] == groups[5]
    assert len(set(groups)) == 3
    assert graph.shape == (3, 3) and graph.nnz == 4  # two of the three cannot-links join the same groups


def pc_objective(X, labels, must, cannot, weight):
    centres = {c: X[labels == c].mean(axis=0) for c in set(labels)}
    spread = sum(np.sum((x - centres[c]) ** 2) for x, c in zip(X, labels))
    return spread + weight * np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1)) * broken(labels, must, cannot)


@pytest.mark.parametrize("seed", range(4))
def test_pc_kmeans_reaches_the_least_objective_of_small_instances(seed):
    rng = np.random.default_rng(seed)
    X, truth = blobs(rng, n=9, distance=2.0)
    must, cannot = true_links(rng, truth, 6)
    labels = pc_kmeans(X, 2, must, cannot, 0.5, rng, starts=40)
    best = min(pc_objective(X, np.array(signs), must, cannot, 0.5) for signs in itertools.product((0, 1), repeat=9))
    assert pc_objective(X, labels, must, cannot, 0.5) <= best * 1.02


def test_pc_kmeans_breaks_no_true_link_at_a_high_price():
    rng = np.random.default_rng(3)
    X, truth = blobs(rng, distance=3.0)
    must, cannot = true_links(rng, truth, 50)
    assert broken(pc_kmeans(X, 2, must, cannot, 1000.0, rng), must, cannot) == 0


def test_pc_kmeans_at_no_price_is_k_means():
    rng = np.random.default_rng(4)
    X, truth = blobs(rng)
    must, cannot = true_links(rng, 1 - truth[rng.permutation(40)], 30)
    assert clustering_accuracy(truth, pc_kmeans(X, 2, must, cannot, 0.0, rng)) == 1.0


def test_spectral_separates_rings():
    angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    X = np.vstack([np.column_stack([np.cos(angles), np.sin(angles)]) * radius for radius in (1.0, 6.0)])
    truth = np.repeat([0, 1], 60)
    assert clustering_accuracy(truth, spectral(X, 2, 0.25, np.random.default_rng(0))) == 1.0
    assert clustering_accuracy(truth, kmeans(X, 2, np.random.default_rng(0))) < 0.8
