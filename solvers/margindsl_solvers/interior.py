"""The solver `interior`: the one lift by a primal-dual interior point method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from margindsl.contract import Budget, Offer, RawSolution, Refusal, integers
from margindsl.host.threads import small_work_threads
from margindsl.program.forms import Form
from margindsl.program.lift import LiftForm
from margindsl_solvers.engines.course import EngineSolver, Solve
from margindsl_solvers.engines.lift.arrays import newton_order
from margindsl_solvers.engines.lift.interior import solve_interior


@dataclass(frozen=True, kw_only=True)
class Interior(EngineSolver):
    """Solve lifts by Newton steps along the central path; every iterate proves a bound.

    A step costs the cube of the number of multipliers (of components, of losses, of their squares, and of rows and
    cuts) and of the order of the lifted matrix; no variable stands for an entry of a matrix.

    Parameters
    ----------
    most : int
        Most multipliers and greatest order of the matrix that is accepted.
    max_iter : int
        Most steps.
    tol : float or None
        Relative gap; None takes the solve's.

    References
    ----------
    C. Helmberg, F. Rendl, R. Vanderbei, H. Wolkowicz (1996). An interior-point method for semidefinite programming.
    """

    name: ClassVar[str] = "interior"
    summary: ClassVar[str] = "lifts up to some thousand multipliers by an interior point method"
    solves: ClassVar[str] = "lifts"
    warm_starts: ClassVar[bool] = False
    takes_cuts: ClassVar[bool] = True

    most: int = integers(1).option(4000)
    max_iter: int = integers(1).option(100)

    def offer(self, form: Any) -> Offer | Refusal:
        size, order = newton_order(form)
        if max(size, order) > self.most:
            return Refusal(f"{size} multipliers and a matrix of order {order}, where {self.most} are accepted",
                           f"Use solver='burer-monteiro', or md.Solver('interior', most={max(size, order)})")
        return Offer(f"{size} multipliers, a matrix of order {order}")

    def solve_lift(self, form: LiftForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a lift from the engine's own start, or from where a solve with other cuts was."""
        with small_work_threads(sum(newton_order(form))**2):
            return solve_interior(form, budget, None if start is None else start.get("reached"))

    takes: ClassVar[Mapping[type[Form], Solve]] = {LiftForm: solve_lift}
