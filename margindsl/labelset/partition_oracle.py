"""The exact linear oracle over a set of k-cluster labellings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from margindsl.errors import SolverError
from margindsl.labelset.partition_links import assign_linked
from margindsl.labelset.partition_pricing import solve_priced
from margindsl.labelset.partition_transport import assign_priced
from margindsl.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from margindsl.labelset.partition import PartitionSet


def maximise_clusters(labels: PartitionSet, gain: FloatArray) -> IntArray:
    """Return z (N,) that maximises sum_C gain[C, z_C] over a set of k-cluster labellings.

    Without size bounds see `assign_linked`. If that answer breaks a size bound, free components of one
    size make a transportation problem (`assign_priced`). Otherwise, and if that answer breaks cannot-links, a
    0/1 programme is solved over the choices that prices leave open. As in `assign_linked`, only cannot-links that
    an answer broke are imposed.

    Raises
    ------
    SolverError
        If no labelling satisfies all bounds, which a presolved set never meets, or an integer programme exceeds its
        time limit.
    """
    if not labels.allowed.any(axis=1).all():
        raise _unpresolved()
    if not gain.any() and labels.member is not None:
        return labels.member.copy()
    masked = np.where(labels.allowed, gain, -np.inf)
    z = np.argmax(masked, axis=1)
    if len(labels.apart):
        nodes, edges = labels.apart_blocks
        z[nodes] = assign_linked(masked[nodes], edges)
    if labels.holds_sizes(np.bincount(z, weights=labels.size, minlength=labels.clusters)):
        return z
    z, price, is_exact = _transport(labels, masked)
    broken = z[labels.apart[:, 0]] == z[labels.apart[:, 1]]
    if is_exact and not broken.any():
        return z
    return solve_priced(labels, masked, price, broken)


def _transport(labels: PartitionSet, masked: FloatArray) -> tuple[IntArray, FloatArray, bool]:
    """Return clusters under size bounds alone, prices, and whether the clusters are optimal.

    They are if free components have one size. Components of different sizes are divided into points; the
    prices are optimal for this linear relaxation, the clusters those of greatest priced gain.
    """
    free, z = np.flatnonzero(labels.free), np.argmax(masked, axis=1)
    sizes = np.unique(labels.size[free])
    if len(sizes) == 1:
        unit, total = int(sizes[0]), len(free)
        lower, upper = -(-labels.needed_sizes // unit), labels.room // unit
        solved = assign_priced(masked[free], np.maximum(lower, 0), np.minimum(upper, total))
        if solved is None:
            raise _unpresolved()
        z[free] = solved[0]
        return z, solved[1] / unit, True
    points = np.repeat(free, labels.size[free])
    solved = assign_priced(masked[points] / labels.size[points, None], labels.needed_sizes, labels.room)
    if solved is None:
        raise _unpresolved()
    return np.argmax(masked - labels.size[:, None] * solved[1], axis=1), solved[1], False


def _unpresolved() -> SolverError:
    return SolverError("no labelling satisfies all links and size bounds; the label set was not built by "
                       "presolve_partition.")
