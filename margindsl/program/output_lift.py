"""The label lift of the squared hinge written in its outputs (Valizadegan and Jin 2006)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.calculus import PLQ
from margindsl.errors import CalculusError, DeclarationError
from margindsl.program.absorption import absorbed_terms
from margindsl.program.answers import Variable
from margindsl.program.forms import LabelLiftForm
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray

SQUARED_HINGE = PLQ([1.0], [[1.0, -2.0, 1.0], [0.0, 0.0, 0.0]])


def hinge_weights(losses: Losses) -> FloatArray | None:
    """Return the (n,) weights c of Σ c_i (1 − γ_i)₊², or None when a loss is anything else."""
    try:
        terms = absorbed_terms(losses).terms
    except CalculusError:
        return None
    total = np.zeros(losses.n)
    for term in terms:
        factor = float(term.loss(0.0))
        if not (isinstance(term.loss, PLQ) and factor > 0 and term.loss.isclose(factor * SQUARED_HINGE)):
            return None
        total += factor * np.bincount(term.points, weights=term.weights, minlength=losses.n)
    return total


@dataclass(frozen=True, eq=False)
class OutputLiftForm(LabelLiftForm):
    """Represent generalised maximum margin clustering: signed outputs v with v_i² ≥ 1, lifted.

    For the squared hinge a slack moves the output, v_i = f_i + y_i ξ_i, and min over w, b of the objective is
    ½ (v − be)ᵀ K_c⁻¹ (v − be) with K_c = K + Diag(1/2c). The labels remain as v_i² ≥ 1 alone, and the Lagrangian
    dual has one variable a point:
    max ½ Σγ − ½ Σ_l η_l ℓ_l² over γ, η ≥ 0 with PᵀK_c⁻¹P + Σ η_l σ_lσ_lᵀ ⪰ Diag(γ, 0), P = [I, −e].
    The bounds |Σ a f| ≤ ℓ_l stand for the soft term C_e (eᵀv)² of the paper.

    It is a label lift with nothing coupled but by the hyperplane, of the same value, u = γ and d = γ − γ²/2c.

    A solver returns ``u`` (n,), ``d`` (n,), ``kappa`` (0,), ``eta`` (L,), ``M`` (n, n) or ``V`` (n, p), and may
    return ``v`` (n,), the outputs in the null space of the dual's matrix.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if hinge_weights(self.losses) is None:
            raise DeclarationError("an output lift takes squared hinge losses of the margin only")
        if self.balance or self.reference is not None or not np.array_equal(self.component, np.arange(self.n)):
            raise DeclarationError("an output lift has one free label a point: no links, label bounds or known labels")

    @classmethod
    def of_program(cls, program: MarginProgram) -> OutputLiftForm:
        """Return the form of a program, label constraints left out; rows are merged to one a point."""
        merged, points = merge_rows(program.losses), np.arange(program.n)
        return cls(program.features, merged, points, np.ones(program.n, dtype=int), program.n,
                   decision=program.lifted_decision, free_bias=program.free_bias)

    def variables(self) -> dict[str, Variable]:
        return super().variables() | {"v": Variable((self.n,), needed=False)}

    @property
    def weights(self) -> FloatArray:
        """Return the (n,) weights c."""
        return np.asarray(hinge_weights(self.losses))

    @property
    def kept(self) -> IntArray:
        """Return the points that carry a loss."""
        return np.flatnonzero(self.weights > 0)


def merge_rows(losses: Losses) -> Losses:
    """Return Σ c_i (1 − γ_i)₊² with one row a point."""
    weights = hinge_weights(losses)
    if weights is None:
        raise DeclarationError("an output lift takes squared hinge losses of the margin only")
    n = losses.n
    term = LossTerm(SQUARED_HINGE, np.arange(n), weights, np.ones(n), np.zeros(n), np.zeros((n, 0)))
    return Losses(n, (term,), SharedScalars.none())
