"""How labels 0, ..., k-1 are written where people and files read them: two as -1 and +1, more by their numbers.

Names that mean nothing are chosen in the order of first points. The rule reads labels alone. One that reads decision
values, as the sign of the largest, turns over with the last digit wherever two points tie, and ties are what symmetric
data have.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.typing import BoolArray, FloatArray, IntArray


class Names:
    """Hold how the labels of k clusters are written.

    Attributes
    ----------
    values : ndarray of int, shape (k,)
        What is written for 0, ..., k-1, ascending.
    order : ndarray of int, shape (k,)
        Clusters that may exchange names are called after their first points in this order: two are +1, then -1.
    expected, domain : str
        What a label is, and the set of labels, for messages.
    """

    def __init__(self, clusters: int = 2) -> None:
        self.clusters = read_count(clusters, "the number of clusters")
        self.signed = self.clusters == 2
        self.values = np.array([-1, 1]) if self.signed else np.arange(clusters)
        self.order = np.arange(clusters)[:: -1 if self.signed else 1]
        self.expected = "+1 or -1" if self.signed else f"a whole number from 0 to {clusters - 1}"
        self.domain = "{-1, +1}" if self.signed else f"{{0, ..., {clusters - 1}}}"

    def written(self, labels: Any) -> IntArray:
        """Return labels as they are written."""
        return np.asarray(self.values[np.asarray(labels)])

    def read(self, values: Any) -> IntArray:
        """Return the labels 0, ..., k-1 of what is written, which `is_label`."""
        return np.searchsorted(self.values, values)

    def outputs(self, table: FloatArray, order: IntArray | slice = slice(None)) -> FloatArray:
        """Return weights, biases or decision values (..., k), their columns in an order, as users read them: of two
        clusters those of +1 alone.
        """
        return np.asarray(table[..., np.arange(self.clusters)[order][1]] if self.signed else table[..., order])

    def table(self, decision: FloatArray) -> FloatArray:
        """Return decision values that users read as a table (n, k)."""
        return np.stack([-decision, decision], axis=-1) if self.signed else decision

    def predicted(self, decision: FloatArray) -> IntArray:
        """Return the labels, as they are written, of decision values that users read: +1 at zero."""
        return np.where(decision >= 0, 1, -1) if self.signed else decision.argmax(axis=1)

    def is_label(self, values: Any) -> BoolArray:
        """Return which numbers are written labels, elementwise."""
        return np.isin(values, self.values)

    def shown(self, label: int) -> str:
        """Return a label as text."""
        return f"{self.values[label]:+d}" if self.signed else str(label)

    @property
    def domain_latex(self) -> str:
        """Return the set of labels in LaTeX."""
        return r"\{-1, +1\}" if self.signed else rf"\{{0, \dots, {self.clusters - 1}\}}"


def by_first_point(labels: IntArray, groups: IntArray, order: IntArray) -> IntArray:
    """Return names (k,) such that the clusters of each group bear its names by their first points, empty ones last.

    `labels` (n,); `groups` (k,): clusters of equal group may exchange names; `order` (k,): the names, those of a group
    together, in the order of first points.
    """
    first = np.full(len(groups), len(labels))
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    new = np.empty(len(groups), dtype=np.intp)
    new[np.lexsort((first, groups))] = order
    return new


def read_count(n: Any, what: str = "the number of points n") -> int:
    """Check the number of points, or of something else: an integer of at least two."""
    try:
        count = operator.index(n)
    except TypeError:
        count = -1
    if isinstance(n, bool | np.bool_) or count < 2:
        raise DeclarationError(f"{what} = {n!r} was given; expected an integer, at least 2.")
    return count
