"""Losses that rise with the margin: bounds stay below values, also where a loss has no least value."""

from functools import cache

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import CalculusError, RefusalError
from margindsl.program.split import falling_losses

N = 5
BOUNDED = [md.WeightLifting(polish="none"), md.SDP(polish="none"), md.Minimax(polish="none")]
LOSSES = {
    "linear": lambda m: m,
    "kinked": lambda m: md.maximum(m, 3 * m - 1),
    "curved": lambda m: md.plq([(-1, (0, 1, 0)), (np.inf, (0.5, 2, 0.5))], m),
    "absolute": lambda m: abs(m - 0.3),
    "turned hinge": lambda m: md.hinge(-m),
    "square": lambda m: md.square(m - 0.2),
    "logistic": lambda m: md.logistic(-m),
}
CODINGS = ["signs", "simplex", "crammer-singer"]
SCALED = [*((loss, 1.0) for loss in LOSSES), ("curved", 1e-3), ("square", 1e-3)]
ENDLESS = ["linear", "kinked", "curved"]


def problem(loss, coding, scale=1.0):
    X = scale * np.random.default_rng(3).normal(size=(N, 2))
    clusters = 2 if coding == "signs" else 3
    y, f = md.Labels(N, clusters=clusters), md.Hyperplane(X, centre=True)
    m = md.margin(y, f) if coding == "signs" else md.margin(y, f, coding=coding)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(LOSSES[loss](m))), [md.sizes(y, at_least=1)])


@cache
def best(loss, coding, scale):
    return min(problem(loss, coding, scale).solve(name, random_state=0).value
               for name in ("alternating", "cccp"))


@pytest.mark.filterwarnings("error::margindsl.errors.AccuracyWarning")
@pytest.mark.parametrize("relaxation, loss, scale, coding", [  # every loss in two codings and relaxations
    pytest.param(BOUNDED[(i + j) % 3], *loss, coding, id=f"{BOUNDED[(i + j) % 3].name}-{loss}-{coding}")
    for j, coding in enumerate(CODINGS) for i, loss in enumerate(SCALED) if (i - j) % 3])
def test_bounds_of_rising_losses_hold(relaxation, loss, coding, scale):
    if coding == "crammer-singer" and loss in ENDLESS:
        with pytest.raises(RefusalError, match="has no least value"):
            problem(loss, coding, scale).solve(relaxation)
        return
    solution, reached = problem(loss, coding, scale).solve(relaxation, random_state=0), best(loss, coding, scale)
    assert np.isfinite(solution.bound) and solution.bound <= reached + 1e-12 * abs(reached)
    assert solution.verify()


@pytest.mark.parametrize("loss", ENDLESS)
def test_lengths_bound_what_rises_without_end_from_both_sides(loss):
    losses = problem(loss, "simplex").compile("alternating").program.losses
    with pytest.raises(CalculusError, match="has no least value"):
        falling_losses(losses)
    bounding, rng = falling_losses(losses, opposed=1.0), np.random.default_rng(0)
    lengths = rng.exponential(size=(50, N))
    for length in lengths:
        for margin in (length, -length, length * rng.uniform(-1, 1, N)):
            assert bounding.value(length) <= losses.value(margin) + 1e-12 * np.abs(losses.value(margin))


def test_a_weak_loss_keeps_its_least_value_where_bounds_need_it():
    solution = problem("square", "crammer-singer", 1e-3).solve("sdp")
    assert np.isfinite(solution.bound) and solution.verify()


@pytest.mark.parametrize("size, heavy, relaxation", [  # every pair of two of them
    (10.0 ** (2 * i - 2), 10.0 ** (3 * ((i + j) % 3) - 3), relaxation)
    for j, relaxation in enumerate(["alternating", "cccp", "minimax", "exact"]) for i in range(3)])
def test_losses_that_are_zero_at_zero_and_fall_there(size, heavy, relaxation):
    """Such losses have no value to be measured in at w = 0, and squares beside them stop the fall early."""
    X = np.random.default_rng(3).normal(size=(8, 2)) * size
    y, f = md.Labels(8), md.Hyperplane(X)
    objective = md.sq_norm(f) / 2 + heavy * md.mean((y * f) ** 2) - heavy * md.sum((y * f)[:5]) / 8
    solution = md.Problem(md.Minimize(objective), [abs(md.sum(y)) <= 4]).solve(relaxation, random_state=0)
    features, codes = X - X.mean(axis=0), solution.labels * (np.arange(8) < 5)
    w = np.linalg.solve(np.eye(2) + 2 * heavy / 8 * features.T @ features, heavy / 8 * features.T @ codes)
    least = -0.5 * heavy / 8 * (features.T @ codes) @ w
    assert solution.value == pytest.approx(least, rel=1e-6)
    assert solution.bound <= least * (1 - 1e-9)
