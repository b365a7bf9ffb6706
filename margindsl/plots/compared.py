"""Several solutions side by side: relaxations and solvers, and values of a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.plots.canvas import COLOURS, axes_of


def comparison(compared: Any, ax: Any = None) -> Any:
    """Draw the value of every row, and down to its certified bound what is not known.

    Parameters
    ----------
    compared : Comparison
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DeclarationError
        If every combination was refused.
    """
    solutions = [row.solution for row in compared.rows if row.solution is not None]
    if not solutions:
        raise DeclarationError("every combination was refused; print the comparison for the reasons")
    ax = axes_of(ax)
    _pairs(ax, np.arange(len(solutions)), solutions)
    ax.set_xticks(range(len(solutions)), [f"{s.relaxation}\n{s.solver}" for s in solutions])
    if np.isfinite(compared.bound):
        ax.axhline(compared.bound, linestyle="--", linewidth=0.8, color=COLOURS[1])
    ax.legend()
    return ax


def path(values: Sequence[float], solutions: Sequence[Any], ax: Any = None, *, name: str = "parameter") -> Any:
    """Draw value and certified bound along values of a parameter.

    Parameters
    ----------
    values : sequence of float
        Those given to `Problem.path`.
    solutions : sequence of Solution
        What it returned.
    ax : matplotlib axes, optional
    name : str
        Of the parameter.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DeclarationError
        If there are not as many solutions as values.
    """
    if len(values) != len(solutions):
        raise DeclarationError(f"plots.path: {len(values)} values and {len(solutions)} solutions")
    ax = axes_of(ax)
    _pairs(ax, np.asarray(values, dtype=float), solutions, line="-")
    if min(values) > 0 and max(values) > 10 * min(values):
        ax.set_xscale("log")
    ax.set_xlabel(name)
    ax.legend()
    return ax


def _pairs(ax: Any, positions: Any, solutions: Sequence[Any], line: str = "") -> None:
    """Draw value, bound and the gap between at every position."""
    values, bounds = (np.array([getattr(s, what) for s in solutions]) for what in ("value", "bound"))
    proved = np.isfinite(bounds)
    ax.vlines(positions[proved], bounds[proved], values[proved], color=COLOURS[1], alpha=0.35, linewidth=5)
    ax.plot(positions, values, "o", linestyle=line or "none", color=COLOURS[0], label="value")
    ax.plot(positions[proved], bounds[proved], "_", markersize=16, linestyle="none", color=COLOURS[1],
            label="certified bound")
    ax.set_ylabel("objective")
