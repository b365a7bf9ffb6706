"""Bounds on decision values that lie on the weights, on one side or on both: relaxations against branch and bound."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.labelset.codes import simplex_codes

N = 6
X = np.random.default_rng(0).normal(size=(N, 2)) + [1.0, 0.5]
SLANT = np.linspace(0.0, 1.0, N)
BOUNDS: dict[str, Any] = {
    "one side": lambda f: [md.sum(SLANT * f) >= 1.0],
    "several": lambda f: [abs(md.sum(SLANT * f)) <= 0.5, f[0] - f[1] <= 0.2],
    "beside a bias": lambda f: [abs(md.sum(f)) <= 1.0, md.sum(SLANT * f) >= 0.5]}
RELAXATIONS: dict[str, Any] = {  # not polished: bounds hold whatever labels are found
    "minimax": md.Minimax(polish="none"), "exhaustive": md.Minimax(oracle="exhaustive", polish="none"),
    "sdp": md.SDP(polish="none"), "triangles": md.SDP(cuts="all", polish="none"),
    "weight-lifting": md.WeightLifting(polish="none"), "gmmc": md.GMMC(polish="none")}


def test_a_modulus_point_by_point_is_two_bounds_a_point():
    y, f = md.Labels(N), md.Hyperplane(X, centre=False)
    objective = md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.squared_hinge(y * f)))
    found = [md.Problem(objective, [abs(md.sum(y)) <= 3, *rules]).solve("exact", random_state=0) for rules in (
        [2 * abs(f[1:]) / 4 <= SLANT[1:], abs(f - 0.1)[[0, 2]][1] <= 0.2],
        [f[1:] <= 2 * SLANT[1:], f[1:] >= -2 * SLANT[1:], f[2] <= 0.3, f[2] >= -0.1])]
    assert found[0].value == pytest.approx(found[1].value, rel=1e-6)
    assert np.all(abs(found[0].decision[1:]) <= 2 * SLANT[1:] + 1e-6) and abs(found[0].decision[2] - 0.1) <= 0.2 + 1e-6
    free = md.Problem(objective, [abs(md.sum(y)) <= 3]).solve("exact", random_state=0)
    assert free.value < 0.99 * found[0].value, "the bounds bind"


@pytest.mark.parametrize("bounds", BOUNDS)
def test_bounds_of_two_clusters(bounds: str) -> None:
    y, f = md.Labels(N), md.Hyperplane(X, bias="bias" in bounds, centre=False)
    objective = md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.squared_hinge(y * f)))
    problem = md.Problem(objective, [abs(md.sum(y)) <= 3, *BOUNDS[bounds](f)])
    exact = problem.solve("exact", random_state=0)
    best = exact.value
    assert exact.bound == pytest.approx(best, rel=1e-5) and exact.verify()
    half = list(BOUNDS).index(bounds) % 2  # of the relaxations; the other half meets the bounds beside these
    for name, relaxation in list(RELAXATIONS.items())[half::2]:
        solution = problem.solve(relaxation, random_state=0, time_limit=60)
        assert 0 < solution.bound <= best * (1 + 1e-7) and solution.value >= best * (1 - 1e-5), name
        assert solution.verify(), name
    if bounds == "one side":
        assert "used in rounding, not in the bound" in problem.compile("sdp").explain()


@pytest.mark.parametrize("coding", ["crammer-singer", "simplex"])
def test_bounds_of_three_clusters(coding: str) -> None:
    y, f = md.Labels(N, clusters=3), md.Hyperplane(X, centre=False)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.hinge(md.margin(y, f, coding=coding)))),
                         [md.sizes(y, at_least=2), abs(md.sum(SLANT * f)) <= 0.5])
    exact = problem.solve("exact", random_state=0)
    assert exact.bound == pytest.approx(exact.value, rel=1e-5)
    for name in ("minimax", "sdp") if coding == "simplex" else ("exhaustive", "weight-lifting"):
        solution = problem.solve(RELAXATIONS[name], random_state=0)
        assert 0 < solution.bound <= exact.value * (1 + 1e-7) and solution.value >= exact.value * (1 - 1e-5), name
        assert solution.verify(), name


@pytest.mark.parametrize("solver", ["newton", "cutting-plane", "clarabel"])
def test_bounds_of_simplex_codes_are_on_all_differences_of_clusters(solver: str) -> None:
    y, f = md.Labels(N, clusters=3), md.Hyperplane(X, centre=False)
    bounds = [abs(md.sum(SLANT * f)) <= 0.3, abs(md.sum(f)) <= 0.1]
    loss = md.mean(md.hinge(md.margin(y, f, coding="simplex")))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * loss), [*bounds, md.sizes(y, at_least=1)])
    solution = problem.solve("alternating", solver, random_state=0)
    codes = simplex_codes(3)
    V = cp.Variable((2, 2))
    F = X @ V @ codes.T
    sums = [(SLANT @ F, 0.3), (np.ones(N) @ F, 0.1)]
    held = [cp.abs(s[p] - s[q]) <= limit for s, limit in sums for p in range(3) for q in range(p)]
    losses = cp.pos(1 - cp.hstack([F[i, c] for i, c in enumerate(solution.labels)]))
    plain = cp.Problem(cp.Minimize(cp.sum_squares(V) / 2 + 5 * cp.sum(losses) / N), held)
    assert solution.value == pytest.approx(plain.solve(solver="CLARABEL"), rel=1e-6)
    assert plain.value > (1 + 1e-3) * cp.Problem(plain.objective).solve(solver="CLARABEL")  # the bounds bind
