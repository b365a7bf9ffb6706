"""The solver over engines: options, and a table of the forms it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Session, Solver, Status
from margindsl.program.forms import Form
from margindsl_solvers.engines.course import TOLERANCE, limited

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
