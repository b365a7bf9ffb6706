"""Cuts: linearisations of the whole separable part, kept with their multipliers in compact form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from margindsl.calculus import PLQ
from margindsl.program.losses import LossTerm
from margindsl.typing import FloatArray
from margindsl_solvers.engines.rows.model import RowModel

Packed = tuple[FloatArray, ...]


@dataclass(frozen=True, eq=False)
class Linearisation:
    """Linearise R(x) = Σ c ρ(A x + d), x = (w, b, s), at any point.

    Parameters
    ----------
    model : RowModel
    """

    model: RowModel

    def arguments(self, x: FloatArray) -> FloatArray:
        """Return the (m,) arguments v = A x + d of the losses; one product with the features."""
        losses = self.model.form.losses
        w, b, s = self.model.split(x)
        return losses.arguments(self.model.signs * (self.model.form.features.apply(w) + b), s)

    def value(self, v: FloatArray) -> float:
        """Return R at arguments v."""
        return float(np.sum(self.model.form.losses.row_losses(v)))

    def derivative(self, v: FloatArray) -> FloatArray:
        """Return the (m,) slopes of R in its arguments."""
        return self.model.form.losses.derivative(v)

    def cut(self, v: FloatArray) -> tuple[FloatArray, float, Packed]:
        """Return (g, o, multipliers) with R(x) ≥ ⟨g, x⟩ + o, equal at v.

        For the hinge the multipliers are −c_i where the margin is below one and 0 elsewhere: the most
        violated constraint of the one-slack program (CPMMC Eq. 6).
        """
        losses = self.model.form.losses
        slopes = losses.derivative(v)
        offset = self.value(v) - float(slopes @ (v - losses.shifts))
        return self.gradient(slopes), offset, self._pack(v, slopes)

    def gradient(self, slopes: FloatArray) -> FloatArray:
        """Return Aᵀλ for the multipliers of the loss rows."""
        losses, model = self.model.form.losses, self.model
        signed = model.signs * losses.spread(slopes)
        border = [np.sum(signed)] if model.bias else []
        return np.concatenate([model.form.features.adjoint(signed), border, losses.coupling.T @ slopes])

    def combine(self, packed: list[Packed], weights: FloatArray) -> FloatArray:
        """Return the (m,) multipliers Σ_k α_k λ_k."""
        total = np.zeros(self.model.form.losses.rows)
        for multipliers, alpha in zip(packed, weights):
            for (term, part), values, table in zip(self.model.form.losses.slices(), multipliers, self._tables):
                total[part] += alpha * (values if table is None else term.weights * table[values])
        return total

    @cached_property
    def _tables(self) -> list[FloatArray | None]:
        return [_slopes_of_pieces(term) for term in self.model.form.losses.terms]

    def _pack(self, v: FloatArray, slopes: FloatArray) -> Packed:
        """Keep the number of the piece, one byte a row, where the loss is piecewise linear."""
        parts = []
        for (term, part), table in zip(self.model.form.losses.slices(), self._tables):
            if table is None:
                parts.append(slopes[part].copy())
            else:
                assert isinstance(term.loss, PLQ)
                parts.append(np.searchsorted(term.loss.breakpoints, v[part], side="right").astype(np.uint8))
        return tuple(parts)


def _slopes_of_pieces(term: LossTerm) -> FloatArray | None:
    loss = term.loss
    if isinstance(loss, PLQ) and not np.any(loss.coefficients[:, 0]) and len(loss.coefficients) < 256:
        return np.asarray(loss.coefficients[:, 1])
    return None
