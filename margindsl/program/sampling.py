"""Losses of a part of the points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from margindsl.program.losses import Losses
from margindsl.typing import IntArray


def restrict(losses: Losses, index: IntArray) -> Losses:
    """Return the losses of some points, renumbered, the weights of every term scaled up to the whole.

    Parameters
    ----------
    index : (m,) int array
        Points kept, without repeats.
    """
    position = np.full(losses.n, -1)
    position[index] = np.arange(len(index))
    terms = []
    for term in losses.terms:
        inside = position[term.points] >= 0
        share = float(term.weights[inside].sum())
        factor = float(term.weights.sum()) / share if share > 0 else 1.0
        kept = term.taken(np.flatnonzero(inside))
        terms.append(replace(kept, points=position[kept.points], weights=factor * kept.weights))
    return Losses(len(index), tuple(terms), losses.scalars)
