"""The saddle problem as engines want it: one evaluation gives gradients, primal and dual values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from margindsl.accuracy import relative_gap
from margindsl.calculus import ConvexFunction
from margindsl.program.forms import SaddleForm
from margindsl.typing import FloatArray, IntArray

BLOCK = 2**22  # entries of a (labellings × points) block; larger working sets are processed block by block


@dataclass(frozen=True, eq=False)
class Point:
    """Represent an evaluated pair (μ, x), x = −u/c ∈ dom ρ*.

    Parameters
    ----------
    mu : (T,) float array
        On the simplex of distinct labellings.
    x : (m,) float array
        The scaled dual numbers.
    directions : (T, r) float array
        v_k = Φᵀ(y_k∘ũ).
    norms : (T,) float array
        ‖v_k‖².
    arguments : (m,) float array
        The arguments a γ + d of the losses at W_k = μ_k v_k.
    primal, dual : float
        Values of the primal at W = β μ_k v_k and of the dual at u, so that primal − dual is a certified gap.
    scale : float
        The factor β.
    """

    mu: FloatArray
    x: FloatArray
    directions: FloatArray
    norms: FloatArray
    arguments: FloatArray
    primal: float = float("inf")
    dual: float = -float("inf")
    scale: float = 1.0

    @property
    def gap(self) -> float:
        """Return primal − dual, never below zero."""
        return max(self.primal - self.dual, 0.0)

    @property
    def error(self) -> float:
        """Return the gap relative to the primal value."""
        return relative_gap(self.primal, self.primal - self.gap)


class SaddleModel:
    """Evaluate min over μ of max over x of Σ_k μ_k G(−c x, y_k) on the distinct labellings.

    y and −y have the same G; the model keeps the first of each such class.

    Parameters
    ----------
    form : SaddleForm
    """

    def __init__(self, form: SaddleForm) -> None:
        self.form, self.losses = form, form.losses
        self.first, self.group = distinct(form.labellings)
        self.labels = np.ascontiguousarray(form.labellings[self.first], dtype=np.int8)
        self.count = len(self.first)
        self.weights = np.asarray(self.losses.weights, dtype=float)
        features: Any = form.features
        self.matrix: FloatArray | None = features.matrix if getattr(features, "is_dense", False) else None
        self.conjugates: list[ConvexFunction] = [term.loss.conjugate() for term in self.losses.terms]

    # -- products -----------------------------------------------------------------------------------

    def directions(self, x: FloatArray) -> FloatArray:
        """Return the (T, r) vectors Φᵀ(y_k∘ũ), u = −c x."""
        return self.adjoint(self.losses.spread(-self.weights * x))

    def adjoint(self, spread: FloatArray, active: IntArray | None = None) -> FloatArray:
        """Return the rows Φᵀ(y_k∘s) of a vector s (n,), for all labellings or the active ones."""
        count = self.count if active is None else len(active)
        total: FloatArray = np.zeros((count, self.form.features.rank))
        for part, labels in self._blocks():
            signed = (labels if active is None else labels[active]) * spread[part]
            total += signed @ self.matrix[part] if self.matrix is not None else self.form.features.adjoint(signed.T).T
        return total

    def direction(self, spread: FloatArray, k: int) -> FloatArray:
        """Return the row Φᵀ(y_k∘s) (r,) of one labelling."""
        return self.form.features.adjoint(self.labels[k] * spread)

    def margins(self, W: FloatArray) -> FloatArray:
        """Return the (n,) margins Σ_k y_k∘Φw_k of rows w_k of W (T, r)."""
        out = np.empty(self.form.n)
        active = np.flatnonzero(np.any(W != 0, axis=1))
        for part, labels in self._blocks():
            rows = W[active] @ self.matrix[part].T if self.matrix is not None else self.form.features.apply(
                np.ascontiguousarray(W[active].T)).T
            out[part] = np.einsum("kn,kn->n", labels[active], rows)
        return out

    def columns(self, directions: FloatArray, points: IntArray) -> FloatArray:
        """Return the (len(points), T) numbers y_k∘Φv_k at some points."""
        rows = self.form.features.rows(points)
        return (rows @ directions.T) * self.labels[:, points].T

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        if self.matrix is None or self.labels.size <= BLOCK:
            yield slice(None), self._float_labels
            return
        width = max(BLOCK // self.count, 1)
        for begin in range(0, self.form.n, width):
            part = slice(begin, begin + width)
            yield part, self.labels[:, part].astype(float)

    @cached_property
    def _float_labels(self) -> FloatArray:
        return self.labels.astype(float)

    # -- points -------------------------------------------------------------------------------------

    def evaluate(self, mu: FloatArray, x: FloatArray) -> Point:
        """Return the point (μ, x) with both gradients; primal and dual are left open (see `judge`)."""
        V = self.directions(x)
        norms = np.einsum("kr,kr->k", V, V)
        return Point(mu, x, V, norms, self.losses.arguments(self.margins(mu[:, None] * V)))

    def judge(self, point: Point) -> Point:
        """Return the point with its primal value, at the best rescaling of W, and its dual value."""
        dual = -self.losses.conjugate_value(-self.weights * point.x) - 0.5 * float(point.norms.max())
        size = float(point.mu @ np.sqrt(point.norms))
        primal, scale = self._best_scale(point.arguments - self.losses.shifts, size)
        return Point(point.mu, point.x, point.directions, point.norms, point.arguments, primal, dual, scale)

    def _best_scale(self, slope: FloatArray, size: float) -> tuple[float, float]:
        """Return min over β of ½β²N² + Σ cρ(β γ + d), by a few safeguarded Newton steps from β = 1."""
        def value(beta: float) -> float:
            rows = self.losses.row_losses(beta * slope + self.losses.shifts)
            return 0.5 * (beta * size) ** 2 + float(rows.sum())

        best, scale = value(1.0), 1.0
        for _ in range(4):
            at = scale * slope + self.losses.shifts
            rise = scale * size**2 + float(self.losses.derivative(at) @ slope)
            bend = size**2 + float(self.losses.curvature(at) @ slope**2)
            if not (np.isfinite(rise) and bend > 0) or abs(rise) <= 1e-9 * max(bend * abs(scale), 1e-300):
                break
            trial = scale - rise / bend
            found = value(trial)
            if not found < best:
                break
            best, scale = found, trial
        zero = value(0.0) if not np.isfinite(best) else best
        return (zero, 0.0) if zero < best else (best, scale)

    def prox(self, x: FloatArray, step: float) -> FloatArray:
        """Return the rows' proximal points of ρ* at x; rows without weight stay at zero."""
        return self._rows(lambda f, z: f.prox(z, step), x)

    def prox_derivative(self, x: FloatArray, step: float) -> FloatArray:
        """Return an element of the derivative of `prox`, in [0, 1]; zero for rows without weight."""
        return self._rows(lambda f, z: f.prox_derivative(z, step), x)

    def conjugate_slopes(self, x: FloatArray) -> FloatArray:
        """Return an element of ∂ρ* at x in the domain, finite at its ends where there is one."""
        return self._rows(lambda f, z: f.derivative(z), x)

    def clip(self, x: FloatArray) -> FloatArray:
        """Return x clipped into the domains of the conjugates."""
        return self._rows(lambda f, z: np.clip(z, *f.domain), x)

    def first_guess(self) -> FloatArray:
        """Return the (m,) dual numbers of w = 0, rescaled to the best dual value."""
        slopes = self.losses.derivative(np.asarray(self.losses.shifts, dtype=float))
        x = np.divide(slopes, self.weights, out=np.zeros(len(slopes)), where=self.weights > 0)
        return self.rescale(np.where(np.isfinite(x), x, 0.0))

    def rescale(self, x: FloatArray) -> FloatArray:
        """Return the multiple 2⁻ʲ x or 0·x, clipped into the domain, of greatest dual value."""
        V = self.directions(x)
        half = 0.5 * float(np.einsum("kr,kr->k", V, V).max())
        factors = [*(2.0**-j for j in range(30)), 0.0]
        trials = [self.clip(x * factor) for factor in factors]
        values = [-self.losses.conjugate_value(-self.weights * t) - half * factor**2
                  for factor, t in zip(factors, trials)]
        return trials[int(np.argmax(values))]

    def _rows(self, function: Callable[[ConvexFunction, FloatArray], Any], x: FloatArray) -> FloatArray:
        out = np.empty(len(x))
        for conjugate, (_, part) in zip(self.conjugates, self.losses.slices()):
            out[part] = function(conjugate, x[part])
        return np.where(self.weights > 0, out, 0.0)

    # -- to and from the form -----------------------------------------------------------------------

    def merge(self, mu: FloatArray) -> FloatArray:
        """Return the (T,) masses of distinct labellings for masses of the working set, or of its beginning."""
        return np.bincount(self.group[:len(mu)], weights=mu, minlength=self.count)

    def variables(self, point: Point) -> dict[str, FloatArray]:
        """Return what the form asks for: mu (T,), u (m,), W (r, T), scalars (0,)."""
        T = self.form.count
        mu, W = np.zeros(T), np.zeros((self.form.features.rank, T))
        mu[self.first] = point.mu
        # w_k must follow the sign of the first labelling of its class, which is the one kept.
        W[:, self.first] = (point.scale * point.mu[:, None] * point.directions).T
        return {"mu": mu, "u": -self.weights * point.x, "W": W, "scalars": np.zeros(0)}


def distinct(labellings: IntArray) -> tuple[IntArray, IntArray]:
    """Return (first, group): the first labelling of each class {y, −y} and the class of every labelling."""
    Y = np.where(np.asarray(labellings) > 0, 1, -1)
    canonical = np.packbits(Y * Y[:, :1] > 0, axis=1)
    _, first, group = np.unique(canonical, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # classes in order of appearance
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(len(order))
    return first[order], rank[np.ravel(group)]
