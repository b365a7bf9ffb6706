"""CSV in and out: points with optional header, pairs, known labels, labels."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.typing import FloatArray, IntArray

_DELIMITERS = (",", ";", "\t")


class NotNumericError(DeclarationError):
    """A column holds a cell that is no finite number.

    Parameters
    ----------
    message : str
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
    rows : list of list of str
    lines : list of int
        Line of each row in the file.
    """

    source: str
    names: tuple[str, ...]
    rows: list[list[str]]
    lines: list[int]

    def column(self, name: str) -> int:
        """Return the number of a column given by name or number.

        Raises
        ------
        DeclarationError
            If there is none, or two columns have that name.
        """
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

    def numbers(self, columns: Sequence[int]) -> FloatArray:
        """Return columns as numbers, an array of shape (rows, columns).

        Raises
        ------
        NotNumericError
            Naming the first column with a cell that is no finite number, and its line.
        """
        values = np.empty((len(self.rows), len(columns)))
        for k, column in enumerate(columns):
            try:
                values[:, k] = np.array(self.text(column)).astype(float)
            except ValueError:
                raise self._not_numeric(column) from None
            if not np.all(np.isfinite(values[:, k])):
                raise self._not_numeric(column)
        return values

    def _not_numeric(self, column: int) -> NotNumericError:
        line, cell = next((k, c) for k, c in zip(self.lines, self.text(column)) if not _is_finite(c))
        found = f"{cell!r}" if cell.strip() else "an empty cell"
        name = self.names[column]
        return NotNumericError(
            f"{self.source}: column {name!r} holds {found} (line {line}), expected finite "
            "numbers", name)


def read_table(source: str) -> Table:
    """Read a CSV file; the delimiter (comma, semicolon, tab) and the header are found out.

    Parameters
    ----------
    source : str
        A path, or ``-`` for standard input.

    Raises
    ------
    DeclarationError
        If the file cannot be read, is empty, or has rows of different lengths.
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
        raise DeclarationError(f"{shown} is empty; expected one point a row")
    for line, row in numbered:
        if len(row) != len(numbered[0][1]):
            raise DeclarationError(
                f"{shown}: line {line} has {len(row)} cells, the first has {len(numbered[0][1])}")
    rows = [row for _, row in numbered]
    header = has_header(rows)
    names = [cell.strip() for cell in rows[0]] if header else [str(k) for k in range(len(rows[0]))]
    if header and len(rows) == 1:
        raise DeclarationError(f"{shown} has a header but no rows")
    return Table(shown, tuple(names), rows[int(header):], [line for line, _ in numbered][int(header):])


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row names columns: all text, or text above a number.

    Examples
    --------
    >>> has_header([["a", "1"], ["2", "3"]]), has_header([["a", "1"], ["b", "3"]])
    (True, False)
    """
    text = [not _is_number(cell) for cell in rows[0]]
    if all(text) or len(rows) == 1:
        return all(text)
    return any(above and _is_number(below) for above, below in zip(text, rows[1]))


def read_pairs(source: str) -> IntArray:
    """Read rows i,j of whole numbers; returns an array of shape (rows, 2).

    Raises
    ------
    DeclarationError
        If there are not two columns of whole numbers.
    """
    table = read_table(source)
    if len(table.names) != 2:
        raise DeclarationError(f"{table.source} has {len(table.names)} columns, expected two")
    values = table.numbers([0, 1])
    whole = np.where(np.abs(values) < 2.0**53, values, 0.0).astype(np.int64)
    if np.any(whole != values):
        bad = int(np.flatnonzero(np.any(whole != values, axis=1))[0])
        raise DeclarationError(
            f"{table.source}: line {table.lines[bad]} holds {','.join(table.rows[bad])}, expected whole numbers")
    return whole


def write_rows(target: str | None, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write CSV to a file, or to standard output where the target is None.

    Raises
    ------
    DeclarationError
        If the file cannot be written.
    """
    if target is None:
        _write(sys.stdout, head, rows)
        return
    try:
        with open(target, "w", newline="", encoding="utf-8") as stream:
            _write(stream, head, rows)
    except OSError as error:
        raise DeclarationError(f"cannot write {target}: {error.strerror}") from None


def check_writable(target: str | None) -> None:
    """Raise before a long solve when the output's folder does not exist.

    Raises
    ------
    DeclarationError
        Naming the folder.
    """
    if target is not None and not Path(target).resolve().parent.is_dir():
        raise DeclarationError(f"cannot write {target}: its folder does not exist")


def _write(stream: Any, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)


def _read_text(source: str) -> str:
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
    return True


def _is_finite(cell: str) -> bool:
    return _is_number(cell) and bool(np.isfinite(float(cell)))


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
