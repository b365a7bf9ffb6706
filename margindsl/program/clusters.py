"""Fixed labels with Crammer-Singer margins: against the strongest other cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from margindsl.calculus.accuracy import EPS, greatest_ratio
from margindsl.errors import DeclarationError
from margindsl.labelset.codes import differences
from margindsl.program.answers import Variable
from margindsl.program.equalities import dual_limits, project_duals
from margindsl.program.labelled import LabelledForm
from margindsl.program.losses import Losses
from margindsl.program.split import SplitLosses, whole_duals
from margindsl.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ClusterForm(LabelledForm):
    """Represent fixed clusters with Crammer-Singer margins γ_i = f_{i,y_i} − max over q ≠ y_i of f_{i,q}.

    min over V, s of ½‖V‖² + qᵀs + Σ_r c_r ρ_r(a_r γ_p(r) + g_rᵀs + d_r), f = Φ V Bᵀ with codes B, the contrasts.
    Parts are taken with a_r ≥ 0. The falling part is convex, jointly in V and s: max over q of ρ↓(a(f_y − f_q) + gᵀs +
    d). The rising part is not: it is at most ρ↑(a(f_y − f_q) + gᵀs + d) for every q, with equality at the runner-up.
    With `runner` given it is replaced by this majorant, jointly convex too; without, a solver takes majorants until it
    is stationary.
    Dual of the convex problem: max −Σ cρ↓*(−Σ_q u_q/c) − Σ cρ↑*(t/c) − Σ_r d_r(Σ_q u_rq − t_r) − ½‖w(u, t, τ)‖² −
    Σ ℓ|τ| over u ≥ 0 with Σ_r g_r(Σ_q u_rq − t_r) = q (≤ q for non-negative scalars),
    w = Σ_r Σ_q a_r u_rq (b_y − b_q) ⊗ φ − Σ_r a_r t_r (b_y − b_runner) ⊗ φ − Gᵀτ. A free bias is
    Bβ, and its dual equality the same sum with ones for φ.

    A solver returns ``w`` (r(k−1),), the columns of V one after the other, ``bias`` (k−1,), ``scalars`` (S,), ``u``
    (m↓, k) with zeros in the point's own cluster, ``t`` (m↑,), ``tau`` (J,), and the ``runner`` (n,) they belong to.

    Parameters
    ----------
    parts : SplitLosses
        The losses split in two.
    runner : (n,) int array, optional
        The cluster whose decision value enters the rising part.

    References
    ----------
    K. Crammer, Y. Singer (2001); C. Zhang, B. Zhao (2008), slides on maximum margin clustering, Eq. 12.
    """

    parts: SplitLosses
    runner: IntArray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for bound in self.decision:
            if not bound.is_symmetric:
                raise DeclarationError("clusters take decision bounds of the form |sum| <= l only")

    def variables(self) -> dict[str, Variable]:
        return super().variables() | {
            "u": Variable((self.parts.falling.rows, self.clusters), needed=False, least=0.0),
            "t": Variable((self.parts.rising.rows,), needed=False),
            "runner": Variable((self.n,), needed=False, below=self.clusters)}

    def bracket(self, answer: Mapping[str, FloatArray]) -> tuple[float, float]:
        value = self.objective(answer["w"], answer["bias"], answer["scalars"])
        if self.parts.rising.rows or "u" not in answer:
            return -np.inf, value
        return self.dual_objective(answer["u"], answer.get("tau", np.zeros(len(self.bound_rows[0])))), value

    @property
    def falls(self) -> bool:
        """Return whether no loss rises."""
        return not self.parts.rising.rows

    @property
    def seen(self) -> Losses:
        """Return the falling losses."""
        return self.parts.falling

    def point_duals(self, u: FloatArray) -> FloatArray:
        """Return (n, k) duals of points, of rows (m, k); of the rows of the losses, where shared scalars couple them.
        """
        if self.losses.scalars.count:
            return whole_duals(self.parts.parts, u, self.losses.rows)
        return self.parts.falling.scatter(u)

    @property
    def is_convex(self) -> bool:
        return self.runner is not None or not self.parts.rising.rows

    def drawn(self, table: FloatArray) -> FloatArray:
        """Return the adjoint of `outputs` at a table (n, k), in x, with zeros for the scalars."""
        coded = table @ self.codes
        return self.join(self.features.adjoint(coded).T.ravel(), coded.sum(axis=0))

    def margins(self, decision: FloatArray) -> FloatArray:
        everyone = np.arange(self.n)
        return np.asarray(decision[everyone, self.labels] - decision[everyone, runner_up(decision, self.labels)])

    def dual_table(self, u: FloatArray, t: FloatArray | None = None) -> FloatArray:
        """Return the (n, k) duals of the decision values; rows sum to zero."""
        table = -self.parts.falling.scatter(u)
        everyone = np.arange(self.n)
        table[everyone, self.labels] -= table.sum(axis=1)
        if t is not None and len(t):
            assert self.runner is not None
            scatter = self.parts.rising.scatter(t)
            table[everyone, self.labels] -= scatter
            table[everyone, self.runner] += scatter
        return table

    def dual_direction(self, u: FloatArray, tau: FloatArray, t: FloatArray | None = None) -> FloatArray:
        """Return the (r(k−1),) weights w(u, τ, t)."""
        w = self.features.adjoint(self.dual_table(u, t) @ self.codes).T.ravel()
        return w - self.bound_rows[0].T @ tau if len(tau) else w

    def bias_terms(self, u: FloatArray, tau: FloatArray, t: FloatArray | None = None) -> FloatArray:
        """Return the terms (M, q) of sums that a free bias makes zero; none without one."""
        if not self.free_bias:
            return np.zeros((0, self.width))
        return np.vstack([self.dual_table(u, t) @ self.codes, -self.bound_rows[1] * tau[:, None]])

    def dual_error(self, u: FloatArray, tau: FloatArray, t: FloatArray | None = None) -> float:
        """Return the largest violation of the dual's equalities (shared scalars, free bias), relative to its terms."""
        terms, size = self.bias_terms(u, tau, t), np.abs(self.dual_table(u, t)).sum(axis=0) @ np.abs(self.codes)
        rows = np.append(u.sum(axis=1), np.zeros(self.parts.rising.rows) if t is None else -t)
        held = self.parts.joined.scalar_residual(rows)
        return max(held, greatest_ratio(terms.sum(axis=0), np.maximum(np.abs(terms).sum(axis=0), size)))

    def balanced(self, u: FloatArray) -> FloatArray:
        """Return u (m↓, k) whose sums over clusters are in the domain of the conjugates and pay for the scalars."""
        falling, sums = self.parts.falling, u.sum(axis=1)
        if not falling.scalars.count:
            return u
        others = np.ones(u.shape)
        others[np.arange(len(u)), self.labels[falling.points]] = 0.0
        shares = np.where((sums > 0)[:, None], u, others)
        charge = np.maximum(project_duals(falling, sums), 0.0)
        return shares * (charge / shares.sum(axis=1))[:, None]

    def projected(self, u: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (u, τ) that pay for the scalars and level a free bias: a bound takes up the rest, else flows do.

        The u are flows from the clusters of points to others. Those from p to q times 1 + z_p − z_q leave nothing over
        where z solves a Laplacian system. Rows at a limit of the domain of the conjugates, and those that pay for
        scalars, keep their sums, their flows go between the others; else all are divided by the largest such factor.
        """
        u = self.balanced(u)
        if not self.free_bias:
            return u, tau
        h, rest, D = self.decision_rows[1], self.bias_terms(u, tau).sum(axis=0), differences(self.codes)
        if np.any(h != 0):
            tau = np.array(tau).reshape(len(h), len(D))
            position = int(np.argmax(np.abs(h) * (np.abs(tau).sum(axis=1) > 0) + 1e-9 * np.abs(h)))
            tau[position] += D @ rest / (self.clusters * h[position])  # DᵀD = k I
            return u, tau.ravel()
        lower, upper = dual_limits(self.parts.falling)
        near = 1e-9 * np.abs(u).sum(axis=1)  # from a limit: what an equality was missed by moves no row further
        alone = ~np.any(self.parts.falling.coupling, axis=1)

        def within(u: FloatArray) -> FloatArray:
            u = np.maximum(u, 0.0)
            sums = u.sum(axis=1)
            limited = np.where(sums <= lower + near, lower, np.where(sums >= upper - near, upper, sums))
            return u * np.divide(limited, sums, out=np.zeros_like(sums), where=sums > 0)[:, None]

        for _ in range(self.clusters):  # nothing flows to a cluster that nothing flows from
            u = u * np.isin(np.arange(self.clusters), self.labels[self.parts.falling.points[u.any(axis=1)]])
        moved = within(u)
        for _ in range(3):
            sums = moved.sum(axis=1)
            inside = ((lower + near < sums) & (sums < upper - near) & alone)[:, None]
            moved = within(self._flowing(moved, inside, self.codes @ self.bias_terms(moved, tau).sum(axis=0)))
        if self.dual_error(moved, tau) <= 32 * EPS:  # a proof is judged by the rounding of its sums
            return moved, tau
        moved = self._flowing(u, np.ones_like(inside), self.codes @ rest)
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
        value = self.parts.constant - 0.5 * float(w @ w) - self.support(tau)
        value -= self.parts.falling.conjugate_value(u.sum(axis=1)) if len(u) else 0.0
        value -= self.parts.rising.conjugate_value(-t) if t is not None and len(t) else 0.0
        return value

    def size(self) -> dict[str, int]:
        return super().size() | {"clusters": self.clusters}


def runner_up(decision: FloatArray, labels: IntArray) -> IntArray:
    """Return the (n,) strongest cluster other than a point's own, of decision values (n, k)."""
    rest = np.array(decision)
    rest[np.arange(len(labels)), labels] = -np.inf
    return rest.argmax(axis=1)


def first_names(labellings: IntArray, heights: FloatArray | None = None) -> tuple[IntArray, FloatArray]:
    """Return labellings (T, n) with clusters numbered by first appearance, and heights (T, k) of clusters so named.

    Both are equal where names alone differ; heights of clusters that are empty are zero.
    """
    k = int(labellings.max()) + 1 if heights is None else heights.shape[1]
    found = [labellings == name for name in range(k)]
    first = np.stack([np.where(own.any(axis=1), own.argmax(axis=1), own.shape[1]) for own in found], axis=1)
    order = np.argsort(first, axis=1, kind="stable")
    out = np.zeros(labellings.shape, dtype=np.min_scalar_type(k))
    for own, position in zip(found, np.argsort(order, axis=1, kind="stable").T):
        out += own * position[:, None].astype(out.dtype)
    given = np.zeros(first.shape) if heights is None else np.where(first < labellings.shape[1], heights, 0.0)
    return out, np.take_along_axis(given, order, axis=1) + 0.0  # no negative zeros
