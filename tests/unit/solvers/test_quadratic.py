"""The interior point of cutting-plane duals, and the nearest point within bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from margindsl.program.nearest import nearest
from margindsl.program.quadratic import minimise


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 25), rank=st.integers(0, 6), scale=st.floats(-3, 4))
def test_the_quadratic_programme_satisfies_its_optimality_conditions(seed, count, rank, scale):
    rng = np.random.default_rng(seed)
    B = 10**scale * rng.normal(size=(count, rank))
    E = np.vstack([np.ones(count), rng.normal(size=(int(count > 2), count))])
    c, e = 10**scale * rng.normal(size=count), E @ rng.dirichlet(np.ones(count))
    z, y, error = minimise(B @ B.T, c, E, e, 1e-10)
    unit = max(1.0, 10 ** (2 * scale), 10**scale)
    slack = B @ (B.T @ z) + c - E.T @ y
    assert z.min() >= 0 and np.abs(E @ z - e).max() <= 1e-8 and error <= 1e-6
    assert slack.min() >= -1e-6 * unit and abs(z @ slack) <= 1e-6 * unit


def test_the_quadratic_programme_says_when_nothing_is_feasible():
    *_, error = minimise(np.zeros((2, 2)), np.zeros(2), np.ones((2, 2)), np.array([1.0, 2.0]))
    assert error > 1e-3


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 5), size=st.integers(1, 6), scale=st.floats(-4, 4))
def test_the_nearest_point_is_within_the_bounds_and_no_point_within_is_nearer(seed, count, size, scale):
    rng = np.random.default_rng(seed)
    N, z = rng.normal(size=(count, size)), 10**scale * rng.normal(size=size)
    inner = 10**scale * rng.normal(size=size)
    width = 10**scale * rng.exponential(size=(2, count)) * rng.integers(0, 2, size=(2, count))
    lower = np.where(rng.random(count) < 0.3, -np.inf, N @ inner - width[0])
    upper = np.where(rng.random(count) < 0.3, np.inf, N @ inner + width[1])
    found = nearest(z, N, lower, upper)
    outside = np.maximum(lower - N @ found, N @ found - upper).max()
    assert outside <= 1e-11 * max(10**scale, 1e-3)
    # the angle at the nearest point is obtuse towards every point within, in particular the inner one
    for other in (inner, nearest(inner + 10**scale * rng.normal(size=size), N, lower, upper)):
        assert (z - found) @ (other - found) <= 1e-7 * 10 ** (2 * scale) * size


def test_the_nearest_point_agrees_with_a_general_solver():
    rng = np.random.default_rng(0)
    N, z = rng.normal(size=(3, 4)), 3 * rng.normal(size=4)
    lower, upper = np.array([0.5, -np.inf, -0.1]), np.array([2.0, -0.5, 0.1])
    rows = [{"type": "ineq", "fun": lambda x, a=a, b=b: a @ x - b}
            for a, b in zip(np.vstack([N, -N]), np.concatenate([lower, -upper])) if np.isfinite(b)]
    best = minimize(lambda x: np.sum((x - z) ** 2), np.zeros(4), constraints=rows, method="SLSQP",
                    options={"ftol": 1e-14})
    np.testing.assert_allclose(nearest(z, N, lower, upper), best.x, atol=1e-6)


@pytest.mark.parametrize("angle", [1.0, 1e-3, 1e-6])
def test_bounds_that_meet_in_a_point_are_met(angle):
    N = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    found = nearest(np.array([5.0, 7.0]), N, np.zeros(2), np.zeros(2))
    assert np.abs(N @ found).max() <= 1e-14
    np.testing.assert_allclose(found, 0, atol=1e-14 / angle)


def test_bounds_that_nothing_meets_and_rows_of_zeros_leave_a_finite_point():
    N = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    found = nearest(np.ones(2), N, np.array([1.0, -np.inf, 2.0]), np.array([np.inf, -1.0, 3.0]))
    assert np.all(np.isfinite(found)) and found[1] == 1.0


def test_rows_of_any_steepness_count_alike() -> None:
    # one flat row and one that is 1e12 times as steep: min of ½x² + max(1 − x, 1e12 (x − ½)) is where they meet
    B, c = np.array([[-1.0], [1e12]]), np.array([0.0, 1.0 + 0.5e12])
    z, _, error = minimise(B @ B.T, c, np.ones((1, 2)), np.ones(1), 1e-12)
    assert error <= 1e-9
    assert z[0] == pytest.approx(1.0, abs=1e-9) and -(B.T @ z)[0] == pytest.approx(0.5, rel=1e-3)


def test_the_second_order_term_does_not_make_steps_cycle() -> None:
    # weighted by the length of a step, it once took four steps in turn at a gap of 0.2 here
    B = np.array([[-1.4, -5.1], [0.2, -10.2], [1.0, -3.5], [-0.2, 10.2], [0.0, 0.0], [0.0, 0.0]])
    E = np.array([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [-1.8, -2.6, -7.5, 2.6, 1.0, -1.0]])
    c = np.array([0.0, 2.0, 0.5, -0.5, 20.0, 20.0])
    z, y, error = minimise(B @ B.T, c, E, np.array([1.0, 0.0]), 1e-6)
    slack = B @ (B.T @ z) + c - E.T @ y
    assert error <= 1e-9 and slack.min() >= -1e-6 and abs(z @ slack) <= 1e-5
