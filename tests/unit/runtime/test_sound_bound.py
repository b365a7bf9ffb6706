"""What an answer may be called: bounds that values do not contradict, statuses that were earned."""

import warnings

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import RawSolution, Status
from margindsl.errors import AccuracyWarning
from margindsl.runtime.judging import final_status, sound_bound

FIT = RawSolution(Status.OPTIMAL, {"w": np.zeros(1)}, objective=1.0, trace=((0.0, 1.0, 1.0),))
ROUGH = RawSolution(Status.INACCURATE, {"w": np.zeros(1)}, objective=1.0, trace=((0.0, 1.0, 0.5),))


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e12])
def test_rounding_is_forgiven_and_contradictions_are_told(unit):
    assert sound_bound(0.9 * unit, unit, unit) == 0.9 * unit
    assert sound_bound((1.0 + 1e-12) * unit, unit, unit) == unit
    with pytest.warns(AccuracyWarning, match="above an attained value"):
        assert sound_bound(1.01 * unit, unit, unit) == -np.inf


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e12])
@pytest.mark.parametrize(("state", "raw", "bound", "estimate", "expected"), [
    (Status.CONVERGED, FIT, 1.0, 1.0, Status.OPTIMAL),
    (Status.TIME_LIMIT, FIT, 1.0 - 1e-7, np.nan, Status.OPTIMAL),  # the gap says it, however the relaxation ended
    (Status.OPTIMAL, FIT, 1.0 - 1e-5, 1.0, Status.CONVERGED),
    (Status.OPTIMAL, FIT, -np.inf, np.nan, Status.CONVERGED),
    (Status.CONVERGED, ROUGH, 0.3, 0.4, Status.INACCURATE),
    (Status.CONVERGED, FIT, 0.3, 0.2, Status.INACCURATE),
    (Status.INACCURATE, FIT, 0.3, 0.4, Status.INACCURATE),
    (Status.TIME_LIMIT, FIT, 0.3, 0.2, Status.TIME_LIMIT),
])
def test_the_status_follows_from_what_was_proved(state, raw, bound, estimate, expected, unit):
    status, message = final_status(state, "", raw, value=unit, bound=unit * bound, estimate=unit * estimate, tol=1e-6)
    assert status is expected
    assert message or status is not Status.INACCURATE
    assert ("lies below the certified bound" in message) == (estimate < bound)


@pytest.mark.parametrize("name, limit", [
    ("sdp", None), ("minimax", 1e-3), ("weight-lifting", 1e-3), ("exact", None)])
def test_a_bound_is_no_lower_than_what_losses_prove_alone(name, limit):
    X = np.random.default_rng(0).normal(size=(24, 3)) * 1e3
    y, f = md.Labels(24), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f) + 0.25)), [abs(md.sum(y)) <= 8])
    if name == "exact":
        problem = problem.with_constraints(*[y[0] == y[i] for i in range(1, 11)])
    try:
        solution = problem.solve(name, time_limit=limit, random_state=0)
    except md.errors.TimeLimitError:
        return
    assert solution.bound >= 0.75 * (1 - 1e-9) and solution.verify()


def test_zero_is_a_value_like_any_other():
    """A value of zero is optimal where the bound is zero too, and not where it is below."""
    y, f = md.Labels(4), md.Hyperplane([[-2.0], [-1.0], [1.0], [2.0]])
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.pos(0 - y * f))), [abs(md.sum(y)) <= 0])
    solution = problem.solve("exact")
    assert solution.value == 0.0 and solution.bound == 0.0 and solution.gap == 0.0 and solution.status == "optimal"


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("loss, relaxation", [  # the scalar of the variance leaves nothing to lift of weights alone
    (loss, relaxation) for i, loss in enumerate([md.huber, md.var, lambda m: m**2, lambda m: 1e6 * abs(m)])
    for j, relaxation in enumerate(["sdp", "minimax", "weight-lifting", "exact"]) if (i + j) % 2 == 0])
def test_nothing_is_better_than_no_hyperplane_where_losses_are_least_at_it(loss, relaxation):
    X = np.random.default_rng(0).normal(size=(9, 2))
    y, f = md.Labels(9), md.Hyperplane(X)
    part = loss(y * f) if loss is md.var else md.mean(loss(y * f))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + part), [abs(md.sum(y)) <= 3])
    solution = problem.solve(relaxation, random_state=0)
    assert solution.status == "optimal" and solution.value == solution.bound == 0 and solution.verify()
    assert abs(int(solution.labels.sum())) <= 3


@pytest.mark.parametrize("solver", ["newton"])
@pytest.mark.parametrize("seed", [1, 10, 13, 30])
def test_bounds_of_steep_losses_at_their_kinks_are_kept_but_for_rounding(seed, solver):
    rng = np.random.default_rng(seed)
    at, heavy = rng.uniform(0.3, 3), 10.0**rng.uniform(4, 7)
    y, f = md.Labels(2), md.Hyperplane(np.array([[at], [-at]]))
    margins = y * f
    steep = np.array([heavy, 0.3]) * (2 * md.pos(-margins) + 0.3 * abs(1 - margins))
    objective = md.Minimize(2.4 * md.sq_norm(f) + md.mean(steep) + 0.5 * md.mean(md.odm(margins, 0.2, 0.4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = md.Problem(objective, [y[[0, 1]] == np.array([1, -1])]).solve(None, solver, random_state=0)
    assert solution.value == pytest.approx(2.4 / at**2, rel=1e-6)
    assert solution.bound > (1 - 1e-6) * solution.value and solution.verify()


@pytest.mark.parametrize("relaxation", ["exact", "minimax", "weight-lifting", "sdp"])
def test_a_bound_leaves_room_for_a_check_that_sums_in_another_order(relaxation):
    X = np.random.default_rng(3).normal(size=(8, 2)) * 10
    y, f = md.Labels(8), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 1e9 * md.mean(md.logistic(y * f))), [abs(md.sum(y)) <= 2])
    solution = problem.solve(relaxation, random_state=0)
    proved = solution.verify().bound
    assert solution.bound <= proved - 4 * np.finfo(float).eps * abs(proved)
