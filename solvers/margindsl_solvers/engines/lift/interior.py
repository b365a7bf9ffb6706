"""The one lift by a primal-dual interior point method that stays dual feasible: every iterate proves a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, block_diag, cho_factor, cho_solve, cholesky, eigh, qr, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.sparse import csr_array

from margindsl.calculus import PLQ
from margindsl.contract import Budget, RawSolution, Status
from margindsl.program.lift import LiftForm
from margindsl.typing import BoolArray, FloatArray, IntArray
from margindsl_solvers.engines.course import Bracket, Course
from margindsl_solvers.engines.lift.pieces import Pieces, adjugate, determinant

JAMMED = 1e-3  # longest of the two steps that is taken for no progress
INSIDE, SHORTER = 0.92, 0.87  # part of the way to the boundary that is taken; trial steps towards it
REFINED = 3  # solutions of a Newton system at most, each for what the one before left of the primal residual
NEAR, FINER = 0.1, 8  # share of the tolerance that losses may be off by; parts that a piece is cut into at once
SLOW = 25  # steps without a fall of the error
IDLE = 4  # steps which rounding kept from making the residual smaller, after which there is none to be hoped for
SETTLED = 1e-2  # share of the gap from which the primal residual is not made smaller
ROUNDING = 1e-9  # share of the labels' prices that is not believed where they are to prove that there are no labels
CLOSE = 1e-3  # part of the costs of shared scalars from which E y is put onto them exactly
INDEPENDENT = 1e-9  # relative size of what is not zero
FAINT = 1e-9  # share of a loss that is given up at points without features, whose label is minimised out
FULL = np.array([1.0, 2.0, 1.0])  # takes (x₁, x₂, x₃) of [[x₁, x₂], [x₂, x₃]] to the coefficients of a quadratic


def bent_rows(form: LiftForm) -> BoolArray:
    """Return (m,) which rows have a q: beside a u, q ≤ 0 would prove nothing, as hulls of first moments are convex."""
    return form.squared & ((form.ceiling > 0) | ~form.linear)


def newton_order(form: LiftForm) -> tuple[int, int]:
    """Return the number of multipliers of a form that a step is taken in, and the order of its matrix."""
    multipliers = form.count + len(form.balance) + len(form.decision) + form.cuts.count + form.losses.scalars.count
    return multipliers + int(form.linear.sum() + bent_rows(form).sum()), form.count + min(form.order, form.n + 1)


class _Dual(NamedTuple):
    y: FloatArray
    delta: FloatArray
    sigma: FloatArray  # (P,), zero where there is none


class _Matrices(NamedTuple):
    """Hold S, z and what is ≥ 0 (σ, then y) of the dual, or the multipliers X, x, … of these, or changes of them."""

    S: FloatArray
    z: FloatArray  # (P, 3), of the pieces
    signed: FloatArray


@dataclass(frozen=True, eq=False)
class LiftArrays:
    """Represent max Σ_r δ_r + gᵀy over S(y) = S₀ + Σ_s y_s A_s ⪰ 0, δ_r ≤ D_r(u_r, q_r), E y = h, some y_s ≥ 0.

    S acts on N components and r weights, or on what bounds of zero leave of them. A_s = c_s ½(abᵀ + baᵀ), where a, b
    are columns of V = [e_C | extras | φ_i]: first the y with a = b (d, κ, η, γ, q), then those of two vectors (u),
    last, with c = 0, what E u leaves of h where scalars are non-negative. Losses are divided by `unit`, squares of
    features are multiplied by it.
    """

    form: LiftForm
    unit: float
    features: FloatArray  # Φ (n, r), ones in the last column for a free bias
    extras: FloatArray  # (N + r, e): ω, then σ below, then b
    constant: FloatArray  # S₀ (N + r, N + r)
    pieces: Pieces  # of the rows that are not fixed
    fixed: BoolArray  # (m,) the rows of one possible u, of which D is `offset` in all
    single: IntArray  # (Y₁,) columns of V
    pair: IntArray  # (2, Y₂)
    kind: IntArray  # (Y,), of d, κ, η, γ, q, u, rest
    scale: FloatArray  # c (Y,)
    gain: FloatArray  # g (Y,)
    offset: float
    signed: IntArray  # the y ≥ 0
    q: IntArray  # (Q,) in y, of `q_rows` among those of `pieces`
    q_rows: IntArray
    u: IntArray
    u_rows: IntArray
    equalities: FloatArray  # E (S, Y)
    costs: FloatArray  # h (S,)
    labels: FloatArray | None = None  # (N', N), what is left of e_C; all of it

    @classmethod
    def of_form(cls, form: LiftForm, features: FloatArray, sigma: FloatArray) -> LiftArrays:
        """Return the numbers of a form, with features (n, r) and σ (L, r) that have its inner products."""
        losses, N, r, cuts = form.losses, form.count, features.shape[1], form.cuts
        unit = losses.size(np.zeros(form.n)) or form.units[0]
        features, sigma = np.sqrt(unit) * features, np.sqrt(unit) * sigma
        # an affine loss without q has one u where D is finite, and so has one of no weight; points without features
        # have one that is best, and the further down their q the better
        affine = np.concatenate([np.full(term.rows, isinstance(term.loss, PLQ) and term.loss.is_affine)
                                 for term in losses.terms])
        squared = bent_rows(form)
        nowhere = ~np.any(features, axis=1)[losses.points] & ~np.any(losses.coupling, axis=1)
        fixed = (affine & ~squared) | (losses.weights == 0) | nowhere
        u_fixed = np.where(fixed & form.linear, -losses.derivative(losses.shifts), 0.0) / unit
        rows = np.flatnonzero(~fixed)
        reach = 2 * np.sqrt(2 * np.einsum("ir,ir->i", features, features).max(initial=0.0)) + 4 * form.units[1]
        pieces = Pieces.of_losses(losses, losses.weights / unit, squared, form.units[1], ~fixed, reach)
        # the columns of V, and the atoms
        above, ends = np.vstack([form.omega, cuts.matrix(N).toarray()]), np.cumsum([N, len(form.omega), len(sigma)])
        extras = np.zeros((N + r, len(above) + len(sigma)))
        extras[:N, np.r_[:len(form.omega), len(form.omega) + len(sigma):extras.shape[1]]] = above.T
        extras[N:, len(form.omega):len(form.omega) + len(sigma)] = sigma.T
        first = N + extras.shape[1]
        q_rows, u_rows = np.flatnonzero(squared[rows]), np.flatnonzero(form.linear[rows])
        points, slopes = losses.points[rows], losses.slopes[rows]
        scalars = losses.scalars
        slack = np.flatnonzero(scalars.nonneg)
        beta2, ell2 = form.limits
        scale = np.concatenate([np.ones(ends[2]), -np.ones(cuts.count), 2 * slopes[q_rows]**2,
                                (-2 * slopes * form.sign[points])[u_rows], np.zeros(len(slack))])
        gain = -0.5 * np.concatenate([np.ones(N), beta2, ell2, -cuts.least, np.zeros(len(scale) - first)])
        q = first + np.arange(len(q_rows))
        u = first + len(q) + np.arange(len(u_rows))
        equalities = np.zeros((scalars.count, len(scale)))
        equalities[:, u] = losses.coupling[rows[u_rows]].T
        equalities[slack, len(scale) - len(slack) + np.arange(len(slack))] = 1.0
        signed = np.concatenate([np.arange(N, ends[2]), ends[2] + np.flatnonzero(~cuts.equal),
                                 np.arange(len(scale) - len(slack), len(scale))])
        constant = np.diag(np.repeat([0.0, 1.0], [N, r]))
        if form.free_bias:
            constant[-1, -1] = 0.0
        if np.any(u_fixed):
            weights = losses.spread(u_fixed) * form.sign
            held = np.flatnonzero(weights)
            np.add.at(constant[:N, N:], form.component[held], -weights[held, None] * features[held])
            constant[N:, :N] = constant[:N, N:].T
        return cls(
            form, unit, features, extras, constant, pieces, fixed, np.append(np.arange(first), first + points[q_rows]),
            np.stack([form.component[points[u_rows]], first + points[u_rows]]),
            np.repeat(np.arange(7), [*np.diff(ends, prepend=0), cuts.count, len(q), len(u), len(slack)]), scale, gain,
            float(np.sum(losses.row_losses(losses.shifts)[fixed])) / unit, signed, q, q_rows, u, u_rows, equalities,
            scalars.costs / unit - losses.coupling.T @ u_fixed)

    @property
    def order(self) -> int:
        """Return N + r."""
        return len(self.constant)

    @property
    def above(self) -> int:
        """Return the number N of rows of S that are labels."""
        return self.order - self.features.shape[1]

    @cached_property
    def vectors(self) -> FloatArray:
        """Return V (N + r, columns)."""
        N = self.form.count
        labels = np.vstack([np.eye(N) if self.labels is None else self.labels, np.zeros((self.features.shape[1], N))])
        below = np.vstack([np.zeros((self.above, len(self.features))), self.features.T])
        return np.hstack([labels, self.extras, below])

    def _of_labels(self, Z: FloatArray) -> FloatArray:
        return Z if self.labels is None else self.labels.T @ Z

    def gram(self, X: FloatArray) -> FloatArray:
        """Return VᵀXV of a symmetric X."""
        N = self.above
        XV = np.hstack([self._of_labels(X[:N]).T, X @ self.extras, X[:, N:] @ self.features.T])
        return np.vstack([self._of_labels(XV[:N]), self.extras.T @ XV, self.features @ XV[N:]])

    def inner(self, X: FloatArray) -> FloatArray:
        """Return (Y,) the products ⟨A_s, X⟩ with a symmetric X."""
        N, XF = self.above, X[:, self.above:] @ self.features.T
        labels = np.diag(X)[:N] if self.labels is None else np.einsum("ac,ac->c", self.labels, X[:N, :N] @ self.labels)
        squares = np.concatenate([labels, np.einsum("ae,ae->e", self.extras, X @ self.extras),
                                  np.einsum("ir,ri->i", self.features, XF[N:])])
        i, j = self.pair
        products = np.append(squares[self.single], self._of_labels(XF[:N])[i, j - len(squares) + len(self.features)])
        return self.scale * np.pad(products, (0, len(self.scale) - len(products)))

    def change(self, dual: _Dual) -> _Matrices:
        """Return the linear part of S, z and what is ≥ 0."""
        z = self.pieces.change(*self.arguments(dual.y), dual.delta, dual.sigma)
        return _Matrices(self.matrix(dual.y), z, np.append(dual.sigma[self.pieces.slack], dual.y[self.signed]))

    def matrices(self, dual: _Dual) -> _Matrices:
        """Return S, z and what is ≥ 0."""
        change = self.change(dual)
        return change._replace(S=self.constant + change.S, z=self.pieces.base + change.z)

    def residual(self, primal: _Matrices) -> _Dual:
        """Return what multipliers miss of their equations, but for Eᵀ times scalars: the transpose of `change`."""
        pieces, many = self.pieces, int(self.pieces.slack.sum())
        by_piece = np.einsum("pai,pa->pi", pieces.slope, primal.z)
        by_row, y = pieces.total(by_piece[:, :3]), self.gain + self.inner(primal.S)
        y[self.u] += by_row[self.u_rows, 0]
        y[self.q] += by_row[self.q_rows, 1]
        y[self.signed] += primal.signed[many:]
        sigma = np.zeros(len(by_piece))
        sigma[pieces.slack] = by_piece[pieces.slack, 3] + primal.signed[:many]
        return _Dual(y, by_row[:, 2] + 1.0, sigma)

    def matrix(self, y: FloatArray) -> FloatArray:
        """Return Σ_s y_s A_s."""
        N, e, values, (i, j), one = self.form.count, self.extras.shape[1], self.scale * y, self.pair, self.single
        two = 0.5 * values[len(one):len(one) + len(i)]
        where = np.concatenate([one, i, j]), np.concatenate([one, j, i])
        C = csr_array((np.concatenate([values[:len(one)], two, two]), where), shape=(self.vectors.shape[1],) * 2)
        CV = C @ self.vectors.T
        S = self.extras @ CV[N:N + e]
        S[:self.above] += CV[:N] if self.labels is None else self.labels @ CV[:N]
        S[self.above:] += self.features.T @ CV[N + e:]
        return S

    def arguments(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (u, q) of all rows of `pieces`, zero where y has none."""
        u, q = np.zeros(len(self.pieces.first)), np.zeros(len(self.pieces.first))
        u[self.u_rows], q[self.q_rows] = y[self.u], y[self.q]
        return u, q

    def start(self) -> FloatArray | None:
        """Return a y inside all cones, None where none is found: then nothing holds a free bias."""
        form, N = self.form, self.form.count
        J, L, T = len(form.balance), len(form.decision), form.cuts.count
        low, high, ceiling = self.pieces.interior()
        c = form.losses.weights[~self.fixed] / self.unit
        slope = -form.losses.derivative(form.losses.shifts)[~self.fixed] / self.unit
        inner = 0.25 * (np.abs(slope) + c)
        u = np.where(np.isfinite(low), np.maximum(slope, low + inner), np.minimum(slope, high - inner))
        both = np.isfinite(low) & np.isfinite(high)
        u[both] = (low[both] + high[both]) / 2
        if len(self.costs):  # towards E u = h, as far as to nine tenths of the way to an end
            du, E = np.zeros_like(u), self.equalities[:, self.u]
            du[self.u_rows] = np.linalg.lstsq(E, self.costs - E @ u[self.u_rows])[0]
            u += min(1.0, 0.9 * min(_ray(u - low, du), _ray(high - u, -du))) * du
        y = np.zeros(len(self.gain))
        y[N:N + J] = 0.1 / np.maximum(form.limits[0], np.einsum("jc,jc->j", form.omega, form.omega))
        y[N + J + L:N + J + L + T] = np.where(form.cuts.equal, 0.0, 0.05 / max(N, T, 1))
        squares = np.einsum("dl,dl->l", self.extras[:, J:J + L], self.extras[:, J:J + L])
        # weights first: q below its ceiling, then as far up as half of it, and η as great as holds the bias
        lengths = np.einsum("ir,ir->i", self.features, self.features)[form.losses.points] * form.losses.slopes**2
        lengths = np.maximum(lengths, 1e-6 * lengths.mean())[~self.fixed]
        below = -0.1 / (len(lengths) * lengths)
        for q, eta in ((q, eta) for eta in (1.0, 10.0, 100.0, 1e4) for q in (
                np.where(ceiling > 0, 0.0, below), np.where(ceiling > 0, 0.5 * np.minimum(ceiling, c), below))):
            y[self.q], y[N + J:N + J + L] = q[self.q_rows], eta / np.maximum(squares, 1e-300)
            try:
                root = cholesky((self.constant + self.matrix(y))[N:, N:], lower=True)
            except LinAlgError:
                continue
            if np.all(np.diag(root)**2 > 1e-10):
                break
        else:
            return None
        # then labels: of u, from the one of least size on, what proves most with d that dominates
        near, best, found = np.clip(0.0, low, high), -np.inf, y
        cuts = np.abs(self.extras[:N, J + L:])
        for share in 10.0 ** -np.arange(0.0, 0.1 if len(self.costs) else 4.0, 0.25):
            y[self.u], y[:N] = (near + share * (u - near))[self.u_rows], 0.0
            S = self.constant + self.matrix(y)
            H = solve_triangular(root, S[N:, :N], lower=True)
            y[:N] = (np.abs(H.T @ H).sum(axis=1) + (cuts * (cuts.sum(axis=0) * y[N + J + L:N + J + L + T])).sum(axis=1)
                     + 0.1 / max(N, 1))
            bound = self.objective(y)
            if bound > best or share == 1.0:
                best, found = bound, y.copy()
        slack = np.flatnonzero(form.losses.scalars.nonneg)
        found[len(y) - len(slack):] = np.maximum((self.costs - self.equalities @ found)[slack], 0.1)
        return found

    def objective(self, y: FloatArray) -> float:
        """Return Σ D + gᵀy."""
        return float(self.pieces.least(*self.arguments(y)).sum() + self.gain @ y) + self.offset

    def misses(self, y: FloatArray) -> FloatArray:
        """Return h − E y."""
        return self.costs - self.equalities @ y

    def variables(self, y: FloatArray, X: FloatArray) -> dict[str, FloatArray]:
        """Return the dual point y and the moment matrix 2X in the form's units."""
        form, losses, N = self.form, self.form.losses, self.form.count
        J, L, T = len(form.balance), len(form.decision), form.cuts.count
        u = np.where(self.fixed & form.linear, -losses.derivative(losses.shifts), 0.0)
        q = np.where(self.fixed & ~form.linear, -losses.weights / FAINT, 0.0)
        u[~self.fixed], q[~self.fixed] = (self.unit * part for part in self.arguments(y))
        d, kappa, eta, gamma, _ = np.split(self.unit * y, np.cumsum([N, J, L, T]))
        values, vectors = eigh(2.0 * X)
        factor = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, values > 1e-9 * values[-1]][:, ::-1]
        return {"u": u, "q": q, "d": d, "kappa": kappa, "gamma": gamma, "eta": eta,
                "V": factor[:N], "W": np.sqrt(self.unit) * factor[N:]}


@dataclass(frozen=True, eq=False)
class Face:
    """Represent a lift where bounds of zero leave M and W: ωᵀMω = 0 is Mω = 0. Beside them κ and η have no best value.

    Parameters
    ----------
    whole, lift : LiftArrays
        With these bounds, and on the face.
    kept, bounds : IntArray
        Which multipliers of the whole have a place in the lift, and those of independent bounds that do not.
    inside, beside : (N + r, ...) float arrays
        Orthonormal bases of the face and of the vectors of the bounds.
    """

    whole: LiftArrays
    lift: LiftArrays
    kept: IntArray
    bounds: IntArray
    inside: FloatArray
    beside: FloatArray

    @classmethod
    def of_lift(cls, lift: LiftArrays) -> Face | None:
        """Return the face, None where no bound is zero, or the face has no inner point."""
        N, columns = lift.form.count, lift.vectors
        flat = np.flatnonzero((lift.kind == 1) | (lift.kind == 2))
        flat = flat[(lift.gain[flat] == 0) & np.any(columns[:, flat] != 0, axis=0)]
        inside, beside, bounds = [], [], []
        for kind, part in ((1, slice(0, N)), (2, slice(N, None))):
            own = flat[lift.kind[flat] == kind]
            Q, R, order = qr(columns[part, own], pivoting=True)
            rank = int(np.sum(np.abs(np.diag(R)) > INDEPENDENT * np.abs(R).max(initial=0.0)))
            inside.append(Q[:, rank:])
            beside.append(Q[:, :rank])
            bounds.append(own[order[:rank]])
        if not len(flat) or not sum(Q.shape[1] for Q in inside) or np.any(
                np.linalg.norm(inside[0], axis=1) <= INDEPENDENT):
            return None
        kept, basis = np.setdiff1d(np.arange(len(lift.gain)), flat), block_diag(*inside)

        def number(index: IntArray) -> IntArray:
            return index - np.searchsorted(flat, index)

        return cls(lift, replace(
            lift, labels=inside[0].T, features=lift.features @ inside[1],
            extras=basis.T @ np.delete(lift.extras, flat - N, axis=1), constant=basis.T @ lift.constant @ basis,
            single=number(lift.single[kept[kept < len(lift.single)]]), pair=number(lift.pair), kind=lift.kind[kept],
            scale=lift.scale[kept], gain=lift.gain[kept], signed=number(np.setdiff1d(lift.signed, flat)),
            q=number(lift.q), u=number(lift.u), equalities=lift.equalities[:, kept]),
            kept, np.concatenate(bounds), basis, block_diag(*beside))

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Return multipliers of the whole lift, d somewhat greater where that lets those of the bounds be smaller.

        The less S is inside the greater they are, and what a matrix of great entries proves is less by its rounding.
        """
        whole, N = self.whole, self.whole.form.count
        full = np.zeros(len(whole.gain))
        full[self.kept] = y
        S = whole.constant + whole.matrix(full)
        inner, edge, corner = self.inside.T @ S @ self.inside, self.inside.T @ S @ self.beside, (
            self.beside.T @ S @ self.beside)
        labels = np.diag(np.arange(whole.order) < N).astype(float)
        G, least, found = self.beside.T @ whole.vectors[:, self.bounds], np.inf, full
        for shift in np.append(0.0, np.abs(full[:N]).mean() * 10.0 ** -np.arange(3.0, 13.0)) if N else [0.0]:
            try:
                factor = cho_factor(inner + shift * self.inside.T @ labels @ self.inside)
            except LinAlgError:
                continue
            needed = edge.T @ cho_solve(factor, edge) - corner - shift * self.beside.T @ labels @ self.beside
            needed = np.linalg.solve(G, np.linalg.solve(G, needed).T)
            needed = (needed + needed.T) / 2
            size = np.diag(needed).clip(0.0) + np.abs(needed - np.diag(np.diag(needed))).sum(axis=1)
            room = 4 * np.finfo(float).eps * whole.order * float(size @ np.einsum("ab,ab->b", G, G))
            price = N * (0.5 * shift + room)
            if price < least:
                least, found = price, full.copy()
                found[:N] += shift
                found[self.bounds] = (1.0 + INDEPENDENT) * size
        return found


class InteriorRun(Course[Bracket]):
    """Follow the central path by Newton steps in the HKM direction, with Mehrotra's predictor and corrector.

    The Newton matrix ⟨A_s, X A_t S⁻¹⟩ consists of products of entries of VᵀXV and VᵀS⁻¹V. The δ and σ of the pieces
    are eliminated row by row, so that one Cholesky factorisation of order Y is all there is: no n² variables.

    Parameters
    ----------
    lift : LiftArrays
    budget : Budget
    y : (Y,) float array
        A start inside all cones; E y = h is reached on the way.

    References
    ----------
    C. Helmberg, F. Rendl, R. Vanderbei, H. Wolkowicz (1996). An interior-point method for semidefinite programming.
    """

    stage, counted = "interior", "iterations"

    def __init__(self, lift: LiftArrays, budget: Budget, y: FloatArray) -> None:
        super().__init__(budget)
        pieces, N = lift.pieces, lift.above
        self.lift = lift
        self.dual = _Dual(y, *pieces.start(*lift.arguments(y), 0.1 / max(len(pieces.first), 1)))
        # the primal start: labels and weights uncorrelated, each loss spread over its pieces as on a central path
        weights = lift.order - N
        self.now = lift.matrices(self.dual)
        x, sigmas = pieces.centred(self.now.z, self.dual.sigma)
        self.primal = _Matrices(
            np.diag(np.repeat([0.5, 0.5 / max(weights, 1)], [N, weights])), x,
            np.append(sigmas[pieces.slack], np.maximum(0.5 * np.abs(lift.gain[lift.signed]), 0.1)))
        self.scalars = np.zeros(len(lift.costs))
        self.root = cholesky(self.now.S, lower=True)
        self.bound, self.best_y = -np.inf, y
        self.off, self.rounded = np.inf, 0

    def init(self) -> Status | None:
        return self._judge(1.0)

    def _judge(self, left: float) -> Status | None:
        """Book the bound of the dual point, and a value that the optimum of the lift exceeds by the error at most.

        Parameters
        ----------
        left : float
            The part of the primal residual that the step should have left.
        """
        lift, y, delta = self.lift, self.dual.y, self.dual.delta
        # 1. with u = 0 labels pay their prices whatever the weights are: as they are multiples of themselves, not less
        labels = (lift.gain * y)[(lift.kind <= 1) | (lift.kind == 3)]
        if labels.sum() > ROUNDING * np.abs(labels).sum():
            return Status.INFEASIBLE
        # 2. the bound, where scalars are paid for
        paid = np.abs(lift.misses(y)).max(initial=0.0) <= 1e-12 * (1.0 + np.abs(lift.costs).max(initial=0.0))
        bound = lift.objective(y) if paid else -np.inf
        if bound >= self.bound:
            self.bound, self.best_y = bound, y
        # 3. δ and y gain at most the gap and what the residual makes of them; pieces are off where their mass is
        gap = _product(self.now, self.primal)
        value = float(delta.sum() + lift.gain @ y + lift.offset + gap)
        off, near = self._error(lift.residual(self.primal)), 2.0 * float(lift.pieces.off @ self.primal.z[:, 2])
        error = (max(value - self.bound, 0.0) + off + near) / max(abs(value), lift.form.floor / lift.unit)
        if not (paid and np.isfinite(error)):
            value, error = np.inf, np.inf
        self.rounded = self.rounded + 1 if off > max(gap, 3.0 * left * self.off) else 0
        self.off = off
        self.certify(Bracket(lift.unit * value, lift.unit * self.bound, float(error)))
        size = max(abs(float(delta.sum() + lift.gain @ y + lift.offset)), lift.form.floor / lift.unit)
        if near > max(gap, NEAR * self.tol * size):
            self._refine(max(1e-2 * near, 0.5 * NEAR * self.tol * size))
        return None

    def _refine(self, aim: float) -> None:
        """Cut pieces that losses are near to only where they have mass, so that the error is some aim there.

        Rows that have new ones begin on the central path again, at the same u and q.
        """
        lift, old, (X, x, x_signed) = self.lift, self.lift.pieces, self.primal
        off = 2.0 * old.off * x[:, 2]
        shares = off * (np.count_nonzero(off > 0.1 * aim / len(off)) / aim)  # errors go with the cube of the width
        parts = np.ceil(shares.clip(1.0, FINER**3) ** (1 / 3) - 1e-9)
        pieces = old.refined(parts.astype(int))
        self.lift = lift = replace(lift, pieces=pieces)
        cut = old.total(1.0 * (parts > 1)) > 0
        mu = _product(self.now, self.primal) / (lift.order + 2 * len(x) + len(x_signed))
        delta, sigma = pieces.start(*lift.arguments(self.dual.y), mu)
        new, slack, many = cut[pieces.row], old.slack, int(old.slack.sum())
        sigma[~new], delta = self.dual.sigma[~cut[old.row]], np.where(cut, delta, self.dual.delta)
        self.dual = self.dual._replace(delta=delta, sigma=sigma)
        self.now = lift.matrices(self.dual)
        fresh, sigmas = pieces.centred(self.now.z, sigma)
        fresh[~new] = x[~cut[old.row]]
        before = np.zeros(len(slack))
        before[slack] = x_signed[:many]
        sigmas[~new] = before[~cut[old.row]]
        self.primal = _Matrices(X, fresh, np.append(sigmas[pieces.slack], x_signed[many:]))
        self.bound, self.best_y, self.off, self.rounded = -np.inf, self.dual.y, np.inf, 0

    def _error(self, missing: _Dual) -> float:
        """Return how much a residual may matter at multipliers of the size of these."""
        lift, sizes = self.lift, np.abs(self.dual.y)
        mean = np.bincount(lift.kind, sizes) / np.maximum(np.bincount(lift.kind), 1)
        return float(np.abs(missing.y - lift.equalities.T @ self.scalars) @ (sizes + mean[lift.kind])
                     + np.abs(missing.delta) @ np.abs(self.dual.delta) + np.abs(missing.sigma) @ self.dual.sigma)

    def variables(self) -> dict[str, FloatArray]:
        return {"y": self.best_y, "X": self.primal.S}

    def step(self) -> Status | None:
        """Take one step along the central path."""
        lift, pieces, dual, primal = self.lift, self.lift.pieces, self.dual, self.primal
        (X, x, x_signed), y, sigma = primal, dual.y, dual.sigma
        row, slack, T, ns = pieces.row, pieces.slack, pieces.slope, len(lift.single)
        nz, many = ns + len(lift.pair[0]), int(pieces.slack.sum())

        # 1. S, the 2 × 2 matrices z of the pieces, their inverses; the gap, and its share μ of every complementary pair
        now, S_inverse = self.now, np.tril(dpotri(self.root, lower=True)[0])
        S_inverse = S_inverse + np.tril(S_inverse, -1).T
        S, z, signed = now
        if not np.all(determinant(z) > 0):
            return Status.INACCURATE
        z_inverse = adjugate(z) / determinant(z)[:, None]
        gap = _product(now, primal)
        mu = gap / (lift.order + 2 * len(z) + len(signed))

        # 2. the Newton matrix of S: A_s of single vectors, of pairs, and both
        Gx, Gs, (one, i, j) = lift.gram(X), lift.gram(S_inverse), (lift.single, *lift.pair)
        H = np.zeros((len(y), len(y)))
        np.multiply(_block(Gx, one, one), _block(Gs, one, one), out=H[:ns, :ns])
        mixed = _block(Gx, one, i) * _block(Gs, one, j)
        mixed += _block(Gx, one, j) * _block(Gs, one, i)
        H[:ns, ns:nz], H[ns:nz, :ns] = 0.5 * mixed, 0.5 * mixed.T
        pairs = _block(Gx, i, j).T * _block(Gs, i, j)
        pairs += pairs.T
        pairs += _block(Gx, j, j) * _block(Gs, i, i)
        pairs += _block(Gx, i, i) * _block(Gs, j, j)
        np.multiply(pairs, 0.25, out=H[ns:nz, ns:nz])
        H *= lift.scale[:, None]
        H *= lift.scale
        ratio = x_signed / signed
        H[lift.signed, lift.signed] += ratio[many:]

        # 3. the pieces: w takes a change of z to that of x. σ is eliminated from every piece, then δ from every row
        (x1, x2, x3), (v1, v2, v3) = x.T, z_inverse.T
        w = np.stack([x1 * v1, 0.5 * (x1 * v2 + x2 * v1), x2 * v2,
                      0.5 * (x1 * v2 + x2 * v1), 0.25 * (x3 * v1 + 2 * x2 * v2 + x1 * v3), 0.5 * (x2 * v3 + x3 * v2),
                      x2 * v2, 0.5 * (x2 * v3 + x3 * v2), x3 * v3], axis=1).reshape(-1, 3, 3)
        local = np.swapaxes(T, 1, 2) @ (w @ T)
        local[~slack, 3, 3] = 1.0
        local[slack, 3, 3] += ratio[:many]
        of_sigma = local[:, :3, 3] / local[:, 3, 3, None]
        reduced = pieces.total(local[:, :3, :3] - of_sigma[:, :, None] * local[:, None, 3, :3])
        of_delta = reduced[:, :2, 2] / reduced[:, 2, 2, None]
        curvature = reduced[:, :2, :2] - of_delta[:, :, None] * reduced[:, None, 2, :2]
        H[lift.u, lift.u] += curvature[lift.u_rows, 0, 0]
        H[lift.q, lift.q] += curvature[lift.q_rows, 1, 1]
        shared, at_u, at_q = np.intersect1d(lift.u_rows, lift.q_rows, assume_unique=True, return_indices=True)
        H[lift.u[at_u], lift.q[at_q]] += curvature[shared, 0, 1]
        H[lift.q[at_q], lift.u[at_u]] += curvature[shared, 0, 1]

        # 4. its factor, in units in which its diagonal is one; E y = h by its Schur complement
        if not np.all(np.diag(H) > 0):
            return Status.INACCURATE
        unit = 1.0 / np.sqrt(np.diag(H))
        H *= unit[:, None]
        H *= unit
        factor = _factored(H)
        if factor is None:
            return Status.INACCURATE
        E = lift.equalities
        HE = unit[:, None] * cho_solve(factor, unit[:, None] * E.T, check_finite=False)

        def newton(missing: _Dual, missed: FloatArray) -> tuple[_Dual, FloatArray]:
            """Return the change of the dual point that takes away a residual, and that of the scalars."""
            by_row = -pieces.total(of_sigma * missing.sigma[:, None])
            to_delta = missing.delta + by_row[:, 2]
            by_row = by_row[:, :2] - of_delta * to_delta[:, None]
            to_y = missing.y.copy()
            to_y[lift.u] += by_row[lift.u_rows, 0]
            to_y[lift.q] += by_row[lift.q_rows, 1]
            dy = unit * cho_solve(factor, unit * to_y, check_finite=False)
            price = np.linalg.solve(E @ HE, E @ dy - missed) if len(E) else np.zeros(0)
            dy -= HE @ price
            du, dq = lift.arguments(dy)
            ddelta = to_delta / reduced[:, 2, 2] - of_delta[:, 0] * du - of_delta[:, 1] * dq
            dsigma = missing.sigma / local[:, 3, 3] - np.einsum(
                "pi,pi->p", of_sigma, np.stack([du[row], dq[row], ddelta[row]], axis=1))
            return _Dual(dy, ddelta, np.where(slack, dsigma, 0.0)), price

        def direction(to: _Matrices, refined: int) -> tuple[_Dual, _Matrices, _Matrices, FloatArray]:
            """Return changes that take the multipliers to `to` less their Newton terms; of the dual, S and X, scalars.
            """
            total = _Dual(np.zeros(len(y)), np.zeros(len(dual.delta)), np.zeros(len(sigma)))
            scalars, least, found = np.zeros(len(E)), np.inf, None
            change, point = lift.change(total), to
            missing = lift.residual(to)
            for _ in range(refined):
                step, price = newton(missing._replace(y=missing.y - E.T @ scalars), lift.misses(y) - E @ total.y)
                total, scalars = _Dual(*(a + b for a, b in zip(total, step))), scalars + price
                change = lift.change(total)
                XS = X @ change.S @ S_inverse
                point = _Matrices(to.S - 0.5 * (XS + XS.T), to.z - np.einsum("pab,pb->pa", w, change.z),
                                  to.signed - ratio * change.signed)
                if refined == 1:
                    return total, change, _less(point, primal), scalars
                missing = lift.residual(point)
                left = self._error(missing._replace(y=missing.y - E.T @ (scalars - self.scalars)))
                if left >= least:
                    break
                least, found = left, (total, change, _less(point, primal), scalars)
                if left <= SETTLED * centring * gap:
                    break
            return found or (total, change, _less(point, primal), scalars)

        def lengths(change: _Matrices, primal_change: _Matrices) -> tuple[float, float]:
            return (_reach(S, change.S, min(_local_reach(z, change.z), _ray(signed, change.signed))),
                    _reach(X, primal_change.S, min(_local_reach(x * FULL, primal_change.z * FULL),
                                                   _ray(x_signed, primal_change.signed))))

        # 5. predictor: how far towards zero gap, and what it misses to second order
        centring = 0.0
        _, change, turn, _ = direction(_Matrices(np.zeros_like(X), np.zeros_like(x), np.zeros_like(x_signed)), 1)
        t, s = (min(1.0, length) for length in lengths(change, turn))
        after = _product(_plus(now, change, t), _plus(primal, turn, s))
        centring = min(0.8, max(1e-3, (after / gap)**2))
        XS = turn.S @ change.S @ S_inverse

        # 6. corrector, and the step
        dual_turn, change, turn, scalars = direction(_Matrices(
            centring * mu * S_inverse - 0.5 * (XS + XS.T),
            centring * mu * z_inverse - _symmetric_product(turn.z, change.z, z_inverse),
            (centring * mu - turn.signed * change.signed) / signed), REFINED)
        t, s = (min(1.0, INSIDE * length) for length in lengths(change, turn))
        sound = np.isfinite(dual_turn.y.sum() + turn.S.sum() + turn.z.sum())
        slow = np.isfinite(self.error) and self.iterations - self.marked > SLOW
        if not sound or max(t, s) < JAMMED or self.rounded > IDLE or slow:
            return Status.INACCURATE
        y, self.primal = y + t * dual_turn.y, _plus(primal, turn, s)
        self.scalars = self.scalars + s * (scalars - self.scalars)
        self.now, self.dual = _plus(now, change, t), _Dual(
            y, dual.delta + t * dual_turn.delta, sigma + t * dual_turn.sigma)
        self.root, failed = dpotrf(self.now.S, lower=True)
        missed = lift.misses(y)
        if 0 < np.abs(missed).max(initial=0.0) <= CLOSE * (1.0 + np.abs(lift.costs).max()):
            closed = self.dual._replace(y=y + HE @ np.linalg.solve(E @ HE, missed))
            there = lift.matrices(closed)
            root, outside = dpotrf(there.S, lower=True)
            if not outside and np.all(np.concatenate([there.signed, there.z[:, 0], determinant(there.z)]) > 0):
                self.now, self.dual, self.root, failed = there, closed, root, 0
        if failed:
            return Status.INACCURATE
        self.iterations += 1
        return self._judge(1.0 - s)


def _product(a: _Matrices, b: _Matrices) -> float:
    return sum(float(np.vdot(one, two)) for one, two in zip(a, b))


def _plus(a: _Matrices, b: _Matrices, t: float) -> _Matrices:
    return _Matrices(*(one + t * two for one, two in zip(a, b)))


def _less(a: _Matrices, b: _Matrices) -> _Matrices:
    return _plus(a, b, -1.0)


def _block(G: FloatArray, rows: IntArray, columns: IntArray) -> FloatArray:
    """Return a block, without a copy where indices follow one another: where points are their own components."""
    return G[_span(rows)][:, _span(columns)]


def _span(index: IntArray) -> IntArray | slice:
    run = len(index) > 0 and index[-1] - index[0] == len(index) - 1 and bool(np.all(np.diff(index) == 1))
    return slice(int(index[0]), int(index[0]) + len(index)) if run else index


def _factored(H: FloatArray) -> tuple[FloatArray, bool] | None:
    """Return the Cholesky factor of a matrix of unit diagonal, a little more of it added where rounding asks for it."""
    for shift in (0.0, 1e-14, 1e-11, 1e-8):
        np.fill_diagonal(H, 1.0 + shift)
        root, failed = dpotrf(H.T, lower=True, clean=False, overwrite_a=True)  # in place of one half: the other is left
        if not failed:
            return root, True
        H.T[:] = np.triu(H.T) + np.triu(H.T, 1).T
    return None


def _symmetric_product(x: FloatArray, z: FloatArray, inverse: FloatArray) -> FloatArray:
    """Return the symmetric parts of the products of 2 × 2 matrices X Z Z₀⁻¹."""
    def full(v: FloatArray, half: float) -> FloatArray:
        return np.stack([v[:, 0], half * v[:, 1], half * v[:, 1], v[:, 2]], axis=1).reshape(-1, 2, 2)

    product = full(x, 1.0) @ full(z, 0.5) @ full(inverse, 1.0)
    return np.stack([product[:, 0, 0], 0.5 * (product[:, 0, 1] + product[:, 1, 0]), product[:, 1, 1]], axis=1)


def _ray(a: FloatArray, da: FloatArray) -> float:
    """Return the longest step at which a + t da ≥ 0."""
    falls = da < 0
    return float(np.min(-a[falls] / da[falls])) if falls.any() else np.inf


def _local_reach(z: FloatArray, dz: FloatArray) -> float:
    """Return the longest step at which all quadratics z + t dz are ≥ 0: by the least eigenvalue of Z⁻¹dZ."""
    det = determinant(z)
    trace = (z[:, 2] * dz[:, 0] - 0.5 * z[:, 1] * dz[:, 1] + z[:, 0] * dz[:, 2]) / det
    least = float(np.min(0.5 * trace - np.sqrt(np.maximum(0.25 * trace**2 - determinant(dz) / det, 0.0)), initial=0.0))
    return -1.0 / least if least < 0 else np.inf


def _reach(matrix: FloatArray, change: FloatArray, longest: float) -> float:
    """Return the first of some falling steps, at most 1/`INSIDE`, at which matrix + t change is definite."""
    t = min(longest, 1.0 / INSIDE)
    while t >= JAMMED:
        _, failed = dpotrf(matrix + t * change, lower=True, overwrite_a=True)
        if not failed:
            return t
        t *= SHORTER
    return 0.0


def solve_interior(form: LiftForm, budget: Budget) -> RawSolution:
    """Solve a lift; features of more columns than points are taken in an orthonormal basis of their span."""
    features, sigma, basis = form.features.toarray(), form.sigma, None
    if form.free_bias:
        features = np.column_stack([features, np.ones(form.n)])
    elif features.shape[1] > form.n:
        basis, root = np.linalg.qr(features.T)
        features, sigma = root.T, sigma @ basis
    elif not features.shape[1]:  # a weight that does nothing, as no matrix of order zero has a factor
        features, sigma, basis = np.zeros((form.n, 1)), np.zeros((len(sigma), 1)), np.zeros((0, 1))
    lift = LiftArrays.of_form(form, features, sigma)
    y = lift.start()
    if y is None:
        return RawSolution(Status.FAILED, message="nothing in the dual of the lift holds the free bias")
    face = Face.of_lift(lift)
    try:
        run = InteriorRun(lift, budget, y) if face is None else InteriorRun(face.lift, budget, y[face.kept])
    except ValueError as error:
        return RawSolution(Status.FAILED, message=str(error))
    answer = run.solve()
    if not answer.has_answer:
        return answer
    y, X = answer["y"], answer["X"]
    if face is not None:
        y, X = face.multipliers(y), face.inside @ X @ face.inside.T
    found = lift.variables(y, X)
    return replace(answer, variables=found if basis is None else found | {"W": basis @ found["W"]})
