"""A clustering from elsewhere, assessed: its value, a certified bound, what it breaks, and a better one if found."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Unpack

import numpy as np

from margindsl.calculus.accuracy import relative_gap
from margindsl.errors import DeclarationError, RefusalError
from margindsl.host.progress import task
from margindsl.metrics import clustering_accuracy
from margindsl.runtime.options import SolveArguments, SolveOptions
from margindsl.runtime.presolve import Draft
from margindsl.runtime.problem import Problem, choose_relaxation
from margindsl.runtime.registry import RelaxationChoice, SolverChoice
from margindsl.runtime.solution import Solution
from margindsl.runtime.stages import named
from margindsl.typing import IntArray
from margindsl.views import notebook

DESCENT: Final = "alternating"  # from the labels given,
DESCENDED = 0.3  # in that part of the time
LEAST = 1e-3  # part of the limit that every solve has


@dataclass(frozen=True, eq=False)
class Assessment:
    """Represent what is known of a clustering that was found elsewhere.

    Parameters
    ----------
    labels : (n,) int array
        The clustering in the names of the problem, ±1 or 0..k−1.
    fitted : Solution
        The best hyperplane of these labels; its value is theirs.
    answer : Solution
        What a solve found that began at these labels; its bound holds for every labelling in B.
    violations : tuple of str
        What keeps the labels out of B, one sentence each.
    """

    labels: IntArray
    fitted: Solution
    answer: Solution
    violations: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        """Return the objective of the labels, with the hyperplane that is best for them."""
        return self.fitted.value

    @property
    def bound(self) -> float:
        """Return the certified lower bound on the objective of every labelling in B; −inf without one."""
        return self.answer.bound

    @property
    def gap(self) -> float:
        """Return (value − bound)/|value|: no labelling in B is better by more; NaN of labels outside B."""
        return float("nan") if self.violations else relative_gap(self.value, self.bound)

    @property
    def better(self) -> Solution | None:
        """Return the answer, where its value is lower by more than rounding, or the given labels lie outside B."""
        is_lower = self.answer.value < self.value - 1e-9 * abs(self.value)
        return self.answer if self.violations or is_lower else None

    def summary(self) -> str:
        """Return a few lines a person reads first."""
        bound = f"{self.bound:.6g}" if np.isfinite(self.bound) else f"none, {self.answer.relaxation!r} proved none"
        lines = [f"value       {self.value:.8g}, of the labels given", f"bound       {bound}"]
        if self.violations:
            lines += [f"broken      {sentence}" for sentence in self.violations]
        elif np.isfinite(self.bound):
            lines += [f"gap         {100 * self.gap:.3g} %: no labelling that the constraints allow is better by more"]
        if self.better is not None:
            moved = round(len(self.labels) * (1.0 - clustering_accuracy(self.labels, self.better.labels)))
            lines.append(f"better      {self.better.value:.8g}, {moved} of {len(self.labels)} points elsewhere")
        else:
            lines.append(f"better      none found, by {self.answer.relaxation!r} from these labels")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return notebook.facts("Assessment of given labels", self.summary().splitlines())

    def __repr__(self) -> str:
        return (f"Assessment(value={self.value:.6g}, bound={self.bound:.6g}, gap={self.gap:.3g}, "
                f"{'not in B' if self.violations else 'in B'}, better={self.better!r})")


def certify(problem: Problem, labels: Any, relaxation: RelaxationChoice = None,
            solver: SolverChoice = None, **options: Unpack[SolveArguments]) -> Assessment:
    """Assess a clustering found elsewhere: its value, how far from the best it can be, and a better one if found.

    Parameters
    ----------
    problem : Problem
    labels : (n,) array or Solution
        One cluster a point, of any names; names that break the fewest constraints are given to them.
    relaxation : str or Relaxation, optional
        What proves the bound; default the first choice of "auto" that proves one.
    solver : str or Solver, optional
    **options
        As for `Problem.solve`; `time_limit` holds for all solves, `checkpoint` is of the one that proves the bound.

    Returns
    -------
    Assessment

    Raises
    ------
    DeclarationError
        If there is not one label a point, or there are more clusters than the problem has.
    RefusalError, InfeasibleError, SolverError
        As `Problem.solve`.

    Examples
    --------
    >>> import margindsl as md
    >>> y, f = md.Labels(4), md.Hyperplane([[-2.0], [-1.0], [1.0], [2.0]])
    >>> problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0])
    >>> found = md.certify(problem, ["left", "right", "left", "right"])
    >>> found.value > found.better.value, found.violations
    (True, ())
    """
    if not hasattr(problem, "at_labels"):
        raise DeclarationError(f"md.certify: given {type(problem).__name__} first, expected a md.Problem, then labels")
    chosen = SolveOptions.of(options)
    clock = chosen.budget()

    def left(part: float = 1.0) -> dict[str, Any]:
        limit = chosen.time_limit
        own: dict[str, Any] = {**options}
        return own if limit is None else own | {"time_limit": max(part * clock.remaining, LEAST * limit)}

    program = Draft(problem).compiled()
    rows = getattr(program.source, "rows", None)
    whole = program.labels.names.written(named(getattr(labels, "labels", labels), program.labels, rows))
    given = whole if rows is None else whole[:rows.labels.n]
    method = choose_relaxation(program, proving=True) if relaxation in (None, "auto") else relaxation
    apart = {"checkpoint": None, "warm_start": None}
    with task("certify", shown=chosen.verbose is None):
        fitted = problem.at_labels(given).solve("supervised", **left() | apart)
        start: Any = given
        with suppress(RefusalError):  # descent first: what polishes a bound's labels descends less far
            start = problem.solve(DESCENT, **left(DESCENDED) | apart | {"warm_start": given})
        answer = problem.solve(method, solver, **left() | {"warm_start": start})
    return Assessment(given, fitted, answer, tuple(program.labels.violations(whole)))
