"""The k-cluster label set at sizes beyond enumeration: optimality by duality, agreement of its ways to solve."""

import dataclasses
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye, kron, vstack

from margindsl.errors import SolverError
from margindsl.labelset import presolve
from margindsl.labelset.programme import solve_assignment
from margindsl.labelset.transport import assign_priced


def picked(gain, y):
    return gain[np.arange(len(y)), y].sum()


def gains(kind, n, k, rng):
    return {
        "noise": lambda: rng.normal(size=(n, k)),
        "biased": lambda: rng.normal(size=(n, k)) + 3 * np.arange(k),
        "whole": lambda: rng.integers(0, 3, (n, k)).astype(float),
        "equal": lambda: np.zeros((n, k)),
        "line": lambda: rng.normal(size=(n, 1)) * np.arange(k),
        "heavy": lambda: rng.standard_cauchy((n, k)),
    }[kind]()


@pytest.mark.parametrize("kind", ["noise", "biased", "whole", "equal", "line", "heavy"])
@pytest.mark.parametrize("width", [0.0, 0.2])
def test_prices_prove_bounded_assignments_optimal(kind, width):
    n, k = 3000, 6
    gain = gains(kind, n, k, np.random.default_rng(3))
    lower, upper = np.full(k, round((1 - width) * n / k)), np.full(k, round((1 + width) * n / k))
    y, price = assign_priced(gain, lower, upper)
    held = np.bincount(y, minlength=k)
    assert (held >= lower).all() and (held <= upper).all()
    dual = (gain - price).max(axis=1).sum() + np.where(price > 0, upper, lower) @ price
    assert picked(gain, y) == pytest.approx(dual, rel=1e-9, abs=1e-9)


def test_bounded_assignment_agrees_with_the_transportation_programme():
    n, k = 300, 4
    rng = np.random.default_rng(0)
    gain, lower, upper = rng.normal(size=(n, k)) + np.arange(k), np.array([20, 100, 0, 0]), np.array([90, 300, 50, 150])
    labels = presolve(n, k, sizes=[(lower, upper)])
    columns = kron(np.ones((1, n)), csr_array(eye(k)))
    answer = linprog(
        -gain.ravel(),
        A_ub=vstack([columns, -columns]),
        b_ub=np.concatenate([upper, -lower]),
        A_eq=kron(csr_array(eye(n)), np.ones((1, k))),
        b_eq=np.ones(n),
    )
    assert picked(gain, labels.maximise(gain)) == pytest.approx(-answer.fun)


@pytest.mark.parametrize("links", ["must", "cannot", "both"])
def test_sizes_and_links_agree_with_the_whole_programme(links):
    n, k = 120, 3
    rng = np.random.default_rng(5)
    pairs = rng.permutation(n)[:80].reshape(-1, 2)
    must = pairs[:20] if links != "cannot" else []
    cannot = np.vstack([pairs[20:], pairs[20:30, [1, 0]], np.column_stack([pairs[20:29, 0], pairs[21:30, 0]])])
    cannot = cannot if links != "must" else []
    sizes = [(np.full(k, 35), np.full(k, 44))]
    labels = presolve(n, k, must=must, cannot=cannot, known=([0, 1], [0, 1]), sizes=sizes)
    for gain in (rng.normal(size=(n, k)) + np.arange(k), rng.integers(0, 9, (n, k)) - 2.0 * np.arange(k)):
        y = labels.maximise(gain)
        assert labels.contains(y)
        whole = np.where(labels.allowed, labels.by_components(gain), -np.inf)
        counts = solve_assignment(whole, labels.cannot, labels.size, (labels.at_least, labels.at_most))
        assert picked(gain, y) == pytest.approx(picked(gain, labels.at_points(np.argmax(counts, axis=1))), abs=1e-7)


@pytest.mark.parametrize("size, kind", [(2, "alike"), (3, "alike"), (2, "noise"), (3, "line")])
def test_linked_points_that_want_one_cluster_agree_with_the_whole_programme(size, kind):
    n, k = 600, 4
    rng = np.random.default_rng(size)
    groups = rng.permutation(n)[:300].reshape(-1, size)
    cannot = np.vstack([groups[:, [i, j]] for i in range(size) for j in range(i)])
    labels = presolve(n, k, cannot=cannot, sizes=[(np.full(k, 150), np.full(k, 150))])
    gain = {"alike": rng.normal(size=(n, 1)) + 0.01 * rng.normal(size=(n, k)), "line": gains("line", n, k, rng),
            "noise": gains("noise", n, k, rng)}[kind]
    gain[groups] = gain[groups[:, :1]]  # so that prices which heed no link leave a wide gap
    y = labels.maximise(gain)
    assert labels.contains(y)
    counts = solve_assignment(labels.by_components(gain), labels.cannot, labels.size, (labels.at_least, labels.at_most))
    assert picked(gain, y) == pytest.approx(picked(gain, labels.at_points(np.argmax(counts, axis=1))), abs=1e-7)


def test_components_of_one_size_are_a_transportation_problem():
    rng = np.random.default_rng(2)
    n, k = 60, 3
    labels = presolve(n, k, must=np.arange(n).reshape(-1, 2), sizes=[([13, 13, 13], [25, 25, 25])])
    gain = rng.normal(size=(n, k)) + 2 * np.arange(k)
    y = labels.maximise(gain)
    assert labels.contains(y)
    counts = solve_assignment(
        labels.by_components(gain), np.zeros((0, 2), int), labels.size, (labels.at_least, labels.at_most)
    )
    assert picked(gain, y) == pytest.approx(picked(gain, labels.at_points(np.argmax(counts, axis=1))))


def test_ties_are_broken_the_same_way():
    labels = presolve(40, 3, cannot=[(0, 1), (1, 2), (2, 0), (2, 3)], sizes=[([10] * 3, [15] * 3)])
    first = labels.maximise(np.zeros((40, 3)))
    assert labels.contains(first)
    assert (labels.maximise(np.zeros((40, 3))) == first).all()


def test_chains_of_links_and_labels_pin_points():
    n = 3000
    strip = [(i, j) for i in range(n) for j in (i + 1, i + 2) if j < n]
    labels = presolve(n, 3, cannot=strip, known=([0, 1], [2, 0]))
    assert labels.is_single
    assert (labels.maximise(np.zeros((n, 3))) == np.array([2, 0, 1] * 1000)).all()


def test_sizes_pin_what_they_need():
    labels = presolve(4, 3, cannot=[(0, 2), (0, 3)], known=([0], [0]), sizes=[([2, 0, 0], [4, 4, 4])])
    assert labels.pinned.tolist() == [0, 0, -1, -1]


def test_size_limits_are_tightened_and_rounded():
    labels = presolve(10, 3, sizes=[([2.5, 0, -1], [np.inf, 4.9, 3]), ([0, 2, 0], [10, 10, 10])])
    assert labels.at_least.tolist() == [3, 2, 0] and labels.at_most.tolist() == [8, 4, 3]
    assert labels.has_sizes and not labels.is_symmetric
    fractions = presolve(30, 3, sizes=[(np.full(3, 0.1 * 3 * 30), np.full(3, 1.1 * 10))])
    assert fractions.at_least.tolist() == [9] * 3 and fractions.at_most.tolist() == [11] * 3
    assert fractions.is_symmetric


def test_planted_labelling_of_a_dense_graph_is_found_and_drawn():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 80)
    pairs = rng.integers(0, 80, (400, 2))
    pairs = pairs[truth[pairs[:, 0]] != truth[pairs[:, 1]]]
    sizes = [(np.bincount(truth) - 2, np.bincount(truth) + 2)]
    labels = presolve(80, 3, cannot=pairs, sizes=sizes)
    gain = np.eye(3)[truth] + 0.3 * rng.normal(size=(80, 3))
    y = labels.maximise(gain)
    assert labels.contains(y) and picked(gain, y) >= picked(gain, truth) - 1e-9


def test_every_member_can_be_drawn():
    rng = np.random.default_rng(0)
    for sizes in ((), [([1, 1, 1], [2, 2, 2])]):
        labels = presolve(5, 3, must=[(0, 1)], cannot=[(1, 2), (2, 3)], sizes=sizes)
        drawn = labels.sample(rng, 1500)
        members = {tuple(y) for y in labels.enumerate()}
        assert {tuple(y) for y in drawn} == members
    assert labels.sample(rng, 0).shape == (0, 5)


@pytest.mark.parametrize(("n", "k"), [(12, 3), (50, 7)])
def test_size_radius_without_bounds_is_n(n, k):
    labels = presolve(n, k)
    assert labels.size_radius_squared() == pytest.approx(n**2)
    codes = np.eye(k) - 1 / k
    codes *= np.sqrt(k / (k - 1))
    y = labels.sample(np.random.default_rng(0), 1)[0]
    sizes = np.bincount(y, minlength=k)
    exact = presolve(n, k, sizes=[(sizes, sizes)]).size_radius_squared()
    assert exact == pytest.approx((codes[y].sum(axis=0) ** 2).sum())


@pytest.mark.parametrize("limits", [([1, 2, 0], [5, 3, 9]), ([0, 0, 2, 2], [9, 1, 4, 6]), ([4, 0, 0], [4, 9, 3])])
def test_size_radius_under_unequal_bounds_is_the_greatest_of_all_sizes(limits):
    n, (low, high) = 9, limits
    every = [sizes for sizes in product(*(range(a, b + 1) for a, b in zip(low, high))) if sum(sizes) == n]
    greatest = max(sum(size**2 for size in sizes) for sizes in every)
    k = len(low)
    found = presolve(n, k, sizes=[limits]).size_radius_squared()
    assert found == pytest.approx((k * greatest - n**2) / (k - 1))


def test_a_draw_that_leaves_a_point_no_cluster_is_drawn_again():
    """Clusters drawn for 1 and 3 may leave none to 0, which may not join 4 in cluster 0."""
    labels = presolve(5, 3, cannot=[(2, 1), (1, 3), (0, 4)], known=([4, 2], [0, 2]),
                                sizes=[([2, 1, 2], [2, 1, 2])])
    members = {tuple(y) for y in labels.enumerate()}
    drawn = {tuple(y) for y in labels.sample(np.random.default_rng(0), 60)}
    assert drawn == members
    stuck = dataclasses.replace(labels, pinned=np.array([-1, 1, 2, 2, 0]))
    with pytest.raises(SolverError, match="no labelling satisfies all links and bounds"):
        stuck.maximise(np.zeros((5, 3)))


def test_a_cluster_that_may_hold_nothing_excludes_labellings():
    labels = presolve(2, 3, sizes=[([0, 0, 0], [2, 2, 0])])
    assert not labels.contains(np.array([2, 2])) and labels.violations(np.array([2, 2]))
    assert labels.contains(np.array([1, 0]))
