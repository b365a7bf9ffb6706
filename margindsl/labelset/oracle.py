"""The exact linear oracle over a label set: which labelling maximises a linear gain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from margindsl.errors import SolverError
from margindsl.labelset.knapsack import SignKnapsack, best_signs
from margindsl.labelset.programme import solve_signs
from margindsl.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from margindsl.labelset.bound import LinearBound
    from margindsl.labelset.signs import SignSet


def maximise_signs(labels: SignSet, gain: FloatArray) -> IntArray:
    """Return z in {-1, +1}^N that maximises gain.z over a label set.

    Free signs follow their gain. If that breaks a bound, the most violated bound alone is solved exactly
    (see `margindsl.labelset.knapsack`); if the answer breaks another bound, the whole 0/1 programme is.
    """
    z = np.where(gain >= 0, 1, -1)
    z = np.where(labels.pinned != 0, labels.pinned, z)
    worst = _most_violated(labels.bounds, z)
    if worst is None:
        return z
    z = _maximise_under(labels, worst, gain, z)
    if _most_violated(labels.bounds, z) is None:
        return z
    return _maximise_programme(labels, gain, z)


def _most_violated(bounds: tuple[LinearBound, ...], z: IntArray) -> LinearBound | None:
    worst, excess = None, 0.0
    for bound in bounds:
        total = float(bound.omega @ z)
        beyond = max(total - bound.upper, bound.lower - total) / float(np.abs(bound.omega).max(initial=1e-300))
        if not bound.holds(np.asarray(total)) and beyond > excess:
            worst, excess = bound, beyond
    return worst


def _maximise_under(labels: SignSet, bound: LinearBound, gain: FloatArray, z: IntArray) -> IntArray:
    moving = np.flatnonzero((labels.pinned == 0) & (bound.omega != 0))
    omega, fixed = bound.omega[moving], float(bound.omega @ labels.pinned)
    toward = np.sign(omega).astype(np.intp)
    weight, limits, slack = np.abs(omega), np.array([bound.lower, bound.upper]) - fixed, bound.tolerance
    unit = bound.unit
    if unit is not None:
        weight, limits = np.rint(weight / unit), limits / unit
        limits, slack = np.array([np.ceil(limits[0] - slack / unit), np.floor(limits[1] + slack / unit)]), 0.5
    problem = SignKnapsack(
        toward * gain[moving], weight, float(limits[0]), float(limits[1]), slack, unit is not None
    )
    answer = z.copy()
    answer[moving] = toward * best_signs(problem)
    return answer


def _maximise_programme(labels: SignSet, gain: FloatArray, z: IntArray) -> IntArray:
    table = np.array([bound.omega for bound in labels.bounds])
    moving = np.flatnonzero((labels.pinned == 0) & (table != 0).any(axis=0))
    fixed = table @ labels.pinned
    lower = np.array([bound.lower for bound in labels.bounds]) - fixed
    upper = np.array([bound.upper for bound in labels.bounds]) - fixed
    slack = np.array([bound.tolerance for bound in labels.bounds])
    signs = solve_signs(gain[moving], table[:, moving], lower, upper, slack)
    if signs is None:
        raise SolverError("no labelling satisfies all bounds; the label set was not built by presolve.")
    answer = z.copy()
    answer[moving] = signs
    return answer
