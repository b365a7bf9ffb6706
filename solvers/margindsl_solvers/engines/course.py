"""The loop of an iterative method (limits, trace, best answer, words), and solvers that run such methods by form."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Session, Solver, Status, numbers
from margindsl.program.clusters import ClusterForm
from margindsl.program.forms import Form
from margindsl.typing import FloatArray

TOLERANCE = numbers(most=1.0).or_none()  # the option `tol` of native solvers; None takes the budget's
IDLE = 100  # steps in a row that count nothing, after which nothing new is to be expected of them
PROGRESS, RESTED = 0.9, 0.875  # times the error: a fall that counts; share of the iterations without one
WORDS = {
    Status.OPTIMAL: "relative gap {error:.1e} after {count} {counted}",
    Status.CONVERGED: "relative gap {error:.1e} after {count} {counted}",
    Status.INACCURATE: "no more progress at a relative gap of {error:.1e} after {count} {counted}",
    Status.ITERATION_LIMIT: "{count} {counted} done, relative gap {error:.1e}; raise max_iter",
    Status.TIME_LIMIT: "time is up after {count} {counted}, relative gap {error:.1e}",
    Status.INTERRUPTED: "the callback or Ctrl-C stopped the solve after {count} {counted}, relative gap {error:.1e}",
    Status.UNBOUNDED: "the objective falls without end along the bias or a shared scalar",
}


def limited(solver: EngineSolver, budget: Budget | None) -> Budget:
    """Return the budget with the tolerance of a solver that has one, and its cap where the budget has none."""
    budget = budget or Budget()
    cap = budget.max_iter if budget.max_iter is not None else getattr(solver, "max_iter", None)
    return budget.replace(tol=budget.tol if solver.tol is None else solver.tol, max_iter=cap)


class Judged(Protocol):
    """Describe a point together with what it proves."""

    @property
    def primal(self) -> float:
        """Return the primal value, inf where there is none."""

    @property
    def dual(self) -> float:
        """Return the dual value, −inf where there is none."""

    @property
    def error(self) -> float:
        """Return the relative gap, or the residual where that is larger."""

    @property
    def negligible(self) -> float:
        """Return the size that values are at least taken to have where errors are relative to them."""


@dataclass(frozen=True)
class Bracket:
    """Represent two values that enclose the optimum, and their relative gap."""

    primal: float
    dual: float
    error: float
    negligible: float = 0.0  # size that values are at least taken to have


P = TypeVar("P", bound=Judged)


class Course(ABC, Generic[P]):
    """Carry one solve from its start to its answer.

    An engine is a subclass: its attributes are the state of the method, `init` judges the first point, `step` improves
    it, and both hand every point they judge to `certify`. Limits, reports to the callback, the trace, the best point
    and the words of the answer are kept here. Class attributes: `stage` (what progress reports call the engine),
    `counted` (what `iterations` counts), `stall_limit` (of these in which, and in the last seven eighths, the
    error has to fall by a tenth: a solve that has reached what rounding or its method allow would go on for ever).

    Parameters
    ----------
    budget : Budget
        Its `tol` is the relative gap to reach, its `max_iter` the cap on `iterations` (see `limited`).
    begin : float or None
        `time.monotonic` from which seconds count; None is now.

    Examples
    --------
    >>> class Halving(Course[Bracket]):
    ...     stage, x = "halving", 1.0
    ...     def init(self):
    ...         self.certify(Bracket(self.x, 0.0, self.x))
    ...     def step(self):
    ...         self.x, self.iterations = 0.5 * self.x, self.iterations + 1
    ...         self.certify(Bracket(self.x, 0.0, self.x))
    ...     def variables(self):
    ...         return {"x": self.x}
    >>> Halving(Budget(tol=1e-2)).solve().message
    'relative gap 7.8e-03 after 7 iterations'
    """

    stage: ClassVar[str]
    counted: ClassVar[str] = "iterations"
    stall_limit: float = math.inf

    def __init__(self, budget: Budget, begin: float | None = None) -> None:
        self.budget, self.tol = budget, budget.tol
        self.max_iter: float = math.inf if budget.max_iter is None else budget.max_iter
        self.begin = time.monotonic() if begin is None else begin
        self.iterations = 0
        self.best: P | None = None
        self.remark = ""
        self.mark, self.marked = math.inf, 0  # the error when it last fell by a tenth, and after how many iterations
        self.trace: list[tuple[float, float, float]] = []

    # -- what an engine says ------------------------------------------------------------------------

    @abstractmethod
    def init(self) -> Status | None:
        """Judge the first point; a status ends the solve."""

    @abstractmethod
    def step(self) -> Status | None:
        """Improve, and judge what was found; a status ends the solve, unless its gap is closed."""

    @abstractmethod
    def variables(self) -> Mapping[str, FloatArray]:
        """Return the variables of the answer."""

    def settle(self, status: Status) -> Status:
        """Return how the solve ended, after a last look at the answer."""
        return status

    # -- what every engine does ---------------------------------------------------------------------

    def run(self, begun: bool = False) -> Status:
        """Take steps until the gap is closed, a limit is met or the engine ends by itself.

        `begun`: whether `init` was called before.
        """
        status, idle = self.stop(None if begun else self.init()), 0
        while status is None:
            counted = self.iterations
            status = self.stop(self.step())
            idle = 0 if self.iterations > counted else idle + 1
            if idle > IDLE:
                status = status or Status.INACCURATE
        return status

    def solve(self) -> RawSolution:
        """Run, and return the answer with its words."""
        compiled = time.monotonic()
        status = self.settle(self.run())
        seconds = {"compile": compiled - self.begin, "solve": time.monotonic() - compiled}
        words = WORDS.get(status, status.value).format(error=self.error, count=self.iterations, counted=self.counted)
        words = f"{words}; {self.remark}" if self.remark else words
        answered = status.has_answer and self.best is not None
        return RawSolution(status, self.variables() if answered else {}, words,
                           float(self.best.primal) if answered and self.best else math.nan, self.iterations, seconds,
                           tuple(self.trace))

    def certify(self, point: P) -> P:
        """Book a judged point in the trace, and keep it where it is the best."""
        self.trace.append((time.monotonic() - self.begin, float(point.primal), float(point.dual)))
        if self.best is None or self.is_better(point):
            self.best = point
        error = self.error
        if error <= PROGRESS * self.mark and math.isfinite(error):
            self.mark, self.marked = error, self.iterations
        return point

    def is_better(self, point: P) -> bool:
        """Return whether a point is to replace the best one."""
        return not self.error <= point.error

    @property
    def error(self) -> float:
        """Return the error of the best point, inf where there is none."""
        error = math.inf if self.best is None else self.best.error
        return error if math.isfinite(error) else math.inf

    def is_closed(self) -> bool:
        """Return whether what was proved suffices."""
        return self.error <= self.tol

    def spent(self) -> Status | None:
        """Return the limit that is met, inside a step too; rest is one."""
        if self.budget.expired:
            return Status.TIME_LIMIT
        if self.iterations >= self.max_iter:
            return Status.ITERATION_LIMIT
        rest = self.iterations - self.marked
        return Status.INACCURATE if rest > max(self.stall_limit, RESTED * self.iterations) else None

    def stop(self, ended: Status | None = None) -> Status | None:
        """Return the status to end with, None to go on; reports progress.

        `ended`: with which the engine ended by itself.
        """
        if self.is_closed():
            return Status.OPTIMAL
        best = self.best
        if best is not None and best.dual - self.error * max(abs(best.primal), best.negligible) > self.budget.cutoff:
            return Status.CONVERGED
        status = ended or self.spent()
        if status is Status.TIME_LIMIT and self.budget.interrupted:
            status = Status.INTERRUPTED
        if status is None and best is not None and self.budget.report(
                self.stage, self.iterations, best.primal, best.dual):
            return Status.INTERRUPTED
        return status


T = TypeVar("T")
Solve = Callable[[Any, Any, Budget, RawSolution | None], RawSolution]  # (solver or session, form, budget, start)


def of_form(table: Mapping[type[Form], T], form: Form) -> T | None:
    """Return the entry of a form's class, or of the nearest class it is derived from; None where there is none."""
    return next((table[kind] for kind in type(form).__mro__ if kind in table), None)


@dataclass(frozen=True, kw_only=True)
class EngineSolver(Solver):
    """Solve forms with engines; a subclass is a table of options.

    Class attributes: `takes`, for every class of forms the function that solves it, given the solver (or the session
    that `keeper` returns), the form, a budget with the solver's own limits and a start; `solves`, what these forms are
    called in a refusal. A subclass without an option `max_iter` leaves the cap to the budget and the engine.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    """

    takes: ClassVar[Mapping[type[Form], Solve]]
    solves: ClassVar[str] = "other forms"
    requires: ClassVar[tuple[str, ...]] = ("scipy",)
    warm_starts: ClassVar[bool] = True

    tol: float | None = TOLERANCE.option(None)

    def accepts(self, form: Form) -> Offer | Refusal:
        return self.refuse(form) if of_form(self.takes, form) is None else self.offer(form)

    def offer(self, form: Form) -> Offer | Refusal:
        """Return the answer to a form of a class that is taken."""
        return Offer()

    def refuse(self, form: Form) -> Refusal:
        """Return the answer to a form of another class."""
        return Refusal(f"{self.name} solves {self.solves}, not a {type(form).__name__}")

    def solve(self, form: Form, budget: Budget | None = None, start: RawSolution | None = None) -> RawSolution:
        solve = of_form(self.takes, form)
        if solve is None:
            return RawSolution(Status.FAILED, message=str(self.refuse(form)))
        return solve(self.keeper(form), form, limited(self, budget), start)

    def keeper(self, form: Form) -> Any:
        """Return what keeps something from solve to solve of such forms, a new session; the solver where nothing is."""
        return self

    def open(self, form: Form) -> Session[Any]:
        session: Session[Any] = self.keeper(form)
        return session


@dataclass
class EngineSession(Session[Any]):
    """Keep something from solve to solve; its functions are the entries of the solver's table."""

    solver: Any

    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        solve = of_form(self.solver.takes, form)
        assert solve is not None  # the solver refuses other forms
        answer: RawSolution = solve(self, form, limited(self.solver, budget), start)
        return answer


INSTEAD: Mapping[type[Form], tuple[str, str]] = {ClusterForm: (
    "not the Crammer-Singer margins of {form.clusters} clusters",
    "Use solver='newton', 'cutting-plane' or 'clarabel', or md.margin(y, f, coding='simplex')")}


@dataclass(frozen=True, kw_only=True)
class RowsSolver(EngineSolver):
    """Solve fixed labels of one hyperplane, and perhaps of several clusters; `tol` as of `EngineSolver`."""

    solves: ClassVar[str] = "fixed labels"

    def refuse(self, form: Form) -> Refusal:
        instead = of_form(INSTEAD, form)
        if instead is None:
            return super().refuse(form)
        return Refusal(f"{self.name} solves fixed labels of one hyperplane, {instead[0].format(form=form)}", instead[1])
