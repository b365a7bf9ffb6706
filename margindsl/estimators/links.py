"""Links between points by their names: labels of a frame's index, names given a row, or else positions."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, issparse

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.typing import IntArray

NAMED = ("name the points: give a data frame with an index (pipeline.set_output(transform='pandas') keeps it through "
         "transformers), or names=, one a row")


class PointNames:
    """Represent what n points are called: `names`, labels of a frame's index, or positions; links find rows by them."""

    def __init__(self, X: Any, n: int, names: Any = None) -> None:
        self.left_out, self.n = 0, n
        self.index: list[Any] | None = list(X.index) if hasattr(X, "iloc") else None
        if names is not None:
            if np.ndim(names) != 1 or len(names) != self.n:
                raise DeclarationError(f"names: given shape {np.shape(names)}, expected ({self.n},), one a point")
            self.index = list(names)
        self.is_counted = self.index is None or (names is None and self.index == list(range(self.n)))
        self.rows: dict[Hashable, int] = {}
        for row, name in enumerate(self.index or ()):
            self.rows[name] = -1 if name in self.rows else row  # -1: a name of two rows

    def links(self, given: Any, word: str) -> Any:
        """Return links between names as pairs (m, 2) of rows; those to points that are not here are left out.

        The nodes of a graph are names, and so are the row and column numbers of a sparse matrix.
        """
        if given is None:
            return None
        if hasattr(given, "iloc"):
            given = given.astype(object).to_numpy()
        if isinstance(given, (Iterator, ItemsView, KeysView, ValuesView)):  # read more than once
            given = list(given)
        if self.is_counted or issparse(given):
            self._refuse_positions(word, issparse(given))
        if self.index is None:
            return given
        pairs = [_ends(pair, word) for pair in _pairs(given, word)]
        kinds = {_kind(name) for name in self.index}
        other = next((end for pair in pairs for end in pair if _kind(end) not in kinds), None)
        if other is not None:
            raise DeclarationError(f"{word}: {other!r} is a {_kind(other)}, and points are named by "
                                   f"{' and '.join(sorted(kinds))}, the index of the data frame or names=")
        found = [[self.rows.get(end) for end in pair] for pair in pairs]
        for pair, ends in zip(pairs, found):
            if -1 in ends:
                name = pair[ends.index(-1)]
                raise DeclarationError(f"{word}: {name!r} names {self.index.count(name)} points; links need names of "
                                       "one point each; reset_index() makes them numbers")
        absent = [pair for pair, ends in zip(pairs, found) if None in ends]
        if absent:
            self.left_out += len(absent)
            name = next(end for end in absent[0] if end not in self.rows)
            warnings.warn(f"{word}: {len(absent)} of {len(pairs)} links are left out, since they name points that are "
                          f"not among these {self.n}, such as {name!r}", UserWarning, stacklevel=4)
        return np.array([ends for ends in found if None not in ends], dtype=int).reshape(-1, 2)

    def values(self, given: Any, word: str) -> Any:
        """Return values of points (n,): those of a series in the order of the names, missing ones NaN."""
        if self.index is None or not hasattr(given, "iloc") or getattr(given, "ndim", 1) != 1:
            return given
        if list(given.index) == self.index:
            return given
        if not given.index.is_unique or not set(given.index) & self.rows.keys():
            raise DeclarationError(f"{word}: the index of the series names points twice, or none of these; give it the "
                                   "index of X, or an array, a value a point")
        return given.reindex(self.index)

    def _refuse_positions(self, word: str, is_matrix: bool) -> None:
        """Raise where a splitter or a step of a pipeline put other rows or names into places 0..n−1.

        Scikit-learn cuts X in functions that have it and the rows `train` as variables; it cuts matrices, too.
        """
        frame: Any = sys._getframe(2)
        while frame is not None:
            held = frame.f_locals
            X, train = held.get("X"), held.get("train")
            if str(frame.f_globals.get("__name__")).startswith("sklearn.") and X is not None:
                whole = np.asarray(X.index) if hasattr(X, "iloc") else np.arange(np.shape(X)[0])
                names = whole if train is None else whole[train]
                if is_matrix and train is not None:
                    raise DeclarationError(f"{word}: a fold cuts the rows of a matrix; give pairs or a graph")
                if self.is_counted and list(names[:self.n]) != list(range(self.n)):
                    raise DeclarationError(f"{word}: links go by position, and rows were cut, or lost their names, "
                                           f"before they came here; {NAMED}")
            frame = frame.f_back


def group_links(groups: Any, n: int) -> IntArray:
    """Return pairs (m, 2) that join the points of each group (n,) of equal keys; missing keys are no group."""
    if np.ndim(groups) != 1 or len(groups) != n:
        raise DeclarationError(f"groups: given shape {np.shape(groups)}, expected ({n},), a key a point")
    codes = pd.factorize(pd.Series(groups, dtype=object))[0]
    order = np.argsort(codes, kind="stable")
    joined = (codes[order][1:] == codes[order][:-1]) & (codes[order][1:] >= 0)
    return np.column_stack([order[:-1], order[1:]])[joined]


def declared_links(labels: Any, must_link: Any, cannot_link: Any) -> list[Any]:
    """Return the constraints of links that are given."""
    pairs = [(md.must_link, must_link), (md.cannot_link, cannot_link)]
    return [declare(labels, given) for declare, given in pairs if given is not None]


def _pairs(given: Any, word: str) -> Iterable[Any]:
    if hasattr(given, "edges"):
        return given.edges()
    if not issparse(given):
        return given.tolist() if isinstance(given, np.ndarray) else given
    if given.shape[0] != given.shape[1] or (given.data < 0).any() or np.isnan(given.data).any():
        raise DeclarationError(f"{word}: sparse matrix of shape {given.shape}, expected a square one of entries of at "
                               "least 0; where rows were cut, give pairs or a graph")
    matrix = csr_array(given).tocoo()
    keep = matrix.data != 0
    return np.unique(np.sort(np.column_stack([matrix.row[keep], matrix.col[keep]]), axis=1), axis=0).tolist()


def _ends(pair: Any, word: str) -> list[Any]:
    ends = list(pair) if isinstance(pair, Iterable) and not isinstance(pair, (str, dict)) else [pair]
    if len(ends) != 2 or not all(isinstance(end, Hashable) for end in ends):
        raise DeclarationError(f"{word}: given {pair!r}, expected pairs of names of points; a fold cuts a graph of as "
                               "many nodes as rows: give its edges")
    return ends


def _kind(name: Any) -> str:
    return "number" if isinstance(name, Number) else "text" if isinstance(name, str) else type(name).__name__
