"""How value and bound came together while the problem was solved."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.plots.canvas import COLOURS, axes_of


def convergence(solution: Any, ax: Any = None) -> Any:
    """Draw the best value and the greatest bound so far against seconds, and the answer at the end.

    Parameters
    ----------
    solution : Solution
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    """
    ax = axes_of(ax)
    seconds = np.array([record.seconds for record in solution.history] + [solution.timings.get("total", 0.0)])
    values = np.array([record.value for record in solution.history] + [solution.value])
    bounds = np.array([record.bound for record in solution.history] + [solution.bound])
    best = np.fmin.accumulate(np.where(np.isfinite(values), values, np.nan))
    # A round's bound may be an estimate on the way to the proof; the last one is what was proved.
    least = np.minimum(np.fmax.accumulate(np.where(np.isfinite(bounds), bounds, np.nan)), solution.bound)
    ax.step(seconds, best, where="post", color=COLOURS[0], label="value")
    if np.isfinite(solution.bound):
        ax.step(seconds, least, where="post", color=COLOURS[1], label="certified bound")
        ax.plot(seconds[-1], solution.bound, "^", color=COLOURS[1])
    ax.plot(seconds[-1], solution.value, "o", color=COLOURS[0])
    ax.set(xlabel="seconds", ylabel="objective")
    ax.legend()
    return ax
