"""How to read an answer: what a gap means, what a status word means, and what to do next, in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from margindsl.contract import Status


@dataclass(frozen=True)
class Reading:
    """Represent how an answer with a gap of at most so much is read, and what to do next."""

    most: float  # relative to the value
    means: str  # {gap} stands for the gap
    do: str


GAPS = (
    Reading(0.01, "No labelling that the constraints allow is better by more than {gap}: for most purposes the best.",
            "Keep the proof: solution.save(path), then run margindsl verify path."),
    Reading(0.2, "No labelling that the constraints allow is better by more than {gap}; how much of that is left to be "
                 "won, and how much the bound is loose, is not known.",
            "To close the gap try 'exact' with a time_limit, or another relaxation for a tighter bound (md.compare)."),
    Reading(math.inf, "No labelling that the constraints allow is better by more than {gap}. That the bound is so low "
                      "does not say that the labels are bad: convex relaxations of clusterings are often this loose.",
            "Compare other relaxations (md.compare) and starts; 'exact' with a time_limit tells labels from bound."))
UNBOUNDED = Reading(math.inf, "No bound was proved: nothing is known of how much better other labels may be.",
                    "Ask a relaxation that proves one: md.certify(problem, solution.labels), 'minimax', 'sdp', "
                    "'weight-lifting' or 'exact'.")
PROVED = Reading(0.0, "No labelling that the constraints allow has a lower value, to the tolerance: none is better.",
                 "Keep the proof: solution.save(path), then run margindsl verify path.")
TRIVIAL = "The bound is what losses and norm prove by themselves, whatever the labels: the relaxation added nothing."
NEXT = {
    Status.INACCURATE: "Labels, value and bound hold as they are. solution.message says what fell short; another "
                       "solver (md.solvers() lists them) or a larger max_iter may reach the tolerance.",
    Status.ITERATION_LIMIT: "Labels, value and bound hold as they are. Raise max_iter, or leave it out.",
    Status.TIME_LIMIT: "Labels, value and bound hold as they are. Raise time_limit, or go on from here: "
                       "solve(warm_start=solution); with checkpoint=path a solve goes on where it was.",
    Status.INTERRUPTED: "Labels, value and bound hold as they are. Go on from here: solve(warm_start=solution); with "
                        "checkpoint=path a solve goes on where it was."}


def reading_of(solution: Any) -> Reading:
    """Return what the gap of a solution means, and what to do about it."""
    if solution.state is Status.OPTIMAL:
        return PROVED
    if not math.isfinite(solution.bound):
        return UNBOUNDED
    return next(reading for reading in GAPS if solution.gap <= reading.most)


def meaning(solution: Any) -> str:
    """Return what the gap of a solution means, in a sentence or two."""
    shown = f"{100 * solution.gap:.3g} %" if math.isfinite(solution.gap) else "the value itself, which is zero"
    sentence = reading_of(solution).means.format(gap=shown)
    return f"{sentence} {TRIVIAL}" if solution.origin.get("trivial") and math.isfinite(solution.bound) else sentence


def advice(solution: Any) -> str:
    """Return what to do next: first what the status asks for, then what the gap does, but for what was done."""
    of_status, of_gap = NEXT.get(solution.state, ""), reading_of(solution).do
    return of_status if of_status and repr(solution.relaxation) in of_gap else f"{of_status} {of_gap}".strip()
