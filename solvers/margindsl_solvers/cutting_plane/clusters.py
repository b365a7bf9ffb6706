"""Cutting planes for fixed clusters with Crammer-Singer margins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.typing import FloatArray
from margindsl_solvers._cluster_rows import ClusterModel
from margindsl_solvers._cluster_run import inside_balance, judge_clusters
from margindsl_solvers._judge import Pair
from margindsl_solvers.cutting_plane.bundle import Bundle

Packed = tuple[FloatArray, ...]


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
        G, radii = self._clusters.form.balance
        index = np.arange(len(radii))
        return np.vstack([G, -G]), np.concatenate([radii, radii]), np.concatenate([index, index])

    def _sides(self) -> tuple[FloatArray, int]:
        count = len(self._clusters.form.balance[1])
        return np.repeat([1.0, -1.0], count), count

    def pair(self) -> Pair:
        """Return the best point with the dual point of the last master, judged."""
        assert self.answer is not None
        weights = self.model.weights
        multipliers = np.concatenate([self.line.combine(self._packed, self.answer.alpha), self.answer.tau])
        return judge_clusters(self._clusters, self.best, np.divide(
            multipliers, weights, out=np.zeros_like(multipliers), where=weights > 0))
