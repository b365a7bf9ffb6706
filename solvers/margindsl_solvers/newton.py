"""Fixed labels by semismooth Newton; non-smooth losses by a proximal augmented Lagrangian."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Status, integers, numbers
from margindsl.program.clusters import ClusterForm
from margindsl.program.forms import FixedLabelForm, Form
from margindsl_solvers.engines.course import RowsSolver, Solve, of_form
from margindsl_solvers.engines.rows.augmented import NewtonRun
from margindsl_solvers.engines.rows.clusters import ClusterRows, fair_start, start_clusters
from margindsl_solvers.engines.rows.plane import PlaneRows, approach


@dataclass(frozen=True, kw_only=True)
class Newton(RowsSolver):
    """Solve fixed-label problems to high accuracy by semismooth Newton steps.

    Smooth losses enter by their derivatives; every other row (kinked losses, decision bounds, signs of
    scalars) by the Moreau envelope around its multiplier estimate, min over x of
    ½‖w‖² + qᵀs + Σ c_r e_κ ρ_r(v_r + p_r/κ), followed by p_r ← κ(v_r + p_r/κ − prox). Each smooth problem
    takes a few Newton steps with an exact line search; the outer loop converges superlinearly because κ
    grows (Rockafellar 1976, Theorem 5; Li, Sun and Toh 2018). The multipliers are dual feasible by
    construction, so that the reported gap is a certificate.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    max_iter : int
        Cap on Newton steps, unless the budget sets one.
    penalty : float
        First penalty κ; kinks are smoothed over a width 1/κ of the loss's argument.
    growth : float
        Factor of κ between multiplier updates.
    dense_limit : int
        Largest dense system (features or active points); above it conjugate gradients are used.
    """

    name: ClassVar[str] = "newton"
    summary: ClassVar[str] = "semismooth Newton and augmented Lagrangian, certified gap"

    max_iter: int = integers(1).option(1000)
    penalty: float = numbers().option(0.3)
    growth: float = numbers(above=1.0).option(4.0)
    dense_limit: int = integers(0).option(4000)

    def offer(self, form: Form) -> Offer | Refusal:
        plain = form.losses.is_smooth and not form.decision and not any(form.losses.scalars.nonneg)
        note = "semismooth Newton" + ("" if plain and of_form(self.takes, form) is Newton.solve_plane
                                      else " inside an augmented Lagrangian")
        return Offer(note if getattr(form, "is_convex", True) else
                     f"{note}; rising losses by majorants, to a stationary point")

    def solve_plane(self, form: FixedLabelForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a fixed-label form."""
        if form.is_summed and form.size_of_w <= self.dense_limit:
            start = approach(form, budget, start)
            if not form.free_bias and start.status is not Status.INACCURATE:
                return start
        rows = PlaneRows(form)
        if (refusal := rows.refusal()) is not None:
            return refusal
        x, centre, warm = rows.start(start)
        return NewtonRun(rows, budget, x, centre, self.penalty, self.growth, 2 * warm, self.dense_limit).solve()

    def solve_clusters(self, form: ClusterForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a fixed-cluster form."""
        start = fair_start(form, budget, start, self.solve_clusters)
        x, known = start_clusters(form, start)
        rows = ClusterRows(form, x)
        centre, warm = rows.start_slopes(start)
        if known and not warm:
            centre, warm = rows.slopes_at(x), True
        return NewtonRun(rows, budget, x, centre, self.penalty, self.growth, 1 + int(warm), self.dense_limit).solve()

    takes: ClassVar[Mapping[type[Form], Solve]] = {FixedLabelForm: solve_plane, ClusterForm: solve_clusters}
