"""Solvers that misbehave: a real one inside, and one fault a name, to see that nothing wrong comes through."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from margindsl.contract import Budget, Domain, Offer, RawSolution, Refusal, Session, Solver, Status
from margindsl.errors import one_of
from margindsl.program.forms import Form
from margindsl.runtime.registry import as_solver

PAUSE = 0.01  # seconds of a chunk of work
PATIENCE = 0.1  # seconds after which a solver that ignores its deadline ends after all

Alter = Callable[["Call", RawSolution], Any]
Act = Callable[["Call"], None]


@dataclass
class Call:
    """Represent one call of a faulty session.

    Parameters
    ----------
    memory : dict
        What the session keeps between calls; ``"count"`` is the number of calls so far.
    """

    form: Form
    budget: Budget
    start: RawSolution | None
    memory: dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """Represent one way to misbehave.

    Parameters
    ----------
    alter : callable (call, answer) -> answer, optional
        What becomes of the answer.
    before : callable (call), optional
        What is done before the form is solved.
    accepts, opens : callable (), optional
        What is done when the solver is asked, and when it opens a session.
    is_harmless : bool
        Whether the answer is right, so that nothing may be lost.
    """

    summary: str
    alter: Alter = lambda call, answer: answer
    before: Act = lambda call: None
    accepts: Callable[[], Any] = lambda: None
    opens: Callable[[], Any] = lambda: None
    is_harmless: bool = False


class _Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class SolverError(Exception):
    """An error as modelling packages raise it."""


RAISED: Mapping[str, Callable[[], BaseException]] = MappingProxyType({
    "value-error": lambda: ValueError("the pivots ran out"),
    "type-error": lambda: TypeError("unsupported operand"),
    "key-error": lambda: KeyError("x"),
    "attribute-error": lambda: AttributeError("no attribute 'x'"),
    "memory-error": MemoryError,
    "recursion-error": lambda: RecursionError("maximum recursion depth exceeded"),
    "assertion-error": AssertionError,
    "arithmetic-error": lambda: ArithmeticError("not in the domain"),
    "zero-division-error": lambda: ZeroDivisionError("division by zero"),
    "lin-alg-error": lambda: np.linalg.LinAlgError("singular matrix"),
    "solver-error": lambda: SolverError("Solver 'X' failed. Try another solver"),
    "os-error": lambda: OSError(28, "No space left on device"),
    "unicode-error": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "stop-iteration": StopIteration,
    "system-exit": lambda: SystemExit(3),
    "warning": lambda: UserWarning("solution may be inaccurate"),
    "import-error": lambda: ImportError("libx.so: cannot open shared object file"),
    "not-implemented-error": lambda: NotImplementedError("quadratic objective"),
    "timeout-error": lambda: TimeoutError("timed out"),
    "error-without-words": _Mute,
    "error-of-many-words": lambda: RuntimeError("word " * 10_000),
})


def _throw(make: Callable[[], BaseException]) -> None:
    raise make()


def _at_call(number: int, make: Callable[[], BaseException]) -> Act:
    def act(call: Call) -> None:
        if call.memory["count"] == number:
            raise make()

    return act


def _each(change: Callable[[np.ndarray], Any], *names: str) -> Alter:
    """Return an answer whose variables, or some of them, are changed."""
    def alter(call: Call, answer: RawSolution) -> RawSolution:
        changed = {name: change(np.array(value)) if not names or name in names else value
                   for name, value in answer.variables.items()}
        return replace(answer, variables=changed)

    return alter


def _poked(array: np.ndarray, value: float) -> np.ndarray:
    """Return the array with one entry replaced."""
    out = np.array(array, dtype=float)
    if out.size:
        out.flat[out.size // 2] = value
    return out


def _without(*names: str) -> Alter:
    return lambda call, answer: replace(
        answer, variables={name: value for name, value in answer.variables.items() if name not in names})


def _claims(status: Any, **fields: Any) -> Alter:
    return lambda call, answer: replace(answer, status=status, **fields)


def _optimal(change: Callable[[np.ndarray], Any]) -> Alter:
    return lambda call, answer: replace(_each(change)(call, answer), status=Status.OPTIMAL)


def _earlier(call: Call, answer: RawSolution) -> RawSolution:
    return call.memory.setdefault("first", answer)


def _altered_later(call: Call, answer: RawSolution) -> RawSolution:
    """Return arrays that turn to NaN once the next answer is given."""
    for array in call.memory.get("given", []):
        array.fill(np.nan)
    own = {name: np.array(value, dtype=float) for name, value in answer.variables.items()}
    call.memory["given"] = list(own.values())
    return replace(answer, variables=own)


def _aliases(call: Call, answer: RawSolution) -> RawSolution:
    """Return the arrays of the form itself where the shapes agree."""
    own = [call.form.losses.weights, call.form.losses.shifts, call.form.losses.slopes]
    return replace(answer, variables={
        name: next((array for array in own if np.shape(array) == np.shape(value)), value)
        for name, value in answer.variables.items()})


def _write(name: str) -> Act:
    """Double an array of the losses in place."""
    def act(call: Call) -> None:
        array = getattr(call.form.losses.terms[0], name)
        array *= 2

    return act


def _write_labels(call: Call) -> None:
    for name in ("labels", "labellings", "sign", "component", "clustering"):
        if hasattr(call.form, name):
            getattr(call.form, name)[...] = 1
    call.form.losses.points[...] = 0


def _write_matrix(call: Call) -> None:
    features: Any = call.form.features
    features.matrix[...] = 0.0


def _write_start(call: Call) -> None:
    if call.start is not None:
        for array in call.start.variables.values():
            array[...] = np.nan


def _unlock(call: Call) -> None:
    weights = call.form.losses.terms[0].weights
    weights.flags.writeable = True
    weights *= 0.5


def _write_quietly(call: Call) -> None:
    """Try to write everything at hand, and say nothing."""
    for act in (_write("weights"), _write("shifts"), _write_labels, _write_matrix, _write_start, _unlock):
        try:
            act(call)
        except (ValueError, AttributeError):
            continue


def _thread(call: Call) -> None:
    threading.Thread(target=time.sleep, args=(PATIENCE,), daemon=True).start()


def _blas(call: Call) -> None:
    from threadpoolctl import ThreadpoolController

    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        library.set_num_threads(library.get_num_threads() + 1)


def _pace(call: Call) -> None:
    """Work in chunks until the deadline, or for a while where there is none."""
    end = min(call.budget.deadline, time.monotonic() + PATIENCE)
    while time.monotonic() < end:
        time.sleep(min(PAUSE, max(end - time.monotonic(), 0.0)))


def _overstay(call: Call) -> None:
    if call.budget.remaining < PATIENCE:
        time.sleep(PAUSE)


def _late(call: Call, answer: RawSolution) -> RawSolution:
    time.sleep(PAUSE)
    return answer


def _call_back(call: Call) -> None:
    for index in range(3):
        call.budget.report("faulty", index, np.nan, -np.inf)


def _fault(summary: str, **parts: Any) -> Fault:
    return Fault(summary, **parts)


def _harmless(summary: str, **parts: Any) -> Fault:
    return Fault(summary, is_harmless=True, **parts)


def _raises() -> dict[str, Fault]:
    faults = {f"raises-{name}": Fault(f"raises {type(make()).__name__} in solve", before=_at_call(1, make))
              for name, make in RAISED.items()}
    words = RAISED["value-error"]
    return faults | {
        "raises-when-asked": Fault("raises in accepts", accepts=lambda: _throw(words)),
        "raises-on-open": Fault("raises in open", opens=lambda: _throw(words)),
        "exits-on-open": Fault("leaves the interpreter in open", opens=lambda: _throw(RAISED["system-exit"])),
        "raises-on-third-solve": Fault("raises in the third solve of a session", before=_at_call(3, words)),
        "raises-after-solving": Fault("solves, then raises", alter=lambda call, answer: _throw(words)),
        "opens-nothing": Fault("opens None", opens=lambda: "nothing"),
        "answers-true-when-asked": Fault("says True instead of an Offer", accepts=lambda: True),
    }


def _nonsense() -> dict[str, Fault]:
    return {
        "nan": Fault("all variables are NaN", alter=_each(lambda a: np.full(a.shape, np.nan))),
        "one-nan": Fault("one entry of each variable is NaN", alter=_each(lambda a: _poked(a, np.nan))),
        "infinity": Fault("one entry of each variable is infinite", alter=_each(lambda a: _poked(a, np.inf))),
        "huge": Fault("one entry of each variable is 1e300", alter=_each(lambda a: _poked(a, 1e300))),
        "zeros": Fault("all variables are zero", alter=_optimal(np.zeros_like)),
        "ones": Fault("all variables are one", alter=_optimal(np.ones_like)),
        "negated": Fault("all variables change sign", alter=_optimal(np.negative)),
        "noise": Fault("variables are off by a tenth", alter=_optimal(lambda a: a + 0.1)),
        "slightly-off": Fault("variables are off by a millionth", alter=_each(lambda a: a * (1 + 1e-6))),
        "infeasible": Fault("weights are a hundred times too long", alter=_each(lambda a: 100 * a, "w", "W", "V")),
        "negative-duals": Fault("multipliers are negative", alter=_each(
            lambda a: -np.abs(a) - 0.1, "u", "d", "kappa", "eta", "tau", "mu", "a")),
        "wrong-shape": Fault("variables are too long", alter=_each(lambda a: np.append(a, 0.0))),
        "too-short": Fault("variables are too short", alter=_each(lambda a: a.ravel()[:-1])),
        "transposed": Fault("matrices are transposed", alter=_each(lambda a: a.T if a.ndim == 2 else a[None, :].T)),
        "missing-primal": Fault("no weights are given", alter=_without("w", "W", "M", "V")),
        "missing-dual": Fault("no multipliers are given", alter=_without("u", "a", "d", "kappa", "eta", "tau")),
        "missing-bias": Fault("no bias, scalars or mixture", alter=_without("bias", "scalars", "mu")),
        "missing-all": Fault("no variables are given", alter=lambda call, answer: replace(answer, variables={})),
        "none": Fault("answers None", alter=lambda call, answer: None),
        "dictionary": Fault("answers a dict", alter=lambda call, answer: dict(answer.variables)),
        "number": Fault("answers its objective", alter=lambda call, answer: answer.objective),
        "none-variables": Fault("variables are None", alter=_each(lambda a: None)),
        "complex": Fault("variables are complex", alter=_each(lambda a: a + 1e-9j)),
        "objects": Fault("variables are objects", alter=_each(lambda a: np.full(a.shape, object()))),
        "strings": Fault("variables are strings", alter=_each(lambda a: np.full(a.shape, "x"))),
        "masked": Fault("an entry of each variable is masked", alter=_each(
            lambda a: np.ma.masked_array(a, mask=np.arange(a.size).reshape(a.shape) == 0))),
        "aliases": Fault("answers arrays of the form", alter=_aliases),
        "earlier-answer": Fault("answers what it answered first", alter=_earlier),
        "float32": _harmless("variables in single precision", alter=_each(lambda a: a.astype(np.float32))),
        "lists": _harmless("variables as nested lists", alter=_each(lambda a: a.tolist())),
        "extra": _harmless("variables nobody asked for", alter=lambda call, answer: replace(
            answer, variables={**answer.variables, "gossip": object(), "more": np.full(3, np.nan)})),
        "altered-later": _harmless("answers turn to NaN later", alter=_altered_later),
    }


def _claimed() -> dict[str, Fault]:
    claimed: dict[str, Fault] = {
        f"claims-{status.word.replace('_', '-')}": Fault(f"calls every answer {status.word}", alter=_claims(status))
        for status in Status}
    return claimed | {
        "claims-infeasible-empty": Fault("says infeasible without variables", alter=_claims(
            Status.INFEASIBLE, variables={})),
        "claims-optimal-empty": Fault("says optimal without variables", alter=_claims(Status.OPTIMAL, variables={})),
        "claims-time-limit-empty": Fault("says time limit without variables", alter=_claims(
            Status.TIME_LIMIT, variables={})),
        "claims-a-word": Fault("the status is a word", alter=_claims("optimal")),
        "claims-nothing": Fault("the status is None", alter=_claims(None)),
        "claims-minus-infinity": _harmless("the objective is -inf", alter=_claims(
            Status.OPTIMAL, objective=-np.inf)),
        "claims-nan": _harmless("the objective is NaN", alter=_claims(Status.OPTIMAL, objective=np.nan)),
        "claims-no-objective": Fault("the objective is None", alter=_claims(Status.OPTIMAL, objective=None)),
        "claims-no-message": _harmless("the message is None", alter=_claims(Status.OPTIMAL, message=None)),
        "claims-wrong-seconds": Fault("the seconds are words", alter=_claims(Status.OPTIMAL, seconds={1: "long"})),
    }


def _writes() -> dict[str, Fault]:
    return {
        "writes-weights": Fault("writes to the weights of the losses", before=_write("weights")),
        "writes-shifts": Fault("writes to the shifts of the losses", before=_write("shifts")),
        "writes-labels": Fault("writes to labels and points", before=_write_labels),
        "writes-matrix": Fault("writes to the features", before=_write_matrix),
        "writes-start": Fault("writes to the warm start", before=_write_start),
        "unlocks-weights": Fault("makes the weights writeable, then writes", before=_unlock),
        "writes-quietly": _harmless("tries to write everything, and goes on", before=_write_quietly),
    }


def _manners() -> dict[str, Fault]:
    return {
        "prints": _harmless("prints to standard output and error", before=lambda call: print(
            "iter 1", file=sys.stderr if call.memory["count"] % 2 else sys.stdout)),
        "leaks-threads": _harmless("leaves a thread behind", before=_thread),
        "sets-blas-threads": _harmless("changes the number of BLAS threads", before=_blas),
        "reports-nonsense": _harmless("reports NaN to the callback", before=_call_back),
        "hangs-until-deadline": Fault("works in chunks until the deadline", before=_pace),
        "ignores-deadline": Fault("goes on a while after the deadline", before=_overstay),
        "returns-late": _harmless("waits before it answers", alter=_late),
    }


FAULTS: Mapping[str, Fault] = MappingProxyType(
    _raises() | _nonsense() | _claimed() | _writes() | _manners())



def _read_fault(value: Any) -> str:
    return str(one_of("fault", value, FAULTS))


@dataclass(frozen=True, kw_only=True)
class FaultySolver(Solver):
    """Solve with a real solver, and misbehave in one way.
    """

    name: ClassVar[str] = "faulty"
    summary: ClassVar[str] = "a real solver with one fault, for tests"
    warm_starts: ClassVar[bool] = True

    solver: Any = "newton"
    fault: str = Domain("a name of FAULTS", _read_fault).option("nan")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "solver", as_solver(self.solver))

    @property
    def native(self) -> bool:  # type: ignore[override]
        """Return whether the real solver is native."""
        return bool(self.solver.native)

    def accepts(self, form: Form) -> Offer | Refusal:
        other = FAULTS[self.fault].accepts()
        return self.solver.accepts(form) if other is None else other

    def open(self, form: Form) -> Session:
        other = FAULTS[self.fault].opens()
        return _FaultySession(FAULTS[self.fault], self.solver.open(form)) if other is None else None  # type: ignore[return-value]


@dataclass
class _FaultySession(Session):
    """Solve with a real session, and misbehave."""

    fault: Fault
    session: Session
    memory: dict[str, Any] = field(default_factory=lambda: {"count": 0})

    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        self.memory["count"] += 1
        call = Call(form, budget, start, self.memory)
        self.fault.before(call)
        return self.fault.alter(call, self.session.solve(form, budget, start))
