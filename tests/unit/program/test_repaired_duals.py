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
from margindsl_solvers.conic import Clarabel

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


def least_value(loss, weight, a, u, start=-np.inf):
    """Return the least cρ(t) + ut + ½at² over t ≥ start, finite if at all, piece by piece."""
    values = []
    for low, high, square, slope, constant in loss.pieces:
        bend, slope, low = weight * square + 0.5 * a, weight * slope + u, max(low, start)
        ends = [t for t in (low, high, -slope / (2 * bend) if bend > 0 else low) if np.isfinite(t) and low <= t <= high]
        values += [bend * t**2 + slope * t + weight * constant for t in ends]
    return min(values)


def paid(form, d, kappa, eta, tau=()):
    return 0.5 * (np.sum(d) + sum(k * b.radius**2 for k, b in zip(kappa, form.balance))
                  + sum(e * b.upper**2 for e, b in zip(eta, form.decision)) + np.sum(tau))


def assert_proved(c):
    """The matrix inequality holds and the bound is the dual value."""
    form = c.form
    S = label_matrix(form, c.u, c.d, c.kappa, c.eta)
    assert np.linalg.eigvalsh(S)[0] >= -1e-10 * np.abs(S).max()
    assert min([0.0, *c.kappa, *c.eta]) >= 0
    parts = form.losses.conjugate_value(c.u), paid(form, c.d, c.kappa, c.eta)
    assert c.bound == pytest.approx(-sum(parts), abs=1e-9 * np.abs(parts).sum())


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


@pytest.mark.parametrize("size", [1e-2, 1.0, 1e4])
def test_multipliers_of_label_bounds_never_make_a_scaled_point_worse(monkeypatch, size):
    monkeypatch.setattr(label_certificate, "DENSE_ORDER", 0)
    form, raw = solved(LabelLiftForm, "odm", "balance")
    form = replace(form, balance=(*form.balance, QuadraticBound(np.arange(N) - 2.0, 30.0)))
    none, some = (repair_dual_point(form, raw["u"], raw["d"], kappa, raw["eta"]) for kappa in np.diag([0.0, size]))
    assert_proved(some)
    assert some.bound >= none.bound - 1e-12 * abs(none.bound)


@pytest.mark.parametrize("case", ["bias", "all"])
def test_a_free_bias_is_held_by_a_multiplier_that_is_nearly_the_best(case):
    form, raw = solved(LabelLiftForm, "odm", case)
    found = repair_label_lift(form, raw["u"], None, raw["kappa"])
    assert_proved(found)
    assert raw.objective * (1 - 0.1) <= found.bound <= raw.objective * (1 + 1e-6)  # .0 to .011 below
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
    assert scale_dual_point(fixed) is fixed


@pytest.mark.parametrize("case", CASES)
def test_escape_directions_lower_the_matrix_that_should_be_positive(case):
    form, raw = solved(LabelLiftForm, "odm", case)
    point = raw["u"], 0.5 * raw["d"], 0.5 * raw["kappa"], raw["eta"]
    z = escape_direction(form, *point)
    assert z @ label_matrix(form, *point) @ z < -1e-3 * np.abs(raw["d"]).max() * (z @ z)
    kept = repair_dual_point(form, *point)
    assert escape_direction(form, kept.u, kept.d, kept.kappa, kept.eta) is None
    assert escape_direction(form, kept.u, kept.d * (1 - 1e-4), kept.kappa * (1 - 1e-4), kept.eta) is not None


# -- second moments and cuts ----------------------------------------------------------------------------

TRIANGLES = MatrixCuts.triangles(np.array([[0, 1, 2], [1, 3, 4], [0, 2, 4]]),
                                 np.array([[1, 1, -1], [1, 1, 1], [1, 1, 1]]))


@cache
def moments(case, loss, moments=True):
    form = lifted(MomentLiftForm, loss, **CASES[case], cuts=TRIANGLES, moments=moments)
    return form, Clarabel().solve(form, Budget(tol=1e-9))


def assert_moments_proved(c):
    """The matrix inequality holds with P ≻ 0, and the bound is the dual value, piece by piece."""
    form = c.form
    assert np.linalg.eigvalsh(weight_matrix(form, c.q, c.eta))[0] > 0
    S = label_matrix(form, c.u, c.d, c.kappa, c.eta, c.q, c.tau)
    assert np.linalg.eigvalsh(S)[0] >= -1e-9 * np.abs(S).max()
    assert min([0.0, *c.kappa, *c.eta, *c.tau]) >= 0
    least = sum(map(least_value, [form.losses.terms[0].loss] * N, form.losses.weights, -c.q, c.u))
    price = paid(form, c.d, c.kappa, c.eta, c.tau)
    assert c.bound == pytest.approx(least - price, abs=1e-8 * (abs(least) + price))


@pytest.mark.parametrize("loss", ["odm", "least squares"])
@pytest.mark.parametrize("case", ["balance", "links", "decision", "bias", "all"])
def test_the_best_dual_points_of_a_moment_lift_lose_little_by_repair(case, loss):
    form, raw = moments(case, loss)
    point = raw["u"], raw["q"], raw["d"], raw["kappa"], raw["eta"], raw["tau"]
    certificate = repair_moment_lift(form, *point)
    assert_moments_proved(certificate)
    assert raw.objective * (1 - 1e-5) <= certificate.bound <= raw.objective * (1 + 1e-6)
    other = lifted(MomentLiftForm, loss, **CASES[case], cuts=TRIANGLES, unit=2.0**10)
    for q in (raw["q"], np.maximum(raw["q"], 0.0) + 2 * curvature_ceiling(form.losses)):  # some beyond its ceiling
        plain, scaled = (repair_moment_lift(f, *(s * x for x in (point[0], q, *point[2:])))
                         for f, s in ((form, 1.0), (other, 2.0**20)))
        assert_moments_proved(plain)
        assert_moments_proved(scaled)
        assert scaled.bound == pytest.approx(2.0**20 * plain.bound, rel=1e-6)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_any_dual_point_of_a_moment_lift_is_repaired(case, seed):
    rng = np.random.default_rng(seed)
    form, raw = moments(case, "odm")
    size = 10.0 ** rng.uniform(-2, 1)
    u, q, tau = size * rng.normal(size=N), size * rng.normal(size=N), size * rng.normal(size=3)
    kappa, eta = size * rng.normal(size=len(form.balance)), size * rng.uniform(size=len(form.decision))
    for d in (None, size * rng.normal(size=form.count)):
        certificate = repair_moment_lift(form, u, q, d, kappa, eta, tau)
        assert_moments_proved(certificate)
        assert certificate.bound <= raw.objective * (1 + 1e-6)
    plain = repair_moment_lift(replace(form, moments=False), u, q, None, kappa, eta, tau)
    assert_moments_proved(plain)
    assert not np.any(plain.q)
    if form.free_bias:
        assert repair_moment_lift(replace(form, decision=()), u, None).bound == -np.inf


@pytest.mark.parametrize("decision, width", [(4.0, 1.0), (1.0, 0.5), (2.0, 8.0)])
def test_dual_points_in_other_units_prove_the_bound_in_those(decision, width):
    form, raw = moments("all", "odm")
    c = repair_moment_lift(form, *(raw[name] for name in ("u", "q", "d", "kappa", "eta", "tau")))
    value = (decision / width) ** 2
    loss = LOSSES["odm"].precompose(1 / decision)
    decisions = tuple(DecisionBound(b.weights, decision * b.lower, decision * b.upper) for b in form.decision)
    other = replace(form, features=build(width * np.asarray(form.features.toarray()), centre=False),
                    losses=Losses(N, (rows(loss, 10.0 * value),)), decision=decisions)
    point = c.data().rescaled(decision, width).arrays
    moved = replace(c, form=other, bound=value * c.bound, u=point["u"], q=-point["q"],
                    **{name: point[key] for name, key in
                       (("d", "d"), ("kappa", "kappa"), ("eta", "eta"), ("tau", "theta"))})
    assert_moments_proved(moved)


@pytest.mark.parametrize("case", ["plain", "balance", "bias"])
def test_escapes_of_cuts_lower_the_matrix_that_should_be_positive(case):
    form, raw = moments(case, "odm", moments=False)
    tau = np.full(3, 0.01)
    point = raw["u"], 0.5 * raw["d"], raw["kappa"], raw["eta"]
    S = label_matrix(form, *point, tau=tau)
    z = escape_moment(form, *point, tau)
    assert z @ S @ z == pytest.approx(np.linalg.eigvalsh(S)[0] * (z @ z)) and z @ S @ z < 0
    kept = repair_moment_lift(form, raw["u"], None, *point[1:], tau)
    assert escape_moment(form, kept.u, kept.d, kept.kappa, kept.eta, kept.tau) is None
    assert escape_moment(form, kept.u, kept.d - 1e-4 * kept.d.max(), kept.kappa, kept.eta, kept.tau) is not None


KINKED = PLQ([-1.0, 0.5], [[0.0, -1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 2.0, 0.75]])


@pytest.mark.parametrize("loss", [*LOSSES.values(), KINKED, PLQ.affine(-1, 1).square() + PLQ.indicator(-2.0, 3.0)])
def test_hull_minima_are_those_of_a_grid_and_infinite_where_a_branch_falls_for_ever(loss):
    rng = np.random.default_rng(4)
    losses = Losses(N, (rows(loss, 5.0),))
    ceiling, weights = curvature_ceiling(losses), losses.weights[:, None]
    outer = [2 * c * piece[2] for c in losses.weights[:1] for piece in loss.pieces if np.isinf(piece[1] - piece[0])]
    assert np.allclose(ceiling, min(outer)) if outer else np.all(ceiling > 1e6)
    ends = [end for piece in loss.pieces for end in piece[:2] if np.isfinite(end)] or [0.0]
    bounded = not outer
    near = np.linspace(-2.0, 3.0, 4001) if bounded else np.linspace(-60, 60, 96_001)
    t = np.unique(np.append(near, ends))
    for bend in (-3.0, -0.5, 0.0, 0.5, 2.0):
        u, q = rng.normal(size=N) * losses.weights, np.full(N, bend * losses.weights[0])
        values = weights * loss(t) + u[:, None] * t - 0.5 * q[:, None] * t**2
        least, place = values.min(axis=1), values.argmin(axis=1)
        found = hull_minimum(losses, u, q)
        inside = bounded | ((place > 0) & (place < len(t) - 1))
        assert np.all(found <= least + 1e-12)
        assert np.allclose(found[inside], least[inside], rtol=1e-5, atol=1e-5)
        assert np.all(found[~inside] == -np.inf)


# -- lifted weights -------------------------------------------------------------------------------------


def shared(losses, n):
    """Return losses on all points but the last, and once more on the first two."""
    more = LossTerm(LOSSES["hinge"], np.array([0, 1]), np.array([0.7, 0.4]), np.ones(2), np.zeros(2), np.zeros((2, 0)))
    term = losses.terms[0]
    kept = [getattr(term, name)[: n - 1] for name in ("points", "weights", "slopes", "shifts", "coupling")]
    return Losses(n, (LossTerm(term.loss, *kept), more))


def assert_weights_proved(c):
    """Σaφφᵀ − Σησσᵀ ⪯ diag(I, 0) and the bound is no more than the minima point by point allow."""
    form = c.form
    S = weight_matrix(form, -c.a, c.eta)
    assert np.linalg.eigvalsh(S)[0] >= -1e-9 * (1 + np.abs(S).max())
    s, price = np.linspace(0, 30, 30_001), paid_decisions(form, c.eta)
    values = 0.5 * c.a[:, None] * s**2
    for term in form.losses.terms:
        np.add.at(values, term.points, term.weights[:, None] * term.loss(s))
    least = float(values.min(axis=1).sum())
    assert c.bound <= least - price + 1e-9 * (abs(least) + price)
    if len(form.losses.terms) == 1:
        loss, zeros = [form.losses.terms[0].loss] * N, np.zeros(N)
        exact = sum(map(least_value, loss, form.losses.weights, c.a, zeros, zeros))
        assert c.bound == pytest.approx(exact - price, abs=1e-8 * (abs(exact) + price))


def paid_decisions(form, eta):
    return 0.5 * sum(e * b.upper**2 for e, b in zip(eta, form.decision))


@pytest.mark.parametrize("case", ["plain", "decision", "bias"])
@pytest.mark.parametrize("loss", ["hinge", "odm"])
def test_the_best_lifted_weights_lose_little_by_repair(case, loss):
    form, raw = solved(WeightLiftForm, loss, case)
    certificate = repair_weight_lift(form, raw["W"], raw.get("a"), raw.get("eta"))
    assert_weights_proved(certificate)
    assert certificate.bound == pytest.approx(raw.objective, rel=1e-4)  # a root at zero stops the solver early
    found = repair_weight_lift(form, raw["W"], None, raw.get("eta"))  # curvatures of the losses at the lengths
    assert_weights_proved(found)
    assert found.bound >= raw.objective * (0.99 if loss == "odm" else 0.2)


@pytest.mark.parametrize("case", ["plain", "decision", "bias"])
@pytest.mark.parametrize("seed", range(4))
def test_any_curvatures_are_repaired(case, seed):
    rng = np.random.default_rng(seed)
    form, raw = solved(WeightLiftForm, "odm", case)
    size = 10.0 ** rng.uniform(-2, 1)
    W, a = rng.normal(size=(form.order, 2)), size * rng.normal(size=N)
    eta = size * rng.uniform(size=len(form.decision))
    for other in (form, replace(form, losses=shared(form.losses, N))):
        for given in (None, a):
            certificate = repair_weight_lift(other, W, given, eta)
            if np.isfinite(certificate.bound):
                assert_weights_proved(certificate)
                assert other is not form or certificate.bound <= raw.objective * (1 + 1e-6)
            else:
                assert form.free_bias or other is not form
    silent = replace(form, losses=shared(form.losses, N))
    point = repair_weight_lift(silent, W, np.append(np.full(N - 1, 0.01), 0.0), eta + 1.0)
    assert_weights_proved(point)
