"""Sentences that say why a labelling is not a member of a label set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from margindsl.typing import IntArray

if TYPE_CHECKING:
    from margindsl.labelset.components import Components
    from margindsl.labelset.labelset import LabelSet

SHOWN = 10


def sentences(labels: LabelSet, y: Any) -> list[str]:
    """Return one sentence for each violation, at most ten of a kind and then a count."""
    if y.shape != (labels.n,):
        return [f"labels have shape {y.shape}, expected ({labels.n},)"]
    if y.dtype.kind not in "iuf":
        return [f"labels have type {y.dtype}, expected {labels.names.expected}"]
    wrong = np.flatnonzero(~labels.names.is_label(y))
    if wrong.size:
        return shortened(
            [f"point {i} has label {y[i]}, expected {labels.names.expected}" for i in wrong[:SHOWN]], wrong.size)
    y = labels.names.read(y)
    z = labels.turned(y[labels.first], labels.sign[labels.first])
    return [*_broken_links(labels, y, z), *_broken_cannots(labels, y), *_broken_pins(labels, z),
            *_broken_sums(labels, y, z)]


def link_sentence(labels: Components, y: IntArray, point: int) -> str:
    """Return the sentence for a point whose label disagrees with the first point of its component."""
    leader = int(labels.first[labels.component[point]])
    same = labels.sign[leader] == labels.sign[point]
    shown = labels.names.shown
    return (f"points {leader} and {point} have labels {shown(y[leader])} and {shown(y[point])} "
            f"but links make them {'equal' if same else 'opposite'}")


def _broken_links(labels: LabelSet, y: IntArray, z: IntArray) -> list[str]:
    wrong = np.flatnonzero(labels.at_points(z) != y)
    return shortened([link_sentence(labels, y, int(i)) for i in wrong[:SHOWN]], wrong.size)


def _broken_cannots(labels: LabelSet, y: IntArray) -> list[str]:
    i, j = labels.first[labels.cannot].T
    wrong = np.flatnonzero(y[i] == y[j])
    return shortened([f"points {i[row]} and {j[row]} both have label {labels.names.shown(y[i[row]])} but cannot-links "
                      "part them" for row in wrong[:SHOWN]], wrong.size)


def _broken_pins(labels: LabelSet, z: IntArray) -> list[str]:
    wrong = np.flatnonzero(~labels.free & (labels.pinned != z))
    told = []
    for component in wrong[:SHOWN]:
        leader = int(labels.first[component])
        given, forced = (labels.names.shown(labels.at_points(label)[leader]) for label in (z, labels.pinned))
        told.append(f"point {leader} has label {given} but known labels, links, bounds or sizes force {forced}")
    return shortened(told, wrong.size)


def _broken_sums(labels: LabelSet, y: IntArray, z: IntArray) -> list[str]:
    sizes = np.bincount(y, minlength=labels.clusters)
    told = [f"cluster {q} holds {many} points, outside [{low}, {high}]"
            for q, (many, low, high) in enumerate(zip(sizes, labels.at_least, labels.at_most))
            if not low <= many <= high]
    sums = [(bound, float(bound.sums(z))) for bound in labels.bounds]
    return told + [f"{bound.name}: the weighted sum of labels is {bound.declared(total):g}, "
                   f"outside [{bound.declared(bound.lower):g}, {bound.declared(bound.upper):g}]"
                   for bound, total in sums if not bound.holds(np.asarray(total))]


def shortened(told: list[str], count: int) -> list[str]:
    """Return sentences, and how many more of their kind there are."""
    return told if count <= SHOWN else [*told, f"and {count - SHOWN} more of this kind"]
