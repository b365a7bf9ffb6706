"""Agreement of a clustering with given classes."""

from __future__ import annotations

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.typing import ArrayLike


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
        If the lengths differ.

    Examples
    --------
    >>> clustering_accuracy(["a", "a", "b"], [1, 1, -1])
    1.0
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.sparse import coo_array

    truth, labels = np.asarray(truth), np.asarray(labels)
    if truth.shape != labels.shape or truth.ndim != 1:
        raise DeclarationError(f"truth of shape {truth.shape} against labels of shape {labels.shape}")
    _, classes = np.unique(truth, return_inverse=True)
    _, clusters = np.unique(labels, return_inverse=True)
    table = coo_array((np.ones(len(labels)), (classes, clusters))).toarray()
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / len(labels))
