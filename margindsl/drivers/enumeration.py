"""Exact solution of small problems: enumeration pruned by a pool of dual points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.contract import Status
from margindsl.drivers.run import Run
from margindsl.program.certificates import Certificate
from margindsl.program.equalities import project_duals
from margindsl.program.exhaustion import certify_pool, members, pool_bounds
from margindsl.program.passes import Answer
from margindsl.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Enumerated:
    """Represent the end of an enumeration: the best fit and a proof for everything examined."""

    fit: Answer
    certificate: Certificate | None
    status: Status


def enumerate_labels(run: Run, tol: float = 1e-9) -> Enumerated:
    """Return the best labelling of an enumerable B with a certificate.

    Labellings are examined in the order of their best dual bound over a pool of dual points; one whose
    bound reaches the incumbent needs no solve. Every solve adds its dual point to the pool; it begins from the fit that
    gave the labelling its bound, and ends where its own reaches the incumbent.

    Parameters
    ----------
    run : Run
        Of coded margins, the bias within limits, without decision bounds on weights: elsewhere duals do not carry over.
    tol : float
        Relative gap at which a labelling counts as excluded.
    """
    labellings = members(run.program)
    bounds = np.full(len(labellings), -np.inf)
    pool: list[FloatArray] = []
    fits: list[Answer] = []
    nearest = np.zeros(len(labellings), dtype=int)  # of the pool, whose bound is the best
    status = Status.OPTIMAL
    while True:
        target = np.inf if run.best is None else run.best.value - tol * abs(run.best.value)
        index = int(np.argmin(bounds))
        if bounds[index] >= target:
            break
        if len(pool) >= (run.budget.max_iter or np.inf):  # fixed-label solves
            status = Status.ITERATION_LIMIT
            break
        before = bounds[index]
        for cutoff in (target, np.inf):  # a dual point may be worth less once it pays for scalars
            fit = run.fit(labellings[index], fits[nearest[index]] if fits else None, tol / 10, cutoff=cutoff)
            u = project_duals(run.program.losses, run.program.fix_labels(fit.labels).duals(fit.raw))
            proved = pool_bounds(run.program, u[None, :], labellings)
            nearest[proved > bounds] = len(pool)
            bounds = np.fmax(bounds, proved)
            pool.append(u)
            fits.append(fit)
            if short := bounds[index] < min(target, fit.value - 10 * tol * abs(fit.value)):
                continue
            break
        if (short or not bounds[index] > before) and not run.budget.expired:
            status = Status.INACCURATE
            if bounds[index] == before:
                break
        if run.record("enumeration", len(pool), run.best.value if run.best else np.inf, float(bounds.min())):
            status = Status.INTERRUPTED
            break
        if run.budget.expired:
            status = Status.TIME_LIMIT
            break
    assert run.best is not None
    certificate = certify_pool(run.program, pool, float(bounds.min())) if pool else None
    return Enumerated(run.best, certificate, status)
