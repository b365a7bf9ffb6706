"""Squares of margins of known labels of several clusters, for which weights are lifted coordinate by coordinate."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

import margindsl as md
from margindsl.labelset.codes import simplex_codes
from margindsl.program.forms import by_coordinate

LOSSES = {"ODM": lambda m: md.odm(m, 0.4, 0.2), "least squares": lambda m: md.square(1 - m),
          "two parabolas": lambda m: md.maximum(md.square(1 - m), 2 * md.square(m - 2))}


def declare(X, known, loss, weight, clusters, constraints=lambda y: ()):
    y, f = md.Labels(len(X), clusters=clusters), md.Hyperplane(X, centre=False)
    losses = LOSSES[loss](md.margin(y, f, coding="simplex"))
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.sum(losses)),
                      [y[list(known)] == list(known.values()), *constraints(y)])


def moments(X, known, weight, clusters):
    """Return the value of the moment relaxation of least squares in (1, codes, weights)."""
    codes, free = simplex_codes(clusters), [i for i in range(len(X)) if i not in known]
    (r, p), ends = (X.shape[1], clusters - 1), np.arange(len(free) + 1) * (clusters - 1) + 1
    Z = cp.Variable((ends[-1] + r * p, ends[-1] + r * p), PSD=True)
    own = [slice(a, a + p) for a in ends[:-1]]
    W, rules, value = Z[ends[-1]:, ends[-1]:], [Z[0, 0] == 1], cp.trace(Z[ends[-1]:, ends[-1]:]) / 2
    for a, i in enumerate(free):
        margin = cp.sum(cp.multiply(np.kron(X[i], np.eye(p)), Z[own[a], ends[-1]:]))
        rules += [cp.trace(Z[own[a], own[a]]) == 1, codes @ Z[own[a], 0] >= -1 / p]
        rules += [cp.trace(Z[own[a], own[b]]) >= -1 / p for b in range(a)]
        value += weight * cp.square(1 - margin)
    for i, label in known.items():
        v = np.kron(X[i], codes[label])
        value += weight * (1 - 2 * v @ Z[ends[-1]:, 0] + v @ W @ v)
    problem = cp.Problem(cp.Minimize(value), rules)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_the_lift_is_the_moment_relaxation_of_codes_and_weights(load):
    X, labels = load(return_X_y=True)
    index = np.random.default_rng(1).permutation(len(X))[:14]
    X, labels = ((X - X.mean(axis=0)) / X.std(axis=0))[index][:, :4], labels[index]
    known = {int(np.flatnonzero(labels == c)[k]): c for c in range(3) for k in (0, 1)}
    problem = declare(X, known, "least squares", 1.0, 3)
    solution, whole = problem.solve("sdp", "interior", random_state=0), moments(X, known, 1.0, 3)
    plain = problem.solve("sdp", "clarabel", random_state=0).bound  # without these squares
    assert solution.bound == pytest.approx(whole, rel=1e-4) and plain < 0.99 * whole and solution.verify()


@pytest.mark.parametrize("seed", range(8))
def test_bounds_hold_for_all_labellings_and_lose_nothing(seed):
    rng = np.random.default_rng(seed)
    clusters, loss = (3, 4)[seed % 2], list(LOSSES)[seed % 3]
    X = rng.normal(size=(7, rng.integers(1, 4)))
    known = {int(i): int(rng.integers(clusters)) for i in rng.choice(5, 1 + seed % 4, replace=False)}
    constraints = (lambda y: (), lambda y: (y[5] != y[6],), lambda y: (y[5] == y[6], md.sizes(y, at_least=1)),
                   lambda y: (y[5] != y[next(iter(known))],))[seed % 4]
    problem = declare(X, known, loss, 10.0 ** rng.uniform(-1, 1), clusters, constraints)
    least = problem.solve(md.Exact(method="enumeration"), random_state=0).value
    solution, plain = (problem.solve("sdp", solver, random_state=0) for solver in ("interior", "clarabel"))
    assert plain.bound - 1e-3 * least <= solution.bound <= least * (1 + 1e-7) and solution.verify()


def test_a_bound_of_zero_on_the_sum_of_codes_loses_nothing():
    X, labels = load_iris(return_X_y=True)
    index = [0, 1, 2, 50, 51, 52, 100, 101, 102]
    X, known = ((X - X.mean(axis=0)) / X.std(axis=0))[index], {i: int(labels[index[i]]) for i in (0, 1, 3, 4, 6)}
    problem = declare(X, known, "least squares", 1.0, 3, lambda y: [md.sizes(y, at_least=3, at_most=3)])
    solution, plain = (problem.solve("sdp", solver, random_state=0) for solver in ("interior", "clarabel"))
    assert solution.bound >= (1 - 1e-3) * plain.bound and solution.verify()


@pytest.mark.parametrize("constraints", [
    lambda y: [y[3] != y[0], y[3] != y[1]],  # two clusters are another's
    lambda y: [md.sizes(y, at_least=2), *(y[i] != 2 for i in range(5, 9)), y[4] != y[2]]])  # a third needs the point
@pytest.mark.parametrize("loss", LOSSES)
def test_a_label_that_follows_is_as_good_as_a_known_one(constraints, loss):
    X, known = np.random.default_rng(0).normal(size=(9, 2)), {0: 0, 1: 1, 2: 2}
    given, follows = (declare(X, own, loss, 1.0, 3, constraints).solve("sdp", "interior", random_state=0)
                      for own in (known | {3: 2}, known))
    assert follows.bound == pytest.approx(given.bound, rel=1e-5) and follows.verify()


def test_an_open_tree_is_no_worse_than_the_lift():
    X, labels = load_iris(return_X_y=True)
    X, labels = ((X - X.mean(axis=0)) / X.std(axis=0))[::6], labels[::6]
    problem = declare(X, {i: int(labels[i]) for i in range(0, 25, 4)}, "least squares", 1.0, 3)
    lift, tree = problem.solve("sdp", random_state=0), problem.solve("exact", random_state=0, max_iter=1)
    assert tree.bound >= (1 - 1e-3) * lift.bound


def test_codes_by_coordinate_keep_inner_products():
    codes = np.vstack([simplex_codes(4)[[2, 0]], np.zeros((3, 3))])
    z = np.append(1.0, np.random.default_rng(0).normal(size=9))
    found = (by_coordinate(codes) @ z).reshape(5, 3)
    np.testing.assert_allclose(found[:2], codes[:2])
    np.testing.assert_array_equal(found[2:].ravel(), z[1:])
