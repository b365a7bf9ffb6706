"""Assignment of cannot-linked components: trees by messages, the rest, and those under sizes, by 0/1 programmes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from margindsl.errors import SolverError
from margindsl.host.clock import check
from margindsl.labelset.components import Constraints
from margindsl.labelset.programme import relax_assignment, solve_assignment
from margindsl.typing import BoolArray, FloatArray, IntArray

_OPEN = 256  # choices beside those without regret that the first programme opens
_ROUNDS = 30


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
        value = gain.astype(float)
        rounds, core = _peel(value, edges[imposed])
        z = np.argmax(value, axis=1)
        if len(core):
            _assign_core(value, core, z)
        for leaf, parent in reversed(rounds):
            rest = value[leaf]
            rest[np.arange(len(leaf)), z[parent]] = -np.inf
            z[leaf] = np.argmax(rest, axis=1)


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
        m, gain = len(members), value[nodes[members]]
        local[members] = np.arange(m)
        if 2 * len(chosen) == m * (m - 1) and m <= gain.shape[1]:
            z[nodes[members]] = scipy.optimize.linear_sum_assignment(-gain)[1]
            continue
        counts = solve_assignment(gain, local[ends[chosen]], np.ones(m, dtype=np.intp))
        if counts is None:
            raise SolverError("no labelling satisfies all cannot-links; the label set was not built by presolve.")
        z[nodes[members]] = np.argmax(counts, axis=1)


def connected_blocks(m: int, edges: IntArray) -> IntArray:
    """Return the number of each node's connected component, shape (m,)."""
    from margindsl.labelset.links import closure  # networkx, which is loaded where there are links

    return closure(m, edges)


class _Regrets(NamedTuple):
    """An upper bound on the maximum, and by how much each choice (C, q) lowers it at least."""

    bound: float
    cost: FloatArray


class _Open(NamedTuple):
    """The programme over components with several open choices or imposed links; the others keep theirs."""

    core: IntArray
    gain: FloatArray
    edges: IntArray
    limits: tuple[IntArray, IntArray]
    z: IntArray


def solve_priced(labels: Constraints, masked: FloatArray, price: FloatArray, imposed: BoolArray) -> IntArray:
    """Return z (N,) that maximises sum_C masked[C, z_C] over a set of k-cluster labellings.

    A 0/1 programme is solved over choices of small regret and under imposed cannot-links. An answer that
    breaks others imposes them. Otherwise its value leaves a gap to an upper bound, and choices whose regret
    exceeds the gap cannot belong to a better answer; if all closed choices are such, the answer is optimal. If
    not, regrets are sharpened once by the linear relaxation; after that, the choices within the gap are opened.

    `masked` (N, k): gains, -inf where not allowed; `price` (k,): prices of the clusters; good ones make it fast;
    `imposed` (m,): which rows of ``labels.apart`` to impose from the start.
    """
    i, j = labels.apart.T
    noise = 1e-12 * float(np.abs(masked[labels.allowed]).sum())
    regrets = _price_blocks(labels, masked, price, labels.apart[imposed])
    count, step, sharpened = int((regrets.cost <= 0).sum()) + _OPEN, _OPEN, not len(i)
    while True:
        levels = np.sort(regrets.cost[regrets.cost < np.inf])
        count = min(count, len(levels))
        level = levels[count - 1]
        problem = _open_problem(labels, masked, regrets.cost <= level, labels.apart[imposed])
        counts = solve_assignment(problem.gain, problem.edges, labels.size[problem.core], problem.limits)
        if counts is None:
            if count == len(levels):
                raise SolverError(
                    "no labelling satisfies all links and sizes; the label set was not built by presolve.")
            count, step = count + step, 4 * step
            continue
        z = problem.z
        z[problem.core] = np.argmax(counts, axis=1)
        broken = z[i] == z[j]
        if broken.any():
            imposed = imposed | broken
            if not sharpened:
                regrets = _price_blocks(labels, masked, price, labels.apart[imposed])
                count = max(count, int((regrets.cost <= 0).sum()) + _OPEN)
            continue
        gap = regrets.bound - (float(masked[np.arange(labels.count), z].sum()) - noise)
        if count == len(levels) or level >= gap:
            return z
        needed = int(np.searchsorted(levels, gap, "right")) + 1
        if not sharpened and needed > count + _OPEN:
            regrets = _sharpen(labels, masked, regrets, gap, regrets.cost <= level, labels.apart[imposed])
            needed, sharpened = int((regrets.cost <= 0).sum()) + _OPEN, True
        count = needed


def _price_blocks(labels: Constraints, masked: FloatArray, price: FloatArray, edges: IntArray) -> _Regrets:
    """Return regrets for prices lam of the clusters.

    The maximum of the priced gain gain[C, q] - size_C lam_q without size bounds, plus
    sum_q max(upper_q lam_q, lower_q lam_q), is an upper bound. Where C is linked, its block of linked components is
    worth at most the sum of their greatest priced gains, those of neighbours of C without the cluster of C.
    """
    priced = masked - labels.size[:, None] * price
    greatest, base = priced.max(axis=1), np.argmax(priced, axis=1)
    nodes, flat = np.unique(edges, return_inverse=True)
    ends = flat.reshape(-1, 2)
    base[nodes] = assign_linked(priced[nodes], ends)
    best = priced[np.arange(labels.count), base]
    cost = greatest[:, None] - priced
    if len(nodes):
        loss = greatest[nodes, None] - best_elsewhere(priced[nodes])
        block = connected_blocks(len(nodes), ends)
        charge = np.bincount(block, weights=greatest[nodes] - best[nodes])
        cost[nodes] -= charge[block][:, None]
        np.add.at(cost, nodes[ends[:, 0]], loss[ends[:, 1]])
        np.add.at(cost, nodes[ends[:, 1]], loss[ends[:, 0]])
    cost = np.maximum(cost, 0.0)
    cost[np.arange(labels.count), base] = 0.0
    return _Regrets(float(best.sum() + _price_of_sizes(labels, price)), cost)


def _sharpen(
    labels: Constraints, masked: FloatArray, regrets: _Regrets, gap: float, opened: BoolArray, edges: IntArray
) -> _Regrets:
    """Return regrets from multipliers of the linear relaxation, solved by generation of columns.

    For multipliers lam of sizes and mu >= 0 of cliques, sum_C max_q (gain[C, q] - size_C lam_q - mu of the cliques
    of C in q) + sum mu + sum_q max(upper_q lam_q, lower_q lam_q) is an upper bound, however inexact they are. The
    relaxation over open choices gives multipliers; choices that are better than the open ones under these are
    opened, until there are none. The best bound met is kept. Choices beyond the gap stay closed for good.
    """
    within = np.where(regrets.cost <= gap, masked, -np.inf)
    best = regrets
    for _ in range(_ROUNDS):
        problem = _open_problem(labels, masked, opened, edges)
        price, charge, total = relax_assignment(problem.gain, problem.edges, labels.size[problem.core], problem.limits)
        priced = within - labels.size[:, None] * price
        priced[problem.core] -= charge
        greatest = priced.max(axis=1)
        bound = float(greatest.sum() + total + _price_of_sizes(labels, price))
        if bound < best.bound:
            best = _Regrets(bound, greatest[:, None] - priced)
        reached = np.where(opened, priced, -np.inf).max(axis=1)
        better = priced > reached[:, None] + 1e-9 * np.abs(reached[:, None])
        if not better.any():
            break
        opened = opened | better
    return best


def _price_of_sizes(labels: Constraints, price: FloatArray) -> float:
    return float(np.where(price > 0, labels.at_most, labels.at_least) @ price)


def _open_problem(labels: Constraints, masked: FloatArray, opened: BoolArray, edges: IntArray) -> _Open:
    inside = opened.sum(axis=1) > 1
    inside[edges] = True
    core, z = np.flatnonzero(inside), np.argmax(opened, axis=1)
    fixed = np.bincount(z[~inside], weights=labels.size[~inside], minlength=labels.clusters)
    limits = labels.at_least - fixed, labels.at_most - fixed
    return _Open(core, np.where(opened[core], masked[core], -np.inf), (np.cumsum(inside) - 1)[edges], limits, z)
