"""Minimax relaxation: convex hull of labellings, by label generation (Li et al. 2009; ODMC)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import ClassVar

import numpy as np

from margindsl.contract import Offer, Refusal, Status, flags, integers, numbers
from margindsl.drivers.generation import STAGE, Generated, generate, improved_starts, master_of, vertices
from margindsl.drivers.run import Run
from margindsl.drivers.starts import first_start, starting_labels
from margindsl.features import image
from margindsl.program.certificates import Certificate
from margindsl.program.exhaustion import certify_pool, members
from margindsl.program.forms import SaddleForm
from margindsl.program.lift_certificate import repair_lift
from margindsl.program.program import MarginProgram
from margindsl.relaxations.lift import lift, refuse_clusters
from margindsl.relaxations.relaxation import Outcome, Relaxation, check_choice, count_or
from margindsl.relaxations.sdp import SDP
from margindsl.relaxations.weight_lifting import WeightLifting
from margindsl.typing import IntArray

RULES = "sign", "violated"
ALIVE = 1e-8  # mass of a labelling that counts
STARTS = 0.3  # of the time, for better labels to begin with: without masters there is no bound
# of the gap to the best labels known: the tail of label generation, most of its rounds, moves the mixture by less.
# On mean and variance, ODM and least squares of 300 points the bound and the labels are the same without the tail.
SHARE = 0.05
MINIMAX_POINTS = 5000  # up to which "auto" generates labels


@dataclass(frozen=True, kw_only=True)
class Minimax(Relaxation):
    """Exchange min over labels and max over duals; the labels become a mixture μ of labellings.

    Clusters enter by simplex codes, y ↦ Σ_i u_i φ_i c(y_i)ᵀ, and Crammer-Singer margins by the coded ones that bound
    them: by symmetry in the clusters, the mixture sees no more of them.

    The most violated labelling is found by linearisation with the exact linear oracle of B, from several
    starts and improved by flips: a heuristic, so that the master's value is an `estimate`, and `bound` comes
    from a certificate of the final dual point. `oracle="exhaustive"` enumerates B and certifies the value.

    Parameters
    ----------
    oracle : {"linearised", "exhaustive"}
    tol : float or None
        Relative gap at which generation stops; None takes the solve's tolerance but at least 1e-4, or where that comes
        first, and as far as the oracle sees, a twentieth of the gap to the best labels known: the tail of label
        generation is long, and neither rounding nor the bound gains from it.
    rounds : int
        Most rounds of generation.
    per_round : int
        Labellings added a round, from the dual point of the master and from one between it and the best so far each.
    starts : int
        Random starts of the oracle a round.
    rounding : int, "sign" or "violated"
        Sampled directions. "sign" is ODMC's and ssODM's rule sign(Σ μ_k y_k) alone (with polish="none"), where
        y_k and −y_k are one clustering: each y_k is signed as the heaviest. "violated" is ODMSSC's, sgn(Hȳ) with
        H = diag(ũ)K diag(ũ) and ȳ the most violated labelling of the working set.
    tighten : bool
        Whether the semidefinite lift (`margindsl.SDP`), solved roughly, may raise `bound`: its own dual point is worth
        more to a certificate than the master's.
    polish : {"auto", "none", "alternate", "search"} or bool

    References
    ----------
    Y.-F. Li, I. Tsang, J. Kwok, Z.-H. Zhou (2009). Tighter and convex maximum margin clustering.
    T. Zhang, Z.-H. Zhou (2018). Optimal margin distribution clustering, Eq. 4-7.
    """

    name: ClassVar[str] = "minimax"
    summary: ClassVar[str] = "convex hull of labellings, by label generation"
    bound: ClassVar[str] = "certified from the final dual point"
    alternatives: ClassVar[tuple[str, ...]] = ("mirror-prox", "clarabel", "alternating-mu")
    most_clusters: ClassVar[float] = math.inf

    oracle: str = "linearised"
    tol: float | None = numbers().or_none().option(None)
    rounds: int = integers(1).option(200)
    per_round: int = integers(1).option(3)
    starts: int = integers(0).option(4)
    rounding: int | str = count_or(*RULES).option(20)
    tighten: bool = flags().option(True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "oracle", ("linearised", "exhaustive"))

    @classmethod
    def priority(cls, program: MarginProgram) -> float:
        return 70.0 / (program.clusters - 1) ** 2 if program.n <= MINIMAX_POINTS else 0.0

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        if program.free_bias and not program.bias.is_finite:
            return Refusal(
                "minimax is trivial with a free bias: the dual point must satisfy sum u_i y_i = 0 for all labellings "
                "at once, so that u = 0 where they are free, and a mixture of labellings fits the constant at no cost",
                "Use bias='penalised', centred features without a bias, or bound the sum, abs(md.sum(f)) <= l")
        if (refusal := refuse_clusters(program)) is not None:
            return refusal
        on_weights = "; bounds on decision values enter the certificate, not the masters" * bool(program.weight_bounds)
        return Offer(f"label generation{on_weights}{program.unlifted}")

    def lower(self, program: MarginProgram) -> SaddleForm:
        return master_of(program.bounding, vertices(program.bounding, [program.labels.any_member()]))

    def default_solver(self, form: SaddleForm) -> str:  # type: ignore[override]
        return "mirror-prox"

    def run(self, run: Run) -> Outcome:
        # 1. Labellings to begin with: clusterings, what follows from known labels, better ones while there is time
        exhaustive = members(run.program) if self.oracle == "exhaustive" else None
        tol = self.tol or max(run.budget.tol, 1e-4 if exhaustive is None else 1e-9)
        going_on = run.resume(STAGE) is not None
        initial = [first_start(run)] if going_on else starting_labels(run, 3)

        # 2. The lift, roughly, and the mixture over more and more labellings
        with run.share(0.8):
            if self.rounding not in RULES and not going_on:
                with run.share(STARTS):
                    initial = improved_starts(run, initial)
            begun = WeightLifting().beside(run) if exhaustive is None and self.tighten else None
            done = generate(run, initial, tol=tol, most=self.rounds, per_round=self.per_round, starts=self.starts,
                            exhaustive=exhaustive, share=SHARE if self.tol is None and exhaustive is None else 0.0)
        if "u" not in done.raw.variables:
            proved = begun if done.status in (Status.TIME_LIMIT, Status.INTERRUPTED) else None
            return Outcome(done.status, candidates=tuple(initial), message=done.message, certificate=proved)

        # 3. A proof from its duals
        if exhaustive is None:
            certificate = self._certify(run, done, begun)
        else:
            with run.stage("certify"):
                certificate = certify_pool(run.program.bounding, [np.asarray(done.raw["u"])])
        form, mu = done.form, np.asarray(done.raw["mu"])
        found = Outcome(done.status, certificate=certificate, message=done.message,
                        estimate=max(form.dual_objective(done.raw["u"]), certificate.bound),
                        label_weights=(form.labellings, mu))

        # 4. What is rounded: a rule's labelling alone, or it with the heaviest labellings and the vectors of points,
        # decision values of all w_k and codes, each times √μ_k
        if self.rounding in RULES:
            rule = violated_rule if self.rounding == "violated" else sign_rule
            return replace(found, candidates=(rule(run, done),))
        alive = np.flatnonzero(mu > ALIVE)
        root = np.repeat(np.sqrt(mu[alive]), form.width)
        weights = form.directions(done.raw["u"])[:, alive].T.reshape(len(root), -1)
        count, heavy = int(self.rounding), np.argsort(-mu)[:5]
        vectors = (image(form.features, weights.T * root), count), (form.coded(alive).T * root, count // 2)
        return replace(found, vectors=vectors, candidates=(
            sign_rule(run, done), *(form.labellings[k] for k in heavy), *run.starts))

    def _certify(self, run: Run, done: Generated, begun: Certificate | None) -> Certificate:
        if begun is not None and done.status is Status.TIME_LIMIT:
            return begun  # there is no time for more
        form = replace(lift(run.program, whole=True), losses=run.program.bounding.losses)  # the rows of the master

        # V = [√μ_k c(z_k)] over the components of the lift, with M = Σ_k μ_k c(z_k) c(z_k)ᵀ
        mu = np.asarray(done.raw["mu"])
        alive = np.flatnonzero(mu > ALIVE)
        root = np.repeat(np.sqrt(mu[alive] / mu[alive].sum()), done.form.width)
        points, first = np.unique(form.component, return_index=True)
        V = np.tile(root, (form.count, 1))  # also of the reference of asymmetric bounds, +1 in every labelling
        V[points] = root * form.sign[first][:, None] * done.form.coded(alive)[:, first].T
        with run.stage("certify"):
            found = [begun, repair_lift(form, {"u": done.raw["u"], "V": V})]
        same = WeightLifting().lower(run.program).count == SDP().lower(run.program).count
        if self.tighten and not same and done.status is not Status.INTERRUPTED:  # labels that the first lift left apart
            found.append(SDP(cuts="none" if run.program.clusters == 2 else "auto").beside(run))
        return max((proof for proof in found if proof is not None), key=attrgetter("bound"))


def sign_rule(run: Run, done: Generated) -> IntArray:
    """Return the member of B nearest to Σ μ_k c(y_k), labellings that differ in names taken as one: sign(Σ μ_k y_k)."""
    program, mu, Y = run.program.bounding, np.asarray(done.raw["mu"]), done.form.labellings
    heaviest = Y[int(np.argmax(mu))]
    mean = sum(weight * program.label_codes[program.labels.matched(y, heaviest)] for weight, y in zip(mu, Y))
    return program.labels.maximise(program.gains_of(np.asarray(mean)))


def violated_rule(run: Run, done: Generated) -> IntArray:
    """Return the member of B nearest to sgn(Hȳ), ȳ = argmax_k y_kᵀHy_k (ODMSSC Eq. 12, Algorithm 1)."""
    program, scatter = run.program.bounding, done.form.losses.scatter(done.raw["u"])
    V = done.form.directions(done.raw["u"])
    worst = V[:, int(np.argmax(np.einsum("rk,rk->k", V, V)))]
    return program.labels.maximise(program.code_gains(worst.reshape(done.form.width, -1).T, scatter))
