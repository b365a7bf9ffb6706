"""Files in, by their ending: NumPy, Parquet and LIBSVM by the libraries they belong to, anything else as CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from margindsl.cli.table import NotNumericError, Table, read_csv
from margindsl.errors import DeclarationError, NotInstalledError
from margindsl.host.files import FOREIGN
from margindsl.typing import FloatArray

LABEL = "label"
POINTS, CLASSES = ("X", "data", "points"), ("y", "labels", "label", "target")  # names of arrays in .npz files
PARTS = "cmM"  # kinds of numbers and times that NumPy would take a part of


@dataclass(frozen=True, eq=False)
class Columns(Table):
    """Represent columns that have types already.

    Parameters
    ----------
    source, names, rows, lines, apart
        As of `Table`; rows are counted from 1, and their text is made when it is asked for.
    """

    arrays: tuple[Any, ...] = ()  # (n,)

    def text(self, column: int) -> list[str]:
        return ["" if value is None or str(value) in ("nan", "<NA>", "NaT") else str(value)
                for value in np.asarray(self.arrays[column]).tolist()]

    def cells(self, row: int) -> list[str]:
        return [str(array[row]) for array in self.arrays]

    def numbers(self, columns: Sequence[int]) -> FloatArray:
        """Return columns as numbers, an array of shape (rows, columns)."""
        values = np.empty((len(self), len(columns)))
        for k, column in enumerate(columns):
            given, name = np.asarray(self.arrays[column]), self.names[column]
            try:
                if given.dtype.kind in PARTS:
                    raise TypeError
                values[:, k] = given.astype(float)
            except (TypeError, ValueError):
                raise NotNumericError(f"{self.source}: column {name!r} holds values of type {given.dtype}, expected "
                                      "finite numbers", name) from None
            bad = np.flatnonzero(~np.isfinite(values[:, k]))
            if len(bad):
                raise NotNumericError(f"{self.source}: column {name!r} holds {given[bad[0]]} (row {bad[0] + 1}), "
                                      "expected finite numbers", name)
        return values


def read_table(source: str, row: str = "one point a row") -> Table:
    """Read a file by its ending, else as CSV.

    Parameters
    ----------
    source : str
        A path, or ``-`` for standard input, which is CSV.
    row : str
        What is expected, for messages.
    """
    return read_columns(source) if Path(source).suffix.lower() in READERS else read_csv(source, row)


def read_columns(source: str) -> Columns:
    """Read a file by its ending."""
    try:
        names, arrays = READERS[Path(source).suffix.lower()](source)
    except ImportError:
        raise NotInstalledError(
            f"reading {source} needs pandas and pyarrow; run `pip install margindsl[files]`") from None
    except OSError as error:
        raise DeclarationError(f"cannot read {source}: {error.strerror or error}") from None
    except FOREIGN as error:
        raise DeclarationError(f"cannot read {source}: it holds no table of its kind ({error})") from None
    if not arrays or not len(arrays[0]):
        raise DeclarationError(f"{source} is empty; expected one point a row")
    apart = {k for k, name in enumerate(names) if name == LABEL and Path(source).suffix != ".parquet"}
    return Columns(source, tuple(names), [], range(1, len(arrays[0]) + 1), frozenset(apart), tuple(arrays))


def _read_array(source: str) -> tuple[list[str], list[Any]]:
    return _split(np.load(source, allow_pickle=False))


def _read_arrays(source: str) -> tuple[list[str], list[Any]]:
    with np.load(source, allow_pickle=False) as held:
        found = {name: held[name] for name in held.files}
    points = next((found[name] for name in (*POINTS, *found) if name in found and found[name].ndim == 2), None)
    if points is None:
        raise ValueError(f"none of the arrays {', '.join(found)} is a table; call it X")
    classes = next((found[name] for name in CLASSES if name in found and found[name].shape == points.shape[:1]), None)
    return _split(points, classes)


def _read_parquet(source: str) -> tuple[list[str], list[Any]]:
    import pandas as pd

    frame = pd.read_parquet(source)
    return [str(name) for name in frame.columns], [frame.iloc[:, k].to_numpy() for k in range(frame.shape[1])]


def _read_libsvm(source: str) -> tuple[list[str], list[Any]]:
    from sklearn.datasets import load_svmlight_file

    points, classes = load_svmlight_file(source)
    return _split(points.toarray(), classes)


def _split(points: Any, classes: Any = None) -> tuple[list[str], list[Any]]:
    """Return names and columns of a matrix, and of the classes beside it."""
    if points.ndim not in (1, 2):
        raise ValueError(f"an array of {points.ndim} dimensions, expected two")
    table = points.reshape(len(points), -1)
    names, arrays = [str(k) for k in range(table.shape[1])], list(table.T)
    return (names, arrays) if classes is None else ([*names, LABEL], [*arrays, classes])


READERS: dict[str, Callable[[str], tuple[list[str], list[Any]]]] = {
    ".npy": _read_array, ".npz": _read_arrays, ".parquet": _read_parquet, ".svm": _read_libsvm,
    ".libsvm": _read_libsvm, ".svmlight": _read_libsvm}


__all__ = ["Columns", "read_columns", "read_table"]
