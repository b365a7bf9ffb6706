"""Signs under several or real-weighted bounds: a 0/1 programme for HiGHS, solved to proven optimality."""

from __future__ import annotations

import numpy as np
import scipy
from scipy.sparse import csr_array, vstack

from margindsl.errors import SolverError
from margindsl.labelset.highs import solve_within
from margindsl.typing import FloatArray, IntArray

LISTED = 12  # signs that are listed, in less time than a programme takes
_CUTS = 200
_CORE = 64
# HiGHS works to absolute tolerances of 1e-6; rows and objective are scaled so that these mean 1e-10.
_SCALE = 1e4


def solve_signs(
    gain: FloatArray, rows: FloatArray, lower: FloatArray, upper: FloatArray, slack: FloatArray
) -> IntArray | None:
    """Return an exact maximiser of gain.b over b in {-1, +1}^m with lower <= rows b <= upper, None if empty.

    Few signs are listed. With multipliers lam from the linear relaxation, flipping b_i away from
    sign(gain_i - (lam rows)_i) costs twice the reduced gain, so only signs cheaper than the gap of a known member can
    differ; the 0/1 programme is solved over this core, which grows until it holds all of them.

    Parameters
    ----------
    gain : ndarray, shape (m,)
        Objective.
    rows : ndarray, shape (J, m)
        Bound weights.
    lower, upper, slack : ndarray, shape (J,)
        Limits and their tolerances. A solution HiGHS accepts but the tolerance does not is cut off.
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
