"""The solver `burer-monteiro`: low-rank factors instead of semidefinite matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from margindsl.contract import Budget, Offer, RawSolution, Refusal, integers
from margindsl.errors import CalculusError
from margindsl.host.threads import small_work_threads
from margindsl.program.forms import Form, LabelLiftForm, WeightLiftForm
from margindsl.program.lift import LiftForm
from margindsl.program.moment import MomentLiftForm
from margindsl_solvers.engines.factors.bridge import bridged, factored
from margindsl_solvers.engines.factors.label import LabelRun
from margindsl_solvers.engines.factors.quasinewton import QuasiNewton
from margindsl_solvers.engines.factors.weight import WeightRun
from margindsl_solvers.engines.solver import EngineSolver, Solve, of_form
from margindsl_solvers.engines.threads import threads


@dataclass(frozen=True, kw_only=True)
class BurerMonteiro(EngineSolver):
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
    requires: ClassVar[tuple[str, ...]] = ()

    width: int = integers(1).option(8)
    max_iter: int = integers(1).option(5000)
    seed: int = integers(0).option(0)

    def offer(self, form: Form) -> Offer | Refusal:
        offer = of_form(_OFFERS, form)
        assert offer is not None
        return offer(self, form)

    def refuse(self, form: Form) -> Refusal:
        return Refusal(f"a {type(form).__name__} has no factor to lift")

    def solve_labels(self, form: LabelLiftForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a label lift; a start with factors W and V of the right orders is used."""
        with small_work_threads(form.n * form.features.rank * self.width):
            return LabelRun(form, self._capped(budget), start, self.width, self.seed).solve()

    def solve_weights(self, form: WeightLiftForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a weight lift; a start with a factor W of the right order is used."""
        work = form.n * form.features.rank * self.width
        with small_work_threads(work), threads(work) as gather:
            return WeightRun(form, self._capped(budget), start, gather, QuasiNewton(), self.width, self.seed).solve()

    def solve_lift(self, form: LiftForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a lift: one without components by lengths, others with a component for every point."""
        return bridged(self, form, budget, start)

    def _capped(self, budget: Budget) -> Budget:
        return budget.replace(max_iter=min(budget.max_iter or self.max_iter, self.max_iter))

    takes: ClassVar[Mapping[type[Form], Solve]] = {
        LabelLiftForm: solve_labels, WeightLiftForm: solve_weights, LiftForm: solve_lift}


def _offer_weights(solver: BurerMonteiro, form: WeightLiftForm) -> Offer | Refusal:
    return Offer(f"W of {form.order} x {min(form.order, solver.width)}, grown as needed")


def _offer_moments(solver: BurerMonteiro, form: MomentLiftForm) -> Offer | Refusal:
    if form.moments:
        return Refusal("second moments of the margins are not factored",
                       "Use SDP(moments=False), or solver='clarabel' or 'scs'")
    return _offer_labels(solver, form)


def _offer_labels(solver: BurerMonteiro, form: LabelLiftForm) -> Offer | Refusal:
    for term in form.losses.terms:
        try:
            term.loss.conjugate()
        except CalculusError as error:
            return Refusal(f"the certificate needs the conjugate of a loss: {error}",
                           "Use a piecewise linear-quadratic loss")
        if np.any(np.isfinite(term.loss.domain)):
            return Refusal(f"the loss {term.loss!r} is infinite outside {term.loss.domain}",
                           "Use a solver such as 'clarabel' or 'scs', or a loss that is finite everywhere")
    return Offer(f"{form.count} vector labels of length {min(form.count, solver.width)}, grown as needed")


_OFFERS: Mapping[type[Form], Callable[[BurerMonteiro, Any], Offer | Refusal]] = {
    LiftForm: lambda solver, form: solver.offer(factored(form)),
    WeightLiftForm: _offer_weights, MomentLiftForm: _offer_moments, LabelLiftForm: _offer_labels}
