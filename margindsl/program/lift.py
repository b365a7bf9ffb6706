"""The one lift: labels and weights lifted together, label matrix M, weight matrix W, what joins them N."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from margindsl.calculus import PLQ
from margindsl.calculus.accuracy import rounding
from margindsl.errors import DeclarationError
from margindsl.features import FeatureOperator
from margindsl.features.derived import AffineFeatures, image
from margindsl.host.frozen import freeze_fields, frozen_property
from margindsl.program.absorption import prefers_agreement
from margindsl.program.answers import Variable, multipliers
from margindsl.program.bounds import QuadraticBound
from margindsl.program.equalities import FEASIBLE
from margindsl.program.form import Form
from margindsl.program.losses import LossTerm
from margindsl.typing import BoolArray, FloatArray, IntArray

FAR = 1e12  # where the curvature of a tail is read off that is not piecewise quadratic


@dataclass(frozen=True, eq=False)
class Cuts:
    """Represent T inequalities bᵀMb ≥ l on the label matrix, some of them equalities; b has few entries, all ±1.

    Of signs (bᵀz)² ≥ 1 where b has an odd number of entries, since the sum is odd: triangles, … Of the unit
    codes of k clusters |c_i + c_j|² ≥ 2 − 2/(k−1), equal where they differ, and |c_i + c_j − c_k|² ≥ 1, which is
    1 where c_k is one of the others, and 3 + 2(⟨c_i, c_j⟩ + 2/(k−1)) at least where it is not.

    Parameters
    ----------
    positions : (T, w) int array
        The components of the entries; of shorter vectors the last ones are repeated with sign 0.
    signs : (T, w) int array
    least : (T,) float array
    equal : (T,) bool array
    """

    positions: IntArray
    signs: IntArray
    least: FloatArray
    equal: BoolArray

    def __post_init__(self) -> None:
        freeze_fields(self)
        given = [x.shape for x in (self.positions, self.signs, self.least, self.equal)]
        if self.positions.ndim != 2 or given[1:] != [given[0], given[0][:1], given[0][:1]]:
            raise DeclarationError(f"cuts: given places, signs, limits and equalities of shapes {given}, expected "
                                   "(T, w) twice and (T,) twice")

    @classmethod
    def none(cls) -> Cuts:
        """Return no cuts."""
        return cls(np.zeros((0, 1), dtype=int), np.zeros((0, 1), dtype=int), np.zeros(0), np.zeros(0, dtype=bool))

    @classmethod
    def odd(cls, positions: IntArray, signs: IntArray) -> Cuts:
        """Return (Σ s_i z_i)² ≥ 1 for an odd number of signs, and for three codes whose signs are not all alike."""
        positions, signs = np.atleast_2d(positions), np.atleast_2d(signs)
        many = np.count_nonzero(signs, axis=-1)
        alike = np.sort(np.where(signs == 0, -1 - np.arange(signs.shape[1]), positions), axis=1)
        if np.any(many % 2 == 0) or np.any(np.abs(signs) > 1) or np.any(np.diff(alike, axis=1) == 0):
            raise DeclarationError("an odd cut takes an odd number of different components and signs of -1 or +1")
        order = np.argsort(positions, axis=1, kind="stable")
        signs = np.take_along_axis(signs, order, 1)
        turn = np.where(signs.sum(axis=1) < 0, -1, 1)  # the square of a sum is that of its negative
        return cls(np.take_along_axis(positions, order, 1), turn[:, None] * signs, np.ones(len(signs)),
                   np.zeros(len(signs), dtype=bool))

    @classmethod
    def codes(cls, clusters: int, pairs: IntArray, equal: bool = False) -> Cuts:
        """Return M_ij ≥ −1/(k−1) for pairs (T, 2) of components, with equality for those that must differ."""
        pairs = np.sort(np.asarray(pairs, dtype=int).reshape(-1, 2), axis=1)
        if np.any(pairs[:, 0] == pairs[:, 1]):
            raise DeclarationError("a cut of code products takes two different components")
        least = np.full(len(pairs), 2.0 - 2.0 / (clusters - 1))
        return cls(pairs, np.ones_like(pairs), least, np.full(len(pairs), equal))

    @property
    def count(self) -> int:
        """Return the number T of cuts."""
        return len(self.positions)

    def take(self, index: IntArray) -> Cuts:
        """Return some of the cuts."""
        return Cuts(*(getattr(self, f.name)[index] for f in fields(self)))

    def joined(self, other: Cuts) -> Cuts:
        """Return the cuts of both, each once; an equality replaces the inequality."""
        width = max(self.positions.shape[1], other.positions.shape[1])
        parts = self._of_width(width), other._of_width(width)
        both = Cuts(*(np.concatenate([getattr(cuts, f.name) for cuts in parts]) for f in fields(self)))
        order = np.argsort(~both.equal, kind="stable")
        _, first = np.unique(np.hstack([both.positions, both.signs])[order], axis=0, return_index=True)
        return both.take(np.sort(order[first]))

    def _of_width(self, width: int) -> Cuts:
        more = width - self.positions.shape[1]
        if not more:
            return self
        positions = np.hstack([self.positions, np.repeat(self.positions[:, -1:], more, axis=1)])
        return Cuts(positions, np.hstack([self.signs, np.zeros((self.count, more), dtype=int)]), self.least, self.equal)

    def matrix(self, count: int) -> csr_array:
        """Return the vectors b as rows (T, N)."""
        row = np.repeat(np.arange(self.count), self.positions.shape[1])
        return csr_array((self.signs.ravel().astype(float), (row, self.positions.ravel())), shape=(self.count, count))

    def values(self, V: FloatArray) -> FloatArray:
        """Return (T,) the left sides at M = VVᵀ, V (N, p)."""
        return np.asarray(np.sum(np.einsum("tw,twp->tp", self.signs, V[self.positions]) ** 2, axis=1))

    def admissible(self, gamma: Any) -> FloatArray:
        """Return multipliers with negative ones of inequalities raised to zero; zeros where none are given."""
        gamma = np.zeros(self.count) if gamma is None else np.asarray(gamma, dtype=float)
        return np.where(self.equal, gamma, np.maximum(gamma, 0.0))


@dataclass(frozen=True, eq=False)
class LiftPoint:
    """Represent a dual point of the lift, approximate or feasible.

    Parameters
    ----------
    u, q : (m,) float arrays
        Of the arguments of the losses, and of the squares of a_r y f.
    d : (N,) float array
        Of the diagonal of M.
    kappa : (J,) float array, ≥ 0
        Of the lifted label bounds.
    gamma : (T,) float array, ≥ 0 but for equalities
        Of the cuts.
    eta : (L,) float array, ≥ 0
        Of the lifted decision bounds.
    v, e : (m,) float arrays, or none
        Of the arguments where the label is that of the reference, less where it is not, and of these labels.
    """

    u: FloatArray
    q: FloatArray
    d: FloatArray
    kappa: FloatArray
    gamma: FloatArray
    eta: FloatArray
    v: FloatArray = field(default_factory=lambda: np.zeros(0))
    e: FloatArray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, eq=False)
class LiftForm(Form):
    """Represent the lift [[M, N], [Nᵀ, W]] ⪰ 0 of component labels z and weights w, with second moments.

    min over diag M = 1 of ½ tr W + qᵀs + Σ_r c_r H_r(m_r, x_r), m_r = a_r t_i φ_iᵀN_C(i) and x_r = a_r² φ_iᵀWφ_i the
    moments of the margins, H_r(m, x) the convex hull of (t, t², ρ_r(t)), subject to ω_jᵀMω_j ≤ β_j², σ_lᵀWσ_l ≤ ℓ_l²
    and cuts; a free bias is a last coordinate of w that costs nothing. A point whose label nothing else sees has no
    component (−1): its label is minimised out, the first moment being free. With every point so it is the weight lift;
    with the component of known labels beside it is [[1, wᵀ], [w, W]]; of several clusters M holds inner products of
    codes, W is the mean over the coordinates, and squares are of no use to open codes.

    Dual: max Σ_r D_r(u_r, q_r) − ½(Σd + Σκβ² − Σγl + Σηℓ²), D_r(u, q) = inf_t c_rρ_r(t + d_r) + ut − qt², over
    κ, γ, η ≥ 0, Σ b_r u_r = q, with ũ_i = Σ a_r u_r, q̃_i = Σ a_r² q_r and
    [[Diag d + Σκωωᵀ − Σγbbᵀ, −H], [−Hᵀ, P₀ + 2Σ q̃_iφ_iφ_iᵀ + Σησσᵀ]] ⪰ 0, H = Σ_i t_i ũ_i e_C(i) φ_iᵀ, P₀ = I, 0 for a
    free bias. Any (u, q, d, κ, γ, η) with the inequality bounds every labelling: the rest is ½(z, w)ᵀS(z, w) ≥ 0.
    With a domain first moments of points without a component tell f from −f: e_C stands for the reference, t for 1, and
    D is the lesser of those of both labels.

    Conditional on the label s = z₀y of a point against the reference a loss is D = min over s of D_s(u + sv, q) + se,
    beside −Σ a v e₀φᵀ in H and −Σ e t(e_C e₀ᵀ + e₀ e_Cᵀ) in S: its convex hull over both labels, with first moments.

    A loss by label, of the argument a(y f + σf) + d, is cρ(d) where y ≠ σ: D is min(D + 2θ, cρ(d)) beside −θbbᵀ, b =
    t e_C(i) + σe₀, for every θ ≥ 0, which stands in the place of q. What sees no label, σu, joins the row of e₀.

    A solver returns ``u`` (m,), ``q`` (m,), ``d`` (N,), ``kappa`` (J,), ``gamma`` (T,), ``eta`` (L,) and factors
    ``V`` (N, p), ``W`` (r [+1], p) with M = VVᵀ, N = VWᵀ and the weight matrix WWᵀ.

    Parameters
    ----------
    component : (n,) int array
        The component of each point, 0..N−1, or −1.
    sign : (n,) int array
        Its sign inside the component.
    count : int
        The number N of components; one of them may have no point, as the reference of asymmetric label bounds.
    balance : tuple of QuadraticBound
        The lifted label bounds (ω_j, β_j).
    reference : int or None
        The component of known labels, or the one that stands for +1.
    clusters : int
        The number k.
    cuts : Cuts
    domain : (m, 2) float array, optional
        Ends between which the arguments of losses are looked at, for the label +1 of points without a component and of
        conditional rows: what holds then holds of labellings of a lower value than one that is known.
    conditional : bool
        Whether rows of points with a component have v and e.
    codes : (N, k − 1) float array, optional
        Unit codes of known labels, zeros of others: W is not the mean over coordinates then, and has their squares.
    blocks : tuple of FeatureOperator
        Features of each block alone, where the norm is the sum of those of blocks, and `features` are of one weighting
        of them. ½(Σt)² is the least of ½Σt²/x over weights x of sum one: a dual point without squares that holds for
        every block holds for every weighting.
    """

    component: IntArray
    sign: IntArray
    count: int
    balance: tuple[QuadraticBound, ...] = ()
    reference: int | None = None
    clusters: int = field(default=2, kw_only=True)
    cuts: Cuts = field(default_factory=Cuts.none, kw_only=True)
    domain: FloatArray | None = field(default=None, kw_only=True)
    conditional: bool = field(default=False, kw_only=True)
    codes: FloatArray | None = field(default=None, kw_only=True)
    blocks: tuple[FeatureOperator, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.any(self.component >= self.count) or np.any(self.component < -1) or (
                self.cuts.count and not 0 <= self.cuts.positions.min() <= self.cuts.positions.max() < self.count):
            raise DeclarationError(f"a lift of {self.count} components names others")
        sees = np.any(self.losses.coupling, axis=1) | (self.losses.bare != 0)
        if np.any(self.absorbed[self.losses.points] & sees):
            raise DeclarationError("points whose losses share scalars, or are by label, have a component")

    def variables(self) -> dict[str, Variable]:
        """Return what an answer holds; of multipliers left out the repair finds d, and takes the others for zero."""
        cuts = Variable((self.cuts.count,), needed=False, least=np.where(self.cuts.equal, -np.inf, 0.0))
        held = {"kappa": len(self.balance), "eta": len(self.decision)}
        return {"u": Variable((self.losses.rows,)), "q": Variable((self.losses.rows,), needed=False),
                "d": Variable((self.count,), needed=False), **dict(multipliers(held)), "gamma": cuts,
                **{name: Variable((self.losses.rows,), needed=False) for name in ("v", "e") if self.conditional},
                "V": Variable((self.count, None), needed=self.count > 0), "W": Variable((self.order, None))}

    def structure(self) -> None:
        """Return None: lifts are not compiled for another one."""
        return None

    # -- what the dual may use ----------------------------------------------------------------------

    @frozen_property
    def absorbed(self) -> BoolArray:
        """Return (n,) which points have no component."""
        return np.asarray(self.component < 0)

    @frozen_property
    def decided(self) -> IntArray:
        """Return (n,) the codes of the points of the reference, 0 of the others."""
        return np.where(self.component == (-2 if self.reference is None else self.reference), self.sign, 0)

    @frozen_property
    def even(self) -> BoolArray:
        """Return (m,) of which rows the losses of both labels are looked at, within a domain."""
        return self.absorbed[self.losses.points] & (self.domain is not None and self.reference is not None)

    @frozen_property
    def conditioned(self) -> BoolArray:
        """Return (m,) which rows have a v and an e: open ones, beside a reference, where all losses have pieces."""
        held = self.conditional and self.reference is not None and self.clusters == 2 and not self.losses.by_rows
        held = held and all(isinstance(term.loss, PLQ) for term in self.losses.terms)
        return held & (~self.absorbed & (self.decided == 0))[self.losses.points]

    @frozen_property
    def linear(self) -> BoolArray:
        """Return (m,) which rows have a u."""
        return ~self.absorbed[self.losses.points] | self.even

    @frozen_property
    def rows(self) -> tuple[IntArray, IntArray]:
        """Return (n,) the rows of S in which points have their u, and their signs there, 0 without one."""
        seen, alone = self.domain is not None and self.reference is not None, self.absorbed
        return np.where(alone, self.reference or 0, self.component), np.where(alone, int(seen), self.sign)

    @frozen_property
    def ceiling(self) -> FloatArray:
        """Return (m,) the greatest q at which D may be finite; q is 0 where this is 0 and a row is linear.

        Squares of open margins of clusters are at most |Vᵀφ|², so that q ≤ 0; of a loss that is not piecewise quadratic
        no minimum is known with both u and q.
        """
        out, held = np.zeros(self.losses.rows), self.domain is not None and np.isfinite(self.domain[:, 0])
        for term, part in self.losses.slices():
            if isinstance(term.loss, PLQ):
                ends = [a2 for a, b, a2, _, _ in term.loss.pieces if not (np.isfinite(a) and np.isfinite(b))]
                out[part] = term.weights * min(ends) if ends else np.inf
            elif term.loss.is_root_convex and prefers_agreement(term.loss):
                out[part] = 0.5 * (1.0 - 1e-9) * term.weights * float(term.loss.curvature(FAR))
        return np.where(self.plain, np.where(held, np.inf, out), 0.0)

    @frozen_property
    def plain(self) -> BoolArray:
        """Return (m,) which rows have the squares of their margins: of two clusters, or of a known code."""
        known = False if self.codes is None else np.any(self.codes, axis=1)[self.component[self.losses.points]]
        return np.full(self.losses.rows, self.clusters == 2) | known

    @frozen_property
    def squared(self) -> BoolArray:
        """Return (m,) which rows have a q."""
        whole, by_label = (np.repeat(x, [t.rows for t in self.losses.terms]).astype(bool) for x in (
            [isinstance(t.loss, PLQ) for t in self.losses.terms], [t.bare is not None for t in self.losses.terms]))
        alone = ~(np.any(self.losses.coupling, axis=1) | by_label) & (not self.blocks)
        return alone & (~self.linear | (whole & self.plain))

    @frozen_property
    def turned(self) -> BoolArray:
        """Return (m,) which rows are losses by label."""
        return np.asarray(self.losses.bare != 0)

    @frozen_property
    def states(self) -> FloatArray:
        """Return the (R, N) vectors t e_C + σe₀ of rows by label, zero where the label is another one."""
        rows = np.flatnonzero(self.turned)
        points, out = self.losses.points[rows], np.zeros((len(rows), self.count))
        out[np.arange(len(rows)), self.component[points]] = self.sign[points]
        if len(rows):
            out[:, self.reference] += np.sign(self.losses.bare * self.losses.slopes)[rows]
        return out

    @property
    def multipliers(self) -> int:
        """Return the number of multipliers that may be of use."""
        held = len(self.balance) + len(self.decision) + self.cuts.count + self.losses.scalars.count
        return self.count + held + int(self.linear.sum() + self.bent.sum()) + 2 * int(self.turned.sum())

    @property
    def bent(self) -> BoolArray:
        """Return (m,) which rows have a q: beside a u, q ≤ 0 proves nothing, as hulls of first moments are convex."""
        return self.squared & ((self.ceiling > 0) | ~self.linear)

    def least(self, u: FloatArray, q: FloatArray, v: FloatArray | None = None, e: FloatArray | None = None
              ) -> FloatArray:
        """Return (m,) D_r(u, q), less what rounding may have added; −∞ where a row is unbounded below.

        `v`, `e` (m,): those of conditional rows, zero where there are none.
        """
        out, two = np.empty(self.losses.rows), self.even | self.conditioned
        v, e = (x if x is not None and len(x) else np.zeros_like(out) for x in (v, e))
        for term, part in self.losses.slices():
            u_, q_, both = u[part], np.where(self.turned[part], 0.0, q[part]), two[part]
            if isinstance(term.loss, PLQ) and (np.any(q_) or self.domain is not None or np.any(both)):
                ends, more = None if self.domain is None else self.domain[part], e[part]
                out[part] = _least_of_pieces(term, u_ + v[part], q_, ends) + more
                if np.any(both):
                    other = np.where(self.even[part], -u_, u_ - v[part])[both]
                    out[part][both] = np.minimum(out[part][both], _least_of_pieces(
                        term.taken(np.flatnonzero(both)), other, q_[both], ends if ends is None else -ends[both, ::-1]
                    ) - more[both]) - rounding(np.abs(more[both]))
                continue
            bent = ~self.linear[part] & (term.shifts == 0)
            if not np.all(bent):
                out[part] = np.where(q_ == 0, -term.conjugate_values(u_) - u_ * term.shifts, -np.inf)
            if np.any(bent):  # above zero only where a root-convex loss is least at the sign of its argument
                low = -np.inf if np.all(q_[bent] <= 0) else 0.0
                found = term.loss.minimum_with_quadratic(term.weights[bent], -2.0 * q_[bent], low)
                out[part][bent] = np.where(u_[bent] == 0, found, -np.inf)
        if np.any(self.turned):
            out = np.where(self.turned, np.minimum(out + 2 * q, self.losses.row_losses(self.losses.shifts)), out)
        return out

    @property
    def order(self) -> int:
        """Return the order of W: r, plus one with a free bias."""
        return self.features.rank + int(self.free_bias)

    @frozen_property
    def omega(self) -> FloatArray:
        """Return (J, N) the vectors of the lifted label bounds."""
        return np.array([bound.vector for bound in self.balance]).reshape(len(self.balance), self.count)

    @frozen_property
    def sigma(self) -> FloatArray:
        """Return (L, r [+1]) the vectors of the decision bounds."""
        G, h = self.decision_rows
        return np.column_stack([G, h]) if self.free_bias else G

    @frozen_property
    def limits(self) -> tuple[FloatArray, FloatArray]:
        """Return β² (J,) and ℓ² (L,)."""
        return (np.array([bound.radius**2 for bound in self.balance]),
                np.array([bound.upper**2 for bound in self.decision]))

    def scatter_squares(self, q: FloatArray) -> FloatArray:
        """Return (n,) the sums q̃ of multipliers of squares."""
        losses = self.losses
        return q if losses.is_identity else np.bincount(
            losses.points, np.where(self.turned, 0.0, q) * losses.slopes**2, self.n)

    def outputs(self, W: FloatArray) -> FloatArray:
        """Return the (n, p) products of features (and the constant of a free bias) with W."""
        return self.features.apply(W[:-1]) + W[-1] if self.free_bias else self.features.apply(W)

    def image(self, W: FloatArray) -> AffineFeatures:
        """Return what stands for `outputs`."""
        return image(self.features, W[:-1], W[-1]) if self.free_bias else image(self.features, W)

    def vectors(self, V: FloatArray, W: FloatArray) -> FloatArray:
        """Return (n, p) label vectors of points: signed rows of V, where there is none the direction of Wᵀφ."""
        F = self.outputs(W) if np.any(self.absorbed) else np.zeros((self.n, W.shape[1]))
        F /= np.maximum(np.linalg.norm(F, axis=1, keepdims=True), np.finfo(float).tiny)
        held = ~self.absorbed
        F[held] = self.sign[held, None] * V[self.component[held]]
        return F

    def value(self, point: LiftPoint) -> float:
        """Return the dual objective, whether or not the matrix inequality holds; −∞ where scalars are not paid for."""
        if self.losses.scalar_residual(point.u) > FEASIBLE:
            return -np.inf
        radii, limits = self.limits
        price = point.d.sum() + point.kappa @ radii - point.gamma @ self.cuts.least + point.eta @ limits
        return float(np.sum(self.least(point.u, point.q, point.v, point.e)) - 0.5 * price)

    def size(self) -> dict[str, int]:
        return super().size() | {"components": self.count, "labels minimised out": int(self.absorbed.sum()),
                                 "lifted label bounds": len(self.balance), "cuts": self.cuts.count}


def contracted(form: LiftForm, codes: IntArray) -> tuple[LiftForm, IntArray, IntArray, IntArray]:
    """Return a lift of two clusters with some labels decided, its components being one, and how multipliers go over.

    S of the contraction is CᵀSC for z = Cz': a dual point bounds the decided labellings as it bounded all.

    `codes` (n,): −1 or +1 where decided, at points that have a component, else 0.

    Returns
    -------
    contraction : LiftForm
        Its last component is the reference; itself where nothing is decided.
    target, turn : (N,) int arrays
        Component, and its sign there.
    group : (T,) int array
        The number of each cut among those of the contraction, −1 where one component is left: it holds.
    """
    if np.any(alone := (codes != 0) & form.absorbed) and form.reference is not None:
        form = replace(form, component=np.where(alone, form.reference, form.component),
                       sign=np.where(alone, codes, form.sign))
    held, turn, known = codes != 0, np.ones(form.count, dtype=int), np.zeros(form.count, dtype=bool)
    at = form.component[held]
    turn[at], known[at] = codes[held] * form.sign[held], True
    known[[] if form.reference is None else [form.reference]] = True
    target = np.where(known, np.count_nonzero(~known), np.cumsum(~known) - 1)
    if np.count_nonzero(known) <= (form.reference is not None) and np.all(turn > 0):
        return form, np.arange(form.count), turn, np.arange(form.cuts.count)
    count = int(target.max()) + 1
    sums = [np.bincount(target, turn * b.vector, count) for b in form.balance]
    balance = tuple(QuadraticBound(omega, b.radius if np.any(omega) else 1.0)  # of nothing any radius holds
                    for b, omega in zip(form.balance, sums))
    positions, signs = target[form.cuts.positions], turn[form.cuts.positions] * form.cuts.signs
    rows = np.zeros((form.cuts.count, count), dtype=np.int8)
    np.add.at(rows, (np.arange(len(rows))[:, None], positions), signs.astype(np.int8))
    rows *= np.sign(rows[np.arange(len(rows)), np.argmax(rows != 0, axis=1)])[:, None]  # b and −b are one cut
    _, first, same = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    kept = np.unique(first[np.count_nonzero(rows[first], axis=1) > 1])
    number = np.full(form.cuts.count, -1)
    number[kept] = np.arange(len(kept))
    cuts = Cuts(positions[kept], signs[kept], form.cuts.least[kept], form.cuts.equal[kept])
    return replace(form, component=np.where(form.absorbed, -1, target[form.component]), count=count, balance=balance,
                   sign=np.where(form.absorbed, 1, form.sign * turn[form.component]), reference=count - 1, cuts=cuts
                   ), target, turn, number[first[same.ravel()]]


def _least_of_pieces(term: LossTerm, u: FloatArray, q: FloatArray, domain: FloatArray | None = None) -> FloatArray:
    """Return (m,) min over t of cρ(t + d) + ut − qt², each coefficient less its rounding where that is least."""
    assert isinstance(term.loss, PLQ)
    c, d, out = term.weights, term.shifts, np.full(term.rows, np.inf)
    for left, right, a2, a1, a0 in term.loss.pieces:
        low, high = left - d, right - d
        if domain is not None:
            low, high = np.maximum(low, domain[:, 0]), np.minimum(high, domain[:, 1])
        parts = np.abs(np.stack([c * a2, q])), np.abs(np.stack([c * (2 * a2 * d + a1), u])), np.abs(c * ((abs(
            a2) * np.abs(d) + abs(a1)) * np.abs(d) + abs(a0)))
        A, B, C = c * a2 - q, c * (2 * a2 * d + a1) + u, c * ((a2 * d + a1) * d + a0)
        A = np.where(np.abs(A) <= 4 * np.finfo(float).eps * parts[0].sum(axis=0), 0.0, A)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            vertex = np.where(A > 0, np.clip(-B / (2 * A), low, high), low)
            for t, side in ((low, -1), (high, 1), (vertex, 0)):
                size = (parts[0].sum(axis=0) * np.abs(t) + parts[1].sum(axis=0)) * np.abs(t) + parts[2]
                falls, flat = (A < 0) | ((A == 0) & (side * B < 0)), (A == 0) & (B == 0)
                value = np.where(np.isfinite(t), (A * t + B) * t + C - rounding(size), np.where(
                    falls, -np.inf, np.where(flat, C, np.inf)))
                out = np.minimum(out, np.where(low <= high, value, np.inf))
    return out
