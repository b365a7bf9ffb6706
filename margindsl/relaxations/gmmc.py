"""Generalised maximum margin clustering (Valizadegan and Jin 2006): a semidefinite program of O(n) variables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from margindsl.contract import Offer, RawSolution, Refusal, numbers
from margindsl.drivers.rounding import sample_directions
from margindsl.drivers.run import Run
from margindsl.drivers.starts import first_start
from margindsl.program.label_certificate import LabelLiftCertificate, repair_label_lift
from margindsl.program.output_lift import OutputLiftForm, hinge_weights, merge_rows
from margindsl.program.program import MarginProgram
from margindsl.relaxations.relaxation import Outcome, Relaxation, check_count
from margindsl.relaxations.sdp import doubted_lift, label_factor, lift_labels
from margindsl.typing import FloatArray

CONIC_ORDER = 50  # order of the matrix inequality up to which an interior-point method takes seconds


@dataclass(frozen=True, kw_only=True)
class GMMC(Relaxation):
    """Lift the signed outputs v, v_i² ≥ 1, instead of the labels: one dual variable a point.

    Takes the squared hinge alone, whose slack shifts the kernel, K_c = K + Diag(1/2c). Without bias and balance the
    value is that of the label SDP. Label constraints are honoured by rounding and tighten the certificate; decision
    balance |Σf| ≤ l stands in the program, in place of the paper's soft term C_e(eᵀv)².

    Parameters
    ----------
    rounding : int or "sign"
        Sampled directions beside the paper's; "sign" is its rule alone, the sign of the outputs in the null space
        of the dual's matrix (with polish="none").
    tol : float or None
        Relative accuracy asked of the solver; None takes the solve's.
    polish : {"auto", "none", "alternate", "search"} or bool

    References
    ----------
    H. Valizadegan, R. Jin (2006). Generalized maximum margin clustering and unsupervised kernel learning.

    Examples
    --------
    >>> import margindsl as md
    >>> f = md.Hyperplane([[-2.0], [-1.0], [1.0], [2.0]])
    >>> problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.squared_hinge(md.Labels(4) * f))),
    ...                      [abs(md.sum(f)) <= 1])
    >>> solution = problem.solve(GMMC(), random_state=0)
    >>> (solution.labels * solution.labels[0]).tolist(), bool(solution.verify())
    ([1, 1, -1, -1], True)
    """

    name: ClassVar[str] = "gmmc"
    summary: ClassVar[str] = "signed outputs lifted, one dual variable a point; squared hinge"
    bound: ClassVar[str] = "certified"
    two_clusters: ClassVar[str] = (
        "v² >= 1 says of one output that it has a sign; that one of several exceeds the others by 1 is no bound on "
        "their squares and products")
    alternatives: ClassVar[tuple[str, ...]] = ("clarabel", "burer-monteiro", "scs")

    rounding: int | str = 30
    tol: float | None = numbers().or_none().option(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounding != "sign":
            check_count(self, "rounding", 0)

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        if hinge_weights(program.losses) is None:
            return Refusal("gmmc takes the squared hinge alone: its slack is a shift of the kernel, K + Diag(1/2c)",
                           "Use md.squared_hinge(y * f), or relaxation='sdp', which takes any convex loss")
        if program.free_bias and not program.lifted_decision:
            return Refusal("a free bias without decision balance makes gmmc trivial (its value is 0)",
                           "Add abs(md.sum(f)) <= l, or use centred features without a bias")
        if not program.labels.is_unconstrained:
            return Offer(f"{program.n} dual variables; label constraints are used in rounding and in the certificate"
                         f"{program.unlifted}")
        return Offer(f"{program.n} dual variables{program.unlifted}")

    def lower(self, program: MarginProgram) -> OutputLiftForm:
        return OutputLiftForm.of_program(program)

    def default_solver(self, form: OutputLiftForm) -> str:  # type: ignore[override]
        order = len(form.kept) + len(form.decision) + int(form.free_bias)
        return "clarabel" if order <= CONIC_ORDER else "burer-monteiro"

    def run(self, run: Run) -> Outcome:
        form = self.form_of(run)
        with run.share(0.8):
            raw = run.solve(form, tol=self.tol)
        if "u" not in raw.variables:
            return Outcome(raw.status, candidates=(first_start(run),) if raw.status.has_answer else (),
                           message=raw.message)
        with run.stage("certify"):
            certificate = certify_outputs(run.program, raw)
        V = label_factor(raw)
        raw = doubted_lift(run, form, raw, V, certificate.bound)
        return Outcome(raw.status, factor=self._directions(run, form, raw, V), certificate=certificate,
                       estimate=raw.objective, label_matrix=V, message=raw.message)

    def _directions(self, run: Run, form: OutputLiftForm, raw: RawSolution, V: FloatArray) -> FloatArray:
        """Return the paper's outputs, then directions of the label matrix and of the decision values."""
        outputs = np.asarray(raw.get("v", V[:, 0]))[:, None]
        if self.rounding == "sign":
            return outputs
        count = int(self.rounding)
        return np.column_stack([outputs, sample_directions(V, count, run.rng),
                                sample_directions(form.features.apply(form.directions(raw["u"], V)), count, run.rng)])


def certify_outputs(program: MarginProgram, raw: RawSolution) -> LabelLiftCertificate:
    """Return the label-lift certificate of u = γ over the label set of the program.

    Parameters
    ----------
    raw : RawSolution
        An answer to the output lift of the program.
    """
    lift = replace(lift_labels(program), losses=merge_rows(program.losses))
    d = raw.get("d")
    d = None if d is None else np.bincount(lift.component, weights=d, minlength=lift.count)
    return repair_label_lift(lift, raw["u"], d, None, raw.get("eta"))
