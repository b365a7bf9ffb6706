"""The solver class: options, what it accepts, sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Session, Solver, integers
from margindsl.errors import CalculusError
from margindsl.program.branching import BranchNodeForm
from margindsl.program.forms import Form, LabelLiftForm, WeightLiftForm
from margindsl.program.moment import MomentLiftForm
from margindsl.threads import small_work_threads
from margindsl_solvers.engines.factors.label import LabelLift
from margindsl_solvers.engines.factors.node import LARGEST_ORDER, NodeSession
from margindsl_solvers.engines.factors.weight import WeightLift
from margindsl_solvers.engines.limits import TOLERANCE, tolerance


@dataclass(frozen=True, kw_only=True)
class BurerMonteiro(Solver):
    """Solve lifted forms through low-rank factors, by quasi-Newton descent; no n × n matrix.

    Parameters
    ----------
    width : int
        First number of columns of the factor; more are added when the certificate asks for them.
    max_iter : int
        Most evaluations (one pass over the data each).
    tol : float or None
        Relative certified gap; None takes the solve's.
    seed : int
        Seed of the starting factor.

    References
    ----------
    S. Burer, R. Monteiro (2003). A nonlinear programming algorithm for solving semidefinite programs via
    low-rank factorization.
    """

    name: ClassVar[str] = "burer-monteiro"
    summary: ClassVar[str] = "weight and label lifts by low-rank factors"
    warm_starts: ClassVar[bool] = True

    width: int = integers(1).option(8)
    max_iter: int = integers(1).option(5000)
    tol: float | None = TOLERANCE.option(None)
    seed: int = integers(0).option(0)

    def accepts(self, form: Form) -> Offer | Refusal:
        """Accept weight lifts, label lifts, and nodes of branch and bound with few features."""
        if isinstance(form, BranchNodeForm):
            if form.features.rank > LARGEST_ORDER:
                return Refusal(f"a node of branch and bound with {form.features.rank} features is too large for "
                               f"Newton's method (at most {LARGEST_ORDER})", "Take fewer features")
            return Offer(f"Newton's method on a lifted matrix of order {form.features.rank + 1}")
        if isinstance(form, WeightLiftForm):
            return Offer(f"W of {form.order} x {min(form.order, self.width)}, grown as needed")
        if isinstance(form, MomentLiftForm) and form.moments:
            return Refusal("second moments of the margins are not factored",
                           "Use SDP(moments=False), or solver='clarabel' or 'scs'")
        if isinstance(form, LabelLiftForm):
            refusal = _refuse_losses(form)
            return refusal if refusal is not None else Offer(
                f"{form.count} vector labels of length {min(form.count, self.width)}, grown as needed")
        return Refusal(f"a {type(form).__name__} has no factor to lift")

    def open(self, form: Form) -> Session:
        """Return a session."""
        if isinstance(form, BranchNodeForm):
            return NodeSession(form)
        return BurerMonteiroSession(self)


def _refuse_losses(form: LabelLiftForm) -> Refusal | None:
    """Return why the losses of a label lift cannot be taken, or None."""
    for term in form.losses.terms:
        try:
            term.loss.conjugate()
        except CalculusError as error:
            return Refusal(f"the certificate needs the conjugate of a loss: {error}",
                           "Use a piecewise linear-quadratic loss")
        if np.any(np.isfinite(term.loss.domain)):
            return Refusal(f"the loss {term.loss!r} is infinite outside {term.loss.domain}",
                           "Use a solver such as 'clarabel' or 'scs', or a loss that is finite everywhere")
    return None


class BurerMonteiroSession(Session):
    """Run the engine of a form."""

    def __init__(self, solver: BurerMonteiro) -> None:
        self.solver = solver

    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        """Solve a lifted form; a start with factors W (and V) of the right orders is used."""
        tol = tolerance(self.solver, budget)
        most = self.solver.max_iter if budget.max_iter is None else min(budget.max_iter, self.solver.max_iter)
        engine = (self.solver.width, most, self.solver.seed)
        with small_work_threads(form.n * form.features.rank * self.solver.width):
            if isinstance(form, LabelLiftForm):
                return LabelLift(*engine).run(form, budget.replace(tol=tol), start)
            assert isinstance(form, WeightLiftForm)
            return WeightLift(*engine).run(form, budget.replace(tol=tol), start)
