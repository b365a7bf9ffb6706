"""More than two clusters: margins, costs of labels, and the forms left when the labels are fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import EPS, greatest_ratio
from margindsl.errors import DeclarationError
from margindsl.features import CodedFeatures, FeatureOperator
from margindsl.host.frozen import frozen_property
from margindsl.labelset.codes import contrasts, simplex_codes
from margindsl.program.answers import Variable
from margindsl.program.bounded_bias import ClusterLimits, biased_losses
from margindsl.program.bounds import DecisionBound
from margindsl.program.codes import runner_up
from margindsl.program.equalities import dual_limits, project_duals
from margindsl.program.forms import FixedLabelForm, Form
from margindsl.program.losses import Losses, LossTerm
from margindsl.program.split import SplitLosses, whole_duals
from margindsl.typing import BoolArray, FloatArray, IntArray


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
        limits = self.limits
        if limits is None:
            return super().point_duals(u)
        own = self.losses.scalars.count - limits.codes.shape[1]
        return u[:len(u) - (len(limits.pairs()) if limits.is_finite else 0)] if own else self.losses.spread(u)

    @property
    def labelling(self) -> IntArray:
        return self.clustering

    def steps(self, points: IntArray) -> IntArray:
        return points + 1 + self.n * self.clustering[points].astype(int)

    def outputs(self, w: FloatArray, bias: FloatArray | float = 0.0) -> FloatArray:
        coded: Any = self.features
        return np.asarray(coded.base.apply(coded.unpack(w)) @ coded.codes.T + bias)

    def margins(self, outputs: FloatArray) -> FloatArray:
        return np.asarray(outputs[np.arange(self.n), self.clustering])

    def structure(self) -> None:
        return None


@dataclass(frozen=True, eq=False)
class ClusterForm(Form):
    """Represent fixed clusters with Crammer-Singer margins γ_i = f_{i,y_i} − max over q ≠ y_i of f_{i,q}.

    min over V, s of ½‖V‖² + qᵀs + Σ_r c_r ρ_r(a_r γ_p(r) + g_rᵀs + d_r), f = Φ V Bᵀ with B the contrasts. Parts are
    taken with a_r ≥ 0. The falling part is convex, jointly in V and s: max over q of ρ↓(a(f_y − f_q) + gᵀs + d). The
    rising part is not: it is at most ρ↑(a(f_y − f_q) + gᵀs + d) for every q, with equality at the runner-up. With
    `runner` given it is replaced by this majorant, jointly convex too; without, a solver takes majorants until it is
    stationary.
    Dual of the convex problem: max −Σ cρ↓*(−Σ_q u_q/c) − Σ cρ↑*(t/c) − Σ_r d_r(Σ_q u_rq − t_r) − ½‖w(u, t, τ)‖² −
    Σ ℓ|τ| over u ≥ 0 with Σ_r g_r(Σ_q u_rq − t_r) = q (≤ q for non-negative scalars),
    w = Σ_r Σ_q a_r u_rq (b_y − b_q) ⊗ φ − Σ_r a_r t_r (b_y − b_runner) ⊗ φ − Gᵀτ. A free bias is one number a cluster,
    Bβ, and its dual equality the same sum with ones for φ.

    A solver returns ``w`` (r(k−1),), the columns of V one after the other, ``bias`` (k,), ``scalars`` (S,), ``u``
    (m↓, k) with zeros in the point's own cluster, ``t`` (m↑,), ``tau`` (J,), and the ``runner`` (n,) they belong to.

    Parameters
    ----------
    labels : (n,) int array
        The cluster of each point, 0..k−1.
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
        duals = {"u": Variable((self.parts.falling.rows, self.clusters), needed=False, least=0.0),
                 "t": Variable((self.parts.rising.rows,), needed=False),
                 "tau": Variable((len(self.balance[1]),), needed=False)}
        bias, scalars = Variable((self.clusters,), default=None if self.free_bias else 0.0), self.losses.scalars
        return {"w": Variable((self.size_of_w,)), "bias": bias, **duals,
                "scalars": Variable((scalars.count,), least=np.where(scalars.nonneg, 0.0, -np.inf)),
                "runner": Variable((self.n,), needed=False, below=self.clusters)}

    def bracket(self, answer: Mapping[str, FloatArray]) -> tuple[float, float]:
        value = self.objective(answer["w"], answer["bias"], answer["scalars"])
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
        """Return (n, k) duals of points, of rows (m, k); of the rows of the losses, where shared scalars couple them.
        """
        if self.losses.scalars.count:
            return whole_duals(self.parts.parts, u, self.losses.rows)
        return self.parts.falling.spread(u)

    @property
    def is_convex(self) -> bool:
        return self.runner is not None or not self.parts.rising.rows

    def falling_only(self) -> ClusterForm:
        """Return the convex form without the rising parts of the losses."""
        parts = replace(self.parts, rising=replace(self.parts.rising, terms=()))
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

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray | float, FloatArray]:
        """Return w, the bias Bβ (k,), 0 where it is not free, and s of x = (w, β, s)."""
        r = self.size_of_w
        return x[:r], self.codes @ x[r : r + self.border] if self.free_bias else 0.0, x[r + self.border :]

    def join(self, w: FloatArray, bias: FloatArray | float, scalars: FloatArray | None = None) -> FloatArray:
        """Return x = (w, β, s)."""
        beta = self.codes.T @ np.broadcast_to(bias, self.clusters) if self.free_bias else np.zeros(0)
        return np.concatenate([w, beta, np.zeros(self.losses.scalars.count) if scalars is None else scalars])

    def plane(self, answer: Mapping[str, FloatArray]) -> tuple[FloatArray | float, FloatArray]:
        """Return the bias (k,), 0 where it is not free, and the scalars."""
        return (np.asarray(answer["bias"])[()] if self.free_bias else 0.0,
                np.asarray(answer.get("scalars", np.zeros(self.losses.scalars.count))))

    def outputs(self, w: FloatArray, bias: FloatArray | float = 0.0) -> FloatArray:
        """Return the (n, k) decision values."""
        return np.asarray(self.features.apply(self.unpack(w)) @ self.codes.T + bias)

    def drawn(self, table: FloatArray) -> FloatArray:
        """Return the adjoint of `outputs` at a table (n, k), in x, with zeros for the scalars."""
        return self.join(self.features.adjoint(table @ self.codes).T.ravel(), table.sum(axis=0))

    def margins(self, outputs: FloatArray) -> FloatArray:
        """Return the (n,) Crammer-Singer margins of the points in their clusters."""
        everyone = np.arange(self.n)
        return np.asarray(outputs[everyone, self.labels] - outputs[everyone, runner_up(outputs, self.labels)])

    def objective(self, w: FloatArray, bias: FloatArray | float = 0.0, scalars: FloatArray | None = None) -> float:
        """Return the objective, the rising part at the true runner-up."""
        return 0.5 * float(w @ w) + self.losses.value(self.margins(self.outputs(w, bias)), scalars)

    def majorant(self, w: FloatArray, bias: FloatArray | float = 0.0, scalars: FloatArray | None = None) -> float:
        """Return the objective with the rising part at the given runner-ups."""
        outputs = self.outputs(w, bias)
        value = 0.5 * float(w @ w) + self.parts.falling.value(self.margins(outputs), scalars) + self.parts.constant
        if self.parts.rising.rows:
            assert self.runner is not None
            everyone = np.arange(self.n)
            value += self.parts.rising.value(outputs[everyone, self.labels] - outputs[everyone, self.runner], scalars)
        return value

    def dual_table(self, u: FloatArray, t: FloatArray | None = None) -> FloatArray:
        """Return the (n, k) duals of the decision values; rows sum to zero."""
        table = -self.parts.falling.spread(u)
        everyone = np.arange(self.n)
        table[everyone, self.labels] -= table.sum(axis=1)
        if t is not None and len(t):
            assert self.runner is not None
            spread = self.parts.rising.spread(t)
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

    def dual_error(self, u: FloatArray, tau: FloatArray, t: FloatArray | None = None) -> float:
        """Return the largest violation of the dual's equalities (shared scalars, free bias), relative to its terms."""
        terms = self.bias_terms(u, tau, t)
        held = self.parts.joined.scalar_residual(self.row_duals(u, t))
        return max(held, greatest_ratio(terms.sum(axis=0), np.abs(terms).sum(axis=0)))

    def row_duals(self, u: FloatArray, t: FloatArray | None = None) -> FloatArray:
        """Return the duals −cρ' of the rows of both parts: Σ_q u_q of the falling, −t of the rising parts."""
        return np.append(u.sum(axis=1), np.zeros(self.parts.rising.rows) if t is None else -t)

    def balanced(self, u: FloatArray) -> FloatArray:
        """Return u (m↓, k) whose sums over clusters are in the domain of the conjugates and pay for the scalars."""
        falling, sums = self.parts.falling, u.sum(axis=1)
        if not falling.scalars.count:
            return u
        others = np.ones(u.shape)
        others[np.arange(len(u)), self.labels[falling.points]] = 0.0
        shares = np.where((sums > 0)[:, None], u, others)
        paid = np.maximum(project_duals(falling, sums), 0.0)
        return shares * (paid / shares.sum(axis=1))[:, None]

    def levelled(self, u: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (u, τ) that pay for the scalars and level a free bias: a bound takes up the rest, else flows do.

        The u are flows from the clusters of points to others. Those from p to q times 1 + z_p − z_q leave nothing over
        where z solves a Laplacian system. Rows at a limit of the domain of the conjugates keep their sums, their flows
        go between the others; where that does not do, all are divided by the largest such factor.
        """
        u = self.balanced(u)
        if not self.free_bias:
            return u, tau
        k, h, rest = self.clusters, self.decision_rows[1], self.bias_terms(u, tau).sum(axis=0)
        if np.any(h != 0):
            tau = np.array(tau).reshape(len(h), len(self.pairs))
            place = int(np.argmax(np.abs(h) * (np.abs(tau).sum(axis=1) > 0) + 1e-9 * np.abs(h)))
            tau[place] += self.pairs @ rest / (k * h[place])
            return u, tau.ravel()
        lower, upper = dual_limits(self.parts.falling)

        near = 1e-9 * np.abs(u).sum(axis=1)  # rows as near to a limit are at it: clusters may have no other rows

        def within(u: FloatArray) -> FloatArray:
            u = np.maximum(u, 0.0)
            sums = u.sum(axis=1)
            ends = np.where(sums < lower + near, lower, np.where(sums > upper - near, upper, sums))
            return u * np.divide(ends, sums, out=np.zeros_like(sums), where=sums > 0)[:, None]

        moved = within(u)
        for _ in range(3):
            sums = moved.sum(axis=1)
            inside = ((lower + near < sums) & (sums < upper - near))[:, None]
            moved = within(self._flowing(moved, inside, self.bias_terms(moved, tau).sum(axis=0)))
        if self.dual_error(moved, tau) <= 32 * EPS:  # a proof is judged by the rounding of its sums
            return moved, tau
        moved = self._flowing(u, np.ones_like(inside), rest)
        return moved / np.divide(moved, u, out=np.zeros_like(u), where=u > 0).max(initial=1.0), tau

    def _flowing(self, u: FloatArray, inside: BoolArray, rest: FloatArray) -> FloatArray:
        """Return u changed by potentials of the clusters such that no rest is left, sums of rows not inside kept."""
        own, sums, k = self.labels[self.parts.falling.points], u.sum(axis=1), self.clusters
        weighted, flows = self.parts.falling.slopes[:, None] * u, np.zeros((k, k))
        share = np.divide(u, sums[:, None], out=np.zeros_like(u), where=sums[:, None] > 0)
        np.add.at(flows, own, np.where(inside, weighted, 0.0))
        flows += flows.T + np.where(inside, 0.0, weighted).T @ share
        z = np.linalg.lstsq(np.diag(flows.sum(axis=1)) - flows, -rest, rcond=None)[0]
        return u * (1.0 + np.where(inside, z[own][:, None], (share @ z)[:, None]) - z)

    def dual_objective(self, u: FloatArray, tau: FloatArray, t: FloatArray | None = None) -> float:
        """Return the dual objective of the convex problem at u ≥ 0, τ, t; −inf outside its domain."""
        if np.any(u < 0):
            return -np.inf
        w = self.dual_direction(u, tau, t)
        value = self.parts.constant - 0.5 * float(w @ w) - float(np.abs(tau) @ self.balance[1])
        value -= self.parts.falling.conjugate_value(u.sum(axis=1)) if len(u) else 0.0
        value -= self.parts.rising.conjugate_value(-t) if t is not None and len(t) else 0.0
        return value

    def primal_residual(self, w: FloatArray, bias: FloatArray | float = 0.0,
                        scalars: FloatArray | None = None) -> float:
        """Return the largest violation of decision bounds and scalar signs, relative to the size of their rows."""
        (G, radii), x = self.balance, self.join(w, bias)[: self.size_of_w + self.border]
        sizes = np.linalg.norm(G, axis=1) * np.linalg.norm(x)
        worst = greatest_ratio(np.maximum(np.abs(G @ x) - radii, 0.0), sizes + radii)
        return max(worst, 0.0 if scalars is None else self.losses.scalars.violation(scalars))

    def structure(self) -> tuple[Any, ...]:
        return (*(super().structure() or ()), self.clusters)

    def size(self) -> dict[str, int]:
        return super().size() | {"clusters": self.clusters}
