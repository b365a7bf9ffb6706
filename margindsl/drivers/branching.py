"""Branch and bound over component signs, with bounds from the lifted weight space."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from margindsl.contract import RawSolution, Status
from margindsl.drivers.alternation import alternate, best_labels
from margindsl.drivers.checkpoint import State
from margindsl.drivers.guard import name_of
from margindsl.drivers.run import Fit, Run
from margindsl.drivers.search import search
from margindsl.errors import DeclarationError, UnansweredError
from margindsl.program.branch_certificate import (
    BranchCertificate,
    Leaf,
    Path,
    complete_signs,
    covers,
    point_labels,
)
from margindsl.program.branching import BranchNodeForm, PointLosses, node_dual
from margindsl.program.certificates import project_duals
from margindsl.typing import FloatArray, IntArray

NODE_SHARE = 0.1  # accuracy of a node, as a share of the gap asked for
HOPEFUL = 0.2  # a rounded labelling is fitted when its value is within this share of the incumbent's
STAGE = "branch and bound"
EVERY = 10  # nodes between two lines of the history


@dataclass(order=True)
class Node:
    """Represent an open node; nodes are ordered by their bound, ties by age.

    Parameters
    ----------
    bound : float
        Its certified bound, inherited from the parent until it is solved itself.
    age : int
    leaf : Leaf
    start : RawSolution or None
        The parent's solution.
    """

    bound: float
    age: int
    leaf: Leaf = field(compare=False)
    start: RawSolution | None = field(compare=False, default=None)


@dataclass(frozen=True, eq=False)
class Branched:
    """Represent the end of a branch and bound: best fit, the tree as a certificate, status, nodes solved, words."""

    fit: Fit
    certificate: BranchCertificate
    status: Status
    nodes: int
    message: str = ""


class Branching:
    """Run branch and bound, best bound first.

    Parameters
    ----------
    run : Run
        `run.solver` solves `BranchNodeForm`s, `run.fixed_solver` fits labellings.
    tol : float
        Relative gap to certify.
    """

    def __init__(self, run: Run, tol: float) -> None:
        self.run, self.tol = run, tol
        program = run.program
        self.labels = program.labels
        self.table = PointLosses.build(program.losses)
        self.phi = np.asarray(program.features.toarray(), dtype=float)
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
        n = len(self.phi)
        state = self.run.resume(STAGE)
        if self.run.best is None:
            self.run.fit(self.labels.maximise(np.zeros(n)))
        if state is None:
            self._push(-np.inf, Leaf((), np.zeros(n), np.zeros(n)), None)
            self.open[0].bound = self._value_of(self.open[0].leaf)
        else:
            self.restore(state)
        status, message = Status.OPTIMAL, ""
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
                if self._report():
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
        return {
            "lengths": np.array([len(node.leaf.path) for node in nodes]),
            "decisions": np.array(decisions, dtype=np.int64).reshape(-1, 2),
            "u": np.stack([node.leaf.u for node in nodes]), "a": np.stack([node.leaf.a for node in nodes]),
            "bounds": np.array([node.bound for node in nodes]), "ages": np.array([node.age for node in nodes]),
            "closed": np.array(len(self.closed)), "solved": np.array(self.solved), "age": np.array(self.age)}

    def restore(self, state: State) -> None:
        """Go on from a tree, its bounds computed anew.

        Raises
        ------
        DeclarationError
            If its nodes leave out a part of B.
        """
        ends = np.cumsum(state["lengths"])
        paths = [tuple((int(c), int(s)) for c, s in part) for part in np.split(state["decisions"], ends[:-1])]
        if not covers(self.labels, paths):
            raise DeclarationError("solve(checkpoint=...): the tree in the file leaves out labellings; remove the file")
        leaves = [Leaf(*parts) for parts in zip(paths, state["u"], state["a"])]
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
    def bound(self) -> float:
        """Return the certified bound of the whole tree."""
        return min([self.lowest, *(node.bound for node in self._unsettled()[:1])])

    def _unsettled(self) -> list[Node]:
        """Return the open nodes, lowest bound first, and before them the one that was being replaced."""
        return self.open if self.taken is None else [self.taken, *self.open]

    def _expand(self, node: Node) -> None:
        """Solve the first open node, then close it or put its children in its place."""
        z = complete_signs(self.labels, node.leaf.path)
        solved, raw, component = (Node(np.inf, node.age, node.leaf), None, None) if z is None else self._solve(node, z)
        self.taken = node
        heapq.heappop(self.open)
        if solved.bound >= self.target or component is None:
            self._close(solved)
        else:
            self._branch(solved, raw, component)
        self.taken = None

    def _branch(self, solved: Node, raw: RawSolution | None, component: int) -> None:
        """Put the children of a node among the open ones."""
        mirrored = not solved.leaf.path and self.labels.is_symmetric
        for sign in (1,) if mirrored else (1, -1):
            path = (*solved.leaf.path, (component, sign))
            if complete_signs(self.labels, path) is not None:
                self._push(solved.bound, Leaf(path, solved.leaf.u, solved.leaf.a), raw)

    def _solve(self, node: Node, z: IntArray) -> tuple[Node, RawSolution | None, int | None]:
        """Return the node with the better of its inherited and its own bound, and the component to branch on."""
        self.solved += 1
        y = point_labels(self.labels, z)
        if np.all(z != 0):
            return self._settle(node, y), None, None
        assert self.run.best is not None
        accuracy = NODE_SHARE * self.tol * abs(self.run.best.value)
        form = BranchNodeForm(self.run.program.features, self.run.program.losses, y, table=self.table,
                              target=self.target, accuracy=accuracy)
        raw = self.run.solve(form, node.start)
        if not raw.has_answer:
            raise UnansweredError(f"{name_of(self.run.solver)} ended as {raw.status.word} at a node: "
                                  f"{raw.message or raw.status.value}")
        leaf = Leaf(node.leaf.path, np.asarray(raw["u"]), np.asarray(raw["a"]))
        value = node_dual(self.table, self.phi, y, leaf.u, leaf.a)
        solved = Node(value, node.age, leaf) if value > node.bound else node
        if solved.bound >= self.target:
            return solved, raw, None
        w, spread = self._direction(raw)
        self._round(w)
        return solved, raw, self._choose(w, spread, z)

    def _settle(self, node: Node, y: IntArray) -> Node:
        """Return a node without free components, bounded by the dual of its fixed-label problem."""
        fit = self.run.fit(y, self.run.best, tol=max(0.01 * self.tol, 1e-12))
        losses = self.run.program.losses
        u = losses.spread(project_duals(losses, np.asarray(fit.raw["u"])))
        leaf = Leaf(node.leaf.path, u, np.zeros(len(y)))
        value = self._value_of(leaf)
        return Node(value, node.age, leaf) if value > node.bound else node

    def _value_of(self, leaf: Leaf) -> float:
        z = complete_signs(self.labels, leaf.path)
        if z is None:
            return float("inf")
        return node_dual(self.table, self.phi, point_labels(self.labels, z), leaf.u, leaf.a)

    # -- incumbents and decisions -------------------------------------------------------------------

    def _direction(self, raw: RawSolution) -> tuple[FloatArray, FloatArray]:
        """Return a weight vector to round and the (n,) lengths √(φᵀPφ)."""
        w = np.asarray(raw["w"])
        return w, np.sqrt(np.maximum(np.asarray(raw["z"]), 0.0))

    def _round(self, w: FloatArray) -> None:
        """Fit the best labels at w when they are new and promising; polish an improvement."""
        run, losses = self.run, self.run.program.losses
        assert run.best is not None
        decision = self.phi @ w
        labels = self.labels.maximise(-losses.label_costs(decision))
        key = np.asarray(labels, dtype=np.int8).tobytes()
        if key in self.seen:
            return
        value = 0.5 * float(w @ w) + losses.value(labels * decision)
        if value > run.best.value + HOPEFUL * abs(run.best.value):
            return
        self.seen.add(key)
        before = run.best.value
        fit = run.fit(labels, run.best)
        if fit.value < before - 1e-9 * abs(before):
            search(run, alternate(run, best_labels(run, fit)))

    def _choose(self, w: FloatArray, spread: FloatArray, z: IntArray) -> int:
        """Return the free component whose loss at w exceeds its relaxed loss most."""
        component, sign = np.asarray(self.labels.component), np.asarray(self.labels.sign)
        decision = sign * (self.phi @ w)
        count = len(z)
        plus = np.bincount(component, weights=self.table.value(decision), minlength=count)
        minus = np.bincount(component, weights=self.table.value(-decision), minlength=count)
        relaxed = np.bincount(component, weights=self.table.value(spread), minlength=count)
        score = np.minimum(plus, minus) - relaxed
        if self.labels.bounds:
            wanted = self.labels.contract(self.labels.maximise(-self.run.program.losses.label_costs(self.phi @ w)))
            score = np.where(wanted > 0, plus, minus) - relaxed
        return int(np.argmax(np.where(z == 0, score, -np.inf)))

    # -- bookkeeping --------------------------------------------------------------------------------

    def _push(self, bound: float, leaf: Leaf, start: RawSolution | None) -> None:
        self.age += 1
        heapq.heappush(self.open, Node(bound, self.age, leaf, start))

    def _close(self, node: Node) -> None:
        node.start = None
        self.closed.append(node)
        self.lowest = min(self.lowest, node.bound)

    def _report(self) -> bool:
        if self.solved % EVERY and self.open:
            return False
        assert self.run.best is not None
        return self.run.record(STAGE, self.solved, self.run.best.value, self.bound)

    def _finish(self, status: Status, message: str) -> Branched:
        assert self.run.best is not None
        leaves = tuple(node.leaf for node in (*self.closed, *self._unsettled()))
        bound = min(self.bound, self.run.best.value)
        if status is Status.OPTIMAL and bound < self.target - 1e-12 * abs(self.target):
            status = Status.INACCURATE
        return Branched(self.run.best, BranchCertificate(bound, self.run.program, leaves), status, self.solved,
                        message)


__all__ = ["Branched", "Branching", "Path"]
