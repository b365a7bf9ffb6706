"""Limited-memory quasi-Newton descent that can be stopped by budget or tolerance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from margindsl.contract import Budget, Status
from margindsl.typing import FloatArray

Oracle = Callable[[FloatArray], tuple[float, FloatArray]]


class _Stop(Exception):
    """Leave the descent from inside its objective."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Represent the end of a descent: the best point, its value, evaluations, how it ended."""

    point: FloatArray
    value: float
    evaluations: int
    status: Status


def descend(oracle: Oracle, start: FloatArray, budget: Budget, tol: float, most: int, memory: int = 15,
            lower: FloatArray | None = None) -> Descent:
    """Minimise a function of an array by L-BFGS.

    Parameters
    ----------
    oracle : callable
        Returns value and gradient at an array of the shape of `start`.
    budget : Budget
        Its deadline is honoured at every evaluation.
    tol : float
        Relative decrease at which to stop.
    most : int
        Most iterations.
    memory : int
        Pairs kept.
    lower : array, optional
        Lower bounds of the entries, −inf where there is none.
    """
    shape = start.shape
    best: list = [np.inf, start, 0, Status.CONVERGED]

    def evaluate(x: FloatArray) -> tuple[float, FloatArray]:
        if best[2] and budget.expired:
            best[3] = Status.TIME_LIMIT
            raise _Stop
        value, gradient = oracle(x.reshape(shape))
        best[2] += 1
        if value < best[0]:
            best[0], best[1] = value, x.reshape(shape).copy()
        return value, gradient.ravel()

    try:
        bounds = None if lower is None else scipy.optimize.Bounds(lower.ravel(), np.inf)
        result = scipy.optimize.minimize(evaluate, start.ravel(), jac=True, method="L-BFGS-B", bounds=bounds,
                          options={"maxiter": most, "maxcor": memory, "ftol": tol, "gtol": 0.0, "maxfun": 4 * most})
        if result.nit >= most:
            best[3] = Status.ITERATION_LIMIT
    except _Stop:
        pass
    return Descent(best[1], float(best[0]), best[2], best[3])
