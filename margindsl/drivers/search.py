"""Local search over labels: moves of components, then whole blocks, ranked by cheap estimates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from margindsl.drivers.alternation import ROUGH, alternate, continue_weights, descend, weight_factors
from margindsl.drivers.moves import block_moves, candidate_moves, labelling_key, regroupings
from margindsl.drivers.run import Run
from margindsl.drivers.starts import distinct, starting_labels
from margindsl.errors import UnboundedError
from margindsl.program.passes import Answer
from margindsl.typing import IntArray

LARGEST_RANK = 3000  # of features times k − 1
LARGEST = 50_000_000  # entries of features up to which flips are estimated
LARGEST_STORED = 5_000_000  # the same for features on disk, sparse or in Dask
REHEATS = (0.1, 0.01)  # factors of the loss weight to go back to
LARGEST_ESCAPES = 20
MEANS, FRESH, ANEW = 5, 30, "anew"  # new starts: k-means runs, random members of B; under what they are noted
AGAIN = 3  # times that random members are begun from where all else has failed; 12 led no further on two problems
TILTS, TILTED = (0.3, 0.6, 1.0, 2.0), 100  # lengths of random tilts beside a hyperplane's, and how many may fail
ESCAPE_CEILING = 4.0  # times the value, above which small moves after an escape are not worth their time


def search(run: Run, fit: Answer, rounds: int = 60, tries: int = 6, tol: float = 1e-7, blocks: int = 0) -> Answer:
    """Improve a labelling by moves, pairs and small groups of them, then by escapes that move whole blocks.

    Parameters
    ----------
    rounds : int
        Most accepted moves between two escapes.
    tries : int
        Moves of each kind evaluated exactly before giving up.
    tol : float
        Relative accuracy of the fixed-label solves.
    blocks : int
        Block moves among the escapes; 0 for no escapes.
    """
    if run.program.losses.is_turned:  # moves are estimated by losses of margins
        return alternate(run, fit.labels, tol=tol, fit=fit)
    fit = _descend(run, fit, rounds, tries, tol)
    return escape(run, fit, blocks, rounds, tries, tol) if blocks else fit


def escape(run: Run, fit: Answer, blocks: int, rounds: int = 60, tries: int = 6, tol: float = 1e-7) -> Answer:
    """Improve a labelling that no small move improves, by escapes with small moves after each.

    Escapes lower the loss weight and raise it again, move `blocks` blocks of two clusters or regroup more, and begin
    anew; the rest is as for `search`.
    """
    for number in range(LARGEST_ESCAPES if _is_affordable(run) else 0):
        if run.done:
            break
        better = _escape(run, fit, rounds, tries, tol, blocks)
        if better is None or run.record("escape", number, better.value):
            return fit if better is None else better
        fit = better
    return fit


def _is_affordable(run: Run) -> bool:
    """Return whether features are small enough for moves to be estimated.

    Features that are not in memory would be read anew for every move, and the moves held in it.
    """
    program, features = run.program, run.program.features
    largest = LARGEST if features.is_dense else LARGEST_STORED
    return program.size_of_w <= LARGEST_RANK and program.n * features.rank <= largest


def _descend(run: Run, fit: Answer, rounds: int, tries: int, tol: float) -> Answer:
    """Descend by moves, pairs and small groups of them."""
    if not _is_affordable(run):
        return fit
    fit = descend(run, fit, lambda at: () if _key(at, tries) in run.exhausted else candidate_moves(run, at, tries),
                  rounds, tol)
    if not run.done:
        run.exhausted.add(_key(fit, tries))
    return fit


def _key(fit: Answer, tries: int) -> tuple[int, int]:
    return hash(fit.labels.tobytes()), tries


def _escape(run: Run, fit: Answer, rounds: int, tries: int, tol: float, blocks: int) -> Answer | None:
    """Return the first lower labelling that an escape and small moves after it reach, or None."""
    seen = {labelling_key(run, fit.labels)}
    for labels in _escapes(run, fit, blocks, tol):
        if run.done:
            return None
        if labelling_key(run, labels) in seen:
            continue
        trial = alternate(run, labels, tol=tol, fit=run.fit(labels, fit, max(tol, ROUGH)))
        # Most blocks fall back at once to where small moves were tried before.
        fresh = labelling_key(run, trial.labels) not in seen
        seen |= {labelling_key(run, labels), labelling_key(run, trial.labels)}
        if fresh and trial.value < ESCAPE_CEILING * abs(fit.value):
            trial = _descend(run, trial, rounds, tries, tol)
            seen.add(labelling_key(run, trial.labels))
        if trial.value < fit.value - 1e-6 * abs(fit.value):
            return trial
    return None


def _escapes(run: Run, fit: Answer, blocks: int, tol: float) -> Iterator[IntArray]:
    """Yield labellings of B to go on from: reheated ones, large moves, and where descents from new starts end."""
    program, size = run.program, float(np.linalg.norm(fit.w))
    if program.clusters > 2:
        for start in REHEATS:
            yield continue_weights(run, fit.labels, weight_factors(2, start), tol).labels
        yield from regroupings(run, fit, 2 * blocks)
    if ANEW not in run.exhausted:
        run.exhausted.add(ANEW)
        starts = [*starting_labels(run, MEANS, "kmeans"), *program.labels.sample(run.rng, FRESH)]
        yield from lowest_ends(run, starts, 2 * blocks)
    for length in run.rng.choice(TILTS, TILTED):  # hyperplanes tilted anywhere
        w = run.rng.standard_normal(np.shape(fit.w))
        decision = program.fix_labels(fit.labels).outputs(fit.w + (length * size / np.linalg.norm(w)) * w, fit.bias)
        yield program.labels.maximise(program.gains(decision, fit.scalars))
    if program.clusters == 2:
        for start in REHEATS:
            yield continue_weights(run, fit.labels, weight_factors(2, start), tol).labels
        yield from block_moves(run, fit, blocks)
    for _ in range(AGAIN):
        yield from lowest_ends(run, list(program.labels.sample(run.rng, FRESH)), 2 * blocks)


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
