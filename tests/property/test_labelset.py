"""The presolved label set against brute force over all 2^n labellings."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from margindsl.errors import ContradictionError, InfeasibleError
from margindsl.labelset import presolve


@st.composite
def declarations(draw):
    n = draw(st.integers(2, 8))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1])
    must, cannot = draw(st.lists(pair, max_size=3)), draw(st.lists(pair, max_size=3))
    known = draw(st.lists(st.tuples(st.integers(0, n - 1), st.sampled_from([-1, 1])), max_size=2))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    bounds = []
    for kind in draw(st.lists(st.sampled_from(["ones", "whole", "real", "mean"]), max_size=2)):
        w = {
            "ones": None,
            "whole": rng.integers(-4, 5, n),
            "real": rng.normal(size=n),
            "mean": np.ones(n) / n,
        }[kind]
        scale = 1 / n if kind == "mean" else 1.0
        middle, half = draw(st.integers(-3, 3)), draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, np.inf]))
        bounds.append((w, (middle - half) * scale, (middle + half) * scale))
    return n, must, cannot, known, bounds, rng


def brute_force(n, must, cannot, known, bounds, strict=True):
    Y = np.array(list(product([-1, 1], repeat=n)))
    keep = np.ones(len(Y), bool)
    for i, j in must:
        keep &= Y[:, i] == Y[:, j]
    for i, j in cannot:
        keep &= Y[:, i] != Y[:, j]
    for i, v in known:
        keep &= Y[:, i] == v
    linked = keep.copy()
    for w, lo, hi in bounds:
        s = Y @ (np.ones(n) if w is None else w)
        keep &= (s >= lo - 1e-9) & (s <= hi + 1e-9)
    return Y, keep, linked.any()


@settings(max_examples=100, deadline=None)
@given(declarations())
def test_everything_agrees_with_brute_force(declared):
    n, must, cannot, known, bounds, rng = declared
    Y, keep, consistent = brute_force(n, must, cannot, known, bounds)
    arguments = {
        "must": must,
        "cannot": cannot,
        "known": ([i for i, _ in known], [v for _, v in known]),
        "bounds": bounds,
    }
    if not keep.any():
        with pytest.raises(InfeasibleError if consistent else ContradictionError) as caught:
            presolve(n, **arguments)
        if not consistent:
            check_cycle(caught.value.cycle, must, cannot, known)
        return
    labels = presolve(n, **arguments)
    assert [labels.contains((y + 1) // 2) for y in Y] == keep.tolist()
    assert [not labels.violations(y) for y in Y] == keep.tolist()
    members = {tuple((y + 1) // 2) for y in Y[keep]}
    listed = [tuple(y) for y in labels.enumerate()]
    assert len(listed) == len(set(listed)) and set(listed) == members
    for gain in (rng.normal(size=n), rng.integers(-2, 3, n)):
        best = labels.maximise(np.stack([-gain, gain], axis=1))
        assert tuple(best) in members
        assert gain @ labels.signs(best) == pytest.approx((Y[keep] @ gain).max(), abs=1e-9)
    assert {tuple(y) for y in labels.sample(rng, 5)} <= members
    check_moves(labels, (Y[keep][0] + 1) // 2, members)
    check_lifting(labels, Y, keep, consistent)


def check_cycle(cycle, must, cannot, known):
    links = {"must-link": {frozenset(p) for p in must}, "cannot-link": {frozenset(p) for p in cannot}}
    odd = 0
    for (i, j, kind), (following, _, _) in zip(cycle, [*cycle[1:], cycle[0]]):
        assert j == following
        if kind == "known label":
            if i == j:
                assert {(i, 1), (i, -1)} <= set(known)
                odd += 1
            else:
                odd += dict(known)[i] != dict(known)[j]
        else:
            assert frozenset((i, j)) in links[kind]
            odd += kind == "cannot-link"
    assert odd % 2 == 1
    assert len({i for i, _, _ in cycle}) == len(cycle)


def check_moves(labels, y, members):
    z = labels.contract(y)
    assert (labels.at_points(z) == y).all()
    flips = np.eye(labels.count, dtype=int)
    assert labels.feasible_moves(y).any(axis=1).tolist() == [tuple(labels.at_points(z ^ f)) in members for f in flips]
    many = np.array([y, *sorted(members)[:3]])
    assert np.array_equal(labels.feasible_moves(many), [labels.feasible_moves(each) for each in many])
    expected = [k != 0 and tuple(labels.at_points(z ^ flips[0] ^ flips[k])) in members for k in range(labels.count)]
    other = 1 - z
    assert labels.feasible_pairs(y, 0, other[0], np.arange(labels.count), other).tolist() == expected


def check_lifting(labels, Y, keep, consistent):
    merged = labels.merged()
    assert [merged.contains((y + 1) // 2) for y in Y] == keep.tolist()
    assert (~merged.free).sum() <= 1 and not (merged.pinned == 0).any()
    for (omega, radius), bound in zip(merged.lifted_bounds(), merged.bounds):
        for z in product([-1, 1], repeat=merged.count):
            z = np.where(merged.free, z, 1)
            inside = abs(omega @ np.append(z, 1)[: len(omega)]) <= radius + 1e-9
            assert inside == bound.holds(bound.omega @ z)
    if labels.is_symmetric:
        assert [labels.contains((1 - y) // 2) for y in Y] == keep.tolist()
    assert not labels.is_single or keep.sum() == 1
