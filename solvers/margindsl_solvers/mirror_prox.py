"""The solver `mirror-prox` and its session."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Session, Solver, choices, flags, integers, numbers
from margindsl.program.forms import Form, SaddleForm
from margindsl.threads import small_work_threads
from margindsl_solvers.engines.limits import TOLERANCE, cap, tolerance
from margindsl_solvers.engines.saddle.box import BoxModel, bounded, prox_steps
from margindsl_solvers.engines.saddle.coarse import coarse_start
from margindsl_solvers.engines.saddle.model import SaddleModel
from margindsl_solvers.engines.saddle.run import MESSAGES, Run, refusal, starting_pair
from margindsl_solvers.engines.saddle.sampling import ImportanceGradient, LabelGradient, StochasticRun, start_in
from margindsl_solvers.engines.saddle.variance import AnchoredRun


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
    random_state : int or None
        Seed of every random choice: the points of a coarse start, the sampled labellings.
    sampling : {"none", "labels", "importance", "variance-reduced"}
        "labels" is Algorithm 1 of ssODM: i uniform, j ~ μ, fixed steps for `max_iter` iterations, the average
        returned when it is best. "importance" draws i and j by the norms last seen and leaves out what needs
        no sampling. "variance-reduced" keeps a full gradient at an anchor (Alacaoglu and Malitsky 2022).
    tau : float or None
        Half-width of the box of duals of the first two; None takes one that holds the optimum.
    step_factor : float
        Factor on their step η; above one the proved bound is given up.

    References
    ----------
    T. Zhang, Z.-H. Zhou (2018). Semi-supervised optimal margin distribution machines, Algorithm 1.
    A. Nemirovski (2004). Prox-method with rate of convergence O(1/t), Eq. 3.3.
    D. Applegate et al. (2021). Practical large-scale linear programming using primal-dual hybrid gradient.
    A. Alacaoglu, Y. Malitsky (2022). Stochastic variance reduction for variational inequality methods.

    Examples
    --------
    >>> MirrorProx(tol=1e-4).name
    'mirror-prox'
    """

    name: ClassVar[str] = "mirror-prox"
    summary: ClassVar[str] = "mirror prox with Newton finish for the minimax master, certified gap"
    requires: ClassVar[tuple[str, ...]] = ("scipy",)
    warm_starts: ClassVar[bool] = True

    tol: float | None = TOLERANCE.option(None)
    max_iter: int = integers(1).option(20_000)
    primal_weight: float | None = numbers().or_none().option(None)
    restarts: bool = flags().option(True)
    newton_limit: int = integers(0).option(2000)
    random_state: int | None = integers(0).or_none().option(0)
    sampling: str = choices("none", "labels", "importance", "variance-reduced").option("none")
    tau: float | None = numbers().or_none().option(None)
    step_factor: float = numbers().option(1.0)

    def accepts(self, form: Form) -> Offer | Refusal:
        """Return an `Offer` for saddle forms without shared scalars whose losses know their conjugate."""
        reason = refusal(self.name, form)
        if reason is not None:
            return reason
        if self.sampling in ("labels", "importance") and not bounded(form.losses):
            return Refusal(f"sampling={self.sampling!r} needs conjugates with bounded slopes",
                           "use sampling='variance-reduced' or 'none'")
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
        with small_work_threads(form.n * form.features.rank * form.count):
            return self._solve(form, budget, start)

    def _solve(self, form: SaddleForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        begin = time.monotonic()
        options, model = self.solver, SaddleModel(form)
        run = self._prepare(model, budget, start)
        compiled = time.monotonic()
        status = run.run()
        seconds = {"compile": compiled - begin, "solve": time.monotonic() - compiled}
        message = MESSAGES[status].format(error=run.best.error, count=run.iterations)
        if options.sampling != "none":
            message += f", sampling {options.sampling}"
        return RawSolution(status, model.variables(run.best), message, run.best.primal, run.iterations,
                           seconds, tuple(run.trace))

    def _prepare(self, model: SaddleModel, budget: Budget,
                 start: RawSolution | None) -> Run | AnchoredRun | StochasticRun:
        begin = time.monotonic()
        options, rng = self.solver, np.random.default_rng(self.solver.random_state)
        tol, max_iter = tolerance(options, budget), cap(options, budget)
        if options.sampling == "none":
            if start is None:
                start = coarse_start(model, budget, rng, self.solve)
            return Run(model, budget, start, tol=tol, max_iter=max_iter, weight=options.primal_weight,
                       restarts=options.restarts, newton_limit=options.newton_limit, begin=begin)
        if options.sampling == "variance-reduced":
            return AnchoredRun(model, budget, tol=tol, max_iter=max_iter, rng=rng, start=starting_pair(model, start))
        box = BoxModel(model, options.tau)
        gradient = LabelGradient(box) if options.sampling == "labels" else ImportanceGradient(box)
        steps = prox_steps(box, max_iter, sampled=True).times(options.step_factor)
        return StochasticRun(box, gradient, steps, budget, tol=tol, horizon=max_iter, rng=rng, extra=True,
                             start=start_in(box, start))
