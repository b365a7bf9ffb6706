"""The course of an engine: limits, interrupts, the best point and the words of an answer; tables of forms."""

import dataclasses
import math
from typing import ClassVar

import numpy as np
import pytest

from margindsl.contract import Budget, Offer, RawSolution, Session, Solver, Status
from margindsl.program.forms import FixedLabelForm, Form, SaddleForm
from margindsl.testing.solvers import standard_forms
from margindsl_solvers.engines import Bracket, Course, EngineSession, EngineSolver, limited, of_form
from margindsl_solvers.newton import Newton


class Given(Course[Bracket]):
    """Judge given errors, one a step, and end with a status after the last."""

    stage, counted = "given", "errors"

    def __init__(self, budget, errors, last=Status.INACCURATE):
        super().__init__(budget)
        self.errors, self.last = list(errors), last

    def init(self):
        return self.judge()

    def step(self):
        self.iterations += 1
        return self.judge()

    def judge(self):
        error = self.errors.pop(0)
        self.certify(Bracket(error, 0.0, error))
        return None if self.errors else self.last

    def variables(self):
        return {"x": np.array(self.best.error)}


def test_the_best_point_is_answered_whatever_follows():
    answer = Given(Budget(tol=1e-3), [4.0, math.nan, 1.0, 3.0, 2.0]).solve()
    assert answer.status is Status.INACCURATE and answer["x"] == 1.0 and answer.objective == 1.0
    assert "1.0e+00 after 4 errors" in answer.message
    seconds, primal, _ = zip(*answer.trace)
    assert list(seconds) == sorted(seconds) and len(primal) == 5


def test_a_closed_gap_is_optimal_even_where_the_engine_gave_up():
    assert Given(Budget(tol=0.5), [2.0, 0.1]).solve().status is Status.OPTIMAL
    assert Given(Budget(tol=0.5), [0.5, 9.0]).solve().iterations == 0


class Repeating(Given):
    """Judge the same error for ever, with or without counting."""

    stall_limit = 20

    def step(self):
        self.iterations += self.counts
        self.certify(Bracket(1.0, 0.0, 1.0))


@pytest.mark.parametrize("counts", [0, 1])
def test_a_solve_that_rests_or_counts_nothing_ends(counts):
    course = Repeating(Budget(tol=1e-3), [1.0, 1.0])
    course.counts = counts
    assert course.solve().status is Status.INACCURATE


def test_slow_progress_is_no_rest():
    course = Given(Budget(tol=1e-3), 1.0 / np.sqrt(np.arange(1, 400)))
    course.stall_limit = 20
    assert course.solve().iterations == 398


def test_a_value_proved_above_the_cutoff_is_not_made_more_accurate():
    class Above(Given):
        def judge(self):
            error = self.errors.pop(0)
            self.certify(Bracket(10.0 + error, 10.0 - error, error / 10.0))

    answer = Above(Budget(tol=1e-6, cutoff=5.0), [20.0, 3.0, 1.0, 0.1]).solve()
    assert answer.status is Status.CONVERGED and answer.iterations == 2
    assert Above(Budget(tol=1e-3, cutoff=10.0), [20.0, 3.0, 1.0, 0.001]).solve().status is Status.OPTIMAL


def test_limits_and_interrupts_end_it_with_the_best_point():
    capped = Given(Budget(tol=0.0, max_iter=2), [3.0, 1.0, 2.0, 0.5, 0.4]).solve()
    assert capped.status is Status.ITERATION_LIMIT and capped["x"] == 1.0 and "raise max_iter" in capped.message
    late = Given(Budget.within(0.0, tol=0.0), [3.0, 1.0]).solve()
    assert late.status is Status.TIME_LIMIT and late["x"] == 3.0 and "time is up" in late.message
    seen = []
    asked = Given(Budget(tol=0.0, callback=lambda progress: seen.append(progress) or len(seen) == 2), [3.0, 1.0, 2.0])
    answer = asked.solve()
    assert answer.status is Status.INTERRUPTED and answer["x"] == 1.0
    assert [(p.stage, p.iteration, p.value) for p in seen] == [("given", 0, 3.0), ("given", 1, 1.0)]


def test_without_an_answer_there_are_words():
    answer = Given(Budget(tol=0.0), [3.0], Status.UNBOUNDED).solve()
    assert answer.status is Status.UNBOUNDED and not answer.variables and "without end" in answer.message


def test_the_limits_of_a_solver_count_where_it_has_them():
    assert limited(Newton(tol=1e-3, max_iter=7), None).max_iter == 7
    budget = limited(Newton(), Budget(tol=1e-2, max_iter=3))
    assert (budget.tol, budget.max_iter) == (1e-2, 3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counting(EngineSolver):
    """Answer how often the session was asked."""

    name: ClassVar[str] = "counting"
    solves: ClassVar[str] = "fixed labels"

    def keeper(self, form):
        return CountingSession(self)


@dataclasses.dataclass
class CountingSession(EngineSession):
    asked: int = 0

    def count(self, form, budget, start):
        self.asked += 1
        return RawSolution(Status.OPTIMAL, message=str(self.asked))


Counting.takes = {FixedLabelForm: CountingSession.count}


@pytest.fixture(scope="module")
def forms():
    """Return a plane and a saddle form."""
    found = {}
    for _, form in standard_forms():
        found.setdefault(type(form), form)
        if {FixedLabelForm, SaddleForm} <= set(found):
            return found[FixedLabelForm], found[SaddleForm]


def test_a_table_says_what_is_taken_and_sessions_keep_their_state(forms):
    plane, saddle = forms
    assert isinstance(Counting().accepts(plane), Offer)
    assert str(Counting().accepts(saddle)) == "counting solves fixed labels, not a SaddleForm."
    assert Counting().solve(saddle).status is Status.FAILED
    session = Counting().open(plane)
    assert [session.solve(plane, Budget()).message for _ in range(2)] == ["1", "2"]
    assert [Counting().solve(plane).message for _ in range(2)] == ["1", "1"]


def test_a_session_around_a_solver_of_its_own_is_asked_once(forms):
    asked = []

    class Watched(Session):
        def __init__(self, inner):
            self.inner = inner

        def solve(self, form, budget, start=None):
            asked.append(form)
            return self.inner.solve(form, budget, start)

    class Watching(Newton):
        def open(self, form):
            return Watched(super().open(form))

    assert Watching().open(forms[0]).solve(forms[0], Budget()).status is Status.OPTIMAL and len(asked) == 1


def test_the_nearest_class_of_a_table_counts(forms):
    plane, _ = forms
    assert of_form({Form: "any", FixedLabelForm: "plane"}, plane) == "plane"
    assert of_form({Form: "any"}, plane) == "any" and of_form({SaddleForm: "saddle"}, plane) is None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Idle(Solver):
    name: ClassVar[str] = "idle"

    def accepts(self, form):
        return Offer()


def test_a_solver_is_its_own_session_and_one_that_solves_nothing_says_so():
    assert isinstance(Newton(), Session) and Newton().open(None) == Newton()
    with pytest.raises(TypeError, match="neither `open` nor `solve`"):
        Idle().solve(None)
