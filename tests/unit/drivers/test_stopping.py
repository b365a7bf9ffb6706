"""When improving labels no longer pays: by counts of products, the certified gap, and what the value falls by."""

import math

import numpy as np
import pytest

import margindsl as md
from margindsl.drivers.run import FEW, FREE, PRICE, ROOM, WIDE, WINDOW, Run, StoppingRule
from margindsl.host.clock import Budget, Incumbent
from margindsl.runtime.registry import make_solver


def two_clouds(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + 0.4 * rng.choice([-1, 1], n)[:, None]
    y, f = md.Labels(n), md.Hyperplane(X, centre=True)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0.6 * n])


@pytest.fixture
def program():
    return two_clouds().program()


def test_small_work_is_free_and_larger_work_has_to_leave_room(program):
    incumbent = Incumbent(work=7.0)
    rule = StoppingRule(incumbent, program, bound=1.0 - 0.5 * PRICE * WINDOW)
    incumbent.work += FREE
    assert not rule.ends(1.0)
    incumbent.work += 1.0
    assert rule.ends(1.0) and not rule.ends(2.0)  # of a gap of half there is much to win


def test_beyond_that_the_value_has_to_fall(program):
    incumbent = Incumbent()
    rule = StoppingRule(incumbent, program, bound=0.0)
    incumbent.work, value = ROOM, 1.0
    assert not rule.ends(value)
    for _ in range(5):
        incumbent.work += 10 * rule.a_pass
        value *= 1 - 11 * PRICE
        assert not rule.ends(value)
    incumbent.work += 0.9 * WINDOW * rule.a_pass
    assert not rule.ends(value)  # one fit may fail
    incumbent.work += 0.2 * WINDOW * rule.a_pass
    assert rule.ends(value)


def test_the_room_of_many_points_is_as_much_less_but_not_less_than_what_is_free():
    rooms = [StoppingRule(Incumbent(), two_clouds(n).program(), bound=0.0).room for n in (FEW, 2 * FEW, 20 * FEW)]
    assert rooms == pytest.approx([ROOM, ROOM / 2, FREE])


def test_a_gap_below_a_fifth_leaves_as_much_less_room(program):
    for gap in (WIDE / 2, WIDE / 4):
        rule = StoppingRule(Incumbent(), program, bound=1.0 - gap)
        rule.incumbent.work = 0.99 * ROOM * gap / WIDE
        assert not rule.ends(1.0) and not rule.ends(1.0)
        rule.incumbent.work = ROOM * gap / WIDE + 1.1 * WINDOW * rule.a_pass
        assert rule.ends(1.0)


def test_half_of_what_the_relaxation_took_may_be_spent(program):
    incumbent = Incumbent(work=10 * ROOM)
    rule = StoppingRule(incumbent, program, bound=0.0)
    incumbent.work = 14 * ROOM
    assert not rule.ends(1.0) and not rule.ends(1.0)
    incumbent.work = 16 * ROOM
    assert rule.ends(1.0)


def test_fits_that_take_more_have_as_much_more_patience_and_room_by_the_root_of_it(program):
    incumbent = Incumbent()
    rule = StoppingRule(incumbent, program, bound=0.0)
    a_fit = 9 * WINDOW * rule.a_pass
    incumbent.work = 2.9 * ROOM
    assert not rule.ends(1.0, a_fit)
    incumbent.work = 3 * ROOM + 0.9 * a_fit
    assert not rule.ends(1.0, a_fit)  # one fit may fail
    incumbent.work += 0.2 * a_fit
    assert rule.ends(1.0, a_fit)


def test_the_room_of_several_clusters_without_a_bound_grows_with_the_labels_there_are():
    rooms = []
    for n, clusters in ((100, 3), (200, 3), (200, 5), (FEW, 5)):
        y, f = md.Labels(n, clusters=clusters), md.Hyperplane(np.random.default_rng(0).normal(size=(n, 4)))
        loss = md.mean(md.hinge(md.margin(y, f, coding="simplex")))
        rooms.append(StoppingRule(Incumbent(), md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss)).program()).room)
    assert rooms == sorted(rooms) and len(set(rooms)) == 4 and rooms[-1] == ROOM


def test_every_solve_of_a_run_is_work(program):
    budget = Budget()
    run = Run(program, make_solver("newton"), make_solver("newton"), budget, np.random.default_rng(0))
    labels = program.labels.any_member()
    run.fit(labels)
    once = budget.incumbent.work
    run.fit(labels)  # known, and not solved again
    assert once > 0 and budget.incumbent.work == once and run.spent == once
    run.solve(program.fix_labels(labels))
    assert budget.incumbent.work > once
    assert budget.replace(tol=1.0).incumbent is budget.incumbent and math.isinf(budget.cutoff)


def test_search_without_limit_is_never_worse_and_counts_are_repeated():
    problem = two_clouds(16)
    auto, again, search = (problem.solve(md.SDP(polish=how), random_state=0) for how in ("auto", True, "search"))
    assert auto.value == again.value and np.array_equal(auto.labels, again.labels)
    assert search.value <= auto.value * (1 + 1e-9)
