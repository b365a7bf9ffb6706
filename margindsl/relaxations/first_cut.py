"""Concave-convex procedure from starts at rest under the first cut of SKMMC's threshold (Wu and Zhang 2012)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import integers, numbers
from margindsl.drivers.run import Run
from margindsl.drivers.starts import keep_starts
from margindsl.program.passes import Answer
from margindsl.program.program import MarginProgram
from margindsl.relaxations.cccp import CCCP
from margindsl.typing import IntArray


@dataclass(frozen=True, kw_only=True)
class FirstCut(CCCP):
    """Run the CCCP from starts at rest under the first cut of Algorithm 2.

    With all points in the one cut, c = 1, and b from Eq. 23, Eq. 18 is w = (1/n) Σ (y_i − ȳ) φ_i and
    f_i = ⟨w, φ_i − φ̄⟩; labels are made the signs of f until they stay. ‖w‖² never falls: its half is minus the value
    of Eq. 10 at C → 1, where w vanishes only with the centred kernel. No problem is solved.

    Parameters
    ----------
    moves : int
        Most moves of the labels; 0 for the plain CCCP.
    skip : int
        Starts passed over first: runs that differ in it alone differ in their starts.
    basis : int
        Points among which `sparse_cut` looks for its basis vectors: its labels take the place of the starting ones,
        and do not move. 0 for none.
    epsilon : float or None
        Relative change of J_o at which a step is the last (Eq. 15, 42), J_o the objective with w, b and ξ divided by
        the threshold (Eq. 14). None ends where no label moves.

    References
    ----------
    J. Wu, X.-L. Zhang (2012). Sparse kernel maximum margin clustering, Eq. 18, 23 and Algorithm 2.
    """

    name: ClassVar[str] = "first-cut"
    summary: ClassVar[str] = "cccp from starts at rest under the first cut of an adaptive threshold"
    most_clusters: ClassVar[float] = 2
    why_so_few: ClassVar[str] = (
        "under the cut of an adaptive threshold w is the sum of (y_i - mean y) phi_i, one hyperplane of signs")

    moves: int = integers(0).option(100)
    skip: int = integers(0).option(0)
    basis: int = integers(0).option(0)
    epsilon: float | None = numbers().or_none().option(None)

    def ends_with(self, program: MarginProgram, before: Answer, now: Answer) -> bool:
        earlier, later = (normalised(program, fit) for fit in (before, now))
        is_near = self.epsilon is not None and abs(later - earlier) < self.epsilon * abs(earlier)
        return is_near or super().ends_with(program, before, now)

    def starts(self, run: Run) -> Iterator[IntArray]:
        keep_starts(run)
        every = CCCP(restarts=self.restarts + self.skip, start=self.start, continuation=self.continuation,
                     continuation_start=self.continuation_start).starts(run)
        for labels in itertools.islice(every, self.skip, None):
            yield (sparse_cut(run.program, labels, self.basis, run.rng) if self.basis
                   else checked(run.program, labels, self.moves))


def checked(program: MarginProgram, labels: IntArray, moves: int = 100) -> IntArray:
    """Return labels moved to the best ones for f = H K H y / n again and again, H the centring matrix.

    Without constraints on labels the best ones are the signs of f.

    Parameters
    ----------
    labels : (n,) int array
        A member of B.
    moves : int
        Most moves.

    Returns
    -------
    (n,) int array
        A member of B, unchanged by a further move unless stopped by `moves`.

    Examples
    --------
    >>> import margindsl as md
    >>> program = md.recipes.skmmc([[-3.0], [-2.0], [-1.0], [1.0], [2.0], [3.0]], kernel="linear").program()
    >>> checked(program, np.array([0, 1, 0, 0, 1, 1])).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    for _ in range(moves):
        codes = program.label_codes[labels, 0]
        f = program.features.apply(program.features.adjoint(codes - codes.mean()))
        new = program.labels.maximise(program.gains_of((f - f.mean())[:, None]))
        if np.array_equal(new, labels):
            break
        labels = new
    return labels


def normalised(program: MarginProgram, fit: Answer) -> float:
    """Return J_o = ½‖w/ρ‖² + Cξ/ρ (Eq. 14) of a fit with threshold ρ; J of Eq. 42 without one."""
    square, costs = 0.5 * float(fit.w @ fit.w), float(program.losses.scalars.costs @ fit.scalars)
    rho = float(fit.scalars[0]) if len(fit.scalars) and fit.scalars[0] > 0 else 1.0
    return square / rho**2 + (fit.value - square - costs) / rho


def sparse_cut(program: MarginProgram, labels: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Return the best labels for the first cut with a single basis vector.

    Ψ = (1/n) Σ (y_i − ȳ) φ_i becomes β (φ(b) − φ̄) (Eq. 27, 49), b the best of some random points (Eq. 44), and
    f_i = β ⟨φ(b) − φ̄, φ_i − φ̄⟩: labels say which points are near b.

    Parameters
    ----------
    labels : (n,) int array
        Labels y of the cut.
    count : int
        Points drawn.

    Returns
    -------
    (n,) int array
        A member of B.

    Examples
    --------
    >>> import margindsl as md
    >>> program = md.recipes.skmmc([[-3.0], [-2.0], [2.0], [3.0]], kernel=md.RBF(1.0)).program()
    >>> labels = sparse_cut(program, np.array([1, 1, 1, 0]), 4, np.random.default_rng(0))
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[3])
    (True, True, False)
    """
    features = program.features
    points = rng.choice(program.n, min(count, program.n), replace=False)
    rows = np.asarray(features.rows(points), dtype=float) - features.adjoint(np.full(program.n, 1.0 / program.n))
    codes = program.label_codes[labels, 0]
    products, norms = rows @ features.adjoint(codes - codes.mean()), np.einsum("ir,ir->i", rows, rows)
    found = int(np.argmax(np.divide(products**2, norms, out=np.zeros_like(norms), where=norms > 0)))
    f = products[found] * features.apply(rows[found])
    return program.labels.maximise(program.gains_of((f - f.mean())[:, None]))
