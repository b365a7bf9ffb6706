"""The dense quadratic programme of a cutting-plane dual, by a primal-dual interior point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs

from margindsl.typing import FloatArray

STEPS = 80
ROUNDED, ASTRAY = 1e-12, 5  # errors that may be rounding; steps that do not halve them, as none can or as they cycle
SHORT = 0.1  # share of a step below which it is replaced by a centring one
BACK = 0.995  # share of the way to the boundary a step may go


def minimise(Q: FloatArray, c: FloatArray, E: FloatArray, e: FloatArray,
             accuracy: float = 1e-12) -> tuple[FloatArray, FloatArray, float]:
    """Minimise ½ zᵀQz + cᵀz subject to Ez = e and z ≥ 0.

    Shapes: `Q` (N, N), `c` (N,), `E` (k, N), `e` (k,).

    Parameters
    ----------
    accuracy : float
        Complementarity zᵀs to reach, in units of the objective.

    Returns
    -------
    (z, y, error)
        The point, multipliers with Qz + c − Eᵀy ≥ 0, and the violation of the constraints relative to the data;
        a large one says that there is no feasible point.

    Examples
    --------
    >>> z, y, error = minimise(np.eye(2), np.array([0.0, 1.0]), np.ones((1, 2)), np.ones(1))
    >>> z.round(6).tolist(), y.round(6).tolist(), error < 1e-8
    ([1.0, 0.0], [1.0], True)
    """
    # In these units all rows of the primal programme are about as steep. A cut of any slope g says as much as a
    # half-space of unit normal: beside steep cuts, taken far out where losses are squared, those that count would be
    # lost in rounding. The weights of cuts that are flat, below the root of the values or flatter than all others, keep
    # the unit of the first equality, their simplex; rows that are no cuts are not in it.
    steep = np.sqrt(np.maximum(np.diag(Q), 0.0))
    size, cuts = np.hypot(steep, np.linalg.norm(E, axis=0)), E[0] != 0
    flat = max(float(np.sqrt(np.ptp(c[cuts]))), float(np.min(steep[cuts & (steep > 0)], initial=np.inf)))
    width = np.asarray(1.0 / np.where(cuts, np.maximum(steep / flat, 1.0), np.where(size > 0, size, 1.0)))
    Q, c, E = Q * np.outer(width, width), c * width, E * width
    unit = max(1e-300, float(np.abs(c).max()), float(np.diag(Q).max()))
    height = np.maximum(np.abs(E).max(axis=1), 1e-300)
    Q, c, E, e = Q / unit, c / unit, E / height[:, None], e / height
    goal = min(accuracy / unit, 1e-7)
    z, s, y = np.full(len(c), 1.0 / len(c)), np.ones(len(c)), np.zeros(len(e))
    best, least, error, astray = (z, y), np.inf, np.inf, 0
    for _ in range(STEPS):
        dual, primal, complement = Q @ z + c - E.T @ y - s, E @ z - e, float(z @ s)
        outside, slack = float(np.abs(primal).max()), float(np.abs(dual).max())
        astray = 0 if complement + outside + slack < 0.5 * least else astray + 1
        if complement + outside + slack < least:
            best, least, error = (z, y), complement + outside + slack, outside + slack
        if (least <= ROUNDED and astray >= ASTRAY) or (
                complement <= goal and outside <= ROUNDED and slack <= max(goal, ROUNDED)):
            break
        try:
            newton = _factor(Q, E, z, s, dual, primal)
        except LinAlgError:
            break
        # Mehrotra's direction and its length
        dz, ds, _ = newton(-z * s)
        reach = min(1.0, _reach(z, dz), _reach(s, ds))
        ahead, mu = max(0.0, float((z + reach * dz) @ (s + reach * ds)) / len(z)), complement / len(z)
        # The second-order term holds for a whole step; weighted by the length it cycles less.
        dz, ds, dy = newton((ahead / mu) ** 3 * mu - z * s - reach**2 * dz * ds)
        reach = _length(z, s, dz, ds)
        if reach < SHORT or astray >= ASTRAY:
            # Off the central path a corrected step jams at the boundary, or cycles: go back to the path first.
            dz, ds, dy = newton(0.5 * complement / len(z) - z * s)
            reach = _length(z, s, dz, ds)
        if not (reach > 1e-10 and np.all(np.isfinite(dz)) and np.all(np.isfinite(ds))):
            break
        z, s, y = z + reach * dz, s + reach * ds, y + reach * dy
    z, y = best
    return z * width, y * unit / height, error


def _factor(Q: FloatArray, E: FloatArray, z: FloatArray, s: FloatArray, dual: FloatArray,
            primal: FloatArray) -> Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]:
    """Return the map from a target of z∘s to the Newton direction (dz, ds, dy)."""
    H = Q.copy()
    H.flat[:: len(H) + 1] += s / z + 1e-15
    solve = _solver(H)
    across = solve(E.T) if len(E) else E.T
    small = E @ across
    small.flat[:: len(small) + 1] *= 1.0 + 1e-14
    border = _solver(small) if len(E) else None

    def newton(target: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        free = solve(target / z - dual)
        dy = primal if border is None else border(-primal - E @ free)
        dz = free + across @ dy
        return dz, (target - s * dz) / z, dy

    return newton


def _solver(H: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return the map from right-hand sides b to H⁻¹b; H is overwritten. LAPACK itself: most systems are small."""
    factor, wrong = dpotrf(H.T, overwrite_a=1, clean=0)
    if wrong:
        raise LinAlgError
    return lambda b: np.asarray(dpotrs(factor, b)[0])


def _length(z: FloatArray, s: FloatArray, dz: FloatArray, ds: FloatArray) -> float:
    return min(1.0, BACK * _reach(z, dz), BACK * _reach(s, ds))


def _reach(z: FloatArray, dz: FloatArray) -> float:
    return 1.0 / max(float((-dz / z).max(initial=0.0)), 1e-10)
