"""Sentences that say why a labelling is not a member of a label set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from margindsl.typing import IntArray

if TYPE_CHECKING:
    from margindsl.labelset.signs import SignSet

SHOWN = 10


def sentences(labels: SignSet, y: Any) -> list[str]:
    """Return one sentence for each violation, at most ten of a kind and then a count."""
    if y.shape != (labels.n,):
        return [f"labels have shape {y.shape}, expected ({labels.n},)"]
    if y.dtype.kind not in "iuf":
        return [f"labels have type {y.dtype}, expected numbers +1 and -1"]
    wrong = np.flatnonzero(~labels.is_label(y))
    if wrong.size:
        return shortened(
            [f"point {i} has label {y[i]}, expected {labels.expected}" for i in wrong[:SHOWN]], wrong.size)
    y = y.astype(np.intp)
    z = y[labels.first] * labels.sign[labels.first]
    return _broken_links(labels, y, z) + _broken_pins(labels, z) + _broken_bounds(labels, z)


def link_sentence(labels: SignSet, y: IntArray, point: int) -> str:
    """Return the sentence for a point whose label disagrees with the first point of its component."""
    leader = int(labels.first[labels.component[point]])
    same = labels.sign[leader] == labels.sign[point]
    return (
        f"points {leader} and {point} have labels {y[leader]:+d} and {y[point]:+d} "
        f"but links make them {'equal' if same else 'opposite'}"
    )


def _broken_links(labels: SignSet, y: IntArray, z: IntArray) -> list[str]:
    wrong = np.flatnonzero(labels.sign * z[labels.component] != y)
    return shortened([link_sentence(labels, y, int(i)) for i in wrong[:SHOWN]], wrong.size)


def _broken_pins(labels: SignSet, z: IntArray) -> list[str]:
    wrong = np.flatnonzero((labels.pinned != 0) & (labels.pinned != z))
    told = []
    for component in wrong[:SHOWN]:
        leader = int(labels.first[component])
        forced = int(labels.sign[leader] * labels.pinned[component])
        told.append(
            f"point {leader} has label {-forced:+d} but known labels, links or bounds force {forced:+d}"
        )
    return shortened(told, wrong.size)


def _broken_bounds(labels: SignSet, z: IntArray) -> list[str]:
    told = []
    for bound in labels.bounds:
        total = bound.omega @ z
        if not bound.holds(total):
            told.append(
                f"{bound.name}: the weighted sum of labels is {total:g}, outside [{bound.lower:g}, "
                f"{bound.upper:g}]"
            )
    return told


def shortened(told: list[str], count: int) -> list[str]:
    return told if count <= SHOWN else [*told, f"and {count - SHOWN} more of this kind"]
