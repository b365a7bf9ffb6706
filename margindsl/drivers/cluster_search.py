"""Local search over clusters: one component to another cluster, or two exchanged, ranked by an estimate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, solve_triangular

from margindsl.drivers.descent import descend
from margindsl.drivers.run import Fit, Run
from margindsl.features.coded import weighted_gram
from margindsl.program.clusters import runner_up
from margindsl.program.codings import cluster_costs
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray

LARGEST_RANK = 2500  # of features times k − 1
SHORT_LIST = 60  # moves whose second-order estimate is computed
SMOOTHING = 0.2  # Moreau step that gives kinks a curvature in the estimate

Change = tuple[tuple[int, int], ...]  # (component, its new cluster)


@dataclass(frozen=True, eq=False)
class Moves:
    """Represent a short list of moves of one component, with estimated changes of the optimal value.

    Δ − ½ GᵀH⁻¹G/(1 + δ): Δ the change at fixed weights, G the change of the gradient, H the Hessian at the fit
    and δ the curvature that the component brings to its new place.

    Parameters
    ----------
    components, targets : (m,) int arrays
    fixed, estimate : (m,) float arrays
    gradient : (m, r(k−1)) float array
        H^{-1/2} G.
    """

    components: IntArray
    targets: IntArray
    fixed: FloatArray
    estimate: FloatArray
    gradient: FloatArray


def search_clusters(run: Run, fit: Fit, rounds: int = 60, tries: int = 6, tol: float = 1e-7) -> Fit:
    """Improve a clustering by moves and exchanges until none of the most promising helps.

    Parameters
    ----------
    run : Run
    fit : Fit
    rounds : int
        Most accepted moves.
    tries : int
        Moves and exchanges evaluated exactly before giving up, of each.
    tol : float
        Relative accuracy of the fixed-label solves.

    Returns
    -------
    Fit
        Never worse than the one given.
    """
    program = run.program
    if program.features.rank * (program.clusters - 1) > LARGEST_RANK:
        return fit
    return descend(run, fit, lambda at: _neighbours(run, at, tries), rounds, tol)


def _neighbours(run: Run, fit: Fit, tries: int) -> Iterator[IntArray]:
    """Yield the labellings that the most promising changes lead to."""
    component = run.program.labels.component
    for change in promising_changes(run, fit, tries):
        labels = np.array(fit.labels)
        for moved, target in change:
            labels[component == moved] = target
        yield labels


def promising_changes(run: Run, fit: Fit, tries: int) -> list[Change]:
    """Return feasible moves and exchanges whose estimate is negative, best first.

    Parameters
    ----------
    run : Run
    fit : Fit
    tries : int
        Most of each kind.
    """
    labels = run.program.labels
    moves = estimate_moves(run, fit)
    if not len(moves.components):
        return []
    allowed = labels.feasible_moves(fit.labels)[moves.components, moves.targets]
    order = np.argsort(moves.estimate, kind="stable")
    single = [m for m in order if allowed[m]][:tries]
    ranked: list[tuple[float, Change]] = [
        (float(moves.estimate[m]), ((int(moves.components[m]), int(moves.targets[m])),)) for m in single]
    ranked += _exchanges(run, fit, moves, tries)
    ranked.sort(key=lambda entry: entry[0])
    return [change for estimate, change in ranked if estimate < 0]


def estimate_moves(run: Run, fit: Fit) -> Moves:
    """Return the short list: those cheapest at fixed weights, with their second-order estimates."""
    program = run.program
    labels = program.labels
    table = program.kind.margin_table(fit.decision)
    costs = labels.contract_rows(cluster_costs(program.losses, table, fit.scalars))
    own = fit.labels[labels.first]
    fixed = costs - costs[np.arange(labels.count), own][:, None]
    fixed[np.arange(labels.count), own] = np.inf
    fixed[~labels.free] = np.inf
    chosen = np.argsort(fixed, axis=None, kind="stable")[:SHORT_LIST]
    chosen = chosen[np.isfinite(fixed.ravel()[chosen])]
    components, targets = np.divmod(chosen, program.clusters)
    return _second_order(program, fit, table, components, targets, fixed.ravel()[chosen])


def _second_order(program: MarginProgram, fit: Fit, table: FloatArray, components: IntArray, targets: IntArray,
                  fixed: FloatArray) -> Moves:
    root, lower = cho_factor(_hessian(program, fit, table), lower=True)
    gradient = np.zeros((len(components), len(root)))
    damping = np.ones(len(components))
    for m, (component, target) in enumerate(zip(components, targets)):
        points = np.flatnonzero(program.labels.component == component)
        moved = np.full(len(points), target)
        rows = program.features.rows(points)
        own = fit.labels[points]
        slope, bend = _slopes(program, fit, table, points, own)
        new_slope, new_bend = _slopes(program, fit, table, points, moved)
        there = _directions(program, fit.decision[points], moved)
        change = new_slope[:, None] * there - slope[:, None] * _directions(program, fit.decision[points], own)
        reach = solve_triangular(root, (there[:, :, None] * rows[:, None, :]).reshape(len(points), -1).T, lower=lower)
        damping[m] += float(np.maximum(new_bend - bend, 0.0) @ np.sum(reach**2, axis=0))
        gradient[m] = (change.T @ rows).ravel()
    gradient = solve_triangular(root, gradient.T, lower=lower).T
    estimate = fixed - 0.5 * np.sum(gradient**2, axis=1) / damping
    return Moves(components, targets, fixed, estimate, gradient)


def _directions(program: MarginProgram, decision: FloatArray, labels: IntArray) -> FloatArray:
    """Return the (m, k−1) gradients of the margins in the coded decision values."""
    if program.coding == "simplex":
        return np.asarray(program.codes[labels])
    return np.asarray(program.codes[labels] - program.codes[runner_up(decision, labels)])


def _slopes(program: MarginProgram, fit: Fit, table: FloatArray, points: IntArray,
            labels: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return (m,) slopes and smoothed curvatures of the losses at some points in some clusters."""
    margins = np.zeros(program.n)
    margins[points] = table[points, labels]
    losses = program.losses
    arguments = losses.arguments(margins, fit.scalars)
    return losses.spread(losses.derivative(arguments))[points], losses.smoothed_curvature(arguments, SMOOTHING)[points]


def _hessian(program: MarginProgram, fit: Fit, table: FloatArray) -> FloatArray:
    """Return I + Σ h_i (d_i d_iᵀ) ⊗ φ_iφ_iᵀ with d_i the gradient of the margin of point i."""
    everyone = np.arange(program.n)
    bend = program.losses.smoothed_curvature(
        program.losses.arguments(table[everyone, fit.labels], fit.scalars), SMOOTHING)
    other = fit.labels if program.coding == "simplex" else runner_up(fit.decision, fit.labels)
    pair = fit.labels * program.clusters + other
    width, r = program.clusters - 1, program.features.rank
    total = np.zeros((width, r, width, r))
    for code in np.unique(pair):
        points = np.flatnonzero((pair == code) & (bend > 0))
        if len(points):
            d = _directions(program, fit.decision[points[:1]], fit.labels[points[:1]])[0]
            total += np.multiply.outer(np.outer(d, d), weighted_gram(program.features, points, bend[points])).transpose(
                0, 2, 1, 3)
    H = total.reshape(width * r, width * r)
    H.flat[:: width * r + 1] += 1.0 + 1e-12 * float(np.trace(H))  # above the rounding of its largest entries
    return H


def _exchanges(run: Run, fit: Fit, moves: Moves, tries: int) -> list[tuple[float, Change]]:
    """Return promising exchanges of two components that want each other's cluster, feasible together."""
    labels = run.program.labels
    own = fit.labels[labels.first][moves.components]
    cross = moves.gradient @ moves.gradient.T
    pair = moves.estimate[:, None] + moves.estimate[None, :] - cross
    fits = (own[:, None] == moves.targets[None, :]) & (moves.targets[:, None] == own[None, :])
    pair = np.where(np.triu(fits, 1), pair, np.inf)
    found: list[tuple[float, Change]] = []
    for place in np.argsort(pair, axis=None, kind="stable")[: 4 * tries]:
        a, b = np.divmod(int(place), len(pair))
        first, second = int(moves.components[a]), int(moves.components[b])
        if np.isfinite(pair[a, b]) and bool(labels.feasible_pairs(
                fit.labels, first, int(moves.targets[a]), moves.components[[b]], moves.targets[[b]])[0]):
            found.append((float(pair[a, b]), ((first, int(moves.targets[a])), (second, int(moves.targets[b])))))
        if len(found) >= tries:
            break
    return found
