"""Fixed labels with smooth losses by limited-memory BFGS (scipy)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Status, integers
from margindsl.program.forms import FixedLabelForm, Form
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import Course, RowsSolver, Solve
from margindsl_solvers.engines.rows.model import Pair
from margindsl_solvers.engines.rows.plane import PlaneRows

_REPAIR = "use solver='newton' or 'clarabel'"
_FAR = 1e12


@dataclass(frozen=True, kw_only=True)
class LBFGS(RowsSolver):
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
    """

    name: ClassVar[str] = "lbfgs"
    summary: ClassVar[str] = "limited-memory BFGS for smooth losses"

    max_iter: int = integers(1).option(2000)
    memory: int = integers(1, 1000).option(20)

    def offer(self, form: Form) -> Offer | Refusal:
        for term in form.losses.terms:
            if not term.loss.is_smooth:
                return Refusal(f"lbfgs needs a smooth loss, and {term.loss!r} has a kink", _REPAIR)
        if form.decision:
            return Refusal(
                f"lbfgs takes no constraints, and the form has {len(form.decision)} decision bounds", _REPAIR)
        if np.any(form.losses.scalars.nonneg):
            return Refusal(
                "lbfgs takes no constraints, and a shared scalar is constrained to be non-negative", _REPAIR)
        return Offer("limited-memory BFGS")

    def solve_plane(self, form: FixedLabelForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a smooth fixed-label form."""
        refusal = self.accepts(form)
        if not refusal:
            return RawSolution(Status.FAILED, message=str(refusal))
        rows = PlaneRows(form)
        return QuasiNewtonRun(rows, budget, rows.start(start)[0], self.memory).solve()

    takes: ClassVar[Mapping[type[Form], Solve]] = {FixedLabelForm: solve_plane}


class QuasiNewtonRun(Course[Pair]):
    """Minimise by scipy's routine, restarted while the gap is open and progress is made.

    Parameters
    ----------
    x : float array
        The first (w, b, s).
    """

    stage = "lbfgs"

    def __init__(self, model: PlaneRows, budget: Budget, x: FloatArray, memory: int) -> None:
        super().__init__(budget)
        self.model, self.x, self.memory = model, x, memory
        self.last, self.ended = math.inf, None
        # Scaling by the total weight keeps the objective near one, where scipy's tests are meant.
        self.scale = math.sqrt(1.0 + float(np.sum(model.weights)))

    ended: Status | None

    def init(self) -> None:
        self._judge()

    def step(self) -> Status | None:
        if self.error > 0.5 * self.last:
            return Status.INACCURATE
        self.last = self.error
        result = scipy.optimize.minimize(
            self._value, self.x * self.scale, jac=True, method="L-BFGS-B", callback=self._watch,
            options={"maxiter": int(self.max_iter - self.iterations), "maxcor": self.memory, "ftol": 0.0,
                     "gtol": 0.0, "maxls": 50, "maxfun": int(20 * self.max_iter)})
        self.x = result.x / self.scale
        if float(np.max(np.abs(self.x), initial=0.0)) > _FAR:
            return Status.UNBOUNDED
        self._judge()
        return self.ended

    def variables(self) -> dict[str, FloatArray]:
        assert self.best is not None
        return self.model.variables(self.best)

    def _judge(self) -> None:
        v = self.model.apply(self.x) + self.model.shifts
        self.certify(self.model.judge(self.x, self.model.slopes(v, np.zeros(len(v)), 1.0)))

    def _value(self, scaled: FloatArray) -> tuple[float, FloatArray]:
        x, model, scale = scaled / self.scale, self.model, self.scale
        losses, (w, _, s) = model.form.losses, model.form.split(x)
        v = model.apply(x) + model.shifts
        value = 0.5 * float(w @ w) + float(np.sum(losses.row_losses(v))) + float(losses.scalars.costs @ s)
        return value / scale**2, model.gradient(x, losses.derivative(v)) / scale**3

    def _watch(self, intermediate_result: object) -> None:
        self.iterations += 1
        point = np.asarray(intermediate_result.x)  # type: ignore[attr-defined]
        if self.budget.expired:
            self.ended = Status.TIME_LIMIT
        elif float(np.max(np.abs(point), initial=0.0)) > 1e3 * _FAR:
            self.ended = Status.UNBOUNDED
        if self.ended is not None:
            raise StopIteration
