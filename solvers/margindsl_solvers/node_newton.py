"""The solver `node-newton`: nodes of branch and bound, by Newton's method on the lifted weight matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from margindsl.contract import Offer, Refusal, integers
from margindsl.program.branching import BranchNodeForm
from margindsl.program.forms import Form
from margindsl_solvers.engines.course import EngineSolver, Solve
from margindsl_solvers.engines.nodes.newton import LARGEST_ORDER, STEPS, NodeSession


@dataclass(frozen=True, kw_only=True)
class NodeNewton(EngineSolver):
    """Solve nodes of branch and bound by barrier Newton steps on [[1, wᵀ], [w, P]] ⪰ 0, a bound read off every step.

    Parameters
    ----------
    tol : float or None
        Gap to reach, relative to the value at which a node is settled; None leaves it to branch and bound.
    max_iter : int
        Most Newton steps a node.
    """

    name: ClassVar[str] = "node-newton"
    summary: ClassVar[str] = "Newton's method on the lifted weights of nodes of branch and bound"
    solves: ClassVar[str] = "nodes of branch and bound"

    max_iter: int = integers(1).option(STEPS)

    def offer(self, form: Form) -> Offer | Refusal:
        if form.features.rank > LARGEST_ORDER:
            return Refusal(f"a node of branch and bound with {form.features.rank} features is too large for "
                           f"Newton's method (at most {LARGEST_ORDER})", "Take fewer features")
        return Offer(f"Newton's method on a lifted matrix of order {form.features.rank + 1}")

    def keeper(self, form: Form) -> NodeSession:
        return NodeSession(form, self.max_iter, self.tol)  # type: ignore[arg-type]

    takes: ClassVar[Mapping[type[Form], Solve]] = {BranchNodeForm: NodeSession.solve}
