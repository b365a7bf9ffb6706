"""Repaired dual points of the lifts: the inequality and the value of their proofs, written out densely."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from margindsl.calculus import PLQ
from margindsl.contract import Budget
from margindsl.features import build
from margindsl.program import label_certificate
from margindsl.program.bounds import DecisionBound, QuadraticBound
from margindsl.program.cuts import MatrixCuts
from margindsl.program.forms import LabelLiftForm, WeightLiftForm
from margindsl.program.label_certificate import (
    escape_direction,
    repair_dual_point,
    repair_label_lift,
    scale_dual_point,
)
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl.program.moment import MomentLiftForm
from margindsl.program.moment_certificate import (
    curvature_ceiling,
    escape_moment,
    hull_minimum,
    repair_moment_lift,
)
from margindsl.program.weight_certificate import repair_weight_lift
from margindsl_solvers.clarabel import Clarabel

N = 9
HINGE = PLQ.affine(-1, 1).positive_part()
SHORT, LONG = (PLQ.affine(side, -side - 0.2).positive_part().square() for side in (-1, 1))
LOSSES = {"hinge": HINGE, "odm": (SHORT + 0.5 * LONG) * 1.5625, "least squares": PLQ.affine(-1, 1).square()}
CASES = {"plain": {}, "links": {"count": 5}, "balance": {"beta": 1.0}, "links, balance": {"count": 6, "beta": 1.0},
         "decision": {"ell": 0.3}, "bias": {"ell": 0.3, "bias": True},
         "all": {"count": 6, "beta": 1.0, "ell": 0.3, "bias": True}}


def rows(loss, weight, points=N, scalars=0):
    """Return a term with one row a point, minus one times each scalar in its argument."""
    return LossTerm(loss, np.arange(points), np.full(points, weight / points), np.ones(points), np.zeros(points),
                    -np.ones((points, scalars)))


def lifted(kind=LabelLiftForm, loss="hinge", count=N, beta=None, ell=None, bias=False, unit=1.0, **fields):
    """Return a lift of nine points, the objective times the square of `unit`; without label bounds one is at zero."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 3)) + [1.0, 0.0, 0.5]
    X[0] *= beta is not None
    losses = Losses(N, (rows(LOSSES[loss], 10.0 * unit**2),))
    decision = () if ell is None else (DecisionBound(np.linspace(0.5, 1.5, N), -ell, ell),)
    labels = {}
    if kind is not WeightLiftForm:
        component, sign = np.arange(N) % count, np.where(np.arange(N) % 4 < 3, 1, -1)
        omega = np.bincount(component, weights=sign * 1.0, minlength=count)
        labels = {"component": component, "sign": sign, "count": count,
                  "balance": () if beta is None else (QuadraticBound(omega, beta),)}
    return kind(build(X / unit, centre=False), losses, decision=decision, free_bias=bias, **labels, **fields)


@cache
def solved(kind, loss, case, **fields):
    form = lifted(kind, loss, **CASES[case], **fields)
    return form, Clarabel().solve(form, Budget(tol=1e-9))


def features(form):
    F = np.asarray(form.features.toarray())
    return np.column_stack([F, np.ones(N)]) if form.free_bias else F


def weight_matrix(form, q, eta):
    """Return diag(I, 0) + Σqφφᵀ + Σησσᵀ."""
    F = features(form)
    P = F.T @ (q[:, None] * F) + np.diag(np.arange(F.shape[1]) < form.features.rank).astype(float)
    for bound, multiplier in zip(form.decision, eta):
        P += multiplier * np.outer(F.T @ bound.weights, F.T @ bound.weights)
    return P


def label_matrix(form, u, d, kappa, eta, q=None, tau=()):
    """Return Diag(d) + Σκω̃ω̃ᵀ − ΣτT − HP⁻¹Hᵀ."""
    q = np.zeros(N) if q is None else q
    A = np.zeros((form.count, N))
    A[form.component, np.arange(N)] = form.sign * form.losses.spread(u)
    H = A @ features(form)
    S = np.diag(d) - H @ np.linalg.solve(weight_matrix(form, q, eta), H.T)
    for bound, multiplier in zip(form.balance, kappa):
        S += multiplier * np.outer(bound.vector, bound.vector)
    for cut, multiplier in enumerate(tau):
        for i, j, product in zip(form.cuts.rows[cut], form.cuts.columns[cut], form.cuts.products[cut]):
            S[i, j] -= 0.5 * multiplier * product
            S[j, i] -= 0.5 * multiplier * product
    return S


def paid(form, d, kappa, eta, tau=()):
    return 0.5 * (np.sum(d) + sum(k * b.radius**2 for k, b in zip(kappa, form.balance))
                  + sum(e * b.upper**2 for e, b in zip(eta, form.decision)) + np.sum(tau))


def assert_proved(c):
    """The matrix inequality holds and the bound is the dual value, and verification says so."""
    form = c.form
    assert c.verify()
    S = label_matrix(form, c.u, c.d, c.kappa, c.eta)
    assert np.linalg.eigvalsh(S)[0] >= -1e-10 * np.abs(S).max()
    assert min([0.0, *c.kappa, *c.eta]) >= 0
    parts = form.losses.conjugate_value(c.u), paid(form, c.d, c.kappa, c.eta)
    assert c.bound == pytest.approx(-sum(parts), abs=1e-9 * np.abs(parts).sum())


def assert_refused(c):
    """A higher bound is refused, and so is each broken condition, however low the bound."""
    assert not replace(c, bound=c.bound + 1e-6 * abs(c.bound)).verify()
    low = replace(c, bound=-1e6 * abs(c.bound) - 1e9)
    assert low.verify()
    assert not replace(low, d=c.d - 1e-6 * np.abs(c.d).max()).verify()
    assert not replace(low, u=-c.u - 1.0).verify() or c.form.losses.conjugate_value(-c.u - 1.0) < np.inf
    if len(c.kappa):
        assert not replace(low, kappa=c.kappa - 2 * c.kappa.max() - 1e-9, d=c.d + 1e9).verify()
    if len(c.eta):
        assert not replace(low, eta=-c.eta, u=0 * c.u, d=c.d + 1e9).verify()


@pytest.fixture(params=["eigenvalues of labels", "eigenvalues of weights"])
def way(request, monkeypatch):
    if request.param == "eigenvalues of weights":
        monkeypatch.setattr(label_certificate, "DENSE_ORDER", 0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("case", CASES)
def test_the_best_dual_points_of_a_label_lift_lose_nothing_by_repair(way, case, loss):
    form, raw = solved(LabelLiftForm, loss, case)
    point = raw["u"], raw["d"], raw["kappa"], raw["eta"]
    for certificate in (repair_dual_point(form, *point), repair_label_lift(form, *point)):
        assert_proved(certificate)
        assert_refused(certificate)
        loss = 0.05 if form.balance and label_certificate.DENSE_ORDER == 0 else 1e-5  # no d below zero there
        assert raw.objective * (1 - loss) <= certificate.bound <= raw.objective * (1 + 1e-6)
    found = repair_label_lift(form, raw["u"], None, raw["kappa"], raw["eta"])  # d by an ascent
    assert_proved(found)
    assert raw.objective * (1 - (0.1 if form.balance else 1e-3)) <= found.bound <= raw.objective * (1 + 1e-6)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_any_dual_point_of_a_label_lift_is_repaired(way, case, seed):
    rng = np.random.default_rng(seed)
    form, raw = solved(LabelLiftForm, "least squares", case)
    size = 10.0 ** rng.uniform(-2, 1)
    u, d = size * rng.normal(size=N), size * rng.normal(size=form.count)
    kappa, eta = size * rng.normal(size=len(form.balance)), size * rng.uniform(size=len(form.decision))
    for certificate in (repair_dual_point(form, u, d, kappa, eta), repair_label_lift(form, u, d, kappa, eta)):
        assert_proved(certificate)
        assert certificate.bound <= raw.objective * (1 + 1e-6)


@pytest.mark.parametrize("case", ["bias", "all"])
def test_a_free_bias_is_held_by_a_multiplier_that_is_nearly_the_best(case):
    form, raw = solved(LabelLiftForm, "odm", case)
    found = repair_label_lift(form, raw["u"], None, raw["kappa"])
    assert_proved(found)
    assert raw.objective * (1 - 1e-2) <= found.bound <= raw.objective * (1 + 1e-6)
    assert repair_label_lift(replace(form, decision=()), raw["u"]).bound == -np.inf


@pytest.mark.parametrize("unit", [2.0**-10, 2.0**10])
@pytest.mark.parametrize("case", CASES)
def test_repairs_have_the_units_of_the_objective(way, case, unit):
    form, raw = solved(LabelLiftForm, "odm", case)
    other = lifted(LabelLiftForm, "odm", **CASES[case], unit=unit)
    kappa = 0.5 * raw["kappa"]
    plain, scaled = (repair_label_lift(f, s * 1.2 * raw["u"], s * 0.9 * raw["d"], s * kappa, s * raw["eta"])
                     for f, s in ((form, 1.0), (other, unit**2)))
    assert_proved(scaled)
    assert scaled.bound == pytest.approx(unit**2 * plain.bound, rel=1e-6)


@pytest.mark.parametrize("case", ["plain", "links, balance", "decision", "bias"])
@pytest.mark.parametrize("factor", [0.6, 1.0, 1.3])
def test_a_scaled_dual_point_is_the_best_multiple(case, factor):
    form, raw = solved(LabelLiftForm, "least squares", case)
    given = repair_dual_point(form, factor * raw["u"], factor**2 * raw["d"], factor**2 * raw["kappa"], raw["eta"])
    best = scale_dual_point(given)
    assert_proved(best)
    values = [-form.losses.conjugate_value(t * given.u) - paid(form, t * t * given.d, t * t * given.kappa, given.eta)
              for t in np.linspace(0.01, 1.99, 199)]
    assert best.bound >= max(*values, given.bound) - 1e-6 * abs(best.bound)
    scalars = SharedScalars(np.array([-0.3]), np.array([False]))
    coupled = replace(form, losses=Losses(N, (rows(PLQ.affine(1, 0).square(), 10.0, scalars=1),), scalars))
    fixed = repair_dual_point(coupled, given.u, given.d, given.kappa, given.eta)
    assert scale_dual_point(fixed) is fixed and fixed.verify()
    assert not replace(fixed, bound=-1e9, u=0.5 * fixed.u).verify()  # Σ b u = q


@pytest.mark.parametrize("case", CASES)
def test_escape_directions_lower_the_matrix_that_should_be_positive(case):
    form, raw = solved(LabelLiftForm, "odm", case)
    point = raw["u"], 0.5 * raw["d"], 0.5 * raw["kappa"], raw["eta"]
    z = escape_direction(form, *point)
    assert z @ label_matrix(form, *point) @ z < -1e-3 * np.abs(raw["d"]).max() * (z @ z)
    kept = repair_dual_point(form, *point)
    assert escape_direction(form, kept.u, kept.d, kept.kappa, kept.eta) is None
    assert escape_direction(form, kept.u, kept.d * (1 - 1e-4), kept.kappa * (1 - 1e-4), kept.eta) is not None
