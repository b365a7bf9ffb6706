"""Pictures of solutions and comparisons: each takes axes, or makes some, and returns them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from inspect import signature
from textwrap import fill
from typing import Any, ParamSpec

import numpy as np
from scipy.spatial import cKDTree

from margindsl.errors import DeclarationError
from margindsl.features import Linear, Precomputed
from margindsl.features.kernels import as_kernel
from margindsl.features.points import row_blocks
from margindsl.labelset import Names
from margindsl.typing import BoolArray, FloatArray

P = ParamSpec("P")
# Okabe and Ito (2008): told apart with every kind of colour vision. Vermilion and blue first, grey for what is beside.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
BESIDE = "#666666"
COMMON = """
    Parameters
    ----------
    {} : {}
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
FIRST = {"solution": "Solution", "compared": "Comparison", "chosen": "Stability"}


def picture(draw: Callable[P, None]) -> Callable[P, Any]:
    """Give a picture axes where it is sent to none, and a legend; it returns the axes."""
    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Any:
        given, own = signature(draw).bind(*args, **kwargs), None
        if given.arguments.get("ax") is None:
            import matplotlib.pyplot as plt

            own, given.arguments["ax"] = plt.subplots(layout="constrained")
        try:
            draw(*given.args, **given.kwargs)
        except Exception:
            if own is not None:
                plt.close(own)
            raise
        ax = given.arguments["ax"]
        if ax.get_legend_handles_labels()[1]:
            ax.legend()
        return ax

    if draw.__doc__ and "Parameters" not in draw.__doc__:
        first, (head, raises, rest) = next(iter(signature(draw).parameters)), draw.__doc__.partition("\n    Raises")
        drawn.__doc__ = f"{head.rstrip()}\n{COMMON.format(first, FIRST[first])}{raises}{rest}"
    return drawn


def clusters_of(solution: Any) -> Iterator[tuple[str, str, BoolArray]]:
    """Yield name, colour and points of every cluster."""
    names = Names(solution.clusters)
    for value, colour in zip(names.values[names.order], np.resize(COLOURS, solution.clusters)):
        yield f"cluster {value:{'+' * bool(np.any(names.values < 0))}}".replace("-", "−"), str(colour), (
            solution.labels == value)


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


@picture
def margins(solution: Any, ax: Any = None) -> None:
    """Draw the density of the margins of every cluster, of area one in all, and the mean."""
    every = np.sort(solution.margins)
    least = (float(np.ptp(every)) or 1.0) / 80  # width of margins that losses pile up on one value
    found = []
    for name, colour, points in clusters_of(solution):
        own = np.sort(solution.margins[points])
        if len(own):
            middle = np.subtract(*np.quantile(own, [0.75, 0.25])) / 1.34
            width = 0.9 * min(own.std(), middle or own.std()) * len(own) ** -0.2  # Silverman (1986), 3.31
            found.append((name, colour, own, max(width, least)))
    beyond = 3 * max(width for *_, width in found)
    grid = np.linspace(every[0] - beyond, every[-1] + beyond, 400)
    for name, colour, own, width in found:
        some = own[np.linspace(0, len(own) - 1, min(len(own), DRAWN)).astype(int)]
        density = np.exp(-((grid[:, None] - some) ** 2) / (2 * width**2)).sum(axis=1)
        density *= len(own) / (len(every) * len(some) * width * np.sqrt(2 * np.pi))
        ax.fill_between(grid, density, color=colour, alpha=0.25, linewidth=0.0)
        ax.plot(grid, density, color=colour, label=name)
    ax.axvline(solution.margin_mean, linestyle="--", color=BESIDE, label="mean")
    ax.set(xlabel=margin_of(solution), ylabel="density of the points", ylim=(0.0, None))


@picture
def profile(solution: Any, ax: Any = None) -> None:
    """Draw the margin of every point, sorted within its cluster, as a silhouette plot does."""
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


GRID = 200  # points a side at which decision values are drawn
CROWDED = 5_000  # points and links above which a sample is drawn
NEAR = 20  # points whose mean decision values stand for those between


@picture
def boundary(solution: Any, ax: Any = None, X: Any = None) -> None:
    """Draw the points, where the clusters meet, and the links: must-links whole, cannot-links dashed.

    Points of more than two columns lie in the plane in which decision values vary most; those of a linear kernel and of
    two or three clusters vary in no other direction. Otherwise the boundary is where the mean decision values of near
    points change sides, and the axes say so. Points of several hyperplanes are taken side by side.

    Parameters
    ----------
    solution : Solution
    ax : matplotlib axes, optional
    X : (m, d) array, optional
        Other points than those of the problem, coloured by the cluster that is predicted for them; of several
        hyperplanes a list.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DeclarationError
        If the solution was loaded without its problem, or its points are known by their kernel alone.
    """
    known = declared(solution, "its points")
    pairs = (known.must, known.cannot) if X is None else ()
    links = [found[(found < len(solution.labels)).all(axis=1)] for found in pairs]  # others lead beyond the points
    views, decide = _views(solution, X)
    if X is not None:
        solution = replace(solution, labels=solution.predict(X), basis=None, certificate=None)
    points = _dense(views)
    middle, axes, names, is_whole = _plane(points, decide, known)
    shown = (points - middle) @ axes.T
    # Where decision values are zero and ±1, or which of several is largest, and which nowhere is.
    low, high = shown.min(axis=0), shown.max(axis=0)
    room = 0.05 * np.where(high > low, high - low, 1.0)
    u, v = np.meshgrid(*(np.linspace(a, b, GRID) for a, b in zip(low - room, high + room)))
    grid, empty = np.column_stack([u.ravel(), v.ravel()]), set[int]()
    values = decide(middle + grid @ axes) if is_whole else decide(points)[
        cKDTree(shown).query(grid, range(1, min(NEAR, len(points)) + 1))[1]].mean(axis=1)
    if values.shape[1] == 1:
        ax.contour(u, v, values.reshape(u.shape), levels=[-1.0, 0.0, 1.0], colors=BESIDE,
                   linestyles=["dotted", "solid", "dotted"], linewidths=[0.8, 1.4, 0.8])
    else:
        k, largest = solution.clusters, values.argmax(axis=1)
        ax.contourf(u, v, largest.reshape(u.shape), levels=np.arange(k + 1) - 0.5,
                    colors=list(np.resize(COLOURS, k)), alpha=0.15)
        empty = set(range(k)) - set(largest.tolist())
    if not is_whole:
        names = f"{names[0]}\n(boundary: mean decision values of near points)", names[1]
    for pairs, style in zip(links, ("-", "--")):
        for i, j in np.asarray(pairs)[:CROWDED].tolist():
            ax.plot(*shown[[i, j]].T, linestyle=style, color=BESIDE, linewidth=0.8, zorder=1)
    for number, (name, colour, members) in enumerate(clusters_of(solution)):
        some = np.flatnonzero(members)[:: max(1, len(points) // CROWDED)]
        ax.scatter(*shown[some].T, s=14, color=colour, edgecolor="white", linewidth=0.4, zorder=2,
                   label=f"{name}, nowhere the largest" if number in empty else name)
    ax.set(xlabel=names[0], ylabel=names[1])


def _views(solution: Any, X: Any = None) -> tuple[list[Any], Callable[[FloatArray], FloatArray]]:
    """Return the points (n, d_v) of every hyperplane, and what decides (m, q) points (m, d) of all side by side."""
    planes = declared(solution, "its points").planes
    views = [plane.X for plane in planes] if X is None else list(X) if len(planes) > 1 else [X]
    if any(view is None for view in views):
        raise DeclarationError("the points are known by their kernel alone; give some to draw, plot(..., X=X)")
    views = [view if hasattr(view, "shape") else np.asarray(view) for view in views]
    if len({view.shape[0] for view in views}) > 1 or (X is None and views[0].shape[0] != len(solution.labels)):
        raise DeclarationError("the hyperplanes have not one point each for every label, so that there is no picture "
                               "of them; give some, plot(..., X=[X1, X2])")
    ends = np.cumsum([view.shape[1] for view in views])[:-1]

    def decide(points: FloatArray) -> FloatArray:
        parts = np.split(points, ends, axis=1)
        found = solution.decision_function(parts if len(parts) > 1 else parts[0])
        return np.asarray(found).reshape(len(points), -1)

    return views, decide


def _dense(views: Sequence[Any]) -> FloatArray:
    return np.hstack([x.toarray() if hasattr(x, "toarray") else np.asarray(x, dtype=float) for x in views])


def _slopes(decide: Callable[[FloatArray], FloatArray], middle: FloatArray) -> FloatArray:
    """Return how decision values change (d, q) along every column, of linear kernels."""
    d, at = len(middle), middle[None, :]
    return np.concatenate([decide(at + np.eye(d)[block]) for block in row_blocks(d, d)]) - decide(at)


def _is_linear(known: Any) -> bool:
    return all(isinstance(as_kernel(plane.kernel), Linear) for plane in known.planes)


def _plane(points: FloatArray, decide: Any, known: Any) -> tuple[FloatArray, FloatArray, tuple[str, str], bool]:
    """Return a point of the plane, its two directions, what its axes are, and whether it tells decision values."""
    d = points.shape[1]
    if d <= 2:
        own = [name for plane in known.planes for name in plane.column_names or ()]
        names = *(own if len(own) == d else ("first column", "second column")[:d]), ""
        return np.zeros(d), np.eye(2, d), names[:2], True
    middle = points.mean(axis=0)
    centred, names, whole = points - middle, ("first principal component", "second principal component"), False
    basis = np.zeros((d, 0))
    if _is_linear(known):
        slopes = _slopes(decide, middle)
        _, scale, turned = np.linalg.svd(centred @ slopes, full_matrices=False)
        basis = np.linalg.qr(slopes @ turned[:2][scale[:2] > 1e-9 * scale[0]].T)[0]
        basis *= np.sign(np.sum(basis * (slopes @ turned[: basis.shape[1]].T), axis=0))
        whole = not np.any(scale[2:] > 1e-6 * scale[0])
        names = (("along the weights", "most variance across the weights") if basis.shape[1] == 1 else
                 ("where decision values vary most", "where they vary next"))
    if basis.shape[1] < 2:
        rest = centred - centred @ basis @ basis.T
        basis = np.hstack([basis, np.linalg.eigh(rest.T @ rest)[1][:, :-3:-1]])[:, :2]
    return middle, basis.T, names, whole


@picture
def convergence(solution: Any, ax: Any = None) -> None:
    """Draw the best value and the greatest bound so far against seconds, and the answer at the end."""
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
    ax.yaxis.get_major_formatter().set_useOffset(False)


@picture
def label_matrix(solution: Any, ax: Any = None) -> None:
    """Draw the label matrix of a relaxation with the points ordered by cluster and decision value.

    Blocks of plain colour are points the relaxation is sure of; what is pale it leaves open.

    Raises
    ------
    DeclarationError
        If the relaxation has no label matrix: 'sdp' and 'minimax' have one.
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
    # Blue to orange through white, for every kind of colour vision (matplotlib's PuOr).
    image = ax.imshow(matrix, cmap="PuOr_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    for edge in np.flatnonzero(np.diff(solution.labels[order])) + 0.5:
        ax.axhline(edge, color=BESIDE, linewidth=0.6)
        ax.axvline(edge, color=BESIDE, linewidth=0.6)
    ax.figure.colorbar(image, ax=ax, label="alike (1) or apart (−1)")
    ax.set(xlabel="points by cluster", ylabel="points by cluster")


@picture
def comparison(compared: Any, ax: Any = None) -> None:
    """Draw the value of every row, and down to its certified bound what is not known; seeds stand beside one another.

    Raises
    ------
    DeclarationError
        If every combination was refused.
    """
    solved = [row for row in compared.rows if row.solution is not None]
    if not solved:
        raise DeclarationError("every combination was refused; print the comparison for the reasons")
    names = ["\n".join(fill(part.replace("(", "\n("), 18, break_long_words=False, replace_whitespace=False)
                       for part in (row.problem, row.relaxation, row.solver) if part) for row in solved]
    ticks, seeds = list(dict.fromkeys(names)), max(row.seed for row in solved) + 1
    positions = [ticks.index(name) + 0.6 * ((row.seed + 0.5) / seeds - 0.5) for name, row in zip(names, solved)]
    _pairs(ax, np.array(positions), [row.solution for row in solved], wide=max(4.0, 16.0 / seeds))
    ax.set_xticks(range(len(ticks)), ticks, fontsize="small" if len(ticks) < 6 else "x-small")
    if np.isfinite(compared.bound):
        ax.axhline(compared.bound, linestyle="--", linewidth=0.8, color=COLOURS[1])


@picture
def path(values: Sequence[float], solutions: Sequence[Any], ax: Any = None, *, name: str = "parameter") -> None:
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
        If there are not as many solutions as values, or none.
    """
    if len(values) != len(solutions) or not len(values):
        raise DeclarationError(f"plots.path: {len(values)} values and {len(solutions)} solutions")
    _pairs(ax, np.asarray(values, dtype=float), solutions, line="-")
    if min(values) > 0 and max(values) > 10 * min(values):
        ax.set_xscale("log")
    ax.set_xlabel(name)


@picture
def stability(chosen: Any, ax: Any = None) -> None:
    """Draw the score and the agreement of two halves against the number of clusters."""
    frame = chosen.to_frame()
    ax.errorbar(frame.clusters, frame.score, frame.deviation, marker="o", color=COLOURS[1], label="score (nats)")
    ax.plot(frame.clusters, frame.agreement, marker="s", color=COLOURS[0], label="agreement (adjusted Rand index)")
    ax.axvline(chosen.clusters, linestyle="--", color=BESIDE, label=f"chosen: {chosen.clusters}")
    ax.set(xlabel="number of clusters", ylabel="stability", xticks=frame.clusters)


def _pairs(ax: Any, positions: Any, solutions: Sequence[Any], line: str = "", wide: float = 16.0) -> None:
    """Draw value, bound and the gap between at every position."""
    values, bounds = (np.array([getattr(s, what) for s in solutions]) for what in ("value", "bound"))
    proved = np.isfinite(bounds)
    ax.vlines(positions[proved], bounds[proved], values[proved], color=COLOURS[1], alpha=0.35, linewidth=5)
    ax.plot(positions, values, "o", linestyle=line or "none", color=COLOURS[0], label="value")
    ax.plot(positions[proved], bounds[proved], "_", markersize=wide, linestyle="none", color=COLOURS[1],
            label="certified bound")
    ax.set_ylabel("objective")


def influences(solution: Any) -> FloatArray:
    """Return how far decision values move, on the mean, when a column is replaced by its mean: (d,) numbers.

    Parameters
    ----------
    solution : Solution
        Of more than 200 columns where its kernel is linear: then the number is |w_j| times the mean deviation.
    """
    known = declared(solution, "its points")
    linear = _is_linear(known)
    if any(plane.X is None or isinstance(as_kernel(plane.kernel), Precomputed) or not (
            linear or plane.X.shape[1] <= SHUFFLED) for plane in known.planes):
        raise DeclarationError("the influence of columns is known of points of a linear kernel, or of up to "
                               f"{SHUFFLED} columns")
    views, decide = _views(solution)
    mean = np.concatenate([np.asarray(view.mean(axis=0), dtype=float).ravel() for view in views])
    if linear:
        slopes = _slopes(decide, mean)
        far = np.concatenate([_deviations(view, m) for view, m in zip(
            views, np.split(mean, np.cumsum([view.shape[1] for view in views])[:-1]))])
        return np.asarray(np.linalg.norm(slopes, axis=1) * far)
    some = np.arange(len(solution.labels))[:: max(1, len(solution.labels) // DRAWN)]
    points = _dense([view[some] for view in views])
    decided, found = decide(points), np.zeros(len(mean))
    for column in range(len(mean)):
        moved = points.copy()
        moved[:, column] = mean[column]
        found[column] = np.linalg.norm(decide(moved) - decided, axis=1).mean()
    return found


def _deviations(X: Any, mean: FloatArray) -> FloatArray:
    """Return the mean of |x − m| of every column, of sparse ones by the entries and m of the zeros."""
    if not hasattr(X, "tocsc"):
        return np.asarray(np.abs(np.asarray(X) - mean).mean(axis=0))
    X = X.tocsc()
    count = np.diff(X.indptr)
    entries = np.add.reduceat(np.append(np.abs(X.data - np.repeat(mean, count)), 0.0), X.indptr[:-1])
    return np.asarray((np.where(count, entries, 0.0) + (X.shape[0] - count) * np.abs(mean)) / X.shape[0])


@picture
def features(solution: Any, ax: Any = None, *, names: Sequence[str] | None = None, most: int = 12) -> None:
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
    own = [name for plane in solution.basis.declaration.planes for name in plane.column_names or ()]
    if names is not None and (isinstance(names, str) or len(names) != len(found)):
        raise DeclarationError(f"names={names!r}: expected {len(found)} names, one a column")
    named = names if names is not None else own
    named = named if len(named) == len(found) else [f"column {j}" for j in range(len(found))]
    first = np.argsort(-found, kind="stable")[:most][::-1]
    ax.barh([str(named[j]) for j in first], found[first], color=COLOURS[1])
    ax.set(xlabel="mean change of decision values without it")


SOLUTION = {plot.__name__: plot for plot in (margins, profile, boundary, convergence, label_matrix, features)}

__all__ = ["SOLUTION", "boundary", "comparison", "convergence", "features", "influences", "label_matrix", "margins",
           "path", "profile", "stability"]
