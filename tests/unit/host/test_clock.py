"""The clock: budgets, requests to stop, and where a call that cannot stop is not begun."""

import threading

import pytest

from margindsl.host.clock import Budget, Cancelled, Progress, check, expired, remaining, while_time


def test_without_a_solve_nothing_is_cancelled():
    check()
    check(1e30)
    assert remaining() == float("inf") and not expired()


def test_a_limit_is_that_of_the_innermost_block():
    with Budget.within(1000.0).limit(0.0):
        assert 900 < remaining() <= 1000
        with Budget.within(0.0).limit(0.0), pytest.raises(Cancelled):
            check()
        check()
    assert remaining() == float("inf")


def test_work_that_does_not_fit_is_not_begun():
    with Budget.within(1.0).limit(0.0):
        check(1e6)
        with pytest.raises(Cancelled):
            check(1e18)


def test_the_allowance_is_half_a_second_or_a_tenth_of_the_limit():
    assert Budget.within(1.0).allowance == Budget.within(None).allowance == 0.5
    assert Budget.within(100.0).allowance == pytest.approx(10.0)


def test_a_callback_that_asks_stops_every_copy():
    budget = Budget.within(100.0, callback=lambda progress: progress.iteration == 2)
    part = budget.replace(callback=None, tol=1e-3)
    assert not budget.report("a", 1, 0.0, 0.0) and not part.expired
    assert budget.report("a", 2, 0.0, 0.0) and part.expired and part.interrupted
    assert budget.share(0.5).expired and not budget.finishing(0.5).expired
    with budget.limit(0.5):
        assert 0 < remaining() <= 0.25


def test_improvements_end_after_the_first_once_time_is_up():
    assert list(while_time(range(5))) == list(while_time(range(5), Budget())) == list(range(5))
    assert list(while_time(range(5), Budget.within(0.0))) == [0]
    with Budget.within(0.0).limit(1.0):
        assert list(while_time(range(5))) == [0]
    assert list(while_time([], Budget.within(0.0))) == []


def test_threads_have_limits_of_their_own():
    seen = []
    with Budget.within(0.0).limit(0.0):
        other = threading.Thread(target=lambda: seen.append(remaining()))
        other.start()
        other.join()
    assert seen == [float("inf")]


def test_the_gap_of_what_is_closed_is_zero_also_at_zero():
    def gap(best, proved):
        return Progress("any", 0, best, proved, 0.0, best=best, proved=proved).gap

    assert gap(0.0, 0.0) == gap(2.0, 2.0) == 0.0 and gap(4.0, 3.0) == 0.25
    assert gap(0.0, -1.0) == gap(2.0, -float("inf")) == float("inf")
