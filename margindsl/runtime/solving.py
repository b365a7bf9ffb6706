"""A solve: attempts in turn, each of them the passes of the program, the stages, and the way back."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from margindsl.contract import Budget, RawSolution, Status
from margindsl.drivers.checkpoint import Checkpoint
from margindsl.drivers.guard import is_foreign
from margindsl.drivers.run import Fit, Run
from margindsl.errors import DeclarationError, SolverError, TimeLimitError, UnansweredError
from margindsl.host.clock import Cancelled
from margindsl.host.process import process_kept
from margindsl.host.threads import small_work_threads
from margindsl.program.passes import Answer
from margindsl.program.program import MarginProgram
from margindsl.runtime.attempts import Attempt, Attempts
from margindsl.runtime.evidence import Evidence, settled
from margindsl.runtime.naming import named
from margindsl.runtime.options import SolveOptions
from margindsl.runtime.registry import make_solver, solvers_for
from margindsl.runtime.solution import Solution
from margindsl.runtime.stages import EVALUATED, EVALUATION_SOLVER, EVALUATION_TOL, FITTED, Found
from margindsl.runtime.undo import solution_of
from margindsl.runtime.verdict import least_proof
from margindsl.typing import IntArray

if TYPE_CHECKING:
    from margindsl.runtime.compiled import Compiled

COMPILED = 0.3  # part of the allowance after a stop in which a problem is compiled
LIFT_SOLVER, LIFT_EVALUATIONS = "burer-monteiro", 500  # a bound is tightened cheaply, or not at all


def solve_compiled(compiled: Compiled, options: SolveOptions, budget: Budget) -> Solution:
    """Try solvers and units in turn; each attempt goes through the stages and back through the passes."""
    attempts = Attempts(compiled.order(), compiled.presolved, compiled.relaxation.bound != "none", budget)
    run: Run | None = None
    with small_work_threads(compiled.program.n * compiled.program.features.rank**2):
        try:
            with budget.limit(FITTED):
                for attempt in attempts:
                    with process_kept() if is_foreign(attempt.solver) else nullcontext():
                        try:
                            run, found = begin(compiled, attempt, options, budget), Found()
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
                            attempts.note(answered_anyway(compiled, attempt, run, found))
                        except SolverError as error:
                            attempts.note(error)
                return attempts.result()
        except KeyboardInterrupt as end:
            if not isinstance(end, Cancelled):
                budget.request.make()
            if attempts.best is None and run is not None and run.best is not None:
                # No time for the proof: what is in hand is the answer, also where a busy machine let the allowance pass
                with suppress(Cancelled), Budget.within(0.0).limit(1.0):
                    return answered(compiled, attempt, run, Found(state=run.ended_by(end), fit=run.best))
            if attempts.best is not None:
                return attempts.result()
            return unfitted(compiled.program, options, budget, compiled.relaxation.name, compiled.solver.name)
        except UnansweredError as error:
            others = other_solvers(compiled)
            if not others:
                raise
            raise UnansweredError(error.words, f"Other solvers that take this form: {', '.join(others)}") from error


def begin(compiled: Compiled, attempt: Attempt, options: SolveOptions, budget: Budget) -> Run:
    """Return the state an attempt begins with."""
    program = attempt.presolved.program
    earlier = options.warm_start if attempt.earlier is None else attempt.earlier
    keeps = options.checkpoint is not None and attempt.earlier is None and not attempt.repeats
    run = Run(program, attempt.solver, make_solver(EVALUATION_SOLVER), budget,
              np.random.default_rng(options.random_state),
              () if earlier is None else (start_labels(compiled.program, earlier),), compiled.sessions,
              make_solver(LIFT_SOLVER, max_iter=LIFT_EVALUATIONS),
              Checkpoint(str(options.checkpoint), program, repr(compiled.relaxation)) if keeps else None,
              form=compiled.form if attempt.presolved is compiled.presolved else None)
    run.seconds.update(compiled.seconds)
    return run


def answered(compiled: Compiled, attempt: Attempt, run: Run, found: Found) -> Solution:
    """Return the solution of an attempt; nothing but a closed gap makes a second one more than inaccurate."""
    fit, state = found.fit, found.state
    assert fit is not None  # the last stage fits
    if attempt.repeats:
        fit = _evaluate_presolved(compiled, run, fit)
        state = Status.INACCURATE if state in (Status.CONVERGED, Status.OPTIMAL) else state
    return solution_of(compiled, attempt, run, fit, found.outcome, state)


def answered_anyway(compiled: Compiled, attempt: Attempt, run: Run, found: Found) -> Solution:
    """Return the solution of an attempt, begun once more where Ctrl-C came meanwhile."""
    try:
        return answered(compiled, attempt, run, found)
    except KeyboardInterrupt as end:
        if isinstance(end, Cancelled):
            raise
        return answered(compiled, attempt, run, found.ended(run.ended_by(end)))


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


def _evaluate_presolved(compiled: Compiled, run: Run, fit: Fit) -> Fit:
    """Return the better of a fit without the passes that were left out and one made with them."""
    program, undos = run.program, []
    for step in compiled.presolved.optional:
        program, undo = step.apply(program)
        undos.append(undo)
    with run.stage("evaluate"), run.finishing(EVALUATED):
        try:
            other = Run(program, run.solver, run.fixed_solver, run.budget, run.rng).fit(fit.labels, tol=EVALUATION_TOL)
        except (SolverError, Cancelled):
            return fit
    answer = Answer(other.w, other.bias, other.scalars, other.decision)
    for undo in reversed(undos):
        answer = undo(answer)
    raw = RawSolution(other.raw.status, {
        "w": answer.w, "bias": answer.bias, "scalars": answer.scalars})
    found = run.adopt(run.program.fix_labels(fit.labels), raw)
    return found if found.value < fit.value else fit


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
