"""The solver `cutting-plane`: its options, and a session that keeps cuts across labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from margindsl.contract import Budget, Offer, RawSolution, Refusal, integers
from margindsl.program.clusters import ClusterForm
from margindsl.program.forms import FixedLabelForm, Form
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import EngineSession, RowsSolver, Solve
from margindsl_solvers.engines.cuts.bundle import Bundle, CutsRun
from margindsl_solvers.engines.rows.clusters import ClusterRows, majorise, start_clusters
from margindsl_solvers.engines.rows.plane import PlaneRows


@dataclass
class CuttingPlaneSession(EngineSession):
    """Solve forms one after the other; cuts are recomputed where the last solve needed them."""

    points: list[FloatArray] = field(default_factory=list)

    def solve_plane(self, form: FixedLabelForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a fixed-label form."""
        rows = PlaneRows(form)
        if (refusal := rows.refusal()) is not None:
            return refusal
        x, _, warm = rows.start(start)
        return self._run(Bundle(rows), budget, x, warm)

    def solve_clusters(self, form: ClusterForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a fixed-cluster form, rising losses by their majorants."""
        return majorise(form, budget, start, self._solve_clusters)

    def _solve_clusters(self, form: ClusterForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a convex fixed-cluster form (C. Zhang, B. Zhao 2008, slides Eq. 15-18)."""
        x, warm = start_clusters(form, start)
        return self._run(Bundle(ClusterRows(form, x)), budget, x, warm)

    def _run(self, bundle: Bundle, budget: Budget, x: FloatArray, warm: bool) -> RawSolution:
        # Without a start nothing says that the last labels were near these.
        points = [p for p in self.points if warm and len(p) == len(x)]
        answer = CutsRun(bundle, budget, x, points).solve()
        self.points = bundle.kept(self.solver.keep)
        return answer


@dataclass(frozen=True, kw_only=True)
class CuttingPlane(RowsSolver):
    """Solve fixed-label problems by one-slack cutting planes.

    The separable part R(x) = Σ c ρ(v) is replaced by the largest of its linearisations; each costs one
    product with the features and one with their transpose, and the master has one dual variable a cut. For
    the hinge a cut is a vector c ∈ {0, 1}^n with c_i = 1 where the margin is below one. The best point moves
    by an exact line search, and new cuts are taken near it (Franc and Sonnenburg 2008).

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    max_iter : int
        Cap on cuts, unless the budget sets one.
    keep : int
        Cuts recomputed at the next labels of a session.

    References
    ----------
    B. Zhao, F. Wang, C. Zhang (2008). Efficient maximum margin clustering via cutting plane algorithm, Eq. 4-7.
    T. Joachims (2006). Training linear SVMs in linear time.
    """

    name: ClassVar[str] = "cutting-plane"
    summary: ClassVar[str] = "one-slack cutting planes with a small dense master"
    takes: ClassVar[Mapping[type[Form], Solve]] = {
        FixedLabelForm: CuttingPlaneSession.solve_plane, ClusterForm: CuttingPlaneSession.solve_clusters}

    max_iter: int = integers(1).option(2000)
    keep: int = integers(0).option(10)

    def offer(self, form: Form) -> Offer | Refusal:
        return Offer("one linearisation of the whole loss a round")

    def keeper(self, form: Form) -> CuttingPlaneSession:
        return CuttingPlaneSession(self)
