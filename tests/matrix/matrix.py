"""Every objective on every label set by every relaxation: what is refused and why, and whether answers hold.

python tests/matrix/matrix.py [--margins two simplex Crammer-Singer] [--relaxations ...] [--solvers] [--seconds 5]
[--jobs 2] [--json FILE] [--docs]. A line a relaxation: accepted cells, how many with proved bounds, how many are proved
optimal, the median and the worst of their gaps, seconds; below, what was refused and what is wrong.
"""

import argparse
import json
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cells import MARGINS, RELAXATIONS, Cell, cells

import margindsl as md
from margindsl.contract import Refusal
from margindsl.errors import MarginError, RefusalError, TrivialityWarning
from margindsl.runtime.registry import as_relaxation

SECONDS = 5.0  # a solve's time limit: most trees over 40 points outlive any, and 972 cells are to take ten minutes
CLOSE = 1e-6


@dataclass(frozen=True)
class Outcome:
    """Represent what a relaxation made of a cell; `reason` says why it was refused, empty where it was not."""

    objective: str
    labelset: str
    margins: str
    relaxation: str
    solver: str
    reason: str = ""
    status: str = ""
    value: float = math.inf
    bound: float = -math.inf
    verified: bool = True
    seconds: float = 0.0

    @property
    def gap(self) -> float:
        """Return the gap relative to the value."""
        return (self.value - self.bound) / abs(self.value) if self.value else math.inf


def refusal(cell: Cell, relaxation: str) -> str:
    """Return why a relaxation refuses a cell, empty where it does not."""
    try:
        answer = as_relaxation(relaxation).offer(cell.problem.program())
    except RefusalError as error:  # of the program, before any relaxation
        return str(error)
    return answer.reason if isinstance(answer, Refusal) else ""


def attempt(cell: Cell, relaxation: str, solver: str | None = None, seconds: float = SECONDS) -> Outcome:
    """Solve a cell, verify the answer and say what came of it."""
    name = cell.objective, cell.labelset, cell.margins, relaxation, solver or ""
    if reason := refusal(cell, relaxation):
        return Outcome(*name, reason=reason)
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrivialityWarning)
            solution = cell.problem.solve(relaxation, solver, random_state=0, time_limit=seconds)
    except MarginError as error:
        return Outcome(*name, status=f"{type(error).__name__}: {error}", verified=False,
                       seconds=time.perf_counter() - began)
    spent = time.perf_counter() - began
    return Outcome(*name, status=solution.status, value=solution.value, bound=solution.bound,
                   verified=bool(solution.verify()), seconds=spent)


def column(task: tuple[str, int, tuple[str, ...], bool, float]) -> list[Outcome]:
    """Return the outcomes of one cell, by its number."""
    margins, place, relaxations, with_solvers, seconds = task
    cell = list(cells(margins))[place]
    outcomes = []
    for relaxation in relaxations:
        outcomes.append(attempt(cell, relaxation, seconds=seconds))
        if with_solvers and not outcomes[-1].reason:
            chosen = as_relaxation(relaxation)
            form = chosen.lower(cell.problem.program())
            outcomes += [attempt(cell, relaxation, info.name, seconds) for info in md.solvers()
                         if info.installed and md.Solver(info.name).accepts(form)]
    return outcomes


def faults(outcomes: Iterable[Outcome]) -> list[str]:
    """Return what is wrong: answers that do not verify, bounds above a value, optima that differ."""
    found, groups = [], {}
    for one in outcomes:
        groups.setdefault((one.objective, one.labelset, one.margins), []).append(one)
    for (objective, labelset, margins), group in groups.items():
        best = min(one.value for one in group)
        size = max(CLOSE * abs(best), CLOSE**2)
        for one in group:
            where = f"{objective}, {labelset}, {margins}, {one.relaxation} {one.solver}".rstrip()
            if one.reason:
                continue
            if not math.isfinite(one.value):
                found.append(f"{where}: {one.status}")
            elif not one.verified:
                found.append(f"{where}: the answer does not verify")
            if one.bound > best + size:
                found.append(f"{where}: bound {one.bound:.9g} above the value {best:.9g}")
            if one.status == "optimal" and one.value > best + size:
                found.append(f"{where}: 'optimal' at {one.value:.9g}, {best:.9g} was found")
    return found


def report(outcomes: list[Outcome]) -> str:
    """Return accepted cells, bounds, gaps and seconds by relaxation and kind of margins."""
    lines = [f"{'relaxation':<16}{'margins':<15}{'cells':>5}{'accepted':>10}{'certified':>11}{'optimal':>9}"
             f"{'median gap':>12}{'worst gap':>11}{'seconds':>9}{'slowest':>9}"]
    plain = [one for one in outcomes if not one.solver]
    for margins, relaxation in dict.fromkeys((one.margins, one.relaxation) for one in plain):
        group = [one for one in plain if (one.margins, one.relaxation) == (margins, relaxation)]
        taken = [one for one in group if not one.reason]
        gaps = sorted(one.gap for one in taken if math.isfinite(one.bound) and one.verified)
        lines.append(f"{relaxation:<16}{margins:<15}{len(group):>5}{len(taken):>10}{len(gaps):>11}"
                     f"{sum(one.status == 'optimal' for one in taken):>9}"
                     + (f"{gaps[len(gaps) // 2]:>12.2%}{gaps[-1]:>11.2%}" if gaps else f"{'':>23}")
                     + f"{sum(one.seconds for one in taken):>9.1f}"
                     f"{max((one.seconds for one in taken), default=0.0):>9.1f}")
    reasons = Counter((one.relaxation, one.margins, one.reason) for one in plain if one.reason)
    lines += ["", "refused"] + [f"{count:>5}  {relaxation}, {margins}: {reason}"
                                for (relaxation, margins, reason), count in sorted(reasons.items())]
    return "\n".join(lines)


def page() -> str:
    """Return the page of the documentation: what each relaxation refuses, and why, from the code's own words."""
    reasons: dict[str, int] = {}
    taken: dict[tuple[str, str], set[bool]] = {}
    solvers = {info.name: md.Solver(info.name) for info in md.solvers()}
    tried = list(cells("two"))
    objectives = list(dict.fromkeys(cell.objective for cell in tried))
    labelsets = list(dict.fromkeys(cell.labelset for cell in tried))
    lines = ["# What is refused, and why", "",
             "Every relaxation below was asked to take every objective on every label set, with two clusters and with",
             "three. What is not in the table is taken. A number is the reason, in the words of the relaxation.", "",
             f"- Objectives: {', '.join(objectives)}.", f"- Label sets: {', '.join(labelsets)}.", "",
             "Generated by `python tests/matrix/matrix.py --docs`; the tests compare.", "", "## Relaxations", ""]
    header, rule = " | ".join(f"`{name}`" for name in RELAXATIONS) + " |", "---|" * len(RELAXATIONS)
    titles = "two clusters", "three clusters, simplex codes", "three clusters, Crammer-Singer margins"
    lines += [f"| margins | objective | label sets | {header}", f"|---|---|---|{rule}"]
    for margins, title in zip(MARGINS, titles):
        rows: dict[tuple[str, ...], list[str]] = {}
        for cell in cells(margins):
            marks = []
            for name, answer in answers(cell).items():
                marks.append(str(reasons.setdefault(answer, len(reasons) + 1)) if isinstance(answer, str) else "✓")
                for solver in () if isinstance(answer, str) else solvers:
                    taken.setdefault((solver, name), set()).add(bool(solvers[solver].accepts(answer)))
            if set(marks) != {"✓"}:
                rows.setdefault((cell.objective, *marks), []).append(cell.labelset)
        for (objective, *marks), where in rows.items():
            told = "all" if where == labelsets else ", ".join(where)
            lines.append(f"| {title} | {objective} | {told} | " + " | ".join(marks) + " |")
    lines.append("")
    lines += ["## Reasons", "", *(f"{number}. {reason}" for reason, number in reasons.items()), ""] if reasons else []
    lines += ["## Solvers", "", "Of the cells that a relaxation takes, all (✓), some (·) or none of their forms are "
              "taken by a solver.", "", f"| solver | {header}", f"|---|{rule}"]
    words = {frozenset({True}): "✓", frozenset({True, False}): "·"}
    for solver in solvers:
        marks = [words.get(frozenset(taken.get((solver, name), ())), "") for name in RELAXATIONS]
        lines.append(f"| `{solver}` | " + " | ".join(marks) + " |")
    return "\n".join([*lines, ""])


def answers(cell: Cell) -> dict[str, Any]:
    """Return, for every relaxation, the form of a cell, or why it is refused."""
    try:
        program = cell.problem.program()
    except RefusalError as error:  # before any relaxation
        return dict.fromkeys(RELAXATIONS, str(error))
    chosen = {name: as_relaxation(name) for name in RELAXATIONS}
    offers = {name: relaxation.offer(program) for name, relaxation in chosen.items()}
    return {name: offer.reason if isinstance(offer, Refusal) else chosen[name].lower(program)
            for name, offer in offers.items()}


def main(arguments: list[str] | None = None) -> int:
    """Run the matrix, print its report and what is wrong; return whether something is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--margins", nargs="+", choices=MARGINS, default=list(MARGINS))
    parser.add_argument("--relaxations", nargs="+", default=RELAXATIONS)
    parser.add_argument("--solvers", action="store_true", help="also every other solver that takes the form")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit of a solve")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", action="store_true", help="write docs/refusals.md instead of solving")
    options: Any = parser.parse_args(arguments)
    if options.docs:
        (Path(__file__).parents[2] / "docs" / "refusals.md").write_text(page(), encoding="utf-8")
        return 0
    tasks = [(margins, place, tuple(options.relaxations), options.solvers, options.seconds)
             for margins in options.margins for place in range(54)]
    began = time.perf_counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        outcomes = [one for group in pool.map(column, tasks) for one in group]
    wrong = faults(outcomes)
    print(report(outcomes))
    print(f"\n{len(outcomes)} cells in {time.perf_counter() - began:.0f} s, {len(wrong)} wrong", *wrong, sep="\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in outcomes]), encoding="utf-8")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
