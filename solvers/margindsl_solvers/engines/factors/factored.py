"""The lift in factors: vector labels V (unit rows) and weights W as one function of one array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from margindsl.calculus import PLQ, ConvexFunction
from margindsl.features.operator import total
from margindsl.program.absorption import root_envelope
from margindsl.program.branching import PointLosses
from margindsl.program.lift import LiftForm
from margindsl.program.losses import Losses, LossTerm
from margindsl.typing import BoolArray, FloatArray, IntArray
from margindsl_solvers.engines.hull import MomentHull

TINY = 1e-150  # lengths below it have no direction
CACHED = 2**17  # numbers of a block of features that stays in a core's cache between its two products
GROUP = 4  # such blocks to one task of a thread; fixed, so that sums do not depend on the number of threads

Part = tuple[float, FloatArray]
Sum = Callable[[Callable[[slice], Part], list[slice]], Iterator[Part]]


@dataclass(frozen=True, eq=False)
class Rows:
    """Represent the rows of a lift by what they see of a point: ρ of ⟨Wᵀφ, v⟩, of ‖Wᵀφ‖, or a hull of both.

    `hulls`: hulls of losses, and the places of the rows with them; their kinks are rows of the first kind.
    """

    losses: Losses  # the rows of the first two kinds; labels that are minimised out leave functions of |f|
    index: IntArray  # (m',), their places among the rows of the form
    hulls: tuple[tuple[MomentHull, IntArray], ...]
    is_exact: bool  # whether no hull is known to be higher than what stands for it

    @classmethod
    def of_form(cls, form: LiftForm) -> Rows:
        """Return the rows of a form.

        Raises
        ------
        CalculusError
            If no function of |f| is known that is least over the labels.
        """
        terms: list[LossTerm] = []
        positions: list[IntArray] = [np.zeros(0, dtype=int)]
        hulls: list[tuple[MomentHull, IntArray]] = []
        is_exact = True

        def keep(term: LossTerm, rows: IntArray, index: IntArray, loss: ConvexFunction) -> None:
            if len(rows):
                terms.append(replace(term, loss=loss, **{name: getattr(term, name)[rows] for name in (
                    "points", "weights", "slopes", "shifts", "coupling")}))
                positions.append(index[rows])

        for term, part in form.losses.slices():
            index, linear = np.arange(part.start, part.stop), form.linear[part]
            squared = linear & form.squared[part] & (form.ceiling[part] > 0)
            bent, hulled = squared & (term.slopes == 1) & (term.shifts == 0), False
            if np.any(bent) and isinstance(term.loss, PLQ):
                smooth, kinks = _split_kinks(term.loss)
                one = np.ones(int(bent.sum()))
                table = LossTerm(smooth, np.arange(len(one)), one, one, 0.0 * one, np.zeros((len(one), 0)))
                hull = MomentHull.build(PointLosses.build(Losses(len(one), (table,))))
                bent = bent & (hull.base[0] > 0 or bool(hull.double[0]))
                if np.any(bent):
                    hulls.append((hull, index[bent]))
                    tails = term.loss.coefficients[[0, -1], 0].min()
                    hulled = kinks is None and bool(hull.double[0] or hull.base[0] >= tails * (1 - 1e-9))
                    keep(term, np.flatnonzero(bent) if kinks is not None else np.zeros(0, dtype=int), index,
                         kinks or term.loss)
            keep(term, np.flatnonzero(linear & ~bent), index, term.loss)
            is_exact &= not np.any(squared if not hulled else squared & ~bent)
            apart = np.flatnonzero(~linear)
            if len(apart):
                # of codes of clusters the inner product with Wᵀφ may be anything below its length
                loss = term.loss.split()[0] if form.clusters > 2 else root_envelope(term.loss)
                keep(replace(term, slopes=np.abs(term.slopes)), apart, index, loss)
                is_exact &= form.clusters > 2 or loss is term.loss or loss == term.loss.split()[0]
        return cls(Losses(form.n, tuple(terms), form.losses.scalars), np.concatenate(positions), tuple(hulls), is_exact)


def _split_kinks(loss: PLQ) -> tuple[PLQ, PLQ | None]:
    """Return a smooth loss and its kinks Σ j_k (t − t_k)₊, None where there are none, whose sum is the loss."""
    knots, table = loss.breakpoints, loss.coefficients
    jumps = 2 * np.diff(table[:, 0]) * knots + np.diff(table[:, 1])
    jumps = np.where(jumps > 1e-9 * (np.abs(table[:, 1]).max() + np.abs(table[:, 0]).max() * (1 + np.abs(knots))),
                     jumps, 0.0)
    if not np.any(jumps):
        return loss, None
    lines = np.column_stack([0.0 * jumps, np.cumsum(jumps), -np.cumsum(jumps * knots)])
    kinks = np.vstack([np.zeros(3), lines])
    return PLQ(knots, table - kinks), PLQ(knots, kinks)


@dataclass(frozen=True, eq=False)
class Factored:
    """Represent min ½‖W‖² + qᵀs + Σ rows over W (R, p), unit rows v_C (N, p) and s.

    One array (R + N + S, p) holds W, rows x_C with v_C = x_C/‖x_C‖, and in its first column s, roots of those that are
    non-negative. Lifted bounds enter as
    ‖Vᵀω̂_j‖² ≤ β̂_j², decision bounds as ‖Wᵀσ̂_l‖² ≤ ℓ̂_l² and cuts as ‖Vᵀb̂_k‖² ≥ l̂_k (or equal), vectors normed.
    """

    form: LiftForm
    rows: Rows
    workers: Sum  # maps a function over blocks of points; see `threads`

    @cached_property
    def held(self) -> BoolArray:
        """Return (n,) which points have a component."""
        return ~self.form.absorbed

    @cached_property
    def indicator(self) -> csr_array:
        """Return the (N, n) matrix Aᵀ of signs of points in components."""
        form, held = self.form, np.flatnonzero(self.held)
        return csr_array((form.sign[held].astype(float), (form.component[held], held)), shape=(form.count, form.n))

    @cached_property
    def bounds(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return limits, squared lengths and turns (−1 of least values) of label bounds, decision bounds and cuts."""
        form = self.form
        squares = np.concatenate([np.sum(form.omega**2, axis=1), np.sum(form.sigma**2, axis=1),
                                  np.asarray((self._cuts**2).sum(axis=1)).ravel()])
        squares = np.maximum(squares, 1e-300)
        alternation = np.repeat([1.0, 1.0, -1.0], [len(form.balance), len(form.decision), form.cuts.count])
        return np.concatenate([*form.limits, form.cuts.least]) / squares, squares, alternation

    @cached_property
    def free(self) -> BoolArray:
        """Return which multipliers may be negative, those of equalities."""
        return np.append(np.zeros(len(self.form.balance) + len(self.form.decision), dtype=bool), self.form.cuts.equal)

    @cached_property
    def _cuts(self) -> csr_array:
        return self.form.cuts.matrix(self.form.count)

    # -- parts of a point ---------------------------------------------------------------------------

    def split(self, Y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return views W and X of the array, and s."""
        first, second = self.form.order, self.form.order + self.form.count
        s = Y[second:, 0]
        return Y[:first], Y[first:second], np.where(self.form.losses.scalars.nonneg, s**2, s)

    def penalised(self, W: FloatArray) -> FloatArray:
        """Return the rows of W that the norm sees."""
        return W[:-1] if self.form.free_bias else W

    def lengths(self, W: FloatArray) -> FloatArray:
        """Return the (n,) lengths ‖Wᵀφ‖."""
        return self.form.features.lengths(*((W[:-1], W[-1]) if self.form.free_bias else (W,)))

    def seen(self, W: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return products F = ΦW, labels (n, p), zero where minimised out, and margins (n,), there lengths ‖F‖.

        Without components there is no more than lengths to see.
        """
        form, apart = self.form, self.form.absorbed
        if not form.count:
            return np.zeros((form.n, 0)), np.zeros((form.n, 0)), self.lengths(W)
        F, labels = form.outputs(W), form.sign[:, None] * V[form.component]
        labels[apart] = 0.0
        margins = np.einsum("np,np->n", F, labels)
        margins[apart] = np.sqrt(np.einsum("np,np->n", F[apart], F[apart]))
        return F, labels, margins

    def multipliers(self, F: FloatArray, labels: FloatArray, margins: FloatArray, s: FloatArray, losses: Losses
                    ) -> tuple[FloatArray, FloatArray]:
        """Return the dual (u, q) of the rows of the form at what is seen, at smooth stand-ins of the losses."""
        form, rows = self.form, self.rows
        u, q = np.zeros(form.losses.rows), np.zeros(form.losses.rows)
        slope, linear = losses.derivative(losses.arguments(margins, s)), form.linear[rows.index]
        u[rows.index[linear]] = -slope[linear]  # of a row its kinks alone where there is a hull
        v = losses.at_rows(margins)[~linear]
        v = np.maximum(v, 1e-9 * (float(v.max(initial=0.0)) or 1.0))  # of no length any will do
        q[rows.index[~linear]] = 0.5 * slope[~linear] / v
        for index, _, weights, by_f, by_z in self._hulls(F, labels):
            u[index] -= weights * by_f
            q[index] = weights * by_z
        return u, q

    def _hulls(self, F: FloatArray, labels: FloatArray
               ) -> Iterator[tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray]]:
        """Yield places of rows with a hull, its values, their weights and its derivatives."""
        losses = self.form.losses
        for hull, index in self.rows.hulls:
            f, own = F[losses.points[index]], labels[losses.points[index]]
            bend = hull.at(np.einsum("np,np->n", f, own), np.einsum("np,np->n", f, f))
            yield index, bend.value, losses.weights[index], bend.by_f, bend.by_z

    # -- bounds -------------------------------------------------------------------------------------

    def excess(self, W: FloatArray, V: FloatArray) -> FloatArray:
        """Return how far lifted bounds, decision bounds and cuts are exceeded, by their squared lengths."""
        limits, squares, alternation = self.bounds
        images = [self.form.omega @ V, self.form.sigma @ W, self._cuts @ V]
        found = np.concatenate([np.sum(image**2, axis=1) for image in images])
        return alternation * (found / squares - limits)

    def active(self, multipliers: FloatArray, penalty: FloatArray, excess: FloatArray) -> FloatArray:
        """Return multiplier + penalty · excess, at least zero but for equalities."""
        moved = multipliers + penalty * excess
        return np.where(self.free, moved, np.maximum(0.0, moved))

    def violation(self, excess: FloatArray) -> FloatArray:
        """Return how far each bound is broken."""
        return np.where(self.free, np.abs(excess), np.maximum(excess, 0.0))

    def shortfall(self, excess: FloatArray, multipliers: FloatArray, penalty: FloatArray) -> FloatArray:
        """Return the step of each multiplier in units of the bounds; zero at complementary slackness."""
        return np.where(self.free, excess, np.maximum(excess, -multipliers / penalty))

    def label_force(self, active: FloatArray, V: FloatArray) -> FloatArray:
        """Return (Σκωωᵀ − Σγbbᵀ)V."""
        form, (_, squares, _), cuts = self.form, self.bounds, self._cuts
        kappa, _, gamma = np.split(active / squares, np.cumsum([len(form.balance), len(form.decision)]))
        force = form.omega.T @ (kappa[:, None] * (form.omega @ V))
        return force - cuts.T @ (gamma[:, None] * (cuts @ V)) if len(gamma) else force

    # -- the function -------------------------------------------------------------------------------

    def objective(self, W: FloatArray, F: FloatArray, labels: FloatArray, margins: FloatArray, s: FloatArray) -> float:
        """Return the objective at what is seen, the bounds not included."""
        value = 0.5 * float(np.sum(self.penalised(W) ** 2)) + self.rows.losses.value(margins, s)
        return value + float(sum(weights @ values for _, values, weights, _, _ in self._hulls(F, labels)))

    def oracle(self, Y: FloatArray, losses: Losses, multipliers: FloatArray, penalty: FloatArray
               ) -> tuple[float, FloatArray]:
        """Return value and gradient of the augmented Lagrangian; one pass over the data each way.

        `losses`: smooth stand-ins of `rows.losses`.
        """
        W, X, s = self.split(Y)
        form, out = self.form, np.zeros_like(Y)
        to_W, to_X, _ = self.split(out)
        lengths = np.maximum(np.sqrt(np.einsum("cp,cp->c", X, X)), TINY)[:, None]
        V = X / lengths
        if self._is_swept:
            value, to_W[:] = self._sweep(losses.terms[0], W)
        else:
            if form.count:
                F, labels, margins = self.seen(W, V)
            else:
                F, labels = form.outputs(W), np.zeros((form.n, 1))
                margins = np.sqrt(np.einsum("np,np->n", F, F))
            values, slopes = losses.values_and_derivatives(losses.arguments(margins, s))
            along = losses.scatter(slopes)
            across = np.where(form.absorbed, along / np.maximum(margins, TINY), 0.0)
            along = np.where(form.absorbed, 0.0, along)
            value = float(np.sum(values) + losses.scalars.costs @ s)
            inner = np.where(losses.scalars.nonneg, 2.0 * Y[len(Y) - len(s):, 0], 1.0)
            out[len(Y) - len(s):, 0] = inner * (losses.scalars.costs + losses.coupling.T @ slopes)
            for index, found, weights, by_f, by_z in self._hulls(F, labels):
                points = form.losses.points[index]
                value += float(weights @ found)
                along += np.bincount(points, weights * by_f, form.n)
                across += np.bincount(points, 2 * weights * by_z, form.n)
            if form.count:
                to_X[:] = self.indicator @ (along[:, None] * F)
            F *= across[:, None]
            F += along[:, None] * labels
            to_W[: form.features.rank] = form.features.adjoint(F)
            if form.free_bias:
                to_W[-1] = F.sum(axis=0)
        value += 0.5 * float(np.sum(self.penalised(W) ** 2))
        to_W[: form.features.rank] += W[: form.features.rank]
        if len(multipliers):
            active = self.active(multipliers, penalty, self.excess(W, V))
            value += 0.25 * float(np.sum((active**2 - multipliers**2) / penalty))
            to_X += self.label_force(active, V)
            J, L = len(form.balance), len(form.decision)
            eta = (active / self.bounds[1])[J:J + L]
            to_W += form.sigma.T @ (eta[:, None] * (form.sigma @ W))
        to_X -= V * np.einsum("cp,cp->c", V, to_X)[:, None]
        to_X /= lengths
        return value, out

    @cached_property
    def _is_swept(self) -> bool:
        """Return whether blocks of features are taken one by one: many points alike, all labels minimised out."""
        features: Any = self.form.features
        losses = self.rows.losses
        return not self.form.count and len(losses.terms) == 1 and losses.is_identity and (
            features.is_dense or features.is_streamed)

    def _sweep(self, term: LossTerm, W: FloatArray) -> Part:
        """Return Σ cρ(‖Wᵀφ‖) and its gradient block by block, never holding n × p numbers.

        Blocks of features that are read from a file or held by workers are evaluated where they are read.
        """
        features: Any = self.form.features
        part = partial(_block, term.loss, np.ascontiguousarray(W), self.form.free_bias)
        if not features.is_dense:
            value, gradient = features.fold(part, term.weights, term.shifts)
            return value, gradient
        size = max(64, CACHED // max(1, features.rank))

        def task(rows: slice) -> Part:
            blocks = (slice(start, min(start + size, rows.stop)) for start in range(rows.start, rows.stop, size))
            return total(part(features.matrix[block], term.weights[block], term.shifts[block]) for block in blocks)

        starts = range(0, self.form.n, GROUP * size)
        return total(self.workers(task, [slice(start, min(start + GROUP * size, self.form.n)) for start in starts]))


def _block(loss: ConvexFunction, W: FloatArray, free_bias: bool, rows: FloatArray, weights: FloatArray,
           shifts: FloatArray) -> Part:
    """Return the part of one block of features: value and gradient."""
    F = rows @ W[:rows.shape[1]]
    if free_bias:
        F += W[-1]
    lengths = np.sqrt(np.einsum("np,np->n", F, F))
    values, slopes = loss.value_and_derivative(lengths + shifts)
    slopes *= weights
    slopes /= np.maximum(lengths, TINY)
    F *= slopes[:, None]
    below = rows.T @ F
    return float(weights @ values), np.vstack([below, F.sum(axis=0)]) if free_bias else below
