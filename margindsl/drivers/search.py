"""Local search over labels: single flips and swaps of components, ranked by a second-order estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from margindsl.drivers.alternation import alternate
from margindsl.drivers.run import Fit, Run
from margindsl.features import FeatureOperator
from margindsl.points import row_blocks
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray, IntArray

LARGEST_RANK = 3000
LARGEST = 50_000_000  # entries of features up to which flips are estimated
LARGEST_STORED = 5_000_000  # the same for features on disk, sparse or in Dask
SMOOTHING = 0.2  # Moreau step that gives kinks a curvature in the estimate


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
    now, flipped = smoothed_curvature(losses, plus), smoothed_curvature(losses, minus)
    gradient = _component_rows(run, slope)
    hessian = program.features.gram(now) + np.eye(program.features.rank)
    gradient = np.linalg.solve(np.linalg.cholesky(hessian), gradient.T).T
    power = np.einsum("cr,cr->c", gradient, gradient)
    damping = 1.0 + np.bincount(labels.component, weights=np.maximum(flipped - now, 0.0) * _leverage(run, hessian),
                                minlength=labels.count)
    estimate = fixed - 0.5 * power / damping
    estimate[labels.pinned != 0] = np.inf
    return Moves(fixed, gradient, estimate)


def smoothed_curvature(losses: Losses, arguments: FloatArray) -> FloatArray:
    """Return (n,) curvatures of the losses in the margins, kinks smoothed by a Moreau envelope."""
    out = np.empty(len(arguments))
    for term, part in losses.slices():
        slope = np.asarray(term.loss.prox_derivative(arguments[part], SMOOTHING))
        out[part] = term.weights * (1.0 - slope) / SMOOTHING
    return np.bincount(losses.points, weights=out * losses.slopes**2, minlength=losses.n)


def _component_rows(run: Run, slope: FloatArray) -> FloatArray:
    """Return (N, r) sums Σ_{i∈C} slope_i φ_i."""
    labels = run.program.labels
    return _features(run).component_sums(labels.component, slope, labels.count)


def _features(run: Run) -> FeatureOperator:
    return cast(FeatureOperator, run.program.features)


def _leverage(run: Run, hessian: FloatArray) -> FloatArray:
    """Return (n,) values φ_iᵀH⁻¹φ_i, block by block."""
    features = _features(run)
    root = np.linalg.cholesky(np.linalg.inv(hessian))
    out = np.empty(features.n)
    for block in row_blocks(features.n, features.rank):
        out[block] = np.sum((features.rows(block) @ root) ** 2, axis=1)
    return out


def search(run: Run, fit: Fit, rounds: int = 60, tries: int = 6, tol: float = 1e-7) -> Fit:
    """Improve a labelling by flips and swaps until none of the most promising helps.

    Parameters
    ----------
    run : Run
    fit : Fit
    rounds : int
        Most accepted moves.
    tries : int
        Moves of each kind evaluated exactly before giving up.
    tol : float
        Relative accuracy of the fixed-label solves.
    """
    features = _features(run)
    # Features that are not in memory would be read anew for every move, and the moves held in it.
    largest = LARGEST if features.is_dense else LARGEST_STORED
    if features.rank > LARGEST_RANK or run.program.n * features.rank > largest:
        return fit
    for iteration in range(rounds):
        if run.budget.expired:
            break
        better = _improve(run, fit, tries, tol)
        if better is None:
            break
        fit = alternate(run, better.labels, tol=tol, fit=better)
        if run.record("local search", iteration, fit.value):
            break
    return fit


def _improve(run: Run, fit: Fit, tries: int, tol: float) -> Fit | None:
    """Return the first evaluated move that lowers the objective, or None."""
    for components in candidate_moves(run, fit, tries):
        labels = fit.labels.copy()
        inside = np.isin(run.program.labels.component, components)
        labels[inside] = -labels[inside]
        candidate = run.fit(labels, fit, tol)
        if candidate.value < fit.value - 1e-9 * max(1.0, abs(fit.value)):
            return candidate
        if run.budget.expired:
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
    ranked.sort(key=lambda move: move[0])
    return [components for estimate, components in ranked[: 2 * tries] if estimate < 0]


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
