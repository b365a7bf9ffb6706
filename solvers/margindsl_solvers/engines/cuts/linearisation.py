"""Cuts: linearisations of the whole separable part, kept with their multipliers in compact form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from margindsl.calculus import PLQ
from margindsl.program.losses import LossTerm
from margindsl.typing import FloatArray
from margindsl_solvers.engines.rows.cluster_rows import ClusterRows
from margindsl_solvers.engines.rows.envelopes import Rows
from margindsl_solvers.engines.rows.plane import PlaneRows

Packed = tuple[FloatArray, ...]


@dataclass(frozen=True, eq=False)
class Linearisation(ABC):
    """Linearise the losses R as a function of x = (w, b, s), at any point."""

    model: Rows

    @abstractmethod
    def derivative(self, v: FloatArray) -> FloatArray:
        """Return a subgradient of R in its arguments."""

    @abstractmethod
    def pack(self, v: FloatArray, slopes: FloatArray) -> Packed:
        """Return the slopes at v in compact form."""

    @abstractmethod
    def combine(self, packed: list[Packed], weights: FloatArray) -> FloatArray:
        """Return the multipliers Σ_k α_k λ_k."""

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

    def cut(self, v: FloatArray) -> tuple[FloatArray, float, Packed]:
        """Return (g, o, multipliers) with R(x) ≥ ⟨g, x⟩ + o, equal at v.

        For the hinge the multipliers are −c_i where the margin is below one and 0 elsewhere: the most
        violated constraint of the one-slack program (CPMMC Eq. 6; slides Eq. 17 for clusters).
        """
        slopes = self.derivative(v)
        offset = self.value(v) - float(slopes @ (v - self.model.shifts[: self.rows]))
        rest = np.zeros(len(self.model.weights) - self.rows)
        return self.model.adjoint(np.concatenate([slopes, rest])), offset, self.pack(v, slopes)


@dataclass(frozen=True, eq=False)
class PlaneLine(Linearisation):
    """Linearise R(x) = Σ c ρ(A x + d); multipliers of piecewise linear losses are numbers of pieces, a byte a row."""

    model: PlaneRows

    def derivative(self, v: FloatArray) -> FloatArray:
        return self.model.form.losses.derivative(v)

    def combine(self, packed: list[Packed], weights: FloatArray) -> FloatArray:
        total = np.zeros(self.model.form.losses.rows)
        for multipliers, alpha in zip(packed, weights):
            for (term, part), values, table in zip(self.model.form.losses.slices(), multipliers, self._tables):
                total[part] += alpha * (values if table is None else term.weights * table[values])
        return total

    @cached_property
    def _tables(self) -> list[FloatArray | None]:
        return [_slopes_of_pieces(term) for term in self.model.form.losses.terms]

    def pack(self, v: FloatArray, slopes: FloatArray) -> Packed:
        parts = []
        for (term, part), table in zip(self.model.form.losses.slices(), self._tables):
            if table is None:
                parts.append(slopes[part].copy())
            else:
                assert isinstance(term.loss, PLQ)
                parts.append(np.searchsorted(term.loss.breakpoints, v[part], side="right").astype(np.uint8))
        return tuple(parts)


@dataclass(frozen=True, eq=False)
class ClusterLine(Linearisation):
    """Linearise R(w) = Σ c ρ↓(min_q m_q) + Σ c ρ↑(m_runner), m the differences f_y − f_q; few slopes are not zero."""

    model: ClusterRows

    def derivative(self, v: FloatArray) -> FloatArray:
        model, out = self.model, np.zeros(len(v))
        rising = model.form.parts.rising
        for block in model.blocks:
            m = block.table(v[block.part])
            least, rows = m.argmin(axis=1), np.arange(len(m))
            slopes = block.charged(model.weights) * block.function.derivative(m[rows, least])
            out[block.part][rows * model.width + least] = slopes
        if rising.rows:
            out[model.rising_rows] = rising.derivative(v[model.rising_rows])
        return out

    def pack(self, v: FloatArray, slopes: FloatArray) -> Packed:
        used = np.flatnonzero(slopes)
        return used.astype(np.int32), slopes[used]

    def combine(self, packed: list[Packed], weights: FloatArray) -> FloatArray:
        total = np.zeros(self.rows)
        for (used, slopes), alpha in zip(packed, weights):
            total[used] += alpha * slopes
        return total


def _slopes_of_pieces(term: LossTerm) -> FloatArray | None:
    loss = term.loss
    if isinstance(loss, PLQ) and not np.any(loss.coefficients[:, 0]) and len(loss.coefficients) < 256:
        return np.asarray(loss.coefficients[:, 1])
    return None
