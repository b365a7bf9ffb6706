"""Preparing a label set for semidefinite relaxations: one pin at most, bounds as squares."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from margindsl.labelset.bound import LiftedBound

if TYPE_CHECKING:
    from margindsl.labelset.labelset import LabelSet


def merge_pins(labels: LabelSet) -> LabelSet:
    """Merge all pinned components into the first of them, oriented so that its code is +1."""
    pins, signs = np.flatnonzero(~labels.free), labels.signs(labels.pinned)
    if not pins.size or (pins.size == 1 and signs[pins[0]] == 1):
        return labels
    keep = np.array(labels.free)
    keep[pins[0]] = True
    target = np.cumsum(keep) - 1
    target[pins] = target[pins[0]]
    turn = np.where(signs != 0, signs, 1)
    count = int(keep.sum())
    pinned = np.full(count, -1)
    pinned[target[pins[0]]] = 1
    return replace(
        labels,
        component=target[labels.component],
        sign=labels.sign * turn[labels.component],
        size=np.bincount(target, weights=labels.size, minlength=count).astype(np.intp),
        pinned=pinned,
        bounds=tuple(
            replace(bound, omega=np.bincount(target, weights=bound.omega * turn, minlength=count))
            for bound in labels.bounds
        ),
    )


def lift_bounds(labels: LabelSet) -> list[LiftedBound]:
    """Write each bound as a square, its middle carried by a pinned component or an extra variable."""
    pins, signs = np.flatnonzero(~labels.free), labels.signs(labels.pinned)
    extra = not pins.size and not all(bound.is_symmetric for bound in labels.bounds)
    lifted = []
    for bound in labels.bounds:
        middle = 0.0 if bound.is_symmetric else (bound.lower + bound.upper) / 2
        omega = np.append(bound.omega, 0.0) if extra else bound.omega.copy()
        reference = int(pins[0]) if pins.size and middle else None
        if reference is not None:
            omega[reference] -= middle * signs[reference]
        elif middle:
            omega[-1] = -middle
        lifted.append(LiftedBound(omega, (bound.upper - bound.lower) / 2, reference))
    return lifted
