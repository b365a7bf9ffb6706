"""What stands on the page, and writing it: a template filled with what is known of an answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import relative_gap
from margindsl.errors import NotInstalledError
from margindsl.program.codings import CODINGS
from margindsl.report.figures import figure_of, figures_of
from margindsl.report.formula import Unreadable, math_of
from margindsl.report.reading import advice, meaning
from margindsl.report.rendering import rendered

LONGEST = 2_000  # characters of a formula that is shown as mathematics


def write_report(solution: Any, path: str | Path) -> None:
    """Write the page of a solution.

    Parameters
    ----------
    solution : Solution
    path : str or Path

    Raises
    ------
    NotInstalledError
        If jinja2, matplotlib or latex2mathml are not installed.
    OSError
        If the file cannot be written.
    """
    _write(path, lambda: {"title": f"{solution.relaxation}: {solution.status}", "answer": answer_of(solution),
                          "table": None, "figures": (), "best": ""})


def write_comparison(compared: Any, path: str | Path) -> None:
    """Write the page of a comparison: its table and picture, then the solution of the lowest value.

    Parameters
    ----------
    compared : Comparison
    path : str or Path

    Raises
    ------
    NotInstalledError
        If jinja2, matplotlib or latex2mathml are not installed.
    OSError
        If the file cannot be written.
    """
    solved = any(row.solution is not None for row in compared.rows)
    _write(path, lambda: {"title": "Comparison", "answer": answer_of(compared.best()) if solved else None,
                          "table": compared.cells(), "figures": list(figure_of(compared)),
                          "best": best_of(compared) if solved else ""})


def best_of(compared: Any) -> str:
    """Return in a sentence what all rows together know: the lowest value and the greatest bound."""
    best, bound = compared.best(), compared.bound
    said = f"The lowest value is {number(best.value)}, of {best.relaxation} with {best.solver}"
    gap = relative_gap(best.value, bound)
    if not math.isfinite(gap):
        return f"{said}; no row has proved a bound."
    return f"{said}; no labelling is below {number(bound)}, the best bound of all rows: a gap of {100 * gap:.3g} %."


def answer_of(solution: Any) -> dict[str, Any]:
    """Return what the page says of a solution, by place."""
    origin = solution.origin
    return {
        "solution": solution, "status": solution.status, "sentence": solution.state.value,
        "meaning": meaning(solution), "advice": advice(solution), "facts": facts_of(solution),
        "formula": [(_math(head), _math(row)) for head, row in origin.get("latex", ())],
        "text": origin.get("text", ""), "parameters": origin.get("parameters", {}), "model": origin.get("model", ()),
        "clusters": list(clusters_of(solution)), "stages": stages_of(solution), "report": solution.verify(),
        "certificate": origin.get("certificate", ""), "figures": list(figures_of(solution)),
        "settings": settings_of(solution), "versions": origin.get("versions", {})}


def facts_of(solution: Any) -> list[tuple[str, str]]:
    """Return the numbers that are read first."""
    return [("value", number(solution.value)), ("certified bound", number(solution.bound)),
            ("gap", f"{100 * solution.gap:.3g} %" if math.isfinite(solution.gap) else "none"),
            ("points", str(len(solution.labels))),
            ("clusters", " / ".join(map(str, solution.cluster_sizes))),
            ("seconds", number(solution.timings.get("total", math.nan), 3))]


def clusters_of(solution: Any) -> Iterator[tuple[str, ...]]:
    """Yield name, size, and mean, least and share of wrong margins of every cluster."""
    names = CODINGS[solution.coding].names(solution.clusters)
    for value in names.values[names.order]:
        margins = solution.margins[solution.labels == value]
        some = len(margins) > 0
        yield (str(value), str(len(margins)), number(np.mean(margins) if some else math.nan, 4),
               number(np.min(margins) if some else math.nan, 4),
               f"{100 * np.mean(margins < 0):.3g} %" if some else "–")


def stages_of(solution: Any) -> list[tuple[str, str, float]]:
    """Return name, seconds and part of the longest of every stage."""
    stages = {name: spent for name, spent in solution.timings.items() if name != "total" and math.isfinite(spent)}
    longest = max(stages.values(), default=0.0)
    return [(name, number(spent, 3), spent / longest if longest else 0.0) for name, spent in stages.items()]


def settings_of(solution: Any) -> list[tuple[str, str]]:
    """Return how the problem was solved."""
    options = [(name, solution.origin[name]) for name in ("tol", "time_limit", "max_iter", "random_state")
               if name in solution.origin]
    return [("relaxation", solution.relaxation), ("solver", solution.solver),
            *((name, "none" if value is None else f"{value}") for name, value in options)]


def number(value: float, digits: int = 6) -> str:
    """Return a number as it is read, a dash where there is none."""
    return f"{value:.{digits}g}" if math.isfinite(value) else "–"


def _math(latex: str) -> tuple[str, str]:
    """Return a formula as (MathML, LaTeX), the first empty where it is long or no MathML can be made of it."""
    with suppress(Unreadable):
        return (math_of(latex) if len(latex) <= LONGEST else "", latex)
    return "", latex


def _write(path: str | Path, content: Callable[[], dict[str, Any]]) -> None:
    try:
        known = content()
    except ImportError as error:
        raise NotInstalledError(
            f"a report needs the package {error.name}; run `pip install margindsl[report]`") from None
    Path(path).write_text(rendered(Path(__file__).with_name("page.html"), known), encoding="utf-8")


__all__ = ["answer_of", "number", "write_comparison", "write_report"]
