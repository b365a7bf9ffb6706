"""The boundary to solvers: every call of one goes through here, and comes back as an offer or a judged answer."""

from __future__ import annotations

import math
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import numpy as np

from margindsl.contract import Budget, Offer, Progress, RawSolution, Refusal, Session, Solver, Status
from margindsl.drivers.reweighting import reweighted
from margindsl.errors import DeclarationError, InfeasibleError, UnansweredError, UnboundedError
from margindsl.program.answers import fitting, read_answer
from margindsl.program.forms import Form

SOLVED = (Status.OPTIMAL, Status.CONVERGED)
DOUBT, LEAST_DOUBT = 1e3, 1e-5  # times the tolerance asked for, and relative gap, from which a claim is contradicted
PANICS = ("pyo3_runtime",)  # modules of errors that are no `Exception`: compiled code gave up
LONGEST = 400  # characters of foreign words


def name_of(solver: Solver) -> str:
    """Return how a solver is called in messages."""
    return f"solver {getattr(solver, 'name', type(solver).__name__)!r}"


def unanswered(solver: Solver, raw: RawSolution, where: str) -> UnansweredError:
    """Return the error of a solver that gave no answer in some place."""
    return UnansweredError(f"{name_of(solver)} ended as {raw.status.word} {where}: {raw.message or raw.status.value}")


def refuse_impossible(form: Form, status: Status) -> None:
    """Refuse a problem at labels in B that is proved to be what its solver calls it, or why that gave up."""
    if status in (Status.UNBOUNDED, Status.INACCURATE) and form.may_be_unbounded and form.is_unbounded:
        along = [*(["the bias: declare bias='penalised'"] if form.free_bias else []),
                 *(["a scalar: declare it nonneg=True, or add its square"] if form.losses.scalars.count else [])]
        raise UnboundedError(f"the objective falls without end at labels in B along {'; or along '.join(along)}, or "
                             "weigh what falls less")
    guilty = form.contradiction if status is Status.INFEASIBLE else ()
    if guilty:
        sums = (form.decision[position].name for position in guilty)
        raise InfeasibleError(f"no hyperplane satisfies the bounds on {' and '.join(dict.fromkeys(sums))}, which "
                              "contradict one another: leave one of them out, or widen it")
    outside = getattr(form, "outside", None)
    if status is Status.INFEASIBLE and outside is not None and outside.rules:
        raise InfeasibleError("the solver finds that no hyperplane satisfies the constraints written in CVXPY "
                              "(md.cvxpy_constraint) and the bounds beside them: leave one of them out, or widen it")


def offer_of(solver: Solver, form: Form) -> Offer | Refusal:
    """Return what a solver says to a form; one that raises, or says something else, refuses."""
    if getattr(form, "outside", None) is not None and getattr(solver, "native", True):
        return Refusal(f"{name_of(solver)} knows nothing of the terms and constraints that are written in CVXPY",
                       "Use 'clarabel', or another solver behind CVXPY")
    try:
        with np.errstate():
            answer = solver.accepts(form)
    except BaseException as error:
        if not is_of_solver(error):
            raise
        return Refusal(f"{name_of(solver)} {words_of(error)} when it was asked", "Use another solver")
    if isinstance(answer, (Offer, Refusal)):
        return answer
    return Refusal(f"{name_of(solver)} answered a {type(answer).__name__} when it was asked, expected an Offer or a "
                   "Refusal", "Use another solver")


def opened(solver: Solver, form: Form) -> Session:
    """Return a session as the solver opens it."""
    try:
        with np.errstate():
            return solver.open(form)
    except BaseException as error:
        if not is_of_solver(error):
            raise
        raise UnansweredError(f"{name_of(solver)} {words_of(error)}") from error


class Guarded(Session):
    """Hold a session of a solver whose errors become statuses and whose answers are read and judged.

    What the solver raises, and an answer that lacks a variable or holds nonsense, is ``failed`` in its name; the next
    solve opens a new session. A claim that the form's own values contradict is ``inaccurate``. Answers are copied.
    Of a start the solver sees what has the form's shapes.
    Ctrl-C, what a callback raises, and what a handler of a signal raises pass.
    """

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self._session: Session | None = None

    def solve(self, form: Any, budget: Budget, start: RawSolution | None = None,
              is_judged: bool = True) -> RawSolution:
        asked = _Asked(budget.callback)
        if start is not None:
            start = replace(start, variables=fitting(form.variables(), start.variables))
        try:
            with np.errstate():
                if getattr(form, "gauge", None) is not None:
                    answer = reweighted(form, asked.watched(budget), start, lambda plain, *given: read_raw(
                        plain, self.solver.open(plain).solve(plain, *given)))
                else:
                    if self._session is None:
                        self._session = self.solver.open(form)
                    answer = self._session.solve(form, asked.watched(budget), start)
            asked.settle()
            raw = read_raw(form, answer)
        except BaseException as error:
            self._session = None
            asked.settle()
            if not is_of_solver(error):
                raise
            return RawSolution(Status.FAILED, message=f"{name_of(self.solver)} {words_of(error)}")
        if raw.status is Status.INACCURATE and not raw.message:
            raw = replace(raw, message=f"{name_of(self.solver)} ended as inaccurate")
        own = getattr(self.solver, "tol", None)  # a solver's own tolerance is what it claims to have reached
        tol = max(budget.tol, own) if isinstance(own, float) else budget.tol
        if not (is_judged and raw.status in SOLVED and raw.variables):
            return raw
        lower, upper = form.bracket(raw.variables)
        return doubted(form, raw, lower, upper, tol, name_of(self.solver))


@dataclass
class _Asked:
    """Pass reports on to the user's callback and remember what it raised, whatever a solver does with it."""

    callback: Callable[[Progress], bool | None] | None
    raised: list[BaseException] = field(default_factory=list)

    def __call__(self, progress: Progress) -> bool | None:
        assert self.callback is not None
        try:
            return self.callback(progress)
        except BaseException as error:
            self.raised.append(error)
            raise

    def watched(self, budget: Budget) -> Budget:
        """Return the budget with this as its callback, where it has one."""
        return budget if self.callback is None else budget.replace(callback=self)

    def settle(self) -> None:
        """Raise what the callback raised first."""
        if self.raised:
            raise self.raised[0]


def is_of_solver(error: BaseException) -> bool:
    """Return whether an error is the solver's own: no Ctrl-C, nothing that the handler of a signal raised."""
    if not isinstance(error, (Exception, SystemExit)) and type(error).__module__ not in PANICS:
        return False
    codes = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()} - {None}
    return not any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def words_of(error: BaseException) -> str:
    """Return what was raised, with its words and its place."""
    if isinstance(error, _Unreadable):
        return str(error)
    try:
        words = str(error)
    except Exception:  # the text of an error is foreign code, too
        words = ""
    position = traceback.extract_tb(error.__traceback__)[-1]
    sentence = f": {words if len(words) <= LONGEST else words[:LONGEST] + '...'}" if words else ""
    return f"raised {type(error).__name__}{sentence} ({PurePath(position.filename).name}, line {position.lineno})"


class _Unreadable(Exception):
    """An answer is none."""


def read_raw(form: Form, answer: Any) -> RawSolution:
    """Return an answer with variables of its own, in the shapes the form expects, real and finite."""
    if not isinstance(answer, RawSolution):
        raise _Unreadable(f"answered a {type(answer).__name__}, expected a RawSolution")
    status, message = answer.status, str(answer.message)
    if not isinstance(status, Status):
        raise _Unreadable(f"answered the status {status!r}, expected a Status")
    if not status.has_answer or not answer.variables:
        sentence = f": {message}" if message else ""
        if status in (*SOLVED, Status.INACCURATE):
            raise _Unreadable(f"ended as {status.word} without variables{sentence}")
        impossible = {Status.INFEASIBLE: not form.may_be_infeasible, Status.UNBOUNDED: not form.may_be_unbounded}
        if impossible.get(status):
            raise _Unreadable(f"ended as {status.word}, which this form cannot be{sentence}")
        return RawSolution(status, message=message)
    try:
        variables, mended = read_answer(form.variables(), answer.variables)
    except DeclarationError as error:
        raise _Unreadable(f"ended as {status.word}, but of its variables {error}") from None
    if mended and status in SOLVED:
        status, message = Status.INACCURATE, f"{mended}{'; ' + message if message else ''}"
    seconds = {str(stage): float(spent) for stage, spent in answer.seconds.items() if math.isfinite(spent)}
    return RawSolution(status, variables, message, float(answer.objective), int(answer.iterations), seconds,
                       tuple(answer.trace))


def doubted(form: Form, raw: RawSolution, lower: float, upper: float, tol: float, name: str) -> RawSolution:
    """Return an answer whose claim is inaccurate where a dual and a primal value, else infinite, contradict it."""
    if raw.status not in SOLVED or np.isposinf(upper) or np.isneginf(lower):
        return raw
    allowed = max(DOUBT * tol, LEAST_DOUBT)
    if upper - lower <= allowed * max(abs(lower), abs(upper)):
        return raw
    size = np.abs(form.losses.row_losses(form.losses.arguments(np.zeros(form.n))))  # at w = 0, for optima near zero
    if upper - lower <= allowed * float(np.sum(size[np.isfinite(size)])):
        return raw
    message = (f"{name} ended as {raw.status.word}, but its values are {upper:.6g} and, dual, {lower:.6g}"
               f"{'; ' + raw.message if raw.message else ''}")
    return replace(raw, status=Status.INACCURATE, message=message)
