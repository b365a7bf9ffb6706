"""Sentences that say why a labelling is not a member of a set of k-cluster labellings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from margindsl.labelset.violation import SHOWN, shortened
from margindsl.typing import IntArray

if TYPE_CHECKING:
    from margindsl.labelset.partition import PartitionSet

def sentences(labels: PartitionSet, y: Any) -> list[str]:
    """Return one sentence for each violation, at most ten of a kind and then a count."""
    if y.shape != (labels.n,):
        return [f"labels have shape {y.shape}, expected ({labels.n},)"]
    if y.dtype.kind not in "iuf":
        return [f"labels have type {y.dtype}, expected whole numbers"]
    wrong = np.flatnonzero(~labels.is_label(y))
    if wrong.size:
        last = labels.clusters - 1
        return shortened(
            [f"point {i} has label {y[i]}, expected a whole number from 0 to {last}" for i in wrong[:SHOWN]],
            wrong.size,
        )
    y = y.astype(np.intp)
    return _broken_musts(labels, y) + _broken_cannots(labels, y) + _broken_pins(labels, y) + _broken_sizes(labels, y)


def link_sentence(labels: PartitionSet, y: IntArray, point: int) -> str:
    """Return the sentence for a point whose cluster differs from that of the first point of its component."""
    leader = int(labels.first[labels.component[point]])
    return f"points {leader} and {point} are in clusters {y[leader]} and {y[point]} but must-links join them"


def _broken_musts(labels: PartitionSet, y: IntArray) -> list[str]:
    wrong = np.flatnonzero(y[labels.first][labels.component] != y)
    return shortened([link_sentence(labels, y, int(i)) for i in wrong[:SHOWN]], wrong.size)


def _broken_cannots(labels: PartitionSet, y: IntArray) -> list[str]:
    i, j = labels.first[labels.cannot].T
    wrong = np.flatnonzero(y[i] == y[j])
    return shortened(
        [
            f"points {i[row]} and {j[row]} are both in cluster {y[i[row]]} but cannot-links part them"
            for row in wrong[:SHOWN]
        ],
        wrong.size,
    )


def _broken_pins(labels: PartitionSet, y: IntArray) -> list[str]:
    z = y[labels.first]
    wrong = np.flatnonzero((labels.pinned >= 0) & (labels.pinned != z))
    return shortened(
        [
            f"point {labels.first[c]} is in cluster {z[c]} but known labels, links or sizes force cluster "
            f"{labels.pinned[c]}"
            for c in wrong[:SHOWN]
        ],
        wrong.size,
    )


def _broken_sizes(labels: PartitionSet, y: IntArray) -> list[str]:
    sizes = np.bincount(y, minlength=labels.clusters)
    return [
        f"cluster {q} holds {sizes[q]} points, outside [{labels.at_least[q]}, {labels.at_most[q]}]"
        for q in range(labels.clusters)
        if not labels.at_least[q] <= sizes[q] <= labels.at_most[q]
    ]
