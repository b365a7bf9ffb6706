"""Linear bounds on component signs: their integer unit, attainable sums, tightening and refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.errors import InfeasibleError
from margindsl.labelset.contraction import contract, on_grid
from margindsl.typing import BoolArray, FloatArray, IntArray

_RATIO = 1e6
_BITS = 5e10
_FINE = 2.0**48  # of a grid, where limits have less than five digits to spare


@dataclass(frozen=True, eq=False)
class LinearBound:
    """State lower <= sum_C omega_C c(z_C) <= upper on the component values z, c the code of a value.

    Sums of labels have the codes -1 and +1, the size of a cluster the code 1 of it and 0 of the others.

    Parameters
    ----------
    omega : ndarray of float, shape (N,)
        Weight of each component, the signed sum of its points' weights, in units of the scale.
    lower, upper : float
        Limits in these units, tightened to attainable sums where that was possible.
    name : str
        What the user declared, for messages: ``"bound 0"``.
    tolerance : float
        The slack within which a sum counts as inside: what rounding can do to it, nothing to exact sums.
    code : tuple of float
        Of the k values.
    grid : float
        Power of two that all weights are multiples of where all sums are exact, otherwise 0.
    scale : float
        Power of two.
    """

    omega: FloatArray
    lower: float
    upper: float
    name: str = "bound 0"
    tolerance: float = 0.0
    code: tuple[float, ...] = (-1.0, 1.0)
    grid: float = 0.0
    scale: float = 1.0

    @classmethod
    def contracted(cls, weights: FloatArray, lower: float, upper: float, component: IntArray, sign: IntArray,
                   name: str) -> LinearBound:
        """Return a bound on sum_i w_i y_i as one on component signs; weights that cancel but for rounding vanish."""
        found = contract(weights, component, sign, name)
        grid, scale = found.grid, found.scale
        with np.errstate(over="ignore"):  # a limit far out of reach
            lower, upper = (float(np.float64(end) / scale) for end in (lower, upper))
        if max(abs(lower), abs(upper)) > _FINE * grid > 0:  # a tolerance may vanish beside a limit
            lower, upper = on_grid(lower, upper, grid, found.tolerance)
        return cls(found.omega, lower, upper, name, found.tolerance, grid=grid, scale=scale)

    @cached_property
    def whole(self) -> tuple[IntArray, int]:
        """Return exact weights as whole numbers without a common divisor, and this divisor of them on the grid."""
        counts = np.rint(self.omega / self.grid).astype(np.int64)
        divisor = int(np.gcd.reduce(counts))
        return counts // divisor, divisor

    @cached_property
    def unit(self) -> float | None:
        """Return u > 0 such that omega / u is integer, or None when there is none above max |omega| / 1e6."""
        if not self.grid:
            return common_unit(self.omega)
        counts, divisor = self.whole
        return self.grid * divisor if int(np.abs(counts).max()) <= _RATIO else None

    def declared(self, x: float) -> float:
        """Return a sum or limit in the units of the declaration, for messages."""
        return x * self.scale

    @property
    def is_symmetric(self) -> bool:
        """Return whether lower = -upper."""
        return abs(self.lower + self.upper) <= self.tolerance

    @property
    def terms(self) -> FloatArray:
        """Return what each component adds by its place, shape (N, k)."""
        return np.multiply.outer(self.omega, self.code)

    def sums(self, places: IntArray) -> FloatArray:
        """Return the sums for places (..., N) of the components' values."""
        return np.asarray(np.asarray(self.code)[places] @ self.omega)

    def is_in_reach(self, z: IntArray) -> bool:
        """Return whether component signs, 0 where free, leave the limits in reach of the free ones."""
        fixed, reach = float(self.omega @ z), float(np.abs(self.omega[z == 0]).sum())
        return self.lower - self.tolerance <= fixed + reach and fixed - reach <= self.upper + self.tolerance

    def holds(self, sums: FloatArray) -> BoolArray:
        """Return elementwise whether sums lie within the limits, up to the tolerance."""
        slack = self.tolerance
        return (sums >= self.lower - slack) & (sums <= self.upper + slack)


class LiftedBound(NamedTuple):
    """State (omega @ z)^2 <= radius^2, a bound in the form semidefinite relaxations take.

    Parameters
    ----------
    omega : ndarray of float, shape (N,) or (N + 1,)
        Weights; the last of N + 1 belongs to an extra reference variable with z = +1.
    radius : float
        Half the width of the bound.
    reference : int or None
        The pinned component that carries the middle of an asymmetric bound; None when the bound is
        symmetric, or when nothing is pinned and the extra variable carries it.
    """

    omega: FloatArray
    radius: float
    reference: int | None


def common_unit(omega: FloatArray) -> float | None:
    """Return the greatest common divisor of real weights, or None when they have none of useful size.

    Weights are multiples of it up to rounding: differences that are more than that are differences.
    """
    values = np.unique(np.abs(omega[omega != 0]))
    if not values.size:
        return None
    unit, smallest = float(values[-1]), float(values[-1]) / _RATIO
    for value in values.tolist():
        while value > smallest / 2:
            unit, value = value, math.remainder(unit, value)
            value = abs(value)
        if unit < smallest:
            return None
    counts = np.rint(omega / unit)
    unit = float(np.abs(omega).sum() / np.abs(counts).sum())
    error = float(np.abs(omega - unit * counts).sum())
    return unit if error <= rounding(float(np.abs(omega).sum()), len(omega)) else None


def tighten(bound: LinearBound, pinned: IntArray, size: IntArray) -> LinearBound:
    """Move the limits of a bound to sums that pinned and free components attain.

    With integer weights (in some unit) the attainable sums fixed + u (2x - R) come from a subset-sum
    dynamic programme over x kept as bits; otherwise the limits are cut to the range.
    """
    free = bound.omega[pinned == 0]
    fixed, reach = float(bound.omega @ pinned), float(np.abs(free).sum())
    if not bound.is_in_reach(pinned):
        raise InfeasibleError(_out_of_range(bound, pinned, size, fixed, reach))
    lower, upper = max(bound.lower, fixed - reach), min(bound.upper, fixed + reach)
    if bound.grid:  # so that differences of limits and sums are exact
        inner = on_grid(lower, upper, bound.grid, bound.tolerance)
        lower, upper = inner if inner[0] <= inner[1] else (lower, upper)
    weights = _whole_weights(free, bound.unit)
    if weights is not None and bound.unit is not None:
        lower, upper = _attained(bound, weights, bound.unit, fixed, (lower, upper), pinned, size)
    return replace(bound, lower=lower, upper=upper)


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


def _whole_weights(free: FloatArray, unit: float | None) -> IntArray | None:
    if unit is None:
        return None
    whole = np.abs(np.rint(free / unit)).astype(np.int64)
    whole = whole[whole > 0]
    effort = float(whole.sum()) * (1 + 2 * len(np.unique(whole)))
    return whole if effort <= _BITS else None


def _attained(
    bound: LinearBound,
    weights: IntArray,
    unit: float,
    fixed: float,
    limits: tuple[float, float],
    pinned: IntArray,
    size: IntArray,
) -> tuple[float, float]:
    total, slack = int(weights.sum()), bound.tolerance
    low = max(math.ceil(((limits[0] - slack - fixed) / unit + total) / 2), 0)
    high = min(math.floor(((limits[1] + slack - fixed) / unit + total) / 2), total)
    bits = subset_sums(weights)
    inside = (bits >> low) & ((1 << max(high - low + 1, 0)) - 1)
    if not inside:
        below = (bits & ((1 << low) - 1)).bit_length() - 1
        above = bits >> (high + 1)
        near = [fixed + unit * (2 * below - total)] if below >= 0 else []
        if above:
            near.append(fixed + unit * (2 * ((above & -above).bit_length() + high) - total))
        raise InfeasibleError(_between_sums(bound, pinned, size, near))
    first, last = low + (inside & -inside).bit_length() - 1, low + inside.bit_length() - 1
    return fixed + unit * (2 * first - total), fixed + unit * (2 * last - total)


def _out_of_range(bound: LinearBound, pinned: IntArray, size: IntArray, fixed: float, reach: float) -> str:
    least, most, known = (bound.declared(x) for x in (fixed - reach, fixed + reach, fixed))
    return (
        f"{bound.name} asks {_interval(bound)} but the weighted sum of labels only reaches from {least:g} "
        f"to {most:g}: known labels fix {known:g}; {_census(bound, pinned, size)}. "
        "Relax the bound, or remove links or known labels."
    )


def _between_sums(bound: LinearBound, pinned: IntArray, size: IntArray, near: list[float]) -> str:
    return (
        f"{bound.name} asks {_interval(bound)} but no choice of signs attains such a sum; the "
        "nearest attainable "
        f"{'sums are' if len(near) > 1 else 'sum is'} {' and '.join(f'{bound.declared(s):g}' for s in near)}: "
        f"{_census(bound, pinned, size)}. Widen the bound to one of these, or remove links or known labels."
    )


def _interval(bound: LinearBound) -> str:
    return f"{bound.declared(bound.lower):g} <= sum <= {bound.declared(bound.upper):g}"


def _census(bound: LinearBound, pinned: IntArray, size: IntArray) -> str:
    free = np.flatnonzero((pinned == 0) & (bound.omega != 0))
    if not free.size:
        return "no free component has a weight in it"
    kinds, many = np.unique(
        np.column_stack([np.abs(bound.omega[free]), size[free]]), axis=0, return_counts=True
    )
    order = np.argsort(-kinds[:, 0], kind="stable")
    parts = [
        f"{many[k]} of weight +-{bound.declared(kinds[k, 0]):g} "
        f"({int(kinds[k, 1])} point{'s' if kinds[k, 1] > 1 else ''})"
        for k in order[:6]
    ]
    rest = f", and {int(many[order[6:]].sum())} lighter ones" if len(order) > 6 else ""
    return f"the {free.size} free component{'s are' if free.size > 1 else ' is'} {', '.join(parts)}{rest}"
