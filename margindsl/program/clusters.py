"""More than two clusters: margins, costs of labels, and the forms left when the labels are fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from margindsl.accuracy import greatest_ratio
from margindsl.calculus import PLQ
from margindsl.errors import CalculusError, DeclarationError
from margindsl.features import CodedFeatures, FeatureOperator
from margindsl.frozen import frozen_property
from margindsl.program.absorption import absorbed_terms
from margindsl.program.answers import Variable
from margindsl.program.bounded_bias import ClusterLimits, biased_losses
from margindsl.program.bounds import DecisionBound
from margindsl.program.codes import contrasts, runner_up, simplex_codes
from margindsl.program.forms import FixedLabelForm, Form
from margindsl.program.losses import Losses, LossTerm
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SplitLosses:
    """Represent losses as a falling and a rising part, both of the margin itself: ρ = ρ↓ + ρ↑ + constant.

    Parameters
    ----------
    falling, rising : Losses
    constant : float
    """

    falling: Losses
    rising: Losses
    constant: float

    @classmethod
    def of(cls, losses: Losses) -> SplitLosses:
        """Split every loss.

        Raises
        ------
        CalculusError
            If a loss rises and is not piecewise quadratic, or depends on shared scalars.
        """
        if losses.scalars.count:
            raise CalculusError("Crammer-Singer margins of more than two clusters do not go with shared scalars "
                                "(md.Scalar, or the free mean in md.var and md.mean_variance)")
        falling: list[LossTerm] = []
        rising: list[LossTerm] = []
        constant = 0.0
        for term in absorbed_terms(losses).terms:
            for part, kept in zip(term.loss.split(), (falling, rising)):
                if part.is_nonincreasing and part.is_nondecreasing:
                    constant += float(np.sum(term.weights)) * float(part(0.0))
                else:
                    kept.append(LossTerm(part, term.points, term.weights, term.slopes, term.shifts, term.coupling))
        return cls(Losses(losses.n, tuple(falling)), Losses(losses.n, tuple(rising)), constant)


def simplex_losses(losses: Losses, clusters: int) -> Losses:
    """Return losses of the simplex-coded margin that bound those of Crammer-Singer margins from below.

    A margin f_y − max_{q≠y} f_q is at most f_y − mean_{q≠y} f_q = √(k/(k−1)) ⟨c_y, V'φ⟩, V the weights in the
    coordinates of the codes (their mean over clusters only costs ‖W‖). Falling losses are taken there, others by their
    falling part, the rest being non-negative. Nothing is lost by a relaxation that is symmetric in the clusters: its
    multipliers u_iq of f_y − f_q can be averaged over permutations, and then are those of the mean.

    Parameters
    ----------
    losses : Losses
    clusters : int

    Raises
    ------
    CalculusError
        If a loss rises and is not piecewise quadratic.
    """
    return falling_losses(losses, float(np.sqrt(clusters / (clusters - 1.0))))


def falling_losses(losses: Losses, factor: float = 1.0) -> Losses:
    """Return the falling parts of losses, which bound them from below, at margins times a factor.

    Parameters
    ----------
    losses : Losses
    factor : float

    Raises
    ------
    CalculusError
        If a loss rises and is not piecewise quadratic.
    """
    terms = tuple(_falling(part, factor) for term in losses.terms for part in term.oriented())
    return Losses(losses.n, terms, losses.scalars)


def _falling(term: LossTerm, factor: float) -> LossTerm:
    loss = term.loss
    if not loss.is_nonincreasing:
        if not isinstance(loss, PLQ):
            raise CalculusError(f"the falling part of {loss!r} is needed, and it is not piecewise quadratic")
        loss = loss.split()[0]
    return LossTerm(loss, term.points, term.weights, factor * term.slopes, term.shifts, term.coupling)


@dataclass(frozen=True, eq=False)
class CodedForm(FixedLabelForm):
    """Represent fixed clusters with simplex-coded margins γ_i = ⟨c_{y_i}, Vᵀφ_i⟩.

    Linear in V, so that this is the fixed-label form with features c_{y_i} ⊗ φ_i and all labels +1; every
    solver of fixed labels accepts it. A bias β (k−1,) are shared scalars more, γ_i = ⟨c_{y_i}, Vᵀφ_i + β⟩, and its
    limits |⟨c_p − c_q, β⟩| ≤ l losses more, zero within the limits and outside so steep that β stays inside: no
    multiplier of a limit is above the slopes of all losses together.

    Parameters
    ----------
    clustering : (n,) int array
        The cluster of each point, 0..k−1.
    limits : ClusterLimits, optional
        Of a bias; None without one.
    """

    clustering: IntArray
    limits: ClusterLimits | None = None

    @classmethod
    def at(cls, features: FeatureOperator, losses: Losses, clustering: IntArray, clusters: int,
           limits: ClusterLimits | None = None, held: tuple[LossTerm, ...] = (),
           decision: tuple[DecisionBound, ...] = ()) -> CodedForm:
        """Return the form of some clusters on the features of the program."""
        coded: Any = CodedFeatures(features, clustering, simplex_codes(clusters))
        if limits is not None:
            losses = biased_losses(losses, limits, held, np.asarray(clustering))
        repeated = tuple(bound for bound in decision for _ in range(clusters * (clusters - 1) // 2))
        return cls(coded, losses, np.ones(losses.n, dtype=int), np.asarray(clustering), limits, decision=repeated)

    @frozen_property
    def decision_rows(self) -> tuple[FloatArray, FloatArray]:
        """Return (G, 0): rows over w of Σ a f_p − Σ a f_q over all pairs of clusters, those of one bound together."""
        coded: Any = self.features
        if not self.decision:
            return np.zeros((0, coded.rank)), np.zeros(0)
        first, second = np.triu_indices(len(coded.codes), 1)
        A = np.stack([bound.weights for bound in self.decision[::len(first)]], axis=1)
        rows = np.einsum("pc,rj->jpcr", coded.codes[first] - coded.codes[second], coded.base.adjoint(A))
        return rows.reshape(len(self.decision), -1), np.zeros(len(self.decision))

    def plane(self, answer: Mapping[str, FloatArray]) -> tuple[FloatArray | float, FloatArray]:
        """Return the bias of an answer by clusters (k,), within its limits, and the scalars that are not it.

        A bias by clusters that stands in the answer already is left as it is.
        """
        scalars = np.asarray(answer.get("scalars", np.zeros(self.losses.scalars.count)))
        own = self.losses.scalars.count - (0 if self.limits is None else self.limits.codes.shape[1])
        if self.limits is None or len(scalars) == own:
            return np.asarray(answer.get("bias", 0.0))[()], scalars
        return self.limits.codes @ self.limits.inside(scalars[own:]), scalars[:own]

    def point_duals(self, u: FloatArray) -> FloatArray:
        """Return duals of points, of rows where shared scalars couple them; not those of the limits of a bias."""
        limits = self.limits
        if limits is None:
            return super().point_duals(u)
        own = self.losses.scalars.count - limits.codes.shape[1]
        return u[:len(u) - (len(limits.pairs()) if limits.is_finite else 0)] if own else self.losses.spread(u)

    @property
    def labelling(self) -> IntArray:
        """Return the clusters."""
        return self.clustering

    def steps(self, points: IntArray) -> IntArray:
        """Return the numbers of points, from 1, n times their cluster added."""
        return points + 1 + self.n * self.clustering[points].astype(int)

    def outputs(self, w: FloatArray, bias: FloatArray | float = 0.0) -> FloatArray:
        """Return the (n, k) decision values ⟨c_q, Vᵀφ_i⟩, of a bias (k,) by clusters."""
        coded: Any = self.features
        return np.asarray(coded.base.apply(coded.unpack(w)) @ coded.codes.T + bias)

    def margins(self, outputs: FloatArray) -> FloatArray:
        """Return the (n,) decision values of the points' own clusters."""
        return np.asarray(outputs[np.arange(self.n), self.clustering])

    def structure(self) -> None:
        """Return None: the features change with the clusters, so nothing is worth keeping."""
        return None


@dataclass(frozen=True, eq=False)
class ClusterForm(Form):
    """Represent fixed clusters with Crammer-Singer margins γ_i = f_{i,y_i} − max over q ≠ y_i of f_{i,q}.

    min over V of ½‖V‖² + Σ_r c_r ρ_r(γ_p(r)), f = Φ V Bᵀ with B the contrasts. For the falling part
    ρ↓(γ_i) = max over q of ρ↓(f_y − f_q) is convex. The rising part is not: ρ↑(γ_i) ≤ ρ↑(f_y − f_q) for
    every q, with equality at the runner-up. With `runner` given it is replaced by this majorant, and the
    problem is convex; without, a solver takes majorants until it is stationary.
    Dual of the convex problem: max −Σ cρ↓*(−Σ_q u_q/c) − Σ cρ↑*(t/c) − ½‖w(u, t, τ)‖² − Σ ℓ|τ| over u ≥ 0, with
    w = Σ_i Σ_q u_iq (b_y − b_q) ⊗ φ_i − Σ_i t_i (b_y − b_runner) ⊗ φ_i − Gᵀτ. A free bias is one number a cluster,
    Bβ, and its dual equality the same sum with ones for φ.

    A solver returns ``w`` (r(k−1),), the columns of V one after the other, ``bias`` (k,), ``u`` (m↓, k) with zeros in
    the point's own cluster, ``t`` (m↑,), ``tau`` (J,), and the ``runner`` (n,) they belong to.

    Parameters
    ----------
    labels : (n,) int array
        The cluster of each point, 0..k−1.
    clusters : int
    parts : SplitLosses
        The losses split in two.
    runner : (n,) int array, optional
        The cluster whose decision value enters the rising part.

    References
    ----------
    K. Crammer, Y. Singer (2001); C. Zhang, B. Zhao (2008), slides on maximum margin clustering, Eq. 12.
    """

    labels: IntArray
    clusters: int
    parts: SplitLosses
    runner: IntArray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels.shape != (self.n,):
            raise DeclarationError(f"labels: given shape {self.labels.shape}, expected ({self.n},)")
        for bound in self.decision:
            if not bound.is_symmetric:
                raise DeclarationError("clusters take decision bounds of the form |sum| <= l only")

    def variables(self) -> dict[str, Variable]:
        """Return what an answer holds."""
        duals = {"u": Variable((self.parts.falling.rows, self.clusters), needed=False, least=0.0),
                 "t": Variable((self.parts.rising.rows,), needed=False),
                 "tau": Variable((len(self.balance[1]),), needed=False)}
        bias = Variable((self.clusters,), default=None if self.free_bias else 0.0)
        return {"w": Variable((self.size_of_w,)), "bias": bias, **duals,
                "runner": Variable((self.n,), needed=False, below=self.clusters)}

    def bracket(self, answer: Mapping[str, FloatArray]) -> tuple[float, float]:
        """Return the primal objective, and the dual one where no loss rises."""
        value = self.objective(answer["w"], answer["bias"])
        if self.parts.rising.rows or "u" not in answer:
            return -np.inf, value
        tau = answer.get("tau", np.zeros(len(self.balance[1])))
        return self.dual_objective(answer["u"], tau), value

    @property
    def labelling(self) -> IntArray:
        """Return the clusters."""
        return self.labels

    @property
    def falls(self) -> bool:
        """Return whether no loss rises."""
        return not self.parts.rising.rows

    @property
    def seen(self) -> Losses:
        """Return the falling losses."""
        return self.parts.falling

    def steps(self, points: IntArray) -> IntArray:
        """Return the numbers of points, from 1, n times their cluster added."""
        return points + 1 + self.n * self.labels[points].astype(int)

    def point_duals(self, u: FloatArray) -> FloatArray:
        """Return (n, k) duals of points, of rows (m, k)."""
        out = np.zeros((self.n, self.clusters))
        np.add.at(out, self.parts.falling.points, u)
        return out

    @property
    def is_convex(self) -> bool:
        """Return whether no loss rises, or the rising part is majorised."""
        return self.runner is not None or not self.parts.rising.rows

    def falling_only(self) -> ClusterForm:
        """Return the convex form without the rising parts of the losses."""
        parts = SplitLosses(self.parts.falling, Losses(self.n, ()), self.parts.constant)
        return replace(self, losses=parts.falling, parts=parts)

    @frozen_property
    def codes(self) -> FloatArray:
        """Return the (k, k−1) contrasts B."""
        return contrasts(self.clusters)

    @frozen_property
    def balance(self) -> tuple[FloatArray, FloatArray]:
        """Return (G, l): rows over (w, β) and radii (J,) of |Σ a f_p − Σ a f_q| ≤ l over all pairs (slides Eq. 18)."""
        (sums, totals), differences = self.decision_rows, self.pairs @ self.codes
        radii = np.repeat([bound.upper for bound in self.decision], len(differences))
        rows = np.einsum("pc,jr->jpcr", differences, sums).reshape(len(radii), self.size_of_w)
        tilts = np.einsum("pc,j->jpc", differences, totals).reshape(len(radii), self.clusters - 1)
        return np.hstack([rows, tilts[:, : self.border]]), radii

    @frozen_property
    def pairs(self) -> FloatArray:
        """Return the (k(k−1)/2, k) differences of two clusters."""
        first, second = np.triu_indices(self.clusters, 1)
        return np.asarray(np.eye(self.clusters)[first] - np.eye(self.clusters)[second])

    @property
    def border(self) -> int:
        """Return the number of coordinates β of a free bias, 0 without one."""
        return (self.clusters - 1) * self.free_bias

    @property
    def size_of_w(self) -> int:
        """Return r(k−1)."""
        return int(self.features.rank) * (self.clusters - 1)

    def unpack(self, w: FloatArray) -> FloatArray:
        """Return V (r, k−1) of a vector w."""
        return w.reshape(self.clusters - 1, self.features.rank).T

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray | float]:
        """Return w and the bias Bβ (k,) of x = (w, β), 0 where it is not free."""
        r = self.size_of_w
        return x[:r], self.codes @ x[r:] if self.free_bias else 0.0

    def join(self, w: FloatArray, bias: FloatArray | float) -> FloatArray:
        """Return x = (w, β)."""
        return np.append(w, self.codes.T @ np.broadcast_to(bias, self.clusters)) if self.free_bias else w

    def plane(self, answer: Mapping[str, FloatArray]) -> tuple[FloatArray | float, FloatArray]:
        """Return the bias (k,), 0 where it is not free, and no scalars."""
        return np.asarray(answer["bias"])[()] if self.free_bias else 0.0, np.zeros(0)

    def outputs(self, w: FloatArray, bias: FloatArray | float = 0.0) -> FloatArray:
        """Return the (n, k) decision values."""
        return np.asarray(self.features.apply(self.unpack(w)) @ self.codes.T + bias)

    def margins(self, outputs: FloatArray) -> FloatArray:
        """Return the (n,) Crammer-Singer margins of the points in their clusters."""
        everyone = np.arange(self.n)
        return np.asarray(outputs[everyone, self.labels] - outputs[everyone, runner_up(outputs, self.labels)])

    def objective(self, w: FloatArray, bias: FloatArray | float = 0.0, scalars: FloatArray | None = None) -> float:
        """Return the objective, the rising part at the true runner-up."""
        return 0.5 * float(w @ w) + self.losses.value(self.margins(self.outputs(w, bias)), scalars)

    def majorant(self, w: FloatArray, bias: FloatArray | float = 0.0) -> float:
        """Return the objective with the rising part at the given runner-ups."""
        outputs = self.outputs(w, bias)
        value = 0.5 * float(w @ w) + self.parts.falling.value(self.margins(outputs)) + self.parts.constant
        if self.parts.rising.rows:
            assert self.runner is not None
            everyone = np.arange(self.n)
            value += self.parts.rising.value(outputs[everyone, self.labels] - outputs[everyone, self.runner])
        return value

    def dual_table(self, u: FloatArray, t: FloatArray | None = None) -> FloatArray:
        """Return the (n, k) duals of the decision values; rows sum to zero."""
        table = np.zeros((self.n, self.clusters))
        everyone = np.arange(self.n)
        falling, rising = self.parts.falling, self.parts.rising
        if falling.rows:
            np.add.at(table, falling.points, -u)
            table[everyone, self.labels] += np.bincount(falling.points, weights=u.sum(axis=1), minlength=self.n)
        if t is not None and len(t):
            assert self.runner is not None
            spread = rising.spread(t)
            table[everyone, self.labels] -= spread
            table[everyone, self.runner] += spread
        return table

    def dual_direction(self, u: FloatArray, tau: FloatArray, t: FloatArray | None = None) -> FloatArray:
        """Return the (r(k−1),) weights w(u, τ, t)."""
        w = self.features.adjoint(self.dual_table(u, t) @ self.codes).T.ravel()
        return w - self.balance[0][:, : len(w)].T @ tau if len(tau) else w

    def bias_terms(self, u: FloatArray, tau: FloatArray, t: FloatArray | None = None) -> FloatArray:
        """Return the terms (M, k) of sums that a free bias makes zero; none without one."""
        if not self.free_bias:
            return np.zeros((0, self.clusters))
        pulls = tau.reshape(len(self.decision), len(self.pairs)) * self.decision_rows[1][:, None]
        return np.vstack([self.dual_table(u, t), -(pulls[:, :, None] * self.pairs).reshape(-1, self.clusters)])

    def dual_error(self, u: FloatArray, tau: FloatArray) -> float:
        """Return the largest violation of the equalities of a free bias, relative to their terms."""
        terms = self.bias_terms(u, tau)
        return greatest_ratio(terms.sum(axis=0), np.abs(terms).sum(axis=0))

    def levelled(self, u: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (u, τ) whose sums a free bias makes zero: a bound takes up the rest, else flows between clusters do.

        The u are flows from the clusters of points to others. Those from p to q times 1 + z_p − z_q leave nothing over
        where z solves a Laplacian system; divided by the largest such factor they stay in the domain of the conjugates.
        """
        if not self.free_bias:
            return u, tau
        k, h, rest = self.clusters, self.decision_rows[1], self.bias_terms(u, tau).sum(axis=0)
        if np.any(h != 0):
            tau = np.array(tau).reshape(len(h), len(self.pairs))
            place = int(np.argmax(np.abs(h) * (np.abs(tau).sum(axis=1) > 0) + 1e-9 * np.abs(h)))
            tau[place] += self.pairs @ rest / (k * h[place])
            return u, tau.ravel()
        own, flows = self.labels[self.parts.falling.points], np.zeros((k, k))
        np.add.at(flows, own, u)
        flows = flows + flows.T
        z = np.linalg.lstsq(np.diag(flows.sum(axis=1)) - flows, -rest, rcond=None)[0]
        factor = 1.0 + z[own][:, None] - z
        return u * (factor / factor.max(initial=1.0)), tau

    def dual_objective(self, u: FloatArray, tau: FloatArray, t: FloatArray | None = None) -> float:
        """Return the dual objective of the convex problem at u ≥ 0, τ, t; −inf outside its domain."""
        if np.any(u < 0):
            return -np.inf
        w = self.dual_direction(u, tau, t)
        value = self.parts.constant - 0.5 * float(w @ w) - float(np.abs(tau) @ self.balance[1])
        value -= self.parts.falling.conjugate_value(u.sum(axis=1)) if len(u) else 0.0
        value -= self.parts.rising.conjugate_value(-t) if t is not None and len(t) else 0.0
        return value

    def primal_residual(self, w: FloatArray, bias: FloatArray | float = 0.0) -> float:
        """Return the largest violation of the decision bounds, relative to the size of their rows."""
        (G, radii), x = self.balance, self.join(w, bias)
        sizes = np.linalg.norm(G, axis=1) * np.linalg.norm(x)
        return greatest_ratio(np.maximum(np.abs(G @ x) - radii, 0.0), sizes + radii)

    def structure(self) -> tuple[Any, ...]:
        """Return the key of a form: labels and runners may differ."""
        return (*(super().structure() or ()), self.clusters)

    def size(self) -> dict[str, int]:
        """Return the sizes `explain` prints."""
        return super().size() | {"clusters": self.clusters}
