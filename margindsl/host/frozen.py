"""Arrays nobody can write through: what a form hands to solvers stays what was declared; short keys of arrays."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
LARGE = 2**16  # bytes of an array that is looked through for equal numbers


def frozen(value: T) -> T:
    """Return a read-only view of an array that cannot be made writeable again, also of those of a tuple or matrix.

    No number is copied, but for one of many equal ones. The owner of the array can still write to it; who holds the
    view alone cannot, since the view rests on a read-only buffer and not on the array.

    Parameters
    ----------
    value : array, tuple, sparse matrix by rows or columns, or anything else
        Returned as it is when it is none of these.

    Examples
    --------
    >>> view = frozen(np.zeros(3))
    >>> view.flags.writeable = True
    Traceback (most recent call last):
    ValueError: cannot set WRITEABLE flag to True of this array
    """
    if isinstance(value, tuple):
        return tuple(map(frozen, value))  # type: ignore[return-value]
    if hasattr(value, "indptr"):
        matrix: Any = copy.copy(value)
        matrix.data, matrix.indices, matrix.indptr = frozen((matrix.data, matrix.indices, matrix.indptr))
        return matrix
    if not isinstance(value, np.ndarray) or (isinstance(value.base, memoryview) and value.base.readonly):
        return value
    if value.ndim == 1 and value.nbytes > LARGE and np.all(value == value[0]):
        value = np.broadcast_to(value[0], value.shape)  # type: ignore[assignment]
    return np.asarray(memoryview(value).toreadonly())  # type: ignore[arg-type, return-value]


def freeze_fields(owner: Any) -> None:
    """Replace the arrays among the fields of a frozen dataclass by `frozen` views."""
    vars(owner).update({name: frozen(value) for name, value in vars(owner).items()})


class frozen_property(cached_property[T]):
    """Compute once what a method returns, its arrays `frozen`."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(wraps(function)(lambda owner: frozen(function(owner))))


def short_key(array: Any) -> bytes:
    """Return a digest of the entries of an array, so that keys of millions of points stay small."""
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).digest()
