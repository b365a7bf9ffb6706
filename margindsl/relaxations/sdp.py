"""The semidefinite lift of labels and weights (Xu et al. 2005), with second moments; settings of it by name."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from margindsl.calculus import PLQ
from margindsl.contract import Offer, RawSolution, Refusal, Status, integers, numbers
from margindsl.drivers.branching import decided_duals, outer_duals
from margindsl.drivers.checkpoint import State, raw_of, raw_state
from margindsl.drivers.guard import doubted, name_of, offer_of
from margindsl.drivers.rounding import polish
from margindsl.drivers.run import Run
from margindsl.drivers.starts import answer_first, first_start
from margindsl.program.bounded_bias import moves_with_bias
from margindsl.program.certificates import Certificate
from margindsl.program.lift import Cuts, LiftForm
from margindsl.program.lift_certificate import repair_lift
from margindsl.program.nodes import JointNodes
from margindsl.program.passes import Answer
from margindsl.program.program import MarginProgram
from margindsl.relaxations.lift import (
    LARGEST_PRODUCTS,
    coded,
    cut_lift,
    lift,
    of_products,
    referred,
    refuse_clusters,
    violated_cliques,
    violated_products,
    violated_triangles,
    widened,
)
from margindsl.relaxations.relaxation import Outcome, Relaxation, check_choice, count_or
from margindsl.typing import FloatArray

ROUGH = 1e-4  # relative accuracy asked of methods whose digits cost passes, those that begin from a point
INTERIOR = 1000  # multipliers up to which an interior point method takes under a second
LOOSEST = 1e-3  # relative accuracy of a round of cuts that others will follow
ROUNDS, FINER = (3e-2, 4e-3, 5e-4), (1e-2, 2e-3)  # the same where rounds go on; rises below which it falls
MOST_INSIDE = 1500  # multipliers up to which labels better than some are asked about: of all rows there are squares
CODED = 300  # order of a lift coordinate by coordinate that takes ten seconds (iris, wine, digits)
CUT = 500  # components up to which "auto" cuts
SOON = 100  # components up to which the lift and its cuts take a few seconds: 1 to 5, of 200 of them 2 to 20
A_ROUND, MULTIPLIERS = 4, 2000  # cuts that a round adds a component, and multipliers from which on it adds fewer
LEAST_RISE, A_STEP = 1e-3, 1e-3  # of the bound by a round, and a step of a thousand multipliers (a tenth of a second)
GROWN, NEARLY = 300, -0.15  # triangles that wider cuts are grown from, and how far from violated they may be
HELD, LIGHT = 1e-3, 5e-5  # least γ of a cut that is kept, relative to bound and slack, of many and of few
FIRM = 1e-2  # the same where digits are missing
FAINT = 1e-3  # least weight of a block: duals of the lift know of those that labels do not choose
BESIDE = 0.2  # of the time left, of a lift beside another relaxation
LARGEST_MATRIX = 10_000_000  # numbers of label vectors that are kept for the label matrix


@dataclass(frozen=True, kw_only=True)
class SDP(Relaxation):
    """Lift labels and weights to one positive semidefinite matrix, labels with unit diagonal (Xu et al. 2005).

    Links and known labels are contracted to one variable a component (exact), label bounds become ωᵀMω ≤ β², and the
    second moments φᵀWφ of decision values take part wherever a loss gains by them. Points whose labels nothing else
    sees have their labels minimised out, which loses nothing; where known labels hold decision values of better labels
    in intervals, the lesser loss of both labels is convexified there, with both moments. The bound is repaired from the
    solver's dual point, never its value.

    More than two clusters are coded by the corners of a simplex, M_ij = ⟨c_{y_i}, c_{y_j}⟩ ∈ {1, −1/(k−1)}; the
    products M_ij ≥ −1/(k−1) are cuts, cannot-links are equalities. W is the mean over coordinates of codes; "interior"
    lifts them one by one where known labels have a use for the squares of their margins.

    Parameters
    ----------
    cuts : {"auto", "none", "all"}
        Inequalities added to the label matrix in rounds, and dropped again when they do not bind. Of two clusters all
        triangle inequalities that are violated most. "auto" cuts all labels up to 100 components, and up to 330 to 500
        what constraints couple, for as long as a round raises the bound by a thousandth, and by a hundredth a second of
        its estimated time, and leaves them to solvers that go on from round to round ("interior"); of more clusters it
        adds the "products" alone. "all" goes on until nothing is won, with cuts of five and seven labels grown from
        triangles, and losses conditional on labels against a reference. Given their time, bounds are never below those
        of "none".
    cut_rounds : int
        Most rounds of cuts.
    tol : float or None
        Relative accuracy asked of the solver; None takes the solve's, but at least 1e-4 of a first-order one.
    rounding : int or "sign"
        Number of sampled directions, beside the leading ones; "sign" is the sign of the leading one alone (with
        polish="none").
    polish : {"auto", "none", "alternate", "search"} or bool

    References
    ----------
    L. Xu, J. Neufeld, B. Larson, D. Schuurmans (2005). Maximum margin clustering.
    """

    name: ClassVar[str] = "sdp"
    summary: ClassVar[str] = "labels and weights lifted to a semidefinite matrix, links contracted"
    by_label: ClassVar[bool] = True
    bound: ClassVar[str] = "certified"
    most_clusters: ClassVar[float] = math.inf
    alternatives: ClassVar[tuple[str, ...]] = ("interior", "burer-monteiro", "clarabel", "scs")

    cuts: str = "auto"
    cut_rounds: int = integers(0).option(30)
    tol: float | None = numbers().or_none().option(None)
    rounding: int | str = count_or("sign").option(30)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "cuts", ("auto", "none", "all"))

    @classmethod
    def priority(cls, program: MarginProgram) -> float:
        """Give the best bound and the best labels of all, where that takes a few seconds."""
        if program.losses.scalars.count:
            return 0.0
        soon = program.labels.count <= SOON
        if not soon and program.clusters == 2 and 2 * program.losses.rows <= MOST_INSIDE and program.gauge is None:
            form = lift(program)  # with few labels but those that known ones bound
            soon = form.reference is not None and program.is_held and form.count <= SOON
        return 85.0 if soon else 0.0

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        """Refuse a free bias that nothing holds, and losses of k clusters that nothing bounds."""
        if program.free_bias and not any(moves_with_bias(bound.weights) for bound in program.lifted_decision):
            return Refusal(
                f"a free bias makes {self.name} trivial (its value is 0, even under label balance)",
                "Use bias='penalised', or centred features without a bias, or add abs(md.sum(f)) <= l")
        if self.rounding == "sign" and program.clusters > 2:
            return Refusal("rounding='sign' takes the sign of one direction, of two clusters", "Use rounding=1")
        refusal = refuse_clusters(program)
        return Offer(f"{self._words(program)}{program.unlifted}") if refusal is None else refusal

    def _words(self, program: MarginProgram) -> str:
        labels = program.labels.merged() if program.clusters == 2 else program.labels
        return f"lift of {labels.count} components and {program.features.rank} weights"

    def lower(self, program: MarginProgram) -> LiftForm:
        """Return the lift; all points have a component where all are cut, but squares are worth more than cuts."""
        if program.clusters > 2 or not all(isinstance(term.loss, PLQ) for term in program.losses.terms):
            return lift(program, whole=self.cuts != "none" and program.clusters > 2)
        few = self.cuts == "auto" and program.labels.count <= SOON
        return cut_lift(program) if few else lift(program, whole=self.cuts == "all")

    def default_solver(self, form: LiftForm) -> str:  # type: ignore[override]
        """Return "interior" up to a thousand multipliers, "burer-monteiro" above."""
        small = max(form.multipliers, form.count + min(form.order, form.n)) <= INTERIOR
        return "interior" if small else "burer-monteiro"

    def run(self, run: Run) -> Outcome:
        """Solve the form, repair the dual point to a certificate, return directions to round."""
        form, state, early = self.form_of(run), run.resume(self.name), [self._weighted(run)]
        if self.cuts == "all" and form.count > SOON:  # whose first steps are long, and prove nothing
            with run.share(0.2):
                early.append(replace(self, cuts="none").solve_lift(run.apart(), lift(run.program))[1])
        if self.cuts == "all" and run.solver.takes_cuts:
            form = replace(form, conditional=True)
        form, inner, better = self._inside(run, form)
        form, decided = referred(form) if form.conditional else (form, {})
        start = None
        if state is not None:
            kept: dict[str, Any] = {f.name: np.asarray(state[f"cuts {f.name}"]) for f in fields(form.cuts)}
            form, start = replace(form, cuts=Cuts(**kept)), raw_of(state)
        with run.share(0.8):
            raw, certificate = self.solve_lift(run, form, start)
            if raw.status is Status.INACCURATE and self.cuts != "none" and run.solver.takes_cuts:  # within intervals
                early.append(replace(self, cuts="none").solve_lift(run.apart(), lift(run.program))[1])
        if certificate is None:  # refused, failed, or out of time before the first iterate
            return Outcome(raw.status, candidates=(first_start(run),) if raw.status.has_answer else (),
                           message=raw.message, certificate=proven(early))
        certificate = replace(certificate, arrays=certificate.arrays | inner | decided)
        if better is not None:  # what is proved is proved of better labels than these
            certificate = replace(certificate, bound=min(certificate.bound, better.value))
        if not np.isfinite(raw.objective):  # what a solver did not say
            raw = replace(raw, objective=certificate.bound)
        raw = doubted(form, raw, certificate.bound, raw.objective, max(run.budget.tol, ROUGH), name_of(run.solver))
        certificate = proven([certificate, *early]) or certificate
        V, W = np.asarray(raw.get("V", np.zeros((0, 1)))), np.asarray(raw["W"])
        far = form.features.is_remote and bool(np.any(form.absorbed))
        there = form.n * W.shape[1] <= LARGEST_MATRIX and not far
        points = form.vectors(V, W) if there else None
        known, value = ((), np.inf) if better is None else ((better.labels,), better.value)
        found = Outcome(raw.status, message=raw.message, certificate=certificate, label_matrix=points, candidates=known,
                        estimate=max(min(raw.objective, value), certificate.bound))
        if self.rounding == "sign":
            vectors: Any = points if form.count and there else form.outputs(W)
            return replace(found, vectors=((vectors @ np.linalg.eigh(vectors.T @ vectors)[1][:, -1:], 1),))  # heaviest
        both = ((points, int(self.rounding)),) if form.count and points is not None else ()
        return replace(found, vectors=(*both, (form.image(W), int(self.rounding))))

    def _inside(self, run: Run, form: LiftForm) -> tuple[LiftForm, dict[str, FloatArray], Answer | None]:
        """Return the lift for labels that are better than some, the duals that say where their weights are, and those
        labels, fitted; the lift itself and None without cuts, or where nothing says that.
        """
        nothing = form, dict[str, FloatArray](), None
        if self.cuts == "none" or not run.solver.takes_cuts or form.clusters > 2 or not run.program.is_held:
            return nothing
        if form.count + 2 * form.losses.rows > MOST_INSIDE:
            return nothing
        apart, root = run.apart(), np.asarray(run.program.labels.pinned)
        better = JointNodes(run.program, form, known=apart.known)
        answer_first(apart)
        if apart.best is None:
            return nothing
        if form.reference is not None and self.polish != "none":  # good labels say more of where better ones are
            with apart.share(0.3):
                run.hold(polish(apart, [apart.best.labels], str(self.polish), bound=run.program.losses.least_value()))
        better = replace(better, outer=outer_duals(better))
        inner = decided_duals(run, better, root)
        return better.form(root, inner), better.bounding_duals(inner), apart.best

    def _weighted(self, run: Run) -> Certificate | None:
        """Return the proof of the lift at the weights of blocks that good labels choose, where a norm is their sum."""
        gauge, apart = run.program.gauge, run.apart()
        if gauge is None or gauge.plain or run.program.decision or run.program.losses.is_turned:
            return None
        answer_first(apart)
        if apart.best is None:
            return None
        phi, block = run.program.features.toarray(), gauge.block
        weights = np.sqrt(gauge.squares(apart.best.w.reshape(-1, len(block)).T).sum(axis=1)[:-1])
        weights = (weights + FAINT * weights.sum()) / ((1.0 + FAINT * gauge.count) * (weights.sum() or 1.0))
        first, *blocks = map(of_products, (phi * np.sqrt(np.append(weights, 1.0))[block], *(
            phi[:, (block < 0) | (block == number)] for number in range(gauge.count))))
        with run.share(0.5):
            return self.solve_lift(run, replace(lift(run.program, whole=True), features=first, blocks=tuple(blocks)))[1]

    def beside(self, run: Run, part: float = BESIDE, better: bool = False) -> Certificate | None:
        """Return the proof of the lift, of labels `better` than the best, for another run, in a part of its time."""
        if run.lift_solver is None or run.stopped or not self.offer(run.program):
            return None
        form = self.lower(run.program)
        solver = run.lift_solver(self.default_solver(form))
        if isinstance(offer_of(solver, form), Refusal):
            return None
        known = (run.best.labels,) if better and run.best is not None else ()
        apart = Run(run.program, solver, run.fixed_solver, run.budget.replace(max_iter=None), run.rng, known)
        with apart.share(part):
            if better:
                return self.run(apart).certificate
            return proven([self._weighted(apart), self.solve_lift(apart, form)[1]])

    def solve_lift(self, run: Run, form: LiftForm, start: RawSolution | None = None
                   ) -> tuple[RawSolution, Certificate | None]:
        """Return the answer to a lift, its cuts added in rounds, and the repaired dual point, None without one."""
        begins, rejoins, target = run.solver.warm_starts, run.solver.takes_cuts, self.tol or run.budget.tol
        if rejoins and (form.clusters - 1) * (form.count + min(form.order, form.n)) <= CODED:
            form = coded(form, np.asarray(run.program.labels.pinned)[run.program.labels.component])
        base, rounds, previous, message = form, 0, -np.inf, ""
        cuts = (self.cuts != "none" and form.count <= LARGEST_PRODUCTS) if form.clusters > 2 else form.count > 2 and (
            self.cuts == "all" or (self.cuts == "auto" and rejoins and form.count <= CUT))
        tol = max(target, ROUNDS[0]) if cuts and rejoins else target if self.tol or not begins else max(target, ROUGH)
        best, certificate, accurate, finest = None, None, False, ROUNDS[2 if self.cuts == "all" else 1]

        while True:
            # 1. An answer, and what it proves
            raw = run.solve(form, start, tol=tol)
            found = self._proof(run, form, raw)
            if found is None and best is None:
                return raw, None
            if found is None:
                message = f"cuts were not all added, round {rounds} ended as {raw.status.word}: " \
                    f"{raw.message or raw.status.value}"
            elif certificate is None or found.bound >= certificate.bound:
                best, certificate = raw, found
            assert best is not None and certificate is not None
            if form is base:
                first = best
            stopped = run.stopped or (rounds and run.record(
                "cuts", rounds - 1, np.inf if run.best is None else run.best.value, certificate.bound))

            # 2. Violated inequalities, until none is left, the bound stalls, rounds do not pay, or time is up
            size = max(abs(certificate.bound), 1e-300)
            gain = (certificate.bound - previous) / size  # infinite at first
            least = 0.2 * LEAST_RISE if rejoins and not accurate else max(10 * target, 1e-5)
            if self.cuts == "auto" and form.clusters == 2:
                least = max(LEAST_RISE, A_STEP * raw.iterations * (form.multipliers / 1000) ** 3)
            violated = Cuts.none()
            if cuts and not (message or stopped) and rounds < self.cut_rounds and (
                    gain > least or tol > max(target, finest)):
                violated = self._violated(form, raw)

            # 3. Then the digits that rounds did not need, and once more what "all" cuts are left; where cuts left no
            # digits, those that bind firmly, then none, as bounds are not to be lower for them
            gamma = form.cuts.admissible(raw.get("gamma"))
            slack = form.cuts.values(raw["V"]) - form.cuts.least if "V" in raw.variables else np.inf
            price = gamma / (size * np.maximum(slack, 1e-9))
            if not violated.count:
                if stopped or not rejoins:
                    break
                if not message and tol > target:
                    start, cuts = raw, cuts and self.cuts == "all"
                elif rounds and form is not base and (message or raw.status is Status.INACCURATE):
                    firm, cuts = form.cuts.equal | (price > FIRM), False
                    if not message and firm.any() and not firm.all():
                        form = replace(form, cuts=form.cuts.take(np.flatnonzero(firm)))
                        start = replace(raw, variables={**raw.variables, "gamma": gamma[firm]})
                    else:
                        form, start = base, first
                else:
                    break
                tol, accurate = target, True
                continue

            # 4. The cuts that bind, and the violated ones
            few = np.argsort(np.argsort(-price)) < INTERIOR - form.multipliers + form.cuts.count  # a step costs little
            used = form.cuts.equal | (price > np.where(few, LIGHT, HELD))
            kept = form.cuts.take(np.flatnonzero(used))
            form = replace(form, cuts=kept.joined(violated))  # the kept ones stay first
            gamma = np.append(gamma[used], np.zeros(form.cuts.count - kept.count))
            start = replace(raw, variables={**raw.variables, "gamma": gamma}) if begins or rejoins else None
            if accurate:
                cuts = False
            elif rejoins:
                finer = next((t for t, rise in zip(ROUNDS[1:], FINER) if t < tol and (gain < rise or rounds > 4)), tol)
                tol = max(target, finest, finer)
            elif begins:  # more digits than a small part of what the last round won would be lost to the next cuts
                tol = max(target, ROUGH, min(LOOSEST, 0.03 * gain if np.isfinite(gain) else LOOSEST))
            rounds, previous = rounds + 1, certificate.bound
        ended = run.stopped if tol > target and best.status is Status.OPTIMAL else None  # in a round, to few digits
        return replace(best, message=message or best.message, status=ended or best.status), certificate

    def _proof(self, run: Run, form: LiftForm, raw: RawSolution) -> Certificate | None:
        if "u" not in raw.variables:
            return None
        if not form.blocks:
            run.keep(self.name, partial(_kept, form, raw))
        with run.stage("certify"):
            return repair_lift(form, raw)

    def _violated(self, form: LiftForm, raw: RawSolution) -> Cuts:
        """Return violated cuts: products of codes, triangles, and of "all" those grown from triangles near to it."""
        V, N = np.asarray(raw["V"]), form.count
        most = min(A_ROUND * N, max(N, MULTIPLIERS - form.multipliers + form.cuts.count))
        if form.clusters > 2:
            products = violated_products(V, form.clusters, max(150, A_ROUND * N))
            return products if self.cuts == "auto" else products.joined(
                violated_triangles(V, most, alike=False)).joined(violated_cliques(V, form.clusters, N))
        triangles = violated_triangles(V, most)
        if self.cuts == "auto":
            return triangles
        five = widened(violated_triangles(V, GROWN, tol=NEARLY), V)
        for wider, many in ((five, N), (widened(five, V), N // 2)):
            triangles = triangles.joined(wider.take(np.arange(wider.count)[:many]))
        return triangles


def proven(proofs: list[Certificate | None]) -> Certificate | None:
    """Return the proof of the greatest bound, None where there is none."""
    return max((proof for proof in proofs if proof), key=attrgetter("bound"), default=None)


def _kept(form: LiftForm, raw: RawSolution) -> State:
    """Return an answer and the cuts it was found with as a state."""
    return raw_state(raw) | {f"cuts {f.name}": np.asarray(getattr(form.cuts, f.name)) for f in fields(form.cuts)}
