"""From a fit in the units of a solve to the solution in those of the user."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from margindsl.calculus.accuracy import EPS
from margindsl.contract import Status
from margindsl.drivers.run import Fit, Run
from margindsl.features import AffineFeatures
from margindsl.program.passes import Answer
from margindsl.relaxations.relaxation import Outcome
from margindsl.runtime.evidence import Evidence, settled
from margindsl.runtime.naming import orientation, oriented_mixture
from margindsl.runtime.scalars import Scalars
from margindsl.runtime.solution import Solution
from margindsl.runtime.verdict import earned, least_proof, sound_bound, strongest
from margindsl.typing import FloatArray

if TYPE_CHECKING:
    from margindsl.runtime.compiled import Compiled


def solution_of(compiled: Compiled, run: Run, fit: Fit, outcome: Outcome | None, state: Status) -> Solution:
    """Return the solution in the user's units, with the bound that was proved and the status that was earned."""
    program = compiled.program
    certificate = outcome.certificate if outcome is not None else None
    # Judged in the units of the solve, where nothing large was added to what is compared.
    reached = run.program.value_at(fit.labels, fit.w, fit.bias, fit.scalars)
    size, noise = run.program.size(fit)
    noise += EPS * run.program.fix_labels(fit.labels).floor  # of a value that is zero exactly
    if certificate is not None and not np.isfinite(sound_bound(certificate.bound, reached, size, noise)):
        certificate = None
    answer = compiled.presolved.undo(Answer(fit.w, fit.bias, fit.scalars, fit.decision, certificate))
    w, bias, scalars = answer.w, answer.bias, answer.scalars
    value = program.objective(fit.labels, w, bias, scalars)
    least = None if compiled.relaxation.bound == "none" else least_proof(program)
    proof = strongest(answer.certificate, least)
    bound = -np.inf if proof is None else min(program.to_user(proof.bound), value)
    estimate = min(run.program.to_user(outcome.estimate), value) if outcome is not None else float("nan")
    if run.budget.expired and state in (Status.CONVERGED, Status.OPTIMAL) and compiled.relaxation.bound == "none":
        state = Status.TIME_LIMIT
    if run.budget.interrupted and state in (Status.CONVERGED, Status.OPTIMAL, Status.TIME_LIMIT):
        state = Status.INTERRUPTED  # also when asked to stop while the labels were rounded or polished
    declared, beta = program.normal.declared, program.normal.undo(answer).bias
    features, weights = base_weights(declared.features, declared.weights(w))
    named, names = orientation(program, fit.labels), program.labels.names

    def read(table: FloatArray) -> FloatArray:
        return names.outputs(named.reorder(table)) + 0.0  # no negative zeros

    bias = read(program.codes @ beta) if declared.free_bias else np.zeros(())
    run.seconds["total"] = time.monotonic() - run.budget.start + sum(compiled.seconds.values())
    asked = getattr(compiled.relaxation, "tol", None) or run.budget.tol
    convex = run.program.fix_labels(fit.labels).is_convex
    said = [outcome.message] if outcome and outcome.message else []
    if fit.raw.status is Status.TIME_LIMIT:
        said.append(f"the hyperplane of the labels: {fit.raw.message}")
    if not convex and fit.raw.status in (Status.INACCURATE, Status.ITERATION_LIMIT):
        state = Status.INACCURATE if state in (Status.CONVERGED, Status.OPTIMAL) else state
        said.append("the hyperplane of the labels is not known to be stationary, its solver got no further")
    state, message = earned(state, "; ".join(said), fit.raw if convex else None, value=value,
                            bound=bound, estimate=estimate, tol=asked)
    shared, there = program.losses.scalars, run.program.to_user
    history = tuple(replace(r, value=there(r.value), bound=there(r.bound)) for r in run.history)
    evidence = None if program.source is None else Evidence(
        program.source, read(program.weights(w)), np.asarray(scalars, dtype=float), asked)
    solution = Solution(
        labels=names.written(named.rename(fit.labels)).astype(int), value=value, bound=bound, estimate=estimate,
        state=state, weights=read(weights), bias=bias if bias.ndim else float(bias), decision=read(answer.decision),
        scalars=Scalars(dict(zip(shared.names, scalars)), shared.symbols),
        features=features, certificate=proof, evidence=evidence,
        label_weights=oriented_mixture(program, outcome.label_weights) if outcome else None,
        label_factor=outcome.label_matrix if outcome else None, history=history,
        timings=run.seconds, message=message, relaxation=compiled.relaxation.name,
        solver=run.solver.name, coding=program.coding,
        column_names=program.source and program.source.hyperplane.column_names)
    return solution if evidence is None else settled(solution, program, proof, least)


def base_weights(features: Any, w: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the features before any mapping, and the weights in their coordinates."""
    while isinstance(features, AffineFeatures) and features.matrix_map is not None:
        features, w = features.base, features.to_base(w)
    return features, w


__all__ = ["base_weights", "solution_of"]
