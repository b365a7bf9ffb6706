"""Points as users give them: checked once, then dense, sparse, on disk or in Dask; as they were when declared."""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from margindsl.errors import DeclarationError
from margindsl.typing import FloatArray

Points: TypeAlias = Any  # FloatArray (possibly a memory map), scipy.sparse.csr_array or a Dask array
BLOCK_ENTRIES = 2**20
COPY_BYTES = 2**29  # larger arrays are not copied
NEW_POINTS = "the new points"
CPU = (1, 3, 11)  # device types of DLPack whose memory the CPU reads: its own, and pinned
LARGEST_ENTRY, LEAST_ENTRY = 1e10, 1e-10  # that the greatest entry may have
SAMPLE_BYTES = 2**24  # of a memory map or a Dask array, hashed at the declaration and at every solve
SAMPLED_RUNS = 64     # stretches of rows it is spread over


def row_blocks(n: int, columns: int) -> list[slice]:
    """Split the rows of a matrix (n, columns) into slices of at most about a million entries each."""
    step = max(1, BLOCK_ENTRIES // max(1, columns))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def check_points(X: Any, n_min: int = 2, name: str = "X") -> Points:
    """Check points and bring them to one of four storage forms.

    Parameters
    ----------
    X : array-like (n, d), DataFrame, scipy sparse matrix, memory map or Dask array
        Real, finite entries; of "X" the largest absolute value between 1e-10 and 1e10, or all zero.
    n_min : int
        Least number of rows.
    name : str
        What messages call the argument.
    """
    X = on_cpu(X, name)
    if is_lazy(X):
        points = X if hasattr(X, "rechunk") else X.to_dask_array(lengths=True)
        _check_table(points, name)
        if any(np.isnan(size) for size in points.shape):
            raise DeclarationError(f"{_is(name)} a Dask array of unknown length {points.shape}. Call "
                                   "X.compute_chunk_sizes() first.")
        points = points.rechunk({1: -1}) if points.shape[1] else points
        points = points if points.dtype in (np.float32, np.float64) else points.astype(np.float64)
    elif sp.issparse(X):
        if X.ndim != 2:
            raise DeclarationError(f"{_is(name)} sparse with {X.ndim} dimension(s); a matrix (n, d) is expected.")
        _check_numeric(X.dtype.kind, X.dtype, name)
        points = sp.csr_array(X, dtype=np.float64, copy=True)
        points.sum_duplicates()
    else:
        points = _as_dense(X, name)
    n, d = points.shape
    if d == 0:
        raise DeclarationError(
            f"{_has(name)} shape {points.shape}: no column. Give at least one feature per point."
        )
    if n < n_min:
        raise DeclarationError(f"{_has(name)} {n} row(s); at least {n_min} points are needed. Rows are points.")
    _check_finite(points, name)
    return points


def on_cpu(X: Any, name: str = "X") -> Any:
    """Return an array of another library, such as a tensor, as a numpy array; anything else as it is.

    Parameters
    ----------
    X : any
        Arrays that say where they are (``__dlpack_device__``) are read where that is the memory of the CPU.
    name : str
        What messages call the argument.
    """
    if np.ma.isMaskedArray(X) and np.ma.is_masked(X):
        raise DeclarationError(f"{_is(name)} a masked array with masked entries. Fill them or drop those points.")
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack_device__"):
        return X
    try:
        device = X.__dlpack_device__()[0]
    except ValueError:  # of a device DLPack has no number for
        device = None
    if device not in CPU:
        raise DeclarationError(f"{_has(name)} device {getattr(X, 'device', '?')}; this library computes on the CPU. "
                               "Copy the array there first, as X.cpu() or cupy.asnumpy(X) do.")
    try:
        return np.asarray(X)
    except (RuntimeError, TypeError) as error:  # a tensor that records gradients
        raise DeclarationError(f"{name} is a {type(X).__module__.partition('.')[0]} array that numpy cannot read: "
                               f"{error}") from None


def is_lazy(X: Any) -> bool:
    """Return whether X is a Dask array, without importing Dask."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "to_delayed") and hasattr(X, "map_blocks")


def map_chunks(function: Callable[[Any], Any], X: Any, columns: tuple[int, ...], dtype: Any) -> Any:
    """Return what a function makes of every chunk of rows of a Dask array, as a Dask array: nothing is computed yet.

    Parameters
    ----------
    function : callable
        Takes rows and returns as many numbers, or rows of as many columns.
    columns : tuple of int
        The number of columns of what is returned; empty for one number a row.
    """
    chunks = (X.chunks[0], *((count,) for count in columns))
    whole = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    return whole.map_blocks(function, dtype=dtype, chunks=chunks, meta=np.empty((0,) * len(chunks), dtype),
                            drop_axis=list(range(len(chunks), X.ndim)))


def release(points: Any) -> None:
    """Give the pages of a shared memory map back to the system; they are read again when needed.

    A private map (mode "c") keeps its pages: they may hold changes that are nowhere else.

    Parameters
    ----------
    points : ndarray or memmap
        Or a view of one, which may be read-only.
    """
    base: Any = points
    is_shared = False
    while base is not None and not isinstance(base, mmap.mmap):
        if isinstance(base, np.memmap):
            is_shared = base.mode != "c"
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)  # a frozen view rests on one
    if is_shared and base is not None and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)


def check_new_points(X: Any, d: int) -> Points:
    """Check new points against the number of columns the features were built on.

    Parameters
    ----------
    d : int
        Columns expected.
    """
    points = check_points(X, n_min=0, name=NEW_POINTS)
    if points.shape[1] != d:
        raise DeclarationError(
            f"the new points have {points.shape[1]} columns, but the features were built on {d}. "
            f"Give the same {d} columns in the same order."
        )
    return points


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a DataFrame, as text; None where they are 0, 1, ..., or of anything else."""
    names = list(getattr(X, "columns", ()))
    return tuple(map(str, names)) if names and names != list(range(len(names))) else None


def check_columns(X: Any, names: tuple[Any, ...] | None) -> None:
    """Raise if a DataFrame names other columns than the points had, or the same in another order.

    Parameters
    ----------
    names : tuple of str or None
        Of the points; None where they had none, and nothing is compared; of several hyperplanes a tuple.
    """
    if names and isinstance(X, (list, tuple)) and not all(isinstance(name, str) for name in names):
        for points, own in zip(X, names):
            check_columns(points, own)
        return
    given = column_names(X)
    if names is None or given is None or given == names:
        return
    if sorted(given) == sorted(names):
        raise DeclarationError("the new points have the columns of the points in another order; give X[columns] with "
                               f"columns = {list(names)[:8]}{' ...' if len(names) > 8 else ''}")
    unknown, missing = [c for c in given if c not in names], [c for c in names if c not in given]
    raise DeclarationError(f"the columns of the new points are not those of the points: missing {missing[:5]}, "
                           f"unknown {unknown[:5]}")


def _has(name: str) -> str:
    return f"{name} {'have' if name == NEW_POINTS else 'has'}"


def _is(name: str) -> str:
    return f"{name} {'are' if name == NEW_POINTS else 'is'}"


def _check_numeric(kind: str, dtype: Any, name: str) -> None:
    if kind == "c":
        raise DeclarationError(
            f"{_is(name)} complex ({dtype}); real numbers are expected. Stack X.real and X.imag as columns."
        )
    if kind not in "biufO":
        raise DeclarationError(
            f"{_has(name)} dtype {dtype}; numbers are expected. Encode text, dates or categories as numeric "
            "columns."
        )


def _as_dense(X: Any, name: str) -> FloatArray:
    memory_map = isinstance(X, np.memmap)
    try:
        array = X if memory_map else np.asarray(X)
    except ValueError:
        raise DeclarationError(
            f"{_is(name)} ragged: its rows have different lengths. Give a rectangular (n, d) table."
        ) from None
    _check_table(array, name)
    if array.dtype == np.float64 or (array.dtype == np.float32 and (memory_map or array.nbytes > COPY_BYTES)):
        return array
    if array.dtype.kind == "O":
        for position, value in np.ndenumerate(array):
            if isinstance(value, (str, bytes, complex)) or value is None:
                raise DeclarationError(
                    f"{name}[{position[0]}, {position[1]}] is {value!r}; numbers are expected. "
                    "Encode or drop that column, or fill the missing value.")
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DeclarationError(
            f"{name} holds entries that are not numbers ({error}). Encode or fill them.") from None


def _check_table(array: Any, name: str) -> None:
    _check_numeric(array.dtype.kind, array.dtype, name)
    repairs = {1: "X.reshape(1, -1) makes one point of it, X.reshape(-1, 1) points of one column"
               if name == NEW_POINTS else "X.reshape(-1, 1) makes one column of it"}
    if array.ndim != 2:
        raise DeclarationError(f"{_has(name)} shape {array.shape}; a matrix (n, d) is expected: "
                               f"{repairs.get(array.ndim, 'reshape it to one row per point')}.")


def _check_finite(points: Points, name: str) -> None:
    largest = 0.0
    count, first = 0, (0, 0)
    for start, (bad, position, size), columns in _finite_parts(points):
        largest = max(largest, float(size))
        if bad and not count:
            at = int(position)
            first = ((int(np.searchsorted(points.indptr, at, side="right")) - 1, int(points.indices[at]))
                     if sp.issparse(points) else (start + at // columns, at % columns))
        count += int(bad)
    if count:
        raise DeclarationError(
            f"{_has(name)} {count} NaN or infinite entries, the first in row {first[0]}, column {first[1]}. "
            "Fill them or drop those points."
        )
    if name == "X" and largest and not LEAST_ENTRY <= largest <= LARGEST_ENTRY:
        raise DeclarationError(
            f"the largest entry of {name} is {largest:.1e}, expected between {LEAST_ENTRY:g} and {LARGEST_ENTRY:g}. "
            "Standardise the columns, for instance to unit variance.")


def _finite_parts(points: Points) -> Iterator[tuple[int, FloatArray, int]]:
    """Yield (first row, summary of the entries, columns), reading a memory map block by block."""
    if sp.issparse(points):
        yield 0, _summary(points.data), points.shape[1]
    elif is_lazy(points):
        heights = points.chunks[0]
        table = points.map_blocks(lambda part: _summary(part)[None], dtype=float, meta=np.empty((0, 0)),
                                  chunks=((1,) * len(heights), (3,))).compute()
        for start, summary in zip(np.cumsum([0, *heights]), table):
            yield int(start), summary, points.shape[1]
    else:
        for block in row_blocks(*points.shape):
            yield block.start, _summary(np.asarray(points[block])), points.shape[1]
            release(points)


def _summary(part: FloatArray) -> FloatArray:
    """Return [entries not finite, place of the first in row order, largest finite size]."""
    flat = np.asarray(part).ravel()
    with np.errstate(invalid="ignore"):
        largest = float(max(-flat.min(initial=0.0), flat.max(initial=0.0)))
    if np.isfinite(largest):
        return np.array([0.0, 0.0, largest])
    finite = np.isfinite(flat)
    return np.array([finite.size - finite.sum(), np.argmin(finite), np.abs(flat[finite]).max(initial=0.0)])


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
    """

    def __init__(self, points: Points, name: str) -> None:
        self.name = name
        stored = sp.issparse(points)
        size = 0 if is_lazy(points) else points.data.nbytes + points.indices.nbytes if stored else points.nbytes
        reuse = is_lazy(points) or isinstance(points, np.memmap) or size > COPY_BYTES
        if reuse and isinstance(points, np.memmap) and points.mode in ("r+", "w+"):
            points.flush()  # what was written before the declaration is not a change after it
        if not reuse:
            points = points.copy() if stored else np.array(points)
            for array in (points.data, points.indices, points.indptr) if stored else (points,):
                array.flags.writeable = False
        self.points = points
        self._print = fingerprint(points) if reuse else None

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
    """Return a hash of all rows in runs, or of runs of rows of 16 MB in all, from the first to the last."""
    if sp.issparse(points):
        return zlib.crc32(points.indptr, zlib.crc32(points.indices, zlib.crc32(points.data)))
    n, code = points.shape[0], 0
    row = max(1, points.nbytes // max(1, n))
    count = max(SAMPLED_RUNS, SAMPLE_BYTES // row) if is_lazy(points) or isinstance(points, np.memmap) else n
    stretches = min(8 if is_lazy(points) else SAMPLED_RUNS, n)
    if count >= n:
        length = -(-n // stretches)
        starts = np.arange(0, n, length)
    else:
        length = max(1, count // stretches)
        starts = np.linspace(0, n - length, stretches).astype(int)
    runs = [slice(int(start), min(int(start) + length, n)) for start in starts]
    if is_lazy(points):  # hashed where the points are, in one round trip
        import dask

        return zlib.crc32(repr(dask.compute(*(dask.delayed(_hash)(points[rows]) for rows in runs))).encode())
    for rows in runs:
        code = _hash(points[rows], code)
    release(points)
    return code


def _hash(part: Any, code: int = 0) -> int:
    return zlib.crc32(np.ascontiguousarray(part).data, code)
