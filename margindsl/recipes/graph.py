"""The graph of nearest neighbours of a manifold term."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.errors import DeclarationError


def neighbour_graph(X: Any, neighbours: int) -> Any:
    """Return the (n, n) sparse 0/1 matrix with i ~ j when either is among the nearest of the other.

    Shapes: `X` (n, d).

    Parameters
    ----------
    neighbours : int
        From 1 to n − 1.
    """
    from sklearn.neighbors import kneighbors_graph

    if X is None:
        raise DeclarationError("X=None: neighbours are found among points; without them give graph=, an (n, n) matrix "
                               "of weights or a networkx graph")
    X = X if hasattr(X, "tocsr") else np.asarray(X, dtype=float)
    n = X.shape[0]
    if isinstance(neighbours, bool) or not isinstance(neighbours, (int, np.integer)) or not 1 <= neighbours < n:
        raise DeclarationError(f"neighbours={neighbours!r} for {n} points; expected an integer from 1 to {n - 1}")
    one_way = kneighbors_graph(X, int(neighbours), mode="connectivity", include_self=False)
    return one_way.maximum(one_way.T)
