"""Compile a problem for one relaxation and solver, explain every stage, and solve."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from margindsl.contract import Refusal, Solver
from margindsl.drivers.guard import Guarded, offer_of, opened
from margindsl.errors import RefusalError
from margindsl.program.dump import dump_form, dump_losses
from margindsl.program.forms import Form
from margindsl.program.passes import Pass, Presolved
from margindsl.relaxations.relaxation import Relaxation
from margindsl.runtime.draft import FRONT
from margindsl.runtime.options import SolveOptions
from margindsl.runtime.registry import solvers_for
from margindsl.runtime.solution import Solution
from margindsl.runtime.solving import solve_compiled
from margindsl.runtime.stages import stages_of
from margindsl.views import notebook


class Compiled:
    """Represent a problem lowered for one relaxation and one solver.

    Parameters
    ----------
    presolved : Presolved
        The margin program, as declared and as it is solved.
    relaxation : Relaxation
    solver : Solver
    form : Form
        What the relaxation lowers the program to, in the units in which it is solved.
    printed : mapping
        The declaration, as `Formulation.printed` says it.
    seconds : dict
        Seconds of the passes so far.
    sessions : dict, optional
        What solvers compiled for earlier solves of the same problem.
    hands_over : bool
        Whether the relaxation's next solvers are tried where this one fails; not when the user named it.
    unchanged : callable, optional
        Raises where the inputs are no longer those that were declared.
    """

    def __init__(self, presolved: Presolved, relaxation: Relaxation, solver: Solver, form: Form,
                 printed: Mapping[str, Any],
                 seconds: dict[str, float], sessions: dict[Hashable, Guarded] | None = None, *,
                 hands_over: bool = False, unchanged: Callable[[], None] | None = None) -> None:
        self.program, self.presolved, self.relaxation, self.solver = presolved.declared, presolved, relaxation, solver
        self.stages = stages_of(relaxation)
        self.form, self.printed, self.seconds = form, printed, seconds
        self.sessions = {} if sessions is None else sessions
        self.hands_over, self.unchanged = hands_over, unchanged

    def order(self) -> Iterator[Solver]:
        """Yield the solvers that are tried in turn: the chosen one, then those that take over where it fails."""
        yield self.solver
        if self.hands_over:
            names = self.relaxation.solver_order(self.form)
            yield from solvers_for(self.form, [name for name in names if name != self.solver.name])

    def explain(self) -> str:
        """Return every stage with its sizes, from the language to the solver."""
        return "\n\n".join(f"[{title}]\n{body}" for title, body in self._parts())

    def __repr__(self) -> str:
        program = self.program
        return (f"Compiled({program.n} points, {program.clusters} clusters, relaxation={self.relaxation.name!r}, "
                f"solver={self.solver.name!r}, form={type(self.form).__name__!r})")

    def _repr_html_(self) -> str:
        return notebook.parts(repr(self), self._parts())

    def _parts(self) -> list[tuple[str, str]]:
        offer = self.relaxation.offer(self.program)
        note = getattr(offer, "note", "")
        after = self.stages[[stage.name for stage in self.stages].index("relax") + 1:]
        return [
            ("language", self.printed["text"]),
            ("margin program", self.program.dump()),
            *([("presolve", self._explain_presolve())] if self._steps() else []),
            ("relaxation", f"{self.relaxation.name}: {type(self.relaxation).summary}\n{self.relaxation!r}\n{note}\n"
                           f"bound: {type(self.relaxation).bound}"),
            ("standard form", dump_form(self.form)),
            ("solver", f"{self.solver.name}: {type(self.solver).summary}\n{self.solver!r}{self._explain_order()}"),
            ("after the solver", ", ".join([*(stage.describe() for stage in after), "certify"])),
            ("passes", " -> ".join(self.passes())),
        ]

    def _explain_order(self) -> str:
        others = ", then ".join(repr(solver.name) for solver in self.order() if solver is not self.solver)
        return f"\nwhere it fails: {others}" if others else ""

    def passes(self) -> tuple[str, ...]:
        """Return the names of all that is done, in turn: what compiles, the passes, the stages, and the way back."""
        steps = [step.name for step in self._steps()]
        return (*(step.name for step in FRONT), *steps, "form", *(stage.name for stage in self.stages),
                *(f"undo {name}" for name in reversed(steps)), "certify")

    def _steps(self) -> tuple[Pass, ...]:
        return (*self.program.normal.passes, *self.presolved.passes)

    def _explain_presolve(self) -> str:
        program = self.presolved.program
        text = "; ".join(step.describe() for step in self._steps())
        if not self.presolved.passes:
            return text
        value = f"value = {program.scale:.6g} * program + {program.constant:.6g}"
        return "\n".join([f"{text}; solved with", *dump_losses(program.losses), value])

    @property
    def cvxpy(self) -> Any:
        """Return the cvxpy problem of the form.

        Raises
        ------
        RefusalError
            If the solver is native and builds none.
        """
        session = opened(self.solver, self.form)
        problem = getattr(session, "cvxpy", None)
        if problem is None:
            raise RefusalError(
                f"solver {self.solver.name!r} is native and builds no cvxpy problem; compile with 'clarabel', "
                "'scs', 'ecos', 'osqp' or 'highs'")
        return problem

    def solve(self, **options: Any) -> Solution:
        """Solve and return a `Solution`; the options are those of `SolveOptions`."""
        chosen = SolveOptions.of(options)
        if self.unchanged is not None:
            self.unchanged()
        with chosen.watched() as watch:
            found = solve_compiled(self, chosen, watch.of(self))
            return watch.ended(found, self.printed, self.relaxation.minimises)


def check_form(solver: Solver, form: Form, relaxation: Relaxation) -> None:
    """Raise unless a solver accepts a form."""
    answer = offer_of(solver, form)
    if isinstance(answer, Refusal):
        raise RefusalError(
            f"solver {solver.name!r} does not accept the {type(form).__name__} of relaxation "
            f"{relaxation.name!r}: {answer}{_takers(form, answer.repair)}")


def _takers(form: Form, repair: str) -> str:
    """Return a sentence with the solvers that take a form, or none where the repair names one of them."""
    names = [repr(solver.name) for solver in solvers_for(form)]
    if any(name in repair for name in names):
        return ""
    end = "" if repair.endswith(".") or not repair else "."
    return f"{end} Solvers that take it: {', '.join(names) or 'none that is installed'}"


__all__ = ["Compiled", "check_form"]
