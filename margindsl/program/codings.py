"""What margins mean: products with the codes of labels, or Crammer-Singer's against the strongest other cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from margindsl.errors import CalculusError
from margindsl.labelset.codes import contrasts, simplex_codes
from margindsl.program.absorption import absorb_labels
from margindsl.program.bounds import DecisionBound
from margindsl.program.clusters import ClusterForm
from margindsl.program.codes import runner_up
from margindsl.program.forms import FixedLabelForm
from margindsl.program.losses import Losses
from margindsl.program.split import falling_losses, falling_parts, simplex_losses, stretch, whole_duals
from margindsl.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from margindsl.program.program import MarginProgram

NOBODY = -2  # no label


class Coding(ABC):
    """Say how decision values f = Φ V Cᵀ (n, k), labels and margins go together, and which forms that makes."""

    @abstractmethod
    def codes(self, clusters: int) -> FloatArray:
        """Return the codes C (k, q) that turn V into decision values."""

    @abstractmethod
    def fixed(self, program: MarginProgram, labels: IntArray, runner: IntArray | None) -> Any:
        """Return the form left when the labels are fixed; rising losses are majorised at a runner-up given."""

    def absorbed(self, program: MarginProgram) -> Losses:
        """Return the losses of a majorant that no longer depends on the labels where it can."""
        return program.losses

    def majorant(self, program: MarginProgram, losses: Losses, labels: IntArray,
                 decision: FloatArray | None = None) -> Any:
        """Return the form of `absorbed` losses that touches the objective at labels and decision values."""
        runner = None if decision is None else runner_up(decision, labels)
        return self.fixed(program if losses is program.losses else replace(program, losses=losses), labels, runner)

    def bounding(self, program: MarginProgram) -> MarginProgram:
        """Return a program of coded margins, whose values are no higher; this one, unless it says otherwise."""
        return program

    def own_duals(self, program: MarginProgram, u: FloatArray) -> FloatArray:
        """Return duals (…, m) of the margins of a program, or of its rows with scalars, of those of `bounding`."""
        return u

    def by_length(self, program: MarginProgram) -> Losses:
        """Return losses of the length of Vᵀφ, which no coded margin exceeds either way, that bound the best label's."""
        return falling_losses(program.bounding.losses, opposed=1.0)

    def obstacle(self, program: MarginProgram) -> str:
        """Return why the losses of a program do not go with the margins, nothing where they do."""
        return ""

    def is_convex(self, program: MarginProgram) -> bool:
        """Return whether the problem left when labels are fixed is convex."""
        return True

    @abstractmethod
    def margin_table(self, decision: FloatArray) -> FloatArray:
        """Return the (n, k) margins every point would have in every cluster."""

    def margins(self, labels: IntArray, decision: FloatArray) -> FloatArray:
        """Return the (n,) margins of labels at decision values (n, k)."""
        return np.asarray(self.margin_table(decision)[np.arange(len(decision)), labels])

    def rivals(self, labels: IntArray, decision: FloatArray) -> IntArray:
        """Return the (n,) clusters that margins are against; none is."""
        return np.full(len(labels), NOBODY)

    @abstractmethod
    def directions(self, labels: IntArray, rivals: IntArray, codes: FloatArray) -> FloatArray:
        """Return the (…, n, q) gradients in Vᵀφ of the margins of labels with some `rivals` (…, n)."""


class Coded(Coding):
    """Margins ⟨c_y, Vᵀφ⟩ of k unit codes with inner products −1/(k−1); of two clusters, with codes −1 and +1, y f."""

    def codes(self, clusters: int) -> FloatArray:
        return simplex_codes(clusters)

    def fixed(self, program: MarginProgram, labels: IntArray, runner: IntArray | None) -> FixedLabelForm:
        return FixedLabelForm(program.features, program.losses, labels, codes=program.codes,
                              decision=program.decision, free_bias=program.free_bias)

    def absorbed(self, program: MarginProgram) -> Losses:
        """Return ρ↓(γ) + ρ↑(|γ|) where the best margin is |f|, as of two clusters, else the losses as they are."""
        return absorb_labels(program.losses) if program.clusters == 2 else program.losses

    def by_length(self, program: MarginProgram) -> Losses:
        return program.losses if program.clusters == 2 else super().by_length(program)

    def margin_table(self, decision: FloatArray) -> FloatArray:
        return decision

    def directions(self, labels: IntArray, rivals: IntArray, codes: FloatArray) -> FloatArray:
        return np.asarray(codes[labels])


class CrammerSinger(Coding):
    """Margins f_y − max over q ≠ y of f_q.

    References
    ----------
    K. Crammer, Y. Singer (2001). On the algorithmic implementation of multiclass kernel-based vector machines.

    Examples
    --------
    >>> CrammerSinger().margin_table(np.array([[3.0, 1.0, 0.0]])).tolist()
    [[2.0, -2.0, -3.0]]
    """

    def fixed(self, program: MarginProgram, labels: IntArray, runner: IntArray | None) -> ClusterForm:
        return ClusterForm(program.features, program.losses, labels, program.split, runner, codes=program.codes,
                           decision=program.decision, free_bias=program.free_bias)

    def bounding(self, program: MarginProgram) -> MarginProgram:
        factor = stretch(program.clusters)
        decision = tuple(DecisionBound(b.weights, factor * b.lower, factor * b.upper) for b in program.decision)
        return replace(program, losses=simplex_losses(program.losses, program.clusters), decision=decision,
                       coding="simplex")

    def own_duals(self, program: MarginProgram, u: FloatArray) -> FloatArray:
        u = np.maximum(u, 0.0)
        if not program.losses.scalars.count:
            return u / stretch(program.clusters)
        return whole_duals(falling_parts(program.losses), u.T, program.losses.rows).T

    def obstacle(self, program: MarginProgram) -> str:
        try:
            program.split  # noqa: B018  (computed once and kept)
        except CalculusError as error:
            return str(error)
        return ""

    def is_convex(self, program: MarginProgram) -> bool:
        return not program.split.rising.rows

    def codes(self, clusters: int) -> FloatArray:
        """Return an orthonormal basis of the contrasts.

        At an optimum Σ_p w_p = 0, since the margins see differences only, and then ‖V‖ = ‖W‖.
        """
        return contrasts(clusters)

    def rivals(self, labels: IntArray, decision: FloatArray) -> IntArray:
        return runner_up(decision, labels)

    def directions(self, labels: IntArray, rivals: IntArray, codes: FloatArray) -> FloatArray:
        return np.asarray(codes[labels] - codes[rivals])

    def margin_table(self, decision: FloatArray) -> FloatArray:
        everyone, best, rest = np.arange(len(decision)), decision.argmax(axis=1), np.array(decision)
        rest[everyone, best] = -np.inf
        table = decision - decision[everyone, best][:, None]
        table[everyone, best] = decision[everyone, best] - rest.max(axis=1)
        return table


CODINGS: dict[str, Coding] = {"binary": Coded(), "simplex": Coded(), "crammer-singer": CrammerSinger()}

__all__ = ["CODINGS", "NOBODY", "Coded", "Coding", "CrammerSinger"]
