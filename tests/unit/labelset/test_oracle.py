"""The linear oracle beyond the sizes brute force reaches."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from margindsl.labelset import presolve
from margindsl.labelset.knapsack import best_signs
from margindsl.labelset.programme import solve_signs


@pytest.mark.parametrize("seed", range(6))
def test_knapsack_equals_integer_programme(seed):
    rng = np.random.default_rng(seed)
    w, gain = rng.integers(1, 9, 150), rng.normal(size=150) + 0.7
    gain = w.astype(float) if seed == 0 else gain
    best = 2 * presolve(150, bounds=[(w, -3, 4)]).maximise(np.stack([-gain, gain], axis=1)) - 1
    limits = np.array([-3.0]), np.array([4.0]), np.array([1e-9])
    reference = solve_signs(gain, w[None, :].astype(float), *limits)
    assert -3 <= w @ best <= 4
    assert gain @ best == pytest.approx(gain @ reference, abs=1e-8)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(12))
def test_weights_and_gains_of_zero_are_items_like_others(seed):
    rng = np.random.default_rng(seed)
    gain, weight = rng.choice([0.0, 0.5, -1.0, 2.0], 7), rng.choice([0.0, 1.0, 3.0], 7)
    every = np.array(list(product([-1, 1], repeat=7)))
    sums = every @ weight
    lower, upper = np.sort(rng.choice(np.unique(sums), 2))
    best = best_signs(gain, weight, float(lower), float(upper))
    assert lower <= weight @ best <= upper
    assert gain @ best == pytest.approx((every @ gain)[(sums >= lower) & (sums <= upper)].max(), abs=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_equal_weights_beside_limits_that_no_sum_attains(seed):
    rng = np.random.default_rng(seed)
    m, weight = int(rng.integers(1, 10)), float(rng.choice([1.0, 0.3, 1e9, 1e-7]))
    gain = np.round(rng.normal(size=m) + rng.choice([-0.5, 0.5]), int(rng.integers(0, 3)))
    lower = rng.uniform(-m - 1, m - 1) * weight
    upper = lower + rng.uniform(2, 4) * weight  # so wide that some sum lies within
    every = np.array(list(product([-1, 1], repeat=m)))
    sums = weight * every.sum(axis=1)
    best = best_signs(gain, np.full(m, weight), lower, upper, 1e-9 * weight)
    assert lower <= weight * best.sum() <= upper
    assert gain @ best == pytest.approx((every @ gain)[(sums >= lower) & (sums <= upper)].max(), abs=1e-12)


def test_equal_weights_take_no_longer_where_the_limit_is_not_attained():
    gain = np.random.default_rng(0).normal(size=100_000) + 0.5
    odd, even = (best_signs(gain, np.ones(100_000), -u, u) for u in (1001.0, 1000.0))
    assert np.array_equal(odd, even)


def test_large_balanced_set_meets_the_lagrangian_bound():
    rng = np.random.default_rng(0)
    gain = rng.normal(size=100_000) + 0.3
    labels = presolve(100_000, bounds=[(None, -100, 100)])
    best, lam = labels.maximise(np.stack([-gain, gain], axis=1)), np.sort(gain)[49_949:49_951].mean()
    assert labels.contains(best)
    assert gain @ labels.signs(best) == pytest.approx(np.abs(gain - lam).sum() + 100 * lam, rel=1e-9)


def test_gains_of_a_component_are_those_of_its_points():
    labels, gain = presolve(5, must=[(0, 4)], cannot=[(1, 4)]), np.arange(10.0).reshape(5, 2)
    for y in labels.enumerate():
        total = labels.by_components(gain)[np.arange(labels.count), labels.contract(y)].sum()
        assert total == gain[np.arange(5), y].sum()


@pytest.mark.parametrize("m", [9, 13])
@pytest.mark.parametrize("seed", range(12))
def test_signs_under_sums_are_the_best_of_all(seed, m):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 3))
    rows = rng.choice([0.4, 1.0, 3e7], (count, m)) if seed % 2 else rng.normal(size=(count, m))
    gain = rng.normal(size=m)
    every = np.array(list(product([-1, 1], repeat=m)))
    sums, weight = every @ rows.T, np.abs(rows).sum(axis=1)
    lower = sums[rng.integers(len(every))] - 0.1 * rng.random() * weight
    upper, slack = lower + 0.2 * rng.random() * weight, 1e-13 * weight
    inside = np.all((sums >= lower - slack) & (sums <= upper + slack), axis=1)
    best = solve_signs(gain, rows, lower, upper, slack)
    assert (best is None) == (not inside.any())
    if best is not None:
        assert gain @ best == pytest.approx(np.max(every[inside] @ gain), rel=1e-9)
        assert np.all((rows @ best >= lower - 2 * slack) & (rows @ best <= upper + 2 * slack))


def test_heavy_weights_beside_light_ones_bind_at_once():
    weights = np.where(np.arange(58) < 7, 3e7, 0.4)
    labels = presolve(58, bounds=[(weights, -np.inf, -3e7)])
    gain = np.random.default_rng(0).normal(size=58)
    best = labels.maximise(np.stack([-gain, gain], axis=1))
    falling, light = -np.sort(-gain[:7]), -np.sort(-gain[7:])

    def heaviest(plus):
        return falling[:plus].sum() - falling[plus:].sum()

    free = max(map(heaviest, range(3))) + np.abs(light).sum()  # three heavy pluses leave the light ones at most half
    bound = heaviest(3) + max(light[:k].sum() - light[k:].sum() for k in range(26))
    assert labels.contains(best) and weights @ labels.signs(best) <= -3e7
    assert gain @ labels.signs(best) == pytest.approx(max(free, bound), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_two_sums_over_many_signs_equal_the_whole_programme(seed):
    rng = np.random.default_rng(seed)
    m = 150
    rows, gain = rng.normal(size=(2, m)), rng.normal(size=m) + 0.5
    lower, upper = np.array([-2.0, -0.5]), np.array([-1.0, 0.5])
    best = solve_signs(gain, rows, lower, upper, np.full(2, 1e-9))
    whole = milp(-2 * gain, integrality=np.ones(m), bounds=Bounds(0, 1), options={"mip_rel_gap": 0.0},
                 constraints=LinearConstraint(2 * rows, lower + rows.sum(axis=1), upper + rows.sum(axis=1)))
    assert np.all((rows @ best >= lower - 1e-9) & (rows @ best <= upper + 1e-9))
    assert gain @ best == pytest.approx(-whole.fun - gain.sum(), rel=1e-7)


def test_two_sums_over_many_signs_that_no_signs_meet():
    rows = np.stack([np.ones(150), np.r_[np.ones(149), 1.5]])
    limits = np.array([10.0, -20.0]), np.array([12.0, -18.0])
    assert solve_signs(np.ones(150), rows, *limits, np.full(2, 1e-9)) is None
