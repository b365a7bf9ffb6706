"""Losses with kinks replaced by shifted Moreau envelopes: an augmented Lagrangian in the margins."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from margindsl.program.losses import Losses
from margindsl.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Represent losses made smooth around multipliers m of the rows.

    A kinked ρ enters as e(v + step·m), e its Moreau envelope: the augmented Lagrangian of the splitting
    ρ(t), t = v, whose multiplier is m = e'(v + step·m) at the next round (an exact subgradient of ρ).
    """

    losses: Losses  # the smooth stand-in, in the same rows
    exact: Losses
    step: float  # zero when the losses are smooth already

    @classmethod
    def build(cls, losses: Losses, step: float) -> Smoothed:
        """Return the losses smoothed around zero multipliers."""
        if losses.is_smooth:
            return cls(losses, losses, 0.0)
        terms = tuple(t if t.loss.is_smooth else replace(t, loss=t.loss.envelope(step)) for t in losses.terms)
        return cls(Losses(losses.n, terms, losses.scalars), losses, step)

    def advance(self, margins: FloatArray, scalars: FloatArray) -> Smoothed:
        """Return the losses around the multipliers found at some margins and scalars."""
        if self.step == 0:
            return self
        terms = []
        for term, exact in zip(self.losses.terms, self.exact.terms):
            if exact.loss.is_smooth:
                terms.append(term)
                continue
            v = margins[term.points] * term.slopes + term.shifts + term.coupling @ scalars
            slope = np.asarray(term.loss.derivative(v))
            terms.append(replace(term, shifts=exact.shifts + self.step * slope))
        return replace(self, losses=Losses(self.losses.n, tuple(terms), self.losses.scalars))

    def sharpen(self, factor: float) -> Smoothed:
        """Return the same multipliers with another envelope step."""
        if self.step == 0:
            return self
        step = self.step * factor
        terms = tuple(
            t if e.loss.is_smooth else replace(
                t, loss=e.loss.envelope(step), shifts=e.shifts + (t.shifts - e.shifts) * factor)
            for t, e in zip(self.losses.terms, self.exact.terms))
        return Smoothed(Losses(self.losses.n, terms, self.losses.scalars), self.exact, step)
