"""CSV in: cells of points, links and known labels, with an optional header.

CSV and TSV are split by Python's own `csv`, the only reader that knows the line of a row: numpy and pyarrow refuse
short rows, but count rows where a file has blank lines or cells of several lines, and pandas fills short rows up. What
no reader sees, several cells in one and text above numbers, is asked here.
What has types of its own is read by the libraries it belongs to: `margindsl.cli.formats`.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.typing import FloatArray

_DELIMITERS = (",", ";", "\t")


class NotNumericError(DeclarationError):
    """A column holds a cell that is no finite number.

    Parameters
    ----------
    column : str
        Its name.
    """

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True, eq=False)
class Table:
    """Represent the cells of a CSV file, not yet converted.

    Parameters
    ----------
    source : str
        Where it was read, for messages.
    names : tuple of str
        Column names; their numbers where the file has no header.
    lines : sequence of int
        Line of each row in the file.
    apart : set of int
        Columns that are no features unless they are asked for, as labels.
    """

    source: str
    names: tuple[str, ...]
    rows: list[list[str]]
    lines: Sequence[int]
    apart: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.lines)

    def cells(self, row: int) -> list[str]:
        """Return a row as text."""
        return self.rows[row]

    def column(self, name: str) -> int:
        """Return the number of a column given by name or number."""
        if self.names.count(name) > 1:
            raise DeclarationError(f"{self.source}: two columns are called {name!r}; give the column's number")
        if name in self.names:
            return self.names.index(name)
        if name.isdecimal() and int(name) < len(self.names):
            return int(name)
        raise DeclarationError(f"{self.source} has no column {name!r}; its columns are {_listed(self.names)}")

    def text(self, column: int) -> list[str]:
        """Return a column as text."""
        return [row[column] for row in self.rows]

    def classes(self, column: int) -> list[str]:
        """Return a column as names of classes."""
        names = [cell.strip() for cell in self.text(column)]
        for line, name in zip(self.lines, names):
            if name.lower() in ("", "nan"):
                raise DeclarationError(f"{self.source}: column {self.names[column]!r} holds {_shown(name)} (line "
                                       f"{line}), expected the name of a class in every row")
        return names

    def numbers(self, columns: Sequence[int]) -> FloatArray:
        """Return columns as numbers, an array of shape (rows, columns)."""
        values = np.empty((len(self.rows), len(columns)))
        for k, column in enumerate(columns):
            cells = self.text(column)
            try:
                values[:, k] = np.array(cells).astype(float)
            except ValueError:
                raise self._not_numeric(column) from None
            if not np.all(np.isfinite(values[:, k])) or any("_" in cell for cell in cells):
                raise self._not_numeric(column)
        return values

    def _not_numeric(self, column: int) -> NotNumericError:
        line, cell = next((k, c) for k, c in zip(self.lines, self.text(column)) if not _is_finite(c))
        name = self.names[column]
        return NotNumericError(
            f"{self.source}: column {name!r} holds {_shown(cell)} (line {line}), expected finite numbers", name)


def read_csv(source: str, row: str = "one point a row") -> Table:
    """Read a CSV file; the delimiter (comma, semicolon, tab) and the header are found out.

    Parameters
    ----------
    source : str
        A path, or ``-`` for standard input.
    row : str
        What is expected, for messages.
    """
    lines = _read_text(source).splitlines()
    shown = "standard input" if source == "-" else source
    first = next((line for line in lines if line.strip()), "")
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        reader = csv.reader(lines, delimiter=delimiter)
        numbered = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise DeclarationError(f"{shown}: not a CSV file ({error})") from None
    if not numbered:
        raise DeclarationError(f"{shown} is empty; expected {row}")
    _check_shape(shown, numbered)
    rows = [row for _, row in numbered]
    header = has_header(rows)
    if not header:
        _check_first(shown, numbered[0][0], rows)
    names = [cell.strip() for cell in rows[0]] if header else [str(k) for k in range(len(rows[0]))]
    if header and len(rows) == 1:
        raise DeclarationError(f"{shown} has a header but no rows")
    return Table(shown, tuple(names), rows[int(header):], [line for line, _ in numbered][int(header):])


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row names columns: no cell of it is a number.

    Examples
    --------
    >>> has_header([["a", "kind"], ["2", "oak"]]), has_header([["1", "oak"], ["2", "elm"]])
    (True, False)
    """
    return not any(_is_number(cell) for cell in rows[0])


def _check_shape(shown: str, numbered: Sequence[tuple[int, list[str]]]) -> None:
    """Raise unless all rows have as many cells, and a single one is not several in disguise."""
    width = len(numbered[0][1])
    for line, row in numbered:
        if len(row) != width:
            raise DeclarationError(f"{shown}: line {line} has {_counted(len(row), 'cell')}, the first has {width}")
    for line, row in numbered[:2] if width == 1 else ():
        parts = re.split(r"[|\s]+", row[0].strip().strip("|"))
        if len(parts) > 1 and any(map(_is_number, parts)):
            raise DeclarationError(f"{shown}: line {line} is one cell, {row[0]!r}; cells are separated by commas, "
                                   "semicolons or tabs, so write one of these instead")


def _check_first(shown: str, line: int, rows: Sequence[Sequence[str]]) -> None:
    """Raise when the first row has text above numbers and numbers too: neither a header nor like the others."""
    beside = next(cell for cell in rows[0] if _is_number(cell))
    for column, cell in enumerate(rows[0]):
        if not _is_number(cell) and any(_is_number(row[column]) for row in rows[1:]):
            raise DeclarationError(
                f"{shown}: line {line} holds {_shown(cell)} above numbers (column {column}) and {beside.strip()!r} "
                "beside it, so that it is neither a header, which has no numbers, nor a row like the others; mend the "
                "cell, or name every column")


def _read_text(source: str) -> str:
    if not source:
        raise DeclarationError("cannot read '': expected the name of a file")
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DeclarationError(f"cannot read {source}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DeclarationError(f"cannot read {source}: not UTF-8 text; save it as CSV in UTF-8") from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # which Python takes in numbers, and no other program


def _is_finite(cell: str) -> bool:
    return _is_number(cell) and bool(np.isfinite(float(cell)))


def _shown(cell: str) -> str:
    return repr(cell) if cell.strip() else "an empty cell"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
