"""The solver `burer-monteiro`: low-rank factors instead of semidefinite matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from margindsl.calculus import PLQ
from margindsl.contract import Budget, Offer, RawSolution, Refusal, integers
from margindsl.errors import CalculusError
from margindsl.host.threads import small_work_threads, threads
from margindsl.program.forms import Form
from margindsl.program.lift import LiftForm
from margindsl_solvers.engines.course import EngineSolver, Solve
from margindsl_solvers.engines.factors.factored import Rows
from margindsl_solvers.engines.factors.quasinewton import QuasiNewton
from margindsl_solvers.engines.factors.run import FactorRun


@dataclass(frozen=True, kw_only=True)
class BurerMonteiro(EngineSolver):
    """Solve lifts through low-rank factors, by quasi-Newton descent; no n × n matrix.

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
    summary: ClassVar[str] = "lifts by low-rank factors"
    requires: ClassVar[tuple[str, ...]] = ()

    width: int = integers(1).option(8)
    max_iter: int = integers(1).option(5000)
    seed: int = integers(0).option(0)

    def offer(self, form: Any) -> Offer | Refusal:
        linear = form.linear
        for term, part in form.losses.slices():
            try:
                if np.any(linear[part]) and not isinstance(term.loss, PLQ):
                    term.loss.conjugate()
            except CalculusError as error:
                return Refusal(f"the certificate needs the conjugate of a loss: {error}",
                               "Use a piecewise linear-quadratic loss")
        if form.losses.is_turned:
            return Refusal("factors see margins y f alone, and a loss by label is one of f, too",
                           "Use solver='interior'")
        try:
            Rows.of_form(form)
        except CalculusError as error:
            return Refusal(str(error), "Use a loss that has a least value, such as md.hinge or md.odm")
        width = min(form.count + form.order, self.width)
        return Offer(f"{form.count} vector labels and {form.order} weights of length {width}, grown as needed")

    def refuse(self, form: Form) -> Refusal:
        return Refusal(f"a {type(form).__name__} has no factor to lift")

    def solve_lift(self, form: LiftForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a lift; a start with factors W and V of the right orders is used."""
        work = form.n * form.features.rank * self.width
        with small_work_threads(work), threads(0 if form.count else work) as workers:
            return FactorRun(form, budget, start, workers, QuasiNewton(), self.width, self.seed).solve()

    takes: ClassVar[Mapping[type[Form], Solve]] = {LiftForm: solve_lift}
