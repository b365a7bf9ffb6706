"""What a dual point of the lift proves: points moved until the matrix inequality holds, at any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from margindsl.calculus.accuracy import eigenpairs, eigenvalues
from margindsl.features.derived import AffineFeatures
from margindsl.features.operator import FeatureOperator
from margindsl.host.clock import EIGEN_WORK, check, while_time
from margindsl.program.certificates import Certificate, lifted_arrays
from margindsl.program.component_rows import ComponentRows, Inverse, greatest_eigenvalue
from margindsl.program.equalities import project_duals
from margindsl.program.forms import by_coordinate
from margindsl.program.lift import LiftForm, LiftPoint
from margindsl.typing import FloatArray

DENSE_ORDER = 500  # components up to which eigenvalues of N × N matrices are taken
WIDE, FETCHED = 1000, 1_000_000  # columns beyond which, and entries from workers of which, no dense rows are made
SAFETY, WIDE_SAFETY = 1e-10, 1e-6  # relative room for the rounding of eigenvalues, and where they are bounds
SHRINKAGES = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # of a point whose squares outweigh the norm
SHIFTS, WIDE_SHIFTS = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3), (0.0, 1e-3)  # of the diagonal, relative to its mean
CANCELLED = 1e-4  # of the value's units: what d is shifted by rounding of, where directions of decided points cancel
SLACK = 1e-8  # relative excess that is passed over
CONDITION = 1e-10  # least reciprocal condition of P at which HP⁻¹Hᵀ is believed
FAINT = 1e-6  # share of a value that squares are to make up beside a u outside: of less −u²/4q is far below the rest
ASCENT, HOLDING, LEAST_STEPS = 300, 60, 5  # steps of a max-cut ascent, while a bias is to be held, at least
NOISE = 0.05  # beside unit rows that an ascent starts from


def repair_lift(form: LiftForm, answer: Any) -> Certificate:
    """Return the certificate of an approximate dual point, moved into the domain, scaled and shifted until it holds.

    Parameters
    ----------
    answer : mapping or RawSolution
        With `get`: `u`, and what there is of `q`, `d`, `kappa`, `gamma`, `eta`. Without `d` it is found by an ascent,
        from `V` where that is given; where nothing holds a free bias, an η is found that does.

    Returns
    -------
    Certificate
        With bound −∞ where no repair exists.
    """
    point, bound = repaired_point(form, answer)
    return Certificate(bound, arrays=point_arrays(form, point), words="repaired dual point of the semidefinite lift")


def repaired_point(form: LiftForm, answer: Any) -> tuple[LiftPoint, float]:
    """Return the dual point of `repair_lift` and its bound."""
    best, bound, searched = None, -np.inf, answer.get("d") is None
    for point in (starts := admissible(form, answer)):
        if form.free_bias and not point.eta.any():
            point = replace(point, eta=_holding(form, point))
        least, needless = np.inf if searched else form.value(point), False
        for number, fixed in enumerate(while_time(_repairs(form, point, answer.get("V"), searched))):
            value = form.value(fixed)
            if best is None or value > bound:
                best, bound = fixed, value
            needless = bound >= least - SLACK * abs(least)
            if needless and (number or np.any(point.q)):  # squares have no scale that may win something
                break
        if np.isfinite(bound) and (needless or bound >= form.value(starts[-1])):
            break
    if best is not None and searched and np.isfinite(bound):
        best = _stretched(form, best, bound)
        bound = form.value(best)
    if form.blocks and best is not None:
        best = _of_blocks(form, best)
        bound = form.value(best)
    return (starts[-1] if best is None else best), bound


def _of_blocks(form: LiftForm, point: LiftPoint) -> LiftPoint:
    """Return (tu, t²cd, t²cκ, t²γ) of the best t and the least c with which the inequality holds for every block."""
    d = np.maximum(point.d, 1e-9 * np.abs(point.d).mean())
    base = np.diag(d) + (form.omega.T * point.kappa) @ form.omega
    cuts, most = label_part(form, replace(point, kappa=0.0 * point.kappa)), 0.0
    for features in form.blocks:
        H = component_rows(replace(form, features=features), point.u)
        most = max(most, float(scipy.linalg.eigh(H @ H.T - cuts, base, eigvals_only=True)[-1]) * (1.0 + SAFETY))

    def at(t: float) -> LiftPoint:
        return replace(point, u=t * point.u, d=t * t * most * d, kappa=t * t * most * point.kappa,
                       gamma=t * t * point.gamma)

    if form.losses.scalars.count:  # which fix the scale of u
        return at(1.0)
    return at(max(np.linspace(0.2, 1.2, 201), key=lambda t: form.value(at(t))))


def greatest_excess(form: LiftForm, point: LiftPoint, most: int = 1) -> tuple[FloatArray, FloatArray]:
    """Return the greatest λ, descending, of Hᵀ(Diag d + Σκωωᵀ)⁻¹H − 2Σq̃φφᵀ − Σησσᵀ beside P₀, and the weights (r [+1],
    ·) where they are met; for a lift without cuts.

    At most one means that the point is feasible, infinity that no scaling makes it so. Of features too wide for such
    a matrix there is one λ, a bound, and positive q count as zero.
    """
    none = np.array([np.inf]), np.zeros((form.order, 0))
    inverse, possible = _inverse(form, point)
    if not possible:
        return none
    base, held = _features(form), ~form.absorbed
    q, H = form.scatter_squares(point.q), component_rows(form, point.u)
    if is_wide(form):
        squares = np.maximum(-2.0 * q, 0.0)

        def product(v: FloatArray) -> FloatArray:
            out = base.adjoint(squares * base.apply(v)) if np.any(squares) else 0.0 * v
            return out + H.T @ inverse(H @ v) if np.any(held) else out

        _, bound, vector = greatest_eigenvalue(product, form.order)
        return np.array([bound]), vector()[:, None]
    check(EIGEN_WORK * form.order**3 / 2)
    K = base.gram(-2.0 * q) if np.any(q) else np.zeros((form.order, form.order))
    K = K - (form.sigma.T * point.eta) @ form.sigma
    K = K + inverse.between(H) if np.any(held) and form.order else K
    if not form.order:
        return np.zeros(1), np.zeros((0, 1))
    edge = None
    if form.free_bias:  # it costs nothing: its row must be negative beside others
        corner = -float(K[-1, -1])
        if corner <= 0 and np.any(np.abs(K[-1]) > 0):
            return none
        edge = K[:-1, -1] / corner if corner > 0 else 0.0 * K[:-1, -1]
        K = K[:-1, :-1] + np.outer(edge, K[-1, :-1])
    found = eigenpairs((K + K.T) / 2)
    if found is None:
        return none
    values, W = found[0][::-1][:most], found[1][:, ::-1][:, :most]
    return values, W if edge is None else np.vstack([W, edge @ W])


# -- where repairs start -----------------------------------------------------------------------------------


def admissible(form: LiftForm, answer: Any) -> list[LiftPoint]:
    """Return points of an answer: u and q in the domain, rows outside moved inside; then with no q beside a u."""
    def given(name: str, count: int) -> FloatArray:
        values = answer.get(name)
        return np.zeros(count) if values is None else np.array(values, dtype=float)

    losses, linear = form.losses, form.linear
    u, q = np.where(linear, given("u", losses.rows), 0.0), given("q", losses.rows)
    q = np.where(form.turned, np.maximum(q, 0.0), np.where(form.squared, np.minimum(q, form.ceiling), 0.0))
    safe = np.where(form.turned, q, np.minimum(q, (1.0 - 1e-7) * form.ceiling))
    inside = np.zeros_like(u)
    if np.any(linear):
        inside[linear] = project_duals(losses.only(linear), u[linear])
    level, reach = form.units
    q = np.where((u != inside) & (np.abs(q) * reach**2 <= FAINT * level / losses.rows), 0.0, q)
    rest = (given("d", form.count), np.maximum(given("kappa", len(form.balance)), 0.0),
            form.cuts.admissible(answer.get("gamma")), np.maximum(given("eta", len(form.decision)), 0.0))
    outside = ~np.isfinite(form.least(u, q)) | np.any(losses.coupling, axis=1) | (q == 0) | form.turned
    first = np.where(outside, inside, u), np.where(outside, safe, q)
    last = inside, np.where(linear, 0.0, safe)
    v, e = (np.where(form.conditioned, given(name, losses.rows), 0.0) if np.any(form.conditioned) else np.zeros(0)
            for name in ("v", "e"))
    if len(v):  # each of both labels in the domain
        v = np.where(np.isfinite(form.least(*first, v, e)), v, 0.0)
    return [LiftPoint(*first, *rest, v, e), LiftPoint(*last, *rest)][:1 + bool(np.any(first[1][linear]) or np.any(v))]


def _holding(form: LiftForm, point: LiftPoint) -> FloatArray:
    """Return multipliers η of which one holds the free bias, as good as any at u; zero where there is no such bound.

    τ|uᵀz| ≤ ½ητ²h² + (uᵀz)²/2ηh² for every η > 0: what labels pay is convex in 1/η, and the bound has one peak.
    """
    eta, h = np.zeros(len(form.decision)), form.decision_rows[1]
    positions = [j for j, bound in enumerate(form.decision) if h[j] != 0 and 0 < bound.upper < np.inf]
    if not positions:
        return eta
    j = min(positions, key=lambda position: form.decision[position].upper / abs(h[position]))
    limit, scatter = form.decision[j].upper, form.losses.scatter(point.u)
    sums = np.bincount(form.component[~form.absorbed], (form.sign * scatter)[~form.absorbed], form.count)
    size = float(np.linalg.norm(sums)) / (abs(h[j]) * limit)
    size = size or 1e-6 * float(form.features.trace) / limit**2
    if not np.any(sums):
        eta[j] = size
        return eta

    def price(log_eta: float) -> float:
        eta[j] = size * np.exp(log_eta)
        root = _whitened(form, replace(point, eta=eta))
        d = None if root is None else ascend_cut(form, root, point.kappa, HOLDING)[0]
        return np.inf if d is None else float(d.sum()) + eta[j] * limit**2

    with np.errstate(invalid="ignore"):  # no parabola goes through what is infinite
        found = scipy.optimize.minimize_scalar(price, bounds=(-12.0, 3.0), method="bounded", options={"xatol": 0.05})
    eta[j] = size * np.exp(found.x)
    return eta


# -- repairs -----------------------------------------------------------------------------------------------


def _repairs(form: LiftForm, point: LiftPoint, V: Any, searched: bool) -> Iterator[LiftPoint]:
    """Yield points at which the inequality holds: d shifted where N × N eigenvalues are affordable, d and q scaled."""
    dense = not is_wide(form) and (form.count <= DENSE_ORDER or form.cuts.count > 0)
    whole = form.losses.scalars.count > 0  # shared scalars fix sums of u, which must not shrink
    for shrinkage in SHRINKAGES if form.count and dense else ():
        keep = 1.0 - shrinkage
        moved = LiftPoint(*(keep * getattr(point, name) if not (whole and name == "u") else point.u
                            for name in ("u", "q", "d", "kappa", "gamma", "eta", "v", "e")))
        root = _whitened(form, moved)
        if root is None:
            continue
        if searched:
            d, kappa = ascend_cut(form, root, moved.kappa, V=V)
            moved = replace(moved, d=d, kappa=kappa)
        check(EIGEN_WORK * form.count**3 / 2)
        G = root @ root.T
        labels = np.diag(moved.d) + label_part(form, moved)
        if form.codes is not None:
            basis = by_coordinate(form.codes)
            labels = basis.T @ np.kron(labels, np.eye(form.codes.shape[1])) @ basis
        lowest = eigenvalues(labels - G)
        scale = max(float(np.abs(lowest).max()), float(np.abs(moved.d).max(initial=0.0)), float(np.trace(G)),
                    CANCELLED * form.units[0])
        short = max(0.0, -float(lowest[0]))
        if np.isfinite(short):
            yield replace(moved, d=moved.d + short + 8 * np.finfo(float).eps * (form.count + form.order) * scale)
        if short <= 1e-9 * scale or not np.any(moved.q):
            break
    if form.cuts.count or form.codes is not None:
        return
    point = replace(point, q=np.where(form.turned, 0.0, point.q), v=np.zeros(0), e=np.zeros(0))
    if searched and form.count:
        root = _whitened(form, point)
        d, kappa = ascend_cut(form, component_rows(form, point.u) if root is None else root, point.kappa, V=V)
        point = replace(point, d=d, kappa=kappa)
    for kappa in [point.kappa, 0.0 * point.kappa] if np.any(point.kappa) else [point.kappa]:
        for shift in (WIDE_SHIFTS if is_wide(form) else SHIFTS) if form.count else (0.0,):
            found = scaled(form, replace(point, kappa=kappa), shift)[0]
            if found is not None:
                yield found


def scaled(form: LiftForm, point: LiftPoint, shift: float = 0.0, most: int = 0
           ) -> tuple[LiftPoint | None, FloatArray, FloatArray]:
    """Return the point (λd, λκ, q/λ, η/λ) at which the inequality holds, λ the greatest excess, ≥ 1 beside q or η;
    then labels (N, ·) and weights (r [+1], ·) along which it did not hold. For a lift without cuts.

    Parameters
    ----------
    shift : float
        Added to d, relative to its mean.
    most : int
        Most directions, of which those that failed by more are longer.

    Returns
    -------
    point : LiftPoint or None
        None where λ is infinite.
    labels, weights : float arrays
    """
    # 1. d away from zero
    squares, wide = _row_squares(form, point.u), is_wide(form)
    typical = float(squares.sum()) / max(1, form.count)
    # beside κ the inverse is a difference of terms as large as ‖h‖²/d, of which ten digits are kept
    least_d = np.where(squares > 0, 1e-5 * (squares + typical) if np.any(point.kappa) else 1e-9 * typical,
                     1e-14 * typical if np.any(point.kappa) else 0.0)
    shift *= float(np.abs(point.d).mean()) if form.count else 0.0
    moved = replace(point, d=np.maximum(point.d + shift, least_d))
    # 2. the greatest excesses
    values, W = greatest_excess(form, moved, max(most, 1))
    if not np.isfinite(values[0]):
        return None, np.zeros((form.count, 0)), W
    # 3. where they are more than one
    W = (W * np.sqrt(np.maximum(values - 1.0, 0.0)))[:, values > 1.0 + SLACK][:, :most]
    labels = np.zeros((form.count, W.shape[1]))
    if form.count and W.shape[1]:
        labels = _inverse(form, moved)[0](component_rows(form, point.u) @ W)
    # 4. λ; what is feasible is made tight where that raises neither q nor η
    factor, safety = float(values[0]), WIDE_SAFETY if wide else SAFETY
    if factor > 1.0 - safety:
        factor *= 1.0 + safety
    else:
        factor = 1.0 if np.any(moved.q) or np.any(moved.eta) else max(factor, 1e-300)
    return replace(moved, d=factor * moved.d, kappa=factor * moved.kappa, q=moved.q / factor,
                   eta=moved.eta / factor), labels, W


def falling_labels(form: LiftForm, point: LiftPoint, most: int = 1) -> FloatArray:
    """Return (N, ·) labels z along which the inequality does not hold, `most` at most, from N × N eigenvalues."""
    root = _whitened(form, point)
    check(EIGEN_WORK * form.count**3)
    found = None if root is None else eigenpairs(
        np.diag(point.d) + label_part(form, point) - root @ root.T)
    if found is None:
        return np.zeros((form.count, 0))
    return found[1][:, :most][:, found[0][:most] < -SLACK * np.abs(found[0]).max()]


def _stretched(form: LiftForm, point: LiftPoint, bound: float) -> LiftPoint:
    """Return (tu, t²d, t²κ, η) of the best t > 0: the inequality scales so, and the bound is concave in t.

    Duals of a tighter relaxation, which are too large for this one, gain most. Not where q or shared scalars fix the
    scale of u, or cuts that of d.
    """
    if form.losses.scalars.count or np.any(point.q) or form.cuts.count:
        return point

    def at(t: float) -> LiftPoint:
        return replace(point, u=t * point.u, d=t * t * point.d, kappa=t * t * point.kappa)

    def loss(t: float) -> float:
        value = form.value(at(t))
        return -value if np.isfinite(value) else 1e3 * (1.0 + t) * (1.0 + abs(bound))  # a number, for interpolation

    found = scipy.optimize.minimize_scalar(loss, bounds=(0.0, 10.0), method="bounded", options={"xatol": 1e-6})
    return at(float(found.x)) if -float(found.fun) > bound else point


def ascend_cut(form: LiftForm, H: Any, kappa: FloatArray, iterations: int = ASCENT,
               V: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Return multipliers (d, κ) of max ⟨HHᵀ, M⟩ over M ⪰ 0, diag M = 1 and the lifted label bounds.

    M = VVᵀ with unit rows is improved by the generalised power step V ← rows of (HHᵀ − Σκωωᵀ + shift)V, while κ
    follows the violated bounds; d_C = v_C·((HHᵀ − Σκωωᵀ)V)_C at the end. A start is mixed with a little noise, which
    leaves saddles.

    Parameters
    ----------
    H : (N, r) array or ComponentRows
    """
    N = form.count
    start, V = V, np.random.default_rng(0).standard_normal((N, int(min(N, max(3, np.ceil(np.sqrt(2 * N)) + 1), 24))))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    if start is not None:
        heaviest = start @ np.linalg.eigh(start.T @ start)[1][:, -V.shape[1]:]
        V[:, :heaviest.shape[1]] += heaviest / NOISE
        V /= np.linalg.norm(V, axis=1, keepdims=True)
    omega, kappa, radii = form.omega.T, kappa.copy(), form.limits[0]
    scale = float(np.sum(H.norms if isinstance(H, ComponentRows) else H * H))
    tol = 1e-5 if isinstance(H, ComponentRows) and H.is_wide else 1e-9
    if scale == 0:
        return np.zeros(N), kappa * 0
    power = np.einsum("cj,cj->j", omega, omega)
    step = 1.2 * scale / N / np.maximum(power, 1e-300) ** 2
    previous = -np.inf
    for iteration in while_time(range(iterations)):
        shift = float(kappa @ power)
        check()
        product = H @ (H.T @ V) - omega @ (kappa[:, None] * (omega.T @ V)) + shift * V
        norms = np.linalg.norm(product, axis=1, keepdims=True)
        V = np.where(norms > 0, product / np.maximum(norms, 1e-300), V)
        excess, before = np.sum((omega.T @ V) ** 2, axis=1) - radii, kappa
        kappa = np.maximum(0.0, kappa + step * excess)
        value = float(norms.sum())
        moved = abs(value - previous) + float(abs(kappa - before) @ power + abs(kappa @ excess))
        if moved <= tol * abs(value) and iteration >= LEAST_STEPS:
            break
        previous = value
    product = H @ (H.T @ V) - omega @ (kappa[:, None] * (omega.T @ V))
    return np.einsum("cp,cp->c", V, product), kappa


# -- the blocks --------------------------------------------------------------------------------------------


def is_wide(form: LiftForm) -> bool:
    """Return whether no matrix of the features' order is to be formed: many columns of features that are not dense."""
    features = form.features
    widest = max(WIDE, form.n if form.count <= DENSE_ORDER else 0)
    return not form.free_bias and features.rank > widest and not features.is_dense


def _features(form: LiftForm) -> FeatureOperator:
    return AffineFeatures(form.features, constant=1.0) if form.free_bias else form.features


def component_rows(form: LiftForm, u: FloatArray, v: FloatArray | None = None) -> Any:
    """Return the rows h_C = Σ_{i∈C} t_i ũ_i φ_i (N, r [+1]), as products alone of wide features, or of many of workers.

    `v` (m,): conditional duals, which are of the reference.
    """
    rows, signs = form.rows
    weights = signs * form.losses.scatter(u)
    wide, far = is_wide(form), form.features.is_remote and form.count * form.features.rank > FETCHED
    if (wide or far) and not form.losses.is_turned:
        return ComponentRows(_features(form), rows, weights, form.count, wide)
    H = _features(form).component_sums(rows, weights, max(form.count, 1))[: form.count]
    if form.losses.is_turned:  # duals without label are those of the reference
        H[form.reference] += _features(form).adjoint(form.losses.scatter_turned(u))
    if v is not None and np.any(v):
        H[form.reference] += _features(form).adjoint(form.losses.scatter(v))
    return H


def _row_squares(form: LiftForm, u: FloatArray) -> FloatArray:
    H = component_rows(form, u)
    return H.norms if isinstance(H, ComponentRows) else np.einsum("cr,cr->c", H, H)


def label_part(form: LiftForm, point: LiftPoint) -> FloatArray:
    """Return Σκωωᵀ − Σγbbᵀ − Σet(e_C e₀ᵀ + e₀ e_Cᵀ), of order N, with the vectors of losses by label among b."""
    out, points = (form.omega.T * point.kappa) @ form.omega, form.losses.points
    if form.cuts.count:
        b = form.cuts.matrix(form.count)
        out = out - (b.T @ (b * point.gamma[:, None])).toarray()
    if np.any(form.turned):
        out = out - (form.states.T * point.q[form.turned]) @ form.states
    if np.any(point.e):
        sums = np.bincount(form.component[points], form.sign[points] * point.e, form.count)
        out[form.reference] -= sums
        out[:, form.reference] -= sums
    return out


def _whitened(form: LiftForm, point: LiftPoint) -> Any:
    """Return H P^{-1/2}, None unless P = P₀ + 2Σq̃φφᵀ + Σησσᵀ is positive definite and well enough conditioned."""
    H, q = component_rows(form, point.u, point.v), form.scatter_squares(point.q)
    if form.codes is not None:  # by coordinates of codes
        own = form.codes[form.component]
        H = by_coordinate(form.codes).T @ np.kron(H, np.eye(own.shape[1]))
    if not form.order or not (form.free_bias or np.any(q) or np.any(point.eta)):
        return H
    if isinstance(H, ComponentRows):
        return None
    check(EIGEN_WORK * form.order**3)
    P = np.eye(form.order) + (form.sigma.T * point.eta) @ form.sigma
    P[-1, -1] -= float(form.free_bias)
    if form.codes is not None:
        phi = np.einsum("ir,ic->irc", form.features.toarray(), own).reshape(form.n, -1)
        P = np.kron(P, np.eye(own.shape[1])) + 2.0 * (phi.T * q) @ phi
    elif np.any(q):
        P = P + _features(form).gram(2.0 * q)
    found = eigenpairs(P)
    if found is None or found[0][0] <= CONDITION * max(float(found[0][-1]), 1e-300):
        return None
    return H @ found[1] / np.sqrt(found[0])


def _inverse(form: LiftForm, point: LiftPoint) -> tuple[Inverse, bool]:
    """Return the map Z ↦ (Diag d + Σκωωᵀ)⁻¹Z, and False where d vanishes and H does not.

    Where d vanishes together with the features of a component, its rows drop out, and so may κ only where ω vanishes
    there too.
    """
    positive, used, omega = point.d > 0, point.kappa > 0, form.omega.T
    with np.errstate(over="ignore"):  # what overflows here is found infeasible
        inverse = np.divide(1.0, point.d, out=np.zeros_like(point.d), where=positive)
    used = used & ~np.any(omega[~positive])
    omega = omega[:, used]
    tilted = omega * inverse[:, None]
    outside = _row_squares(form, point.u)[~positive] if not np.all(positive) else np.zeros(0)
    return Inverse(inverse, tilted, np.diag(1.0 / point.kappa[used]) + omega.T @ tilted), not np.any(outside)


def point_arrays(form: LiftForm, point: LiftPoint) -> dict[str, Any]:
    """Return a dual point as arrays by points, every point a component: those without one have a d of zero."""
    losses, apart = form.losses, np.flatnonzero(form.absorbed)
    component = form.component.copy()
    component[apart] = form.count + np.arange(len(apart))
    q = point.q if losses.by_rows else form.scatter_squares(point.q)
    more = {"v": losses.scatter(point.v), "e": np.bincount(losses.points, point.e, form.n)} if len(point.v) else {}
    return more | lifted_arrays(
        losses.point_duals(point.u), -2.0 * q, np.append(point.d, np.zeros(len(apart))), kappa=point.kappa,
        vectors=np.vstack([form.omega.T, np.zeros((len(apart), len(form.balance)))]), eta=point.eta,
        component=component, sign=form.sign, theta=point.gamma, cut_positions=form.cuts.positions,
        cut_signs=form.cuts.signs)
