"""LapSVM: Laplacian support vector machine (Belkin, Niyogi and Sindhwani 2006)."""

from __future__ import annotations

from typing import Any

import numpy as np

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.recipes.known import read_known, read_weights, weighted
from margindsl.recipes.recipe import recipe
from margindsl.typing import ArrayLike, Bias


@recipe(method="Belkin et al. 2006", declares="known labels, hinge, manifold term")
def lapsvm(X: Any, y: ArrayLike, *, gamma_A: float | md.Parameter = 0.01, gamma_I: float | md.Parameter = 1.0,
           neighbours: int = 6, graph: Any = None, kernel: Any = "linear", bias: Bias = True,
           sample_weight: ArrayLike | None = None) -> md.Problem:
    """Declare the Laplacian support vector machine.

    min over w, b of 1/l Σ_{i∈L} (1−y_i f_i)₊ + γ_A ‖w‖² + γ_I/m² fᵀLf, L the Laplacian of a graph of nearest
    neighbours over all m points. Convex: unlabelled points act through the graph alone, and
    `solution.labels` gives them the sign of f.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or None
        None with a precomputed kernel and a graph.
    y : (n,) array of −1, 0, +1
        Zero is unknown.
    gamma_A : float or Parameter
        Weight γ_A > 0 of the norm.
    gamma_I : float or Parameter
        Weight γ_I ≥ 0 of the manifold term.
    neighbours : int
        Neighbours of a point in the graph: i ~ j when either is among the nearest of the other, weight one.
    graph : (n, n) sparse matrix, array, networkx graph or None
        Symmetric non-negative weights to take instead.
    kernel : str, kernel or callable
    bias : bool or "penalised"
    sample_weight : (n,) array or None
        Weights of the labelled points' losses, scaled to mean one over them; the graph counts points.

    References
    ----------
    M. Belkin, P. Niyogi, V. Sindhwani (2006). Manifold regularization, Journal of Machine Learning Research 7,
    Section 4.

    Examples
    --------
    >>> X = [[-2.0, 0.0], [-1.9, 0.2], [1.9, 0.1], [2.0, -0.1]]
    >>> lapsvm(X, [-1, 0, 0, 1], neighbours=1).solve().labels.tolist()
    [-1, -1, 1, 1]
    """
    f = md.Hyperplane(X, kernel=kernel, bias=bias)
    signs, known = md.Labels(f.n), read_known("lapsvm", y, f.n)
    weights = neighbour_graph(X, neighbours) if graph is None else graph
    loss = weighted(md.hinge(signs * f), read_weights("lapsvm", sample_weight, known, known.labelled))
    total = (md.mean(loss[known.labelled]) + gamma_A * md.sq_norm(f)
             + gamma_I * md.manifold(f, weights) / f.n**2)
    return md.Problem(md.Minimize(total), known.constraints(signs), relaxation="supervised", solver="newton")


def neighbour_graph(X: Any, neighbours: int) -> Any:
    """Return the (n, n) sparse 0/1 matrix with i ~ j when either is among the nearest of the other."""
    from sklearn.neighbors import kneighbors_graph  # scikit-learn is loaded by the recipes that use it

    if X is None:
        raise DeclarationError("X=None: neighbours are found among points; without them give graph=, an (n, n) matrix "
                               "of weights or a networkx graph")
    X = X if hasattr(X, "tocsr") else np.asarray(X, dtype=float)
    n = X.shape[0]
    if isinstance(neighbours, bool) or not isinstance(neighbours, (int, np.integer)) or not 1 <= neighbours < n:
        raise DeclarationError(f"neighbours={neighbours!r} for {n} points; expected an integer from 1 to {n - 1}")
    one_way = kneighbors_graph(X, int(neighbours), mode="connectivity", include_self=False)
    return one_way.maximum(one_way.T)
