"""When improving labels no longer pays: by counts of products, the certified gap, and what the value falls by."""

import math

import numpy as np
import pytest

import margindsl as md
from margindsl.drivers.worth import FEW, FREE, PRICE, ROOM, WINDOW, Worth
from margindsl.features.build import build
from margindsl.features.kernels import Linear
from margindsl.host.clock import Account, Budget


def two_clouds(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + 0.4 * rng.choice([-1, 1], n)[:, None]
    y, f = md.Labels(n), md.Hyperplane(X, centre=True)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0.6 * n])


@pytest.fixture
def program():
    return two_clouds().program()


def test_small_work_is_free_and_larger_work_has_to_leave_room(program):
    account = Account(work=7.0)
    worth = Worth(account, program, bound=1.0 - 0.5 * PRICE * WINDOW)
    account.work += FREE
    assert worth.pays(1.0)
    account.work += 1.0
    assert not worth.pays(1.0) and worth.pays(2.0)  # of a gap of half there is much to win


def test_beyond_that_the_value_has_to_fall(program):
    account = Account()
    worth = Worth(account, program, bound=0.0)
    account.work, value = ROOM, 1.0
    assert worth.pays(value)
    for _ in range(5):
        account.work += 10 * worth.a_pass
        value *= 1 - 11 * PRICE
        assert worth.pays(value)
    account.work += 0.9 * WINDOW * worth.a_pass
    assert worth.pays(value)  # one fit may fail
    account.work += 0.2 * WINDOW * worth.a_pass
    assert not worth.pays(value)


def test_the_room_of_many_points_is_as_much_less_but_not_less_than_what_is_free():
    marks = [Worth(Account(), two_clouds(n).program(), bound=0.0).mark for n in (FEW, 2 * FEW, 20 * FEW)]
    assert marks == pytest.approx([ROOM, ROOM / 2, FREE])


def test_half_of_what_the_relaxation_took_may_be_spent(program):
    account = Account(work=10 * ROOM)
    worth = Worth(account, program, bound=0.0)
    account.work = 14 * ROOM
    assert worth.pays(1.0) and worth.pays(1.0)
    account.work = 16 * ROOM
    assert not worth.pays(1.0)


def test_fits_that_take_more_have_as_much_more_patience_and_room_by_the_root_of_it(program):
    account = Account()
    worth = Worth(account, program, bound=0.0)
    a_fit = 9 * WINDOW * worth.a_pass
    account.work = 2.9 * ROOM
    assert worth.pays(1.0, a_fit)
    account.work = 3 * ROOM + 0.9 * a_fit
    assert worth.pays(1.0, a_fit)  # one fit may fail
    account.work += 0.2 * a_fit
    assert not worth.pays(1.0, a_fit)


def test_the_room_of_several_clusters_without_a_bound_grows_with_the_labels_there_are():
    rooms = []
    for n, clusters in ((20, 3), (40, 3), (40, 5), (FEW, 5)):
        y, f = md.Labels(n, clusters=clusters), md.Hyperplane(np.random.default_rng(0).normal(size=(n, 4)))
        loss = md.mean(md.hinge(md.margin(y, f, coding="simplex")))
        rooms.append(Worth(Account(), md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss)).program()).mark)
    assert rooms == sorted(rooms) and len(set(rooms)) == 4 and rooms[-1] == ROOM


@pytest.mark.parametrize("columns", [1, 9])
def test_products_are_counted_inside_a_solve_alone(columns):
    features = build(np.random.default_rng(0).normal(size=(50, 3)), Linear())
    budget, W = Budget(), np.ones((3, columns))
    features.apply(W)
    assert budget.account.work == 0
    with budget.limit(1.0):
        features.apply(W)
        once = budget.account.work
        features.adjoint(np.ones((50, columns)))
        assert once > 150 and budget.account.work == 2 * once
    assert budget.replace(tol=1.0).account is budget.account and math.isinf(budget.cutoff)


def test_search_without_limit_is_never_worse_and_counts_are_repeated():
    problem = two_clouds(24)
    auto, again, search = (problem.solve(md.SDP(polish=how), random_state=0) for how in ("auto", True, "search"))
    assert auto.value == again.value and np.array_equal(auto.labels, again.labels)
    assert search.value <= auto.value * (1 + 1e-9)
