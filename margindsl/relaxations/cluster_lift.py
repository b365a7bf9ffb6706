"""The label lift of k clusters: simplex codes and their least inner products."""

from __future__ import annotations

import numpy as np

from margindsl.contract import Refusal
from margindsl.errors import CalculusError
from margindsl.program.bounds import QuadraticBound
from margindsl.program.cuts import MatrixCuts
from margindsl.program.moment import MomentLiftForm
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray

LARGEST_PRODUCTS = 3000  # components up to which all inner products are looked at


def refuse_clusters(program: MarginProgram) -> Refusal | None:
    """Return why k clusters cannot be lifted, or None."""
    try:
        program.bounding  # noqa: B018  (computed once and kept)
    except CalculusError as error:
        return Refusal(str(error), "Use relaxation='alternating', or a loss such as md.hinge or md.odm")
    return None


def lift_clusters(program: MarginProgram) -> MomentLiftForm:
    """Return the label lift of k clusters: M_CD ≥ −1/(k−1) in rounds of cuts, equal where clusters must differ.

    Components known to lie in one cluster are merged. Sizes enter through the largest ‖Σ_i c_{y_i}‖² they admit.
    """
    labels = program.labels
    component, pinned = _merged(np.asarray(labels.component), np.asarray(labels.pinned))
    count = int(component.max()) + 1
    sizes = np.bincount(component, minlength=count).astype(float)
    to_merged = np.zeros(labels.count, dtype=int)
    to_merged[labels.component] = component
    apart = _pairs_apart(to_merged[np.asarray(labels.cannot)], pinned)
    squared = float(labels.size_radius_squared())
    balance = (QuadraticBound(sizes, float(np.sqrt(squared))),) if squared < program.n**2 * (1 - 1e-12) else ()
    cuts = MatrixCuts.codes(labels.clusters, apart[:, 0], apart[:, 1], np.ones(len(apart), dtype=bool))
    return MomentLiftForm(
        program.features, program.bounding.losses, component, np.ones(program.n, dtype=int), count, balance,
        None, cuts=cuts, moments=False, decision=program.bounding.lifted_decision, free_bias=program.free_bias)


def _merged(component: IntArray, pinned: IntArray) -> tuple[IntArray, IntArray]:
    """Return components with those of one known cluster joined, numbered anew, and the clusters of the pinned ones."""
    names = np.where(pinned >= 0, -1 - pinned, np.arange(len(pinned)))
    kept, number = np.unique(names, return_inverse=True)
    clusters = np.where(kept < 0, -1 - kept, -1)
    return number[component], clusters


def _pairs_apart(cannot: IntArray, pinned: IntArray) -> IntArray:
    """Return the (m, 2) pairs i < j of components in different clusters: linked so, or known."""
    known = np.flatnonzero(pinned >= 0)
    rows, columns = np.triu_indices(len(known), 1)
    pairs = np.vstack([np.sort(cannot.reshape(-1, 2), axis=1), np.column_stack([known[rows], known[columns]])])
    return np.unique(pairs, axis=0).reshape(-1, 2)


def violated_products(V: FloatArray, clusters: int, most: int, tol: float = 1e-4) -> MatrixCuts:
    """Return the entries of VVᵀ furthest below −1/(k−1).

    Parameters
    ----------
    V : (N, p) float array
        Unit rows.
    clusters : int
        The number k of clusters.
    most : int
        Most cuts returned.
    tol : float
        Violation of (k−1) M_ij ≥ −1 that is passed over.
    """
    rows_, columns_, depth_ = [], [], []
    for start in range(0, len(V), 512):
        products = (clusters - 1.0) * (V[start:start + 512] @ V.T)
        rows, columns = np.nonzero(products < -1.0 - tol)
        keep = rows + start < columns
        rows, columns = rows[keep], columns[keep]
        depth = products[rows, columns]
        if len(depth) > most:
            chosen = np.argpartition(depth, most)[:most]
            rows, columns, depth = rows[chosen], columns[chosen], depth[chosen]
        rows_.append(rows + start)
        columns_.append(columns)
        depth_.append(depth)
    order = np.argsort(np.concatenate(depth_), kind="stable")[:most]
    return MatrixCuts.codes(clusters, np.concatenate(rows_)[order], np.concatenate(columns_)[order],
                            np.zeros(len(order), dtype=bool))
