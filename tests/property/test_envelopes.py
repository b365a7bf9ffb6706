"""Labels are absorbed in every loss through an envelope: bounds below the optimum, branch and bound at it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import margindsl as md
from margindsl.calculus import PLQ, absolute, huber, maximum, pos, square
from margindsl.calculus.smooth import Logistic
from margindsl.contract import Status
from margindsl.program.absorption import root_envelope

FUNCTIONS = {
    "hinge": pos().precompose(-1, 1), "huber": huber(0.5).precompose(-1, 1),
    "epsilon-insensitive": pos().precompose(1, -1.3) + pos().precompose(-1, 0.7),
    "least squares": square().precompose(1, -1), "wrong sign": pos().precompose(1, 1), "absolute": absolute(),
    "either sign": maximum(maximum(PLQ.affine(-1.0, 0.0), PLQ.affine(0.2, 0.0)), PLQ.affine(1.0, -1.0)),
    "line, then square": maximum(maximum(PLQ.affine(2.0, -2.0), square().precompose(1, -3)), PLQ.affine(-1.0, 0.5)),
    "logistic": Logistic(), "logistic, two sides": Logistic() + square().precompose(1, -3)}
LOSSES: dict[str, Any] = {
    "huber": lambda g: md.huber(1 - g), "epsilon-insensitive": lambda g: md.pos(abs(1 - g) - 0.3),
    "wrong sign": lambda g: md.pos(1 + g), "several": lambda g: md.huber(1 - g) + 0.3 * md.squared_hinge(g),
    "logistic, hinge": lambda g: md.logistic(-g) + md.hinge(g),
    "logistic, two sides": lambda g: 0.5 * md.logistic(-g) + md.pos(0.8 - g) ** 2 + 0.4 * md.pos(g - 1.2) ** 2}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_envelope_is_convex_in_the_square_and_below_both_signs(name: str) -> None:
    loss, s = FUNCTIONS[name], np.sqrt(np.linspace(0.0, 30.0, 4001))
    found = np.asarray(root_envelope(loss)(s))
    best = np.minimum(loss(s), loss(-s))
    assert np.all(found <= best + 1e-12 * (1 + np.abs(best)))
    assert np.all(np.diff(found, 2) >= -1e-11 * (1 + np.abs(found[1:-1])))
    assert found.min() == pytest.approx(best.min(), abs=1e-3)


def test_an_envelope_is_the_loss_where_that_is_convex_in_the_square() -> None:
    for name in ("hinge", "least squares", "logistic"):
        assert root_envelope(FUNCTIONS[name]) is FUNCTIONS[name]


def declared(loss: Any, limit: float | None, n: int = 7) -> md.Problem:
    X = np.random.default_rng(3).normal(size=(n, 2)) + np.where(np.arange(n) < n // 2, -1.0, 1.0)[:, None]
    y, f = md.Labels(n), md.Hyperplane(X, bias=limit is not None)
    held = [abs(md.sum(y)) <= 3] if limit is None else [abs(md.sum(f)) <= limit]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(loss(y * f))), held)


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("name, limit", [(name, (None, 3.0)[i % 2]) for i, name in enumerate(LOSSES)])
def test_bounds_of_absorbed_labels_against_enumeration(name: str, limit: float | None) -> None:
    problem = declared(LOSSES[name], limit)
    best = problem.solve(md.Exact(method="enumeration"), random_state=0)
    branched = problem.solve(md.Exact(method="branching"), random_state=0)
    lifted = problem.solve("weight-lifting", random_state=0)
    assert best.state is branched.state is Status.OPTIMAL
    assert branched.value == pytest.approx(best.value, rel=1e-6)
    for solution in (best, branched, lifted):
        assert solution.bound <= best.value * (1 + 1e-9) and solution.verify()
    assert branched.bound >= best.value * (1 - 2e-6)
    assert lifted.bound > 0.2 * best.value, "an envelope keeps the falling part"


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("name, limit, n", [
    ("logistic, hinge", None, 5), ("logistic, two sides", 3.0, 4)])
def test_a_tree_whose_leaves_are_labellings_is_as_tight_as_their_duals(name: str, limit: float | None, n: int) -> None:
    problem = declared(LOSSES[name], limit, n)
    found = problem.solve(md.Exact(method="branching"), random_state=0)
    assert found.state is Status.OPTIMAL and found.verify()
    assert found.value == pytest.approx(problem.solve(md.Exact(method="enumeration")).value, rel=1e-6)


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("low, high", [(-3.0, 3.0), (0.5, 2.0)])
def test_a_tree_with_a_boxed_bias_is_proved_and_a_higher_bound_is_not(low: float, high: float) -> None:
    X = np.random.default_rng(5).normal(size=(24, 2)) + np.where(np.arange(24) < 12, -1.0, 1.0)[:, None]
    y, f = md.Labels(24), md.Hyperplane(X, bias=True)
    objective = md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.odm(y * f, theta=0.2, nu=0.4)))
    solution = md.Problem(objective, [md.sum(f) >= low, md.sum(f) <= high]).solve("exact", random_state=0)
    assert solution.state is Status.OPTIMAL and solution.verify()
    higher = dataclasses.replace(solution, bound=solution.value + 1e-3 * abs(solution.value - solution.bound) + 1e-4)
    assert not higher.verify(), "the independent check proves no more than the optimum"


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("rising", [False, True])
def test_cccp_takes_losses_that_rise_with_a_scalar_or_without_pieces(rising: bool) -> None:
    X = np.random.default_rng(7).normal(size=(20, 2)) + np.where(np.arange(20) < 10, -1.0, 1.0)[:, None]
    y, f = md.Labels(20), md.Hyperplane(X)
    g = y * f
    loss = 3 * md.mean(md.logistic(-g)) + 3 * md.mean(md.hinge(g)) if rising else (
        20 * md.var(g) - 20 * md.mean(g) + md.mean(md.pos(g - 2)))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss), [abs(md.sum(y)) <= 4])
    found = problem.solve("cccp", random_state=0)
    assert found.verify() and found.value == pytest.approx(problem.solve("alternating", random_state=0).value, rel=1e-2)
    values = [record.value for record in found.history if record.stage == "cccp"]
    assert len(values) > 1 and found.value <= min(values) + 1e-6 * abs(min(values))
