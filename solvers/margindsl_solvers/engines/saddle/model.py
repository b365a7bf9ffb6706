"""The saddle problem as engines want it: one evaluation gives gradients, primal and dual values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from margindsl.calculus import ConvexFunction
from margindsl.calculus.accuracy import relative_gap
from margindsl.features.operator import total
from margindsl.host.frozen import frozen_property
from margindsl.host.threads import Workers
from margindsl.program.clusters import first_names
from margindsl.program.equalities import project_duals
from margindsl.program.forms import SaddleForm
from margindsl.typing import FloatArray, IntArray

CACHED = 2**16  # entries of a (labellings × points) block: signed and multiplied before they leave a core's cache
STEPS = 6  # of the fit of scale and scalars at a point
STILL, LEAST_GAIN = 1e-13, 1e-3  # gain not worth a step, relative to the value and to the gap
TELLING = 4_096  # points on which labellings are compared first


@dataclass(frozen=True, eq=False)
class Point:
    """Represent an evaluated triple (μ, x, s), x = −u/c ∈ dom ρ*, s the shared scalars.

    `primal`, `dual`: values of the primal at W = β μ_k v_k and of the dual at `proved`, so that primal − dual is a
    certified gap; `negligible`: size of values that need not be told from zero, where scalars or a bias can make them
    zero.
    """

    mu: FloatArray  # (T,), on the simplex of distinct labellings
    x: FloatArray  # (m,), the scaled dual numbers
    scalars: FloatArray  # (S,)
    directions: FloatArray  # (T, q r), v_k = Φᵀ(y_k∘ũ), or with codes Σ_i ũ_i c(y_k,i) ⊗ φ_i
    norms: FloatArray  # (T,), ‖v_k‖²
    costs: FloatArray  # (T,), ½‖v_k‖² + b_k y_kᵀũ
    slack: FloatArray  # (S,), q − Bᵀu, the gradient by the scalars
    arguments: FloatArray  # (m,), the arguments a γ + Bs + d of the losses at W_k = μ_k v_k
    primal: float = float("inf")
    dual: float = -float("inf")
    scale: float = 1.0  # the factor β
    proved: FloatArray = field(default_factory=partial(np.zeros, 0))  # (m,), x moved to Bᵀu = q
    fitted: FloatArray = field(default_factory=partial(np.zeros, 0))  # (S,), scalars as good as any at W
    negligible: float = 0.0
    W: FloatArray | None = None  # (T, q r), the weights of the primal value where they are others than β μ_k v_k

    @property
    def gap(self) -> float:
        """Return primal − dual, never below zero."""
        return max(self.primal - self.dual, 0.0)

    @property
    def error(self) -> float:
        """Return the gap relative to the primal value."""
        return relative_gap(self.primal, self.primal - self.gap, 0.0, self.negligible)


class SaddleModel:
    """Evaluate min over (μ, s) of max over x of Σ_k μ_k G(−c x, y_k, b_k) + sᵀ(q − Bᵀu) on the distinct labellings.

    Labellings that differ in names, as (y, b) and (−y, −b), have the same G; the model keeps the first of each class.
    A labelling stands in q rows of `labels`, the coordinates of its codes, and its w_k are q vectors one after another.

    `workers`: maps a function over blocks of points, in their order; `threads` gives one that uses several cores.
    """

    def __init__(self, form: SaddleForm, workers: Workers = map) -> None:
        self.form, self.losses, self.workers = form, form.losses, workers
        self.first, self.group = distinct(form.labellings, form.biases @ form.codes.T)
        self.labels = np.ascontiguousarray(form.coded(self.first))
        self.biases, self.is_biased = form.biases[self.first], form.is_biased
        self.coupling, self.costs = self.losses.coupling, self.losses.scalars.costs
        self.count, self.width, self.order = len(self.first), form.width, form.width * int(form.features.rank)
        self.weights = np.asarray(self.losses.weights, dtype=float)
        features: Any = form.features
        self.matrix: FloatArray | None = features.matrix if features.is_dense else None
        self.is_streamed = self.matrix is None and features.is_streamed  # block by block, a pass a product
        self.conjugates: list[ConvexFunction] = [term.loss.conjugate() for term in self.losses.terms]
        self._parts = [(f, part) for f, (_, part) in zip(self.conjugates, self.losses.slices())]

    def softened(self, width: float) -> SaddleModel:
        """Return the model of the losses' envelopes, kinks smoothed over a width."""
        terms = tuple(replace(term, loss=term.loss.envelope(width)) for term in self.losses.terms)
        return SaddleModel(replace(self.form, losses=replace(self.losses, terms=terms)), self.workers)

    # -- products -----------------------------------------------------------------------------------

    def coordinates(self, active: IntArray) -> IntArray:
        """Return the rows of `labels` that belong to some labellings."""
        return (active[:, None] * self.width + np.arange(self.width)).ravel()

    def directions(self, x: FloatArray) -> FloatArray:
        """Return the (T, q r) vectors Φᵀ(y_k∘ũ), u = −c x."""
        return self.adjoint(self.losses.scatter(-self.weights * x))

    def adjoint(self, scatter: FloatArray, active: IntArray | None = None) -> FloatArray:
        """Return the rows Φᵀ(y_k∘s) of a vector s (n,), for all labellings or the active ones."""
        labels = self.labels if active is None else self.labels[self.coordinates(active)]
        if self.is_streamed:
            rows = slice(None) if active is None else self.coordinates(active)
            found = self.form.features.fold(partial(_in_cache, partial(_signed_sums, rows)), self._points, scatter)
            return np.asarray(found).reshape(-1, self.order)
        if self.matrix is None:
            return self.form.features.adjoint((labels * scatter).T).T.reshape(-1, self.order)

        matrix, out = self.matrix, np.zeros((len(labels), self.form.features.rank))

        def part(points: slice) -> FloatArray:
            signed = labels[:, points].astype(float)
            signed *= scatter[points]
            return signed @ matrix[points]

        for found in self.workers(part, self._blocks(len(labels))):
            out += found
        return out.reshape(-1, self.order)

    def direction(self, scatter: FloatArray, k: int) -> FloatArray:
        """Return the row Φᵀ(y_k∘s) (q r,) of one labelling."""
        return self.form.features.adjoint((self._own(k) * scatter).T).T.ravel()

    def margin(self, w: FloatArray, k: int) -> FloatArray:
        """Return the (n,) margins y_k∘Φw of one labelling at w (q r,)."""
        return np.einsum("qn,nq->n", self._own(k), self.form.features.apply(w.reshape(self.width, -1).T))

    def _own(self, k: int) -> FloatArray:
        return self.labels[k * self.width:(k + 1) * self.width]

    def margins(self, W: FloatArray, masses: FloatArray | None = None) -> FloatArray:
        """Return the (n,) margins Σ_k y_k∘(Φw_k + m_k b_k) of rows w_k of W (T, q r) and masses m (T,), else zero."""
        out, W = np.zeros(self.form.n), W.reshape(len(self.labels), -1)
        active = np.flatnonzero(np.any(W != 0, axis=1))
        if self.is_streamed:
            out = self.form.features.each(partial(_margins, W[active], active), self._points)
            return out if masses is None else out + self.offsets(masses)
        labels, W, matrix = self.labels[active], np.ascontiguousarray(W[active]), self.matrix

        def part(points: slice) -> None:
            assert matrix is not None
            out[points] = np.einsum("kn,kn->n", labels[:, points].astype(float), W @ matrix[points].T)

        if matrix is not None:
            for _ in self.workers(part, self._blocks(len(active))):
                pass
        elif len(active):
            out = np.einsum("kn,nk->n", labels, self.form.features.apply(np.ascontiguousarray(W.T)))
        return out if masses is None else out + self.offsets(masses)

    def offsets(self, masses: FloatArray) -> FloatArray | float:
        """Return the (n,) margins Σ_k m_k⟨b_k, c(y_k)⟩ of the biases."""
        return (masses[:, None] * self.biases).ravel() @ self.labels if self.is_biased else 0.0

    def sums(self, scatter: FloatArray) -> FloatArray:
        """Return the (T,) numbers Σ_i s_i⟨b_k, c(y_k,i)⟩ of a vector s (n,)."""
        if not self.is_biased:
            return np.zeros(self.count)
        return np.sum(self.biases * (self.labels @ scatter).reshape(self.biases.shape), axis=1)

    def products(self, phi: FloatArray, directions: FloatArray, signs: FloatArray) -> FloatArray:
        """Return the (m, T) numbers Σ_q signs∘(Φv_k + b_k) of some rows of Φ (m, r), by their codes (m, T q)."""
        found = phi @ directions.reshape(len(self.labels), -1).T
        found = (found + (self.biases.ravel() if self.is_biased else 0.0)) * signs
        return found if self.width == 1 else found.reshape(len(phi), self.count, self.width).sum(axis=2)

    def _blocks(self, columns: int) -> list[slice]:
        """Return blocks of points so long that so many numbers a point stay in the cache."""
        n, width = self.form.n, max(CACHED // max(columns, 1), 1)
        return [slice(begin, min(begin + width, n)) for begin in range(0, n, width)]

    @frozen_property
    def _points(self) -> FloatArray:
        return np.ascontiguousarray(self.labels.T)

    # -- points -------------------------------------------------------------------------------------

    def evaluate(self, mu: FloatArray, x: FloatArray, scalars: FloatArray | None = None) -> Point:
        """Return the point (μ, x, s) with its gradients; primal and dual are left open (see `judge`)."""
        s = np.zeros(len(self.costs)) if scalars is None else scalars
        scatter = self.losses.scatter(-self.weights * x)
        V = self.adjoint(scatter)
        norms = np.einsum("kr,kr->k", V, V)
        arguments = self.losses.arguments(self.margins(mu[:, None] * V, mu), s)
        return Point(mu, x, s, V, norms, 0.5 * norms + self.sums(scatter),
                     self.costs + self.coupling.T @ (self.weights * x), arguments)

    def judge(self, point: Point) -> Point:
        """Return the point with its primal value, at the best rescaling of W and scalars, and its dual value."""
        losses, S = self.losses, len(self.costs)

        # 1. The dual value where Bᵀu = q
        x = self.feasible(point.x)
        costs = point.costs if x is point.x else self.evaluate(point.mu, x).costs
        dual = -losses.conjugate_value(-self.weights * x) - float(costs.max())

        # 2. min over z = (β, s) of ½β²N² + qᵀs + Σ cρ(βγ + o + Bs + d), by safeguarded Newton steps
        square = float(point.mu @ (point.norms if self.is_biased else np.sqrt(point.norms)))
        bend = np.append(square if self.is_biased else square**2, np.zeros(S))
        fixed = losses.shifts + losses.at_rows(np.broadcast_to(self.offsets(point.mu), self.form.n))
        J = np.column_stack([point.arguments - fixed - self.coupling @ point.scalars, self.coupling])
        lowest = np.append(-np.inf, np.where(losses.scalars.nonneg, 0.0, -np.inf))

        def value(z: FloatArray) -> tuple[float, FloatArray, FloatArray]:
            at = J @ z + fixed
            values, slopes = losses.values_and_derivatives(at)
            return float(0.5 * bend @ z**2 + self.costs @ z[1:] + values.sum()), at, slopes

        z = np.append(1.0, np.maximum(point.scalars, lowest[1:]))
        best, at, slopes = value(z)
        least = LEAST_GAIN * (best - dual) if dual < best < np.inf and np.isfinite(dual) else 0.0
        for _ in range(STEPS):
            rise = bend * z + np.append(0.0, self.costs) + J.T @ slopes
            if not np.all(np.isfinite(rise)):
                break
            free = (z > lowest) | (rise < 0)
            H = np.diag(bend) + (J.T * losses.curvature(at)) @ J
            values, vectors = np.linalg.eigh(H[np.ix_(free, free)])
            kept = values > 1e-12 * max(float(values[-1]), 1e-300)  # singular directions are left out
            step = -vectors[:, kept] @ ((vectors[:, kept].T @ rise[free]) / values[kept])
            if abs(step @ rise[free]) <= max(STILL * abs(best), least):
                break
            trial = z.copy()
            trial[free] += step
            trial = np.maximum(trial, lowest)
            found = value(trial)
            if not found[0] < best:
                break
            (best, at, slopes), z = found, trial
        zero = np.append(0.0, z[1:])
        if not np.isfinite(best) and (best := value(zero)[0]) < np.inf:
            z = zero
        negligible = self.form.negligible if S or self.is_biased else 0.0
        return replace(point, primal=best, dual=dual, scale=float(z[0]), proved=x, fitted=z[1:], negligible=negligible)

    def judge_weights(self, mu: FloatArray, x: FloatArray, scalars: FloatArray, W: FloatArray) -> Point:
        """Return the point (μ, x, s) judged, with the primal value of weights W (T, q r) where that is lower.

        No labelling may have a bias. Heavy losses make much of what duals leave open of the weights.
        """
        point = self.judge(self.evaluate(mu, x, scalars))
        size = float(np.linalg.norm(W, axis=1).sum())
        primal = 0.5 * size**2 + self.losses.value(self.margins(W), scalars)
        return replace(point, primal=primal, fitted=scalars, W=W) if primal < point.primal else point

    def feasible(self, x: FloatArray) -> FloatArray:
        """Return dual numbers near x that satisfy Bᵀu = q (≤ q for non-negative scalars); x itself without scalars."""
        if not len(self.costs):
            return x
        u = project_duals(self.losses, -self.weights * x)
        return np.divide(-u, self.weights, out=np.zeros(len(u)), where=self.weights > 0)

    def prox(self, x: FloatArray, step: float) -> FloatArray:
        """Return the rows' proximal points of ρ* at x; rows without weight stay at zero."""
        return self._rows(f.prox(x[part], step) for f, part in self._parts)

    def prox_derivative(self, x: FloatArray, step: float) -> FloatArray:
        """Return an element of the derivative of `prox`, in [0, 1]; zero for rows without weight."""
        return self._rows(f.prox_derivative(x[part], step) for f, part in self._parts)

    def conjugate_slopes(self, x: FloatArray) -> FloatArray:
        """Return an element of ∂ρ* at x in the domain, finite at its ends where there is one."""
        return self._rows(f.derivative(x[part]) for f, part in self._parts)

    def clip(self, x: FloatArray) -> FloatArray:
        """Return x clipped into the domains of the conjugates."""
        return self._rows(np.clip(x[part], *f.domain) for f, part in self._parts)

    def first_guess(self) -> FloatArray:
        """Return the (m,) dual numbers of w = 0, rescaled to the best dual value, or moved to Bᵀu = q."""
        slopes = self.losses.derivative(np.asarray(self.losses.shifts, dtype=float))
        x = np.divide(slopes, self.weights, out=np.zeros(len(slopes)), where=self.weights > 0)
        return self.rescale(np.where(np.isfinite(x), x, 0.0))

    def rescale(self, x: FloatArray) -> FloatArray:
        """Return the multiple 2⁻ʲ x or 0·x, clipped into the domain, of greatest dual value; feasible with scalars."""
        if len(self.costs):
            return self.feasible(x)
        scatter = self.losses.scatter(-self.weights * x)
        V, sums = self.adjoint(scatter), self.sums(scatter)
        norms = np.einsum("kr,kr->k", V, V)
        factors = [*(2.0**-j for j in range(30)), 0.0]
        trials = [self.clip(x * factor) for factor in factors]
        values = [-self.losses.conjugate_value(-self.weights * t) - factor * float(np.max(0.5 * factor * norms + sums))
                  for factor, t in zip(factors, trials)]
        return trials[int(np.argmax(values))]

    def _rows(self, parts: Iterable[FloatArray]) -> FloatArray:
        """Return numbers of the rows of all terms as one array, zero for rows without weight."""
        return np.where(self.weights > 0, np.concatenate([np.zeros(0), *parts]), 0.0)

    # -- to and from the form -----------------------------------------------------------------------

    def variables(self, point: Point) -> dict[str, FloatArray]:
        """Return what the form asks for: mu (T,), u (m,), W (q r, T), scalars (S,)."""
        T = self.form.count
        mu, W = np.zeros(T), np.zeros((self.order, T))
        mu[self.first] = point.mu
        # w_k must follow the sign of the first labelling of its class, which is the one kept.
        W[:, self.first] = (point.scale * point.mu[:, None] * point.directions if point.W is None else point.W).T
        return {"mu": mu, "u": -self.weights * point.proved, "W": W, "scalars": point.fitted}


def _in_cache(function: Callable[..., FloatArray], phi: FloatArray, labels: FloatArray,
              *more: FloatArray) -> FloatArray:
    """Return the sum of a function of blocks of points that fit the cache."""
    width = max(CACHED // labels.shape[1], 1)
    starts = range(0, len(phi), width)
    return np.asarray(total(function(*(rows[at:at + width] for rows in (phi, labels, *more))) for at in starts))


def _signed_sums(rows: slice | IntArray, phi: FloatArray, labels: FloatArray, scatter: FloatArray) -> FloatArray:
    return np.asarray((labels[:, rows] * scatter[:, None]).T @ phi)


def _margins(W: FloatArray, active: IntArray, phi: FloatArray, labels: FloatArray) -> FloatArray:
    """Return the margins of one block of features at the rows W of the active labellings."""
    width, out = max(CACHED // max(len(W), 1), 1), np.empty(len(phi))
    for at in range(0, len(phi), width):
        block = slice(at, at + width)
        out[block] = np.einsum("nk,nk->n", labels[block][:, active].astype(float), phi[block] @ W.T)
    return out


def distinct(labellings: IntArray, heights: FloatArray) -> tuple[IntArray, IntArray]:
    """Return (first, group): the first of each class of labellings that differ in names alone, and the class of all.

    Shapes: `heights` (T, k), what the bias of a labelling adds to its clusters.
    """
    labellings = np.asarray(labellings)
    keys: list[Any] = [None] * len(labellings)
    alike, stride = np.arange(len(keys)), max(labellings.shape[1] // TELLING, 1)
    while len(alike):  # first on some of the points, which tells most apart at little cost
        rows = zip(alike, *first_names(labellings[alike, ::stride], heights[alike]))
        for k, names, height in rows:
            keys[k] = names.tobytes(), height.tobytes()
        alike = np.flatnonzero([stride > 1 and keys.count(key) > 1 for key in keys])
        stride = 1
    classes: dict[tuple[bytes, bytes], int] = {}
    group = np.array([classes.setdefault(key, len(classes)) for key in keys])
    return np.unique(group, return_index=True)[1], group
