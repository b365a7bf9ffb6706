"""Signs under several or real-weighted bounds: a 0/1 programme for HiGHS, solved to proven optimality."""

from __future__ import annotations

import numpy as np
import scipy
from scipy.sparse import csr_array, vstack

from margindsl.errors import SolverError
from margindsl.labelset.highs import solve_within
from margindsl.labelset.levels import solve_levels
from margindsl.typing import FloatArray, IntArray

_CUTS = 200
_CORE = 64
# HiGHS works to absolute tolerances of 1e-6; rows and objective are scaled so that these mean 1e-10.
_SCALE = 1e4


def solve_signs(
    gain: FloatArray, rows: FloatArray, lower: FloatArray, upper: FloatArray, slack: FloatArray
) -> IntArray | None:
    """Return an exact maximiser of gain.b over b in {-1, +1}^m with lower <= rows b <= upper, None if empty.

    Sums that are few are listed, as are those of weights of another magnitude (see `margindsl.labelset.levels`). Else,
    with multipliers lam from the linear relaxation, flipping b_i away from sign(gain_i - (lam rows)_i) costs
    twice the reduced gain, so only signs cheaper than the gap of a known member can differ; the 0/1
    programme is solved over this core, which grows until it holds all of them.

    Parameters
    ----------
    gain : ndarray, shape (m,)
        Objective.
    rows : ndarray, shape (J, m)
        Bound weights.
    lower, upper, slack : ndarray, shape (J,)
        Limits and their tolerances. A solution HiGHS accepts but the tolerance does not is cut off.
    """
    return solve_levels(gain, rows, lower, upper, slack, _solve_cored)


def _solve_cored(
    gain: FloatArray, rows: FloatArray, lower: FloatArray, upper: FloatArray, slack: FloatArray
) -> IntArray | None:
    """Solve over the signs that can differ from those of the linear relaxation."""
    m = len(gain)
    if m <= _CORE:
        return _solve_whole(gain, rows, lower, upper, slack)
    lam = _multipliers(gain, rows, lower, upper)
    if lam is None:
        return None
    reduced = gain - lam @ rows
    base, cost = np.where(reduced >= 0, 1, -1), 2 * np.abs(reduced)
    # Bound of Lagrange: sum |reduced| plus the price of the limit each multiplier pushes against.
    limit = np.where(lam > 0, upper, lower)
    order = np.argsort(cost, kind="stable")
    noise = 1e-12 * float(np.abs(gain).max())
    size = _CORE
    while True:
        best = _solve_core(gain, rows, (lower, upper, slack), base, order[:size])
        gap = np.inf
        if best is not None:
            gap = float(cost[best != base].sum() + np.maximum(lam * (limit - rows @ best), 0.0).sum())
        if size == m or cost[order[size]] >= gap - noise:
            return best
        needed = int(np.searchsorted(cost[order], gap - noise))
        size = min(max(needed, size + 1), 4 * size, m)


def _multipliers(
    gain: FloatArray, rows: FloatArray, lower: FloatArray, upper: FloatArray
) -> FloatArray | None:
    answer = solve_within(lambda seconds: scipy.optimize.linprog(
        -gain, np.vstack([rows, -rows]), np.concatenate([upper, -lower]), bounds=(-1, 1), method="highs",
        options={"time_limit": seconds},
    ))
    if answer.status == 2:
        return None
    if answer.status != 0:
        raise SolverError(f"the linear relaxation of the label oracle failed (HiGHS: {answer.message}).")
    prices = -np.asarray(answer.ineqlin.marginals)
    return np.asarray(prices[: len(rows)] - prices[len(rows) :])


def _solve_core(
    gain: FloatArray,
    rows: FloatArray,
    limits: tuple[FloatArray, FloatArray, FloatArray],
    base: IntArray,
    core: IntArray,
) -> IntArray | None:
    lower, upper, slack = limits
    outside = np.ones(len(base), dtype=bool)
    outside[core] = False
    rest = rows[:, outside] @ base[outside]
    picked = _solve_whole(gain[core], rows[:, core], lower - rest, upper - rest, slack)
    if picked is None:
        return None
    answer = base.copy()
    answer[core] = picked
    return answer


def _solve_whole(
    gain: FloatArray, rows: FloatArray, lower: FloatArray, upper: FloatArray, slack: FloatArray
) -> IntArray | None:
    """Solve the 0/1 programme over all signs, cutting off solutions that miss a bound by rounding."""
    m = len(gain)
    if m == 0:
        return np.zeros(0, dtype=np.intp) if bool(((lower <= slack) & (upper >= -slack)).all()) else None
    scale = _SCALE / np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)
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


def _solve(
    cost: FloatArray, table: csr_array, low: FloatArray, high: FloatArray, most: IntArray | int = 1
) -> FloatArray | None:
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
        raise SolverError(
            f"the exact label oracle stopped without a proof (HiGHS: {answer.message}); "
            "use whole-number weights or fewer bounds."
        )
    return np.asarray(answer.x, dtype=float)
