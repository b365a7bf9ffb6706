"""Sizes with cannot-links or unequal components: a 0/1 programme over the choices that prices leave open."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from margindsl.errors import SolverError
from margindsl.labelset.linked import assign_linked, best_elsewhere, connected_blocks
from margindsl.labelset.programme import relax_assignment, solve_assignment
from margindsl.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from margindsl.labelset.labelset import LabelSet

_OPEN = 256  # choices beside those without regret that the first programme opens
_ROUNDS = 30


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


def solve_priced(labels: LabelSet, masked: FloatArray, price: FloatArray, imposed: BoolArray) -> IntArray:
    """Return z (N,) that maximises sum_C masked[C, z_C] over a set of k-cluster labellings.

    A 0/1 programme is solved over choices of small regret and under imposed cannot-links. An answer that
    breaks others imposes them. Otherwise its value leaves a gap to an upper bound, and choices whose regret
    exceeds the gap cannot belong to a better answer; if all closed choices are such, the answer is optimal. If
    not, regrets are sharpened once by the linear relaxation; after that, the choices within the gap are opened.

    Parameters
    ----------
    labels : LabelSet
    masked : ndarray, shape (N, k)
        Gains, -inf where not allowed.
    price : ndarray, shape (k,)
        Prices of the clusters; good ones make it fast.
    imposed : ndarray of bool, shape (m,)
        Which rows of ``labels.apart`` to impose from the start.
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


def _price_blocks(labels: LabelSet, masked: FloatArray, price: FloatArray, edges: IntArray) -> _Regrets:
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
        paid = np.bincount(block, weights=greatest[nodes] - best[nodes])
        cost[nodes] -= paid[block][:, None]
        np.add.at(cost, nodes[ends[:, 0]], loss[ends[:, 1]])
        np.add.at(cost, nodes[ends[:, 1]], loss[ends[:, 0]])
    cost = np.maximum(cost, 0.0)
    cost[np.arange(labels.count), base] = 0.0
    return _Regrets(float(best.sum() + _price_of_sizes(labels, price)), cost)


def _sharpen(
    labels: LabelSet, masked: FloatArray, regrets: _Regrets, gap: float, opened: BoolArray, edges: IntArray
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
        price, paid, total = relax_assignment(problem.gain, problem.edges, labels.size[problem.core], problem.limits)
        priced = within - labels.size[:, None] * price
        priced[problem.core] -= paid
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


def _price_of_sizes(labels: LabelSet, price: FloatArray) -> float:
    return float(np.where(price > 0, labels.at_most, labels.at_least) @ price)


def _open_problem(labels: LabelSet, masked: FloatArray, opened: BoolArray, edges: IntArray) -> _Open:
    inside = opened.sum(axis=1) > 1
    inside[edges] = True
    core, z = np.flatnonzero(inside), np.argmax(opened, axis=1)
    fixed = np.bincount(z[~inside], weights=labels.size[~inside], minlength=labels.clusters)
    limits = labels.at_least - fixed, labels.at_most - fixed
    return _Open(core, np.where(opened[core], masked[core], -np.inf), (np.cumsum(inside) - 1)[edges], limits, z)
