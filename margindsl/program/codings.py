"""What margins mean: signs of one hyperplane, or clusters by Crammer-Singer or simplex coding; one object each."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from margindsl.program.codes import contrasts, runner_up, simplex_codes
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray, IntArray


class Coding(ABC):
    """Say how decision values, labels and margins go together."""

    @abstractmethod
    def no_gain(self, n: int, clusters: int) -> FloatArray:
        """Return zero gains, or decision values, of n points."""

    @abstractmethod
    def label_codes(self, clusters: int) -> FloatArray | None:
        """Return the (k, q) codes of labels in lifts and mixtures; None for signs, their own codes."""

    @abstractmethod
    def clusters(self, decision: FloatArray) -> int:
        """Return the number of clusters of decision values."""

    @abstractmethod
    def weights(self, w: FloatArray, clusters: int) -> FloatArray:
        """Return the weights of the decision functions: w (r,), or W (r, k) of k clusters."""

    @abstractmethod
    def margin_table(self, decision: FloatArray) -> FloatArray:
        """Return the (n, k) margins every point would have in every cluster; of signs those of −1 and +1."""

    @abstractmethod
    def margins(self, labels: IntArray, decision: FloatArray) -> FloatArray:
        """Return the (n,) margins of labels at decision values (n,) or (n, k)."""

    @abstractmethod
    def directions(self, labels: IntArray, decision: FloatArray, clusters: int) -> FloatArray:
        """Return the (n, q) gradients of the margins of labels in Vᵀφ."""

    @abstractmethod
    def gains(self, losses: Losses, decision: FloatArray, scalars: FloatArray | None) -> FloatArray:
        """Return what the best labels at decision values maximise: gains (n,) of signs, (n, k) of clusters."""

    @abstractmethod
    def predicted(self, decision: FloatArray) -> IntArray:
        """Return the labels that decision values stand for."""

    @abstractmethod
    def sizes(self, labels: IntArray, clusters: int) -> tuple[int, ...]:
        """Return the number of points of every cluster."""


class Signs(Coding):
    """Two clusters, −1 and +1, by the sign of one decision value; margins y f."""

    def no_gain(self, n: int, clusters: int) -> FloatArray:
        """Return zeros (n,)."""
        return np.zeros(n)

    def label_codes(self, clusters: int) -> None:
        """Return None."""
        return None

    def clusters(self, decision: FloatArray) -> int:
        """Return 2."""
        return 2

    def weights(self, w: FloatArray, clusters: int) -> FloatArray:
        """Return w."""
        return w

    def margin_table(self, decision: FloatArray) -> FloatArray:
        """Return (−f, f)."""
        return np.stack([-decision, decision], axis=1)

    def margins(self, labels: IntArray, decision: FloatArray) -> FloatArray:
        """Return y f."""
        return labels * decision

    def directions(self, labels: IntArray, decision: FloatArray, clusters: int) -> FloatArray:
        """Return the signs."""
        return labels[:, None].astype(float)

    def gains(self, losses: Losses, decision: FloatArray, scalars: FloatArray | None) -> FloatArray:
        """Return by how much the loss of −1 is above that of +1."""
        return -losses.label_costs(decision, scalars)

    def predicted(self, decision: FloatArray) -> IntArray:
        """Return the signs, +1 at zero."""
        return np.where(decision >= 0, 1, -1)

    def sizes(self, labels: IntArray, clusters: int) -> tuple[int, ...]:
        """Return the numbers of +1 and of −1."""
        return int(np.sum(labels > 0)), int(np.sum(labels < 0))


class Clustered(Coding):
    """Clusters 0..k−1 by decision values f = Φ V codesᵀ (n, k)."""

    @abstractmethod
    def codes(self, clusters: int) -> FloatArray:
        """Return the (k, k−1) rows that turn V into decision values."""

    def no_gain(self, n: int, clusters: int) -> FloatArray:
        """Return zeros (n, k)."""
        return np.zeros((n, clusters))

    def label_codes(self, clusters: int) -> FloatArray:
        """Return simplex codes."""
        return simplex_codes(clusters)

    def clusters(self, decision: FloatArray) -> int:
        """Return the number of columns."""
        return int(decision.shape[1])

    def weights(self, w: FloatArray, clusters: int) -> FloatArray:
        """Return V codesᵀ."""
        return np.asarray(w.reshape(clusters - 1, -1).T @ self.codes(clusters).T)

    def margins(self, labels: IntArray, decision: FloatArray) -> FloatArray:
        """Return the entries of the points' own clusters."""
        return np.asarray(self.margin_table(decision)[np.arange(len(decision)), labels])

    def gains(self, losses: Losses, decision: FloatArray, scalars: FloatArray | None) -> FloatArray:
        """Return minus the losses of every point in every cluster."""
        return -cluster_costs(losses, self.margin_table(decision), scalars)

    def predicted(self, decision: FloatArray) -> IntArray:
        """Return the largest columns."""
        return decision.argmax(axis=1)

    def sizes(self, labels: IntArray, clusters: int) -> tuple[int, ...]:
        """Return the numbers of points of 0..k−1."""
        return tuple(int(size) for size in np.bincount(labels, minlength=clusters))


class Simplex(Clustered):
    """Margins ⟨c_y, Vᵀφ⟩ of k unit codes with inner products −1/(k−1)."""

    def codes(self, clusters: int) -> FloatArray:
        """Return the codes."""
        return simplex_codes(clusters)

    def directions(self, labels: IntArray, decision: FloatArray, clusters: int) -> FloatArray:
        """Return the codes of the labels."""
        return self.codes(clusters)[labels]

    def margin_table(self, decision: FloatArray) -> FloatArray:
        """Return f itself."""
        return decision


class CrammerSinger(Clustered):
    """Margins f_y − max over q ≠ y of f_q.

    References
    ----------
    K. Crammer, Y. Singer (2001). On the algorithmic implementation of multiclass kernel-based vector machines.

    Examples
    --------
    >>> CrammerSinger().margin_table(np.array([[3.0, 1.0, 0.0]])).tolist()
    [[2.0, -2.0, -3.0]]
    """

    def codes(self, clusters: int) -> FloatArray:
        """Return an orthonormal basis of the contrasts.

        At an optimum Σ_p w_p = 0, since the margins see differences only, and then ‖V‖ = ‖W‖.
        """
        return contrasts(clusters)

    def directions(self, labels: IntArray, decision: FloatArray, clusters: int) -> FloatArray:
        """Return the codes of the labels less those of the strongest other clusters."""
        codes = self.codes(clusters)
        return np.asarray(codes[labels] - codes[runner_up(decision, labels)])

    def margin_table(self, decision: FloatArray) -> FloatArray:
        """Return f_q − max over p ≠ q of f_p."""
        everyone, best, rest = np.arange(len(decision)), decision.argmax(axis=1), np.array(decision)
        rest[everyone, best] = -np.inf
        table = decision - decision[everyone, best][:, None]
        table[everyone, best] = decision[everyone, best] - rest.max(axis=1)
        return table


def cluster_costs(losses: Losses, margins: FloatArray, scalars: FloatArray | None = None) -> FloatArray:
    """Return the (n, k) losses of every point in every cluster, from its margins there (n, k)."""
    columns = [np.bincount(losses.points, weights=losses.row_losses(losses.arguments(column, scalars)),
                           minlength=losses.n) for column in margins.T]
    return np.stack(columns, axis=1)


CODINGS: dict[str, Coding] = {"binary": Signs(), "crammer-singer": CrammerSinger(), "simplex": Simplex()}

__all__ = ["CODINGS", "Clustered", "Coding", "CrammerSinger", "Signs", "Simplex", "cluster_costs"]
