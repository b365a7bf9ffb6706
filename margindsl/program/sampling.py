"""Losses of a part of the points."""

from __future__ import annotations

import numpy as np

from margindsl.program.losses import Losses, LossTerm
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
        terms.append(LossTerm(term.loss, position[term.points[inside]], factor * term.weights[inside],
                              term.slopes[inside], term.shifts[inside], term.coupling[inside]))
    return Losses(len(index), tuple(terms), losses.scalars)
