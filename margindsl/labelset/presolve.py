"""From links, known labels and bounds to a label set, or to an explanation why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from margindsl.accuracy import rounding
from margindsl.errors import InfeasibleError
from margindsl.labelset.bound import LinearBound, force_components, tighten
from margindsl.labelset.declaration import read_bounds, read_count, read_known, read_pairs
from margindsl.labelset.links import pin_components, sign_components
from margindsl.labelset.programme import solve_counts, solve_signs
from margindsl.labelset.signs import SignSet
from margindsl.typing import FloatArray, IntArray


def presolve(
    n: int, must: Any = None, cannot: Any = None, known: Any = None, bounds: Iterable[Any] = ()
) -> SignSet:
    """Reduce declared label constraints to free component signs.

    B = {y in {-1, +1}^n : y_i = y_j (must), y_i = -y_j (cannot), y_i given (known),
    lower <= sum_i w_i y_i <= upper (bounds)} becomes y = A z with one sign z_C per link component. Limits
    are tightened to attainable sums, and components a bound forces are pinned.

    Parameters
    ----------
    n : int
        Number of points, at least 2.
    must, cannot : array_like of int, shape (m, 2), optional
        Pairs of points with equal, and with opposite, labels.
    known : (array_like of int, array_like), optional
        Indices and values, +1 or -1, of known labels.
    bounds : sequence of (weights, lower, upper), optional
        Weights of shape (n,), None for all ones; limits may be infinite.

    Returns
    -------
    SignSet
        Never empty.

    Raises
    ------
    DeclarationError
        When an argument is malformed; the message names the entry and its position.
    ContradictionError
        When links and known labels contradict one another; its ``cycle`` is the proof.
    InfeasibleError
        When no labelling satisfies the bounds.
    SolverError
        When the bounds need an integer programme that exceeds its time limit.

    Examples
    --------
    >>> labels = presolve(5, must=[(0, 3)], cannot=[(1, 3)], known=([4], [1]), bounds=[(None, -2, 2)])
    >>> labels.component, labels.sign, labels.pinned
    (array([0, 0, 1, 0, 2]), array([ 1, -1,  1,  1,  1]), array([0, 0, 1]))
    """
    n = read_count(n)
    pairs = read_pairs(must, n, "must-link"), read_pairs(cannot, n, "cannot-link")
    labels, declared = read_known(known, n), read_bounds(bounds, n)
    component, sign = sign_components(n, *pairs)
    pinned = pin_components(component, sign, labels, *pairs)
    size = np.bincount(component)
    contracted = [
        LinearBound.contracted(w, lower, upper, component, sign, f"bound {position}")
        for position, (w, lower, upper) in enumerate(declared)
    ]
    kept, pinned = _settle(_intersect(contracted), pinned, size)
    return SignSet(n, component, sign, size, pinned, tuple(kept))


def _intersect(bounds: list[LinearBound]) -> list[LinearBound]:
    """Join bounds whose weights are multiples of one another, but for rounding."""
    joined: dict[tuple[bytes, int], LinearBound] = {}
    for bound in bounds:
        key, factor = _direction(bound.omega), _leading(bound.omega)
        alike = [place for place in joined if place[0] == key and _is_multiple(joined[place].omega, bound.omega)]
        if not alike:
            joined[key, len(joined)] = bound
            continue
        same = joined[alike[0]]
        ratio = _leading(same.omega) / factor
        limits = sorted((bound.lower * ratio, bound.upper * ratio))
        name = f"{same.name.replace('bound ', 'bounds ')} and {bound.name.removeprefix('bound ')}"
        name = name.replace("boundss", "bounds")
        lower, upper = max(same.lower, limits[0]), min(same.upper, limits[1])
        if lower > upper + same.tolerance:
            raise InfeasibleError(
                f"{name} exclude one another: the first asks {same.lower:g} <= sum <= {same.upper:g}, "
                "the second "
                f"{limits[0]:g} <= sum <= {limits[1]:g} on the same weights; relax one of them."
            )
        joined[alike[0]] = replace(same, lower=lower, upper=max(lower, upper), name=name,
                                   noise=max(same.noise, bound.noise * abs(ratio)))
    return list(joined.values())


def _leading(omega: FloatArray) -> float:
    """Return the size of the greatest weight with the sign of the first one, one where there is none."""
    nonzero = omega[omega != 0]
    return float(np.copysign(np.abs(nonzero).max(), nonzero[0])) if nonzero.size else 1.0


def _direction(omega: FloatArray) -> bytes:
    """Return a key that multiples share; 12 digits, and 0.0 added to turn -0.0 into 0.0."""
    return (np.round(omega / _leading(omega), 12) + 0.0).tobytes()


def _is_multiple(first: FloatArray, second: FloatArray) -> bool:
    other = second * (_leading(first) / _leading(second))
    return bool(np.all(np.abs(first - other) <= rounding(np.abs(first), 1)))


def _settle(
    bounds: list[LinearBound], pinned: IntArray, size: IntArray
) -> tuple[list[LinearBound], IntArray]:
    """Tighten bounds and force components until nothing moves, then check the bounds together."""
    bounds = [tighten(bound, pinned, size) for bound in bounds]
    while True:
        before = pinned
        for bound in bounds:
            pinned = force_components(bound, pinned)
        if np.array_equal(before, pinned):
            break
        bounds = [tighten(_renamed(bound, bounds), pinned, size) for bound in bounds]
    binding = [bound for bound in bounds if _binds(bound, pinned)]
    if len(binding) > 1 or any(bound.unit is None for bound in binding):
        _refuse_empty(binding, pinned)
    return binding, pinned


def _renamed(bound: LinearBound, bounds: list[LinearBound]) -> LinearBound:
    others = [other.name for other in bounds if other is not bound]
    if not others or "together with" in bound.name:
        return bound
    return replace(bound, name=f"{bound.name} (together with {', '.join(others)})")


def _binds(bound: LinearBound, pinned: IntArray) -> bool:
    fixed, reach = bound.omega @ pinned, np.abs(bound.omega[pinned == 0]).sum()
    slack = bound.tolerance
    return bool(bound.lower > fixed - reach + slack or bound.upper < fixed + reach - slack)


def _refuse_empty(bounds: list[LinearBound], pinned: IntArray) -> None:
    if _is_attained(bounds, pinned):
        return
    culprits = list(bounds)
    for bound in bounds:
        fewer = [other for other in culprits if other is not bound]
        if fewer and not _is_attained(fewer, pinned):
            culprits = fewer
    names = " and ".join(bound.name for bound in culprits)
    asks = "; ".join(f"{bound.name}: {bound.lower:g} <= sum <= {bound.upper:g}" for bound in culprits)
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
    columns, many = np.unique(free, axis=1, return_counts=True)
    counts = solve_counts(columns, many, lower - slack / 2, upper + slack / 2)
    if counts is None:
        return False
    sums = columns @ (2 * counts - many)
    if bool(((sums >= lower - slack) & (sums <= upper + slack)).all()):
        return True
    return solve_signs(np.zeros(free.shape[1]), free, lower, upper, slack) is not None


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
