"""More than two clusters from the declaration to the solution."""

import dataclasses

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget, Status
from margindsl.drivers.means import best_k_means, k_means
from margindsl.drivers.moves import candidate_moves, estimate_moves
from margindsl.drivers.run import Run
from margindsl.drivers.search import search
from margindsl.drivers.starts import starting_labels
from margindsl.errors import DeclarationError, GrammarError, RefusalError
from margindsl.metrics import clustering_accuracy

N, K = 27, 3
QUICK = md.Alternating(restarts=1, polish="none")
RNG = np.random.default_rng(3)
TRUTH = np.arange(N) % K
X = RNG.normal(scale=0.4, size=(N, 4)) + 1.6 * np.eye(K, 4)[TRUTH]


def sized(y, f):
    return [md.sizes(y, at_least=7, at_most=11)]


def declare(loss=lambda g: md.odm(g, 0.4, 0.2), constraints=sized, coding="crammer-singer", weight=10.0, points=X,
            **options):
    y, f = md.Labels(len(points), clusters=K), md.Hyperplane(points, **options)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(loss(md.margin(y, f, coding)))),
                      constraints(y, f))


def run_of(problem, seed=0):
    return Run(problem.program(), md.Solver("newton"), md.Solver("newton"), Budget(), np.random.default_rng(seed))


@pytest.mark.parametrize("relaxation, coding", [
    ("alternating", "crammer-singer"), ("alternating", "simplex"), ("cccp", "simplex"), ("auto", "crammer-singer")])
def test_separated_clusters_are_found_and_the_solution_is_whole(coding, relaxation):
    problem = declare(coding=coding)
    solution = problem.solve(relaxation, random_state=0)
    program = problem.program()
    assert clustering_accuracy(TRUTH, solution.labels) >= 0.95
    assert not program.labels.violations(solution.labels) and set(np.unique(solution.labels)) == {0, 1, 2}
    assert solution.weights.shape == (4, K) and solution.decision.shape == (N, K)
    assert np.allclose(solution.decision_function(X), solution.decision)
    assert np.array_equal(solution.predict(X), solution.decision.argmax(axis=1))
    own = solution.decision[np.arange(N), solution.labels]
    rest = np.where(np.eye(K, dtype=bool)[solution.labels], -np.inf, solution.decision).max(axis=1)
    assert np.allclose(solution.margins, own - rest if coding == "crammer-singer" else own)
    norm = np.sum(solution.weights**2) * (1.0 if coding == "crammer-singer" else (K - 1) / K)
    assert np.isclose(solution.value, norm / 2 + program.scale * program.losses.value(solution.margins))
    assert solution.cluster_sizes == tuple(np.bincount(solution.labels, minlength=K))
    assert " / ".join(map(str, solution.cluster_sizes)) + f" of {N} points" in solution.summary()
    assert (solution.bound > -np.inf) == (relaxation == "auto") and solution.history and solution.coding == coding


@pytest.mark.parametrize("relaxation", ["alternating", "cccp"])
def test_links_sizes_and_known_labels_hold(relaxation):
    known = np.array([0, 1, 2])
    problem = declare(constraints=lambda y, f: [
        *sized(y, f), y[known] == [2, 0, 1], y[3] == y[7], md.must_link(y, [(8, 9)]), y[10] != y[13],
        md.cannot_link(y, [(20, 23), (23, 26), (20, 26)])])
    labels = problem.solve(relaxation, random_state=1).labels
    assert labels[known].tolist() == [2, 0, 1]
    assert labels[3] == labels[7] and labels[8] == labels[9] and labels[10] != labels[13]
    assert len({labels[20], labels[23], labels[26]}) == 3
    assert np.all((np.bincount(labels, minlength=K) >= 7) & (np.bincount(labels, minlength=K) <= 11))


def test_local_methods_end_no_higher_than_where_they_start():
    problem = declare(md.hinge)
    for relaxation in (md.Alternating(restarts=2), md.CCCP(restarts=2)):
        solution = problem.solve(relaxation, random_state=0)
        values = [record.value for record in solution.history]
        assert min(values) >= solution.value - 1e-6 and len(values) >= 2


def test_all_labels_known_is_one_certified_convex_problem():
    for coding in ("crammer-singer", "simplex"):
        problem = declare(md.hinge, lambda y, f: [y[np.arange(N)] == TRUTH], coding)
        solution = problem.solve()
        assert solution.relaxation == "supervised" and solution.status == "optimal"
        assert solution.gap <= 1e-5 and solution.verify()
        assert np.array_equal(solution.labels, TRUTH) and np.mean(solution.predict(X) == TRUTH) >= 0.95
    odm = declare(constraints=lambda y, f: [y[np.arange(N)] == TRUTH]).solve()
    assert odm.certificate.is_trivial and abs(odm.bound) <= 1e-9
    assert np.array_equal(odm.labels, TRUTH)  # not convex: rising loss


def test_a_saved_solution_predicts_again(tmp_path):
    problem = declare()
    solution = problem.solve(QUICK, random_state=0)
    solution.save(tmp_path / "answer.npz")
    loaded = md.Solution.load(tmp_path / "answer.npz", problem)
    assert np.array_equal(loaded.predict(X), solution.predict(X)) and loaded.coding == "crammer-singer"
    assert np.allclose(loaded.margins, solution.margins) and loaded.cluster_sizes == solution.cluster_sizes


def test_a_figure_of_every_cluster():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = declare().solve(QUICK, random_state=0).plot()
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["cluster 0", "cluster 1", "cluster 2", "mean"]


def test_a_warm_start_is_not_left_for_worse():
    problem = declare(md.hinge)
    first = problem.solve(md.Alternating(restarts=3), random_state=0)
    again = problem.solve(md.Alternating(restarts=1), warm_start=first, random_state=5)
    assert again.value <= first.value + 1e-6


def test_search_and_continuation_never_worsen_and_stay_inside():
    noisy = (X + RNG.normal(scale=1.2, size=X.shape))[:7]
    problem = declare(md.hinge, lambda y, f: [md.sizes(y, at_least=2, at_most=3), y[0] == y[4]], points=noisy)
    plain = problem.solve(md.Alternating(restarts=1), random_state=0)
    searched = problem.solve(md.Alternating(restarts=1, polish="search"), random_state=0)
    assert searched.value <= plain.value + 1e-8 and not problem.program().labels.violations(searched.labels)
    continued = problem.solve(md.Alternating(restarts=1, continuation=3), random_state=0)
    assert not problem.program().labels.violations(continued.labels)


@pytest.mark.parametrize("coding", ["crammer-singer", "simplex"])
def test_search_finds_the_exchange_that_was_spoilt(coding):
    problem = declare(md.hinge, lambda y, f: [md.sizes(y, at_least=9, at_most=9)], coding)
    run = run_of(problem)
    good = run.fit(TRUTH)
    spoilt = TRUTH.copy()
    spoilt[[0, 1]] = spoilt[[1, 0]]
    fit = run.fit(spoilt)
    assert fit.value > good.value
    moves = estimate_moves(run, fit)
    assert np.all(moves.estimate <= moves.fixed + 1e-12)  # a Newton step only lowers
    assert candidate_moves(run, fit, 4)
    assert search(run, fit).value <= good.value + 1e-6


def test_starts_are_distinct_members():
    problem = declare()
    for kind in ("mixed", "kmeans", "spectral", "random"):
        run = run_of(problem)
        found = starting_labels(run, 6, kind)
        assert all(run.program.labels.contains(labels) for labels in found)
        assert len({labels.tobytes() for labels in found}) == len(found) >= 1
    run = run_of(problem)
    assert np.array_equal(run.program.labels.nearest(TRUTH), TRUTH)


def test_the_first_k_means_start_is_nearest_to_its_centres():
    """Nine groups, of which a single k-means run often splits one and joins two: the best of ten does so less."""
    rng = np.random.default_rng(0)
    points = np.repeat([(a, b) for a in range(3) for b in range(3)], 12, axis=0) + 0.1 * rng.normal(size=(108, 2))
    features = run_of(declare(constraints=lambda y, f: [], points=points)).program.features
    single = [-k_means(features, 9, np.random.default_rng(s)).max(axis=1).sum() for s in range(20)]
    best = [-best_k_means(features, 9, np.random.default_rng(s)).max(axis=1).sum() for s in range(20)]
    assert all(b <= a + 1e-9 for a, b in zip(single, best))  # its first run is the single one of that seed
    assert np.mean(best) < np.mean(single)


def test_kernels_and_a_penalised_bias():
    for options in ({"kernel": md.RBF("median")}, {"bias": "penalised"}, {"bias": "penalised", "centre": False}):
        solution = declare(md.squared_hinge, **options).solve(QUICK, random_state=0)
        assert clustering_accuracy(TRUTH, solution.labels) >= 0.9
        assert np.allclose(solution.decision_function(X), solution.decision)


def test_balance_of_decision_values():
    """|Σ f_p − Σ f_q| ≤ l for all pairs (slides Eq. 18); nothing is left of it for centred features."""
    problem = declare(md.hinge, lambda y, f: [abs(md.sum(f)) <= 1.0], centre=False)
    for solver in ("newton", "cutting-plane"):
        sums = problem.solve(md.CCCP(restarts=1, polish="none"), solver, random_state=0).decision.sum(axis=0)
        assert sums.max() - sums.min() <= 1.0 + 1e-6
    centred = declare(md.hinge, lambda y, f: [*sized(y, f), abs(md.sum(f)) <= 0.0])
    assert not centred.program().decision


def test_manifold_terms_and_orthogonality_go_through():
    graph = np.zeros((N, N))
    graph[np.arange(N - 3), np.arange(3, N)] = graph[np.arange(3, N), np.arange(N - 3)] = 1.0
    y, f = md.Labels(N, clusters=K), md.Hyperplane(X)
    loss = 5 * md.mean(md.hinge(md.margin(y, f)))
    smooth = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 0.1 * md.manifold(f, graph) + loss), sized(y, f))
    solution = smooth.solve(QUICK, random_state=0)
    laplacian = np.diag(graph.sum(axis=1)) - graph
    energy = sum(column @ laplacian @ column for column in solution.decision.T)
    value = np.sum(solution.weights**2) / 2 + 0.1 * energy + 5 * np.mean(np.maximum(0, 1 - solution.margins))
    assert np.isclose(solution.value, value, rtol=1e-6)
    first = declare(md.hinge).solve(QUICK, random_state=0)
    y2, f2 = md.Labels(N, clusters=K), md.Hyperplane(X)
    second = md.Problem(md.Minimize(md.sq_norm(f2) / 2 + md.mean(md.hinge(md.margin(y2, f2)))),
                        [*sized(y2, f2), md.orthogonal(f2, first)]).solve(QUICK, random_state=0)
    assert np.allclose(first.weights.T @ second.weights, 0, atol=1e-8)


def test_a_parameter_path_and_a_comparison():
    lam = md.Parameter(1.0, name="lam")
    y, f = md.Labels(N, clusters=K), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.hinge(md.margin(y, f)))), sized(y, f))
    path = problem.path(lam, [1.0, 5.0], relaxation=QUICK, random_state=0)
    assert path[0].value < path[1].value
    table = md.compare(problem, [QUICK, md.CCCP(restarts=2)], ["newton", "cutting-plane"], truth=TRUTH, random_state=0)
    assert len(table.rows) == 4 and all(row.solution is not None for row in table.rows)


def test_explain_names_clusters_sizes_and_form():
    text = declare().compile("alternating").explain()
    for words in ("3 clusters, crammer-singer margins, 27 components", "cluster sizes: 7..11, 7..11, 7..11",
                  "ClusterForm: 27 points", "3 clusters"):
        assert words in text


def test_what_has_no_meaning_for_clusters_is_refused():
    cases = [
        (lambda y, f: [abs(md.sum(y)) <= 3], {}, GrammarError, "sums labels of 3 clusters, which are names.*md.sizes"),
        (lambda y, f: [md.sum(f) <= 1], {"centre": False}, RefusalError, r"has no sign; write abs\(md.sum\(f\)\) <= l"),
        (lambda y, f: [abs(md.sum(f)) <= 1, abs(f[0] - 2 * f[1]) <= 1], {"bias": True, "coding": "simplex"},
         RefusalError, "must be on the bias alone"),
    ]
    for constraints, options, kind, words in cases:
        with pytest.raises(kind, match=words):
            declare(constraints=constraints, **options).solve("alternating")


@pytest.mark.parametrize("coding", ["crammer-singer", "simplex"])
def test_shared_scalars_go_with_both_codings(coding):
    y, f, m = md.Labels(N, clusters=K), md.Hyperplane(X), md.Scalar()
    loss = md.mean(md.square(md.margin(y, f, coding) - m)) - m
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss), sized(y, f))
    for relaxation in ("alternating", "cccp"):
        found = problem.solve(relaxation, random_state=0)
        free = np.mean(found.margins) + 0.5  # where the derivative in the scalar is zero
        norm = np.sum(found.weights**2) * (1.0 if coding == "crammer-singer" else (K - 1) / K)
        value = norm / 2 + np.mean((found.margins - free) ** 2) - free
        assert np.isclose(found.scalars[m], free, atol=1e-5) and np.isclose(found.value, value, rtol=1e-6)
        assert found.verify()


def test_a_time_limit_returns_a_member():
    problem = declare()
    solution = problem.solve(md.Alternating(restarts=50), time_limit=0.05, random_state=0)
    assert not problem.program().labels.violations(solution.labels)


def test_a_constant_direction_does_not_disturb_the_starts():
    """A penalised bias is a constant feature, and with small features it is a principal direction."""
    for points, options in ((0.01 * X, {"bias": "penalised"}), (np.ones((N, 2)), {"centre": False})):
        problem = declare(md.squared_hinge, points=points, **options)
        for start in ("mixed", "spectral"):
            solution = problem.solve(md.Alternating(start=start, restarts=2, polish="none"), random_state=0)
            assert not problem.program().labels.violations(solution.labels) and np.isfinite(solution.value)


def test_a_warm_start_of_another_number_of_clusters_is_refused():
    three = declare().solve(QUICK, random_state=0)
    for clusters in (2, 4):
        y, f = md.Labels(N, clusters=clusters), md.Hyperplane(X)
        other = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(md.margin(y, f)))),
                           [md.sizes(y, at_least=3)])
        with pytest.raises(DeclarationError, match=f"has 3 clusters, the problem {clusters}; solve without it"):
            other.solve("alternating", warm_start=three)


def test_auto_and_solvers_of_one_hyperplane_say_why_they_refuse():
    y, f, s, t = md.Labels(N, clusters=K), md.Hyperplane(X), md.Scalar(), md.Scalar()
    g = md.margin(y, f)
    loss = 2 * md.mean(md.pos(s - g)) - s + md.mean(md.pos(g - t)) + 0.5 * t
    held = md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss), sized(y, f))
    for relaxation in ("minimax", "sdp"):
        with pytest.raises(RefusalError, match="others alone hold a shared scalar"):
            held.solve(relaxation)
    for solver in ("lbfgs", "cpsp"):
        with pytest.raises(RefusalError, match="Crammer-Singer margins of 3 clusters.*'newton'.*coding='simplex'"):
            declare().solve("alternating", solver)


def test_size_bounds_are_checked_where_they_are_declared():
    y = md.Labels(12, clusters=3)
    for given, words in (([1, 2], "expected one number, or one a cluster, 3 in all"), ("3", "at_least='3'"),
                         (np.nan, "0 <= at_least <= at_most"), (-1, "0 <= at_least <= at_most"),
                         (5, "12 points cannot fill clusters of 15 to 36")):
        with pytest.raises(DeclarationError, match=words):
            md.sizes(y, at_least=given)
    assert md.sizes(y, at_most=np.inf).at_most.tolist() == [12, 12, 12]  # no bound
    with pytest.raises(DeclarationError, match=r"`md.margin\(y, f, .*\)`: 12 labels against 27 points"):
        md.margin(y, md.Hyperplane(X))


def test_a_fit_that_got_stuck_is_not_called_converged(monkeypatch):
    y, f = md.Labels(6, clusters=3), md.Hyperplane(np.random.default_rng(1).normal(size=(6, 2)))
    g = md.margin(y, f, coding="crammer-singer")
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.odm(g, theta=0.2, nu=0.4))))
    assert problem.solve("alternating", random_state=0).status == "converged"
    fitted = Run.fit

    def stuck(self, *arguments, **options):
        fit = fitted(self, *arguments, **options)
        return dataclasses.replace(fit, raw=dataclasses.replace(fit.raw, status=Status.INACCURATE))

    monkeypatch.setattr(Run, "fit", stuck)
    solution = problem.solve("alternating", random_state=0)
    assert solution.status == "inaccurate" and "not known to be stationary" in solution.message
