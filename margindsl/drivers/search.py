"""Local search over labels: flips and swaps of components, then whole blocks, ranked by cheap estimates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from margindsl.drivers.alternation import alternate
from margindsl.drivers.blocks import block_moves, labelling_key
from margindsl.drivers.cluster_search import search_clusters
from margindsl.drivers.continuation import continue_weights, weight_factors
from margindsl.drivers.descent import descend
from margindsl.drivers.moves import candidate_moves
from margindsl.drivers.run import Fit, Run
from margindsl.typing import IntArray

LARGEST_RANK = 3000
LARGEST = 50_000_000  # entries of features up to which flips are estimated
LARGEST_STORED = 5_000_000  # the same for features on disk, sparse or in Dask
REHEATS = (0.1, 0.01)  # factors of the loss weight to go back to
LARGEST_ESCAPES = 20
ESCAPE_CEILING = 4.0  # times the value, above which small moves after an escape are not worth their time


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
    features = run.program.features
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
    """Descend by flips, swaps and small groups."""
    return descend(run, fit, lambda at: _neighbours(run, at, tries), rounds, tol)


def _escape(run: Run, fit: Fit, rounds: int, tries: int, tol: float, blocks: int) -> Fit | None:
    """Return the first lower labelling that an escape and small moves after it reach, or None."""
    seen = {labelling_key(run, fit.labels)}
    for labels in _escapes(run, fit, blocks, tol):
        if run.stopped:
            return None
        if labelling_key(run, labels) in seen:
            continue
        trial = alternate(run, labels, tol=tol, fit=run.fit(labels, fit, tol))
        # Most blocks fall back at once to where small moves were tried before.
        fresh = labelling_key(run, trial.labels) not in seen
        seen |= {labelling_key(run, labels), labelling_key(run, trial.labels)}
        if fresh and trial.value < ESCAPE_CEILING * abs(fit.value):
            trial = _descend(run, trial, rounds, tries, tol)
            seen.add(labelling_key(run, trial.labels))
        if trial.value < fit.value - 1e-6 * abs(fit.value):
            return trial
    return None


def _escapes(run: Run, fit: Fit, blocks: int, tol: float) -> Iterator[IntArray]:
    """Yield labellings of B to go on from: reheated ones, then block moves."""
    for start in REHEATS:
        yield continue_weights(run, fit.labels, weight_factors(2, start), tol).labels
    yield from block_moves(run, fit, blocks)


def _neighbours(run: Run, fit: Fit, tries: int) -> Iterator[IntArray]:
    """Yield the labellings that the most promising moves lead to."""
    for components in candidate_moves(run, fit, tries):
        yield _flipped(run, fit, components)


def _flipped(run: Run, fit: Fit, components: IntArray) -> IntArray:
    """Return the labels with some components flipped."""
    sign = np.ones(run.program.labels.count, dtype=fit.labels.dtype)
    sign[components] = -1
    return sign[run.program.labels.component] * fit.labels
