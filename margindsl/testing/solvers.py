"""The conformance suite of solvers: what every one must do with the standard forms it accepts."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, singledispatch
from typing import Any

import numpy as np

from margindsl.contract import Budget, RawSolution, Refusal, Solver, Status
from margindsl.drivers.guard import Guarded
from margindsl.errors import UnknownNameError
from margindsl.program.branching import BranchNodeForm
from margindsl.program.forms import FixedLabelForm, Form, SaddleForm
from margindsl.program.lift import LiftForm
from margindsl.program.lift_certificate import repair_lift
from margindsl.relaxations.exact import Exact
from margindsl.runtime.registry import as_relaxation, as_solver
from margindsl.testing.report import Report, Trial, require, run_checks
from margindsl.testing.zoo import zoo

TOL = 1e-6
CLOSE = 2e-4  # relative agreement asked for at TOL; first-order solvers measure their tolerance differently


def check_solver(solver: Any, only: Iterable[str] | None = None) -> Report:
    """Run the conformance suite of solvers.

    Parameters
    ----------
    solver : str, Solver, or a subclass of Solver
        A registered name, an object with options, or a class, built with its defaults.
    only : iterable of str, optional
        Keys of `SOLVER_CHECKS`; None runs all.

    Returns
    -------
    Report
        One line a check; `report.require()` raises if one failed.

    Raises
    ------
    UnknownNameError
        If a name is not known.
    NotInstalledError
        If the package behind a named solver is not installed.
    """
    if isinstance(solver, type):
        solver = solver()
    subject = as_solver(solver)
    return run_checks(SolverTrial(subject), f"solver {subject.name!r}", SOLVER_CHECKS, only)


class SolverTrial(Trial):
    """Represent a solver under test with the standard forms it accepts.

    What a solver compiles is compiled once a form; native sessions, which may carry state, are opened for every answer.
    """

    def __init__(self, solver: Solver) -> None:
        super().__init__(
            solver, lambda: ((name, form) for name, form in standard_forms() if solver.accepts(form)), self.answer)
        self._sessions: dict[int, Guarded] = {}

    def session(self, form: Form) -> Guarded:
        """Return a session to ask for answers to one of the cases."""
        if self.subject.native:
            return Guarded(self.subject)
        if id(form) not in self._sessions:
            self._sessions[id(form)] = Guarded(self.subject)
        return self._sessions[id(form)]

    def answer(self, form: Form, budget: Budget | None = None, start: RawSolution | None = None) -> RawSolution:
        """Return the solver's answer to one of the cases, its claims as they are."""
        return self.session(form).solve(form, budget or Budget(tol=TOL), start, is_judged=False)


def standard_forms() -> Iterator[tuple[str, Form]]:
    """Yield the standard forms of the zoo, with what they are called in messages."""
    for known in zoo():
        program = known.problem.program()
        labels = program.labels.names.read(known.labels)
        yield f"fixed labels of {known.name!r}", program.fix_labels(labels)
        for name in ("cccp", "sdp", "minimax", "weight-lifting"):
            relaxation = as_relaxation(name)
            if not relaxation.accepts(program):
                continue
            form = _widened(relaxation.lower(program), labels)
            if form is not None:
                yield f"{name} form of {known.name!r}", form
        branching = as_relaxation(Exact(method="branching"))
        if branching.accepts(program) and isinstance(node := branching.lower(program), BranchNodeForm):
            yield f"first node of {known.name!r}", node


@singledispatch
def _widened(form: Any, labels: np.ndarray) -> Form | None:
    """Return a form as it is, a saddle form over several labellings instead of the first one."""
    widened: Form = form
    return widened


@_widened.register(SaddleForm)
def _(form: SaddleForm, labels: np.ndarray) -> Form:
    flips = np.random.default_rng(0).random((4, form.n)) < 0.3
    return dataclasses.replace(form, labellings=np.vstack([labels, np.where(flips, 1 - labels, labels)]),
                               biases=np.resize(form.biases, (5, form.width)))


@_widened.register(LiftForm)
def _(form: LiftForm, labels: np.ndarray) -> Form | None:
    """Return the form but for exact balance, at which no dual point is best."""
    return form if all(bound.radius > 0 for bound in form.balance) else None


@singledispatch
def residuals(form: Any, raw: RawSolution) -> dict[str, float]:
    """Return how far an answer is from each kind of constraint of its form, in multiples of what is allowed."""
    return {}


@residuals.register(FixedLabelForm)
def _(form: FixedLabelForm, raw: RawSolution) -> dict[str, float]:
    residual = form.dual_residual(raw["u"], raw.get("tau"))
    return {"primal residual": form.primal_residual(raw["w"], raw["bias"], raw["scalars"]) / CLOSE,
            "dual residual": residual / (CLOSE * float(np.abs(raw["u"]).sum())) if residual else 0.0}


@residuals.register(SaddleForm)
def _(form: SaddleForm, raw: RawSolution) -> dict[str, float]:
    mu = np.asarray(raw["mu"])
    return {"least mass of mu": -min(float(mu.min()), 0.0) / 1e-9, "sum of mu": abs(float(mu.sum()) - 1.0) / 1e-6}


@singledispatch
def relabelled(form: Any) -> Form | None:
    """Return a form of the same shape with another label, None where its labels are not fixed."""
    return None


@relabelled.register(FixedLabelForm)
def _(form: FixedLabelForm) -> Form:
    return dataclasses.replace(form, labels=np.where(np.arange(form.n) == 1, 1 - form.labels, form.labels))


def answer(solver: Solver, form: Form, budget: Budget | None = None, start: RawSolution | None = None) -> RawSolution:
    """Return a solver's answer as the library reads it, its claims as they are."""
    return Guarded(solver).solve(form, budget or Budget(tol=TOL), start, is_judged=False)


def bracket(form: Form, raw: RawSolution) -> tuple[float, float]:
    """Return (lower, upper) values of a form at an answer, recomputed; inf where no primal was given."""
    require(raw.has_answer, f"ended as {raw.status.word}: {raw.message}")
    return values(form, raw)


@singledispatch
def values(form: Any, raw: RawSolution) -> tuple[float, float]:
    """Return (lower, upper) values of a form at an answer."""
    found: tuple[float, float] = form.bracket(raw.variables)
    return found


@values.register(LiftForm)
def _(form: LiftForm, raw: RawSolution) -> tuple[float, float]:
    """Return what the dual point proves, which takes a repair."""
    return repair_lift(form, raw).bound, math.inf


def _size(form: Form, *values: float) -> float:
    return max(form.negligible, *(abs(v) for v in values if math.isfinite(v)))


def _accepts_something(trial: Trial) -> None:
    """At least one standard form of the zoo is accepted."""
    require(bool(trial.cases), "no form of the zoo is accepted")


def _answers_have_shapes(trial: Trial) -> None:
    """Answers carry the variables the form's docstring names, in their shapes, all finite."""
    for name, _, raw in trial.answers():
        require(raw.has_answer, f"{name}: ended as {raw.status.word}: {raw.message}")


def _gap_closes(trial: Trial) -> None:
    """The recomputed primal and dual values agree, even where the solver calls its answer inaccurate or cut short."""
    for name, form, raw in trial.answers():
        lower, upper = bracket(form, raw)
        if not math.isfinite(upper):
            upper = raw.objective
        require(raw.status in (Status.OPTIMAL, Status.INACCURATE, Status.ITERATION_LIMIT),
                f"{name}: ended as {raw.status.word}: {raw.message}")
        require(abs(upper - lower) <= CLOSE * _size(form, upper, lower),
                f"{name}: primal {upper:.9g}, dual {lower:.9g}")


def _residuals_vanish(trial: Trial) -> None:
    """Answers to fixed-label forms satisfy the primal and dual constraints; mixtures lie in the simplex."""
    for name, form, raw in trial.answers():
        for what, size in residuals(form, raw).items():
            require(size <= 1.0, f"{name}: {what} off by {size:.2g} times what is allowed")


@cache
def _reference_forms() -> dict[str, Form]:
    return dict(standard_forms())


@cache
def _reference_value(reference: str, name: str) -> float | None:
    """Return a reference's value of a standard form, the same whoever is compared; None where it refuses the form."""
    form, solver = _reference_forms()[name], as_solver(reference)
    return bracket(form, answer(solver, form))[0] if solver.accepts(form) else None


def _agrees_with_the_reference(trial: Trial) -> None:
    """Recomputed values agree with those of another solver ("clarabel", or "newton" for clarabel itself)."""
    for name, form, raw in trial.answers():
        other = _reference_value("newton" if trial.subject.name == "clarabel" else "clarabel", name)
        if other is None:
            continue
        own = bracket(form, raw)[0]
        require(abs(own - other) <= CLOSE * _size(form, own, other),
                f"{name}: {own:.9g}, the reference has {other:.9g}")


def _sessions_are_reused(trial: SolverTrial) -> None:
    """One session solves other labels of the same shape as a fresh one does."""
    for name, form in trial.cases:
        flipped = relabelled(form)
        if flipped is None:
            continue
        session = trial.session(form)
        session.solve(form, Budget(tol=TOL))
        again, fresh = session.solve(flipped, Budget(tol=TOL)), answer(trial.subject, flipped)
        values = [bracket(flipped, raw)[1] for raw in (again, fresh)]
        require(abs(values[0] - values[1]) <= CLOSE * _size(form, *values),
                f"{name}: {values[0]:.9g} in a used session, {values[1]:.9g} in a fresh one")


def _starts_do_no_harm(trial: SolverTrial) -> None:
    """A warm start changes no value, whatever it lacks; one of the wrong shape is ignored."""
    wrong = RawSolution(Status.OPTIMAL, {"w": np.zeros(1), "u": np.full(2, np.nan), "W": np.zeros((1, 1))})
    met: Counter[type[Form]] = Counter()
    for name, form, cold in trial.answers():
        value, seen = bracket(form, cold)[0], met[type(form)]
        met[type(form)] += 1
        for start in (cold, wrong) if not seen else (cold,) * (seen % 3 == 0):  # of every kind of form some
            warm = bracket(form, trial.answer(form, start=start))[0]
            require(abs(warm - value) <= CLOSE * _size(form, warm, value), f"{name}: {value:.9g} cold, {warm:.9g} warm")


def _forms_are_left_alone(trial: Trial) -> None:
    """Solving changes nothing in the form."""
    for name, form, _ in trial.answers():
        pristine = _reference_forms()[name]
        for now, before in ((form.losses.weights, pristine.losses.weights),
                            (form.features.toarray(), pristine.features.toarray())):
            require(np.array_equal(now, before), f"{name}: the form was changed")


def _limits_are_statuses(trial: SolverTrial) -> None:
    """Limits end in a status, never an exception, and "optimal" is claimed only with a closed gap."""
    for name, form in trial.cases:
        for budget in (Budget(tol=TOL, max_iter=1), Budget.within(0.0, tol=TOL)):
            raw = trial.answer(form, budget)
            if raw.status is Status.OPTIMAL:
                lower, upper = bracket(form, raw)
                upper = upper if math.isfinite(upper) else raw.objective
                require(abs(upper - lower) <= CLOSE * _size(form, upper, lower), f"{name}: 'optimal' with an open gap")
            else:
                require(bool(raw.message or raw.status.value), f"{name}: ended as {raw.status.word} without words")


def _refusals_give_a_reason(trial: Trial) -> None:
    """A form that is not accepted is answered with a Refusal that gives a reason."""
    for name, form in _reference_forms().items():
        answer = trial.subject.accepts(form)
        if not answer:
            require(isinstance(answer, Refusal) and bool(answer.reason), f"{name}: refused without a reason")


def _options_are_checked(trial: Trial) -> None:
    """Options are immutable, an unknown one is refused by name, and the name is kebab-case."""
    solver = trial.subject
    require(solver.name == solver.name.lower() and " " not in solver.name and "_" not in solver.name,
            f"the name {solver.name!r} is not kebab-case")
    require(bool(solver.summary), "no summary is given")
    try:
        type(trial.subject)(no_such_option=1)
    except UnknownNameError as error:
        require("no_such_option" in str(error), f"the message does not name the option: {error}")
    else:
        require(False, "an unknown option was taken")
    for field in dataclasses.fields(solver)[:1]:
        try:
            setattr(trial.subject, field.name, None)
        except dataclasses.FrozenInstanceError:
            continue
        require(False, "options can be changed after construction")


SOLVER_CHECKS: dict[str, Callable[[SolverTrial], None]] = {
    check.__name__.lstrip("_"): check for check in (
        _accepts_something, _answers_have_shapes, _gap_closes, _residuals_vanish, _agrees_with_the_reference,
        _sessions_are_reused, _starts_do_no_harm, _forms_are_left_alone, _limits_are_statuses,
        _refusals_give_a_reason, _options_are_checked)}
