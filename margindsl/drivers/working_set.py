"""Working set of cuts of the loss, whose labels move, solved over its dual by an interior-point method."""

from __future__ import annotations

import numpy as np

from margindsl.program.program import MarginProgram
from margindsl.program.quadratic import minimise
from margindsl.typing import FloatArray, IntArray

ACCURACY = 1e-10  # of the master, in units of its data
BLOCK = 1 << 22  # entries of the changes of all cuts that are formed at once


class WorkingSet:
    """Hold cuts of Σ c ρ(γ), and solve the problem over them at the present labels.

    A cut is the loss of every point linearised at some margin (Eq. 6; slides Eq. 17), and the rival q_i of a margin
    f_{i,y_i} − max over q ≠ y_i of f_{i,q}. It stays when labels move; a point whose rival is its own cluster then has
    its least loss in it.

    Parameters
    ----------
    program : MarginProgram
        Losses of the margin alone, a bias within limits; of Crammer-Singer margins losses that fall, to a least value.

    References
    ----------
    B. Zhao, F. Wang, C. Zhang (2008). Efficient maximum margin clustering via cutting plane algorithm, Problem 11.
    C. Zhang, B. Zhao (2008). Efficient maximum margin clustering (slides), Eq. 13-19.
    """

    def __init__(self, program: MarginProgram, labels: IntArray) -> None:
        self.program, self.labels, self.slack = program, labels, 0.0
        self.least = program.losses.least_losses()
        n, q, form = program.n, program.codes.shape[1], program.fix_labels(labels)
        (G, H), (lower, upper) = form.bound_rows, form.bound_ends
        up, down = np.isfinite(upper), np.isfinite(lower)
        self.bounds = (np.vstack([G[up], -G[down]]), np.vstack([H[up], -H[down]]), np.append(upper[up], -lower[down]))
        self.slopes, self.offsets, self.rivals = np.zeros((0, n)), np.zeros((0, n)), np.zeros((0, n), dtype=int)
        self.rows, self.tilts = np.zeros((0, q, program.features.rank)), np.zeros((0, q))
        self.add(program.no_decision())

    @property
    def count(self) -> int:
        """Return the number of cuts."""
        return len(self.rows)

    def loss(self, f: FloatArray) -> float:
        """Return the loss at decision values and the present labels."""
        return self.program.losses.value(self.program.margins(self.labels, f))

    def add(self, f: FloatArray) -> None:
        """Add the cut that is most violated at decision values."""
        program, losses, margins = self.program, self.program.losses, self.program.margins(self.labels, f)
        arguments = losses.arguments(margins)
        slopes = losses.scatter(losses.derivative(arguments))
        values = np.bincount(losses.points, weights=losses.row_losses(arguments), minlength=losses.n)
        rivals = program.kind.rivals(self.labels, f)
        self.slopes, self.rivals = np.vstack([self.slopes, slopes]), np.vstack([self.rivals, rivals])
        self.offsets = np.vstack([self.offsets, values - slopes * margins])
        turned = slopes[:, None] * program.kind.directions(self.labels, rivals, program.codes)
        self.rows = np.concatenate([self.rows, program.features.adjoint(turned).T[None]])
        self.tilts = np.vstack([self.tilts, turned.sum(axis=0)])

    def relabel(self, labels: IntArray) -> bool:
        """Move the cuts to other labels and return whether any changed."""
        changed, kind, codes = np.flatnonzero(labels != self.labels), self.program.kind, self.program.codes
        for part in np.array_split(changed, 1 + len(changed) * self.tilts.size // BLOCK):
            rivals = self.rivals[:, part]
            turn = kind.directions(labels[part], rivals, codes) - kind.directions(self.labels[part], rivals, codes)
            turn = self.slopes[:, part, None] * turn
            self.rows += turn.transpose(0, 2, 1) @ self.program.features.rows(part)
            self.tilts += turn.sum(axis=1)
        self.labels = labels
        return len(changed) > 0

    def solve(self) -> tuple[FloatArray, float]:
        """Return decision values and value of the minimiser of ½‖w‖² + ξ over the cuts and bounds on decision values.

        The dual is a quadratic programme over the weights of cuts, which sum to one, and of the sides of bounds; the
        multipliers of its other equalities are the bias.
        """
        program, (G, h, upper) = self.program, self.bounds
        cuts, tilts = self.rows.reshape(self.count, -1), self.tilts
        offsets = np.sum(np.where(self.rivals == self.labels, self.least, self.offsets), axis=1)
        if np.isfinite(self.least).all():  # no loss is below its least value
            cuts, tilts = np.vstack([cuts, np.zeros_like(cuts[:1])]), np.vstack([tilts, np.zeros_like(tilts[:1])])
            offsets = np.append(offsets, self.least.sum())
        free = tilts.shape[1] * program.free_bias
        tilts, h = tilts[:, :free], h[:, :free]
        length = float(np.sqrt(np.max(np.einsum("kr,kr->k", cuts, cuts)))) or 1.0  # cuts without weight vanish
        size = np.maximum(np.sqrt(np.sum(G**2, axis=1) + np.sum(h**2, axis=1)), 1e-300) / length
        G, h, upper = G / size[:, None], h / size[:, None], upper / size
        A, c = np.vstack([cuts, G]), np.concatenate([-offsets, upper])
        E = np.vstack([np.arange(len(A)) < len(cuts), np.vstack([tilts, h]).T])
        unit = max(length**2, float(np.abs(offsets).max()))
        z, y, _ = minimise(A @ A.T, c, E.astype(float), np.eye(len(E))[0], ACCURACY * unit)
        z[:len(cuts)] /= z[:len(cuts)].sum()
        w, bias = -z @ A, np.append(y[1:], np.zeros(program.codes.shape[1]))[: program.codes.shape[1]]
        self.slack = float(np.max(offsets + cuts @ w + tilts @ bias[:free]))
        decision = (program.features.apply(program.unpack(w)) + bias) @ program.codes.T
        return decision, 0.5 * float(w @ w) + self.slack
