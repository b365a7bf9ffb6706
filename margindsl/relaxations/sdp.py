"""Label-lifted semidefinite relaxation (Xu et al. 2005), links contracted, balance lifted."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from margindsl.calculus import PLQ
from margindsl.contract import Offer, RawSolution, Refusal, Status, flags, numbers
from margindsl.drivers.checkpoint import State, raw_of, raw_state
from margindsl.drivers.guard import doubted, name_of
from margindsl.drivers.run import Run
from margindsl.drivers.starts import first_start
from margindsl.errors import CalculusError
from margindsl.features import image
from margindsl.program.absorption import absorbed_terms
from margindsl.program.bounds import QuadraticBound
from margindsl.program.certificates import Certificate
from margindsl.program.cuts import MatrixCuts
from margindsl.program.forms import LabelLiftForm
from margindsl.program.moment import MomentLiftForm
from margindsl.program.program import MarginProgram
from margindsl.program.repair import repaired
from margindsl.relaxations.absorbed import Absorbed, absorbed
from margindsl.relaxations.cluster_lift import (
    LARGEST_PRODUCTS,
    lift_clusters,
    refuse_clusters,
    violated_products,
)
from margindsl.relaxations.relaxation import Outcome, Relaxation, check_choice, check_count, refuse_split
from margindsl.relaxations.triangles import MIXED, PATTERNS, violated_triangles
from margindsl.typing import FloatArray

CONIC_ORDER = 40  # order of a semidefinite cone up to which an interior-point method takes under a second
NATIVE_TOL = 1e-4
LOOSEST = 1e-3  # relative accuracy of a round of cuts that others will follow


@dataclass(frozen=True, kw_only=True)
class SDP(Relaxation):
    """Replace yyᵀ by a positive semidefinite matrix of unit diagonal (Xu et al. 2005).

    Must-links, cannot-links and known labels are contracted to one variable a component (exact); label
    bounds become (ω̃ᵀMω̃) ≤ β². The bound is repaired from the solver's dual point, never its value.

    With `moments` the second moments of the margins are lifted too (far tighter for two-sided losses), and with
    `cuts="triangle"` the triangle inequalities on the label matrix that are violated most are added in rounds.

    More than two clusters are coded by the corners of a simplex, M_ij = ⟨c_{y_i}, c_{y_j}⟩ ∈ {1, −1/(k−1)}; the
    inequalities M_ij ≥ −1/(k−1) are the cuts then ("products"), cannot-links equalities; "triangle" adds to them
    M_ij − M_ik − M_jk ≥ −1, of three codes that are not all of one sign.

    Parameters
    ----------
    moments : bool
        Lift φᵀPφ beside the margins; takes piecewise quadratic losses without shared scalars.
    cuts : {"auto", "none", "triangle", "products"}
        Inequalities added to the label matrix; "auto" adds none for two clusters and "products" for more.
    cut_rounds : int
        Most rounds of cuts.
    cuts_per_round : int
        Most cuts added in a round; those whose multiplier vanishes are dropped again.
    tol : float or None
        Relative accuracy asked of the solver; None takes the solve's, but at least 1e-4 of a native solver.
    rounding : int
        Number of sampled directions; the leading ones are always tried.
    polish : {"auto", "none", "alternate", "search"} or bool

    References
    ----------
    L. Xu, J. Neufeld, B. Larson, D. Schuurmans (2005). Maximum margin clustering.
    """

    name: ClassVar[str] = "sdp"
    summary: ClassVar[str] = "label matrix lifted to a semidefinite matrix, links contracted"
    bound: ClassVar[str] = "certified"
    two_clusters: ClassVar[str] = ""
    alternatives: ClassVar[tuple[str, ...]] = ("clarabel", "burer-monteiro", "scs")

    moments: bool = flags().option(False)
    cuts: str = "auto"
    cut_rounds: int = 5
    cuts_per_round: int = 150
    tol: float | None = numbers().or_none().option(None)
    rounding: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, "rounding", 0)
        check_count(self, "cut_rounds", 0)
        check_count(self, "cuts_per_round", 1)
        check_choice(self, "cuts", ("auto", "none", "triangle", "products"))

    @property
    def is_tightened(self) -> bool:
        """Return whether moments or cuts are asked for two clusters."""
        return self.moments or self.cuts == "triangle"

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        if program.free_bias and not program.lifted_decision:
            return Refusal(
                "a free bias makes the label SDP trivial (its value is 0, even under label balance)",
                "Use bias='penalised', or centred features without a bias, or add abs(md.sum(f)) <= l")
        if program.clusters > 2:
            return self._accepts_clusters(program)
        if self.cuts == "products":
            return Refusal("the least inner product of two codes is -1, which M >= 0 implies",
                           "Use cuts='triangle' or 'none' for two clusters")
        if self.moments:
            refusal = _refuse_moments(program)
            if refusal is not None:
                return refusal
        return Offer(f"M of order {program.labels.merged().count}{program.unlifted}")

    def _accepts_clusters(self, program: MarginProgram) -> Offer | Refusal:
        if self.moments:
            return Refusal("second moments are those of signs, (y f)² = f² whatever y, while ⟨c_y, g⟩² depends on the "
                           "code c_y", "Use SDP(moments=False)")
        for refusal in (refuse_clusters(program), refuse_split(program)):  # rounded labels are judged by the split
            if refusal is not None:
                return refusal
        return Offer(f"{program.clusters} clusters by simplex coding")

    def lower(self, program: MarginProgram) -> LabelLiftForm:
        if program.clusters > 2:
            return lift_clusters(program)
        form = lift_labels(program)
        if not self.is_tightened:
            return form
        losses = absorbed_terms(form.losses) if self.moments else form.losses
        return MomentLiftForm(
            form.features, losses, form.component, form.sign, form.count, form.balance, form.reference,
            decision=form.decision, free_bias=form.free_bias, moments=self.moments)

    def default_solver(self, form: LabelLiftForm) -> str:  # type: ignore[override]
        uncoupled = form.count == form.n and not form.balance and not form.has_cuts
        order = form.features.rank if uncoupled else form.count + min(form.features.rank, form.n)
        if order <= CONIC_ORDER:
            return "clarabel"
        return "scs" if form.lifts_moments else "burer-monteiro"

    def run(self, run: Run) -> Outcome:
        form, state = self.form_of(run), run.resume(self.name)
        if state is not None and form.has_cuts:
            form = replace(form, cuts=_restored(form.cuts, state))
        with run.share(0.8):
            if state is not None and run.solver.native:
                begun = Absorbed(raw_of(state))
            else:
                begun = absorbed(run, form)
            if begun.is_last and begun.start and begun.certificate:
                return self._outcome(form, begun.start, begun.certificate)
            raw, certificate = self.solve_lift(run, form, begun.start)
        if certificate is None:  # refused, failed, or out of time before the first iterate
            return Outcome(raw.status, candidates=(first_start(run),) if raw.status.has_answer else (),
                           message=raw.message, certificate=begun.certificate)
        V = label_factor(raw)
        raw = doubted_lift(run, form, raw, V, certificate.bound)
        raw = replace(raw, variables={**raw.variables, "V": V, "W": form.directions(raw["u"], V)})
        if raw.status is Status.TIME_LIMIT and begun.certificate and begun.certificate.bound > certificate.bound:
            certificate = begun.certificate
            raw = replace(raw, objective=max(raw.objective, certificate.bound))
        return self._outcome(form, raw, certificate)

    def _outcome(self, form: LabelLiftForm, raw: RawSolution, certificate: Certificate) -> Outcome:
        W = np.asarray(raw["W"])[: form.features.rank]  # of a weight lift the last row is the bias
        points, decision = raw["V"][form.component] * form.sign[:, None], image(form.features, W)
        return Outcome(raw.status, vectors=((points, self.rounding), (decision, self.rounding)), message=raw.message,
                       certificate=certificate, estimate=raw.objective, label_matrix=points)

    def solve_lift(self, run: Run, form: Any, start: RawSolution | None = None
                   ) -> tuple[RawSolution, Certificate | None]:
        """Return the answer to a lift, its cuts added in rounds, and the repaired dual point, None when there is none.

        Parameters
        ----------
        run : Run
        form : LabelLiftForm
        start : RawSolution, optional
        """
        raw, certificate = self._solve(run, form, start)
        if form.has_cuts and certificate is not None and self._takes_cuts(run, form):
            return self._cut(run, form, raw, certificate)
        return raw, certificate

    def _solve(self, run: Run, form: LabelLiftForm, start: RawSolution | None = None, loose: float = 0.0
               ) -> tuple[RawSolution, Certificate | None]:
        """Return the solver's answer and its repaired dual point, None when there is none."""
        tol = self.tol or (max(run.budget.tol, NATIVE_TOL, loose) if run.solver.native else run.budget.tol)
        raw = run.solve(form, start, tol=tol)
        if "u" not in raw.variables:
            return raw, None
        run.keep(self.name, lambda: raw_state(raw) | _cut_state(form))
        with run.stage("certify"):
            return raw, repaired(form, raw)

    def _cut(self, run: Run, form: MomentLiftForm, raw: RawSolution,
             certificate: Certificate) -> tuple[RawSolution, Certificate]:
        """Add violated inequalities in rounds until none is left, the bound stalls, or time is up."""
        latest, previous = raw, -np.inf
        for round_ in range(self.cut_rounds):
            found = self._violated(run, form, latest)
            gain = certificate.bound - previous  # infinite at first
            stalled = np.isfinite(previous) and gain <= max(10 * run.budget.tol, 1e-5) * abs(certificate.bound)
            if not found.count or stalled or run.stopped:
                break
            previous = certificate.bound
            tau = np.asarray(latest.get("tau", np.zeros(form.cuts.count)))
            used = form.cuts.equal | (tau > 1e-6 * max(float(tau.max(initial=0.0)), 1e-300))
            kept = form.cuts.take(np.flatnonzero(used))
            form = replace(form, cuts=kept.joined(found))  # the kept ones stay first
            start = _with_multipliers(latest, np.append(tau[used], np.zeros(form.cuts.count - kept.count)))
            # more digits than a small part of what the last round won would be lost to the next cuts
            loose = min(LOOSEST, 0.03 * gain / abs(certificate.bound)) if np.isfinite(gain) else LOOSEST
            latest, tighter = self._solve(run, form, start if run.solver.native else None, loose)
            if tighter is None:
                words = latest.message or latest.status.value
                raw = replace(raw, message=f"cuts were not all added, round {round_ + 1} ended as "
                                           f"{latest.status.word}: {words}")
                break
            if tighter.bound > certificate.bound:
                raw, certificate = latest, tighter
            if run.record("cuts", round_, np.inf if run.best is None else run.best.value, certificate.bound):
                break
        return raw, certificate

    def _takes_cuts(self, run: Run, form: MomentLiftForm) -> bool:
        if run.program.clusters == 2:
            return self.cuts == "triangle"
        return self.cuts != "none" and form.count <= LARGEST_PRODUCTS

    def _violated(self, run: Run, form: MomentLiftForm, raw: RawSolution) -> MatrixCuts:
        V, two = label_factor(raw), run.program.clusters == 2
        found = MatrixCuts.none() if two else violated_products(
            V, run.program.clusters, max(self.cuts_per_round, 4 * form.count))
        if self.cuts != "triangle":
            return found
        M = np.asarray(raw["M"]) if "M" in raw.variables else V @ V.T
        return found.joined(violated_triangles(M, self.cuts_per_round, patterns=PATTERNS if two else MIXED))


def _cut_state(form: Any) -> dict[str, Any]:
    """Return the cuts of a form as a part of a state."""
    if not form.has_cuts:
        return {}
    return {f"cuts {f.name}": np.asarray(getattr(form.cuts, f.name)) for f in fields(form.cuts)}


def _restored(cuts: MatrixCuts, state: State) -> MatrixCuts:
    """Return the cuts that are part of a state, of the kind of those given."""
    kept = {f.name: state[f"cuts {f.name}"] for f in fields(cuts) if f"cuts {f.name}" in state}
    return replace(cuts, **{name: value if value.ndim else value.item() for name, value in kept.items()})


def _with_multipliers(raw: RawSolution, tau: FloatArray) -> RawSolution:
    return replace(raw, variables={**raw.variables, "tau": tau})


def _refuse_moments(program: MarginProgram) -> Refusal | None:
    """Return why the second moments of the margins cannot be lifted, or None."""
    try:
        losses = absorbed_terms(program.losses)
    except CalculusError as error:
        return Refusal(f"moments are not lifted: {error}", "Use SDP(moments=False)")
    for term in losses.terms:
        if not isinstance(term.loss, PLQ):
            return Refusal("the convex hull of (t, t², rho(t)) has a closed form where rho is piecewise quadratic, not "
                           f"for {term.loss!r}; where rho grows more slowly than squares on one side, it is rho(t) and "
                           "second moments add nothing", "Use SDP(moments=False), or a loss such as md.odm or md.hinge")
    return None


def lift_labels(program: MarginProgram) -> LabelLiftForm:
    """Return the label lift of a program: pinned components merged, bounds homogenised."""
    merged = program.labels.merged()
    lifted = merged.lifted_bounds()
    component, count = np.asarray(merged.component), merged.count
    pinned = np.flatnonzero(~merged.free)
    reference: int | None = int(pinned[0]) if len(pinned) else None
    if any(ref is None and len(omega) > count for omega, _, ref in lifted):
        reference, count = count, count + 1
    balance = tuple(QuadraticBound(np.asarray(omega, dtype=float), float(radius)) for omega, radius, _ in lifted)
    return LabelLiftForm(
        program.features, program.losses, component, np.asarray(merged.sign), count,
        balance=balance, reference=reference, decision=program.lifted_decision,
        free_bias=program.free_bias)


def doubted_lift(run: Run, form: LabelLiftForm, raw: RawSolution, V: FloatArray, bound: float) -> RawSolution:
    """Return an answer to a lift with its claim held against the proved bound and the value at its own label matrix.

    A value that the solver did not say, or said as no number, is the bound.
    """
    if not np.isfinite(raw.objective):
        raw = replace(raw, objective=bound)
    return doubted(form, raw, bound, form.lifted_value(raw["u"], V), max(run.budget.tol, NATIVE_TOL),
                   name_of(run.solver))


def label_factor(raw: RawSolution) -> FloatArray:
    """Return V (N, p) with M = VVᵀ from the solver's matrix or factor, unit rows."""
    V = raw.get("V")
    if V is None:
        values, vectors = np.linalg.eigh(np.asarray(raw["M"]))
        keep = values > 1e-9 * max(float(values[-1]), 1e-300)
        keep[-1] = True  # one column of a matrix that is nowhere positive
        V = vectors[:, keep] * np.sqrt(np.maximum(values[keep], 0.0))
    V = np.asarray(V, dtype=float)
    return V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-300)
