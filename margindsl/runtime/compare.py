"""Side by side: one problem under several relaxations and solvers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from margindsl.contract import Solver, Status
from margindsl.errors import DeclarationError, MarginError, NotInstalledError, one_of
from margindsl.host.parallel import share_out
from margindsl.host.progress import task
from margindsl.metrics import clustering_accuracy
from margindsl.relaxations.relaxation import Relaxation
from margindsl.runtime.options import SolveArguments, SolveOptions, split_options
from margindsl.runtime.problem import Problem
from margindsl.runtime.registry import as_relaxation, as_solver
from margindsl.runtime.solution import Solution
from margindsl.typing import RelaxationName, SolverName
from margindsl.views import notebook, write_comparison

NOTE_WIDTH = 72
# Columns of seconds, and the stages in each; what is left of the total is in the last.
STAGES = {"compile": ("grammar", "labels", "features", "lower", "compile"),
          "solve": ("begin", "incumbent", "relax", "solve"), "polish": ("round", "polish"), "rest": ()}


@dataclass(frozen=True, eq=False)
class Row:
    """Represent one combination: its solution, or the reason there is none."""

    relaxation: str
    solver: str
    solution: Solution | None
    accuracy: float
    seconds: float
    refusal: str = ""
    problem: str = ""
    seed: int = 0

    def __repr__(self) -> str:
        return f"Row({self.relaxation!r}, {self.solver!r}, {self.solution or 'refused'})"

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        s = self.solution
        nothing = float("nan")
        row: dict[str, Any] = ({"problem": self.problem, "seed": self.seed} if self.problem else {}) | {
            "relaxation": self.relaxation, "solver": self.solver,
            "status": s.status if s else "refused",
            "value": s.value if s else nothing, "bound": s.bound if s else nothing,
            "estimate": s.estimate if s else nothing, "gap": s.gap if s else nothing,
            "accuracy": self.accuracy, "seconds": self.seconds}
        seconds = {column: sum(s.timings.get(stage, 0.0) for stage in stages) if s else nothing
                   for column, stages in STAGES.items()}
        row |= seconds | {"rest": self.seconds - sum(seconds.values())}
        row["note"] = self.refusal or (s.message if s else "")
        return row


@dataclass(frozen=True, eq=False)
class Comparison(notebook.Tabled):
    """Represent the table of a comparison.

    Parameters
    ----------
    rows : tuple of Row
    has_truth : bool
        Whether accuracies were computed.
    """

    rows: tuple[Row, ...]
    has_truth: bool

    def best(self) -> Solution:
        """Return the solution of lowest value, with the best bound of all rows and its certificate.

        Raises
        ------
        ValueError
            If every combination was refused.
        """
        solved = [row.solution for row in self.rows if row.solution is not None]
        if len({row.problem for row in self.rows}) > 1:
            raise ValueError("values of several problems cannot be compared; take those of one, "
                             f"table.only({self.rows[0].problem!r}).best()")
        if not solved:
            raise ValueError("every combination was refused; print the comparison for the reasons")
        best = min(solved, key=lambda s: s.value)
        proof = max(solved, key=lambda s: s.bound)
        return best if proof.bound <= best.bound else replace(
            best, bound=min(proof.bound, best.value), certificate=proof.certificate,
            state=proof.state if proof.state is Status.OPTIMAL else best.state,
            origin={**best.origin, **{name: proof.origin.get(name, "") for name in ("certificate", "trivial")}})

    @property
    def bound(self) -> float:
        """Return the largest certified bound of all rows: it holds for every labelling in B of their one problem."""
        if len({row.problem for row in self.rows}) > 1:
            return -np.inf
        return max((row.solution.bound for row in self.rows if row.solution is not None), default=-np.inf)

    def only(self, problem: str) -> Comparison:
        """Return the rows of one of several problems, by its name."""
        one_of("problem", problem, dict.fromkeys(row.problem for row in self.rows))
        return Comparison(tuple(row for row in self.rows if row.problem == problem), self.has_truth)

    def summary(self) -> Any:
        """Return a pandas DataFrame of means and standard deviations over the seeds, a row a combination.

        `agreement` is the mean adjusted Rand index of two seeds: near one, the labels are no accident of the start.
        """
        frame = self.to_frame().replace(np.inf, np.nan).assign(
            number=range(len(self.rows)), alike=self.agreement().to_numpy().tolist())

        def pairs(part: Any) -> float:
            alike = np.array(part["alike"].tolist())[:, part["number"]]
            return float(np.nanmean(alike[np.triu_indices(len(part), 1)])) if len(part) > 1 else float("nan")

        groups = frame.groupby([key for key in ("problem", "relaxation", "solver") if key in frame], sort=False)
        measures = ["value", "gap", *(["accuracy"] if self.has_truth else []), "seconds"]
        found = groups[measures].agg(["mean", "std"])
        found.columns = [f"{name} {measure}" for name, measure in found.columns]
        return found.assign(agreement=groups[["number", "alike"]].apply(pairs)).reset_index()

    def agreement(self) -> Any:
        """Return a pandas DataFrame (rows, rows) of adjusted Rand indices between the labels of all rows."""
        import pandas as pd
        from sklearn.metrics import adjusted_rand_score

        labels = [None if row.solution is None else row.solution.labels for row in self.rows]
        names = [" ".join([*([row.problem, str(row.seed)] if row.problem else []), row.relaxation, row.solver])
                 for row in self.rows]
        return pd.DataFrame([[float("nan") if a is None or b is None else adjusted_rand_score(a, b) for b in labels]
                             for a in labels], names, names)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([row.as_dict() for row in self.rows])

    def plot(self, ax: Any = None) -> Any:
        """Draw values and bounds; returns the matplotlib axes."""
        from margindsl.views.plots import comparison

        return comparison(self, ax)

    def report(self, path: str | Path, *, title: str = "", truth: Any = None, names: Sequence[str] | None = None
               ) -> None:
        """Write one HTML page that needs nothing else: the table, a figure of it, how far the labels of rows agree, and
        of one problem the best solution in full.

        Parameters
        ----------
        path : str or Path
        title, truth, names
            As of `Solution.report`.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        write_comparison(self, path, title=title, truth=truth, names=names)

    def cells(self) -> tuple[list[str], list[list[str]]]:
        truth = ["accuracy %"] if self.has_truth else []
        several = ["problem", "seed"] if any(row.problem for row in self.rows) else []
        heads = [*several, "relaxation", "solver", "status", "value", "bound", "gap %", *truth, "seconds",
                 *STAGES, "note"]
        lines = []
        for row in self.rows:
            d = row.as_dict()
            cells = [*(str(d[name]) for name in [*several, "relaxation", "solver", "status"]), _number(d["value"]),
                     _number(d["bound"]), _number(100 * d["gap"], 3)]
            if self.has_truth:
                cells.append(_number(100 * d["accuracy"], 4))
            times = [d[stage] for stage in ("seconds", *STAGES)]
            note = d["note"] if len(d["note"]) <= NOTE_WIDTH else d["note"][: NOTE_WIDTH - 3] + "..."
            lines.append([*cells, *("-" if np.isnan(time) else f"{time:.2f}" for time in times), note])
        return heads, lines

    def __str__(self) -> str:
        from tabulate import tabulate

        heads, lines = self.cells()
        shown = slice(None) if any(line[-1] for line in lines) else slice(-1)
        heads, *lines = ([*line[:-5], *line[-1:]][shown] for line in (heads, *lines))  # without the stages' seconds
        return tabulate(lines, heads, "simple", disable_numparse=True)

    def __repr__(self) -> str:
        solved = sum(row.solution is not None for row in self.rows)
        several = len({row.problem for row in self.rows}) > 1
        best = f", best value {self.best().value:.6g}" if solved and not several else ""
        return f"Comparison({len(self.rows)} rows, {solved} solved{best}{f', bound {self.bound:.6g}' * (not several)})"


def _number(value: float, digits: int = 6) -> str:
    if np.isnan(value):
        return "-"
    return "none" if np.isinf(value) else f"{value:.{digits}g}"


def compare(problem: Problem | Mapping[str, Problem],
            relaxations: RelaxationName | Relaxation | Iterable[RelaxationName | Relaxation] = "auto",
            solvers: SolverName | Solver | Iterable[SolverName | Solver | None] | None = None,
            truth: Any = None, *, seeds: int = 1, progress: Callable[[Row], None] | None = None,
            n_jobs: int | None = None, **options: Unpack[SolveArguments]) -> Comparison:
    """Run combinations of relaxations and solvers of one problem, or of several by name, side by side.

    Parameters
    ----------
    problem : Problem or dict of str to Problem
    relaxations : str or Relaxation, or iterable of them
    solvers : str or Solver, or iterable of them and None, optional
        None (default) lets each relaxation choose.
    truth : (n,) array, optional
        Class of each point; the accuracy under the best matching of clusters is added.
    seeds : int
        Times that each combination runs, from random states that count up; `Comparison.summary` summarises them.
    progress : callable, optional
        Called with each finished `Row`.
    n_jobs : int or None
        Combinations at a time, as in scikit-learn: None is one unless `joblib.parallel_config` says otherwise, −1 as
        many as processors. Rows are the same for every number and backend.
    **options
        As for `Problem.solve`. A generator as `random_state` is split, one for every combination.

    Returns
    -------
    Comparison
        Combinations that are refused, or not begun at Ctrl-C, keep their row, with the reason.

    Raises
    ------
    UnknownNameError, DeclarationError
        If a relaxation, a solver or an option does not exist or has no such value; before anything is solved.

    Examples
    --------
    >>> import numpy as np, margindsl as md
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> y, f = md.Labels(4), md.Hyperplane(X)
    >>> problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.hinge(y * f))),
    ...                      [abs(md.sum(y)) <= 0])
    >>> table = md.compare(problem, ["exact", "alternating"], truth=[0, 0, 1, 1])
    >>> [row.accuracy for row in table.rows]
    [1.0, 1.0]
    """
    if not isinstance(problem, (Problem, Mapping)):
        raise DeclarationError(f"md.compare: given {type(problem).__name__}, expected a md.Problem, or several by name")
    SolveOptions.of(options)
    if isinstance(seeds, bool) or not isinstance(seeds, Integral) or seeds < 1:
        raise DeclarationError(f"seeds={seeds!r}: expected a whole number of at least 1")
    problems = dict(problem) if isinstance(problem, Mapping) else {"problem" if seeds > 1 else "": problem}
    runs = list(itertools.product(problems, range(seeds), _several(relaxations, as_relaxation),
                                  _several(solvers, as_solver)))
    with task("compare", len(runs), shown=options.get("verbose") is None) as whole:
        rows = [Row(*_names(*pair), None, float("nan"), 0.0, "not begun: the comparison was interrupted",
                    problem=name, seed=seed) for name, seed, *pair in runs]

        def keep(number: int, row: Row) -> None:
            name, seed, *_ = runs[number]
            rows[number] = replace(row, problem=name, seed=seed)
            whole.step()
            if progress is not None:
                progress(rows[number])

        tasks = []
        for (name, seed, *pair), own in zip(runs, split_options(options, len(runs))):
            first = own.get("random_state")
            if seeds > 1 and (first is None or isinstance(first, Integral)):
                own = {**own, "random_state": int(first or 0) + seed}
            tasks.append((problems[name], *pair, truth, own))
        try:
            share_out(_run, tasks, keep, n_jobs)
        except KeyboardInterrupt:
            if not any(row.solution for row in rows):
                raise
    return Comparison(tuple(rows), truth is not None)


def _several(given: Any, read: Callable[[Any], Any]) -> list[Any]:
    """Return one name or object, or several, as a list in which every one exists."""
    many = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    if not many:
        raise DeclarationError("md.compare: given no relaxations or no solvers, expected one at least, or None")
    for one in many:
        if one is not None and one != "auto":
            with suppress(NotInstalledError):  # its row says so
                read(one)
    return many


def _names(relaxation: Any, solver: Any, solution: Solution | None = None) -> tuple[str, str]:
    """Return the names of a row, with the options in which an object is not the one of its name."""
    found = []
    for given, used in ((relaxation, solution and solution.relaxation), (solver, solution and solution.solver)):
        name = str(used or getattr(given, "name", given) or "default")
        own = fields(given) if is_dataclass(given) and name == getattr(given, "name", "") else ()
        options = [f"{f.name}={value!r}" for f in own if f.default is not MISSING
                   and (value := getattr(given, f.name)) != f.default]
        found.append(f"{name}({', '.join(options)})" if options else name)
    return found[0], found[1]


def _run(problem: Problem, relaxation: Any, solver: Any, truth: Any, options: SolveArguments) -> Row:
    began = time.perf_counter()
    try:
        solution = problem.solve(relaxation, solver, **options)
    except MarginError as error:
        return Row(*_names(relaxation, solver), None, float("nan"), time.perf_counter() - began, str(error))
    accuracy = clustering_accuracy(truth, solution.labels) if truth is not None else float("nan")
    return Row(*_names(relaxation, solver, solution), solution, accuracy, time.perf_counter() - began)
