"""The one lift as arrays: what is linear in its multipliers, and where they begin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, block_diag, cholesky, eigh, solve_triangular
from scipy.sparse import csr_array

from margindsl.calculus import PLQ
from margindsl.program.forms import by_coordinate
from margindsl.program.lift import LiftForm
from margindsl.typing import BoolArray, FloatArray, IntArray
from margindsl_solvers.engines.lift.pieces import Pieces

SHORT = 1e-9  # features this small against the longest are as none: what rounding left of a projection, mostly
FAINT = 1e-9  # share of a loss that is given up at points without features, whose label is minimised out


def newton_order(form: LiftForm) -> tuple[int, int]:
    """Return the number of multipliers of a form that a step is taken in, and the order of its matrix."""
    return form.multipliers + 2 * int(form.conditioned.sum()), form.count + min(form.order, form.n + 1)


class Dual(NamedTuple):
    y: FloatArray
    delta: FloatArray
    sigma: FloatArray  # (P,), zero where there is none


class Matrices(NamedTuple):
    """Hold S, z and what is ≥ 0 (σ, then y) of the dual, or the multipliers X, x, … of these, or changes of them."""

    S: FloatArray
    z: FloatArray  # (P, 3), of the pieces
    signed: FloatArray


@dataclass(frozen=True, eq=False)
class LiftArrays:
    """Represent max Σ_r δ_r + gᵀy over S(y) = S₀ + Σ_s y_s A_s ⪰ 0, δ_r ≤ D_r(u_r, q_r), E y = h, some y_s ≥ 0.

    S acts on N components and r weights, or on what bounds of zero leave of them. A_s = c_s ½(abᵀ + baᵀ), where a, b
    are columns of V = [e_C | extras | φ_i]: first the y with a = b (d, κ, η, γ, q), then those of two vectors (u, and
    again for what rows see without label, equal to it by E y = h; v, e), last, with c = 0, what E u leaves of h where
    scalars are non-negative. Losses are divided by `unit`, squares of
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
    kind: IntArray  # (Y,), of d, κ, η, γ, q, u and v, rest, e
    scale: FloatArray  # c (Y,)
    gain: FloatArray  # g (Y,)
    offset: float
    signed: IntArray  # the y ≥ 0
    roles: tuple[tuple[IntArray, IntArray], ...]  # of u, q, v and e: where in y, and of which rows among `pieces`
    equalities: FloatArray  # E (S, Y)
    costs: FloatArray  # h (S,)
    again: IntArray  # (2, ·) in y, of what rows see without label and of their u
    labels: FloatArray | None = None  # (N', N), what is left of e_C; all of it
    of: IntArray | None = None  # of which y atoms c½(abᵀ + baᵀ) are, where there are several of one, in order

    @classmethod
    def of_form(cls, form: LiftForm, features: FloatArray, sigma: FloatArray) -> LiftArrays:
        """Return the numbers of a form, with features (n, r) and σ (L, r) that have its inner products."""
        losses, N, r, cuts = form.losses, form.count, features.shape[1], form.cuts
        unit = losses.size(np.zeros(form.n)) or form.units[0] or 1.0
        features, sigma = np.sqrt(unit) * features, np.sqrt(unit) * sigma
        # an affine loss without q has one u where D is finite, and so has one of no weight; points without features
        # have one that is best, and the further down their q the better
        affine = np.concatenate([np.full(term.rows, isinstance(term.loss, PLQ) and term.loss.is_affine)
                                 for term in losses.terms])
        squared = form.bent
        lengths = np.linalg.norm(features, axis=1)
        nowhere = (lengths <= SHORT * lengths.max(initial=0.0))[losses.points] & ~np.any(losses.coupling, axis=1)
        fixed = (affine & ~squared) | (losses.weights == 0) | nowhere
        u_fixed = np.where(fixed & form.linear, -losses.derivative(losses.shifts), 0.0) / unit
        rows = np.flatnonzero(~fixed)
        reach = 2 * np.sqrt(2 * np.einsum("ir,ir->i", features, features).max(initial=0.0)) + 4 * form.units[1]
        pieces = Pieces.of_losses(losses, losses.weights / unit, squared, form.units[1], ~fixed, reach,
                                  ~form.linear & (form.clusters > 2), form.domain, form.even | form.conditioned,
                                  form.conditioned & ~fixed)
        # the columns of V, and the atoms
        own = np.flatnonzero(losses.bare[rows])  # by label; their vectors are like those of cuts
        above, ends = np.vstack([form.omega, cuts.matrix(N).toarray(), form.states[np.isin(
            np.flatnonzero(form.turned), rows[own])]]), np.cumsum([N, len(form.omega), len(sigma)])
        extras = np.zeros((N + r, len(above) + len(sigma)))
        extras[:N, np.r_[:len(form.omega), len(form.omega) + len(sigma):extras.shape[1]]] = above.T
        extras[N:, len(form.omega):len(form.omega) + len(sigma)] = sigma.T
        first = N + extras.shape[1]
        q_rows, u_rows = np.flatnonzero(squared[rows]), np.flatnonzero(form.linear[rows])
        points, slopes, (at, signs) = losses.points[rows], losses.slopes[rows], form.rows
        turned, v_rows = np.flatnonzero(losses.bare[rows[u_rows]]), np.flatnonzero(form.conditioned[rows])
        scalars, reference, v_points = losses.scalars, form.reference or 0, points[v_rows]
        slack = np.flatnonzero(scalars.nonneg)
        beta2, ell2 = form.limits
        scale = np.concatenate([np.ones(ends[2]), -np.ones(cuts.count + len(own)), 2 * slopes[q_rows]**2,
                                (-2 * slopes * signs[points])[u_rows], -2 * losses.bare[rows[u_rows[turned]]],
                                -2 * slopes[v_rows], -2.0 * signs[v_points], np.zeros(len(slack))])
        gain = -0.5 * np.concatenate([np.ones(N), beta2, ell2, -cuts.least, np.zeros(len(scale) - first + len(own))])
        q = first + np.arange(len(q_rows))
        u = first + len(q) + np.arange(len(u_rows))
        again = np.stack([first + len(q) + len(u) + np.arange(len(turned)), u[turned]])
        v = first + len(q) + len(u) + len(turned) + np.arange(len(v_rows))
        equalities = np.zeros((scalars.count + len(turned), len(scale)))
        equalities[scalars.count + np.arange(len(turned)), again] = np.array([[1.0], [-1.0]])
        costs = scalars.costs / unit - losses.coupling.T @ u_fixed
        sizes = np.abs(costs) + np.abs(losses.coupling).T @ losses.weights / unit  # of E u, in any unit of a scalar
        sizes[sizes == 0] = 1.0  # of a scalar that nothing sees
        equalities[:scalars.count, u] = losses.coupling[rows[u_rows]].T / sizes[:, None]
        equalities[slack, len(scale) - len(slack) + np.arange(len(slack))] = 1.0
        signed = np.concatenate([np.arange(N, ends[2]), ends[2] + np.flatnonzero(~cuts.equal),
                                 np.arange(first - len(own), first),
                                 np.arange(len(scale) - len(slack), len(scale))])
        constant = np.diag(np.repeat([0.0, 1.0], [N, r]))
        if form.free_bias:
            constant[-1, -1] = 0.0
        if np.any(u_fixed):
            weights = losses.scatter(u_fixed) * signs
            held = np.flatnonzero(weights)
            np.add.at(constant[:N, N:], at[held], -weights[held, None] * features[held])
            if losses.is_turned:
                constant[form.reference, N:] -= losses.scatter_turned(u_fixed) @ features
            constant[N:, :N] = constant[:N, N:].T
        pair = np.stack([at[points[u_rows]], first + points[u_rows]])
        beside = np.stack([np.full(len(turned), reference), pair[1, turned]])
        others = np.full(len(v), reference), first + v_points, at[v_points], np.full(len(v), reference)
        return cls(
            form, unit, features, extras, constant, pieces, fixed, np.append(np.arange(first), first + points[q_rows]),
            np.hstack([pair, beside, others[:2], others[2:]]),
            np.repeat([0, 1, 2, 3, 4, 5, 7, 6], [*np.diff(ends, prepend=0), cuts.count, len(own) + len(q),
                                                 len(u) + len(turned) + len(v), len(v), len(slack)]),
            scale, gain,
            float(np.sum(losses.row_losses(losses.shifts)[fixed])) / unit, signed,
            ((u, u_rows), (np.append(np.arange(first - len(own), first), q), np.append(own, q_rows)), *(
                ((v, v_rows), (v + len(v), v_rows)) if len(v) else ())), equalities,
            np.append(costs / sizes, np.zeros(len(turned))), again)

    def coded(self) -> LiftArrays:
        """Return the lift coordinate by coordinate of codes, of which those that are known are numbers: vectors of V
        once for every coordinate, behind them φ_i ⊗ c of known codes, which have squares.
        """
        codes, (i, j), N = self.form.codes, self.pair, self.form.count
        assert codes is not None
        (n, r), e, p, own = self.features.shape, self.extras.shape[1], codes.shape[1], codes[self.form.component]
        basis, one = by_coordinate(codes), np.eye(p)
        whole = block_diag(basis, np.eye(r * p))
        known = np.zeros((len(self.single), p), dtype=bool)
        known[self.single >= N + e] = True  # the q
        columns = np.where(known & (np.arange(p) == 0), self.single[:, None] + (N + e + n) * p - N - e, (
            self.single[:, None] * p + np.arange(p)))
        kept = ~known | (np.arange(p) == 0)
        return replace(
            self, labels=basis.T, extras=whole.T @ np.kron(self.extras, one),
            constant=whole.T @ np.kron(self.constant, one) @ whole, features=np.vstack([
                np.kron(self.features, one), np.einsum("ir,ic->irc", self.features, own).reshape(n, -1)]),
            single=columns[kept], pair=np.stack([(x[:, None] * p + np.arange(p)).ravel() for x in (i, j)]),
            of=np.append(np.nonzero(kept)[0], len(self.single) + np.repeat(np.arange(len(i)), p)),
            scale=np.append(self.scale[:len(self.single)][np.nonzero(kept)[0]], np.repeat(
                self.scale[len(self.single):], p)))

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
        labels = np.eye(self.form.count) if self.labels is None else self.labels
        labels = np.vstack([labels, np.zeros((self.features.shape[1], labels.shape[1]))])
        below = np.vstack([np.zeros((self.above, len(self.features))), self.features.T])
        return np.hstack([labels, self.extras, below])

    @cached_property
    def _pattern(self) -> tuple[IntArray, csr_array]:
        """Return the order of y (single, pair, pair) in which it is the data of the matrix C of S = VCVᵀ, and that."""
        rows, columns = np.hstack([np.stack([self.single, self.single]), self.pair, self.pair[::-1]])
        order, many = np.argsort(rows, kind="stable"), self.vectors.shape[1]
        ends = np.append(0, np.cumsum(np.bincount(rows, minlength=many)))
        return order, csr_array((np.zeros(len(order)), columns[order], ends), shape=(many, many))

    @cached_property
    def _rows(self) -> csr_array:
        """Return the extras as rows: cuts have a few entries each."""
        return csr_array(self.extras.T)

    @cached_property
    def across(self) -> tuple[IntArray, ...]:
        """Return where in y what enters the same row stands: both, the row, and which they are of u, q, v and e."""
        found = []
        for (a, (at, rows)), (b, (others, also)) in permutations(enumerate(self.roles), 2):
            row, i, j = np.intersect1d(rows, also, assume_unique=True, return_indices=True)
            found.append(np.stack([at[i], others[j], row, *np.outer(sorted((a, b)), np.ones_like(row))]))
        return tuple(np.hstack(found))

    def joined(self, values: FloatArray) -> FloatArray:
        """Return sums over the atoms of every y."""
        first = None if self.of is None else np.searchsorted(self.of, np.arange(len(self.gain)))
        return values if first is None else np.add.reduceat(values, first)

    def _of_labels(self, Z: FloatArray) -> FloatArray:
        return Z if self.labels is None else self.labels.T @ Z

    def gram(self, X: FloatArray) -> FloatArray:
        """Return VᵀXV of a symmetric X."""
        N = self.above
        XV = np.hstack([self._of_labels(X[:N]).T, (self._rows @ X).T, X[:, N:] @ self.features.T])
        return np.vstack([self._of_labels(XV[:N]), self._rows @ XV, self.features @ XV[N:]])

    def inner(self, X: FloatArray) -> FloatArray:
        """Return (Y,) the products ⟨A_s, X⟩ with a symmetric X."""
        N, XF = self.above, X[:, self.above:] @ self.features.T
        labels = np.diag(X)[:N] if self.labels is None else np.einsum("ac,ac->c", self.labels, X[:N, :N] @ self.labels)
        squares = np.concatenate([labels, np.einsum("ae,ea->e", self.extras, self._rows @ X),
                                  np.einsum("ir,ri->i", self.features, XF[N:])])
        (i, j), below = self.pair, len(squares) - len(self.features)
        far = j >= below
        products = np.zeros(len(self.scale) - len(self.single))
        products[:len(i)][far] = self._of_labels(XF[:N])[i[far], j[far] - below]
        if not far.all():
            products[:len(i)][~far] = self._of_labels(self._of_labels(X[:N, :N]).T)[i[~far], j[~far]]
        return self.joined(self.scale * np.append(squares[self.single], products))

    def change(self, dual: Dual) -> Matrices:
        """Return the linear part of S, z and what is ≥ 0."""
        z = self.pieces.change(self.arguments(dual.y), dual.delta, dual.sigma)
        return Matrices(self.matrix(dual.y), z, np.append(dual.sigma[self.pieces.slack], dual.y[self.signed]))

    def matrices(self, dual: Dual) -> Matrices:
        """Return S, z and what is ≥ 0."""
        change = self.change(dual)
        return change._replace(S=self.constant + change.S, z=self.pieces.base + change.z)

    def residual(self, primal: Matrices) -> Dual:
        """Return what multipliers miss of their equations, but for Eᵀ times scalars: the transpose of `change`."""
        pieces, many = self.pieces, int(self.pieces.slack.sum())
        by_piece = np.einsum("pai,pa->pi", pieces.slope, primal.z)
        by_row, y = pieces.total(by_piece[:, :-1]), self.gain + self.inner(primal.S)
        self.add(y, by_row)
        y[self.signed] += primal.signed[many:]
        sigma = np.zeros(len(by_piece))
        sigma[pieces.slack] = by_piece[pieces.slack, -1] + primal.signed[:many]
        return Dual(y, by_row[:, -1] + 1.0, sigma)

    def matrix(self, y: FloatArray) -> FloatArray:
        """Return Σ_s y_s A_s."""
        N, e = self.form.count if self.labels is None else self.labels.shape[1], self.extras.shape[1]
        ns, nz = len(self.single), len(self.single) + len(self.pair[0])
        values, (order, C) = self.scale * (y if self.of is None else y[self.of]), self._pattern
        C.data = np.concatenate([values[:ns], *2 * [0.5 * values[ns:nz]]])[order]
        CV = C @ self.vectors.T
        S = self._rows.T @ CV[N:N + e]
        S[:self.above] += CV[:N] if self.labels is None else self.labels @ CV[:N]
        S[self.above:] += self.features.T @ CV[N + e:]
        return S

    def arguments(self, y: FloatArray) -> FloatArray:
        """Return (·, m) u, q and where they are v and e of all rows of `pieces`, zero where y has none."""
        out = np.zeros((len(self.roles), len(self.pieces.first)))
        for values, (at, rows) in zip(out, self.roles):
            values[rows] = y[at]
        return out

    def add(self, y: FloatArray, by_row: FloatArray) -> None:
        """Add what rows (m, ·) have for u, q, v and e to those of y."""
        for values, (at, rows) in zip(by_row.T, self.roles):
            y[at] += values[rows]

    def start(self) -> FloatArray | None:
        """Return a y inside all cones, None where none is found: then nothing holds a free bias."""
        form, N = self.form, self.form.count
        J, L, T = len(form.balance), len(form.decision), form.cuts.count
        (low, high, ceiling), ((at_u, u_rows), (at_q, q_rows)) = self.pieces.interior(), self.roles[:2]
        c = form.losses.weights[~self.fixed] / self.unit
        slope = -form.losses.derivative(form.losses.shifts)[~self.fixed] / self.unit
        inner = 0.25 * (np.abs(slope) + c)
        u = np.where(np.isfinite(low), np.maximum(slope, low + inner), np.minimum(slope, high - inner))
        both = np.isfinite(low) & np.isfinite(high)
        u[both] = (low[both] + high[both]) / 2
        # far points are to weigh no more than others do
        lengths = np.einsum("ir,ir->i", self.features, self.features)[form.losses.points] * form.losses.slopes**2
        lengths = np.maximum(lengths, 1e-6 * lengths.mean() or 1.0)[~self.fixed]  # points at the origin weigh nothing
        near, weighs = np.clip(0.0, low, high), np.abs(u) * np.sqrt(lengths)
        typical = 3.0 * np.median(weighs[weighs > 0]) if np.any(weighs > 0) else 1.0
        u = near + np.minimum(1.0, typical / np.maximum(weighs, 1e-300)) * (u - near)
        if form.losses.scalars.count:  # towards E u = h, as far as to nine tenths of the way to an end
            many = form.losses.scalars.count
            du, E, easy = np.zeros_like(u), self.equalities[:many, at_u], lengths[u_rows]**-0.5
            du[u_rows] = easy * np.linalg.lstsq(easy * E, self.costs[:many] - E @ u[u_rows])[0]
            u += min(1.0, 0.9 * min(ray(u - low, du), ray(high - u, -du))) * du
        y = np.zeros(len(self.gain))
        y[N:N + J] = 0.1 / np.maximum(form.limits[0], np.einsum("jc,jc->j", form.omega, form.omega))
        y[N + J + L:N + J + L + T] = np.where(form.cuts.equal, 0.0, 0.05 / max(N, T, 1))
        by_label = self.extras.shape[1] - J - L - T  # whose multipliers follow those of cuts
        y[N + J + L + T:N + J + L + T + by_label] = 0.02 * c[q_rows[:by_label]]
        T, squared = T + by_label, slice(by_label, None)
        squares = np.maximum(np.einsum("dl,dl->l", *[self.extras[:, J:J + L]] * 2), 10.0 * form.limits[1])
        # weights first: q below its ceiling, then as far up as half of it, and η as great as holds the bias
        below = -0.1 / (len(lengths) * lengths)
        for q, eta in ((np.where(ceiling > 0, rise * np.minimum(ceiling, c), fall * below), eta)
                       for fall in (1.0, 1e-2, 1e-4) for eta in (1.0, 10.0, 100.0, 1e4, 1e8) for rise in (0.0, 0.5)):
            y[at_q[squared]], y[N + J:N + J + L] = q[q_rows[squared]], eta / np.maximum(squares, 1e-300)
            try:
                root = cholesky((self.constant + self.matrix(y))[N:, N:], lower=True)
            except LinAlgError:
                continue
            if np.all(np.diag(root)**2 > 1e-10):
                break
        else:
            return None
        # then labels: of u, from the one of least size on, what proves most with d that dominates
        best, found = -np.inf, y
        if form.losses.scalars.count:
            near += 0.1 * (u - near)
        cuts = np.abs(self.extras[:N, J + L:])
        for share in 10.0 ** -np.arange(0.0, 4.0, 0.25):
            y[at_u], y[:N] = (near + share * (u - near))[u_rows], 0.0
            y[self.again[0]] = y[self.again[1]]
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
        return float(self.pieces.least(self.arguments(y)).sum() + self.gain @ y) + self.offset

    def misses(self, y: FloatArray) -> FloatArray:
        """Return h − E y."""
        return self.costs - self.equalities @ y

    def variables(self, y: FloatArray, X: FloatArray) -> dict[str, FloatArray]:
        """Return the dual point y and the moment matrix 2X in the form's units."""
        form, losses, N = self.form, self.form.losses, self.form.count
        J, L, T = len(form.balance), len(form.decision), form.cuts.count
        u = np.where(self.fixed & form.linear, -losses.derivative(losses.shifts), 0.0)
        q = np.where(self.fixed & ~form.linear, -losses.weights / FAINT, 0.0)
        u[~self.fixed], q[~self.fixed], *others = self.unit * self.arguments(y)
        more = dict(zip("ve", np.zeros((len(others), losses.rows))))
        for values, part in zip(more.values(), others):
            values[~self.fixed] = part
        d, kappa, eta, gamma, _ = np.split(self.unit * y, np.cumsum([N, J, L, T]))
        values, vectors = eigh(2.0 * X)
        factor = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, values > 1e-9 * values[-1]][:, ::-1]
        V, W = factor[:self.above], np.sqrt(self.unit) * factor[self.above:]
        if form.codes is not None:
            assert self.labels is not None
            V, W, known = (self.labels.T @ V).reshape(N, -1), W.reshape(form.order, -1), np.any(form.codes, axis=1)
            among = known[form.cuts.positions].all(axis=1)  # what is said of numbers alone, said once
            d[known] = (d[known].sum() - gamma[among] @ form.cuts.least[among]) / known.sum()
            gamma[among] = 0.0
        return more | {"u": u, "q": q, "d": d, "kappa": kappa, "gamma": gamma, "eta": eta, "V": V, "W": W}


def ray(a: FloatArray, da: FloatArray) -> float:
    """Return the longest step at which a + t da ≥ 0."""
    falls = da < 0
    return float(np.min(-a[falls] / da[falls])) if falls.any() else np.inf


class Iterate(NamedTuple):
    """Hold a point of a central path."""

    lift: LiftArrays
    dual: Dual
    primal: Matrices
    scalars: FloatArray


def central(lift: LiftArrays, y: FloatArray) -> Iterate:
    """Return a first iterate: labels and weights uncorrelated, each loss spread over its pieces as on a central path.
    """
    pieces, N = lift.pieces, lift.above
    dual = Dual(y, *pieces.start(lift.arguments(y), 0.1 / max(len(pieces.first), 1)))
    weights = lift.order - N
    x, sigmas = pieces.centred(lift.matrices(dual).z, dual.sigma)
    primal = Matrices(
        np.diag(np.repeat([0.5, 0.5 / max(weights, 1)], [N, weights])), x,
        np.append(sigmas[pieces.slack], np.maximum(0.5 * np.abs(lift.gain[lift.signed]), 0.1)))
    return Iterate(lift, dual, primal, np.zeros(len(lift.costs)))


def carried(lift: LiftArrays, old: Pieces, dual: Dual, x: FloatArray, x_signed: FloatArray, same: BoolArray, mu: float
            ) -> tuple[Dual, FloatArray, FloatArray]:
    """Return a dual point, x of z and of what is ≥ 0 of a lift with other pieces: rows that are not the same begin on
    the central path."""
    pieces, many = lift.pieces, int(old.slack.sum())
    delta, sigma = pieces.start(lift.arguments(dual.y), mu)
    new, before = same[pieces.row], np.zeros(len(old.slack))
    sigma[new], delta = dual.sigma[same[old.row]], np.where(same, dual.delta, delta)
    dual, before[old.slack] = Dual(dual.y, delta, sigma), x_signed[:many]
    fresh, sigmas = pieces.centred(lift.matrices(dual).z, sigma)
    fresh[new], sigmas[new] = x[same[old.row]], before[same[old.row]]
    return dual, fresh, np.append(sigmas[pieces.slack], x_signed[many:])
