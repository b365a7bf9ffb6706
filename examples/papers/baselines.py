"""Plain methods to stand beside: k-means, spectral clustering, and k-means under links."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.spatial.distance import cdist, pdist
from sklearn.cluster import KMeans, SpectralClustering

from margindsl.errors import DeclarationError

ROUNDS = 100
Array = np.ndarray


def kmeans(X: Array, clusters: int, rng: np.random.Generator) -> Array:
    """Return the labels 0..k−1 of k-means, the best of ten starts."""
    return KMeans(clusters, n_init=10, random_state=int(rng.integers(2**31 - 1))).fit_predict(X)


def spectral(X: Array, clusters: int, multiple: float, rng: np.random.Generator) -> Array:
    """Return the labels of spectral clustering with the kernel exp(−‖x−z‖²/2σ²), σ a multiple of √γ.

    γ is the average distance between points, of a sample where there are many. The affinity is an n × n matrix.
    """
    some = X[np.random.default_rng(0).choice(len(X), min(len(X), 2000), replace=False)]
    gamma = 1.0 / (2.0 * multiple**2 * float(pdist(some).mean()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a graph in several pieces, which is an answer here
        return SpectralClustering(clusters, gamma=gamma, random_state=int(rng.integers(2**31 - 1))).fit_predict(X)


def adjacency(n: int, pairs: Any) -> sp.csr_array:
    """Return the symmetric 0/1 matrix (n, n) of pairs."""
    i, j = np.asarray(pairs, dtype=int).reshape(-1, 2).T
    matrix = sp.coo_array((np.ones(2 * len(i)), (np.r_[i, j], np.r_[j, i])), shape=(n, n)).tocsr()
    matrix.data[:] = 1.0
    return matrix


def cop_kmeans(X: Array, clusters: int, must: Any, cannot: Any, rng: np.random.Generator, starts: int = 10) -> Array:
    """Return the labels of COP-KMeans: every group goes to the nearest centre that breaks no link.

    Must-links are closed transitively and each group moves as one. Groups are visited along the graph of cannot-links,
    breadth first from random roots, so that with two clusters a feasible set of links is never broken; with more the
    greedy assignment can fail from every start, which is a `DeclarationError`.

    References
    ----------
    K. Wagstaff, C. Cardie, S. Rogers, S. Schroedl (2001). Constrained k-means clustering with background knowledge.
    """
    count, group = connected_components(adjacency(len(X), must), directed=False)
    pairs = group[np.asarray(cannot, dtype=int).reshape(-1, 2)]
    if np.any(pairs[:, 0] == pairs[:, 1]):
        raise DeclarationError("COP-KMeans: a cannot-link joins two points that must-links tie together")
    apart, members = adjacency(count, pairs), np.bincount(group)
    sums = np.zeros((count, X.shape[1]))
    np.add.at(sums, group, X)
    best, least = None, np.inf
    for _ in range(starts):
        # 1. The order of visits: linked groups, breadth first from random roots.
        linked = np.diff(apart.indptr) > 0
        seen, order = ~linked, np.zeros(0, dtype=int)
        for root in rng.permutation(np.flatnonzero(linked)):
            if not seen[root]:
                found = breadth_first_order(apart, root, directed=False, return_predecessors=False)
                seen[found] = True
                order = np.r_[order, found]
        centres, before = X[rng.choice(len(X), clusters, replace=False)], None
        for _ in range(ROUNDS):
            # 2. Groups without links go to their nearest centre, the others to the nearest that is allowed.
            costs = members[:, None] * np.sum(centres**2, axis=1) - 2.0 * sums @ centres.T
            assigned = np.argmin(costs, axis=1)
            assigned[order] = -1
            for g in order:
                taken = assigned[apart.indices[apart.indptr[g]:apart.indptr[g + 1]]]
                price = costs[g].copy()
                price[taken[taken >= 0]] = np.inf
                if not np.isfinite(price).any():
                    break
                assigned[g] = int(np.argmin(price))
            if np.any(assigned < 0) or np.array_equal(assigned, before):
                break
            before, centres = assigned, _means(X, assigned[group], centres)
        # 3. The start with the least sum of squares is kept.
        if np.all(assigned >= 0) and (cost := float(np.sum((X - centres[assigned[group]]) ** 2))) < least:
            best, least = assigned[group], cost
    if best is None:
        raise DeclarationError(f"COP-KMeans found no assignment to {clusters} clusters that keeps every cannot-link in "
                               f"{starts} starts; its greedy assignment can fail on links that are feasible")
    return best


def pc_kmeans(X: Array, clusters: int, must: Any, cannot: Any, weight: float, rng: np.random.Generator,
              starts: int = 10) -> Array:
    """Return the labels of PCKMeans: k-means with a penalty for every broken link.

    min Σ‖x_i − μ_{y_i}‖² + w s² (number of broken links), s² the mean squared distance to the mean of all points.

    References
    ----------
    S. Basu, A. Banerjee, R. Mooney (2004). Active semi-supervision for pairwise constrained clustering.
    """
    price = weight * float(np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1)))
    pull = (adjacency(len(X), cannot) - adjacency(len(X), must)).tocsr() * price  # (n, n), negative where together
    broken = np.sum(adjacency(len(X), must).data) * price / 2
    group = connected_components(adjacency(len(X), must), directed=False)[1]
    large = np.argsort(-np.bincount(group), kind="stable")[:clusters]
    large = large[np.bincount(group)[large] > 1]
    linked = np.flatnonzero(np.diff(pull.indptr))
    best, least = np.zeros(len(X), dtype=int), np.inf
    for start in range(starts):
        # 1. Centres: the largest must-link groups in every other start, random points for the rest.
        chosen = large if start % 2 == 0 else large[:0]
        rest = X[rng.choice(len(X), clusters - len(chosen), replace=False)]
        centres, labels = np.vstack([*(X[group == g].mean(axis=0) for g in chosen), rest]), None
        for _ in range(ROUNDS):
            # 2. Free points to the nearest centre; linked ones in turn to their cheapest cluster given the others.
            distances = cdist(X, centres, "sqeuclidean")
            found = np.argmin(distances, axis=1)
            if labels is not None:
                found[linked] = labels[linked]
            for i in rng.permutation(linked):
                costs, part = distances[i].copy(), slice(pull.indptr[i], pull.indptr[i + 1])
                np.add.at(costs, found[pull.indices[part]], pull.data[part])
                found[i] = int(np.argmin(costs))
            if np.array_equal(found, labels):
                break
            labels, centres = found, _means(X, found, centres)
        one_hot = np.eye(clusters)[found]
        cost = float(np.sum((X - centres[found]) ** 2) + np.sum(one_hot * (pull @ one_hot)) / 2 + broken)
        if cost < least:
            best, least = found, cost
    return best


def _means(X: Array, labels: Array, before: Array) -> Array:
    """Return the cluster means; a cluster that lost its points keeps its centre."""
    return np.array([X[labels == c].mean(axis=0) if np.any(labels == c) else before[c] for c in range(len(before))])
