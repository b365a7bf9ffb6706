"""The exact linear oracle over a label set: two clusters under sums of codes, more under sizes and cannot-links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from margindsl.errors import SolverError
from margindsl.labelset.knapsack import best_signs
from margindsl.labelset.linked import assign_linked
from margindsl.labelset.pricing import solve_priced
from margindsl.labelset.programme import solve_signs
from margindsl.labelset.transport import assign_priced
from margindsl.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from margindsl.labelset.bound import LinearBound
    from margindsl.labelset.labelset import LabelSet


def maximise(labels: LabelSet, gain: FloatArray) -> IntArray:
    """Return z (N,) that maximises sum_C gain[C, z_C] over a label set."""
    if labels.clusters == 2:
        return (maximise_signs(labels, gain[:, 1] - gain[:, 0]) + 1) // 2
    return maximise_clusters(labels, gain)


def maximise_signs(labels: LabelSet, gain: FloatArray) -> IntArray:
    """Return codes in {-1, +1}^N that maximise their products with a gain (N,) over a set of two clusters.

    Free codes follow their gain. If that breaks a bound, the most violated bound alone is solved exactly
    (see `margindsl.labelset.knapsack`), and so are others of other components, as of groups; if the answer breaks a
    bound that moves the same components, the whole 0/1 programme is solved.
    """
    z = np.where(labels.free, np.where(gain >= 0, 1, -1), labels.signs(labels.pinned))
    solved = np.zeros(len(z), dtype=bool)
    while (worst := _most_violated(labels.bounds, z)) is not None:
        if (solved & (worst.omega != 0)).any():
            return _maximise_programme(labels, gain, z)
        z = _maximise_under(labels, worst, gain, z)
        solved |= labels.free & (worst.omega != 0)
    return z


def _most_violated(bounds: tuple[LinearBound, ...], z: IntArray) -> LinearBound | None:
    worst, excess = None, 0.0
    for bound in bounds:
        total = float(bound.omega @ z)
        beyond = max(total - bound.upper, bound.lower - total) / float(np.abs(bound.omega).max(initial=1e-300))
        if not bound.holds(np.asarray(total)) and beyond > excess:
            worst, excess = bound, beyond
    return worst


def _maximise_under(labels: LabelSet, bound: LinearBound, gain: FloatArray, z: IntArray) -> IntArray:
    moving = np.flatnonzero(labels.free & (bound.omega != 0))
    omega, fixed = bound.omega[moving], float(bound.omega @ labels.signs(labels.pinned))
    toward = np.sign(omega).astype(np.intp)
    answer = z.copy()
    answer[moving] = toward * best_signs(
        toward * gain[moving], np.abs(omega), bound.lower - fixed, bound.upper - fixed, bound.tolerance)
    return answer


def _maximise_programme(labels: LabelSet, gain: FloatArray, z: IntArray) -> IntArray:
    table = np.array([bound.omega for bound in labels.bounds])
    moving = np.flatnonzero(labels.free & (table != 0).any(axis=0))
    fixed = table @ labels.signs(labels.pinned)
    lower = np.array([bound.lower for bound in labels.bounds]) - fixed
    upper = np.array([bound.upper for bound in labels.bounds]) - fixed
    slack = np.array([bound.tolerance for bound in labels.bounds])
    signs = solve_signs(gain[moving], table[:, moving], lower, upper, slack)
    if signs is None:
        raise _unpresolved()
    answer = z.copy()
    answer[moving] = signs
    return answer


def maximise_clusters(labels: LabelSet, gain: FloatArray) -> IntArray:
    """Return z (N,) that maximises sum_C gain[C, z_C] over a set of k-cluster labellings.

    Without size bounds see `assign_linked`. If that answer breaks a size bound, free components of one
    size make a transportation problem (`assign_priced`). Otherwise, and if that answer breaks cannot-links, a
    0/1 programme is solved over the choices that prices leave open. As in `assign_linked`, only cannot-links that
    an answer broke are imposed.
    """
    if not labels.allowed.any(axis=1).all():
        raise _unpresolved()
    if not gain.any() and labels.member is not None:
        return labels.member.copy()
    masked = np.where(labels.allowed, gain, -np.inf)
    z = np.argmax(masked, axis=1)
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


def _transport(labels: LabelSet, masked: FloatArray) -> tuple[IntArray, FloatArray, bool]:
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
