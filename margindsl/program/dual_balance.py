"""Duals of rows moved to where they prove something: into the domains of conjugates, paying for shared scalars."""

from __future__ import annotations

import numpy as np

from margindsl.accuracy import EPS, greatest_ratio
from margindsl.typing import FloatArray


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


__all__ = ["project_duals"]
