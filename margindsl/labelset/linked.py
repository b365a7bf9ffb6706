"""Assignment of cannot-linked components without size bounds: trees by messages, the rest by programmes."""

from __future__ import annotations

import numpy as np
import scipy

from margindsl.errors import SolverError
from margindsl.host.clock import check
from margindsl.labelset.programme import solve_assignment
from margindsl.typing import FloatArray, IntArray


def assign_linked(gain: FloatArray, edges: IntArray) -> IntArray:
    """Return an exact maximiser z of sum_C gain[C, z_C] with z_C != z_D for every edge (C, D).

    Only edges that some maximiser without them broke are imposed; a maximiser under these that breaks no
    other edge is one under all. A leaf C of the imposed graph adds max over q' != q of gain[C, q'] to the gain of
    its neighbour in q and is removed; so whole trees shrink to a point, and the graph to its 2-core. Each
    connected component of the 2-core is an assignment problem if it is a clique, otherwise a 0/1 programme.

    Parameters
    ----------
    gain : ndarray, shape (m, k)
        Finite, or -inf where a component may not go.
    edges : ndarray of int, shape (e, 2)
        Different pairs.

    Examples
    --------
    >>> assign_linked(np.array([[5.0, 0.0, 4.0], [6.0, 3.0, 0.0]]), np.array([[0, 1]]))
    array([2, 0])
    """
    z = np.argmax(gain, axis=1)
    imposed = np.zeros(len(edges), dtype=bool)
    while True:
        check()
        broken = z[edges[:, 0]] == z[edges[:, 1]]
        if not broken.any():
            return z
        imposed |= broken
        z = _assign_imposed(gain, edges[imposed])


def _assign_imposed(gain: FloatArray, edges: IntArray) -> IntArray:
    value = gain.astype(float)
    rounds, core = _peel(value, edges)
    z = np.argmax(value, axis=1)
    if len(core):
        _assign_core(value, core, z)
    for leaf, parent in reversed(rounds):
        rest = value[leaf]
        rest[np.arange(len(leaf)), z[parent]] = -np.inf
        z[leaf] = np.argmax(rest, axis=1)
    return z


def _peel(value: FloatArray, edges: IntArray) -> tuple[list[tuple[IntArray, IntArray]], IntArray]:
    """Remove leaves round by round, adding their messages to value in place; return the rounds and the 2-core."""
    m = len(value)
    degree = np.bincount(edges.ravel(), minlength=m)
    # The sum of a node's remaining neighbours is, at a leaf, its one neighbour.
    others = np.zeros(m, dtype=np.intp)
    np.add.at(others, edges, edges[:, ::-1])
    rounds = []
    leaf = np.flatnonzero(degree == 1)
    while leaf.size:
        parent = others[leaf]
        keep = (degree[parent] != 1) | (leaf > parent)
        leaf, parent = leaf[keep], parent[keep]
        np.add.at(value, parent, best_elsewhere(value[leaf]))
        degree[leaf] = 0
        np.subtract.at(degree, parent, 1)
        np.subtract.at(others, parent, leaf)
        rounds.append((leaf, parent))
        near = np.unique(parent)
        leaf = near[degree[near] == 1]
    return rounds, edges[(degree[edges] > 0).all(axis=1)]


def best_elsewhere(gain: FloatArray) -> FloatArray:
    """Return (m, k) max over q' != q of gain[:, q']."""
    best = np.argmax(gain, axis=1)
    rows = np.arange(len(gain))
    answer = np.repeat(gain[rows, best][:, None], gain.shape[1], axis=1)
    rest = gain.copy()
    rest[rows, best] = -np.inf
    answer[rows, best] = rest.max(axis=1)
    return answer


def _assign_core(value: FloatArray, core: IntArray, z: IntArray) -> None:
    nodes, flat = np.unique(core, return_inverse=True)
    ends = flat.reshape(-1, 2)
    block = connected_blocks(len(nodes), ends)
    order = np.argsort(block, kind="stable")
    edge_order = np.argsort(block[ends[:, 0]], kind="stable")
    sizes = np.bincount(block)
    edge_counts = np.bincount(block[ends[:, 0]], minlength=len(sizes))
    local = np.empty(len(nodes), dtype=np.intp)
    for members, chosen in zip(
        np.split(order, np.cumsum(sizes)[:-1]), np.split(edge_order, np.cumsum(edge_counts)[:-1])
    ):
        local[members] = np.arange(len(members))
        z[nodes[members]] = _assign_block(value[nodes[members]], local[ends[chosen]])


def connected_blocks(m: int, edges: IntArray) -> IntArray:
    """Return the number of each node's connected component, shape (m,)."""
    from margindsl.labelset.links import closure  # networkx, which is loaded where there are links

    return closure(m, edges)


def _assign_block(gain: FloatArray, edges: IntArray) -> IntArray:
    m, k = gain.shape
    if 2 * len(edges) == m * (m - 1) and m <= k:
        return np.asarray(scipy.optimize.linear_sum_assignment(-gain)[1])
    counts = solve_assignment(gain, edges, np.ones(m, dtype=np.intp))
    if counts is None:
        raise SolverError("no labelling satisfies all cannot-links; the label set was not built by presolve.")
    return np.argmax(counts, axis=1)
