"""Linear bounds on decision values, their squares in a lift, and whether a problem under them has a least value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize
import scipy.sparse as sp

from margindsl.calculus.accuracy import rounding
from margindsl.errors import DeclarationError
from margindsl.host.frozen import freeze_fields
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray

STEEP = 1e-9  # part of its terms that a fall along a direction must exceed, for it is more than rounding
SMALL = 1e-13  # of a row of a bound, relative to usual features: rounding, as sums of centred features are


@dataclass(frozen=True, eq=False)
class DecisionBound:
    """Represent lower ≤ Σ_i a_i f_i ≤ upper on the decision values.

    Parameters
    ----------
    weights : (n,) float array
        The coefficients a.
    lower, upper : float
        The bounds; ±inf when absent.
    sizes : (n,) float array, optional
        Of the parts that coefficients are sums of, where they cancel: what their rounding is relative to.
    """

    weights: FloatArray
    lower: float
    upper: float
    sizes: FloatArray | None = None

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise DeclarationError(
                f"decision bound {self.lower} <= sum <= {self.upper} is empty; exchange the bounds")
        freeze_fields(self)

    @property
    def name(self) -> str:
        """Return how the bounded sum is called in messages: by its points."""
        points = np.flatnonzero(self.weights)
        few = ", ".join(map(str, points[:4])) + (", ..." if len(points) > 4 else "")
        return f"f[{few}]" if len(points) == 1 else f"the sum of decision values of points {few}"

    @property
    def is_symmetric(self) -> bool:
        """Return whether the bound reads |Σ a f| ≤ ℓ."""
        return self.lower == -self.upper

    @property
    def reach(self) -> float:
        """Return the greatest |Σ a f|."""
        return max(abs(self.lower), abs(self.upper))


def joined(bounds: Sequence[DecisionBound]) -> tuple[DecisionBound, ...]:
    """Return bounds with those on multiples of one sum made one, unless they exclude each other."""
    kept: list[DecisionBound] = []
    for bound in bounds:
        for position, other in enumerate(kept):
            at = int(np.argmax(np.abs(other.weights)))
            ratio = bound.weights[at] / other.weights[at] if other.weights[at] else 0.0
            if ratio == 0 or not np.array_equal(bound.weights, ratio * other.weights):
                continue
            low, high = sorted((bound.lower / ratio, bound.upper / ratio))
            low, high = max(low, other.lower), min(high, other.upper)
            if low <= high:
                kept[position] = replace(other, lower=low, upper=high)
                break
        else:
            kept.append(bound)
    return tuple(kept)


@dataclass(frozen=True, eq=False)
class QuadraticBound:
    """Represent (v·x)² ≤ radius², the lifted form of a linear bound on labels or decisions.

    Parameters
    ----------
    vector : float array
        The coefficients v.
    radius : float
        The radius, non-negative.
    """

    vector: FloatArray
    radius: float

    def __post_init__(self) -> None:
        freeze_fields(self)


def is_unbounded(losses: Losses, along: FloatArray | None = None, ends: tuple[FloatArray, FloatArray] | None = None,
               rates: FloatArray | None = None) -> bool:
    """Return whether the losses fall without end along a bias and shared scalars, whatever the weights.

    A convex function falls without end along d where its recession function Σ cρ∞(d) + qᵀs is negative, with ρ∞(d) =
    sup{z d : z in the domain of ρ*}; of sums of piecewise quadratics and logistics nothing else does. A linear
    programme over |b|, |s| ≤ 1 finds the least of it.

    Parameters
    ----------
    along : (m, B) float array, optional
        What arguments of the losses gain with the coordinates of a bias.
    ends : two (J,) float arrays, optional
        Of bounded sums.
    rates : (J, q) float array, optional
        What these sums gain with a bias.

    References
    ----------
    R. T. Rockafellar (1970). Convex Analysis, Th. 8.5 and 13.3.
    """
    along = np.zeros((losses.rows, 0)) if along is None else along
    rates = np.zeros((0, 0)) if rates is None else rates
    held = losses.weights > 0
    rows = np.hstack([along, losses.coupling])[held]
    (m, size), B = rows.shape, along.shape[1]
    limits = np.zeros((2, losses.rows))
    for term, part in losses.slices():
        limits[:, part] = np.array(term.conjugate.domain)[:, None]
    slopes = limits[:, held]
    if not size or (np.all((slopes[0] <= 0) & (slopes[1] >= 0)) and not np.any(losses.scalars.costs)):
        return False
    top = float(losses.weights.max(initial=0.0)) or 1.0
    weights, prices = losses.weights[held] / top, losses.scalars.costs / top
    table, minus = sp.csr_array(rows), -sp.diags_array(np.ones(m))
    left, right = [], []
    for sign, slope in zip((-1.0, 1.0), slopes):  # t ≥ c z d at both ends, or no growth on a side where it is curved
        open_end = ~np.isfinite(slope)
        steep = np.where(open_end, sign, weights * np.where(open_end, 0.0, slope))
        left.append(sp.hstack([sp.diags_array(steep) @ table, sp.diags_array(np.where(open_end, 0.0, 1.0)) @ minus]))
        right.append(np.zeros(m))
    sums = np.hstack([rates[:, :B], np.zeros((len(rates), size - B + m))])
    for sign, side in zip((-1.0, 1.0), ends or ()):
        left.append(sp.csr_array(sign * sums[np.isfinite(side)]))
        right.append(np.zeros(int(np.isfinite(side).sum())))
    costs = np.concatenate([np.zeros(B), prices, np.ones(m)])
    low = np.concatenate([np.full(B, -1.0), np.where(losses.scalars.nonneg, 0.0, -1.0),
                          np.where(np.isinf(slopes).all(axis=0), 0.0, -np.inf)])  # t ≥ 0 where nothing can grow
    found = scipy.optimize.linprog(
        costs, A_ub=sp.vstack(left), b_ub=np.concatenate(right), method="highs",
        bounds=np.column_stack([low, np.where(np.arange(len(low)) < size, 1.0, np.inf)]))
    if found.status != 0:
        return False
    d = np.maximum(found.x[:size], np.append(np.full(B, -np.inf), np.where(losses.scalars.nonneg, 0.0, -np.inf)))
    gains, sizes = rows @ d, np.abs(rows) @ np.abs(d)  # what the programme says is true to its tolerance alone
    gains[np.abs(gains) <= STEEP * sizes] = 0.0
    moving, steep = gains != 0, np.where(gains > 0, slopes[1], slopes[0])
    terms = np.append(prices * d[B:], weights[moving] * steep[moving] * gains[moving])
    return bool(terms.sum() < -STEEP * np.abs(terms).sum())


def with_finite_costs(losses: Losses) -> Losses:
    """Return losses whose shared scalars cost a little less than their rows pay far out, where the two are equal.

    Rows pay Σ cbρ'(±∞) there. Where costs are that but for rounding, its sign says whether the objective falls without
    end, and whoever believes it follows the scalars to 1e16, where values have no digits left. Moved inside by what
    rounding may have done, costs hold them.
    """
    scalars, costs = losses.scalars, np.array(losses.scalars.costs)
    for j, column in enumerate((losses.weights[:, None] * losses.coupling).T):
        for sign in (1.0, -1.0):
            charge = np.concatenate([np.zeros(0), *(
                _charge(sign * column[part], *term.conjugate.domain) for term, part in losses.slices())])
            total = float(charge.sum())
            if np.isfinite(total) and total:
                near = rounding(np.abs(charge).sum() + abs(costs[j]), losses.rows)
                if abs(sign * costs[j] + total) <= near and (sign > 0 or not scalars.nonneg[j]):
                    costs[j] = sign * (near - total)
    return losses if np.array_equal(costs, scalars.costs) else replace(losses, scalars=replace(scalars, costs=costs))


def _charge(rates: FloatArray, low: float, high: float) -> FloatArray:
    """Return what rows pay for each unit of a scalar that moves their arguments at these rates."""
    ends = np.where(rates > 0, high, low)
    return np.where(rates == 0, 0.0, rates * np.where(rates == 0, 0.0, ends))


def contradiction(rows: FloatArray, limits: tuple[FloatArray, FloatArray], typical: FloatArray) -> tuple[int, ...]:
    """Return the places of bounds on decision values that no hyperplane satisfies together, none where one does.

    Parameters
    ----------
    rows : (J, r) float array
        The bounded sums as functions of weights and bias.
    limits : two (J,) float arrays
        Of these sums.
    typical : (J,) float array
        The usual lengths of rows.
    """
    lengths = np.linalg.norm(rows, axis=1)
    small = lengths <= SMALL * typical
    rows = np.where(small[:, None], 0.0, rows / np.where(small, 1.0, lengths)[:, None])
    if not len(rows) or np.linalg.matrix_rank(rows) == len(rows):
        return ()
    ends = np.column_stack([-limits[0], limits[1]]) / np.where(small, 1.0, lengths)[:, None]
    reach = float(np.max(np.abs(ends), where=np.isfinite(ends), initial=0.0)) or 1.0
    finite = np.isfinite(ends.T.ravel())
    A, b = np.vstack([-rows, rows])[finite], ends.T.ravel()[finite] / reach
    found = scipy.optimize.linprog(  # by how much they must give way, and whose multipliers say so
        np.append(np.zeros(rows.shape[1]), np.ones(len(b))), A_ub=np.hstack([A, -np.eye(len(b))]), b_ub=b,
        bounds=[(None, None)] * rows.shape[1] + [(0, None)] * len(b), method="highs")
    if found.status != 0 or found.fun <= STEEP:
        return ()
    guilty = np.flatnonzero(finite)[np.abs(found.ineqlin.marginals) > STEEP] % len(rows)
    return tuple(int(position) for position in np.unique(guilty))
