"""The solver `mirror-descent`: the algorithm of ODMC, and its full-gradient version."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Session, Solver, choices, integers, numbers
from margindsl.errors import DeclarationError
from margindsl.program.forms import Form, SaddleForm
from margindsl_solvers.engines.limits import TOLERANCE, cap, tolerance
from margindsl_solvers.engines.saddle.box import BoxModel, bounded, descent_steps
from margindsl_solvers.engines.saddle.iteration import descend
from margindsl_solvers.engines.saddle.model import SaddleModel
from margindsl_solvers.engines.saddle.run import MESSAGES, Run, refusal
from margindsl_solvers.engines.saddle.sampling import (
    FullGradient,
    Gradient,
    ImportanceGradient,
    LabelGradient,
    StochasticRun,
    start_in,
)


@dataclass(frozen=True, kw_only=True)
class MirrorDescent(Solver):
    """Solve the minimax master problem by mirror descent.

    μ ∝ μ exp(−η ∂_μφ/a), u = Π(u + η ∂_uφ/b), φ = Σ μ_k G(u, y_k). With `steps="theorem"` it is Algorithm 1 of
    ODMC: fixed steps for `max_iter` iterations, the average returned when it is best, sampled gradients
    (`sampling="labels"`: i uniform, j ~ μ) or full ones. With `steps="adaptive"`, full gradients only, the
    conjugates enter by their prox, steps by backtracking, with restarts and a Newton finish.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    max_iter : int
        The number T of iterations, unless the budget sets one.
    sampling : {"none", "labels", "importance"}
    steps : {"adaptive", "theorem"} or None
        None is "theorem" with sampling and "adaptive" without.
    tau : float or None
        Half-width of the box of duals; None takes one that holds the optimum.
    step_factor : float
        Factor on the theorem's step η; above one its bound is given up.
    newton_limit : int
        Largest order of a Newton system of the adaptive version; 0 leaves mirror descent alone.
    random_state : int or None
        Seed of the sampled labellings.

    References
    ----------
    T. Zhang, Z.-H. Zhou (2018). Optimal margin distribution clustering, Algorithm 1 and Theorem 1.

    Examples
    --------
    >>> MirrorDescent(sampling="labels").schedule
    'theorem'
    """

    name: ClassVar[str] = "mirror-descent"
    summary: ClassVar[str] = "mirror descent for the minimax master, sampled (ODMC) or full"
    requires: ClassVar[tuple[str, ...]] = ("scipy",)
    warm_starts: ClassVar[bool] = True

    tol: float | None = TOLERANCE.option(None)
    max_iter: int = integers(1).option(20_000)
    sampling: str = choices("none", "labels", "importance").option("none")
    steps: str | None = choices("adaptive", "theorem").or_none().option(None)
    tau: float | None = numbers().or_none().option(None)
    step_factor: float = numbers().option(1.0)
    newton_limit: int = integers(0).option(2000)
    random_state: int | None = integers(0).or_none().option(0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampling != "none" and self.steps == "adaptive":
            raise DeclarationError("mirror-descent: adaptive steps need full gradients; give sampling='none' or "
                                   "steps='theorem'")

    @property
    def schedule(self) -> str:
        """Return the steps in force."""
        return self.steps or ("adaptive" if self.sampling == "none" else "theorem")

    def accepts(self, form: Form) -> Offer | Refusal:
        """Return an `Offer` for saddle forms without shared scalars whose losses know their conjugate."""
        reason = refusal(self.name, form)
        if reason is not None:
            return reason
        if self.schedule == "theorem" and not bounded(form.losses):
            return Refusal("the theorem's steps need conjugates with bounded slopes",
                           "use steps='adaptive' or solver='mirror-prox'")
        return Offer(f"mirror descent, {self.schedule} steps, sampling {self.sampling}")

    def open(self, form: Form) -> Session:
        """Return a session; nothing is compiled beyond the first solve."""
        return MirrorDescentSession(self)


@dataclass(frozen=True)
class MirrorDescentSession(Session):
    """Solve forms one after the other.

    Parameters
    ----------
    solver : MirrorDescent
        The options.
    """

    solver: MirrorDescent

    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        """Solve a saddle form; see `margindsl.contract.Session.solve`."""
        assert isinstance(form, SaddleForm)
        begin, model = time.monotonic(), SaddleModel(form)
        run = self._prepare(model, budget, start)
        compiled = time.monotonic()
        status = run.run()
        seconds = {"compile": compiled - begin, "solve": time.monotonic() - compiled}
        message = MESSAGES[status].format(error=run.best.error, count=run.iterations)
        return RawSolution(status, model.variables(run.best), message, run.best.primal, run.iterations,
                           seconds, tuple(run.trace))

    def _prepare(self, model: SaddleModel, budget: Budget, start: RawSolution | None) -> Run | StochasticRun:
        options = self.solver
        tol, max_iter = tolerance(options, budget), cap(options, budget)
        if options.schedule == "adaptive":
            return Run(model, budget, start, tol=tol, max_iter=max_iter, weight=None, restarts=True,
                       newton_limit=options.newton_limit, advance=descend)
        box = BoxModel(model, options.tau)
        sampled = options.sampling != "none"
        steps = descent_steps(box, max_iter, sampled).times(options.step_factor)
        return StochasticRun(box, gradient(box, options.sampling), steps, budget, tol=tol, horizon=max_iter,
                             rng=np.random.default_rng(options.random_state), extra=False, start=start_in(box, start))


def gradient(box: BoxModel, sampling: str) -> Gradient:
    """Return the gradient of a sampling."""
    kinds: dict[str, type] = {"none": FullGradient, "labels": LabelGradient, "importance": ImportanceGradient}
    made: Gradient = kinds[sampling](box)
    return made
