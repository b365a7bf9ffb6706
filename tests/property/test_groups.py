"""Sizes in groups and labels known in part: label sets against brute force, every relaxation against enumeration."""

from itertools import product

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import ContradictionError, DeclarationError, GrammarError, InfeasibleError
from margindsl.labelset import presolve


def counted(Y, k):
    return np.stack([(q == Y).sum(axis=1) for q in range(k)], axis=1)


@pytest.mark.parametrize("seed", range(2))
def test_label_sets_agree_with_brute_force(seed):
    rng = np.random.default_rng(seed)
    for _ in range(25):
        k = int(rng.integers(3, 5))
        n = int(rng.integers(3, 10 - k))
        must, cannot = ([tuple(rng.choice(n, 2, replace=False)) for _ in range(rng.integers(0, most))]
                        for most in (2, 3))
        known = [(int(rng.integers(n)), int(rng.integers(k))) for _ in range(rng.integers(0, 2))]
        sizes = [([int(rng.integers(0, 2))] * k, [n - 1] * k)] if rng.random() < 0.4 else []
        m, perm = int(rng.integers(0, 4)), rng.permutation(n)
        barred, low = (rng.integers(0, n, m), rng.integers(0, k, m)), rng.integers(0, 2, k)
        parts = [perm[:n // 2], perm[n // 2:]] if rng.random() < 0.5 else [perm[:rng.integers(1, n + 1)]]
        groups = [(part, low, low + rng.integers(0, n, k)) for part in parts]
        Y = np.array(list(product(range(k), repeat=n)))
        keep = np.all([np.ones(len(Y)), *(Y[:, i] == Y[:, j] for i, j in must),
                       *(Y[:, i] != Y[:, j] for i, j in cannot), *(Y[:, i] == v for i, v in known),
                       *(Y[:, i] != c for i, c in zip(*barred)),
                       *(((counted(Y[:, g], k) >= a) & (counted(Y[:, g], k) <= b)).all(axis=1)
                         for g, a, b in [*groups, *((np.arange(n), *limits) for limits in sizes)])], axis=0)
        try:
            B = presolve(n, k, must=must, cannot=cannot, known=([i for i, _ in known], [v for _, v in known]),
                         sizes=sizes, barred=barred, groups=groups)
        except (InfeasibleError, ContradictionError):
            assert not keep.any()
            continue
        members = {tuple(y) for y in Y[keep]}
        assert {tuple(y) for y in B.enumerate()} == members and {tuple(y) for y in B.sample(rng, 3)} <= members
        for gain in (rng.normal(size=(n, k)), rng.integers(-2, 3, (n, k)).astype(float), np.zeros((n, k))):
            best = B.maximise(gain)
            assert tuple(best) in members and gain[np.arange(n), best].sum() == pytest.approx(
                gain[np.arange(n), Y[keep]].sum(axis=1).max(), abs=1e-9)
        for y in Y[rng.choice(len(Y), 20)]:
            assert B.contains(y) == (tuple(y) in members) == (not B.violations(y))
        y = Y[keep][0]
        for (c, q), can in np.ndenumerate(B.feasible_moves(y)):
            assert can == (tuple(B.moved(y, c, q)) in members and q != B.contract(y)[c])
        for a, b in product(range(k), repeat=2):
            swap = np.where(np.arange(k) == a, b, np.where(np.arange(k) == b, a, np.arange(k)))
            assert B.groups[a] != B.groups[b] or {tuple(swap[list(y)]) for y in members} == members


@pytest.mark.parametrize("k,coding,seed", [
    (2, "binary", 1), (3, "simplex", 0), (3, "crammer-singer", 1)])
def test_relaxations_bound_the_least_value(k, coding, seed):
    rng = np.random.default_rng(seed)
    n = 6 if k == 2 else 4
    X, half = rng.normal(size=(n, 2)), np.arange(n) % 2 == 0
    y, f = md.Labels(n, clusters=k), md.Hyperplane(X, bias=[False, "penalised"][seed % 2])
    g = y * f if k == 2 else md.margin(y, f, coding=coding)
    names = [-1, 1] if k == 2 else range(k)
    low = np.array([1, 0, 0][:k])
    rules = [(md.sizes(y[half], at_least=low, at_most=n // 2), lambda Y: (counted_in(Y[half], names) >= low).all()
              and (counted_in(Y[half], names) <= n // 2).all()),
             (y[[1, 2]] != names[-1], lambda Y: np.all(Y[[1, 2]] != names[-1])),
             (md.count(y[:4] == names[-1]) <= 2, lambda Y: np.sum(Y[:4] == names[-1]) <= 2),
             (md.count(y[2:] == names[0]) >= 1, lambda Y: np.sum(Y[2:] == names[0]) >= 1),
             (md.count(y[~half] == names[1]) == 1, lambda Y: np.sum(Y[~half] == names[1]) == 1),
             (y[0] != y[1], lambda Y: Y[0] != Y[1])]
    rules = [rule for rule in rules if rng.random() < 0.5] or rules[:1]
    losses = [md.hinge, md.squared_hinge, *[md.odm] * (coding != "crammer-singer")]
    loss = losses[seed % len(losses)](g)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 2 * md.mean(loss)), [rule for rule, _ in rules])
    members = [np.array(Y) for Y in product(names, repeat=n) if all(holds(np.array(Y)) for _, holds in rules)]
    if not members:
        with pytest.raises((InfeasibleError, ContradictionError)):
            problem.solve("sdp")
        return
    exact = problem.solve("exact", time_limit=30)
    plain = md.Problem(problem.objective)
    least = min(plain.at_labels(Y).solve("supervised").value for Y in members)
    assert exact.verify() and exact.bound <= least + 1e-6 and any(np.array_equal(exact.labels, Y) for Y in members)
    if exact.status == "optimal":
        assert exact.value == pytest.approx(least, abs=1e-5)
    ways = (md.SDP(polish="none"), "alternating"), (md.Minimax(polish="none"), "cccp")
    for relaxation in ways[coding != "simplex"]:
        found = problem.solve(relaxation, random_state=0, time_limit=10)
        assert found.bound <= least + 1e-6 and found.value >= least - 1e-6 and found.verify(), relaxation
        assert any(np.array_equal(found.labels, Y) for Y in members)


def test_what_groups_force_is_known_to_the_proof_of_a_tree():
    y, f = md.Labels(5, clusters=3), md.Hyperplane(np.random.default_rng(0).normal(size=(5, 2)), centre=False)
    rules = [md.sizes(y, at_least=1), y[0] != y[1], md.count(y[[3, 0, 2]] == 2) <= 1, md.sizes(y[:4], at_most=2),
             y[3] != 2]
    loss = md.mean(md.squared_hinge(md.margin(y, f, coding="crammer-singer")))
    found = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 2 * loss), rules).solve("exact", random_state=0)
    assert found.status == "optimal" and found.verify()


def counted_in(labels, names):
    return np.array([np.sum(labels == name) for name in names])


def test_what_is_said_of_groups():
    y, y3 = md.Labels(6), md.Labels(6, clusters=3)
    assert str(md.sizes(y3[:4], at_least=1)) == "md.sizes(y[0:4], at_least=[1, 1, 1], at_most=[4, 4, 4])"
    assert str(md.count(y3[[0, 2, 3]] == 1) <= 2) == "md.count(y[[0, 2, 3]] == 1) <= 2"
    assert r"\ne 2" in (y3[0] != 2).latex() and r"i \in G" in md.sizes(y3[:4], at_least=1).latex()
    with pytest.raises(DeclarationError, match="3 points cannot fill clusters of 6 to 9 points"):
        md.sizes(y3[:3], at_least=2, at_most=3)
    with pytest.raises(DeclarationError, match="no whole number of 2 points"):
        print(md.count(y[:2] == 1) >= 3)
    with pytest.raises(GrammarError, match=r"Write md.count\(y\[group\] == c\) <= m"):
        md.count(y[:2] != 1)
