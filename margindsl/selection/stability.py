"""How many clusters: the number whose clusters come again when other points are drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from margindsl.drivers.means import best_k_means, centres_of, k_means
from margindsl.errors import DeclarationError
from margindsl.features import build
from margindsl.features.points import is_lazy
from margindsl.typing import ArrayLike, FloatArray, IntArray, RandomState
from margindsl.views.notebook import Tabled
from margindsl.views.plots import stability

MOST = 12  # clusters that are tried unasked
SPLITS = 6
SAMPLE = 1000  # points that are looked at
RUNS = 3  # of k-means on a half
LOST = 2.0  # what a lost nat costs; of 1, 1.5, 2, 2.5, 3 and 4 on half A of tests/bench/bench_number.py


@dataclass(frozen=True, eq=False)
class Stability(Tabled):
    """Represent how far clusterings into different numbers of clusters come again in other points.

    Parameters
    ----------
    numbers : tuple of int
        Of clusters, in rising order.
    kept, lost : (numbers, splits) float arrays
        In nats: what the clusters of one half say about those of the other, and what they leave open.
    agreement : (numbers, splits) float array
        Adjusted Rand index of the two.
    """

    numbers: tuple[int, ...]
    kept: FloatArray
    lost: FloatArray
    agreement: FloatArray

    @property
    def scores(self) -> FloatArray:
        """Return the mean of kept − 2 lost over the splits, of every number: 0 of one cluster."""
        return np.asarray((self.kept - LOST * self.lost).mean(axis=1))

    @property
    def clusters(self) -> int:
        """Return the number of clusters of the greatest score, of equal ones the least."""
        return self.numbers[int(np.argmax(self.scores))]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, a row a number of clusters."""
        import pandas as pd

        means = {name: getattr(self, name).mean(axis=1) for name in ("kept", "lost", "agreement")}
        deviation = (self.kept - LOST * self.lost).std(axis=1)
        return pd.DataFrame({"clusters": self.numbers, "score": self.scores, "deviation": deviation, **means,
                             "chosen": ["*" if k == self.clusters else "" for k in self.numbers]})

    def plot(self, ax: Any = None) -> Any:
        """Draw scores and agreement against the number of clusters; returns the matplotlib axes."""
        return stability(self, ax)

    def cells(self) -> tuple[list[str], list[list[str]]]:
        frame = self.to_frame()
        return list(frame), [[cell if isinstance(cell, str) else f"{cell:.2f}" if isinstance(cell, float) else str(cell)
                              for cell in row] for row in frame.itertuples(index=False)]

    def __repr__(self) -> str:
        return f"Stability({self.clusters} of {self.numbers[0]} to {self.numbers[-1]} clusters)"


def select_clusters(X: Any, clusters: int | Iterable[int] = MOST, clusterer: Any = None, *, splits: int = SPLITS,
                    random_state: RandomState = 0) -> Stability:
    """Choose the number of clusters by stability.

    Points are halved at random several times. Both halves are clustered, and the clusters of the first are carried over
    to the second. The score of a number of clusters is the mean of I − 2 H: I is the information, in nats, that carried
    clusters hold about the clusters of the second half, H what they leave open of these, each without its bias in small
    tables (Miller 1955). Clusters that are not there come out differently in the halves and cost more than they say;
    fewer than there are say less. One cluster has the score 0.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
        Of more than 1,000 points a sample is looked at.
    clusters : int or iterable of int
        The most clusters to try, from one on and to n / 4, or the numbers to try.
    clusterer : estimator, optional
        Of scikit-learn, with `n_clusters`, `fit` and `predict`, such as `MarginClusterer()`; k-means if not given.
    splits : int
    random_state : int, numpy Generator or None

    Returns
    -------
    Stability
        `clusters` is the number chosen; prints as a table.

    Raises
    ------
    DeclarationError
        If there is no number to try, or a half has fewer points than clusters.

    References
    ----------
    T. Lange, V. Roth, M. L. Braun, J. M. Buhmann (2004). Stability-based validation of clustering solutions: the
    halves. G. A. Miller (1955). Note on the bias of information estimates.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(200, centers=4, cluster_std=0.5, random_state=3)
    >>> select_clusters(X).clusters
    4
    """
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    tried: Any = range(1, int(clusters) + 1) if isinstance(clusters, Integral) else clusters
    try:
        tried = list(tried)
        numbers = sorted({int(k) for k in tried}) if all(k == int(k) for k in tried) else []
    except (TypeError, ValueError):
        numbers = []
    if not numbers or numbers[0] < 1 or isinstance(clusters, bool):
        raise DeclarationError(f"clusters={clusters!r}: expected the most clusters to try, or whole numbers from 1 on")
    if isinstance(splits, bool) or not isinstance(splits, (int, np.integer)) or splits < 1:
        raise DeclarationError(f"splits={splits!r}: expected a whole number of at least 1")
    if clusterer is not None and not (hasattr(clusterer, "predict") and hasattr(clusterer, "get_params")
                                      and not isinstance(clusterer, type)):
        raise DeclarationError(f"clusterer={clusterer!r}: expected an estimator of scikit-learn with fit and predict, "
                               "such as KMeans()")
    if isinstance(clusters, Integral):
        numbers = [k for k in numbers if k <= max(1, n // 4)]
    if numbers[-1] > max(1, n // 2):
        raise DeclarationError(f"{numbers[-1]} clusters of {n} points: each half of the points needs as many as "
                               "clusters; try fewer")
    X = X.tocsr() if hasattr(X, "tocsr") else X
    rng = np.random.default_rng(random_state)
    drawn = np.sort(rng.choice(n, min(n, SAMPLE), replace=False))
    points = X.iloc[drawn] if hasattr(X, "iloc") else (X if hasattr(X, "shape") else np.asarray(X))[drawn]
    points = np.asarray(points) if is_lazy(points) else points
    points = build(points, "linear") if clusterer is None else points
    found = np.zeros((3, len(numbers), splits))
    for split in range(splits):
        order = rng.permutation(len(drawn))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        for row, k in enumerate(numbers):
            if k > 1:
                found[:, row, split] = _agreement(*_halves(points, halves, k, clusterer, rng))
            else:
                found[2, row, split] = 1.0
    return Stability(tuple(numbers), *found)


def _halves(points: Any, halves: tuple[IntArray, IntArray], k: int, clusterer: Any,
            rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the clusters of the second half: those carried over from the first, and its own."""
    if clusterer is None:
        first, second = points.take(halves[0]), points.take(halves[1])
        centres = centres_of(first, best_k_means(first, k, rng, RUNS).argmax(axis=1), k)[0]
        carried = k_means(second, k, rng, 0, centres).argmax(axis=1)
        return carried, best_k_means(second, k, rng, RUNS).argmax(axis=1)
    from sklearn.base import clone

    first, second = (points.iloc[half] if hasattr(points, "iloc") else points[half] for half in halves)
    models = [clone(clusterer).set_params(n_clusters=k).fit(half) for half in (first, second)]
    return np.asarray(models[0].predict(second)), np.asarray(models[1].predict(second))


def _agreement(carried: ArrayLike, own: ArrayLike) -> tuple[float, float, float]:
    """Return what carried clusters say about own ones, what they leave open, and the adjusted Rand index."""
    from sklearn.metrics import adjusted_rand_score
    from sklearn.metrics.cluster import contingency_matrix

    share = contingency_matrix(own, carried)
    n = share.sum()
    share = share / n
    rows, columns = share.sum(axis=1), share.sum(axis=0)
    there = share > 0
    kept = float(np.sum(share[there] * np.log((share / np.outer(rows, columns))[there])))
    kept -= (len(rows) - 1) * (len(columns) - 1) / (2 * n)
    return kept, float(-rows @ np.log(rows)) - kept, float(adjusted_rand_score(own, carried))
