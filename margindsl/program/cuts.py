"""Linear inequalities on the label matrix: triangles of signs, and the least inner product of k cluster codes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.frozen import freeze_fields
from margindsl.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class MatrixCuts(ABC):
    """Represent K inequalities ⟨T_k, M⟩ ≥ −1, some of them equalities, on a symmetric matrix M.

    Their multipliers τ enter the dual as −½Στ and the matrix inequality as −ΣτT; those of inequalities are
    non-negative.
    """

    @property
    @abstractmethod
    def count(self) -> int:
        """Return the number K of cuts."""

    @abstractmethod
    def products(self) -> FloatArray:
        """Return the (K, q) coefficients of the entries."""

    @abstractmethod
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Return the (K, q) rows and columns of the entries."""

    @abstractmethod
    def take(self, index: IntArray) -> MatrixCuts:
        """Return some of the cuts."""

    @abstractmethod
    def joined(self, other: Any) -> MatrixCuts:
        """Return the cuts of both, of one kind, each once."""

    @property
    def equal(self) -> BoolArray:
        """Return which of the cuts are equalities, shape (K,)."""
        return np.zeros(self.count, dtype=bool)

    @property
    @abstractmethod
    def noun(self) -> str:
        """Return what the cuts are called."""

    def values(self, M: FloatArray) -> FloatArray:
        """Return the (K,) left sides at a matrix M (N, N)."""
        rows, columns = self.pairs()
        return np.sum(self.products() * M[rows, columns], axis=1)

    def factor_values(self, V: FloatArray) -> FloatArray:
        """Return the (K,) left sides at M = VVᵀ, V of shape (N, p)."""
        rows, columns = self.pairs()
        return np.einsum("kq,kqp,kqp->k", self.products(), V[rows], V[columns])

    def adjoint(self, tau: FloatArray, count: int) -> FloatArray:
        """Return the symmetric (N, N) matrix Σ τ_k T_k, with ⟨T_k, M⟩ the left side of cut k."""
        out = np.zeros((count, count))
        rows, columns = self.pairs()
        np.add.at(out, (rows, columns), 0.5 * tau[:, None] * self.products())
        return out + out.T

    def admissible(self, tau: FloatArray | None) -> FloatArray:
        """Return multipliers with the negative ones of inequalities raised to zero; zeros when none are given."""
        if tau is None:
            return np.zeros(self.count)
        tau = np.asarray(tau, dtype=float)
        return np.where(self.equal, tau, np.maximum(tau, 0.0))

    def key(self) -> tuple[bytes, ...]:
        """Return a key of the cuts."""
        rows, columns = self.pairs()
        return (rows.tobytes(), columns.tobytes(), self.products().tobytes(), self.equal.tobytes())

    def check(self, count: int) -> None:
        """Raise unless the cuts name components below a count.

        Raises
        ------
        DeclarationError
        """
        rows, columns = self.pairs()
        if rows.size and not (min(rows.min(), columns.min()) >= 0 and max(rows.max(), columns.max()) < count):
            raise DeclarationError(f"a {self.noun} cut names components outside 0..{count - 1}")


@dataclass(frozen=True, eq=False)
class TriangleCuts(MatrixCuts):
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
        freeze_fields(self)

    @classmethod
    def none(cls) -> TriangleCuts:
        """Return no cuts."""
        return cls(np.zeros((0, 3), dtype=int), np.ones((0, 3), dtype=int))

    @property
    def noun(self) -> str:
        """Return "triangle"."""
        return "triangle"

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
class CodeCuts(MatrixCuts):
    """Represent (k−1) M_ij ≥ −1, and = −1 for components that must differ, true of inner products of codes.

    The k unit code vectors of a simplex have inner products −1/(k−1), so that M_ij ∈ {1, −1/(k−1)}.

    Parameters
    ----------
    clusters : int
        The number k of clusters.
    rows, columns : (K,) int arrays
        The components i < j.
    apart : (K,) bool array
        Which pairs must lie in different clusters.

    Raises
    ------
    DeclarationError
        If the shapes differ or a component is paired with itself.
    """

    clusters: int
    rows: IntArray
    columns: IntArray
    apart: BoolArray

    def __post_init__(self) -> None:
        if not self.rows.shape == self.columns.shape == self.apart.shape == (len(self.rows),):
            raise DeclarationError("cuts of code products: rows, columns and apart have one entry a cut")
        if np.any(self.rows >= self.columns):
            raise DeclarationError("a cut of code products takes a pair of components i < j")
        freeze_fields(self)

    @property
    def noun(self) -> str:
        """Return "code product"."""
        return "code product"

    @property
    def count(self) -> int:
        """Return the number K of cuts."""
        return len(self.rows)

    @property
    def equal(self) -> BoolArray:
        """Return which cuts are equalities."""
        return self.apart

    def products(self) -> FloatArray:
        """Return the (K, 1) coefficients k − 1."""
        return np.full((self.count, 1), self.clusters - 1.0)

    def pairs(self) -> tuple[IntArray, IntArray]:
        """Return the (K, 1) rows and columns."""
        return self.rows[:, None], self.columns[:, None]

    def take(self, index: IntArray) -> CodeCuts:
        """Return some of the cuts."""
        return CodeCuts(self.clusters, self.rows[index], self.columns[index], self.apart[index])

    def joined(self, other: CodeCuts) -> CodeCuts:
        """Return the cuts of both, each pair once; an equality replaces the inequality."""
        rows, columns = np.append(self.rows, other.rows), np.append(self.columns, other.columns)
        apart = np.append(self.apart, other.apart)
        order = np.argsort(~apart, kind="stable")
        pairs = np.column_stack([rows, columns])[order]
        _, first = np.unique(pairs, axis=0, return_index=True)
        chosen = np.sort(order[first])
        return CodeCuts(self.clusters, rows[chosen], columns[chosen], apart[chosen])
