"""The options of a solve that belong to neither relaxation nor solver."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from margindsl.contract import Budget, Progress
from margindsl.errors import DeclarationError, UnknownNameError
from margindsl.host.progress import Rounds, Task, task
from margindsl.runtime.solution import Solution
from margindsl.typing import ArrayLike, RandomState


class SolveArguments(TypedDict, total=False):
    """Type the keyword arguments of `Problem.solve` and of what solves; `SolveOptions` says what they mean."""

    tol: float
    time_limit: float | None
    max_iter: int | None
    warm_start: Solution | ArrayLike | None
    random_state: RandomState
    verbose: int | None
    callback: Callable[[Progress], bool | None] | None
    checkpoint: str | Path | None


@dataclass(frozen=True)
class SolveOptions:
    """Represent what `solve` itself takes; everything else belongs to the relaxation or the solver.

    Parameters
    ----------
    tol : float
        Relative accuracy.
    time_limit : float or None
        Seconds.
    max_iter : int or None
        Cap on the solver's iterations.
    warm_start : Solution, (n,) array or None
        Labels to begin with: of an earlier solution, or of any clustering, whose names are those that break the fewest
        constraints.
    random_state : int, numpy Generator or None
        Where all randomness comes from; of None a new one each time.
    verbose : int, bool or None
        None (default) shows one line on a terminal or in a notebook once the solve takes more than two seconds, 0
        nothing; 1 writes a line a round, of value, bound, gap and seconds, to the logger ``margindsl`` at level INFO,
        or to standard error where no logging was configured.
    callback : callable or None
        Called with a `Progress`; a true answer stops the solve.
    checkpoint : str, Path or None
        A file in which a long solve keeps its state every so often. Where it exists, and is of the same problem and
        relaxation, the solve goes on from it.
    """

    tol: float = 1e-6
    time_limit: float | None = None
    max_iter: int | None = None
    warm_start: Any = None
    random_state: Any = None
    verbose: int | None = None
    callback: Callable[[Progress], bool | None] | None = None
    checkpoint: str | Path | None = None

    def __post_init__(self) -> None:
        if isinstance(self.tol, bool) or not (isinstance(self.tol, Real) and 0 < self.tol < 1):
            raise DeclarationError(f"solve(tol={self.tol!r}): expected a number between 0 and 1")
        if self.time_limit is not None and (isinstance(self.time_limit, bool) or not isinstance(self.time_limit, Real)
                                            or not self.time_limit > 0):
            raise DeclarationError(f"solve(time_limit={self.time_limit!r}): expected a positive number of seconds")
        if self.max_iter is not None and (isinstance(self.max_iter, bool)
                                          or not isinstance(self.max_iter, Integral) or self.max_iter < 1):
            raise DeclarationError(f"solve(max_iter={self.max_iter!r}): expected a positive integer")
        if not (self.random_state is None or isinstance(self.random_state, np.random.Generator)
                or (isinstance(self.random_state, Integral) and self.random_state >= 0)):
            raise DeclarationError(
                f"solve(random_state={self.random_state!r}): expected None, a non-negative integer or a numpy "
                "Generator")
        if not (self.warm_start is None or isinstance(self.warm_start, Solution) or np.ndim(self.warm_start) == 1):
            raise DeclarationError(f"solve(warm_start=...): given {type(self.warm_start).__name__}, expected an "
                                   "earlier Solution, or one label for each point")
        if self.verbose is not None and not (isinstance(self.verbose, Integral) and self.verbose >= 0):
            raise DeclarationError(f"solve(verbose={self.verbose!r}): expected None, 0 or more")
        if self.callback is not None and not callable(self.callback):
            raise DeclarationError(f"solve(callback={self.callback!r}): expected a function of one `Progress`")
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, Path)):
            raise DeclarationError(f"solve(checkpoint={self.checkpoint!r}): expected the path of a file")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SolveOptions:
        """Return the options of a call, checked before anything is solved."""
        for key in options:
            if key not in cls.__dataclass_fields__:
                raise UnknownNameError(
                    "option of solve (options of a solver go to md.Solver(name, ...), those of a relaxation to its "
                    "object)", key, cls.__dataclass_fields__)
        return cls(**options)

    def budget(self, callback: Callable[[Progress], bool | None] | None = None) -> Budget:
        """Return the budget, its clock started; progress is told to the callback of the user, or to another."""
        seconds = None if self.time_limit is None else float(self.time_limit)
        steps = None if self.max_iter is None else int(self.max_iter)
        return Budget.within(seconds, tol=float(self.tol), max_iter=steps, callback=callback or self.callback)

    @contextmanager
    def watched(self) -> Iterator[Watch]:
        """Show a solve while it is under way, as `verbose` asks; its budget tells where it stands; underflow is 0."""
        with task("compiling", shown=self.verbose is None) as shown, np.errstate(under="ignore"):
            rounds = Rounds() if self.verbose else None
            tellers = [teller for teller in (shown.tell if shown.is_seen else None, rounds) if teller is not None]

            def report(progress: Progress) -> bool | None:
                for teller in tellers:
                    teller(progress)
                return self.callback(progress) if self.callback else None

            yield Watch(self, self.budget(report if tellers else None), shown, rounds)


@dataclass(frozen=True)
class Watch:
    """Represent the watching of a solve.

    Parameters
    ----------
    budget : Budget
        Of the solve, its clock started.
    shown : Task
        What is seen of it.
    rounds : Rounds or None
        Where the rounds are written.
    """

    options: SolveOptions
    budget: Budget
    shown: Task
    rounds: Rounds | None

    def ended(self, solution: Solution, printed: Mapping[str, Any], before: float = 0.0) -> Solution:
        """Return a solution that knows what it answers, and how long it took beside `before`; its end is written."""
        took = time.monotonic() - self.budget.start
        if self.rounds is not None:
            self.rounds.end(solution, took)
        proof, state = solution.certificate, self.options.random_state
        proved = {} if proof is None else {"certificate": proof.words, "trivial": proof.is_trivial}
        recorded = {"tol": float(self.options.tol), "time_limit": self.options.time_limit,
                    "max_iter": self.options.max_iter, "random_state": int(state) if isinstance(state, Integral) else
                    state and type(state).__name__}  # what an answer may depend on
        return replace(solution, timings={**solution.timings, "total": took + before},
                       origin={**printed, **recorded, **proved, "versions": dict(versions())})


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of Python and of the packages that answers come from, read once a process."""
    packages = ("margindsl", "numpy", "scipy", "cvxpy", "clarabel", "scs", "ecos", "osqp", "highspy")
    found = {"python": platform.python_version()}
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def split_options(options: SolveArguments, count: int) -> Iterator[SolveArguments]:
    """Yield options with random numbers of their own for every task, whoever runs it."""
    state = options.get("random_state")
    if not isinstance(state, np.random.Generator):
        yield from [options] * count
        return
    for own in state.spawn(count):
        yield {**options, "random_state": own}
