"""A real solver with one fault, for tests of what stands around solvers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from margindsl.contract import Budget, Domain, Offer, RawSolution, Refusal, Session, Solver
from margindsl.errors import one_of
from margindsl.program.forms import Form
from margindsl.runtime.registry import as_solver
from margindsl.testing.faults import FAULTS, Call, Fault


def _read_fault(value: Any) -> str:
    return str(one_of("fault", value, FAULTS))


@dataclass(frozen=True, kw_only=True)
class FaultySolver(Solver):
    """Solve with a real solver, and misbehave in one way.

    Parameters
    ----------
    solver : str or Solver
        The real one.
    fault : str
        A key of `FAULTS`.

    Raises
    ------
    UnknownNameError
        If the fault or the solver is not known.

    Examples
    --------
    >>> import margindsl as md
    >>> from margindsl.errors import SolverError as Unanswered
    >>> y, f = md.Labels(4), md.Hyperplane([[-2.0], [-1.0], [1.0], [2.0]])
    >>> problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [md.sum(y) == 0])
    >>> try:
    ...     problem.solve("alternating", FaultySolver(solver="newton", fault="none"))
    ... except Unanswered as error:
    ...     print(error.words.partition(': ')[2])
    solver 'faulty' answered a NoneType, expected a RawSolution
    """

    name: ClassVar[str] = "faulty"
    summary: ClassVar[str] = "a real solver with one fault, for tests"
    warm_starts: ClassVar[bool] = True

    solver: Any = "newton"
    fault: str = Domain("a name of FAULTS", _read_fault).option("nan")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "solver", as_solver(self.solver))

    @property
    def native(self) -> bool:  # type: ignore[override]
        """Return whether the real solver is native."""
        return bool(self.solver.native)

    def accepts(self, form: Form) -> Offer | Refusal:
        other = FAULTS[self.fault].accepts()
        return self.solver.accepts(form) if other is None else other

    def open(self, form: Form) -> Session:
        other = FAULTS[self.fault].opens()
        return _FaultySession(FAULTS[self.fault], self.solver.open(form)) if other is None else None  # type: ignore[return-value]


@dataclass
class _FaultySession(Session):
    """Solve with a real session, and misbehave."""

    fault: Fault
    session: Session
    memory: dict[str, Any] = field(default_factory=lambda: {"count": 0})

    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        self.memory["count"] += 1
        call = Call(form, budget, start, self.memory)
        self.fault.before(call)
        return self.fault.alter(call, self.session.solve(form, budget, start))


__all__ = ["FaultySolver"]
