"""The one file a solver author reads: Solver, Offer, Refusal, RawSolution, Status, Budget, Trace.

A solver is a frozen dataclass of its own options (keyword only) with a `name`. It says which forms it accepts
(`accepts`), and solves them (`solve`; or `open` gives a session, so that repeated subproblems of one shape are
compiled once). It never raises because a problem is hard: its failure is a `Status` with its own words.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib.metadata
import importlib.util
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from margindsl.errors import DeclarationError, NotInstalledError, UnknownNameError
from margindsl.host.clock import Budget as Budget
from margindsl.host.clock import Progress as Progress
from margindsl.program.forms import Form
from margindsl.typing import FloatArray

DEFAULT_TOL = 1e-6  # of a solve; local methods give who asks for less accuracy their time
OF_SOLVE = ("tol", "time_limit", "max_iter", "warm_start", "random_state", "verbose", "callback", "checkpoint")


class Status(enum.Enum):
    """Say how a solve ended; the value is the sentence the user reads."""

    OPTIMAL = "solved to the tolerance, with a certificate"
    CONVERGED = "converged; that no labels are better is not proved"
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
        vars(self).update({name: MappingProxyType(dict(getattr(self, name))) for name in ("variables", "seconds")})

    @property
    def has_answer(self) -> bool:
        """Return whether there are variables to work with."""
        return self.status.has_answer and bool(self.variables)

    def __getitem__(self, name: str) -> FloatArray:
        return self.variables[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a variable, or the default when the solver gave none."""
        return self.variables.get(name, default)


F = TypeVar("F", bound="Form")


class Session(ABC, Generic[F]):
    """Hold whatever is compiled once for forms of one shape."""

    @abstractmethod
    def solve(self, form: F, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        """Solve a form of the session's shape.

        Parameters
        ----------
        form : Form
            Same features and loss structure as the form the session was opened with; labels, working set
            and weights may differ.
        budget : Budget
        start : RawSolution or None
            A warm start; a solver that cannot use one ignores it and says so in `warm_starts`. Those of the form's
            variables that it holds have their shapes and are finite (over a working set that grew, the first entries);
            any may be missing.

        Returns
        -------
        RawSolution
            With the variables of ``form.variables()``; those with a default, and empty ones, may be left out.
        """


@dataclass(frozen=True)
class Domain:
    """Represent the values an option takes.

    Parameters
    ----------
    words : str
        What is expected, for instance ``"an integer of at least 1"``.
    read : callable
        Returns the value as the solver uses it, and raises `ValueError`, `TypeError` or `OverflowError` outside the
        domain.
    """

    words: str
    read: Callable[[Any], Any]

    def option(self, default: Any) -> Any:
        """Return the dataclass field of an option with these values and a default."""
        return field(default=default, metadata={"domain": self})

    def or_none(self) -> Domain:
        """Return the same values and None."""
        return Domain(f"{self.words} or None", lambda value: None if value is None else self.read(value))


def integers(least: int, most: int | None = None) -> Domain:
    """Return the integers of at least so much, and at most so much where that is given."""
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError
        number = int(value)
        if number < least or (most is not None and number > most):
            raise ValueError
        return number

    return Domain(f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}", read)


def numbers(above: float = 0.0, most: float = math.inf) -> Domain:
    """Return the finite numbers in (above, most]."""
    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError
        number = float(value)
        if not above < number <= most or not math.isfinite(number):
            raise ValueError
        return number

    if math.isfinite(most):
        return Domain(f"a number in ({above:g}, {most:g}]", read)
    return Domain("a positive finite number" if above == 0 else f"a finite number above {above:g}", read)


def flags() -> Domain:
    """Return True and False, numpy's included."""
    def read(value: Any) -> bool:
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError
        return bool(value)

    return Domain("True or False", read)


def choices(*names: str) -> Domain:
    """Return a few names."""
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError
        return value

    return Domain(f"one of {', '.join(map(repr, names))}", read)


def read_options(options: Any, title: str) -> None:
    """Read the options of a frozen dataclass that declare a domain.

    Raises
    ------
    DeclarationError
        Where a value is outside its domain, naming the title, the option, what was given and what is expected.
    """
    for declared in dataclasses.fields(options):
        if "domain" not in declared.metadata:
            continue
        given, domain = getattr(options, declared.name), declared.metadata["domain"]
        try:
            value = domain.read(given)
        except (ValueError, TypeError, OverflowError):
            raise DeclarationError(f"{title}({declared.name}={given!r}): expected {domain.words}") from None
        object.__setattr__(options, declared.name, value)


@dataclass(frozen=True, kw_only=True)
class Solver(Session):
    """Solve standard forms. Subclasses are frozen dataclasses whose fields are their options.

    Class attributes: `name` (kebab-case), `summary` (one line), `requires` (import names of packages needed),
    `warm_starts` (whether `start` is used), `takes_cuts` (whether an answer to a lift with other cuts is gone on from),
    `native` (not through cvxpy). An option declared as ``integers(1).option(5)`` is checked when the solver is made.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    requires: ClassVar[tuple[str, ...]] = ()
    warm_starts: ClassVar[bool] = False
    takes_cuts: ClassVar[bool] = False
    native: ClassVar[bool] = True

    def __new__(cls, **options: Any) -> Solver:
        """Refuse unknown options with the nearest known ones, before the fields are set."""
        for key in options:
            if key not in cls.option_names():
                raise UnknownNameError(f"option of solver {cls.name!r}", key, cls.option_names(), cls._position(key))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Refuse values outside the domain of their option."""
        read_options(self, self.name)

    @classmethod
    def _position(cls, key: str) -> str:
        """Return a sentence that says where else an option belongs, or nothing."""
        return f"Give problem.solve({key}=...)." if key in OF_SOLVE and key not in cls.option_names() else ""

    @abstractmethod
    def accepts(self, form: Form) -> Offer | Refusal:
        """Return an `Offer`, or a `Refusal` naming what is missing."""

    def open(self, form: Form) -> Session:
        """Return a session for forms of this shape: the solver itself where it keeps nothing from solve to solve."""
        return self

    def solve(self, form: Form, budget: Budget | None = None, start: RawSolution | None = None) -> RawSolution:
        session = self.open(form)
        if session is self:
            raise TypeError(f"solver {self.name!r} has neither `open` nor `solve`")
        return session.solve(form, budget or Budget(), start)

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the names of the options."""
        return tuple(f.name for f in dataclasses.fields(cls) if f.init)

    @classmethod
    def domains(cls) -> dict[str, Domain]:
        """Return the values each option takes, for those that declare them."""
        return {f.name: f.metadata["domain"] for f in dataclasses.fields(cls) if "domain" in f.metadata}

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
        missing = [package for package in cls.requires if importlib.util.find_spec(package) is None]
        if missing:
            raise NotInstalledError(
                f"solver {cls.name!r} needs the package {', '.join(missing)}, which is not installed; "
                f"run `pip install {' '.join(missing)}` or choose another solver (md.solvers() lists them)")
