"""Inputs as they were when they were declared: read-only copies, or where they stay, with a fingerprint."""

from __future__ import annotations

import os
import zlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from margindsl.errors import DeclarationError
from margindsl.features.points import COPY_BYTES, Points, is_lazy, release

SAMPLE_BYTES = 2**24  # of a memory map or a Dask array, hashed at the declaration and at every solve
SAMPLED_RUNS = 64     # stretches of rows it is spread over


class Owned:
    """Own an input of a declaration.

    Arrays and sparse matrices are copied and the copy is read-only. Memory maps, Dask arrays and arrays above 512 MB
    stay where they are; a fingerprint is taken of them, and `check` compares it: shape, type, size and time of the
    file, and rows, all of an array in memory, 16 MB of others.

    Parameters
    ----------
    points : Points
        What `check_points` returned.
    name : str
        What messages call it.

    Examples
    --------
    >>> X = np.ones((3, 2))
    >>> owned = Owned(X, "X")
    >>> X[0] = 7.0
    >>> float(owned.points.max()), owned.points.flags.writeable
    (1.0, False)
    """

    def __init__(self, points: Points, name: str) -> None:
        self.name = name
        in_place = is_lazy(points) or isinstance(points, np.memmap) or _bytes(points) > COPY_BYTES
        if in_place and isinstance(points, np.memmap) and points.mode in ("r+", "w+"):
            points.flush()  # what was written before the declaration is not a change after it
        self.points = points if in_place else _frozen(points)
        self._print = fingerprint(points) if in_place else None

    def check(self) -> None:
        """Raise if the input is no longer what was declared."""
        if self._print is not None and fingerprint(self.points) != self._print:
            raise DeclarationError(
                f"{self.name} changed after it was declared; it is too large to be copied, or stays where it is by "
                "choice. Leave it as it was, or declare the problem anew")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_print": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["points"], state["name"])  # type: ignore[misc]


def _bytes(points: Points) -> int:
    return int(points.data.nbytes + points.indices.nbytes if sp.issparse(points) else points.nbytes)


def _frozen(points: Points) -> Points:
    """Return a read-only copy."""
    copied: Any = points.copy() if sp.issparse(points) else np.array(points)
    for array in (copied.data, copied.indices, copied.indptr) if sp.issparse(points) else (copied,):
        array.flags.writeable = False
    return copied


def fingerprint(points: Points) -> tuple[Any, ...]:
    """Return what changes when an input does: shape, type, size and time of its file, and a hash of rows."""
    stamp: tuple[Any, ...] = ()
    if isinstance(points, np.memmap) and points.filename is not None:
        try:
            status = os.stat(points.filename)
        except OSError:  # removed, and still mapped
            stamp = ("gone",)
        else:
            stamp = (status.st_size, status.st_mtime_ns)
    if is_lazy(points):
        stamp = (points.name,)
    return (*stamp, points.shape, str(points.dtype), _hash_rows(points))


def _hash_rows(points: Points) -> int:
    if sp.issparse(points):
        return zlib.crc32(points.indptr, zlib.crc32(points.indices, zlib.crc32(points.data)))
    n = points.shape[0]
    code = 0
    runs = _sampled_rows(points, n)
    if is_lazy(points):  # hashed where the points are, in one round trip
        import dask

        return zlib.crc32(repr(dask.compute(*(dask.delayed(_hash)(points[rows]) for rows in runs))).encode())
    for rows in runs:
        code = _hash(points[rows], code)
    release(points)
    return code


def _hash(part: Any, code: int = 0) -> int:
    return zlib.crc32(np.ascontiguousarray(part).data, code)


def _sampled_rows(points: Points, n: int) -> list[slice]:
    """Return all rows in runs, or runs of rows of 16 MB in all, from the first to the last."""
    row = max(1, points.nbytes // max(1, n))
    count = max(SAMPLED_RUNS, SAMPLE_BYTES // row) if is_lazy(points) or isinstance(points, np.memmap) else n
    runs = min(8 if is_lazy(points) else SAMPLED_RUNS, n)
    if count >= n:
        step = -(-n // runs)
        return [slice(start, min(start + step, n)) for start in range(0, n, step)]
    length = max(1, count // runs)
    starts = np.linspace(0, n - length, runs).astype(int)
    return [slice(int(start), int(start) + length) for start in starts]
