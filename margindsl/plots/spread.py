"""How the margins lie: as histograms, and point by point."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.plots.canvas import BESIDE, axes_of, clusters_of, margin_of

DRAWN = 2_000  # points of a cluster above which a sample is drawn


def margins(solution: Any, ax: Any = None) -> Any:
    """Draw histograms of the margins of every cluster, and their mean.

    Parameters
    ----------
    solution : Solution
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    """
    ax = axes_of(ax)
    edges = np.histogram_bin_edges(solution.margins, bins=30)
    for name, colour, points in clusters_of(solution):
        ax.hist(solution.margins[points], bins=edges, alpha=0.6, label=name, color=colour)
    ax.axvline(solution.margin_mean, linestyle="--", color=BESIDE, label="mean")
    ax.set(xlabel=margin_of(solution), ylabel="points")
    ax.legend()
    return ax


def profile(solution: Any, ax: Any = None) -> Any:
    """Draw the margin of every point, sorted within its cluster, as a silhouette plot does.

    Parameters
    ----------
    solution : Solution
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    """
    ax = axes_of(ax)
    base, ticks = 0, []
    for name, colour, points in clusters_of(solution):
        own = np.sort(solution.margins[points])
        some = np.arange(0, len(own), max(1, len(own) // DRAWN))
        ax.fill_betweenx(base + some, 0.0, own[some], step="mid", color=colour, linewidth=0.0)
        ticks.append((base + len(own) / 2, f"{name}\n{len(own)} points"))
        base += len(own) + max(1, len(solution.labels) // 50)
    ax.axvline(solution.margin_mean, linestyle="--", color=BESIDE, label="mean")
    ax.set_yticks(*map(list, zip(*ticks)))
    ax.set_xlabel(margin_of(solution))
    ax.legend()
    return ax
