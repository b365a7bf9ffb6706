"""Solve standard forms through cvxpy: form to problem, problem to `RawSolution`, and what is refused."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from margindsl.contract import (
    OF_SOLVE,
    Budget,
    Domain,
    Offer,
    RawSolution,
    Refusal,
    Session,
    Solver,
    Status,
    flags,
    integers,
)
from margindsl.errors import CalculusError, UnknownNameError
from margindsl.host.clock import fits_in
from margindsl.program.clusters import ClusterForm
from margindsl.program.forms import FixedLabelForm, Form, SaddleForm
from margindsl.program.lift import LiftForm
from margindsl.program.outside import HELD
from margindsl.typing import FloatArray
from margindsl_solvers.engines.conic import modelling as cp
from margindsl_solvers.engines.conic.clusters import ClusterLowering
from margindsl_solvers.engines.conic.forms import FixedLabelLowering, Lowering, SaddleLowering, capacity_for, cone_of
from margindsl_solvers.engines.conic.lift import LiftDual
from margindsl_solvers.engines.conic.packages import cones_of, package_of, words_of
from margindsl_solvers.engines.course import of_form
from margindsl_solvers.engines.rows.clusters import majorise

COMPILE_WORK, ENTRY_WORK = 4e9, 3e3  # fitted: .2 s, and .15 µs an entry, at 2e10 multiply-adds a second
_GROSS = 1e-2  # relative error from which an answer called optimal is no answer
_OF_THE_DUAL = {Status.INFEASIBLE: Status.UNBOUNDED, Status.UNBOUNDED: Status.INFEASIBLE}


def _read_settings(value: Any) -> Any:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError
    return value if value is None else dict(value)


SETTINGS = Domain("a mapping from names of the package's own options to values or None", _read_settings)


@dataclass(frozen=True, kw_only=True, init=False)
class ConicSolver(Solver):
    """Solve forms with a package behind cvxpy, whose own options pass through: ``md.Solver("scs", alpha=1.6)``.

    Parameters
    ----------
    max_iter : int or None
        Iteration cap, unless the budget sets one; None takes the package's own.
    verbose : bool
        Whether the package prints its log.
    max_entries : int
        Largest number of entries of the dense matrices handed to it.
    max_psd_order : int
        Largest order of a semidefinite cone accepted; an iteration of an interior point costs O(order⁶).
    settings : mapping or None
        Options of the package, which come before what follows from tolerance and limits; they may stand beside the
        others. Their names are checked where they are known.
    """

    engine: ClassVar[str | None] = None  # its name in cvxpy; None leaves the choice to cvxpy
    native: ClassVar[bool] = False

    max_iter: int | None = integers(1, 2**31 - 1).or_none().option(None)  # C integers
    verbose: bool = flags().option(False)
    max_entries: int = integers(1).option(50_000_000)
    max_psd_order: int = integers(0).option(100)
    settings: Mapping[str, Any] | None = field(default=None, hash=False, metadata={"domain": SETTINGS})

    def __new__(cls, **options: Any) -> Any:
        named = cls.engine if isinstance(cls.engine, str) else options.get("engine")
        own, known = cls.option_names(), package_of(str(named).upper()).names()
        given = options.get("settings")
        passed = [key for key in options if key not in own]
        for key in [*passed, *(given if isinstance(given, Mapping) else ())]:
            if named is None or (known and key not in known) or (key in OF_SOLVE and key in passed):
                names = [*own, *known] if key in passed else known
                raise UnknownNameError(f"option of solver {cls.name!r}", key, names, cls._position(key))
        return super().__new__(cls, **{key: value for key, value in options.items() if key in own})

    def __init__(self, **options: Any) -> None:
        for option in fields(self):
            object.__setattr__(self, option.name, options.pop(option.name, option.default))
        self.__post_init__()
        object.__setattr__(self, "settings", {**(self.settings or {}), **options} or None)

    @property
    def cones(self) -> frozenset[str]:
        """Return what cvxpy says the package takes."""
        return cones_of(self.engine)

    def accepts(self, form: Form) -> Offer | Refusal:
        kind = of_form(KINDS, form)
        if kind is None:
            return Refusal(f"it does not know the form {type(form).__name__}")
        if "quadratic" not in self.cones:
            return Refusal(f"solver {self.name!r} takes linear programs only", f"Choose {_alternatives('quadratic')}")
        return kind[0](self, form)

    def open(self, form: Form) -> ConicSession:
        return ConicSession(self)

    def _judge_fixed(self, form: FixedLabelForm) -> Offer | Refusal:
        entries = form.n * min(form.features.rank, form.n) * form.width
        return _first(self._judge_losses(form), self._judge_size(entries), Offer("primal"))

    def _judge_clusters(self, form: ClusterForm) -> Offer | Refusal:
        entries = form.n * min(form.features.rank, form.n) * form.clusters
        return _first(self._judge_losses(form), self._judge_size(entries), Offer("primal"))

    def _judge_saddle(self, form: SaddleForm) -> Offer | Refusal:
        return _first(self._judge_cone("soc", "the minimax master problem needs second-order cones"),
                      self._judge_losses(form),
                      self._judge_size(
                          min(form.features.rank, form.n) * form.width * form.n * capacity_for(form.count)),
                      Offer("dual of the master, one second-order cone a labelling"))

    def _judge_lift(self, form: LiftForm) -> Offer | Refusal:
        if form.losses.is_turned:
            return Refusal("the lift of a loss by label is one of 'interior' alone", "Use solver='interior'")
        rank = min(form.features.rank, form.n) + int(form.free_bias)
        order = form.count + rank
        large = None if order <= self.max_psd_order else Refusal(
            f"solver {self.name!r}: the semidefinite cone has order {order} ({form.count} components + rank {rank}), "
            f"above the limit {self.max_psd_order}, beyond which a solve is estimated to take more than a minute",
            f"Raise it with Solver('{self.name}', max_psd_order={order}), subsample, lower the rank of the "
            "kernel, or choose a solver made for larger sizes (md.solvers() lists them)")
        return _first(self._judge_cone("psd", "the lift needs a semidefinite cone"), self._judge_losses(form), large,
                      self._judge_size(form.n * rank * rank), Offer(f"dual of the lift, order {order}"))

    def _judge_cone(self, cone: str, need: str) -> Refusal | None:
        if cone in self.cones:
            return None
        return Refusal(f"solver {self.name!r} does not support it: {need}",
                       f"Choose {_alternatives(cone)}")

    def _judge_losses(self, form: Form) -> Refusal | None:
        conjugate = lowering_of(form).is_dual
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
            f"Raise it with Solver('{self.name}', max_entries={entries}), subsample, or choose a native "
            "solver (md.solvers() lists them)")


def _first(*answers: Offer | Refusal | None) -> Offer | Refusal:
    # a refusal is falsy, so that `or` cannot choose it
    return next(answer for answer in answers if answer is not None)


def _alternatives(cone: str) -> str:
    return {"psd": "'clarabel' or 'scs'", "quadratic": "'clarabel' or 'osqp'"}.get(cone, "'clarabel', 'ecos' or 'scs'")


class ConicSession(Session):
    """Hold one compiled cvxpy problem for forms that differ in its parameters; another structure is compiled anew."""

    def __init__(self, solver: ConicSolver) -> None:
        self.solver = solver
        self._lowering: Lowering | None = None
        self.changed: cp.Problem | None = None  # what is solved in place of the problem, over its variables

    def loaded(self, form: Form) -> cp.Problem:
        """Return the `cvxpy.Problem` with the parameters of a form: the same object for forms of one structure."""
        return self._prepared(form).problem

    def solve(self, form: Any, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        if not form.is_convex:
            return majorise(form, budget, start, self.solve)
        begin, words, solver = time.perf_counter(), "", self.solver
        if budget.expired:
            return RawSolution(Status.TIME_LIMIT, message="the time was up before the solver began",
                               seconds={"compile": 0.0, "solve": 0.0})
        seconds = {"compile": 0.0, "solve": 0.0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                lowering = self._prepared(form)
                problem = lowering.problem if self.changed is None else self.changed
                sizes = problem.size_metrics
                if not fits_in(COMPILE_WORK + ENTRY_WORK * float(sizes.num_scalar_data + sizes.num_scalar_variables)):
                    return RawSolution(Status.TIME_LIMIT, message="the time left is too short to compile the problem",
                                       seconds=seconds)
                count = sum(parameter.size for parameter in problem.parameters())
                data, chain, inverse = problem.get_problem_data(
                    solver.engine, solver_opts={}, ignore_dpp=count > package_of(solver.engine).parameter_limit)
                middle, package = time.perf_counter(), package_of(chain.solver.name())
                seconds["compile"] = middle - begin
                cap = solver.max_iter if budget.max_iter is None else budget.max_iter
                outside = getattr(form, "outside", None)  # whose rules see weights, as accurate as the root of a value
                tol = min(budget.tol, HELD**2) if outside is not None and outside.rules else budget.tol
                options = package.settings(tol, cap, max(budget.remaining, 1e-3)) | dict(solver.settings or {})
                try:
                    outcome = chain.solve_via_data(problem, data, False, solver.verbose, options)
                except Exception as error:  # what a foreign package makes of options and numbers it does not take
                    raise error if isinstance(error, cp.SolverError) else cp.SolverError(f"{error}") from error
                seconds["solve"] = time.perf_counter() - middle
                words = words_of(outcome)
                problem.unpack_results(outcome, chain, inverse)
            except cp.SolverError as error:
                if words == "interrupted":
                    raise KeyboardInterrupt from None  # the engine caught Ctrl-C itself
                # other solvers are named by whoever knows the form
                why = str(error).partition(" Try another solver")[0].rstrip(".")
                return RawSolution(Status.FAILED, message=f"{words}: {why}" if words else why, seconds=seconds)
        return self._collect(lowering, form, words, seconds, budget.tol)

    def _prepared(self, form: Form) -> Lowering:
        if self._lowering is None or not self._lowering.fits(form):
            if self.changed is not None:
                raise cp.SolverError("the problem was changed for a form of another structure than it meets here")
            self._lowering = lowering_of(form)(form)
        self._lowering.load(form)
        return self._lowering

    def _collect(self, lowering: Lowering, form: Form, words: str, seconds: dict[str, float],
                 tol: float) -> RawSolution:
        problem = lowering.problem if self.changed is None else self.changed
        status = {cp.OPTIMAL: Status.OPTIMAL, cp.OPTIMAL_INACCURATE: Status.INACCURATE,
                  cp.USER_LIMIT: Status.ITERATION_LIMIT, cp.INFEASIBLE: Status.INFEASIBLE,
                  cp.INFEASIBLE_INACCURATE: Status.INFEASIBLE, cp.UNBOUNDED: Status.UNBOUNDED,
                  cp.UNBOUNDED_INACCURATE: Status.UNBOUNDED}.get(problem.status, Status.FAILED)
        if status in (Status.ITERATION_LIMIT, Status.INACCURATE):
            status = (Status.TIME_LIMIT if "time" in words.lower() else
                      Status.ITERATION_LIMIT if "max_iter" in words else status)
        if lowering.is_dual:
            status = _OF_THE_DUAL.get(status, status)
        if status is Status.UNBOUNDED and is_bounded(form):
            status, words = Status.FAILED, f"{words}: the solver calls a bounded problem unbounded"
        stats = problem.solver_stats
        iterations = int(stats.num_iters or 0) if stats is not None else 0
        variables: dict[str, FloatArray] = {}
        if status.has_answer:
            pieces, constraints = [x.value for x in lowering.problem.variables()], lowering.problem.constraints
            for constraint in constraints:  # a second-order cone has a list of multipliers
                dual = constraint.dual_value
                pieces += [part for part in (dual if isinstance(dual, list) else [dual]) if np.size(part) != 1]
            if constraints and all(constraint.dual_value is None for constraint in constraints):
                status, words = Status.FAILED, f"{words}: the solver has no multipliers, of which bounds are made"
            elif any(p is None or not np.all(np.isfinite(np.asarray(p, dtype=float))) for p in pieces):
                status, words = Status.FAILED, f"{words}: no finite answer was returned"
            else:
                variables = lowering.read(form)
        if status is Status.OPTIMAL and self.changed is None:  # of another problem the form knows no gap
            status, words = judged(lowering.error(form, variables), tol, words)
            variables = variables if status.has_answer else {}
        value = problem.value if variables and problem.value is not None else math.nan
        sign = -1.0 if lowering.is_dual else 1.0
        return RawSolution(status, variables, "" if status is Status.OPTIMAL else words, sign * float(value),
                           iterations, seconds)


def judged(error: float, tol: float, words: str) -> tuple[Status, str]:
    """Return the status an answer called optimal deserves by its error, with the solver's words."""
    if error <= max(1e2 * tol, 1e-5):
        return Status.OPTIMAL, words
    sentence = f"{words}, but primal and dual of its answer disagree by {error:.1e}"
    return (Status.INACCURATE if error <= _GROSS else Status.FAILED), sentence


def is_bounded(form: Form) -> bool:
    """Return whether the form is bounded below for sure: no shared scalars, every loss bounded below."""
    if form.losses.scalars.count:
        return False
    try:
        return all(math.isfinite(term.loss.minimum()) for term in form.losses.terms)
    except CalculusError:
        return False


KINDS: dict[type[Form], tuple[Callable[[ConicSolver, Any], Offer | Refusal], type[Lowering[Any]]]] = {
    FixedLabelForm: (ConicSolver._judge_fixed, FixedLabelLowering),
    ClusterForm: (ConicSolver._judge_clusters, ClusterLowering),
    SaddleForm: (ConicSolver._judge_saddle, SaddleLowering),
    LiftForm: (ConicSolver._judge_lift, LiftDual),
}


def lowering_of(form: Form) -> type[Lowering[Any]]:
    """Return the class that writes a form for cvxpy."""
    kind = of_form(KINDS, form)
    assert kind is not None  # refused otherwise
    return kind[1]
