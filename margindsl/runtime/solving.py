"""The passes of a solve: attempts in turn, relax, round and polish, evaluate."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from margindsl.clock import Cancelled
from margindsl.contract import Budget, RawSolution, Solver, Status
from margindsl.drivers.checkpoint import Checkpoint
from margindsl.drivers.guard import is_foreign
from margindsl.drivers.rounding import polish, round_directions
from margindsl.drivers.run import Fit, Run
from margindsl.drivers.starts import as_member, distinct, in_hand
from margindsl.errors import (
    DeclarationError,
    SolverError,
    TimeLimitError,
    UnansweredError,
)
from margindsl.process import process_kept
from margindsl.program.program import MarginProgram
from margindsl.program.scaling import Scaling
from margindsl.relaxations.relaxation import Outcome
from margindsl.runtime.handover import better, hand_over
from margindsl.runtime.options import SolveOptions
from margindsl.runtime.registry import make_solver, solvers_for
from margindsl.runtime.solution import Solution
from margindsl.runtime.undo import solution_of
from margindsl.threads import small_work_threads

if TYPE_CHECKING:
    from margindsl.runtime.compiled import Compiled

EVALUATION_SOLVER = "newton"
EVALUATION_TOL = 1e-10
# Parts of the allowance after a stop in which stages end that a loop of theirs did not end before.
COMPILED, RELAXED, ROUNDED, EVALUATED, FITTED = 0.3, 0.4, 0.6, 0.75, 0.8
FAR = 1024.0  # units so far from one that an inaccurate answer may be their fault
LIFT_SOLVER, LIFT_EVALUATIONS = "burer-monteiro", 500  # a bound is tightened cheaply, or not at all


def solve_compiled(compiled: Compiled, options: SolveOptions, budget: Budget | None = None) -> Solution:
    """Run the passes after compilation: solve, round, polish, evaluate, certify."""
    program, budget = compiled.program, options.budget() if budget is None else budget
    with small_work_threads(program.n * program.features.rank**2):
        try:
            with budget.limit(FITTED):
                return _run_passes(compiled, options, budget)
        except Cancelled:
            return unfitted(program, options, budget, compiled.relaxation.name, compiled.solver.name)


def unfitted(program: MarginProgram, options: SolveOptions, budget: Budget, relaxation: str, solver: str) -> Solution:
    """Return labels in B with the hyperplane w = 0, for there was time for no other.

    Raises
    ------
    TimeLimitError
        If there was not even time for labels in B.
    """
    try:
        with Budget.within(0.0).limit(1.0 - FITTED):
            start = options.warm_start
            labels = as_member(program, program.no_gain() if start is None else start.labels)
    except Cancelled:
        raise TimeLimitError(f"the time limit of {options.time_limit:g} seconds was up before labels in B were found; "
                             "raise it") from None
    w, scalars = np.zeros((program.clusters - 1) * program.features.rank), np.zeros(program.losses.scalars.count)
    allowed = all(bound.lower <= 0.0 <= bound.upper for bound in program.decision)
    return Solution(
        labels=labels.astype(int), value=program.objective(labels, w, 0.0, scalars) if allowed else np.inf,
        bound=-np.inf, estimate=np.nan, state=Status.INTERRUPTED if budget.interrupted else Status.TIME_LIMIT,
        weights=program.weights(w), bias=0.0,
        decision=np.zeros(program.n) if program.is_binary else np.zeros((program.n, program.clusters)),
        scalars=dict.fromkeys(program.losses.scalars.names, 0.0), features=program.features,
        timings={"total": time.monotonic() - budget.start}, relaxation=relaxation, solver=solver, coding=program.coding,
        message="there was no time to fit a hyperplane: w = 0 and any labels that the constraints allow")


def _run_passes(compiled: Compiled, options: SolveOptions, budget: Budget) -> Solution:
    """Solve with the chosen solver and, where it fails and the user named none, with the next ones of the order."""

    def attempt(solver: Solver, earlier: Solution | None) -> Solution:
        chosen = compiled if solver is compiled.solver else compiled.using(solver)
        with process_kept() if is_foreign(solver) else nullcontext():
            if earlier is None:
                return _solve_in_turn(chosen, options, budget)
            return _solve_in(chosen, compiled.scaling, replace(options, warm_start=earlier), budget)

    try:
        return hand_over(compiled.order(), attempt, compiled.relaxation.bound != "none", budget)
    except UnansweredError as error:
        if compiled.hands_over:
            raise
        others = [solver.name for solver in solvers_for(compiled.form) if solver.name != compiled.solver.name]
        if not others:
            raise
        raise UnansweredError(error.words, f"Other solvers that take this form: {', '.join(others)}") from error


def _solve_in_turn(compiled: Compiled, options: SolveOptions, budget: Budget) -> Solution:
    """Solve in the units of the presolve and, where that ends in trouble, in the user's own; keep the better."""
    try:
        solution = _solve_in(compiled, compiled.scaling, options, budget, keeps=True)
    except SolverError:
        if compiled.scaling.is_identity or budget.expired:
            raise
        return _solve_in(compiled, Scaling(), options, budget)
    far = not 1.0 / FAR <= compiled.scaling.features <= FAR or compiled.scaling.decision != 1.0
    short = solution.state in (Status.INACCURATE, Status.ITERATION_LIMIT)
    troubled = solution.state is Status.FAILED or (far and short)
    if compiled.scaling.is_identity or not troubled or budget.expired:
        return solution
    try:
        other = _solve_in(compiled, Scaling(), options, budget)
    except SolverError:
        return solution
    return better(solution, other)


def _solve_in(compiled: Compiled, units: Scaling, options: SolveOptions, budget: Budget, *,
              keeps: bool = False) -> Solution:
    starts = () if options.warm_start is None else (_start_labels(compiled, options.warm_start),)
    program = compiled.scaled if units == compiled.scaling else units.apply(compiled.program)
    kept = keeps and options.checkpoint is not None
    run = Run(program, compiled.solver, make_solver(EVALUATION_SOLVER), budget,
              np.random.default_rng(options.random_state), starts, compiled.sessions,
              make_solver(LIFT_SOLVER, max_iter=LIFT_EVALUATIONS),
              Checkpoint(str(options.checkpoint), program, repr(compiled.relaxation)) if kept else None)
    run.seconds.update(compiled.seconds)
    outcome, state = _attempt(compiled, run)
    fit, outcome, state = _finish(compiled, run, outcome, state)
    if units != compiled.scaling:  # a second attempt: nothing but a closed gap makes it more than inaccurate
        fit = _evaluate_scaled(compiled, run, fit)
        state = Status.INACCURATE if state in (Status.CONVERGED, Status.OPTIMAL) else state
    return solution_of(compiled, units, run, fit, outcome, state)


def _evaluate_scaled(compiled: Compiled, run: Run, fit: Fit) -> Fit:
    """Return the better of a fit in the user's units and one made in those of the presolve."""
    scaling = compiled.scaling
    with run.stage("evaluate"), run.finishing(EVALUATED):
        scaled = Run(compiled.scaled, run.solver, run.fixed_solver, run.budget, run.rng)
        try:
            other = scaled.fit(fit.labels, tol=EVALUATION_TOL)
        except (SolverError, Cancelled):
            return fit
    raw = RawSolution(other.raw.status, {
        "w": scaling.weight * other.w, "bias": np.asarray(scaling.decision * other.bias),
        "scalars": scaling.decision * other.scalars})
    found = run.adopt(run.program.fix_labels(fit.labels), raw)
    return found if found.value < fit.value else fit


def _start_labels(compiled: Compiled, solution: Solution) -> np.ndarray:
    if len(solution.labels) != compiled.program.n:
        raise DeclarationError(
            f"solve(warm_start=...): the solution has {len(solution.labels)} labels, the problem {compiled.program.n}")
    given, expected = _clusters(solution), compiled.program.clusters
    if given != expected:
        raise DeclarationError(
            f"solve(warm_start=...): the solution has {given} clusters, the problem {expected}; solve without it, or "
            "give a solution of the same number of clusters")
    return np.asarray(solution.labels)


def _clusters(solution: Solution) -> int:
    return 2 if solution.coding == "binary" else int(solution.decision.shape[1])


def _attempt(compiled: Compiled, run: Run) -> tuple[Outcome | None, Status]:
    """Run the relaxation and round what it found; an interrupt or a failure keeps the best labelling so far."""
    outcome: Outcome | None = None
    try:
        with run.budget.limit(RELAXED), in_hand(run):
            outcome = compiled.relaxation.run(run)
        if outcome.fit is None:
            with run.budget.limit(ROUNDED), run.stage("round and polish"):
                outcome = replace(outcome, candidates=tuple(_candidates(compiled, run, outcome)), factor=None)
    except KeyboardInterrupt as end:
        return outcome, run.ended_by(end)
    except UnansweredError as error:
        if run.best is None:
            raise
        kept = replace(outcome, candidates=(), factor=None) if outcome is not None else Outcome(Status.FAILED)
        return replace(kept, status=Status.FAILED, message=error.words), Status.FAILED
    finally:
        if run.checkpoint is not None:
            run.checkpoint.write()
    return outcome, outcome.status


def _finish(compiled: Compiled, run: Run, outcome: Outcome | None, state: Status) -> tuple[Fit, Outcome | None, Status]:
    """Polish the rounded labels of a convex relaxation, then fit the best ones to high accuracy."""
    try:
        if outcome is not None and outcome.fit is None and outcome.candidates:
            hurried = state is not outcome.status  # Ctrl-C while rounding: evaluate what there is
            with run.stage("round and polish"), run.budget.limit(ROUNDED):
                polish(run, list(outcome.candidates), "none" if hurried else str(compiled.relaxation.polish))
    except KeyboardInterrupt as end:
        state = run.ended_by(end)
    with run.stage("evaluate"):
        fit, cut = _evaluate(compiled, run, _labels_in_hand(run, outcome))
    return fit, outcome, state if cut is None else cut


def _labels_in_hand(run: Run, outcome: Outcome | None) -> np.ndarray:
    """Return the best labels, without any those to be fitted, those of the warm start, or any of B."""
    if run.best is not None:
        return run.best.labels
    if outcome is not None and outcome.candidates:
        return outcome.candidates[0]
    return as_member(run.program, run.starts[0] if run.starts else run.program.no_gain())


def _evaluate(compiled: Compiled, run: Run, labels: np.ndarray) -> tuple[Fit, Status | None]:
    """Return labels with the hyperplane fitted to them to high accuracy, and how that was ended if it was."""
    known = run.best
    try:
        with run.finishing(EVALUATED):
            apart = Run(run.program, run.solver, run.fixed_solver, run.budget, run.rng, sessions=compiled.sessions)
            fit = apart.fit(labels, known, tol=EVALUATION_TOL)
        return (fit if known is None or not run.budget.expired or fit.value <= known.value else known), None
    except Cancelled as end:
        return (run.plain_fit(labels) if known is None else known), run.ended_by(end)
    except (KeyboardInterrupt, UnansweredError) as end:
        if known is None:
            raise
        state = Status.INTERRUPTED if isinstance(end, KeyboardInterrupt) else None
        return known, state  # accurate to 1e-7 rather than to EVALUATION_TOL


def _candidates(compiled: Compiled, run: Run, outcome: Outcome) -> list[np.ndarray]:
    candidates = list(outcome.candidates) + list(run.starts)
    if outcome.factor is not None:
        candidates += round_directions(run, outcome.factor)
    if not candidates:
        if not outcome.status.has_answer:
            raise UnansweredError(
                f"solver {compiled.solver.name!r} ended as {outcome.status.word} on relaxation "
                f"{compiled.relaxation.name!r}: {outcome.message or outcome.status.value}")
        candidates = [run.program.labels.maximise(run.program.no_gain())]
    return distinct([as_member(run.program, candidate) for candidate in candidates])


__all__ = ["COMPILED", "EVALUATION_SOLVER", "EVALUATION_TOL", "solve_compiled", "unfitted"]
