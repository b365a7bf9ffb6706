"""Minimax relaxation: convex hull of labellings, by label generation (Li et al. 2009; ODMC)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import Offer, Refusal
from margindsl.drivers.generation import Generated, generate
from margindsl.drivers.rounding import sample_directions
from margindsl.drivers.run import Run
from margindsl.drivers.starts import starting_labels
from margindsl.errors import DeclarationError
from margindsl.program.certificates import Certificate, repair_label_lift
from margindsl.program.exhaustion import PoolCertificate, enumerate_up_to_sign
from margindsl.program.forms import SaddleForm
from margindsl.program.program import MarginProgram
from margindsl.relaxations.relaxation import Outcome, Relaxation, check_choice, check_count
from margindsl.relaxations.sdp import lift_labels


@dataclass(frozen=True, kw_only=True)
class Minimax(Relaxation):
    """Exchange min over labels and max over duals; the labels become a mixture μ of labellings.

    The most violated labelling is found by linearisation with the exact linear oracle of B, from several
    starts and improved by flips: a heuristic, so that the master's value is an `estimate`, and `bound` comes
    from a certificate of the final dual point. `oracle="exhaustive"` enumerates B and certifies the value.

    Parameters
    ----------
    oracle : {"linearised", "exhaustive"}
    tol : float or None
        Relative gap at which generation stops; None takes the solve's tolerance but at least 1e-4 (the tail of
        label generation is long, and rounding gains nothing from it).
    rounds : int
        Most rounds of generation.
    per_round : int
        Labellings added a round.
    starts : int
        Random starts of the oracle a round.
    rounding : int or "sign"
        Sampled directions; "sign" is the papers' rule sign(Σ μ_k y_k) alone (with polish="none").
    polish : {"none", "alternate", "search"} or bool

    References
    ----------
    Y.-F. Li, I. Tsang, J. Kwok, Z.-H. Zhou (2009). Tighter and convex maximum margin clustering.
    T. Zhang, Z.-H. Zhou (2018). Optimal margin distribution clustering, Eq. 4-7.
    """

    name: ClassVar[str] = "minimax"
    summary: ClassVar[str] = "convex hull of labellings, by label generation"
    bound: ClassVar[str] = "certified from the final dual point"

    oracle: str = "linearised"
    tol: float | None = None
    rounds: int = 200
    per_round: int = 3
    starts: int = 4
    rounding: int | str = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "oracle", ("linearised", "exhaustive"))
        for name in ("rounds", "per_round"):
            check_count(self, name, 1)
        check_count(self, "starts", 0)
        if self.rounding != "sign":
            check_count(self, "rounding", 0)
        if self.tol is not None and not self.tol > 0:
            raise DeclarationError(f"Minimax(tol={self.tol!r}): expected a positive number")

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        """Refuse a free bias and decision bounds."""
        if program.free_bias:
            return Refusal("minimax is trivial with a free bias: a mixture of labellings fits the constant at no cost",
                           "Use bias='penalised', or centred features without a bias")
        if program.decision:
            return Refusal("minimax takes no bounds on decision values",
                           "Bound the labels, abs(md.sum(y)) <= b, or use relaxation='cccp'")
        return Offer("label generation")

    def lower(self, program: MarginProgram) -> SaddleForm:
        """Return the first master problem, over one labelling."""
        return SaddleForm(program.features, program.losses, program.labels.maximise(np.zeros(program.n))[None, :])

    def default_solver(self, form: SaddleForm) -> str:  # type: ignore[override]
        """Return "mirror-prox", or "clarabel" for losses with shared scalars."""
        return "clarabel" if form.losses.scalars.count else "mirror-prox"

    def run(self, run: Run) -> Outcome:
        """Generate labellings, certify the final dual point, return directions to round."""
        exhaustive = enumerate_up_to_sign(run.program.labels) if self.oracle == "exhaustive" else None
        tol = self.tol or max(run.budget.tol, 1e-4 if exhaustive is None else 1e-9)
        initial = starting_labels(run, 3)
        with run.share(0.8):
            done = generate(run, initial, tol=tol, most=self.rounds, per_round=self.per_round, starts=self.starts,
                            exhaustive=exhaustive)
        if "u" not in done.raw.variables:
            return Outcome(done.status, candidates=tuple(initial), message=done.message)
        with run.stage("certify"):
            certificate = self._certify(run, done, exhaustive)
        status = done.status
        return Outcome(
            status, candidates=self._candidates(run, done), factor=self._factor(run, done), certificate=certificate,
            estimate=done.form.dual_objective(done.raw["u"]), message=done.message,
            label_weights=(done.form.labellings, np.asarray(done.raw["mu"])))

    def _certify(self, run: Run, done: Generated, exhaustive: np.ndarray | None) -> Certificate:
        if exhaustive is not None:
            return PoolCertificate.build(run.program, np.asarray(done.raw["u"])[None, :])
        return repair_label_lift(lift_labels(run.program), done.raw["u"])

    def _candidates(self, run: Run, done: Generated) -> tuple[np.ndarray, ...]:
        labels = run.program.labels
        rule = labels.maximise(done.raw["mu"] @ done.form.labellings)
        if self.rounding == "sign":
            return (rule,)
        heavy = np.argsort(-done.raw["mu"])[:5]
        return (rule, *(done.form.labellings[k] for k in heavy), *run.starts)

    def _factor(self, run: Run, done: Generated) -> np.ndarray | None:
        if self.rounding == "sign":
            return None
        mu, Y = np.asarray(done.raw["mu"]), done.form.labellings
        alive = mu > 1e-8
        spread = done.form.losses.spread(done.raw["u"])
        weights = done.form.features.adjoint((Y[alive] * spread).T) * np.sqrt(mu[alive])
        decision = done.form.features.apply(weights)
        count = int(self.rounding)
        return np.column_stack([
            sample_directions(decision, count, run.rng),
            sample_directions(Y[alive].T * np.sqrt(mu[alive]), count // 2, run.rng)])
