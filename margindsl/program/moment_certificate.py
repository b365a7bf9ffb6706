"""The certificate of the moment lift: dual points (u, q, d, κ, η, τ) repaired without trusting a solver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from margindsl.calculus import PLQ
from margindsl.calculus.accuracy import eigenpairs, eigenvalues, rounding
from margindsl.host.clock import EIGEN_WORK, check
from margindsl.program.certificates import SAFETY, Certificate, project_duals
from margindsl.program.label_certificate import lifted_point
from margindsl.program.losses import Losses
from margindsl.program.moment import MomentLiftForm
from margindsl.typing import FloatArray

SHRINKAGES = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
CONDITION = 1e-10  # least reciprocal condition of P at which HP⁻¹Hᵀ is believed


@dataclass(frozen=True, eq=False)
class MomentLiftCertificate(Certificate):
    """Prove a bound by a dual point of the moment lift.

    For every y = Az in B and every feasible w, ½‖w‖² + Σcρ(y f) ≥ ΣD(u, q) + ½wᵀPw − zᵀHw − ½Σηℓ²
    ≥ ΣD(u, q) − ½zᵀHP⁻¹Hᵀz − ½Σηℓ² ≥ ΣD(u, q) − ½(Σd + Σκβ² + Σηℓ² + Στ), because (y f)² = f², P ≻ 0,
    Diag(d) + Σκω̃ω̃ᵀ − ΣτT − HP⁻¹Hᵀ ⪰ 0 and zᵀTz ≥ −1.
    """

    form: MomentLiftForm
    u: FloatArray  # (m,)
    q: FloatArray  # (m,)
    d: FloatArray  # (N,)
    kappa: FloatArray  # (J,)
    eta: FloatArray  # (L,)
    tau: FloatArray  # (K,)

    def data(self) -> Certificate:
        losses, cuts = self.form.losses, self.form.cuts
        arrays = lifted_point(self.form, losses.point_duals(self.u), -losses.spread(self.q), self.d, self.kappa,
                              self.eta, cuts, self.tau)
        return Certificate(self.bound, arrays=arrays, words=(
            f"repaired dual point of the moment-lifted semidefinite relaxation, {cuts.count} cuts"))


def repair_moment_lift(form: MomentLiftForm, u: FloatArray, q: FloatArray | None = None, d: FloatArray | None = None,
                       kappa: FloatArray | None = None, eta: FloatArray | None = None,
                       tau: FloatArray | None = None) -> MomentLiftCertificate:
    """Return a certificate from any approximate dual point, moved into the domain, shrunk and shifted.

    The point is scaled by 1 − ε for several small ε, which keeps P away from singular, and d is shifted by the
    least eigenvalue; the best bound is returned.

    Shapes: `u` (m,), `q` (m,), `kappa` (J,), `eta` (L,), `tau` (K,).

    Parameters
    ----------
    d : (N,) float array, optional
        The diagonal of HP⁻¹Hᵀ when absent.

    Returns
    -------
    MomentLiftCertificate
        With bound −inf when no repair exists.
    """
    kappa, eta = _nonnegative(kappa, len(form.balance)), _nonnegative(eta, len(form.decision))
    tau = form.cuts.admissible(tau)
    best: MomentLiftCertificate | None = None
    for start_u, start_q in _domain_points(form, np.asarray(u, dtype=float), q):
        # with q = 0 nothing can make P singular but a free bias, which shrinking does not help
        for shrinkage in SHRINKAGES if np.any(start_q != 0) else SHRINKAGES[:1]:
            keep = 1.0 - shrinkage
            # shared scalars fix sums of u, which must not shrink
            shrunk = start_u if form.losses.scalars.count else keep * start_u
            moved = _shifted(form, shrunk, keep * start_q, None if d is None else keep * np.asarray(d, dtype=float),
                             keep * kappa, keep * eta, keep * tau)
            if moved is not None and (best is None or moved.bound > best.bound):
                best = moved
    if best is not None:
        return best
    zero = np.zeros(form.losses.rows)
    return MomentLiftCertificate(-np.inf, form, zero, zero, np.zeros(form.count), kappa, eta, tau)


def _nonnegative(values: FloatArray | None, count: int) -> FloatArray:
    return np.zeros(count) if values is None else np.maximum(np.asarray(values, dtype=float), 0.0)


def _domain_points(form: MomentLiftForm, u: FloatArray,
                   q: FloatArray | None) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield (u, q) with ΣD finite: rows outside moved inside, all rows moved inside, q left out."""
    inside = project_duals(form.losses, u)
    if q is None or not form.moments:
        yield inside, np.zeros_like(u)
        return
    ceiling = curvature_ceiling(form.losses)
    q = np.minimum(np.asarray(q, dtype=float), ceiling)
    safe = np.minimum(q, (1.0 - 1e-7) * ceiling)
    outside = ~np.isfinite(hull_minimum(form.losses, u, q))
    yield np.where(outside, inside, u), np.where(outside, safe, q)
    yield inside, safe
    yield inside, np.minimum(safe, 0.0)
    yield inside, np.zeros_like(u)


def _shifted(form: MomentLiftForm, u: FloatArray, q: FloatArray, d: FloatArray | None, kappa: FloatArray,
             eta: FloatArray, tau: FloatArray) -> MomentLiftCertificate | None:
    check(EIGEN_WORK * form.count**3 / 2)  # before the matrices of that order are made
    G = schur_term(form, u, q, eta)
    if G is None:
        return None
    d = np.diag(G).copy() if d is None else d
    part = label_part(form, kappa, tau)
    values = eigenvalues(np.diag(d) + part - G)
    scale = max(float(np.abs(values).max()), *(float(np.abs(x).max(initial=0.0)) for x in (d, part, G)), 1e-300)
    d = d + max(0.0, -float(values[0])) + 1e-2 * SAFETY * scale
    bound = dual_value(form, u, q, d, kappa, eta, tau)
    return MomentLiftCertificate(bound, form, u, q, d, kappa, eta, tau) if np.isfinite(bound) else None


def escape_moment(form: MomentLiftForm, u: FloatArray, d: FloatArray, kappa: FloatArray, eta: FloatArray,
                  tau: FloatArray, slack: float = 1e-7) -> FloatArray | None:
    """Return the eigenvector (N,) of the least eigenvalue of Diag(d) + Σκω̃ω̃ᵀ − ΣτT − HP⁻¹Hᵀ at q = 0.

    Parameters
    ----------
    u : (m,), d : (N,), kappa : (J,), eta : (L,), tau : (K,) float arrays
        An approximate dual point, not repaired.
    slack : float
        Relative violation that is passed over; None is returned below it.
    """
    check(EIGEN_WORK * len(d) ** 3)
    u = project_duals(form.losses, np.asarray(u, dtype=float))
    G = schur_term(form, u, np.zeros_like(u), eta)
    if G is None:
        return None
    found = eigenpairs(np.diag(d) + label_part(form, kappa, tau) - G)
    if found is None:
        return None
    values, vectors = found
    return vectors[:, 0] if values[0] < -slack * max(float(np.abs(values).max()), 1e-300) else None


def weight_part(form: MomentLiftForm, q: FloatArray, eta: FloatArray) -> tuple[FloatArray, float]:
    """Return P = I (0 for a free bias) + ΦᵀDiag(q̃)Φ + Σησσᵀ, of order r [+1], and what rounding may have done to it."""
    phi = np.asarray(form.features.toarray(), dtype=float)
    if form.free_bias:
        phi = np.column_stack([phi, np.ones(form.n)])
    P, spread = np.diag(np.append(np.ones(form.features.rank), np.zeros(int(form.free_bias)))), form.losses.spread(q)
    size = float(np.abs(spread) @ np.sum(phi * phi, axis=1)) if np.any(spread) else 0.0
    P = P + phi.T @ (spread[:, None] * phi)
    if form.decision:
        G, h = form.decision_rows
        sigma = np.column_stack([G, h]) if form.free_bias else G
        P, size = P + (sigma.T * eta) @ sigma, size + float(eta @ np.sum(sigma * sigma, axis=1))
    return (P + P.T) / 2, float(rounding(size, form.n))


def label_part(form: MomentLiftForm, kappa: FloatArray, tau: FloatArray) -> FloatArray:
    """Return Σκω̃ω̃ᵀ − ΣτT, of order N."""
    out = -form.cuts.adjoint(tau, form.count)
    for bound, multiplier in zip(form.balance, kappa):
        out += multiplier * np.outer(bound.vector, bound.vector)
    return out


def schur_term(form: MomentLiftForm, u: FloatArray, q: FloatArray, eta: FloatArray) -> FloatArray | None:
    """Return HP⁻¹Hᵀ (N, N) or a matrix above it, None unless P is positive definite and well enough conditioned.

    What rounding may have done is on the safe side: P less δI, and (H + E)P⁻¹(H + E)ᵀ ⪯ (1 + ρ)HP⁻¹Hᵀ +
    (1 + 1/ρ)‖EP^-½‖²I for rounding E of H.
    """
    P, noise = weight_part(form, q, eta)
    found = eigenpairs(P)
    if found is None:
        return None
    values, vectors = found[0] - noise, found[1]
    if values[0] <= CONDITION * max(float(values[-1]), 1e-300):
        return None
    H = form.component_features(u) @ vectors / np.sqrt(values)
    lengths = np.sqrt(np.asarray(form.features.row_norms()) + int(form.free_bias))
    sizes = np.bincount(form.component, weights=np.abs(form.losses.spread(u)) * lengths, minlength=form.count)
    error, length = float(np.linalg.norm(rounding(sizes, form.n))) / np.sqrt(values[0]), float(np.linalg.norm(H))
    share = error / length if length > 0 else 0.0
    return np.asarray((1.0 + share) * (H @ H.T) + error * (error + length) * np.eye(form.count))


def dual_value(form: MomentLiftForm, u: FloatArray, q: FloatArray, d: FloatArray, kappa: FloatArray,
               eta: FloatArray, tau: FloatArray) -> float:
    """Return ΣD(u, q) − ½(Σd + Σκβ² + Σηℓ² + Στ)."""
    if form.moments and np.any(q != 0):
        separable = float(np.sum(hull_minimum(form.losses, u, q)))
    else:
        separable = -form.losses.conjugate_value(u)
    radii = np.array([bound.radius**2 for bound in form.balance])
    limits = np.array([bound.upper**2 for bound in form.decision])
    return separable - 0.5 * float(d.sum() + kappa @ radii + eta @ limits + tau.sum())


def hull_minimum(losses: Losses, u: FloatArray, q: FloatArray) -> FloatArray:
    """Return the (m,) numbers D_r(u, q) = inf_t c_rρ_r(t) + u_r t − ½ q_r t² but for rounding, −∞ where unbounded.

    Parameters
    ----------
    losses : Losses
        Of piecewise quadratics of the margin itself.
    """
    out = np.full(losses.rows, np.inf)
    for term, part in losses.slices():
        assert isinstance(term.loss, PLQ)
        for a, b, square, slope, constant in term.loss.pieces:
            c = term.weights
            sizes = rounding(np.array([c * square + 0.5 * np.abs(q[part]), c * abs(slope) + np.abs(u[part]),
                                       c * abs(constant)]))
            sizes[0, q[part] == 0] = 0.0  # nothing is taken off the square
            least = _least(c * square - 0.5 * q[part], c * slope + u[part], c * constant, sizes, a, b)
            out[part] = np.minimum(out[part], least)
    return out


def _least(A: FloatArray, B: FloatArray, C: FloatArray, noise: FloatArray, a: float, b: float) -> FloatArray:
    """Return min of At² + Bt + C over [a, b], less what coefficients that are so much smaller would make of it."""
    ends = [A * t * t + B * t + C - noise.T @ (t * t, abs(t), 1.0) for t in (a, b) if np.isfinite(t)]
    square = A - noise[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = np.where(A > 0, -B / (2 * A), np.nan)
        inner = C - noise[2] - np.where(square > 0, (np.abs(B) + noise[1]) ** 2 / (4 * square), np.inf)
    least = np.min([np.where((A > 0) & (vertex >= a) & (vertex <= b), inner, np.inf), *ends], axis=0)
    flat = (A == 0) & (B == 0)
    least = np.where(flat, np.minimum(least, C), least)
    falls_left = (a == -np.inf) & ((A < 0) | ((A == 0) & (B > 0)))
    falls_right = (b == np.inf) & ((A < 0) | ((A == 0) & (B < 0)))
    return np.where(falls_left | falls_right, -np.inf, least)


def curvature_ceiling(losses: Losses) -> FloatArray:
    """Return the (m,) largest q at which D(u, q) can be finite: twice the curvature of unbounded pieces."""
    out = np.full(losses.rows, np.inf)
    for term, part in losses.slices():
        assert isinstance(term.loss, PLQ)
        for a, b, square, _, _ in term.loss.pieces:
            if not (np.isfinite(a) and np.isfinite(b)):
                out[part] = np.minimum(out[part], 2 * term.weights * square)
    return np.where(np.isfinite(out), out, 1e12)
