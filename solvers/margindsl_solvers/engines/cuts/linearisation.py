"""Cuts: linearisations of the whole separable part, kept with their multipliers in compact form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from margindsl.calculus import PLQ
from margindsl.typing import FloatArray
from margindsl_solvers.engines.rows.groups import Block, Group
from margindsl_solvers.engines.rows.model import Rows

Packed = tuple[tuple[FloatArray, ...], ...]


@dataclass(frozen=True, eq=False)
class Linearisation:
    """Linearise the losses R as a function of x = (w, β, s), at any point."""

    model: Rows

    @property
    def rows(self) -> int:
        """Return the number of rows that are losses; they come first."""
        return self.model.loss_rows.stop

    def arguments(self, x: FloatArray) -> FloatArray:
        """Return the arguments v = A x + d of the losses; one product with the features."""
        return (self.model.apply(x) + self.model.shifts)[: self.rows]

    def value(self, v: FloatArray) -> float:
        """Return R at arguments v."""
        return float(np.sum(self.model.charges(v)))

    def derivative(self, v: FloatArray) -> FloatArray:
        """Return a subgradient of R in its arguments."""
        out = np.zeros(len(v))
        for group in self.model.loss_groups:
            out[group.part] = group.subgradient(self.model.weights, v)
        return out

    def cut(self, v: FloatArray) -> tuple[FloatArray, float, Packed]:
        """Return (g, o, multipliers) with R(x) ≥ ⟨g, x⟩ + o, equal at v.

        For the hinge the multipliers are −c_i where the margin is below one and 0 elsewhere: the most
        violated constraint of the one-slack program (CPMMC Eq. 6; slides Eq. 17 for clusters).
        """
        slopes = self.derivative(v)
        offset = self.value(v) - float(slopes @ (v - self.model.shifts[: self.rows]))
        rest = np.zeros(len(self.model.weights) - self.rows)
        return self.model.adjoint(np.concatenate([slopes, rest])), offset, self.pack(v, slopes)

    def pack(self, v: FloatArray, slopes: FloatArray) -> Packed:
        """Return the slopes at v: numbers of pieces, a byte a row; of blocks the few that are not zero."""
        packed: list[tuple[FloatArray, ...]] = []
        for group, table in zip(self.model.loss_groups, self._tables):
            own = slopes[group.part]
            if table is not None:
                packed.append((np.searchsorted(table[0], v[group.part], side="right").astype(np.uint8),))
            elif isinstance(group, Block):
                used = np.flatnonzero(own)
                packed.append((used.astype(np.int32), own[used]))
            else:
                packed.append((own.copy(),))
        return tuple(packed)

    def combine(self, packed: list[Packed], weights: FloatArray) -> FloatArray:
        """Return the multipliers Σ_k α_k λ_k."""
        total = np.zeros(self.rows)
        for cut, alpha in zip(packed, weights):
            for group, table, values in zip(self.model.loss_groups, self._tables, cut):
                part = total[group.part]
                if len(values) == 2:
                    part[values[0]] += alpha * values[1]
                elif table is None:
                    part += alpha * values[0]
                else:
                    part += alpha * (self.model.weights[group.part] * table[1][values[0]])
        return total

    @cached_property
    def _tables(self) -> list[tuple[FloatArray, FloatArray] | None]:
        return [_pieces(group) for group in self.model.loss_groups]


def _pieces(group: Group) -> tuple[FloatArray, FloatArray] | None:
    """Return the knots and slopes of a piecewise linear function of single rows, None of another one."""
    loss = group.function
    if isinstance(group, Block) or not isinstance(loss, PLQ) or np.any(loss.coefficients[:, 0]):
        return None
    return (loss.breakpoints, np.asarray(loss.coefficients[:, 1])) if len(loss.coefficients) < 256 else None
