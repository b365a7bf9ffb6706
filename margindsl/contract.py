"""The one file a solver author reads: Solver, Offer, Refusal, RawSolution, Status, Budget, Trace.

A solver is a frozen dataclass of its own options (keyword only) with a `name`. It says which forms it accepts
(`accepts`), and solves them (`open` gives a session, so that repeated subproblems of one shape are compiled
once). It never raises because a problem is hard: its failure is a `Status` with its own words.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib.metadata
import importlib.util
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from margindsl.errors import NotInstalledError, UnknownNameError
from margindsl.program.forms import Form
from margindsl.typing import FloatArray


class Status(enum.Enum):
    """Say how a solve ended; the value is the sentence the user reads."""

    OPTIMAL = "solved to the tolerance, with a certificate"
    CONVERGED = "converged; no certificate of global optimality"
    INACCURATE = "stopped before the tolerance was reached; the answer is usable"
    ITERATION_LIMIT = "iteration limit reached; the best answer so far is returned"
    TIME_LIMIT = "time limit reached; the best answer so far is returned"
    INTERRUPTED = "interrupted; the best answer so far is returned"
    INFEASIBLE = "no point satisfies the constraints"
    UNBOUNDED = "the objective is unbounded below"
    FAILED = "the solver failed"

    @property
    def word(self) -> str:
        """Return the lower-case word, for instance ``"time_limit"``."""
        return self.name.lower()

    @property
    def has_answer(self) -> bool:
        """Return whether variables can be expected."""
        return self not in (Status.INFEASIBLE, Status.UNBOUNDED, Status.FAILED)


@dataclass(frozen=True)
class Offer:
    """Say that a form is accepted, and what the solver will do with it."""

    note: str = ""

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True)
class Refusal:
    """Say that a form or program is not accepted, why, and what to do instead."""

    reason: str
    repair: str = ""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"{self.reason}. {self.repair}" if self.repair else f"{self.reason}."


@dataclass(frozen=True)
class Progress:
    """Represent one report to a callback.

    Parameters
    ----------
    stage : str
        The loop that reports, for instance ``"label generation"``.
    iteration : int
        Its iteration.
    value : float
        The best value so far, in the user's units where known.
    bound : float
        The best lower bound or estimate so far.
    seconds : float
        Seconds since the solve began.
    """

    stage: str
    iteration: int
    value: float
    bound: float
    seconds: float


@dataclass(frozen=True)
class Budget:
    """Represent how much a solve may spend.

    Parameters
    ----------
    tol : float
        Relative accuracy (gap between primal and dual value).
    max_iter : int or None
        Iteration cap; None leaves the solver's own.
    deadline : float
        `time.monotonic` at which to stop.
    callback : callable or None
        Called with a `Progress`; a true answer stops the solve.
    start : float
        `time.monotonic` when the solve began.
    """

    tol: float = 1e-6
    max_iter: int | None = None
    deadline: float = float("inf")
    callback: Callable[[Progress], bool | None] | None = None
    start: float = field(default_factory=time.monotonic)

    @classmethod
    def within(cls, seconds: float | None = None, **options: Any) -> Budget:
        """Return a budget that ends after the given number of seconds."""
        now = time.monotonic()
        deadline = float("inf") if seconds is None else now + seconds
        return cls(deadline=deadline, start=now, **options)

    @property
    def remaining(self) -> float:
        """Return the seconds left (inf without a limit)."""
        return self.deadline - time.monotonic()

    @property
    def expired(self) -> bool:
        """Return whether the time is up."""
        return time.monotonic() >= self.deadline

    def report(self, stage: str, iteration: int, value: float, bound: float) -> bool:
        """Call the callback and return whether it asks to stop."""
        if self.callback is None:
            return False
        seconds = time.monotonic() - self.start
        return bool(self.callback(Progress(stage, iteration, value, bound, seconds)))

    def replace(self, **changes: Any) -> Budget:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def _freeze(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(mapping))


@dataclass(frozen=True)
class RawSolution:
    """Represent what a solver says; nothing in it is trusted before the form has judged it.

    Parameters
    ----------
    status : Status
        How the solve ended.
    variables : mapping of str to array
        The variables the form's docstring names.
    message : str
        The solver's own words, kept when it failed.
    objective : float
        The value the solver claims (never used as a bound).
    iterations : int
    seconds : mapping of str to float
        Seconds by stage, at least ``compile`` and ``solve``.
    trace : tuple of (seconds, primal, dual)
        The course of the solve where the solver keeps one.
    """

    status: Status
    variables: Mapping[str, FloatArray] = field(default_factory=dict)
    message: str = ""
    objective: float = float("nan")
    iterations: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    trace: tuple[tuple[float, float, float], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", _freeze(self.variables))
        object.__setattr__(self, "seconds", _freeze(self.seconds))

    @property
    def has_answer(self) -> bool:
        """Return whether there are variables to work with."""
        return self.status.has_answer and bool(self.variables)

    def __getitem__(self, name: str) -> FloatArray:
        return self.variables[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a variable, or the default when the solver gave none."""
        return self.variables.get(name, default)


class Session(ABC):
    """Hold whatever is compiled once for forms of one shape."""

    @abstractmethod
    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        """Solve a form of the session's shape.

        Parameters
        ----------
        form : Form
            Same features and loss structure as the form the session was opened with; labels, working set
            and weights may differ.
        budget : Budget
        start : RawSolution or None
            A warm start; a solver that cannot use one ignores it and says so in `warm_starts`.

        Returns
        -------
        RawSolution
        """


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """Solve standard forms. Subclasses are frozen dataclasses whose fields are their options.

    Class attributes: `name` (kebab-case), `summary` (one line), `requires` (import names of packages needed),
    `warm_starts` (whether `start` is used), `native` (not through cvxpy).
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    requires: ClassVar[tuple[str, ...]] = ()
    warm_starts: ClassVar[bool] = False
    native: ClassVar[bool] = True

    def __new__(cls, **options: Any) -> Solver:
        """Refuse unknown options with the nearest known ones, before the fields are set.

        Raises
        ------
        UnknownNameError
            If an option is not one of `option_names`.
        """
        for key in options:
            if key not in cls.option_names():
                raise UnknownNameError(f"option of solver {cls.name!r}", key, cls.option_names())
        return super().__new__(cls)

    @abstractmethod
    def accepts(self, form: Form) -> Offer | Refusal:
        """Return an `Offer`, or a `Refusal` naming what is missing."""

    @abstractmethod
    def open(self, form: Form) -> Session:
        """Return a session for forms of this shape."""

    def solve(self, form: Form, budget: Budget | None = None, start: RawSolution | None = None) -> RawSolution:
        """Solve one form in a fresh session."""
        return self.open(form).solve(form, budget or Budget(), start)

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the names of the options."""
        return tuple(f.name for f in dataclasses.fields(cls) if f.init)

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether the packages it needs can be imported."""
        return all(importlib.util.find_spec(package) is not None for package in cls.requires)

    @classmethod
    def version(cls) -> str:
        """Return the version of the package behind the solver."""
        package = cls.requires[0] if cls.requires else "margindsl"
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return "?"

    @classmethod
    def require_installed(cls) -> None:
        """Raise unless the solver can run.

        Raises
        ------
        NotInstalledError
            If a package is missing; the message says what to install.
        """
        if not cls.is_installed():
            missing = [p for p in cls.requires if importlib.util.find_spec(p) is None]
            raise NotInstalledError(
                f"solver {cls.name!r} needs the package {', '.join(missing)}, which is not installed; "
                f"run `pip install {' '.join(missing)}` or choose another solver (md.solvers() lists them)")
