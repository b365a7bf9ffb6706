"""Duals of rows moved to where they prove something: into the domains of conjugates, paying for shared scalars."""

from __future__ import annotations

import numpy as np
import scipy

from margindsl.accuracy import EPS, greatest_ratio
from margindsl.typing import FloatArray

FEASIBLE = 1e-12  # residual of dual equalities, relative to their parts, that is rounding


def project_duals(losses, u: FloatArray) -> FloatArray:  # type: ignore[no-untyped-def]
    """Return row duals inside the domain of the conjugates and on the equalities Σ b u = q.

    Parameters
    ----------
    losses : Losses
    u : (m,) float array
    """
    u = _clip_duals(losses, u)
    q, B = losses.scalars.costs, losses.coupling
    if not losses.scalars.count:
        return u
    for _ in range(500):  # alternating projections, slow where most duals are at an end of their domain
        slack = q - B.T @ u
        slack = np.where(losses.scalars.nonneg, np.minimum(slack, 0.0), slack)
        if greatest_ratio(slack, np.abs(q) + np.abs(B).T @ np.abs(u)) <= 2.0 * EPS:
            break
        if losses.scalars.count == 1 and (B.T @ u)[0] * q[0] > 0:
            u = _clip_duals(losses, u * (q[0] / (B.T @ u)[0]))
            continue
        u = _clip_duals(losses, u + B @ np.linalg.lstsq(B.T @ B, slack, rcond=None)[0])
    return u


def _clip_duals(losses, u: FloatArray) -> FloatArray:  # type: ignore[no-untyped-def]
    u = np.where(losses.weights > 0, u, 0.0)
    for (term, part), conjugate in zip(losses.slices(), losses.conjugates):
        lower, upper = conjugate.domain
        c = term.weights
        u[part] = -c * np.clip(-np.divide(u[part], c, out=np.zeros_like(c), where=c > 0), lower, upper)
    return u


def can_pay(losses) -> bool:  # type: ignore[no-untyped-def]
    """Return whether some duals in the domains pay for the scalars, without which no value is bounded below.

    Parameters
    ----------
    losses : Losses
    """
    c, free = losses.weights, ~np.asarray(losses.scalars.nonneg, dtype=bool)
    ends = [(-conjugate.domain[1], -conjugate.domain[0])
            for term, conjugate in zip(losses.terms, losses.conjugates) for _ in range(term.rows)]
    rows = losses.coupling.T * c  # of duals over their weights
    sizes = np.maximum(np.max(np.abs(rows), axis=1, initial=0.0), np.abs(losses.scalars.costs))
    sizes[sizes == 0] = 1.0
    rows, costs = rows / sizes[:, None], losses.scalars.costs / sizes
    found = scipy.optimize.linprog(np.zeros(len(c)), A_ub=rows[~free], b_ub=costs[~free], A_eq=rows[free],
                                   b_eq=costs[free], bounds=ends, method="highs")
    return bool(found.status != 2)


def proves(losses, u: FloatArray) -> bool:  # type: ignore[no-untyped-def]
    """Return whether duals are in the domains and pay for the scalars but for rounding.

    Parameters
    ----------
    losses : Losses
    u : (m,) float array
    """
    return bool(np.isfinite(losses.conjugate_value(u)) and losses.scalar_residual(u) <= FEASIBLE)


__all__ = ["FEASIBLE", "can_pay", "project_duals", "proves"]
