"""Fixed labels with smooth losses by limited-memory BFGS (scipy)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Session, Solver, Status, integers
from margindsl.program.forms import FixedLabelForm, Form
from margindsl.typing import FloatArray
from margindsl_solvers.engines.limits import TOLERANCE, cap, tolerance
from margindsl_solvers.engines.rows.judge import Pair, judge, start_point, unbounded, variables
from margindsl_solvers.engines.rows.model import RowModel, refuse_form

_REPAIR = "use solver='newton' or 'clarabel'"
_FAR = 1e12


@dataclass(frozen=True, kw_only=True)
class LBFGS(Solver):
    """Solve fixed-label problems with smooth losses by limited-memory BFGS.

    Minimises ½‖w‖² + qᵀs + Σ c_r ρ_r(v_r) over (w, b, s); u_r = −c_r ρ_r'(v_r) (Byrd, Lu, Nocedal and Zhu
    1995). The gap it reports is the true one at the last point; rounding of the objective, on which its line
    search relies, ends progress at about 1e-7.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    max_iter : int
        Cap on iterations, unless the budget sets one.
    memory : int
        Number of remembered pairs.

    Examples
    --------
    >>> LBFGS(memory=20).name
    'lbfgs'
    """

    name: ClassVar[str] = "lbfgs"
    summary: ClassVar[str] = "limited-memory BFGS for smooth losses"
    requires: ClassVar[tuple[str, ...]] = ("scipy",)
    warm_starts: ClassVar[bool] = True

    tol: float | None = TOLERANCE.option(None)
    max_iter: int = integers(1).option(2000)
    memory: int = integers(1, 1000).option(20)

    def accepts(self, form: Form) -> Offer | Refusal:
        """Return an `Offer` for smooth unconstrained forms, else a `Refusal` naming what is missing."""
        if not isinstance(form, FixedLabelForm):
            return refuse_form(self.name, form)
        for term in form.losses.terms:
            if not term.loss.is_smooth:
                return Refusal(
                    f"lbfgs needs a smooth loss, and {term.loss!r} has a kink or a bounded domain", _REPAIR)
        if form.decision:
            return Refusal(
                f"lbfgs takes no constraints, and the form has {len(form.decision)} decision bounds", _REPAIR)
        if np.any(form.losses.scalars.nonneg):
            return Refusal(
                "lbfgs takes no constraints, and a shared scalar is constrained to be non-negative", _REPAIR)
        return Offer("limited-memory BFGS")

    def open(self, form: Form) -> Session:
        """Return a session; nothing is compiled beyond the first solve."""
        return LBFGSSession(self)


@dataclass(frozen=True)
class LBFGSSession(Session):
    """Solve forms one after the other.

    Parameters
    ----------
    solver : LBFGS
        The options.
    """

    solver: LBFGS

    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        """Solve a smooth fixed-label form; see `margindsl.contract.Session.solve`."""
        refusal = self.solver.accepts(form)
        if not refusal:
            return RawSolution(Status.FAILED, message=str(refusal))
        assert isinstance(form, FixedLabelForm)
        begin = time.monotonic()
        model = RowModel(form)
        x, _, _ = start_point(model, start)
        descent = Descent(model, budget, tolerance(self.solver, budget))
        compiled = time.monotonic()
        status = descent.run(x, cap(self.solver, budget), self.solver.memory)
        seconds = {"compile": compiled - begin, "solve": time.monotonic() - compiled}
        if status is Status.UNBOUNDED:
            return unbounded(descent, seconds)
        pair = descent.pair()
        message = f"relative gap {pair.error:.1e} after {descent.iterations} iterations"
        return RawSolution(status, variables(model, pair), message, pair.primal, descent.iterations, seconds,
                           tuple(descent.trace))


@dataclass(eq=False)
class Descent:
    """Hold the state of one solve.

    Parameters
    ----------
    model : RowModel
    budget : Budget
    tol : float
        Relative gap to reach.
    """

    model: RowModel
    budget: Budget
    tol: float
    iterations: int = 0
    x: FloatArray = field(default_factory=lambda: np.zeros(0))
    stopped: Status | None = None
    trace: list[tuple[float, float, float]] = field(default_factory=list)

    def run(self, x: FloatArray, max_iter: int, memory: int) -> Status:
        """Minimise from x; restart while the gap is open and progress is made."""
        self.x = x
        scale = np.sqrt(1.0 + float(np.sum(self.model.weights)))
        error = np.inf
        while True:
            before, error = error, self._error()
            if error <= self.tol:
                return Status.OPTIMAL
            if self.stopped is not None:
                return self.stopped
            if error > 0.5 * before:
                return Status.INACCURATE
            if self.iterations >= max_iter:
                return Status.ITERATION_LIMIT
            # Scaling by the total weight keeps the objective near one, where scipy's tests are meant.
            result = minimize(self._value, self.x * scale, args=(scale,), jac=True, method="L-BFGS-B",
                              callback=self._watch,
                              options={"maxiter": max_iter - self.iterations, "maxcor": memory, "ftol": 0.0,
                                       "gtol": 0.0, "maxls": 50, "maxfun": 20 * max_iter})
            self.x = result.x / scale
            if float(np.max(np.abs(self.x), initial=0.0)) > _FAR:
                return Status.UNBOUNDED

    def pair(self) -> Pair:
        """Return the pair at the current point."""
        return judge(self.model, self.x, self._slopes(self.x))

    def _slopes(self, x: FloatArray) -> FloatArray:
        v = self.model.apply(x) + self.model.shifts
        return self.model.slopes(v, np.zeros(len(v)), 1.0)

    def _value(self, scaled: FloatArray, scale: float) -> tuple[float, FloatArray]:
        x, model = scaled / scale, self.model
        losses, (w, _, s) = model.form.losses, model.split(x)
        v = model.apply(x) + model.shifts
        value = 0.5 * float(w @ w) + float(np.sum(losses.row_losses(v))) + float(losses.scalars.costs @ s)
        return value / scale**2, model.gradient(x, losses.derivative(v)) / scale**3

    def _watch(self, intermediate_result: object) -> None:
        self.iterations += 1
        point = np.asarray(intermediate_result.x)  # type: ignore[attr-defined]
        if self.budget.expired:
            self.stopped = Status.TIME_LIMIT
        elif float(np.max(np.abs(point), initial=0.0)) > 1e3 * _FAR:
            self.stopped = Status.UNBOUNDED
        if self.stopped is not None:
            raise StopIteration

    def _error(self) -> float:
        pair = self.pair()
        self.trace.append((time.monotonic() - self.budget.start, pair.primal, pair.dual))
        if self.budget.report("lbfgs", self.iterations, pair.primal, pair.dual) and self.stopped is None:
            self.stopped = Status.INTERRUPTED
        return pair.error
