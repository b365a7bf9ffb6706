"""Large moves of a local search over several clusters: two are merged and one is split, or the two shared anew."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from margindsl.drivers.means import k_means
from margindsl.drivers.run import Run
from margindsl.drivers.starts import distinct
from margindsl.program.passes import Answer
from margindsl.typing import FloatArray, IntArray

ROUNDS = 10  # of k-means with two centres


def regroupings(run: Run, fit: Answer, keep: int) -> list[IntArray]:
    """Return labellings of B in which two clusters are merged and one is split, those first that keep clusters tight.

    The cluster that is split by k-means is a third one, or the two that were merged. Labellings are ranked by how much
    the squared distances of points to the means of their clusters grow.

    Parameters
    ----------
    keep : int
        Most labellings returned.
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
