"""Pictures of solutions and comparisons: each takes axes, or makes some, and returns them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.features import Linear, Precomputed
from margindsl.features.kernels import as_kernel
from margindsl.features.points import row_blocks
from margindsl.labelset import Names
from margindsl.typing import BoolArray, FloatArray

# Okabe and Ito (2008): told apart with every kind of colour vision. Vermilion and blue first, grey for what is beside.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
BESIDE = "#666666"


def axes_of(ax: Any) -> Any:
    """Return the axes given, or new ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def clusters_of(solution: Any) -> Iterator[tuple[str, str, BoolArray]]:
    """Yield name, colour and points of every cluster."""
    names = Names(solution.clusters)
    for value, colour in zip(names.values[names.order], np.resize(COLOURS, solution.clusters)):
        yield f"cluster {value}", str(colour), solution.labels == value


def margin_of(solution: Any) -> str:
    """Return what the margins are, in words."""
    return {"binary": "margin: label times decision value", "crammer-singer": "margin over the next cluster"}.get(
        solution.coding, "margin along the cluster's code")


def declared(solution: Any, what: str) -> Any:
    """Return the declaration of a solution."""
    found = getattr(solution.basis, "declaration", None)
    if found is None:
        raise DeclarationError(f"the solution was loaded without its problem, so that {what} are not known")
    return found


SHUFFLED = 200  # columns that are replaced in turn under a kernel
DRAWN = 2_000  # points, of a cluster or in a matrix, above which a sample is drawn


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


GRID = 200  # points a side at which decision values are drawn
CROWDED = 5_000  # points and links above which a sample is drawn


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
    ax = axes_of(ax)
    known = declared(solution, "its points")
    kept, links = np.arange(len(solution.labels)), (known.must, known.cannot)
    if X is not None:
        solution = replace(solution, labels=solution.predict(X), basis=None, certificate=None)
        kept, links = np.arange(len(solution.labels)), (np.zeros((0, 2), dtype=int),) * 2
    points = _dense(known.hyperplane.X if X is None else X, kept)
    middle, axes, shown = _plane(points)
    if shown.shape[1] == 2:
        _regions(ax, solution, middle, axes, shown)
    for pairs, style in zip(links, ("-", "--")):
        for i, j in np.asarray(pairs)[:CROWDED].tolist():
            ax.plot(*shown[[i, j]].T, linestyle=style, color=BESIDE, linewidth=0.8, zorder=1)
    for name, colour, members in clusters_of(solution):
        some = np.flatnonzero(members)[:: max(1, len(kept) // CROWDED)]
        ax.scatter(*shown[some].T, s=14, color=colour, edgecolor="white", linewidth=0.4, label=name, zorder=2)
    names = ("x0", "x1") if points.shape[1] <= 2 else ("first component", "second component")
    ax.set(xlabel=names[0], ylabel=names[1])
    ax.legend()
    return ax


def _dense(X: Any, rows: Any) -> FloatArray:
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


def label_matrix(solution: Any, ax: Any = None) -> Any:
    """Draw the label matrix of a relaxation with the points ordered by cluster and decision value.

    Blocks of plain colour are points the relaxation is sure of; what is pale it leaves open.

    Parameters
    ----------
    solution : Solution
        Of `sdp`, or of `minimax`, whose labellings are mixed.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DeclarationError
        If the relaxation has no label matrix.
    """
    sides = solution.decision if solution.decision.ndim == 1 else solution.decision.max(axis=1)
    order = np.lexsort((sides, solution.labels))
    order = order[:: -(-len(order) // DRAWN)]
    if solution.label_factor is not None:
        matrix = solution.label_factor[order] @ solution.label_factor[order].T
    elif solution.label_weights is not None:
        rows, weights = solution.label_weights[0][:, order], solution.label_weights[1]
        apart = -1.0 / (solution.clusters - 1)  # of unit codes, signs among them
        matrix = sum(w * np.where(row[:, None] == row, 1.0, apart) for row, w in zip(rows, weights))
    else:
        raise DeclarationError(f"{solution.relaxation!r} has no label matrix; 'sdp' and 'minimax' have one")
    ax = axes_of(ax)
    # Blue to orange through white, for every kind of colour vision (matplotlib's PuOr).
    image = ax.imshow(matrix, cmap="PuOr_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    for edge in np.flatnonzero(np.diff(solution.labels[order])) + 0.5:
        ax.axhline(edge, color=BESIDE, linewidth=0.6)
        ax.axvline(edge, color=BESIDE, linewidth=0.6)
    ax.figure.colorbar(image, ax=ax, label="relaxed y y'")
    ax.set(xlabel="points by cluster", ylabel="points by cluster")
    return ax


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


def stability(chosen: Any, ax: Any = None) -> Any:
    """Draw the score and the agreement of two halves against the number of clusters.

    Parameters
    ----------
    chosen : Stability
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    ax = axes_of(ax)
    frame = chosen.to_frame()
    ax.errorbar(frame.clusters, frame.score, frame.deviation, marker="o", color=COLOURS[1], label="score (nats)")
    ax.plot(frame.clusters, frame.agreement, marker="s", color=COLOURS[0], label="agreement (adjusted Rand index)")
    ax.axvline(chosen.clusters, linestyle="--", color=BESIDE, label=f"chosen: {chosen.clusters}")
    ax.set(xlabel="number of clusters", ylabel="stability", xticks=frame.clusters)
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


def influences(solution: Any) -> FloatArray:
    """Return how far decision values move, on the mean, when a column is replaced by its mean: (d,) numbers.

    Parameters
    ----------
    solution : Solution
        Of more than 200 columns where its kernel is linear: then the number is |w_j| times the mean deviation.
    """
    plane = declared(solution, "its points").hyperplane
    X, linear = plane.X, isinstance(as_kernel(plane.kernel), Linear)
    if X is None or isinstance(as_kernel(plane.kernel), Precomputed) or not (linear or X.shape[1] <= SHUFFLED):
        raise DeclarationError("the influence of columns is known of points of a linear kernel, or of up to "
                               f"{SHUFFLED} columns")
    n, d = X.shape
    mean = np.asarray(X.mean(axis=0), dtype=float).reshape(1, d)
    if linear:
        steps = np.concatenate([solution.decision_function(mean + np.eye(d)[block]) for block in row_blocks(d, d)])
        slopes = (steps - solution.decision_function(mean)).reshape(d, -1)
        if hasattr(X, "tocsc"):  # |x - m| of the entries, and m of the zeros
            X, m = X.tocsc(), mean[0]
            entries = np.add.reduceat(np.append(np.abs(X.data - np.repeat(m, np.diff(X.indptr))), 0.0), X.indptr[:-1])
            entries[np.diff(X.indptr) == 0] = 0.0
            far = (entries + (n - np.diff(X.indptr)) * np.abs(m)) / n
        else:
            far = np.abs(np.asarray(X) - mean).mean(axis=0)
        return np.asarray(np.linalg.norm(slopes, axis=1) * far)
    points, found = _dense(X, np.arange(n)[:: max(1, n // DRAWN)]), np.zeros(d)
    decided = solution.decision_function(points).reshape(len(points), -1)
    for column in range(d):
        moved = points.copy()
        moved[:, column] = mean[0, column]
        change = solution.decision_function(moved).reshape(len(points), -1) - decided
        found[column] = np.linalg.norm(change, axis=1).mean()
    return found


def features(solution: Any, ax: Any = None, *, names: Sequence[str] | None = None, most: int = 12) -> Any:
    """Draw the influence of the columns on the decision values, greatest first: see `influences`.

    Parameters
    ----------
    solution : Solution
    ax : matplotlib axes, optional
    names : sequence of str, optional
        Of the columns; those of the data frame if not given.
    most : int
        Columns drawn.

    Returns
    -------
    matplotlib axes
    """
    found = influences(solution)
    named = names if names is not None else solution.column_names or [f"column {j}" for j in range(len(found))]
    ax = axes_of(ax)
    first = np.argsort(-found, kind="stable")[:most][::-1]
    ax.barh([str(named[j]) for j in first], found[first], color=COLOURS[1])
    ax.set(xlabel="mean change of decision values without it")
    return ax


SOLUTION = {plot.__name__: plot for plot in (margins, profile, boundary, convergence, label_matrix, features)}

__all__ = ["SOLUTION", "boundary", "comparison", "convergence", "features", "influences", "label_matrix", "margins",
           "path", "profile", "stability"]
