"""The solver `mirror-prox` and its session."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Session, Solver, Status
from margindsl.errors import CalculusError
from margindsl.program.forms import Form, SaddleForm
from margindsl_solvers._saddle import SaddleModel
from margindsl_solvers.mirror_prox.coarse import coarse_start
from margindsl_solvers.mirror_prox.run import Run

_MESSAGES = {
    Status.OPTIMAL: "relative gap {error:.1e} after {count} iterations",
    Status.INACCURATE: "rounding stopped the relative gap at {error:.1e} after {count} iterations",
    Status.ITERATION_LIMIT: "{count} iterations done, relative gap {error:.1e}; raise max_iter",
    Status.TIME_LIMIT: "time is up after {count} iterations, relative gap {error:.1e}",
    Status.INTERRUPTED: "the callback stopped the solve after {count} iterations, relative gap {error:.1e}",
}


@dataclass(frozen=True, kw_only=True)
class MirrorProx(Solver):
    """Solve the minimax master problem by composite mirror prox, finished by Newton steps.

    Entropy on the masses μ of the labellings, the exact prox of the conjugate losses on u, steps by
    backtracking on the condition of Nemirovski (2004, Eq. 3.3), restarts and a primal weight adapted at each
    of them as in PDLP (Applegate et al. 2021, Sections 3.2-3.4). Every value of the trace is a certified
    pair: the primal at W_k = β μ_k Φᵀ(y_k∘ũ), the dual at u.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    max_iter : int
        Cap on iterations (mirror-prox and Newton steps alike), unless the budget sets one.
    primal_weight : float or None
        Weight ω > 0 of the step in μ against that in u; None adapts it.
    restarts : bool
        Whether to restart from the better of the last iterate and the average.
    newton_limit : int
        Largest order of a Newton system, the free rows or the rank times the labellings with mass; 0 leaves
        mirror prox alone.

    Examples
    --------
    >>> MirrorProx(tol=1e-4).name
    'mirror-prox'
    """

    name: ClassVar[str] = "mirror-prox"
    summary: ClassVar[str] = "mirror prox with Newton finish for the minimax master, certified gap"
    requires: ClassVar[tuple[str, ...]] = ("scipy",)
    warm_starts: ClassVar[bool] = True

    tol: float | None = None
    max_iter: int = 20_000
    primal_weight: float | None = None
    restarts: bool = True
    newton_limit: int = 2000
    random_state: int | None = 0

    def accepts(self, form: Form) -> Offer | Refusal:
        """Return an `Offer` for saddle forms without shared scalars whose losses know their conjugate."""
        if not isinstance(form, SaddleForm):
            return Refusal(f"mirror-prox solves minimax masters, not a {type(form).__name__}",
                           "use solver='newton' for fixed labels or 'clarabel'")
        if form.losses.scalars.count:
            return Refusal("mirror-prox has no shared scalars", "use solver='clarabel'")
        try:
            for term in form.losses.terms:
                term.loss.conjugate()
        except CalculusError as error:
            return Refusal(f"mirror-prox needs the conjugate of every loss: {error}", "use solver='clarabel'")
        return Offer("mirror prox on the labellings, Newton finish")

    def open(self, form: Form) -> Session:
        """Return a session; nothing is compiled beyond the first solve."""
        return MirrorProxSession(self)


@dataclass(frozen=True)
class MirrorProxSession(Session):
    """Solve forms one after the other.

    Parameters
    ----------
    solver : MirrorProx
        The options.
    """

    solver: MirrorProx

    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        """Solve a saddle form; see `margindsl.contract.Session.solve`."""
        assert isinstance(form, SaddleForm)
        begin = time.monotonic()
        options, model = self.solver, SaddleModel(form)
        if start is None:
            start = coarse_start(model, budget, np.random.default_rng(options.random_state), self.solve)
        run = Run(model, budget, start, tol=budget.tol if options.tol is None else options.tol,
                  max_iter=options.max_iter if budget.max_iter is None else budget.max_iter,
                  weight=options.primal_weight, restarts=options.restarts, newton_limit=options.newton_limit)
        compiled = time.monotonic()
        status = run.run()
        seconds = {"compile": compiled - begin, "solve": time.monotonic() - compiled}
        message = _MESSAGES[status].format(error=run.best.error, count=run.iterations)
        return RawSolution(status, model.variables(run.best), message, run.best.primal, run.iterations,
                           seconds, tuple(run.trace))
