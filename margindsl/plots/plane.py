"""The points in a plane, with the boundary between clusters and the links."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.plots.canvas import BESIDE, COLOURS, axes_of, clusters_of, declared
from margindsl.typing import FloatArray

GRID = 200  # points a side at which decision values are drawn
DRAWN = 5_000  # points and links above which a sample is drawn


def boundary(solution: Any, ax: Any = None, X: Any = None) -> Any:
    """Draw the points, where the clusters meet, and the links: must-links whole, cannot-links dashed.

    Points of more than two columns lie in the plane of their first two principal components; what is drawn there of the
    boundary is its cut with that plane.

    Parameters
    ----------
    solution : Solution
    ax : matplotlib axes, optional
    X : (m, d) array, optional
        Other points than those of the problem, coloured by the cluster that is predicted for them.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DeclarationError
        If the solution was loaded without its problem, or its points are known by their kernel alone.
    """
    from dataclasses import replace

    ax = axes_of(ax)
    known = declared(solution, "its points")
    kept, links = np.arange(len(solution.labels)), (known.must, known.cannot)
    if X is not None:
        solution = replace(solution, labels=solution.predict(X), evidence=None, certificate=None)
        kept, links = np.arange(len(solution.labels)), (np.zeros((0, 2), dtype=int),) * 2
    points = _dense(known.hyperplane.X if X is None else X, kept)
    middle, axes, shown = _plane(points)
    if shown.shape[1] == 2:
        _regions(ax, solution, middle, axes, shown)
    for pairs, style in zip(links, ("-", "--")):
        for i, j in np.asarray(pairs)[:DRAWN].tolist():
            ax.plot(*shown[[i, j]].T, linestyle=style, color=BESIDE, linewidth=0.8, zorder=1)
    for name, colour, members in clusters_of(solution):
        some = np.flatnonzero(members)[:: max(1, len(kept) // DRAWN)]
        ax.scatter(*shown[some].T, s=14, color=colour, edgecolor="white", linewidth=0.4, label=name, zorder=2)
    names = ("x0", "x1") if points.shape[1] <= 2 else ("first component", "second component")
    ax.set(xlabel=names[0], ylabel=names[1])
    ax.legend()
    return ax


def _dense(X: Any, rows: Any) -> FloatArray:
    from margindsl.errors import DeclarationError

    if X is None:
        raise DeclarationError("the points are known by their kernel alone; give some to draw, plot(..., X=X)")
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return np.asarray(X, dtype=float)[rows]


def _plane(points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a point of the plane, its two directions, and the coordinates of all points in it."""
    d = points.shape[1]
    if d <= 2:
        flat = points if d == 2 else np.column_stack([points, np.zeros(len(points))])
        return np.zeros(d), np.eye(2, d), flat
    middle = points.mean(axis=0)
    axes = np.linalg.eigh(np.cov(points.T))[1][:, :-3:-1].T
    axes *= np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])[:, None]
    return middle, axes, (points - middle) @ axes.T


def _regions(ax: Any, solution: Any, middle: FloatArray, axes: FloatArray, shown: FloatArray) -> None:
    """Draw where decision values are zero and ±1, or which of several is largest."""
    low, high = shown.min(axis=0), shown.max(axis=0)
    room = 0.05 * np.where(high > low, high - low, 1.0)
    sides = [np.linspace(a, b, GRID) for a, b in zip(low - room, high + room)]
    u, v = np.meshgrid(*sides)
    values = solution.decision_function(middle + np.column_stack([u.ravel(), v.ravel()]) @ axes)
    if values.ndim == 1:
        ax.contour(u, v, values.reshape(u.shape), levels=[-1.0, 0.0, 1.0], colors=BESIDE,
                   linestyles=["dotted", "solid", "dotted"], linewidths=[0.8, 1.4, 0.8])
        return
    k = solution.clusters
    ax.contourf(u, v, values.argmax(axis=1).reshape(u.shape), levels=np.arange(k + 1) - 0.5,
                colors=list(np.resize(COLOURS, k)), alpha=0.15)
