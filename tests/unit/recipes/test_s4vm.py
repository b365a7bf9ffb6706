"""S4VM: the linear programme of the worst case against enumeration, and labels that stay safe."""

import itertools

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, RefusalError
from margindsl.relaxations.safe import Safe, gains, shares, worst_case


def points(n=40, labelled=3, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < n // 2, -1, 1)
    X = rng.standard_normal((n, 2)) * [0.6, 1.5] + truth[:, None] * [1.5, 0.0]
    y = np.zeros(n, dtype=int)
    for sign in (-1, 1):
        y[rng.permutation(np.flatnonzero(truth == sign))[:labelled]] = sign
    return X, truth, y


def counted(y, separator, known, caution):
    """Return earn − c · lose by counting, as the paper defines them."""
    earn = np.sum((y == separator) & (separator != known))
    lose = np.sum((y != separator) & (separator == known))
    return earn - caution * lose


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("clusters,points", [(2, 8), (3, 5)])
def test_the_linear_form_counts_what_is_earned_and_lost(seed, clusters, points):
    rng = np.random.default_rng(seed)
    separators, known = rng.integers(clusters, size=(5, points)), rng.integers(clusters, size=points)
    slopes, shifts = gains(separators, known, clusters, 3.0)
    best = -np.inf
    for y in map(np.array, itertools.product(range(clusters), repeat=points)):
        direct = [counted(y, s, known, 3.0) for s in separators]
        assert np.tensordot(slopes, shares(y, clusters), 2) + shifts == pytest.approx(direct)
        best = max(best, min(direct))
    relaxed = worst_case(slopes, shifts)
    assert np.all(relaxed >= -1e-9) and np.all(relaxed.sum(axis=1) <= 1 + 1e-9)
    assert np.min(np.tensordot(slopes, relaxed, 2) + shifts) >= best - 1e-9
    assert best >= 0  # y = y⁰ earns and loses nothing


def test_known_labels_and_the_ratio_are_kept_and_labels_are_good():
    X, truth, y = points()
    solution = md.recipes.s4vm(X, y, samples=20, balance=0.1).solve(random_state=0)
    free = y == 0
    assert np.array_equal(solution.labels[~free], y[~free])
    assert abs(solution.labels[free].sum()) <= 0.1 * free.sum() + 1
    assert np.mean(solution.labels == truth) >= 0.9
    assert (solution.relaxation, solution.predict(X[:3] + 0.01).shape) == ("safe", (3,))
    again = md.recipes.s4vm(X, y, samples=20, balance=0.1).solve(random_state=0)
    assert np.array_equal(again.labels, solution.labels)


def test_the_answer_is_chosen_by_worst_case_and_its_value_is_its_own():
    X, _, y = points(30, 2, seed=4)
    problem = md.recipes.s4vm(X, y, samples=15)
    safe = problem.solve(random_state=0)
    program = problem.program()
    labels = program.labels.names.read(safe.labels)
    assert safe.value == pytest.approx(program.objective(labels, safe.weights, safe.bias))
    lowest = problem.solve(md.Alternating(restarts=10, start="random"), random_state=0)
    assert lowest.value <= safe.value + 1e-6


@pytest.mark.parametrize("relaxation, coding", [
    (md.Safe(samples=10), "simplex"), (md.Transductive(), "crammer-singer")])
def test_few_known_labels_of_three_clusters_lead_to_the_others(relaxation, coding):
    rng, truth = np.random.default_rng(0), np.arange(36) % 3
    X = 3.0 * np.eye(3)[truth] + 0.5 * rng.standard_normal((36, 3))
    y, f = md.Labels(36, clusters=3), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 9 * md.mean(md.hinge(md.margin(y, f, coding=coding)))),
                         [y[np.arange(6)] == truth[:6]])
    solution = problem.solve(relaxation, random_state=0)
    assert np.array_equal(solution.labels, truth)
    fixed = md.Problem(problem.objective, [y == truth]).solve("supervised")
    assert solution.value == pytest.approx(fixed.value, rel=1e-6)


def test_refusals():
    X, _, _ = points()
    with pytest.raises(RefusalError, match="begins with the hyperplane of the known labels, and none is known"):
        md.recipes.odmc(X).solve(relaxation=Safe(), solver="newton")
    with pytest.raises(DeclarationError, match="^s4vm: no point is labelled"):
        md.recipes.s4vm(X, np.ones(len(X)))
    with pytest.raises(DeclarationError, match=r"^s4vm\(balance=-1\)"):
        md.recipes.s4vm(X, np.ones(len(X)), balance=-1)
    with pytest.raises(DeclarationError, match=r"Safe\(caution=0\): expected a positive finite number"):
        Safe(caution=0)
    with pytest.raises(DeclarationError, match=r"Safe\(polish='search'\): expected 'none' alone"):
        Safe(polish="search")
