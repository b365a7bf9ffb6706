"""Proofs by enumeration of small label sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from margindsl.program.certificates import Certificate
from margindsl.program.equalities import project_duals
from margindsl.program.forms import code_rows
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray

CHUNK = 4096


def members(program: MarginProgram) -> IntArray:
    """Return the (M, n) labellings of B that may differ in value: one of y and −y unless the bias tells them apart."""
    labels = program.labels
    found = np.concatenate([np.empty((0, labels.n), np.int8), *(block.astype(np.int8) for block in labels.blocks())])
    return found[labels.oriented(found)] if all(bound.is_symmetric for bound in program.decision) else found


def pool_bounds(program: MarginProgram, pool: FloatArray, labellings: IntArray) -> FloatArray:
    """Return (M,) the largest of the dual values G(u, y) over a pool of duals, for every labelling.

    `program`: of coded margins (`MarginProgram.bounding`), its bias within limits; other bounds on decision values are
    of no use; `pool` (P, m): row duals inside the domain of the conjugates.
    """
    best = np.full(len(labellings), -np.inf)
    for u in pool:
        linear = -program.losses.conjugate_value(u)
        scatter, free = program.losses.scatter(u), program.losses.scatter_turned(u)
        for block in (slice(start, start + CHUNK) for start in range(0, len(labellings), CHUNK)):
            costs = coded_costs(program, labellings[block], scatter, free)
            best[block] = np.maximum(best[block], linear - 0.5 * costs)
    return best


def coded_costs(program: MarginProgram, labellings: IntArray, scatter: FloatArray,
                free: FloatArray | float = 0.0) -> FloatArray:
    """Return ‖Σ_i s_i φ_i c(y_i)ᵀ‖² + 2 max ⟨b, Σ_i s_i c(y_i)⟩ (M,), of coded margins at duals s (n,) and labellings.

    Duals without label (n,) of two clusters are added to s_i c(y_i).
    """
    rows = code_rows(labellings, program.label_codes)
    V, gauge = program.features.adjoint((rows * scatter + free).T), program.gauge
    if gauge is None:
        costs = np.sum(V**2, axis=0).reshape(len(labellings), -1).sum(axis=1)
    else:
        costs = 2.0 * gauge.conjugate(gauge.squares(V).reshape(gauge.count + 1, len(labellings), -1).sum(axis=2))
    if not program.is_biased:
        return costs
    return costs + 2.0 * program.bias.support((rows @ scatter + np.sum(free)).reshape(len(labellings), -1))


def certify_pool(program: MarginProgram, pool: Sequence[FloatArray], bound: float | None = None) -> Certificate:
    """Return the certificate of dual points (m,), of which the best proves a labelling of an enumerable B.

    Where the bound is left out it is min over y of max over the pool of G(u, y).
    """
    points = np.stack([project_duals(program.losses, u) for u in pool])
    if bound is None:
        bound = float(pool_bounds(program, points, members(program)).min())
    return Certificate(bound, kind="pool", arrays={"u": np.stack([program.losses.point_duals(u) for u in points])},
                       words=f"{len(points)} dual points that cover every labelling of B (enumerated)")
