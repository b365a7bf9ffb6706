"""Bounds on sums of labels, of weights up to 10^8 apart, against exact fractions over all labellings."""

import itertools
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import ContradictionError, DeclarationError, InfeasibleError
from margindsl.labelset import presolve
from margindsl.proof.check import LabelSet as CheckedLabels
from margindsl.proof.export import declared


def meet_links(y, must, cannot):
    return all(y[i] == y[j] for i, j in must) and all(y[i] != y[j] for i, j in cannot)


def members(n, must, cannot, bounds):
    """Return the labellings whose sums, of rational weights, lie within the limits exactly."""
    found = set()
    for y in itertools.product([-1, 1], repeat=n):
        sums = [sum(Fraction(a) * label for a, label in zip(w, y)) for w, _, _ in bounds]
        if meet_links(y, must, cannot) and all(low <= s <= high for s, (_, low, high) in zip(sums, bounds)):
            found.add(y)
    return found


def taken(n, must, cannot, bounds):
    """Return the labellings that a presolved set holds, the best of them for some gains among them; None if none."""
    try:
        labels = presolve(n, must=must, cannot=cannot, bounds=bounds)
    except ContradictionError:
        return None
    except InfeasibleError:
        return set()
    found = {tuple(labels.signs(y)) for y in labels.enumerate()}
    gain = np.random.default_rng(0).normal(size=n)
    best = labels.signs(labels.maximise(np.stack([-gain, gain], axis=1)))
    assert tuple(best) in found and np.isclose(gain @ best, max(gain @ np.array(y) for y in found), atol=1e-9)
    return found


def checked(n, must, cannot, bounds):
    """Return the labellings that the checker takes for members of what is declared."""
    y, f = md.Labels(n), md.Hyperplane(np.random.default_rng(0).normal(size=(n, 2)))
    constraints = [*(y[i] == y[j] for i, j in must), *(y[i] != y[j] for i, j in cannot)]
    for w, low, high in bounds:
        constraints += [md.sum(w * y) >= low] if low > -np.inf else []
        constraints += [md.sum(w * y) <= high] if high < np.inf else []
    objective = md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))
    header, arrays = declared(md.Problem(md.Minimize(objective), constraints).lower())
    B = CheckedLabels(SimpleNamespace(**header, **arrays))
    every = np.array([y for y in itertools.product([-1, 1], repeat=n) if meet_links(y, must, cannot)])
    return {tuple(row) for row in every[~B.refuted(B.turned((every[:, B.first] + 1) // 2, B.first))]}


def pairs(rng, n):
    return [tuple(rng.choice(n, 2, replace=False).tolist()) for _ in range(rng.integers(0, 3))]


def limits(rng, total, step):
    """Return limits at or near a sum that is attained."""
    below, above = rng.integers(0, 3, 2) * step
    return [(total, total), (total - below, total + above), (total - below, np.inf), (-np.inf, total + above),
            (total + step / 2, np.inf)][rng.integers(0, 5)]


def agree(must, cannot, bounds, want):
    n = len(bounds[0][0])
    found = taken(n, must, cannot, bounds)
    assert found is None or found == want
    if found:
        assert checked(n, must, cannot, bounds) == want


@pytest.mark.parametrize("seed", range(40))
def test_whole_weights_of_mixed_sizes_are_decided_exactly(seed):
    rng = np.random.default_rng(seed)
    n, bounds = int(rng.integers(2, 8)), []
    must, cannot = pairs(rng, n), pairs(rng, n)
    for _ in range(rng.integers(1, 3)):
        large = np.rint(rng.choice([-1, 1], n) * rng.uniform(0.1, 1, n) * 10.0 ** rng.integers(1, 8))
        w = np.where(rng.random(n) < 0.5, rng.integers(-4, 5, n).astype(float), large)
        if rng.random() < 0.3:
            w = np.rint(rng.uniform(0.1, 1, n) * 1e15) + rng.integers(0, 2, n)
        for i, j in (must + cannot)[:1]:  # weights that links cancel
            w[j] = -w[i] if must else w[i]
        total = float(sum(Fraction(a) * int(y) for a, y in zip(w, rng.choice([-1, 1], n))))
        bounds.append((w, *limits(rng, total, 1.0)))
    agree(must, cannot, bounds, members(n, must, cannot, bounds))


@pytest.mark.parametrize("power", [-500, -60, -1, 60, 500])
@pytest.mark.parametrize("seed", range(4))
def test_powers_of_two_change_no_bound(power, seed):
    rng = np.random.default_rng(seed)
    must, cannot = [(0, 1)], [(2, 3)]
    w = rng.integers(1, 10, 6) * rng.choice([-1, 1], 6) * np.array([1.0, 1.0, 2.0**20, 1.0, 1e6, 1.0])
    w[:2] = 3 * 2.0**20, -3 * 2.0**20
    whole = [(w, *limits(rng, float(w[2:] @ [1, -1, 1, 1]), 1.0)), (np.ones(6), -2.0, 4.0)]
    bounds = [(np.ldexp(w, power), float(np.ldexp(low, power)), float(np.ldexp(high, power))) for w, low, high in whole]
    agree(must, cannot, bounds, members(6, must, cannot, whole))


@pytest.mark.parametrize("power", [-160, -1, 0, 10])
@pytest.mark.parametrize("digits", [1, 2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_decimal_weights_are_what_was_meant(power, digits, seed):
    """Sums differ from limits by rounding; what is meant is whole numbers of the last digit."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(-(10**digits), 10**digits, 6)
    whole[:] = whole[0] if seed == 0 else whole
    low, high = limits(rng, float(whole @ rng.choice([-1, 1], 6)), 1.0)
    for size in (lambda x: x * 10.0 ** (power - digits), lambda x: x / 10.0**digits * 10.0**power):
        agree([(0, 1)], [(2, 3)], [(size(whole), size(low), size(high))],
              members(6, [(0, 1)], [(2, 3)], [(whole.tolist(), low, high)]))


@pytest.mark.parametrize("weights, limit", [
    ([0.1] * 8, 0.8), ([1.1] * 3, 3.3), ([0.1, 0.2, 0.3], 0.6), ([1 / 49] * 49, 1.0)])
def test_all_labels_may_be_equal_where_decimals_say_so(weights, limit):
    ones = np.ones(len(weights))
    for low, high in ((limit, limit), (limit, np.inf), (-limit, limit)):
        assert presolve(len(weights), bounds=[(weights, low, high)]).contains(ones)


@pytest.mark.parametrize("size", [1e7, 2.0**20, 2.0**26, 2.0**26 + 1])
def test_one_more_than_a_large_sum_is_refused(size):
    w = np.append(size, np.ones(7))
    labels = presolve(8, bounds=[(w, size + 5, np.inf)])
    sums = {sum(int(a) * int(sign) for a, sign in zip(w, labels.signs(y))) - int(size) for y in labels.enumerate()}
    assert sums == {5, 7}
    assert all(not labels.contains(y) for y in ([1] * 5 + [0] * 3, [1] + [0] * 7))


def test_a_limit_far_out_of_reach_leaves_the_other_as_it_is():
    labels = presolve(6, bounds=[(None, -1e30, 2.0)])
    assert labels.contains([1, 1, 1, 1, 0, 0]) and not labels.contains([1, 1, 1, 1, 1, 0])


def test_multiples_are_joined_and_neighbours_are_not():
    w = np.array([1e7, 1.0, 1.0, 1.0])
    near = w + [1, 0, 0, 0]
    assert len(presolve(4, bounds=[(w, -1e7, 1e7), (-3 * w, -3e7, 3e7)]).bounds) == 1
    assert len(presolve(4, bounds=[(np.sqrt(w), -4e3, 3162), (-np.sqrt(9 * w), -9485, 9e3)]).bounds) == 1
    both = [(w, -np.inf, 1e7 + 1), (near, 1e7 + 1, np.inf)]
    labels = presolve(4, bounds=both)
    assert {tuple(labels.signs(y)) for y in labels.enumerate()} == members(4, [], [], both)


@pytest.mark.parametrize(("weights", "words"), [
    ([1e9, 1.0, 1.0], r"weights of bound 0 go from 1 to 1e\+09 in size; expected within 1e\+08 of one another. Leave"),
    ([3e15 + 1, 4e15, 4e15], "are whole numbers that sum to 1.1e.16 times their divisor; sums beyond 2.53"),
    ([2.0**53 + 2, 2.0**54, 3], "go from 3 to 1.8"),
])
def test_weights_whose_sums_are_not_exact_are_refused(weights, words):
    with pytest.raises(DeclarationError, match=words):
        presolve(3, bounds=[(weights, 0, np.inf)])


def test_large_weights_that_are_multiples_of_a_large_number_have_exact_sums():
    labels = presolve(5, bounds=[(np.array([1, 2, 3, 4, 5]) * 1e20, 1e20, 1e20)])
    assert {tuple(labels.signs(y)) for y in labels.enumerate()} == members(5, [], [], [(np.arange(1, 6), 1, 1)])


X = np.random.default_rng(5).normal(size=(8, 2))
HEAVY = [(np.append(1e8, np.ones(7)), (), 1e8 + 5, np.inf), (np.append([1e7, 1e7], np.ones(6)), ((0, 1),), 4.0, np.inf)]
SCALED = [(np.full(8, size), (), -size, size) for size in (1e-160, 1e160)]


def declare(w, cannot, low, high):
    y, f = md.Labels(8), md.Hyperplane(X)
    held = [md.sum(w * y) >= low] if high == np.inf else [abs(md.sum(w * y)) <= high]
    objective = md.sq_norm(f) / 2 + 5 * md.mean(md.hinge(y * f))
    return md.Problem(md.Minimize(objective), [*(y[i] != y[j] for i, j in cannot), *held])


@pytest.mark.parametrize("w, cannot, low, high", HEAVY + SCALED)
def test_exact_answers_are_best_among_exact_members_and_proved(w, cannot, low, high):
    problem = declare(w, cannot, low, high)
    solution = problem.solve("exact")
    inside = members(8, [], cannot, [(w, low, high)])
    assert tuple(solution.labels) in inside and solution.status == "optimal" and solution.verify()
    plain = min(inside, key=lambda y: value(np.array(y)))
    assert solution.value == pytest.approx(value(np.array(plain)), rel=1e-6)


VALUES: dict = {}


def value(labels):
    """Return the value of labels, the same of all problems here."""
    key = tuple(labels)
    if key not in VALUES and tuple(-labels) not in VALUES:
        y, f = md.Labels(8), md.Hyperplane(X)
        known = [y[i] == int(label) for i, label in enumerate(labels)]
        objective = md.sq_norm(f) / 2 + 5 * md.mean(md.hinge(y * f))
        VALUES[key] = md.Problem(md.Minimize(objective), known).solve("exact").value
    return VALUES.get(key, VALUES.get(tuple(-labels)))


@pytest.mark.parametrize("method, size", [("sdp", 1e-160), ("minimax", 1e160)])
def test_relaxations_have_no_scale(method, size):
    bounds = [declare(np.full(8, one), (), -one, one).solve(method).bound for one in (1.0, size)]
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-4)
