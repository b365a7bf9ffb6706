"""Weight-lifted semidefinite relaxation: labels absorbed, wwᵀ lifted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from margindsl.contract import Offer, Refusal, numbers
from margindsl.drivers.checkpoint import raw_of, raw_state
from margindsl.drivers.guard import doubted, name_of
from margindsl.drivers.run import Run
from margindsl.drivers.starts import first_start
from margindsl.errors import CalculusError
from margindsl.program.absorption import absorbed_envelopes
from margindsl.program.forms import WeightLiftForm
from margindsl.program.losses import Losses, added
from margindsl.program.program import MarginProgram
from margindsl.program.weight_certificate import repair_weight_lift
from margindsl.relaxations.cluster_lift import refuse_clusters
from margindsl.relaxations.relaxation import Outcome, Relaxation, check_count

LIFTED_RANK = 2000  # columns up to which "auto" lifts the weights


@dataclass(frozen=True, kw_only=True)
class WeightLifting(Relaxation):
    """Absorb the labels, y_i = sign f_i, and lift P = wwᵀ: an r × r convex problem at any number of points.

    Convex when q ↦ ρ(√q) is (hinge, squared hinge, both branches of ODM) and a lower bound when ρ(s) ≤ ρ(−s).

    Of k clusters with simplex codes V is lifted, P = VVᵀ, and the margin ⟨c_y, Vᵀφ⟩ of the best label is at most
    √(φᵀPφ): falling losses are taken there, others by their falling part. Nothing is lost to the lift of all of V,
    whose solutions can be averaged over names of clusters; they then are P ⊗ I. Crammer-Singer margins enter through
    the coded ones that bound them. The bound is that of two clusters, and rounding finds the labels.
    Label constraints are honoured by rounding, and leave the bound valid without tightening it.

    Parameters
    ----------
    rounding : int
        Directions sampled from N(0, P); the leading ones are always tried.
    tol : float or None
        Relative certified gap asked of the solver; None takes the solve's tolerance but at least 1e-4.
    polish : {"auto", "none", "alternate", "search"} or bool
    """

    name: ClassVar[str] = "weight-lifting"
    summary: ClassVar[str] = "labels absorbed, weight matrix lifted; r x r"
    bound: ClassVar[str] = "certified"
    alternatives: ClassVar[tuple[str, ...]] = ("burer-monteiro", "clarabel", "scs")
    two_clusters: ClassVar[str] = ""

    rounding: int = 60
    tol: float | None = numbers().or_none().option(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, "rounding", 0)

    @classmethod
    def priority(cls, program: MarginProgram) -> float:
        return 80.0 / (program.clusters - 1) ** 2 if program.features.rank <= LIFTED_RANK else 0.0

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        refusal = refuse_clusters(program)
        if refusal is not None:
            return refusal
        try:
            lengths_losses(program)
        except CalculusError as error:
            said = (": with a scalar of its own every point's loss is linear in |f|, so that lifted weights prove no "
                    "more than the label lift without label constraints") if program.losses.scalars.count else ""
            return Refusal(f"{error}{said}", "Use relaxation='sdp' or 'minimax'")
        if program.free_bias and not program.lifted_decision:
            return Refusal("a free bias without decision balance makes weight lifting trivial",
                           "Use bias='penalised', or centred features without a bias, or add abs(md.sum(f)) <= l")
        rounding_only = "; label constraints are used in rounding, not in the bound"
        ignored = "" if program.labels.is_unconstrained else rounding_only
        return Offer(f"P of order {program.features.rank + int(program.free_bias)}{ignored}{program.unlifted}")

    def lower(self, program: MarginProgram) -> WeightLiftForm:
        return WeightLiftForm(program.features, lengths_losses(program), decision=program.bounding.lifted_decision,
                              free_bias=program.free_bias)

    def default_solver(self, form: object) -> str:
        return "burer-monteiro"

    def run(self, run: Run) -> Outcome:
        form = self.form_of(run)
        with run.share(0.7):
            state = run.resume(self.name)
            raw = run.solve(form, None if state is None else raw_of(state), tol=self.tol or max(run.budget.tol, 1e-4))
        run.keep(self.name, lambda: raw_state(raw))
        if not raw.has_answer:
            return Outcome(raw.status, candidates=(first_start(run),) if raw.status.has_answer else (),
                           message=raw.message)
        W = np.asarray(raw["W"])
        with run.stage("certify"):
            certificate = repair_weight_lift(form, W, raw.get("a"), raw.get("eta"))
        raw = doubted(form, raw, certificate.bound, form.objective(W), max(run.budget.tol, 1e-4), name_of(run.solver))
        return Outcome(raw.status, vectors=((form.image(W), self.rounding),), certificate=certificate,
                       estimate=form.objective(W), message=raw.message)


def lengths_losses(program: MarginProgram) -> Losses:
    """Return losses of the length √(φᵀPφ) that bound those of the best label of every point."""
    losses = program.kind.by_length(program)
    return absorbed_envelopes(replace(losses, terms=added(losses.terms, searched=True)))
