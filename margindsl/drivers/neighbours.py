"""Starting clusterings by k-means on points averaged over their nearest neighbours, among a sample of the points."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.sparse import csr_array, diags_array

from margindsl.clock import check
from margindsl.drivers.means import best_k_means
from margindsl.features import DenseFeatures, FeatureOperator
from margindsl.features.distances import squared_distances
from margindsl.features.maps import NoMap
from margindsl.points import row_blocks
from margindsl.typing import FloatArray, IntArray

SAMPLE = 2000  # points among which neighbours are sought
ENTRIES = 20_000_000  # of their features held at once
NEIGHBOURS = 10  # from 5 to 20 the means over forty data sets differ by .04 of the adjusted Rand index
STEPS = 8  # of averaging; so do 4 and 12


def neighbour_means(features: FeatureOperator, clusters: int, rng: np.random.Generator) -> FloatArray:
    """Return (n, k) gains of k-means on features that a random walk over nearest neighbours has averaged.

    With P the walk on the symmetrised graph of the nearest neighbours of a sample, each point its own neighbour too,
    k-means runs on P^(t−1) Φ averaged once more over the neighbours. What varies along the graph stays, what varies
    within neighbourhoods goes, as in spectral clustering, without its groups of a few outlying points. A point outside
    the sample is the mean of its neighbours in it, so that work and memory are linear in n.

    Parameters
    ----------
    features : FeatureOperator
    clusters : int
    rng : numpy.random.Generator
        Draws the sample and the seeds of k-means.
    """
    size = min(features.n, SAMPLE, max(clusters * NEIGHBOURS, ENTRIES // max(1, features.rank)))
    drawn = np.arange(features.n) if size == features.n else np.sort(rng.choice(features.n, size, replace=False))
    points = features.rows(drawn)
    near = nearest(points, points)
    averaged = _walked(points, near)
    means = averaged[near].mean(axis=1)
    gains = best_k_means(DenseFeatures(means, NoMap()), clusters, rng)
    inside = (gains.argmax(axis=1)[:, None] == np.arange(clusters)).astype(float)
    sizes = inside.sum(axis=0)
    centres = inside.T @ means / np.maximum(sizes, 1.0)[:, None]
    table = 2.0 * averaged @ centres.T - np.sum(centres**2, axis=1)
    return features.each(partial(_near_means, table, points))


def _near_means(table: FloatArray, sample: FloatArray, points: FloatArray) -> FloatArray:
    """Return the means of a table (s, k) over the nearest members of a sample (s, r) to points (m, r)."""
    out = np.empty((len(points), table.shape[1]))
    for block in row_blocks(len(points), max(len(sample), points.shape[1])):
        out[block] = table[nearest(points[block], sample)].mean(axis=1)
    return out


def nearest(points: FloatArray, sample: FloatArray) -> IntArray:
    """Return (m, p) places of the nearest members of a sample (s, r) to points (m, r); a member is its own nearest."""
    check(2 * len(points) * sample.size)
    count = min(NEIGHBOURS + 1, len(sample))
    distances = squared_distances(points, sample)
    return np.asarray(np.argpartition(distances, count - 1, axis=1)[:, :count])


def _walked(points: FloatArray, near: IntArray) -> FloatArray:
    """Return the points (s, r) after all steps but the last of the walk over symmetrised neighbours (s, p)."""
    s, p = near.shape
    graph = csr_array((np.ones(near.size), (np.repeat(np.arange(s), p), near.ravel())), shape=(s, s))
    graph = graph.maximum(graph.T)
    walk = diags_array(1.0 / graph.sum(axis=1)) @ graph
    for _ in range(STEPS - 1):
        check()
        points = walk @ points
    return np.asarray(points)
