"""Plain methods to stand beside: k-means, spectral clustering, k-means under links, learned metrics and networks."""

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

    γ is the average distance between points, of a sample where there are many. The affinity is an n × n matrix. Narrow
    kernels leave its graph in many pieces, on which ARPACK stalls.
    """
    some = X[np.random.default_rng(0).choice(len(X), min(len(X), 2000), replace=False)]
    gamma = 1.0 / (2.0 * multiple**2 * float(pdist(some).mean()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a graph in several pieces, which is an answer here
        return SpectralClustering(clusters, gamma=gamma, eigen_solver="lobpcg",
                                  random_state=int(rng.integers(2**31 - 1))).fit_predict(X)


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


def _largest_groups(n: int, clusters: int, must: Any) -> list[Array]:
    """Return the points of the largest groups of must-linked points, at most one a cluster."""
    group = connected_components(adjacency(n, must), directed=False)[1]
    sizes = np.bincount(group)
    return [group == g for g in np.argsort(-sizes, kind="stable")[:clusters] if sizes[g] > 1]


def _reassigned(distances: Array, labels: Array | None, linked: Array, pull: Any, rng: np.random.Generator) -> Array:
    """Return free points in the nearest cluster, and linked ones in turn in the cheapest, given where the others are.

    Shapes: `distances` (n, k), `pull` (n, n) what a pair in one cluster costs.
    """
    found = np.argmin(distances, axis=1)
    if labels is not None:
        found[linked] = labels[linked]
    for i in rng.permutation(linked):
        costs, part = distances[i].copy(), slice(pull.indptr[i], pull.indptr[i + 1])
        np.add.at(costs, found[pull.indices[part]], pull.data[part])
        found[i] = int(np.argmin(costs))
    return found


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
    groups = _largest_groups(len(X), clusters, must)
    linked = np.flatnonzero(np.diff(pull.indptr))
    best, least = np.zeros(len(X), dtype=int), np.inf
    for start in range(starts):
        # 1. Centres: the largest must-link groups in every other start, random points for the rest.
        chosen = groups if start % 2 == 0 else []
        rest = X[rng.choice(len(X), clusters - len(chosen), replace=False)]
        centres, labels = np.vstack([*(X[own].mean(axis=0) for own in chosen), rest]), None
        for _ in range(ROUNDS):
            # 2. Free points to the nearest centre; linked ones in turn to their cheapest cluster given the others.
            distances = cdist(X, centres, "sqeuclidean")
            found = _reassigned(distances, labels, linked, pull, rng)
            if np.array_equal(found, labels):
                break
            labels, centres = found, _means(X, found, centres)
        one_hot = np.eye(clusters)[found]
        cost = float(np.sum((X - centres[found]) ** 2) + np.sum(one_hot * (pull @ one_hot)) / 2 + broken)
        if cost < least:
            best, least = found, cost
    return best


def lcvqe(X: Array, clusters: int, must: Any, cannot: Any, rng: np.random.Generator, starts: int = 10) -> Array:
    """Return the labels of LCVQE: k-means in which a broken link costs distances of its points to two centres.

    A must-link between two nearest centres is kept at one of them, or broken: then either point draws the centre of the
    other with weight ½. A cannot-link inside a cluster sends the farther point to its next centre, which costs
    less than to break it.

    References
    ----------
    D. Pelleg, D. Baras (2007). K-means with large and noisy constraint sets.
    """
    must, cannot = (np.asarray(pairs, dtype=int).reshape(-1, 2) for pairs in (must, cannot))
    best, least = np.zeros(len(X), dtype=int), np.inf
    for _ in range(starts):
        centres, before = X[rng.choice(len(X), clusters, replace=False)], None
        for _ in range(ROUNDS):
            # 1. Every point to its nearest centre, then link by link the cheapest of the three choices.
            half = 0.5 * cdist(X, centres, "sqeuclidean")
            labels, cost, extra = half.argmin(axis=1), 0.0, np.zeros((len(X), clusters))  # weights beside the labels
            for i, j in must:
                g, h = labels[i], labels[j]
                if g != h:
                    crossed = 0.5 * (half[j, g] + half[i, h])
                    choices = (half[i, g] + half[j, h] + crossed, half[i, g] + half[j, g], half[i, h] + half[j, h])
                    choice = int(np.argmin(choices))
                    if choice:
                        labels[i] = labels[j] = (g, h)[choice - 1]
                    else:
                        extra[j, g], extra[i, h], cost = extra[j, g] + 0.5, extra[i, h] + 0.5, cost + crossed
            for i, j in cannot:
                g = labels[i]
                if g == labels[j] and clusters > 1:
                    far = i if half[i, g] >= half[j, g] else j
                    labels[far] = np.where(np.arange(clusters) == g, np.inf, half[far]).argmin()
            # 2. Centres are the weighted means of what was assigned to them and of what draws them.
            weights = np.eye(clusters)[labels] + extra
            cost += float(half[np.arange(len(X)), labels].sum())
            sizes = weights.sum(axis=0)[:, None]
            centres = np.where(sizes > 0, weights.T @ X / np.maximum(sizes, 1e-300), centres)
            if np.array_equal(labels, before):
                break
            before = labels
        if cost < least:
            best, least = labels, cost
    return best


def mpc_kmeans(X: Array, clusters: int, must: Any, cannot: Any, weight: float, rng: np.random.Generator,
               full: bool = False, penalties: bool = True, starts: int = 5) -> Array:
    """Return the labels of MPCKMeans: k-means with a metric A learned from the clusters and the links they break.

    min Σ‖x_i − μ_{y_i}‖²_A − n log det A + w Σ ‖x_i − x_j‖²_A over broken must-links + w Σ (D² − ‖x_i − x_j‖²_A) over
    broken cannot-links, D the largest distance. A is diagonal, or full; without penalties the links shape the metric,
    and the points follow their centres: MKMeans. A is taken from a scatter with a hundredth of its mean variance added.

    References
    ----------
    M. Bilenko, S. Basu, R. Mooney (2004). Integrating constraints and metric learning in semi-supervised clustering.
    """
    X = _coordinates(X) if full else X - X.mean(axis=0)
    n, d = X.shape
    links = np.vstack([np.asarray(pairs, dtype=int).reshape(-1, 2) for pairs in (must, cannot)])
    together = np.arange(len(links)) < len(must)
    groups = _largest_groups(n, clusters, must)
    linked = np.unique(links) if penalties else np.zeros(0, dtype=int)
    best, least = np.zeros(n, dtype=int), np.inf
    for start in range(starts):
        chosen = groups if start % 2 == 0 else []
        rest = X[rng.choice(len(X), clusters - len(chosen), replace=False)]
        centres, labels = np.vstack([*(X[own].mean(axis=0) for own in chosen), rest]), None
        root, logdet = (np.eye(d) if full else np.ones(d)) / np.sqrt(X.var(axis=0).mean()), 0.0
        for _ in range(ROUNDS):
            # 1. Distances and prices of links in the metric A = root rootᵀ; linked points in turn, given the others.
            Z, means = (X @ root, centres @ root) if full else (X * root, centres * root)
            distances = cdist(Z, means, "sqeuclidean")
            lengths = np.sum((Z[links[:, 0]] - Z[links[:, 1]])**2, axis=1)
            widest = (2.0 * np.linalg.norm(Z, axis=1).max())**2  # points lie about the origin
            price = weight * np.where(together, lengths, widest - lengths)
            sign = np.where(together, -price, price)
            pull = sp.coo_array((np.r_[sign, sign], (links.T.ravel(), links[:, ::-1].T.ravel())), shape=(n, n)).tocsr()
            found = _reassigned(distances, labels, linked, pull, rng)
            broken = (found[links[:, 0]] == found[links[:, 1]]) != together
            cost = float(distances[np.arange(n), found].sum() - n * logdet + price[broken].sum())
            if np.array_equal(found, labels):
                break
            labels, centres = found, _means(X, found, centres)
            # 2. The metric: n times the inverse of the scatter, and of the links that are broken.
            spread, apart = X - centres[found], X[links[:, 0]] - X[links[:, 1]]
            signs = weight * np.where(together, 1.0, -1.0) * broken
            if full:
                scatter = spread.T @ spread + (apart.T * np.maximum(signs, 0.0)) @ apart
                values, vectors = np.linalg.eigh(scatter / n)
            else:
                values, vectors = (np.square(spread).sum(axis=0) + signs @ np.square(apart)) / n, 1.0
            values = np.maximum(values, 0.0) + 1e-2 * max(float(np.maximum(values, 0.0).mean()), 1e-12)
            root, logdet = vectors / np.sqrt(values), -float(np.log(values).sum())
        if cost < least:
            best, least = found, cost
    return best


def dcc(X: Array, clusters: int, must: Any, cannot: Any, weight: float, rng: np.random.Generator,
        hidden: int = 64, code: int = 10, steps: int = 300, batch: int = 1000) -> Array:
    """Return the labels of deep constrained clustering: an autoencoder whose codes are clustered, under links.

    Codes z of one hidden layer; soft clusters q_ic ∝ 1 / (1 + ‖z_i − μ_c‖²); the loss is the mean squared error of the
    reconstruction + KL(p‖q) to the sharpened p ∝ q²/Σ_i q + w times the means of −log Σ_c q_ic q_jc over must-links and
    of −log(1 − Σ_c q_ic q_jc) over cannot-links, by Adam; a step sees the linked points and a batch of the others. The
    networks of the paper have four layers.

    References
    ----------
    H. Zhang, S. Basu, I. Davidson (2019). A framework for deep constrained clustering.
    """
    X = _coordinates(X)
    X = X / X.std()
    (n, d), code = X.shape, min(code, X.shape[1])
    sizes = ((d, hidden), (hidden, code), (code, hidden), (hidden, d))
    net = [part for a, b in sizes for part in (rng.normal(size=(a, b)) / np.sqrt(a), np.zeros(b))]
    W1, b1, W2, b2, W3, b3, W4, b4 = net  # a step changes them in place
    pairs = [np.asarray(links, dtype=int).reshape(-1, 2) for links in (must, cannot)]
    linked = np.unique(np.vstack(pairs))
    pairs = [np.searchsorted(linked, links) for links in pairs]
    others, centres = np.setdiff1d(np.arange(n), linked), np.zeros((clusters, code))
    moments: list[Array] = []
    for step in range(2 * steps):
        if step == steps:  # the codes of the autoencoder alone are where the clusters begin
            codes = np.tanh(X @ W1 + b1) @ W2 + b2
            centres = KMeans(clusters, n_init=10, random_state=int(rng.integers(2**31 - 1))).fit(codes).cluster_centers_
        # 1. Forward: codes z, reconstruction, soft clusters q.
        seen = X[np.r_[linked, rng.choice(others, min(batch, len(others)), replace=False)]]
        inner = np.tanh(seen @ W1 + b1)
        z = inner @ W2 + b2
        outer = np.tanh(z @ W3 + b3)
        error = 2.0 * (outer @ W4 + b4 - seen) / seen.size
        back = (error @ W4.T) * (1.0 - outer**2)
        dz, dcentres = back @ W3.T, np.zeros_like(centres)
        if step >= steps:
            near = 1.0 / (1.0 + cdist(z, centres, "sqeuclidean"))
            q = near / near.sum(axis=1, keepdims=True)
            # 2. Derivatives in the logarithms of the 1 / (1 + ‖z − μ‖²), from there in the codes and the centres.
            sharp = q**2 / q.sum(axis=0)
            slope, dq = (q - sharp / sharp.sum(axis=1, keepdims=True)) / len(q), np.zeros_like(q)
            for (i, j), apart in ((pairs[0].T, False), (pairs[1].T, True)):
                if len(i):
                    share = np.sum(q[i] * q[j], axis=1, keepdims=True)
                    factor = 1.0 / np.maximum(1.0 - share, 1e-6) if apart else -1.0 / np.maximum(share, 1e-6)
                    np.add.at(dq, i, weight / len(i) * factor * q[j])
                    np.add.at(dq, j, weight / len(i) * factor * q[i])
            slope += q * (dq - np.sum(q * dq, axis=1, keepdims=True))
            force = -2.0 * slope * near
            dz = dz + force.sum(axis=1, keepdims=True) * z - force @ centres
            dcentres = force.sum(axis=0)[:, None] * centres - force.T @ z
        # 3. Backward, and a step of Adam.
        first = (dz @ W2.T) * (1.0 - inner**2)
        slopes = [seen.T @ first, first.sum(axis=0), inner.T @ dz, dz.sum(axis=0), z.T @ back, back.sum(axis=0),
                  outer.T @ error, error.sum(axis=0), dcentres]
        moments = moments or [np.zeros((2, *np.shape(g))) for g in slopes]
        for variable, slope, moment in zip([*net, centres], slopes, moments):
            moment[0], moment[1] = 0.9 * moment[0] + 0.1 * slope, 0.999 * moment[1] + 0.001 * slope**2
            mean, square = moment[0] / (1 - 0.9**(step + 1)), moment[1] / (1 - 0.999**(step + 1))
            variable -= 3e-3 * mean / (np.sqrt(square) + 1e-8)
    return cdist(np.tanh(X @ W1 + b1) @ W2 + b2, centres).argmin(axis=1)


def _coordinates(X: Array) -> Array:
    """Return the points about their mean, in the directions that they have: distances are the same."""
    left, values, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return left[:, values > 1e-9 * values[0]] * values[values > 1e-9 * values[0]]


def _means(X: Array, labels: Array, before: Array) -> Array:
    """Return the cluster means; a cluster that lost its points keeps its centre."""
    return np.array([X[labels == c].mean(axis=0) if np.any(labels == c) else before[c] for c in range(len(before))])
