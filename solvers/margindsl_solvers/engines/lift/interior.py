"""The one lift by a primal-dual interior point method that stays dual feasible: every iterate proves a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, eigh, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.sparse import csr_array

from margindsl.calculus import PLQ
from margindsl.contract import Budget, RawSolution, Status
from margindsl.program.lift import LiftForm
from margindsl.typing import BoolArray, FloatArray, IntArray
from margindsl_solvers.engines.course import Bracket, Course
from margindsl_solvers.engines.lift.pieces import Pieces

JAMMED = 1e-3  # longest of the two steps that is taken for no progress
INSIDE, SHORTER = 0.92, 0.87  # part of the way to the boundary that is taken; trial steps towards it
FEASIBLE = 1e-3  # part of the first primal residual below which the gap is believed
CLOSE = 1e-8  # part of the costs of shared scalars from which E y is put onto them exactly
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
    sigma: FloatArray
    S: FloatArray
    z: FloatArray  # (P, 3), of the pieces
    signed: FloatArray  # σ, then y ≥ 0


class _Primal(NamedTuple):
    X: FloatArray  # M/2
    x: FloatArray  # (P, 3)
    signed: FloatArray


@dataclass(frozen=True, eq=False)
class LiftArrays:
    """Represent max Σ_r δ_r + gᵀy over S(y) = S₀ + Σ_s y_s A_s ⪰ 0, δ_r ≤ D_r(u_r, q_r), E y = h, some y_s ≥ 0.

    S acts on N components and r weights. A_s = c_s ½(abᵀ + baᵀ), where a, b are columns of V = [e_C | extras | φ_i]:
    first the y with a = b (d, κ, η, γ, q), then those of two vectors (u), last, with c = 0, what E u leaves of h where
    scalars are non-negative. Losses are divided by `unit`, squares of features are multiplied by it.
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

    @classmethod
    def of_form(cls, form: LiftForm, features: FloatArray, sigma: FloatArray) -> LiftArrays:
        """Return the numbers of a form, with features (n, r) and σ (L, r) that have its inner products."""
        losses, N, r, cuts = form.losses, form.count, features.shape[1], form.cuts
        unit = losses.size(np.zeros(form.n)) or form.units[0]
        features, sigma = np.sqrt(unit) * features, np.sqrt(unit) * sigma
        # an affine loss without q has one u where D is finite, and so has one of no weight
        affine = np.concatenate([np.full(term.rows, isinstance(term.loss, PLQ) and term.loss.is_affine)
                                 for term in losses.terms])
        squared = bent_rows(form)
        fixed = (affine & ~squared) | (losses.weights == 0)
        u_fixed = np.where(fixed & form.linear, -losses.derivative(losses.shifts), 0.0) / unit
        rows = np.flatnonzero(~fixed)
        reach = 2 * np.sqrt(2 * np.einsum("ir,ir->i", features, features).max(initial=0.0)) + 4 * form.units[1]
        pieces = Pieces.build(losses, losses.weights / unit, squared, form.units[1], reach, ~fixed)
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
            np.stack([form.component[points[u_rows]], first + points[u_rows]]), scale, gain,
            float(np.sum(losses.row_losses(losses.shifts)[fixed])) / unit, signed, q, q_rows, u, u_rows, equalities,
            scalars.costs / unit - losses.coupling.T @ u_fixed)

    @property
    def order(self) -> int:
        """Return N + r."""
        return len(self.constant)

    @cached_property
    def vectors(self) -> FloatArray:
        """Return V (N + r, columns)."""
        below = np.vstack([np.zeros((self.form.count, len(self.features))), self.features.T])
        return np.hstack([np.eye(self.order, self.form.count), self.extras, below])

    def gram(self, X: FloatArray) -> FloatArray:
        """Return VᵀXV of a symmetric X."""
        N = self.form.count
        XV = np.hstack([X[:, :N], X @ self.extras, X[:, N:] @ self.features.T])
        return np.vstack([XV[:N], self.extras.T @ XV, self.features @ XV[N:]])

    def inner(self, gram: FloatArray) -> FloatArray:
        """Return (Y,) the products ⟨A_s, X⟩ where gram = VᵀXV."""
        products = np.append(gram[self.single, self.single], gram[self.pair[0], self.pair[1]])
        return self.scale * np.pad(products, (0, len(self.scale) - len(products)))

    def matrix(self, y: FloatArray) -> FloatArray:
        """Return Σ_s y_s A_s."""
        N, e, values, (i, j), one = self.form.count, self.extras.shape[1], self.scale * y, self.pair, self.single
        two = 0.5 * values[len(one):len(one) + len(i)]
        where = np.concatenate([one, i, j]), np.concatenate([one, j, i])
        C = csr_array((np.concatenate([values[:len(one)], two, two]), where), shape=(self.vectors.shape[1],) * 2)
        CV = C @ self.vectors.T
        S = self.extras @ CV[N:N + e]
        S[:N] += CV[:N]
        S[N:] += self.features.T @ CV[N + e:]
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
        y = np.zeros(len(self.gain))
        y[N:N + J] = 0.1 / np.maximum(form.limits[0], np.einsum("jc,jc->j", form.omega, form.omega))
        y[N + J + L:N + J + L + T] = np.where(form.cuts.equal, 0.0, 0.05 / max(N, T, 1))
        squares = np.einsum("dl,dl->l", self.extras[:, J:J + L], self.extras[:, J:J + L])
        # weights first: q below its ceiling, then as far up as half of it, and η as great as holds the bias
        norm = float(np.linalg.norm(self.features, 2))**2 * float(c.max(initial=0.0))
        below = -c * min(0.05, 0.1 / max(norm, 1e-300))
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
        for share in 10.0 ** -np.arange(0.0, 4.0, 0.25):
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
        u, q = np.where(self.fixed & form.linear, -losses.derivative(losses.shifts), 0.0), np.zeros(losses.rows)
        u[~self.fixed], q[~self.fixed] = (self.unit * part for part in self.arguments(y))
        d, kappa, eta, gamma, _ = np.split(self.unit * y, np.cumsum([N, J, L, T]))
        values, vectors = eigh(2.0 * X)
        factor = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, values > 1e-9 * values[-1]][:, ::-1]
        return {"u": u, "q": q, "d": d, "kappa": kappa, "gamma": gamma, "eta": eta,
                "V": factor[:N], "W": np.sqrt(self.unit) * factor[N:]}


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
        pieces, N = lift.pieces, lift.form.count
        self.lift, self.y = lift, y
        self.delta, self.sigma = pieces.start(*lift.arguments(y), 0.1 / max(len(pieces.first), 1))
        # the primal start: labels and weights uncorrelated, each loss spread over its pieces
        weights = lift.order - N
        self.X = np.diag(np.repeat([0.5, 0.5 / max(weights, 1)], [N, weights]))
        mass = (1.0 / np.bincount(pieces.row))[pieces.row]
        self.x = mass[:, None] * [0.5, 0.0, 1.0]
        self.x_signed = np.append(0.5 * mass[pieces.slack], np.maximum(0.5 * np.abs(lift.gain[lift.signed]), 0.1))
        self.S = lift.constant + lift.matrix(y)
        self.root = cholesky(self.S, lower=True)
        self.infeasible = 1.0  # the primal residual, in parts of the first
        self.bound, self.best_y = -np.inf, y

    def init(self) -> Status | None:
        self._judge(np.inf)
        return None

    def _judge(self, gap: float) -> None:
        lift, floor = self.lift, self.lift.form.floor / self.lift.unit
        paid = np.abs(lift.misses(self.y)).max(initial=0.0) <= 1e-12 * (1.0 + np.abs(lift.costs).max(initial=0.0))
        bound = lift.objective(self.y) if paid else -np.inf
        if bound >= self.bound:
            self.bound, self.best_y = bound, self.y
        value = self.delta.sum() + lift.gain @ self.y + lift.offset + gap
        value = value if paid and self.infeasible < FEASIBLE else np.inf
        error = max(value - self.bound, 0.0) / max(abs(value), floor) if np.isfinite(value) else np.inf
        self.certify(Bracket(lift.unit * float(value), lift.unit * self.bound, float(error)))

    def is_better(self, point: Bracket) -> bool:
        return True  # the bound of a bracket is the best so far

    def variables(self) -> dict[str, FloatArray]:
        return self.lift.variables(self.best_y, self.X)

    def step(self) -> Status | None:
        """Take one step along the central path."""
        lift, pieces, y, sigma, X, x, x_signed = (
            self.lift, self.lift.pieces, self.y, self.sigma, self.X, self.x, self.x_signed)
        row, slack, T, ns = pieces.row, pieces.slack, pieces.slope, len(lift.single)
        nz = ns + len(lift.pair[0])

        # 1. S, the 2 × 2 matrices z of the pieces, their inverses; the gap, and its share μ of every complementary pair
        S, S_inverse = self.S, np.tril(dpotri(self.root, lower=True)[0])
        S_inverse = S_inverse + np.tril(S_inverse, -1).T
        z = pieces.base + pieces.change(*lift.arguments(y), self.delta, sigma)
        z_inverse = _adjugate(z) / _determinant(z)[:, None]
        signed = np.concatenate([sigma[slack], y[lift.signed]])
        gap = float(np.sum(S * X) + np.sum(z * x) + signed @ x_signed)
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
        H[lift.signed, lift.signed] += ratio[slack.sum():]

        # 3. the pieces: w takes a change of z to that of x. σ is eliminated from every piece, then δ from every row
        (x1, x2, x3), (v1, v2, v3) = x.T, z_inverse.T
        w = np.stack([x1 * v1, 0.5 * (x1 * v2 + x2 * v1), x2 * v2,
                      0.5 * (x1 * v2 + x2 * v1), 0.25 * (x3 * v1 + 2 * x2 * v2 + x1 * v3), 0.5 * (x2 * v3 + x3 * v2),
                      x2 * v2, 0.5 * (x2 * v3 + x3 * v2), x3 * v3], axis=1).reshape(-1, 3, 3)
        local = np.swapaxes(T, 1, 2) @ (w @ T)
        local[~slack, 3, 3] = 1.0
        local[slack, 3, 3] += ratio[:slack.sum()]
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
        unit = 1.0 / np.sqrt(np.diag(H))
        H *= unit[:, None]
        H *= unit
        factor = _factored(H)
        if factor is None:
            return Status.INACCURATE
        E, missed = lift.equalities, lift.misses(y)
        HE = unit[:, None] * cho_solve(factor, unit[:, None] * E.T, check_finite=False)

        def direction(target: float, second: _Primal | None) -> tuple[_Dual, _Primal]:
            """Return the direction to complementary products of size `target`, less those of second order."""
            X_to, x_to, signed_to = target * S_inverse, target * z_inverse, target / signed
            to_y = lift.gain + target * lift.inner(Gs)
            if second is not None:
                X_to, x_to, signed_to = X_to - second.X, x_to - second.x, signed_to - second.signed
                to_y -= lift.inner(lift.gram(second.X))
            to_y[lift.signed] += signed_to[slack.sum():]
            right = np.einsum("pai,pa->pi", T, x_to)
            right[~slack, 3] = 0.0
            right[slack, 3] += signed_to[:slack.sum()]
            to_row = pieces.total(right[:, :3] - of_sigma * right[:, 3, None])
            to_row[:, 2] += 1.0
            to_uq = to_row[:, :2] - of_delta * to_row[:, 2, None]
            to_y[lift.u] += to_uq[lift.u_rows, 0]
            to_y[lift.q] += to_uq[lift.q_rows, 1]
            dy = unit * cho_solve(factor, unit * to_y, check_finite=False)
            if len(E):
                dy -= HE @ np.linalg.solve(E @ HE, E @ dy - missed)
            du, dq = lift.arguments(dy)
            ddelta = to_row[:, 2] / reduced[:, 2, 2] - of_delta[:, 0] * du - of_delta[:, 1] * dq
            dsigma = right[:, 3] / local[:, 3, 3] - np.einsum(
                "pi,pi->p", of_sigma, np.stack([du[row], dq[row], ddelta[row]], axis=1))
            dS, dz = lift.matrix(dy), pieces.change(du, dq, ddelta, dsigma)
            dsigned = np.concatenate([dsigma[slack], dy[lift.signed]])
            XS = X @ dS @ S_inverse
            return _Dual(dy, ddelta, dsigma, dS, dz, dsigned), _Primal(
                X_to - X - 0.5 * (XS + XS.T), x_to - x - np.einsum("pab,pb->pa", w, dz),
                signed_to - x_signed - ratio * dsigned)

        def gap_after(t: float, dual: _Dual, s: float, primal: _Primal) -> float:
            return float(np.sum((S + t * dual.S) * (X + s * primal.X)) + np.sum((z + t * dual.z) * (x + s * primal.x))
                         + (signed + t * dual.signed) @ (x_signed + s * primal.signed))

        def lengths(dual: _Dual, primal: _Primal) -> tuple[float, float]:
            return (_reach(S, dual.S, min(_local_reach(z, dual.z), _ray(signed, dual.signed))),
                    _reach(X, primal.X, min(_local_reach(x * FULL, primal.x * FULL), _ray(x_signed, primal.signed))))

        # 5. predictor: how far towards zero gap, and what it misses to second order
        dual, primal = direction(0.0, None)
        t, s = (min(1.0, length) for length in lengths(dual, primal))
        centring = min(0.8, max(1e-3, (gap_after(t, dual, s, primal) / gap)**2))
        XS = primal.X @ dual.S @ S_inverse
        second = _Primal(0.5 * (XS + XS.T), _symmetric_product(primal.x, dual.z, z_inverse),
                         primal.signed * dual.signed / signed)

        # 6. corrector, and the step
        dual, primal = direction(centring * mu, second)
        t, s = (min(1.0, INSIDE * length) for length in lengths(dual, primal))
        if max(t, s) < JAMMED:
            return Status.INACCURATE
        self.y, self.S, self.X = y + t * dual.y, S + t * dual.S, X + s * primal.X
        missed = lift.misses(self.y)
        if 0 < np.abs(missed).max(initial=0.0) <= CLOSE * (1.0 + np.abs(lift.costs).max()):
            self.y[lift.u] += np.linalg.lstsq(E[:, lift.u], missed)[0]
            self.S = lift.constant + lift.matrix(self.y)
        self.root, failed = dpotrf(self.S, lower=True)
        if failed:
            return Status.INACCURATE
        self.delta, self.sigma = self.delta + t * dual.delta, sigma + t * dual.sigma
        self.x, self.x_signed = x + s * primal.x, x_signed + s * primal.signed
        self.infeasible *= 1.0 - s
        self.iterations += 1
        self._judge(gap_after(t, dual, s, primal))
        return None


def _block(G: FloatArray, rows: IntArray, columns: IntArray) -> FloatArray:
    """Return a block, without a copy where indices follow one another: where points are their own components."""
    return G[_span(rows)][:, _span(columns)]


def _span(index: IntArray) -> IntArray | slice:
    run = len(index) > 0 and index[-1] - index[0] == len(index) - 1 and bool(np.all(np.diff(index) == 1))
    return slice(int(index[0]), int(index[0]) + len(index)) if run else index


def _factored(H: FloatArray) -> tuple[FloatArray, bool] | None:
    """Return the Cholesky factor of a matrix of unit diagonal, a little more of it added where rounding asks for it."""
    for shift in (1e-13, 1e-8):
        np.fill_diagonal(H, 1.0 + shift)
        try:
            return cho_factor(H, lower=True, check_finite=False)
        except LinAlgError:
            continue
    return None


def _adjugate(z: FloatArray) -> FloatArray:
    return np.stack([z[:, 2], -z[:, 1] / 2, z[:, 0]], axis=1)


def _determinant(z: FloatArray) -> FloatArray:
    return z[:, 0] * z[:, 2] - z[:, 1]**2 / 4


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
    det = _determinant(z)
    trace = (z[:, 2] * dz[:, 0] - 0.5 * z[:, 1] * dz[:, 1] + z[:, 0] * dz[:, 2]) / det
    least = float(np.min(0.5 * trace - np.sqrt(np.maximum(0.25 * trace**2 - _determinant(dz) / det, 0.0)), initial=0.0))
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
    lift = LiftArrays.of_form(form, features, sigma)
    y = lift.start()
    if y is None:
        return RawSolution(Status.FAILED, message="nothing in the dual of the lift holds the free bias")
    answer = InteriorRun(lift, budget, y).solve()
    if basis is None or not answer.has_answer:
        return answer
    return replace(answer, variables=dict(answer.variables) | {"W": basis @ answer["W"]})
