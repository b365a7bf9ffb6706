"""Several bounds on sums of labels: those of one direction joined, and whether all have a common member."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.errors import InfeasibleError
from margindsl.labelset.bound import LinearBound, are_listed
from margindsl.labelset.programme import LISTED, solve_counts, solve_signs
from margindsl.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from margindsl.labelset.labelset import LabelSet


def intersect(bounds: list[LinearBound]) -> list[LinearBound]:
    """Join bounds whose weights are multiples of one another, but for rounding where they carry some."""
    joined: dict[tuple[bool, bytes, int], tuple[LinearBound, float]] = {}
    for place, bound in enumerate(bounds):
        turn = float(np.sign(bound.omega[np.argmax(bound.omega != 0)])) or 1.0
        key = bound.is_whole, (np.round(turn * bound.omega, 12) + 0.0).tobytes(), 0  # + 0.0 makes -0.0 equal to 0.0
        same, turned = joined.setdefault(key, (bound, turn))
        turn *= turned
        if same is bound:
            continue
        if np.any(np.abs(same.omega - turn * bound.omega) > rounding(np.abs(same.omega), 1)):
            joined[(*key[:2], place)] = bound, turn * turned
            continue
        limits = (bound.lower, bound.upper) if turn > 0 else (-bound.upper, -bound.lower)
        name = f"{same.name.replace('bound ', 'bounds ')} and {bound.name.removeprefix('bound ')}"
        name = name.replace("boundss", "bounds")
        lower, upper = max(same.lower, limits[0]), min(same.upper, limits[1])
        if lower > upper + same.tolerance:
            second = replace(bound, lower=limits[0], upper=limits[1], unit=same.unit)
            raise InfeasibleError(
                f"{name} exclude one another: the first asks {same.asked}, the second {second.asked} on the "
                "same weights; relax one of them.")
        joined[key] = replace(same, lower=lower, upper=max(lower, upper), name=name,
                              tolerance=max(same.tolerance, bound.tolerance)), turned
    return [bound for bound, _ in joined.values()]


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
    """Raise when bounds have no common member, or one whose sums are not listed has none."""
    bounds, pinned = list(labels.bounds), labels.signs(labels.pinned)
    alone = len(bounds) < 2 and all(are_listed(bound, pinned) for bound in bounds)
    if alone or _is_attained(bounds, pinned):
        return
    culprits = list(bounds)
    for bound in bounds:
        fewer = [other for other in culprits if other is not bound]
        if fewer and not _is_attained(fewer, pinned):
            culprits = fewer
    names = " and ".join(bound.name for bound in culprits)
    asks = "; ".join(f"{bound.name}: {bound.asked}" for bound in culprits)
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

    def meets(sums: FloatArray) -> bool:
        return bool(((sums >= lower - slack) & (sums <= upper + slack)).all())

    # Heavy components first, a sign moving the sums towards the middle of the bounds: that often meets them.
    size = np.abs(free).max(axis=1, initial=1e-300)
    signs, left = np.ones(free.shape[1], dtype=np.intp), ((lower + upper) / 2 / size).tolist()
    scaled = free / size[:, None]
    for place in np.argsort(-np.abs(scaled).sum(axis=0), kind="stable").tolist():
        column = scaled[:, place].tolist()
        signs[place] = 1 if sum(a * b for a, b in zip(left, column)) >= 0 else -1
        left = [a - signs[place] * b for a, b in zip(left, column)]
    if meets(free @ signs):
        return True
    if len(signs) <= LISTED:  # without a tolerance of HiGHS
        return solve_signs(np.zeros(len(signs)), free, lower, upper, slack) is not None
    columns, many = np.unique(free, axis=1, return_counts=True)
    counts = solve_counts(columns, many, lower - slack / 2, upper + slack / 2)
    if counts is None:
        return False
    if meets(columns @ (2 * counts - many)):
        return True
    return solve_signs(np.zeros(free.shape[1]), free, lower, upper, slack) is not None


__all__ = ["binds", "intersect", "refuse_unattained", "renamed"]
