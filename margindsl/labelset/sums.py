"""Several bounds on sums of labels: those of one direction joined, and whether all have a common member."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.errors import InfeasibleError
from margindsl.labelset.bound import LinearBound
from margindsl.labelset.levels import Classes
from margindsl.labelset.programme import solve_counts, solve_signs
from margindsl.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from margindsl.labelset.labelset import LabelSet


def intersect(bounds: list[LinearBound]) -> list[LinearBound]:
    """Join bounds whose weights are multiples of one another, but for rounding where they carry some."""
    joined: dict[tuple[bytes, int], LinearBound] = {}
    for bound in bounds:
        key = _direction(bound.omega)
        alike = [(place, ratio) for place, same in joined.items() if place[0] == key
                 and (ratio := _ratio(same, bound)) is not None]
        if alike:
            joined[alike[0][0]] = _joined(joined[alike[0][0]], bound, alike[0][1])
        else:
            joined[key, len(joined)] = bound
    return list(joined.values())


def _joined(same: LinearBound, bound: LinearBound, ratio: Fraction) -> LinearBound:
    """Return one bound for two, the weights of the first being a ratio times those of the second."""
    limits = sorted(float(ratio * Fraction(end)) if math.isfinite(end) else end if ratio > 0 else -end
                    for end in (bound.lower, bound.upper))
    name = f"{same.name.replace('bound ', 'bounds ')} and {bound.name.removeprefix('bound ')}"
    name = name.replace("boundss", "bounds")
    lower, upper = max(same.lower, limits[0]), min(same.upper, limits[1])
    if lower > upper + same.tolerance:
        first, second = ([f"{same.declared(end):g}" for end in ends] for ends in ((same.lower, same.upper), limits))
        raise InfeasibleError(
            f"{name} exclude one another: the first asks {first[0]} <= sum <= {first[1]}, "
            "the second "
            f"{second[0]} <= sum <= {second[1]} on the same weights; relax one of them."
        )
    return replace(same, lower=lower, upper=max(lower, upper), name=name,
                   tolerance=max(same.tolerance, bound.tolerance * abs(float(ratio))))


def _ratio(same: LinearBound, bound: LinearBound) -> Fraction | None:
    """Return by what the weights of one bound are multiples of those of another, None where they are not.

    Exact ones are only of exact ones, unless the tolerance of the others leaves their sums apart.
    """
    ratio = Fraction(_leading(same.omega)) / Fraction(_leading(bound.omega))
    if same.grid and bound.grid:
        turn = 1 if ratio > 0 else -1
        return ratio if np.array_equal(same.whole[0], turn * bound.whole[0]) else None
    size = abs(float(ratio))
    tolerance = max(same.tolerance, bound.tolerance * size)
    if any(4 * tolerance > grid > 0 for grid in (same.grid, bound.grid * size)):
        return None
    other = bound.omega * float(ratio)
    return ratio if np.all(np.abs(same.omega - other) <= rounding(np.abs(same.omega), 1)) else None


def _leading(omega: FloatArray) -> float:
    """Return the size of the greatest weight with the sign of the first one, one where there is none."""
    nonzero = omega[omega != 0]
    return float(np.copysign(np.abs(nonzero).max(), nonzero[0])) if nonzero.size else 1.0


def _direction(omega: FloatArray) -> bytes:
    return (np.round(omega / _leading(omega), 12) + 0.0).tobytes()


def renamed(bound: LinearBound, bounds: list[LinearBound]) -> LinearBound:
    """Return a bound whose name says which others have forced components of it."""
    others = [other.name for other in bounds if other is not bound]
    if not others or "together with" in bound.name:
        return bound
    return replace(bound, name=f"{bound.name} (together with {', '.join(others)})")


def binds(bound: LinearBound, pinned: IntArray) -> bool:
    """Return whether free components can leave the limits of a bound."""
    fixed, reach = bound.omega @ pinned, np.abs(bound.omega[pinned == 0]).sum()
    slack = bound.tolerance
    return bool(bound.lower > fixed - reach + slack or bound.upper < fixed + reach - slack)


def refuse_unattained(labels: LabelSet) -> None:
    """Raise when bounds have no common member, or one of weights without a unit has none."""
    bounds, pinned = list(labels.bounds), labels.signs(labels.pinned)
    alone = len(bounds) < 2 and all(bound.unit is not None for bound in bounds)
    if alone or _is_attained(bounds, pinned):  # tightening has found the sums of one bound with a unit
        return
    culprits = list(bounds)
    for bound in bounds:
        fewer = [other for other in culprits if other is not bound]
        if fewer and not _is_attained(fewer, pinned):
            culprits = fewer
    names = " and ".join(bound.name for bound in culprits)
    asks = "; ".join(f"{bound.name}: {bound.declared(bound.lower):g} <= sum <= {bound.declared(bound.upper):g}"
                     for bound in culprits)
    free = int(((pinned == 0) & np.any([bound.omega != 0 for bound in culprits], axis=0)).sum())
    raise InfeasibleError(
        f"no signs of the {free} free components satisfy {names}{' together' if len(culprits) > 1 else ''} "
        f"({asks}, after tightening); relax {'one of them' if len(culprits) > 1 else 'it'}, "
        "or remove links or known labels."
    )


def _is_attained(bounds: list[LinearBound], pinned: IntArray) -> bool:
    """Decide whether bounds have a common member; components with equal weights are counted, not listed."""
    table = np.array([bound.omega for bound in bounds])
    fixed, free = table @ pinned, table[:, pinned == 0]
    lower = np.array([bound.lower for bound in bounds]) - fixed
    upper = np.array([bound.upper for bound in bounds]) - fixed
    slack = np.array([bound.tolerance for bound in bounds])
    if _greedy_attains(free, lower, upper, slack):
        return True
    indifferent = np.zeros(free.shape[1])
    classes = Classes.of(indifferent, free)  # sums that are few are compared one by one, without a tolerance of HiGHS
    listed = classes.listed(indifferent, len(classes.members), lower - slack, upper + slack)
    if listed is not None:
        return len(listed.gains) > 0
    columns, many = np.unique(free, axis=1, return_counts=True)
    counts = solve_counts(columns, many, lower - slack / 2, upper + slack / 2)
    if counts is None:
        return False
    sums = columns @ (2 * counts - many)
    if bool(((sums >= lower - slack) & (sums <= upper + slack)).all()):
        return True
    return solve_signs(indifferent, free, lower, upper, slack) is not None


def _greedy_attains(free: FloatArray, lower: FloatArray, upper: FloatArray, slack: FloatArray) -> bool:
    """Try for a member: heavy components first, a sign moving the sums towards the middle of the bounds."""
    scale = np.maximum(np.abs(free).max(axis=1, initial=0.0), 1e-300)
    order = np.argsort(-np.abs(free / scale[:, None]).sum(axis=0), kind="stable")
    left = ((lower + upper) / 2 / scale).tolist()
    for column in (free[:, order] / scale[:, None]).T.tolist():
        turn = 1.0 if sum(a * b for a, b in zip(left, column)) >= 0 else -1.0
        left = [a - turn * b for a, b in zip(left, column)]
    sums = (lower + upper) / 2 - np.array(left) * scale
    return bool(((sums >= lower - slack / 2) & (sums <= upper + slack / 2)).all())


__all__ = ["binds", "intersect", "refuse_unattained", "renamed"]
