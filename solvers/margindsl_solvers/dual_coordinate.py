"""The solver `dual-coordinate`: options, and what it accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.calculus import PLQ
from margindsl.contract import Budget, Offer, RawSolution, Refusal, Status, flags, integers
from margindsl.program.forms import FixedLabelForm, Form
from margindsl_solvers.engines.coordinate.descent import CoordinateRun
from margindsl_solvers.engines.rows.model import refuse_infinite
from margindsl_solvers.engines.rows.plane import PlaneRows
from margindsl_solvers.engines.rows.solver import RowsSolver
from margindsl_solvers.engines.solver import Solve

_REPAIR = "use solver='newton' or 'cutting-plane'"


@dataclass(frozen=True, kw_only=True)
class DualCoordinate(RowsSolver):
    """Solve fixed-label problems by dual coordinate descent.

    max −Σ cρ*(−u/c) − uᵀd − ½‖Σ u_r a_r y φ‖², one coordinate at a time in random order. For piecewise
    quadratic losses each step is exact, v' = prox(v − Qu), u' = −cρ'(v'), and costs one pass over a row of
    features; rows that stand on a linear piece far from its ends are left out until the next look at the gap.
    Fast for moderate weights, where a few sweeps do; slow for large weights. Features that do not fit in
    memory are read in blocks.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    max_iter : int
        Cap on sweeps, unless the budget sets one.
    shrinking : bool
        Whether rows are left out.
    seed : int
        Seed of the random order.

    References
    ----------
    C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. Keerthi, S. Sundararajan (2008). A dual coordinate descent method for
    large-scale linear SVM.

    Examples
    --------
    >>> DualCoordinate(seed=3).name
    'dual-coordinate'
    """

    name: ClassVar[str] = "dual-coordinate"
    summary: ClassVar[str] = "dual coordinate descent for piecewise quadratic losses"
    requires: ClassVar[tuple[str, ...]] = ("numba",)

    max_iter: int = integers(1).option(20_000)
    shrinking: bool = flags().option(True)
    seed: int = integers(0).option(0)

    def offer(self, form: Form) -> Offer | Refusal:
        for present, what in ((form.free_bias, "a free bias"), (form.decision, "decision bounds"),
                              (form.losses.scalars.count, "shared scalars")):
            if present:
                return Refusal(f"dual-coordinate moves one dual number at a time, and {what} couple them with an "
                               "equality", f"{_REPAIR}, or bias='penalised' for a bias")
        for term in form.losses.terms:
            if not isinstance(term.loss, PLQ):
                return Refusal(f"dual-coordinate needs piecewise quadratic losses, and {term.loss!r} is not", _REPAIR)
            refusal = refuse_infinite(self.name, [term.loss])
            if refusal is not None:
                return refusal
        return Offer("exact steps in random order, with shrinking" if self.shrinking else "exact steps in random order")

    def keeper(self, form: Form) -> DualCoordinate:
        self.require_installed()
        return self

    def solve_plane(self, form: FixedLabelForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a fixed-label form; the sweep is compiled at the first solve on a machine."""
        refusal = self.accepts(form)
        if not refusal:
            return RawSolution(Status.FAILED, message=str(refusal))
        rows = PlaneRows(form)
        return CoordinateRun(rows, budget, rows.duals(rows.start(start)[1]), self.shrinking,
                             np.random.default_rng(self.seed)).solve()

    takes: ClassVar[Mapping[type[Form], Solve]] = {FixedLabelForm: solve_plane}
