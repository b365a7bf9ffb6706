"""Starting labellings: principal directions, k-means, consensus, random members of B, what known labels say."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import scipy

from margindsl.drivers.alternation import alternate
from margindsl.drivers.consensus import consensus
from margindsl.drivers.means import best_k_means, k_means
from margindsl.drivers.run import Run
from margindsl.errors import RefusalError, SolverError, UnansweredError, UnboundedError
from margindsl.features import DenseFeatures
from margindsl.features.maps import NoMap
from margindsl.host.clock import Cancelled, check, while_time
from margindsl.host.frozen import short_key
from margindsl.program.program import MarginProgram
from margindsl.typing import BoolArray, FloatArray, IntArray

LARGEST_GRAM = 3000
TRIDIAGONAL_WORK = 4.0  # of a few eigenvectors, times n**3
TRIES = 4  # at a start, of which some end at the same labels
LARGEST_METRIC = 1000  # features in which links choose directions
METRIC_RIDGE = 0.3  # in mean variances: with links of a tenth of the points there are about as many as features
START_RIDGE = 0.15  # of regressions, where ½‖w‖² against losses (1 − γ)² has .5; .05 and .5 do as well, 1.5 does not
STILL = 1e-3  # share of the points that still move, which fits that follow move as well
START_ROUNDS, LARGEST_START = 30, 10_000_000  # points up to which their products are small work
FIRST_TOL = 1e-3  # of fits on the way to a first answer
IN_HAND = 0.6  # of the allowance after a stop, in which the labels in hand are fitted


def principal_directions(program: MarginProgram, count: int, rng: np.random.Generator) -> FloatArray:
    """Return (n, count) decision values of the leading principal directions of the features; of many, by iteration."""
    features = program.features.clustered
    count = min(count, features.rank)
    if features.rank <= LARGEST_GRAM:
        check(TRIDIAGONAL_WORK * features.rank**3)
        _, vectors = scipy.linalg.eigh(features.gram(), subset_by_index=(features.rank - count, features.rank - 1))
        return features.apply(vectors[:, ::-1])
    basis = rng.standard_normal((features.rank, count + 4))
    for _ in range(8):
        basis, _ = np.linalg.qr(features.adjoint(features.apply(basis)))
    return features.apply(basis[:, :count])


def starting_labels(run: Run, count: int, kind: str = "mixed") -> list[IntArray]:
    """Return distinct labellings in B to start a local method from, warm starts first.

    Parameters
    ----------
    count : int
        Most labellings returned.
    kind : {"mixed", "kmeans", "spectral", "random", "consensus", "known"}
        k-means runs in feature space (the first start of "kmeans" is the best of ten), in the space of k − 1 leading
        principal directions, random members of B, or all three in turn, beside what the hyperplane of the known labels
        says where there are any. "consensus" is what clusterings of several kinds agree upon, beside k-means along
        `linked_directions` where there are any, "known" one start, from the hyperplane of the known labels alone.
    """
    labels, k, seen = run.program.labels, run.program.clusters, run.program.features.clustered
    found = [labels.nearest(start) for start in run.starts]
    if kind == "known":
        return distinct([*found, labels_from_known(run)])
    if kind == "mixed" and has_known(run.program):
        with suppress(SolverError, UnboundedError):  # unbounded over the known labels alone, as shared scalars may be
            found.append(labels_from_known(run))
    if kind == "consensus" and (along := linked_directions(run.program)) is not None:
        gains = best_k_means(DenseFeatures(along, NoMap()), k, run.rng)
        found.append(labels.maximise(named(run.program, gains)))
    wanted = max(1, count + len(found))
    spectral = np.zeros((labels.n, 0))
    if kind in ("mixed", "spectral"):
        spectral = principal_directions(run.program, max(1, count) + k - 2, run.rng)
        scatter = np.std(spectral, axis=0)
        varies = scatter > 1e-10 * np.abs(spectral).max(axis=0)  # a constant direction, of a bias, tells nothing apart
        spectral = spectral[:, varies] / scatter[varies]
    for index in while_time(range(TRIES * count), run.budget):
        if len(found) >= wanted:
            break
        turn, step = (kind, index) if kind != "mixed" else (("kmeans", "spectral", "random")[index % 3], index // 3)
        if turn == "consensus":
            gains = consensus(seen, k, run.rng, partial(kept, run.program))
        elif turn == "kmeans":
            gains = (best_k_means if kind == "kmeans" and not index else k_means)(seen, k, run.rng)
        elif turn == "spectral" and step < spectral.shape[1]:
            gains = k_means(DenseFeatures(spectral[:, step: step + k - 1], NoMap()), k, run.rng)
        else:
            found = distinct([*found, labels.sample(run.rng, 1)[0]])
            continue
        found = distinct([*found, np.asarray(labels.maximise(named(run.program, gains)))])
    if kind == "consensus" and k > 2:  # of two clusters fits take as long, and the mean index was .003 lower
        found[len(run.starts):] = [regressed(run.program, start) for start in found[len(run.starts):]]
    return distinct(found)


def regressed(program: MarginProgram, labels: IntArray) -> IntArray:
    """Return where ridge regressions of labels and the best labels in B in turn lead from a labelling.

    Where losses are squares this is the descent; a round takes two products, and fits to other losses go on from there
    for a third of their rounds: over 28 sets of 3 to 10 clusters with a mean index greater by .004.

    References
    ----------
    F. Bach, Z. Harchaoui (2007). DIFFRAC: a discriminative and flexible framework for clustering.
    """
    features, losses, codes = program.features.clustered, program.losses, np.eye(program.clusters)
    weights = np.bincount(losses.points, losses.weights, minlength=program.n)
    if features.rank > LARGEST_METRIC or features.n > LARGEST_START or not weights.any():
        return labels
    gram = np.array(features.gram(weights))
    gram.flat[:: features.rank + 1] += START_RIDGE
    factor = scipy.linalg.cho_factor(gram)
    for _ in while_time(range(START_ROUNDS)):
        plane = scipy.linalg.cho_solve(factor, features.adjoint(weights[:, None] * (codes - codes.mean())[labels]))
        before, labels = labels, np.asarray(program.labels.maximise(features.apply(plane)))
        if np.mean(before != labels) < STILL:
            break
    return labels


def linked_directions(program: MarginProgram) -> FloatArray | None:
    """Return (n, k − 1) decision values along which linked points lie near and parted ones far, None without links.

    These are the directions of linear discriminants: with differences δ of points that a cannot-link parts, of mean
    square B, and those within linked groups, of covariance W, B − cW has the rank k − 1 where classes have one
    covariance, c being what the groups' means leave of it. All points say what a unit is: a generalised eigenproblem.

    References
    ----------
    S. Xiang, F. Nie, C. Zhang (2008). Learning a Mahalanobis distance metric for data clustering and classification.
    """
    labels, features, k = program.labels, program.features.clustered, program.clusters
    if labels.is_unlinked:
        return None
    # 1. Groups of points that lie together, those of a known label among them, and pairs of groups that lie apart.
    count, own = labels.count, labels.component
    pinned = labels.at_points(np.maximum(labels.pinned, 0))
    group = np.where(labels.free[own], 2 * own + (np.asarray(labels.sign) < 0), 2 * count + pinned)
    each, known = 2 * np.arange(count), 2 * count + np.column_stack(np.triu_indices(k, 1))
    sizes = np.bincount(group, minlength=2 * count + k)
    parted = np.vstack([2 * labels.cannot, np.column_stack([each, each + 1]), known])
    parted = parted[np.all(sizes[parted] > 0, axis=1)]
    linked = sizes > 1
    linked[parted.ravel()] = True
    index = np.flatnonzero(linked[group])
    if not len(index) or features.rank > LARGEST_METRIC:
        return None
    # 2. Their scatters, and the leading directions.
    rows, row = features.rows(index), (np.cumsum(linked) - 1)
    means = np.zeros((row[-1] + 1, features.rank))
    np.add.at(means, row[group[index]], rows / sizes[group[index], None])
    within, apart = rows - means[row[group[index]]], means[row[parted[:, 0]]] - means[row[parted[:, 1]]]
    left = float(np.mean(np.sum(1.0 / sizes[parted], axis=1))) if len(parted) else 1.0
    inner = within.T @ within / max(len(index) - len(means), 1)
    unit = features.gram() / features.n
    unit.flat[:: features.rank + 1] += METRIC_RIDGE * float(np.trace(unit)) / features.rank or 1.0
    values, vectors = scipy.linalg.eigh(apart.T @ apart / max(len(apart), 1) - left * inner, unit,
                                        subset_by_index=(max(0, features.rank - k + 1), features.rank - 1))
    return np.asarray(features.apply(vectors * np.sqrt(np.maximum(values + left, 0.0))))


@contextmanager
def in_hand(run: Run) -> Iterator[None]:
    """Fit labels when Ctrl-C, the end of the time or a failed solver comes inside, then pass it on: there is an answer.

    These are the labels where a descent stands (`Run.current`); without any, and nothing fitted yet, the warm start
    or one k-means start.
    """
    try:
        yield
    except (KeyboardInterrupt, UnansweredError) as end:
        if isinstance(end, KeyboardInterrupt):
            run.ended_by(end)
        with suppress(SolverError, Cancelled), run.finishing(IN_HAND):
            if run.current is not None:
                run.fit(run.current)
            elif run.best is None and isinstance(end, KeyboardInterrupt):
                run.fit(first_start(run))
        raise


def first_start(run: Run) -> IntArray:
    """Return the warm start, without one a k-means labelling in B."""
    return starting_labels(run, 1, "kmeans")[0]


def answer_first(run: Run) -> None:
    """Leave a good labelling in the run at once: the warm start or k-means, one descent for as long as it pays.

    Later random choices are what they would be without it. A program without least value is left to what comes after.
    """
    random = run.rng.bit_generator.state
    try:
        with suppress(SolverError), run.stopping():
            alternate(run, first_start(run), tol=FIRST_TOL)
    finally:
        run.rng.bit_generator.state = random


def named(program: MarginProgram, gains: FloatArray) -> FloatArray:
    """Return gains (n, k) with the columns in the order that agrees best with the known labels."""
    labels = program.labels
    if labels.free.all():
        return gains
    summed = labels.by_components(gains)
    known = [summed[labels.pinned == q].sum(axis=0) for q in range(program.clusters)]
    return gains[:, scipy.optimize.linear_sum_assignment(np.stack(known), maximize=True)[1]]


def kept(program: MarginProgram, drawn: IntArray, clusters: IntArray) -> float:
    """Return the share of links and known labels that a clustering of some points keeps beyond chance, squared; one
    without any."""
    labels, k = program.labels, program.clusters
    if labels.is_unlinked:
        return 1.0
    gains = np.zeros((labels.n, k))
    gains[drawn, clusters] = 1.0
    table = labels.by_components(named(program, gains))
    pinned, several = labels.pinned >= 0, (labels.pinned < 0) & (table.sum(axis=1) > 1)
    ends = labels.cannot[np.all(table[labels.cannot].sum(axis=2) > 0, axis=1)] if len(labels.cannot) else labels.cannot
    best = table.argmax(axis=1)
    right = (table[pinned, labels.pinned[pinned]].sum() + table[several].max(axis=1).sum()
             + np.sum(best[ends[:, 0]] != best[ends[:, 1]]))
    total = table[pinned].sum() + table[several].sum() + len(ends)
    # squares: over 15 data sets with .1 n links unlinked points gained .05 of the adjusted Rand index, none without
    return float(max(0.0, (right / total - 1 / k) / (1 - 1 / k)) ** 2) if total else 1.0


def keep_starts(run: Run) -> None:
    """Fit the labels of a warm start, which a relaxation moves before it descends, so that it ends no higher."""
    for labels in run.starts:
        run.fit(run.program.labels.nearest(labels))


def distinct(labellings: list[IntArray]) -> list[IntArray]:
    """Return the labellings without repeats, in order."""
    seen: dict[bytes, IntArray] = {}
    for labels in labellings:
        seen.setdefault(short_key(np.asarray(labels, dtype=np.int32)), labels)
    return list(seen.values())


def unknown_points(program: MarginProgram) -> BoolArray:
    """Return which of the n points have a label that neither known labels nor links fix."""
    return np.asarray(program.labels.free)[np.asarray(program.labels.component)]


def has_known(program: MarginProgram) -> bool:
    """Return whether some point with a loss has a known label."""
    points = program.losses.points[program.losses.weights > 0]
    return bool(points.size) and not bool(np.all(unknown_points(program)[points]))


def lacks_known(program: MarginProgram) -> tuple[str, str] | None:
    """Return why the known labels give no hyperplane and what to do, or None where they give one."""
    if has_known(program):
        return None
    if np.all(unknown_points(program)):
        return "none is known", "Give y[index] == values"
    return "the loss of every labelled point has weight 0", "Make its weight positive, such as C of a recipe"


def weigh_unknown(program: MarginProgram, factor: float) -> MarginProgram:
    """Return the program with the loss weights of points of unknown label times a factor; zero drops them."""
    unknown = unknown_points(program)
    terms = []
    for term in program.losses.terms:
        weights = np.where(unknown[term.points], factor, 1.0) * term.weights
        kept = weights > 0
        if np.any(kept):
            terms.append(dataclasses.replace(term, weights=weights).taken(np.flatnonzero(kept)))
    return dataclasses.replace(program, losses=dataclasses.replace(program.losses, terms=tuple(terms)))


def labels_from_known(run: Run) -> IntArray:
    """Return the member of B that agrees best with the hyperplane fitted to the known labels alone.

    Under a bound on the sum of the unlabelled points these are the points of largest decision values
    (Joachims 1999, step 1). As other starts it takes the time it needs: cut short, it would be no start.
    """
    lacking = lacks_known(run.program)
    if lacking is not None:
        why, repair = lacking
        raise RefusalError(f"start='known' begins at the hyperplane of the known labels, and {why}. {repair}, or "
                           "choose start='kmeans'")
    program = weigh_unknown(run.program, 0.0)
    alone = Run(program, run.fixed_solver, run.fixed_solver, run.budget.replace(callback=None, deadline=np.inf),
                run.rng)
    fit, losses = alone.fit(program.labels.any_member()), run.program.losses
    falls = losses.scatter(-losses.derivative(losses.arguments(np.zeros(losses.n)))) >= 0  # not where caps have rows
    return run.program.labels.maximise(np.where(falls[:, None], 1.0, -1.0) * fit.decision)
