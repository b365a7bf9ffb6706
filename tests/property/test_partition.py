"""The presolved set of k-cluster labellings against brute force over all k^n labellings."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from margindsl.errors import ContradictionError, InfeasibleError
from margindsl.labelset import Names, presolve
from margindsl.labelset.linked import assign_linked
from margindsl.labelset.transport import assign_priced


@st.composite
def declarations(draw):
    k = draw(st.integers(2, 3))
    n = draw(st.integers(2, 7))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1])
    must, cannot = draw(st.lists(pair, max_size=3)), draw(st.lists(pair, max_size=8))
    known = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, k - 1)), max_size=2))
    sizes = []
    for _ in range(draw(st.integers(0, 2))):
        low = draw(st.lists(st.integers(0, n // k), min_size=k, max_size=k))
        sizes.append((low, [value + draw(st.integers(0, n)) for value in low]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return n, k, must, cannot, known, sizes, rng


def brute_force(n, k, must, cannot, known, sizes):
    Y = np.array(list(product(range(k), repeat=n)))
    keep = np.ones(len(Y), bool)
    for i, j in must:
        keep &= Y[:, i] == Y[:, j]
    for i, j in cannot:
        keep &= Y[:, i] != Y[:, j]
    for i, v in known:
        keep &= Y[:, i] == v
    linked = keep.copy()
    counts = np.stack([(q == Y).sum(axis=1) for q in range(k)], axis=1)
    for low, high in sizes:
        keep &= ((counts >= low) & (counts <= high)).all(axis=1)
    return Y, keep, counts, linked.any()


@settings(max_examples=60, deadline=None)
@given(declarations())
@example((2, 2, [], [(0, 1)], [], [([0, 0], [1, 1])], np.random.default_rng(0)))  # linked points that lie in both
def test_everything_agrees_with_brute_force(declared):
    n, k, must, cannot, known, sizes, rng = declared
    Y, keep, counts, consistent = brute_force(*declared[:-1])
    arguments = {
        "must": must,
        "cannot": cannot,
        "known": ([i for i, _ in known], Names(k).written([v for _, v in known] or np.zeros(0, int))),
        "sizes": sizes,
    }
    if not keep.any():
        with pytest.raises((InfeasibleError, ContradictionError)) as caught:
            presolve(n, k, **arguments)
        if isinstance(caught.value, ContradictionError):
            assert not consistent
            check_proof(caught.value.cycle, must, cannot, known, k)
        return
    labels = presolve(n, k, **arguments)
    for row in rng.choice(len(Y), min(len(Y), 40), replace=False):
        assert labels.contains(Y[row]) == keep[row]
        assert (not labels.violations(labels.names.written(Y[row]))) == keep[row]
    members = {tuple(y) for y in Y[keep]}
    listed = [tuple(y) for y in labels.enumerate()]
    assert len(listed) == len(set(listed)) and set(listed) == members
    for gain in (rng.normal(size=(n, k)), rng.integers(-2, 3, (n, k)), np.zeros((n, k))):
        best = labels.maximise(gain)
        assert tuple(best) in members
        values = gain[np.arange(n), Y[keep]].sum(axis=1)
        assert gain[np.arange(n), best].sum() == pytest.approx(values.max(), abs=1e-9)
    assert {tuple(y) for y in labels.sample(rng, 5)} <= members
    check_changes(labels, Y[rng.choice(len(Y))] if rng.random() < 0.3 else Y[keep][0], members)
    check_flags(labels, Y, keep, counts)


def check_proof(cycle, must, cannot, known, k):
    """Check that the edges of a contradiction are declared and admit no assignment of their points alone."""
    links = {"must-link": {frozenset(p) for p in must}, "cannot-link": {frozenset(p) for p in cannot}}
    points = sorted({i for i, _, _ in cycle} | {j for _, j, _ in cycle})
    for i, j, kind in cycle:
        assert kind == "known label" or frozenset((i, j)) in links[kind]
    ends = {point for i, j, kind in cycle if kind == "known label" for point in (i, j)}
    merged = {frozenset(p) for p in must} if all(kind == "cannot-link" for *_, kind in cycle) else set()
    everyone = sorted({*points, *(i for p in merged for i in p)})
    place = {point: c for c, point in enumerate(everyone)}
    for y in product(range(k), repeat=len(everyone)):
        fits = all(
            (y[place[i]] == y[place[j]]) == (kind == "must-link")
            for i, j, kind in cycle
            if kind != "known label"
        )
        fits = fits and all(len({y[place[i]] for i in p}) == 1 for p in merged)
        assert not (fits and all(y[place[i]] == v for i, v in known if i in ends))


def check_changes(labels, y, members):
    z = labels.contract(y)
    if (labels.at_points(z) != y).any():  # labels that break links have no values of components
        return
    moves = labels.feasible_moves(y)
    for c, q in product(range(labels.count), range(labels.clusters)):
        moved = z.copy()
        moved[c] = q
        assert moves[c, q] == (labels.free[c] and q != z[c] and tuple(labels.at_points(moved)) in members)
    for first in range(labels.count):
        expected = []
        for c in range(labels.count):
            swapped = z.copy()
            swapped[[first, c]] = z[[c, first]]
            able = labels.free[c] and labels.free[first] and z[c] != z[first]
            expected.append(bool(able and tuple(labels.at_points(swapped)) in members))
        found = [labels.feasible_pairs(y, first, z[c], np.array([c]), z[[first]])[0] for c in range(labels.count)]
        assert found == expected


def check_flags(labels, Y, keep, counts):
    k, n = labels.clusters, labels.n
    if labels.is_single:
        assert keep.sum() == 1
    members = {tuple(y) for y in Y[keep]}
    renamed = {tuple((y + 1) % k) for y in Y[keep]} | {tuple(np.where(y < 2, 1 - y, y)) for y in Y[keep]}
    assert not labels.is_symmetric or renamed <= members
    assert (labels.at_least <= counts[keep]).all() and (counts[keep] <= labels.at_most).all()
    if k == 2:  # sizes are bounds on sums
        return
    inside = ((counts >= np.maximum(labels.at_least, labels.pinned_sizes)) & (counts <= labels.at_most)).all(axis=1)
    squares = (k * (counts[inside] ** 2).sum(axis=1) - n**2) / (k - 1)
    assert labels.size_radius_squared() == pytest.approx(squares.max())


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 7), st.integers(2, 4), st.integers(0, 10**6))
def test_bounded_assignment_with_forbidden_clusters(n, k, seed):
    rng = np.random.default_rng(seed)
    gain = rng.integers(-2, 3, (n, k)).astype(float) if seed % 2 else rng.normal(size=(n, k))
    gain[rng.random((n, k)) < 0.3] = -np.inf
    gain[np.arange(n), rng.integers(k, size=n)] = 0.5
    lower, width = rng.integers(0, 3, k), rng.integers(-1, 4, k)
    Y = np.array(list(product(range(k), repeat=n)))
    counts = np.stack([(q == Y).sum(axis=1) for q in range(k)], axis=1)
    values = gain[np.arange(n), Y].sum(axis=1)
    values[((counts < lower) | (counts > lower + width)).any(axis=1)] = -np.inf
    solved = assign_priced(gain, lower, lower + width)
    if values.max() == -np.inf:
        assert solved is None
    else:
        y = solved[0]
        assert gain[np.arange(n), y].sum() == pytest.approx(values.max())
        held = np.bincount(y, minlength=k)
        assert (held >= lower).all() and (held <= lower + width).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 7), st.integers(3, 4), st.integers(0, 10**6))
def test_linked_assignment_on_random_graphs(n, k, seed):
    rng = np.random.default_rng(seed)
    gain = rng.integers(-2, 3, (n, k)).astype(float) if seed % 2 else rng.normal(size=(n, k))
    edges = np.argwhere(np.triu(rng.random((n, n)) < rng.choice([0.2, 0.5]), 1))
    Y = np.array(list(product(range(k), repeat=n)))
    Y = Y[(Y[:, edges[:, 0]] != Y[:, edges[:, 1]]).all(axis=1)]
    if not len(Y) or not len(edges):
        return
    z = assign_linked(gain, edges)
    assert (z[edges[:, 0]] != z[edges[:, 1]]).all()
    assert gain[np.arange(n), z].sum() == pytest.approx(gain[np.arange(n), Y].sum(axis=1).max())
