"""The label lift tightened: second moments of the margins, and triangle inequalities on the label matrix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from margindsl.calculus import PLQ
from margindsl.errors import DeclarationError
from margindsl.program.forms import LabelLiftForm
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class TriangleCuts:
    """Represent K inequalities s_ij M_ij + s_ik M_ik + s_jk M_jk ≥ −1 with s_ij = s_i s_j, true of M = zzᵀ.

    Parameters
    ----------
    triples : (K, 3) int array
        The components i, j, k, all different.
    signs : (K, 3) int array
        The signs s_i, s_j, s_k = ±1; the sum (s_i z_i + s_j z_j + s_k z_k)² is odd, hence at least one.

    Raises
    ------
    DeclarationError
        If the shapes differ, a component is repeated, or a sign is not ±1.
    """

    triples: IntArray
    signs: IntArray

    def __post_init__(self) -> None:
        if self.triples.ndim != 2 or self.triples.shape[1:] != (3,) or self.signs.shape != self.triples.shape:
            raise DeclarationError(
                f"triangle cuts: given triples of shape {self.triples.shape} and signs of shape "
                f"{self.signs.shape}, expected (K, 3) both")
        i, j, k = self.triples.T
        if np.any((i == j) | (i == k) | (j == k)) or np.any(np.abs(self.signs) != 1):
            raise DeclarationError("a triangle cut takes three different components and signs of -1 or +1")

    @classmethod
    def none(cls) -> TriangleCuts:
        """Return no cuts."""
        return cls(np.zeros((0, 3), dtype=int), np.ones((0, 3), dtype=int))

    @property
    def count(self) -> int:
        """Return the number K of cuts."""
        return len(self.triples)

    def products(self) -> FloatArray:
        """Return the (K, 3) coefficients s_ij, s_ik, s_jk."""
        s = self.signs.astype(float)
        return np.stack([s[:, 0] * s[:, 1], s[:, 0] * s[:, 2], s[:, 1] * s[:, 2]], axis=1)

    def pairs(self) -> tuple[IntArray, IntArray]:
        """Return the (K, 3) rows and columns of the entries ij, ik, jk."""
        return self.triples[:, [0, 0, 1]], self.triples[:, [1, 2, 2]]

    def values(self, M: FloatArray) -> FloatArray:
        """Return the (K,) left sides at a matrix M (N, N)."""
        rows, columns = self.pairs()
        return np.sum(self.products() * M[rows, columns], axis=1)

    def adjoint(self, tau: FloatArray, count: int) -> FloatArray:
        """Return the symmetric (N, N) matrix Σ τ_k T_k, with ⟨T_k, M⟩ the left side of cut k."""
        out = np.zeros((count, count))
        rows, columns = self.pairs()
        np.add.at(out, (rows, columns), 0.5 * tau[:, None] * self.products())
        return out + out.T

    def take(self, index: IntArray) -> TriangleCuts:
        """Return some of the cuts."""
        return TriangleCuts(self.triples[index], self.signs[index])

    def joined(self, other: TriangleCuts) -> TriangleCuts:
        """Return the cuts of both, each once; signs count up to a common flip."""
        triples, signs = np.vstack([self.triples, other.triples]), np.vstack([self.signs, other.signs])
        order = np.argsort(triples, axis=1)
        triples, signs = np.take_along_axis(triples, order, 1), np.take_along_axis(signs, order, 1)
        signs = signs * signs[:, :1]
        _, first = np.unique(np.hstack([triples, signs]), axis=0, return_index=True)
        return TriangleCuts(triples[np.sort(first)], signs[np.sort(first)])


@dataclass(frozen=True, eq=False)
class MomentLiftForm(LabelLiftForm):
    """Represent the label lift with second moments z_i = φ_iᵀPφ_i of the margins, and triangle cuts.

    With [[M, N], [Nᵀ, P]] ⪰ 0 the lift of (z, w) and g_i = t_iφ_iᵀN_C(i), the loss ρ(g) of the label lift becomes
    the least value over (g, z) of the convex hull of the points (t, t², ρ(t)): tighter for two-sided losses.

    Dual: max Σ_r D_r(u_r, q_r) − ½(Σd + Σκβ² + Σηℓ² + Στ) over u, q, d and κ, η, τ ≥ 0, where
    D_r(u, q) = inf_t c_rρ_r(t) + ut − ½qt² and Diag(d) + Σκω̃ω̃ᵀ − ΣτT − HP⁻¹Hᵀ ⪰ 0, H = AᵀDiag(ũ)Φ,
    P = I (0 for a free bias) + ΦᵀDiag(q̃)Φ + Σησσᵀ ≻ 0.

    A solver returns ``u``, ``q`` (m,), ``d`` (N,), ``kappa`` (J,), ``eta`` (L,), ``tau`` (K,) and ``M`` (N, N).

    Parameters
    ----------
    cuts : TriangleCuts
    moments : bool
        Whether q is used; without it the form is the label lift with cuts, and takes any loss.

    Raises
    ------
    DeclarationError
        If moments are asked of rows with slopes, shifts or scalars, or of losses that are not piecewise quadratic.
    """

    recurs: ClassVar[bool] = False  # cuts differ from round to round

    cuts: TriangleCuts = field(default_factory=TriangleCuts.none)
    moments: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cuts.count and not 0 <= self.cuts.triples.min() <= self.cuts.triples.max() < self.count:
            raise DeclarationError(f"a triangle cut names components outside 0..{self.count - 1}")
        if not self.moments:
            return
        for term in self.losses.terms:
            if np.any(term.slopes != 1.0) or np.any(term.shifts != 0.0) or term.coupling.shape[1]:
                raise DeclarationError("a moment lift takes losses of the margin itself: no slopes, shifts or scalars")
            if not isinstance(term.loss, PLQ):
                raise DeclarationError(f"a moment lift takes piecewise quadratic losses, not {term.loss!r}")

    def structure(self) -> tuple[Any, ...]:
        """Return the key of a form, cuts included."""
        return (*super().structure(), self.moments, self.cuts.triples.tobytes(), self.cuts.signs.tobytes())

    def size(self) -> dict[str, int]:
        """Return the sizes `explain` prints."""
        return super().size() | {"triangle cuts": self.cuts.count}
