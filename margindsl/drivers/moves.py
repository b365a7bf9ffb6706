"""Small moves of a local search: flips, swaps and groups of components, ranked by one Newton step."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from margindsl.clock import EIGEN_WORK, check
from margindsl.drivers.run import Fit, Run
from margindsl.features import FeatureOperator
from margindsl.points import row_blocks
from margindsl.typing import FloatArray, IntArray

SMOOTHING = 0.2  # Moreau step that gives kinks a curvature in the estimate
POOL = 150  # components considered for groups
GROUP = 6  # most components of a group
ROUNDING = 1e-12  # relative to the trace of a Hessian


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
    return run.program.features.component_sums(labels.component, slope, labels.count)


def regular_hessian(features: FeatureOperator, curvature: FloatArray) -> FloatArray:
    """Return I + Φᵀ Diag(h) Φ (r, r) for a Newton step, above the rounding of its largest entries.

    At a large weight times a large point the ones are lost in that rounding, and repeated or collinear points leave a
    singular matrix.
    """
    hessian = np.array(features.gram(curvature))
    hessian.flat[:: features.rank + 1] += max(1.0, ROUNDING * float(np.trace(hessian)))
    return hessian


def _inverse_root(hessian: FloatArray) -> FloatArray:
    """Return R (r, r) with RRᵀ = H⁻¹ for H ⪰ I; eigenvalues below one are rounding (outliers, large weights)."""
    check(EIGEN_WORK * len(hessian) ** 3)
    values, vectors = np.linalg.eigh(hessian)
    return vectors / np.sqrt(np.maximum(values, 1.0))


def _leverage(run: Run, root: FloatArray) -> FloatArray:
    """Return (n,) values φ_iᵀH⁻¹φ_i with RRᵀ = H⁻¹, block by block."""
    features = run.program.features
    out = np.empty(features.n)
    for block in row_blocks(features.n, features.rank):
        out[block] = np.sum((features.rows(block) @ root) ** 2, axis=1)
    return out


def candidate_moves(run: Run, fit: Fit, tries: int) -> list[IntArray]:
    """Return the most promising feasible flips and swaps, best estimate first.

    Only moves with a negative estimate: it is optimistic, and none above zero was ever seen to succeed.
    """
    moves = estimate_moves(run, fit)
    label_set = run.program.labels
    flips = np.where(label_set.feasible_moves(fit.labels).any(axis=1), moves.estimate, np.inf)
    order = np.argsort(flips)[:tries]
    ranked = [(float(flips[c]), np.array([c])) for c in order if np.isfinite(flips[c])]
    ranked += _swaps(run, fit, moves, tries)
    ranked += _groups(run, fit, moves, tries)
    ranked.sort(key=lambda move: move[0])
    return [components for estimate, components in ranked[: 3 * tries] if estimate < 0]


def _swaps(run: Run, fit: Fit, moves: Moves, tries: int) -> list[tuple[float, IntArray]]:
    """Return promising pairs of components, feasible together."""
    label_set = run.program.labels
    other = 1 - label_set.places(fit.labels)
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
        allowed = label_set.feasible_pairs(
            fit.labels, int(first), int(other[first]), others[keep], other[others[keep]])
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
    return list(islice(((total, group) for total, group in groups
                        if label_set.holds(np.where(np.isin(np.arange(len(z)), group), -z, z))), tries))
