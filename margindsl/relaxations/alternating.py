"""Alternating minimisation: exact linear oracle and fixed-label solves in turn."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from margindsl.contract import DEFAULT_TOL, Offer, Refusal, Status
from margindsl.drivers.alternation import ROUGH, best_labels
from margindsl.drivers.run import Run
from margindsl.labelset import presolve
from margindsl.program.passes import Answer
from margindsl.program.program import MarginProgram
from margindsl.relaxations.local import LocalRelaxation
from margindsl.relaxations.relaxation import Outcome, refuse_split
from margindsl.typing import IntArray

SAMPLED = 20_000  # points whose hyperplane is the first answer for more


@dataclass(frozen=True, kw_only=True)
class Alternating(LocalRelaxation):
    """Alternate between the best labels in B (exact linear oracle) and the hyperplane; local.

    Parameters
    ----------
    restarts : int
        Number of starting labellings.
    start : {"mixed", "kmeans", "spectral", "random", "consensus", "known"}
        Where they come from; "consensus" is what clusterings of several kinds agree upon, "known" is one start, from
        the hyperplane of the known labels alone.
    rounds : int
        Most rounds a start.
    polish : {"auto", "none", "alternate", "search"} or bool
        "none" is the plain method.
    continuation : int
        Steps of continuation in the loss weight before each descent; 0 for none.
    continuation_start : float
        Factor of the loss weight in the first step, in (0, 1]; the steps to the full weight are geometric.

    References
    ----------
    K. Zhang, I. Tsang, J. Kwok (2007). Maximum margin clustering made practical.
    """

    name: ClassVar[str] = "alternating"
    summary: ClassVar[str] = "exact linear oracle and fixed-label solves in turn"
    by_label: ClassVar[bool] = True
    bound: ClassVar[str] = "none"
    most_clusters: ClassVar[float] = math.inf

    @classmethod
    def priority(cls, program: MarginProgram) -> float:
        return 30.0

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        refusal = refuse_split(program)
        return Offer("local: no bound") if refusal is None else refusal

    def run(self, run: Run) -> Outcome:
        ends: list[IntArray] = []
        status, message, capped = Status.CONVERGED, "", False
        for labels in self.starts(run):
            end, status, message = self._descend(run, labels)
            capped |= status is Status.ITERATION_LIMIT
            if end is None and status in (Status.TIME_LIMIT, Status.INTERRUPTED):
                end = run.fit(labels)
            if end is not None:
                ends.append(end.labels)
            if run.stopped or not status.has_answer:
                break
        return self.finish(run, ends, Status.ITERATION_LIMIT if capped and status.has_answer else status, message)

    def _descend(self, run: Run, labels: IntArray) -> tuple[Answer | None, Status, str]:
        fit: Answer | None = None
        program = run.program
        if program.n > SAMPLED and not program.decision and program.outside is None:  # in hand before a whole fit
            own, *_, whole = run.parted(form := program.fix_labels(labels), run.budget, None)
            index = np.sort(run.rng.choice(own.n, min(SAMPLED, own.n), replace=False))
            kept: Any = {"features": own.features.take(index), "losses": own.losses.restricted(index)}
            few = replace(own, **kept, labels=own.labels[index]) if own is not form else replace(
                program, **kept, labels=presolve(SAMPLED, program.clusters)).fix_labels(labels[index])
            raw = run.fixed_solver.solve(few, run.budget.replace(tol=ROUGH, callback=None))
            if raw.has_answer:
                found = {name: raw[name] for name in ("w", "bias", "scalars")}
                fit = run.adopt(form, whole(replace(raw, status=Status.TIME_LIMIT, variables=found)))
                labels = fit.labels if run.stopped else best_labels(run, fit)
        accuracy = run.budget.tol if fit else max(run.budget.tol, ROUGH)  # rough fits move most labels as exact ones do
        least = run.budget.tol if run.budget.tol > DEFAULT_TOL else 1e-10  # fall of the value below which rounds end
        for iteration in range(0 if fit is not None and run.stopped else self.rounds):
            run.current = labels
            form = run.program.fix_labels(labels)
            raw = run.solve(form, fit.raw if fit else None, accuracy)
            if not raw.has_answer:
                return fit, raw.status, raw.message
            new = run.adopt(form, raw, tol=accuracy)
            run.current = None
            stop = run.record("alternating", iteration, new.value)
            falls = fit is None or new.value < fit.value - least * abs(fit.value)
            fit = new if fit is None or new.value < fit.value - 1e-10 * abs(fit.value) else fit
            if stop or run.stopped or (not falls and accuracy <= run.budget.tol):
                break
            labels = best_labels(run, fit)
            if not falls or np.array_equal(labels, fit.labels):
                if accuracy <= run.budget.tol:
                    break
                accuracy, labels = run.budget.tol, fit.labels
        capped = fit is not None and fit.raw.status is Status.ITERATION_LIMIT
        return fit, Status.ITERATION_LIMIT if capped else Status.CONVERGED, ""
