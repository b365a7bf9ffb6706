"""Exceptions and warnings, each speaking the user's language: what was given, what was expected, what to do."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self


class MarginError(Exception):
    """Base of every error this library raises on purpose."""


class DeclarationError(MarginError, ValueError):
    """A declaration is malformed: wrong shape, NaN, pair out of range, unknown value."""


class GrammarError(DeclarationError):
    """An expression breaks a rule of disciplined margin programming.

    Parameters
    ----------
    expression : str
        The offending sub-expression as the user wrote it.
    rule : str
        The rule that is broken.
    repair : str
        What to write instead.
    """

    def __init__(self, expression: str, rule: str, repair: str) -> None:
        self.expression, self.rule, self.repair = expression, rule, repair
        super().__init__(f"`{expression}`: {rule}. {repair}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.expression, self.rule, self.repair)


class CalculusError(DeclarationError):
    """An operation on one-dimensional convex functions has no convex or no piecewise-quadratic result."""


class ContradictionError(DeclarationError):
    """Links and known labels contradict one another.

    Parameters
    ----------
    message : str
        The sentence the user reads.
    cycle : sequence of (int, int, str)
        The edges ``(i, j, kind)`` of one contradictory cycle; ``kind`` is ``"must-link"``,
        ``"cannot-link"`` or ``"known label"``.
    """

    def __init__(self, message: str, cycle: Sequence[tuple[int, int, str]]) -> None:
        self.cycle = tuple(cycle)
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.cycle)


class InfeasibleError(DeclarationError):
    """No labelling satisfies the label constraints."""


class UnboundedError(DeclarationError):
    """The objective falls without end at some labelling in B."""


class RefusalError(MarginError, ValueError):
    """A relaxation or solver does not accept a program, and says why."""


class SizeError(RefusalError):
    """A form is larger than what it can bear; the message names the estimate and the override."""


class UnknownNameError(MarginError, ValueError):
    """A solver, relaxation, kernel or option name is not known.

    Parameters
    ----------
    kind : str
        What was looked up, for instance ``"solver"``.
    name : str
        The name given.
    known : iterable of str
        The names that exist.
    advice : str
        A sentence said in the place of the nearest names, where it is known what was meant.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str], advice: str = "") -> None:
        names = sorted(known)
        near = difflib.get_close_matches(str(name).lower(), [k.lower() for k in names], n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(repr(k) for k in near)}?" if near else ""
        hint = f" {advice}" if advice else hint
        super().__init__(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")
        self.kind, self.name, self.known, self.nearest, self.advice = kind, name, tuple(names), tuple(near), advice

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.name, self.known, self.advice)


def one_of(kind: str, name: Any, known: Collection[str]) -> Any:
    """Return a name that is known.

    Raises
    ------
    UnknownNameError
        If it is none of them, or no text.
    """
    if not isinstance(name, str) or name not in known:
        raise UnknownNameError(kind, name, known)
    return name


class Called:
    """Refuse arguments of other names before an object is made; `meant` says what those of other libraries are here."""

    meant: ClassVar[Mapping[str, str]] = {}

    def __new__(cls, *given: Any, **named: Any) -> Self:
        known = {name: one.kind for name, one in inspect.signature(cls.__init__).parameters.items() if name != "self"}
        for name in named:
            if name not in known and inspect.Parameter.VAR_KEYWORD not in known.values():
                raise UnknownNameError(f"argument of {cls.__name__}", name, known, cls.meant.get(name, ""))
        return super().__new__(cls)


class NotInstalledError(MarginError, ImportError):
    """A solver is known but the package it needs is not installed."""


class SolverError(MarginError, RuntimeError):
    """A solver returned nothing usable; the message carries its own words."""


class TimeLimitError(SolverError, TimeoutError):
    """The time limit was up before any labelling in B was known."""


class UnansweredError(SolverError):
    """The solver of a relaxation ended without an answer; another solver may have one.

    Parameters
    ----------
    words : str
        Which solver, how it ended, and its own words.
    advice : str
        What else to try.
    """

    def __init__(self, words: str, advice: str = "") -> None:
        self.words, self.advice = words.rstrip("."), advice
        super().__init__(f"{self.words}. {advice}" if advice else words)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.words, self.advice)


class TrivialityWarning(UserWarning):
    """Nothing in the declaration prevents a trivial answer such as the all-equal labelling."""


class AccuracyWarning(UserWarning):
    """An answer was obtained at less than the accuracy asked for."""
