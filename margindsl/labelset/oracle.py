"""The exact linear oracle over a label set: sums of codes by knapsacks, sizes and cannot-links by assignments."""

from __future__ import annotations

import numpy as np

from margindsl.errors import SolverError
from margindsl.labelset.bound import LinearBound
from margindsl.labelset.components import Constraints
from margindsl.labelset.knapsack import best_signs
from margindsl.labelset.linked import assign_linked, solve_priced
from margindsl.labelset.programme import solve_assignment, solve_signs
from margindsl.labelset.transport import assign_priced
from margindsl.typing import FloatArray, IntArray

ROWS = 2**16  # whose gains are copied at a time


def maximise(labels: Constraints, gain: FloatArray) -> IntArray:
    """Return z (N,) that maximises sum_C gain[C, z_C] over a label set, of ties the first in the order of names.

    Bounds on sums of codes are met by `_under_sums`. For cannot-links see `assign_linked`. If that answer breaks a size
    bound, free components of one size make a transportation problem (`assign_priced`). Otherwise, and if that answer
    breaks cannot-links, a 0/1 programme is solved over the choices that prices leave open. As in `assign_linked`, only
    cannot-links that an answer broke are imposed.
    """
    if not labels.allowed.any(axis=1).all():
        raise _unpresolved()
    order = labels.names.order
    masked = gain if labels.allowed.all() else np.where(labels.allowed, gain, -np.inf)
    z = np.concatenate([order[np.argmax(masked[start:start + ROWS, order], axis=1)]
                        for start in range(0, len(masked), ROWS)])
    if not len(labels.apart) and all(bound.holds(bound.sums(z)) for bound in labels.sides):
        return z
    if labels.parts:
        return _in_groups(labels, masked, z)
    if labels.bounds:
        return _under_sums(labels, gain[:, 1] - gain[:, 0], z)
    if len(labels.apart):
        nodes, edges = labels.apart_blocks
        z[nodes] = assign_linked(masked[nodes], edges)
        if all(bound.holds(bound.sums(z)) for bound in labels.sides):
            return z
    z, price, is_exact = _transport(labels, masked)
    broken = z[labels.apart[:, 0]] == z[labels.apart[:, 1]]
    if is_exact and not broken.any():
        return z
    return solve_priced(labels, masked, price, broken)


def _under_sums(labels: Constraints, gain: FloatArray, z: IntArray) -> IntArray:
    """Return the best z (N,) under bounds on sums of codes, from the best without them.

    The most violated bound alone is solved exactly (see `margindsl.labelset.knapsack`), and so are others of other
    components, as of groups; if the answer breaks a bound that moves the same components, the whole 0/1 programme is.
    """
    codes, held = labels.signs(z), labels.signs(labels.pinned)
    solved = np.zeros(len(z), dtype=bool)
    while True:
        worst, excess = None, 0.0
        for bound in labels.bounds:
            total = float(bound.omega @ codes)
            beyond = max(total - bound.upper, bound.lower - total) / float(np.abs(bound.omega).max(initial=1e-300))
            if not bound.holds(np.asarray(total)) and beyond > excess:
                worst, excess = bound, beyond
        if worst is None:
            return (codes + 1) // 2
        moving = labels.free & (worst.omega != 0)
        if (solved & moving).any():
            break
        solved |= moving
        omega, fixed = worst.omega[moving], float(worst.omega @ held)
        toward = np.sign(omega).astype(np.intp)
        codes[moving] = toward * best_signs(
            toward * gain[moving], np.abs(omega), worst.lower - fixed, worst.upper - fixed, worst.tolerance)
    table = np.array([bound.omega for bound in labels.bounds])
    lower, upper, slack = np.array([(bound.lower, bound.upper, bound.tolerance) for bound in labels.bounds]).T
    moving, fixed_sums = labels.free & (table != 0).any(axis=0), table @ held
    signs = solve_signs(gain[moving], table[:, moving], lower - fixed_sums, upper - fixed_sums, slack)
    if signs is None:
        raise _unpresolved()
    codes[moving] = signs
    return (codes + 1) // 2


def _in_groups(labels: Constraints, masked: FloatArray, z: IntArray) -> IntArray:
    """Return the best z (N,) under sizes in groups, from the best of every component alone.

    Without cannot-links and sizes of all, groups that share no component, of equal numbers of points each, are
    transportation problems of their own; otherwise the whole 0/1 programme is solved.
    """
    if all(bound.holds(bound.sums(z)) for bound in labels.sides) and not np.any(
            z[labels.apart[:, 0]] == z[labels.apart[:, 1]]):
        return z
    groups: dict[bytes, list[LinearBound]] = {}
    for part in labels.parts:
        groups.setdefault(part.omega.tobytes(), []).append(part)
    tables = np.array([parts[0].omega for parts in groups.values()])
    units = [np.unique(row[labels.free & (row > 0)]) for row in tables]
    if not (labels.has_sizes or len(labels.apart)) and all(len(unit) == 1 for unit in units) and np.all(
            np.count_nonzero(tables[:, labels.free], axis=0) <= 1):
        for row, parts, unit in zip(tables, groups.values(), units):
            inside, low, high = np.flatnonzero(labels.free & (row > 0)), *np.zeros((2, labels.clusters))
            high += len(inside)
            for part in parts:
                q = int(np.argmax(part.code))
                fixed = row[labels.pinned == q].sum()
                low[q] = max(low[q], -(-(part.lower - fixed) // unit[0]))
                high[q] = min(high[q], (part.upper - fixed) // unit[0])
            solved = assign_priced(masked[inside], low.astype(np.intp), high.astype(np.intp))
            if solved is None:
                raise _unpresolved()
            z[inside] = solved[0]
        return z
    found = assign_parts(labels, masked)
    if found is None:
        raise _unpresolved()
    return found


def assign_parts(labels: Constraints, masked: FloatArray) -> IntArray | None:
    """Return z (N,) that maximises sum_C masked[C, z_C] under cannot-links and all sides of a label set."""
    counts = solve_assignment(masked, labels.apart, labels.size, (labels.at_least, labels.at_most), parts=labels.parts)
    return None if counts is None else np.argmax(counts, axis=1)


def _transport(labels: Constraints, masked: FloatArray) -> tuple[IntArray, FloatArray, bool]:
    """Return clusters under size bounds alone, prices, and whether the clusters are optimal.

    They are if free components have one size. Components of different sizes are divided into points; the
    prices are optimal for this linear relaxation, the clusters those of greatest priced gain.
    """
    free, z = np.flatnonzero(labels.free), np.argmax(masked, axis=1)
    sizes = np.unique(labels.size[free])
    if len(sizes) == 1:
        unit, total = int(sizes[0]), len(free)
        lower, upper = -(-labels.needed_sizes // unit), labels.room // unit
        solved = assign_priced(masked[free], np.maximum(lower, 0), np.minimum(upper, total))
        if solved is None:
            raise _unpresolved()
        z[free] = solved[0]
        return z, solved[1] / unit, True
    points = np.repeat(free, labels.size[free])
    solved = assign_priced(masked[points] / labels.size[points, None], labels.needed_sizes, labels.room)
    if solved is None:
        raise _unpresolved()
    return np.argmax(masked - labels.size[:, None] * solved[1], axis=1), solved[1], False


def _unpresolved() -> SolverError:
    return SolverError("no labelling satisfies all links and bounds; the label set was not built by presolve.")
