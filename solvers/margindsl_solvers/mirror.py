"""The solvers `mirror-prox` and `mirror-descent`: adaptive with a Newton finish, or stochastic as published."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import Budget, Offer, RawSolution, Refusal, choices, integers, numbers
from margindsl.errors import DeclarationError
from margindsl.host.threads import small_work_threads, threads
from margindsl.program.forms import Form, SaddleForm
from margindsl_solvers.engines.course import EngineSolver, Solve
from margindsl_solvers.engines.saddle.box import BoxModel, bounded, descent_steps, prox_steps
from margindsl_solvers.engines.saddle.model import Point, SaddleModel
from margindsl_solvers.engines.saddle.progressive import progressive_start, smoothed_start
from margindsl_solvers.engines.saddle.run import (
    Advance,
    MirrorRun,
    SaddleCourse,
    descend,
    extragradient,
    refuse_unconjugated,
    starting_pair,
)
from margindsl_solvers.engines.saddle.sampling import StochasticRun, start_in
from margindsl_solvers.engines.saddle.smoothed import smooths
from margindsl_solvers.engines.saddle.variance import AnchoredRun

SAMPLED = 1000  # steps after which full gradients finish; of 300, 1000 and 2000 on digits 3 and 8, costs rise with it
LARGE = 20_000  # points from which "auto" samples: there it halved the time to a gap of 1e-4 (copies of digits)


@dataclass(frozen=True, kw_only=True)
class MirrorSolver(EngineSolver):
    """Solve minimax masters by a first-order method; subclasses say which one, and what the options are."""

    solves: ClassVar[str] = "minimax masters"
    advance: ClassVar[Advance]  # a step of the adaptive version
    extra: ClassVar[bool]  # whether a step of the published version looks ahead

    max_iter: int = integers(1).option(20_000)
    stall_limit: int = integers(1).option(1000)
    newton_limit: int = integers(0).option(2000)
    random_state: int | None = integers(0).or_none().option(0)
    tau: float | None = numbers().or_none().option(None)
    step_factor: float = numbers().option(1.0)
    sampling: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule != "theorem" and (self.tau is not None or self.step_factor != 1.0):
            raise DeclarationError(f"{self.name}(tau=, step_factor=): they belong to the steps as printed; give "
                                   "sampling='labels', too")

    @property
    def schedule(self) -> str:
        """Return the steps in force: "adaptive", "theorem" or "anchored"."""
        return {"labels": "theorem", "variance-reduced": "anchored"}.get(self.sampling, "adaptive")

    def offer(self, form: Form) -> Offer | Refusal:
        scalars, biased = form.losses.scalars.count, form.is_biased  # type: ignore[attr-defined]
        if (self.schedule == "theorem" and scalars) or (self.schedule != "adaptive" and biased):
            return Refusal(f"sampling={self.sampling!r} of {self.name} moves masses and duals alone, "
                           f"{'no bias' if biased else 'no shared scalars'}", f"use solver={self.name!r} with its "
                           "defaults, full gradients and adaptive steps, or 'clarabel'")
        if (refusal := refuse_unconjugated(self.name, form)) is not None:
            return refusal
        if self.schedule == "theorem" and not bounded(form.losses):
            return Refusal(f"the fixed steps of {self.name} need conjugates with bounded slopes",
                           "use solver='mirror-prox' with sampling='variance-reduced' or 'none'")
        return Offer(f"{self.name.replace('-', ' ')} on the labellings, {self.schedule} steps, "
                     f"sampling {self.sampling}")

    def solve_saddle(self, form: SaddleForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a saddle form."""
        begin = time.monotonic()
        work = form.n * form.features.rank * form.count
        rng, schedule = np.random.default_rng(self.random_state), self.schedule
        weight: float | None = getattr(self, "primal_weight", None)

        def engine(model: SaddleModel, budget: Budget, point: Point | SaddleCourse | None) -> MirrorRun:
            return MirrorRun(model, budget, point or starting_pair(model, start), type(self).advance, begin=begin,
                             newton_limit=self.newton_limit, stall_limit=self.stall_limit, weight=weight)

        with small_work_threads(work), threads(work if form.features.is_dense else 0) as workers:
            model = SaddleModel(form, workers)
            course: SaddleCourse
            if schedule == "anchored":
                sampled = AnchoredRun(model, budget.replace(max_iter=min(budget.max_iter or SAMPLED, SAMPLED)), rng=rng,
                                      start=starting_pair(model, start), weight=weight)
                sampled.run()
                sampled.marked = sampled.iterations  # another method has its own time to make progress
                course = engine(model, budget, sampled)
            elif schedule == "theorem":
                box, horizon = BoxModel(model, self.tau), int(budget.max_iter or self.max_iter)
                steps = prox_steps(box, horizon, weight or 1.0) if self.extra else descent_steps(box, horizon)
                course = StochasticRun(box, steps.times(self.step_factor), budget, rng=rng, extra=self.extra,
                                       start=start_in(box, start))
            elif start is None and hasattr(form.features, "take") and (
                    self.sampling == "progressive" or (self.sampling == "auto" and form.n >= LARGE)):
                smooth = self.newton_limit and smooths(model)
                course = engine(model, budget, smoothed_start(model, budget, rng, begin) if smooth else
                                progressive_start(model, budget, rng, engine))
            else:
                course = engine(model, budget, None)
            course.remark = "" if schedule == "adaptive" else f"sampling {self.sampling}"
            return course.solve()

    takes: ClassVar[Mapping[type[Form], Solve]] = {SaddleForm: solve_saddle}


@dataclass(frozen=True, kw_only=True)
class MirrorProx(MirrorSolver):
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
    stall_limit : int
        Iterations in which, and in the last seven eighths, the gap has to fall by a tenth.
    primal_weight : float or None
        Weight ω > 0 of the step in μ against that in u; None adapts it, or takes the theorem's.
    newton_limit : int
        Largest order of a Newton system, the free rows or the rank times the labellings with mass; 0 leaves
        mirror prox alone.
    random_state : int or None
        Seed of every random choice: the order of sampled points, those of a sampled curvature, the sampled labellings.
    sampling : {"auto", "none", "progressive", "labels", "variance-reduced"}
        "progressive" solves growing samples of the points first, each the start of the next; "auto", the default,
        does so from 20,000 points. All others take all points from the start.
        "labels" is Algorithm 1 of ssODM: i uniform, j ~ μ, fixed steps for `max_iter` iterations, the average
        returned when it is best. "variance-reduced" keeps a full gradient at an anchor (Alacaoglu and Malitsky 2022);
        what 1,000 steps leave is closed as by default.
    tau : float or None
        Half-width of the box of duals of "labels"; None takes one that holds the optimum.
    step_factor : float
        Factor on its step η; above one the proved bound is given up.

    References
    ----------
    T. Zhang, Z.-H. Zhou (2018). Semi-supervised optimal margin distribution machines, Algorithm 1.
    A. Nemirovski (2004). Prox-method with rate of convergence O(1/t), Eq. 3.3.
    D. Applegate et al. (2021). Practical large-scale linear programming using primal-dual hybrid gradient.
    A. Alacaoglu, Y. Malitsky (2022). Stochastic variance reduction for variational inequality methods.
    """

    name: ClassVar[str] = "mirror-prox"
    summary: ClassVar[str] = "mirror prox with Newton finish for the minimax master, certified gap"
    advance: ClassVar[Advance] = extragradient
    extra: ClassVar[bool] = True

    primal_weight: float | None = numbers().or_none().option(None)
    sampling: str = choices("auto", "none", "progressive", "labels", "variance-reduced").option("auto")


@dataclass(frozen=True, kw_only=True)
class MirrorDescent(MirrorSolver):
    """Solve the minimax master problem by mirror descent.

    μ ∝ μ exp(−η ∂_μφ/a), u = Π(u + η ∂_uφ/b), φ = Σ μ_k G(u, y_k). With ``sampling="labels"`` it is Algorithm 1 of
    ODMC: i uniform, j ~ μ, fixed steps for `max_iter` iterations, the average returned when it is best. Otherwise
    gradients are full, the conjugates enter by their prox, steps by backtracking, with restarts and a Newton finish.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    max_iter : int
        The number T of iterations, unless the budget sets one.
    stall_limit : int
        Iterations in which, and in the last seven eighths, the gap has to fall by a tenth; of full gradients.
    sampling : {"auto", "none", "progressive", "labels"}
        "progressive" solves growing samples of the points first; "auto", the default, does so from 20,000 points.
    tau : float or None
        Half-width of the box of duals; None takes one that holds the optimum.
    step_factor : float
        Factor on the theorem's step η; above one its bound is given up.
    newton_limit : int
        Largest order of a Newton system after full gradients; 0 leaves mirror descent alone.
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
    advance: ClassVar[Advance] = descend
    extra: ClassVar[bool] = False

    sampling: str = choices("auto", "none", "progressive", "labels").option("auto")
