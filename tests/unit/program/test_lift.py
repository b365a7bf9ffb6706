"""The one lift: what a dual point pays and proves, written out densely, and repaired from anything."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from margindsl.calculus import PLQ, Logistic
from margindsl.contract import Budget
from margindsl.errors import DeclarationError
from margindsl.features import build
from margindsl.labelset.codes import simplex_codes
from margindsl.program import lift_certificate
from margindsl.program.bounds import DecisionBound, QuadraticBound
from margindsl.program.lift import Cuts, LiftForm, LiftPoint
from margindsl.program.lift_certificate import greatest_excess, repair_lift
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl.program.split import merged_rows
from margindsl.relaxations.lift import violated_cliques
from margindsl_solvers.conic import Clarabel

N = 8
HINGE = PLQ.affine(-1, 1).positive_part()
SHORT, LONG = (PLQ.affine(side, -side - 0.2).positive_part().square() for side in (-1, 1))
LOSSES = {"hinge": HINGE, "squared hinge": HINGE.square(), "odm": (SHORT + 0.5 * LONG) * 1.5625,
          "least squares": PLQ.affine(-1, 1).square(), "logistic": Logistic().precompose(1.0)}
CUTS = Cuts.odd(np.array([[0, 1, 2], [1, 3, 4], [0, 2, 4]]), np.array([[1, 1, -1], [1, 1, 1], [1, 1, 1]]))
CASES = {
    "weights": {"absorbed": range(N)}, "known": {"absorbed": range(3, N), "count": 1}, "labels": {},
    "links": {"count": 5}, "balance": {"beta": 1.0}, "cuts": {"cuts": CUTS}, "decision": {"ell": 0.3},
    "bias": {"ell": 0.3, "bias": True},
    "bias of weights": {"absorbed": range(N), "ell": 0.3, "bias": True},
    "all": {"count": 5, "beta": 1.0, "ell": 0.3, "bias": True, "cuts": CUTS, "absorbed": [7]}}


def rows(loss, weight=10.0, shifts=0.0, scalars=0):
    """Return a term with one row a point, minus one times each scalar in its argument."""
    return LossTerm(loss, np.arange(N), np.full(N, weight / N), np.ones(N), np.full(N, shifts), -np.ones((N, scalars)))


def lifted(case, loss="odm", unit=1.0):
    """Return a lift of eight points, the objective times the square of `unit`."""
    options = CASES[case]
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 3)) + [1.0, 0.0, 0.5]
    absorbed = np.isin(np.arange(N), list(options.get("absorbed", ())))
    count = options.get("count", 0 if absorbed.all() else N)
    component, sign = np.arange(N) % max(count, 1), np.where(np.arange(N) % 4 < 3, 1, -1)
    omega = np.bincount(component[~absorbed], weights=1.0 * sign[~absorbed], minlength=count)
    balance = (QuadraticBound(omega, options["beta"]),) if "beta" in options else ()
    ell = options.get("ell")
    decision = () if ell is None else (DecisionBound(np.linspace(0.5, 1.5, N), -ell, ell),)
    return LiftForm(build(X / unit, centre=False), Losses(N, (rows(LOSSES[loss], 10.0 * unit**2),)),
                    np.where(absorbed, -1, component), sign, count, balance, decision=decision,
                    free_bias=options.get("bias", False), cuts=options.get("cuts", Cuts.none()))


@cache
def solved(case, loss="odm"):
    form = lifted(case, loss)
    return form, Clarabel().solve(form, Budget(tol=1e-9))


def matrix(form, arrays):
    """Return S of the arrays of a certificate, every point a component."""
    F = np.asarray(form.features.toarray())
    F = np.column_stack([F, np.ones(N)]) if form.free_bias else F
    u, q, d, component, sign = (arrays[name] for name in ("u", "q", "d", "component", "sign"))
    H = np.zeros((len(d), F.shape[1]))
    np.add.at(H, component, (sign * u)[:, None] * F)
    P = np.diag(np.arange(F.shape[1]) < form.features.rank).astype(float) - F.T @ (q[:, None] * F)
    for bound, eta in zip(form.decision, arrays["eta"]):
        P += eta * np.outer(F.T @ bound.weights, F.T @ bound.weights)
    D = np.diag(d) + (arrays["vectors"] * arrays["kappa"]) @ arrays["vectors"].T
    for places, signs, theta in zip(arrays["cut_positions"], arrays["cut_signs"], arrays["theta"]):
        b = np.zeros(len(d))
        np.add.at(b, places, signs)
        D -= theta * np.outer(b, b)
    return np.block([[D, -H], [-H.T, P]])


def least_value(loss, weight, u, q):
    """Return the least cρ(t) + ut + ½qt², from a grid for what is not piecewise quadratic."""
    if not isinstance(loss, PLQ):
        t = np.linspace(-60, 60, 240_001)
        return float(np.min(weight * loss(t) + u * t + 0.5 * q * t * t))
    values = []
    for low, high, square, slope, constant in loss.pieces:
        bend, slope = weight * square + 0.5 * q, weight * slope + u
        ends = [t for t in (low, high, -slope / (2 * bend) if bend > 0 else low) if np.isfinite(t) and low <= t <= high]
        values += [bend * t**2 + slope * t + weight * constant for t in ends]
    return min(values)


def assert_proved(form, certificate):
    """The matrix inequality holds and the bound is the dual value, both written out."""
    a = certificate.arrays
    if not np.isfinite(certificate.bound):
        return
    S = matrix(form, a)
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(S)), 1e-12 * np.abs(S).max()))
    assert np.linalg.eigvalsh(scale[:, None] * S * scale)[0] >= -1e-8
    assert min([0.0, *a["kappa"], *a["eta"], *a["theta"]]) >= 0
    term = form.losses.terms[0]
    least = sum(least_value(term.loss, c, u, q) for c, u, q in zip(term.weights, a["u"], a["q"]))
    price = 0.5 * (a["d"].sum() - a["theta"].sum() + sum(k * b.radius**2 for k, b in zip(a["kappa"], form.balance))
                   + sum(e * b.upper**2 for e, b in zip(a["eta"], form.decision)))
    assert certificate.bound == pytest.approx(least - price, abs=1e-6 * (abs(least) + abs(price)))


@pytest.fixture(params=["eigenvalues of labels", "eigenvalues of weights"])
def way(request, monkeypatch):
    if request.param == "eigenvalues of weights":
        monkeypatch.setattr(lift_certificate, "DENSE_ORDER", 0)


@pytest.mark.parametrize("case, loss", [
    (case, loss) for i, case in enumerate(CASES) for j, loss in enumerate(LOSSES) if (i + j) % 2])
def test_the_best_dual_points_lose_little_by_repair(way, case, loss):
    form, raw = solved(case, loss)
    certificate = repair_lift(form, raw)
    assert_proved(form, certificate)
    # from eigenvalues of weights d is no less than zero
    rough = lift_certificate.DENSE_ORDER == 0 and form.count > 0 and raw["d"].min() < -1e-6
    assert raw.objective * (1 - (5e-3 if rough else 2e-5)) <= certificate.bound <= raw.objective * (1 + 1e-6)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_anything_is_repaired_to_a_valid_bound(way, case, seed):
    rng = np.random.default_rng(seed)
    form, raw = solved(case, "least squares" if seed % 2 else "odm")
    size = 10.0 ** rng.uniform(-2, 1)
    answer = {"u": size * rng.normal(size=N), "q": size * rng.normal(size=N), "kappa": size * rng.normal(size=1),
              "eta": size * rng.uniform(size=len(form.decision)), "gamma": size * rng.normal(size=form.cuts.count)}
    answer["kappa"] = answer["kappa"][: len(form.balance)]
    for more in ({}, {"d": size * rng.normal(size=form.count)}):
        certificate = repair_lift(form, {**answer, **more})
        assert_proved(form, certificate)
        assert certificate.bound <= raw.objective * (1 + 1e-6)


@pytest.mark.parametrize("case", ["labels", "links", "balance", "known", "weights"])
@pytest.mark.parametrize("seed, loss", [(i % 2, loss) for i, loss in enumerate(LOSSES)])
def test_no_labelling_and_no_weights_are_below(case, loss, seed):
    """Weak duality itself: signs of components that keep the bound, labels of other points free, any weights."""
    rng = np.random.default_rng(seed)
    form = lifted(case, loss)
    found = repair_lift(form, {"u": rng.uniform(0, 1, N), "q": rng.normal(size=N) * 0.05, "kappa": rng.uniform(
        size=len(form.balance))}).bound
    W = rng.normal(size=(200, 3)) * 10.0 ** rng.uniform(-2, 0.5, (200, 1))
    f = W @ form.features.toarray().T
    for z in product((-1, 1), repeat=form.count):
        if any(abs(b.vector @ z) > b.radius for b in form.balance):
            continue
        labels = form.sign * np.append(z, 1)[form.component]
        ways = [np.where(form.absorbed, side, labels) * f for side in (-1, 1)]
        losses = np.min([form.losses.terms[0].loss(m) for m in ways], axis=0) @ form.losses.weights
        assert np.all(found <= 0.5 * np.sum(W**2, axis=1) + losses + 1e-9)


@pytest.mark.parametrize("case, unit", [(case, 2.0 ** (20 * (i % 2) - 10)) for i, case in enumerate(CASES)])
def test_repairs_have_the_units_of_the_objective(way, case, unit):
    form, raw = solved(case)
    scale = {"u": 1.2, "d": 0.9, "kappa": 0.5, "eta": 1.0, "gamma": 1.0, "q": 1.0}
    plain, scaled = (repair_lift(f, {name: s * by * raw[name] for name, by in scale.items() if name in raw.variables})
                     for f, s in ((form, 1.0), (lifted(case, unit=unit), unit**2)))
    assert scaled.bound == pytest.approx(unit**2 * plain.bound, rel=1e-6)


@pytest.mark.parametrize("case", ["labels", "links", "balance", "decision", "known", "weights"])
def test_the_greatest_excess_says_what_breaks_the_inequality(case):
    form, raw = solved(case)
    point = LiftPoint(*(raw.get(name, np.zeros(0)) for name in ("u", "q", "d", "kappa", "gamma", "eta")))
    tight = replace(point, d=point.d * 1.01 + 1e-3, q=np.where(point.q < 0, 0.99, 1.01) * point.q)
    loose = replace(point, d=0.5 * point.d, q=2.0 * point.q, kappa=0.5 * point.kappa)
    assert greatest_excess(form, tight)[0][0] <= 1.0 + 1e-9
    values, W = greatest_excess(form, loose, 2)
    assert values[0] > 1.0 and values[0] >= values[1]
    F, H = form.features.toarray(), lift_certificate.component_rows(form, point.u)
    inverse = np.linalg.pinv(np.diag(loose.d) + lift_certificate.label_part(form, replace(loose, gamma=np.zeros(0))))
    sigma = form.sigma.T * loose.eta @ form.sigma
    K = (H.T @ inverse @ H if form.count else 0.0) - 2 * F.T @ (loose.q[:, None] * F) - sigma
    assert np.allclose(K @ W, W * values, rtol=1e-6)


def test_a_free_bias_is_held_by_a_multiplier_that_is_nearly_the_best():
    form, raw = solved("bias", "logistic")
    found = repair_lift(form, {"u": raw["u"]})
    assert_proved(form, found)
    assert raw.objective * (1 - 0.1) <= found.bound <= raw.objective * (1 + 1e-6)
    assert repair_lift(replace(form, decision=()), {"u": raw["u"]}).bound == -np.inf


def test_scalars_that_are_not_paid_for_prove_nothing():
    scalars = SharedScalars(np.array([-0.3]), np.array([False]))
    form = replace(lifted("labels"), losses=Losses(N, (rows(PLQ.affine(1, 0).square(), scalars=1),), scalars))
    point = LiftPoint(np.ones(N), np.zeros(N), np.full(N, 1e3), np.zeros(0), np.zeros(0), np.zeros(0))
    assert form.value(point) == -np.inf and np.isfinite(repair_lift(form, {"u": np.ones(N)}).bound)
    with pytest.raises(DeclarationError, match="share scalars, or are by label, have a component"):
        replace(form, component=np.full(N, -1))


KINKED = PLQ([-1.0, 0.5], [[0.0, -1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 2.0, 0.75]])


@pytest.mark.parametrize("shift", [0.0, -0.4])
@pytest.mark.parametrize("loss", [*LOSSES.values(), KINKED, PLQ.affine(-1, 1).square() + PLQ.indicator(-2.0, 3.0)])
def test_what_rows_pay_is_the_least_on_a_grid_and_infinite_where_a_branch_falls_for_ever(loss, shift):
    rng = np.random.default_rng(4)
    form = replace(lifted("labels"), losses=Losses(N, (rows(loss, 5.0, shift),)))
    weights, bounded = form.losses.weights[:, None], isinstance(loss, PLQ) and np.all(np.isfinite(loss.domain))
    knots = [x - shift for piece in loss.pieces for x in piece[:2]] if isinstance(loss, PLQ) else []
    t = np.unique(np.append(np.linspace(-60, 60, 96_001), [x for x in knots if np.isfinite(x)]))
    if bounded:
        t = t[(t + shift >= -2.0) & (t + shift <= 3.0)]
    for bend in (-3.0, -0.5, 0.0, 0.5, 2.0) if isinstance(loss, PLQ) else (0.0,):
        u, q = rng.normal(size=N) * form.losses.weights, np.full(N, bend * form.losses.weights[0])
        u = np.abs(u) * 0.5 if not isinstance(loss, PLQ) else u
        values = weights * loss(t + shift) + u[:, None] * t - q[:, None] * t**2
        least, place = values.min(axis=1), values.argmin(axis=1)
        found = form.least(u, q)
        inside = bounded | ((place > 0) & (place < len(t) - 1))
        assert np.all(found <= least + 1e-12)
        assert np.allclose(found[inside], least[inside], rtol=1e-5, atol=1e-5)
        assert np.all(found[~inside] == -np.inf)
        assert not np.any(inside & (q > form.ceiling * (1 + 1e-12))) or not form.squared.all()


def test_squares_of_a_loss_without_pieces_are_taken_where_labels_are_minimised_out():
    form = lifted("weights", "logistic")
    a = np.linspace(0.01, 2.0, N)
    t = np.linspace(-30, 30, 60_001)
    values = np.min(form.losses.weights[:, None] * Logistic()(t) + 0.5 * a[:, None] * t**2, axis=1)
    assert np.allclose(form.least(np.zeros(N), -0.5 * a), values, atol=1e-6)
    assert np.all(form.least(np.ones(N), -0.5 * a) == -np.inf) and not np.any(lifted("labels", "logistic").squared)


def test_rows_of_a_point_become_one():
    rng = np.random.default_rng(0)
    twice = LossTerm(HINGE, np.array([1, 1, 2]), np.array([0.5, 1.0, 2.0]), np.array([1.0, -2.0, 3.0]),
                     np.array([0.0, 0.3, -1.0]), np.zeros((3, 0)))
    losses = Losses(N, (rows(LOSSES["odm"]), twice, rows(Logistic())))
    margins = rng.normal(size=N)
    for absorbed in (np.zeros(N, dtype=bool), np.arange(N) % 2 == 0):
        merged = merged_rows(losses, absorbed)
        assert merged.value(margins) == pytest.approx(losses.value(margins))
        assert np.all(merged.slopes == 1) and not np.any(merged.shifts)
        counts = np.bincount(merged.points, minlength=N)
        assert np.all(counts[absorbed] == 1) and np.all(counts[~absorbed] >= 2)  # logistic sums have no conjugate
    plain = Losses(N, (rows(HINGE), twice))
    assert np.all(np.bincount(merged_rows(plain, np.zeros(N, dtype=bool)).points) == 1)


@pytest.mark.parametrize("clusters", [2, 3, 4, 5])
def test_cuts_hold_for_all_labellings_and_are_tight(clusters):
    corners = simplex_codes(clusters)
    corners = corners / np.linalg.norm(corners[0])
    signs = np.array([[1, 1, -1], [1, -1, 1], [-1, 1, 1], *([[1, 1, 1]] if clusters == 2 else [])])
    cuts = Cuts.odd(np.tile([0, 1, 2], (len(signs), 1)), signs)
    cuts = cuts.joined(Cuts.codes(clusters, np.array([[0, 1]])))
    values = np.array([cuts.values(corners[list(three)]) for three in product(range(clusters), repeat=3)])
    assert np.allclose(values.min(axis=0), cuts.least)


@pytest.mark.parametrize("clusters", [3, 4])
def test_of_more_codes_than_clusters_two_are_alike(clusters):
    corners = simplex_codes(clusters + 1)  # of one cluster more
    cuts = violated_cliques(corners / np.linalg.norm(corners[0]), clusters, 9)
    assert np.all(cuts.values(corners) < 1e-12) and cuts.positions.tolist() == [[*range(clusters + 1)]]
    own = simplex_codes(clusters)
    values = [cuts.values(own[list(labels)])[0] for labels in product(range(clusters), repeat=clusters + 1)]
    assert min(values) == pytest.approx(cuts.least[0])
    assert violated_cliques(own[np.arange(7) % clusters], clusters, 9).count == 0


def test_cuts_are_joined_once_each_and_name_components():
    first, same = (Cuts.odd(np.array([places]), np.array([signs])) for places, signs in (
        ([0, 1, 2], [1, 1, -1]), ([2, 1, 0], [1, -1, -1])))
    pair, apart = Cuts.codes(3, np.array([[0, 1]])), Cuts.codes(3, np.array([[1, 0]]), equal=True)
    five = Cuts.odd(np.arange(5)[None], np.ones((1, 5), dtype=int))
    assert first.joined(same).count == 1 and first.joined(five).count == 2
    assert pair.joined(apart).equal.tolist() == [True] and pair.joined(first).positions.shape == (2, 3)
    V = np.random.default_rng(0).normal(size=(5, 2))
    both = first.joined(five)
    assert np.allclose(both.values(V), np.sum((both.matrix(5) @ V) ** 2, axis=1))
    for wrong in ([[0, 0, 1]], [[0, 1]]):
        with pytest.raises(DeclarationError, match="odd number of different components"):
            Cuts.odd(np.array(wrong), np.ones_like(wrong))
    with pytest.raises(DeclarationError, match="two different components"):
        Cuts.codes(3, np.array([[1, 1]]))
    with pytest.raises(DeclarationError, match="names others"):
        replace(lifted("labels"), cuts=Cuts.odd(np.array([[0, 1, 99]]), np.array([[1, 1, 1]])))


def test_solvers_without_semidefinite_cones_refuse():
    from margindsl_solvers.conic import ECOS

    form = lifted("labels")
    assert "the lift needs a semidefinite cone" in str(ECOS().accepts(form))
    assert "above the limit 5" in str(Clarabel(max_psd_order=5).accepts(form))
