"""k-means in feature space."""

from __future__ import annotations

import numpy as np

from margindsl.features import FeatureOperator
from margindsl.host.clock import while_time
from margindsl.typing import FloatArray, IntArray

ROUNDS = 30
SAMPLE, FOLLOWING = 10_000, 5  # points that several runs see, and rounds with all of them after those
ENTRIES = 10_000_000  # of gains held at once
RUNS = 10  # ten seeds then end within half a point of accuracy of each other on four digits


def k_means(features: FeatureOperator, clusters: int, rng: np.random.Generator, rounds: int = ROUNDS,
            centres: FloatArray | None = None, runs: int = 1) -> FloatArray:
    """Return (n, k) gains of the best of some k-means runs: minus the squared distances to the centres it ends at.

    Lloyd's iteration; it and k-means++ need products with the features only, and the runs share them.

    Parameters
    ----------
    rounds : int
        Most rounds.
    centres : (k, r) float array, optional
        The first centres of one run; those of k-means++ if not given.

    References
    ----------
    D. Arthur, S. Vassilvitskii (2007). k-means++: the advantages of careful seeding.
    """
    n, norms = features.n, features.row_norms()
    if centres is None:  # each a point drawn in proportion to its squared distance to those before
        drawn = [(rng.integers(n), rng.random(clusters - 1)) for _ in range(runs)]
        first, uniform = (np.array(column) for column in zip(*drawn))
        starts, distance = features.rows(first)[:, None], np.full((n, runs), np.inf)
        for u in uniform.T:
            distance = np.minimum(distance, np.maximum(-_gains(features, norms, starts[:, -1:])[:, :, 0], 0.0))
            total = np.cumsum(distance, axis=0)
            at = np.where(total[-1] > 0, np.sum(total <= u * total[-1], axis=0), u * n).astype(int)
            starts = np.concatenate([starts, features.rows(np.minimum(at, n - 1))[:, None]], axis=1)
    gains = _gains(features, norms, starts if centres is None else centres[None])
    moving = np.arange(gains.shape[1])
    for _ in while_time(range(rounds)):
        assigned = gains[:, moving].argmax(axis=2)
        means, sizes = centres_of(features, assigned, clusters)
        for run in np.flatnonzero(np.any(sizes == 0, axis=1)):  # the points farthest away start new clusters
            empty, far = np.flatnonzero(sizes[run] == 0), gains[:, moving[run]].max(axis=1)
            means[run, empty] = features.rows(np.argsort(far, kind="stable")[: len(empty)])
        new = _gains(features, norms, means)
        if len(moving) == gains.shape[1]:
            gains = new
        else:
            gains[:, moving] = new
        moving = moving[np.any(new.argmax(axis=2) != assigned, axis=0)]
        if not len(moving):
            break
    return np.asarray(gains[:, gains.max(axis=2).sum(axis=0).argmax()])


def best_k_means(features: FeatureOperator, clusters: int, rng: np.random.Generator, runs: int = RUNS) -> FloatArray:
    """Return the gains of that of several k-means runs whose points lie nearest to their centres.

    Of many points a sample finds the centres from which one run goes on with all.
    """
    if features.n > SAMPLE:
        few = features.take(np.sort(rng.choice(features.n, SAMPLE, replace=False)))
        found = best_k_means(few, clusters, rng, runs).argmax(axis=1)
        return k_means(features, clusters, rng, FOLLOWING, centres_of(few, found, clusters)[0])
    side = max(1, ENTRIES // (features.n * clusters))
    batches = (k_means(features, clusters, rng, runs=min(side, runs - done)) for done in range(0, runs, side))
    return max(while_time(batches), key=lambda gains: float(gains.max(axis=1).sum()))


def centres_of(features: FeatureOperator, assigned: IntArray, clusters: int) -> tuple[FloatArray, FloatArray]:
    """Return the (…, k, r) means of clusters and their (…, k) sizes, of points (n, …) assigned to them."""
    inside = (assigned[..., None] == np.arange(clusters)).astype(float)
    sizes = inside.sum(axis=0)
    sums = features.adjoint(inside.reshape(len(inside), -1)).T.reshape(*sizes.shape, features.rank)
    return sums / np.maximum(sizes, 1.0)[..., None], sizes


def _gains(features: FeatureOperator, norms: FloatArray, centres: FloatArray) -> FloatArray:
    """Return (n, t, k) gains of centres (t, k, r)."""
    (t, k, r), n = centres.shape, len(norms)
    products = 2.0 * features.apply(centres.reshape(t * k, r).T) - norms[:, None]
    return np.asarray(products.reshape(n, t, k) - np.sum(centres**2, axis=2))
