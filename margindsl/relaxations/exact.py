"""Exact solution by pruned enumeration, for small label sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import Offer, Refusal
from margindsl.drivers.alternation import alternate
from margindsl.drivers.enumeration import enumerate_labels
from margindsl.drivers.run import Run
from margindsl.drivers.search import search
from margindsl.drivers.starts import starting_labels
from margindsl.program.forms import FixedLabelForm
from margindsl.program.program import MarginProgram
from margindsl.relaxations.relaxation import Outcome, Relaxation, check_count


@dataclass(frozen=True, kw_only=True)
class Exact(Relaxation):
    """Find the optimum over B with a proof: enumeration pruned by dual bounds.

    Parameters
    ----------
    max_components : int
        Most free components of the label set; 2^N labellings are visited.
    starts : int
        Local searches that find the incumbent first.
    """

    name: ClassVar[str] = "exact"
    summary: ClassVar[str] = "enumeration pruned by dual bounds, for small label sets"
    bound: ClassVar[str] = "equals the value at the end"

    max_components: int = 18
    starts: int = 3
    polish: str | bool = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, "max_components", 1)
        check_count(self, "starts", 0)

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        """Refuse label sets with more free components than `max_components`."""
        free = int(np.count_nonzero(np.asarray(program.labels.pinned) == 0))
        if free > self.max_components:
            return Refusal(
                f"{free} label components are free, which makes 2^{free} labellings; 'exact' enumerates at most "
                f"2^{self.max_components}",
                "Add links or known labels, take fewer points, raise md.Exact(max_components=...), or use 'minimax'")
        return Offer(f"2^{free} labellings, pruned")

    def lower(self, program: MarginProgram) -> FixedLabelForm:
        """Return the fixed-label form at one member of B."""
        return program.fix_labels(program.labels.maximise(np.zeros(program.n)))

    def default_solver(self, form: object) -> str:
        """Return "newton"."""
        return "newton"

    def run(self, run: Run) -> Outcome:
        """Search for an incumbent, then enumerate with the chosen fixed-label solver."""
        exact_run = Run(run.program, run.solver, run.solver, run.budget, run.rng, run.starts)
        exact_run.history, exact_run.seconds = run.history, run.seconds
        for labels in starting_labels(exact_run, self.starts) if self.starts else []:
            search(exact_run, alternate(exact_run, labels))
        done = enumerate_labels(exact_run, tol=max(min(run.budget.tol, 1e-6), 1e-9))
        run.best, run.fits = done.fit, exact_run.fits
        bound = done.certificate.bound if done.certificate else -np.inf
        return Outcome(done.status, fit=done.fit, certificate=done.certificate, estimate=bound)
