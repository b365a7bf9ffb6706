"""Which of the answers that differ in names only is given: the same one on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.labelset import GlobalSign
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray


def orientation(program: MarginProgram, labels: IntArray) -> Any:
    """Return the renaming of signs or clusters under which labels are given; the objective is the same under it.

    Parameters
    ----------
    program : MarginProgram
        One-sided bounds on decision values tell signs apart, as B may. Margins, symmetric bounds and the span of
        earlier solutions do not.
    labels : (n,) int array
    """
    if any(not bound.is_symmetric for bound in program.decision):
        return GlobalSign()
    return program.labels.orientation(labels)


def oriented_mixture(program: MarginProgram,
                     mixture: tuple[IntArray, FloatArray] | None) -> tuple[IntArray, FloatArray] | None:
    """Return a mixture of labellings, each of them renamed: it is one of their label matrices, which have no sign."""
    if mixture is None:
        return None
    return np.array([orientation(program, row).rename(row) for row in mixture[0]]), mixture[1]


__all__ = ["orientation", "oriented_mixture"]
