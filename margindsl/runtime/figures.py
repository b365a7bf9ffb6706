"""Figures of solutions and comparisons; matplotlib is asked for only here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from margindsl.errors import NotInstalledError

if TYPE_CHECKING:
    from margindsl.runtime.compare import Comparison
    from margindsl.runtime.solution import Solution


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise NotInstalledError("plots need matplotlib; run `pip install margindsl[plot]`") from None
    return plt.subplots()[1]


def plot_margins(solution: Solution, ax: Any = None) -> Any:
    """Draw histograms of the margins of both clusters; return the axes."""
    ax = _axes(ax)
    margins = solution.margins
    edges = np.histogram_bin_edges(margins, bins=30)
    for sign, name in ((1, "cluster +1"), (-1, "cluster -1")):
        ax.hist(margins[solution.labels == sign], bins=edges, alpha=0.6, label=name)
    ax.axvline(solution.margin_mean, linestyle="--", color="black", label="mean")
    ax.set_xlabel("margin y f")
    ax.set_ylabel("points")
    ax.legend()
    return ax


def plot_comparison(comparison: Comparison, ax: Any = None) -> Any:
    """Draw value and certified bound of every row of a comparison; return the axes."""
    ax = _axes(ax)
    solutions = [row.solution for row in comparison.rows if row.solution is not None]
    positions = np.arange(len(solutions))
    values = np.array([s.value for s in solutions])
    bounds = np.array([s.bound for s in solutions])
    ax.plot(positions, values, "o", label="value")
    finite = np.isfinite(bounds)
    ax.plot(positions[finite], bounds[finite], "_", markersize=20, label="certified bound")
    ax.set_xticks(positions, [f"{s.relaxation}\n{s.solver}" for s in solutions])
    ax.set_ylabel("objective")
    ax.legend()
    return ax
