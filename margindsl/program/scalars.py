"""The shared scalars of losses: their costs and signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import greatest_ratio
from margindsl.host.frozen import freeze_fields
from margindsl.typing import FloatArray


@dataclass(frozen=True, eq=False)
class SharedScalars:
    """Represent the shared scalars s with linear cost qᵀs and optional sign constraints.

    Parameters
    ----------
    costs : (S,) float array
        The linear cost q.
    nonneg : (S,) bool array
        Which scalars are constrained to be non-negative.
    names : tuple of str
        Their names, all different, for printing.
    symbols : tuple
        What declared them, for looking their values up.
    """

    costs: FloatArray
    nonneg: FloatArray
    names: tuple[str, ...] = ()
    symbols: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        freeze_fields(self)

    @property
    def count(self) -> int:
        """Return the number S of scalars."""
        return len(self.costs)

    @property
    def may_pay(self) -> bool:
        """Return whether the cost of some scalar can be negative."""
        return bool(np.any(np.where(self.nonneg, self.costs < 0, self.costs != 0)))

    @classmethod
    def none(cls) -> SharedScalars:
        """Return the empty collection."""
        return cls(np.zeros(0), np.zeros(0, dtype=bool), ())

    def violation(self, values: FloatArray) -> float:
        """Return by how much values (S,) break their signs, relative to the largest of them."""
        below = np.where(self.nonneg, np.minimum(values, 0.0), 0.0)
        return greatest_ratio(below, np.max(np.abs(values), initial=0.0))


__all__ = ["SharedScalars"]
