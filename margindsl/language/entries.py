"""The entries of formulas: shapes, the values of constants, and the indices of points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.typing import FloatArray

if TYPE_CHECKING:
    from margindsl.language.expressions import Expression

Shape = tuple[int, ...]


def as_values(value: Any) -> FloatArray:
    """Return a number or one number a point as a read-only array.

    Raises
    ------
    DeclarationError
        If it is not numeric, not finite, complex, or has more than one dimension.
    """
    array = np.asarray(value)
    if array.dtype == object or (not np.issubdtype(array.dtype, np.number) and array.dtype != bool):
        raise DeclarationError(
            f"{value!r} cannot enter a formula: expected a number, a 1-D array of numbers or an expression")
    if array.ndim > 1:
        raise DeclarationError(
            f"an array of shape {array.shape} entered a formula; expected a number or a 1-D array, "
            "one number a point")
    if np.iscomplexobj(array):
        raise DeclarationError("a complex number entered a formula; expected real numbers")
    if not np.all(np.isfinite(array)):
        raise DeclarationError("NaN or infinity entered a formula; expected finite numbers")
    values = array.astype(float)
    values.flags.writeable = False
    return values


def broadcast(left: Expression, right: Expression, sign: str) -> Shape:
    """Return the common shape of two operands.

    Raises
    ------
    DeclarationError
        If both have entries and their numbers differ.
    """
    if not left.shape or not right.shape or left.shape == right.shape:
        return left.shape or right.shape
    raise DeclarationError(
        f"`{left.text()} {sign} {right.text()}`: {left.shape[0]} entries against {right.shape[0]}; "
        "index both to the same points")


def as_index(index: Any, n: int, name: str) -> tuple[np.ndarray, bool]:
    """Return a non-negative integer index array and whether a single item was meant.

    Raises
    ------
    DeclarationError
        If the index is fractional, out of range, of the wrong shape or a mask of the wrong length.
    """
    if isinstance(index, slice):
        return np.arange(n)[index], False
    array = np.asarray(index)
    if array.dtype == bool:
        if array.shape != (n,):
            raise DeclarationError(f"{name}[mask]: mask of shape {array.shape}, expected ({n},)")
        return np.flatnonzero(array), False
    if array.size == 0:
        return np.zeros(0, dtype=int), False
    if not np.issubdtype(array.dtype, np.integer):
        raise DeclarationError(f"{name}[{index!r}]: expected integers, a slice or a boolean mask")
    if array.ndim > 1:
        raise DeclarationError(f"{name}[index]: index of shape {array.shape}, expected one dimension")
    flat = np.atleast_1d(array).astype(int)
    bad = (flat < -n) | (flat >= n)
    if np.any(bad):
        raise DeclarationError(f"{name}[{int(flat[bad][0])}]: out of range for {n} points (0..{n - 1})")
    return np.where(flat < 0, flat + n, flat), array.ndim == 0
