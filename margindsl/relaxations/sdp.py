"""Label-lifted semidefinite relaxation (Xu et al. 2005), links contracted, balance lifted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import Offer, RawSolution, Refusal
from margindsl.drivers.rounding import sample_directions
from margindsl.drivers.run import Run
from margindsl.program.certificates import repair_label_lift
from margindsl.program.forms import LabelLiftForm, QuadraticBound
from margindsl.program.program import MarginProgram
from margindsl.relaxations.relaxation import Outcome, Relaxation, check_count
from margindsl.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class SDP(Relaxation):
    """Replace yyᵀ by a positive semidefinite matrix of unit diagonal (Xu et al. 2005).

    Must-links, cannot-links and known labels are contracted to one variable a component (exact); label
    bounds become (ω̃ᵀMω̃) ≤ β². The bound is repaired from the solver's dual point, never its value.

    Parameters
    ----------
    rounding : int
        Number of sampled directions; the leading ones are always tried.
    polish : {"none", "alternate", "search"} or bool

    References
    ----------
    L. Xu, J. Neufeld, B. Larson, D. Schuurmans (2005). Maximum margin clustering.
    """

    name: ClassVar[str] = "sdp"
    summary: ClassVar[str] = "label matrix lifted to a semidefinite matrix, links contracted"
    bound: ClassVar[str] = "certified"

    rounding: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, "rounding", 0)

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        """Refuse a free bias without decision balance, and one-sided decision bounds."""
        if program.free_bias and not any(np.isfinite(b.upper) for b in program.decision):
            return Refusal(
                "a free bias makes the label SDP trivial (its value is 0, even under label balance)",
                "Use bias='penalised', or centred features without a bias, or add abs(md.sum(f)) <= l")
        for bound in program.decision:
            if not bound.is_symmetric:
                return Refusal("decision bounds are lifted only in the form abs(md.sum(f)) <= l",
                               "Write the bound symmetrically, or use relaxation='cccp'")
        return Offer(f"M of order {program.labels.merged().count}")

    def lower(self, program: MarginProgram) -> LabelLiftForm:
        """Return the label lift of the merged components."""
        return lift_labels(program)

    def default_solver(self, form: LabelLiftForm) -> str:  # type: ignore[override]
        """Return "clarabel" for small semidefinite blocks, else "scs"."""
        uncoupled = form.count == form.n and not form.balance
        order = form.features.rank if uncoupled else form.count + min(form.features.rank, form.n)
        return "clarabel" if order <= 40 else "scs"

    def run(self, run: Run) -> Outcome:
        """Solve the form, repair the dual point to a certificate, return directions to round."""
        form = self.lower(run.program)
        with run.share(0.8):
            raw = run.solve(form)
        if "u" not in raw.variables:  # refused, failed, or out of time before the first iterate
            return Outcome(raw.status, message=raw.message)
        with run.stage("certify"):
            certificate = repair_label_lift(form, raw["u"], raw.get("d"), raw.get("kappa"), raw.get("eta"))
        V = label_factor(raw)
        return Outcome(
            raw.status, factor=self._directions(run, form, raw, V), certificate=certificate,
            estimate=raw.objective, label_matrix=V[form.component] * form.sign[:, None], message=raw.message)

    def _directions(self, run: Run, form: LabelLiftForm, raw: RawSolution, V: FloatArray) -> FloatArray:
        """Return label directions (rows of V) and decision directions Φ Hᵀ V, sampled (study, section 5)."""
        labels = sample_directions(V[form.component] * form.sign[:, None], self.rounding, run.rng)
        H = form.component_features(raw["u"])[:, : form.features.rank]
        decision = sample_directions(form.features.apply(H.T @ V), self.rounding, run.rng)
        return np.column_stack([labels, decision])


def lift_labels(program: MarginProgram) -> LabelLiftForm:
    """Return the label lift of a program: pinned components merged, bounds homogenised."""
    merged = program.labels.merged()
    lifted = merged.lifted_bounds()
    component, count = np.asarray(merged.component), merged.count
    pinned = np.flatnonzero(merged.pinned)
    reference: int | None = int(pinned[0]) if len(pinned) else None
    if any(ref is None and len(omega) > count for omega, _, ref in lifted):
        reference, count = count, count + 1
    balance = tuple(QuadraticBound(np.asarray(omega, dtype=float), float(radius)) for omega, radius, _ in lifted)
    return LabelLiftForm(
        program.features, program.losses, component, np.asarray(merged.sign), count,
        balance=balance, reference=reference, decision=program.decision, free_bias=program.free_bias)


def label_factor(raw: RawSolution) -> FloatArray:
    """Return V (N, p) with M = VVᵀ from the solver's matrix or factor, unit rows."""
    V = raw.get("V")
    if V is None:
        values, vectors = np.linalg.eigh(np.asarray(raw["M"]))
        keep = values > 1e-9 * max(float(values[-1]), 1e-300)
        V = vectors[:, keep] * np.sqrt(values[keep])
    V = np.asarray(V, dtype=float)
    return V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-300)
