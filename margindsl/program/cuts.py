"""Linear inequalities on the label matrix: triangles of signs, and the least inner product of k cluster codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.host.frozen import freeze_fields
from margindsl.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class MatrixCuts:
    """Represent K inequalities Σ_q t_kq M_ij ≥ −1, some of them equalities, on a symmetric matrix M.

    Their multipliers τ enter the dual as −½Στ and the matrix inequality as −ΣτT; those of inequalities are
    non-negative. Cuts of fewer entries than others repeat the last one with a coefficient of zero.

    Parameters
    ----------
    rows, columns : (K, q) int arrays
        The entries.
    products : (K, q) float array
        Their coefficients.
    equal : (K,) bool array
        Which cuts are equalities.
    """

    rows: IntArray
    columns: IntArray
    products: FloatArray
    equal: BoolArray

    def __post_init__(self) -> None:
        freeze_fields(self)

    @classmethod
    def none(cls) -> MatrixCuts:
        """Return no cuts."""
        entries = np.zeros((0, 1), dtype=int)
        return cls(entries, entries, np.zeros((0, 1)), np.zeros(0, dtype=bool))

    @classmethod
    def triangles(cls, triples: IntArray, signs: IntArray) -> MatrixCuts:
        """Return s_ij M_ij + s_ik M_ik + s_jk M_jk ≥ −1 with s_ij = s_i s_j.

        It is (s_i z_i + s_j z_j + s_k z_k)² ≥ 1, true of signs, whose sum is odd, and where the three signs are not
        all the same of the unit codes of k clusters: |c_i + c_j − c_k|² is 1 where c_k is one of the others, and more
        where it is not: 3 + 2(⟨c_i, c_j⟩ + 2/(k−1)).

        Parameters
        ----------
        triples : (K, 3) int array
            The components i, j, k, all different.
        signs : (K, 3) int array
            ±1.
        """
        if triples.ndim != 2 or triples.shape[1:] != (3,) or signs.shape != triples.shape:
            raise DeclarationError(
                f"triangle cuts: given triples of shape {triples.shape} and signs of shape "
                f"{signs.shape}, expected (K, 3) both")
        i, j, k = triples.T
        if np.any((i == j) | (i == k) | (j == k)) or np.any(np.abs(signs) != 1):
            raise DeclarationError("a triangle cut takes three different components and signs of -1 or +1")
        order = np.argsort(triples, axis=1)
        triples, signs = np.take_along_axis(triples, order, 1), np.take_along_axis(signs, order, 1)
        first, second = [0, 0, 1], [1, 2, 2]
        return cls(triples[:, first], triples[:, second], (signs[:, first] * signs[:, second]).astype(float),
                   np.zeros(len(triples), dtype=bool))

    @classmethod
    def codes(cls, clusters: int, rows: IntArray, columns: IntArray, apart: BoolArray) -> MatrixCuts:
        """Return (k−1) M_ij ≥ −1, and = −1 for components that must differ, true of inner products of codes.

        The k unit code vectors of a simplex have inner products −1/(k−1), so that M_ij ∈ {1, −1/(k−1)}.

        Parameters
        ----------
        clusters : int
            The number k of clusters.
        rows, columns : (K,) int arrays
            The components i < j.
        apart : (K,) bool array
            Which pairs must lie in different clusters.
        """
        if not rows.shape == columns.shape == apart.shape == (len(rows),):
            raise DeclarationError("cuts of code products: rows, columns and apart have one entry a cut")
        if np.any(rows >= columns):
            raise DeclarationError("a cut of code products takes a pair of components i < j")
        return cls(rows[:, None], columns[:, None], np.full((len(rows), 1), clusters - 1.0), np.array(apart))

    @property
    def count(self) -> int:
        """Return the number K of cuts."""
        return len(self.rows)

    def of_width(self, width: int) -> MatrixCuts:
        """Return the same cuts with at least so many entries each."""
        more = width - self.rows.shape[1]
        if more <= 0:
            return self
        rows, columns = (np.hstack([entries, np.repeat(entries[:, -1:], more, axis=1)])
                         for entries in (self.rows, self.columns))
        return MatrixCuts(rows, columns, np.hstack([self.products, np.zeros((self.count, more))]), self.equal)

    def take(self, index: IntArray) -> MatrixCuts:
        """Return some of the cuts."""
        return MatrixCuts(self.rows[index], self.columns[index], self.products[index], self.equal[index])

    def joined(self, other: MatrixCuts) -> MatrixCuts:
        """Return the cuts of both, each once; an equality replaces the inequality."""
        width = max(self.rows.shape[1], other.rows.shape[1])
        one, two = self.of_width(width), other.of_width(width)
        both = MatrixCuts(np.vstack([one.rows, two.rows]), np.vstack([one.columns, two.columns]),
                          np.vstack([one.products, two.products]), np.append(one.equal, two.equal))
        order = np.argsort(~both.equal, kind="stable")
        _, first = np.unique(np.hstack([both.rows, both.columns, both.products])[order], axis=0, return_index=True)
        return both.take(np.sort(order[first]))

    def values(self, M: FloatArray) -> FloatArray:
        """Return the (K,) left sides at a matrix M (N, N)."""
        return np.asarray(np.sum(self.products * M[self.rows, self.columns], axis=1))

    def factor_values(self, V: FloatArray) -> FloatArray:
        """Return the (K,) left sides at M = VVᵀ, V of shape (N, p)."""
        return np.einsum("kq,kqp,kqp->k", self.products, V[self.rows], V[self.columns])

    def adjoint(self, tau: FloatArray, count: int) -> FloatArray:
        """Return the symmetric (N, N) matrix Σ τ_k T_k, with ⟨T_k, M⟩ the left side of cut k."""
        out = np.zeros((count, count))
        np.add.at(out, (self.rows, self.columns), 0.5 * tau[:, None] * self.products)
        return out + out.T

    def admissible(self, tau: FloatArray | None) -> FloatArray:
        """Return multipliers with the negative ones of inequalities raised to zero; zeros when none are given."""
        if tau is None:
            return np.zeros(self.count)
        tau = np.asarray(tau, dtype=float)
        return np.where(self.equal, tau, np.maximum(tau, 0.0))

    def key(self) -> tuple[bytes, ...]:
        """Return a key of the cuts."""
        return tuple(part.tobytes() for part in (self.rows, self.columns, self.products, self.equal))

    def check(self, count: int) -> None:
        """Raise unless the cuts name components below a count."""
        if self.count and not (min(self.rows.min(), self.columns.min()) >= 0
                               and max(self.rows.max(), self.columns.max()) < count):
            raise DeclarationError(f"a cut names components outside 0..{count - 1}")
