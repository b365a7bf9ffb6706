"""Starting clusterings by consensus: walks over nearest neighbours, spectral clustering, mixtures, on a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.linalg import eigh, solve
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import ArpackError, eigsh

from margindsl.drivers.means import best_k_means, k_means
from margindsl.features import DenseFeatures, FeatureOperator
from margindsl.features.distances import squared_distances
from margindsl.features.maps import NoMap
from margindsl.features.walk import walk_over
from margindsl.host.clock import check, while_time
from margindsl.typing import FloatArray, IntArray

SAMPLE = 1000  # points that are clustered; others follow their neighbours among them
ENTRIES = 20_000_000  # of their features held at once
NEIGHBOURS = 10  # from 5 to 20 the means over forty data sets differ by .04 of the adjusted Rand index
STEPS = 8  # of averaging; so do 4 and 12
DEVIATIONS = 2.0  # at which a column is squashed
DIRECTIONS = 30  # principal ones that a mixture sees; with fewer than 10 it loses what k-means has
MIXTURE_STARTS = 2
TOL = 1e-3  # of the mean log density of a mixture, and of eigenvectors
RIDGE = 1e-3  # of the covariances of a mixture, in mean variances; of a regression, in traces


def consensus(features: FeatureOperator, clusters: int, rng: np.random.Generator,
              vote: Callable[[IntArray, IntArray], float] | None = None) -> FloatArray:
    """Return (n, k) gains of the clustering that several clusterings of different kinds agree upon.

    The points are clustered by k-means; three views of them, as they are, with squashed columns, and the directions of
    those, by k-means on averages over nearest neighbours; the last also by spectral clustering, and it and the second
    by mixtures of normal distributions. k-means on the indicators of all these clusters is their consensus: kinds err
    differently, and what one of them finds alone is outvoted. Points outside the sample have the gains of hyperplanes
    fitted to those in it by ridge regression, so that work and memory are linear in n.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws the sample and the seeds.
    vote : callable, optional
        From the points of a sample and their clusters, how much these count.

    References
    ----------
    J. Wu, H. Liu, H. Xiong, J. Cao, J. Chen (2015). K-means-based consensus clustering: a unified view.
    """
    size = min(features.n, SAMPLE, max(clusters * NEIGHBOURS, ENTRIES // max(1, features.rank)))
    drawn = np.arange(features.n) if size == features.n else np.sort(rng.choice(features.n, size, replace=False))
    points = features.rows(drawn)
    found = list(while_time(_clusterings(points - points.mean(axis=0), clusters, rng)))
    # Weighted by the mean adjusted Rand index with the others, to the fourth power: over the data sets below the mean
    # index moved by .001 to .006, over ten of clouds of unequal sizes from .75 to .89.
    inside = np.hstack([labels[:, None] == np.arange(clusters) for labels in found]).astype(float)
    m = len(found)
    pairs = np.square(inside.T @ inside).reshape(m, clusters, m, clusters).sum(axis=(1, 3))
    own = np.square(inside.sum(axis=0)).reshape(m, clusters).sum(axis=1)
    chance, most = np.outer(own, own) / size**2, (own[:, None] + own) / 2
    index = np.divide(pairs - chance, most - chance, where=most > chance, out=np.zeros((m, m)))
    votes = np.array([1.0 if vote is None else vote(drawn, labels) for labels in found])
    votes = votes * (np.maximum(index.mean(axis=1), 0.0) ** 4 + RIDGE)
    indicators = np.hstack([np.sqrt(share) * (labels[:, None] == np.arange(clusters))
                            for share, labels in zip(votes / (votes.max() or 1.0), found)])
    gains = _means(indicators, clusters, rng)
    if size == features.n:
        return gains
    mean, centred = points.mean(axis=0), points - points.mean(axis=0)
    kernel = centred @ centred.T
    kernel.flat[:: size + 1] += RIDGE * float(np.trace(kernel)) or 1.0
    plane = centred.T @ solve(kernel, gains - gains.mean(axis=0), assume_a="pos")
    return np.asarray(features.apply(plane) - mean @ plane + gains.mean(axis=0))


def neighbour_graph(points: FloatArray) -> Any:
    """Return the (s, s) matrix with a one from each point to each of its nearest neighbours, its own one among them."""
    s, p = len(points), min(NEIGHBOURS + 1, len(points))
    check(2 * s * points.size)
    near = np.argpartition(squared_distances(points, points), p - 1, axis=1)[:, :p]
    return csr_array((np.ones(near.size), near.ravel(), np.arange(0, near.size + 1, p)), shape=(s, s))


def walked(points: FloatArray, graph: Any) -> FloatArray:
    """Return points (s, r) averaged by a random walk over a graph of neighbours: what varies along it stays."""
    walk = walk_over(graph)
    for _ in range(STEPS):
        check()
        points = walk @ points
    return np.asarray(points)


# Over three draws of 43, 7 and 10 data sets (files and bundled ones of two classes, of more) the mean adjusted Rand
# index was .250, .670 and .812 with a third mixture, which is worth .003 at most; without k-means .242, .745 and .821,
# but .17 below k-means on one set, not .12; without spectral clustering .244, .664 and .801, and .06 below.
def _clusterings(points: FloatArray, clusters: int, rng: np.random.Generator) -> Iterator[IntArray]:
    bend = DEVIATIONS * points.std(axis=0)  # beyond which centred columns are bent back
    bend[bend == 0] = 1.0
    squashed = np.asarray(bend * np.tanh(points / bend))
    directions = squashed - squashed.mean(axis=0)
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    directions = directions / np.where(lengths > 0, lengths, 1.0)
    graph = neighbour_graph(directions)
    yield _means(points, clusters, rng).argmax(axis=1)
    yield _spectral(graph, clusters, rng) if np.any(directions) else np.zeros(len(points), dtype=int)
    for view in (points, squashed):
        yield _means(walked(view, neighbour_graph(view)), clusters, rng).argmax(axis=1)
    yield _means(walked(directions, graph), clusters, rng).argmax(axis=1)
    for view in (squashed, directions):
        yield _mixture(view, clusters, rng)


def _means(points: FloatArray, clusters: int, rng: np.random.Generator) -> FloatArray:
    return best_k_means(DenseFeatures(points, NoMap()), clusters, rng)


def _spectral(graph: Any, clusters: int, rng: np.random.Generator) -> IntArray:
    """Return k-means clusters of the leading eigenvectors of a step over the graph of nearest neighbours."""
    s = graph.shape[0]
    if s <= clusters + 1:
        return np.zeros(s, dtype=int)
    graph = graph.maximum(graph.T)
    root = np.sqrt(graph.sum(axis=1))
    with suppress(ArpackError):
        scaled = diags_array(1.0 / root) @ graph @ diags_array(1.0 / root)
        vectors = eigsh(scaled, clusters, which="LA", v0=rng.random(s), tol=TOL)[1]
        return np.asarray(_means(vectors / root[:, None], clusters, rng).argmax(axis=1))
    return np.zeros(s, dtype=int)


def _mixture(points: FloatArray, clusters: int, rng: np.random.Generator) -> IntArray:
    """Return the components of a mixture of normal distributions along the leading principal directions."""
    if not np.any(points):
        return np.zeros(len(points), dtype=int)
    check(2 * points.size * DIRECTIONS)
    centred = points - points.mean(axis=0)
    wide = points.shape[1] > len(points)
    gram = centred @ centred.T if wide else centred.T @ centred
    values, vectors = eigh(gram, subset_by_index=(max(0, len(gram) - DIRECTIONS), len(gram) - 1))
    leading = vectors * np.sqrt(np.maximum(values, 0.0)) if wide else centred @ vectors
    leading /= np.sqrt(leading.var(axis=0).mean())
    features, ridge, found = DenseFeatures(leading, NoMap()), RIDGE * np.eye(leading.shape[1]), []
    for _ in range(MIXTURE_STARTS):
        share = np.eye(clusters)[k_means(features, clusters, rng).argmax(axis=1)]
        least, score = -np.inf, -np.inf
        for _ in while_time(range(100)):
            # 1. Sizes, means and covariances of the components, from the shares (s, k) of the points in them.
            sizes = np.maximum(share.sum(axis=0), RIDGE)
            means = share.T @ leading / sizes[:, None]
            second = np.matmul(share.T[:, None] * leading.T, leading) / sizes[:, None, None]
            factor = np.linalg.cholesky(second - means[:, :, None] * means[:, None] + ridge)
            # 2. Log densities (s, k), and from these the shares.
            white = np.linalg.inv(factor).transpose(0, 2, 1)
            lengths = np.square(leading @ white - means[:, None] @ white).sum(axis=2)
            widths = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
            logs = np.log(sizes / len(points)) - widths - 0.5 * lengths.T
            top = logs.max(axis=1, keepdims=True)
            total = top + np.log(np.exp(logs - top).sum(axis=1, keepdims=True))
            share, least, score = np.exp(logs - total), score, float(total.mean())
            if score - least < TOL:
                break
        found.append((score, share))
    return np.asarray(max(found, key=lambda pair: pair[0])[1].argmax(axis=1))
