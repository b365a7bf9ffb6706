"""Hostile but legal input ends in a correct answer or a clear error, never a hang or a wrong answer."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import margindsl as md
from margindsl.errors import DeclarationError, GrammarError, MarginError, TrivialityWarning

pytestmark = pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
RNG = np.random.default_rng(1)
X = RNG.normal(size=(8, 3))
PLAIN = {"sdp": md.SDP(polish="none"), "minimax": md.Minimax(polish="none"), "cccp": md.CCCP(polish="none")}
SPDS = ["exact", "sdp", "minimax", "cccp", "alternating"]


def problem_of(points, constraints=lambda y, f: [abs(md.sum(y)) <= 2], C=5.0, loss=md.hinge, **options):
    n = points.shape[0] if hasattr(points, "shape") else len(points)
    y, f = md.Labels(n), md.Hyperplane(points, **options)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(loss(y * f))), constraints(y, f))


def solve_all(problem, relaxations=SPDS, time_limit=None):
    """Return solutions that agree: no bound above the exact value, no value below it; a limit is for the others."""
    solutions = {}
    for name in relaxations:
        solver = "clarabel" if name in ("minimax", "sdp") else None
        limit = None if name == "exact" else time_limit
        solutions[name] = problem.solve(PLAIN.get(name, name), solver, random_state=0, time_limit=limit)
    best = solutions["exact"].value
    for solution in solutions.values():
        assert not problem.program().labels.violations(solution.labels)
        assert solution.value >= best - 1e-6 * abs(best)
        assert solution.bound <= best + 1e-7 * abs(best)
    return solutions


EQUAL = {
    "list": X.tolist(), "pandas": pd.DataFrame(X, columns=list("abc")), "object": X.astype(object),
    "fortran": np.asfortranarray(X), "csr": sp.csr_matrix(X), "coo": sp.coo_array(X), "reversed view": X[::-1][::-1],
}


@pytest.mark.parametrize("kind", EQUAL)
def test_every_container_gives_the_same_answer(kind):
    expected, given = (problem_of(P).solve("exact", random_state=0) for P in (X, EQUAL[kind]))
    assert given.value == pytest.approx(expected.value, rel=1e-9)
    assert np.array_equal(given.labels, expected.labels)


def test_integer_and_boolean_features():
    bits = RNG.random((8, 4)) < 0.5
    a, b = problem_of(bits).solve("exact"), problem_of(bits.astype(int)).solve("exact")
    assert a.value == pytest.approx(b.value, rel=1e-10)


def test_the_data_of_the_user_are_left_alone():
    points = X.copy()
    problem = problem_of(points)
    solution = problem.solve("exact")
    assert np.array_equal(points, X)
    with pytest.raises(ValueError, match="read-only"):
        solution.labels[0] = -solution.labels[0]


@pytest.mark.parametrize("name,points", {
    "two points": X[:2], "duplicates": np.repeat(X[:4], 2, axis=0), "one point repeated": np.ones((5, 2)),
    "all zero": np.zeros((6, 3)), "one feature": X[:, :1], "wide": RNG.normal(size=(5, 40)),
    "large": 1e3 * X, "small": 1e-3 * X, "constant column": np.column_stack([X, np.full(8, 7.0)]),
    "one outlier": np.vstack([X[:6], [1e2, -1e2, 1e2]]),
}.items())
def test_degenerate_points(name, points):
    some, limit = (["exact", "sdp", "cccp"], 0.3) if name == "large" else (
        ["exact", "sdp", *(("minimax", "alternating") if len(points) % 2 else ("cccp",))], None)
    solutions = solve_all(problem_of(points), some, limit)
    if name in ("one point repeated", "all zero"):  # w = 0: the loss at margin zero
        assert solutions["exact"].value == pytest.approx(5.0, rel=1e-8)
        assert solutions["sdp"].bound == pytest.approx(5.0, rel=1e-5)


EXTREME = {
    "all known": lambda y, f: [y == np.array([1, -1, 1, -1, 1, -1, 1, -1])],
    "all known but one": lambda y, f: [y[1:] == [-1, 1, -1, 1, -1, 1, -1]],
    "one component": lambda y, f: [md.must_link(y, [(0, i) for i in range(1, 4)]),
                                   md.cannot_link(y, [(0, i) for i in range(4, 8)])],
    "no links": lambda y, f: [md.must_link(y, []), md.cannot_link(y, np.zeros((0, 2), dtype=int)), y[[]] == []],
    "repeated links": lambda y, f: [
        md.must_link(y, [(0, 1), (1, 0), (0, 1)]), y[0] == y[1], y[2] != y[3], y[3] != y[2]],
    "redundant": lambda y, f: [abs(md.sum(y)) <= 100, md.sum(y) >= -8, y[0] == 1, y[0] != -1],
    "exact balance": lambda y, f: [md.sum(y) == 0],
    "mean": lambda y, f: [abs(md.mean(y)) <= 0.25],
    "two bounds": lambda y, f: [abs(md.sum(y)) <= 4, md.sum(np.arange(8.0) * y) <= 3, md.sum(y[:4]) >= 0],
    "sizes": lambda y, f: [md.sizes(y, at_least=3)],
    "decisions": lambda y, f: [abs(md.sum(np.arange(8.0) * f)) <= 0.1, y[0] != y[1]],
}


@pytest.mark.parametrize("name,constraints", EXTREME.items())
def test_extreme_label_sets(name, constraints):
    problem = problem_of(X, constraints)
    number = list(EXTREME).index(name)  # every set meets the lift, the others take turns
    solutions = solve_all(problem, ["exact", "sdp", *(("minimax", "alternating") if number % 2 else ("cccp",))])
    if name in ("all known", "all known but one", "one component"):
        assert solutions["sdp"].bound <= solutions["exact"].value
    if name == "all known":
        assert problem.solve("supervised").status == "optimal"
        assert problem.solve().relaxation == "supervised"


def test_no_balance_for_an_odd_number_of_points():
    with pytest.raises(MarginError, match="sum"):
        problem_of(X[:7], lambda y, f: [abs(md.sum(y)) <= 0]).solve("alternating")


def test_a_parameter_of_zero_and_of_the_wrong_sign():
    lam = md.Parameter(1.0, name="lam")
    y, f = md.Labels(8), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 2])
    lam.value = 0.0
    for relaxation in ("exact", "alternating", "cccp"):
        assert problem.solve(relaxation).value == pytest.approx(0.0, abs=1e-9)
    lam.value = -1.0
    with pytest.raises(GrammarError, match="margin losses must be convex"):
        problem.solve("exact")
    with pytest.raises(DeclarationError, match="Parameter: given nan"):
        lam.value = np.nan
    with pytest.raises(DeclarationError, match="Parameter: given inf"):
        problem.path(lam, [1.0, np.inf])
    assert lam.value == -1.0


def test_weights_of_zero_drop_their_points():
    kept = np.array([1.0, 0, 1, 1, 0, 1, 1, 1])
    y, f = md.Labels(8), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.sum(kept * md.hinge(y * f))), [y[0] != y[2]])
    solutions = solve_all(problem)
    best = solutions["exact"]
    loss = kept @ np.maximum(0, 1 - best.margins)
    assert best.value == pytest.approx(0.5 * best.weights @ best.weights + loss)


def test_a_parameter_path_restores_and_agrees_with_single_solves():
    lam = md.Parameter(3.0, name="lam")
    y, f = md.Labels(8), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.odm(y * f))), [abs(md.sum(y)) <= 2])
    values = [0.5, 5.0, 50.0]
    along = problem.path(lam, values, relaxation="exact")
    assert lam.value == 3.0
    for value, solution in zip(values, along):
        lam.value = value
        assert solution.value == pytest.approx(problem.solve("exact").value, rel=1e-7)


def test_every_weight_scale():
    for C in (1e-6, 1e6):
        solve_all(problem_of(X, C=C), ["exact", "sdp", "alternating"])


def test_an_unbounded_objective_ends_in_a_status_or_an_error():
    s = md.Scalar(name="s")
    y, f = md.Labels(8), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.pos(s - y * f)) - 5 * s), [abs(md.sum(y)) <= 2])
    for relaxation, solver in (("exact", None), ("sdp", "clarabel"), ("alternating", None), ("cccp", None)):
        try:
            solution = problem.solve(relaxation, solver, random_state=0)
        except MarginError as error:
            assert "unbounded" in str(error) or "falls without end" in str(error)
        else:
            assert solution.status in ("unbounded", "failed"), relaxation


def test_two_problems_do_not_share_state():
    first, second = problem_of(X), problem_of(-3 * X)
    before = first.solve("exact").value
    second.solve("sdp", random_state=0)
    assert first.solve("exact").value == pytest.approx(before, rel=1e-9)


def test_save_and_load(tmp_path):
    problem = problem_of(X)
    solution = problem.solve("sdp", random_state=0)
    solution.save(tmp_path / "s.npz")
    again = md.Solution.load(tmp_path / "s.npz", problem)
    assert np.array_equal(again.labels, solution.labels) and again.value == solution.value
    assert np.array_equal(again.predict(X), solution.predict(X))
    with pytest.raises(DeclarationError, match="8 labels, the problem 4 points"):
        md.Solution.load(tmp_path / "s.npz", problem_of(X[:4]))


def test_predictions_repeat_the_training_decisions():
    for kernel in ("linear", md.RBF(1.0), md.Polynomial(2)):
        for bias in (False, "penalised"):
            solution = problem_of(X, kernel=kernel, bias=bias).solve("exact")
            assert np.allclose(solution.decision_function(X), solution.decision, atol=1e-6)


def test_warnings_do_not_leak_from_solvers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", TrivialityWarning)
        for relaxation in SPDS:
            problem_of(X).solve(relaxation, "clarabel" if relaxation == "minimax" else None, random_state=0)


def test_a_manifold_term_leaves_the_other_directions_alone_however_large_it_is():
    X = np.random.default_rng(0).normal(size=(10, 3))
    edge = sp.coo_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(10, 10))
    across = X[0] - X[1]
    held = X - np.outer(X @ across, across) / (across @ across)  # w is orthogonal to φ₀ − φ₁
    y = md.Labels(10)

    def value(points, weight):
        f = md.Hyperplane(points, centre=False)
        loss = md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f)) + weight * md.manifold(f, edge)
        solution = md.Problem(md.Minimize(loss), [abs(md.sum(y)) <= 2]).solve("exact", random_state=0)
        assert solution.verify()
        return solution.value

    limit = value(held, 0.0)
    assert value(X, 1e7) == pytest.approx(limit, rel=1e-5)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_features_that_vanish_leave_nothing_to_weigh():
    y, f = md.Labels(3), md.Hyperplane(np.ones((3, 2)), kernel=md.RBF(1.0))
    solution = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 1]).solve(
        "sdp", "burer-monteiro", random_state=0)
    assert solution.value == pytest.approx(1.0) and solution.bound <= solution.value and solution.verify()
