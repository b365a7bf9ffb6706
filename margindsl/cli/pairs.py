"""Rows of two whole numbers: links between points, known labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from margindsl.cli.formats import read_table
from margindsl.errors import DeclarationError
from margindsl.language import Labels
from margindsl.typing import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Pairs:
    """Represent rows of two whole numbers, with the lines they stand on."""

    source: str
    values: IntArray  # (m, 2)
    lines: Sequence[int]

    def require(self, right: BoolArray, expected: str) -> None:
        """Raise unless every row is right.

        Shapes: `right` (m,).

        Parameters
        ----------
        expected : str
            What the message says of them.
        """
        wrong = np.flatnonzero(~right)
        if len(wrong):
            first, second = self.values[wrong[0]]
            raise DeclarationError(
                f"{self.source}: line {self.lines[wrong[0]]} holds {first},{second}, expected {expected}")


def read_pairs(source: str) -> Pairs:
    """Read rows i,j of whole numbers."""
    table = read_table(source, "two whole numbers a row")
    if len(table.names) != 2:
        raise DeclarationError(
            f"{table.source} has {len(table.names)} column{'s' * (len(table.names) > 1)}, expected two")
    values = table.numbers([0, 1])
    whole = np.where(np.abs(values) < 2.0**53, values, 0.0).astype(np.int64)
    if np.any(whole != values):
        bad = int(np.flatnonzero(np.any(whole != values, axis=1))[0])
        raise DeclarationError(
            f"{table.source}: line {table.lines[bad]} holds {','.join(table.cells(bad))}, expected whole numbers")
    return Pairs(table.source, whole, table.lines)


def read_links(source: str, n: int) -> IntArray:
    """Read rows i,j of different points 0..n−1."""
    pairs = read_pairs(source)
    pairs.require(np.asarray(_within(pairs.values, n).all(axis=1)), _points(n))
    pairs.require(np.diff(pairs.values)[:, 0] != 0, "two different points; leave the row out")
    return pairs.values


def read_known(source: str, labels: Labels) -> tuple[IntArray, IntArray]:
    """Read rows index,label with points 0..n−1 and labels −1 and 1, or 0..k−1 of k clusters."""
    pairs = read_pairs(source)
    index, label = pairs.values.T
    pairs.require(_within(index, labels.n), f"a point number first, {_points(labels.n)}")
    pairs.require(labels.names.is_label(label), f"a label second, {labels.names.expected}")
    return index, label


def _within(index: IntArray, n: int) -> BoolArray:
    return np.asarray((index >= 0) & (index < n))


def _points(n: int) -> str:
    return f"points from 0 to {n - 1}"
