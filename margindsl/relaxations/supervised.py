"""Supervised: the label of every point with a loss is known, a convex problem is left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import Offer, Refusal
from margindsl.drivers.run import Run
from margindsl.program.certificates import certify_fixed_labels
from margindsl.program.program import MarginProgram
from margindsl.relaxations.relaxation import Outcome, Relaxation, refuse_split


@dataclass(frozen=True, kw_only=True)
class Supervised(Relaxation):
    """Solve the convex problem left when the label of every point with a loss is known.

    Points without a loss may be unknown: they get the labels in B that agree best with the decision values.
    """

    name: ClassVar[str] = "supervised"
    summary: ClassVar[str] = "all labels are known: one convex problem"
    by_label: ClassVar[bool] = True
    bound: ClassVar[str] = "its dual"
    most_clusters: ClassVar[float] = math.inf
    polishes: ClassVar[bool] = False  # moves of points without a loss change no value

    polish: str | bool = "none"

    @classmethod
    def priority(cls, program: MarginProgram) -> float:
        return 100.0

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        touched = program.losses.points[program.losses.weights > 0]
        components = np.unique(np.asarray(program.labels.component)[touched])
        free = int(np.count_nonzero(np.asarray(program.labels.free)[components]))
        if free and not program.labels.is_single:
            return Refusal(f"{free} label components are unknown, and 'supervised' solves for known labels only",
                           "Give y[index] == values for every point, or choose a relaxation such as 'minimax'")
        if (refusal := refuse_split(program)) is not None:
            return refusal
        if not program.is_convex:
            return Offer("one problem, not convex where the loss rises: a stationary point, no bound")
        return Offer("one convex problem")

    def run(self, run: Run) -> Outcome:
        form = self.form_of(run)
        raw = run.solve(form)
        if not raw.has_answer:
            return Outcome(raw.status, message=raw.message)
        if not run.program.labels.is_single:
            decision = form.outputs(raw["w"], form.plane(raw.variables)[0])
            form = run.program.fix_labels(run.program.labels.maximise(decision))
        fit = run.adopt(form, raw)
        return Outcome(raw.status, answer=fit, certificate=certify_fixed_labels(form, form.duals(raw), raw.get("tau")),
                       estimate=fit.value, message=raw.message)
