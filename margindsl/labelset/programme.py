"""0/1 programmes for HiGHS, solved to proven optimality: signs under sums, components assigned to clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy
from scipy.sparse import csr_array, vstack

from margindsl.errors import SolverError
from margindsl.host.clock import check, remaining
from margindsl.typing import FloatArray, IntArray

LISTED = 12  # signs that are listed, in less time than a programme takes
_CUTS = 200
_CORE = 64
# HiGHS works to absolute tolerances of 1e-6; rows and objective are scaled so that these mean 1e-10.
_SCALE = 1e4
_LIMIT_MET = 1


def solve_within(call: Callable[[float], Any]) -> Any:
    """Return what `scipy.optimize` makes of a programme, given the time left.

    HiGHS neither hears Ctrl-C nor goes on from where it stopped: it is begun again with twice the time, so that a
    solve can be left after at most as long again as it has taken.

    `call`: solves within so many seconds.
    """
    seconds = 1.0
    while True:
        check()
        answer = call(min(seconds, remaining()))
        if answer.status != _LIMIT_MET:
            return answer
        seconds *= 2.0


def solve_signs(
    gain: FloatArray, rows: FloatArray, lower: FloatArray, upper: FloatArray, slack: FloatArray
) -> IntArray | None:
    """Return an exact maximiser of gain.b over b in {-1, +1}^m with lower <= rows b <= upper, None if empty.

    Few signs are listed. With multipliers lam from the linear relaxation, flipping b_i away from
    sign(gain_i - (lam rows)_i) costs twice the reduced gain, so only signs cheaper than the gap of a known member can
    differ; the 0/1 programme is solved over this core, which grows until it holds all of them.

    `gain` (m,): objective; `rows` (J, m): bound weights; `lower`, `upper`, `slack` (J,): limits and their tolerances. A
    solution HiGHS accepts but the tolerance does not is cut off.
    """
    m = len(gain)
    if m <= LISTED:
        every = 2 * (np.arange(1 << m)[:, None] >> np.arange(m) & 1) - 1
        sums = every @ rows.T
        every = every[((sums >= lower - slack) & (sums <= upper + slack)).all(axis=1)]
        return every[np.argmax(every @ gain)] if len(every) else None
    if m <= _CORE:
        return _solve_whole(gain, rows, lower, upper, slack)
    answer = solve_within(lambda seconds: scipy.optimize.linprog(
        -gain, np.vstack([rows, -rows]), np.concatenate([upper, -lower]), bounds=(-1, 1), method="highs",
        options={"time_limit": seconds},
    ))
    if answer.status == 2:
        return None
    if answer.status != 0:
        raise SolverError(f"the linear relaxation of the label oracle failed (HiGHS: {answer.message}).")
    prices = -np.asarray(answer.ineqlin.marginals)
    lam = prices[: len(rows)] - prices[len(rows) :]
    reduced = gain - lam @ rows
    base, cost = np.where(reduced >= 0, 1, -1), 2 * np.abs(reduced)
    # Bound of Lagrange: sum |reduced| plus the price of the limit each multiplier pushes against.
    limit = np.where(lam > 0, upper, lower)
    order = np.argsort(cost, kind="stable")
    noise = 1e-12 * float(np.abs(gain).max())
    size = _CORE
    while True:
        core, best, gap = order[:size], base.copy(), np.inf
        best[core] = 0
        rest = rows @ best
        picked = _solve_whole(gain[core], rows[:, core], lower - rest, upper - rest, slack)
        if picked is not None:
            best[core] = picked
            gap = float(cost[best != base].sum() + np.maximum(lam * (limit - rows @ best), 0.0).sum())
        if size == m or cost[order[size]] >= gap - noise:
            return best if picked is not None else None
        needed = int(np.searchsorted(cost[order], gap - noise))
        size = min(max(needed, size + 1), 4 * size, m)


def _solve_whole(
    gain: FloatArray, rows: FloatArray, lower: FloatArray, upper: FloatArray, slack: FloatArray
) -> IntArray | None:
    """Solve the 0/1 programme over all signs, cutting off solutions that miss a bound by rounding."""
    scale = _SCALE / np.maximum(np.abs(rows).max(axis=1), 1e-300)
    table = csr_array(2 * rows * scale[:, None])
    shift = rows.sum(axis=1)
    low, high = (lower - slack / 2 + shift) * scale, (upper + slack / 2 + shift) * scale
    cost = -gain * (_SCALE / max(float(np.abs(gain).max()), 1e-300))
    for _ in range(_CUTS):
        x = _solve(cost, table, low, high)
        if x is None:
            return None
        signs = np.where(x > 0.5, 1, -1)
        sums = rows @ signs
        if bool(((sums >= lower - slack) & (sums <= upper + slack)).all()):
            return signs
        # Forbid this one vertex: sum_{x_i = 1} x_i - sum_{x_i = 0} x_i <= #ones - 1.
        table = vstack([table, csr_array(signs[None, :].astype(float))], format="csr")
        low, high = np.append(low, -np.inf), np.append(high, float((signs > 0).sum()) - 1.0)
    raise SolverError(
        f"HiGHS returned {_CUTS} labellings in turn that miss a bound by rounding; "
        "widen the bound slightly or give whole-number weights."
    )


def solve_counts(rows: FloatArray, many: IntArray, lower: FloatArray, upper: FloatArray) -> IntArray | None:
    """Return counts 0 <= k <= many with lower <= rows (2k - many) <= upper, or None when there are none."""
    scale = _SCALE / np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)
    shift = rows @ many
    table = csr_array(2 * rows * scale[:, None])
    x = _solve(np.zeros(len(many)), table, (lower + shift) * scale, (upper + shift) * scale, many)
    return None if x is None else np.rint(x).astype(np.intp)


def _solve(cost: FloatArray, table: csr_array, low: FloatArray, high: FloatArray, most: IntArray | int = 1,
           stopped: str = "the exact label oracle stopped without a proof (HiGHS: {}); use whole-number weights or "
                          "fewer bounds.") -> FloatArray | None:
    answer = solve_within(lambda seconds: scipy.optimize.milp(
        cost,
        integrality=np.ones(len(cost)),
        bounds=scipy.optimize.Bounds(np.zeros(len(cost)), np.broadcast_to(most, len(cost))),
        constraints=scipy.optimize.LinearConstraint(table, low, high),
        options={"mip_rel_gap": 0.0, "time_limit": seconds},
    ))
    if answer.status == 2:
        return None
    if answer.status != 0 or answer.x is None:
        raise SolverError(stopped.format(answer.message))
    return np.asarray(answer.x, dtype=float)


def solve_assignment(gain: FloatArray, edges: IntArray, size: IntArray, limits: tuple[IntArray, IntArray] | None = None,
                     many: IntArray | None = None, parts: Sequence[Any] = ()) -> IntArray | None:
    """Return counts x (m, k) that maximise sum gain x, or None when there are none.

    x_Cq is a whole number, sum_q x_Cq = many_C, x_Cq + x_Dq <= 1 for edges (C, D) (stated for whole cliques
    C, D, E, ..., which is tighter), lower_q <= sum_C size_C x_Cq <= upper_q.

    `gain` (m, k): finite, or -inf where x_Cq = 0; `edges` (e, 2): pairs that exclude one another; only between rows
    with many_C = 1; `size` (m,): number of points of each row's components; `limits` (ndarray, ndarray): lower and
    upper; `many` (m,): number of equal components that a row stands for, by default 1; `parts`: further bounds on what
    single clusters hold.
    """
    m, k = gain.shape
    many = np.ones(m, dtype=np.intp) if many is None else many
    lower, upper = (np.full(k, -np.inf), np.full(k, np.inf)) if limits is None else limits
    if not (gain > -np.inf).any(axis=1).all() or (not m and ((lower > 0) | (upper < 0)).any()):
        return None
    if not m:
        return np.zeros((0, k), dtype=np.intp)
    (row, column), picked, _, (once, cliques, sizes) = _assignment(gain, edges, size)
    more = [csr_array(part.terms[row, column][None]) for part in parts]
    x = _solve(-picked, vstack([once, cliques, sizes, *more]),
               np.concatenate([many, np.full(cliques.shape[0], -np.inf), lower, [part.lower for part in parts]]),
               np.concatenate([many, np.ones(cliques.shape[0]), upper, [part.upper for part in parts]]), many[row],
               _stopped(m, k))
    if x is None:
        return None
    counts = np.zeros((m, k), dtype=np.intp)
    counts[row, column] = np.rint(x).astype(np.intp)
    return counts


def relax_assignment(gain: FloatArray, edges: IntArray, size: IntArray,
                     limits: tuple[IntArray, IntArray]) -> tuple[FloatArray, FloatArray, float]:
    """Return multipliers of the linear relaxation of `solve_assignment`.

    Returns
    -------
    price : ndarray, shape (k,)
        Of the sizes, positive where the upper limit binds, negative where the lower one does.
    charge : ndarray, shape (m, k)
        Sum of the multipliers mu >= 0 of the cliques that hold a choice.
    total : float
        Sum of all mu.
    """
    (row, column), picked, scale, (once, cliques, sizes) = _assignment(gain, edges, size)
    m, k, many = *gain.shape, cliques.shape[0]
    answer = solve_within(lambda seconds: scipy.optimize.linprog(
        -picked, A_ub=vstack([cliques, sizes, -sizes]), b_ub=np.concatenate([np.ones(many), limits[1], -limits[0]]),
        A_eq=once, b_eq=np.ones(m), method="highs", options={"time_limit": seconds}))
    if answer.status != 0:
        raise SolverError(_stopped(m, k).format(answer.message))
    mu, high, low = np.split(np.maximum(-np.asarray(answer.ineqlin.marginals), 0.0) / scale, [many, many + k])
    charge = np.zeros((m, k))
    charge[row, column] = cliques.T @ mu
    return high - low, charge, float(mu.sum())


def _assignment(gain: FloatArray, edges: IntArray, size: IntArray) -> Any:
    """Return the choices (rows, clusters), their gains and the scale of these, and the tables of an assignment.

    Tables say that each row is assigned once, that cliques are apart in each cluster, and what clusters hold.
    """
    m, k = gain.shape
    row, column = np.nonzero(gain > -np.inf)
    number, position = np.arange(len(row)), np.full((m, k), -1)
    position[row, column] = number
    picked = gain[row, column] - gain.max(axis=1)[row]
    scale = _SCALE / max(float(np.abs(picked).max(initial=0.0)), 1e-300)
    rivals = [inside[inside >= 0] for clique in cover_cliques(edges) for inside in position[clique].T]
    rivals = [inside for inside in rivals if len(inside) > 1]

    def table(rows: IntArray, columns: IntArray, values: FloatArray, count: int) -> csr_array:
        positions = rows.astype(np.int32), columns.astype(np.int32)  # all that HiGHS takes
        return csr_array((values, positions), shape=(count, len(row)))

    inside = np.concatenate([*rivals, np.zeros(0, dtype=np.intp)])
    at = np.repeat(np.arange(len(rivals)), [len(members) for members in rivals])
    return (row, column), picked * scale, scale, (
        table(row, number, np.ones(len(row)), m), table(at, inside, np.ones(len(inside)), len(rivals)),
        table(column, number, size[row].astype(float), k))


def _stopped(m: int, k: int) -> str:
    return (f"the exact oracle over {m} linked or sized components and {k} clusters stopped without a proof "
            "(HiGHS: {}); widen the size bounds, or declare fewer cannot-links.")


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
        covered.update((a, b) for position, a in enumerate(clique) for b in clique[position + 1 :])
        cliques.append(clique)
    return cliques
