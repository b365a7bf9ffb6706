"""Every fault of a solver with every relaxation: a valid answer or an error in the solver's name, nothing else."""

import os
from functools import lru_cache

import numpy as np
import pytest
from faults import FAULTS, RAISED, FaultySolver

import margindsl as md
from margindsl.contract import Status
from margindsl.errors import MarginError, RefusalError, SolverError
from margindsl.host.threads import _libraries
from margindsl.runtime.registry import make_solver

pytestmark = [
    pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning"),
    pytest.mark.filterwarnings("ignore::margindsl.errors.AccuracyWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning")]
X = np.array([[1.2, 0.3], [0.8, -0.4], [-1.1, 0.2], [-0.7, -0.6], [0.3, 1.0], [-0.2, -1.1]])
N = len(X)
LIBRARIES = _libraries(0)


def declare(loss=md.hinge, constraints=lambda y, f: [abs(md.sum(y)) <= 2], known=(), bias=False):
    y, f = md.Labels(N), md.Hyperplane(X, bias=bias)
    pins = [y[list(known)] == [1 if X[i, 0] > 0 else -1 for i in known]] if len(known) else []
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(loss(y * f))), [*constraints(y, f), *pins])


def three_clusters():
    y, f = md.Labels(N, clusters=3), md.Hyperplane(X)
    objective = md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(md.margin(y, f)))
    return md.Problem(md.Minimize(objective), [md.sizes(y, at_least=1), y[[0, 2, 4]] == [0, 1, 2]])


CASES = {
    "alternating": (md.Alternating(restarts=2), "newton", declare),
    "alternating, clusters": (md.Alternating(restarts=2), "newton", three_clusters),
    "cccp": (md.CCCP(restarts=2), "newton", declare),
    "first-cut": (md.FirstCut(restarts=2), "newton", declare),
    "cuts-outside": (md.CutsOutside(restarts=2), "newton", lambda: declare(
        constraints=lambda y, f: [abs(md.sum(f)) <= 1], bias=True)),
    "transductive": (md.Transductive(first=0.1), "newton", lambda: declare(known=(0, 2))),
    "safe": (md.Safe(samples=3), "newton", lambda: declare(known=(0, 2))),
    "supervised": (md.Supervised(), "newton", lambda: declare(known=range(N))),
    "minimax": (md.Minimax(starts=1, rounding=4), "mirror-prox", declare),
    "sdp": (md.SDP(rounding=4), "burer-monteiro", declare),
    "gmmc": (md.GMMC(rounding=4), "clarabel", lambda: declare(md.squared_hinge, lambda y, f: [])),
    "weight-lifting": (md.WeightLifting(rounding=4), "burer-monteiro", declare),
    "exact, enumeration": (md.Exact(starts=1), "newton", declare),
    "exact, branching": (md.Exact(starts=1, method="branching"), "node-newton", declare),
}


# Faults of one kind differ at the boundary alone: a few of each kind meet every relaxation, the others three.
LIKE_OTHERS = {f"raises-{name}" for name in RAISED} - {
    "raises-value-error", "raises-memory-error", "raises-recursion-error", "raises-lin-alg-error", "raises-system-exit",
    "raises-stop-iteration"} | {
    "exits-on-open", "opens-nothing", "ones", "one-nan", "too-short", "none-variables", "strings", "number",
    "dictionary", "lists", "claims-converged", "claims-iteration-limit", "claims-interrupted", "claims-nan",
    "claims-nothing", "claims-wrong-seconds", "writes-shifts",
    "returns-late"}
# In the suite every fault meets one relaxation, in turn; with FAULTS=all in the environment a few of each kind meet
# every relaxation, and the others three.
THREE = ("alternating", "minimax", "sdp")


EVERYTHING = os.environ.get("FAULTS") == "all"


def _meets(number, fault, case, everything=EVERYTHING):
    if everything:
        return fault not in LIKE_OTHERS or case in THREE
    return case == list(CASES)[number % len(CASES)]


MET = [(fault, case) for number, fault in enumerate(FAULTS) for case in CASES if _meets(number, fault, case)]


@lru_cache
def reference(case):
    """Return the problem, its good answer, its optimum, and the optimum of any labels, by another solver."""
    relaxation, solver, make = CASES[case]
    problem = make()
    return problem, problem.solve(relaxation, solver, random_state=0), optima(make)


@lru_cache
def optima(make):
    """Return the optimum of every labelling of a problem that several relaxations are given."""
    program, values = make().program(), {}
    for labels in program.labels.enumerate():
        raw = make_solver("newton").solve(program.fix_labels(labels))
        values[tuple(program.labels.names.written(labels).tolist())] = program.to_user(raw.objective)
    return values


def threads_of_process():
    """Return the threads of libraries of linear algebra; those loaded later have none before."""
    return [library.get_num_threads() for library in LIBRARIES]


def solve_faulty(case, fault, **options):
    """Solve with a fault; the threads of libraries are as before."""
    relaxation, solver, _ = CASES[case]
    before = threads_of_process()
    try:
        return reference(case)[0].solve(
            relaxation, FaultySolver(solver=solver, fault=fault), random_state=0, **options)
    finally:
        assert threads_of_process() == before


def assert_valid(case, solution):
    """Labels in B, their true value, and a bound that no labelling contradicts."""
    _, _, values = reference(case)
    value = values[tuple(solution.labels.tolist())]
    assert solution.value == pytest.approx(value, rel=1e-5)
    assert solution.bound <= min(values.values()) * (1 + 1e-6)
    if solution.state is Status.OPTIMAL:
        assert solution.value == pytest.approx(min(values.values()), rel=1e-4)
    if solution.state in (Status.FAILED, Status.INFEASIBLE, Status.UNBOUNDED):
        assert "'faulty'" in solution.message
    assert solution.state not in (Status.INACCURATE, Status.FAILED) or solution.message


def test_forty_faults_meet_every_relaxation():
    """By FAULTS=all; in the suite each relaxation meets some."""
    assert len(FAULTS) >= 40
    for case in CASES:
        assert sum(_meets(0, fault, case, everything=True) for fault in FAULTS) >= 40
        assert sum(case == other for _, other in MET) >= 5
    assert set(FAULTS) > LIKE_OTHERS


@pytest.mark.parametrize("fault,case", MET)
def test_a_fault_is_a_status_or_an_error_in_the_solvers_name(case, fault, capsys):
    good = reference(case)[1]
    limit = {"time_limit": 0.2} if fault in ("hangs-until-deadline", "ignores-deadline") else {}
    try:
        solution = solve_faulty(case, fault, **limit)
    except MarginError as error:
        assert isinstance(error, (SolverError, RefusalError)) and "'faulty'" in str(error)
        assert len(str(error)) < 2000 and not FAULTS[fault].is_harmless
        return
    assert_valid(case, solution)
    if FAULTS[fault].is_harmless:
        assert solution.value == pytest.approx(good.value, rel=1e-5)
        assert np.isfinite(solution.bound) == np.isfinite(good.bound)


LEFT = ("writes-weights", "writes-quietly", "altered-later", "nan", "raises-on-third-solve")  # two for each case


@pytest.mark.parametrize("case", CASES)
def test_nothing_stays_behind(case):
    problem, good, _ = reference(case)
    for fault in (LEFT + LEFT)[(first := list(CASES).index(case) % len(LEFT)):first + 2]:
        try:
            solve_faulty(case, fault)
        except SolverError:
            continue
    relaxation, solver, _ = CASES[case]
    again = problem.solve(relaxation, solver, random_state=0)
    assert np.array_equal(again.labels, good.labels) and again.value == good.value and again.bound == good.bound
