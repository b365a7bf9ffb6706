"""Pairs and graphs as users give them: arrays, networkx graphs, sparse matrices."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.language.entries import read_array
from margindsl.typing import FloatArray, IntArray


class RankOne:
    """Represent a aᵀ, the matrix of (Σ a f)².

    Parameters
    ----------
    weights : (n,) float array
        The vector a.
    sizes : (n,) float array, optional
        Of the parts its entries are sums of, where they cancel.
    """

    def __init__(self, weights: FloatArray, sizes: FloatArray | None = None) -> None:
        self.weights, self.sizes = weights, sizes


def as_pairs(pairs: Any, n: int, word: str) -> IntArray:
    """Return links as an (m, 2) integer array.

    `pairs` (m, 2): a sparse matrix links i and j where it is positive; `n`: number of points; `word`: ``"must_link"``
    or ``"cannot_link"``, for messages.
    """
    array = _read_pairs(pairs, n, word)
    loops = np.flatnonzero(array[:, 0] == array[:, 1])
    if len(loops):
        i = array[loops[0], 0]
        raise DeclarationError(f"md.{word}: pair {loops[0]} is ({i}, {i}), a point linked with itself; drop it")
    return array


def weighted_pairs(pairs: Any, n: int, word: str, name: str) -> tuple[Any, FloatArray]:
    """Return links as pairs and their weights: the entries of a sparse matrix, or an attribute of edges of a graph."""
    if hasattr(pairs, "tocoo"):
        import scipy.sparse as sp

        matrix = sp.csr_array(pairs, dtype=float)
        if matrix.shape != (n, n):
            raise DeclarationError(f"md.{word}: the matrix has shape {matrix.shape}, expected {(n, n)}")
        greater = abs(matrix) > abs(matrix).T  # of an entry and the one across, the greater in size
        upper = sp.triu(matrix.multiply(greater) + matrix.T - matrix.T.multiply(greater), k=1).tocoo()
        upper.eliminate_zeros()
        return np.column_stack([upper.row, upper.col]), upper.data
    if not hasattr(pairs, "edges"):
        raise DeclarationError(f"md.{word}(weight={name!r}): a word is an attribute of edges of a networkx graph, or "
                               "stands for the entries of a sparse matrix; give numbers for pairs")
    missing = next((edge[:2] for edge in pairs.edges(data=name) if edge[2] is None), None)
    if missing is not None:
        raise DeclarationError(f"md.{word}(weight={name!r}): edge {missing} of the graph has no such attribute")
    return list(pairs.edges()), np.array([edge[2] for edge in pairs.edges(data=name)], dtype=float)


def _read_pairs(pairs: Any, n: int, word: str) -> IntArray:
    if hasattr(pairs, "edges") and hasattr(pairs, "nodes"):
        pairs = list(pairs.edges())
    elif hasattr(pairs, "tocoo"):
        matrix = pairs.tocoo()
        if matrix.shape != (n, n):
            raise DeclarationError(f"md.{word}: sparse matrix of shape {matrix.shape}, expected ({n}, {n})")
        if not np.all(matrix.data >= 0):  # NaN included
            raise DeclarationError(f"md.{word}: the sparse matrix has negative entries or NaN, expected links where it "
                                   "is positive")
        keep = matrix.data != 0
        pairs = np.unique(np.sort(np.column_stack([matrix.row[keep], matrix.col[keep]]), axis=1), axis=0)
    if isinstance(pairs, (set, frozenset)):
        pairs = sorted(map(tuple, pairs))
    array = read_array(list(pairs) if isinstance(pairs, Iterator) else pairs, f"md.{word}")
    if array.size == 0:
        return np.zeros((0, 2), dtype=int)
    if array.ndim != 2 or array.shape[1] != 2:
        raise DeclarationError(
            f"md.{word}: given shape {array.shape}, expected pairs of shape (m, 2), a graph or a sparse matrix")
    if array.dtype == object and all(isinstance(end, Integral) and abs(int(end)) < 2**62 for end in array.flat):
        array = array.astype(int)
    if array.dtype.kind not in "iu" and not (array.dtype.kind == "f" and np.all(array == np.round(array))):
        raise DeclarationError(f"md.{word}: pairs of type {array.dtype}, expected integer point numbers")
    beyond = np.flatnonzero(np.any((array < 0) | (array >= n), axis=1))
    if len(beyond):
        i, j = array[beyond[0]].tolist()
        raise DeclarationError(f"md.{word}: pair {beyond[0]} is ({i:g}, {j:g}), outside the {n} points 0..{n - 1}")
    return array.astype(int)


def as_laplacian(graph: Any, n: int) -> Any:
    """Return the unnormalised Laplacian (n, n) of a weighted graph as a scipy CSR matrix."""
    import scipy.sparse as sp

    if hasattr(graph, "edges") and hasattr(graph, "nodes"):
        import networkx as nx

        graph = nx.to_scipy_sparse_array(graph, nodelist=range(n)) if set(graph.nodes) == set(range(n)) else None
        if graph is None:
            raise DeclarationError(f"md.manifold: the graph's nodes must be 0..{n - 1}")
    if not sp.issparse(graph):
        graph = read_array(graph, "md.manifold")
    if graph.ndim != 2 or graph.dtype.kind not in "biuf":
        raise DeclarationError(f"md.manifold: given {graph.ndim} dimensions of type {graph.dtype}, expected a graph or "
                               f"a matrix of numbers of shape ({n}, {n})")
    weights = sp.csr_matrix(graph, dtype=float, copy=True)
    if weights.shape != (n, n):
        raise DeclarationError(f"md.manifold: graph of shape {weights.shape}, expected ({n}, {n})")
    if weights.nnz and (weights.data.min() < 0 or not np.all(np.isfinite(weights.data))):
        raise DeclarationError("md.manifold: weights must be finite and non-negative")
    if abs(weights - weights.T).max() > 1e-12 * abs(weights).max():
        raise DeclarationError("md.manifold: the graph is not symmetric; give (W + W.T) / 2")
    weights.setdiag(0)
    return sp.diags(np.asarray(weights.sum(axis=1)).ravel()) - weights
