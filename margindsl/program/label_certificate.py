"""Certificate of the label lift: dual points repaired until a matrix inequality holds (mathematics, 3.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import scipy

from margindsl.calculus.accuracy import eigenpairs, eigenvalues
from margindsl.features.derived import AffineFeatures
from margindsl.host.clock import EIGEN_WORK, check, while_time
from margindsl.program.certificates import SAFETY, WIDE_SAFETY, Certificate, lifted_arrays
from margindsl.program.component_rows import ComponentRows, Inverse, greatest_eigenvalue
from margindsl.program.cuts import MatrixCuts
from margindsl.program.equalities import project_duals, proves
from margindsl.program.forms import LabelLiftForm
from margindsl.typing import FloatArray

Rows: TypeAlias = FloatArray | ComponentRows

DENSE_ORDER = 500  # components up to which an N x N eigenvalue solve is affordable
SHIFTS = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)  # of the diagonal before scaling, relative to its mean
HOLDING = 60  # steps of a max-cut ascent while the multiplier that holds a bias is searched
NOISE, LEAST_STEPS = 0.05, 5  # beside unit rows that an ascent starts from; its steps at least
WIDE_SHIFTS, WIDE_TOL = (0.0, 1e-3), 1e-5  # where H is never formed and eigenvalues are bounds


@dataclass(frozen=True, eq=False)
class LabelLiftCertificate(Certificate):
    """Prove a bound by a repaired dual point (u, d, κ, η) of the label-lifted relaxation.

    For every y = Az in B and every feasible w, s,
    ½‖w‖² + qᵀs + Σ cρ(v) ≥ −Σcρ*(−u/c) − uᵀd₀ − ½(Σ_C d_C + Σ_j κ_jβ_j² + Σ_l η_lℓ_l²), because
    Diag(d) + Σ κ_jω̃_jω̃_jᵀ − HP⁻¹Hᵀ ⪰ 0 (d₀ the shifts).
    """

    form: LabelLiftForm
    u: FloatArray  # (m,)
    d: FloatArray  # (N,)
    kappa: FloatArray  # (J,)
    eta: FloatArray  # (L,)

    def data(self) -> Certificate:
        arrays = lifted_point(self.form, self.form.losses.point_duals(self.u), np.zeros(self.form.n), self.d,
                              self.kappa, self.eta)
        return Certificate(self.bound, arrays=arrays,
                           words="repaired dual point of the label-lifted semidefinite relaxation")


def lifted_point(form: LabelLiftForm, u: FloatArray, q: FloatArray, d: FloatArray, kappa: FloatArray, eta: FloatArray,
                 cuts: MatrixCuts | None = None, theta: FloatArray | None = None) -> dict[str, Any]:
    """Return the arrays of a dual point of a label lift; `q` (n,) belongs to squared decision values."""
    held = {} if cuts is None else {
        "theta": theta, "cut_rows": cuts.rows, "cut_columns": cuts.columns, "cut_products": cuts.products}
    return lifted_arrays(u, q, d, kappa=kappa, vectors=_omegas(form), eta=eta, component=form.component,
                         sign=form.sign, **held)


def repair_label_lift(form: LabelLiftForm, u: FloatArray, d: FloatArray | None = None,
                      kappa: FloatArray | None = None, eta: FloatArray | None = None,
                      V: FloatArray | None = None) -> LabelLiftCertificate:
    """Return a certificate from any approximate dual point, shifted or scaled until it is feasible.

    Parameters
    ----------
    u : (m,) float array
        Row duals; moved into the domain of the conjugates and onto the scalar equalities.
    d : (N,) float array, optional
        Diagonal multipliers; found by a max-cut ascent when absent.
    kappa : (J,) float array, optional
        Multipliers of the lifted label bounds.
    eta : (L,) float array, optional
        Multipliers of the decision bounds; where none holds a free bias, one is found.
    V : (N, p) array, optional
        A factor of M at the same answer, from which the ascent starts.

    Returns
    -------
    LabelLiftCertificate
        With bound −inf when no repair exists (for instance a free bias without a decision bound).
    """
    u, kappa, eta = _admissible(form, u, kappa, eta)
    if form.free_bias and not eta.any():
        eta = _holding(form, u, kappa)
    H = _whitened(form, u, eta)
    if H is None or not proves(form.losses, u):
        return _worthless(form, u, kappa, eta)
    starts = [ascend_cut(form, H, kappa, V=V)]
    if d is not None:
        starts.append((np.asarray(d, dtype=float), kappa))
    return _best_repair(form, u, eta, H, starts)


def repair_dual_point(form: LabelLiftForm, u: FloatArray, d: FloatArray, kappa: FloatArray,
                      eta: FloatArray) -> LabelLiftCertificate:
    """Return the certificate of a dual point by shifting and scaling alone, without a search for a better d.

    Parameters
    ----------
    u : (m,), d : (N,), kappa : (J,), eta : (L,) float arrays
        As for `repair_label_lift`, which costs more and may do better.

    Returns
    -------
    LabelLiftCertificate
        With bound −inf when no repair exists.
    """
    u, kappa, eta = _admissible(form, u, kappa, eta)
    H = _whitened(form, u, eta)
    if H is None or not proves(form.losses, u):
        return _worthless(form, u, kappa, eta)
    return _best_repair(form, u, eta, H, [(np.asarray(d, dtype=float), kappa)])


def scale_dual_point(certificate: LabelLiftCertificate) -> LabelLiftCertificate:
    """Return the certificate of (tu, t²d, t²κ, η) for the best t > 0: the bound is concave in t.

    The inequality scales with t², and the bound is −Σcρ*(−tu/c) − tuᵀd₀ − ½t²(Σd + Σκβ²) − ½Σηℓ². A dual point
    of a tighter relaxation, whose u is too large for this one, gains most.

    Returns
    -------
    LabelLiftCertificate
        The one given when nothing is gained, or shared scalars fix the scale of u.
    """
    form, u = certificate.form, certificate.u
    if form.losses.scalars.count or not np.isfinite(certificate.bound):
        return certificate
    radii = np.array([b.radius**2 for b in form.balance])
    price = 0.5 * float(certificate.d.sum() + certificate.kappa @ radii)

    wall = 1e3 * (abs(certificate.bound) + price + abs(form.losses.conjugate_value(u)))

    def loss(t: float) -> float:
        value = form.losses.conjugate_value(t * u)
        return value + t * t * price if np.isfinite(value) else wall * (1.0 + t)  # a number, for interpolation

    found = scipy.optimize.minimize_scalar(loss, bounds=(0.0, 2.0), method="bounded", options={"xatol": 1e-6})
    t = float(found.x)
    scaled = t * u, t * t * certificate.d, t * t * certificate.kappa, certificate.eta
    bound = _dual_value(form, *scaled)
    if not bound > certificate.bound:
        return certificate
    return LabelLiftCertificate(bound, form, *scaled)


def escape_direction(form: LabelLiftForm, u: FloatArray, d: FloatArray, kappa: FloatArray, eta: FloatArray,
                     slack: float = 1e-7) -> FloatArray | None:
    """Return z with zᵀ(Diag(d) + Σκω̃ω̃ᵀ − HP⁻¹Hᵀ)z < 0, along which one more column lowers the objective.

    Parameters
    ----------
    u : (m,), d : (N,), kappa : (J,), eta : (L,) float arrays
        An approximate dual point, not repaired.
    slack : float
        Relative violation that is passed over.
    """
    u, kappa, eta = _admissible(form, u, kappa, eta)
    H = _whitened(form, u, eta)
    if H is None:
        return None
    base = np.maximum(d, _floor(H, kappa))
    solve, possible = _inverse(form, H, base, kappa)
    if not possible:
        return None
    if _is_wide(H):
        highest, _, vector = greatest_eigenvalue(lambda v: H.T @ solve(H @ v), H.shape[1])
        return solve(H @ vector()) if highest > 1.0 + slack else None
    check(EIGEN_WORK * H.shape[1] ** 3 / 2)
    found = eigenpairs(solve.between(H))
    if found is None:
        return None
    values, vectors = found
    return solve(H @ vectors[:, -1]) if values[-1] > 1.0 + slack else None


def _admissible(form: LabelLiftForm, u: FloatArray, kappa: FloatArray | None,
                eta: FloatArray | None) -> tuple[FloatArray, FloatArray, FloatArray]:
    kappa = np.zeros(len(form.balance)) if kappa is None else np.maximum(np.asarray(kappa, float), 0.0)
    eta = np.zeros(len(form.decision)) if eta is None else np.maximum(np.asarray(eta, float), 0.0)
    return project_duals(form.losses, np.asarray(u, dtype=float)), kappa, eta


def _holding(form: LabelLiftForm, u: FloatArray, kappa: FloatArray) -> FloatArray:
    """Return multipliers η of which one holds the free bias, as good as any at u; zero where there is no such bound.

    τ|uᵀz| ≤ ½ητ²h² + (uᵀz)²/2ηh² for every η > 0: what labels pay is convex in 1/η, and the bound has one peak.
    """
    eta, h = np.zeros(len(form.decision)), form.decision_rows[1]
    held = [j for j, bound in enumerate(form.decision) if h[j] != 0 and 0 < bound.upper < np.inf]
    if not held:
        return eta
    j = min(held, key=lambda place: form.decision[place].upper / abs(h[place]))
    limit = form.decision[j].upper
    size = float(np.linalg.norm(form.contract(form.losses.spread(u)))) / (abs(h[j]) * limit)
    if not size > 0:
        return eta

    def price(log_eta: float) -> float:
        eta[j] = size * np.exp(log_eta)
        H = _whitened(form, u, eta)
        d = None if H is None else ascend_cut(form, H, kappa, HOLDING)[0]
        return np.inf if d is None else float(d.sum()) + eta[j] * limit**2

    with np.errstate(invalid="ignore"):  # no parabola goes through what is infinite
        found = scipy.optimize.minimize_scalar(price, bounds=(-12.0, 3.0), method="bounded", options={"xatol": 0.05})
    eta[j] = size * np.exp(found.x)
    return eta


def _worthless(form: LabelLiftForm, u: FloatArray, kappa: FloatArray, eta: FloatArray) -> LabelLiftCertificate:
    return LabelLiftCertificate(-np.inf, form, u, np.zeros(form.count), kappa, eta)


def _best_repair(form: LabelLiftForm, u: FloatArray, eta: FloatArray, H: Rows,
                 starts: list[tuple[FloatArray, FloatArray]]) -> LabelLiftCertificate:
    repaired = (
        LabelLiftCertificate(_dual_value(form, u, fixed_d, fixed_kappa, eta), form, u, fixed_d, fixed_kappa, eta)
        for start_d, start_kappa in starts
        for fixed_d, fixed_kappa in _repairs(form, H, start_d, start_kappa))
    return max(while_time(repaired), key=lambda certificate: certificate.bound)


def _dual_value(form: LabelLiftForm, u: FloatArray, d: FloatArray, kappa: FloatArray, eta: FloatArray) -> float:
    radii = np.array([b.radius**2 for b in form.balance])
    limits = np.array([b.upper**2 for b in form.decision])
    return -form.losses.conjugate_value(u) - 0.5 * float(d.sum() + kappa @ radii + eta @ limits)


def _whitened(form: LabelLiftForm, u: FloatArray, eta: FloatArray) -> Rows | None:
    """Return H P^{-1/2} (N, r[+1]), or None when P is singular on the range of H."""
    H = form.component_rows(u)
    active = np.flatnonzero(eta > 0)
    if not form.free_bias and not len(active):
        return _shortened(H)
    if _is_wide(H):  # P would be as wide as the features
        return None
    r = form.features.rank
    P = np.eye(H.shape[1])
    if form.free_bias:
        P[r, r] = 0.0
    G, h = form.decision_rows
    for l in active:
        sigma = np.append(G[l], h[l]) if form.free_bias else G[l]
        P += eta[l] * np.outer(sigma, sigma)
    try:
        L = np.linalg.cholesky(P)
    except np.linalg.LinAlgError:
        return None
    if np.min(np.diag(L)) < 1e-9 * np.max(np.diag(L)):
        return None
    if isinstance(H, ComponentRows):
        return replace(H, features=AffineFeatures(H.features, np.linalg.inv(L).T))
    return np.linalg.solve(L, H.T).T


def _shortened(H: Rows) -> Rows:
    """Return rows with the same inner products, no longer than there are few of them: only HHᵀ counts."""
    count, width = H.shape
    if width <= count or count > DENSE_ORDER:
        return H
    columns = H.T @ np.eye(count) if isinstance(H, ComponentRows) else H.T
    return np.asarray(np.linalg.qr(columns, mode="r")).T


def _omegas(form: LabelLiftForm) -> FloatArray:
    if not form.balance:
        return np.zeros((form.count, 0))
    return np.stack([bound.vector for bound in form.balance], axis=1)


def _is_feasible(form: LabelLiftForm, H: Rows, d: FloatArray, kappa: FloatArray) -> bool:
    """Return whether Diag(d) + Σκω̃ω̃ᵀ − HHᵀ ⪰ 0 up to the rounding of the eigenvalue solve."""
    if form.count <= DENSE_ORDER and isinstance(H, np.ndarray):
        lowest, scale = _lowest_eigenvalue(form, H, d, kappa)
        return lowest >= -1e-11 * scale
    return _excess(form, H, d, kappa) <= 1.0 + 1e-9


def _lowest_eigenvalue(form: LabelLiftForm, H: FloatArray, d: FloatArray, kappa: FloatArray) -> tuple[float, float]:
    """Return λ_min of the dual slack matrix and a scale for its rounding error."""
    omegas = _omegas(form)
    check(EIGEN_WORK * len(d) ** 3 / 2)
    slack = np.diag(d) + (omegas * kappa) @ omegas.T - H @ H.T
    values = eigenvalues(slack)
    parts = np.abs(d).max(initial=0.0), (kappa @ omegas.T**2).max(initial=0.0), np.abs(values).max()
    return float(values[0]), max(float(max(parts)), 1e-300)  # HHᵀ is no larger than their sum


def _excess(form: LabelLiftForm, H: Rows, d: FloatArray, kappa: FloatArray) -> float:
    """Return λ_max of Hᵀ(Diag d + Σκω̃ω̃ᵀ)⁻¹H for d ≥ 0, an r × r problem; feasible means ≤ 1."""
    solve, possible = _inverse(form, H, d, kappa)
    if not possible:
        return float("inf")
    if _is_wide(H):
        return greatest_eigenvalue(lambda v: H.T @ solve(H @ v), H.shape[1])[1]
    inner = solve.between(H)
    return float(eigenvalues(inner)[-1]) if len(inner) else 0.0


def _inverse(form: LabelLiftForm, H: Rows, d: FloatArray, kappa: FloatArray
             ) -> tuple[Inverse, bool]:
    """Return the map Z ↦ (Diag d + Σκω̃ω̃ᵀ)⁻¹Z, and False where d vanishes and H does not.

    Where d vanishes together with the features of a component, its rows drop out, and so may κ only
    when ω̃ vanishes there too.
    """
    positive = d > 0
    with np.errstate(over="ignore"):  # what overflows here is found infeasible
        inverse = np.divide(1.0, d, out=np.zeros_like(d), where=positive)
    used = kappa > 0
    omegas = _omegas(form)[:, used]
    if np.any(omegas[~positive]):
        omegas, used = omegas[:, :0], np.zeros_like(used)
    tilted = omegas * inverse[:, None]
    middle = np.diag(1.0 / kappa[used]) + omegas.T @ tilted

    outside = H.norms[~positive] if isinstance(H, ComponentRows) else H[~positive]
    return Inverse(inverse, tilted, middle), not np.any(outside)


def _is_wide(H: Rows) -> TypeGuard[ComponentRows]:
    return isinstance(H, ComponentRows) and H.is_wide


def _squares(H: Rows) -> FloatArray:
    return H.norms if isinstance(H, ComponentRows) else np.einsum("cr,cr->c", H, H)


def _floor(H: Rows, kappa: FloatArray) -> FloatArray:
    """Return least admissible multipliers d: positive where a component has features.

    Beside κ the inverse in `_excess` is a difference of terms as large as ‖h_C‖²/d_C, of which ten digits are kept.
    """
    norms = _squares(H)
    mean_norm = float(norms.sum()) / max(1, len(norms))
    if kappa.any():
        return np.where(norms > 0, 1e-5 * (norms + mean_norm), 1e-14 * mean_norm)
    return np.where(norms > 0, 1e-9 * mean_norm, 0.0)


def _repairs(form: LabelLiftForm, H: Rows, d: FloatArray,
             kappa: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield feasible (d, κ): shifted by an eigenvalue where that is affordable, and shifted a little and scaled."""
    if form.count <= DENSE_ORDER and isinstance(H, np.ndarray):
        lowest, scale = _lowest_eigenvalue(form, H, d, kappa)
        yield d + max(0.0, -lowest) + SAFETY * 1e-2 * scale, kappa
    mean = float(np.abs(d).mean()) if len(d) else 0.0
    for chosen in [kappa] if not kappa.any() else [kappa, np.zeros_like(kappa)]:
        floor = _floor(H, chosen)
        for shift in WIDE_SHIFTS if _is_wide(H) else SHIFTS:
            base = np.maximum(d + shift * mean, floor)
            factor = _excess(form, H, base, chosen)
            if np.isfinite(factor):
                factor *= 1.0 + (WIDE_SAFETY if _is_wide(H) else SAFETY)
                yield _lifted(form, H, base * factor, chosen * factor)


def _lifted(form: LabelLiftForm, H: Rows, d: FloatArray, kappa: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (d, κ) shifted once more where κ is so much larger than d that `_excess` loses its digits."""
    if form.count > DENSE_ORDER or not isinstance(H, np.ndarray):
        return d, kappa
    lowest, scale = _lowest_eigenvalue(form, H, d, kappa)
    return (d if lowest >= 0.0 else d - lowest + SAFETY * 1e-2 * scale), kappa


def ascend_cut(form: LabelLiftForm, H: Rows, kappa: FloatArray, iterations: int = 300,
               V: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Return multipliers (d, κ) of max ⟨HHᵀ, M⟩ over M ⪰ 0, diag M = 1 and the lifted label bounds.

    M = VVᵀ with unit rows is improved by the generalised power step V ← rows of (HHᵀ − Σκω̃ω̃ᵀ + shift)V,
    while κ follows the violated bounds; d_C = v_C·((HHᵀ − Σκω̃ω̃ᵀ)V)_C at the end. A start is mixed with a little
    noise, which leaves saddles.
    """
    N = form.count
    p = int(min(N, max(2, np.ceil(np.sqrt(2 * N)) + 1, 3), 24))
    start, V = V, np.random.default_rng(0).standard_normal((N, p))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    if start is not None:
        heaviest = start @ np.linalg.eigh(start.T @ start)[1][:, -p:]
        V[:, :heaviest.shape[1]] += heaviest / NOISE
        V /= np.linalg.norm(V, axis=1, keepdims=True)
    omegas = _omegas(form)
    radii = np.array([b.radius for b in form.balance])
    kappa = kappa.copy()
    scale, tol = float(_squares(H).sum()), WIDE_TOL if _is_wide(H) else 1e-9
    if scale == 0:
        return np.zeros(N), kappa * 0
    power = np.einsum("cj,cj->j", omegas, omegas)
    step = 0.3 * scale / max(1, N) / np.maximum(power, 1e-300)
    previous = -np.inf
    for iteration in while_time(range(iterations)):
        shift = float(kappa @ power)
        check()
        product = H @ (H.T @ V) - omegas @ (kappa[:, None] * (omegas.T @ V)) + shift * V
        norms = np.linalg.norm(product, axis=1, keepdims=True)
        V = np.where(norms > 0, product / np.maximum(norms, 1e-300), V)
        excess, before = np.sum((omegas.T @ V) ** 2, axis=1) - radii**2, kappa
        kappa = np.maximum(0.0, kappa + step * excess / np.maximum(power, 1e-300) * 4.0)
        value = float(norms.sum())
        moved = abs(value - previous) + float(abs(kappa - before) @ power + abs(kappa @ excess))
        if moved <= tol * abs(value) and iteration >= LEAST_STEPS:
            break
        previous = value
    product = H @ (H.T @ V) - omegas @ (kappa[:, None] * (omegas.T @ V))
    return np.einsum("cp,cp->c", V, product), kappa


__all__ = [
    "LabelLiftCertificate", "ascend_cut", "escape_direction", "lifted_point", "repair_dual_point", "repair_label_lift",
    "scale_dual_point"]
