"""Supervised: every label is known, a convex problem is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import Offer, Refusal
from margindsl.drivers.run import Run
from margindsl.program.certificates import FixedLabelCertificate
from margindsl.program.forms import FixedLabelForm
from margindsl.program.program import MarginProgram
from margindsl.relaxations.relaxation import Outcome, Relaxation


@dataclass(frozen=True, kw_only=True)
class Supervised(Relaxation):
    """Solve the convex problem left when the label constraints leave a single labelling."""

    name: ClassVar[str] = "supervised"
    summary: ClassVar[str] = "all labels are known: one convex problem"
    bound: ClassVar[str] = "its dual"

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        """Accept programs whose label set holds one labelling."""
        if not program.labels.is_single:
            free = int(np.count_nonzero(program.labels.pinned == 0))
            return Refusal(f"{free} label components are unknown, and 'supervised' solves for known labels only",
                           "Give y[index] == values for every point, or choose a relaxation such as 'minimax'")
        return Offer("one convex problem")

    def lower(self, program: MarginProgram) -> FixedLabelForm:
        """Return the fixed-label form at the known labels."""
        return program.fix_labels(program.labels.maximise(np.zeros(program.n)))

    def default_solver(self, form: object) -> str:
        """Return "newton"."""
        return "newton"

    def run(self, run: Run) -> Outcome:
        """Solve and certify by the dual point."""
        form = self.lower(run.program)
        raw = run.solve(form)
        if not raw.has_answer:
            return Outcome(raw.status, message=raw.message)
        fit = run.adopt(form, raw)
        certificate = certify_fixed(form, raw)
        return Outcome(raw.status, fit=fit, certificate=certificate, estimate=fit.value, message=raw.message)


def certify_fixed(form: FixedLabelForm, raw) -> FixedLabelCertificate | None:  # type: ignore[no-untyped-def]
    """Return the certificate of a dual point, or None when the solver gave none."""
    u = raw.get("u")
    if u is None:
        return None
    tau = np.asarray(raw.get("tau", np.zeros(len(form.decision))), dtype=float)
    certificate = FixedLabelCertificate(form.dual_objective(u, tau), form, np.asarray(u), tau)
    return certificate if np.isfinite(certificate.bound) and certificate.verify() else None
