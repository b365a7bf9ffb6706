"""Branch and bound over component signs or clusters, bounded by lifts or by the decided points alone."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from margindsl.contract import RawSolution, Status
from margindsl.drivers.alternation import alternate, best_labels
from margindsl.drivers.checkpoint import State
from margindsl.drivers.guard import Guarded, unanswered
from margindsl.drivers.run import Run
from margindsl.drivers.search import search
from margindsl.errors import UnansweredError
from margindsl.labelset.forcing import Path
from margindsl.program.certificates import Certificate
from margindsl.program.nodes import JointNodes, LiftedNodes, NodeBounds, PartialNodes
from margindsl.program.passes import Answer
from margindsl.typing import FloatArray, IntArray

NODE_SHARE = 0.1  # accuracy of a node, as a share of the gap asked for
LOOSE, LARGEST_STARTS = 0.1, 5e7  # the same of the node's own gap; numbers in starts that are kept for children
JAMMED = 16  # steps from where the parent was, after which a node begins anew: that takes 12 to 18
ROUGH = 1e-2  # relative accuracy to which a node of decided points is solved that is below the target anyway
HOPEFUL = 0.2  # a rounded labelling is fitted when its value is within this share of the incumbent's
STAGE = "branch and bound"
EVERY = 10  # nodes between two lines of the history


@dataclass(frozen=True, eq=False)
class Leaf:
    """Represent one end of the tree: decisions in the order they were taken, and a dual point (see `NodeBounds`)."""

    path: Path  # of (component, sign or cluster)
    u: FloatArray
    rest: FloatArray


@dataclass(order=True)
class Node:
    """Represent an open node; nodes are ordered by their bound, ties by age."""

    bound: float  # certified, inherited from the parent until it is solved itself
    age: int
    leaf: Leaf = field(compare=False)
    start: RawSolution | None = field(compare=False, default=None)  # the parent's solution


@dataclass(frozen=True, eq=False)
class Branched:
    """Represent the end of a branch and bound: best fit, the tree as a certificate, status, nodes solved, words."""

    fit: Answer
    certificate: Certificate
    status: Status
    nodes: int
    message: str = ""


@dataclass(frozen=True, eq=False)
class Met:
    """Represent what a solved node knows of the labels: a hyperplane, and what is charged at every point already.

    Parameters
    ----------
    node : Node
        With the better of its inherited and its own bound.
    raw : RawSolution or None
        The start of its children.
    charged : (n,) float array
        Losses in the node's problem.
    score : (N,) float array, optional
        What deciding a component may raise the bound by, where that is known; else charges say it.
    """

    node: Node
    raw: RawSolution | None
    w: FloatArray  # (r,)
    bias: FloatArray | float  # (k,)
    scalars: FloatArray  # (S,)
    charged: FloatArray
    score: FloatArray | None = None


class Branching:
    """Run branch and bound, best bound first.

    Parameters
    ----------
    run : Run
        `run.solver` solves lifted nodes, `run.fixed_solver` fits labellings and solves partial nodes.
    tol : float
        Relative gap to certify.
    bounds : NodeBounds
        What bounds a node.
    root : RawSolution, optional
        Where the first node begins from.
    """

    def __init__(self, run: Run, tol: float, bounds: NodeBounds, root: RawSolution | None = None) -> None:
        self.run, self.tol, self.bounds, self.root = run, tol, bounds, root
        self.meet = {LiftedNodes: self._lifted, PartialNodes: self._partial, JointNodes: self._joint}[type(bounds)]
        self.labels = run.program.labels
        self.closed: list[Node] = []
        self.open: list[Node] = []
        self.seen: set[bytes] = set()
        self.solved = 0
        self.age = 0
        self.lowest = np.inf  # smallest bound of closed nodes
        self.taken: Node | None = None  # while its children take its place, so that Ctrl-C tears no hole into the tree

    # -- loop ---------------------------------------------------------------------------------------

    def go(self) -> Branched:
        """Branch until the gap is certified, the time is up or the callback stops it."""
        state = self.run.resume(STAGE)
        if self.run.best is None:
            self.run.fit(self.labels.any_member())
        if state is None:
            self._push(-np.inf, Leaf((), *self.bounds.zero), self.root)
            self.open[0].bound = self._value_of(self.open[0].leaf)
        else:
            self.restore(state)
        status, message = Status.OPTIMAL, ""
        assert self.run.best is not None
        try:
            while self.open and self.open[0].bound < self.target:
                self.run.keep(STAGE, self.state)
                if self.run.budget.expired:
                    status = Status.TIME_LIMIT
                    break
                if self.run.budget.max_iter is not None and self.solved >= self.run.budget.max_iter:
                    status = Status.ITERATION_LIMIT
                    break
                node = self.open[0]
                self._expand(node)
                if (self.solved % EVERY == 0 or not self.open) and self.run.record(
                        STAGE, self.solved, self.run.best.value, self.bound):
                    status = Status.INTERRUPTED
                    break
        except KeyboardInterrupt as end:
            status = self.run.ended_by(end)
        except UnansweredError as error:  # the node it failed at is still open
            status, message = self.run.stopped or Status.FAILED, error.words
        return self._finish(status, message)

    def state(self) -> State:
        """Return the tree as arrays: decisions of its nodes one after another, dual points, bounds."""
        nodes = [*self.closed, *self._unsettled()]
        decisions = [step for node in nodes for step in node.leaf.path]
        return self.bounds.kept() | {
            "lengths": np.array([len(node.leaf.path) for node in nodes]),
            "decisions": np.array(decisions, dtype=np.int64).reshape(-1, 2),
            "u": np.stack([node.leaf.u for node in nodes]), "rest": np.stack([node.leaf.rest for node in nodes]),
            "bounds": np.array([node.bound for node in nodes]), "ages": np.array([node.age for node in nodes]),
            "closed": np.array(len(self.closed)), "solved": np.array(self.solved), "age": np.array(self.age)}

    def restore(self, state: State) -> None:
        """Go on from a tree, its bounds computed anew; that it leaves out no labelling is for the judge to see."""
        ends = np.cumsum(state["lengths"])
        paths = [tuple((int(c), int(s)) for c, s in part) for part in np.split(state["decisions"], ends[:-1])]
        leaves = [Leaf(*parts) for parts in zip(paths, state["u"], state["rest"])]
        nodes = [Node(min(float(bound), self._value_of(leaf)), int(age), leaf)
                 for bound, age, leaf in zip(state["bounds"], state["ages"], leaves)]
        closed = int(state["closed"])
        self.closed, self.open = nodes[:closed], nodes[closed:]
        heapq.heapify(self.open)
        self.lowest = min((node.bound for node in self.closed), default=np.inf)
        self.solved, self.age = int(state["solved"]), int(state["age"])

    @property
    def target(self) -> float:
        """Return the bound at which a node is closed."""
        assert self.run.best is not None
        return self.run.best.value - self.tol * abs(self.run.best.value)

    @property
    def ceiling(self) -> float:
        """Return the value above which a node is closed, whatever is lost when its bound is recomputed."""
        assert self.run.best is not None
        return self.run.best.value - 0.5 * self.tol * abs(self.run.best.value)

    @property
    def bound(self) -> float:
        """Return the certified bound of the whole tree."""
        return min([self.lowest, *(node.bound for node in self._unsettled()[:1])])

    def _unsettled(self) -> list[Node]:
        return self.open if self.taken is None else [self.taken, *self.open]

    def _expand(self, node: Node) -> None:
        """Solve the first open node, then close it or put its children in its place."""
        z = self.labels.implied(node.leaf.path)
        if z is None:
            solved, raw, component = Node(np.inf, node.age, node.leaf), None, None
        else:
            solved, raw, component = self._solve(node, z)
        self.taken = node
        heapq.heappop(self.open)
        if solved.bound >= self.target or component is None:
            solved.start = None
            self.closed.append(solved)
            self.lowest = min(self.lowest, solved.bound)
        else:
            self._branch(solved, raw, component)
        self.taken = None

    def _branch(self, solved: Node, raw: RawSolution | None, component: int) -> None:
        """Put the children of a node among the open ones."""
        for value in self.bounds.branches(solved.leaf.path):
            path = (*solved.leaf.path, (component, value))
            if self.labels.implied(path) is not None:
                self._push(solved.bound, Leaf(path, solved.leaf.u, solved.leaf.rest), raw)

    def _solve(self, node: Node, z: IntArray) -> tuple[Node, RawSolution | None, int | None]:
        """Return the node with the better of its inherited and its own bound, and the component to branch on."""
        self.solved += 1
        if np.all(z >= 0):
            return self._settle(node, z), None, None
        met = self.meet(node, z)
        if met.node.bound >= self.target:
            return met.node, met.raw, None
        return met.node, met.raw, self._choose(met, self._round(met), z)

    def _lifted(self, node: Node, z: IntArray) -> Met:
        """Solve the lift of a node."""
        run, bounds = self.run, self.bounds
        assert run.best is not None and isinstance(bounds, LiftedNodes)
        form = bounds.form(z, target=self.target, accuracy=NODE_SHARE * self.tol * abs(run.best.value))
        raw = run.solve(form, node.start)
        if not raw.has_answer:
            raise unanswered(run.solver, raw, "at a node")
        rest = bounds.rest(np.asarray(raw["a"]), float(raw["eta"]), float(raw["tau"]))
        solved = self._better(node, z, np.asarray(raw["u"]), rest)
        lengths = np.sqrt(np.maximum(np.asarray(raw["z"]), 0.0))
        w, size = np.asarray(raw["w"]), run.program.size_of_w
        return Met(solved, raw, w[:size], float(w[size:].sum()), np.zeros(0), bounds.absorbed.value(lengths))

    def _joint(self, node: Node, z: IntArray) -> Met:
        """Solve the contracted lift of a node, as far as a share of what it is to prove."""
        run, bounds = self.run, self.bounds
        assert run.best is not None and isinstance(bounds, JointNodes)
        size, n, r = max(abs(run.best.value), 1e-300), run.program.n, run.program.features.rank
        open_gap = min(0.3, np.any(z < 0) * (run.best.value - node.bound) / size)
        tol = max(NODE_SHARE * self.tol, LOOSE * float(open_gap))
        # 1. what the decided points prove alone; then all of them, inside the ball of the weights of better labels
        inner = decided_duals(run, bounds, z, min(tol, ROUGH))
        solved = self._better(node, z, *bounds.repaired(z, bounds.of_decided(z, inner))) if inner.any() else node
        if solved.bound >= self.target:
            return Met(solved, None, np.zeros(r), 0.0, np.zeros(run.program.losses.scalars.count), np.zeros(n))
        form, start = bounds.form(z, inner), node.start
        for most in (None,) if start is None else (JAMMED, None):
            raw = run.solve(form, start, tol=tol, cutoff=self.ceiling, max_iter=most)
            if "V" in raw.variables:
                solved = self._better(solved, z, *bounds.repaired(z, {**raw.variables, "inner": inner}))
            if raw.status not in (Status.ITERATION_LIMIT, Status.INACCURATE) and "V" in raw.variables:
                break
            start = None
        if "V" not in raw.variables:
            raise unanswered(run.solver, raw, "at a node")
        # 2. the weights, if the label that is known best is as it is: the reference's, or the one that matters most
        V, W, d = (np.asarray(raw[name]) for name in ("V", "W", "d"))
        at = int(np.argmax(d)) if form.reference is None else form.reference
        w, products = W @ V[at], V @ V[at]
        # 3. components by their multipliers, unless their sign is plain
        first = np.unique(form.component, return_index=True)[1]
        own, score = np.arange(form.count) != form.reference, np.full(self.labels.count, -np.inf)
        plain = np.maximum(d, 0.0) * (1.0 - np.minimum(np.abs(products), 1.0))
        plain[at] = np.inf if form.reference is None else plain[at]
        score[np.asarray(self.labels.component)[first]] = np.where(own, plain, -np.inf)[form.component[first]]
        kept = "reached" in raw.variables and form.n * form.order * len(self.open) < LARGEST_STARTS
        start = replace(raw, variables={"reached": raw["reached"]}) if kept else None
        return Met(solved, start, w[:r], float(w[r:].sum()), np.asarray(raw.get("scalars", np.zeros(
            run.program.losses.scalars.count))), np.zeros(n), score)

    def _partial(self, node: Node, z: IntArray) -> Met:
        """Solve the problem of a node's decided points; one without an answer, as of too few points, says nothing."""
        program, bounds = self.run.program, self.bounds
        assert isinstance(bounds, PartialNodes)
        raw = self._compared(node, z)
        charged, none = np.zeros(program.n), np.zeros(program.losses.scalars.count)
        if not raw.has_answer:
            return Met(node, None, np.zeros(program.size_of_w), 0.0, none, charged)
        solved = self._better(node, z, *bounds.repaired(z, raw.variables))
        bias, scalars = bounds.form(z).plane(raw.variables)
        return Met(solved, raw, np.asarray(raw["w"]), bias, scalars, charged)

    def _compared(self, node: Node, z: IntArray) -> RawSolution:
        """Solve the problem of a node's decided points as far as it takes to tell on which side of the target it is.

        Nothing is to be told where the losses of open points have no least value.
        """
        assert isinstance(self.bounds, PartialNodes)
        ceiling = self.ceiling - self.bounds.least(z)
        if not ceiling < np.inf:
            return RawSolution(Status.UNBOUNDED)
        form = self.bounds.form(z)
        guarded, budget = Guarded(self.run.fixed_solver, form), self.run.budget.replace(
            tol=ROUGH, max_iter=None, callback=None, cutoff=ceiling)
        raw = guarded.solve(form, budget, node.start, is_judged=False)
        if raw.status is not Status.OPTIMAL or raw.objective < ceiling:
            return raw
        return guarded.solve(form, budget.replace(tol=max(0.01 * self.tol, 1e-12)), raw, is_judged=False)

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
        return Node(value, node.age, Leaf(node.leaf.path, u, rest)) if value > node.bound else node

    def _value_of(self, leaf: Leaf) -> float:
        z = self.labels.implied(leaf.path)
        return float("inf") if z is None else self.bounds.value(z, leaf.u, leaf.rest)

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

    def _choose(self, met: Met, rounded: tuple[FloatArray, IntArray], z: IntArray) -> int:
        """Return the free component whose loss at the best labels exceeds what it is charged most."""
        decision, labels = rounded
        program = self.run.program
        if met.score is not None:
            return int(np.argmax(np.where(z >= 0, -np.inf, met.score)))
        table = program.kind.margin_table(decision)
        costs = self.labels.by_components(program.losses.cluster_costs(table, met.scalars))
        charged = np.bincount(np.asarray(self.labels.component), met.charged, self.labels.count)
        score = costs[np.arange(self.labels.count), self.labels.contract(labels)] - charged
        return int(np.argmax(np.where(z >= 0, -np.inf, score)))

    # -- bookkeeping --------------------------------------------------------------------------------

    def _push(self, bound: float, leaf: Leaf, start: RawSolution | None) -> None:
        self.age += 1
        heapq.heappush(self.open, Node(bound, self.age, leaf, start))

    def _finish(self, status: Status, message: str) -> Branched:
        assert self.run.best is not None
        leaves = tuple(node.leaf for node in (*self.closed, *self._unsettled()))
        bound = min(self.bound, self.run.best.value)
        if status is Status.OPTIMAL and bound < self.target - 1e-12 * abs(self.target):
            status = Status.INACCURATE
        return Branched(self.run.best, certify_tree(self.bounds, leaves, bound), status, self.solved,
                        message)


def decided_duals(run: Run, nodes: JointNodes, z: IntArray, tol: float = ROUGH) -> FloatArray:
    """Return duals (m,) of the problem of a node's decided points, which say where its weights are, or zeros."""
    if not nodes.is_bounded or np.all(z < 0):
        return np.zeros(nodes.lift.losses.rows)
    form = nodes.decided.form(z)
    raw = Guarded(run.fixed_solver, form).solve(form, run.budget.replace(tol=tol, max_iter=None, callback=None),
                                                is_judged=False)
    return nodes.inner(z, raw.variables)


def certify_tree(bounds: NodeBounds, leaves: Sequence[Leaf], bound: float) -> Certificate:
    """Return the certificate of a tree: a case each leaf, whose path names the first points of what it decides."""
    paths = np.zeros((len(leaves), max(len(leaf.path) for leaf in leaves)), dtype=int)
    for row, leaf in zip(paths, leaves):
        row[: len(leaf.path)] = bounds.program.labels.steps(leaf.path)
    cases = [bounds.case(leaf.u, leaf.rest) for leaf in leaves]
    arrays = {name: np.concatenate([case[name] for case in cases]) if name in Certificate.UNITS else x
              for name, x in cases[0].items()}
    return Certificate(bound, kind=bounds.kind, arrays={**arrays, "paths": paths},
                       words=f"branch and bound tree with {len(leaves)} leaves, a dual point each")
