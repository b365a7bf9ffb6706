"""Cutting planes for fixed clusters with Crammer-Singer margins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.typing import FloatArray
from margindsl_solvers.engines.cuts.bundle import Answer, Bundle
from margindsl_solvers.engines.rows.cluster_run import inside_balance, judge_clusters
from margindsl_solvers.engines.rows.clusters import ClusterModel
from margindsl_solvers.engines.rows.judge import Pair

Packed = tuple[FloatArray, ...]
VIOLATED = 1e-9  # relative excess beyond which a balance row enters the master


@dataclass(frozen=True, eq=False)
class ClusterLinearisation:
    """Linearise R(w) = Σ c ρ↓(min_q m_q) + Σ c ρ↑(m_runner), m the differences f_y − f_q.

    Parameters
    ----------
    model : ClusterModel
    """

    model: ClusterModel

    def arguments(self, w: FloatArray) -> FloatArray:
        """Return the differences of blocks and rising losses."""
        return self.model.apply(w)[: self.model.rising_rows.stop]

    def value(self, v: FloatArray) -> float:
        """Return R at differences v."""
        return self.model.values(v)

    def derivative(self, v: FloatArray) -> FloatArray:
        """Return one subgradient of R in the differences: that of a block lies on its least entry."""
        model, out = self.model, np.zeros(len(v))
        falling, rising = model.form.parts.falling, model.form.parts.rising
        if falling.rows:
            m = v[model.block_rows].reshape(-1, model.width)
            least = m.argmin(axis=1)
            rows = np.arange(len(m))
            out[model.block_rows][rows * model.width + least] = falling.derivative(m[rows, least])
        if rising.rows:
            out[model.rising_rows] = rising.derivative(v[model.rising_rows])
        return out

    def cut(self, v: FloatArray) -> tuple[FloatArray, float, Packed]:
        """Return (g, o, multipliers) with R(w) ≥ ⟨g, w⟩ + o, equal at v.

        For the hinge it is the most violated constraint, c_i = e_{r*} where the margin is below one (slides
        Eq. 17).
        """
        slopes = self.derivative(v)
        used = np.flatnonzero(slopes)
        full = np.concatenate([slopes, np.zeros(len(self.model.form.balance[1]))])
        offset = self.value(v) - float(slopes[used] @ v[used])
        return self.model.adjoint(full), offset, (used.astype(np.int32), slopes[used])

    def combine(self, packed: list[Packed], weights: FloatArray) -> FloatArray:
        """Return the multipliers Σ_k α_k λ_k."""
        total = np.zeros(self.model.rising_rows.stop)
        for (used, slopes), alpha in zip(packed, weights):
            total[used] += alpha * slopes
        return total


class ClusterBundle(Bundle):
    """Hold the state of one solve of a convex fixed-cluster form; `model` is a `ClusterModel`."""

    @property
    def _clusters(self) -> ClusterModel:
        model: object = self.model
        assert isinstance(model, ClusterModel)
        return model

    def _linearisation(self) -> ClusterLinearisation:
        return ClusterLinearisation(self._clusters)

    def _inside(self, x: FloatArray) -> FloatArray:
        return inside_balance(self._clusters.form, x)

    def _fixed_rows(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return no balance row: of the k(k−1) only those that a master violates enter, see `_master`."""
        G, _ = self._clusters.form.balance
        self._signs = np.zeros(0)
        self._excess = np.zeros((2, len(G)))
        return G[:0], np.zeros(0), np.zeros(0, dtype=int)

    def _sides(self) -> tuple[FloatArray, int]:
        return self._signs, len(self._clusters.form.balance[1])

    def _master(self) -> Answer:
        """Solve masters over more and more balance rows, until none is violated; each value is a lower bound."""
        answer = super()._master()
        while not self.budget.expired and self._let_in():
            answer = super()._master()
        return answer

    def _unpack(self, z: FloatArray, y: FloatArray, B: FloatArray, c: FloatArray, base: float,
                count: int) -> Answer:
        G, radii = self._clusters.form.balance
        sums = G @ -(B.T @ z)
        self._excess = np.stack([sums - radii, -sums - radii])
        return super()._unpack(z, y, B, c, base, count)

    def _let_in(self) -> bool:
        """Add the balance rows that the last master violates most; return whether there are any."""
        G, radii = self._clusters.form.balance
        rows, limits, index = self._constraints
        slack = np.maximum(radii, np.max(np.abs(self._excess), initial=0.0))
        new = self._excess > VIOLATED * slack
        new[(self._signs < 0).astype(int), index.astype(int)] = False
        most = min(2 * self._clusters.form.clusters, int(new.sum()))  # far fewer hold with equality than are violated
        worst = np.argsort(-np.where(new, self._excess, -np.inf), axis=None)[:most]
        if not len(worst):
            return False
        side, row = np.divmod(worst, len(radii))
        signs = 1.0 - 2.0 * side
        self._constraints = (np.vstack([rows, signs[:, None] * G[row]]), np.append(limits, radii[row]),
                             np.append(index, row))
        self._signs = np.append(self._signs, signs)
        return True

    def pair(self) -> Pair:
        """Return the best point with the dual point of the last master, judged."""
        assert self.answer is not None
        weights = self.model.weights
        multipliers = np.concatenate([self.line.combine(self._packed, self.answer.alpha), self.answer.tau])
        return judge_clusters(self._clusters, self.best, np.divide(
            multipliers, weights, out=np.zeros_like(multipliers), where=weights > 0))
