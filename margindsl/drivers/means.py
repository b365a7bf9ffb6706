"""Starting clusterings of k clusters: k-means in feature space, principal directions, random members."""

from __future__ import annotations

import numpy as np

from margindsl.drivers.run import Run
from margindsl.features import DenseFeatures, FeatureOperator
from margindsl.features.maps import NoMap
from margindsl.host.clock import while_time
from margindsl.typing import FloatArray, IntArray

ROUNDS = 30
SAMPLE, FOLLOWING = 10_000, 5  # points that several runs see, and rounds with all of them after those
RUNS = 10  # ten seeds then end within half a point of accuracy of each other on four digits


def k_means(features: FeatureOperator, clusters: int, rng: np.random.Generator, rounds: int = ROUNDS,
            centres: FloatArray | None = None) -> FloatArray:
    """Return (n, k) gains of a k-means run: minus the squared distances to the centres it ends at.

    Lloyd's iteration; it and k-means++ need products with the features only.

    Parameters
    ----------
    rounds : int
        Most rounds.
    centres : (k, r) float array, optional
        The first centres; those of k-means++ if not given.

    References
    ----------
    D. Arthur, S. Vassilvitskii (2007). k-means++: the advantages of careful seeding.
    """
    norms = features.row_norms()
    gains = _gains(features, norms, _seeds(features, norms, clusters, rng) if centres is None else centres)
    assigned = gains.argmax(axis=1)
    for _ in while_time(range(rounds)):
        centres, sizes = centres_of(features, assigned, clusters)
        empty = np.flatnonzero(sizes == 0)
        if len(empty):  # the points farthest from their centres start new clusters
            centres[empty] = features.rows(np.argsort(gains.max(axis=1), kind="stable")[: len(empty)])
        gains = _gains(features, norms, centres)
        new = gains.argmax(axis=1)
        if np.array_equal(new, assigned):
            break
        assigned = new
    return gains


def best_k_means(features: FeatureOperator, clusters: int, rng: np.random.Generator, runs: int = RUNS) -> FloatArray:
    """Return the gains of that of several k-means runs whose points lie nearest to their centres.

    Of many points a sample finds the centres from which one run goes on with all.
    """
    if features.n > SAMPLE:
        few = features.take(np.sort(rng.choice(features.n, SAMPLE, replace=False)))
        found = best_k_means(few, clusters, rng, runs).argmax(axis=1)
        return k_means(features, clusters, rng, FOLLOWING, centres_of(few, found, clusters)[0])
    found = (k_means(features, clusters, rng) for _ in range(runs))
    return max(while_time(found), key=lambda gains: float(gains.max(axis=1).sum()))


def centres_of(features: FeatureOperator, assigned: IntArray, clusters: int) -> tuple[FloatArray, FloatArray]:
    """Return the (k, r) means of clusters and their (k,) sizes."""
    inside = (assigned[:, None] == np.arange(clusters)).astype(float)
    sizes = inside.sum(axis=0)
    return features.adjoint(inside).T / np.maximum(sizes, 1.0)[:, None], sizes


def _seeds(features: FeatureOperator, norms: FloatArray, clusters: int, rng: np.random.Generator) -> FloatArray:
    """Return (k, r) centres: each a point drawn in proportion to its squared distance to those before."""
    centres = [features.rows(rng.integers(features.n, size=1))]
    distance = np.full(features.n, np.inf)
    while len(centres) < clusters:
        distance = np.minimum(distance, np.maximum(-_gains(features, norms, centres[-1])[:, 0], 0.0))
        total = np.cumsum(distance)
        drawn = np.minimum(np.searchsorted(total, rng.random(1) * total[-1], side="right"), features.n - 1)
        centres.append(features.rows(drawn if total[-1] > 0 else rng.integers(features.n, size=1)))
    return np.vstack(centres)


def _gains(features: FeatureOperator, norms: FloatArray, centres: FloatArray) -> FloatArray:
    return np.asarray(2.0 * features.apply(centres.T) - norms[:, None] - np.sum(centres**2, axis=1))


def cluster_gains(run: Run, turn: str, spectral: FloatArray | None) -> FloatArray:
    """Return the (n, k) gains of one k-means run.

    Parameters
    ----------
    turn : {"best kmeans", "kmeans", "spectral"}
        "best kmeans" is the best of several k-means runs.
    spectral : (n, p) float array or None
        Decision values of the leading principal directions, scaled to equal variance for ``"spectral"``.
    """
    features: FeatureOperator = run.program.features.clustered
    if turn == "spectral" and spectral is not None:
        scatter = np.std(spectral, axis=0)
        varies = scatter > 1e-10 * np.abs(spectral).max(axis=0)  # a constant direction, of a bias, tells nothing apart
        features = DenseFeatures(spectral[:, varies] / scatter[varies], NoMap())
    means = best_k_means if turn == "best kmeans" else k_means
    return means(features, run.program.clusters, run.rng)
