"""The separable part of a margin program: weighted one-dimensional losses, row by row, and scalars they share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from margindsl.calculus import PLQ, ConvexFunction
from margindsl.calculus.accuracy import greatest_ratio, rounding
from margindsl.errors import CalculusError, DeclarationError
from margindsl.features.points import row_blocks
from margindsl.host.frozen import freeze_fields, frozen, short_key
from margindsl.typing import BoolArray, FloatArray, IntArray

NUMBERS = 10  # held at once of a row while its loss is evaluated


@dataclass(frozen=True, eq=False)
class SharedScalars:
    """Represent the shared scalars s with linear cost qᵀs and optional sign constraints.

    Parameters
    ----------
    costs : (S,) float array
        The linear cost q.
    nonneg : (S,) bool array
        Which scalars are constrained to be non-negative.
    names : tuple of str
        Their names, all different, for printing.
    symbols : tuple
        What declared them, for looking their values up.
    """

    costs: FloatArray
    nonneg: FloatArray
    names: tuple[str, ...] = ()
    symbols: tuple[Any, ...] = ()
    count: int = field(init=False)  # S

    def __post_init__(self) -> None:
        vars(self)["count"] = len(self.costs)
        freeze_fields(self)

    @classmethod
    def none(cls) -> SharedScalars:
        """Return the empty collection."""
        return cls(np.zeros(0), np.zeros(0, dtype=bool), ())

    def violation(self, values: FloatArray) -> float:
        """Return by how much values (S,) break their signs, relative to the largest of them."""
        below = np.where(self.nonneg, np.minimum(values, 0.0), 0.0)
        return greatest_ratio(below, np.max(np.abs(values), initial=0.0))


@dataclass(frozen=True, eq=False)
class LossTerm:
    """Represent Σ_r c_r ρ(a_r γ_p(r) + e_r f_p(r) + b_rᵀs + d_r) over m rows with one function ρ.

    Parameters
    ----------
    loss : ConvexFunction
        The one-dimensional convex function ρ.
    points : (m,) int array
        The point p(r) whose margin enters row r.
    weights : (m,) float array
        Non-negative weights c_r.
    slopes, shifts : (m,) float arrays
        The affine map of the margin: a_r and d_r.
    coupling : (m, S) float array
        The coefficients b_r of the shared scalars.
    bare : (m,) float array, optional
        Of two clusters the coefficients e_r of decision values without label: γ = y f, so that (γ ± f)/2 is ±f where
        y is ±1 and zero elsewhere, the argument of a loss by label.
    """

    loss: ConvexFunction
    points: IntArray
    weights: FloatArray
    slopes: FloatArray
    shifts: FloatArray
    coupling: FloatArray
    bare: FloatArray | None = None
    rows: int = field(init=False)  # m

    def __post_init__(self) -> None:
        vars(self)["rows"] = m = len(self.points)
        for name in ("weights", "slopes", "shifts"):
            array = getattr(self, name)
            if array.shape != (m,):
                raise DeclarationError(f"{name} of a loss term: given shape {array.shape}, expected ({m},)")
            if not np.all(np.isfinite(array)):
                raise DeclarationError(f"{name} of a loss term hold NaN or infinity; give finite numbers")
        if self.coupling.ndim != 2 or len(self.coupling) != m:
            raise DeclarationError(
                f"coupling of a loss term: given shape {self.coupling.shape}, expected ({m}, scalars)")
        if m and self.weights.min() < 0:
            raise DeclarationError(
                f"weight {self.weights.min():.6g} of a margin loss is negative, which makes the loss concave; "
                "give non-negative weights")
        freeze_fields(self)

    @property
    def falls(self) -> bool:
        """Return whether no row rises with its margin."""
        turned = self.slopes < 0
        return bool((self.loss.is_nonincreasing or turned.all()) and (self.loss.is_nondecreasing or not turned.any()))

    @cached_property
    def conjugate(self) -> ConvexFunction:
        """Return the conjugate of the function, found once."""
        return self.loss.conjugate()

    def conjugate_values(self, u: FloatArray) -> FloatArray:
        """Return (m,) c ρ*(−u/c), infinite where a row of no weight has a dual."""
        active, out = self.weights > 0, np.where(u == 0, 0.0, np.inf)
        c = self.weights[active]
        x, (lower, upper) = -u[active] / c, self.conjugate.domain
        slack = rounding(max((abs(end) for end in (lower, upper) if np.isfinite(end)), default=0.0))
        x = np.where((x < lower) & (x >= lower - slack), lower, np.where((x > upper) & (x <= upper + slack), upper, x))
        out[active] = c * np.asarray(self.conjugate(x))  # what is outside the domain by rounding alone is on its end
        return out

    def taken(self, rows: IntArray) -> LossTerm:
        """Return some of the rows."""
        return LossTerm(self.loss, self.points[rows], self.weights[rows], self.slopes[rows], self.shifts[rows],
                        self.coupling[rows], None if self.bare is None else self.bare[rows])


@dataclass(frozen=True, eq=False)
class Losses:
    """Represent Σ_terms Σ_r c_r ρ(a_r γ_p(r) + b_rᵀs + d_r) + qᵀs with its dual, row by row.

    Rows of all terms are concatenated in order; ``u`` always means one dual number a row,
    u_r = −c_r ρ'(v_r) (mathematics: dual for fixed labels).

    Parameters
    ----------
    n : int
        Number of points.
    """

    n: int
    terms: tuple[LossTerm, ...]
    scalars: SharedScalars = field(default_factory=SharedScalars.none)
    by_rows: bool = False  # whether duals are told by rows, where those of a point have no sum
    rows: int = field(init=False)  # m, of all terms
    points: IntArray = field(init=False)  # (m,), as all of the following
    weights: FloatArray = field(init=False)  # c
    slopes: FloatArray = field(init=False)  # a
    shifts: FloatArray = field(init=False)  # d
    coupling: FloatArray = field(init=False)  # (m, S) coefficients b of the shared scalars

    def __post_init__(self) -> None:
        for term in self.terms:
            if term.rows and (term.points.min() < 0 or term.points.max() >= self.n):
                raise DeclarationError(f"a loss term names points outside 0..{self.n - 1}")
            if term.coupling.shape[1] != self.scalars.count:
                raise DeclarationError(
                    f"coupling has {term.coupling.shape[1]} columns, expected {self.scalars.count}")
        empty = {"points": np.zeros(0, dtype=int), "coupling": np.zeros((0, self.scalars.count))}
        for name in ("points", "weights", "slopes", "shifts", "coupling"):
            parts = [getattr(term, name) for term in self.terms]  # of one term, not held twice
            vars(self)[name] = parts[0] if len(parts) == 1 else frozen(
                np.concatenate([empty.get(name, np.zeros(0)), *parts]))
        vars(self)["rows"] = len(self.points)
        vars(self)["by_rows"] = bool(self.by_rows or self.is_turned or self.scalars.count)

    @property
    def is_turned(self) -> bool:
        """Return whether a row sees decision values without label."""
        return any(term.bare is not None for term in self.terms)

    @cached_property
    def bare(self) -> FloatArray:
        """Return (m,) the coefficients of decision values without label."""
        return frozen(np.concatenate([np.zeros(0), *(
            np.zeros(term.rows) if term.bare is None else term.bare for term in self.terms)]))

    def with_labels(self, signs: FloatArray) -> Losses:
        """Return the losses where labels −1 and +1 of points are known, 0 of others: rows of slope a + e y.

        They are rows without a label where all are known; itself where no row sees a label beside its decision value.
        """
        if not self.is_turned:
            return self
        whole = bool(np.all(signs))
        return replace(self, terms=tuple(term if term.bare is None else replace(
            term, slopes=term.slopes + term.bare * signs[term.points],
            bare=None if whole else np.where(signs[term.points] == 0, term.bare, 0.0)) for term in self.terms))

    def scatter_turned(self, u: FloatArray) -> FloatArray:
        """Return the (n,) sums Σ_{r at i} e_r u_r."""
        return np.bincount(self.points, weights=self.bare * u, minlength=self.n)

    # -- rows ---------------------------------------------------------------------------------------

    @cached_property
    def is_identity(self) -> bool:
        """Return whether row r is point r with slope one, whatever the number of terms."""
        return bool(self.rows == self.n and np.array_equal(self.points, np.arange(self.n))
                    and np.all(self.slopes == 1.0) and not self.is_turned)

    @cached_property
    def structure(self) -> tuple[Hashable, ...]:
        """Return a key of everything but the weights: losses with equal keys differ in their weights only."""
        terms = tuple(
            (term.loss, *map(short_key, (term.points, term.slopes, term.shifts, term.coupling, term.weights > 0,
                                         np.zeros(0) if term.bare is None else term.bare)))
            for term in self.terms)
        return (self.n, terms, self.scalars.costs.tobytes(), self.scalars.nonneg.tobytes())

    @property
    def is_smooth(self) -> bool:
        """Return whether every loss has a Lipschitz derivative."""
        return all(term.loss.is_smooth for term in self.terms)

    def slices(self) -> Iterator[tuple[LossTerm, slice]]:
        """Yield every term with the slice of its rows."""
        start = 0
        for term in self.terms:
            yield term, slice(start, start + term.rows)
            start += term.rows

    @cached_property
    def held(self) -> FloatArray:
        """Return (m,) the one dual −c s that rows of a linear loss have, of slope s; 0 of others."""
        return frozen(np.concatenate([np.zeros(0), *(
            -t.weights * (t.loss.coefficients[0, 1] if isinstance(t.loss, PLQ) and t.loss.is_affine else 0.0)
            for t in self.terms)]))

    def at_rows(self, values: FloatArray) -> FloatArray:
        """Return values (n,) or (n, p) of points as values of rows, times the slopes."""
        if self.is_identity:
            return values
        return (values[self.points].T * self.slopes).T

    def scatter(self, u: FloatArray) -> FloatArray:
        """Return the (n,) or (n, p) sums Σ_{r at i} a_r u_r, the adjoint of `at_rows`."""
        return u if self.is_identity else np.asarray(self._incidence @ u)

    @cached_property
    def _incidence(self) -> csr_array:
        """Return the (n, m) matrix of slopes, row r in the column of its point."""
        return csr_array((self.slopes.astype(float), (self.points, np.arange(self.rows))), shape=(self.n, self.rows))

    def point_duals(self, u: FloatArray) -> FloatArray:
        """Return duals of points; of rows, where shared scalars couple them or losses are by label."""
        return u if self.by_rows else self.scatter(u)

    def arguments(self, margins: FloatArray, scalars: FloatArray | None = None) -> FloatArray:
        """Return the (m,) arguments v_r = a_r γ_p(r) + b_rᵀs + d_r."""
        v = self.at_rows(margins) + self.shifts
        if self.scalars.count:
            v = v + self.coupling @ (np.zeros(self.scalars.count) if scalars is None else scalars)
        return v

    # -- values -------------------------------------------------------------------------------------

    def row_losses(self, v: FloatArray) -> FloatArray:
        """Return the (m,) weighted losses c_r ρ_r(v_r), infinite beyond the range of numbers."""
        with np.errstate(over="ignore"):
            return self._map(lambda loss, part: loss(part), v)

    def value(self, margins: FloatArray, scalars: FloatArray | None = None) -> float:
        """Return Σ c ρ(v) + qᵀs at margins (n,) and scalars (S,)."""
        total = float(np.sum(self.row_losses(self.arguments(margins, scalars))))
        if self.scalars.count and scalars is not None:
            total += float(self.scalars.costs @ scalars)
        return total

    def derivative(self, v: FloatArray) -> FloatArray:
        """Return one element of the (m,) subgradients c_r ρ_r'(v_r)."""
        return self._map(lambda loss, part: loss.derivative(part), v)

    def values_and_derivatives(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `row_losses(v)` and `derivative(v)` in one walk over the rows."""
        values, slopes = np.empty(len(v)), np.empty(len(v))
        for term, part in self.slices():
            value, slope = term.loss.value_and_derivative(v[part])
            np.multiply(term.weights, value, out=values[part])
            np.multiply(term.weights, slope, out=slopes[part])
        return values, slopes

    def curvature(self, v: FloatArray) -> FloatArray:
        """Return the (m,) generalised second derivatives c_r ρ_r''(v_r)."""
        return self._map(lambda loss, part: loss.curvature(part), v)

    def smoothed_curvature(self, v: FloatArray, step: float) -> FloatArray:
        """Return (n,) second derivatives in the margins, kinks smoothed by a Moreau envelope of some step."""
        smooth = (self.weights - self._map(lambda loss, part: loss.prox_derivative(part, step), v)) / step
        return np.bincount(self.points, weights=smooth * self.slopes**2, minlength=self.n)

    @cached_property
    def at_zero(self) -> tuple[float, float]:
        """Return Σ c |ρ| and the slope Σ_r c_r |a_r| max|∂ρ_r(d_r)| at margins and scalars zero, found once."""
        v = self.shifts
        return float(np.sum(np.abs(self.row_losses(v)))), float(np.sum(np.abs(self.slopes) * self.steepness(v)))

    def steepness(self, v: FloatArray) -> FloatArray:
        """Return the (m,) greatest c_r |g| of subgradients g of ρ_r at v_r."""
        return self._map(lambda loss, part: np.abs(np.broadcast_arrays(*loss.subdifferential(part))).max(axis=0), v)

    def least_losses(self) -> FloatArray:
        """Return Σ c min ρ of every point (n,); −inf where shared scalars may lower the sum, or without a minimum."""
        try:
            lowest = [float(term.loss.minimum()) for term in self.terms]
        except CalculusError:
            lowest = [-np.inf]
        falls = np.where(self.scalars.nonneg, self.scalars.costs < 0, self.scalars.costs != 0)  # a cost may be negative
        if np.any(falls) or not np.all(np.isfinite(lowest)):
            return np.full(self.n, -np.inf)
        return np.bincount(self.points, weights=np.concatenate(
            [np.zeros(0), *(low * term.weights for low, term in zip(lowest, self.terms))]), minlength=self.n)

    def least_value(self) -> float:
        """Return Σ c min ρ, less than which no value is; −inf where shared scalars may lower it or there is none."""
        parts = self.least_losses()
        return float(np.sum(parts) - rounding(np.abs(parts).sum(), self.rows)) if np.isfinite(parts).all() else -np.inf

    def conjugate_value(self, u: FloatArray) -> float:
        """Return Σ c ρ*(−u/c) + uᵀd, the negative of the linear part of the dual (may be inf)."""
        return float(u @ self.shifts) + sum(
            float(np.sum(term.conjugate_values(u[part]))) for term, part in self.slices())

    def scalar_residual(self, u: FloatArray) -> float:
        """Return how far u is from Σ b u = q (or ≤ q for non-negative scalars), relative to |q| + Σ |b u|."""
        return greatest_ratio(self.scalar_slack(u), np.abs(self.scalars.costs) + np.abs(self.coupling).T @ np.abs(u))

    def scalar_slack(self, u: FloatArray) -> FloatArray:
        """Return (S,) q − Σ b u, for non-negative scalars its negative part."""
        slack = self.scalars.costs - self.coupling.T @ u
        return np.where(self.scalars.nonneg, np.minimum(slack, 0.0), slack)

    def size(self, margins: FloatArray, scalars: FloatArray | None = None) -> float:
        """Return Σ |c ρ(v)| + |q|ᵀ|s|, what the rounding of `value` is relative to."""
        charge = 0.0 if scalars is None else np.abs(self.scalars.costs) @ np.abs(scalars)
        return float(np.sum(np.abs(self.row_losses(self.arguments(margins, scalars)))) + charge)

    @np.errstate(invalid="ignore")
    def noise(self, margins: FloatArray, scalars: FloatArray | None = None) -> float:
        """Return what rounding may do to `value`: to its parts, and to arguments, at the steeper side of a kink."""
        s, values = np.zeros(self.scalars.count) if scalars is None else np.asarray(scalars), self.at_rows(margins)
        moved = self.steepness(self.arguments(margins, s))
        for part in row_blocks(self.rows, NUMBERS):
            moved[part] *= np.abs(values[part]) + np.abs(self.shifts[part]) + np.abs(self.coupling[part]) @ np.abs(s)
        return float(rounding(self.size(margins, s) + np.sum(moved, where=np.isfinite(moved)), self.rows))

    def cluster_costs(self, table: FloatArray, scalars: FloatArray | None = None) -> FloatArray:
        """Return the (n, k) losses of every point in every cluster, from its margins there (n, k)."""
        found = np.empty(table.shape)
        for label, margins in enumerate(table.T):
            own = self.with_labels(np.broadcast_to(2.0 * label - 1, self.n))
            found[:, label] = np.bincount(self.points, own.row_losses(own.arguments(margins, scalars)), self.n)
        return found

    def rescaled(self, factor: float) -> Losses:
        """Return the same losses with every weight and scalar cost times a positive factor."""
        terms = tuple(replace(term, weights=term.weights * factor) for term in self.terms)
        return replace(self, terms=terms, scalars=replace(self.scalars, costs=self.scalars.costs * factor))

    # -- inside -------------------------------------------------------------------------------------

    def only(self, rows: BoolArray) -> Losses:
        """Return the losses of some of the rows (m,)."""
        terms = tuple(term.taken(np.flatnonzero(rows[part])) for term, part in self.slices())
        return Losses(self.n, tuple(term for term in terms if term.rows), self.scalars)

    def restricted(self, index: IntArray) -> Losses:
        """Return the losses of points (·,) without repeats, renumbered, weights of terms scaled up to the whole."""
        position = np.full(self.n, -1)
        position[index] = np.arange(len(index))
        terms = []
        for term in self.terms:
            inside = position[term.points] >= 0
            share = float(term.weights[inside].sum())
            factor = float(term.weights.sum()) / share if share > 0 else 1.0
            kept = term.taken(np.flatnonzero(inside))
            terms.append(replace(kept, points=position[kept.points], weights=factor * kept.weights))
        return Losses(len(index), tuple(terms), self.scalars)

    @cached_property
    def _blocks(self) -> list[tuple[LossTerm, slice, slice]]:
        return [(term, own, slice(part.start + own.start, part.start + own.stop))
                for term, part in self.slices() for own in row_blocks(term.rows, NUMBERS)]

    def _map(self, function: Callable[[Any, FloatArray], FloatArray], v: FloatArray) -> FloatArray:
        """Return c_r times what a function of the loss and the arguments of its rows gives."""
        out = np.empty(len(v))
        for term, own, rows in self._blocks:
            part = v[rows]
            out[rows] = function(term.loss, part if any(part.strides) else part[:1])  # many times the same number
            out[rows] *= term.weights[own]
        return out


def added(terms: Iterable[LossTerm], searched: bool = False) -> tuple[LossTerm, ...]:
    """Return terms with those of the same margins added up: apart, relaxations see less of them.

    Parameters
    ----------
    searched : bool
        Whether also where no formula of the conjugate of the sum is known, which costs time.
    """
    found, alike = list[LossTerm](), dict[bytes, list[int]]()
    for term in terms:
        positions = alike.setdefault(term.points.tobytes(), [])
        for position in positions:
            try:
                found[position] = _sum(found[position], term, searched)
                break
            except (LookupError, CalculusError):
                continue
        else:
            positions.append(len(found))
            found.append(term)
    return tuple(found)


def _sum(first: LossTerm, second: LossTerm, searched: bool) -> LossTerm:
    """Return two terms as one."""
    if not len(first.points) or any(
            np.ptp(t.slopes) or np.ptp(t.shifts) or not t.slopes[0] or np.any(t.coupling) or t.bare is not None
            for t in (first, second)):
        raise LookupError
    one, (least, most) = np.ones(len(first.points)), sorted((first, second), key=lambda t: t.weights[0])
    # A loss whose unit is its smallest part is steep: Newton's method takes it for a kink.
    ratio = least.weights[0] / most.weights[0] if most.weights[0] > 0 else 0.0
    if not np.allclose(least.weights, ratio * most.weights, rtol=4e-16, atol=0):
        raise LookupError
    total = sum((t.loss.precompose(float(t.slopes[0]), float(t.shifts[0])) * factor
                 for t, factor in ((most, 1.0), (least, float(ratio)))), start=PLQ.constant(0.0))
    if total.is_solved_apart and not searched:
        raise LookupError
    return LossTerm(total, first.points, most.weights, one, 0.0 * one, first.coupling)
