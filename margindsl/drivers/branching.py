"""Branch and bound over component signs or clusters, bounded by lifts or by the decided points alone."""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from margindsl.contract import Budget, RawSolution, Status
from margindsl.drivers.alternation import alternate, best_labels
from margindsl.drivers.checkpoint import State
from margindsl.drivers.guard import Guarded, unanswered
from margindsl.drivers.rounding import polish
from margindsl.drivers.run import Run
from margindsl.drivers.search import repeated, search
from margindsl.errors import UnansweredError
from margindsl.host.clock import speed
from margindsl.host.parallel import count_jobs, share_out
from margindsl.host.threads import small_work_threads
from margindsl.labelset.forcing import Path
from margindsl.program.certificates import Certificate
from margindsl.program.losses import Losses
from margindsl.program.nodes import JointNodes, LiftedNodes, NodeBounds, PartialNodes, balls, unknown
from margindsl.typing import FloatArray, IntArray

NODE_SHARE = 0.1  # accuracy of a node, as a share of the gap asked for
LOOSE, LARGEST_STARTS = 0.1, 5e7  # the same of the node's own gap; numbers in starts that are kept for children
JAMMED = 16  # steps from where the parent was, after which a node begins anew: that takes 12 to 18
FINEST = 1e-7  # relative gap below which node bounds drown in rounding
ROUGH = 1e-2  # relative accuracy to which a node of decided points is solved that is below the target anyway
LARGEST_REACH = 2e8  # products a Newton step up to which it is looked how far each decision value reaches
REACH_STEPS, WIDTH = (8, 6, 3, 3, 3), 0.1  # of a value of λ each; over which derivatives are averaged
HOPEFUL = 0.2  # a rounded labelling is fitted when its value is within this share of the incumbent's
STAGE = "branch and bound"
EVERY = 10  # nodes between two lines of the history, and that a part of the tree grows by
PARTS = 2  # a job and round
SEARCHED = {JointNodes: 40, LiftedNodes: 100, PartialNodes: 1000}  # nodes before a search, 4 times as many each time


@dataclass(order=True)
class Node:
    """Represent one end of the tree with a dual point (see `NodeBounds`); they are ordered by bound, then by age."""

    bound: float  # certified, inherited from the parent until it is solved itself
    age: int
    path: Path = field(compare=False)  # of (component, sign or cluster), in the order in which they were decided
    u: FloatArray = field(compare=False)
    rest: FloatArray = field(compare=False)
    start: RawSolution | None = field(compare=False, default=None)  # the parent's solution


@dataclass(frozen=True, eq=False)
class Met:
    """Represent what a solved node knows of the labels: a hyperplane, and what components are charged already."""

    node: Node  # with the better of its inherited and its own bound
    raw: RawSolution | None  # the start of its children
    w: FloatArray  # (r,)
    bias: FloatArray | float  # (k,)
    scalars: FloatArray  # (S,)
    charged: FloatArray | float = 0.0  # (N,) losses in the node's problem
    score: FloatArray | None = None  # (N,) what deciding one may raise the bound by, where that is known better


class Branching:
    """Run branch and bound, best bound first.

    `run`: its solver takes lifted nodes, its fixed solver labellings and nodes of decided points; `tol`: relative gap
    to certify; `bounds`: of nodes; `root`: where the first one begins from; `n_jobs`: parts that grow at once;
    `most`: nodes after which it has converged.
    """

    def __init__(self, run: Run, tol: float, bounds: NodeBounds, root: RawSolution | None = None,
                 n_jobs: int | None = 1, most: int | None = None) -> None:
        self.run, self.tol, self.bounds, self.root, self.n_jobs, self.most = run, tol, bounds, root, n_jobs, most
        self.meet = {LiftedNodes: self._lifted, PartialNodes: self._partial, JointNodes: self._joint}[type(bounds)]
        self.labels, leaf = run.program.labels, Certificate(0.0, kind=bounds.kind, arrays=bounds.case(*bounds.zero))
        self.judged = leaf.work(run.program.n, run.program.features.rank) / speed()  # seconds to check a leaf
        self.closed: list[Node] = []
        self.open: list[Node] = []
        self.seen: set[bytes] = set()
        self.solved, self.due = 0, SEARCHED[type(bounds)]  # nodes, and those after which labels are searched for
        self.begun = 0  # nodes of an earlier solve
        self.age = 0
        self.lowest = np.inf  # smallest bound of closed nodes
        self.beside = 0  # open nodes of other parts of the tree

    # -- loop ---------------------------------------------------------------------------------------

    def go(self, candidates: Sequence[IntArray] | None = None) -> tuple[Certificate, Status, str]:
        """Branch until the gap is certified, the time is up or the callback stops it; return the tree as a proof.

        Better labels are searched for after `SEARCHED` nodes, from `candidates` too; never where these are None. Called
        again it goes on.
        """
        if self.run.best is None:
            self.run.fit(self.labels.any_member())
        if not (self.closed or self.open):
            if (state := self.run.resume(STAGE)) is not None:
                self.restore(state)
            else:
                u, rest = self.bounds.zero
                self._push(self._value_of((), u, rest), (), u, rest, self.root)
            self.begun = self.solved
        status, message = self.grow(candidates)
        assert self.run.best is not None
        leaves, bound = [*self.closed, *self.open], min(self.bound, self.run.best.value)
        if status is Status.OPTIMAL and bound < self.target - 1e-12 * abs(self.target):
            status = Status.INACCURATE
        # a case each leaf, whose path names the first points of what it decides
        paths = np.zeros((len(leaves), max(len(leaf.path) for leaf in leaves)), dtype=int)
        for row, leaf in zip(paths, leaves):
            row[: len(leaf.path)] = self.labels.steps(leaf.path)
        cases = [self.bounds.case(leaf.u, leaf.rest) for leaf in leaves]
        arrays = {name: np.concatenate([case[name] for case in cases]) if name in Certificate.UNITS and
                  name != "outer" else x for name, x in cases[0].items()}
        words = f"branch and bound tree with {len(leaves)} leaves, a dual point each"
        return (Certificate(bound, kind=self.bounds.kind, arrays={**arrays, "paths": paths}, words=words), status,
                message or f"{self.solved} nodes, {len(leaves)} leaves")

    def grow(self, candidates: Sequence[IntArray] | None = None) -> tuple[Status, str]:
        """Solve open nodes until none is left below the target or a limit is met; return how it ended, in words too.

        Where there are open nodes for all jobs, each takes its share of the lowest and grows it by itself, a few nodes
        far: what is left to do is the same in whatever order, so that all but the last round is well spent.
        """
        assert self.run.best is not None
        budget, jobs = self.run.budget, count_jobs(self.n_jobs)
        incumbent, most = budget.incumbent, np.inf if budget.max_iter is None else self.begun + budget.max_iter
        enough = np.inf if self.most is None else self.most
        try:
            while self.open and self.open[0].bound < self.target:
                self.run.keep(STAGE, self.state)
                if budget.remaining <= self.judged * (len(self.closed) + len(self.open)):
                    return Status.TIME_LIMIT, ""
                before, left = self.solved, min(most, enough) - self.solved
                if left <= 0:
                    return Status.CONVERGED if enough < most else Status.ITERATION_LIMIT, ""
                parts = min(PARTS * jobs, len(self.open))
                if 1 < jobs <= parts and left >= parts * EVERY:
                    self._share_out(parts)
                else:
                    self._expand(self.open[0])
                if candidates is not None and self.open and self.solved >= self.due:
                    self.due *= 4
                    with self.run.stage("incumbent"), self.run.share(0.3):
                        polish(self.run, [self.run.best.labels, *candidates], "auto", bound=self.bound)
                incumbent.bound = max(incumbent.bound, self.run.program.to_user(min(self.bound, self.run.best.value)))
                if (self.solved // EVERY > before // EVERY or not self.open) and self.run.record(
                        STAGE, self.solved, self.run.best.value, self.bound):
                    return Status.INTERRUPTED, ""
        except KeyboardInterrupt as end:
            return self.run.ended_by(end), ""
        except UnansweredError as error:  # the node it failed at is still open
            return self.run.stopped or Status.FAILED, error.words
        return Status.OPTIMAL, ""

    def _share_out(self, count: int) -> None:
        """Let parts of the tree grow from the lowest open nodes, and put what they leave in the place of these."""
        run, tasks, found = self.run, [], dict[int, Any]()
        lowest = heapq.nsmallest(count * EVERY, self.open)
        shares = [lowest[number::count] for number in range(count)]
        for share, seed in zip(shares, run.rng.integers(1 << 32, size=count).tolist()):
            own = Run(run.program, run.solver, run.fixed_solver, Budget(tol=run.budget.tol, max_iter=EVERY),
                      np.random.default_rng(seed), late_solver=run.late_solver)
            own.best = run.best
            part = Branching(own, self.tol, replace(self.bounds, known=own.known))
            part.age, part.beside = self.age, len(self.open) - len(share)
            tasks.append((part, share, time.time() + run.budget.remaining))
        try:
            share_out(grown, tasks, found.__setitem__, self.n_jobs)
        finally:  # of Ctrl-C: what is finished is kept, and the nodes of the others are open
            for number in sorted(found):
                closed, left, best, solved = found[number]
                run.hold(best)
                self.closed, self.solved = [*self.closed, *closed], self.solved + solved
                self.lowest = min([self.lowest, *(node.bound for node in closed)])
                for node in left:
                    self._push(node.bound, node.path, node.u, node.rest, node.start)
            gone = {node.age for number in found for node in shares[number]}
            self.open = [node for node in self.open if node.age not in gone]
            heapq.heapify(self.open)

    def state(self) -> State:
        """Return the tree as arrays: decisions of its nodes one after another, dual points, bounds."""
        nodes = [*self.closed, *self.open]
        decisions = [step for node in nodes for step in node.path]
        return self.bounds.kept() | {
            "lengths": np.array([len(node.path) for node in nodes]),
            "decisions": np.array(decisions, dtype=np.int64).reshape(-1, 2),
            "u": np.stack([node.u for node in nodes]), "rest": np.stack([node.rest for node in nodes]),
            "bounds": np.array([node.bound for node in nodes]), "ages": np.array([node.age for node in nodes]),
            "closed": np.array(len(self.closed)), "solved": np.array(self.solved), "age": np.array(self.age)}

    def restore(self, state: State) -> None:
        """Go on from a tree, its bounds computed anew; that it leaves out no labelling is for the judge to see."""
        ends = np.cumsum(state["lengths"])
        paths = [tuple((int(c), int(s)) for c, s in part) for part in np.split(state["decisions"], ends[:-1])]
        nodes = [Node(min(float(bound), self._value_of(*leaf)), int(age), *leaf) for bound, age, *leaf in zip(
            state["bounds"], state["ages"], paths, state["u"], state["rest"])]
        closed = int(state["closed"])
        again = [node for node in nodes[:closed] if node.bound < self.target]  # of a tolerance that was greater
        self.closed, self.open = [node for node in nodes[:closed] if node.bound >= self.target], nodes[closed:] + again
        heapq.heapify(self.open)
        self.lowest = min((node.bound for node in self.closed), default=np.inf)
        self.solved, self.age = int(state["solved"]), int(state["age"])

    def below(self, share: float) -> float:
        """Return the value that is less than the best one by a share of the tolerance, relative with its constant."""
        assert self.run.best is not None
        value, program = self.run.best.value, self.run.program
        size = abs(value + program.constant / program.scale)
        return value - share * max(self.tol * size, min(self.tol, FINEST) * abs(value))

    @property
    def target(self) -> float:
        """Return the bound at which a node is closed."""
        return self.below(1.0)

    @property
    def ceiling(self) -> float:
        """Return the value above which a node is closed, whatever is lost when its bound is recomputed."""
        return self.below(0.5)

    @property
    def bound(self) -> float:
        """Return the certified bound of the whole tree."""
        return min([self.lowest, *(node.bound for node in self.open[:1])])

    def _expand(self, node: Node) -> None:
        """Solve the first open node, then close it or put its children in its place.

        It goes last, so that Ctrl-C tears no hole into the tree: it is still the first, as no child is lower, or older.
        """
        z = self.labels.implied(node.path)
        if z is None:
            solved, raw, component = replace(node, bound=np.inf), None, None
        else:
            solved, raw, component = self._solve(node, z)
        if solved.bound >= self.target or component is None:
            self.closed.append(replace(solved, start=None))
            self.lowest = min(self.lowest, solved.bound)
        else:
            for value in self.bounds.branches(solved.path):
                path = (*solved.path, (component, value))
                if z is not None and (below := self.labels.implied(path)) is not None:
                    self._push(solved.bound, path, self.bounds.inherited(z, below, solved.u), solved.rest, raw)
        heapq.heappop(self.open)

    def _solve(self, node: Node, z: IntArray) -> tuple[Node, RawSolution | None, int | None]:
        """Return the node with the better of its inherited and its own bound, and the component to branch on."""
        self.solved += 1
        if np.all(z >= 0):
            return self._settle(node, z), None, None
        met = self.meet(node, z)
        if met.node.bound >= self.target:
            return met.node, met.raw, None
        (decision, labels), score, program = self._round(met), met.score, self.run.program
        if score is None:  # by how much the loss at the best labels exceeds the charge
            table = program.kind.margin_table(decision)
            costs = self.labels.by_components(program.losses.cluster_costs(table, met.scalars))
            score = costs[np.arange(self.labels.count), self.labels.contract(labels)] - met.charged
        return met.node, met.raw, int(np.argmax(np.where(z >= 0, -np.inf, score)))

    def _lifted(self, node: Node, z: IntArray) -> Met:
        """Solve the lift of a node."""
        run, bounds = self.run, self.bounds
        assert run.best is not None and isinstance(bounds, LiftedNodes)
        form = bounds.form(z, target=self.target, accuracy=NODE_SHARE * (run.best.value - self.target))
        raw = run.solve(form, node.start, max_iter=None)
        if not raw.has_answer:
            raise unanswered(run.solver, raw, "at a node")
        rest = bounds.rest(np.asarray(raw["a"]), float(raw["eta"]), float(raw["tau"]))
        solved = self._better(node, z, np.asarray(raw["u"]), rest)
        charged = bounds.absorbed.value(np.sqrt(np.maximum(np.asarray(raw["z"]), 0.0)))
        w, size = np.asarray(raw["w"]), run.program.size_of_w
        return Met(solved, raw, w[:size], float(w[size:].sum()), np.zeros(0), np.bincount(
            np.asarray(self.labels.component), charged, self.labels.count))

    def _joint(self, node: Node, z: IntArray) -> Met:
        """Solve the contracted lift of a node, as far as a share of what it is to prove."""
        run, bounds = self.run, self.bounds
        assert run.best is not None and isinstance(bounds, JointNodes)
        size, r = max(abs(run.best.value), 1e-300), run.program.features.rank
        open_gap = min(0.3, np.any(z < 0) * (run.best.value - node.bound) / size)
        tol = max(NODE_SHARE * (run.best.value - self.target) / size, LOOSE * float(open_gap))
        # 1. what the decided points prove alone; then all of them, inside the ball of the weights of better labels
        inner = decided_duals(run, bounds, z, min(tol, ROUGH))
        solved = node
        if balls(bounds.contraction(z)[0], inner[None])[0] > node.bound:
            solved = self._better(node, z, *bounds.repaired(z, bounds.of_decided(z, inner)))
        if solved.bound >= self.target:
            return Met(solved, None, np.zeros(r), 0.0, np.zeros(run.program.losses.scalars.count))
        form, start = bounds.form(z, inner), node.start
        for most in (None,) if start is None else (JAMMED, None):
            raw = run.solve(form, start, tol=tol, cutoff=self.ceiling, max_iter=most)
            if "V" in raw.variables:
                solved = self._better(solved, z, *bounds.repaired(z, {**raw.variables, "inner": inner}))
            if raw.status not in (Status.ITERATION_LIMIT, Status.INACCURATE) and "V" in raw.variables:
                break
            start = None
        if "V" not in raw.variables:
            if run.stopped or not node.path:
                raise unanswered(run.solver, raw, "at a node")
            return Met(solved, None, np.zeros(r), 0.0, np.zeros(run.program.losses.scalars.count))
        # 2. the weights, if the label that is known best is as it is: the reference's, or the one that matters most
        V, W, d = (np.asarray(raw[name]) for name in ("V", "W", "d"))
        at = int(np.argmax(d)) if form.reference is None else form.reference
        w, products = W @ V[at], V @ V[at]
        # 3. components by their multipliers, unless their sign is plain; alone by what the lift leaves of their loss
        first = np.unique(form.component, return_index=True)[1]
        own, score = np.arange(form.count) != form.reference, np.full(self.labels.count, -np.inf)
        plain = np.maximum(d, 0.0) * (1.0 - np.minimum(np.abs(products), 1.0))
        plain[at] = np.inf if form.reference is None else plain[at]
        component, losses, f = np.asarray(self.labels.component), form.losses, form.outputs(w[:, None])[:, 0]
        held = first[form.component[first] >= 0]
        score[component[held]] = np.where(own, plain, -np.inf)[form.component[held]]
        if np.any(form.absorbed):
            u, q, x = np.asarray(raw["u"]), np.asarray(raw["q"]), losses.slopes * f[losses.points]
            squares = losses.slopes**2 * np.sum(form.outputs(W)**2, axis=1)[losses.points]
            best = np.minimum(*(np.bincount(losses.points, losses.row_losses(side * x + losses.shifts), form.n)
                                for side in (-1, 1)))
            charge = form.least(u, q) - np.where(form.even, u * x, 0.0) + q * squares
            charged = np.bincount(losses.points, charge, form.n)
            score[component[form.absorbed]] = (best - charged)[form.absorbed]
        kept = "reached" in raw.variables and form.n * form.order * (len(self.open) + self.beside) < LARGEST_STARTS
        start = replace(raw, variables={"reached": raw["reached"]}) if kept else None
        return Met(solved, start, w[:r], float(w[r:].sum()), np.asarray(raw.get("scalars", np.zeros(
            run.program.losses.scalars.count))), score=score)

    def _partial(self, node: Node, z: IntArray) -> Met:
        """Solve the problem of a node's decided points as far as it takes to tell on which side of the target it is.

        Too few points, and open ones whose losses have no least value, leave nothing to be told.
        """
        program, bounds, raw = self.run.program, self.bounds, RawSolution(Status.UNBOUNDED)
        assert isinstance(bounds, PartialNodes)
        if (ceiling := self.ceiling - bounds.least(z)) < np.inf:
            form = bounds.form(z)
            guarded, budget = Guarded(self.run.fixed_solver), self.run.budget.replace(
                tol=ROUGH, max_iter=None, callback=None, cutoff=ceiling)
            raw = guarded.solve(form, budget, node.start, is_judged=False)
            if raw.status is Status.OPTIMAL and raw.objective >= ceiling:
                raw = guarded.solve(form, budget.replace(tol=max(0.01 * self.tol, 1e-12)), raw, is_judged=False)
        if not raw.has_answer:
            return Met(node, None, np.zeros(program.size_of_w), 0.0, np.zeros(program.losses.scalars.count))
        solved = self._better(node, z, *bounds.repaired(z, raw.variables))
        return Met(solved, raw, np.asarray(raw["w"]), *bounds.form(z).plane(raw.variables))

    def _settle(self, node: Node, z: IntArray) -> Node:
        """Return a node without free components, bounded by the dual of its fixed-label problem."""
        labels, tol = self.labels.at_points(z), max(0.01 * self.tol, 1e-12)
        if isinstance(self.bounds, JointNodes):
            raw = self.run.fit(labels, self.run.best, tol=tol, cutoff=self.ceiling).raw
            inner = self.bounds.inner(z, raw.variables)
            if inner.any():  # what the labels prove by themselves, before a lift is asked
                node = self._better(node, z, *self.bounds.repaired(
                    z, self.bounds.of_decided(z, inner, raw.variables.get("tau"))))
            return node if node.bound >= self.target else self._joint(node, z).node
        for cutoff in (self.ceiling, np.inf):  # a dual point may be worth less once it pays for scalars
            fit = self.run.fit(labels, self.run.best, tol=tol, cutoff=cutoff)
            node = self._better(node, z, *self.bounds.repaired(z, fit.raw.variables))
            if node.bound >= self.target or fit.raw.status is not Status.CONVERGED:
                break
        return node

    def _better(self, node: Node, z: IntArray, u: FloatArray, rest: FloatArray) -> Node:
        value = self.bounds.value(z, u, rest)
        return replace(node, bound=value, u=u, rest=rest) if value > node.bound else node

    def _value_of(self, path: Path, u: FloatArray, rest: FloatArray) -> float:
        z = self.labels.implied(path)
        return float("inf") if z is None else self.bounds.value(z, u, rest)

    # -- incumbents and decisions -------------------------------------------------------------------

    def _round(self, met: Met) -> tuple[FloatArray, IntArray]:
        """Return decision values and their best labels, fitted when new and promising; polish an improvement."""
        run, program = self.run, self.run.program
        assert run.best is not None
        decision = program.fix_labels(run.best.labels).outputs(met.w, met.bias)
        labels = self.labels.maximise(program.gains(decision, met.scalars))
        key = np.asarray(labels, dtype=np.int8).tobytes()
        size = 0.5 * float(met.w @ met.w)
        losses = program.losses.with_labels(2.0 * labels - 1)
        value = size + losses.value(program.margins(labels, decision), met.scalars)
        if key in self.seen or value > run.best.value + HOPEFUL * abs(run.best.value):
            return decision, labels
        self.seen.add(key)
        before = run.best.value
        fit = run.fit(labels, run.best)
        if fit.value < before - 1e-9 * abs(before):
            search(run, alternate(run, best_labels(run, fit)))
        return decision, labels

    # -- bookkeeping --------------------------------------------------------------------------------

    def _push(self, bound: float, *leaf: Any) -> None:
        self.age += 1
        heapq.heappush(self.open, Node(bound, self.age, *leaf))


def grown(part: Branching, share: list[Node], end: float) -> tuple[Any, ...]:
    """Return what growing a part of a tree leaves: closed and open nodes, the best fit, and the number solved."""
    run, part.open = part.run, sorted(share)
    run.budget = replace(Budget.within(end - time.time()), tol=run.budget.tol, max_iter=run.budget.max_iter)
    with small_work_threads(run.program.n * run.program.features.rank**2), run.budget.limit(1.0):
        status, message = part.grow()
    if status is Status.FAILED:
        raise UnansweredError(message)
    return part.closed, part.open, run.best, part.solved


def decided_duals(run: Run, nodes: JointNodes, z: IntArray, tol: float = ROUGH) -> FloatArray:
    """Return duals (m,) of a node's decided points, which say where its weights are, and of linear losses elsewhere."""
    if not nodes.program.is_held or np.all(z < 0):
        return nodes.lift.losses.held
    form = nodes.decided.form(z)
    raw = Guarded(run.fixed_solver).solve(form, run.budget.replace(tol=tol, max_iter=None, callback=None),
                                                is_judged=False)
    return nodes.inner(z, raw.variables)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def outer_duals(nodes: JointNodes) -> FloatArray:
    """Return duals (b, m) of the points whose labels are known, which say how far decision values reach.

    Of weights with ½|w|² + Σcρ, over the known, no more than the value of the best labels those at which ±φᵀw is least,
    by their multipliers λ: there ½|w|² + Σcρ ± λφᵀw is least. Newton's method takes all at once, in the known's span.
    """
    # 1. The known points alone, margins A w; directions G in their span, and the squares of what is beside it
    labels, source = nodes.program.labels, nodes.program.source  # proofs know given labels, not forced ones
    form = nodes.contraction(np.asarray(labels.pinned))[0]
    value = nodes.known() + 0.5 * float(np.sum(unknown(form)**2))  # which open labels may gain
    of, own, seen = form.losses, np.flatnonzero(form.decided), form.decided[form.losses.points] != 0
    given = labels.component[source.known[0]] if source is not None and source.labels.n == form.n else labels.component
    r = min(len(own), int(form.features.rank)) * bool(np.all(np.isin(np.flatnonzero(~labels.free), given)))
    bounded = nodes.program.is_held and np.isfinite(value) and r and form.features.row_norms().any()
    if not bounded or form.n * max(len(own), r) * r**2 > LARGEST_REACH:
        return np.zeros((0, of.rows))
    phi = np.asarray(form.features.toarray())
    basis = np.eye(r) if r == form.features.rank else np.linalg.qr(phi[own].T)[0]
    A, G = form.decided[own, None] * (phi[own] @ basis), np.vstack([phi, -phi])[np.tile(phi.any(axis=1), 2)]
    squares, G, count = np.sum(G**2, axis=1), G @ basis, len(G)
    beside = np.maximum(squares - np.sum(G**2, axis=1), 0.0)
    terms = (replace(term, points=np.searchsorted(own, term.points)) for term in of.only(seen).terms)
    losses = repeated(Losses(len(own), tuple(terms)), count)
    products = (A[:, :, None] * A[:, None]).reshape(len(A), -1)
    # 2. Weights of each direction, λ from their values
    W, tilt, far = np.zeros((count, r)), np.zeros_like(G), np.zeros(count)
    for steps in REACH_STEPS:
        step, length, least = np.zeros_like(W), np.ones(count), np.full(count, np.inf)
        for _ in range(steps + 1):
            trial = W + length[:, None] * step
            each = losses.row_losses(losses.arguments((trial @ A.T).ravel()))
            new = np.sum((0.5 * trial + tilt) * trial, axis=1) + each.reshape(count, -1).sum(axis=1)
            lower = new < least
            W, least = np.where(lower[:, None], trial, W), np.where(lower, new, least)
            length, v = np.where(lower, 1.0, 0.3 * length), losses.arguments((W @ A.T).ravel())
            (_, falls), (_, rises) = (losses.values_and_derivatives(v + side) for side in (-WIDTH, WIDTH))
            slope, bend = (falls + rises) / 2, (rises - falls) / (2 * WIDTH) * losses.slopes**2
            bend = np.bincount(losses.points, bend, losses.n).reshape(count, -1)
            H = (bend @ products).reshape(count, r, r) + np.eye(r)
            step = -np.linalg.solve(H, (W + tilt + losses.scatter(slope).reshape(count, -1) @ A)[..., None])[..., 0]
        reached = least - np.sum(tilt * W, axis=1)
        if not far.any():
            rest, lowest = max(value - float(reached[0]), 1e-6 * abs(value)), float(reached[0])
            far = np.sqrt(2 * rest / (beside + np.sum(G * np.linalg.solve(H[0], G.T).T, axis=1)))
        else:
            far *= np.clip(np.sqrt(rest / np.maximum(reached + 0.5 * far**2 * beside - lowest, 1e-300)), 0.2, 5.0)
        tilt = far[:, None] * G
    out = np.zeros((count, of.rows))
    out[:, seen] = -slope.reshape(count, -1)
    out = np.where(of.held == 0, out, of.held)
    return out[np.isfinite(out).all(axis=1)]
