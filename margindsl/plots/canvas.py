"""Axes and colours that all pictures share; matplotlib is asked for only here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.labelset import Names
from margindsl.language.printing import margin_text
from margindsl.typing import BoolArray

# Okabe and Ito (2008): told apart with every kind of colour vision. Vermilion and blue first, grey for what is beside.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
BESIDE = "#666666"


def axes_of(ax: Any) -> Any:
    """Return the axes given, or new ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def clusters_of(solution: Any) -> Iterator[tuple[str, str, BoolArray]]:
    """Yield name, colour and points of every cluster."""
    names = Names(solution.clusters)
    for value, colour in zip(names.values[names.order], np.resize(COLOURS, solution.clusters)):
        yield f"cluster {value}", str(colour), solution.labels == value


def margin_of(solution: Any) -> str:
    """Return how the margins are written."""
    return f"margin {margin_text('y', 'f', solution.coding)}"


def declared(solution: Any, what: str) -> Any:
    """Return the declaration of a solution."""
    found = getattr(solution.evidence, "declaration", None)
    if found is None:
        raise DeclarationError(f"the solution was loaded without its problem, so that {what} are not known")
    return found
