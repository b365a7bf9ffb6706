"""Labels from elsewhere: their value, a bound that holds for them, what they break, and what is better."""

import itertools
import time

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.host import clock

rng = np.random.default_rng(7)
X = rng.normal(size=(10, 2)) + np.where(np.arange(10) % 2 == 0, 1.2, -1.2)[:, None]


def declared(clusters=2, make=lambda y, f: [], points=X):
    y, f = md.Labels(len(points), clusters=clusters), md.Hyperplane(points)
    margins = y * f if clusters == 2 else md.margin(y, f)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(margins))), make(y, f))


def balanced(y, f):
    return [abs(md.sum(y)) <= 2]


@pytest.mark.parametrize("clusters, make", [(2, balanced), (2, lambda y, f: [abs(md.sum(f)) <= 1]),
                                            (3, lambda y, f: [md.sizes(y, at_least=1)])])
def test_value_and_bound_hold_for_the_labels(clusters, make):
    points = X if clusters == 2 else X[:5]
    problem = declared(clusters, make, points)
    own = (-1, 1) if clusters == 2 else range(clusters)
    given = next(np.array(row) for row in itertools.product(own, repeat=len(points))
                 if not problem.program().labels.violations(np.array(row)) and len(set(row[:3])) > 1)
    found = md.certify(problem, given, random_state=0)
    assert found.violations == () and np.array_equal(found.labels, given)
    assert found.value == pytest.approx(problem.at_labels(given).solve("supervised").value, rel=1e-9)
    best = problem.solve("exact").value
    assert found.bound <= best + 1e-9 * abs(best) and best <= found.value + 1e-9 * abs(best)
    assert found.gap == pytest.approx((found.value - found.bound) / found.value)
    assert found.better is None or found.better.value < found.value
    assert "gap" in found.summary() and "in B" in repr(found)


@pytest.mark.parametrize("names", [("a", "b"), (7.5, -3.0), (True, False)])
def test_names_mean_nothing(names):
    problem = declared(make=balanced)
    sides = np.arange(10) % 2
    values = [md.certify(problem, np.array(names)[s], "alternating", random_state=0).value for s in (sides, 1 - sides)]
    assert values == pytest.approx([problem.at_labels(2 * sides - 1).solve("supervised").value] * 2, rel=1e-9)


def test_an_earlier_solution_is_assessed_at_its_labels():
    problem = declared(make=balanced)
    earlier = problem.solve("alternating", random_state=0)
    found = md.certify(problem.with_constraints([problem.labels[0] == 1], problem.labels[1] == -1), earlier)
    assert np.array_equal(found.labels, earlier.labels) or np.array_equal(found.labels, -earlier.labels)
    assert found.value == pytest.approx(earlier.value, rel=1e-6)


def test_names_are_those_that_break_the_fewest_constraints():
    problem = declared(make=lambda y, f: [y[0] == 1, y[3] == -1])
    found = md.certify(problem, np.arange(10) % 2, "alternating")
    assert found.violations == () and found.labels[0] == 1
    three = declared(3, lambda y, f: [y[0] == 2, y[1] == 0])
    assert md.certify(three, ["x", "y", "z"] * 3 + ["x"], "alternating").violations == ()


def test_labels_outside_are_told_what_they_break_and_get_no_gap():
    problem = declared(make=lambda y, f: [abs(md.sum(y)) <= 2, y[0] == y[1]])
    found = md.certify(problem, [1] * 9 + [-1], random_state=0)
    assert len(found.violations) == 1 and np.isnan(found.gap) and found.better is found.answer
    assert not problem.program().labels.violations(found.better.labels)
    assert "broken" in found.summary()


@pytest.mark.parametrize("labels, words", [
    ([1] * 9, "one label for each of 10 points"), (["a"] * 9 + [None], "missing"), ([0.0] * 9 + [np.nan], "finite"),
    ([0, 1, 2] * 3 + [0], "3 clusters, and the problem has 2"), ([[1]] * 10, "shape"),
])
def test_what_is_no_clustering_is_refused(labels, words):
    with pytest.raises(DeclarationError, match=words):
        md.certify(declared(), labels)


@pytest.mark.parametrize("relaxation", ["alternating", "cccp", "sdp", "weight-lifting"])
def test_a_solve_starts_from_labels_and_ends_no_higher(relaxation):
    problem = declared(make=balanced)
    start = np.where(np.arange(10) < 5, "left", "right")
    value = problem.at_labels(np.where(np.arange(10) < 5, -1, 1)).solve("supervised").value
    solution = problem.solve(relaxation, warm_start=start, random_state=0)
    assert solution.value <= value * (1 + 1e-9) and not problem.program().labels.violations(solution.labels)


def test_time_limit_holds_for_all_of_it():
    points = rng.normal(size=(3_000, 30))
    began = time.process_time()
    found = md.certify(declared(make=lambda y, f: [abs(md.sum(y)) <= 90], points=points), rng.integers(0, 2, 3_000),
                       time_limit=1.0)
    used = min(found.answer.timings["total"], time.process_time() - began)  # of a busy machine others have a part
    assert used <= 1.0 + 2 * clock.LEAST_ALLOWANCE and np.isfinite(found.value)


def test_a_checkpoint_is_of_the_solve_that_proves_the_bound(tmp_path):
    problem, given = declared(make=balanced), np.arange(10) % 2
    first, again = (md.certify(problem, given, random_state=0, checkpoint=tmp_path / "run") for _ in range(2))
    assert again.bound == pytest.approx(first.bound, rel=1e-6) and again.value == first.value
