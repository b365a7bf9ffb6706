"""Label lifts without bounds on labels are weight lifts; those with bounds are no less, and start from them."""

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget
from margindsl.drivers.run import Run
from margindsl.relaxations.absorbed import absorbed

rng = np.random.default_rng(5)
T = np.where(rng.random(60) < 0.7, 1.0, -1.0)
X = T[:, None] * np.array([0.9, -0.4, 0.2]) + rng.normal(size=(60, 3))
LOSSES = {"hinge": md.hinge, "squared hinge": lambda g: md.square(md.pos(1 - g)), "odm": lambda g: md.odm(g, 0.4, 0.3),
          "absolute": lambda g: abs(1 - g), "logistic": lambda g: md.logistic(-g)}


def declared(loss, most, centre=True, links=()):
    y, f = md.Labels(60), md.Hyperplane(X, centre=centre)
    bounds = [abs(md.sum(y)) <= most] if most < 60 else []
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 6 * md.mean(LOSSES[loss](y * f))),
                      bounds + [y[i] == y[j] for i, j in links])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("most", [60, 30, 0])
@pytest.mark.parametrize("links", [(), ((0, 5), (7, 9), (0, 11))])
def test_the_native_solver_proves_what_an_interior_point_method_does(loss, most, links):
    problem = declared(loss, most, links=links)
    native = problem.solve(md.SDP(polish="none"), solver="burer-monteiro", random_state=0)
    conic = problem.solve(md.SDP(polish="none"), solver="clarabel", random_state=0)
    assert native.bound == pytest.approx(conic.bound, rel=5e-4) and native.verify()
    assert native.bound <= native.estimate and native.bound <= conic.estimate * (1 + 1e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared hinge", "odm", "absolute"])
def test_without_bounds_on_labels_falling_losses_have_one_value_and_others_gain_by_lengths(loss):
    problem = declared(loss, 60)
    lifted = problem.solve(md.WeightLifting(polish="none"), solver="clarabel", random_state=0)
    labels = problem.solve(md.SDP(polish="none"), solver="clarabel", random_state=0)
    assert lifted.bound >= labels.bound * (1 - 1e-5)
    if loss in ("hinge", "squared hinge"):
        assert labels.bound == pytest.approx(lifted.bound, rel=1e-5)


@pytest.mark.usefixtures("patience")
def test_a_limit_leaves_the_bound_of_the_weight_lift():
    points = np.random.default_rng(0).normal(size=(4000, 40))
    y, f = md.Labels(4000), md.Hyperplane(points)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(y * f, 0.4, 0.2))), [md.sum(y) == 0])
    answer = problem.solve(md.SDP(polish="none"), time_limit=1.0, random_state=0)
    assert 0 <= answer.bound <= answer.value and answer.verify()


def test_the_answer_is_a_label_matrix():
    answer = declared("odm", 30).solve(md.SDP(polish="none"), solver="burer-monteiro", random_state=0)
    M = answer.label_matrix
    assert np.allclose(np.diag(M), 1.0) and np.linalg.eigvalsh(M)[0] >= -1e-9
    assert M.sum() <= 30**2 * (1 + 1e-3), "the bound on labels, to the accuracy of the lift"


@pytest.mark.parametrize("seed", range(4))
def test_a_link_beside_a_lopsided_bound_is_no_free_labelling(seed):
    """The reference of the bound takes the place that the link left, so that the lift has as many vectors as points."""
    X = np.random.default_rng(seed).normal(size=(7, 3))
    y, f = md.Labels(7), md.Hyperplane(X)
    program = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))),
                         [y[0] == y[3], md.sum(y) <= 2]).program()
    form = md.SDP().lower(program)
    assert form.count == form.n
    run = Run(program, md.Solver("burer-monteiro"), md.Solver("newton"), Budget(), np.random.default_rng(0))
    assert not absorbed(run, form).is_solved


@pytest.mark.parametrize("records", range(1, 7))
def test_a_free_bias_stopped_at_any_time_has_labels_and_a_sound_bound(records):
    y, f = md.Labels(60), md.Hyperplane(X, bias=True)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 6 * md.mean(md.squared_hinge(y * f))), [abs(md.sum(f)) <= 1])
    left = iter(range(records - 1))
    answer = problem.solve(md.SDP(), solver="burer-monteiro", callback=lambda record: next(left, None) is None,
                           random_state=0)
    whole = problem.solve(md.SDP(), solver="clarabel", random_state=0)
    assert answer.verify() and answer.bound <= whole.estimate * (1 + 1e-6) and set(answer.labels) <= {-1, 1}
