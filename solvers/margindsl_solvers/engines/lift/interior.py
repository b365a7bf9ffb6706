"""The one lift by a primal-dual interior point method that stays dual feasible: every iterate proves a bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, eigh, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri

from margindsl.contract import Budget, RawSolution, Status
from margindsl.program.lift import LiftForm
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.course import Bracket, Course
from margindsl_solvers.engines.lift.arrays import Dual, Iterate, LiftArrays, Matrices, carried, central, ray
from margindsl_solvers.engines.lift.pieces import adjugate, determinant, local_reach, symmetric_product

JAMMED = 1e-3  # longest of the two steps that is taken for no progress
INSIDE, SHORTER = 0.92, 0.87  # part of the way to the boundary that is taken; trial steps towards it
REFINED = 3  # solutions of a Newton system at most, each for what the one before left of the primal residual
NEAR, FINER = 0.1, 8  # share of the tolerance that losses may be off by; parts that a piece is cut into at once
SLOW = 40  # steps without a fall of the error
IDLE = 4  # steps which rounding kept from making the residual smaller, after which there is none to be hoped for
SMALL = 1e-2  # share of the gap from which the primal residual is not made smaller
ROUNDING = 1e-9  # share of the labels' prices that is not believed where they are to prove that there are no labels
FAR, UNFULFILLED = 0.5, 0.1  # relative gap beyond which an iterate takes new cuts, entries that M may lack there
LEAST_SLACK = 0.1  # that a new cut is given on the central path, also one that is violated
FINE = 1e-4  # error from which Newton systems are solved by all multipliers, which loses fewer digits
CLOSE = 1e-3  # part of the costs of shared scalars from which E y is put onto them exactly
FULL = np.array([1.0, 2.0, 1.0])  # takes (x₁, x₂, x₃) of [[x₁, x₂], [x₂, x₃]] to the coefficients of a quadratic


Solve = Callable[[FloatArray], FloatArray]  # of rows (..., Y)


@dataclass(frozen=True, eq=False)
class Reached:
    """Hold where a solve ended, and its last iterate at which new cuts do not jam, for a solve with others."""

    form: LiftForm
    last: Iterate
    far: Iterate


class InteriorRun(Course[Bracket]):
    """Follow the central path by Newton steps in the HKM direction, with Mehrotra's predictor and corrector.

    The Newton matrix ⟨A_s, X A_t S⁻¹⟩ consists of products of entries of VᵀXV and VᵀS⁻¹V. The δ and σ of the pieces
    are eliminated row by row, so that one Cholesky factorisation of order Y is all there is: no n² variables.

    Parameters
    ----------
    start : Iterate
        Inside all cones; equations are reached on the way.
    budget : Budget

    References
    ----------
    C. Helmberg, F. Rendl, R. Vanderbei, H. Wolkowicz (1996). An interior-point method for semidefinite programming.
    """

    stage, counted = "interior", "iterations"

    def __init__(self, start: Iterate, budget: Budget) -> None:
        super().__init__(budget)
        self.lift, self.dual, self.primal, self.scalars = self.far = start
        self.now = self.lift.matrices(self.dual)
        self.root = cholesky(self.now.S, lower=True)
        self.bound, self.best_y = -np.inf, self.dual.y
        self.off, self.rounded = np.inf, 0

    @property
    def iterate(self) -> Iterate:
        """Return the iterate."""
        return Iterate(self.lift, self.dual, self.primal, self.scalars)

    def init(self) -> Status | None:
        return self._judge(1.0)

    def _judge(self, left: float) -> Status | None:
        """Book the bound of the dual point, and a value that the optimum of the lift exceeds by the error at most.

        `left`: the part of the primal residual that the step should have left.
        """
        lift, y, delta = self.lift, self.dual.y, self.dual.delta
        # 1. with u = 0 labels pay their prices whatever the weights are: as they are multiples of themselves, not less
        labels = np.append((lift.gain * y)[(lift.kind <= 1) | (lift.kind == 3)], -np.abs(y[lift.kind == 7]))
        if labels.sum() > ROUNDING * np.abs(labels).sum():
            return Status.INFEASIBLE
        # 2. the bound, where scalars are priced for
        priced = np.abs(lift.misses(y)).max(initial=0.0) <= 1e-12 * (1.0 + np.abs(lift.costs).max(initial=0.0))
        bound = lift.objective(y) if priced else -np.inf
        if bound >= self.bound:
            self.bound, self.best_y = bound, y
        # 3. δ and y gain at most the gap and what the residual makes of them; pieces are off where their mass is
        gap = _product(self.now, self.primal)
        value = float(delta.sum() + lift.gain @ y + lift.offset + gap)
        missing = lift.residual(self.primal)
        off, near = self._error(missing), 2.0 * float(lift.pieces.off @ self.primal.z[:, 2])
        error = (max(value - self.bound, 0.0) + off + near) / max(abs(value), lift.form.negligible / lift.unit)
        if not (priced and np.isfinite(error)):
            value, error = np.inf, np.inf
        self.rounded = self.rounded + 1 if off > max(gap, 3.0 * left * self.off) else 0
        self.off = off
        if gap > FAR * abs(value) and np.abs(missing.y[lift.kind == 0]).max(initial=0.0) <= UNFULFILLED:
            self.far = self.iterate
        self.certify(Bracket(lift.unit * value, lift.unit * self.bound, float(error)))
        size = max(abs(float(delta.sum() + lift.gain @ y + lift.offset)), lift.form.negligible / lift.unit)
        if near > max(gap, NEAR * self.tol * size):
            self._refine(max(1e-2 * near, 0.5 * NEAR * self.tol * size))
        return Status.CONVERGED if lift.unit * self.bound > self.budget.cutoff else None

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
        mu = _product(self.now, self.primal) / (lift.order + 2 * len(x) + len(x_signed))
        self.dual, x, x_signed = carried(lift, old, self.dual, x, x_signed, old.total(1.0 * (parts > 1)) == 0, mu)
        self.now, self.primal = lift.matrices(self.dual), Matrices(X, x, x_signed)
        self.bound, self.best_y, self.off, self.rounded = -np.inf, self.dual.y, np.inf, 0

    def _error(self, missing: Dual) -> float:
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
        row, slack, T, many = pieces.row, pieces.slack, pieces.slope, int(pieces.slack.sum())

        # 1. S, the 2 × 2 matrices z of the pieces, their inverses; the gap, and its share μ of every complementary pair
        now, S_inverse = self.now, np.tril(dpotri(self.root, lower=True)[0])
        S_inverse = S_inverse + np.tril(S_inverse, -1).T
        S, z, signed = now
        if not np.all(determinant(z) > 0):
            return Status.INACCURATE
        z_inverse = adjugate(z) / determinant(z)[:, None]
        gap = _product(now, primal)
        mu, ratio = gap / (lift.order + 2 * len(z) + len(signed)), x_signed / signed

        # 2. the pieces: w takes a change of z to that of x. σ is eliminated from every piece, then δ from every row
        (x1, x2, x3), (v1, v2, v3) = x.T, z_inverse.T
        w = np.stack([x1 * v1, 0.5 * (x1 * v2 + x2 * v1), x2 * v2,
                      0.5 * (x1 * v2 + x2 * v1), 0.25 * (x3 * v1 + 2 * x2 * v2 + x1 * v3), 0.5 * (x2 * v3 + x3 * v2),
                      x2 * v2, 0.5 * (x2 * v3 + x3 * v2), x3 * v3], axis=1).reshape(-1, 3, 3)
        local = np.swapaxes(T, 1, 2) @ (w @ T)
        local[~slack, -1, -1] = 1.0
        local[slack, -1, -1] += ratio[:many]
        of_sigma = local[:, :-1, -1] / local[:, -1, -1, None]
        reduced = pieces.total(local[:, :-1, :-1] - of_sigma[:, :, None] * local[:, None, -1, :-1])
        of_delta = reduced[:, :-1, -1] / reduced[:, -1, -1, None]
        curvature = reduced[:, :-1, :-1] - of_delta[:, :, None] * reduced[:, None, -1, :-1]

        # 3. the Newton matrix, of the smaller order; E y = h by its Schur complement
        own, across = np.zeros(len(y)), curvature[lift.across[2:]]
        own[lift.signed] = ratio[many:]
        lift.add(own, np.einsum("raa->ra", curvature))
        few = lift.order**2 < len(y) and lift.of is None and self.error > FINE and len(lift.roles) == 2
        solve = (_by_entries if few else _by_multipliers)(lift, X, self.root if few else S_inverse, own, across)
        if solve is None:
            return Status.INACCURATE
        E = lift.equalities
        HE = solve(E).T
        schur = E @ HE
        of_scalars = _inverse(0.5 * (schur + schur.T))
        if of_scalars is None:
            return Status.INACCURATE

        def newton(missing: Dual, missed: FloatArray) -> tuple[Dual, FloatArray]:
            """Return the change of the dual point that takes away a residual, and that of the scalars."""
            by_row = -pieces.total(of_sigma * missing.sigma[:, None])
            to_delta = missing.delta + by_row[:, -1]
            to_y = missing.y.copy()
            lift.add(to_y, by_row[:, :-1] - of_delta * to_delta[:, None])
            dy = solve(to_y)
            price = of_scalars(E @ dy - missed)
            dy -= HE @ price
            change = lift.arguments(dy)
            ddelta = to_delta / reduced[:, -1, -1] - np.einsum("ri,ir->r", of_delta, change)
            dsigma = missing.sigma / local[:, -1, -1] - np.einsum(
                "pi,ip->p", of_sigma, np.vstack([change, ddelta])[:, row])
            return Dual(dy, ddelta, np.where(slack, dsigma, 0.0)), price

        def direction(to: Matrices, refined: int) -> tuple[Dual, Matrices, Matrices, FloatArray]:
            """Return changes that take the multipliers to `to` less their Newton terms; of the dual, S and X, scalars.
            """
            total = Dual(np.zeros(len(y)), np.zeros(len(dual.delta)), np.zeros(len(sigma)))
            scalars, least, found = np.zeros(len(E)), np.inf, None
            missing = lift.residual(to)
            for _ in range(refined):
                step, price = newton(missing._replace(y=missing.y - E.T @ scalars), lift.misses(y) - E @ total.y)
                total, scalars = Dual(*(a + b for a, b in zip(total, step))), scalars + price
                change = lift.change(total)
                XS = X @ change.S @ S_inverse
                point = Matrices(to.S - 0.5 * (XS + XS.T), to.z - np.einsum("pab,pb->pa", w, change.z),
                                  to.signed - ratio * change.signed)
                if refined == 1:
                    return total, change, _plus(point, primal, -1.0), scalars
                missing = lift.residual(point)
                left = self._error(missing._replace(y=missing.y - E.T @ (scalars - self.scalars)))
                if left >= least:
                    break
                least, found = left, (total, change, _plus(point, primal, -1.0), scalars)
                if left <= SMALL * centring * gap:
                    break
            return found or (total, change, _plus(point, primal, -1.0), scalars)

        def lengths(change: Matrices, primal_change: Matrices) -> tuple[float, float]:
            return (_reach(S, change.S, min(local_reach(z, change.z), ray(signed, change.signed))),
                    _reach(X, primal_change.S, min(local_reach(x * FULL, primal_change.z * FULL),
                                                   ray(x_signed, primal_change.signed))))

        # 4. predictor: how far towards zero gap, and what it misses to second order
        centring = 0.0
        _, change, turn, _ = direction(Matrices(np.zeros_like(X), np.zeros_like(x), np.zeros_like(x_signed)), 1)
        t, s = (min(1.0, length) for length in lengths(change, turn))
        after = _product(_plus(now, change, t), _plus(primal, turn, s))
        power = np.clip(3.0 * min(t, s)**2, 1.0, 2.0) if lift.form.even.any() else 2.0  # pairs of those differ more
        centring = min(0.8, max(1e-3, (after / gap) ** power))
        XS = turn.S @ change.S @ S_inverse

        # 5. corrector, and the step
        dual_turn, change, turn, scalars = direction(Matrices(
            centring * mu * S_inverse - 0.5 * (XS + XS.T),
            centring * mu * z_inverse - symmetric_product(turn.z, change.z, z_inverse),
            (centring * mu - turn.signed * change.signed) / signed), REFINED)
        t, s = (min(1.0, INSIDE * length) for length in lengths(change, turn))
        sound = np.isfinite(dual_turn.y.sum() + turn.S.sum() + turn.z.sum())
        slow = np.isfinite(self.error) and self.iterations - self.marked > SLOW
        if not sound or max(t, s) < JAMMED or self.rounded > IDLE or slow:
            return Status.INACCURATE
        y, self.primal = y + t * dual_turn.y, _plus(primal, turn, s)
        self.scalars = self.scalars + s * (scalars - self.scalars)
        self.now, self.dual = _plus(now, change, t), Dual(
            y, dual.delta + t * dual_turn.delta, sigma + t * dual_turn.sigma)
        self.root, failed = dpotrf(self.now.S, lower=True)
        missed = lift.misses(y)
        if 0 < np.abs(missed).max(initial=0.0) <= CLOSE * (1.0 + np.abs(lift.costs).max()):
            closed = self.dual._replace(y=y + HE @ of_scalars(missed))
            there = lift.matrices(closed)
            root, outside = dpotrf(there.S, lower=True)
            if not outside and np.all(np.concatenate([there.signed, there.z[:, 0], determinant(there.z)]) > 0):
                self.now, self.dual, self.root, failed = there, closed, root, 0
        if failed:
            return Status.INACCURATE
        self.iterations += 1
        return self._judge(1.0 - s)


def _product(a: Matrices, b: Matrices) -> float:
    return sum(float(np.sum(left * right)) for left, right in zip(a, b))


def _plus(a: Matrices, b: Matrices, t: float) -> Matrices:
    return Matrices(*(left + t * right for left, right in zip(a, b)))


def _span(index: IntArray) -> IntArray | slice:
    """Return a slice where indices follow one another, so that blocks are no copies: points are their own components.
    """
    run = len(index) > 0 and index[-1] - index[0] == len(index) - 1 and bool(np.all(np.diff(index) == 1))
    return slice(int(index[0]), int(index[0]) + len(index)) if run else index


def _by_multipliers(lift: LiftArrays, X: FloatArray, S_inverse: FloatArray, own: FloatArray, across: FloatArray
                    ) -> Solve | None:
    """Return the solution of Newton systems by their matrix, ⟨A_s, X A_t S⁻¹⟩ and what pieces and signs add to it: on
    the diagonal, and between the u, q, v and e of a row.
    """
    ns, nz = len(lift.single), len(lift.single) + len(lift.pair[0])
    Gx, Gs, (one, i, j) = lift.gram(X), lift.gram(S_inverse), map(_span, (lift.single, *lift.pair))
    H = np.zeros((len(lift.scale), len(lift.scale)))
    np.multiply(Gx[one][:, one], Gs[one][:, one], out=H[:ns, :ns])
    mixed = Gx[one][:, i] * Gs[one][:, j]
    mixed += Gx[one][:, j] * Gs[one][:, i]
    H[:ns, ns:nz], H[ns:nz, :ns] = 0.5 * mixed, 0.5 * mixed.T
    pairs = Gx[i][:, j].T * Gs[i][:, j]
    pairs += pairs.T
    pairs += Gx[j][:, j] * Gs[i][:, i]
    pairs += Gx[i][:, i] * Gs[j][:, j]
    np.multiply(pairs, 0.25, out=H[ns:nz, ns:nz])
    H *= lift.scale[:, None]
    H *= lift.scale
    H = H if lift.of is None else lift.joined(lift.joined(H).T)
    H[lift.across[:2]] += across
    np.fill_diagonal(H, np.diag(H) + own)
    return _inverse(H)


def _by_entries(lift: LiftArrays, X: FloatArray, root: FloatArray, own: FloatArray, across: FloatArray
                ) -> Solve | None:
    """Return the solution of Newton systems by a matrix of the entries of S = RRᵀ, where these are few.

    With RᵀXR = QΛQᵀ, L = R⁻ᵀQ it is D + BᵀB, B of the entries of √((λ_a + λ_b)/2) LᵀA_sL, D of pieces and signs. Of
    (D + BᵀB) x = b, v = Bx solves (I + BD⁻¹Bᵀ) v = BD⁻¹b over u and q; others stand beside, as D may be zero there.
    """
    # 1. B
    values, turn = eigh(root.T @ X @ root)
    V, (a, b) = turn.T @ solve_triangular(root, lift.vectors, lower=True), np.triu_indices(lift.order)
    one, i, j = V[:, lift.single], V[:, lift.pair[0]], V[:, lift.pair[1]]
    B, ns = np.zeros((len(a), len(own))), len(lift.single)
    B[:, :ns], B[:, ns:ns + i.shape[1]] = one[a] * one[b], 0.5 * (i[a] * j[b] + i[b] * j[a])
    B *= lift.scale
    B *= np.sqrt(np.maximum(values[a] + values[b], 0.0) * np.where(a == b, 0.5, 1.0))[:, None]
    # 2. D⁻¹ = CCᵀ of u and q, and what is left
    other, partner, (i, j) = np.ones(len(own), dtype=bool), np.arange(len(own)), lift.across[:2]
    across, partner[i] = np.bincount(i, across, len(own)), j
    for at, _ in lift.roles:
        other[at] = False
    size = own * own[partner] - across**2
    if not np.all(size[~other] > 0):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        by_self, by_other = np.where(other, 0.0, own[partner] / size), np.where(other, 0.0, -across / size)
        late = np.flatnonzero(partner < np.arange(len(own)))
        root_of = np.where(other, 0.0, 1.0 / np.sqrt(own))
    root_of[late] = np.sqrt(by_self[late])
    BC, of = B * root_of, partner[late]
    BC[:, late] -= (root_of[late] * across[late] / own[of]) * B[:, of]

    def divided(b: FloatArray) -> FloatArray:
        return by_self * b + by_other * b[..., partner]

    beside, whole = B[:, other], _inverse(np.eye(len(B)) + BC @ BC.T)
    schur = whole and _inverse(np.diag(own[other]) + whole(beside.T) @ beside)
    if schur is None or whole is None:
        return None

    def solve(b: FloatArray) -> FloatArray:
        v = divided(b) @ B.T
        x = schur(b[..., other] - whole(v) @ beside)
        out = divided(b - whole(v + x @ beside.T) @ B)
        out[..., other] = x
        return out

    return solve


def _inverse(H: FloatArray) -> Solve | None:
    """Return the product of rows with the inverse of a definite matrix, which it overwrites, in units in which its
    diagonal is one; a little more of that is added where rounding asks for it.
    """
    if not np.all(np.diag(H) > 0):
        return None
    unit = 1.0 / np.sqrt(np.diag(H))
    H *= unit[:, None]
    H *= unit
    for shift in (0.0, 1e-14, 1e-11, 1e-8) if len(H) else ():
        np.fill_diagonal(H, 1.0 + shift)
        root, failed = dpotrf(H.T, lower=True, clean=False, overwrite_a=True)  # in place of one half: the other is left
        if not failed:
            return lambda b: unit * cho_solve((root, True), (unit * b).T, check_finite=False).T
        H.T[:] = np.triu(H.T) + np.triu(H.T, 1).T
    return None if len(H) else lambda b: b


def _reach(matrix: FloatArray, change: FloatArray, longest: float) -> float:
    """Return the first of some falling steps, at most 1/`INSIDE`, at which matrix + t change is definite."""
    t = min(longest, 1.0 / INSIDE)
    while t >= JAMMED:
        _, failed = dpotrf(matrix + t * change, lower=True, overwrite_a=True)
        if not failed:
            return t
        t *= SHORTER
    return 0.0


def moved(start: Iterate, lift: LiftArrays) -> Iterate:
    """Return an iterate of a lift with other cuts than that of `start`, or with some of its components decided; new
    cuts as on a central path.
    """
    # 1. which components stand for those of the old lift, with which signs; cuts as rows of these
    old, (X, z, x_signed), dual = start.lift, start.primal, start.dual
    if lift.form.domain is old.form.domain:
        lift = replace(lift, pieces=old.pieces)
    form, N, many = lift.form, lift.form.count, int(old.pieces.slack.sum())
    held = np.flatnonzero(old.form.component >= 0)
    points, first = np.unique(old.form.component[held], return_index=True)
    first, turn = held[first], np.ones(old.form.count, dtype=int)
    target = np.full(old.form.count, -1 if form.reference is None else form.reference)
    target[points], turn[points] = form.component[first], form.sign[first] * old.form.sign[first]
    into = np.zeros((old.form.count, N))
    into[np.arange(old.form.count), target] = turn
    before, now = old.form.cuts.matrix(old.form.count) @ into, form.cuts.matrix(N).toarray()
    for rows in (before, now):
        rows *= np.sign(rows[np.arange(len(rows)), np.argmax(rows != 0, axis=1)])[:, None]
    names = {row.tobytes(): j for j, row in enumerate(now.astype(np.int8))}
    at = np.array([names.get(row.tobytes(), -1) for row in before.astype(np.int8)], dtype=int)
    # 2. what both have: multipliers y, and x of those that are ≥ 0
    y, x, gone = np.zeros(len(lift.gain)), np.zeros(len(lift.gain)), np.zeros(len(old.gain))
    gone[old.signed] = x_signed[many:]
    rest, rest_old = (lift.kind != 3) & (lift.kind != 0), (old.kind != 3) & (old.kind != 0)
    y[rest], x[rest] = start.dual.y[rest_old], gone[rest_old]
    (u, u_rows), *_ = lift.roles
    u_points = form.losses.points[np.flatnonzero(~lift.fixed)[u_rows]]
    y[u[((old.form.absorbed > form.absorbed) & (form.sign < 0))[u_points]]] *= -1.0  # of f before, now of −f
    y[:N] = np.bincount(target, start.dual.y[:len(target)], N)
    cuts, gamma, slack = np.flatnonzero(lift.kind == 3), start.dual.y[old.kind == 3], gone[old.kind == 3]
    y[cuts] = np.bincount(at[at >= 0], gamma[at >= 0], len(cuts))
    x[cuts[at[at >= 0]]] = slack[at >= 0]
    alone = (at < 0) & (np.count_nonzero(before, axis=1) == 1)  # of decided components: a part of the diagonal
    y[:N] -= gamma[alone] @ before[alone]**2
    if len(target) > N:  # one of those that were joined stands for all
        own = np.zeros(N, dtype=int)
        own[target[::-1]] = np.arange(len(target))[::-1]
        kept = np.append(own, np.arange(len(target), len(X)))
        signs = np.append(turn[own], np.ones(len(X) - len(target)))
        X = signs[:, None] * X[np.ix_(kept, kept)] * signs
    # 3. new ones: γ = μ/x beside as much of d as dominates them, of which S stays definite; they cost the gap at most
    new = np.setdiff1d(cuts, cuts[at[at >= 0]])
    x[new] = np.maximum(-(lift.gain + lift.inner(X))[new], LEAST_SLACK)
    gap = _product(old.matrices(start.dual), start.primal)
    mu, added = gap / (old.order + 2 * len(start.primal.z) + len(x_signed)), np.zeros(len(y))
    b = np.abs(now[new - len(y[lift.kind < 3])])
    added[new] = mu / x[new]
    added[:N] = b.T @ (b.sum(axis=1) * added[new])
    y += min(1.0, gap / max(-float(lift.gain @ added), 1e-300)) * added
    x_signed = np.append(x_signed[:many], x[lift.signed])
    if lift.pieces is old.pieces:
        return Iterate(lift, dual._replace(y=y), Matrices(X, z, x_signed), start.scalars)
    dual, z, x_signed = carried(lift, old.pieces, dual._replace(y=y), z, x_signed, lift.pieces.same(old.pieces), mu)
    return Iterate(lift, dual, Matrices(X, z, x_signed), start.scalars)


def solve_interior(form: LiftForm, budget: Budget, reached: Reached | None = None) -> RawSolution:
    """Solve a lift; features of more columns than points are taken in an orthonormal basis of their span.

    `reached`: where a solve of a form with other cuts ended, or with fewer components decided.
    """
    features, sigma, basis = form.features.toarray(), form.sigma, None
    if form.free_bias:
        features = np.column_stack([features, np.ones(form.n)])
    elif features.shape[1] > form.n:
        basis, root = np.linalg.qr(features.T)
        features, sigma = root.T, sigma @ basis
    elif not features.shape[1]:  # a weight that does nothing, as no matrix of order zero has a factor
        features, sigma, basis = np.zeros((form.n, 1)), np.zeros((len(sigma), 1)), np.zeros((0, 1))
    lift = LiftArrays.of_form(form, features, sigma)
    face = None
    if form.codes is None and (np.any(np.append(*form.limits) == 0) or np.any(form.cuts.equal)):
        from margindsl_solvers.engines.lift.face import Face  # networkx, which is loaded where there are links
        face = Face.of_lift(lift)
    wide = lift if form.codes is None else lift.coded()  # which has no face
    inner = wide if face is None else face.lift
    try:
        if reached is not None and reached.form is form:
            start = reached.last
        elif reached is not None and (face is None) == (reached.far.lift.labels is None or wide.of is not None) and (
                face is None or reached.form.count == form.count) and np.array_equal(reached.form.linear, form.linear):
            start = moved(reached.far, inner)
        elif (y := lift.start()) is not None:
            start = central(inner, y if face is None else y[face.kept])
        else:
            return RawSolution(Status.FAILED, message="nothing in the dual of the lift holds the free bias")
        run = InteriorRun(start, budget)
        run.far = start if reached is None or reached.form is not form else reached.far
    except ValueError as error:
        return RawSolution(Status.FAILED, message=str(error))
    answer = run.solve()
    if not answer.has_answer:
        return answer
    y, X = answer["y"], answer["X"]
    if face is not None:
        y, X = face.multipliers(y), face.inside @ X @ face.inside.T
    found: dict[str, Any] = wide.variables(y, X) | {"reached": Reached(form, run.iterate, run.far)}
    return replace(answer, variables=found if basis is None else found | {"W": basis @ found["W"]})
