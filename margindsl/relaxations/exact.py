"""Exact solution: pruned enumeration of small label sets, branch and bound in weight space of larger ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import Offer, Refusal, Status
from margindsl.drivers.alternation import alternate
from margindsl.drivers.branching import STAGE, Branching
from margindsl.drivers.enumeration import enumerate_labels
from margindsl.drivers.guard import name_of
from margindsl.drivers.run import Run
from margindsl.drivers.search import search
from margindsl.drivers.starts import starting_labels
from margindsl.errors import CalculusError, DeclarationError
from margindsl.program.absorption import absorbed_terms, prefers_agreement
from margindsl.program.branching import BranchNodeForm, PointLosses
from margindsl.program.forms import Form
from margindsl.program.program import MarginProgram
from margindsl.relaxations.relaxation import Outcome, Relaxation, check_choice, check_count

LARGEST_RANK = 60
FINEST = 1e-7  # relative gap below which node bounds drown in rounding


@dataclass(frozen=True, kw_only=True)
class Exact(Relaxation):
    """Find the optimum over B with a proof: enumeration, or branch and bound, pruned by certified bounds.

    Enumeration visits 2^N labellings of N free components. Branch and bound fixes the sign of one component after
    the other; a node is bounded by the lift [[1, wᵀ], [w, P]] ⪰ 0 with the labels of free points absorbed
    (`BranchNodeForm`). Stopped early, both return a valid bound.

    Parameters
    ----------
    max_components : int
        Most free components for enumeration.
    method : {"auto", "enumeration", "branching"}
        "auto" enumerates up to `max_components` free components and branches above.
    tol : float or None
        Relative gap branch and bound certifies; None takes the solve's tolerance, but at least 1e-7.
    starts : int
        Local searches that find the incumbent first.
    """

    name: ClassVar[str] = "exact"
    summary: ClassVar[str] = "enumeration, or branch and bound in weight space, with a proof"
    bound: ClassVar[str] = "equals the value at the end"
    two_clusters: ClassVar[str] = "its bounds and branches fix signs"

    max_components: int = 18
    method: str = "auto"
    tol: float | None = None
    starts: int = 3
    polish: str | bool = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, "max_components", 1)
        check_count(self, "starts", 0)
        check_choice(self, "method", ("auto", "enumeration", "branching"))
        if self.tol is not None and not (isinstance(self.tol, (int, float)) and 0 < self.tol < 1):
            raise DeclarationError(f"Exact(tol={self.tol!r}): expected None or a number between 0 and 1")

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        """Refuse label sets that are too large to enumerate when branch and bound does not apply."""
        free = _free(program)
        if self._branches(program):
            obstacle = branching_obstacle(program)
            if obstacle is None:
                return Offer(f"branch and bound over {free} components, P of order {program.features.rank}")
            if self.method == "branching":
                return obstacle
            return Refusal(
                f"{free} label components are free, which makes 2^{free} labellings; 'exact' enumerates at most "
                f"2^{self.max_components}, and branch and bound does not apply: {obstacle.reason}",
                "Add links or known labels, take fewer points, raise md.Exact(max_components=...), or use 'minimax'")
        if free > self.max_components:
            return Refusal(
                f"{free} label components are free, which makes 2^{free} labellings; 'exact' enumerates at most "
                f"2^{self.max_components}",
                "Add links or known labels, take fewer points, raise md.Exact(max_components=...), use "
                "md.Exact(method='branching'), or use 'minimax'")
        return Offer(f"2^{free} labellings, pruned")

    def lower(self, program: MarginProgram) -> Form:
        """Return the node without any decision, or the fixed-label form at one member of B."""
        labels = program.labels
        if self._branches(program):
            pinned = np.asarray(labels.pinned)[np.asarray(labels.component)] * np.asarray(labels.sign)
            return BranchNodeForm(program.features, program.losses, pinned, table=PointLosses.build(program.losses))
        return program.fix_labels(labels.maximise(np.zeros(program.n)))

    def default_solver(self, form: object) -> str:
        """Return "burer-monteiro" for nodes, "newton" for fixed labels."""
        return "burer-monteiro" if isinstance(form, BranchNodeForm) else "newton"

    def run(self, run: Run) -> Outcome:
        """Search for an incumbent, then branch or enumerate."""
        if self._branches(run.program):
            return self._branch(run)
        exact_run = Run(run.program, run.solver, run.solver, run.budget, run.rng, run.starts,
                        late_solver=run.fixed_solver)
        exact_run.history, exact_run.seconds = run.history, run.seconds
        try:
            self._prepare(exact_run)
            done = enumerate_labels(exact_run, tol=max(min(run.budget.tol, 1e-6), 1e-9))
        finally:  # also where the solver fails on the way
            run.best, run.fits = exact_run.best, exact_run.fits
        bound = done.certificate.bound if done.certificate else -np.inf
        message = "" if done.status is not Status.INACCURATE else (
            f"{name_of(run.solver)} left a gap between values and dual points of single labellings")
        return Outcome(done.status, fit=done.fit, certificate=done.certificate, estimate=bound, message=message)

    def _branches(self, program: MarginProgram) -> bool:
        if self.method != "auto":
            return self.method == "branching"
        return _free(program) > self.max_components

    def _branch(self, run: Run) -> Outcome:
        if run.resume(STAGE) is None:
            with run.stage("incumbent"), run.share(0.3):
                self._prepare(run)
        tree = Branching(run, max(run.budget.tol, FINEST) if self.tol is None else self.tol)
        done = tree.go()
        return Outcome(done.status, fit=done.fit, certificate=done.certificate, estimate=done.certificate.bound,
                       message=done.message or f"{done.nodes} nodes, {len(done.certificate.leaves)} leaves")

    def _prepare(self, run: Run) -> None:
        for labels in starting_labels(run, self.starts) if self.starts else []:
            search(run, alternate(run, labels))


def _free(program: MarginProgram) -> int:
    return int(np.count_nonzero(np.asarray(program.labels.pinned) == 0))


def branching_obstacle(program: MarginProgram) -> Refusal | None:
    """Return why branch and bound does not apply to a program, or None when it does.

    Parameters
    ----------
    program : MarginProgram
    """
    if program.free_bias or program.decision:
        return Refusal("branch and bound takes neither a free bias nor bounds on decision values",
                       "Use bias='penalised' or centred features, and bound the labels: abs(md.sum(y)) <= b")
    if program.features.rank > LARGEST_RANK:
        return Refusal(f"the features have rank {program.features.rank}; branch and bound takes at most {LARGEST_RANK}",
                       "Project the features, for instance by principal components, or use 'sdp' or 'minimax'")
    try:
        losses = absorbed_terms(program.losses)
        PointLosses.build(losses)
    except CalculusError as error:
        return Refusal(str(error), "Use a piecewise quadratic loss of the margin, or relaxation='minimax'")
    for term in losses.terms:
        if not term.loss.is_root_convex or not prefers_agreement(term.loss):
            return Refusal(f"branch and bound absorbs labels, and the loss {term.loss!r} does not allow it: it needs "
                           "q -> rho(sqrt q) convex and rho(s) <= rho(-s) for s >= 0",
                           "Use a loss such as md.hinge or md.odm, or relaxation='minimax'")
    return None
