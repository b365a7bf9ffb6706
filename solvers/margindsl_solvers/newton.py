"""Fixed labels by semismooth Newton; non-smooth losses by a proximal augmented Lagrangian."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Session, Solver, Status, integers, numbers
from margindsl.program.clusters import ClusterForm, runner_up
from margindsl.program.forms import FixedLabelForm, Form
from margindsl_solvers.engines.limits import TOLERANCE, cap, tolerance
from margindsl_solvers.engines.rows.augmented import Run
from margindsl_solvers.engines.rows.cluster_run import ClusterRun, cluster_variables, start_clusters, start_slopes
from margindsl_solvers.engines.rows.clusters import ClusterModel
from margindsl_solvers.engines.rows.judge import is_feasible, start_point, unbounded, variables
from margindsl_solvers.engines.rows.model import RowModel, reach, refuse_form, refuse_infinite

_MESSAGES = {
    Status.OPTIMAL: "relative gap {error:.1e} after {count} Newton steps",
    Status.INACCURATE: "rounding stopped the relative gap at {error:.1e} after {count} Newton steps",
    Status.ITERATION_LIMIT: "{count} Newton steps done, relative gap {error:.1e}; raise max_iter",
    Status.TIME_LIMIT: "time is up after {count} Newton steps, relative gap {error:.1e}",
    Status.INTERRUPTED: "the callback stopped the solve after {count} Newton steps, relative gap {error:.1e}",
}


@dataclass(frozen=True, kw_only=True)
class Newton(Solver):
    """Solve fixed-label problems to high accuracy by semismooth Newton steps.

    Smooth losses enter by their derivatives; every other row (kinked losses, decision bounds, signs of
    scalars) by the Moreau envelope around its multiplier estimate, min over x of
    ½‖w‖² + qᵀs + Σ c_r e_κ ρ_r(v_r + p_r/κ), followed by p_r ← κ(v_r + p_r/κ − prox). Each smooth problem
    takes a few Newton steps with an exact line search; the outer loop converges superlinearly because κ
    grows (Rockafellar 1976, Theorem 5; Li, Sun and Toh 2018). The multipliers are dual feasible by
    construction, so that the reported gap is a certificate.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    max_iter : int
        Cap on Newton steps, unless the budget sets one.
    penalty : float
        First penalty κ; kinks are smoothed over a width 1/κ of the loss's argument.
    growth : float
        Factor of κ between multiplier updates.
    dense_limit : int
        Largest dense system (features or active points); above it conjugate gradients are used.

    Examples
    --------
    >>> Newton(tol=1e-10).name
    'newton'
    """

    name: ClassVar[str] = "newton"
    summary: ClassVar[str] = "semismooth Newton and augmented Lagrangian, certified gap"
    requires: ClassVar[tuple[str, ...]] = ("scipy",)
    warm_starts: ClassVar[bool] = True

    tol: float | None = TOLERANCE.option(None)
    max_iter: int = integers(1).option(1000)
    penalty: float = numbers().option(1.0)
    growth: float = numbers(above=1.0).option(10.0)
    dense_limit: int = integers(0).option(4000)

    def accepts(self, form: Form) -> Offer | Refusal:
        """Return an `Offer` for fixed labels with finite convex losses that know their prox."""
        if not isinstance(form, (FixedLabelForm, ClusterForm)):
            return refuse_form(self.name, form)
        refusal = refuse_infinite(self.name, (term.loss for term in form.losses.terms))
        if refusal is not None:
            return refusal
        if isinstance(form, ClusterForm):
            return Offer("semismooth Newton inside an augmented Lagrangian" + (
                "" if form.is_convex else "; rising losses by majorants, to a stationary point"))
        if all(term.loss.is_smooth for term in form.losses.terms) and not form.decision and not any(
                form.losses.scalars.nonneg):
            return Offer("semismooth Newton")
        return Offer("semismooth Newton inside an augmented Lagrangian")

    def open(self, form: Form) -> Session:
        """Return a session; nothing is compiled beyond the first solve."""
        return NewtonSession(self)


@dataclass(frozen=True)
class NewtonSession(Session):
    """Solve forms one after the other.

    Parameters
    ----------
    solver : Newton
        The options.
    """

    solver: Newton

    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        """Solve a fixed-label form; see `margindsl.contract.Session.solve`."""
        tol = tolerance(self.solver, budget)
        if isinstance(form, ClusterForm):
            return self._solve_clusters(form, budget, start, tol)
        assert isinstance(form, FixedLabelForm)
        begin = time.monotonic()
        if not is_feasible(form):
            return RawSolution(Status.INFEASIBLE, message="no weights and bias satisfy the decision bounds")
        run = self._prepare(form, budget, start, tol)
        compiled = time.monotonic()
        status = run.run()
        seconds = {"compile": compiled - begin, "solve": time.monotonic() - compiled}
        if status is Status.UNBOUNDED:
            return unbounded(run, seconds)
        assert run.best is not None
        message = _MESSAGES[status].format(error=run.error, count=run.iterations)
        return RawSolution(status, variables(run.model, run.best), message, run.best.primal, run.iterations,
                           seconds, tuple(run.trace))

    def _solve_clusters(self, form: ClusterForm, budget: Budget, start: RawSolution | None,
                        tol: float) -> RawSolution:
        """Solve a fixed-cluster form."""
        begin, options = time.monotonic(), self.solver
        x, given = start_clusters(form, start)
        if not (form.is_convex or given):  # the falling losses alone are convex: their answer is a fair start
            start = self._solve_clusters(form.falling_only(), budget, None, max(tol, 1e-2))
            x, _ = start_clusters(form, start)
        model = ClusterModel(form, runner_up(form.outputs(x), form.labels) if form.runner is None else form.runner)
        centre, warm = start_slopes(model, start)
        unit = options.penalty / _spread(form)
        kappa = unit * (options.growth if warm else 1.0)
        run = ClusterRun(model, budget, x, centre, kappa, tol, cap(options, budget),  # type: ignore[arg-type]
                         options.growth, 1e6 * unit, options.dense_limit)
        status = run.run()
        assert run.best is not None
        message = _MESSAGES[status].format(error=run.error, count=run.iterations)
        return RawSolution(status, cluster_variables(model, run.best), message, run.best.primal, run.iterations,
                           {"compile": 0.0, "solve": time.monotonic() - begin}, tuple(run.trace))

    def _prepare(self, form: FixedLabelForm, budget: Budget, start: RawSolution | None, tol: float) -> Run:
        options, model = self.solver, RowModel(form)
        x, centre, warm = start_point(model, start)
        # A multiplier estimate near the answer deserves a tight envelope at once.
        unit = options.penalty / _spread(form)
        kappa = unit * (options.growth**2 if warm else 1.0)
        return Run(model, budget, x, centre, kappa, tol,
                   cap(options, budget),
                   options.growth, 1e6 * unit, options.dense_limit)


def _spread(form: FixedLabelForm | ClusterForm) -> float:
    """Return an estimate of how far w can move a margin, within [1e-4, 1]."""
    far = reach(form)
    return min(1.0, max(1e-4, far)) if far > 0 else 1.0
