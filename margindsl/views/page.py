"""What stands on the page, and writing it: a template filled with what is known of an answer."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import relative_gap
from margindsl.errors import MarginError
from margindsl.labelset import Names
from margindsl.metrics import clustering_accuracy
from margindsl.views.plots import SOLUTION, comparison
from margindsl.views.reading import advice, meaning

SIZE = (6.4, 3.6)  # inches
DOTS = 160  # an inch, of what is too much to be drawn as lines
AGREEING = 12  # rows of which a table of agreement is read
DRAWN = 400  # points of a cloud from which it is a picture of dots
# Ink and paper of matplotlib, and what a page in the dark has instead.
COLOURS = (("#000000", "currentColor"), ("#666666", "var(--muted)"), ("#ffffff", "var(--paper)"))
PICTURES = (
    ("boundary", "The points with the boundary between clusters; must-links are whole lines, cannot-links dashed."),
    ("margins", "Margins of the points of each cluster. Below zero a point lies beyond the boundary."),
    ("profile", "The margin of every point, sorted within its cluster."),
    ("convergence", "Value of the best labels and greatest lower bound while the problem was solved."),
    ("features", "How far decision values move, on the mean, where a column is replaced by its mean."),
    ("label_matrix", "The relaxed label matrix, points ordered by cluster: pale is what the relaxation leaves open."))
SEVERAL = "Value of every row, down to its certified bound; the dashed line is the best bound of all rows."
# What solutions without their declaration do not know.
BLANK: dict[str, Any] = {"text": "", "parameters": {}, "model": (), "certificate": "", "versions": {}}


def write_report(solution: Any, path: str | Path, *, title: str, truth: Any, names: Sequence[str] | None) -> None:
    """Write the page of a solution."""
    _write(path, title=title or f"{solution.relaxation}: {solution.status}", tables=[], figures=(), best="",
           answer=answer_of(solution, truth, names))


def write_comparison(compared: Any, path: str | Path, *, title: str, truth: Any, names: Sequence[str] | None) -> None:
    """Write the page of a comparison: tables and picture, then, of one problem, the solution of the lowest value."""
    solved = [row for row in compared.rows if row.solution is not None]
    tables = [("Relaxations and solvers", *compared.cells())]
    frames = [("Means and deviations over the seeds", compared.summary())] if any(row.seed for row in solved) else []
    if len(solved) > 1 and len(compared.rows) <= AGREEING:
        frames.append(("Agreement of the labels of two rows: adjusted Rand index, one where they are the same",
                       compared.agreement().rename_axis("row").reset_index()))
    tables += [(caption, list(frame.columns), [[number(cell, 4) if isinstance(cell, float) else str(cell)
                                                for cell in row] for row in frame.itertuples(index=False)])
               for caption, frame in frames]
    answer, sentence = None, ""
    if solved and len({row.problem for row in solved}) == 1:
        best = compared.best()
        gap = relative_gap(best.value, best.bound)
        answer, sentence = answer_of(best, truth, names), (
            f"The lowest value is {number(best.value)}, of {best.relaxation} with {best.solver}; " + (
                f"no labelling is below {number(best.bound)}, the best bound of all rows: a gap of {100 * gap:.3g} %."
                if math.isfinite(gap) else "no row has proved a bound."))
    elif solved:
        sentence = "Values of several problems cannot be compared; their labels can."
    _write(path, title=title or "Comparison", answer=answer, tables=tables, best=sentence,
           figures=[{"svg": drawn(partial(comparison, compared), SEVERAL), "caption": SEVERAL}] if solved else [])


def answer_of(solution: Any, truth: Any, columns: Sequence[str] | None) -> dict[str, Any]:
    """Return what the page says of a solution, by the names of the template."""
    origin, names = solution.origin, Names(solution.clusters)
    right = None if truth is None else clustering_accuracy(truth, solution.labels)
    classes = [] if truth is None else sorted(set(np.asarray(truth).tolist()), key=str)
    clusters = []
    for value in names.values:
        margins = solution.margins[solution.labels == value]
        mean, least = (margins.mean(), margins.min()) if len(margins) else (math.nan, math.nan)
        wrong = f"{100 * np.mean(margins < 0):.3g} %" if len(margins) else "–"
        own = [] if truth is None else np.asarray(truth)[solution.labels == value]
        clusters.append((str(value), str(len(margins)), number(mean, 4), number(least, 4), wrong,
                         *(str(np.count_nonzero(own == one)) for one in classes)))
    stages = {name: spent for name, spent in solution.timings.items() if name != "total" and math.isfinite(spent)}
    if "total" in solution.timings:
        stages["rest"] = max(solution.timings["total"] - sum(stages.values()), 0.0)
    longest = max(stages.values(), default=0.0) or 1.0
    figures = []
    for name, caption in PICTURES:
        plot = partial(SOLUTION[name], solution, **({"names": columns} if name == "features" else {}))
        with suppress(MarginError):  # pictures that a solution has not the data for are left out
            figures.append({"svg": drawn(plot, caption), "caption": caption})
    settings = {"relaxation": solution.relaxation, "solver": solution.solver, **{
        name: origin[name] for name in ("tol", "time_limit", "max_iter", "random_state") if name in origin}}
    return {
        "solution": solution, "status": solution.status, "sentence": solution.state.value,
        "meaning": meaning(solution), "advice": advice(solution), "clusters": clusters, "origin": {**BLANK, **origin},
        "classes": classes,
        "facts": [("value", number(solution.value)), ("certified bound", number(solution.bound)),
                  ("gap", f"{100 * solution.gap:.3g} %" if math.isfinite(solution.gap) else "none"),
                  ("points", len(solution.labels)), ("clusters", " / ".join(map(str, solution.cluster_sizes))),
                  ("seconds", number(solution.timings.get("total", math.nan), 3)),
                  *([] if right is None else [("accuracy", f"{100 * right:.4g} %")])],
        "stages": [(name, number(spent, 3), spent / longest) for name, spent in stages.items()],
        "report": solution.verify(), "figures": figures,
        "settings": [(name, "none" if value is None else value) for name, value in settings.items()]}


def number(value: float, digits: int = 6) -> str:
    """Return a number as it is read, a dash where there is none."""
    return f"{value:.{digits}g}" if math.isfinite(value) else "–"


def drawn(plot: Callable[[Any], Any], title: str) -> str:
    """Return what is plotted on axes as an SVG element, which nothing outside it knows of."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    canvas: Any = Canvas(figsize=SIZE, layout="constrained")
    ax = canvas.subplots()
    plot(ax)
    for cloud in ax.collections:
        cloud.set_rasterized(len(cloud.get_offsets()) > DRAWN)
    for part in (canvas, *canvas.axes):
        part.patch.set_visible(False)
    for legend in filter(None, (axes.get_legend() for axes in canvas.axes)):
        legend.get_frame().set_alpha(0.6)
    stream = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        canvas.savefig(stream, format="svg", dpi=DOTS, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = stream.getvalue()
    text = text[text.index("<svg"):]
    for ink, ours in COLOURS:
        text = text.replace(f": {ink}", f": {ours}")
    return text.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def _write(path: str | Path, **content: Any) -> None:
    """Fill in the template; everything but the template itself is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
                        trim_blocks=True, lstrip_blocks=True)
    Path(path).write_text(pages.get_template("page.html").render(**content), encoding="utf-8")
