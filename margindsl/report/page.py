"""What stands on the page, and writing it: a template filled with what is known of an answer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import relative_gap
from margindsl.labelset import Names
from margindsl.report.figures import figure_of, figures_of
from margindsl.report.reading import advice, meaning

# What solutions without their declaration do not know.
BLANK: dict[str, Any] = {"text": "", "parameters": {}, "model": (), "certificate": "", "versions": {}}


def write_report(solution: Any, path: str | Path) -> None:
    """Write the page of a solution."""
    _write(path, title=f"{solution.relaxation}: {solution.status}", answer=answer_of(solution), table=None, figures=(),
           best="")


def write_comparison(compared: Any, path: str | Path) -> None:
    """Write the page of a comparison: its table and picture, then the solution of the lowest value."""
    if all(row.solution is None for row in compared.rows):
        return _write(path, title="Comparison", answer=None, table=compared.cells(), figures=(), best="")
    best, bound = compared.best(), compared.bound
    gap = relative_gap(best.value, bound)
    proved = (f"no labelling is below {number(bound)}, the best bound of all rows: a gap of {100 * gap:.3g} %"
              if math.isfinite(gap) else "no row has proved a bound")
    return _write(path, title="Comparison", answer=answer_of(best), table=compared.cells(),
                  figures=list(figure_of(compared)), best=f"The lowest value is {number(best.value)}, of "
                  f"{best.relaxation} with {best.solver}; {proved}.")


def answer_of(solution: Any) -> dict[str, Any]:
    """Return what the page says of a solution, by the names of the template."""
    origin, names = solution.origin, Names(solution.clusters)
    clusters = []
    for value in names.values[names.order]:
        margins = solution.margins[solution.labels == value]
        mean, least = (margins.mean(), margins.min()) if len(margins) else (math.nan, math.nan)
        wrong = f"{100 * np.mean(margins < 0):.3g} %" if len(margins) else "–"
        clusters.append((str(value), str(len(margins)), number(mean, 4), number(least, 4), wrong))
    stages = {name: spent for name, spent in solution.timings.items() if name != "total" and math.isfinite(spent)}
    longest = max(stages.values(), default=0.0) or 1.0
    settings = {"relaxation": solution.relaxation, "solver": solution.solver, **{
        name: origin[name] for name in ("tol", "time_limit", "max_iter", "random_state") if name in origin}}
    return {
        "solution": solution, "status": solution.status, "sentence": solution.state.value,
        "meaning": meaning(solution), "advice": advice(solution), "clusters": clusters, "origin": {**BLANK, **origin},
        "facts": [("value", number(solution.value)), ("certified bound", number(solution.bound)),
                  ("gap", f"{100 * solution.gap:.3g} %" if math.isfinite(solution.gap) else "none"),
                  ("points", len(solution.labels)), ("clusters", " / ".join(map(str, solution.cluster_sizes))),
                  ("seconds", number(solution.timings.get("total", math.nan), 3))],
        "stages": [(name, number(spent, 3), spent / longest) for name, spent in stages.items()],
        "report": solution.verify(), "figures": list(figures_of(solution)),
        "settings": [(name, "none" if value is None else value) for name, value in settings.items()]}


def number(value: float, digits: int = 6) -> str:
    """Return a number as it is read, a dash where there is none."""
    return f"{value:.{digits}g}" if math.isfinite(value) else "–"


def _write(path: str | Path, **content: Any) -> None:
    """Fill in the template; everything but the template itself is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
                        trim_blocks=True, lstrip_blocks=True)
    Path(path).write_text(pages.get_template("page.html").render(**content), encoding="utf-8")


__all__ = ["answer_of", "number", "write_comparison", "write_report"]
