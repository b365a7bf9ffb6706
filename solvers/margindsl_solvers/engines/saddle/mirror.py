"""Mirror prox and mirror descent: one solver of saddle forms, its methods a table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from margindsl.contract import Budget, Offer, RawSolution, Refusal, integers, numbers
from margindsl.host.threads import small_work_threads
from margindsl.program.forms import Form, SaddleForm
from margindsl_solvers.engines.saddle.box import BoxModel, Schedule, bounded, descent_steps, prox_steps
from margindsl_solvers.engines.saddle.iteration import Advance, descend, extragradient
from margindsl_solvers.engines.saddle.model import Point, SaddleModel
from margindsl_solvers.engines.saddle.progressive import progressive_start, smoothed_start
from margindsl_solvers.engines.saddle.run import MirrorRun, SaddleCourse, refuse_unconjugated, starting_pair
from margindsl_solvers.engines.saddle.sampling import GRADIENTS, FullGradient, StochasticRun, start_in
from margindsl_solvers.engines.saddle.smoothed import smooths
from margindsl_solvers.engines.saddle.variance import AnchoredRun
from margindsl_solvers.engines.solver import EngineSolver, Solve
from margindsl_solvers.engines.threads import threads


class Method(NamedTuple):
    """Represent a first-order method: its adaptive step, its theorem's steps, and whether it looks ahead."""

    advance: Advance
    schedule: Schedule
    extra: bool


LARGE = 20_000  # points from which "auto" samples: there it halved the time to a gap of 1e-4 (copies of digits)
PROX = Method(extragradient, prox_steps, True)
DESCENT = Method(descend, descent_steps, False)
FULL = ("auto", "none", "progressive")  # sampling with full gradients


@dataclass(frozen=True, kw_only=True)
class MirrorSolver(EngineSolver):
    """Solve minimax masters by a first-order method, adaptive with a Newton finish or as its theorem has it.

    Class attribute `method`; subclasses declare the option `sampling`.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    max_iter : int
        Cap on iterations (first-order and Newton steps alike), unless the budget sets one.
    stall_limit : int
        Iterations in which, and in the last seven eighths, the gap has to fall by a tenth, or the solve ends as
        inaccurate; of the adaptive version.
    newton_limit : int
        Largest order of a Newton system of the adaptive version, the free rows or the rank times the labellings with
        mass; 0 leaves the first-order method alone.
    random_state : int or None
        Seed of every random choice: the order of sampled points, those of a sampled curvature, the sampled labellings.
    tau : float or None
        Half-width of the box of duals of the theorem's version; None takes one that holds the optimum.
    step_factor : float
        Factor on the theorem's step η; above one its bound is given up.
    """

    method: ClassVar[Method]
    solves: ClassVar[str] = "minimax masters"

    max_iter: int = integers(1).option(20_000)
    stall_limit: int = integers(1).option(1000)
    newton_limit: int = integers(0).option(2000)
    random_state: int | None = integers(0).or_none().option(0)
    tau: float | None = numbers().or_none().option(None)
    step_factor: float = numbers().option(1.0)
    sampling: str = "auto"

    @property
    def schedule(self) -> str:
        """Return the steps in force: "adaptive", "theorem" or "anchored"."""
        if self.sampling in FULL:
            return "adaptive"
        return "anchored" if self.sampling == "variance-reduced" else "theorem"

    def is_progressive(self, form: SaddleForm) -> bool:
        """Return whether growing samples come before all points: where that is asked for, or points are many."""
        return hasattr(form.features, "take") and (
            self.sampling == "progressive" or (self.sampling == "auto" and form.n >= LARGE))

    def offer(self, form: Form) -> Offer | Refusal:
        scalars, biased = form.losses.scalars.count, form.is_biased  # type: ignore[attr-defined]
        if (self.schedule == "theorem" and scalars) or (self.schedule != "adaptive" and biased):
            return Refusal(f"the published steps of {self.name} move masses and duals alone, neither shared scalars "
                           f"nor a bias", f"use solver={self.name!r} with its defaults, full gradients and adaptive "
                           "steps, or 'clarabel'")
        refusal = refuse_unconjugated(self.name, form)
        if refusal is not None:
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
        with small_work_threads(work), threads(work if form.features.is_dense else 0) as gather:
            course = self._course(SaddleModel(form, gather), budget, start, begin)
            course.remark = "" if self.sampling in FULL else f"sampling {self.sampling}"
            return course.solve()

    def _course(self, model: SaddleModel, budget: Budget, start: RawSolution | None, begin: float) -> SaddleCourse:
        """Return the engine of the options."""
        rng = np.random.default_rng(self.random_state)
        if self.schedule == "adaptive":
            def engine(model: SaddleModel, budget: Budget, point: Point | SaddleCourse | None) -> MirrorRun:
                return MirrorRun(model, budget, point or starting_pair(model, start), self.method.advance, begin=begin,
                                 newton_limit=self.newton_limit, stall_limit=self.stall_limit, **self._adaptive())

            grows = start is None and self.is_progressive(model.form)
            if grows and self.newton_limit and smooths(model):
                return engine(model, budget, smoothed_start(model, budget, rng, begin))
            return engine(model, budget, progressive_start(model, budget, rng, engine) if grows else None)
        if self.schedule == "anchored":
            return AnchoredRun(model, budget, rng=rng, start=starting_pair(model, start),
                               weight=self._adaptive()["weight"])
        box, sampled = BoxModel(model, self.tau), self.sampling not in FULL
        steps = self.method.schedule(box, int(budget.max_iter or self.max_iter), sampled, **self._weighted())
        steps = steps.times(self.step_factor)
        gradient = GRADIENTS.get(self.sampling, FullGradient)(box)
        return StochasticRun(box, gradient, steps, budget, rng=rng, extra=self.method.extra, start=start_in(box, start))

    def _adaptive(self) -> dict[str, Any]:
        return {}

    def _weighted(self) -> dict[str, float]:
        return {}

    takes: ClassVar[Mapping[type[Form], Solve]] = {SaddleForm: solve_saddle}
