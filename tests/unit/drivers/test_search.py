"""Local search: estimates against fits, groups, hops in B, never worse, better where flips stick."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.contract import Budget
from margindsl.drivers import moves as moving
from margindsl.drivers import run as running
from margindsl.drivers.alternation import ROUGH, alternate
from margindsl.drivers.moves import (
    candidate_moves,
    estimate_moves,
    regroupings,
)
from margindsl.drivers.run import Run
from margindsl.drivers.search import escape, hop, lowest_ends, repeated, search, tabu_search
from margindsl.metrics import clustering_accuracy
from margindsl.runtime.registry import make_solver


def blobs(seed, groups=6, each=12, d=5, spread=0.5):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(groups, d))
    return np.repeat(centres, each, axis=0) + spread * rng.normal(size=(groups * each, d)) / np.sqrt(d)


def digits(first, second):
    points, target = load_digits(return_X_y=True)
    chosen = np.isin(target, (first, second))
    return points[chosen][:80] / 16, np.where(target[chosen] == first, 1, -1)[:80]


def declare(X, weight, constraints=(), loss=None, kernel="linear"):
    y, f = md.Labels(len(X)), md.Hyperplane(X, kernel=kernel)
    loss = md.odm(y * f, nu=0.4, theta=0.2) if loss is None else loss(y * f)
    rules = [abs(md.sum(y)) <= 0.2 * len(X), *(make(y) for make in constraints)]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(loss)), rules)


def several(X, clusters, loss=md.hinge, coding="simplex", **bounds):
    y, f = md.Labels(len(X), clusters=clusters), md.Hyperplane(X)
    loss = md.mean(loss(md.margin(y, f, coding=coding)))
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * loss), [md.sizes(y, **bounds)])


def start(problem, seed=0, **budget):
    newton = make_solver("newton")
    return Run(problem.program(), newton, newton, Budget(**budget), np.random.default_rng(seed))


LINKED = (lambda y: md.must_link(y, [(0, 1), (1, 2), (20, 21)]), lambda y: md.cannot_link(y, [(3, 30), (30, 40)]),
          lambda y: y[np.array([5, 60])] == np.array([1, -1]))


def test_never_worse_and_in_b():
    run = start(declare(blobs(1), 30.0, LINKED), 1)
    fit = alternate(run, run.program.labels.sample(np.random.default_rng(1), 1)[0])
    small = search(run, fit)
    large = escape(run, [small], 2)
    assert small.value <= fit.value and large.value <= small.value
    assert run.program.labels.contains(small.labels) and run.program.labels.contains(large.labels)
    form = run.program.fix_labels(large.labels)
    assert large.value == pytest.approx(form.objective(large.w, large.bias, large.scalars), rel=1e-12)


def test_a_labelling_is_fitted_again_only_for_a_higher_accuracy(monkeypatch):
    run = start(declare(blobs(0), 30.0))
    labels, other = run.program.labels.sample(np.random.default_rng(0), 2)
    best = run.fit(labels, tol=1e-8)
    cut = run.fit(other, tol=1e-8, cutoff=0.0)  # no value is below it: proved at once, and fitted no further
    assert run.fit(labels.copy(), tol=1e-5) is best and run.fit(other, cutoff=-1.0) is cut
    fitted = run.fit(other, tol=1e-8)
    assert fitted.value <= cut.value and run.fit(other, cutoff=cut.value) is fitted
    monkeypatch.setattr(running, "REMEMBERED", 0)  # nothing is kept of programs too large for it
    fresh = start(declare(blobs(0), 30.0))
    first = fresh.fit(labels)
    fresh.fit(other)
    assert fresh.fit(labels) is not first


def test_escapes_where_small_moves_stick():
    """Digits 2 against 7 at weight 100, from random labels: only escapes reach the truth's own value."""
    X, truth = digits(2, 7)
    run = start(declare(X, 100.0))
    labels = run.program.labels.sample(np.random.default_rng(5), 1)[0]
    small = search(run, alternate(run, labels))
    large = escape(run, [small], 2)
    from_truth = alternate(run, run.program.labels.nearest((truth > 0).astype(int)))
    assert small.value > 1.05 * from_truth.value >= 1.05 * large.value * (1 - 1e-7)
    assert clustering_accuracy(truth, large.labels) > 0.99


def test_small_problems_end_at_the_enumerated_optimum():
    rng = np.random.default_rng(0)
    problem = declare(rng.normal(size=(9, 3)), 8.0)
    best = problem.solve("exact").value
    run = start(problem)
    values = [escape(run, [alternate(run, labels)], 4).value for labels in run.program.labels.sample(rng, 2)]
    assert min(values) == pytest.approx(best, rel=1e-5)
    assert all(value >= best * (1 - 1e-6) for value in values)


def test_groups_are_members_of_b_with_the_second_order_estimate():
    run = start(declare(blobs(3), 30.0, LINKED))
    fit = alternate(run, run.program.labels.sample(np.random.default_rng(0), 1)[0])
    moves = estimate_moves(run, fit)
    groups = moving._groups(run, fit, moves, 5)
    assert groups
    for total, chosen in groups:
        group = np.array(chosen)
        assert 3 <= len(group) == len(set(moves.components[group])) and total < 0
        labels = run.program.labels.moved(fit.labels, moves.components[group], moves.positions[group])
        assert run.program.labels.contains(labels)
        cross = moves.gradient[group] @ moves.gradient[group].T
        expected = moves.estimate[group].sum() - (cross.sum() - np.trace(cross)) / 2
        assert total == pytest.approx(expected, rel=1e-9)


def test_candidates_are_members_of_b():
    run = start(declare(blobs(2), 30.0, LINKED))
    fit = alternate(run, run.program.labels.sample(np.random.default_rng(0), 1)[0])
    moves = candidate_moves(run, fit, 6)
    assert moves
    for labels in moves:
        assert run.program.labels.contains(labels)


@pytest.mark.parametrize("clusters", [2, 3])
def test_candidates_below_the_fit_have_an_optimum_below_it(clusters):
    y, f = md.Labels(24, clusters=clusters), md.Hyperplane(np.random.default_rng(5).normal(size=(24, 3)), bias=False)
    margin = y * f if clusters == 2 else md.margin(y, f, coding="simplex")
    run = start(md.Problem(md.Minimize(md.sq_norm(f) / 2 + 2 * md.sum(md.squared_hinge(margin)))))
    fit = run.fit(run.program.labels.sample(np.random.default_rng(1), 1)[0], tol=1e-9)
    several = candidate_moves(run, fit, 8)
    assert len(several) > 1  # each was proposed by a hyperplane that is lower than the fit
    assert all(run.fit(labels, tol=1e-9).value < fit.value for labels in several)


@pytest.mark.parametrize("problem", [
    declare(blobs(1), 30.0, LINKED), declare(blobs(1), 30.0, loss=md.hinge, kernel=md.RBF("median")),
    several(blobs(1), 3, at_least=4)], ids=["links", "hinge", "clusters"])
def test_ends_of_hops_are_other_members_of_b_the_lowest_first(problem):
    run = start(problem)
    sampled = run.program.labels.sample(np.random.default_rng(0), 8)
    found = hop(run, run.fit(sampled[0]), 5)
    values = [run.fit(labels).value for labels in found]
    assert len({labels.tobytes() for labels in found}) == len(found) == 5
    assert all(run.program.labels.contains(labels) for labels in found)
    assert values == pytest.approx(sorted(values), rel=1e-6)
    assert max(values) < min(run.fit(labels).value for labels in sampled)


RULES = {
    "two": (2, lambda y: [abs(md.sum(y)) <= 2]), "exact balance": (2, lambda y: [md.sum(y) == 0]),
    "few free": (2, lambda y: [y[: y.n - 2] == np.where(np.arange(y.n - 2) % 2, -1, 1)]),
    "three, few free": (3, lambda y: [y[: y.n - 3] == 2 - np.arange(y.n - 3) % 3]),
    "links": (2, lambda y: [md.must_link(y, [(0, 1), (1, 2)]), md.cannot_link(y, [(3, 4)]), y[5] == 1, y[6] == -1]),
    "three": (3, lambda y: [md.sizes(y, at_least=2)]),
    "three linked": (3, lambda y: [md.must_link(y, [(0, 1)]), md.cannot_link(y, [(2, 3), (3, 4), (2, 4)]), y[8] == 1])}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_tabu_search_finds_the_optimum_of_least_squares_among_members_of_b(rule, bias):
    clusters, rules = RULES[rule]
    for seed, n in enumerate((10, 9, 12) if clusters == 3 else (10, 8, 10)):
        X = np.random.default_rng(seed).normal(size=(n, 4))
        y, f = md.Labels(len(X), clusters=clusters), md.Hyperplane(X, bias=bias)
        margin = y * f if clusters == 2 else md.margin(y, f, coding="simplex")
        run = start(md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.square(1 - margin))), rules(y)))
        found = tabu_search(run)
        assert all(run.program.labels.contains(labels) for labels in found)
        assert len({labels.tobytes() for labels in found}) == len(found)
        if clusters == 2:  # where the squares are those of the losses
            values = [run.fit(labels).value for labels in run.program.labels.enumerate()]
            assert min(run.fit(labels).value for labels in found) == pytest.approx(min(values), rel=1e-6)


def test_tabu_search_is_of_losses_that_rise_on_both_sides():
    points = blobs(1, d=9)
    assert tabu_search(start(declare(points, 30.0))) and not tabu_search(start(declare(points, 30.0, loss=md.hinge)))


def test_hops_take_the_losses_of_as_many_copies():
    losses = declare(blobs(0), 30.0, loss=lambda m: md.hinge(m) + md.odm(2 * m, nu=0.4, theta=0.2)).program().losses
    margins = np.random.default_rng(0).normal(size=(3, losses.n))
    assert repeated(losses, 3).value(margins.ravel()) == pytest.approx(sum(losses.value(row) for row in margins))


@pytest.mark.parametrize("kernel", ["linear", md.RBF("median")], ids=["linear", "rbf"])
def test_single_labelling_and_tiny_sets(kernel):
    X = np.array([[0.0, 0.1], [0.2, 0.0], [1.0, 1.1], [1.2, 1.0]])
    known = (lambda y: y[np.arange(4)] == np.array([1, 1, -1, -1]),)
    for rules in ((), known):
        run = start(declare(X, 5.0, rules, kernel=kernel))
        fit = alternate(run, run.program.labels.nearest([1, 0, 1, 0]))
        assert escape(run, [fit], 3).value <= fit.value


def test_an_expired_budget_returns_the_fit_itself():
    run = start(declare(blobs(0), 30.0))
    fit = alternate(run, run.program.labels.sample(np.random.default_rng(0), 1)[0])
    late = start(declare(blobs(0), 30.0), deadline=0.0)
    assert escape(late, [fit], 4) is fit


def test_the_callback_stops_it():
    X, _ = digits(2, 7)
    run = start(declare(X, 100.0), callback=lambda progress: progress.stage == "escape")
    fit = alternate(run, run.program.labels.sample(np.random.default_rng(5), 1)[0])
    assert escape(run, [fit], 2).value < fit.value
    assert sum(record.stage == "escape" for record in run.history) == 1


def test_search_of_several_clusters_leaves_where_small_moves_stick():
    """From one random labelling it ends no higher than any of ten."""
    problem = several(blobs(4, groups=7, each=2, spread=0.9), 3, at_least=2, at_most=8)
    searched = problem.solve(md.Alternating(restarts=1, start="random", polish="search"), random_state=0)
    plain = problem.solve(md.Alternating(restarts=10, start="random", polish="none"), random_state=1)
    assert searched.value <= plain.value * (1 + 1e-6)


@pytest.mark.parametrize("coding", ["simplex", "crammer-singer"])
def test_rough_descents_end_in_b_lower_than_they_begin_in_coded_margins(coding):
    run = start(several(blobs(2, groups=5, each=4), 3, md.squared_hinge, coding, at_least=4, at_most=9))
    starts = list(run.program.labels.sample(run.rng, 6))
    coded = run.coded()
    found = lowest_ends(run, starts, 4)
    values = [coded.fit(labels).value for labels in found]
    assert 1 <= len(found) <= 4 and all(run.program.labels.contains(labels) for labels in found)
    assert min(values) <= min(coded.fit(labels).value for labels in starts) * (1 + ROUGH)
    assert (run.best is None) == (coding == "crammer-singer")  # whose own fits cost more, and none was made


def test_coded_margins_bound_those_of_crammer_and_singer():
    run = start(several(blobs(3, groups=5, each=4), 4, md.squared_hinge, "crammer-singer", at_least=2))
    coded = run.coded()
    for labels in run.program.labels.sample(run.rng, 4):
        assert coded.fit(labels).value <= run.fit(labels).value * (1 + 1e-6)


def test_the_first_regrouping_parts_what_was_merged_and_merges_what_was_parted():
    truth = np.repeat(np.arange(4), 6)
    X = 10.0 * np.eye(4)[truth] + np.random.default_rng(0).normal(size=(24, 4))
    run = start(several(X, 4, at_least=2, at_most=14))
    found = regroupings(run, run.fit(np.repeat([0, 0, 1, 2, 3], [6, 6, 6, 3, 3])), 6)
    assert clustering_accuracy(truth, found[0]) == 1.0
    assert len(found) <= 6 and all(run.program.labels.contains(labels) for labels in found)


def test_regroupings_keep_links_and_known_labels():
    X = blobs(1, groups=3, each=6, spread=0.9)
    y, f = md.Labels(len(X), clusters=3), md.Hyperplane(X)
    loss = md.mean(md.hinge(md.margin(y, f, coding="simplex")))
    run = start(md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * loss), [
        md.sizes(y, at_least=4), md.must_link(y, [(0, 6), (7, 13)]), md.cannot_link(y, [(1, 2)]),
        y[np.array([3])] == 2]))
    fit = run.fit(run.program.labels.sample(run.rng, 1)[0])
    found = regroupings(run, fit, 20)
    assert len(found) > 1 and all(run.program.labels.contains(labels) for labels in found)


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_is_cut_off_only_where_it_is_no_lower(seed):
    """With a shared threshold the value at w = 0 is zero, and a dual point there proves nothing yet."""
    X = blobs(seed, groups=2, each=15)
    run = start(md.recipes.skmmc(X, C=3.0), seed)
    good, other = np.repeat([0, 1], 15), np.tile([0, 1], 15)
    least, most = sorted(start(md.recipes.skmmc(X, C=3.0)).fit(labels).value for labels in (good, other))
    fits = [run.fit(labels, cutoff=most - 1e-3 * abs(most)) for labels in (good, other)]
    assert least < most - 1e-3 * abs(most) and min(fit.value for fit in fits) == pytest.approx(least, rel=1e-6)


def test_known_labels_alone_may_leave_no_least_value():
    """The scalar costs what all points weigh, of which the known ones have a part."""
    X = np.random.default_rng(0).normal(size=(8, 2))
    y, f, rho = md.Labels(8), md.Hyperplane(X), md.Scalar(nonneg=True)
    total = md.sq_norm(f) / 2 + md.sum(md.pos(rho - y * f)) - 4 * rho
    problem = md.Problem(md.Minimize(total), [y[0] == 1, y[1] == -1])
    assert np.isfinite(problem.solve("exact", random_state=0).value)
