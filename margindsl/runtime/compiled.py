"""Compile a problem for one relaxation and solver, explain every stage, and solve."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from typing import Any, ClassVar

from margindsl.contract import Refusal, Solver
from margindsl.drivers.guard import Guarded, offer_of, opened
from margindsl.errors import (
    RefusalError,
)
from margindsl.program.dump import dump_form, dump_losses
from margindsl.program.forms import Form
from margindsl.program.program import MarginProgram
from margindsl.program.scaling import Scaling
from margindsl.relaxations.relaxation import Relaxation
from margindsl.runtime.options import SolveOptions
from margindsl.runtime.registry import solvers_for
from margindsl.runtime.solution import Solution
from margindsl.runtime.solving import EVALUATION_SOLVER, EVALUATION_TOL, solve_compiled


class Compiled:
    """Represent a problem lowered for one relaxation and one solver.

    Parameters
    ----------
    program : MarginProgram
    relaxation : Relaxation
    solver : Solver
    text : str
        The declaration.
    seconds : dict
        Seconds of the passes so far.
    sessions : dict, optional
        What solvers compiled for earlier solves of the same problem.
    hands_over : bool
        Whether the relaxation's next solvers are tried where this one fails; not when the user named it.
    unchanged : callable, optional
        Raises where the inputs are no longer those that were declared.
    """

    PASSES: ClassVar[tuple[str, ...]] = (
        "declare", "check grammar", "margin program", "presolve labels", "features", "relax", "form", "solve",
        "undo", "round", "polish", "evaluate", "certify")

    def __init__(self, program: MarginProgram, relaxation: Relaxation, solver: Solver, form: Form, text: str,
                 seconds: dict[str, float], sessions: dict[Hashable, Guarded] | None = None, *,
                 hands_over: bool = False, unchanged: Callable[[], None] | None = None) -> None:
        self.program, self.relaxation, self.solver = program, relaxation, solver
        self.form, self.text, self.seconds = form, text, seconds
        self.sessions = {} if sessions is None else sessions
        self.hands_over, self.unchanged = hands_over, unchanged

    def order(self) -> Iterator[Solver]:
        """Yield the solvers that are tried in turn: the chosen one, then those that take over where it fails."""
        yield self.solver
        if self.hands_over:
            names = self.relaxation.solver_order(self.form)
            yield from solvers_for(self.form, [name for name in names if name != self.solver.name])

    def using(self, solver: Solver) -> Compiled:
        """Return the same for another solver that accepts the form, and no other after it."""
        other = copy.copy(self)
        other.solver, other.hands_over = solver, False
        return other

    @cached_property
    def scaling(self) -> Scaling:
        """Return the units in which the program is solved; losses are changed only where the relaxation allows."""
        for tilt in (True, False):
            scaling = Scaling.of(self.program, tilt)
            if scaling.is_identity or self.relaxation.offer(scaling.apply(self.program)):
                return scaling
        return Scaling()

    @cached_property
    def scaled(self) -> MarginProgram:
        """Return the program as it is solved: features, losses and values of usual size."""
        return self.scaling.apply(self.program)

    def explain(self) -> str:
        """Return every stage with its sizes, from the language to the solver."""
        offer = self.relaxation.offer(self.program)
        note = getattr(offer, "note", "")
        parts = [
            ("language", self.text),
            ("margin program", self.program.dump()),
            ("relaxation", f"{self.relaxation.name}: {type(self.relaxation).summary}\n{self.relaxation!r}\n{note}\n"
                           f"bound: {type(self.relaxation).bound}"),
            ("standard form", dump_form(self.form)),
            *([] if self.scaling.is_identity else [("presolve", self._explain_scaling())]),
            ("solver", f"{self.solver.name}: {type(self.solver).summary}\n{self.solver!r}{self._explain_order()}"),
            ("after the solver", f"round, polish ({self.relaxation.polish}), evaluate the labels with "
                                 f"{EVALUATION_SOLVER!r} to {EVALUATION_TOL:g}, certify"),
            ("passes", " -> ".join(self.PASSES)),
        ]
        return "\n\n".join(f"[{title}]\n{body}" for title, body in parts)

    def _explain_order(self) -> str:
        others = ", then ".join(repr(solver.name) for solver in self.order() if solver is not self.solver)
        return f"\nwhere it fails: {others}" if others else ""

    def _explain_scaling(self) -> str:
        text = f"{self.scaling.describe()}; solved with"
        value = f"value = {self.scaled.scale:.6g} * program + {self.scaled.constant:.6g}"
        return "\n".join([text, *dump_losses(self.scaled.losses), value])

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
        return solve_compiled(self, chosen)


def check_form(solver: Solver, form: Form, relaxation: Relaxation) -> None:
    """Raise unless a solver accepts a form.

    Raises
    ------
    RefusalError
        With the solver's reason and repair, and the solvers that do accept it where the repair names none of them.
    """
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
