"""Lifting weights against lifting labels: 14 standard normal points in R³, ODM θ = .2, ν = .4, no bias, not centred."""

from itertools import combinations

import numpy as np
import pytest

import margindsl as md

pytestmark = pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")

SEEDS = range(10)
# seed 3: label lift, weight lift and optimum at weights 1, 10 and 100
RECORDED = {1.0: (0.3198, 0.3205, 0.3653), 10.0: (0.816, 1.195, 2.051), 100.0: (1.213, 7.495, 15.384)}


def points(seed):
    return np.random.default_rng(seed).standard_normal((14, 3))


def declare(X, weight):
    y, f = md.Labels(len(X)), md.Hyperplane(X, centre=False)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(md.odm(y * f, theta=0.2, nu=0.4))))


def dichotomies(X):
    """Return the labellings that planes through the origin make, up to sign: turn a plane until it meets two points."""
    found = set()
    for i, j in combinations(range(len(X)), 2):
        y = np.sign(X @ np.cross(X[i], X[j]))
        for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            y[[i, j]] = a, b
            found.add(tuple((y * y[0] > 0).astype(int)))
    return sorted(found)


def optimum(problem, X):
    """Return the least value over all dichotomies; the best labels are the signs of f, since ρ(s) ≤ ρ(−s)."""
    program, newton = problem.program(), md.Solver("newton")
    return min(newton.solve(program.fix_labels(np.array(y))).objective for y in dichotomies(X))


def bounds(problem):
    quick = {"rounding": 0, "polish": "none"}
    return (problem.solve(md.SDP(**quick), random_state=0).bound,
            problem.solve(md.WeightLifting(**quick), random_state=0).bound)


def test_there_are_as_many_dichotomies_as_covers_theorem_counts():
    assert len(dichotomies(points(0))) == 1 + 13 + 78


@pytest.mark.parametrize("weight", RECORDED)
def test_the_recorded_instance(weight):
    X = points(3)
    problem = declare(X, weight)
    label, lifted, exact = RECORDED[weight]
    np.testing.assert_allclose(bounds(problem), (label, lifted), rtol=1e-3)
    np.testing.assert_allclose(optimum(problem, X), exact, rtol=2e-4)


@pytest.fixture(scope="module")
def family():
    """Return (10, 3): label lift, weight lift and optimum at weight 100."""
    rows = []
    for seed in SEEDS:
        X = points(seed)
        problem = declare(X, 100.0)
        rows.append((*bounds(problem), optimum(problem, X)))
    return np.array(rows)


def test_both_bounds_lie_below_the_optimum(family):
    assert np.all(family[:, :2] > 0.0)
    assert np.all(family[:, :2] <= family[:, 2:] * (1 + 1e-9))


def test_lifting_weights_at_least_doubles_the_bound_on_most_and_raises_it_by_half_on_all(family):
    ratio = family[:, 1] / family[:, 0]
    assert np.count_nonzero(ratio >= 2.0) >= 8
    assert np.median(ratio) >= 3.0
    assert ratio.min() >= 1.5
