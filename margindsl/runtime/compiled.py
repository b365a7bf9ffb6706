"""A problem compiled for one relaxation and solver: explained stage by stage, solved by one solver after another."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from margindsl.contract import Budget, Refusal, Solver, Status
from margindsl.drivers.checkpoint import Checkpoint
from margindsl.drivers.guard import Guarded, offer_of, opened
from margindsl.drivers.run import Run
from margindsl.errors import RefusalError, SolverError, UnansweredError
from margindsl.host.clock import Cancelled
from margindsl.host.threads import small_work_threads
from margindsl.program.dump import dump_form, dump_losses
from margindsl.program.forms import Form
from margindsl.program.labelled import LabelledForm
from margindsl.program.passes import Pass, Presolved
from margindsl.relaxations.relaxation import Outcome, Relaxation
from margindsl.runtime.judging import Basis, verify
from margindsl.runtime.options import SolveOptions, Watch
from margindsl.runtime.registry import make_solver, solvers_for
from margindsl.runtime.solution import Solution
from margindsl.runtime.stages import EVALUATION_SOLVER, FITTED, solution_of, stages_of, start_labels, unfitted
from margindsl.views import notebook

COMPILED = 0.3  # part of the allowance after a stop in which a problem is compiled
TRIVIAL = 1e-6  # of the value, by which an estimate is beyond what the losses prove alone
LIFT_STEPS = 500  # a bound is tightened cheaply, or not at all
KEPT = "the answer is the warm start: nothing lower was found in the time"


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
    again : callable, optional
        Returns the program at the present values of its parameters.
    fits : Solver, optional
        What fits labellings in place of the usual solver.
    """

    def __init__(self, presolved: Presolved, relaxation: Relaxation, solver: Solver, form: Form,
                 printed: Mapping[str, Any],
                 seconds: dict[str, float], sessions: dict[Hashable, Guarded] | None = None, *,
                 hands_over: bool = False, unchanged: Callable[[], None] | None = None,
                 again: Callable[[], Presolved] | None = None, fits: Solver | None = None) -> None:
        self.program, self.presolved, self.relaxation, self.solver = presolved.declared, presolved, relaxation, solver
        self.form, self.printed, self.seconds = form, printed, seconds
        self.sessions = {} if sessions is None else sessions
        self.hands_over, self.unchanged, self.again, self.fits = hands_over, unchanged, again, fits
        self._opened: Any = None

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
        note = getattr(self.relaxation.offer(self.program), "note", "")
        others = ", then ".join(repr(solver.name) for solver in self.order() if solver is not self.solver)
        after_failure = f"\nwhere it fails: {others}" if others else ""
        stages = stages_of(self.relaxation)
        after = stages[[stage.name for stage in stages].index("relax") + 1:]
        presolved, program = "; ".join(step.describe() for step in self._steps()), self.presolved.program
        if self.presolved.passes:
            value = f"value = {program.scale:.6g} * program + {program.constant:.6g}"
            presolved = "\n".join([f"{presolved}; solved with", *dump_losses(program.losses), value])
        return [
            ("language", self.printed["text"]),
            ("margin program", self.program.dump()),
            *([("presolve", presolved)] if self._steps() else []),
            ("relaxation", f"{self.relaxation.name}: {type(self.relaxation).summary}\n{self.relaxation!r}\n{note}\n"
                           f"bound: {type(self.relaxation).bound}"),
            ("standard form", dump_form(self.form)),
            ("solver", f"{self.solver.name}: {type(self.solver).summary}\n{self.solver!r}{after_failure}"),
            ("after the solver", ", ".join([*(stage.words for stage in after), "certify"])),
            ("passes", " -> ".join(self.passes())),
        ]

    def passes(self) -> tuple[str, ...]:
        """Return the names of all that is done, in turn: what compiles, the passes, the stages, and the way back."""
        steps = [step.name for step in self._steps()]
        return ("grammar", "labels", "features", *steps, "form", *(stage.name for stage in stages_of(self.relaxation)),
                *(f"undo {name}" for name in reversed(steps)), "certify")

    def _steps(self) -> tuple[Pass, ...]:
        return (*self.program.normal.passes, *self.presolved.passes)

    @property
    def cvxpy(self) -> Any:
        """Return the cvxpy problem of the form, one object that is kept.

        Its parameters are named, and have the present values of every `Parameter` each time it is asked for; lifts are
        of the values for which they were compiled.

        Raises
        ------
        RefusalError
            If the solver is native and builds none.
        """
        if self._opened is None:
            self._opened = opened(self.solver, self.form)
        if not hasattr(self._opened, "loaded"):
            raise RefusalError(
                f"solver {self.solver.name!r} is native and builds no cvxpy problem; compile with 'clarabel', "
                "'scs', 'ecos', 'osqp' or 'highs'")
        return self._opened.loaded(self._now()[1])

    def _now(self) -> tuple[Presolved, Form]:
        """Return program and form at the present values of parameters, where the form takes others than its own."""
        if self.again is None or self.form.structure() is None:
            return self.presolved, self.form
        presolved = self.again()
        return presolved, self.relaxation.lower(presolved.program)

    def solve_cvxpy(self, problem: Any, **options: Any) -> Solution:
        """Solve a changed copy of `cvxpy` in its place, and return what it says of the problem as declared.

        Labels are rounded from its answer, or given its weights where labels are fixed or alternate; the value is that
        of the declared objective at them, and a bound is one that the declaration alone proves.

        Parameters
        ----------
        problem : cvxpy.Problem
            Over the variables of `cvxpy`: ``cvxpy.Problem(kept.objective, [*kept.constraints, more])``.
        **options
            Those of `solve`.
        """
        kept = self.cvxpy
        if not {id(x) for x in kept.variables()} & {id(x) for x in getattr(problem, "variables", list)()}:
            raise RefusalError("solve_cvxpy takes a problem over the variables of compiled.cvxpy, such as "
                               "cvxpy.Problem(kept.objective, [*kept.constraints, more]) with kept = compiled.cvxpy")
        (presolved, form), session, solver = self._now(), self._opened, copy(self.solver)
        object.__setattr__(solver, "open", lambda form: session)
        fits = solver if isinstance(self.form, LabelledForm) else None
        session.changed = problem
        try:
            found = Compiled(presolved, self.relaxation, solver, form, self.printed, dict(self.seconds), {},
                             fits=fits).solve(**options)
        finally:
            session.changed = None
        words = "the problem was changed in CVXPY; value and bound are of the declared one"
        return replace(found, message=f"{words}; {found.message}" if found.message else words)

    def solve(self, **options: Any) -> Solution:
        """Solve at the present values of parameters and return a `Solution`; the options are those of `SolveOptions`.
        """
        chosen = SolveOptions.of(options)
        if self.unchanged is not None:
            self.unchanged()
        if self.again is not None:
            presolved = self.again()
            return Compiled(presolved, self.relaxation, self.solver, self.relaxation.lower(presolved.program),
                            self.printed, self.seconds, self.sessions, hands_over=self.hands_over).solve(**options)
        with chosen.watched() as watch:
            return watch.ended(self.answer(chosen, watch), self.printed, sum(self.seconds.values()))

    def answer(self, options: SolveOptions, watch: Watch) -> Solution:
        """Return the answer of the first solver that has one, or the best of those that ended short of it.

        A solver that has no usable answer hands over to the next, while the budget lasts; the message names those that
        failed, with their words. Where nothing is lower than the warm start, that is the answer.
        """
        budget, best = watch.budget, None
        if self.program.features.is_streamed:  # to tell an answer takes passes, about as long as to compile
            budget = budget.sparing(sum(self.seconds.values()))
        watch.shown.title = f"{self.relaxation.name} with {self.solver.name}"
        failed: dict[str, str] = {}  # how solvers failed, by name
        seconds = dict(self.seconds)  # of all solvers
        try:
            with small_work_threads(self.program.n * self.program.features.rank**2), budget.limit(FITTED):
                for solver in self.order():
                    name = solver.name
                    if failed and budget.expired:
                        failed[name] = f"{name!r} was not begun: the time was up"
                        break
                    try:
                        found = self.attempt(solver, best, options, budget, seconds)
                    except UnansweredError as error:
                        failed[name] = error.words
                        continue
                    except SolverError as error:
                        if best is None:
                            raise
                        failed[name] = f"{name!r} ended in an error: {error}"
                        continue
                    best = found if best is None else better(best, found)
                    trouble = trouble_of(found, self.relaxation.bound != "none")
                    if not trouble and best is found:
                        break
                    failed[name] = trouble or f"{name!r} found nothing better"
        except KeyboardInterrupt as end:
            if not isinstance(end, Cancelled):
                budget.request.make()
            if best is None:
                best, failed = unfitted(self.program, options, budget, self.relaxation.name, self.solver.name), {}
        if best is None:
            others = [] if self.hands_over else [
                solver.name for solver in solvers_for(self.form) if solver.name != self.solver.name]
            advice = f"Other solvers that take this form: {', '.join(others)}" if others else ""
            raise UnansweredError("; ".join(failed.values()), advice)
        if failed and (list(failed) != [best.solver] or not best.state.has_answer):
            own = f": {best.message}" if best.message else ""
            notes = [] if best.solver in failed else [f"{best.solver!r} answered{own}"]
            best = replace(best, message="; ".join([*failed.values(), *notes]))
        best = replace(best, timings=seconds)
        return no_worse(best, options.warm_start) if self.relaxation.minimises else best

    def attempt(self, solver: Solver, earlier: Solution | None, options: SolveOptions, budget: Budget,
                seconds: dict[str, float]) -> Solution:
        """Return the answer with one solver, from what earlier ones found if anything; its seconds are added.

        Ctrl-C, the time or a failed solver ends one stage, and the next goes on with what there is; it is raised where
        no labels were fitted, of a failed solver none but those of the first answer.
        """
        run, found = None, Outcome(Status.CONVERGED)
        try:
            run = begin(self, solver, earlier, options, budget, seconds)
            # A descent over streamed points comes to a first answer, however long its passes are.
            patient = run.program.features.is_streamed and self.relaxation.bound == "none"
            for stage in stages_of(self.relaxation):
                part = partial(lambda run, part: math.inf if run.best is None else part, run, stage.part)
                try:
                    with run.stage(stage.name), run.budget.limit(part if patient else stage.part):
                        found = stage.apply(run, self.relaxation, found)
                    if not stage.is_last:
                        run.tell(stage.name)
                except KeyboardInterrupt as end:
                    if stage.is_last:
                        raise
                    found = replace(found, status=run.ended_by(end), is_cut=True)
                except UnansweredError as error:
                    if stage.is_last or run.best is None or run.fits == run.begun:
                        raise
                    found = replace(found, candidates=(), vectors=(), status=Status.FAILED, message=error.words,
                                    is_cut=True)
            try:
                return self.answered(run, found)
            except KeyboardInterrupt as end:  # once more, where Ctrl-C came meanwhile
                if isinstance(end, Cancelled):
                    raise
                return self.answered(run, replace(found, status=run.ended_by(end)))
        except KeyboardInterrupt as end:
            if run is None or run.best is None:
                raise
            # There is no time for the proof: what is in hand is the answer, also where a busy machine let the allowance
            # pass. To tell it takes one pass over streamed points, however long that is.
            last = Budget() if run.program.features.is_streamed else Budget.within(0.0)
            with suppress(Cancelled), last.limit(1.0):
                return self.answered(run, Outcome(run.ended_by(end), answer=run.best))
            raise

    def answered(self, run: Run, found: Outcome) -> Solution:
        """Return what the stages found as a solution."""
        with run.stage("certify"):
            return solution_of(self.presolved, self.relaxation, run, found)


def begin(compiled: Compiled, solver: Solver, earlier: Solution | None, options: SolveOptions, budget: Budget,
          seconds: dict[str, float]) -> Run:
    """Return the state an attempt begins with, from what earlier solvers found if anything."""
    program, start = compiled.presolved.program, options.warm_start if earlier is None else earlier
    fits = compiled.fits or make_solver(EVALUATION_SOLVER)
    if program.outside is not None:  # fits are to see what is written in CVXPY
        fits = make_solver("clarabel") if solver.native else solver
    keeps = options.checkpoint is not None and earlier is None
    run = Run(program, solver, fits, budget, np.random.default_rng(options.random_state),
              () if start is None else (start_labels(compiled.program, start),), compiled.sessions,
              partial(make_solver, max_iter=LIFT_STEPS),
              Checkpoint(str(options.checkpoint), program, repr(compiled.relaxation)) if keeps else None,
              form=compiled.form)
    run.seconds = seconds
    return run


def trouble_of(solution: Solution, proves: bool) -> str:
    """Return how a solver ended without a usable answer, empty when it did not.

    `proves`: whether a bound beyond that of the losses alone is expected, unless the relaxation itself is not beyond
    it; after a limit or an interrupt none is missed.
    """
    sentence = f": {solution.message}" if solution.message else ""
    if not solution.state.has_answer:
        return f"{solution.solver!r} ended as {solution.status}{sentence}"
    ended, proof = solution.state in (Status.CONVERGED, Status.INACCURATE), solution.certificate
    beyond = solution.estimate - solution.bound > TRIVIAL * abs(solution.value) or np.isnan(solution.estimate)
    missed = proof is None or (proof.is_trivial and (beyond or solution.state is Status.INACCURATE))
    if ended and proves and missed:
        return f"{solution.solver!r} ended as {solution.status}, without a bound{sentence}"
    return ""


def better(first: Solution, second: Solution) -> Solution:
    """Return the solution of lower value, or of higher bound at equal labels up to rounding."""
    slack = 1e-9 * abs(first.value)
    if second.value < first.value - slack:
        return second
    return second if second.value <= first.value + slack and second.bound > first.bound else first


def no_worse(found: Solution, start: object) -> Solution:
    """Return a solution with the labels and hyperplane of its warm start, where those have a lower value.

    The time may end before labels are fitted anew. Both are of one declaration with the same values of its parameters.
    One that was changed by hand, so that its value is not that of its labels, is no answer.
    """
    if not isinstance(start, Solution) or not start.value < found.value:
        return found
    theirs = start.basis
    if not (isinstance(theirs, Basis) and found.basis is not None and theirs.judges_as(found.basis)):
        return found
    if not verify(replace(start, state=Status.CONVERGED, bound=-np.inf), None):
        return found
    own = replace(found.basis, weights=theirs.weights, beyond=theirs.beyond)
    bound, estimate = min(found.bound, start.value), min(found.estimate, start.value)
    cut = found.state in (Status.TIME_LIMIT, Status.INTERRUPTED)  # whose words are about what was found
    return replace(found, labels=start.labels, value=start.value, weights=start.weights, bias=start.bias,
                   decision=start.decision, scalars=start.scalars, features=start.features, bound=bound,
                   estimate=estimate, basis=own, message=KEPT if cut else found.message)


def check_form(solver: Solver, form: Form, relaxation: Relaxation) -> None:
    """Raise unless a solver accepts a form."""
    answer = offer_of(solver, form)
    if isinstance(answer, Refusal):
        names = [repr(solver.name) for solver in solvers_for(form)]
        takers = ""
        if not any(name in answer.repair for name in names):
            end = "" if answer.repair.endswith(".") or not answer.repair else "."
            takers = f"{end} Solvers that take it: {', '.join(names) or 'none that is installed'}"
        raise RefusalError(f"solver {solver.name!r} does not accept the {type(form).__name__} of relaxation "
                           f"{relaxation.name!r}: {answer}{takers}")
