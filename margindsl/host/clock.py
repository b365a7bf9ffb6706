"""One clock and one cancellation of a solve: how long it may take, who asked it to stop, where it must have ended.

Loops ask `Budget.expired` once a round and end with what they have. What takes long and has no rounds (a factorisation,
a pass over a file, an oracle) asks `check`, which raises `Cancelled` once the time after the stop is used up too.
`Cancelled` is a Ctrl-C that a solve gives itself, so that whatever survives the one survives the other. The limit that
`check` asks is that of the innermost `Budget.limit` of the present thread: nothing is set outside a solve, and solves
in other threads have their own.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from margindsl.errors import DeclarationError

T = TypeVar("T")
LEAST_ALLOWANCE, PART_OF_LIMIT = 0.5, 0.1  # seconds after a stop: at least, and as a part of the limit
SMALL_WORK = 1e8  # multiply-adds that take no time worth asking for
EIGEN_WORK = 12.0  # of an eigenvalue problem with vectors, times n**3; measured 11 at n = 300, 5 at 1,000
PROBE = 256  # order of the matrix product that tells the speed of the machine


class Cancelled(KeyboardInterrupt):
    """The time after the stop of a solve is used up; caught by the solve, never seen by the user."""


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
        The best value so far of the loop that reports, in the user's units where known: of a relaxation its own.
    bound : float
        The best lower bound or estimate so far of that loop.
    seconds : float
        Seconds since the solve began.
    best : float
        The value of the best labels so far, in the user's units; inf before there are any.
    proved : float
        The best certified lower bound so far, in the user's units; −inf before there is one. It is checked at the end.
    """

    stage: str
    iteration: int
    value: float
    bound: float
    seconds: float
    best: float = math.inf
    proved: float = -math.inf

    @property
    def gap(self) -> float:
        """Return the gap between the best labels and the bound relative to their value; inf where either is missing."""
        gap = self.best - self.proved
        return 0.0 if gap == 0 else gap / abs(self.best) if math.isfinite(gap) and self.best else math.inf


@dataclass
class Request:
    """Hold when a callback or Ctrl-C asked a solve to stop; shared by all budgets made from one."""

    at: float = math.inf

    def make(self) -> None:
        """Ask to stop now, unless that was asked before."""
        self.at = min(self.at, time.monotonic())


@dataclass
class Incumbent:
    """Hold the best a solve has in hand and what was spent on it; shared by all budgets made from one.

    Parameters
    ----------
    value, bound : float
        Of the best labels so far, kept where there is a callback, and the best certified bound, in the user's units.
    work : float
        Multiply-adds of what was solved so far, the same on every machine.
    """

    value: float = math.inf
    bound: float = -math.inf
    work: float = 0.0


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
    request : Request
        When the callback or Ctrl-C asked to stop; copies share it.
    incumbent : Incumbent
        The best so far, and what was spent; copies share it.
    cutoff : float
        What the answer is compared with: a solver may end, as converged, once it has proved that it is no lower.
    """

    tol: float = 1e-6
    max_iter: int | None = None
    deadline: float = math.inf
    callback: Callable[[Progress], bool | None] | None = None
    start: float = field(default_factory=time.monotonic)
    request: Request = field(default_factory=Request, compare=False)
    incumbent: Incumbent = field(default_factory=Incumbent, compare=False)
    cutoff: float = math.inf

    @classmethod
    def within(cls, seconds: float | None = None, **options: Any) -> Budget:
        """Return a budget that ends after the given number of seconds."""
        now = time.monotonic()
        return cls(deadline=math.inf if seconds is None else now + seconds, start=now, **options)

    @property
    def stop(self) -> float:
        """Return `time.monotonic` of the deadline, or of a request to stop where that was earlier."""
        return min(self.deadline, self.request.at)

    @property
    def remaining(self) -> float:
        """Return the seconds left (inf without a limit)."""
        return self.stop - time.monotonic()

    @property
    def expired(self) -> bool:
        """Return whether to stop: the time is up, or the callback or Ctrl-C asked for it."""
        return time.monotonic() >= self.stop

    @property
    def interrupted(self) -> bool:
        """Return whether the callback or Ctrl-C asked to stop before the time was up."""
        return self.request.at < self.deadline

    @property
    def allowance(self) -> float:
        """Return the seconds after the stop in which a solve ends."""
        spent = self.stop - self.start
        return max(LEAST_ALLOWANCE, PART_OF_LIMIT * spent) if math.isfinite(spent) else LEAST_ALLOWANCE

    def report(self, stage: str, iteration: int, value: float, bound: float) -> bool:
        """Call the callback and return whether it asks to stop."""
        if self.callback is None:
            return False
        answer = self.callback(Progress(stage, iteration, value, bound, time.monotonic() - self.start,
                                        self.incumbent.value, self.incumbent.bound))
        if isinstance(answer, np.ndarray) and answer.size != 1:
            raise DeclarationError(f"the callback answered an array of shape {answer.shape}, expected True to stop, "
                                   "False or None to go on")
        asked = bool(answer)
        if asked:
            self.request.make()
        return asked

    def replace(self, **changes: Any) -> Budget:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def share(self, fraction: float) -> Budget:
        """Return a copy that ends after a fraction of the time left."""
        now = time.monotonic()
        return self.replace(deadline=min(self.deadline, now + fraction * (self.deadline - now)))

    def sparing(self, seconds: float) -> Budget:
        """Return a copy that ends so many seconds before, but not in the first half of the time left."""
        return self.replace(deadline=max(self.deadline - seconds, self.share(0.5).deadline))

    def finishing(self, part: float) -> Budget:
        """Return a budget without callback for what is done after the stop, up to a part of the allowance."""
        return self.replace(deadline=self.stop + part * self.allowance, callback=None, request=Request())

    @contextmanager
    def limit(self, part: float | Callable[[], float]) -> Iterator[None]:
        """Let `check` raise inside once a part of the allowance after the stop, or what it is then, is used up."""
        token = _limit.set((self, part))
        try:
            yield
        finally:
            _limit.reset(token)


_limit: ContextVar[tuple[Budget, float | Callable[[], float]] | None] = ContextVar("limit", default=None)


def remaining() -> float:
    """Return the seconds after which `check` raises (inf outside a solve with a limit)."""
    scope = _limit.get()
    if scope is None:
        return math.inf
    budget, part = scope
    stop = budget.stop
    part = part() if callable(part) else part
    return math.inf if stop == math.inf else stop + part * budget.allowance - time.monotonic()


def expired() -> bool:
    """Return whether the solve that this is part of should stop: improvements end here with what they have."""
    scope = _limit.get()
    return scope is not None and scope[0].expired


def check(work: float = 0.0) -> None:
    """Raise when the time is used up, or would be by a call of so many multiply-adds, which cannot be stopped.

    For what takes long by itself: no question is asked where the work is small.
    """
    if not 0.0 < work <= SMALL_WORK and not fits_in(work):
        raise Cancelled


def fits_in(work: float) -> bool:
    """Return whether there is time for a call of so many multiply-adds, counted as those of a matrix product."""
    left = remaining()
    return left > 0 and (work <= SMALL_WORK or math.isinf(left) or work <= left * speed())


def while_time(items: Iterable[T], budget: Budget | None = None) -> Iterator[T]:
    """Yield items while there is time, the first one always: rounds, restarts and candidates that only improve.

    `budget`: where there is one at hand; else that of the solve this is part of.
    """
    for item in items:
        yield item
        if (expired() if budget is None else budget.expired):
            return


@lru_cache(maxsize=1)
def speed() -> float:
    """Return multiply-adds a second of a matrix product on one thread, measured once."""
    matrix = np.ones((PROBE, PROBE))
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - began)
    return PROBE**3 / max(min(seconds), 1e-9)
