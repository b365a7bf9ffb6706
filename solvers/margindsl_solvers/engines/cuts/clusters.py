"""Masters of cutting planes for fixed clusters: balance rows enter where a master violates them."""

from __future__ import annotations

import numpy as np

from margindsl.contract import Budget
from margindsl_solvers.engines.cuts.bundle import Bundle
from margindsl_solvers.engines.cuts.linearisation import ClusterLine
from margindsl_solvers.engines.cuts.master import Answer, Bounds
from margindsl_solvers.engines.rows.cluster_rows import ClusterRows, balance

VIOLATED = 1e-9  # relative excess beyond which a balance row enters the master


class ClusterBundle(Bundle):
    """Hold the cuts of a convex fixed-cluster form; of the k(k−1) balance rows only those that a master violates enter.

    Parameters
    ----------
    budget : Budget
        No more masters are solved for a round once it has expired.
    """

    def __init__(self, rows: ClusterRows, budget: Budget) -> None:
        (G, self.radii), shared = balance(rows.form), rows.form.losses.scalars.count
        self.G = np.hstack([G, np.zeros((len(G), shared))])
        none = np.zeros(0)
        super().__init__(ClusterLine(rows), Bounds(self.G[:0], none, none.astype(int), none, len(self.radii)))
        self.most, self.budget = 2 * rows.form.clusters, budget

    def _solve(self, accuracy: float) -> Answer:
        answer = super()._solve(accuracy)
        while not self.budget.expired and self._let_in(answer):
            answer = super()._solve(accuracy)
        return answer

    def _let_in(self, answer: Answer) -> bool:
        """Add the balance rows that a master violates most; return whether there are any."""
        sums = self.G @ answer.x
        excess = np.stack([sums - self.radii, -sums - self.radii])
        new = excess > VIOLATED * np.maximum(self.radii, np.max(np.abs(excess), initial=0.0))
        new[(self.bounds.sides < 0).astype(int), self.bounds.index] = False
        most = min(self.most, int(new.sum()))  # far fewer hold with equality than are violated
        worst = np.argsort(-np.where(new, excess, -np.inf), axis=None)[:most]
        side, row = np.divmod(worst, max(len(self.radii), 1))
        signs = 1.0 - 2.0 * side
        self.bounds = self.bounds.and_sides(signs[:, None] * self.G[row], self.radii[row], row, signs)
        return bool(len(worst))
