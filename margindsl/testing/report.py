"""What a conformance suite returns: one line a check, and the requirement each states."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from margindsl.errors import one_of


class ConformanceError(AssertionError):
    """A class breaks a requirement of its conformance suite; the message lists every breach."""


@dataclass(frozen=True)
class Check:
    """Represent the outcome of one check.

    Parameters
    ----------
    name : str
    requirement : str
        What the check requires, in one sentence.
    passed : bool
    detail : str
        What went wrong; empty when it passed.
    """

    name: str
    requirement: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True)
class Report:
    """Represent the outcome of a suite.

    Parameters
    ----------
    subject : str
        What was checked.
    checks : tuple of Check
    """

    subject: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Return whether every check passed."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        lines = [f"conformance of {self.subject}"]
        for check in self.checks:
            lines.append(f"  {'ok  ' if check.passed else 'FAIL'}  {check.name}: {check.requirement}")
            if check.detail:
                lines.append("        " + check.detail.replace("\n", "\n        "))
        return "\n".join(lines)

    def require(self) -> Report:
        """Return the report itself, or raise.

        Raises
        ------
        ConformanceError
            If a check failed; the message is the whole report.
        """
        if not self.passed:
            raise ConformanceError(str(self))
        return self


class Trial:
    """Represent a class under test with the cases it accepts, and its answers to them, each made once.

    Parameters
    ----------
    subject : object
        The solver or relaxation.
    cases : callable
        Makes an iterable of (name, case) that it accepts.
    answer : callable
        Makes the answer to a case in a plain call.
    """

    def __init__(self, subject: Any, cases: Callable[[], Iterable[tuple[str, Any]]],
                 answer: Callable[[Any], Any]) -> None:
        self.subject = subject
        self._cases = cases
        self._answer = answer
        self._answers: dict[str, Any] = {}

    @cached_property
    def cases(self) -> list[tuple[str, Any]]:
        """The names and cases that are accepted."""
        return list(self._cases())

    def answers(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield (name, case, answer) of every case."""
        for name, case in self.cases:
            if name not in self._answers:
                self._answers[name] = self._answer(case)
            yield name, case, self._answers[name]


def requirement_of(check: Callable[..., None]) -> str:
    """Return the first sentence of a check's docstring, which states what it requires."""
    return (check.__doc__ or "").strip().split("\n")[0]


def run_checks(subject: Any, name: str, checks: Mapping[str, Callable[[Any], None]],
               only: Iterable[str] | None) -> Report:
    """Run checks on a subject and collect their outcomes."""
    chosen = list(checks) if only is None else [only] if isinstance(only, str) else list(only)
    for key in chosen:
        one_of("conformance check", key, checks)
    return Report(name, tuple(_outcome(subject, key, checks[key]) for key in chosen))


def _outcome(subject: Any, name: str, check: Callable[[Any], None]) -> Check:
    try:
        check(subject)
    except Exception as error:  # a class under test may raise anything; the report names it
        where = traceback.extract_tb(error.__traceback__)[-1]
        detail = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
        return Check(name, requirement_of(check), False, detail)
    return Check(name, requirement_of(check), True)


def require(condition: bool, message: str) -> None:
    """Raise unless a condition holds."""
    if not condition:
        raise ConformanceError(message)
