"""A default solver that fails hands over to the next one; a solver the user named does not."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget, RawSolution, Session, Status
from margindsl.errors import ContradictionError, GrammarError, SolverError, UnansweredError, UnknownNameError
from margindsl.program.certificates import certify_least_value
from margindsl.runtime.compiled import better, trouble_of
from margindsl.runtime.options import SolveOptions
from margindsl.runtime.problem import choose_solver
from margindsl.runtime.registry import load_class, make_solver, solvers_for

RNG = np.random.default_rng(5)
X = RNG.normal(size=(8, 2))


def declare(points=X, loss=md.hinge, weight=4.0, constraints=lambda y: [abs(md.sum(y)) <= 0], **options):
    y, f = md.Labels(len(points)), md.Hyperplane(np.asarray(points, dtype=float))
    objective = md.sq_norm(f) / 2 + weight * md.mean(loss(y * f))
    return md.Problem(md.Minimize(objective), constraints(y), **options)


class Failing(Session):
    """A session that fails, and keeps count."""

    calls = 0

    def __init__(self, status=Status.FAILED):
        self.status = status

    def solve(self, form, budget, start=None):
        Failing.calls += 1
        return RawSolution(self.status, message="the pivots ran out")


def break_solvers(monkeypatch, *names, status=Status.FAILED):
    Failing.calls = 0
    for name in names:
        monkeypatch.setattr(load_class("margindsl.solvers", "solver", name), "open", lambda self, form: Failing(status))


def assert_usable(problem, solution):
    assert not problem.program().labels.violations(solution.labels)
    assert np.isfinite(solution.bound) and solution.bound <= solution.value
    assert solution.verify()


# -- programs on which an interior-point method was seen to fail ------------------------------------------


def repeated_points():
    """One point five times over on one line with the sixth, a heavy squared hinge."""
    side = np.array([0.1888, -0.1488, -0.0423])
    return declare(np.vstack([-5.0 * side, *[side] * 5]), lambda g: md.pos(1 - g) ** 2, 1e6, lambda y: [
        abs(md.sum(y)) <= 0, y[0] == y[1], y[[0, 2]] == [1, -1]])


def two_far_places():
    """Two places far apart, a heavy logistic loss that can be brought to nearly nothing."""
    places = np.array([6, 6, 6, -8, -8, -8, 6])[:, None] * 1e2 / 7
    return declare(places, lambda g: md.logistic(-g), 1e4, lambda y: [abs(md.sum(y)) <= 2, y[2] != y[3]])


@pytest.mark.parametrize("make, cuts", [(repeated_points, "none"), (two_far_places, "all")])
def test_degenerate_programs_are_solved_by_default(make, cuts):
    problem = make()
    solution = problem.solve(md.SDP(cuts=cuts), random_state=0)
    best = problem.solve("exact", random_state=0)
    assert_usable(problem, solution)
    assert solution.value == pytest.approx(best.value, rel=1e-6)
    assert solution.bound <= best.value * (1 + 1e-9) and solution.bound >= 0.4 * best.value
    assert ("answered" in solution.message) == (solution.solver != "interior")


@pytest.mark.parametrize("relaxation", ["sdp", "weight-lifting"])
def test_repeated_points_of_large_weight_are_rounded_and_polished(relaxation):
    points = np.where(np.arange(12)[:, None] % 2 == 0, 1e2, -1e2) * np.ones((1, 2))
    problem = declare(points, lambda g: md.odm(g, 0.4, 0.2), 1e4, lambda y: [
        abs(md.sum(y)) <= 2, y[4] == 1, y[[0, 2]] == [1, -1]])
    solution = problem.solve(relaxation, random_state=0)
    assert not problem.program().labels.violations(solution.labels)
    assert solution.value == pytest.approx(problem.solve("exact", random_state=0).value, rel=1e-6)


ORDER = ("interior", "burer-monteiro", "clarabel", "scs")


# -- who takes over ---------------------------------------------------------------------------------------


def test_the_next_solver_answers_and_the_solution_says_so(monkeypatch):
    whole = declare().solve("sdp", random_state=0)
    break_solvers(monkeypatch, "interior")
    problem = declare()
    solution = problem.solve("sdp", random_state=0)
    assert_usable(problem, solution)
    assert solution.solver == "burer-monteiro" and whole.solver == "interior"
    assert "'interior' ended as failed" in solution.message and "the pivots ran out" in solution.message
    assert "'burer-monteiro' answered" in solution.message and solution.message in " ".join(solution.summary().split())
    assert solution.value == pytest.approx(whole.value) and solution.bound == pytest.approx(whole.bound, rel=1e-2)


def test_the_third_solver_answers(monkeypatch):
    break_solvers(monkeypatch, "interior", "burer-monteiro")
    problem = declare()
    solution = problem.solve("sdp", random_state=0)
    assert solution.solver == "clarabel" and Failing.calls == 2
    assert "'interior'" in solution.message and "'burer-monteiro' ended as failed" in solution.message
    assert_usable(problem, solution)


def test_all_solvers_fail(monkeypatch):
    break_solvers(monkeypatch, *ORDER)
    with pytest.raises(SolverError) as caught:
        declare(1000.0 * X).solve("sdp")
    for name in ORDER:
        assert f"solver '{name}' ended as failed on relaxation 'sdp': the pivots ran out" in str(caught.value)
    assert Failing.calls == 4


@pytest.mark.parametrize("status", [Status.INFEASIBLE, Status.UNBOUNDED])
def test_other_failed_ends_hand_over_too(monkeypatch, status):
    break_solvers(monkeypatch, "interior", status=status)
    solution = declare().solve("sdp", random_state=0)
    assert solution.solver == "burer-monteiro" and f"ended as {status.word}" in solution.message


@pytest.mark.parametrize("relaxation,order", [
    ("gmmc", ORDER), ("weight-lifting", ORDER), ("minimax", ("mirror-prox", "clarabel", "alternating-mu"))])
def test_every_relaxation_has_its_order(monkeypatch, relaxation, order):
    loss = (lambda g: md.pos(1 - g) ** 2) if relaxation == "gmmc" else md.hinge
    break_solvers(monkeypatch, order[0])
    problem = declare(loss=loss)
    assert tuple(solver.name for solver in problem.compile(relaxation).order()) == order
    solution = problem.solve(relaxation, random_state=0)
    assert_usable(problem, solution)
    assert solution.solver == order[1] and "the pivots ran out" in solution.message


def test_a_solver_that_refuses_is_passed_over():
    form = md.SDP().lower(declare(np.zeros((2500, 120)) + np.eye(2500, 120), constraints=lambda y: [
        abs(md.sum(y)) <= 4]).program())

    class Conic(md.SDP):
        def default_solver(self, form):
            return "clarabel"

    assert md.SDP().default_solver(form) == "burer-monteiro"
    taken = [solver.name for solver in solvers_for(form, ("clarabel", "interior", "burer-monteiro"))]
    assert taken == ["burer-monteiro"]  # the cone and the Newton matrix are too large
    assert choose_solver(Conic(), form).name == "burer-monteiro"


def test_cuts_that_fail_leave_the_bound_without_them_and_are_told(monkeypatch):
    problem = declare(np.random.default_rng(1).normal(size=(9, 2)), lambda g: md.odm(g, 0.4, 0.2),
                      constraints=lambda y: [abs(md.sum(y)) <= 1])
    loose, tight = (problem.solve(md.SDP(cuts=cuts), random_state=0) for cuts in ("none", "all"))
    assert tight.bound > 1.05 * loose.bound and "cuts" not in tight.message
    interior = load_class("margindsl.solvers", "solver", "interior")
    opened = interior.open
    monkeypatch.setattr(interior, "open", lambda self, form: Failing() if form.cuts.count else opened(self, form))
    kept = problem.with_constraints().solve(md.SDP(cuts="all"), random_state=0)
    assert loose.bound * (1 - 1e-5) <= kept.bound < tight.bound  # of better labels alone
    assert kept.value == pytest.approx(tight.value)
    assert kept.message == "cuts were not all added, round 1 ended as failed: the pivots ran out"


# -- a solver the user named ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["solve", "problem", "instance"])
def test_a_named_solver_fails_and_names_the_others(monkeypatch, how):
    break_solvers(monkeypatch, "clarabel")
    problem = declare(relaxation="sdp", solver="clarabel" if how == "problem" else None)
    solver = {"solve": "clarabel", "problem": None, "instance": make_solver("clarabel", max_iter=9)}[how]
    with pytest.raises(SolverError) as caught:
        problem.solve(solver=solver)
    assert "solver 'clarabel' ended as failed on relaxation 'sdp': the pivots ran out. Other solvers that take this " \
        "form: burer-monteiro, cvxpy, interior, scs" in str(caught.value)
    assert Failing.calls == 1


def test_another_relaxation_than_the_problems_keeps_its_solver_where_it_fits(monkeypatch):
    """The problem's solver stays the user's choice for another relaxation whose form it takes."""
    break_solvers(monkeypatch, "clarabel", "newton")
    with pytest.raises(SolverError, match="Other solvers"):
        declare(relaxation="minimax", solver="clarabel").solve("sdp")
    monkeypatch.undo()
    break_solvers(monkeypatch, "interior")
    solution = declare(relaxation="alternating", solver="newton").solve("sdp", random_state=0)
    assert solution.solver == "burer-monteiro"  # newton does not take the form, so that nobody named a solver


def test_explain_shows_the_order():
    text = declare().compile("sdp").explain()
    assert "where it fails: 'burer-monteiro', then 'clarabel', then 'scs'" in text
    assert "where it fails" not in declare().compile("sdp", "clarabel").explain()
    assert "where it fails" not in declare().compile("alternating").explain()


# -- limits -----------------------------------------------------------------------------------------------


def test_labels_found_so_far_are_kept(monkeypatch):
    first = declare().solve("alternating", random_state=0)
    break_solvers(monkeypatch, *ORDER)
    solution = declare().solve("sdp", random_state=0, warm_start=first)
    assert solution.value <= first.value * (1 + 1e-9) and solution.status == "failed"
    assert all(name in solution.message for name in ORDER)
    monkeypatch.undo()
    break_solvers(monkeypatch, "interior")
    solution = declare().solve("sdp", random_state=0, warm_start=first)
    assert solution.solver == "burer-monteiro" and solution.value <= first.value * (1 + 1e-9)
    assert np.isfinite(solution.bound)


def test_a_callback_that_stopped_the_solve_stops_the_attempts(monkeypatch):
    monkeypatch.setattr(Failing, "solve", lambda self, form, budget, start=None: (
        budget.report("fails", 0, np.nan, np.nan), RawSolution(Status.FAILED, message="stopped"))[1])
    break_solvers(monkeypatch, "interior")
    with pytest.raises(SolverError, match="'burer-monteiro' was not begun"):
        declare(1000.0 * X).solve("sdp", callback=lambda progress: True)


@pytest.fixture(scope="module")
def solved():
    return dataclasses.replace(declare().solve("sdp", random_state=0), message="")


class Plan:
    """Attempts that end as planned."""

    def __init__(self, *ends):
        self.ends, self.earlier = list(ends), []

    def __call__(self, solver, earlier, options, budget, seconds):
        self.earlier.append(earlier)
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        if isinstance(end, str):
            raise UnansweredError(f"solver {solver.name!r} {end}")
        return dataclasses.replace(end, solver=solver.name)


def hand_over(solvers, plan, budget):
    """Return what attempts that end as planned come to."""
    compiled = declare().compile("sdp")
    compiled.order, compiled.attempt = lambda: solvers, plan
    with SolveOptions(verbose=0).watched() as watch:
        return compiled.answer(SolveOptions(), dataclasses.replace(watch, budget=budget))


SOLVERS = [make_solver(name) for name in ("clarabel", "burer-monteiro", "scs")]


def test_an_unanswered_solve_is_a_solver_error_that_can_be_sent_between_processes():
    error = UnansweredError("solver 'a' ended as failed: no pivot", "Other solvers that take this form: b")
    assert isinstance(error, SolverError) and error.words == "solver 'a' ended as failed: no pivot"
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == f"{error.words}. {error.advice}"


def test_no_time_is_left_for_the_next(solved):
    late = Budget.within(1e-9)
    with pytest.raises(UnansweredError, match=r"'clarabel' failed; 'burer-monteiro' was not begun: the time was up"):
        hand_over(SOLVERS, Plan("failed"), late)
    short = dataclasses.replace(solved, state=Status.FAILED, bound=-np.inf)
    found = hand_over(SOLVERS, Plan(short), late)
    assert found.solver == "clarabel" and "'burer-monteiro' was not begun" in found.message


def test_the_best_of_all_attempts_is_returned(solved):
    first = dataclasses.replace(solved, state=Status.INACCURATE, bound=-1.0, certificate=None)
    worse = dataclasses.replace(solved, state=Status.FAILED, value=2 * solved.value, bound=-np.inf, message="no luck")
    tighter = dataclasses.replace(solved, state=Status.ITERATION_LIMIT, bound=0.5 * solved.bound)
    plan = Plan(first, worse, tighter)
    found = hand_over(SOLVERS, plan, Budget())
    assert found.solver == "scs" and found.bound == tighter.bound and not plan.ends
    assert plan.earlier[0] is None and plan.earlier[1] is plan.earlier[2] and plan.earlier[1].bound == -1.0
    assert found.message == ("'clarabel' ended as inaccurate, without a bound; "
                             "'burer-monteiro' ended as failed: no luck; 'scs' answered")
    kept = hand_over(SOLVERS, Plan(first, worse, dataclasses.replace(worse, state=Status.CONVERGED)), Budget())
    assert kept.solver == "clarabel" and kept.value == solved.value
    assert better(first, tighter) is tighter and better(tighter, first) is tighter


def test_an_error_of_another_kind_loses_no_labels(solved):
    short = dataclasses.replace(solved, state=Status.FAILED, bound=-np.inf)
    kept = hand_over(SOLVERS[:2], Plan(short, SolverError("no member was found")), Budget())
    assert kept.solver == "clarabel" and kept.value == solved.value
    assert "'burer-monteiro' ended in an error: no member was found" in kept.message
    with pytest.raises(SolverError, match=r"^no member was found$"):
        hand_over(SOLVERS, Plan(SolverError("no member was found")), Budget())


def test_what_counts_as_trouble(solved):
    trivial = certify_least_value(declare().program().losses)
    for state, certificate, proves, expected in [
        (Status.OPTIMAL, solved.certificate, True, False), (Status.CONVERGED, solved.certificate, True, False),
        (Status.INACCURATE, solved.certificate, True, False), (Status.INACCURATE, trivial, True, True),
        (Status.CONVERGED, None, True, True), (Status.INACCURATE, None, False, False),
        (Status.TIME_LIMIT, None, True, False), (Status.INTERRUPTED, None, True, False),
        (Status.FAILED, solved.certificate, True, True),
    ]:
        found = dataclasses.replace(solved, state=state, certificate=certificate)
        assert bool(trouble_of(found, proves)) is expected, (state, certificate, proves)
    for estimate, expected in ((solved.bound, False), (np.nan, True), (solved.bound + 1e-3 * solved.value, True)):
        found = dataclasses.replace(solved, state=Status.CONVERGED, certificate=trivial, estimate=estimate)
        assert bool(trouble_of(found, True)) is expected  # a relaxation may be no better than the losses alone


def test_least_value():
    """Σ c min ρ in the user's units: constants count, and no labelling goes under it."""
    loss = lambda g: md.pos(1 - g) ** 2 + 0.5  # noqa: E731
    problem = declare(loss=loss, weight=3.0)
    program = problem.program()
    least = certify_least_value(program.losses)
    assert program.to_user(least.bound) == pytest.approx(1.5) and least.is_trivial
    assert problem.solve("exact").value > 1.5
    y, f, rho = md.Labels(8), md.Hyperplane(X), md.Scalar(nonneg=True, name="rho")
    shared = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.pos(rho - y * f)) - rho), [abs(md.sum(y)) <= 0])
    assert shared.program().losses.least_value() == -np.inf


@pytest.mark.parametrize("error", [
    UnknownNameError("solver", "x", ["y"], "Write y."), GrammarError("a", "b", "c"),
    ContradictionError("links", [(0, 1, "must-link")]), UnansweredError("words", "advice")])
def test_errors_come_back_from_workers(error):
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
