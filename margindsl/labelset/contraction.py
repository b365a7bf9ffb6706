"""Weights of a bound on labels: brought to a unit of their own, summed over components, exactly where they are exact.

Sums of multiples of one power of two are exact below 2^53 of it. Whole numbers that floats hold are taken at their
word, and so are numbers of few binary digits, as 3/8; others, as 0.1, are what rounding left of what was meant, and so
are their sums. What was scaled by a power of ten, too, is such a number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.errors import DeclarationError
from margindsl.typing import BoolArray, FloatArray, IntArray

_DIGITS = 53  # of a float
_FEW = 30  # binary digits; a number with fewer was hardly rounded to them
_MANY, _LARGE = 50, 2.0**70  # the same of whole numbers that floats may not hold, such as 1e20, and up to which
_SPAN = 2.0**1000  # ratio of weights that no sum can tell from infinity


class Contraction(NamedTuple):
    """Represent weights of components, in units of the scale.

    Parameters
    ----------
    omega : ndarray of float, shape (N,)
        Sums of signed weights, the largest between 1 and 2; zero where the weights cancel but for rounding.
    tolerance : float
        What rounding can do to a sum of the weights, or of what they were meant to be; less than half the grid.
    grid : float
        Power of two that all weights are multiples of, so that their sums are exact; 0 where they are not.
    scale : float
        Power of two, what omega is a multiple of.
    row : ndarray of float, shape (n,)
        Weights of points with these sums, in these units: one a component that is exact, else as declared.
    """

    omega: FloatArray
    tolerance: float
    grid: float
    scale: float
    row: FloatArray


def contract(weights: FloatArray, component: IntArray, sign: IntArray, name: str) -> Contraction:
    """Return the weights of components z where a bound is on the sum of weights[i] sign[i] z[component[i]].

    Parameters
    ----------
    weights : ndarray of float, shape (n,)
        Finite.
    name : str
        Of the bound, for messages.
    """
    scale = unit_of(weights)
    w, many = weights / scale, np.bincount(component)
    small = (weights != 0) & (np.abs(w) < 1 / _SPAN)
    if small.any():
        raise DeclarationError(
            f"weights of {name} range from {np.abs(weights[weights != 0]).min():g} to {np.abs(weights).max():g}; no "
            "sum of numbers so far apart can be formed. Bring them closer, or leave out the small ones."
        )
    low, parts = np.full(len(many), np.inf), np.bincount(component, np.abs(w))
    np.minimum.at(low, component, np.where(is_exact(weights), lowest_bit(w), 0.0))
    omega = _exact_sums(sign * w, component, many, parts <= 2.0**_DIGITS * low)
    is_whole = (np.abs(omega) <= 2.0**_DIGITS * low) | (omega == 0)  # nothing left is no rounding left
    omega = np.where(~is_whole & (np.abs(omega) <= rounding(parts, many)), 0.0, omega)
    size = float(np.where(is_whole, np.abs(omega), parts).sum())
    tolerance, grid = float(rounding(2 * size, len(w))), float(low[omega != 0].min(initial=np.inf))
    if not (is_whole.all() and 0 < size <= 2.0**_DIGITS * grid):
        grid = 0.0
    unit, alone = unit_of(omega), np.unique(component, return_index=True)[1]
    row = np.where(is_whole[component], 0.0, w)
    row[alone] = np.where(is_whole, sign[alone] * omega, w[alone])
    tolerance = min(tolerance, grid / 4) if grid else tolerance
    return Contraction(omega / unit, tolerance / unit, grid / unit, scale * unit, row / unit)


def _exact_sums(terms: FloatArray, place: IntArray, many: IntArray, is_small: BoolArray) -> FloatArray:
    """Return sums of terms of equal places, rounded once; small ones are exact in any order."""
    sums = np.bincount(place, terms)
    chosen = np.flatnonzero(~is_small & (many > 1))
    if chosen.size:
        pieces = np.split(terms[np.argsort(place, kind="stable")], np.cumsum(many)[:-1])
        sums[chosen] = [math.fsum(pieces[c].tolist()) for c in chosen]
    return np.asarray(sums)


def unit_of(numbers: FloatArray) -> float:
    """Return the power of two that the largest number is one to two times of, 1 where all are zero.

    Examples
    --------
    >>> unit_of(np.array([-5.0, 1.0])), unit_of(np.array([0.75]))
    (4.0, 0.5)
    """
    most = float(np.abs(numbers).max(initial=0.0))
    return math.ldexp(1.0, math.frexp(most)[1] - 1) if most > 0 else 1.0


def on_grid(lower: float, upper: float, grid: float, tolerance: float) -> tuple[float, float]:
    """Return limits moved inwards to multiples of a grid, those within the tolerance of one to that one.

    Examples
    --------
    >>> on_grid(0.3, 5.000001, 1.0, 1e-4)
    (1.0, 5.0)
    """
    ends = []
    for limit, rounded in ((lower, math.ceil), (upper, math.floor)):
        if not math.isfinite(limit / grid):
            ends.append(limit)
            continue
        near = grid * round(limit / grid)
        ends.append(near if abs(limit - near) <= tolerance else grid * rounded(limit / grid))
    return ends[0], ends[1]


def lowest_bit(numbers: FloatArray) -> FloatArray:
    """Return the powers of two that numbers are odd multiples of, inf for zero.

    Examples
    --------
    >>> lowest_bit(np.array([12.0, 0.75, 0.0]))
    array([4.  , 0.25,  inf])
    """
    mantissa, exponent = np.frexp(numbers)
    digits = np.ldexp(mantissa, _DIGITS).astype(np.int64)
    bit = np.ldexp((digits & -digits).astype(float), exponent - _DIGITS)
    return np.where(np.asarray(numbers) == 0, np.inf, bit)


def is_exact(numbers: FloatArray) -> BoolArray:
    """Return which numbers are taken at their word: whole ones that floats hold, and those of few binary digits.

    Examples
    --------
    >>> is_exact(np.array([1e15 + 1, 1e20, 0.375, 0.1, 1e300]))
    array([ True,  True,  True, False, False])
    """
    low, size = lowest_bit(numbers), np.abs(numbers)
    with np.errstate(over="ignore"):
        held = (size <= 2.0**_DIGITS) | ((size < 2.0**_MANY * low) & (size <= _LARGE))
        return np.asarray((size < 2.0**_FEW * low) | ((low >= 1) & held))


__all__ = ["Contraction", "contract", "is_exact", "lowest_bit", "on_grid", "unit_of"]
