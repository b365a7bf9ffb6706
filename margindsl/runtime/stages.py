"""The stages of a solve: relax, round, polish, evaluate, each of which adds to what was found; and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import EPS, relative_gap
from margindsl.calculus.capped import Capped
from margindsl.contract import DEFAULT_TOL, Budget, RawSolution, Status
from margindsl.drivers.alternation import best_labels
from margindsl.drivers.guard import unanswered
from margindsl.drivers.rounding import polish, round_vectors
from margindsl.drivers.run import Run
from margindsl.drivers.starts import answer_first, distinct, first_start, in_hand
from margindsl.errors import DeclarationError, TimeLimitError, UnansweredError
from margindsl.host.clock import Cancelled
from margindsl.host.frozen import frozen
from margindsl.labelset import LabelSet
from margindsl.program.certificates import Certificate, certify_least_value
from margindsl.program.passes import Presolved, Units
from margindsl.program.program import MarginProgram
from margindsl.relaxations.relaxation import Outcome, Relaxation
from margindsl.relaxations.sdp import SDP
from margindsl.runtime.judging import Basis, checked, final_status, least_proof, sound_bound, strongest
from margindsl.runtime.options import SolveOptions
from margindsl.runtime.presolve import mapped
from margindsl.runtime.solution import Scalars, Solution
from margindsl.typing import FloatArray, IntArray

EVALUATION_SOLVER = "newton"
EVALUATION_TOL = 1e-10
WIDER = 1.25  # how much further apart than they are ends of hulls may be, so that many points share one
MOST_WIDE = 1e3  # times the ends of other hulls that the furthest are
APART, LIFTED = 0.6, 0.5  # of the time, for a relaxation beside caps; of what is left, for the lift of their hulls
MOST_NAMINGS = 5  # clusters up to which every way to name them is tried, 120 of them
# Parts of the allowance after a stop in which stages end that a loop of theirs did not end before.
RELAXED, ROUNDED, EVALUATED, FITTED = 0.4, 0.6, 0.75, 0.8


@dataclass(frozen=True)
class Stage:
    """Represent one step of a solve."""

    name: str
    apply: Callable[[Run, Relaxation, Outcome], Outcome]
    part: float  # of the allowance after a stop, in which it ends
    words: str = ""  # what `explain` prints
    is_last: bool = False  # no stage comes after it that could still answer where it is cut short


def stages_of(relaxation: Relaxation) -> tuple[Stage, ...]:
    """Return the stages of a solve by a relaxation, in turn."""
    rest = (Stage("relax", relax, RELAXED, "relax"),
            Stage("round", round_labels, ROUNDED, "round"),
            Stage("polish", polish_labels, ROUNDED, f"polish ({relaxation.polish})"),
            Stage("evaluate", evaluate, FITTED,
                  f"evaluate the labels with {EVALUATION_SOLVER!r} to {EVALUATION_TOL:g}", is_last=True))
    searches = relaxation.polish in ("auto", "search")  # else the labels are those of the relaxation's own rule
    first = Stage("begin", begin, RELAXED, "begin (one descent from k-means)")
    return (first, *rest) if searches and relaxation.bound != "none" else rest


def begin(run: Run, relaxation: Relaxation, found: Outcome) -> Outcome:
    """Find a first answer, which callbacks see from the beginning and no later labels are worse than."""
    with in_hand(run):
        answer_first(run)
    run.begun = run.fits
    return found


def relax(run: Run, relaxation: Relaxation, found: Outcome) -> Outcome:
    """Run the relaxation; there is nothing to relax where no labels are better than w = 0."""
    least = least_proof(run.program) if relaxation.bound != "none" and run.program.allows_zero else None
    if least and relative_gap(run.program.losses.value(np.zeros(run.program.n)), least.bound) <= run.budget.tol:
        return replace(found, candidates=(first_start(run),), certificate=least)
    try:
        has_caps = relaxation.bound != "none" and getattr(run.program.source, "capped", None) is not None
        with in_hand(run), run.share(APART if has_caps else 1.0):
            outcome = relaxation.run(run)
    finally:
        if run.checkpoint is not None:
            run.checkpoint.write()
    if outcome.certificate is not None:
        incumbent = run.budget.incumbent
        incumbent.bound = max(incumbent.bound, run.program.to_user(outcome.certificate.bound))
    return outcome


def round_labels(run: Run, relaxation: Relaxation, found: Outcome) -> Outcome:
    """Round what the relaxation returned to labels in B."""
    if not found.is_open:
        return found
    candidates = list(found.candidates) + list(run.starts)
    for vectors, count in found.vectors:
        candidates += round_vectors(run, vectors, count)
    if not candidates:
        if not found.status.has_answer:
            raise unanswered(run.solver, RawSolution(found.status, message=found.message),
                             f"on relaxation {relaxation.name!r}")
        candidates = [run.program.labels.any_member()]
    compact = np.min_scalar_type(-run.program.clusters)
    members = distinct([run.program.labels.nearest(candidate).astype(compact) for candidate in candidates])
    return replace(found, candidates=tuple(members), vectors=())


def polish_labels(run: Run, relaxation: Relaxation, found: Outcome) -> Outcome:
    """Improve the rounded labels of a convex relaxation."""
    if found.is_open and found.candidates:
        bound = -np.inf if found.certificate is None else found.certificate.bound
        polish(run, list(found.candidates), str(relaxation.polish), bound=bound)
    return found


def evaluate(run: Run, relaxation: Relaxation, found: Outcome) -> Outcome:
    """Fit the hyperplane to the best labels to high accuracy."""
    known, any_labels = run.best, run.program.labels
    labels = (known.labels if known is not None else found.candidates[0] if found.candidates else
              any_labels.nearest(run.starts[0]) if run.starts else any_labels.any_member())
    try:
        rough = relaxation.bound == "none" and run.budget.tol > DEFAULT_TOL
        with run.finishing(EVALUATED):
            fit = run.fit(labels, known, run.budget.tol) if rough else run.apart().fit(labels, known, EVALUATION_TOL)
        if rough and np.any((best := best_labels(run, fit)) != fit.labels):  # those that it predicts are no worse
            fit = replace(fit, labels=best, value=run.program.value_at(best, fit.w, fit.bias, fit.scalars))
        kept = known is not None and run.budget.expired and known.value < fit.value
        return replace(found, answer=known if kept else fit)
    except Cancelled as end:
        return replace(found, answer=run.plain_fit(labels) if known is None else known, status=run.ended_by(end))
    except (KeyboardInterrupt, UnansweredError) as end:
        if known is None:
            raise  # below: accurate to 1e-7 rather than to EVALUATION_TOL
        ended = Status.INTERRUPTED if isinstance(end, KeyboardInterrupt) else found.status
        return replace(found, answer=known, status=ended)


def solution_of(presolved: Presolved, relaxation: Relaxation, run: Run, found: Outcome) -> Solution:
    """Return the answer that was found as a solution: in the user's units and names, its bound and status judged."""
    program, solved, fit = presolved.declared, run.program, found.answer
    assert fit is not None  # the last stage fits
    fit = replace(fit, found=fit.decision)  # found once, where points are streamed
    form = solved.fix_labels(fit.labels)

    # 1. A proof that the labels contradict is withdrawn: in the units of the solve, where nothing large was added.
    certificate, proves = found.certificate, relaxation.bound != "none"
    size, noise = solved.size(fit) if proves else (0.0, 0.0)
    noise += EPS * form.negligible  # of a value that is zero exactly
    if certificate is not None:
        reached = solved.value_at(fit.labels, fit.w, fit.bias, fit.scalars)
        if not np.isfinite(sound_bound(certificate.bound, reached, size, noise)):
            certificate = None

    # 2. Back through the passes.
    answer = presolved.undo(replace(fit, certificate=certificate))
    held = fit.decision if run.program.features.is_streamed else None  # else the value is found anew
    value = program.objective(fit.labels, answer.w, answer.bias, answer.scalars, held)

    # 3. The bound is the stronger one of what was proved and of what the losses prove alone.
    least = least_proof(program) if proves else None
    proof = strongest(answer.certificate, least)
    bound = -np.inf if proof is None else min(program.to_user(proof.bound), value)
    value = bound if value - bound <= solved.scale * noise else value  # a gap of rounding alone is none
    estimate = min(solved.to_user(found.estimate), value)  # NaN stays
    judge, source, w, given, decided, cut_short = program, program.source, answer.w, fit.labels, answer.decision, False
    if getattr(source, "capped", None) is not None and proves and bound < value:
        other, capped, lowest, cut_short = of_capped(
            run, Basis(source.capped, w, run.budget.tol).program(), value)
        if capped is not None and other.to_user(capped.bound) > bound:
            given, pairs = given[:other.n], None if other.source.rows is None else other.source.rows.matrix
            w = w[:other.features.rank - (0 if pairs is None else pairs.shape[1])]
            if pairs is not None:  # whose weights follow from labels
                given = other.source.rows.whole(given[:other.source.rows.labels.n], 1)
                w = np.append(w, pairs.T @ (2.0 * given[-pairs.shape[0]:] - 1) / source.ridge)
            decided = other.fix_labels(given).outputs(w, answer.bias)
            value = other.objective(given, w, answer.bias, answer.scalars, decided)  # caps as they are: no more
            judge, proof, least, bound = other, capped, lowest, min(other.to_user(capped.bound), value)
            estimate = min(max(estimate, bound), value)

    # 4. The status: of a time that is up and of Ctrl-C also where they came after the relaxation.
    state, sentence, convex = found.status, [found.message] if found.message else [], form.is_convex
    late = cut_short or (run.budget.expired and relaxation.bound == "none")
    if cut_short:
        sentence.append("the lift that bounds losses with caps had too little time")
    if late and state in (Status.CONVERGED, Status.OPTIMAL):
        state = Status.TIME_LIMIT
    if run.budget.interrupted and state in (Status.CONVERGED, Status.OPTIMAL, Status.TIME_LIMIT):
        state = Status.INTERRUPTED
    if fit.raw.status is Status.TIME_LIMIT:
        sentence.append(f"the hyperplane of the labels: {fit.raw.message}")
    if not convex and fit.raw.status in (Status.INACCURATE, Status.ITERATION_LIMIT):
        state = Status.INACCURATE if state in (Status.CONVERGED, Status.OPTIMAL) else state
        sentence.append("the hyperplane of the labels is not known to be stationary, its solver got no further")
    asked = getattr(relaxation, "tol", None) or run.budget.tol
    state, message = final_status(state, "; ".join(sentence), fit.raw if convex else None, value=value, bound=bound,
                            estimate=estimate, tol=asked)

    # 5. The names of the clusters, and the weights in the coordinates of the features that new points are mapped to.
    named, names = canonical(program, fit.labels), program.labels.names

    def read(table: FloatArray) -> FloatArray:
        return names.outputs(np.asarray(table), np.argsort(named)) + 0.0  # no negative zeros

    declared = program.normal.declared
    features, weights = mapped(declared.features, declared.weights(answer.w))
    bias = read(program.codes @ program.normal.undo(answer).bias) if declared.free_bias else np.zeros(())
    rows, decision = getattr(judge.source, "rows", None), read(decided)
    fit, answer = replace(fit, found=None), replace(answer, found=None)
    own = slice(0, judge.n if rows is None else rows.labels.n)  # what lies beyond the points is not the user's
    beyond = decision[own.stop:].copy()  # not a view, which would hold the rest
    if rows is not None and rows.blocks:  # of points over all hyperplanes
        beyond, decision = decision, read(features.apply(weights)).reshape(own.stop, *decision.shape[1:]) + bias
    mixture = found.label_weights
    if mixture is not None:  # one of label matrices, which know no names: each is renamed by itself
        mixture = np.array([names.written(canonical(program, row)[row])[own] for row in mixture[0]]), mixture[1]
    history = tuple(replace(r, value=solved.to_user(r.value), bound=solved.to_user(r.bound)) for r in run.history)

    solution = Solution(
        labels=frozen(names.written(named[fit.labels]).astype(int)[own]), value=value, bound=bound, estimate=estimate,
        state=state, weights=read(weights), bias=bias if bias.ndim else float(bias), decision=frozen(decision[own]),
        scalars=Scalars(dict(zip(program.losses.scalars.names, answer.scalars)), program.losses.scalars.symbols),
        features=features, certificate=proof, label_weights=mixture, history=history,
        label_factor=None if found.label_matrix is None else found.label_matrix[own],
        message=message, relaxation=relaxation.name, solver=run.solver.name,
        coding=program.coding)

    # 6. Judged by the declaration, without what was found on the way.
    return judged(solution, judge, read(judge.weights(w)), asked, proof, least,
                  (named[given[own.stop:]], beyond))


def of_capped(run: Run, program: MarginProgram, value: float) -> tuple[
        MarginProgram, Certificate | None, Certificate | None, bool]:
    """Return a program of losses up to a cap, what is proved of it beside an answer, what the losses prove alone, and
    whether time was short for that.

    Labels of a lower value have |f_i| ≤ ‖φ_i‖√(2(value − least)): no loss is lower there than its convex hull between
    these ends, and the lift of the hulls bounds them all.
    """
    losses, pairs, inner = program.losses, getattr(program.source.rows, "matrix", None), np.zeros(program.n)
    count, least = 0 if pairs is None else pairs.shape[0], least_proof(program)
    lowest = certify_least_value(losses.only(losses.points < program.n - count)).bound
    if not np.isfinite(lowest) or program.free_bias or losses.by_rows or program.gauge is not None:
        return program, least, least, False
    level = 2.0 * max(0.0, (value - program.constant) / program.scale - lowest)
    if pairs is not None:  # rows −y a'V beside ½‖V‖², which is no less than of the labels that are worst
        inner[program.n - count:] = 1.0 / program.scale
        level += float(np.sum(np.square(abs(pairs).sum(axis=0) / program.scale)))
    far, terms = np.sqrt(level * np.asarray(program.features.row_norms())), []
    if not far.any():
        return program, least, least, False
    far = WIDER ** np.ceil(np.log(np.maximum(far, far.max() / MOST_WIDE)) / np.log(WIDER))
    for term in losses.terms:
        if not isinstance(term.loss, Capped):
            terms.append(term)
            continue
        reach = np.abs(term.slopes) * far[term.points]
        kinds, kind = np.unique(np.column_stack([term.shifts - reach, term.shifts + reach]), axis=0,
                                return_inverse=True)
        terms += [replace(term.taken(np.flatnonzero(kind.ravel() == j)), loss=term.loss.hull(*ends))
                  for j, ends in enumerate(kinds)]
    hulls = Presolved.of(replace(program, losses=replace(losses, terms=tuple(terms)), source=None, normal=None))
    budget = run.budget.share(LIFTED)
    proof = SDP().beside(Run(hulls.program, run.solver, run.fixed_solver, budget, run.rng,
                             lift_solver=run.lift_solver), 1.0)
    late = budget.expired
    if proof is None:
        return program, least, least, late
    for step in hulls.passes:
        assert isinstance(step, Units)
        proof = replace(proof.rescaled(1.0, step.scale), bound=proof.bound / step.scale**2)
    proof = replace(proof, arrays=proof.arrays | {"inner": inner})
    return program, strongest(proof, least), least, late


def judged(solution: Solution, program: MarginProgram, weights: FloatArray, tol: float,
           proof: Any, least: Any, beyond: tuple[IntArray, FloatArray] | None = None) -> Solution:
    """Return a solution with the declaration it answers, its bound what the independent check proves."""
    if program.source is None:
        return solution
    solution = replace(solution, basis=Basis(program.source, weights, tol, beyond),
                       column_names=program.source.column_names)
    return checked(solution, program, proof, least)


def canonical(program: MarginProgram, labels: IntArray) -> IntArray:
    """Return the names (k,) of clusters under which labels are given; the objective is the same under them.

    One-sided bounds on decision values tell clusters apart, as B may. Margins, symmetric bounds and the span of earlier
    solutions do not.
    """
    if program.outside is not None or any(not bound.is_symmetric for bound in program.decision):
        return np.arange(program.clusters)
    return program.labels.canonical(labels)


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
    weights, least = names.outputs(program.weights(w)), least_proof(program)
    solution = Solution(
        labels=names.written(labels).astype(int),
        value=program.objective(labels, w, 0.0, scalars) if program.allows_zero else np.inf,
        bound=-np.inf if least is None else program.to_user(least.bound), certificate=least, estimate=np.nan,
        state=Status.INTERRUPTED if budget.interrupted else Status.TIME_LIMIT, weights=weights, bias=0.0,
        decision=names.outputs(program.no_decision()), scalars=dict.fromkeys(program.losses.scalars.names, 0.0),
        features=program.features, relaxation=relaxation, solver=solver, coding=program.coding,
        message="there was no time to fit a hyperplane: w = 0 and any labels that the constraints allow")
    try:
        with Budget.within(0.0).limit(1.0 - FITTED):
            return judged(solution, program, weights, budget.tol, least, least)
    except Cancelled:
        return replace(solution, bound=-np.inf, certificate=None)


def start_labels(program: MarginProgram, start: Any) -> IntArray:
    """Return the labels 0..k−1 of an earlier solution or of a clustering."""
    rows = getattr(program.source, "rows", None)
    if not isinstance(start, Solution):
        return named(start, program.labels, rows)
    count = program.n if rows is None else rows.labels.n
    if len(start.labels) != count:
        raise DeclarationError(
            f"solve(warm_start=...): the solution has {len(start.labels)} labels, the problem {count}")
    if start.clusters != program.clusters:
        raise DeclarationError(
            f"solve(warm_start=...): the solution has {start.clusters} clusters, the problem {program.clusters}; solve "
            "without it, or give a solution of the same number of clusters")
    given = program.labels.names.read(start.labels)
    return given if rows is None else np.asarray(rows.whole(given, 1))


def named(labels: Any, within: LabelSet, rows: Any = None) -> IntArray:
    """Return the labels 0..k−1 of a clustering, in the names that break the fewest constraints of a label set."""
    given, count = np.asarray(labels), within.n if rows is None else rows.labels.n
    if given.shape != (count,):
        raise DeclarationError(f"labels: given an array of shape {given.shape}, expected one label for each of "
                               f"{count} points")
    if given.dtype.kind == "O" and any(one is None or one != one for one in given):
        raise DeclarationError("labels: some are missing; give every point its cluster")
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise DeclarationError("labels: some are no finite number; give every point its cluster")
    try:
        names, numbers = np.unique(given, return_inverse=True)
    except TypeError:
        raise DeclarationError("labels: names of several kinds; give numbers alone, or texts alone") from None
    own = within.names
    if len(names) > own.clusters:
        raise DeclarationError(f"labels: {len(names)} clusters, and the problem has {own.clusters}")
    if given.dtype.kind in "iuf" and own.is_label(names).all():
        numbers = own.read(given)
    def whole(numbers: IntArray) -> IntArray:
        return np.asarray(numbers if rows is None else rows.whole(numbers, 1))

    if within.is_symmetric or own.clusters > MOST_NAMINGS:
        return whole(numbers)
    candidates = (whole(np.array(order)[numbers]) for order in permutations(range(own.clusters)))
    return min(candidates, key=lambda one: len(within.violations(own.written(one))))
