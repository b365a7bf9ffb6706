"""The certificate of the weight-lifted relaxation: curvatures a with Σ aφφᵀ ⪯ I (mathematics, 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.calculus.accuracy import eigenvalues, rounding
from margindsl.host.clock import EIGEN_WORK, check
from margindsl.program.certificates import SAFETY, WIDE_SAFETY, Certificate, lifted_arrays
from margindsl.program.component_rows import greatest_eigenvalue
from margindsl.program.forms import WIDE, WeightLiftForm
from margindsl.program.losses import Losses
from margindsl.typing import BoolArray, FloatArray

REACH, HALVINGS = 200.0, 60  # powers of two between which a minimum lies, and how often the interval is halved


@dataclass(frozen=True, eq=False)
class WeightLiftCertificate(Certificate):
    """Prove a bound by curvatures a (n,) and multipliers η (L,) of the decision bounds.

    For every w and y, ½‖w‖² + Σ cρ(yf) ≥ Σ_i min_{s ≥ 0}[Σ_{r at i} c_rρ_r(s) + ½ a_i s²] − ½ Σ η_lℓ_l², because
    Σ a_iφ_iφ_iᵀ − Σ η_lσ_lσ_lᵀ ⪯ diag(I, 0).
    """

    form: WeightLiftForm
    a: FloatArray  # (n,)
    eta: FloatArray  # (L,)

    def data(self) -> Certificate:
        zero = np.zeros(len(self.a))
        return Certificate(self.bound, arrays=lifted_arrays(zero, self.a, zero, eta=self.eta),
                           words="repaired dual point of the weight-lifted semidefinite relaxation")


def repair_weight_lift(form: WeightLiftForm, W: FloatArray, a: FloatArray | None = None,
                       eta: FloatArray | None = None, gram: FloatArray | None = None) -> WeightLiftCertificate:
    """Return a certificate from an approximate solution W: a = −cρ'(s)/s, shrunk until Σ aφφᵀ ⪯ I.

    Shapes: `W` (r [+1], p), `eta` (L,).

    Parameters
    ----------
    a : (n,) float array, optional
        Curvatures a solver returned.
    gram : (r [+1], r [+1]) float array, optional
        Σ aφφᵀ where it is known already, for curvatures no less than the lowest.
    """
    if a is None:
        a = curvatures(form, form.lengths(W))
    a = np.maximum(a, lowest_curvatures(form))
    wide = gram is None and is_wide(form)  # η is of no use there, see `excess`
    eta = np.zeros(len(form.decision)) if eta is None or wide else np.maximum(eta, 0.0)
    factor = excess(form, a, eta, gram)
    if not np.isfinite(factor):
        return WeightLiftCertificate(-np.inf, form, a, eta)
    safety = WIDE_SAFETY if wide else SAFETY
    shrunk = a / (max(factor, 1e-300) * (1.0 + safety)) if factor > 1.0 - safety else a
    if form.free_bias or len(form.decision):
        eta = eta / (max(factor, 1.0) * (1.0 + SAFETY))
    return WeightLiftCertificate(dual_value(form, shrunk, eta), form, shrunk, eta)


def curvatures(form: WeightLiftForm, norms: FloatArray, losses: Losses | None = None) -> FloatArray:
    """Return a_i = −Σ_{r at i} c_rρ_r'(s_i)/s_i, capped where s_i is tiny.

    Parameters
    ----------
    norms : (n,) float array
        The lengths s.
    losses : Losses, optional
        A smooth stand-in whose derivatives are subgradients of the form's losses.
    """
    losses = form.losses if losses is None else losses
    s = np.maximum(norms, 1e-9 * (float(norms.max(initial=0.0)) or 1.0))  # where none has a length, any will do
    slope = losses.spread(losses.derivative(losses.arguments(s)))
    return -slope / s


def lowest_curvatures(form: WeightLiftForm) -> FloatArray:
    """Return (n,) the least a_i at which min_{s ≥ 0}[Σ cρ(s) + ½ a s²] is finite: minus the curvature far out."""
    losses = form.losses
    far = losses.spread(losses.curvature(np.full(losses.rows, 1e12)))
    return -far * (1.0 - 1e-9)


def weighted_gram(form: WeightLiftForm, a: FloatArray) -> FloatArray:
    """Return Σ a_i φ_iφ_iᵀ with the constant feature of a free bias."""
    gram = form.features.gram(a)
    if not form.free_bias:
        return gram
    edge = form.features.adjoint(a)
    return np.block([[gram, edge[:, None]], [edge[None, :], np.array([[a.sum()]])]])


def is_wide(form: WeightLiftForm) -> bool:
    """Return whether Σ aφφᵀ is not to be formed: many columns, more than points, of features that are not dense."""
    features = form.features
    return not form.free_bias and features.rank > max(WIDE, form.n) and not features.is_dense


def excess(form: WeightLiftForm, a: FloatArray, eta: FloatArray, gram: FloatArray | None = None) -> float:
    """Return λ with Σ aφφᵀ − Σ ησσᵀ ⪯ λ·(I + …); at most one means feasible, inf that no shrinking helps.

    Of features too wide for that matrix, λ bounds Σ a₊φφᵀ, which is no less.
    """
    if gram is None and is_wide(form):
        positive = np.maximum(a, 0.0)
        return greatest_eigenvalue(lambda v: form.features.adjoint(positive * form.features.apply(v)), form.order)[1]
    check(EIGEN_WORK * form.order**3 / 2)
    S = weighted_gram(form, a) if gram is None else gram
    if form.decision:
        G, h = form.decision_rows
        sigma = np.column_stack([G, h]) if form.free_bias else G
        S = S - (sigma.T * eta) @ sigma
    if not form.free_bias:
        return float(eigenvalues((S + S.T) / 2)[-1])
    # diag(I, 0): the bias block must be negative, then its Schur complement is compared with I.
    corner = -S[-1, -1]
    if corner <= 0:
        return float("inf") if np.any(np.abs(S[-1]) > 0) else float(eigenvalues(S[:-1, :-1])[-1])
    schur = S[:-1, :-1] + np.outer(S[:-1, -1], S[-1, :-1]) / corner
    return float(eigenvalues((schur + schur.T) / 2)[-1])


def dual_value(form: WeightLiftForm, a: FloatArray, eta: FloatArray) -> float:
    """Return Σ_i min_{s ≥ 0}[Σ_r c_rρ_r(s) + ½ a_i s²] − ½ Σ ηℓ²."""
    losses, limits = form.losses, np.array([bound.upper**2 for bound in form.decision])
    count = np.bincount(losses.points, minlength=form.n)
    if np.any(a[count == 0] < 0):
        return float("-inf")
    if np.max(count, initial=0) > 1:
        return _least_sums(losses, a) - 0.5 * float(eta @ limits)
    total = sum(float(np.sum(term.loss.minimum_with_quadratic(term.weights, a[term.points], lower=0.0)))
                for term in losses.terms)
    return total - 0.5 * float(eta @ limits)


def _least_sums(losses: Losses, a: FloatArray) -> float:
    """Return Σ_i min_{s ≥ 0}[Σ_r c_rρ_r(s) + ½ a_i s²] of points with several losses, convex in s², by bisection.

    What one of them loses by a negative a_i may be what another gains, so that no share of a_i does.
    """
    def falls(e: FloatArray) -> BoolArray:
        s = np.exp2(e)
        return np.asarray(losses.spread(losses.derivative(losses.arguments(s))) + a * s < 0)

    low, high = np.full(losses.n, -REACH), np.full(losses.n, REACH)
    if falls(high).any():
        return float("-inf")
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        short = falls(middle)
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    s = np.exp2(high)
    parts = np.append(losses.row_losses(losses.arguments(s)), 0.5 * a * s**2)
    return float(np.sum(parts) - rounding(np.abs(parts).sum(), len(parts)))
