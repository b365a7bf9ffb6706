"""The relaxed label matrix, ordered by cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.plots.canvas import BESIDE, axes_of

DRAWN = 2_000  # points above which a sample is drawn


def label_matrix(solution: Any, ax: Any = None) -> Any:
    """Draw the label matrix of a relaxation with the points ordered by cluster and decision value.

    Blocks of plain colour are points the relaxation is sure of; what is pale it leaves open.

    Parameters
    ----------
    solution : Solution
        Of `sdp`, or of `minimax`, whose labellings are mixed.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DeclarationError
        If the relaxation has no label matrix.
    """
    sides = solution.decision if solution.decision.ndim == 1 else solution.decision.max(axis=1)
    order = np.lexsort((sides, solution.labels))
    order = order[:: -(-len(order) // DRAWN)]
    if solution.label_factor is not None:
        matrix = solution.label_factor[order] @ solution.label_factor[order].T
    elif solution.label_weights is not None:
        rows, weights = solution.label_weights[0][:, order], solution.label_weights[1]
        apart = -1.0 / (solution.clusters - 1)  # of unit codes, signs among them
        matrix = sum(w * np.where(row[:, None] == row, 1.0, apart) for row, w in zip(rows, weights))
    else:
        raise DeclarationError(f"{solution.relaxation!r} has no label matrix; 'sdp' and 'minimax' have one")
    ax = axes_of(ax)
    # Blue to orange through white, for every kind of colour vision (matplotlib's PuOr).
    image = ax.imshow(matrix, cmap="PuOr_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    for edge in np.flatnonzero(np.diff(solution.labels[order])) + 0.5:
        ax.axhline(edge, color=BESIDE, linewidth=0.6)
        ax.axvline(edge, color=BESIDE, linewidth=0.6)
    ax.figure.colorbar(image, ax=ax, label="relaxed y y'")
    ax.set(xlabel="points by cluster", ylabel="points by cluster")
    return ax
