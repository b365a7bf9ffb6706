"""Local search over labels: flips and swaps of components, then whole blocks, ranked by cheap estimates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy.linalg import eigh

from margindsl.drivers.alternation import alternate, best_labels
from margindsl.drivers.cluster_search import search_clusters
from margindsl.drivers.continuation import continue_weights, weight_factors
from margindsl.drivers.means import k_means
from margindsl.drivers.run import Fit, Run
from margindsl.drivers.starts import distinct
from margindsl.features import FeatureOperator
from margindsl.points import row_blocks
from margindsl.typing import FloatArray, IntArray

LARGEST_RANK = 3000
LARGEST = 50_000_000  # entries of features up to which flips are estimated
LARGEST_STORED = 5_000_000  # the same for features on disk, sparse or in Dask
SMOOTHING = 0.2  # Moreau step that gives kinks a curvature in the estimate
DIRECTIONS = 4  # leading directions along which the hyperplane is tilted for block moves
SHARES = (0.01, 0.03, 0.1, 0.25)  # of the components: sizes of blocks at the boundary
GROUPS = 6  # sub-clusters whose labels are turned over together
LENGTHS = (0.3, 0.6, 1.0)  # of the Newton step after a block move
REHEATS = (0.1, 0.01)  # factors of the loss weight to go back to
LARGEST_ESCAPES = 20
ESCAPE_CEILING = 4.0  # times the value, above which small moves after an escape are not worth their time
POOL = 150  # components considered for groups
GROUP = 6  # most components of a group


@dataclass(frozen=True, eq=False)
class Moves:
    """Represent estimated changes of the optimal value for flips of components.

    The change of the optimum when component C flips is estimated by one Newton step from the fitted
    hyperplane: Δ_C − ½ G_Cᵀ(H + δH)⁻¹G_C, where Δ_C is the change at fixed w and G_C the new gradient.
    """

    fixed: FloatArray  # Δ_C (N,)
    gradient: FloatArray  # H^{-1/2} G_C as rows (N, r)
    estimate: FloatArray  # (N,)


def estimate_moves(run: Run, fit: Fit) -> Moves:
    """Return estimates for every component; +inf for pinned ones."""
    program = run.program
    losses, labels = program.losses, program.labels
    plus = losses.arguments(fit.labels * fit.decision, fit.scalars)
    minus = losses.arguments(-fit.labels * fit.decision, fit.scalars)
    change = losses.row_losses(minus) - losses.row_losses(plus)
    at_points = np.bincount(losses.points, weights=change, minlength=program.n)
    fixed = np.bincount(labels.component, weights=at_points, minlength=labels.count)
    slope = -fit.labels * losses.spread(losses.derivative(plus) + losses.derivative(minus))
    now, flipped = (losses.smoothed_curvature(v, SMOOTHING) for v in (plus, minus))
    gradient = _component_rows(run, slope)
    hessian = program.features.gram(now) + np.eye(program.features.rank)
    root = _inverse_root(hessian)
    gradient = gradient @ root
    power = np.einsum("cr,cr->c", gradient, gradient)
    damping = 1.0 + np.bincount(labels.component, weights=np.maximum(flipped - now, 0.0) * _leverage(run, root),
                                minlength=labels.count)
    estimate = fixed - 0.5 * power / damping
    estimate[labels.pinned != 0] = np.inf
    return Moves(fixed, gradient, estimate)


def _component_rows(run: Run, slope: FloatArray) -> FloatArray:
    """Return (N, r) sums Σ_{i∈C} slope_i φ_i."""
    labels = run.program.labels
    return _features(run).component_sums(labels.component, slope, labels.count)


def _features(run: Run) -> FeatureOperator:
    return cast(FeatureOperator, run.program.features)


def _inverse_root(hessian: FloatArray) -> FloatArray:
    """Return R (r, r) with RRᵀ = H⁻¹ for H ⪰ I; eigenvalues below one are rounding (outliers, large weights)."""
    values, vectors = np.linalg.eigh(hessian)
    return vectors / np.sqrt(np.maximum(values, 1.0))


def _leverage(run: Run, root: FloatArray) -> FloatArray:
    """Return (n,) values φ_iᵀH⁻¹φ_i with RRᵀ = H⁻¹, block by block."""
    features = _features(run)
    out = np.empty(features.n)
    for block in row_blocks(features.n, features.rank):
        out[block] = np.sum((features.rows(block) @ root) ** 2, axis=1)
    return out


def search(run: Run, fit: Fit, rounds: int = 60, tries: int = 6, tol: float = 1e-7, blocks: int = 0) -> Fit:
    """Improve a labelling by flips, swaps and small groups, then by escapes that move whole blocks.

    Parameters
    ----------
    run : Run
    fit : Fit
    rounds : int
        Most accepted moves between two escapes.
    tries : int
        Moves of each kind evaluated exactly before giving up.
    tol : float
        Relative accuracy of the fixed-label solves.
    blocks : int
        Escapes tried from a labelling that no small move improves, each followed by small moves: the loss
        weight lowered and raised again, and this many block moves; 0 for none.

    Returns
    -------
    Fit
        Never worse than the one given.
    """
    if not run.program.is_binary:
        return search_clusters(run, fit, rounds, tries, tol)
    features = _features(run)
    # Features that are not in memory would be read anew for every move, and the moves held in it.
    largest = LARGEST if features.is_dense else LARGEST_STORED
    if features.rank > LARGEST_RANK or run.program.n * features.rank > largest:
        return fit
    fit = _descend(run, fit, rounds, tries, tol)
    for escape in range(LARGEST_ESCAPES if blocks else 0):
        better = _escape(run, fit, rounds, tries, tol, blocks)
        if better is None or run.record("escape", escape, better.value):
            return fit if better is None else better
        fit = better
    return fit


def _descend(run: Run, fit: Fit, rounds: int, tries: int, tol: float) -> Fit:
    """Accept small moves until none of the most promising helps."""
    for iteration in range(rounds):
        if run.stopped:
            break
        better = _improve(run, fit, tries, tol)
        if better is None:
            break
        fit = alternate(run, better.labels, tol=tol, fit=better)
        if run.record("local search", iteration, fit.value):
            break
    return fit


def _escape(run: Run, fit: Fit, rounds: int, tries: int, tol: float, blocks: int) -> Fit | None:
    """Return the first lower labelling that an escape and small moves after it reach, or None."""
    seen = {_key(run, fit.labels)}
    for labels in _escapes(run, fit, blocks, tol):
        if run.stopped:
            return None
        if _key(run, labels) in seen:
            continue
        trial = alternate(run, labels, tol=tol, fit=run.fit(labels, fit, tol))
        # Most blocks fall back at once to where small moves were tried before.
        fresh = _key(run, trial.labels) not in seen
        seen |= {_key(run, labels), _key(run, trial.labels)}
        if fresh and trial.value < ESCAPE_CEILING * abs(fit.value):
            trial = _descend(run, trial, rounds, tries, tol)
            seen.add(_key(run, trial.labels))
        if trial.value < fit.value - 1e-6 * max(1.0, abs(fit.value)):
            return trial
    return None


def _escapes(run: Run, fit: Fit, blocks: int, tol: float) -> Iterator[IntArray]:
    """Yield labellings of B to go on from: reheated ones, then block moves."""
    for start in REHEATS:
        yield continue_weights(run, fit.labels, weight_factors(2, start), tol).labels
    yield from block_moves(run, fit, blocks)


def _key(run: Run, labels: IntArray) -> bytes:
    """Return a key of a labelling, the same for both names of the clusters where B is symmetric."""
    sign = labels[0] if run.program.labels.is_symmetric else 1
    return np.asarray(sign * labels, dtype=np.int8).tobytes()


def block_moves(run: Run, fit: Fit, keep: int) -> list[IntArray]:
    """Return the most promising labellings of B that differ from a fit in whole blocks of components.

    A block is what the exact linear oracle changes when the decision values are shifted (all components in a
    window at the boundary), when the hyperplane is tilted along a direction in which the features vary, or
    when a sub-cluster is turned over, alone or against one of the other side. The oracle keeps links, known
    labels and balance; blocks are ranked by `newton_values`.

    Parameters
    ----------
    run : Run
    fit : Fit
    keep : int
        Most labellings returned.
    """
    program, features = run.program, _features(run)
    losses = program.losses
    arguments = losses.arguments(fit.labels * fit.decision, fit.scalars)
    hessian = features.gram(losses.smoothed_curvature(arguments, SMOOTHING)) + np.eye(features.rank)
    decisions = [*_shifts(fit), *_tilts(run, fit, hessian)]
    found = [best_labels(run, replace(fit, decision=decision)) for decision in decisions]
    found += [program.labels.maximise(gain) for gain in _turned_groups(run, fit)]
    now = _key(run, fit.labels)
    found = [labels for labels in distinct(found) if _key(run, labels) != now]
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


def newton_values(run: Run, fit: Fit, Y: IntArray, hessian: FloatArray) -> FloatArray:
    """Return (m,) values ½‖w‖² + Σ c ρ of labellings (n, m), at the best of a few lengths of a Newton step.

    The steps start from the fitted hyperplane and share its Hessian. Bias and shared scalars stay where they
    are, so that without bounds on decision values every number is at least the optimum of its labelling.
    """
    program, losses = run.program, run.program.losses
    margins = Y * fit.decision[:, None]
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


def _shifts(fit: Fit) -> list[FloatArray]:
    """Return decision values moved so that a share of the points near the boundary changes sign."""
    out = []
    for side in (fit.decision[fit.decision > 0], fit.decision[fit.decision < 0]):
        if len(side):
            out += [fit.decision - np.sign(side[0]) * np.quantile(np.abs(side), share) for share in SHARES]
    return out


def _tilts(run: Run, fit: Fit, hessian: FloatArray) -> list[FloatArray]:
    """Return decision values of hyperplanes tilted along the leading directions of the features.

    Directions are orthogonal in the metric H of the fit: those in which decision values vary most at the
    least second-order cost.
    """
    features = _features(run)
    root = np.linalg.cholesky(hessian)
    whitened = np.linalg.solve(root, np.linalg.solve(root, features.gram()).T)
    count = min(DIRECTIONS, features.rank)
    top = eigh((whitened + whitened.T) / 2, subset_by_index=(features.rank - count, features.rank - 1))[1]
    profiles = features.apply(np.linalg.solve(root.T, top))
    scale = np.mean(np.abs(fit.decision)) / np.maximum(np.mean(np.abs(profiles), axis=0), 1e-300)
    return [fit.decision + sign * length * profile for profile in (profiles * scale).T
            for sign in (-1.0, 1.0) for length in (0.5, 1.5)]


def _turned_groups(run: Run, fit: Fit) -> list[FloatArray]:
    """Return gains (n,) that turn over one sub-cluster, or two of opposite sides, and keep the rest."""
    groups = sub_clusters(run, GROUPS)
    strength = np.abs(fit.decision) + 1e-3 * np.mean(np.abs(fit.decision))
    kept = fit.labels * strength
    single = [np.where(groups == g, -kept, kept) for g in np.unique(groups)]
    sides = np.bincount(groups, weights=fit.labels)
    pairs = [(g, h) for g in np.flatnonzero(sides > 0) for h in np.flatnonzero(sides < 0)]
    return single + [np.where((groups == g) | (groups == h), -kept, kept) for g, h in pairs]


def sub_clusters(run: Run, count: int, rounds: int = 10) -> IntArray:
    """Return (n,) sub-clusters of the points by some rounds of k-means in feature space, k-means++ starts."""
    features = _features(run)
    return np.asarray(k_means(features, min(count, features.n), run.rng, rounds - 1).argmax(axis=1))


def _improve(run: Run, fit: Fit, tries: int, tol: float) -> Fit | None:
    """Return the first evaluated move that lowers the objective, or None."""
    for components in candidate_moves(run, fit, tries):
        candidate = run.fit(_flipped(run, fit, components), fit, tol)
        if candidate.value < fit.value - 1e-9 * max(1.0, abs(fit.value)):
            return candidate
        if run.stopped:
            return None
    return None


def candidate_moves(run: Run, fit: Fit, tries: int) -> list[IntArray]:
    """Return the most promising feasible flips and swaps, best estimate first.

    Only moves with a negative estimate: it is optimistic, and none above zero was ever seen to succeed.
    """
    moves = estimate_moves(run, fit)
    label_set = run.program.labels
    flips = np.where(label_set.feasible_flips(fit.labels), moves.estimate, np.inf)
    order = np.argsort(flips)[:tries]
    ranked = [(float(flips[c]), np.array([c])) for c in order if np.isfinite(flips[c])]
    ranked += _swaps(run, fit, moves, tries)
    ranked += _groups(run, fit, moves, tries)
    ranked.sort(key=lambda move: move[0])
    return [components for estimate, components in ranked[: 3 * tries] if estimate < 0]


def _swaps(run: Run, fit: Fit, moves: Moves, tries: int) -> list[tuple[float, IntArray]]:
    """Return promising pairs of components, feasible together."""
    label_set = run.program.labels
    pool = np.argsort(moves.estimate)[: 8 * tries]
    pool = pool[np.isfinite(moves.estimate[pool])]
    if len(pool) < 2:
        return []
    cross = moves.gradient[pool] @ moves.gradient[pool].T
    pair = moves.estimate[pool][:, None] + moves.estimate[pool][None, :] - cross
    found: list[tuple[float, IntArray]] = []
    for index, first in enumerate(pool):
        others = pool[index + 1:]
        if not len(others):
            break
        values = pair[index, index + 1:]
        keep = np.argsort(values)[:tries]
        allowed = label_set.feasible_swaps(fit.labels, int(first), others[keep])
        found += [(float(values[k]), np.array([first, others[k]])) for k, ok in zip(keep, allowed) if ok]
    found.sort(key=lambda move: move[0])
    return found[:tries]


def _groups(run: Run, fit: Fit, moves: Moves, tries: int) -> list[tuple[float, IntArray]]:
    """Return promising groups of three and more components, grown one by one from the best single ones.

    The estimate of a group is Σ estimate − Σ_{a<b} G̃_aᵀG̃_b, as for pairs; each step adds the component that
    lowers it most, so that components that gain only together are found (the chains of Kernighan and Lin).
    """
    label_set = run.program.labels
    pool = np.argsort(moves.estimate)[:POOL]
    pool = pool[np.isfinite(moves.estimate[pool])]
    estimate, cross = moves.estimate[pool], moves.gradient[pool] @ moves.gradient[pool].T
    found: dict[tuple[int, ...], float] = {}
    for seed in range(min(4 * tries, len(pool))):
        chosen, gain, total = [seed], estimate - cross[seed], estimate[seed]
        while len(chosen) < min(GROUP, len(pool)):
            gain[chosen] = np.inf
            best = int(np.argmin(gain))
            total += gain[best]
            chosen.append(best)
            gain = gain - cross[best]
            if len(chosen) > 2:
                found[tuple(sorted(chosen))] = total
    ranked = sorted((item for item in found.items() if item[1] < 0), key=lambda item: item[1])
    groups = [(float(total), pool[list(members)]) for members, total in ranked]
    z = label_set.contract(fit.labels)
    sums = [(bound, bound.omega * z, float(bound.omega @ z)) for bound in label_set.bounds]
    return [(total, group) for total, group in groups
            if all(bound.holds(now - 2.0 * part[group].sum()) for bound, part, now in sums)][:tries]


def _flipped(run: Run, fit: Fit, components: IntArray) -> IntArray:
    """Return the labels with some components flipped."""
    sign = np.ones(run.program.labels.count, dtype=fit.labels.dtype)
    sign[components] = -1
    return sign[run.program.labels.component] * fit.labels
