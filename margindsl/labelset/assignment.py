"""Assignment of components to clusters as a 0/1 programme for HiGHS, solved to proven optimality."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import scipy
from scipy.sparse import coo_array, csr_array, vstack

from margindsl.errors import SolverError
from margindsl.labelset.highs import solve_within
from margindsl.typing import FloatArray, IntArray

_Rows: TypeAlias = tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray]
# HiGHS stops at an absolute gap of 1e-6; gains are scaled so that this means 1e-10 of the greatest.
_SCALE = 1e4


def solve_assignment(
    gain: FloatArray,
    edges: IntArray,
    size: IntArray,
    limits: tuple[IntArray, IntArray] | None = None,
    many: IntArray | None = None,
) -> IntArray | None:
    """Return counts x (m, k) that maximise sum gain x, or None when there are none.

    x_Cq is a whole number, sum_q x_Cq = many_C, x_Cq + x_Dq <= 1 for edges (C, D) (stated for whole cliques
    C, D, E, ..., which is tighter), lower_q <= sum_C size_C x_Cq <= upper_q.

    Parameters
    ----------
    gain : ndarray, shape (m, k)
        Finite, or -inf where x_Cq = 0.
    edges : ndarray of int, shape (e, 2)
        Pairs that exclude one another; only between rows with many_C = 1.
    size : ndarray of int, shape (m,)
        Number of points of each row's components.
    limits : (ndarray, ndarray) of int, shape (k,), optional
        lower and upper.
    many : ndarray of int, shape (m,), optional
        Number of equal components that a row stands for, by default 1.
    """
    m, k = gain.shape
    many = np.ones(m, dtype=np.intp) if many is None else many
    row, column = np.nonzero(gain > -np.inf)
    if len(np.unique(row)) < m or (not m and limits is not None and (limits[0] > 0).any() | (limits[1] < 0).any()):
        return None
    if not m:
        return np.zeros((0, k), dtype=np.intp)
    rows = [_once(row, many), *_clique_rows((row, column), cover_cliques(edges), m, k)]
    if limits is not None:
        rows.append(_size_row(row, column, size, limits))
    answer = solve_within(lambda seconds: scipy.optimize.milp(
        -_scaled(gain, row, column)[0],
        integrality=np.ones(len(row)),
        bounds=scipy.optimize.Bounds(np.zeros(len(row)), many[row]),
        constraints=scipy.optimize.LinearConstraint(*_stack(rows, len(row))),
        options={"mip_rel_gap": 0.0, "time_limit": seconds},
    ))
    if answer.status == 2:
        return None
    if answer.status != 0 or answer.x is None:
        raise _stopped(m, k, answer.message)
    counts = np.zeros((m, k), dtype=np.intp)
    counts[row, column] = np.rint(answer.x).astype(np.intp)
    return counts


def relax_assignment(
    gain: FloatArray,
    edges: IntArray,
    size: IntArray,
    limits: tuple[IntArray, IntArray],
) -> tuple[FloatArray, FloatArray, float]:
    """Return multipliers of the linear relaxation of `solve_assignment`.

    Returns
    -------
    price : ndarray, shape (k,)
        Of the sizes, positive where the upper limit binds, negative where the lower one does.
    paid : ndarray, shape (m, k)
        Sum of the multipliers mu >= 0 of the cliques that hold a choice.
    total : float
        Sum of all mu.
    """
    m, k = gain.shape
    row, column = np.nonzero(gain > -np.inf)
    cliques = _clique_rows((row, column), cover_cliques(edges), m, k)
    size_table = _stack([_size_row(row, column, size, limits)], len(row))[0]
    blocks = [_stack(cliques, len(row))[0]] if cliques else []
    many, scaled = len(cliques[0][4]) if cliques else 0, _scaled(gain, row, column)
    answer = solve_within(lambda seconds: scipy.optimize.linprog(
        -scaled[0],
        A_ub=vstack([*blocks, size_table, -size_table]),
        b_ub=np.concatenate([np.ones(many), limits[1], -limits[0]]),
        A_eq=_stack([_once(row, np.ones(m))], len(row))[0],
        b_eq=np.ones(m),
        method="highs",
        options={"time_limit": seconds},
    ))
    if answer.status != 0:
        raise _stopped(m, k, answer.message)
    marginals = np.maximum(-np.asarray(answer.ineqlin.marginals), 0.0) / scaled[1]
    mu, high, low = np.split(marginals, [many, many + k])
    paid = np.zeros((m, k))
    if many:
        paid[row, column] = blocks[0].T @ mu
    return high - low, paid, float(mu.sum())


def _scaled(gain: FloatArray, row: IntArray, column: IntArray) -> tuple[FloatArray, float]:
    """Return gains less the greatest of each row, in a scale that HiGHS's tolerances suit, and the scale."""
    picked = gain[row, column] - gain.max(axis=1)[row]
    scale = _SCALE / max(float(np.abs(picked).max(initial=0.0)), 1e-300)
    return picked * scale, scale


def _stopped(m: int, k: int, words: str) -> SolverError:
    return SolverError(
        f"the exact oracle over {m} linked or sized components and {k} clusters stopped "
        f"without a proof (HiGHS: {words}); widen the size bounds, or declare fewer cannot-links."
    )


def _once(row: IntArray, many: IntArray) -> _Rows:
    return row, np.arange(len(row)), np.ones(len(row)), many.astype(float), many.astype(float)


def _size_row(row: IntArray, column: IntArray, size: IntArray, limits: tuple[IntArray, IntArray]) -> _Rows:
    return column, np.arange(len(row)), size[row].astype(float), limits[0], limits[1]


def _clique_rows(choices: tuple[IntArray, IntArray], cliques: list[list[int]], m: int, k: int) -> list[_Rows]:
    """Return the rows sum over a clique of x_Cq <= 1 as one block, or nothing when there are none."""
    place = np.full((m, k), -1)
    place[choices] = np.arange(len(choices[0]))
    where, what, rows = [], [], 0
    for clique in cliques:
        for variables in place[clique].T:
            variables = variables[variables >= 0]
            if len(variables) > 1:
                where.append(np.full(len(variables), rows))
                what.append(variables)
                rows += 1
    if not rows:
        return []
    at, variable = np.concatenate(where), np.concatenate(what)
    return [(at, variable, np.ones(len(at)), np.full(rows, -np.inf), np.ones(rows))]


def _stack(blocks: list[_Rows], variables: int) -> tuple[csr_array, FloatArray, FloatArray]:
    start, rows, columns, values = 0, [], [], []
    for at, variable, value, low, _ in blocks:
        rows.append(at + start)
        columns.append(variable)
        values.append(value)
        start += len(low)
    places = (np.concatenate(rows).astype(np.int32), np.concatenate(columns).astype(np.int32))  # all that HiGHS takes
    table = coo_array((np.concatenate(values), places), shape=(start, variables))
    low, high = (np.concatenate([block[side] for block in blocks]) for side in (3, 4))
    return table.tocsr(), low, high


def cover_cliques(edges: IntArray) -> list[list[int]]:
    """Return cliques of a graph that together hold each edge, grown greedily.

    Examples
    --------
    >>> cover_cliques(np.array([[0, 1], [0, 2], [1, 2], [2, 3]]))
    [[0, 1, 2], [2, 3]]
    """
    near: dict[int, set[int]] = {}
    for i, j in edges.tolist():
        near.setdefault(i, set()).add(j)
        near.setdefault(j, set()).add(i)
    covered: set[tuple[int, int]] = set()
    cliques = []
    for i, j in edges.tolist():
        if (i, j) in covered:
            continue
        clique, common = [i, j], near[i] & near[j]
        while common:
            clique.append(min(common))
            common = common & near[clique[-1]]
        clique.sort()
        covered.update((a, b) for place, a in enumerate(clique) for b in clique[place + 1 :])
        cliques.append(clique)
    return cliques
