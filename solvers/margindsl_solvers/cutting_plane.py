"""The solver class: options, what it accepts, sessions that keep cuts across labels."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.optimize import linprog

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Session, Solver, Status, integers, numbers
from margindsl.program.clusters import ClusterForm
from margindsl.program.forms import FixedLabelForm, Form
from margindsl.typing import FloatArray
from margindsl_solvers.engines.cuts.bundle import Bundle
from margindsl_solvers.engines.cuts.clusters import ClusterBundle
from margindsl_solvers.engines.limits import TOLERANCE, cap, tolerance
from margindsl_solvers.engines.rows.cluster_run import cluster_variables, majorise, start_clusters
from margindsl_solvers.engines.rows.clusters import ClusterModel
from margindsl_solvers.engines.rows.judge import is_feasible, start_point, unbounded, variables
from margindsl_solvers.engines.rows.model import RowModel, refuse_form, refuse_infinite


@dataclass(frozen=True, kw_only=True)
class CuttingPlane(Solver):
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
    patience : int
        Rounds without weight after which a cut is dropped.
    mix : float in (0, 1]
        Share of the master's point in the point of a new cut; the rest is the best point so far.
    keep : int
        Cuts recomputed at the next labels of a session.

    References
    ----------
    B. Zhao, F. Wang, C. Zhang (2008). Efficient maximum margin clustering via cutting plane algorithm, Eq. 4-7.
    T. Joachims (2006). Training linear SVMs in linear time.

    Examples
    --------
    >>> CuttingPlane(keep=0).name
    'cutting-plane'
    """

    name: ClassVar[str] = "cutting-plane"
    summary: ClassVar[str] = "one-slack cutting planes with a small dense master"
    requires: ClassVar[tuple[str, ...]] = ("scipy",)
    warm_starts: ClassVar[bool] = True

    tol: float | None = TOLERANCE.option(None)
    max_iter: int = integers(1).option(2000)
    patience: int = integers(1).option(30)
    mix: float = numbers(most=1.0).option(0.1)
    keep: int = integers(0).option(10)

    def accepts(self, form: Form) -> Offer | Refusal:
        """Return an `Offer` for fixed labels with finite convex losses."""
        if not isinstance(form, (FixedLabelForm, ClusterForm)):
            return refuse_form(self.name, form)
        refusal = refuse_infinite(self.name, (term.loss for term in form.losses.terms))
        return Offer("one linearisation of the whole loss a round") if refusal is None else refusal

    def open(self, form: Form) -> Session:
        """Return a session, which keeps the points of the last cuts."""
        return CuttingPlaneSession(self)


@dataclass
class CuttingPlaneSession(Session):
    """Solve forms one after the other; cuts are recomputed where the last solve needed them.

    Parameters
    ----------
    solver : CuttingPlane
        The options.
    """

    solver: CuttingPlane
    points: list[FloatArray] = field(default_factory=list)

    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        """Solve a fixed-label form; see `margindsl.contract.Session.solve`."""
        if isinstance(form, ClusterForm):
            tol = tolerance(self.solver, budget)
            return majorise(form, budget, start, tol, self._solve_clusters)
        assert isinstance(form, FixedLabelForm)
        options, begin = self.solver, time.monotonic()
        if not _has_point(form):
            return RawSolution(Status.INFEASIBLE, message="no weights and bias satisfy the decision bounds")
        model = RowModel(form)
        tol = tolerance(options, budget)
        bundle = Bundle(model, budget, tol, cap(options, budget), options.patience, options.mix)
        x, _, warm = start_point(model, start)
        # Without a start nothing says that the last labels were near these.
        points = [p for p in self.points if warm and len(p) == len(x)]
        status = bundle.run(x, points)
        self.points = bundle.kept(options.keep)
        seconds = {"compile": 0.0, "solve": time.monotonic() - begin}
        if status is Status.UNBOUNDED:
            return unbounded(bundle, seconds)
        pair = bundle.pair()
        error = pair.error
        if status is Status.OPTIMAL and error > 1.001 * tol:
            status = Status.INACCURATE  # what was found, judged on its own, decides
        message = f"relative gap {error:.1e} after {bundle.iterations} cuts"
        return RawSolution(status, variables(model, pair), message, pair.primal, bundle.iterations, seconds,
                           tuple(bundle.trace))

    def _solve_clusters(self, form: ClusterForm, budget: Budget, start: RawSolution | None,
                        tol: float) -> RawSolution:
        """Solve a convex fixed-cluster form (C. Zhang, B. Zhao 2008, slides Eq. 15-18)."""
        options, begin = self.solver, time.monotonic()
        x, warm = start_clusters(form, start)
        model = ClusterModel(form, np.zeros(form.n, dtype=int) if form.runner is None else form.runner)
        bundle = ClusterBundle(model, budget, tol, cap(options, budget), options.patience,  # type: ignore[arg-type]
                               options.mix)
        status = bundle.run(x, [p for p in self.points if warm and len(p) == len(x)])
        self.points = bundle.kept(options.keep)
        pair = bundle.pair()
        message = f"relative gap {pair.error:.1e} after {bundle.iterations} cuts"
        return RawSolution(status, cluster_variables(model, pair), message, pair.primal, bundle.iterations,
                           {"compile": 0.0, "solve": time.monotonic() - begin}, tuple(bundle.trace))


def _has_point(form: FixedLabelForm) -> bool:
    """Return whether some (w, b) satisfies the decision bounds, one-sided ones included."""
    sides = [(bound, bound.lower, bound.upper) for bound in form.decision]
    if all(math.isfinite(low) and math.isfinite(high) for _, low, high in sides):
        return is_feasible(form)
    G, h = form.decision_rows
    N = np.column_stack([G, h]) if form.free_bias else G
    sizes = np.array([np.linalg.norm(bound.weights) for bound in form.decision])
    # Rows that are rounding alone, such as sums of centred features, are zero.
    small = np.linalg.norm(N, axis=1) <= 1e-13 * sizes * math.sqrt(form.features.trace + form.n * form.free_bias)
    N = np.where(small[:, None], 0.0, N)
    limits = np.array([high for _, _, high in sides] + [-low for _, low, _ in sides])
    kept = np.isfinite(limits)
    found = linprog(np.zeros(N.shape[1]), A_ub=np.vstack([N, -N])[kept], b_ub=limits[kept], bounds=(None, None),
                    method="highs")
    return bool(found.status != 2)
