"""k-means of many points goes on from centres that a sample found; a sample ranks candidates too."""

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget
from margindsl.drivers import means, rounding
from margindsl.drivers.run import Run
from margindsl.features import build


def clouds(n, clusters, seed):
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, clusters, n)
    return 6.0 * np.eye(clusters, 4)[classes] + rng.standard_normal((n, 4)), classes


@pytest.mark.parametrize("clusters", [2, 4])
def test_centres_of_a_sample_lead_to_the_clusters_of_all(clusters, monkeypatch):
    monkeypatch.setattr(means, "SAMPLE", 200)
    X, classes = clouds(1000, clusters, 0)
    found = means.best_k_means(build(X, "linear"), clusters, np.random.default_rng(0)).argmax(axis=1)
    table = np.zeros((clusters, clusters))
    np.add.at(table, (classes, found), 1)
    assert table.max(axis=1).sum() > 0.99 * len(X) and len(set(table.argmax(axis=1))) == clusters


def test_gains_are_minus_the_squared_distances_to_centres():
    X, _ = clouds(60, 3, 1)
    features = build(X, "linear")
    gains = means.k_means(features, 3, np.random.default_rng(0), 0, features.rows(np.arange(3)))
    np.testing.assert_allclose(-gains, ((X[:, None] - X[:3]) ** 2).sum(axis=2), atol=1e-9)


@pytest.mark.parametrize("screened", [100, 1000])
def test_a_sample_ranks_the_labels_of_clouds_above_noise(screened, monkeypatch):
    monkeypatch.setattr(rounding, "SCREENED", screened)
    X, classes = clouds(400, 2, 2)
    y, f = md.Labels(400), md.Hyperplane(X, centre=True)
    program = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f)))).program()
    rng = np.random.default_rng(3)
    run = Run(program, md.Solver("newton"), md.Solver("newton"), Budget(), rng)
    noise = [rng.integers(2, size=400) for _ in range(9)]
    assert rounding.screen(run, [*noise, classes], 1)[0] is classes
