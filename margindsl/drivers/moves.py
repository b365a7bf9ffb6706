"""Moves of a local search: components alone and in groups, two clusters merged and one split."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
from scipy.linalg import solve_triangular

from margindsl.drivers.means import k_means
from margindsl.drivers.run import Run
from margindsl.drivers.starts import distinct
from margindsl.features import FeatureOperator
from margindsl.features.derived import weighted_gram
from margindsl.host.clock import EIGEN_WORK, check
from margindsl.program.clusters import first_names
from margindsl.program.losses import Losses
from margindsl.program.passes import Answer
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray

SMOOTHING = 0.2  # Moreau step that gives kinks a curvature in the estimate
POOL = 150  # moves considered for groups
GROUP = 6  # most components of a group
SHORT_LIST = 60  # moves that are estimated at least
ROUNDING = 1e-12  # relative to the trace of a Hessian
BLOCK = 4_000_000  # entries of coded features held at once
Estimated: TypeAlias = tuple[float, tuple[int, ...]]  # change of the value, which moves together
ROUNDS = 10  # of k-means
FEW = 4  # candidates fitted where a Newton step finds none lower; with 1 and 2 one of twelve problems ended 11 % above


@dataclass(frozen=True, eq=False)
class Moves:
    """Represent a short list of moves of one component, with estimated changes of the optimal value.

    The change of the optimum is estimated by one Newton step from the fitted hyperplane: Δ − ½ GᵀH⁻¹G/(1 + δ), with Δ
    the change at fixed weights, G the change of the gradient, H the Hessian at the fit and δ the curvature that the
    component brings to its new place.

    `components`, `positions` (m,): what moves, and where to.
    """

    components: IntArray
    positions: IntArray
    fixed: FloatArray  # (m,)
    estimate: FloatArray  # (m,)
    gradient: FloatArray  # (m, r(k−1)), H^{-1/2} G
    damping: FloatArray  # (m,), 1 + δ
    root: FloatArray  # (r(k−1), r(k−1)), H^{1/2}, lower


def estimate_moves(run: Run, fit: Answer) -> Moves:
    """Return the moves cheapest at fixed weights, as many as cost no more than the Hessian, with their estimates."""
    program, labels = run.program, run.program.labels
    table = program.kind.margin_table(fit.decision)
    costs = labels.by_components(program.losses.cluster_costs(table, fit.scalars))
    everyone, own = np.arange(labels.count), labels.contract(fit.labels)
    fixed = costs - 1.0 * costs[everyone, own][:, None]  # whole numbers where there are no losses
    fixed[everyone, own] = np.inf
    fixed[~labels.free] = np.inf
    most = max(SHORT_LIST, program.n // (program.clusters - 1) ** 2)
    chosen = np.sort(np.argsort(fixed, axis=None, kind="stable")[:most])
    chosen = chosen[np.isfinite(fixed.ravel()[chosen])]
    components, positions = np.divmod(chosen, program.clusters)
    gradient, damping, root = _second_order(program, fit, table, components, positions)
    estimate = fixed.ravel()[chosen] - 0.5 * np.einsum("mr,mr->m", gradient, gradient) / damping
    return Moves(components, positions, fixed.ravel()[chosen], estimate, gradient, damping, root)


def _second_order(program: MarginProgram, fit: Answer, table: FloatArray, components: IntArray,
                  positions: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return H^{-1/2} G (m, r(k−1)) and 1 + δ (m,) of moves, and H^{1/2}."""
    labels, losses = program.labels, program.losses
    slopes, bends = np.empty_like(table), np.empty_like(table)
    for q, margins in enumerate(table.T):
        arguments = losses.arguments(margins, fit.scalars)
        slopes[:, q] = losses.scatter(losses.derivative(arguments))
        bends[:, q] = losses.smoothed_curvature(arguments, SMOOTHING)
    now = fit.labels
    root = _root(program, fit, bends[np.arange(program.n), now])
    order = np.argsort(labels.component, kind="stable")
    ends = np.cumsum(labels.size)[components]
    points = np.concatenate([order[end - size: end] for end, size in zip(ends, labels.size[components])] or [order[:0]])
    move = np.repeat(np.arange(len(components)), labels.size[components])
    there = labels.turned(positions[move], labels.sign[points])
    new = program.directions(there, fit.decision[points])
    change = slopes[points, there][:, None] * new - slopes[points, now[points]][:, None] * program.directions(
        now[points], fit.decision[points])
    heavier = np.maximum(bends[points, there] - bends[points, now[points]], 0.0)
    gradient, damping = np.zeros((len(components), len(root))), np.ones(len(components))
    for start in range(0, len(points), max(1, BLOCK // len(root))):
        part = slice(start, start + max(1, BLOCK // len(root)))
        rows = program.features.rows(points[part])
        np.add.at(gradient, move[part], _coded(change[part], rows))
        reach = solve_triangular(root, _coded(new[part], rows).T, lower=True)
        np.add.at(damping, move[part], heavier[part] * np.einsum("rp,rp->p", reach, reach))
    check(2 * gradient.size * len(root))
    return solve_triangular(root, gradient.T, lower=True).T, damping, root


def _coded(directions: FloatArray, rows: FloatArray) -> FloatArray:
    return (directions[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)


def _root(program: MarginProgram, fit: Answer, bend: FloatArray) -> FloatArray:
    """Return the lower root of I + Σ h_i (d_i d_iᵀ) ⊗ φ_iφ_iᵀ, with d_i the gradient of the margin of point i."""
    directions, r = program.directions(fit.labels, fit.decision), program.features.rank
    leading = directions[np.arange(program.n), (directions != 0).argmax(axis=1)]
    codes, group = np.unique(directions * np.sign(leading)[:, None], axis=0, return_inverse=True)  # d and −d are one
    total = np.zeros((codes.shape[1], r, codes.shape[1], r))
    for number, code in enumerate(codes):
        inside = group.ravel() == number
        if np.any(bend[inside] > 0):
            total += np.multiply.outer(np.outer(code, code), weighted_gram(
                program.features, np.flatnonzero(inside), bend[inside])).transpose(0, 2, 1, 3)
    check(EIGEN_WORK * (codes.shape[1] * r) ** 3)
    return np.linalg.cholesky(_regular(total.reshape(codes.shape[1] * r, codes.shape[1] * r)))


def regular_hessian(features: FeatureOperator, curvature: FloatArray) -> FloatArray:
    """Return I + Φᵀ Diag(h) Φ (r, r) for a Newton step, above the rounding of its largest entries.

    At a large weight times a large point the ones are lost in that rounding, and repeated or collinear points leave a
    singular matrix.
    """
    return _regular(np.array(features.gram(curvature)))


def secant_curvature(losses: Losses, arguments: FloatArray) -> FloatArray:
    """Return (n,) curvatures of the parabola from the slope at some arguments to the nearest minimiser.

    Where a loss falls for ever the smoothed curvature stands in.
    """
    out = np.empty(len(arguments))
    for term, part in losses.slices():
        v, slope = arguments[part], np.asarray(term.loss.derivative(arguments[part]))
        low, high = term.loss.argmin()
        distance = np.where(v < low, low - v, v - high)
        usable = np.isfinite(distance) & (distance > 1e-6)
        smooth = (1.0 - np.asarray(term.loss.prox_derivative(v, 1.0)))
        secant = np.abs(slope) / np.where(usable, distance, 1.0)
        out[part] = term.weights * np.where(usable, secant, smooth)
    return np.bincount(losses.points, weights=out * losses.slopes**2, minlength=losses.n)


def _regular(hessian: FloatArray) -> FloatArray:
    hessian.flat[:: len(hessian) + 1] += max(1.0, ROUNDING * float(np.trace(hessian)))
    return hessian


def candidate_moves(run: Run, fit: Answer, tries: int) -> list[IntArray]:
    """Return the labellings in B that the most promising moves, pairs and groups of moves lead to, the lowest first.

    Only those with a negative estimate: it is optimistic, and none above zero was ever seen to succeed. Of these only
    those that are lower where the Newton step leads, or where none is a few of the lowest: of what else was fitted nine
    in ten were no lower, and took nine tenths of the time.

    `tries`: most of each kind, for two clusters; fewer of more.
    """
    labels, moves = run.program.labels, estimate_moves(run, fit)
    tries = -(-tries // (run.program.clusters - 1))  # fits of k clusters have k − 1 times the unknowns
    allowed = labels.feasible_moves(fit.labels)[moves.components, moves.positions]
    order = np.argsort(moves.estimate, kind="stable")
    found: list[Estimated] = [(float(moves.estimate[m]), (int(m),)) for m in order[allowed[order]][:tries]]
    found += _pairs(run, fit, moves, tries) + _groups(run, fit, moves, tries)
    groups = [list(chosen) for estimate, chosen in found if estimate < 0]
    if not groups:
        return []
    moved = [labels.moved(fit.labels, moves.components[group], moves.positions[group]) for group in groups]
    downhill = np.stack([(moves.gradient[group] / moves.damping[group, None]).sum(axis=0) for group in groups])
    planes = fit.w - solve_triangular(moves.root, downhill.T, lower=True, trans="T").T
    values = np.array([run.program.value_at(there, w, fit.bias, fit.scalars) for there, w in zip(moved, planes)])
    run.add_work(len(values))
    order = np.argsort(values, kind="stable")
    few = FEW if run.coded() is run else len(order)  # a step does not see the kinks where rivals tie, as at w = 0
    return [moved[index] for index in order[:np.count_nonzero(values < fit.value) or few]]


def _pairs(run: Run, fit: Answer, moves: Moves, tries: int) -> list[Estimated]:
    """Return promising pairs of moves, feasible together."""
    pool = np.argsort(moves.estimate, kind="stable")[: 8 * tries]
    cross = moves.gradient[pool] @ moves.gradient[pool].T
    pair = moves.estimate[pool][:, None] + moves.estimate[pool][None, :] - cross
    later = [index + 1 + np.argsort(pair[index, index + 1:], kind="stable")[:tries] for index in range(len(pool) - 1)]
    if not later:
        return []
    first, second = np.repeat(np.arange(len(later)), [len(nearest) for nearest in later]), np.concatenate(later)
    one, other = pool[first], pool[second]
    allowed = run.program.labels.feasible_pairs(
        fit.labels, moves.components[one], moves.positions[one], moves.components[other], moves.positions[other])
    found: list[Estimated] = [
        (float(pair[a, b]), (int(pool[a]), int(pool[b]))) for a, b in zip(first[allowed], second[allowed])]
    return sorted(found, key=lambda entry: entry[0])[:tries]


def _groups(run: Run, fit: Answer, moves: Moves, tries: int) -> list[Estimated]:
    """Return promising groups of three and more moves, grown one by one from the best single ones.

    The estimate of a group is Σ estimate − Σ_{a<b} G̃_aᵀG̃_b, as for pairs; each step adds the move that lowers it most,
    so that components that gain only together are found (the chains of Kernighan and Lin).
    """
    labels = run.program.labels
    pool = np.argsort(moves.estimate, kind="stable")[:POOL]
    estimate, cross = moves.estimate[pool], moves.gradient[pool] @ moves.gradient[pool].T
    component = moves.components[pool]
    most = min(GROUP, len(np.unique(component)))
    totals: dict[tuple[int, ...], float] = {}
    for seed in range(min(4 * tries, len(pool))):
        chosen, gain, total = [seed], estimate - cross[seed], float(estimate[seed])
        while len(chosen) < most:
            gain[component == component[chosen[-1]]] = np.inf
            best = int(np.argmin(gain))
            total += float(gain[best])
            chosen.append(best)
            gain = gain - cross[best]
            if len(chosen) > 2:
                totals[tuple(sorted(chosen))] = total
    found: list[Estimated] = []
    z = labels.contract(fit.labels)
    for members, total in sorted(totals.items(), key=lambda item: item[1]):
        group = pool[list(members)]
        changed = z.copy()
        changed[moves.components[group]] = moves.positions[group]
        if total >= 0 or len(found) == tries:
            break
        if labels.holds(changed):
            found.append((total, tuple(int(m) for m in group)))
    return found


def labelling_key(run: Run, labels: IntArray) -> bytes:
    """Return a key of a labelling, the same for those that differ in names alone where B is symmetric."""
    alike = run.program.labels.is_symmetric and run.program.outside is None
    return (first_names(labels[None])[0] if alike else labels.astype(np.int32)).tobytes()


def regroupings(run: Run, fit: Answer, keep: int) -> list[IntArray]:
    """Return labellings of B in which two clusters are merged and one is split, those first that keep clusters tight.

    The cluster that is split by k-means is a third one, or the two that were merged. Labellings are ranked by how much
    the squared distances of points to the means of their clusters grow, and `keep` of them are returned.
    """
    found, k = [], run.program.clusters
    groups = [np.flatnonzero(fit.labels == q) for q in range(k)]
    splits = [_split(run, group) for group in groups]
    for p, q in combinations(range(k), 2):
        union = np.concatenate([groups[p], groups[q]])
        cost = _between(run, groups[p], groups[q])
        for gain, part in [_split(run, union), *(splits[r] for r in range(k) if r not in (p, q))]:
            moved = np.array(fit.labels)
            moved[union], moved[part] = p, q
            found.append((cost - gain, moved))
    found.sort(key=lambda entry: entry[0])
    return distinct([run.program.labels.nearest(moved) for _, moved in found[:keep]])


def _split(run: Run, group: IntArray) -> tuple[float, IntArray]:
    """Return what a split of a group by k-means takes off its squared distances, and the points of one part."""
    if len(group) < 2:
        return 0.0, group[:0]
    part = k_means(run.program.features.take(group), 2, run.rng, ROUNDS).argmax(axis=1) == 1
    return _between(run, group[part], group[~part]), group[part]


def _between(run: Run, one: IntArray, other: IntArray) -> float:
    """Return what merging two groups adds to their squared distances to the means (Ward)."""
    if not len(one) or not len(other):
        return 0.0
    weights = np.zeros(run.program.n)
    weights[one], weights[other] = 1.0 / len(one), -1.0 / len(other)
    apart: FloatArray = run.program.features.adjoint(weights)
    return float(apart @ apart) * len(one) * len(other) / (len(one) + len(other))
