"""Working set of cuts of a loss of Crammer-Singer margins, whose labels move."""

from __future__ import annotations

import numpy as np

from margindsl.drivers.working_set import ACCURACY
from margindsl.program.clusters import ClusterForm
from margindsl.program.codes import runner_up
from margindsl.program.program import MarginProgram
from margindsl.program.quadratic import minimise
from margindsl.typing import FloatArray, IntArray


class ClusterWorkingSet:
    """Hold cuts of Σ c ρ(γ), γ_i = f_{i,y_i} − max over q ≠ y_i of f_{i,q}, and solve the problem over them.

    A cut fixes a rival q_i and the loss linearised at some margin of each point (slides Eq. 17: c_i = e_q where the
    margin is below one). It stays when labels move; a point whose rival is its own cluster then has loss 0 in it.

    Parameters
    ----------
    program : MarginProgram
        More than two clusters, Crammer-Singer margins, losses that do not rise and are at least 0.
    labels : (n,) int array

    References
    ----------
    C. Zhang, B. Zhao (2008). Efficient maximum margin clustering (slides), Eq. 13-19.
    """

    def __init__(self, program: MarginProgram, labels: IntArray) -> None:
        self.program, self.labels, self.slack = program, labels, 0.0
        form = program.fix_labels(labels)
        assert isinstance(form, ClusterForm)
        self.form = form
        size, n = form.size_of_w, program.n
        self.slopes, self.offsets = np.zeros((0, n)), np.zeros((0, n))
        self.rivals = np.zeros((0, n), dtype=int)
        self.rows = np.zeros((0, size))
        self.add(np.zeros((n, form.clusters)))

    @property
    def count(self) -> int:
        """Return the number of cuts."""
        return len(self.rows)

    def loss(self, f: FloatArray) -> float:
        """Return the loss at decision values (n, k) and the present labels."""
        return self.program.losses.value(self._margins(f)[0])

    def _margins(self, f: FloatArray) -> tuple[FloatArray, IntArray]:
        everyone, rival = np.arange(len(f)), runner_up(f, self.labels)
        return f[everyone, self.labels] - f[everyone, rival], rival

    def add(self, f: FloatArray) -> None:
        """Add the cut that is most violated at decision values f (n, k)."""
        losses = self.program.losses
        margins, rival = self._margins(f)
        arguments = losses.arguments(margins)
        slopes = losses.spread(losses.derivative(arguments))
        values = np.bincount(losses.points, weights=losses.row_losses(arguments), minlength=losses.n)
        self.slopes = np.vstack([self.slopes, slopes])
        self.offsets = np.vstack([self.offsets, values - slopes * margins])
        self.rivals = np.vstack([self.rivals, rival])
        table = self._table(slopes, rival, self.labels)
        self.rows = np.vstack([self.rows, self.program.features.adjoint(table @ self.form.codes).T.ravel()])

    def _table(self, slopes: FloatArray, rival: IntArray, labels: IntArray) -> FloatArray:
        """Return the (m, k) derivative of a cut in the decision values of m points."""
        everyone = np.arange(len(labels))
        table = np.zeros((len(labels), self.form.clusters))
        table[everyone, labels] = slopes
        table[everyone, rival] -= slopes  # nothing is left where the rival is the label
        return table

    def relabel(self, labels: IntArray) -> bool:
        """Move the cuts to other labels and return whether any changed."""
        changed = np.flatnonzero(labels != self.labels)
        if not len(changed):
            return False
        points = self.program.features.rows(changed)
        new, old = labels[changed], self.labels[changed]
        for row, slopes, rival in zip(self.rows, self.slopes[:, changed], self.rivals[:, changed]):
            step = self._table(slopes, rival, new) - self._table(slopes, rival, old)
            row += ((step @ self.form.codes).T @ points).ravel()
        self.labels = labels
        return True

    def solve(self) -> tuple[FloatArray, float]:
        """Return decision values (n, k) and value of the minimiser of ½‖w‖² + ξ over the cuts, ξ ≥ 0 and the balance.

        The dual is a quadratic programme over the weights of cuts and of both sides of |Gw| ≤ l.
        """
        cuts = np.vstack([self.rows, np.zeros(self.form.size_of_w)])
        offsets = np.append(np.sum(np.where(self.rivals == self.labels, 0.0, self.offsets), axis=1), 0.0)
        G, radii = self.form.balance
        length = float(np.sqrt(np.max(np.einsum("kr,kr->k", cuts, cuts)))) or 1.0  # cuts without weight vanish
        size = np.maximum(np.sqrt(np.einsum("kr,kr->k", G, G)), 1e-300) / length
        G, radii = G / size[:, None], radii / size
        A = np.vstack([cuts, G, -G])
        c = np.concatenate([-offsets, radii, radii])
        unit = max(length**2, float(np.abs(offsets).max()))
        E = np.zeros((1, len(A)))
        E[0, : len(cuts)] = 1.0
        z, _, _ = minimise(A @ A.T, c, E, np.ones(1), ACCURACY * unit)
        z[: len(cuts)] /= z[: len(cuts)].sum()
        w = -z @ A
        self.slack = float(np.max(offsets + cuts @ w))
        return self.form.outputs(w), 0.5 * float(w @ w) + self.slack
