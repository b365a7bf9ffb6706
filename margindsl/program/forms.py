"""The standard forms solvers see: frozen, shape-checked, able to judge a solution by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from margindsl.labelset.codes import simplex_codes
from margindsl.program.answers import Variable
from margindsl.program.form import Form
from margindsl.program.labelled import FixedLabelForm
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SaddleForm(Form):
    """Represent the minimax master problem over a working set of T labellings, each with a bias b_k.

    min over μ ∈ Δ of max over u of Σ_k μ_k G(u, y_k, b_k), subject to Σ b_r u_r = q (Li et al. 2009; ODMC Eq. 7),
    G(u, y, b) = −Σ cρ*(−u/c) − uᵀd − ½‖Σ_i ũ_i c(y_i) ⊗ φ_i‖² − ⟨b, Σ_i ũ_i c(y_i)⟩, the same as
    min ½Σ‖w_k‖²/μ_k + qᵀs + Σ cρ(Σ_k ⟨w_k, c(y_k,i) ⊗ φ_i⟩ + μ_k⟨b_k, c(y_k,i)⟩), which without biases is
    ½(Σ‖w_k‖)² + … .
    A bias within limits is a mixture of their corners: max over b of −Σ_i ũ_i⟨b, c(y_i)⟩ is met there. G is the same
    where clusters exchange names.

    A solver returns ``mu`` (T,), ``u`` (m,) and optionally ``W`` (q r, T), ``scalars`` (S,).

    Parameters
    ----------
    labellings : (T, n) int array
        The working set, 0..k−1.
    biases : (T, q) float array, optional
        The bias of each labelling in the coordinates of codes; zero when left out.
    codes : (k, q) float array
        Those of labels as rows; of two clusters when left out.
    """

    labellings: IntArray
    biases: FloatArray = field(default_factory=lambda: np.zeros(0))
    codes: FloatArray = field(default_factory=partial(simplex_codes, 2), kw_only=True)
    width: int = field(init=False)  # q, coordinates of a code
    count: int = field(init=False)  # T
    is_biased: bool = field(init=False)  # whether a labelling has a bias

    def __post_init__(self) -> None:
        width, count, is_biased = self.codes.shape[1], len(self.labellings), bool(np.any(self.biases))
        biases = np.reshape(self.biases, (len(self.biases), -1)) if is_biased else np.zeros((count, width))
        vars(self).update(width=width, count=count, is_biased=is_biased, biases=biases)
        super().__post_init__()

    def coded(self, index: Any = slice(None)) -> FloatArray | IntArray:
        """Return (T q, n) coordinates of the codes of all labellings or some, those of one labelling together."""
        return code_rows(self.labellings[index], self.codes)

    def variables(self) -> dict[str, Variable]:
        return {"mu": Variable((self.count,), least=0.0, total=1.0, grows=True),
                "u": Variable((self.losses.rows,)),
                "W": Variable((self.features.rank * self.width, self.count), needed=False, grows=True),
                "scalars": Variable((self.losses.scalars.count,), needed=False)}

    def bracket(self, answer: Mapping[str, FloatArray]) -> tuple[float, float]:
        W, scalars = answer.get("W"), answer.get("scalars")
        if W is None or (scalars is None and self.losses.scalars.count):
            return self.dual_objective(answer["u"]), np.inf
        return self.dual_objective(answer["u"]), self.primal_objective(W, scalars, answer["mu"])

    def structure(self) -> tuple[Any, ...]:
        return (*(super().structure() or ()), self.width, self.is_biased)

    def directions(self, u: FloatArray) -> FloatArray:
        """Return the (q r, T) columns Σ_i ũ_i c(y_k,i) ⊗ φ_i."""
        return stacked(self.features.adjoint((self.coded() * self.losses.scatter(u)).T), self.width)

    def dual_objective(self, u: FloatArray) -> float:
        """Return min_k G(u, y_k, b_k), a lower bound of the master's value where u satisfies Σ b_r u_r = q."""
        costs = 0.5 * np.sum(self.directions(u) ** 2, axis=0)
        if self.is_biased:
            sums = (self.coded() @ self.losses.scatter(u)).reshape(self.biases.shape)
            costs = costs + np.sum(self.biases * sums, axis=1)
        return -self.losses.conjugate_value(u) - float(costs.max())

    def primal_objective(self, W: FloatArray, scalars: FloatArray | None = None, mu: FloatArray | None = None) -> float:
        """Return ½Σ‖w_k‖²/μ_k + qᵀs + Σ cρ(v), an upper bound of the master's value, at the best μ without biases."""
        columns = np.ascontiguousarray(W.T).reshape(-1, self.features.rank).T
        margins = np.einsum("kn,nk->n", self.coded(), self.features.apply(columns))
        lengths = np.linalg.norm(W, axis=0)
        if not self.is_biased or mu is None:
            return np.inf if self.is_biased else 0.5 * float(lengths.sum()) ** 2 + self.losses.value(margins, scalars)
        with np.errstate(divide="ignore"):
            square = float(np.sum(np.divide(lengths**2, mu, out=np.zeros(self.count), where=lengths > 0)))
        offsets = (mu[:, None] * self.biases).ravel() @ self.coded()
        return 0.5 * square + self.losses.value(margins + offsets, scalars)

    def size(self) -> dict[str, int]:
        return super().size() | {"labellings": self.count}


__all__ = ["FixedLabelForm", "Form", "SaddleForm"]


def by_coordinate(codes: FloatArray) -> FloatArray:
    """Return what takes a one, then the coordinates of unknown codes, to those of all codes (N p, 1 + unknown p).

    `codes` (N, p): of the labels that are known, zeros of the others.
    """
    (N, p), free = codes.shape, np.flatnonzero(~np.any(codes, axis=1))
    out = np.zeros((N, p, 1 + len(free) * p))
    out[:, :, 0] = codes
    out[free[:, None], np.arange(p), 1 + np.arange(len(free) * p).reshape(len(free), p)] = 1.0
    return out.reshape(N * p, -1)


def code_rows(labellings: IntArray, codes: FloatArray) -> FloatArray | IntArray:
    """Return (T q, n) coordinates of the codes (k, q) of T labellings (T, n), those of one labelling together."""
    whole = codes.astype(np.int8)  # an eighth of the memory
    rows = (whole if np.array_equal(whole, codes) else codes)[labellings]
    return rows.transpose(0, 2, 1).reshape(-1, labellings.shape[1])


def stacked(columns: FloatArray, width: int) -> FloatArray:
    """Return (q r, T) vectors w, the columns of V one after another, of V (r, q) side by side, (r, T q)."""
    return np.ascontiguousarray(columns.T).reshape(columns.shape[1] // width, -1).T
