"""Whether problems have a least value: objectives that fall without end, bounds that contradict one another."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.errors import InfeasibleError, UnboundedError
from margindsl.estimators import MarginClusterer
from margindsl.program.bounds import is_unbounded

POINTS = np.random.default_rng(3).normal(size=(5, 2))
LABELS = 1 - ((np.arange(32)[:, None] >> np.arange(5)) & 1)


def falling(name, y, f, slope):
    """Return an objective of which a threshold, the bias or both may fall."""
    g, threshold = y * f, md.Scalar()
    return {"threshold": 3 * md.mean(md.pos(threshold - g)) - slope * threshold,
            "linear": slope * md.mean(g),
            "tilted": slope * md.mean(md.maximum(-g, 0.5 * g - 1)) - 0.3 * md.mean(g),
            "squared": 3 * md.mean(md.squared_hinge(g)) + slope * md.mean(g) / 50}[name]


def by_hand(name, slope, y, sides):
    """Return whether plain cvxpy calls the problem of fixed labels unbounded."""
    b, threshold = cp.Variable(), cp.Variable()
    f = cp.Variable(2) * 0 @ POINTS.T + b  # a direction without weights tells it all
    g = cp.multiply(y, f)
    paid = {"threshold": 3 * cp.sum(cp.pos(threshold - g)) / 5 - slope * threshold, "linear": slope * cp.sum(g) / 5,
            "tilted": slope * cp.sum(cp.maximum(-g, 0.5 * g - 1)) / 5 - 0.3 * cp.sum(g) / 5,
            "squared": 3 * cp.sum(cp.square(cp.pos(1 - g))) / 5 + slope * cp.sum(g) / 250}[name]
    held = [cp.sum(f) <= 1.0 if side == "above" else cp.sum(f) >= -1.0 for side in sides]
    problem = cp.Problem(cp.Minimize(paid), held)
    problem.solve(solver="CLARABEL")
    return problem.status == "unbounded"


SIDES = [(), ("above",), ("below",), ("above", "below")]


@pytest.mark.parametrize("name, slope, sides", [  # every fall with two ways of holding the bias, or with all four
    (*fall, sides) for i, fall in enumerate([
        ("threshold", 0.9), ("threshold", 2.0), ("threshold", 3.5), ("linear", 1.0), ("tilted", 0.25), ("tilted", 3.0),
        ("squared", 1.0)])
    for j, sides in enumerate(SIDES) if fall[0] == "linear" or (i + j // 2) % 2 == 0])
def test_what_falls_without_end_is_what_cvxpy_calls_unbounded(name, slope, sides):
    y, f = md.Labels(5), md.Hyperplane(POINTS, bias=True)
    held = [md.sum(f) <= 1.0 if side == "above" else md.sum(f) >= -1.0 for side in sides]
    program = md.Problem(md.Minimize(md.sq_norm(f) / 2 + falling(name, y, f, slope)), held).program()
    found = [program.fix_labels(labels).is_unbounded for labels in LABELS[::3]]
    assert found == [by_hand(name, slope, 2 * labels - 1, sides) for labels in LABELS[::3]]


@pytest.mark.parametrize("solver", [None, "clarabel"])
@pytest.mark.parametrize("relaxation", ["exact", "alternating", "cccp", "auto"])
def test_a_problem_without_a_least_value_is_refused(relaxation, solver):
    y, f = md.Labels(5), md.Hyperplane(POINTS, bias=True)
    cases = [("threshold", 3.5, [abs(md.sum(y)) <= 1]), ("linear", 1.0, [md.sum(f) >= -1.0]),
             ("linear", 1.0, [md.sum(f) <= 1.0])]
    for name, slope, held in cases[: 1 if relaxation == "cccp" else 3]:  # which stays where the margins are positive
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + falling(name, y, f, slope)), held)
        with pytest.raises(UnboundedError, match="without end"):
            problem.solve(relaxation, solver=solver, random_state=0)


def test_what_a_solver_gives_up_on_is_refused_where_it_falls_without_end():
    # Both points at one place: the bias and the mean rise together. Newton ended as inaccurate.
    y, f = md.Labels(2), md.Hyperplane(np.full((2, 1), 46227.38093213339), bias=True, centre=False)
    variance = 2.524904370493344 * md.mean((y * f - (mean := md.Scalar(name="mean"))) ** 2)
    problem = md.Problem(md.Minimize(3.6891121882458733 * md.sq_norm(f) - 0.4281134337686219 * mean + variance),
                         [y == np.array([1, 1])])
    for relaxation in ("alternating", "cccp", "supervised"):
        with pytest.raises(UnboundedError, match="without end"):
            problem.solve(relaxation, random_state=2)


@pytest.mark.parametrize("relaxation", ["exact", "alternating", "cccp", "sdp", "minimax", "weight-lifting"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_bounds_on_decision_values_that_contradict_are_named(relaxation, scale):
    y, f = md.Labels(5), md.Hyperplane(scale * POINTS)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [f[0] >= 1, f[0] <= -1])
    with pytest.raises(InfeasibleError, match=r"bounds on f\[0\], which contradict"):
        problem.solve(relaxation, random_state=0)


@pytest.mark.parametrize("seed", range(10))
def test_a_contradiction_is_found_where_cvxpy_finds_none_that_satisfies_all(seed):
    rng = np.random.default_rng(seed)
    y, f = md.Labels(5), md.Hyperplane(POINTS, centre=False)
    W, ends = rng.integers(-1, 2, size=(4, 5)).astype(float), np.sort(rng.normal(size=(4, 2)), axis=1)
    W[:, 0] += ~W.any(axis=1)
    held = [held for w, (low, high) in zip(W, ends) for held in (md.sum(w * f) >= low, md.sum(w * f) <= high)]
    form = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), held).program().fix_labels(LABELS[3])
    w = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(0), [W @ POINTS @ w >= ends[:, 0], W @ POINTS @ w <= ends[:, 1]])
    problem.solve(solver="CLARABEL")
    assert bool(form.contradiction) == (problem.status == "infeasible")


def test_links_that_leave_no_room_for_balance_name_it():
    with pytest.raises(InfeasibleError, match="balance='auto'"):
        MarginClusterer().fit(POINTS, must_link=[(i, i + 1) for i in range(4)])


def test_losses_without_weight_leave_a_cost_that_falls():
    y, f, s = md.Labels(5), md.Hyperplane(POINTS), md.Scalar()
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.sum(md.pos(s - y * f)) - 2 * s))
    form = problem.program().fix_labels(LABELS[3])
    none = replace(form.losses, terms=tuple(replace(t, weights=0 * t.weights) for t in form.losses.terms))
    assert is_unbounded(none) and not is_unbounded(form.losses)
    assert not is_unbounded(replace(none, scalars=replace(none.scalars, costs=0 * none.scalars.costs)))


@pytest.mark.parametrize("order", ["C", "F"])
def test_products_that_add_in_sequence_leave_a_bound_that_holds_the_bias(order):
    rng = np.random.default_rng(0)
    grey = np.where(rng.uniform(size=(2000, 30)) < 0.5, 0.0, rng.integers(0, 255, (2000, 30)) / 255)
    X = np.asarray(grey + np.repeat([0.7, 5.3], 15), order=order)
    assert md.recipes.cpmmc(X, C=10.0, l=10.0).program().bias.is_finite
