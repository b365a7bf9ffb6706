"""Concave-convex procedure: labels absorbed, the concave part of ρ(|f|) linearised."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from margindsl.contract import Offer, Refusal, Status
from margindsl.drivers.alternation import best_labels
from margindsl.drivers.run import Run
from margindsl.errors import CalculusError
from margindsl.program.losses import Losses
from margindsl.program.passes import Answer
from margindsl.program.program import MarginProgram
from margindsl.relaxations.local import LocalRelaxation
from margindsl.relaxations.relaxation import Outcome, refuse_split
from margindsl.typing import IntArray


@dataclass(frozen=True, kw_only=True)
class CCCP(LocalRelaxation):
    """Linearise the concave part of ρ(|f|) at the current labels and solve the convex rest, again and again.

    ρ = ρ↓ + ρ↑; each step minimises ½‖w‖² + Σ c[ρ↓(y f) + ρ↑(|f|)], a majoriser that touches at the current
    point, under bounds on decision values. With links or label balance y is the exact oracle's best
    labelling in B for the current f. For k clusters y is the largest decision value or the oracle's best
    clustering, and a rising part of a Crammer-Singer loss is majorised at the present runner-up.

    Parameters
    ----------
    restarts : int
        Number of starting labellings.
    start : {"mixed", "kmeans", "spectral", "random", "consensus", "known"}
    rounds : int
        Most steps a start.
    polish : {"auto", "none", "alternate", "search"} or bool
        "none" is the plain method.
    continuation : int
        Steps of continuation in the loss weight before each descent; 0 for none.
    continuation_start : float
        Factor of the loss weight in the first step, in (0, 1].

    References
    ----------
    B. Zhao, F. Wang, C. Zhang (2008). Efficient maximum margin clustering via cutting plane algorithm, Eq. 11.
    """

    name: ClassVar[str] = "cccp"
    summary: ClassVar[str] = "labels absorbed, concave part linearised"
    bound: ClassVar[str] = "none"
    most_clusters: ClassVar[float] = math.inf

    @classmethod
    def priority(cls, program: MarginProgram) -> float:
        return 31.0 if program.kind.absorbs_labels else 29.0

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        if (refusal := refuse_split(program)) is not None:
            return refusal
        try:
            program.kind.absorbed(program)
        except CalculusError as error:
            return Refusal(str(error), "Use relaxation='alternating', which needs no split")
        return Offer("local: no bound")

    def lower(self, program: MarginProgram) -> Any:
        return program.kind.majorant(program, program.kind.absorbed(program), program.labels.any_member())

    def run(self, run: Run) -> Outcome:
        """Descend from every start; the returned labels are those best at the last decision values.

        A step that the time limit or a callback cut short moves no label.
        """
        losses = run.program.kind.absorbed(run.program)
        ends: list[IntArray] = []
        status, message, capped = Status.CONVERGED, "", False
        for labels in self.starts(run):
            end, last, status, message = self._descend(run, losses, labels)
            capped |= status is Status.ITERATION_LIMIT
            if end is not None:
                ends.append(end)
                run.fit(end, last, cutoff=np.inf if run.best is None else run.best.value)
                run.current = None
            if run.stopped or not status.has_answer:
                break
        return self.finish(run, ends, Status.ITERATION_LIMIT if capped and status.has_answer else status, message)

    def ends_with(self, program: MarginProgram, before: Answer, now: Answer) -> bool:
        """Return whether a step is the last, which here gained nothing."""
        return now.value >= before.value - 1e-9 * abs(now.value)

    def _descend(self, run: Run, losses: Losses,
                 labels: IntArray) -> tuple[IntArray | None, Answer | None, Status, str]:
        raw, decision = None, None
        fit: Answer | None = None
        for iteration in range(self.rounds):
            run.current = labels
            form = run.program.kind.majorant(run.program, losses, labels, decision)
            answer = run.solve(form, raw)
            if answer.status in (Status.TIME_LIMIT, Status.INTERRUPTED):
                break
            if not answer.has_answer:
                return (labels if raw is not None else None), fit, answer.status, answer.message
            raw = answer
            value_now = form.objective(raw["w"], raw.get("bias", 0.0), raw.get("scalars"))
            bias, scalars = form.plane(raw.variables)
            decision = form.outputs(raw["w"], bias)
            before, fit = fit, Answer(labels, raw["w"], np.asarray(bias), scalars, decision, value_now, raw)
            new = best_labels(run, fit)
            stop = run.record("cccp", iteration, fit.value)
            done = np.array_equal(new, labels) or (before is not None and self.ends_with(run.program, before, fit))
            labels = new
            if done or stop or run.stopped:
                break
        capped = raw is not None and raw.status is Status.ITERATION_LIMIT  # exact steps may lead on
        return labels, fit, Status.ITERATION_LIMIT if capped else Status.CONVERGED, ""
