"""Bounds on decision values that lie on the weights, on one side or on both: relaxations against branch and bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import margindsl as md

N = 6
X = np.random.default_rng(0).normal(size=(N, 2)) + [1.0, 0.5]
SLANT = np.linspace(0.0, 1.0, N)
BOUNDS: dict[str, Any] = {
    "one side": lambda f: [md.sum(SLANT * f) >= 1.0],
    "several": lambda f: [abs(md.sum(SLANT * f)) <= 0.5, f[0] - f[1] <= 0.2],
    "beside a bias": lambda f: [abs(md.sum(f)) <= 1.0, md.sum(SLANT * f) >= 0.5]}
RELAXATIONS: dict[str, Any] = {  # not polished: bounds hold whatever labels are found
    "minimax": md.Minimax(polish="none"), "exhaustive": md.Minimax(oracle="exhaustive", polish="none"),
    "sdp": md.SDP(polish="none"), "moments": md.SDP(moments=True, polish="none"),
    "weight-lifting": md.WeightLifting(polish="none"), "gmmc": md.GMMC(polish="none")}


@pytest.mark.parametrize("bounds", BOUNDS)
def test_bounds_of_two_clusters(bounds: str) -> None:
    y, f = md.Labels(N), md.Hyperplane(X, bias="bias" in bounds, centre=False)
    objective = md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.squared_hinge(y * f)))
    problem = md.Problem(objective, [abs(md.sum(y)) <= 3, *BOUNDS[bounds](f)])
    exact = problem.solve("exact", random_state=0)
    best = exact.value
    assert exact.bound == pytest.approx(best, rel=1e-5) and exact.verify()
    for name, relaxation in RELAXATIONS.items():
        solution = problem.solve(relaxation, random_state=0, time_limit=60)
        assert 0 < solution.bound <= best * (1 + 1e-7) and solution.value >= best * (1 - 1e-5), name
        assert solution.verify() and solution.certificate.inner.verify(), name
    if bounds == "one side":
        assert "used in rounding, not in the bound" in problem.compile("sdp").explain()


def test_bounds_of_three_clusters() -> None:
    y, f = md.Labels(N, clusters=3), md.Hyperplane(X, centre=False)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.hinge(md.margin(y, f)))),
                         [md.sizes(y, at_least=2), abs(md.sum(SLANT * f)) <= 0.5])
    exact = problem.solve("exact", random_state=0)
    assert exact.bound == pytest.approx(exact.value, rel=1e-5)
    for name in ("minimax", "exhaustive", "sdp", "weight-lifting"):
        solution = problem.solve(RELAXATIONS[name], random_state=0)
        assert 0 < solution.bound <= exact.value * (1 + 1e-7) and solution.value >= exact.value * (1 - 1e-5), name
        assert solution.verify() and solution.certificate.inner.verify(), name
