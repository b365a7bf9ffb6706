"""Bad input ends in an error that names the thing, what was expected and what to do."""

import re

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import margindsl as md
from margindsl.errors import (
    ContradictionError,
    DeclarationError,
    GrammarError,
    InfeasibleError,
    NotInstalledError,
    RefusalError,
    SizeError,
    UnknownNameError,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 2))


def declare(points=X, constraints=lambda y, f: [], loss=md.hinge, **options):
    y, f = md.Labels(len(points)), md.Hyperplane(points, **options)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(loss(y * f))), constraints(y, f))


def with_entry(value):
    points = X.copy()
    points[3, 1] = value
    return points


@pytest.mark.parametrize("points,words", [
    (with_entry(np.nan), ["X", "row 3, column 1"]),
    (with_entry(np.inf), ["X", "row 3, column 1"]),
    (with_entry(1e200), ["1.0e+200", "between 1e-10 and 1e+10", "Standardise"]),
    (X[0], ["shape (2,)", "X.reshape(-1, 1)"]),
    (X[None], ["shape (1, 6, 2)", "one row per point"]),
    (X[:1], ["1 row(s)", "at least 2 points"]),
    (X[:, :0], ["no column"]),
    ([], ["shape (0,)"]),
    ([[1, 2], [3]], ["ragged"]),
    ([["a", "b"], ["c", "d"]], ["numbers are expected"]),
    (np.array([[1, None], [2, 3]], dtype=object), ["X[0, 1] is None"]),
    (X + 0j, ["complex"]),
    (sp.csr_matrix(with_entry(np.nan)), ["row 3, column 1"]),
    ("text", ["X"]),
])
def test_points(points, words):
    with pytest.raises(DeclarationError) as caught:
        md.Hyperplane(points)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("make,words", [
    (lambda: md.Labels(1), "Labels(n): given 1, expected an integer of at least 2"),
    (lambda: md.Labels(2.0), "given 2.0, expected an integer"),
    (lambda: md.Labels(True), "given True, expected an integer"),
    (lambda: md.Labels(3, clusters=4), "4 clusters for 3 points"),
    (lambda: md.Labels(3, clusters=1), "Labels(clusters=): given 1"),
    (lambda: md.Hyperplane(X, bias="free"), "bias='free'): expected False, True (free) or 'penalised'"),
    (lambda: md.Hyperplane(None), "Hyperplane(X=None) needs kernel=md.Precomputed(K)"),
])
def test_declarations(make, words):
    with pytest.raises(DeclarationError) as caught:
        make()
    assert words in str(caught.value)


PAIRS = {
    "out of range": ([(0, 9)], "pair 0 is (0, 9), outside the 6 points 0..5"),
    "negative": ([(1, 2), (-1, 0)], "pair 1 is (-1, 0), outside the 6 points"),
    "loop": ([(1, 2), (3, 3)], "pair 1 is (3, 3), a point linked with itself; drop it"),
    "fractional": ([(0.5, 1)], "expected integer point numbers"),
    "shape": ([1, 2, 3], "expected pairs of shape (m, 2), a graph or a sparse matrix"),
    "text": ([("a", "b")], "expected integer point numbers"),
    "sparse": (sp.eye(3), "sparse matrix of shape (3, 3), expected (6, 6)"),
    "graph": (nx.Graph([(0, 7)]), "outside the 6 points"),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("link", [md.must_link, md.cannot_link])
def test_pairs(link, name):
    pairs, words = PAIRS[name]
    with pytest.raises(DeclarationError) as caught:
        link(md.Labels(6), pairs)
    assert words in str(caught.value) and f"md.{link.__name__}" in str(caught.value)


def test_self_links_by_comparison():
    y = md.Labels(6)
    for make in (lambda: y[2] == y[2], lambda: y[2] != y[2]):
        with pytest.raises(DeclarationError, match=r"\(2, 2\), a point linked with itself"):
            make()


def test_contradictory_links_show_their_cycle():
    problem = declare(constraints=lambda y, f: [md.must_link(y, [(0, 1), (1, 2)]), y[0] != y[2], y[4] == y[5]])
    with pytest.raises(ContradictionError) as caught:
        problem.solve("alternating")
    edges = {frozenset(edge[:2]): edge[2] for edge in caught.value.cycle}
    assert edges == {frozenset((0, 1)): "must-link", frozenset((1, 2)): "must-link", frozenset((0, 2)): "cannot-link"}
    assert "must-link" in str(caught.value) and "cannot-link" in str(caught.value)


def test_known_labels_that_contradict_a_link():
    problem = declare(constraints=lambda y, f: [y[[0, 3]] == [1, -1], md.must_link(y, [(0, 1), (1, 3)])])
    with pytest.raises(ContradictionError) as caught:
        problem.compile("sdp")
    kinds = [kind for *_, kind in caught.value.cycle]
    assert kinds.count("must-link") == 2 and "known label" in kinds
    twice = declare(constraints=lambda y, f: [y[0] == 1, y[0] == -1])
    with pytest.raises(ContradictionError, match="0"):
        twice.solve("exact")


def test_infeasible_balance_names_bound_and_components():
    odd = declare(X[:5], lambda y, f: [md.sum(y) == 0])
    with pytest.raises(InfeasibleError, match="0"):
        odd.solve("exact")
    linked = declare(constraints=lambda y, f: [md.must_link(y, [(0, 1), (1, 2), (2, 3), (3, 4)]), abs(md.sum(y)) <= 1])
    with pytest.raises(InfeasibleError, match="component|points"):
        linked.solve("alternating")
    empty = declare(constraints=lambda y, f: [md.sum(y) >= 3, md.sum(y) <= -3])
    with pytest.raises((InfeasibleError, DeclarationError)):
        empty.solve("exact")
    beyond = declare(constraints=lambda y, f: [md.sum(y) >= 7])
    with pytest.raises(InfeasibleError, match="7"):
        beyond.solve("minimax")


def test_label_constraints_on_hyperplanes_and_the_reverse():
    with pytest.raises(GrammarError, match=r"`f\[0\] == f\[1\]`: links decision values"):
        declare(constraints=lambda y, f: [f[0] == f[1]])
    with pytest.raises(GrammarError, match="links decision values.*with y = md.Labels"):
        declare(constraints=lambda y, f: [md.cannot_link(f, [(0, 1)])])
    with pytest.raises(GrammarError, match="fixes decision values to labels"):
        declare(constraints=lambda y, f: [f[[0]] == [1]])
    with pytest.raises(GrammarError, match="orthogonality is of hyperplanes"):
        declare(constraints=lambda y, f: [md.orthogonal(y, [])])


def test_non_convex_losses():
    with pytest.raises(GrammarError, match=r"`-md.pos\(1 - y \* f\)`: is concave: margin losses must be convex"):
        declare(loss=lambda g: -md.pos(1 - g))


def test_a_free_bias_is_refused_where_it_is_trivial():
    problem = declare(constraints=lambda y, f: [abs(md.sum(y)) <= 2], bias=True)
    with pytest.raises(RefusalError, match="minimax is trivial with a free bias.*Use bias='penalised'"):
        problem.solve("minimax")
    with pytest.raises(RefusalError, match=r"makes sdp trivial.*abs\(md.sum\(f\)\) <= l"):
        problem.solve("sdp")
    repaired = declare(constraints=lambda y, f: [abs(md.sum(y)) <= 2], bias="penalised")
    assert repaired.solve("minimax", "clarabel", random_state=0).status in ("optimal", "converged")
    balanced = declare(constraints=lambda y, f: [abs(md.sum(f)) <= 1, y[0] != y[1]], bias=True)
    assert balanced.solve("sdp", random_state=0).bound > 0


@pytest.mark.parametrize("arguments,options,words", [
    (("minmax",), {}, "unknown relaxation 'minmax'. Did you mean 'minimax'?"),
    (("exact", "clarable"), {}, "unknown solver 'clarable'. Did you mean 'clarabel'?"),
    (("exact",), {"time_limt": 1}, "'time_limt'. Did you mean 'time_limit'?"),
    (("exact",), {"polish": "none"}, "those of a relaxation to its object"),
    (("exact",), {"sampling": 3}, "options of a solver go to md.Solver(name, ...)"),
])
def test_unknown_names(arguments, options, words):
    with pytest.raises(UnknownNameError) as caught:
        declare().solve(*arguments, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize("make,words", [
    (lambda: md.Solver("nosuch"), "unknown solver 'nosuch'. Known: "),
    (lambda: md.Solver("clarabel", tolerance=1), "unknown option of solver 'clarabel' 'tolerance'"),
    (lambda: md.Minimax(oracle="exhaustiv"), "Did you mean 'exhaustive'?"),
    (lambda: md.Alternating(start="kmean"), "Did you mean 'kmeans'?"),
    (lambda: md.SDP(roundng=3), "unknown option of relaxation 'sdp' 'roundng'. Did you mean 'rounding'"),
    (lambda: declare(kernel="rbff").solve("exact"), "Did you mean 'rbf'"),
])
def test_unknown_options(make, words):
    with pytest.raises(UnknownNameError) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize("options,words", [
    ({"tol": 0}, "solve(tol=0): expected a number between 0 and 1"),
    ({"tol": np.nan}, "solve(tol=nan)"),
    ({"time_limit": 0}, "solve(time_limit=0): expected a positive number of seconds"),
    ({"time_limit": np.nan}, "solve(time_limit=nan)"),
    ({"max_iter": 0}, "solve(max_iter=0): expected a positive integer"),
    ({"max_iter": 2.5}, "solve(max_iter=2.5): expected a positive integer"),
    ({"warm_start": 3}, "solve(warm_start=...): given int, expected an earlier Solution"),
])
def test_values_of_solve_options(options, words):
    with pytest.raises(DeclarationError) as caught:
        declare().solve("exact", **options)
    assert words in str(caught.value)


@pytest.mark.parametrize("make,words", [
    (lambda: md.SDP(rounding=-1), "SDP(rounding=-1): expected an integer of at least 0"),
    (lambda: md.Exact(max_components=0), "expected an integer of at least 1"),
    (lambda: md.Alternating(restarts=True), "Alternating(restarts=True)"),
    (lambda: md.SDP(polish="much"), "expected 'none', 'alternate', 'search' or 'auto'"),
    (lambda: md.Minimax(tol=0), "Minimax(tol=0): expected a positive finite number or None"),
    (lambda: md.SDP(tol=float("nan")), "SDP(tol=nan): expected a positive finite number or None"),
    (lambda: md.WeightLifting(tol=-1), "WeightLifting(tol=-1): expected a positive finite number or None"),
    (lambda: md.GMMC(tol="a"), "GMMC(tol='a'): expected a positive finite number or None"),
    (lambda: md.CutsOutside(epsilon="a"), "CutsOutside(epsilon='a'): expected a positive finite number"),
    (lambda: declare().solve(3), "relaxation=3: expected a name or an object such as md.SDP()"),
    (lambda: declare().solve("exact", 3), "solver=3: expected a name or md.Solver(name, option=...)"),
    (lambda: declare().path(md.Parameter(1.0), [1]), "the parameter does not occur in the objective"),
])
def test_values_of_options(make, words):
    with pytest.raises(DeclarationError) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize("solve,words", [
    (lambda p: p.solve("newton"), "unknown relaxation 'newton'. 'newton' is a solver: give solver='newton'."),
    (lambda p: p.solve("cccp", "sdp"), "unknown solver 'sdp'. 'sdp' is a relaxation: give relaxation='sdp'."),
    (lambda p: md.Solver("CCCP"), "unknown solver 'CCCP'. 'CCCP' is a relaxation"),
    (lambda p: p.solve("cccp", "nwton"), "unknown solver 'nwton'. Did you mean 'newton'"),
])
def test_names_of_the_other_kind(solve, words):
    with pytest.raises(UnknownNameError) as caught:
        solve(declare(constraints=lambda y, f: [abs(md.sum(y)) <= 2]))
    assert words in str(caught.value)


@pytest.mark.parametrize("relaxation", ["sdp", "gmmc", "cccp"])
def test_refusals_of_solvers_name_solvers_that_accept(relaxation):
    points = np.random.default_rng(1).normal(size=(14, 2))
    problem = declare(points, lambda y, f: [abs(md.sum(y)) <= 2])
    if relaxation == "gmmc":
        problem = md.recipes.gmmc(points)
    refused = 0
    for info in md.solvers():
        try:
            form = problem.compile(relaxation, info.name).form
        except RefusalError as error:
            refused += 1
            named = set(re.findall(r"'([a-z-]+)'", str(error).split(": ", 1)[1])) & {one.name for one in md.solvers()}
            assert named - {info.name}, str(error)
            for name in named - {info.name}:
                problem.compile(relaxation, name)
        else:
            assert md.Solver(info.name).accepts(form)
    assert refused


def test_variances_of_crammer_singer_margins_are_refused_by_exact_in_the_users_words():
    for spread in (md.var, md.mean_variance):
        y, f = md.Labels(6, clusters=3), md.Hyperplane(X)
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + spread(md.margin(y, f))), [md.sizes(y, at_least=1)])
        with pytest.raises(RefusalError, match="not convex"):
            problem.solve("exact")
        assert problem.solve("alternating", random_state=0).verify()


def test_a_warm_start_of_another_problem():
    other = declare(X[:4]).solve("exact", random_state=0)
    with pytest.raises(DeclarationError, match="the solution has 4 labels, the problem 6"):
        declare().solve("exact", warm_start=other)


def test_indefinite_precomputed_kernel():
    K = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(DeclarationError, match="semidefinite|negative eigenvalue|indefinite"):
        declare(X[:3], kernel=md.Precomputed(K)).solve("exact")
    with pytest.raises(DeclarationError, match="symmetric"):
        declare(X[:3], kernel=md.Precomputed(K + np.triu(np.ones((3, 3)), 1))).solve("exact")


def test_a_solver_that_is_not_installed(monkeypatch):
    from margindsl_solvers.conic import Clarabel

    monkeypatch.setattr(Clarabel, "requires", ("no_such_package",))
    words = "solver 'clarabel' needs the package no_such_package, which is not installed; run `pip install"
    with pytest.raises(NotInstalledError, match=words):
        declare().solve("sdp", "clarabel")
    assert {info.name: info.installed for info in md.solvers()}["clarabel"] is False


@pytest.mark.parametrize("relaxation,why", [
    ("first-cut", "one hyperplane of signs"), ("gmmc", "no bound on their squares and products")])
def test_relaxations_of_two_clusters_refuse_more_each_with_its_reason(relaxation, why):
    y, f = md.Labels(6, clusters=3), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(md.margin(y, f)))))
    with pytest.raises(RefusalError) as error:
        problem.solve(relaxation)
    assert f"3 clusters were declared, and {relaxation!r} takes 2: " in str(error.value)
    assert why in str(error.value) and "alternating" in str(error.value)


def test_exact_refuses_by_size_and_says_how_to_raise_it():
    points = RNG.normal(size=(30, 2))
    with pytest.raises(RefusalError, match=r"30 label components are free.*md.Exact\(max_components=...\)"):
        declare(points, lambda y, f: [abs(md.sum(y)) <= 2]).solve(md.Exact(method="enumeration"))
    with pytest.raises((SizeError, RefusalError)):
        declare(points).solve(md.Minimax(oracle="exhaustive"))


def test_new_points_of_another_width():
    solution = declare(constraints=lambda y, f: [abs(md.sum(y)) <= 2]).solve("alternating", random_state=0)
    with pytest.raises(DeclarationError, match="3 columns, but the features were built on 2"):
        solution.predict(np.ones((2, 3)))


@pytest.mark.parametrize("entry", [np.nan, -1.0])
def test_a_matrix_of_links_has_positive_entries(entry):
    with pytest.raises(DeclarationError, match="negative entries or NaN"):
        md.must_link(md.Labels(6), sp.csr_array(entry * np.eye(6, k=1)))


def test_what_a_user_passes_is_named():
    problem = declare()
    for call in (lambda: problem.solve("alternating", callback=lambda progress: np.ones(2)),
                 lambda: problem.solve("alternating", checkpoint="/no/such/folder/file"),
                 lambda: declare(loss=lambda g: md.hinge(g - 1e200)).solve("alternating"),
                 lambda: md.recipes.odmc(X, lam="abc")):
        with pytest.raises(DeclarationError, match="callback|checkpoint|1.0e\\+200|'abc'"):
            call()


def test_a_bound_that_never_holds_is_said_as_it_was_written():
    with pytest.raises(InfeasibleError, match="so that 1 <= sum never holds"):
        declare(constraints=lambda y, f: [md.sum(f) >= 1]).solve("alternating")
