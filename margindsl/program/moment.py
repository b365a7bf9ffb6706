"""The label lift tightened: second moments of the margins, and linear inequalities on the label matrix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from margindsl.calculus import PLQ
from margindsl.errors import DeclarationError
from margindsl.program.answers import Variable
from margindsl.program.cuts import MatrixCuts
from margindsl.program.forms import LabelLiftForm
from margindsl.typing import FloatArray


@dataclass(frozen=True, eq=False)
class MomentLiftForm(LabelLiftForm):
    """Represent the label lift with second moments z_i = φ_iᵀPφ_i of the margins, and cuts.

    With [[M, N], [Nᵀ, P]] ⪰ 0 the lift of (z, w) and g_i = t_iφ_iᵀN_C(i), the loss ρ(g) of the label lift becomes
    the least value over (g, z) of the convex hull of the points (t, t², ρ(t)): tighter for two-sided losses.

    Dual: max Σ_r D_r(u_r, q_r) − ½(Σd + Σκβ² + Σηℓ² + Στ) over u, q, d and κ, η, τ ≥ 0 (τ free where a
    cut is an equality), where
    D_r(u, q) = inf_t c_rρ_r(t) + ut − ½qt² and Diag(d) + Σκω̃ω̃ᵀ − ΣτT − HP⁻¹Hᵀ ⪰ 0, H = AᵀDiag(ũ)Φ,
    P = I (0 for a free bias) + ΦᵀDiag(q̃)Φ + Σησσᵀ ≻ 0.

    A solver returns ``u``, ``q`` (m,), ``d`` (N,), ``kappa`` (J,), ``eta`` (L,), ``tau`` (K,) and ``M`` (N, N).

    Parameters
    ----------
    cuts : MatrixCuts
        Triangles of signs, or products and triangles of codes of k clusters.
    moments : bool
        Whether q is used; without it the form is the label lift with cuts, and takes any loss.
    """

    has_cuts: ClassVar[bool] = True
    recurs: ClassVar[bool] = False  # cuts differ from round to round

    cuts: MatrixCuts = field(default_factory=MatrixCuts.none)
    moments: bool = True

    @property
    def lifts_moments(self) -> bool:
        return self.moments

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cuts.check(self.count)
        if not self.moments:
            return
        for term in self.losses.terms:
            if np.any(term.slopes != 1.0) or np.any(term.shifts != 0.0) or term.coupling.shape[1]:
                raise DeclarationError("a moment lift takes losses of the margin itself: no slopes, shifts or scalars")
            if not isinstance(term.loss, PLQ):
                raise DeclarationError(f"a moment lift takes piecewise quadratic losses, not {term.loss!r}")

    def variables(self) -> dict[str, Variable]:
        cuts = Variable((self.cuts.count,), needed=False, least=np.where(self.cuts.equal, -np.inf, 0.0))
        return super().variables() | {"q": Variable((self.losses.rows,), needed=False), "tau": cuts}

    def lifted_value(self, u: FloatArray, V: FloatArray) -> float:
        return np.inf if self.moments else super().lifted_value(u, V)

    def structure(self) -> tuple[Any, ...]:
        return (*super().structure(), self.moments, *self.cuts.key())

    def size(self) -> dict[str, int]:
        return super().size() | {"cuts": self.cuts.count}
