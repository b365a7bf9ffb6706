"""Rounding and polishing: from directions to labellings in B, then alternation and local search."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from margindsl.drivers.alternation import alternate
from margindsl.drivers.moves import regular_hessian, secant_curvature
from margindsl.drivers.run import Run
from margindsl.drivers.search import LARGEST_RANK, escape, lowest_ends
from margindsl.drivers.starts import distinct, starting_labels
from margindsl.features import FeatureOperator
from margindsl.host.clock import while_time
from margindsl.program.passes import Answer
from margindsl.typing import FloatArray, IntArray

SAMPLED_ENTRIES = 4_000_000  # entries of sampled directions held at once
POLISHED_POINTS = 2_000_000  # points times polished candidates, at most
SCREEN_BLOCK = 64
SCREENED = 4_000  # points that rank candidates: of values that differ by a per cent it tells the lower
KEPT = 6  # candidates that are polished, fewer for millions of points; twice as many are fitted, chosen by `screen`
ENDS = 8  # of hops from the best labelling that are looked at
LENGTHS = (0.6, 1.0, 1.5, 2.5, 4.0)


def sample_directions(factor: FloatArray | FeatureOperator, count: int, rng: np.random.Generator) -> FloatArray:
    """Return (n, k) directions: leading singular directions of a factor, then Gaussian combinations.

    `factor` (n, p): array or features, whose columns span the relaxed solution; `count`: of Gaussian combinations,
    fewer for millions of points, so that they fit in memory.
    """
    n, p = factor.shape
    if p == 1:
        return _mixed(factor, np.eye(1))
    count = min(count, max(4, SAMPLED_ENTRIES // n))
    _, values, vectors = np.linalg.svd(factor.gram() if isinstance(factor, FeatureOperator) else factor.T @ factor)
    keep = values > 1e-12 * max(values[0], 1e-300)
    mix = vectors.T[:, keep] @ rng.standard_normal((int(keep.sum()), count))
    return _mixed(factor, np.column_stack([vectors.T[:, : min(p, 4)], mix]))


def _mixed(factor: FloatArray | FeatureOperator, mix: FloatArray) -> FloatArray:
    return factor.apply(mix) if isinstance(factor, FeatureOperator) else factor @ mix


def round_directions(run: Run, directions: FloatArray) -> list[IntArray]:
    """Return distinct labellings in B nearest to each column of directions (n, k)."""
    labels = run.program.labels
    return distinct([labels.maximise(run.program.gains_of(column[:, None])).astype(np.int8)
                     for column in while_time(directions.T, run.budget)])


def round_vectors(run: Run, vectors: FloatArray | FeatureOperator, count: int) -> list[IntArray]:
    """Return labellings in B nearest to vectors (n, p) of points: along sampled directions, or to targets of clusters.

    `count`: number of draws, of each kind.
    """
    if run.program.clusters == 2:  # one coordinate of codes, along which labels are ordered
        return round_directions(run, sample_directions(vectors, count, run.rng))
    return round_codes(run, _mixed(vectors, np.eye(vectors.shape[1])), count)


def round_codes(run: Run, directions: FloatArray, count: int) -> list[IntArray]:
    """Return labellings in B from vector labels: the nearest of k random directions, and k of the points themselves.

    `directions` (n, p): one vector a point; `count`: number of draws of each kind.

    References
    ----------
    A. Frieze, M. Jerrum (1997). Improved approximation algorithms for MAX k-CUT and MAX BISECTION.
    """
    labels, k = run.program.labels, run.program.clusters
    found: list[IntArray] = []
    for draw in while_time(range(2 * max(count, 1)), run.budget):
        if len(found) == 2 * KEPT:  # clusterings are not screened: polishing looks at the first so many
            break
        if draw % 2:
            targets = run.rng.standard_normal((directions.shape[1], k))
        else:
            chosen = [int(run.rng.integers(len(directions)))]
            distance = np.full(len(directions), np.inf)
            for _ in range(k - 1):  # each with probability growing with its distance from those before
                distance = np.minimum(distance, np.sum((directions - directions[chosen[-1]]) ** 2, axis=1))
                total = float(distance.sum())
                chosen.append(int(run.rng.choice(len(distance), p=distance / total)) if total > 0 else chosen[-1])
            targets = directions[chosen].T
        found = distinct([*found, labels.maximise(directions @ targets)])
    return found


def screen(run: Run, candidates: list[IntArray], keep: int) -> list[IntArray]:
    """Return the `keep` most promising labellings, by one shared Newton step from w = 0 and a line search.

    Of two clusters: for every candidate y the direction H⁻¹Φᵀ(y∘ũ₀), with ũ₀ and H the duals and the Hessian at zero,
    is scaled by the best of a few lengths; the objective there ranks the candidates. All candidates share one factor.
    Of many points a sample ranks them.
    """
    program = run.program
    of_margins = program.clusters == 2 and not program.losses.is_turned  # whether losses are of margins y f
    if len(candidates) <= keep or not of_margins or program.features.rank > LARGEST_RANK:
        return candidates[:keep]
    features, losses = program.features, program.losses
    if program.n > SCREENED:
        index = np.sort(run.rng.choice(program.n, SCREENED, replace=False))
        features, losses = features.take(index), losses.restricted(index)
        seen = [candidate[index] for candidate in candidates]
    else:
        seen = candidates
    zero = losses.arguments(np.zeros(losses.n))
    hessian = regular_hessian(features, secant_curvature(losses, zero))
    slope = losses.scatter(-losses.derivative(zero))
    values = np.empty(len(candidates))
    for start in range(0, len(candidates), SCREEN_BLOCK):
        Y = program.label_codes[np.stack(seen[start:start + SCREEN_BLOCK], axis=1), 0]
        W = np.linalg.solve(hessian, features.adjoint(Y * slope[:, None]))
        margins = Y * features.apply(W)
        energy = 0.5 * np.sum(W**2, axis=0)
        best = np.full(Y.shape[1], np.inf)
        for length in LENGTHS:
            loss = [losses.value(length * column) for column in margins.T]
            best = np.minimum(best, length**2 * energy + np.array(loss))
        values[start:start + Y.shape[1]] = best
    return [candidates[k] for k in np.argsort(values, kind="stable")[:keep]]


def polish(run: Run, candidates: list[IntArray], how: str, bound: float = -np.inf, is_relaxed: bool = True) -> Answer:
    """Return the best fit among candidates after polishing.

    Parameters
    ----------
    candidates : list of (n,) int arrays
        Labellings in B, at least one.
    how : {"none", "alternate", "search", "auto"}
        "none" evaluates; "alternate" runs alternation from the best `KEPT`; "search" adds flips, swaps and groups, also
        from mixed starts, and from all of these hops of many hyperplanes; "auto" is that for as long as it pays (see
        `StoppingRule`).
    bound : float
        A certified lower bound in units of the program, which says what can still be gained.
    is_relaxed : bool
        Whether the candidates are rounded, and no ends of descents from mixed starts.
    """
    with run.stopping(bound) if how == "auto" else nullcontext():
        return _polished(run, candidates, how, is_relaxed)


def _polished(run: Run, candidates: list[IntArray], how: str, is_relaxed: bool) -> Answer:
    keep = max(1, min(KEPT, POLISHED_POINTS // run.program.n))
    fits: list[Answer] = []
    kept = 1 if how == "none" else keep
    pool = screen(run, candidates, 2 * keep)
    if how in ("auto", "search") and is_relaxed:
        pool = lowest_ends(run, [*pool, *starting_labels(run, 2 * keep)], 2 * keep)
    for labels in run.improving(pool):
        cutoff = fits[-1].value if len(fits) == kept else np.inf  # what is no lower than those kept needs no accuracy
        fits = sorted([*fits, run.fit(labels, tol=1e-5, cutoff=cutoff)], key=lambda fit: fit.value)[:kept]
    if how == "none":
        return fits[0]
    improved = [alternate(run, fit.labels, fit=fit) for fit in run.improving(fits[:keep])]
    if run.best is not None:  # an answer from before the rounding may be lower than all of it
        improved.append(run.best)
    improved.sort(key=lambda fit: fit.value)
    if how != "alternate" and not run.done:
        return escape(run, improved, ENDS)
    return improved[0]
