"""Exact solution: pruned enumeration of small label sets, branch and bound of larger ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

import numpy as np

from margindsl.contract import Offer, RawSolution, Refusal, Status, integers, numbers
from margindsl.drivers.alternation import alternate
from margindsl.drivers.branching import FINEST, STAGE, Branching, decided_duals, outer_duals
from margindsl.drivers.checkpoint import State
from margindsl.drivers.enumeration import enumerate_labels
from margindsl.drivers.guard import name_of
from margindsl.drivers.rounding import polish, round_vectors
from margindsl.drivers.run import Run
from margindsl.drivers.search import search
from margindsl.drivers.starts import starting_labels
from margindsl.errors import CalculusError
from margindsl.host.clock import speed
from margindsl.host.parallel import check_jobs
from margindsl.program.absorption import absorbed_envelopes
from margindsl.program.branching import BranchNodeForm, PointLosses
from margindsl.program.certificates import Certificate
from margindsl.program.forms import Form
from margindsl.program.lift import Cuts, LiftForm
from margindsl.program.nodes import JointNodes, LiftedNodes, NodeBounds, PartialNodes
from margindsl.program.program import MarginProgram
from margindsl.relaxations.lift import cut_lift
from margindsl.relaxations.relaxation import Outcome, Relaxation, check_choice, refuse_split
from margindsl.relaxations.sdp import MOST_INSIDE, SDP
from margindsl.typing import IntArray

LARGEST_RANK = 60
FEW = 20  # columns up to which nodes of weights alone are the faster way
CUTS = 3  # a component that nodes keep
MULTIPLIERS = 2000  # of a lift that nodes are bounded by
ROOT_SHARE, LIFT_SHARE = 0.3, 0.2  # of the time: for its cuts; for the lift where a tree of weights stays open
EARLY, FAR = 0.2, 0.4  # of the time, where such a tree that has a greater gap waits for the lift
UNSQUARED = "lifts of nodes have a squared norm"
EXACT_COMPONENTS = 12  # free components of two clusters up to which "auto" enumerates
# Of what "auto" grows: components up to which, and nodes times points; .4 to 23 s on thirty problems of 50 to 200
SHORT = {"weights": (200, 100_000), "joint": (150, 4000)}


@dataclass(frozen=True, kw_only=True)
class Exact(Relaxation):
    """Find the optimum over B with a proof: enumeration, or branch and bound, pruned by certified bounds.

    Enumeration visits k^N labellings of N free components, of exchangeable clusters one of all names. Branch and bound
    decides one component after the other. Stopped early, both return a valid bound. Of two clusters a tree of weights
    that is far from closed after a fifth of a time limit waits for the lift of 'sdp', others leave that the last fifth.

    Parameters
    ----------
    max_components : int
        Most free components for enumeration, of k clusters times log2 k.
    method : {"auto", "enumeration", "branching"}
        "auto" enumerates up to `max_components` free components and branches above. A free bias that nothing holds,
        decision bounds on weights and Crammer-Singer margins are always branched on, since duals of one labelling say
        nothing of others there.
    tol : float or None
        Relative gap branch and bound certifies; None takes the solve's tolerance, but at least 1e-7.
    starts : int
        Local searches that find the incumbent; larger ones follow while the tree stays open. None of them with 0.
    max_nodes : int or None
        Nodes of branch and bound after which the answer is what they prove, `converged`; None grows the tree until it
        is closed or a limit is met.
    nodes : {"auto", "weights", "joint", "decided"}
        What bounds a node of branch and bound. "weights" is the lift [[1, wᵀ], [w, P]] ⪰ 0 with the labels of open
        points absorbed (`BranchNodeForm`), tens to hundreds of nodes a second where features have few columns. "joint"
        is the lift of 'sdp' with its cuts, contracted to what is open, of two clusters: some nodes a second, each worth
        many;
        for kernels and more than 20 columns. "decided" is the problem of the decided points alone, beside the lift of
        all, for whatever has no lift. "auto" takes the first that fits.
    n_jobs : int or None
        Parts of the tree of branch and bound at once, as in scikit-learn: None is one unless `joblib.parallel_config`
        says otherwise, −1 as many as there are processors. The proof is one of the whole tree.
    """

    name: ClassVar[str] = "exact"
    summary: ClassVar[str] = "enumeration, or branch and bound over lifts, with a proof"
    by_label: ClassVar[bool] = True
    bound: ClassVar[str] = "equals the value at the end"
    most_clusters: ClassVar[float] = math.inf
    polishes: ClassVar[bool] = False  # its own search does

    max_components: int = integers(1).option(18)
    method: str = "auto"
    tol: float | None = numbers(most=1.0).or_none().option(None)
    starts: int = integers(0).option(3)
    max_nodes: int | None = integers(1).or_none().option(None)
    nodes: str = "auto"
    n_jobs: int | None = field(default=None, repr=False)  # another number goes on from a checkpoint
    polish: str | bool = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "method", ("auto", "enumeration", "branching"))
        check_choice(self, "nodes", ("auto", *OBSTACLES))
        check_jobs(self.n_jobs)

    @classmethod
    def priority(cls, program: MarginProgram) -> float:
        size = np.count_nonzero(program.labels.free) * np.log2(program.clusters) + 2 * np.log2(program.clusters - 1)
        if size <= EXACT_COMPONENTS:
            return 90.0
        soon = 2 * program.losses.rows <= MOST_INSIDE and program.labels.count <= max(SHORT.values())[0]
        return 88.0 if soon and program.labels.count <= SHORT.get(cls()._nodes(program)[0], (0, 0))[0] else 0.0

    @classmethod
    def chosen(cls, program: MarginProgram) -> Exact:
        """Return what enumerates, or grows the tree for some seconds."""
        nodes = cls()._nodes(program)[0]
        return cls(max_nodes=max(10, SHORT[nodes][1] // program.n) if nodes in SHORT else None)

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        if (refusal := refuse_rising(program)) is not None:
            return refusal
        free = int(program.labels.free.sum())
        if not self._branches(program):
            return Offer(f"{program.clusters}^{free} labellings, pruned") if self._enumerates(program) else Refusal(
                f"{free} label components are free, which makes {program.clusters}^{free} labellings; 'exact' "
                f"enumerates at most 2^{self.max_components}",
                "Add links or known labels, take fewer points, raise md.Exact(max_components=...), use "
                "md.Exact(method='branching'), or use 'minimax'")
        nodes, obstacle = self._nodes(program)
        if obstacle is not None:
            return Refusal(f"nodes={nodes!r}: {obstacle}", "Use md.Exact(nodes='auto')")
        reason = joint_obstacle(program) if nodes == "decided" and self.nodes == "auto" else None
        bounded = {"weights": f"P of order {program.features.rank}", "joint": "nodes bounded by the lift with its cuts",
                   "decided": f"nodes bounded by decided points alone{f', for {reason}' if reason else ''}"}[nodes]
        return Offer(f"branch and bound over {free} components, {bounded}")

    def lower(self, program: MarginProgram) -> Form:
        labels, nodes = program.labels, self._nodes(program)[0]
        if self._branches(program) and nodes == "weights":
            return LiftedNodes(program).form(np.asarray(labels.pinned))
        if self._branches(program) and nodes == "joint":
            return cut_lift(program)
        form: Form = program.fix_labels(labels.any_member())
        return form

    def _nodes(self, program: MarginProgram) -> tuple[str, str | None]:
        """Return what bounds nodes, and why it does not."""
        if self.nodes != "auto":
            return self.nodes, OBSTACLES[self.nodes](program)
        fits = [name for name, obstacle in OBSTACLES.items() if obstacle(program) is None]
        few = program.features.rank <= FEW and not cut_lift(program).absorbed.any()
        return fits[len(fits) == len(OBSTACLES) and not few], None

    def default_solver(self, form: object) -> str:
        return {BranchNodeForm: "node-newton", LiftForm: "interior"}.get(type(form), "newton")

    def run(self, run: Run) -> Outcome:
        if self._branches(run.program):
            return self._branch(run)
        exact_run = self._apart(run)
        try:
            for labels in starting_labels(exact_run, self.starts) if self.starts else ():
                search(exact_run, alternate(exact_run, labels))
            done = enumerate_labels(exact_run, tol=max(min(run.budget.tol, 1e-6), 1e-9))
        finally:  # also where the solver fails on the way
            run.best, run.fits = exact_run.best, exact_run.fits
        bound = done.certificate.bound if done.certificate else -np.inf
        message = "" if done.status is not Status.INACCURATE else (
            f"{name_of(run.solver)} left a gap between values and dual points of single labellings")
        return Outcome(done.status, answer=done.fit, certificate=done.certificate, estimate=bound, message=message)

    def _enumerates(self, program: MarginProgram) -> bool:
        return int(program.labels.free.sum()) * np.log2(program.clusters) <= self.max_components

    def _branches(self, program: MarginProgram) -> bool:
        if program.weight_bounds or not program.bias.is_finite or not program.kind.is_linear:
            return True
        return self.method == "branching" or (self.method == "auto" and not self._enumerates(program))

    def _branch(self, run: Run) -> Outcome:
        program, (nodes, _) = run.program, self._nodes(run.program)
        apart, state = self._apart(run) if nodes == "decided" else run, run.resume(STAGE)
        # labels say where better ones are if some are known; else the search waits for a bound, which may close first
        early = nodes == "decided" or not program.labels.free.all()

        def improve(candidates: list[IntArray], bound: float, is_relaxed: bool = True) -> None:
            if self.starts and candidates:
                with run.stage("incumbent"), apart.share(0.6):
                    polish(apart, candidates, "auto", bound=bound, is_relaxed=is_relaxed)

        try:
            if state is None and self.starts:
                improve(starting_labels(apart, self.starts), program.losses.least_value() if early else -np.inf, False)
            tree, whole, start, rounded = self._root(run, state) if nodes == "joint" else (
                (LiftedNodes if nodes == "weights" else PartialNodes)(program), None, None, [])
            if whole is not None and not early:
                improve(rounded, whole.bound)
            soon = self._enumerates(program) or (nodes == "weights" and program.kind.absorbs_labels)
            late = nodes != "joint" and soon and bool(SDP().offer(program))
            if (nodes == "joint" and state is not None) or (nodes != "joint" and not soon):  # no root proved this here
                run.best = apart.best
                whole = SDP().beside(run, better=True)
            tol = max(run.budget.tol, FINEST) if self.tol is None else self.tol
            branching = Branching(apart, tol, tree, start, self.n_jobs, self.max_nodes)

            def go(share: float) -> tuple[Certificate, Status, str]:
                with apart.share(share):
                    return branching.go(rounded if self.starts else None)

            proof, status, words = go(EARLY if late else 1.0)
            assert apart.best is not None
            if late and status is Status.TIME_LIMIT and (
                    state is not None or apart.best.value - proof.bound < FAR * abs(apart.best.value)):
                proof, status, words = go(1.0 - LIFT_SHARE)
            if (late or status is Status.CONVERGED) and status is not Status.OPTIMAL and not early:
                improve([apart.best.labels, *rounded], proof.bound)
            if late and status is not Status.OPTIMAL:
                run.best = apart.best
                spared = proof.work(program.n, program.features.rank) / speed() / run.budget.remaining
                try:
                    whole = SDP().beside(run, max(0.5, 1.0 - spared), better=True)
                except KeyboardInterrupt as end:  # what the tree has proved is kept
                    status, words = run.ended_by(end), ""
                if whole is not None and whole.bound >= branching.target:
                    status, words = Status.OPTIMAL, ""
                elif status is Status.TIME_LIMIT:  # what the lift leaves
                    proof, status, words = go(1.0)
        finally:  # also where the solver fails on the way
            run.best, run.fits = apart.best, apart.fits
        proof = whole if whole is not None and whole.bound > proof.bound else proof
        return Outcome(status, answer=run.best, certificate=proof, estimate=proof.bound, message=words)

    @staticmethod
    def _root(run: Run, state: State | None
              ) -> tuple[NodeBounds, Certificate | None, RawSolution | None, list[IntArray]]:
        """Return nodes with the cuts of the first one, what it proves, where nodes begin, and its labels rounded."""
        form = cut_lift(run.program)
        if state is not None:
            cuts = Cuts(*(state[f"cuts {f.name}"] for f in fields(Cuts)))
            tree = JointNodes(run.program, replace(form, cuts=cuts), known=run.known, outer=state["outer"])
            return tree, None, None, []
        tree = JointNodes(run.program, form, known=run.known)
        tree = replace(tree, outer=outer_duals(tree))
        inner = decided_duals(run, tree, root := np.asarray(run.program.labels.pinned))
        with run.share(ROOT_SHARE):
            run.budget = run.budget.replace(max_iter=None)  # which counts nodes
            raw, proof = SDP().solve_lift(run, form := tree.form(root, inner))
        if proof is not None:
            proof = replace(proof, arrays=proof.arrays | tree.bounding_duals(inner))
        if (reached := raw.get("reached")) is None:
            return tree, proof, None, []
        rounded = round_vectors(run, form.vectors(raw["V"], raw["W"]), int(SDP().rounding))
        cuts = reached.form.cuts  # those that bear most
        share = np.asarray(raw["gamma"]) / np.maximum(cuts.values(raw["V"]) - cuts.least, 1e-9)
        kept = replace(tree.lift, cuts=cuts.take(np.sort(np.argsort(-share)[:CUTS * tree.lift.count])))
        return replace(tree, lift=kept), proof, replace(raw, variables={"reached": reached}), rounded

    @staticmethod
    def _apart(run: Run) -> Run:
        """Return a run whose fixed-label problems the chosen solver takes."""
        other = Run(run.program, run.solver, run.solver, run.budget, run.rng, run.starts, checkpoint=run.checkpoint,
                    late_solver=run.fixed_solver)
        other.history, other.seconds = run.history, run.seconds
        return other


def refuse_rising(program: MarginProgram) -> Refusal | None:
    """Return why no dual point bounds a program even at fixed labels, None when one does."""
    refusal = refuse_split(program)
    if refusal is not None or program.is_convex:
        return refusal
    return Refusal("a loss that rises leaves a problem in Crammer-Singer margins that is not convex even at fixed "
                   "labels, so that no dual point proves its value: rho(f_y - max f_q) is convex only where rho falls",
                   "Use md.margin(y, f, coding='simplex'), or a loss that falls such as md.hinge")


def joint_obstacle(program: MarginProgram) -> str | None:
    """Return why the lift of labels and weights does not bound nodes, or None when it does."""
    if program.gauge is not None:
        return UNSQUARED
    if program.clusters > 2:
        return "a node of several clusters has no contraction"
    if program.losses.is_turned:
        return "losses by label hold no weights in a ball"
    if not all(bound.is_symmetric for bound in program.decision):
        return "the lift has bounds on decision values only with equal limits on both sides"
    if isinstance(offer := SDP().offer(program), Refusal):
        return offer.reason
    many = (form := cut_lift(program)).multipliers + int(form.absorbed.sum())  # with first moments
    return None if many <= MULTIPLIERS else f"the lift has {many} multipliers, above {MULTIPLIERS}"


def lift_obstacle(program: MarginProgram) -> str | None:
    """Return why the lifted weights do not bound the nodes of a program, or None when they do."""
    if program.gauge is not None:
        return UNSQUARED
    if program.is_biased and not program.kind.absorbs_labels:
        return "the lift has a bias of two clusters alone"
    if program.losses.is_turned:
        return "the lift absorbs signs of margins"
    if program.weight_bounds or not program.bias.is_finite or (program.is_biased and not program.bias.width):
        return "the lift has bounds on decision values only where they hold a free bias within limits"
    if program.features.rank > LARGEST_RANK:
        return f"the features have rank {program.features.rank}, above {LARGEST_RANK}"
    try:
        PointLosses.build(program.bounding.losses)
        PointLosses.build(absorbed_envelopes(program.kind.by_length(program)))
    except CalculusError as error:
        return str(error)
    return None


OBSTACLES = {"weights": lift_obstacle, "joint": joint_obstacle, "decided": lambda program: None}
