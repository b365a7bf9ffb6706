"""The held-out loss of labellings: against a plain recomputation, invariances, choices, errors."""

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, RefusalError
from margindsl.selection import held_out_losses, judges_of, select


def blobs(seed=0, each=20):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * each, 3)) + np.repeat([[-2.0, 0.0, 0.0], [2.0, 0.0, 0.0]], each, axis=0)
    return X, np.repeat([1, -1], each)


def declare(X, weight=10.0, kernel="linear", loss=None, rules=(), bias=False):
    y, f = md.Labels(len(X)), md.Hyperplane(X, kernel=kernel, bias=bias)
    loss = md.mean(md.odm(y * f, nu=0.4, theta=0.2)) if loss is None else loss(y * f)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * loss), [make(y) for make in rules])


def test_it_is_the_held_out_loss_of_ridge_regression():
    """Squared loss of the margin: y_i f_i fitted on the other folds has a closed form."""
    X, truth = blobs()
    n, weight = len(X), 7.0
    problem = declare(X, weight, loss=lambda g: md.mean(md.square(1 - g)))
    other = np.where(X[:, 1] > 0, 1, -1)
    score = held_out_losses([problem], [truth, other], folds=n)[:, 0]
    Z = X - X.mean(axis=0)
    for value, labels in zip(score, (truth, other)):
        total = 0.0
        for i in range(n):
            keep = np.arange(n) != i
            c = 2 * weight / (n - 1)
            w = np.linalg.solve(np.eye(3) + c * Z[keep].T @ Z[keep], c * Z[keep].T @ labels[keep])
            total += (1 - labels[i] * (Z[i] @ w)) ** 2
        assert value == pytest.approx(total / n, rel=1e-4)


def test_true_clusters_beat_random_ones_under_every_judge():
    X, truth = blobs()
    judges = [declare(X), declare(X, kernel=md.RBF("median")), declare(X, loss=lambda g: md.mean(md.hinge(g)))]
    rng = np.random.default_rng(1)
    others = [rng.permutation(truth) for _ in range(4)]
    scores = held_out_losses(judges, [*others, truth])
    assert scores.shape == (5, 3) and np.all(scores[-1] < scores[:-1])
    assert select(judges, [*others, truth]) == 4


def test_invariances():
    X, truth = blobs(2)
    judges = [declare(X), declare(X, kernel=md.RBF("median"))]
    labellings = [truth, np.where(X[:, 1] > 0, 1, -1), np.where(X[:, 2] > 0, 1, -1)]
    scores = held_out_losses(judges, labellings)
    assert np.array_equal(held_out_losses(judges, [-y for y in labellings]), scores)
    assert np.array_equal(held_out_losses(judges[::-1], labellings[::-1]), scores[::-1, ::-1])
    assert np.array_equal(held_out_losses(judges, [truth, truth, -truth]), scores[[0, 0, 0]])
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    assert np.allclose(held_out_losses([declare(X @ turn)], labellings), scores[:, :1], rtol=1e-3)


def test_units_of_a_judge_change_no_choice():
    X, _ = blobs(3)
    labellings = [np.where(X[:, k] > 0, 1, -1) for k in range(3)]
    y, f = md.Labels(len(X)), md.Hyperplane(X)
    loss = md.mean(md.odm(y * f, nu=0.4, theta=0.2))
    doubled = md.Problem(md.Minimize(50 * (md.sq_norm(f) / 2 + 10 * loss)))
    plain = held_out_losses([declare(X)], labellings)
    assert np.allclose(held_out_losses([doubled], labellings), plain, rtol=1e-6)
    assert select([doubled], labellings) == select([declare(X)], labellings) == 0


def test_two_judges_who_differ_are_averaged_in_units_of_their_loss_at_zero():
    """The second judge does not see the clusters and prefers the other labels; only the units of its loss change."""
    X, truth = blobs(3)
    other = np.where(X[:, 1] > 0, 1, -1)

    seen = declare(X[:, :1], loss=lambda g: md.mean(md.square(1 - g)))
    losses = held_out_losses([seen, declare(X[:, 1:], loss=lambda g: md.mean(md.square(1 - g)))], [other, truth])
    assert np.all(np.diff(losses, axis=0) * [1, -1] < 0)
    for factor in (1e-3, 1.0, 1e3):
        blind = declare(X[:, 1:], 10.0 / factor, loss=lambda g, c=factor**0.5: md.mean(md.square(c - c * g)))
        scaled = held_out_losses([blind], [other, truth])[:, 0]
        assert np.allclose(scaled, factor * losses[:, 1], rtol=1e-4)
        assert select([seen, blind], [other, truth]) == np.argmin(losses.sum(axis=1))


def test_one_judge_who_finds_all_labels_almost_perfect_does_not_outvote_the_others():
    """Under the wide margins of copies both labellings cost next to nothing, at a ratio of thousands."""
    rng = np.random.default_rng(0)
    truth = np.repeat([1, -1], 30)
    clear = truth[:, None] * 3.0 + 0.1 * rng.normal(size=(60, 1))
    other = truth * np.where(np.arange(60) % 10 == 0, -1, 1)
    second = np.column_stack([other + 0.001 * rng.normal(size=60), truth + 0.1 * rng.normal(size=60)])
    judges = [declare(clear, 100.0), declare(second, 1e4)]
    scores = held_out_losses(judges, [other, truth])
    assert np.log(scores).sum(axis=1).argmin() == 0 and select(judges, [other, truth]) == 1


def test_points_of_a_must_link_are_held_out_together():
    """Every point is there twice, linked: with copies apart random labels would be predicted almost perfectly."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(20, 3)), 2, axis=0)
    labels = np.repeat(rng.permutation(np.repeat([1, -1], 10)), 2)
    pairs = [(2 * i, 2 * i + 1) for i in range(20)]
    kernel = md.RBF(0.3)
    apart = declare(X, 100.0, kernel=kernel)
    together = declare(X, 100.0, kernel=kernel, rules=[lambda y: md.must_link(y, pairs)])
    for folds in (10, None):
        scores = held_out_losses([apart, together], [labels], folds=folds)[0]
        assert scores[0] < 0.5 * scores[1]


def test_solutions_themselves_are_taken_and_the_state_decides_the_folds():
    X, _ = blobs(4)
    problem = declare(X, rules=[lambda y: abs(md.sum(y)) <= 4])
    solution = problem.solve("alternating", random_state=0)
    assert select([problem], [np.where(X[:, 1] > 0, 1, -1), solution]) == 1
    noisy = [np.where(X[:, 0] + X[:, 1] > 0, 1, -1)]
    first, again, other = (held_out_losses([problem], noisy, folds=5, random_state=s) for s in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_a_free_bias_is_refitted_in_every_fold():
    X, truth = blobs(5)
    y, f = md.Labels(40), md.Hyperplane(X + 3.0, bias=True, centre=False)
    shifted = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.squared_hinge(y * f))))
    scores = held_out_losses([shifted], [truth, np.where(X[:, 1] > 0, 1, -1)])
    assert scores[0] < 0.1 < scores[1]


def test_restrict_keeps_the_total_weight_and_its_proportions():
    X, _ = blobs(6)
    y, f = md.Labels(40), md.Hyperplane(X)
    loss = 3 * md.mean(md.hinge(y * f)[np.arange(10)]) + md.mean(md.squared_hinge(y * f))
    losses = md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss)).program().losses
    index = np.array([30, 2, 5, 17])
    kept = losses.restricted(index)
    assert kept.n == 4 and kept.weights.sum() == pytest.approx(losses.weights.sum())
    margins = np.random.default_rng(0).normal(size=40)
    hinge = np.maximum(1 - margins[index], 0)
    assert kept.value(margins[index]) == pytest.approx(3 * hinge[[1, 2]].mean() + (hinge**2).mean())
    assert losses.restricted(np.arange(40)).value(margins) == pytest.approx(losses.value(margins))


def test_shared_scalars_and_losses_that_ask_for_no_margin_are_refused():
    X, truth = blobs()
    with pytest.raises(RefusalError, match="a loss with a shared scalar is none by itself. Judge with"):
        select([declare(X, loss=lambda g: md.mean_variance(g, eta=1.0, lam=5.0))], [truth])
    with pytest.raises(DeclarationError, match="the loss of margins zero is 0 in a problem.*a loss that asks for a"):
        select([declare(X), declare(X, loss=lambda g: md.mean(md.maximum(-g, 0.0)))], [truth])


@pytest.mark.parametrize("loss, bias", [
    ("odm", False), ("squared", True), ("squared hinge", False), ("logistic", True), ("odm", True)])
def test_leaving_one_out_by_a_newton_step_agrees_with_refits(loss, bias):
    atom = {"odm": lambda g: md.odm(g, nu=0.4, theta=0.2), "squared": lambda g: md.square(1 - g),
            "squared hinge": md.squared_hinge, "logistic": lambda g: md.logistic(-g)}[loss]
    X, truth = blobs(7)
    problem = declare(X, 5.0, loss=lambda g: md.mean(atom(g)), bias=bias)
    labellings = [truth, np.where(X[:, 1] > 0, 1, -1)]
    exact = held_out_losses([problem], labellings, folds=40)
    assert np.allclose(held_out_losses([problem], labellings), exact, rtol=0.05, atol=2e-3)


def test_leaving_components_out_agrees_with_refits_for_squared_loss():
    """With a quadratic loss the step is exact, up to the weights that refits scale up to the whole."""
    X, truth = blobs(8)
    pairs = [(0, 1), (1, 2), (5, 9), *((i, i + 1) for i in range(30, 36))]
    rules = [lambda y: md.must_link(y, pairs), lambda y: md.cannot_link(y, [(3, 39)])]
    problem = declare(X, 1e4, loss=lambda g: md.mean(md.square(1 - g)), rules=rules)
    labels = np.where(X[:, 1] > 0, 1, -1)
    count = problem.program().labels.count
    exact = held_out_losses([problem], [truth, labels], folds=count)
    assert count == 30 and np.allclose(held_out_losses([problem], [truth, labels]), exact, rtol=1e-3)


def test_hinge_is_judged_in_the_same_order():
    X, truth = blobs(9)
    problem = declare(X, 5.0, loss=lambda g: md.mean(md.hinge(g)))
    rng = np.random.default_rng(0)
    labellings = [truth, np.where(X[:, 0] + X[:, 1] > 0, 1, -1), rng.permutation(truth)]
    exact = held_out_losses([problem], labellings, folds=40)[:, 0]
    near = held_out_losses([problem], labellings)[:, 0]
    assert np.all(np.diff(exact) > 0) and np.all(np.diff(near) > 0)
    assert np.allclose(near, exact, rtol=0.3)


@pytest.mark.parametrize("problems, labellings, folds, words", [
    (0, [np.ones(40)], 5, "given 0 problems and 1 solutions; at least one of each is needed"),
    (1, [], 5, "given 1 problems and 0 solutions"),
    (1, [np.ones(7)], 5, r"a labelling has shape \(7,\), a problem 40 points"),
    (1, [np.ones((40, 1))], 5, r"a labelling has shape \(40, 1\)"),
    (1, [np.zeros(40)], 5, r"a labelling holds .*; labels of a problem are each"),
    (1, [np.ones(40)], 1, r"folds=1\): expected None or an integer from 2 to the number of label components, 40"),
    (1, [np.ones(40)], 41, r"folds=41\): expected None or an integer from 2"),
    (1, [np.ones(40)], 2.0, r"folds=2.0\): expected None or an integer from 2"),
])
def test_errors(problems, labellings, folds, words):
    with pytest.raises(DeclarationError, match=words):
        select([declare(blobs()[0])] * problems, labellings, folds=folds)


def three(seed=0, each=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3 * each, 3)) + np.repeat([[4.0, 0, 0], [-2.0, 3.5, 0], [-2.0, -3.5, 0]], each, axis=0)
    return X, np.repeat([0, 1, 2], each)


def declare_clusters(X, weight=10.0, clusters=3, loss=None, rules=(), coding="simplex", kernel="linear", bias=False):
    y, f = md.Labels(len(X), clusters=clusters), md.Hyperplane(X, kernel=kernel, bias=bias)
    margins = md.margin(y, f, coding=coding)
    loss = md.mean(md.odm(margins, nu=0.4, theta=0.2)) if loss is None else loss(margins)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * loss), [make(y) for make in rules])


def test_margins_of_clusters_are_those_of_one_hyperplane_over_coded_points():
    """An independent construction: the simplex from centred unit vectors, rows c_y ⊗ x, two-cluster judges."""
    X, truth = three()
    corners = np.linalg.svd(np.eye(3) - 1 / 3)[0][:, :2] * np.sqrt(1.5)
    X = X - X.mean(axis=0)
    rng = np.random.default_rng(1)
    for labels in (truth, rng.permutation(truth), np.zeros(36, dtype=int)):
        rows = np.einsum("nq,nd->nqd", corners[labels], X).reshape(36, -1)
        y, f = md.Labels(36), md.Hyperplane(rows, centre=False)
        coded = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(y * f, nu=0.4, theta=0.2))))
        for folds in (None, 4):
            one = held_out_losses([coded], [np.ones(36, dtype=int)], folds=folds)
            assert held_out_losses([declare_clusters(X)], [labels], folds=folds) == pytest.approx(one, rel=1e-4)


@pytest.mark.parametrize("loss, bias", [
    ("odm", "penalised"), ("squared", False), ("squared hinge", "penalised"), ("logistic", False)])
def test_leaving_one_point_of_clusters_out_agrees_with_refits(loss, bias):
    atom = {"odm": lambda g: md.odm(g, nu=0.4, theta=0.2), "squared": lambda g: md.square(1 - g),
            "squared hinge": md.squared_hinge, "logistic": lambda g: md.logistic(-g)}[loss]
    X, truth = three(1)
    problem = declare_clusters(X, 5.0, loss=lambda g: md.mean(atom(g)), bias=bias)
    labellings = [truth, np.random.default_rng(0).permutation(truth)]
    exact = held_out_losses([problem], labellings, folds=36)
    assert exact[0, 0] < 0.5 * exact[1, 0]
    # Few points a cluster: leaving one out moves others across the kinks, which one step does not see.
    kinked = 6e-3 if loss == "squared hinge" else 2e-3
    assert np.allclose(held_out_losses([problem], labellings), exact, rtol=0.05, atol=kinked)


def test_linked_points_of_clusters_are_left_out_together():
    X, truth = three(2)
    rules = [lambda y: md.must_link(y, [(0, 1), (1, 2), (20, 21)]), lambda y: md.cannot_link(y, [(3, 30)])]
    problem = declare_clusters(X, 1e4, loss=lambda g: md.mean(md.square(1 - g)), rules=rules)
    count = problem.program().labels.count
    exact = held_out_losses([problem], [truth], folds=count)
    assert count == 33 and np.allclose(held_out_losses([problem], [truth]), exact, rtol=1e-3)


def test_true_clusters_are_chosen_whatever_their_names():
    X, truth = three(3)
    judges = [declare_clusters(X), declare_clusters(X, kernel=md.RBF("median"))]
    others = [np.digitize(X[:, k], np.quantile(X[:, k], [1 / 3, 2 / 3])) for k in range(3)]
    labellings = [*others, (truth + 1) % 3]
    scores = held_out_losses(judges, labellings)
    assert select(judges, labellings) == 3 and np.all(scores[3] < scores[:3])
    for names in ([1, 2, 0], [0, 2, 1]):
        renamed = [np.array(names)[labels] for labels in labellings]
        assert np.allclose(held_out_losses(judges, renamed), scores, rtol=1e-5)
    both = held_out_losses(judges, [truth, others[0], np.array([2, 0, 1])[truth]])
    assert np.array_equal(both[0], both[2]) and not np.array_equal(both[0], both[1])


def test_solutions_of_clusters_are_taken_and_need_not_come_from_the_judges():
    X, truth = three(4)
    problem = declare_clusters(X, coding="crammer-singer", rules=[lambda y: md.sizes(y, at_least=8, at_most=16)])
    solution = problem.solve("alternating", random_state=0)
    bad = np.random.default_rng(0).permutation(truth)
    assert select([declare_clusters(X)], [bad, solution]) == 1


def test_crammer_singer_judges_and_wrong_clusters_are_refused():
    X, truth = three()
    with pytest.raises(RefusalError, match="judges 3 clusters by simplex margins.*Judge with md.margin"):
        select([declare_clusters(X, coding="crammer-singer")], [truth])
    for wrong in (truth + 1, truth - 1, truth + 0.5):
        with pytest.raises(DeclarationError, match="are each a whole number from 0 to 2"):
            select([declare_clusters(X)], [wrong])


def test_the_ready_judges_take_any_number_of_clusters():
    X, truth = three(5, each=20)
    judges = judges_of(X, 3)
    assert [judge.labels.clusters for judge in judges] == [3] * 5
    split = np.digitize(X[:, 2], [-0.5, 0.5])
    assert select(judges, [split, truth]) == 1 and select(judges, [truth, split, np.minimum(split, 1)]) == 0
