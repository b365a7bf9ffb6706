"""Compile a problem for one relaxation and solver, explain every stage, and solve."""

from __future__ import annotations

import copy
import sys
import time
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from margindsl.clock import Cancelled
from margindsl.contract import Budget, RawSolution, Refusal, Solver, Status
from margindsl.drivers.checkpoint import Checkpoint
from margindsl.drivers.guard import Guarded, is_foreign, offer_of, opened
from margindsl.drivers.rounding import polish, round_directions
from margindsl.drivers.run import Fit, Record, Run
from margindsl.drivers.starts import as_member, distinct, in_hand
from margindsl.errors import (
    DeclarationError,
    RefusalError,
    SolverError,
    TimeLimitError,
    TrivialityWarning,
    UnansweredError,
)
from margindsl.features import MappedFeatures
from margindsl.process import process_kept
from margindsl.program.dump import dump_form, dump_losses
from margindsl.program.forms import Form
from margindsl.program.program import MarginProgram
from margindsl.program.scaling import Scaling
from margindsl.relaxations.relaxation import Outcome, Relaxation
from margindsl.runtime.evidence import Evidence, settled
from margindsl.runtime.handover import better, hand_over
from margindsl.runtime.naming import orientation, oriented_mixture
from margindsl.runtime.options import SolveOptions
from margindsl.runtime.registry import make_solver, solvers_for
from margindsl.runtime.scalars import Scalars
from margindsl.runtime.solution import Solution
from margindsl.runtime.verdict import earned, least_proof, sound_bound, strongest
from margindsl.threads import small_work_threads

EVALUATION_SOLVER = "newton"
EVALUATION_TOL = 1e-10
# Parts of the allowance after a stop in which stages end that a loop of theirs did not end before.
COMPILED, RELAXED, ROUNDED, EVALUATED, FITTED = 0.3, 0.4, 0.6, 0.75, 0.8
FAR = 1024.0  # units so far from one that an inaccurate answer may be their fault
LIFT_SOLVER, LIFT_EVALUATIONS = "burer-monteiro", 500  # a bound is tightened cheaply, or not at all


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


def level_of_user() -> int:
    """Return the stack level, seen from the caller, of the first frame outside the library: where a warning belongs."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "margindsl":
        frame, level = frame.f_back, level + 1
    return level


def warn_if_trivial(program: MarginProgram) -> None:
    """Warn when neither balance, known labels nor cannot-links stop the all-equal labelling."""
    labels = program.labels
    if not program.is_binary:
        _warn_if_one_cluster(program)
        return
    if labels.bounds or np.any(labels.pinned) or program.decision:
        return
    if labels.has_links and np.any(np.asarray(labels.sign) < 0):
        return
    warnings.warn(
        "neither a balance constraint, known labels nor cannot-links exclude the all-equal labelling; add "
        "abs(md.sum(y)) <= b unless the features are centred and one cluster is an acceptable answer",
        TrivialityWarning, stacklevel=level_of_user())


def _warn_if_one_cluster(program: MarginProgram) -> None:
    """Warn when one cluster could take every point."""
    labels = program.partition
    held = len(np.unique(labels.pinned[labels.pinned >= 0])) > 1 or len(labels.cannot) > 0
    if held or program.decision or np.all(np.asarray(labels.at_most) < program.n):
        return
    warnings.warn(
        "neither cluster sizes, known labels nor cannot-links exclude a single cluster; add md.sizes(y, at_least=m) "
        "unless the features are centred and fewer clusters are an acceptable answer",
        TrivialityWarning, stacklevel=level_of_user())


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
    return _solution(compiled, units, run, fit, outcome, state)


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


def _solution(compiled: Compiled, units: Scaling, run: Run, fit: Fit, outcome: Outcome | None,
              state: Status) -> Solution:
    program = compiled.program
    certificate = outcome.certificate if outcome is not None else None
    w, bias, scalars = units.weight * fit.w, units.decision * fit.bias, units.decision * fit.scalars
    value = program.objective(fit.labels, w, bias, scalars)
    # Judged in the units of the solve, where nothing large was added to what is compared.
    reached = run.program.fix_labels(fit.labels).objective(fit.w, fit.bias, fit.scalars)
    if certificate is not None and not np.isfinite(sound_bound(certificate.bound, reached, run.program.size(fit))):
        certificate = None
    proof = units.certify(program, certificate)
    least = None if compiled.relaxation.bound == "none" else least_proof(program)
    proof = strongest(proof, least, program.from_user(value))
    bound = -np.inf if proof is None else min(program.to_user(proof.bound), value)
    estimate = min(run.program.to_user(outcome.estimate), value) if outcome is not None else float("nan")
    if run.budget.expired and state in (Status.CONVERGED, Status.OPTIMAL) and compiled.relaxation.bound == "none":
        state = Status.TIME_LIMIT
    if run.budget.interrupted and state in (Status.CONVERGED, Status.OPTIMAL, Status.TIME_LIMIT):
        state = Status.INTERRUPTED  # also when asked to stop while the labels were rounded or polished
    features, weights = base_weights(program.features, program.weights(w))
    named = orientation(program, fit.labels)
    run.seconds["total"] = time.monotonic() - run.budget.start + sum(compiled.seconds.values())
    asked = getattr(compiled.relaxation, "tol", None) or run.budget.tol
    state, message = earned(state, outcome.message if outcome else "", fit.raw, value=value, bound=bound,
                            estimate=estimate, tol=asked)
    shared = program.losses.scalars
    evidence = None if program.source is None else Evidence(
        program.source, named.reorder(program.weights(w)), np.asarray(scalars, dtype=float), asked)
    answer = Solution(
        labels=named.rename(fit.labels).astype(int), value=value, bound=bound, estimate=estimate,
        state=state, weights=named.reorder(weights), bias=float(named.reorder(bias)),
        decision=named.reorder(units.decision * fit.decision),
        scalars=Scalars(dict(zip(shared.names, scalars)), shared.symbols),
        features=features, certificate=proof, evidence=evidence,
        label_weights=oriented_mixture(program, outcome.label_weights) if outcome else None,
        label_factor=outcome.label_matrix if outcome else None, history=_history(compiled, run),
        timings=run.seconds, message=message, relaxation=compiled.relaxation.name,
        solver=compiled.solver.name, coding=program.coding)
    return answer if evidence is None else settled(answer, program, proof, least)


def _history(compiled: Compiled, run: Run) -> tuple[Record, ...]:
    """Return the history in units of the program."""
    if run.program is compiled.program:
        return tuple(run.history)
    own, there = compiled.program.from_user, run.program.to_user
    return tuple(replace(r, value=own(there(r.value)), bound=own(there(r.bound))) for r in run.history)


def base_weights(features: Any, w: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the features before any mapping, and the weights in their coordinates."""
    while isinstance(features, MappedFeatures):
        features, w = features.base, features.map_matrix @ w
    return features, w


__all__ = ["Compiled", "SolveOptions", "base_weights", "check_form", "solve_compiled", "warn_if_trivial"]
