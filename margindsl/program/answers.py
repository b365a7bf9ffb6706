"""What an answer to a form must hold: its variables, their shapes and signs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.host.frozen import frozen
from margindsl.typing import FloatArray

BELOW = 1e-6  # how far below its least value, relative to its largest entry, a variable may be by rounding
FAINT = 0.1  # the least that a largest entry counts: of a bound that does not bind there is one alone, next to zero
LARGEST = 1e150  # beyond it squares overflow


@dataclass(frozen=True, eq=False)
class Variable:
    """Represent what a form expects of one variable.

    Parameters
    ----------
    grows : bool
        Whether the last length grows from solve to solve, so that a start may hold the first entries alone.
    """

    shape: tuple[int | None, ...]  # None for a length that is free
    needed: bool = True  # whether an answer without it is none; an empty variable may be left out
    default: float | None = None  # taken where the variable is left out
    least: Any = -np.inf  # the least value of an entry
    below: int | None = None  # entries are the whole numbers 0..below−1
    total: float | None = None  # what the entries sum to
    grows: bool = False

    def read(self, name: str, given: Any) -> FloatArray:
        """Return the entries as an array of their own."""
        try:
            masked = isinstance(given, np.ma.MaskedArray) and bool(np.ma.getmaskarray(given).any())
            array = np.array(given, dtype=None)
            if array.dtype.kind == "c" or masked:
                raise TypeError
            array = array.astype(float, order="K", copy=False)
        except (TypeError, ValueError, OverflowError):
            raise DeclarationError(f"{name} holds something other than real numbers") from None
        if len(array.shape) != len(self.shape) or any(
                a != b if b is not None else a == 0 for a, b in zip(array.shape, self.shape)):
            known = tuple(length for length in self.shape if length is not None)  # lengths of one may be left out
            if len(known) < len(self.shape) or [a for a in array.shape if a != 1] != [b for b in known if b != 1]:
                expected = ", ".join("any" if length is None else str(length) for length in self.shape)
                raise DeclarationError(f"{name} has shape {array.shape}, expected ({expected})")
            array = array.reshape(known)
        if not np.all(np.isfinite(array)):
            raise DeclarationError(f"{name} holds {'NaN' if np.isnan(array).any() else 'infinity'}")
        if np.max(np.abs(array), initial=0.0) > LARGEST:
            raise DeclarationError(f"{name} holds {np.max(np.abs(array)):.2g}, whose square overflows")
        if self.below is not None:
            if array.size and not (np.all(array == np.rint(array)) and 0 <= array.min() <= array.max() < self.below):
                raise DeclarationError(f"{name} holds something other than the whole numbers 0..{self.below - 1}")
            return array.astype(int)
        return array

    def fits(self, given: Any) -> bool:
        """Return whether a start's value has the shape expected and is finite."""
        array = np.asarray(given)
        shape = self.shape
        if self.grows and array.ndim == len(shape) and array.shape[-1] <= (shape[-1] or 0):
            shape = (*shape[:-1], None)
        return (array.ndim == len(shape) and all(b is None or a == b for a, b in zip(array.shape, shape))
                and array.dtype.kind in "biuf" and bool(np.all(np.isfinite(array))))

    def mend(self, name: str, array: FloatArray) -> tuple[FloatArray, list[str]]:
        """Return entries of at least the least value and with the right sum, and what was more wrong than by rounding.
        """
        notes = []
        low = float(np.min(array - self.least, initial=0.0))
        if low < -BELOW * float(np.max(np.abs(array), initial=FAINT)):
            notes.append(f"{name} has entries {-low:.2g} below their least value, which were raised")
        array = np.maximum(array, self.least) if low < 0 else array
        if self.total is None:
            return array, notes
        total = float(array.sum())
        if not total > 0:
            raise DeclarationError(f"{name} sums to {total:.6g}, expected {self.total:g}")
        if abs(total - self.total) > BELOW * abs(self.total):
            notes.append(f"{name} sums to {total:.6g} instead of {self.total:g}, and was scaled")
        return array * (self.total / total), notes


def read_answer(expected: Mapping[str, Variable], given: Mapping[str, Any]) -> tuple[dict[str, FloatArray], str]:
    """Return the variables of an answer as read-only arrays of their own, and what had to be mended in them.

    Variables that are not expected are handed on. Entries below their least value are raised to it, which is said where
    it is more than rounding.
    """
    found: dict[str, Any] = {name: value.copy() if isinstance(value, np.ndarray) else value
                             for name, value in given.items() if name not in expected}
    mended: list[str] = []
    for name, variable in expected.items():
        if given.get(name) is None:
            if variable.default is not None or 0 in variable.shape:
                found[name] = np.full([length or 0 for length in variable.shape], variable.default or 0.0)
            elif variable.needed:
                raise DeclarationError(f"{name} is missing")
            continue
        found[name], notes = variable.mend(name, variable.read(name, given[name]))
        mended += notes
    return {name: frozen(value) for name, value in found.items()}, "; ".join(mended)


def fitting(expected: Mapping[str, Variable], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a start is of use: all but values of another shape or not finite."""
    return {name: value for name, value in given.items() if name not in expected or expected[name].fits(value)}


def multipliers(counts: Mapping[str, int]) -> Iterator[tuple[str, Variable]]:
    """Yield multipliers that are not negative and may be left out, by their counts."""
    for name, count in counts.items():
        yield name, Variable((count,), needed=False, least=0.0)
