"""Safe: many low-density separators, and the labels that gain most on the known labels' in the worst case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
import scipy.sparse

from margindsl.contract import Status, integers, numbers
from margindsl.drivers.alternation import alternate
from margindsl.drivers.run import Run
from margindsl.drivers.starts import distinct, labels_from_known, unknown_points
from margindsl.errors import SolverError
from margindsl.labelset.programme import solve_within
from margindsl.program.passes import Answer
from margindsl.relaxations.local import InductiveRelaxation
from margindsl.relaxations.relaxation import Outcome
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class Safe(InductiveRelaxation):
    """Label the unknown points so that no diverse low-density separator, were it the truth, makes it a loss; local.

    Alternation from random members of B (and from a warm start) gives many separators; they are grouped, and the
    best of each group is kept. With y⁰ the labels that follow the known ones alone, the answer is
    argmax_y min_t earn(y, ŷ_t, y⁰) − c · lose(y, ŷ_t, y⁰), a linear programme over shares of every point in the
    clusters (two in the paper); its solution is brought to B, and y⁰ is kept where its worst case is negative. The
    labels are not those of lowest objective.

    Parameters
    ----------
    samples : int
        Random labellings N to alternate from.
    separators : int
        Groups T of separators.
    caution : float
        Cost c > 0 of a label lost against one earned.

    References
    ----------
    Y.-F. Li, Z.-H. Zhou (2011). Towards making unlabeled data never hurt, Section 4 (S4VM by sampling).
    """

    name: ClassVar[str] = "safe"
    summary: ClassVar[str] = "diverse low-density separators, labels by their worst case"
    bound: ClassVar[str] = "none"
    minimises: ClassVar[bool] = False
    polishes: ClassVar[bool] = False  # labels chosen for their worst case

    samples: int = integers(1).option(100)
    separators: int = integers(1).option(10)
    caution: float = numbers().option(3.0)
    polish: str | bool = "none"

    def run(self, run: Run) -> Outcome:
        from sklearn.cluster import KMeans

        run.current = known = labels_from_known(run)
        program, k, codes = run.program, run.program.clusters, run.program.label_codes
        apart = Run(program, run.solver, run.solver, run.budget.replace(callback=None), run.rng,
                    late_solver=run.fixed_solver)  # of its own, so that no separator becomes the answer
        found: list[Answer] = []
        starts = distinct([known, *run.starts, *program.labels.sample(run.rng, self.samples)])
        for index, labels in enumerate(starts):
            found.append(alternate(apart, labels, tol=1e-4))
            if run.record("separators", index, found[-1].value) or run.stopped:
                break
        # the separator of lowest objective in each of T groups of labellings
        separators = np.stack([fit.labels for fit in found])
        table = shares(separators, k).reshape(len(found), -1)
        count = min(self.separators, len(np.unique(table, axis=0)))
        group = KMeans(count, n_init=1, random_state=int(run.rng.integers(2**31))).fit_predict(table)
        separators = separators[[min(np.flatnonzero(group == g), key=lambda i: found[i].value)
                                 for g in np.unique(group)]]
        unknown = unknown_points(program)
        with run.stage("worst case"):
            slopes, shifts = gains(separators[:, unknown], known[unknown], k, self.caution)
            table = shares(known, k)
            table[unknown] = worst_case(slopes, shifts)
            labels = program.labels.maximise(program.gains_of(codes[0] + table @ (codes[1:] - codes[0])))
            worst = float(np.min(np.tensordot(slopes, shares(labels[unknown], k), 2) + shifts))
        return Outcome(run.stopped or Status.CONVERGED, answer=run.fit(labels if worst >= 0 else known))


def shares(labels: IntArray, clusters: int) -> FloatArray:
    """Return the shares (…, k − 1) that points with labels (…) have in the clusters after the first."""
    return (labels[..., None] == np.arange(1, clusters)).astype(float)


def gains(separators: IntArray, known: IntArray, clusters: int, caution: float) -> tuple[FloatArray, FloatArray]:
    """Return (C, d) with earn(y, ŷ_t, y⁰) − c · lose(y, ŷ_t, y⁰) = ⟨C_t, Y⟩ + d_t, Y the `shares` of y.

    earn counts y = ŷ_t ≠ y⁰, lose counts y ≠ ŷ_t = y⁰; both are linear in whether y = ŷ_t.

    Shapes: `separators` (T, u).

    `known` (u,): y⁰.
    """
    agree = separators == known
    own = np.where(agree, caution, 1.0)[..., None] * (separators[..., None] == np.arange(clusters))
    return own[..., 1:] - own[..., :1], own[..., 0].sum(axis=1) - caution * agree.sum(axis=1)


def worst_case(slopes: FloatArray, shifts: FloatArray) -> FloatArray:
    """Return the shares Y (u, k − 1) ≥ 0 of points, at most one together, that maximise min_t ⟨C_t, Y⟩ + d_t."""
    (count, points, others), size = slopes.shape, slopes[0].size
    together = scipy.sparse.hstack([scipy.sparse.kron(scipy.sparse.eye(points), np.ones((1, others))),
                                    np.zeros((points, 1))])
    worst = np.column_stack([-slopes.reshape(count, size), np.ones(count)])
    rows = scipy.sparse.vstack([worst, together], format="csr")
    answer = solve_within(lambda seconds: scipy.optimize.linprog(
        np.append(np.zeros(size), -1.0), A_ub=rows, b_ub=np.append(shifts, np.ones(points)),
        bounds=[(0.0, 1.0)] * size + [(None, None)], method="highs", options={"time_limit": seconds}))
    if answer.x is None:
        raise SolverError(f"the linear programme of the worst case ended as: {answer.message}")
    return np.asarray(answer.x[:-1]).reshape(points, others)
