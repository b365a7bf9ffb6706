"""Solve standard forms through cvxpy: form to problem, problem to `RawSolution`, and what is refused."""

from __future__ import annotations

import math
import time
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Session, Solver, Status
from margindsl.errors import CalculusError
from margindsl.program.forms import FixedLabelForm, Form, LabelLiftForm, SaddleForm
from margindsl.typing import FloatArray
from margindsl_solvers._conic_forms import FixedLabelLowering, Lowering, SaddleLowering, cone_of
from margindsl_solvers._conic_lift import is_uncoupled, lift_lowering, psd_order

_STATUS = {
    cp.OPTIMAL: Status.OPTIMAL,
    cp.OPTIMAL_INACCURATE: Status.INACCURATE,
    cp.USER_LIMIT: Status.ITERATION_LIMIT,
    cp.INFEASIBLE: Status.INFEASIBLE,
    cp.INFEASIBLE_INACCURATE: Status.INFEASIBLE,
    cp.UNBOUNDED: Status.UNBOUNDED,
    cp.UNBOUNDED_INACCURATE: Status.UNBOUNDED,
}


@dataclass(frozen=True, kw_only=True)
class ConicSolver(Solver):
    """Solve forms with a solver behind cvxpy.

    Parameters
    ----------
    max_iter : int or None
        Iteration cap; None takes the budget's, or else the solver's own.
    verbose : bool
        Whether the solver prints its log.
    max_entries : int
        Largest number of entries of the dense matrices handed to the solver.
    """

    engine: ClassVar[str]
    cones: ClassVar[frozenset[str]] = frozenset()
    native: ClassVar[bool] = False

    max_iter: int | None = None
    verbose: bool = False
    max_entries: int = 50_000_000

    @abstractmethod
    def settings(self, tol: float, max_iter: int | None, seconds: float) -> dict[str, Any]:
        """Return the solver's own options for a tolerance, an iteration cap and a time (inf for none)."""

    @abstractmethod
    def words(self, outcome: Any) -> str:
        """Return the solver's own words for how it ended."""

    @property
    def psd_limit(self) -> int:
        """Return the largest order of a semidefinite cone accepted."""
        return 0

    def accepts(self, form: Form) -> Offer | Refusal:
        """Return an `Offer`, or a `Refusal` naming the cone, the size or the conjugate that is missing."""
        if isinstance(form, FixedLabelForm):
            return self._judge_losses(form) or self._judge_size(form.n * form.features.rank) or Offer("primal")
        if isinstance(form, SaddleForm):
            refusal = self._judge_cone("soc", "the minimax master problem needs second-order cones")
            entries = form.features.rank * form.n * form.count
            return refusal or self._judge_losses(form) or self._judge_size(entries) or Offer("dual, T cones")
        if isinstance(form, LabelLiftForm):
            return self._judge_lift(form)
        return Refusal(f"solver {self.name!r} does not know the form {type(form).__name__}",
                       "choose a solver that accepts it (md.solvers() lists them)")

    def open(self, form: Form) -> ConicSession:
        """Return a session that compiles once and solves forms of one structure."""
        return ConicSession(self, form)

    def _judge_lift(self, form: LabelLiftForm) -> Offer | Refusal:
        refusal = self._judge_cone("psd", "the label-lifted relaxation needs a semidefinite cone")
        order, rank = psd_order(form), min(form.features.rank, form.n)
        uncoupled = is_uncoupled(form)
        entries = form.n * (order * (order + 1) // 2 if uncoupled else rank)
        if refusal is None and order > self.psd_limit:
            what = f"rank {rank}" if uncoupled else f"{form.count} components + rank {rank}"
            refusal = Refusal(
                f"solver {self.name!r}: the semidefinite cone has order {order} ({what}), above the limit "
                f"{self.psd_limit}, beyond which a solve is estimated to take more than a minute",
                f"Raise it with Solver('{self.name}', max_psd_order={order}), subsample, lower the rank of the "
                "kernel, or choose a solver made for larger sizes (md.solvers() lists them)")
        note = f"lifted weights, order {order}" if uncoupled else f"dual of the lift, order {order}"
        return refusal or self._judge_losses(form) or self._judge_size(entries) or Offer(note)

    def _judge_cone(self, cone: str, need: str) -> Refusal | None:
        if cone in self.cones:
            return None
        return Refusal(f"solver {self.name!r} does not support it: {need}",
                       f"Choose {_alternatives(cone)}")

    def _judge_losses(self, form: Form) -> Refusal | None:
        conjugate = not isinstance(form, FixedLabelForm) and not (
            isinstance(form, LabelLiftForm) and is_uncoupled(form))
        for term in form.losses.terms:
            try:
                term.loss.conjugate()
                cone = cone_of(term.loss, conjugate)
            except CalculusError as error:
                return Refusal(f"solver {self.name!r} cannot write the loss {term.loss!r}: {error}")
            if cone != "linear" and cone not in self.cones:
                long = {"exp": "an exponential cone", "soc": "a second-order cone"}[cone]
                return Refusal(f"solver {self.name!r} cannot take the loss {term.loss!r}, which needs {long}",
                               f"Choose {_alternatives(cone)}, or a piecewise linear-quadratic loss")
        return None

    def _judge_size(self, entries: int) -> Refusal | None:
        if entries <= self.max_entries:
            return None
        return Refusal(
            f"solver {self.name!r} would be handed a dense matrix of {entries:.2g} entries, above the limit "
            f"{self.max_entries:.2g}",
            f"Raise it with Solver('{self.name}', max_entries={entries}), subsample, or choose a native solver "
            "(md.solvers() lists them)")


def _alternatives(cone: str) -> str:
    return "'clarabel' or 'scs'" if cone == "psd" else "'clarabel', 'ecos' or 'scs'"


class ConicSession(Session):
    """Hold one compiled cvxpy problem and solve forms that differ in its parameters.

    Parameters
    ----------
    solver : ConicSolver
    form : Form
        The first form; another structure later is compiled anew.
    """

    def __init__(self, solver: ConicSolver, form: Form) -> None:
        self.solver = solver
        self._first = form
        self._lowering: Lowering | None = None

    @property
    def problem(self) -> cp.Problem:
        """Return the `cvxpy.Problem`, with the parameters of the last form solved."""
        return self._prepared(self._first if self._lowering is None else None).problem

    @property
    def cvxpy(self) -> cp.Problem:
        """Return the `cvxpy.Problem`."""
        return self.problem

    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        """Solve a form; every failure of the solver is a status with its own words."""
        begin = time.perf_counter()
        if budget.expired:
            return RawSolution(Status.TIME_LIMIT, message="the time was up before the solver began",
                               seconds={"compile": 0.0, "solve": 0.0})
        seconds = {"compile": 0.0, "solve": 0.0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                lowering = self._prepared(form)
                data, chain, inverse = lowering.problem.get_problem_data(self.solver.engine, solver_opts={})
                middle = time.perf_counter()
                seconds["compile"] = middle - begin
                options = self._options(budget)
                outcome = chain.solve_via_data(lowering.problem, data, False, self.solver.verbose, options)
                seconds["solve"] = time.perf_counter() - middle
                words = self.solver.words(outcome)
                lowering.problem.unpack_results(outcome, chain, inverse)
            except cp.SolverError as error:
                said = locals().get("words", "")
                return RawSolution(Status.FAILED, message=f"{said}: {error}" if said else str(error),
                                   seconds=seconds)
        return self._collect(lowering, form, words, seconds)

    def _prepared(self, form: Form | None) -> Lowering:
        if self._lowering is None or (form is not None and not self._lowering.fits(form)):
            self._lowering = lower(form if form is not None else self._first)
        if form is not None:
            self._lowering.load(form)
        return self._lowering

    def _options(self, budget: Budget) -> dict[str, Any]:
        cap = self.solver.max_iter if self.solver.max_iter is not None else budget.max_iter
        return self.solver.settings(budget.tol, cap, max(budget.remaining, 1e-3))

    def _collect(self, lowering: Lowering, form: Form, words: str, seconds: dict[str, float]) -> RawSolution:
        problem = lowering.problem
        status = _STATUS.get(problem.status, Status.FAILED)
        if status is Status.ITERATION_LIMIT and "time" in words.lower():
            status = Status.TIME_LIMIT
        stats = problem.solver_stats
        iterations = int(stats.num_iters or 0) if stats is not None else 0
        variables: dict[str, FloatArray] = {}
        if status.has_answer:
            variables = _finite(lowering, form)
            if not variables:
                status, words = Status.FAILED, f"{words}: no finite answer was returned"
        value = problem.value if variables and problem.value is not None else math.nan
        sign = 1.0 if isinstance(lowering, FixedLabelLowering) or "V" in variables else -1.0
        return RawSolution(status, variables, "" if status is Status.OPTIMAL else words, sign * float(value),
                           iterations, seconds)


def lower(form: Form) -> Lowering:
    """Return the lowering of a form that was accepted."""
    if isinstance(form, LabelLiftForm):
        return lift_lowering(form)
    return SaddleLowering(form) if isinstance(form, SaddleForm) else FixedLabelLowering(form)


def _finite(lowering: Lowering, form: Form) -> dict[str, FloatArray]:
    pieces = [x.value for x in lowering.problem.variables()]
    pieces += [c.dual_value for c in lowering.problem.constraints if np.size(c.dual_value) != 1]
    if any(p is None or not np.all(np.isfinite(np.asarray(p, dtype=float))) for p in pieces):
        return {}
    return lowering.read(form)
