"""Local search over labels: small moves ranked by estimates, tabu searches of squares, hops of many hyperplanes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

import numpy as np
import scipy.linalg

from margindsl.drivers.alternation import ROUGH, alternate, descend
from margindsl.drivers.moves import ROUNDING, candidate_moves, labelling_key, regroupings, secant_curvature
from margindsl.drivers.run import Run
from margindsl.drivers.starts import distinct
from margindsl.errors import UnboundedError
from margindsl.labelset.oracle import maximise
from margindsl.program.losses import Losses, LossTerm
from margindsl.program.passes import Answer
from margindsl.typing import IntArray

LARGEST_RANK = 3000  # of features times k − 1
LARGEST = 50_000_000  # entries of features up to which flips are estimated
LARGEST_STORED = 5_000_000  # the same for features on disk, sparse or in Dask
MOVES, TRIES = 60, 6  # most accepted moves between two escapes; moves of each kind evaluated exactly before giving up
LARGEST_ESCAPES, SEARCHED = 20, 3  # and fits that small moves begin from beside ends of hops
ESCAPE_CEILING = 4.0  # times the value, above which small moves after an escape are not worth their time
PLANES, FEWEST, POINTS = 32, 4, 100_000  # hyperplanes at once, fewer of many points: what they see together
TILTS, LENIENT = (0.1, 0.2, 0.4, 0.7), 0.02  # of the length of a hyperplane; how much higher it may end than it was
MIXED = 20  # descents after which the highest hyperplane goes on from a lower one
DIRECTIONS, PRODUCTS = 64, 4_000_000  # numbers of a hyperplane, along leading directions, and in their products
WIDTH = 0.1  # over which losses are averaged, so that kinks have a curvature
STILL, SHRINK, SHORT = 1e-3, 0.3, 0.05  # fall of the value at which a descent ends; steps that are too long, too short
PATIENCE = 16  # descents a free component without a lower end
AGREE = 3  # hyperplanes at the lowest end: two agreed on higher ones on three of 14 sets, three on none
LARGEST_ENDS, FREE = 1000, 1e-5  # that are held; weight of the square of a bias that has none
A_POINT, A_PRODUCT, A_STEP = 100.0, 0.2, 3e6  # work of losses and labels of a point, of a product, of a step
CURVATURES = 2.0 ** -np.arange(8)  # of those at zero: of five public instances the lowest were at a half to an eighth
SEARCHES, TENURE, STEADY = 4, 10, 5  # searches a curvature; a tabu of a tenth of N steps and up to ten more; N steps
LARGEST_TABU, A_MOVE = 1e7, 1e6  # components squared times features: 16 s without a limit; work of a step
MANY = 10  # components a feature: above, on heart 200 and clouds of 300 to 2,000, hops found as much in less time


def search(run: Run, fit: Answer) -> Answer:
    """Improve a labelling by moves, pairs and small groups of them."""
    if not _is_affordable(run) or run.program.losses.is_turned:  # moves are estimated by losses of margins
        return fit
    fit = descend(run, fit, lambda at: () if hash(at.labels.tobytes()) in run.exhausted else candidate_moves(
        run, at, TRIES), MOVES, tol=1e-7)
    if not run.done:
        run.exhausted.add(hash(fit.labels.tobytes()))
    return fit


def escape(run: Run, fits: list[Answer], keep: int) -> Answer:
    """Improve the best of some fits by small moves from them, regroupings, tabu search, `keep` lowest ends of hops."""
    fit, seen = fits[0], set[bytes]()
    for number in range(LARGEST_ESCAPES if _is_affordable(run) and not run.done else 0):
        before = fit.value
        for labels in run.improving(_escapes(run, [fit, *fits], keep, number == 0)):
            trial = alternate(run, labels, fit=run.fit(labels, fit, ROUGH))
            if labelling_key(run, trial.labels) not in seen and trial.value < ESCAPE_CEILING * abs(before):
                seen.add(labelling_key(run, trial.labels))
                trial = search(run, trial)
            fit = min(fit, trial, key=lambda fit: fit.value)
        if fit.value >= before - 1e-6 * abs(before) or run.record("escape", number, fit.value) or run.done:
            break
    return fit


def _is_affordable(run: Run) -> bool:
    """Return whether features are small enough for moves to be estimated.

    Features that are not in memory would be read anew for every move, and the moves held in it.
    """
    program, features = run.program, run.program.features
    largest = LARGEST if features.is_dense else LARGEST_STORED
    return program.size_of_w <= LARGEST_RANK and program.n * features.rank <= largest


def _escapes(run: Run, fits: list[Answer], keep: int, is_first: bool) -> Iterator[IntArray]:
    """Yield labellings of B to go on from: the best fits, regroupings of several clusters, where other searches end."""
    yield from distinct([fit.labels for fit in fits])[:SEARCHED]
    if run.program.clusters > 2:
        yield from regroupings(run, fits[0], keep)
    if run.program.kind.is_linear:
        yield from tabu_search(run) if is_first else ()  # which does not depend on fits
        yield from hop(run, fits[0], keep)


def lowest_ends(run: Run, starts: list[IntArray], keep: int) -> list[IntArray]:
    """Return the `keep` lowest ends of rough descents, in the program of coded margins where there is one: fits there
    are cheap."""
    def descents(coded: Run) -> list[Answer]:
        return [alternate(coded, labels, tol=ROUGH) for labels in run.improving(starts)]

    try:
        ends = descents(run.coded())
    except UnboundedError:  # margins of single codes may fall without end where the others hold them
        ends = descents(run)
    return distinct([fit.labels for fit in sorted(ends, key=lambda fit: fit.value)])[:keep]


@np.errstate(over="ignore", invalid="ignore")
def hop(run: Run, fit: Answer, keep: int) -> list[IntArray]:
    """Return the `keep` lowest labellings in B where descents of tilted hyperplanes end, from a fit and from anywhere.

    A descent takes Newton steps with the best labels in B at each hyperplane, along the leading directions of the
    features; bounds on decision values are left out, shared scalars stay where they are: labellings are to be fitted.
    All hyperplanes take their steps together, a factor each, until `AGREE` that began apart have come to the lowest
    end, or none to a lower one for long. Margins are inner products with codes.

    References
    ----------
    D. Wales, J. Doye (1997). Global optimization by basin-hopping.
    """
    # 1. Features, a bias as one more that costs nothing, and their products; losses of as many copies of the points.
    program, labels, codes, n, rng = run.program, run.program.labels, run.program.codes, run.program.n, run.rng
    features, most = program.features, min(-(-DIRECTIONS // codes.shape[1]), int(np.sqrt(PRODUCTS / n)))
    phi = np.asarray(features.toarray()) if features.rank <= most else features.apply(scipy.linalg.eigh(
        features.gram(), subset_by_index=(features.rank - most, features.rank - 1))[1])
    norm = np.append(np.ones(phi.shape[1]), np.full(int(program.free_bias), FREE))[:, None]
    phi = np.hstack([phi, np.ones((n, len(norm) - phi.shape[1]))])
    (r, q), count, scalars = (len(norm), codes.shape[1]), min(PLANES, POINTS // n), fit.scalars
    if count < FEWEST or not phi.any():
        return []
    products, many = (phi[:, :, None] * phi[:, None]).reshape(n, r * r), repeated(program.losses, count)
    # 2. Hyperplanes that go on from `stand`, of values `height`; those of descents that are new everywhere at first.
    W = rng.standard_normal((count, r, q))
    W /= np.sqrt(np.mean((phi @ W) ** 2, axis=(1, 2), keepdims=True))
    W[0] = scipy.linalg.lstsq(phi, fit.decision @ np.linalg.pinv(codes.T))[0]
    step, length, value = np.zeros_like(W), np.ones(count), np.full(count, np.inf)
    stand, height, chosen = W.copy(), value.copy(), np.zeros((count, n), dtype=int)
    origin, agreed = np.arange(count), set[int]()  # where each began, and those of which one has come to the lowest end
    ends, first, lowest, descents, last = dict[bytes, tuple[float, IntArray]](), b"", float(np.inf), 0, 0
    price = float(program.losses.scalars.costs @ scalars) if len(scalars) else 0.0
    patience = PATIENCE * int(np.count_nonzero(labels.free))
    while descents - last < patience and len(agreed) < AGREE and not run.done_at(lowest):
        # 3. Where steps lead: the best labels there, and whether the value is lower
        trial = W + length[:, None, None] * step
        table = phi @ trial @ codes.T
        costs = many.cluster_costs(table.reshape(count * n, -1), scalars).reshape(table.shape)
        there = np.stack([labels.at_points(maximise(labels, labels.by_components(-cost))) for cost in costs])
        own = there[..., None]
        new = 0.5 * np.sum(norm * trial**2, axis=(1, 2)) + np.take_along_axis(costs, own, 2).sum(axis=(1, 2)) + price
        lower = new < value
        ended = np.where(lower, value - new < STILL * np.abs(new), length < SHORT)
        W[lower], chosen[lower], value[lower] = trial[lower], there[lower], new[lower]
        length = np.where(lower, 1.0, SHRINK * length)
        # 4. Newton steps of those that go on
        on = np.flatnonzero(lower & ~ended)
        seen = many.with_labels(2.0 * there.ravel() - 1)
        v = seen.arguments(np.take_along_axis(table, own, 2).ravel(), scalars)
        (left, falls), (right, rises) = (seen.values_and_derivatives(v + side) for side in (-WIDTH, WIDTH))
        slope = seen.scatter((right - left) / (2 * WIDTH)).reshape(count, n)[on]
        bend = np.bincount(seen.points, (rises - falls) / (2 * WIDTH) * seen.slopes**2, count * n).reshape(count, n)[on]
        code = codes[there[on]]
        gradient = norm * W[on] + phi.T @ (slope[..., None] * code)
        blocks = np.zeros((len(on), r, q, r, q))
        for a, b in combinations_with_replacement(range(q), 2):
            blocks[:, :, a, :, b] = blocks[:, :, b, :, a] = ((bend * code[..., a] * code[..., b]) @ products).reshape(
                -1, r, r)
        hessian = blocks.reshape(-1, r * q, r * q)
        least = ROUNDING * np.trace(hessian, axis1=1, axis2=2)[:, None]
        hessian[:, np.arange(r * q), np.arange(r * q)] += np.maximum(np.repeat(norm, q), least)
        step[on] = -np.linalg.solve(hessian, gradient.reshape(-1, r * q, 1)).reshape(-1, r, q)
        run.budget.incumbent.work += A_STEP * q + count * n * (A_POINT + A_PRODUCT * (r * q) ** 2)
        # 5. Descents that ended, and the next ones
        for h in np.flatnonzero(ended):
            descents += 1
            if np.isfinite(value[h]):
                key = labelling_key(run, chosen[h])
                if not ends or value[h] < ends[first][0]:
                    agreed, first = agreed if key == first else set(), key
                ends[key] = float(value[h]), chosen[h].copy()
                if key == first:
                    agreed.add(int(origin[h]))
                if np.isinf(lowest) or value[h] < lowest - STILL * abs(lowest):
                    lowest, last = float(value[h]), descents
            if value[h] <= height[h] + LENIENT * abs(height[h]):
                stand[h], height[h] = W[h], value[h]
            if descents % MIXED == 0:
                pair = rng.integers(count, size=2)
                worst, better = np.argmax(height), pair[np.argmin(height[pair])]
                stand[worst], height[worst], origin[worst] = stand[better], height[better], origin[better]
            tilt = rng.standard_normal((r, q))
            W[h] = stand[h] + rng.choice(TILTS) * np.linalg.norm(stand[h]) / np.linalg.norm(tilt) * tilt
            step[h], length[h], value[h] = 0.0, 1.0, np.inf
        if len(ends) > LARGEST_ENDS:
            ends = dict(sorted(ends.items(), key=lambda end: end[1][0])[:keep])
    return [end for _, end in sorted(ends.values(), key=lambda end: end[0])[:keep]]


def tabu_search(run: Run) -> list[IntArray]:
    """Return labellings in B that are lowest for squares in place of losses that rise on both sides, by tabu search.

    Hyperplanes of many features reach nearly all margins, whose losses then say little of where to go: there hops fail.
    With ½h_i‖f_i − v_i‖² towards the codes v of labels the best hyperplane leaves const − ½‖LᵀV‖² with
    L = HΦ(N + ΦᵀHΦ)^(−1/2), a max-cut problem: moves change it exactly, at the cost of a row of L. A search moves the
    component that is lowest among those that have not moved for long; where none stays in B it leaves B by one step and
    returns by the next, as in exchanges. All searches, of several curvatures h, take their steps together.

    References
    ----------
    F. Glover (1989). Tabu search, part I. F. Bach, Z. Harchaoui (2007). DIFFRAC: a discriminative and flexible
    framework for clustering.
    """
    program, labels, codes, rng = run.program, run.program.labels, run.program.codes, run.rng
    features, losses, count = program.features, program.losses, labels.count
    two_sided = all(np.isfinite(term.loss.argmin()).all() for term in losses.terms)
    if labels.is_single or not (two_sided and count <= MANY * features.rank <= MANY * LARGEST_TABU / count**2):
        return []
    # 1. Rows of L of every component, for each curvature.
    phi = np.hstack([np.asarray(features.toarray()), np.ones((program.n, int(program.free_bias)))])
    norm = np.diag(np.append(np.ones(features.rank), np.full(int(program.free_bias), FREE)))
    curvature = secant_curvature(losses, losses.arguments(np.zeros(program.n)))
    rows = np.empty((len(CURVATURES), count, len(norm)))
    for own, factor in zip(rows, CURVATURES):
        bent = factor * curvature[:, None] * phi
        points = scipy.linalg.solve_triangular(scipy.linalg.cholesky(norm + phi.T @ bent, lower=True), bent.T,
                                               lower=True).T
        own[:] = 0.0
        np.add.at(own, labels.component, labels.sign[:, None] * points)
    squares, apart = np.sum(rows**2, axis=2)[:, None, :, None], np.sum((codes[:, None] - codes) ** 2, axis=2)
    # 2. Members of B, some a curvature; a component that moved is left alone until step `until`.
    z = labels.contract(labels.sample(rng, len(rows) * SEARCHES)).reshape(len(rows), SEARCHES, count)
    state = np.swapaxes(codes[z], 2, 3) @ rows[:, None]
    until, best, found = np.zeros_like(z), np.full(z.shape[:2], np.inf), z.copy()
    number, last, lowest, (s, e) = 0, 0, np.full(len(rows), np.inf), np.indices(best.shape)
    while number - last < STEADY * count and not run.done:
        value = -0.5 * np.sum(state**2, axis=(2, 3))
        better = labels.holds(z) & (value < best)
        best[better], found[better] = value[better], z[better]
        if np.any(best.min(axis=1) < (1.0 + ROUNDING) * lowest):
            lowest, last = best.min(axis=1), number
        # 3. What each move changes, and the best of those that are open: into B if there are any, tabu if lowest so far
        change = np.swapaxes(state @ np.swapaxes(rows, 1, 2)[:, None], 2, 3) @ codes.T
        change = np.take_along_axis(change, z[..., None], 3) - change - 0.5 * squares * apart[z]
        moves, rested = labels.free[:, None] & (z[..., None] != np.arange(len(codes))), (until <= number)[..., None]
        into = labels.feasible_moves(labels.at_points(z))
        into &= rested | (value[..., None, None] + change < best[..., None, None])
        into = np.where(into.any(axis=(2, 3), keepdims=True), into, moves & rested)
        c, p = np.divmod(np.where(into, change, np.inf).reshape(*value.shape, -1).argmin(axis=2), len(codes))
        state += (codes[p] - codes[z[s, e, c]])[..., None] * rows[s, c][:, :, None]
        z[s, e, c], number = p, number + 1
        tenure = count // TENURE + rng.integers(TENURE, size=value.shape)
        until[s, e, c] = number + np.minimum(tenure, np.count_nonzero(labels.free) - 1)  # so that one has rested
        run.budget.incumbent.work += A_MOVE + 2.0 * value.size * rows[0].size
    return distinct([labels.at_points(found[i, j]) for i, j in enumerate(best.argmin(axis=1)) if best[i, j] < np.inf])


def repeated(losses: Losses, times: int) -> Losses:
    """Return the losses of so many copies of the points, one after another."""
    copies = losses.n * np.arange(times)[:, None]
    terms = (LossTerm(term.loss, (copies + term.points).ravel(), np.tile(term.weights, times), np.tile(
        term.slopes, times), np.tile(term.shifts, times), np.tile(term.coupling, (times, 1)),
        None if term.bare is None else np.tile(term.bare, times)) for term in losses.terms)
    return Losses(losses.n * times, tuple(terms), losses.scalars)
