"""Plain methods to stand beside: k-means, spectral clustering, and k-means under links."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.spatial.distance import cdist

from margindsl.errors import ContradictionError, DeclarationError
from margindsl.features import sqrt_mean_distance
from margindsl.features.width import find_width
from margindsl.typing import FloatArray, IntArray

Pairs = Sequence[tuple[int, int]] | IntArray
_ROUNDS = 100


def kmeans(X: FloatArray, clusters: int, rng: np.random.Generator) -> IntArray:
    """Return the labels 0..k−1 of k-means, the best of ten starts (scikit-learn)."""
    from sklearn.cluster import KMeans

    return KMeans(clusters, n_init=10, random_state=_seed(rng)).fit_predict(X)


def spectral(X: FloatArray, clusters: int, multiple: float, rng: np.random.Generator) -> IntArray:
    """Return the labels of spectral clustering with the kernel exp(−‖x−z‖²/2σ²), σ a multiple of √γ.

    γ is the average distance between points. The affinity is an n × n matrix.
    """
    from sklearn.cluster import SpectralClustering

    width = find_width(multiple * sqrt_mean_distance, X, np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a graph in several pieces, which is an answer here
        return SpectralClustering(clusters, gamma=1.0 / (2.0 * width**2), random_state=_seed(rng)).fit_predict(X)


def cop_kmeans(X: FloatArray, clusters: int, must: Pairs, cannot: Pairs, rng: np.random.Generator, *,
               starts: int = 10) -> IntArray:
    """Return the labels of COP-KMeans: every group goes to the nearest centre that breaks no link.

    Must-links are closed transitively and each group moves as one. Groups are visited along the graph of
    cannot-links, breadth first from random roots, so that with two clusters a feasible set of links is never broken.

    Shapes: `X` (n, d), `must` (m, 2), `cannot` (m, 2).

    Parameters
    ----------
    starts : int
        Random starts; the labelling with the least sum of squares is returned.

    References
    ----------
    K. Wagstaff, C. Cardie, S. Rogers, S. Schroedl (2001). Constrained k-means clustering with background knowledge.
    """
    groups, graph = link_groups(len(X), must, cannot)
    sums, counts = group_sums(X, groups)
    best, least = None, np.inf
    for _ in range(starts):
        labels, cost = _cop_start(X, sums, counts, groups, graph, clusters, rng)
        if labels is not None and cost < least:
            best, least = labels, cost
    if best is None:
        raise DeclarationError(f"COP-KMeans found no assignment to {clusters} clusters that keeps every cannot-link in "
                               f"{starts} starts; its greedy assignment can fail on links that are feasible")
    return best


def pc_kmeans(X: FloatArray, clusters: int, must: Pairs, cannot: Pairs, weight: float, rng: np.random.Generator, *,
              starts: int = 10) -> IntArray:
    """Return the labels of PCKMeans: k-means with a penalty for every broken link.

    min Σ‖x_i − μ_{y_i}‖² + w s² (number of broken links), s² the mean squared distance to the mean of all points.

    Shapes: `X` (n, d), `must` (m, 2), `cannot` (m, 2).

    Parameters
    ----------
    weight : float
        w.

    References
    ----------
    S. Basu, A. Banerjee, R. Mooney (2004). Active semi-supervision for pairwise constrained clustering.
    """
    price = weight * float(np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1)))
    same, different = adjacency(len(X), must) * price, adjacency(len(X), cannot) * price
    groups, _ = link_groups(len(X), must, ())
    best, least = np.zeros(len(X), dtype=int), np.inf
    for _ in range(starts):
        labels, cost = _pc_start(X, _neighbourhood_centres(X, groups, clusters, rng), same, different, rng)
        if cost < least:
            best, least = labels, cost
    return best


def link_groups(n: int, must: Pairs, cannot: Pairs) -> tuple[IntArray, Any]:
    """Return the (n,) group of each point under must-links, and the sparse graph of cannot-links between groups."""
    count, groups = connected_components(adjacency(n, must), directed=False)
    pairs = groups[_as_pairs(cannot)]
    inside = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(inside):
        i, j = (int(k) for k in _as_pairs(cannot)[inside[0]])
        raise ContradictionError(f"points {i} and {j} are cannot-linked, and must-links tie them together; drop one of "
                                 "these links", [(i, j, "cannot-link")])
    return groups, adjacency(count, pairs)


def adjacency(n: int, pairs: Pairs) -> Any:
    """Return the symmetric 0/1 sparse matrix (n, n) of pairs."""
    i, j = _as_pairs(pairs).T
    matrix = sp.coo_array((np.ones(2 * len(i)), (np.r_[i, j], np.r_[j, i])), shape=(n, n)).tocsr()
    matrix.data[:] = 1.0
    return matrix


def group_sums(X: FloatArray, groups: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the sum of the points of every group, and their number."""
    counts = np.bincount(groups)
    sums = np.zeros((len(counts), X.shape[1]))
    np.add.at(sums, groups, X)
    return sums, counts


def _cop_start(X: FloatArray, sums: FloatArray, counts: IntArray, groups: IntArray, graph: Any, clusters: int,
               rng: np.random.Generator) -> tuple[IntArray | None, float]:
    centres = X[rng.choice(len(X), clusters, replace=False)]
    order = _visits(graph, rng)
    assigned: IntArray | None = None
    for _ in range(_ROUNDS):
        # The cost of a whole group: Σ‖x−c‖² up to a constant.
        costs = counts[:, None] * np.sum(centres**2, axis=1) - 2.0 * sums @ centres.T
        found = _assign(costs, graph, order)
        if found is None:
            return None, np.inf
        if assigned is not None and np.array_equal(found, assigned):
            break
        assigned = found
        centres = _means(sums, counts, assigned, centres)
    assert assigned is not None
    labels = assigned[groups]
    return labels, float(np.sum((X - centres[labels]) ** 2))


def _visits(graph: Any, rng: np.random.Generator) -> IntArray:
    """Return the order of visits: breadth first along cannot-links from random roots."""
    linked = np.diff(graph.indptr) > 0
    seen, order = ~linked, []
    for root in rng.permutation(np.flatnonzero(linked)):
        if not seen[root]:
            members = breadth_first_order(graph, root, directed=False, return_predecessors=False)
            seen[members] = True
            order.append(members)
    return np.concatenate(order) if order else np.zeros(0, dtype=int)


def _assign(costs: FloatArray, graph: Any, order: IntArray) -> IntArray | None:
    """Return the nearest centre of every group, along the order without breaking a cannot-link; None if stuck."""
    assigned = np.argmin(costs, axis=1)
    assigned[order] = -1
    for group in order:
        taken = assigned[graph.indices[graph.indptr[group]:graph.indptr[group + 1]]]
        price = costs[group].copy()
        price[taken[taken >= 0]] = np.inf
        if not np.isfinite(price).any():
            return None
        assigned[group] = int(np.argmin(price))
    return assigned


def _means(sums: FloatArray, counts: IntArray, assigned: IntArray, before: FloatArray) -> FloatArray:
    """Return the cluster means; a cluster that lost its points keeps its centre."""
    totals, sizes = np.zeros_like(before), np.bincount(assigned, weights=counts, minlength=len(before))
    np.add.at(totals, assigned, sums)
    return np.where(sizes[:, None] > 0, totals / np.maximum(sizes, 1.0)[:, None], before)


def _neighbourhood_centres(X: FloatArray, groups: IntArray, clusters: int, rng: np.random.Generator) -> FloatArray:
    """Return the means of the largest must-link groups, filled up with random points."""
    sums, counts = group_sums(X, groups)
    large = np.argsort(-counts, kind="stable")[:clusters]
    large = large[counts[large] > 1]
    if rng.random() < 0.5:  # neighbourhoods alone would make all starts alike
        large = large[:0]
    rest = X[rng.choice(len(X), clusters - len(large), replace=False)]
    return np.vstack([sums[large] / counts[large, None], rest])


def _pc_start(X: FloatArray, centres: FloatArray, same: Any, different: Any,
              rng: np.random.Generator) -> tuple[IntArray, float]:
    clusters = len(centres)
    linked = np.flatnonzero((np.diff(same.indptr) > 0) | (np.diff(different.indptr) > 0))
    labels: IntArray | None = None
    for _ in range(_ROUNDS):
        distances = cdist(X, centres, "sqeuclidean")
        found = np.argmin(distances, axis=1)
        if labels is not None:
            found[linked] = labels[linked]
        _settle(found, distances, same, different, rng.permutation(linked))
        if labels is not None and np.array_equal(found, labels):
            break
        labels = found
        centres = _means(X, np.ones(len(X), dtype=int), labels, centres)
    assert labels is not None
    one_hot = np.eye(clusters)[labels]
    kept_same, kept_different = (float(np.sum(one_hot * (matrix @ one_hot))) / 2 for matrix in (same, different))
    return labels, float(np.sum((X - centres[labels]) ** 2)) + float(same.sum()) / 2 - kept_same + kept_different


def _settle(labels: IntArray, distances: FloatArray, same: Any, different: Any, order: IntArray) -> None:
    """Move linked points one by one to their cheapest cluster given the others (iterated conditional modes)."""
    for i in order:
        price = distances[i].copy()
        for matrix, sign in ((same, -1.0), (different, 1.0)):
            part = slice(matrix.indptr[i], matrix.indptr[i + 1])
            np.add.at(price, labels[matrix.indices[part]], sign * matrix.data[part])
        labels[i] = int(np.argmin(price))


def _as_pairs(pairs: Pairs) -> IntArray:
    return np.asarray(pairs, dtype=int).reshape(-1, 2)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))
