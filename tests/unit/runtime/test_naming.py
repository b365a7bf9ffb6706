"""Answers that differ in names only: which one is given, and that everything else follows it."""

import dataclasses

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget
from margindsl.labelset.names import by_first_point
from margindsl.runtime.stages import canonical

rng = np.random.default_rng(4)
X = rng.normal(scale=0.5, size=(12, 3)) + np.where(np.arange(12) % 3 == 0, 1.5, -1.0)[:, None]
THREE = rng.normal(scale=0.3, size=(15, 4)) + 3 * np.eye(3, 4)[np.arange(15) % 3]
RELAXATIONS = ["exact", "sdp", "minimax", "weight-lifting", "alternating", "cccp", "gmmc"]


def binary(*constraints, loss=md.squared_hinge, limit=6, **options):
    y, f = md.Labels(12), md.Hyperplane(X, **options)
    given = [make(y, f) for make in constraints] or [abs(md.sum(y)) <= limit]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(loss(y * f))), given)


def clusters(*constraints, coding="crammer-singer"):
    y, f = md.Labels(15, clusters=3), md.Hyperplane(THREE)
    margins = md.margin(y, f, coding=coding)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 9 * md.mean(md.squared_hinge(margins))),
                      [make(y) for make in constraints])


def assert_consistent(problem, solution):
    """Decision values, value and membership are those of the labels and weights that are shown."""
    program = problem.program()
    assert not program.labels.violations(solution.labels)
    decision = program.features.apply(np.asarray(solution.weights)) + solution.bias
    assert np.allclose(decision, solution.decision, atol=1e-9)
    names = program.labels.names
    margins = program.margins(names.read(solution.labels), names.table(solution.decision))
    norm = float(np.sum(np.square(solution.weights)))
    if program.coding == "simplex":
        norm *= (program.clusters - 1) / program.clusters  # W = V codes' has |W|^2 = |V|^2 k/(k-1)
    scalars = np.array(list(solution.scalars.values()))
    value = program.to_user(norm / 2 + program.losses.value(margins, scalars if len(scalars) else None))
    assert value == pytest.approx(solution.value, rel=1e-8)
    if solution.certificate is not None:
        assert solution.verify()


@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_the_first_point_is_positive_where_signs_mean_nothing(relaxation):
    problem = binary()
    solution = problem.solve(relaxation, random_state=0)
    assert solution.labels[0] == 1
    assert_consistent(problem, solution)


@pytest.mark.parametrize("bias", [False, True, "penalised"])
@pytest.mark.parametrize("loss", [
    lambda g: md.mean(md.hinge(g)), lambda g: md.mean(md.odm(g)), lambda g: md.mean_variance(g, eta=1.0, lam=2.0)])
def test_weights_bias_and_scalars_follow(loss, bias):
    y, f = md.Labels(12), md.Hyperplane(X, bias=bias)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss(y * f)), [abs(md.sum(y)) <= 4])
    solution = problem.solve(md.Alternating(restarts=1, polish="none"), random_state=1)
    assert solution.labels[0] == 1
    assert_consistent(problem, solution)
    assert np.array_equal(solution.predict(X), np.where(solution.decision >= 0, 1, -1))


def test_every_labelling_of_a_mixture_has_its_own_sign():
    solution = binary().solve("minimax")
    labellings, _ = solution.label_weights
    assert np.all(labellings[:, 0] == 1)


def test_a_start_of_the_other_sign_gives_the_same_answer():
    problem = binary(bias=True)
    plain = problem.solve("alternating", random_state=0)
    again = problem.solve("alternating", warm_start=-plain.labels, random_state=0)
    assert np.array_equal(plain.labels, again.labels)
    assert plain.value == pytest.approx(again.value, rel=1e-9)
    assert np.allclose(plain.decision, again.decision, atol=1e-6)


def test_a_start_that_was_changed_by_hand_is_not_the_answer():
    y, f = md.Labels(12), md.Hyperplane(np.random.default_rng(1).normal(size=(12, 6)))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.squared_hinge(y * f))), [abs(md.sum(y)) <= 2])
    best = problem.solve("exact")
    changed = dataclasses.replace(best, labels=np.where(np.arange(12) < 6, 1, -1))
    solution = problem.solve(md.Alternating(restarts=1, polish="none"), warm_start=changed, random_state=0)
    assert solution.value > best.value + 0.1  # or the start would not have been looked at
    assert_consistent(problem, solution)


def fitted_value(program, labels):
    form = program.fix_labels(labels)
    raw = md.Solver("newton").solve(form, Budget(tol=1e-9))
    return form.objective(raw["w"], raw["bias"], raw["scalars"])


@pytest.mark.parametrize("constraint", [
    lambda y, f: y[0] == -1,
    lambda y, f: md.sum(y) >= 2,
    lambda y, f: md.sum(f) >= 1.0,
    lambda y, f: md.sizes(y, at_least=[2, 4]),
    lambda y, f: md.sum(np.arange(6) * y) == 9], ids=["known", "sum", "decision", "sizes", "weighted"])
def test_signs_stay_where_something_tells_them_apart(constraint):
    """The best labelling of all, whose first point is negative in each of these."""
    y, f = md.Labels(6), md.Hyperplane(X[:6], centre=False)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.squared_hinge(y * f))), [constraint(y, f)])
    program = problem.program()
    members = list(program.labels.enumerate())
    best = members[int(np.argmin([fitted_value(program, labels) for labels in members]))]
    solution = problem.solve("exact")
    assert np.array_equal(solution.labels, program.labels.names.written(best))
    assert all(np.array_equal(canonical(program, labels), [0, 1]) for labels in members)
    assert_consistent(problem, solution)


@pytest.mark.parametrize("coding, relaxation", [
    ("crammer-singer", "alternating"), ("crammer-singer", "cccp"), ("simplex", "alternating"), ("simplex", "sdp")])
def test_clusters_are_numbered_by_first_appearance(coding, relaxation):
    problem = clusters(lambda y: md.sizes(y, at_least=4, at_most=6), coding=coding)
    solution = problem.solve(relaxation, random_state=0)
    assert solution.labels.tolist() == [0, 1, 2] * 5
    assert np.array_equal(solution.decision.argmax(axis=1), solution.labels)
    assert np.array_equal(solution.predict(THREE), solution.labels)
    assert_consistent(problem, solution)


@pytest.mark.parametrize("known,expected", [({0: 1}, [1, 0, 2]), ({5: 1}, [0, 2, 1])])
def test_a_cluster_with_a_known_point_keeps_its_name(known, expected):
    index, values = np.array(list(known)), np.array(list(known.values()))
    problem = clusters(lambda y: md.sizes(y, at_least=4, at_most=6), lambda y: y[index] == values)
    solution = problem.solve(md.Alternating(restarts=5), random_state=0)
    assert solution.labels.tolist() == expected * 5
    assert_consistent(problem, solution)


def test_only_clusters_of_equal_size_bounds_exchange_names():
    """Points 3, 4, ... of cluster three are dropped, so that one cluster has two points and keeps its name."""
    points = np.delete(THREE, [2, 5, 8], axis=0)  # sizes 5, 5, 2
    y, f = md.Labels(12, clusters=3), md.Hyperplane(points)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 9 * md.mean(md.squared_hinge(md.margin(y, f)))),
                         [md.sizes(y, at_least=[2, 4, 4], at_most=[3, 6, 6])])
    solution = problem.solve("alternating", random_state=0)
    assert solution.labels.tolist() == [1, 2, 1, 2, 1, 2, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("labels,groups,expected", [
    ([2, 0, 1, 1], [0, 0, 0], [0, 1, 2, 2]),
    ([2, 0, 1, 1], [0, 1, 1], [1, 0, 2, 2]),
    ([2, 2, 2], [0, 0, 0], [0, 0, 0]),
    ([3, 1, 2], [0, 1, 0, 1], [1, 3, 0])])
def test_names_by_first_point(labels, groups, expected):
    """By hand; every renaming is a permutation inside the groups and a second one changes nothing."""
    labels, groups = np.array(labels), np.array(groups)
    order = np.argsort(groups, kind="stable")
    names = by_first_point(labels, groups, order)
    renamed = names[labels]
    assert renamed.tolist() == expected
    assert np.array_equal(groups[names], groups) and np.array_equal(np.sort(names), np.arange(len(groups)))
    assert np.array_equal(by_first_point(renamed, groups, order)[renamed], renamed)
    outputs = np.arange(len(groups))[None] * np.ones((len(labels), 1))
    assert np.array_equal(outputs[:, np.argsort(names)][np.arange(len(labels)), renamed], labels)


def test_sizes_are_told_in_the_order_in_which_they_are_bounded():
    y, f = md.Labels(12), md.Hyperplane(np.random.default_rng(0).normal(size=(12, 2)))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [
        md.sizes(y, at_least=[2, 7], at_most=[5, 10])])
    found = problem.solve("alternating", random_state=0)
    assert 2 <= found.cluster_sizes[0] <= 5
    assert found.cluster_sizes == tuple(np.unique(found.labels, return_counts=True)[1])
