"""Linear bounds on component signs: whole numbers where sums are exact; attainable sums, tightening and refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.errors import DeclarationError, InfeasibleError
from margindsl.host.frozen import frozen
from margindsl.labelset.programme import LISTED, solve_counts, solve_signs
from margindsl.typing import BoolArray, FloatArray, IntArray

SPAN = 1e8  # ratio of weights beyond which a programme in floating point does not see the small ones
_EXACT = 2.0**53  # whole numbers that floats hold
_RATIO = 1e6  # of weights to their unit, where decimals are told from other numbers by what rounding leaves
_BITS = 5e10  # work on a bit set of sums, in about 1 s


@dataclass(frozen=True, eq=False)
class LinearBound:
    """State lower <= sum_C omega_C c(z_C) <= upper on the component values z, c the code of a value.

    Sums of labels have the codes -1 and +1, the size of a cluster the code 1 of it and 0 of the others. Weights are
    whole numbers where they have a common unit, as 0.1 of 0.3 and 1.2; then sums are exact.

    Parameters
    ----------
    lower, upper : float
        Limits in these units, tightened to attainable sums where that was possible.
    """

    omega: FloatArray  # weight of each component, the signed sum of its points' weights, in units
    lower: float
    upper: float
    name: str = "bound 0"  # what the user declared, for messages: ``"bound 0"``
    tolerance: float = 0.0  # what rounding can do to a sum; zero where weights are whole
    code: tuple[float, ...] = (-1.0, 1.0)  # of the k values
    unit: float = 1.0  # of the declaration

    @classmethod
    def contracted(cls, weights: FloatArray, lower: float, upper: float, component: IntArray, sign: IntArray,
                   name: str) -> LinearBound:
        """Return a bound on sum_i w_i y_i as one on component signs; weights that cancel but for rounding vanish."""
        unit = common_unit(weights, name)
        if unit is None:
            w = weights / np.abs(weights).max()
            omega, parts = np.bincount(component, sign * w), np.bincount(component, np.abs(w))
            omega[np.abs(omega) <= rounding(parts, np.bincount(component))] = 0.0
            unit = float(np.abs(weights).max())
            return cls(omega, lower / unit, upper / unit, name, float(rounding(2 * parts.sum(), len(w))), unit=unit)
        counts = np.rint(weights / unit)
        omega = np.bincount(component, sign * counts)
        divisor = float(np.gcd.reduce(omega.astype(np.int64))) or 1.0
        ends = np.array([lower, upper]) / unit
        near, parts = np.rint(ends), np.maximum(np.abs(counts).sum(), np.abs(ends))
        grid = 1 / unit if 1 <= unit <= _EXACT else 1.0
        slack = np.minimum(rounding(parts, len(counts)), grid / 4)  # 0.1 * 30 asks for three
        lower, upper = np.where((near - slack <= ends) & (ends <= near + slack), near, ends) / divisor
        return cls(frozen(omega / divisor), float(lower), float(upper), name, unit=unit * divisor)

    @property
    def is_whole(self) -> bool:
        """Return whether weights and limits are whole numbers, so that sums are exact."""
        return self.tolerance == 0

    def declared(self, x: float) -> float:
        """Return a sum or limit in the units of the declaration, for messages."""
        return x * self.unit

    @property
    def asked(self) -> str:
        """Return the limits in the units of the declaration, for messages."""
        return f"{self.declared(self.lower):g} <= sum <= {self.declared(self.upper):g}"

    @property
    def is_symmetric(self) -> bool:
        """Return whether lower = -upper."""
        return abs(self.lower + self.upper) <= self.tolerance

    @property
    def terms(self) -> FloatArray:
        """Return what each component adds by its place, shape (N, k)."""
        return np.multiply.outer(self.omega, self.code)

    def sums(self, positions: IntArray) -> FloatArray:
        """Return the sums for places (..., N) of the components' values."""
        return np.asarray(np.asarray(self.code)[positions] @ self.omega)

    def is_in_reach(self, z: IntArray) -> bool:
        """Return whether component signs, 0 where free, leave the limits in reach of the free ones."""
        fixed, reach = float(self.omega @ z), float(np.abs(self.omega[z == 0]).sum())
        return self.lower - self.tolerance <= fixed + reach and fixed - reach <= self.upper + self.tolerance

    def holds(self, sums: FloatArray) -> BoolArray:
        """Return elementwise whether sums lie within the limits, up to the tolerance."""
        slack = self.tolerance
        return (sums >= self.lower - slack) & (sums <= self.upper + slack)


def common_unit(weights: FloatArray, name: str = "the weights") -> float | None:
    """Return the greatest number that weights are whole multiples of, None where there is none of useful size.

    Whole numbers are taken at their word. Others are multiples up to rounding, as 0.3 is of 0.1.

    Examples
    --------
    >>> common_unit(np.array([12.0, -30.0])), common_unit(np.array([0.5, 0.75])), common_unit(np.array([1.0, np.pi]))
    (6.0, 0.25, None)
    """
    size = np.abs(weights)
    values = np.unique(size[size > 0])
    if not values.size:
        return 1.0
    if values[-1] > SPAN * values[0]:
        raise DeclarationError(
            f"weights of {name} go from {values[0]:.3g} to {values[-1]:.3g} in size; expected within {SPAN:.0e} of one "
            "another. Leave the small ones out, or round the large ones.")
    shift = max(math.frexp(values[-1])[1] - 62, 0)
    whole = np.ldexp(values, -shift)
    if np.array_equal(whole, np.rint(whole)):
        unit = math.ldexp(float(np.gcd.reduce(whole.astype(np.int64))), shift)
        if (size / unit).sum() > _EXACT:
            raise DeclarationError(
                f"weights of {name} are whole numbers that sum to {(size / unit).sum():.3g} times their divisor; "
                "sums beyond 2^53 = 9.01e15 are not exact. Divide weights and limits and round them, or divide them by "
                f"{values[-1]:.0e} to have sums compared up to rounding.")
        return unit
    unit, smallest = float(values[-1]), float(values[-1]) / _RATIO
    for value in values.tolist():
        while value > smallest / 2:
            unit, value = value, abs(math.remainder(unit, value))
        if unit < smallest:
            return None
    counts = np.rint(size / unit)
    unit = float(size.sum() / counts.sum())
    return unit if np.abs(size - unit * counts).sum() <= rounding(size.sum(), len(size)) else None


def tighten(bound: LinearBound, pinned: IntArray, size: IntArray) -> LinearBound:
    """Move the limits of a bound to sums that pinned and free components (N,) attain.

    Of whole weights the attainable sums fixed + 2x - R come from a subset-sum dynamic programme over x kept as bits;
    otherwise the limits are cut to the range.
    """
    free = bound.omega[pinned == 0]
    fixed, reach = float(bound.omega @ pinned), float(np.abs(free).sum())
    if not bound.is_in_reach(pinned):
        least, most, known = (bound.declared(x) for x in (fixed - reach, fixed + reach, fixed))
        raise InfeasibleError(
            f"{bound.name} asks {bound.asked} but the weighted sum of labels only reaches from {least:g} "
            f"to {most:g}: known labels fix {known:g}; {_census(bound, pinned, size)}. "
            "Relax the bound, or remove links or known labels.")
    lower, upper = max(bound.lower, fixed - reach), min(bound.upper, fixed + reach)
    if are_listed(bound, pinned):
        total, bits = int(reach), subset_sums(np.abs(free[free != 0]).astype(np.int64))
        low, high = math.ceil((lower - fixed + total) / 2), math.floor((upper - fixed + total) / 2)
        inside = (bits >> low) & ((1 << max(high - low + 1, 0)) - 1)
        if not inside:
            below, above = (bits & ((1 << low) - 1)).bit_length() - 1, bits >> (high + 1)
            near = [fixed + 2 * below - total] if below >= 0 else []
            near += [fixed + 2 * ((above & -above).bit_length() + high) - total] if above else []
            raise InfeasibleError(
                f"{bound.name} asks {bound.asked} but no choice of signs attains such a sum; the nearest attainable "
                f"{'sums are' if len(near) > 1 else 'sum is'} {' and '.join(f'{bound.declared(s):g}' for s in near)}: "
                f"{_census(bound, pinned, size)}. Widen the bound to one of these, or remove links or known labels.")
        lower = fixed + 2 * (low + (inside & -inside).bit_length() - 1) - total
        upper = fixed + 2 * (low + inside.bit_length() - 1) - total
    return replace(bound, lower=lower, upper=upper)


def are_listed(bound: LinearBound, pinned: IntArray) -> bool:
    """Return whether the sums of a bound are listed to tighten it: weights are whole and not too large."""
    weights = np.abs(bound.omega[pinned == 0])
    return bound.is_whole and float(weights.sum()) * (1 + 2 * len(np.unique(weights))) <= _BITS


def force_components(bound: LinearBound, pinned: IntArray) -> IntArray:
    """Return pinned with every component added whose opposite sign would leave the bound out of reach.

    Where both signs do, one of them is returned, and leaves the bound out of reach.
    """
    free = pinned == 0
    fixed, reach = float(bound.omega @ pinned), float(np.abs(bound.omega[free]).sum())
    size, slack = np.abs(bound.omega), bound.tolerance
    toward = np.sign(bound.omega).astype(np.intp)
    up = free & (fixed + reach - 2 * size < bound.lower - slack)
    down = free & (fixed - reach + 2 * size > bound.upper + slack)
    return np.where(up, toward, np.where(down, -toward, pinned))


def intersect(bounds: list[LinearBound]) -> list[LinearBound]:
    """Join bounds whose weights are multiples of one another, but for rounding where they carry some."""
    if len(bounds) < 2:
        return bounds
    joined: dict[tuple[bool, bytes, int], tuple[LinearBound, float]] = {}
    for position, bound in enumerate(bounds):
        turn = float(np.sign(bound.omega[np.argmax(bound.omega != 0)])) or 1.0
        key = bound.is_whole, (np.round(turn * bound.omega, 12) + 0.0).tobytes(), 0  # + 0.0 makes -0.0 equal to 0.0
        same, turned = joined.setdefault(key, (bound, turn))
        turn *= turned
        if same is bound:
            continue
        if np.any(np.abs(same.omega - turn * bound.omega) > rounding(np.abs(same.omega), 1)):
            joined[(*key[:2], position)] = bound, turn * turned
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


def refuse_unattained(bounds: list[LinearBound], pinned: IntArray) -> None:
    """Raise when bounds have no common member beside pinned signs (N,), or one whose sums are not listed has none."""
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
    for position in np.argsort(-np.abs(scaled).sum(axis=0), kind="stable").tolist():
        column = scaled[:, position].tolist()
        signs[position] = 1 if sum(a * b for a, b in zip(left, column)) >= 0 else -1
        left = [a - signs[position] * b for a, b in zip(left, column)]
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


def subset_sums(weights: IntArray) -> int:
    """Return the sums of subsets of positive integers as a bit set: bit x is set iff some subset sums to x.

    Examples
    --------
    >>> bin(subset_sums(np.array([2, 3])))
    '0b101101'
    """
    bits = 1
    for value, many in zip(*(part.tolist() for part in np.unique(weights, return_counts=True))):
        power = 1
        while many > 0:
            take = min(power, many)
            bits |= bits << (value * take)
            many, power = many - take, 2 * power
    return bits


def _census(bound: LinearBound, pinned: IntArray, size: IntArray) -> str:
    free = np.flatnonzero((pinned == 0) & (bound.omega != 0))
    if not free.size:
        return "no free component has a weight in it"
    kinds, many = np.unique(np.column_stack([np.abs(bound.omega[free]), size[free]]), axis=0, return_counts=True)
    order = np.argsort(-kinds[:, 0], kind="stable")
    parts = [f"{many[k]} of weight +-{bound.declared(kinds[k, 0]):g} "
             f"({int(kinds[k, 1])} point{'s' if kinds[k, 1] > 1 else ''})" for k in order[:6]]
    rest = f", and {int(many[order[6:]].sum())} lighter ones" if len(order) > 6 else ""
    return f"the {free.size} free component{'s are' if free.size > 1 else ' is'} {', '.join(parts)}{rest}"
