"""Branch and bound against enumeration: same optimum, valid bounds, proofs that verify."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import margindsl as md
from margindsl.errors import DeclarationError, TrivialityWarning

TOL = 1e-5


def losses(g, kind):
    return {"hinge": lambda: md.hinge(g), "squared": lambda: md.squared_hinge(g),
            "odm": lambda: md.odm(g, 0.5, 0.2), "steep": lambda: md.odm(g, 1.0, 0.3),
            "mixed": lambda: md.hinge(g) + md.odm(g, 0.4, 0.1), "least squares": lambda: md.square(1 - g)}[kind]()


KINDS = ("hinge", "squared", "odm", "steep", "mixed", "least squares")


def random_problem(seed):
    """Return a problem of up to 9 points with links, balance and known labels that some labelling satisfies."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 10)), int(rng.integers(1, 4))
    truth = np.where(rng.random(n) < 0.5, 1, -1)
    truth[:2] = 1, -1
    X = rng.normal(size=(n, d)) + rng.uniform(0, 1.5) * truth[:, None] * rng.normal(size=d)
    y = md.Labels(n)
    f = md.Hyperplane(X, bias="penalised" if rng.random() < 0.3 else False)
    kind, weight = KINDS[seed % len(KINDS)], float(rng.choice([0.5, 3.0, 30.0]))
    constraints = []
    for _ in range(int(rng.integers(0, 4))):
        i, j = map(int, rng.choice(n, 2, replace=False))
        constraints.append(y[i] == y[j] if truth[i] == truth[j] else y[i] != y[j])
    if rng.random() < 0.4:
        known = rng.choice(n, 2, replace=False)
        constraints.append(y[known.tolist()] == truth[known])
    style = rng.random()
    if style < 0.5:
        constraints.append(abs(md.sum(y)) <= abs(int(truth.sum())) + int(rng.integers(0, 2)))
    elif style < 0.8:
        weights = rng.integers(1, 4, n).astype(float)
        constraints += [md.sum(weights * y) >= weights @ truth - 1, md.sum(weights * y) <= weights @ truth + 2]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(losses(y * f, kind))), constraints)


def solve(problem, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrivialityWarning)
        return problem.solve(md.Exact(**options), random_state=0)


def test_an_enumeration_that_a_limit_stops_proves_what_it_has_seen():
    stopped = 0
    for seed in range(5):
        whole, problem = solve(random_problem(seed), method="enumeration", starts=0), random_problem(seed)
        cut = problem.solve(md.Exact(method="enumeration", starts=0), random_state=0, max_iter=1)
        assert cut.bound <= whole.value * (1 + 1e-7) + 1e-12 and cut.verify()
        assert cut.status == "iteration_limit" or cut.value == pytest.approx(whole.value, rel=1e-5)
        stopped += cut.status == "iteration_limit"
    assert stopped


@pytest.mark.parametrize("method", [md.Exact, md.Supervised, md.Safe])
def test_a_polish_that_nothing_would_follow_is_refused(method):
    assert method(polish=False) == method(polish="none") == method()
    with pytest.raises(DeclarationError, match=rf"{method.__name__}\(polish=True\): expected 'none' alone"):
        method(polish=True)


def test_branching_finds_the_optimum_of_enumeration():
    for seed in range(10):  # tests/fuzz has thousands more
        problem = random_problem(seed)
        best = solve(problem, method="enumeration", starts=0).value
        found = solve(problem, method="branching", tol=TOL, starts=seed % 2)
        scale = max(abs(best), 1e-9)
        assert best - TOL * scale <= found.value * (1 + 1e-8) + 1e-12, seed
        assert found.value <= best + (TOL + 1e-7) * scale, seed
        assert found.bound <= best + 1e-8 * scale, seed
        assert found.value - found.bound <= (TOL + 1e-8) * scale, seed
        assert found.verify(), seed


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(1000, 10**6), nodes=st.integers(1, 6))
def test_a_stopped_tree_has_a_valid_bound(seed, nodes):
    problem = random_problem(seed)
    best = solve(problem, method="enumeration", starts=0).value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrivialityWarning)
        found = problem.solve(md.Exact(method="branching", tol=1e-6, starts=0), max_iter=nodes, random_state=0)
    scale = max(abs(best), 1e-9)
    assert np.isfinite(found.bound)
    assert found.bound <= best + 1e-8 * scale
    assert found.value >= best - 1e-8 * scale
    assert found.verify()


@settings(deadline=None, max_examples=2)
@given(seed=st.integers(0, 10**6))
def test_signs_order_and_rotation_of_the_points_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    n = 12
    X = rng.normal(size=(n, 3))
    X -= X.mean(axis=0)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))

    def value(points):
        y = md.Labels(n)
        f = md.Hyperplane(points)
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 8 * md.mean(md.odm(y * f, 0.4, 0.2))),
                             [abs(md.sum(y)) <= 2])
        return solve(problem, method="branching", tol=1e-5).value

    reference = value(X)
    for other in (-X, X[rng.permutation(n)], X @ rotation):
        assert value(other) == pytest.approx(reference, rel=2e-5)
