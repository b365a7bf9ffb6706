"""The standard forms solvers see: frozen, shape-checked, able to judge a solution by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from margindsl.errors import DeclarationError
from margindsl.features.derived import AffineFeatures, image
from margindsl.labelset.codes import simplex_codes
from margindsl.program.answers import Variable, multipliers
from margindsl.program.bounds import QuadraticBound
from margindsl.program.codes import code_rows, stacked
from margindsl.program.component_rows import ComponentRows
from margindsl.program.form import Form
from margindsl.program.labelled import FixedLabelForm
from margindsl.typing import FloatArray, IntArray

FETCHED = 1_000_000  # entries of features that are fetched from workers to form such rows
WIDE = 1000  # columns above which sums of rows over components are not formed, unless the features are dense


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

    def __post_init__(self) -> None:
        biases = self.biases if np.any(self.biases) else np.zeros((len(self.labellings), self.width))
        object.__setattr__(self, "biases", np.reshape(biases, (len(biases), -1)))
        super().__post_init__()
        if self.labellings.ndim != 2 or self.labellings.shape[1] != self.n or not len(self.labellings):
            raise DeclarationError(
                f"labellings: given shape {self.labellings.shape}, expected (T >= 1, {self.n})")
        if self.labellings.min() < 0 or self.labellings.max() >= len(self.codes):
            raise DeclarationError(
                f"labels of {len(self.codes)} clusters are the whole numbers below {len(self.codes)}")
        if self.biases.shape != (self.count, self.width):
            raise DeclarationError(f"biases: given shape {self.biases.shape}, expected {self.count, self.width}")
        if self.free_bias or self.decision:
            raise DeclarationError("a saddle form has neither a free bias nor decision bounds")

    @property
    def width(self) -> int:
        """Return the number q of coordinates of a code."""
        return int(self.codes.shape[1])

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

    @property
    def count(self) -> int:
        """Return the number T of labellings."""
        return len(self.labellings)

    @property
    def is_biased(self) -> bool:
        """Return whether a labelling has a bias."""
        return bool(np.any(self.biases))

    def structure(self) -> tuple[Any, ...]:
        return (*(super().structure() or ()), self.width, self.is_biased)

    def directions(self, u: FloatArray) -> FloatArray:
        """Return the (q r, T) columns Σ_i ũ_i c(y_k,i) ⊗ φ_i."""
        return stacked(self.features.adjoint((self.coded() * self.losses.spread(u)).T), self.width)

    def dual_objective(self, u: FloatArray) -> float:
        """Return min_k G(u, y_k, b_k), a lower bound of the master's value where u satisfies Σ b_r u_r = q."""
        costs = 0.5 * np.sum(self.directions(u) ** 2, axis=0)
        if self.is_biased:
            sums = (self.coded() @ self.losses.spread(u)).reshape(self.biases.shape)
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


@dataclass(frozen=True, eq=False)
class LabelLiftForm(Form):
    """Represent the label-lifted semidefinite relaxation on components (Xu et al. 2005, contracted).

    min over M ⪰ 0 (N × N), diag M = 1, and margins g, s of ½ gᵀ(K∘AMAᵀ)⁺g + qᵀs + Σ cρ(a g + bs + d)
    with (ω̃_jᵀ M ω̃_j) ≤ β_j². A is the signed indicator of the components. When `reference` is set, that
    component stands for the constant +1 (known labels, homogenised bounds).

    Dual: max −Σcρ*(−u/c) − uᵀd − ½(Σ_C d_C + Σ_j κ_j β_j² + Σ_l η_l ℓ_l²) over u, d, κ, η ≥ 0 with
    Diag(d) + Σ κ_j ω̃_jω̃_jᵀ − H P⁻¹ Hᵀ ⪰ 0, H = AᵀDiag(ũ)Φ, P = I (0 for a free bias) + Σ_l η_l σ_lσ_lᵀ.

    A solver returns ``u`` (m,), ``d`` (N,), ``kappa`` (J,), ``eta`` (L,) and ``M`` (N, N) or a factor ``V`` (N, p).

    Parameters
    ----------
    component : (n,) int array
        The component of each point, 0..N−1.
    sign : (n,) int array
        Its sign inside the component.
    count : int
        The number N of components (one more than those of the points if a reference was added).
    balance : tuple of QuadraticBound
        The lifted label bounds (ω̃_j, β_j).
    reference : int or None
        The component fixed to +1.
    """

    has_cuts: ClassVar[bool] = False  # whether there is room for cuts on the label matrix

    component: IntArray
    sign: IntArray
    count: int
    balance: tuple[QuadraticBound, ...] = ()
    reference: int | None = None

    @property
    def lifts_moments(self) -> bool:
        """Return whether second moments of the margins are lifted too."""
        return False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.component.shape != (self.n,) or self.sign.shape != (self.n,):
            raise DeclarationError("component and sign of a label lift have one entry a point")
        for bound in self.balance:
            if bound.vector.shape != (self.count,):
                raise DeclarationError(
                    f"lifted bound: given shape {bound.vector.shape}, expected ({self.count},)")
        for decision in self.decision:
            if not decision.is_symmetric:
                raise DeclarationError("a label lift takes decision bounds of the form |sum| <= l only")

    def variables(self) -> dict[str, Variable]:
        return {"u": Variable((self.losses.rows,)), "d": Variable((self.count,), needed=False),
                **dict(multipliers({"kappa": len(self.balance), "eta": len(self.decision)})),
                "M": Variable((self.count, self.count), instead="V"), "V": Variable((self.count, None), instead="M")}

    def structure(self) -> tuple[Any, ...]:
        balance = tuple((b.vector.tobytes(), b.radius) for b in self.balance)
        return (*(super().structure() or ()), self.component.tobytes(), self.sign.tobytes(), self.count, balance,
                self.reference)

    def contract(self, values: FloatArray) -> FloatArray:
        """Return Aᵀvalues for values (n,) or (n, p): signed sums over components."""
        if values.ndim == 1:
            return np.bincount(self.component, weights=self.sign * values, minlength=self.count)
        return np.stack([self.contract(column) for column in values.T], axis=1)

    def component_features(self, u: FloatArray) -> FloatArray:
        """Return the (N, r [+1]) rows h_C = Σ_{i∈C} t_i ũ_i φ_i (with a bias column when the bias is free)."""
        weights = self.sign * self.losses.spread(u)
        A = csr_array((weights, (self.component, np.arange(self.n))), shape=(self.count, self.n))
        H = np.asarray(A @ self.features.toarray())
        if self.free_bias:
            H = np.column_stack([H, np.asarray(A.sum(axis=1)).ravel()])
        return H

    def component_rows(self, u: FloatArray) -> FloatArray | ComponentRows:
        """Return the rows h_C dense, or as products alone of many features of workers, or wide ones not dense."""
        features = self.features
        wide = features.rank > WIDE and not features.is_dense
        far = features.is_remote and self.n * features.rank > FETCHED
        if not far and (self.free_bias or not wide):
            return self.component_features(u)
        base = AffineFeatures(features, constant=1.0) if self.free_bias else features
        return ComponentRows(base, self.component, self.sign * self.losses.spread(u), self.count, wide)

    def lifted_value(self, u: FloatArray, V: FloatArray) -> float:
        """Return the primal value at M = VVᵀ and the weights of u there; inf where u alone does not say them."""
        if self.may_be_unbounded or self.decision:
            return np.inf
        W = self.directions(u, V)
        margins = self.sign * np.einsum("np,np->n", self.features.apply(W), V[self.component])
        return 0.5 * float(np.sum(W**2)) + self.losses.value(margins)

    def directions(self, u: FloatArray, V: FloatArray) -> FloatArray:
        """Return the (r, p) sums Σ_C h_C v_C of rows v_C of V (N, p), without the bias."""
        weights = self.sign * self.losses.spread(u)
        return np.asarray(self.features.adjoint(weights[:, None] * V[self.component]))

    def size(self) -> dict[str, int]:
        return super().size() | {"components": self.count, "lifted label bounds": len(self.balance)}


@dataclass(frozen=True, eq=False)
class WeightLiftForm(Form):
    """Represent the weight-lifted relaxation: labels absorbed, P = wwᵀ lifted.

    min over P ⪰ 0 of ½ tr P + Σ_r c_r ρ_r(√(φᵀPφ)), with σᵀPσ ≤ ℓ² for bounds |Σ a f| ≤ ℓ (σ = Φᵀa), and a
    last coordinate that is not penalised when the bias is free. Convex because q ↦ ρ(√q) is; a lower bound of
    the integer problem because ρ(s) ≤ ρ(−s) for s ≥ 0 (mathematics, 3.1).

    A solver returns ``W`` (r [+1], p) with P = WWᵀ, and may return ``a`` (n,), ``eta`` (L,).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for term in self.losses.terms:
            if np.any(term.slopes != 1.0) or np.any(term.shifts != 0.0) or term.coupling.shape[1]:
                raise DeclarationError("a weight lift takes losses of the margin itself: no slopes, shifts or scalars")
        for bound in self.decision:
            if not bound.is_symmetric:
                raise DeclarationError("a weight lift takes decision bounds of the form |sum| <= l only")

    def variables(self) -> dict[str, Variable]:
        return {"W": Variable((self.order, None)), "a": Variable((self.n,), needed=False),
                **dict(multipliers({"eta": len(self.decision)}))}

    def bracket(self, answer: Mapping[str, FloatArray]) -> tuple[float, float]:
        return -np.inf, self.objective(answer["W"])

    @property
    def order(self) -> int:
        """Return the order of P: r, plus one with a free bias."""
        return self.features.rank + int(self.free_bias)

    def outputs(self, W: FloatArray) -> FloatArray:
        """Return the (n, p) products of features (and constant, with a free bias) with W."""
        if not self.free_bias:
            return self.features.apply(W)
        return self.features.apply(W[:-1]) + W[-1]

    def image(self, W: FloatArray) -> AffineFeatures:
        """Return what stands for `outputs`."""
        return image(self.features, W[:-1], W[-1]) if self.free_bias else image(self.features, W)

    def lengths(self, W: FloatArray) -> FloatArray:
        """Return the (n,) lengths s_i = ‖Wᵀφ_i‖ = √(φ_iᵀPφ_i)."""
        return self.features.lengths(W[:-1], W[-1]) if self.free_bias else self.features.lengths(W)

    def adjoint(self, R: FloatArray) -> FloatArray:
        """Return the (r [+1], p) adjoint of `outputs`."""
        below = self.features.adjoint(R)
        return np.vstack([below, R.sum(axis=0)[None, :]]) if self.free_bias else below

    def objective(self, W: FloatArray) -> float:
        """Return the primal objective at P = WWᵀ, decision bounds not included."""
        return 0.5 * float(np.sum(self.penalised(W) ** 2)) + self.losses.value(self.lengths(W))

    def penalised(self, W: FloatArray) -> FloatArray:
        """Return the rows of W that the norm sees."""
        return W[:-1] if self.free_bias else W


__all__ = ["WIDE", "FixedLabelForm", "Form", "LabelLiftForm", "SaddleForm", "WeightLiftForm"]
