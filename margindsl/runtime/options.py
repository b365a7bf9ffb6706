"""The options of a solve that belong to neither relaxation nor solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from margindsl.contract import Budget, Progress
from margindsl.errors import DeclarationError, UnknownNameError
from margindsl.runtime.solution import Solution
from margindsl.typing import ArrayLike, RandomState


class SolveArguments(TypedDict, total=False):
    """Type the keyword arguments of `Problem.solve` and of what solves; `SolveOptions` says what they mean."""

    tol: float
    time_limit: float | None
    max_iter: int | None
    warm_start: Solution | ArrayLike | None
    random_state: RandomState
    verbose: bool
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
    verbose : bool
        Log progress (logger ``margindsl``) at level INFO.
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
    verbose: bool = False
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
        if self.callback is not None and not callable(self.callback):
            raise DeclarationError(f"solve(callback={self.callback!r}): expected a function of one `Progress`")
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, Path)):
            raise DeclarationError(f"solve(checkpoint={self.checkpoint!r}): expected the path of a file")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SolveOptions:
        """Return the options of a call, checked before anything is solved.

        Raises
        ------
        UnknownNameError
            For an option `solve` does not know: lists the nearest, and where solver and relaxation options belong.
        DeclarationError
            If an option has no such value.
        """
        for key in options:
            if key not in cls.__dataclass_fields__:
                raise UnknownNameError(
                    "option of solve (options of a solver go to md.Solver(name, ...), those of a relaxation to its "
                    "object)", key, cls.__dataclass_fields__)
        return cls(**options)

    def budget(self) -> Budget:
        """Return the budget, its clock started."""
        seconds = None if self.time_limit is None else float(self.time_limit)
        steps = None if self.max_iter is None else int(self.max_iter)
        return Budget.within(seconds, tol=float(self.tol), max_iter=steps, callback=self._callback())

    def _callback(self) -> Callable[[Progress], bool | None] | None:
        if not self.verbose:
            return self.callback
        import logging

        log, own = logging.getLogger("margindsl"), self.callback

        def report(progress: Progress) -> bool | None:
            log.info("%s %d: value %.8g, bound %.8g, %.2f s", progress.stage, progress.iteration,
                     progress.value, progress.bound, progress.seconds)
            return own(progress) if own else None

        return report


__all__ = ["SolveArguments", "SolveOptions"]
