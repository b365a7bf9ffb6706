"""Every registered solver runs the shipped conformance suite, and the suite finds broken ones."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget, RawSolution, Session, Status
from margindsl.errors import RefusalError, SolverError
from margindsl.program.branching import BranchNodeForm
from margindsl.testing import SOLVER_CHECKS, ConformanceError, check_solver, zoo
from margindsl.testing.solvers import standard_forms
from margindsl_solvers.newton import Newton

NAMES = [info.name for info in md.solvers()]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_registered_solvers_conform(name):
    """Sessions and starts of what is solved through CVXPY are one code: two of these meet their checks."""
    shared = {"sessions_are_reused", "starts_do_no_harm"} if name in ("cvxpy", "ecos", "highs", "scs") else set()
    check_solver(name, only=[check for check in SOLVER_CHECKS if check not in shared]).require()


def test_every_check_states_what_it_requires():
    for check in SOLVER_CHECKS.values():
        assert (check.__doc__ or "").strip().endswith(".")


def test_every_standard_form_is_accepted_by_two_solvers():
    solvers = [md.Solver(name) for name in NAMES]
    for name, form in standard_forms():
        taking = [s.name for s in solvers if s.accepts(form)]
        assert len(taking) >= (1 if isinstance(form, BranchNodeForm) else 2), (name, taking)


class Perturbed(Session):
    """Answer with the newton solution and its dual moved off the optimum."""

    def __init__(self, inner):
        self.inner = inner

    def solve(self, form, budget, start=None):
        raw = self.inner.solve(form, budget, start)
        variables = dict(raw.variables)
        variables["u"] = np.asarray(variables["u"]) * 0.5
        return dataclasses.replace(raw, variables=variables)


@dataclass(frozen=True, kw_only=True)
class Sloppy(Newton):
    """A solver that calls a point optimal that is not."""

    name: ClassVar[str] = "Sloppy Solver"

    def open(self, form):
        return Perturbed(super().open(form))


@dataclass(frozen=True, kw_only=True)
class Failing(Newton):
    """A solver that fails with words of its own."""

    name: ClassVar[str] = "failing"

    def open(self, form):
        return FailingSession()


class FailingSession(Session):
    def solve(self, form, budget, start=None):
        return RawSolution(Status.FAILED, message="the pivots ran out")


def failures(report):
    return {check.name for check in report.checks if not check.passed}


def test_the_suite_finds_broken_solvers():
    report = check_solver(Sloppy, only=["gap_closes", "options_are_checked", "forms_are_left_alone"])
    assert failures(report) == {"gap_closes", "options_are_checked"}
    with pytest.raises(ConformanceError, match=r"primal .*, dual .*"):
        report.require()
    failing = check_solver(Failing, only=["answers_have_shapes"])
    assert "ended as failed: the pivots ran out" in str(failing)


@pytest.mark.parametrize("relaxation", ["alternating", "cccp", "exact", "supervised"])
def test_a_failing_solver_surfaces_with_its_words(relaxation):
    known = zoo()[-1] if relaxation == "supervised" else zoo()[1]
    try:
        solution = known.problem.solve(relaxation, Failing(), random_state=0)
    except SolverError as error:
        assert "the pivots ran out" in str(error)
    else:
        assert solution.status == "failed" and "the pivots ran out" in solution.message
        assert known.admits(solution.labels)


@pytest.mark.parametrize("solver", ["clarabel", "scs"])
def test_one_iteration_of_a_conic_solver_is_never_called_optimal(solver):
    known = zoo()[2]
    try:
        solution = known.problem.solve("sdp", md.Solver(solver, max_iter=1), random_state=0)
    except SolverError as error:
        assert f"solver '{solver}' ended as" in str(error)
        return
    assert solution.status not in ("optimal", "converged")
    assert known.admits(solution.labels)
    assert solution.bound <= known.value + 1e-9
    if np.isfinite(solution.bound):
        assert solution.verify()


def test_a_solver_refuses_a_form_with_its_reason():
    known = zoo()[2]
    with pytest.raises(RefusalError, match="solver 'newton' does not accept the LiftForm of relaxation 'sdp'"):
        known.problem.solve("sdp", "newton")
    with pytest.raises(RefusalError, match="solver 'osqp' .*SaddleForm of relaxation 'minimax'.*'clarabel', 'ecos'"):
        known.problem.solve("minimax", "osqp")


def test_no_time_is_a_status():
    for name in NAMES:
        solver = md.Solver(name)
        form = next(form for _, form in standard_forms() if solver.accepts(form))
        raw = solver.solve(form, Budget.within(0.0))
        assert raw.status in (Status.TIME_LIMIT, Status.OPTIMAL), (name, raw.status)
