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
    """Draw histograms of the margins of every cluster; return the axes."""
    ax = _axes(ax)
    margins = solution.margins
    edges = np.histogram_bin_edges(margins, bins=30)
    binary = solution.coding == "binary"
    for label in (1, -1) if binary else range(solution.decision.shape[1]):
        name = f"cluster {label:+d}" if binary else f"cluster {label}"
        ax.hist(margins[solution.labels == label], bins=edges, alpha=0.6, label=name)
    ax.axvline(solution.margin_mean, linestyle="--", color="black", label="mean")
    ax.set_xlabel("margin y f" if binary else f"{solution.coding} margin")
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
