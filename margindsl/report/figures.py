"""Pictures of a page: drawn by `margindsl.plots`, kept as SVG that takes the colours of the page."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from margindsl.errors import MarginError
from margindsl.plots import SOLUTION, comparison

SIZE = (6.4, 3.6)  # inches
DOTS = 160  # an inch, of what is too much to be drawn as lines
DRAWN = 400  # points of a cloud from which it is a picture of dots
# Ink and paper of matplotlib, and what a page in the dark has instead.
COLOURS = (("#000000", "currentColor"), ("#666666", "var(--muted)"), ("#ffffff", "var(--paper)"))
PICTURES = (
    ("boundary", "The points with the boundary between clusters; must-links are whole lines, cannot-links dashed."),
    ("margins", "Margins of the points of each cluster. Below zero a point lies beyond the boundary."),
    ("profile", "The margin of every point, sorted within its cluster."),
    ("convergence", "Value of the best labels and greatest lower bound while the problem was solved."),
    ("label_matrix", "The relaxed label matrix, points ordered by cluster: pale is what the relaxation leaves open."))


@dataclass(frozen=True)
class Figure:
    """Represent a picture with its caption."""

    name: str
    svg: str
    caption: str


def figures_of(solution: Any) -> Iterator[Figure]:
    """Yield the pictures of a solution; those that it has not the data for are left out."""
    for name, caption in PICTURES:
        with suppress(MarginError):
            yield Figure(name, drawn(partial(SOLUTION[name], solution), caption), caption)


def figure_of(compared: Any) -> Iterator[Figure]:
    """Yield the picture of a comparison, where anything was solved."""
    caption = "Value of every row, down to its certified bound; the dashed line is the best bound of all rows."
    with suppress(MarginError):
        yield Figure("comparison", drawn(partial(comparison, compared), caption), caption)


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


__all__ = ["Figure", "drawn", "figure_of", "figures_of"]
