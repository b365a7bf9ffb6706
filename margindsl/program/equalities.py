"""Dual points moved onto the equalities of shared scalars and of a free bias, inside the domains of the conjugates."""

from __future__ import annotations

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.program.losses import Losses
from margindsl.typing import BoolArray, FloatArray

FEASIBLE = 1e-12  # residual of dual equalities, relative to their parts, that is rounding
STEPS, HALVINGS = 50, 30  # of Newton's method and of its line search; a problem of few equalities takes fewer than ten


def dual_limits(losses: Losses) -> tuple[FloatArray, FloatArray]:
    """Return the (m,) limits of row duals u = −c z, z in the domains of the conjugates."""
    lower, upper = np.zeros((2, losses.rows))
    for term, part in losses.slices():
        for limit, end in ((lower, term.conjugate.domain[1]), (upper, term.conjugate.domain[0])):
            limit[part] = -np.multiply(term.weights, end, out=np.zeros_like(term.weights), where=term.weights > 0)
    return lower, upper


def onto_equalities(v: FloatArray, limits: tuple[FloatArray, FloatArray], columns: FloatArray, target: FloatArray,
                    at_most: BoolArray) -> FloatArray:
    """Return the x within limits with Eᵀx = t (or ≤ t) that is nearest to v, or as near to the equalities as can be.

    Entries move in proportion to how far they are from the nearer limit, without limits to their size, so that all
    of one sign are scaled and those at a limit, where complementarity has them, stay; where that does not do, in
    proportion to the room between their limits. The multipliers maximise a concave, piecewise quadratic dual.

    Parameters
    ----------
    limits : two (m,) float arrays
        Infinite ones included.
    columns : (m, S) float array
        E.
    target : (S,) float array
        t.
    at_most : (S,) bool array
        Where Eᵀx ≤ t is enough; an inequality that v violates counts as an equality.

    Examples
    --------
    >>> import numpy as np
    >>> onto_equalities(np.array([1.0, 3.0, 0.0]), (np.zeros(3), np.full(3, 8.0)), np.ones((3, 1)), np.array([2.0]),
    ...                 np.array([False]))
    array([0.5, 1.5, 0. ])
    """
    lower, upper = limits
    v = np.clip(v, lower, upper)
    if not len(target):
        return v
    room = upper - lower
    finite = np.isfinite(room)
    near = np.minimum(*(np.where(np.isfinite(end), np.abs(v - np.nan_to_num(end)), np.abs(v)) for end in limits))
    size = float(max(np.max(room, where=finite, initial=0.0), np.max(np.abs(v), initial=0.0)))
    held = ~at_most
    for shares in (near, np.where(finite, room, size if size > 0 else 1.0)):
        v, done = _moved(v, limits, columns, target, held, shares)
        if done:
            break
    return v


def _moved(v: FloatArray, limits: tuple[FloatArray, FloatArray], columns: FloatArray, target: FloatArray,
           held: BoolArray, shares: FloatArray) -> tuple[FloatArray, bool]:
    """Return clip(v + D E ν) with the greatest dual value, and whether it is on the equalities."""
    lower, upper = limits

    def at(nu: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        aim = v + shares * (columns @ nu)
        x = np.clip(aim, lower, upper)
        return aim, x, target - columns.T @ x

    def dual(nu: FloatArray, x: FloatArray, slack: FloatArray) -> float:
        moved = np.divide((x - v) ** 2, shares, out=np.zeros_like(x), where=shares > 0)
        return float(0.5 * np.sum(moved) + nu @ slack)

    nu = np.zeros(len(target))
    aim, x, slack = at(nu)
    held = held.copy()
    for _ in range(STEPS):
        held |= slack < -_rounding(columns, x, target)
        if np.all(np.abs(slack[held]) <= _rounding(columns, x, target)[held]):
            return x, True
        free = (lower <= aim) & (aim <= upper)
        E = columns[free][:, held]
        scale = np.sqrt(np.sum(shares[free, None] * E**2, axis=0))
        scale[scale == 0.0] = 1.0
        E = E / scale
        step = np.zeros_like(nu)
        step[held] = np.linalg.lstsq(E.T @ (shares[free, None] * E), slack[held] / scale, rcond=None)[0] / scale
        value, length = dual(nu, x, slack), 1.0
        for _ in range(HALVINGS):
            aim, found, left = at(nu + length * step)
            if dual(nu + length * step, found, left) >= value:
                break
            length *= 0.5
        else:
            break
        if np.array_equal(found, x):
            break
        nu, x, slack = nu + length * step, found, left
    return x, False


def _rounding(columns: FloatArray, x: FloatArray, target: FloatArray) -> FloatArray:
    return np.asarray(rounding(np.abs(target) + np.abs(columns).T @ np.abs(x), len(x)))


def project_duals(losses: Losses, u: FloatArray) -> FloatArray:
    """Return row duals inside the domain of the conjugates and on the equalities Σ b u = q."""
    scalars = losses.scalars
    return onto_equalities(u, dual_limits(losses), losses.coupling, scalars.costs, scalars.nonneg)


def proves(losses: Losses, u: FloatArray) -> bool:
    """Return whether duals are in the domains and pay for the scalars but for rounding."""
    return bool(np.isfinite(losses.conjugate_value(u)) and losses.scalar_residual(u) <= FEASIBLE)


def moved_duals(losses: Losses, bias: FloatArray, ends: tuple[FloatArray, FloatArray], rates: FloatArray,
                u: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return duals (u, τ) of fixed labels in their domains with Σ b u = q and, with a free bias, Σ ũ c = Hᵀτ.

    Parameters
    ----------
    bias : (m, B) float array
        What arguments of the losses gain with the coordinates of a free bias.
    ends : two (J,) float arrays
        Of bounded sums.
    rates : (J, q) float array
        H, what these sums gain.
    """
    scalars, B = losses.scalars, bias.shape[1]
    sides = [np.where(np.isfinite(end), far, 0.0) for far, end in zip((-np.inf, np.inf), ends)]
    lower, upper = (np.concatenate(pair) for pair in zip(dual_limits(losses), sides))
    columns = np.vstack([np.hstack([losses.coupling, bias]), np.zeros((len(rates), scalars.count + B))])
    columns[losses.rows:, scalars.count:] = -rates[:, :B]
    found = onto_equalities(np.append(u, tau), (lower, upper), columns, np.append(scalars.costs, np.zeros(B)),
                            np.append(scalars.nonneg, np.zeros(B, dtype=bool)))
    return found[: losses.rows], found[losses.rows :]
