"""No relaxation that looks for low objectives answers worse labels than those it was given."""

from functools import cache

import numpy as np
import pytest

import margindsl as md

rng = np.random.default_rng(11)
X = rng.normal(size=(14, 3))


@cache
def proved(offset, centre):
    """Return a problem and its optimum."""
    y, f = md.Labels(14), md.Hyperplane(X + offset, centre=centre)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 12])
    return problem, problem.solve("exact", random_state=0)


@pytest.mark.parametrize("relaxation, offset", [
    ("alternating", 0.0), ("cccp", 1.5), ("cuts-outside", 0.0), ("first-cut", 1.5), ("weight-lifting", 1.5)])
def test_warm_starts_are_not_left_for_worse(relaxation, offset):
    problem, best = proved(offset, relaxation == "cuts-outside")  # which takes no others
    again = problem.solve(relaxation, warm_start=best, random_state=0)
    assert again.value <= best.value + 1e-7 * abs(best.value)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("relaxation, clusters", [("exact", 3), ("sdp", 2), ("minimax", 3), ("cccp", 2)])
def test_time_that_is_up_at_once_leaves_the_warm_start(relaxation, clusters):
    y, f = md.Labels(200, clusters=clusters), md.Hyperplane(rng.normal(size=(200, 4)))
    lam = md.Parameter(4.0)
    margins = y * f if clusters == 2 else md.margin(y, f, coding="simplex")
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.hinge(margins))), [md.sizes(y, at_least=40)])
    start = problem.solve(md.Alternating(restarts=1, polish="none"), random_state=0)
    again = problem.solve(relaxation, warm_start=start, time_limit=1e-4, random_state=0)
    assert again.value <= start.value and again.bound <= again.value and again.verify()
    assert "no time to fit" not in again.message, "the words are of the answer that is given"
    lam.value = 40.0
    heavier = problem.solve(relaxation, warm_start=start, time_limit=1e-4, random_state=0)
    assert heavier.verify(), "the value is that of the new weight"


def test_a_warm_start_goes_with_losses_that_no_proof_knows():
    y, f = md.Labels(6), md.Hyperplane(np.random.default_rng(0).normal(size=(6, 2)))
    loss = md.pos(md.logistic(-(y * f)) - 0.4)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(loss)), [md.sum(y) == 0])
    first = problem.solve("alternating", random_state=1)
    again = problem.solve("alternating", random_state=0, warm_start=first, time_limit=1e-9)
    assert again.labels.sum() == 0 and np.isfinite(again.value)
