"""Agreement of a clustering with given classes."""

from __future__ import annotations

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.typing import ArrayLike, FloatArray, IntArray


def clustering_accuracy(truth: ArrayLike, labels: ArrayLike) -> float:
    """Return the share of points in the right cluster under the best one-to-one matching.

    Clusters are matched with classes by the Hungarian algorithm (Xu et al. 2005).

    Parameters
    ----------
    truth : (n,) array of any type
        Class of each point.
    labels : (n,) array of any type
        Cluster of each point.

    Raises
    ------
    DeclarationError
        If the lengths differ, there are no points, or a point has no class.

    Examples
    --------
    >>> clustering_accuracy(["a", "a", "b"], [1, 1, -1])
    1.0
    """
    table = _contingency(truth, labels)
    return _best_matching(table) / float(table.sum())


def balanced_error(truth: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean over classes of the share of their points outside the cluster matched with them.

    For two classes it is (Err⁺ + Err⁻)/2 under the better of the two matchings; with k classes the matching
    minimises the mean of the k error rates. A constant labelling of two classes has the value 1/2.

    Classes, clusters and errors are those of `clustering_accuracy`.

    References
    ----------
    The sparse kernel maximum margin clustering (SKMMC) paper, Eq. 31.

    Examples
    --------
    >>> balanced_error(["a", "a", "a", "a", "b", "b"], [1, 1, 1, 0, 0, 0])
    0.125
    """
    table = _contingency(truth, labels)
    return 1.0 - _best_matching(table / table.sum(axis=1, keepdims=True)) / len(table)


def _codes(truth: ArrayLike, labels: ArrayLike) -> tuple[IntArray, IntArray]:
    truth, labels = np.asarray(truth), np.asarray(labels)
    if truth.shape != labels.shape or truth.ndim != 1:
        raise DeclarationError(f"truth of shape {truth.shape} against labels of shape {labels.shape}; expected one "
                               "class and one cluster a point")
    if not len(labels):
        raise DeclarationError("no points: expected at least one class and one cluster")
    return _numbered("truth", truth), _numbered("labels", labels)


def _numbered(name: str, classes: FloatArray) -> IntArray:
    missing = np.array([value is None or type(value).__name__ == "NAType" or value != value
                        for value in classes.tolist()])
    if missing.any():
        raise DeclarationError(f"{name}[{int(missing.argmax())}] is {classes[missing.argmax()]}, expected a class for "
                               "every point; leave points without one out")
    try:
        return np.unique(classes, return_inverse=True)[1]
    except TypeError:
        raise DeclarationError(f"{name}: expected classes of one type, which can be put in order") from None


def _contingency(truth: ArrayLike, labels: ArrayLike) -> FloatArray:
    """Return the (classes, clusters) table of counts."""
    classes, clusters = _codes(truth, labels)
    table = np.zeros((classes.max() + 1, clusters.max() + 1))
    np.add.at(table, (classes, clusters), 1.0)
    return table


def _best_matching(table: FloatArray) -> float:
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum())
