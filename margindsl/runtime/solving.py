"""A solve: attempts in turn, each of them the passes of the program, the stages, and the way back."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from margindsl.contract import Budget, Solver, Status
from margindsl.drivers.checkpoint import Checkpoint
from margindsl.drivers.guard import is_foreign
from margindsl.drivers.run import Run
from margindsl.errors import DeclarationError, SolverError, TimeLimitError, UnansweredError
from margindsl.host.clock import Cancelled
from margindsl.host.process import process_kept
from margindsl.host.threads import small_work_threads
from margindsl.program.program import MarginProgram
from margindsl.runtime.attempts import Attempts
from margindsl.runtime.evidence import Evidence, settled
from margindsl.runtime.naming import named
from margindsl.runtime.options import SolveOptions
from margindsl.runtime.registry import make_solver, solvers_for
from margindsl.runtime.solution import Solution
from margindsl.runtime.stages import EVALUATION_SOLVER, FITTED, Found
from margindsl.runtime.undo import solution_of
from margindsl.runtime.verdict import least_proof
from margindsl.typing import IntArray

if TYPE_CHECKING:
    from margindsl.runtime.compiled import Compiled

COMPILED = 0.3  # part of the allowance after a stop in which a problem is compiled
LIFT_SOLVER, LIFT_EVALUATIONS = "burer-monteiro", 500  # a bound is tightened cheaply, or not at all


def solve_compiled(compiled: Compiled, options: SolveOptions, budget: Budget) -> Solution:
    """Try solvers in turn; each attempt goes through the stages and back through the passes."""
    attempts = Attempts(compiled.order(), compiled.relaxation.bound != "none", budget)
    run: Run | None = None
    with small_work_threads(compiled.program.n * compiled.program.features.rank**2):
        try:
            with budget.limit(FITTED):
                for solver, earlier in attempts:
                    with process_kept() if is_foreign(solver) else nullcontext():
                        try:
                            run, found = begin(compiled, solver, earlier, options, budget), Found()
                            for stage in compiled.stages:
                                try:
                                    with run.stage(stage.books), run.budget.limit(stage.part):
                                        found = stage.apply(run, found)
                                    if not stage.is_last:
                                        run.tell(stage.name)
                                except KeyboardInterrupt as end:
                                    if stage.is_last:
                                        raise
                                    found = found.ended(run.ended_by(end))
                                except UnansweredError as error:
                                    if stage.is_last or not found.is_answered(run):
                                        raise
                                    found = found.failed(error.words)
                            attempts.note(solver.name, answered_anyway(compiled, run, found))
                        except SolverError as error:
                            attempts.note(solver.name, error)
                return attempts.result()
        except KeyboardInterrupt as end:
            if not isinstance(end, Cancelled):
                budget.request.make()
            if attempts.best is None and run is not None and run.best is not None:
                # No time for the proof: what is in hand is the answer, also where a busy machine let the allowance pass
                with suppress(Cancelled), Budget.within(0.0).limit(1.0):
                    return answered(compiled, run, Found(state=run.ended_by(end), fit=run.best))
            if attempts.best is not None:
                return attempts.result()
            return unfitted(compiled.program, options, budget, compiled.relaxation.name, compiled.solver.name)
        except UnansweredError as error:
            others = other_solvers(compiled)
            if not others:
                raise
            raise UnansweredError(error.words, f"Other solvers that take this form: {', '.join(others)}") from error


def begin(compiled: Compiled, solver: Solver, earlier: Solution | None, options: SolveOptions, budget: Budget) -> Run:
    """Return the state an attempt begins with, from what earlier solvers found if anything."""
    program, start = compiled.presolved.program, options.warm_start if earlier is None else earlier
    keeps = options.checkpoint is not None and earlier is None
    run = Run(program, solver, make_solver(EVALUATION_SOLVER), budget, np.random.default_rng(options.random_state),
              () if start is None else (start_labels(compiled.program, start),), compiled.sessions,
              make_solver(LIFT_SOLVER, max_iter=LIFT_EVALUATIONS),
              Checkpoint(str(options.checkpoint), program, repr(compiled.relaxation)) if keeps else None,
              form=compiled.form)
    run.seconds.update(compiled.seconds)
    return run


def answered(compiled: Compiled, run: Run, found: Found) -> Solution:
    """Return the solution of an attempt."""
    assert found.fit is not None  # the last stage fits
    return solution_of(compiled, run, found.fit, found.outcome, found.state)


def answered_anyway(compiled: Compiled, run: Run, found: Found) -> Solution:
    """Return the solution of an attempt, begun once more where Ctrl-C came meanwhile."""
    try:
        return answered(compiled, run, found)
    except KeyboardInterrupt as end:
        if isinstance(end, Cancelled):
            raise
        return answered(compiled, run, found.ended(run.ended_by(end)))


def other_solvers(compiled: Compiled) -> list[str]:
    """Return the other solvers that take the form, where the user named the one that was tried."""
    if compiled.hands_over:
        return []
    return [solver.name for solver in solvers_for(compiled.form) if solver.name != compiled.solver.name]


def unfitted(program: MarginProgram, options: SolveOptions, budget: Budget, relaxation: str, solver: str) -> Solution:
    """Return labels in B with the hyperplane w = 0, for there was time for no other."""
    try:
        with Budget.within(0.0).limit(1.0 - FITTED):
            start = options.warm_start
            labels = (program.labels.any_member() if start is None
                      else program.labels.nearest(start_labels(program, start)))
    except Cancelled:
        up = "the solve was stopped" if options.time_limit is None else (
            f"the time limit of {options.time_limit:g} seconds was up")
        raise TimeLimitError(f"{up} before labels in B were found; give it more time") from None
    w, scalars, names = np.zeros(program.size_of_w), np.zeros(program.losses.scalars.count), program.labels.names
    weights = names.outputs(program.weights(w))
    evidence = None if program.source is None else Evidence(program.source, weights, scalars, budget.tol)
    value = program.objective(labels, w, 0.0, scalars) if program.allows_zero else np.inf
    least = least_proof(program)
    solution = Solution(
        labels=names.written(labels).astype(int), value=value,
        bound=-np.inf if least is None else program.to_user(least.bound),
        certificate=least, estimate=np.nan, state=Status.INTERRUPTED if budget.interrupted else Status.TIME_LIMIT,
        weights=weights, bias=0.0, decision=names.outputs(program.no_decision()),
        scalars=dict.fromkeys(program.losses.scalars.names, 0.0), features=program.features,
        timings={"total": time.monotonic() - budget.start}, relaxation=relaxation, solver=solver, coding=program.coding,
        evidence=evidence, column_names=program.source and program.source.hyperplane.column_names,
        message="there was no time to fit a hyperplane: w = 0 and any labels that the constraints allow")
    if evidence is None:
        return solution
    try:
        with Budget.within(0.0).limit(1.0 - FITTED):
            return settled(solution, program, least, least)
    except Cancelled:
        return replace(solution, bound=-np.inf, certificate=None)


def start_labels(program: MarginProgram, start: Any) -> IntArray:
    """Return the labels 0..k−1 of an earlier solution or of a clustering."""
    if not isinstance(start, Solution):
        return named(start, program.labels)
    if len(start.labels) != program.n:
        raise DeclarationError(
            f"solve(warm_start=...): the solution has {len(start.labels)} labels, the problem {program.n}")
    if start.clusters != program.clusters:
        raise DeclarationError(
            f"solve(warm_start=...): the solution has {start.clusters} clusters, the problem {program.clusters}; solve "
            "without it, or give a solution of the same number of clusters")
    return program.labels.names.read(start.labels)


__all__ = ["COMPILED", "solve_compiled", "unfitted"]
