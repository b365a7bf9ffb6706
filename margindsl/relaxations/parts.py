"""By parts: what is proved of groups of points, each with labels and weights of its own, bounds the optimum of all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from margindsl.contract import Budget, Offer, Refusal, Status, integers
from margindsl.drivers.run import Run
from margindsl.errors import DeclarationError
from margindsl.host.parallel import check_jobs, count_jobs, share_out
from margindsl.labelset import presolve
from margindsl.program.certificates import Certificate, certify_least_value
from margindsl.program.program import MarginProgram
from margindsl.relaxations.exact import Exact
from margindsl.relaxations.lift import lift
from margindsl.relaxations.relaxation import Outcome, check_choice
from margindsl.relaxations.sdp import SDP
from margindsl.relaxations.weight_lifting import WeightLifting
from margindsl.typing import FloatArray, IntArray

FIRST = 0.3  # of the time, for the weight lift of all points
SIZES = 60, 150  # fewest and most points of groups by default; lifts of so many take 2 to 8 s with all rounds
RISE = 0.02  # of the value: where the bound rises by more, groups of twice the size are worth their time
ACCURACY = 1e-3  # relative, of the bound of a group
SOON = 2000, 10  # points and columns up to which "auto" takes groups, in two rounds of cuts: 2 to 13 s


@dataclass(frozen=True, kw_only=True)
class Parts(WeightLifting):
    """Bound the optimum over many points by the mean of what is proved of groups of them, at any number of points.

    The groups of a partition may have labels and weights of their own, so that for shares p_j = n_j/n of the norm
    min ½‖w‖² + Σ_i c_i ρ_i ≥ Σ_j p_j min [½‖w_j‖² + Σ_{i in j} (c_i/p_j) ρ_i]: of a mean of losses, the mean of the
    optima of the groups. It tends to the gap between the optima of groups and of all, whatever the number of points,
    and is small where a group has several times as many points as the features columns; certificates of the groups are
    the proof. Linked points are in one group (of more clusters those of must-links), and known labels and labels found
    first in equal shares in all of them; bounds on sums of labels and decision values, and sizes, which join groups,
    are left out. Labels are those of `margindsl.WeightLifting`, and the bound is never below that of it.

    Parameters
    ----------
    size : int or None
        Points of a group; None takes ten times as many as the features have columns, but from 60 to 150.
    largest : int or None
        For as long as the bound rises by more than a fiftieth of the value, groups of twice the size follow, up to this
        one.
    groups : {"lift", "exact"}
        What bounds a group: the lift with its cuts ("sdp"), or branch and bound, which takes longer and proves more; of
        few columns above all. With a time limit each group has its part.
    cut_rounds : int
        Most rounds of cuts of a group's lift: two prove nine tenths of what all do of groups of 60 in an eighth of the
        time: more a second, where groups are many.
    n_jobs : int or None
        Groups at once, as in scikit-learn.
    cuts, rounding, polish
        As for `margindsl.WeightLifting`, of the lift of all points.
    """

    name: ClassVar[str] = "parts"
    by_label: ClassVar[bool] = False
    summary: ClassVar[str] = "mean of what is proved of groups of points"

    size: int | None = integers(2).or_none().option(None)
    largest: int | None = integers(2).or_none().option(None)
    groups: str = "lift"
    cut_rounds: int = integers(0).option(30)
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "groups", ("lift", "exact"))
        check_jobs(self.n_jobs)
        if self.largest is not None and self.size is not None and self.largest < self.size:
            raise DeclarationError(f"Parts(size={self.size}, largest={self.largest}): largest is at least the size")

    @classmethod
    def priority(cls, program: MarginProgram) -> float:
        """Ask for losses that rise on both sides, whose squares are of use, up to rank ten."""
        few = program.clusters == 2 and program.n <= SOON[0] and program.features.rank <= SOON[1]
        return 82.0 if few and np.any(lift(program).ceiling > 0) else 0.0

    @classmethod
    def chosen(cls, program: MarginProgram) -> Parts:
        """Return groups that most is proved of a second."""
        return cls(cut_rounds=2)

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        """Refuse what joins groups beyond their weights: a free bias, shared scalars."""
        source = program.source
        if program.free_bias or (source is not None and source.free_bias) or program.losses.scalars.count:
            return Refusal("groups of points have scalars and biases of their own, which nothing holds",
                           "Use bias='penalised' and losses without shared scalars, or relaxation='weight-lifting'")
        if source is not None and source.rows is not None:
            return Refusal("rows beyond those of the points join groups", "Use relaxation='weight-lifting'")
        return super().accepts(program)

    def run(self, run: Run) -> Outcome:
        """Run the weight lift, then bound groups; the better bound is the answer's."""
        with run.share(FIRST):
            found = super().run(run)
        assert run.lift_solver is not None
        chosen = {name: run.lift_solver(name) for name in ("interior", "burer-monteiro", "newton", "node-newton")}
        bounds_of = Exact(method="branching") if self.groups == "exact" else SDP(cut_rounds=self.cut_rounds)
        size = self.size or min(int(np.clip(10 * run.program.features.rank, *SIZES)), self.largest or SIZES[1])
        done, before = False, -np.inf
        labels: Any = run.program.labels
        while not (done or run.stopped or found.certificate is None):
            # groups of components, dealt out in the order of what is known and their labels
            best = labels.any_member() if run.best is None else run.best.labels
            order = np.lexsort((run.rng.random(labels.count), best[labels.first], labels.free))
            dealt, count = np.empty(labels.count, dtype=int), max(1, round(run.program.n / size))
            dealt[order] = np.arange(labels.count) % count
            owner = dealt[labels.component]
            sizes = np.bincount(owner, minlength=count)
            owner = np.where(sizes[owner] > 1, owner, np.argmax(sizes))  # one point has no label set of its own
            owner = np.unique(owner, return_inverse=True)[1]
            groups = _by_owner(owner, owner.max() + 1)
            rows = [_by_owner(owner[term.points], len(groups)) for term in run.program.losses.terms]
            alone = partial(_alone, run.program, owner, groups, rows)
            shares = np.array([len(own) for own in groups]) / run.program.n
            bounds = np.bincount(owner, run.program.losses.least_losses()) / shares
            proofs: list[Certificate | None] = [None] * len(groups)
            value, low = run.known(), found.certificate.bound
            seconds = run.budget.share(0.8 / len(groups) * count_jobs(self.n_jobs)).remaining
            seeds = run.rng.integers(1 << 32, size=len(groups)).tolist()
            tasks = ((bounds_of, alone(number), chosen, run.fixed_solver, seconds, seed)
                     for number, seed in enumerate(seeds) if not run.stopped)
            late = set(range(len(groups)))
            keep = partial(self._keep, run, proofs, bounds, shares, low, late)
            try:
                share_out(proved, tasks, keep, self.n_jobs)
            except KeyboardInterrupt as end:
                found = replace(found, status=run.ended_by(end))
            words = f"{len(groups)} groups"
            words = f"{len(late)} of {words} were not bounded to the end" if late else words
            if late and found.status in (Status.CONVERGED, Status.OPTIMAL):
                found = replace(found, status=run.stopped or Status.TIME_LIMIT, message=words)
            rise, before = float(shares @ bounds) - before, float(shares @ bounds)  # against groups of half the size
            size, done = 2 * size, not rise > RISE * abs(value) or 2 * size > (self.largest or 0)
            if shares @ bounds > low:
                sound = [proof or _of_group(one := alone(number), certify_least_value(one.losses))
                         for number, proof in enumerate(proofs)]
                proof = Certificate(float(shares @ [one.bound for one in sound]), kind="parts", parts=tuple(
                    zip(shares.tolist(), groups, sound)), words=f"dual points of {len(groups)} groups")
                found = replace(found, certificate=proof, estimate=max(found.estimate, proof.bound))
                if found.status in (Status.CONVERGED, Status.OPTIMAL):  # else the reason of the status stays
                    found = replace(found, message=words)
        return found

    def _keep(self, run: Run, proofs: list[Certificate | None], bounds: FloatArray, shares: FloatArray, low: float,
              late: set[int], number: int, found: tuple[Certificate | None, bool]) -> None:
        proof, cut_short = found
        late -= set() if cut_short else {number}
        if proof is not None and proof.bound > bounds[number]:
            proofs[number], bounds[number] = proof, proof.bound
        run.record(self.name, number, run.known(), max(low, float(shares @ bounds)))


def _by_owner(owner: IntArray, count: int) -> list[IntArray]:
    """Return the positions of each number below a count."""
    return np.split(np.argsort(owner, kind="stable"), np.cumsum(np.bincount(owner, minlength=count))[:-1])


def _alone(program: MarginProgram, owner: IntArray, groups: list[IntArray], rows: list[list[IntArray]],
           number: int) -> MarginProgram:
    """Return the program of a group alone, its losses, of which each has its `rows`, divided by its share."""
    own, source, known = groups[number], program.source, dict[str, Any]()
    index: Any = partial(np.searchsorted, own)

    def inside(points: Any) -> Any:
        return np.all(owner[points] == number, axis=tuple(range(1, np.ndim(points))))

    if source is not None:
        known = {name: index(pairs[inside(pairs)]) for name, pairs in (
            ("must", source.must), ("cannot", source.cannot))}
        known |= {name: (index(at[inside(at)]), values[inside(at)]) for name, (at, values) in (
            ("known", source.known), ("barred", source.barred))}
    terms = [term.taken(of[number]) for term, of in zip(program.losses.terms, rows) if len(of[number])]
    terms = [replace(term, points=index(term.points), weights=term.weights * (program.n / len(own))) for term in terms]
    return replace(
        program, features=program.features.take(own), labels=presolve(len(own), program.clusters, **known), decision=(),
        losses=replace(program.losses, n=len(own), terms=tuple(terms)), source=None, normal=None)


def proved(bounds: SDP | Exact, program: MarginProgram, solvers: dict[str, Any], fits: Any, seconds: float,
           seed: int) -> tuple[Certificate | None, bool]:
    """Return what is proved of a group, in the units of its program, None where nothing is; whether time was short."""
    if isinstance(bounds.offer(program), Refusal):
        bounds = SDP()
    form: Any = lift(program, whole=True) if isinstance(bounds, SDP) else bounds.lower(program)
    solver = solvers.get(bounds.default_solver(form), solvers["interior"])
    run = Run(program, solver, fits, Budget.within(seconds, tol=ACCURACY), np.random.default_rng(seed), form=form)
    found = bounds.run(run)
    late = found.status is Status.TIME_LIMIT
    if (proof := found.certificate) is None:
        return None, late
    if "inner" in proof.arrays:
        value = run.fit(found.candidates[0] if found.answer is None else found.answer.labels).value
        proof = replace(proof, bound=min(proof.bound, value), arrays=proof.arrays | {"known": np.array(value)})
    return _of_group(program, proof), late


def _of_group(program: MarginProgram, proof: Certificate) -> Certificate:
    """Return the proof of a group, which names the points whose labels are known there."""
    return replace(proof, arrays=proof.arrays | {"decided": program.labels.pinned[program.labels.component] >= 0})
