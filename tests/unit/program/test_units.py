"""The units of a program and its passes: objectives, bounds and answers go there and come back."""

from dataclasses import replace

import numpy as np
import pytest

import margindsl as md
from margindsl.calculus import PLQ, absolute, pos, square
from margindsl.errors import DeclarationError, InfeasibleError
from margindsl.program.bounds import DecisionBound
from margindsl.program.losses import Losses, LossTerm
from margindsl.program.passes import NORMAL, PASSES, Answer, BoxedBias, Presolved, Units
from margindsl.program.scaling import (
    EXTREME,
    Scaling,
    can_be_tilted,
    feature_scale,
    flattened,
    has_no_unit,
    power_of_two,
    reach,
    tilted,
    total_slope,
)

RNG = np.random.default_rng(3)
N = 6
X = RNG.normal(size=(N, 2)) + np.where(np.arange(N) < 3, -1.0, 1.0)[:, None]
SIGNS = np.array([-1, -1, -1, 1, 1, 1])


def program(c=1.0, weight=3.0, loss=md.hinge, bias=False, held=lambda y, f: [], **options):
    y, f = md.Labels(N), md.Hyperplane(c * X, bias=bias, **options)
    return md.Problem(md.Minimize(2.5 * md.sq_norm(f) / 2 + weight * md.mean(loss(y * f)) + 0.7), held(y, f)).program()


CASES = {
    "large points": program(1e6), "small points": program(1e-6), "weak losses": program(1.0, 1e-8),
    "weak odm": program(1.0, 1e-8, lambda m: md.odm(m, theta=0.2, nu=0.4)), "weak square": program(
        1e-3, 1e-5, lambda m: (1 - m) ** 2), "no unit": program(1.0, 1e9, lambda m: md.pos(-m)),
    "weak, bounded": program(1.0, 1e-8, held=lambda y, f: [md.sum(f * np.arange(N)) <= 1e-9]),
    "weak, not at zero": program(1.0, 1e-8, held=lambda y, f: [md.sum(f * np.arange(N)) >= 1e-9]),
    "weak, logistic": program(1.0, 1e-8, lambda m: md.logistic(-m)), "weak, bias": program(1.0, 1e-8, bias=True),
}


@pytest.mark.parametrize("name", CASES)
def test_objectives_and_bounds_in_other_units(name):
    given = CASES[name]
    scaling = Scaling.of(given)
    found, t = scaling.apply(given), scaling.decision
    assert not scaling.is_identity and Scaling.of(given, tilt=False).decision == 1.0
    assert feature_scale(found.features) == 1.0 or given.free_bias or t == 1.0
    assert total_slope(found.losses) > 2.0**-12
    norm = given.losses.slope_at_zero() * np.sqrt(given.features.row_norms().max())  # of the best w: no more than this
    for w in RNG.normal(size=(6, given.features.rank)):
        w *= norm * RNG.uniform() / np.linalg.norm(w)
        there = found.objective(SIGNS, w / scaling.weight)
        assert there == pytest.approx(given.objective(SIGNS, w), rel=1e-12)
        change = given.objective(SIGNS, w) - given.objective(SIGNS, 0 * w)
        assert there - found.objective(SIGNS, 0 * w) == pytest.approx(change, rel=1e-6, abs=1e-12 * abs(there))
        far = 1e12 * w
        assert found.objective(SIGNS, far / scaling.weight) <= given.objective(SIGNS, far) * (1 + 1e-12)
        decision = given.features.apply(w[:, None])[:, 0]
        assert t * found.features.apply(w[:, None] / scaling.weight)[:, 0] == pytest.approx(decision, rel=1e-12)
    for a, b in zip(given.decision, found.decision):
        assert (a.lower, a.upper) == (t * b.lower, t * b.upper) and np.array_equal(a.weights, b.weights)


def test_which_programs_are_tilted():
    tilts = {name: Scaling.of(given).decision != 1.0 for name, given in CASES.items()}
    assert {name for name, tilt in tilts.items() if tilt} == {
        "small points", "weak losses", "weak odm", "weak square", "no unit", "weak, bounded"}
    assert not can_be_tilted(CASES["weak, not at zero"]) and not can_be_tilted(CASES["weak, bias"])
    for low, high, expected in ((0.0, 1.0, True), (-1.0, 0.0, True), (0.5, 1.0, False), (-1.0, -0.5, False)):
        bound = DecisionBound(np.ones(N), low, high)
        assert can_be_tilted(replace(CASES["weak losses"], decision=(bound,))) == expected
    walled = program(1.0, 1.0)
    term = replace(walled.losses.terms[0], loss=PLQ([], [[0.0, -1.0, 0.0]], 1.0, 2.0))
    assert not can_be_tilted(replace(walled, losses=Losses(N, (term,)))), "infinite at margin zero"
    assert Scaling.of(program(1.0, 0.0)).is_identity and Scaling.of(program(4.0, 1e-2)).is_identity
    assert Scaling.of(program(1.0, 1e-2, lambda m: md.pos(-m))).is_identity


@pytest.mark.parametrize("weight", [1e-125, 1e125])
def test_ratios_whose_powers_overflow_are_refused(weight):
    with pytest.raises(DeclarationError, match="overflow or vanish"):
        Scaling.of(program(1.0, weight))
    assert Scaling.of(program(1.0, weight**0.9)).decision > 0 and EXTREME > 1


@pytest.mark.parametrize("name, loss, expected", [
    ("hinge", pos().precompose(-1, 1), False), ("at zero", pos().precompose(-1), True), ("absolute", absolute(), True),
    ("line", PLQ.affine(-1.0), True), ("raised line", PLQ.affine(-1.0, 1.0), False), ("square", square(), False),
    ("half line", PLQ([], [[0.0, -1.0, 0.0]], 0.0, np.inf), True),
    ("interval", PLQ([], [[0.0, -1.0, 0.0]], 0.0, 1.0), False),
    ("wall", PLQ([], [[0.0, -1.0, 0.0]], -1.0, np.inf), False)])
def test_losses_without_a_unit_grow_with_their_argument(name, loss, expected):
    def losses(shift):
        return Losses(3, (LossTerm(loss, np.arange(3), np.ones(3), np.ones(3), np.full(3, shift), np.zeros((3, 0))),))

    assert has_no_unit(losses(0.0)) == expected and not has_no_unit(losses(0.5))
    v = np.linspace(-3.0, 3.0, 61)
    with np.errstate(invalid="ignore"):
        assert all(np.allclose(loss(t * v), t * np.asarray(loss(v))) for t in (0.5, 2.0, 7.0)) == expected


BOWL = PLQ([-3.0, -1.0, 2.0, 5.0], [[0.5, -4.0, -4.5], [0.0, -7.0, -9.0], [1.0, 0.0, -3.0], [0.0, 4.0, -7.0],
                                    [1.0, 4.0, -32.0]])


@pytest.mark.parametrize("within", [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0])
@pytest.mark.parametrize("turn", [1.0, -1.0])
def test_flattened_losses_are_the_losses_within_and_their_tangents_beyond(within, turn):
    loss = BOWL.precompose(turn)
    found = flattened(loss, within)
    near, far = np.linspace(-within, within, 201), within + np.geomspace(1e-3, 1e4, 200)
    assert np.allclose(found(near), loss(near), rtol=1e-13)
    for x in (far, -far):
        assert np.all(found(x) <= np.asarray(loss(x)) * (1 + 1e-13))
        kinks = np.any(np.sign(x[0]) * loss.breakpoints >= within)
        slope = loss.derivative(np.copysign(within, x[0]) * (1 - 1e-9)) if kinks else loss.derivative(x)
        assert np.allclose(found.derivative(x), slope, rtol=1e-6), "the line goes on only where kinks are left out"


def test_a_slight_bend_is_left_out_and_no_other():
    for bend, kept in ((1e-11, False), (1e-8, True), (-0.0, False)):
        loss = PLQ([], [[bend, -2.0, 1.0]])
        found = flattened(loss, 10.0)
        assert (found.coefficients[0, 0] > 0) == kept and found(0.0) == 1.0 and found.derivative(0.0) == -2.0
        assert np.all(found(np.linspace(-10, 10, 21)) <= np.asarray(loss(np.linspace(-10, 10, 21))))


@pytest.mark.parametrize("loss", [md.hinge, lambda m: (1 - m) ** 2, lambda m: md.odm(m, theta=0.2, nu=0.4)])
def test_hyperplanes_no_worse_than_none_are_within_reach(loss):
    given = program(1.0, 0.3, loss)
    far = reach(given.features, given.losses.slope_at_zero())
    none, largest = given.objective(SIGNS, np.zeros(2)), 0.0
    for w in RNG.normal(size=(400, 2)) * np.geomspace(1e-3, 10.0, 400)[:, None]:
        if given.objective(SIGNS, w) <= none:
            largest = max(largest, np.abs(given.features.apply(w)).max())
    assert 0 < 2 * largest <= far
    slope, longest = given.losses.slope_at_zero(), given.features.row_norms().max()
    assert far == pytest.approx(2 * (2 * slope * longest), rel=1e-12)


def test_scalars_whose_costs_set_the_slope():
    def slope(cost, factor):
        y, f, rho = md.Labels(N), md.Hyperplane(X), md.Scalar(nonneg=True, name="rho")
        losses = md.mean(md.pos(factor * rho - y * f))
        return total_slope(md.Problem(md.Minimize(md.sq_norm(f) / 2 + 1e-4 * losses - cost * rho)).program().losses)

    assert slope(0.0, 1.0) == pytest.approx(1e-4) and slope(3.0, 1.0) == pytest.approx(3.0)
    assert slope(3.0, 2.0) == pytest.approx(1.5) and slope(1e-6, 1.0) == pytest.approx(1e-4)


@pytest.mark.parametrize("x, expected", [(1.0, 1.0), (1000.0, 1024.0), (0.3, 0.25), (1.3, 1.0), (1e-9, 2.0**-30)])
def test_powers_of_two(x, expected):
    assert power_of_two(x) == expected


def test_the_median_row_that_is_not_zero_sets_the_scale():
    def scale(lengths):
        f = md.Hyperplane(np.array(lengths)[:, None], centre=False)
        y = md.Labels(len(lengths))
        return feature_scale(md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f)))).program().features)

    assert scale([0, 0, 0, 0, 1024.0]) == scale([1e-9, 1024.0, 1e12]) == 1024.0
    assert scale([15.0] * 3) == scale([1 / 15.0] * 3) == scale([0.0] * 3) == 1.0
    assert scale([17.0] * 3) == 16.0 and scale([1 / 17.0] * 3) == 1 / 16.0


@pytest.mark.parametrize("c", [1.0, 1e4])
@pytest.mark.parametrize("low, high", [(-1.0, 2.0), (0.0, 0.0), (-np.inf, 2.0), (0.5, np.inf)])
def test_answers_come_back_through_boxed_bias_and_units(c, low, high):
    given = replace(program(c, 1e3, bias=True, centre=False), normal=None)
    given = replace(given, free_bias=True, decision=(
        DecisionBound(c * np.arange(1.0, N + 1), low, high),))
    found = Presolved.of(given, bool, (*NORMAL, *PASSES))
    kinds = [type(step) for step in found.passes]
    boxed = int(np.isfinite(high - low))
    assert kinds == [BoxedBias] * boxed + [Units] * (c != 1.0)
    assert found.program.free_bias == (not low == high == 0.0)
    w, t = RNG.normal(size=2), 0.0 if low == high else 0.3
    there = found.program.features.apply(w) + t
    answer = found.undo(Answer(w, t, np.zeros(0), there))
    assert np.allclose(given.features.apply(answer.w) + answer.bias, answer.decision, rtol=1e-9, atol=1e-9)
    assert given.objective(SIGNS, answer.w, answer.bias) == pytest.approx(
        found.program.objective(SIGNS, w, t), rel=1e-9)
    plain = found.plain()
    assert [type(step) for step in plain.passes] == [BoxedBias] * boxed and len(plain.undos) == boxed
    assert [type(step) for step in found.optional] == [Units] * (c != 1.0) and plain.declared is given


def test_bounds_on_the_bias_that_contradict_one_another_are_refused():
    given = replace(program(1.0, bias=True), decision=(
        DecisionBound(np.ones(N), 1.0, np.inf), DecisionBound(2 * np.ones(N), -np.inf, 1.0)))
    with pytest.raises(InfeasibleError, match="contradict"):
        BoxedBias.of(given, bool)
    touching = replace(given, decision=(given.decision[0], DecisionBound(2 * np.ones(N), -np.inf, 2.0)))
    assert BoxedBias.of(touching, bool).limits.low == pytest.approx(1.0 / N)
    assert BoxedBias.of(replace(given, free_bias=False), bool) is None
    assert BoxedBias.of(replace(given, decision=()), bool) is None


def test_losses_are_tilted_only_for_relaxations_that_take_them():
    weak = CASES["weak losses"]
    assert Units.of(weak, bool).scaling.decision != 1.0 and Units.of(weak, bool).is_extreme

    def value(losses):
        return losses.rescaled(1 / losses.slope_at_zero()).value(np.linspace(-1.0, 2.0, N))

    same = Units.of(weak, lambda p: np.isclose(value(p.losses), value(weak.losses), rtol=1e-9))
    assert same.scaling.decision == 1.0 and Units.of(weak, lambda p: False) is None
    assert Units.of(program(), bool) is None
    for s, far in ((1.0, False), (1024.0, False), (2048.0, True), (1 / 1024.0, False), (1 / 2048.0, True)):
        assert Units(Scaling(s)).is_extreme == far
    assert Units(Scaling(1.0, 0.5)).is_extreme


@pytest.mark.parametrize("t", [2.0**-9, 0.5, 16.0])
@pytest.mark.parametrize("loss", [BOWL, BOWL.precompose(-2.0, 0.3), PLQ([1.0], [[0.0, -1, 1], [0, 0, 0]], -3.0, 4.0)])
def test_tilted_losses_in_units_of_their_values(loss, t):
    given = Losses(3, (LossTerm(loss, np.arange(3), np.ones(3), np.array([1.0, 2.0, -1.0]), np.array([0, 0.5, -0.3]),
                                np.zeros((3, 0))),))
    found, v = tilted(given, t), np.linspace(-1.0, 1.0, 41)
    for x in v:
        expected = (given.value(np.full(3, x)) - given.value(np.zeros(3))) / t
        assert found.value(np.full(3, x / t)) == pytest.approx(expected, rel=1e-11, abs=1e-11 / t)


@pytest.mark.parametrize("clusters", [2, 3])
@pytest.mark.parametrize("light", [1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e3])
def test_a_light_loss_beside_a_heavy_one_is_no_unit(clusters, light):
    """A sum is measured in its heavier part, whichever is written first, and fitted as well as the heavier alone."""
    X = np.array([[-1.83], [-2.48], [-0.52], [-0.71], [-0.85]])
    w = np.array([0.9, 1.8, 1.2, 1.2, 1.2])
    labels = np.array([0, 0, 1, 2, 2]) if clusters == 3 else np.array([1, 1, -1, 1, -1])
    y, f = md.Labels(5, clusters=clusters), md.Hyperplane(X)
    g = md.margin(y, f)
    objective = (md.sq_norm(f) / 2 + 17.67 * md.sum(w * (light * md.pos(1 - g) + md.pos(1 - g) ** 2))
                 + 9.72 * md.mean(md.pos(0.84 - g)))
    problem = md.Problem(md.Minimize(objective), [y[[i]] == labels[[i]] for i in range(5)])
    newton, clarabel = (problem.solve("supervised", name) for name in ("newton", "clarabel"))
    assert newton.status == "optimal"
    assert newton.value == pytest.approx(clarabel.value, rel=1e-6)


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1.0, 1e3, 1e8, 1e9, 1e10])
@pytest.mark.parametrize("parts", [(1.0,), (0.3, 0.7)])
@pytest.mark.parametrize("relaxation", ["supervised", "alternating", "cccp", "exact"])
def test_mean_and_variance_of_points_of_any_size(size, parts, relaxation):
    """min over w and s of w²/2 + 10(−ηs + λ mean (yφw − s)²) has a closed form."""
    X = np.random.default_rng(0).normal(size=(10, 1)) * size
    labels = np.array([1, -1, 1, 1, -1, 1, -1, 1, -1, -1])
    y, f = md.Labels(10), md.Hyperplane(X)
    total = sum(part * 10 * md.mean_variance(y * f, 0.7, 0.003) for part in parts)
    solution = md.Problem(md.Minimize(md.sq_norm(f) / 2 + total), [y == labels]).solve(relaxation, random_state=0)
    margins = labels * (X - X.mean(axis=0))[:, 0]
    w = 7.0 * margins.mean() / (1 + 0.06 * margins.var())
    assert solution.value == pytest.approx(-3.5 * margins.mean() * w - 10 * 0.7**2 / 0.012, rel=1e-6)
