"""Block moves of a local search: many components at once, by what the linear oracle makes of other decision values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import eigh

from margindsl.drivers.alternation import best_labels
from margindsl.drivers.means import k_means
from margindsl.drivers.moves import SMOOTHING, regular_hessian
from margindsl.drivers.run import Run
from margindsl.drivers.starts import distinct
from margindsl.program.codes import first_names
from margindsl.program.passes import Answer
from margindsl.typing import FloatArray, IntArray

DIRECTIONS = 4  # leading directions along which the hyperplane is tilted for block moves
SHARES = (0.01, 0.03, 0.1, 0.25)  # of the components: sizes of blocks at the boundary
GROUPS = 6  # sub-clusters whose labels are turned over together
LENGTHS = (0.3, 0.6, 1.0)  # of the Newton step after a block move


def block_moves(run: Run, fit: Answer, keep: int) -> list[IntArray]:
    """Return the most promising labellings of B, of two clusters, that differ from a fit in whole blocks of components.

    A block is what the exact linear oracle changes when the decision values are shifted (all components in a
    window at the boundary), when the hyperplane is tilted along a direction in which the features vary, or
    when a sub-cluster is turned over, alone or against one of the other side. The oracle keeps links, known
    labels and balance; blocks are ranked by `newton_values`.

    Parameters
    ----------
    keep : int
        Most labellings returned.
    """
    program, features, losses = run.program, run.program.features, run.program.losses
    arguments = losses.arguments(program.margins(fit.labels, fit.decision), fit.scalars)
    hessian = regular_hessian(features, losses.smoothed_curvature(arguments, SMOOTHING))
    f = fit.decision[:, 1]
    decisions = [*_shifts(f), *_tilts(run, f, hessian)]
    found = [best_labels(run, replace(fit, decision=program.gains_of(decision[:, None]))) for decision in decisions]
    found += [program.labels.maximise(program.gains_of(gain[:, None])) for gain in _turned_groups(run, fit)]
    now = labelling_key(run, fit.labels)
    found = [labels for labels in distinct(found) if labelling_key(run, labels) != now]
    if not found:
        return []
    values = newton_values(run, fit, np.stack(found, axis=1), hessian)
    moved = np.array([np.sum(labels != fit.labels) for labels in found])
    return [found[k] for k in _by_size(values, moved, keep)]


def _by_size(values: FloatArray, moved: IntArray, keep: int) -> list[int]:
    """Return indices of the best values, sizes of moves taken in turn (by octaves, the largest first).

    Small blocks nearly always look best and nearly always fall back.
    """
    octave = np.log2(np.maximum(moved, 1)).astype(int)
    ranks = np.empty(len(values), dtype=int)
    for size in np.unique(octave):
        inside = np.flatnonzero(octave == size)
        ranks[inside[np.argsort(values[inside], kind="stable")]] = np.arange(len(inside))
    return [int(k) for k in np.lexsort((-octave, ranks))[:keep]]


def newton_values(run: Run, fit: Answer, Y: IntArray, hessian: FloatArray) -> FloatArray:
    """Return (m,) values ½‖w‖² + Σ c ρ of labellings (n, m), at the best of a few lengths of a Newton step.

    The steps start from the fitted hyperplane and share its Hessian. Bias and shared scalars stay where they
    are, so that without bounds on decision values every number is at least the optimum of its labelling.
    """
    program, losses = run.program, run.program.losses
    Y = program.label_codes[Y, 0]
    margins = Y * fit.decision[:, 1:]
    slopes = np.stack([losses.spread(losses.derivative(losses.arguments(column, fit.scalars)))
                       for column in margins.T], axis=1)
    steps = -np.linalg.solve(hessian, fit.w[:, None] + program.features.adjoint(Y * slopes))
    changes = Y * program.features.apply(steps)
    best = np.full(Y.shape[1], np.inf)
    for length in (0.0, *LENGTHS):
        w = fit.w[:, None] + length * steps
        loss = [losses.value(column, fit.scalars) for column in (margins + length * changes).T]
        best = np.minimum(best, 0.5 * np.sum(w**2, axis=0) + np.array(loss))
    return best


def _shifts(f: FloatArray) -> list[FloatArray]:
    """Return decision values moved so that a share of the points near the boundary changes sign."""
    out = []
    for side in (f[f > 0], f[f < 0]):
        if len(side):
            out += [f - np.sign(side[0]) * np.quantile(np.abs(side), share) for share in SHARES]
    return out


def _tilts(run: Run, f: FloatArray, hessian: FloatArray) -> list[FloatArray]:
    """Return decision values of hyperplanes tilted along the leading directions of the features.

    Directions are orthogonal in the metric H of the fit: those in which decision values vary most at the
    least second-order cost.
    """
    features = run.program.features
    root = np.linalg.cholesky(hessian)
    whitened = np.linalg.solve(root, np.linalg.solve(root, features.gram()).T)
    count = min(DIRECTIONS, features.rank)
    top = eigh((whitened + whitened.T) / 2, subset_by_index=(features.rank - count, features.rank - 1))[1]
    profiles = features.apply(np.linalg.solve(root.T, top))
    sizes = np.mean(np.abs(profiles), axis=0)
    alike = np.mean(np.abs(f)) * (profiles[:, sizes > 0] / sizes[sizes > 0])
    return [f + sign * length * profile for profile in alike.T
            for sign in (-1.0, 1.0) for length in (0.5, 1.5)]


def _turned_groups(run: Run, fit: Answer) -> list[FloatArray]:
    """Return gains (n,) that turn over one sub-cluster, or two of opposite sides, and keep the rest."""
    groups = sub_clusters(run, GROUPS)
    f, signs = fit.decision[:, 1], run.program.label_codes[fit.labels, 0]
    kept = signs * (np.abs(f) + 1e-3 * np.mean(np.abs(f)))
    single = [np.where(groups == g, -kept, kept) for g in np.unique(groups)]
    sides = np.bincount(groups, weights=signs)
    pairs = [(g, h) for g in np.flatnonzero(sides > 0) for h in np.flatnonzero(sides < 0)]
    return single + [np.where((groups == g) | (groups == h), -kept, kept) for g, h in pairs]


def sub_clusters(run: Run, count: int, rounds: int = 10) -> IntArray:
    """Return (n,) sub-clusters of the points by some rounds of k-means in feature space, k-means++ starts."""
    features = run.program.features
    return np.asarray(k_means(features, min(count, features.n), run.rng, rounds - 1).argmax(axis=1))


def labelling_key(run: Run, labels: IntArray) -> bytes:
    """Return a key of a labelling, the same for those that differ in names alone where B is symmetric."""
    return (first_names(labels[None])[0] if run.program.labels.is_symmetric else labels.astype(np.int32)).tobytes()
