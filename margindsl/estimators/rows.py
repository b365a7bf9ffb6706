"""Rows of data frames: links between points by the names their index gives them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from margindsl.errors import DeclarationError


def named_rows(X: Any) -> dict[Hashable, list[int]] | None:
    """Return where each label of a data frame's index stands; None of points that are numbered, frames or not."""
    if not hasattr(X, "iloc") or list(X.index) == list(range(len(X))):
        return None
    places: dict[Hashable, list[int]] = {}
    for place, label in enumerate(X.index):
        places.setdefault(label, []).append(place)
    return places


def numbered(pairs: Any, rows: dict[Hashable, list[int]] | None, word: str) -> Any:
    """Return links between labels of a data frame's index as links between point numbers.

    Shapes: `pairs` (m, 2).

    Parameters
    ----------
    rows : dict or None
        From `named_rows`; with None links are between numbers already, as those of a sparse matrix are.
    word : str
        ``"must_link"`` or ``"cannot_link"``, for messages.
    """
    if hasattr(pairs, "iloc"):
        pairs = pairs.to_numpy()
    if pairs is None or rows is None or hasattr(pairs, "tocoo"):
        return pairs
    given = pairs.edges() if hasattr(pairs, "edges") else pairs
    return [_pair(pair, rows, word) for pair in given]


def _pair(pair: Any, rows: dict[Hashable, list[int]], word: str) -> list[int]:
    ends = list(pair) if isinstance(pair, Iterable) and not isinstance(pair, str) else [pair]
    if len(ends) != 2:
        raise DeclarationError(f"{word}: given {pair!r}, expected pairs of labels of the data frame's index")
    return [_place(label, rows, word) for label in ends]


def _place(label: Any, rows: dict[Hashable, list[int]], word: str) -> int:
    places = rows.get(label, []) if isinstance(label, Hashable) else []
    if len(places) == 1:
        return places[0]
    said = "is not in" if not places else f"stands {len(places)} times in"
    raise DeclarationError(f"{word}: {label!r} {said} the index of the data frame; links between the rows of a frame "
                           "name labels of its index; reset_index() makes them numbers")


__all__ = ["named_rows", "numbered"]
