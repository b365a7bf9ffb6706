"""Names of clusters: which of the answers that differ in them is given, and what those of others become."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.labelset import LabelSet, Renaming
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray

MOST_NAMINGS = 5  # clusters up to which every way to name them is tried, 120 of them


def orientation(program: MarginProgram, labels: IntArray) -> Renaming:
    """Return the renaming of clusters under which labels are given; the objective is the same under it.

    Shapes: `labels` (n,).

    Parameters
    ----------
    program : MarginProgram
        One-sided bounds on decision values tell signs apart, as B may. Margins, symmetric bounds and the span of
        earlier solutions do not.
    """
    if any(not bound.is_symmetric for bound in program.decision):
        return Renaming(np.arange(program.clusters))
    return program.labels.orientation(labels)


def oriented_mixture(program: MarginProgram,
                     mixture: tuple[IntArray, FloatArray] | None) -> tuple[IntArray, FloatArray] | None:
    """Return a mixture of labellings as users read them, each renamed: it is one of label matrices, without names."""
    if mixture is None:
        return None
    written = program.labels.names.written
    return np.array([written(orientation(program, row).rename(row)) for row in mixture[0]]), mixture[1]


def named(labels: Any, within: LabelSet) -> IntArray:
    """Return the labels 0..k−1 of a clustering, in the names that break the fewest constraints of a label set."""
    given = np.asarray(labels)
    if given.shape != (within.n,):
        raise DeclarationError(f"labels: given an array of shape {given.shape}, expected one label for each of "
                               f"{within.n} points")
    if given.dtype.kind == "O" and any(one is None or one != one for one in given):
        raise DeclarationError("labels: some are missing; give every point its cluster")
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise DeclarationError("labels: some are no finite number; give every point its cluster")
    try:
        names, numbers = np.unique(given, return_inverse=True)
    except TypeError:
        raise DeclarationError("labels: names of several kinds; give numbers alone, or texts alone") from None
    own = within.names
    if len(names) > own.clusters:
        raise DeclarationError(f"labels: {len(names)} clusters, and the problem has {own.clusters}")
    if given.dtype.kind in "iuf" and own.is_label(names).all():
        numbers = own.read(given)
    if within.is_symmetric or own.clusters > MOST_NAMINGS:
        return np.asarray(numbers)
    candidates = (np.array(order)[numbers] for order in permutations(range(own.clusters)))
    return min(candidates, key=lambda one: len(within.violations(own.written(one))))


__all__ = ["named", "orientation", "oriented_mixture"]
