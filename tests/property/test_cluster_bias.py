"""A bound on decision values holds a free bias of several clusters: centred features, differences of biases bounded."""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.labelset.codes import contrasts, simplex_codes
from margindsl.program.bounded_bias import BiasLimits
from margindsl.proof import check as script

N, K = 5, 3
LOSSES: dict[str, tuple[Any, Any]] = {
    "hinge": (lambda g: 5 * md.mean(md.hinge(g)), lambda g: 5 / N * cp.sum(cp.pos(1 - g))),
    "squared hinge": (lambda g: 5 * md.mean(md.squared_hinge(g)), lambda g: 5 / N * cp.sum_squares(cp.pos(1 - g))),
    "least squares": (lambda g: 5 * md.mean(md.square(1 - g)), lambda g: 5 / N * cp.sum_squares(1 - g)),
    "mean and variance": (lambda g: md.mean_variance(g, 1.0, 2.0),  # the free mean is 1/4 above the mean
                          lambda g: 2 / N * cp.sum_squares(g - cp.sum(g) / N) - cp.sum(g) / N - 1 / 8)}
# Values and bounds hold at any labels: moves of points would look for lower ones.
RELAXATIONS: dict[str, Any] = {
    "alternating": md.Alternating(restarts=2, polish="none"), "cccp": md.CCCP(restarts=1, polish="none"),
    "minimax": md.Minimax(polish="none"), "sdp": md.SDP(polish="none"),
    "weight-lifting": md.WeightLifting(polish="none"), "exact": "exact",
    "exhaustive": md.Minimax(oracle="exhaustive", polish="none"), "cuts-outside": md.CutsOutside(polish="none")}
HALVES = (("minimax", "exhaustive", "alternating", "exact"),  # losses of a coding meet one each, in turn
          ("sdp", "weight-lifting", "cccp", "cuts-outside", "exact"))
MET: list[tuple[str, str, tuple[str, ...]]] = [
    ("hinge", "simplex", HALVES[0]), ("squared hinge", "simplex", HALVES[1]), ("least squares", "simplex", HALVES[0]),
    ("mean and variance", "simplex", ("minimax", "exhaustive", "sdp", "cccp", "exact")),  # a theorem refuses the others
    ("hinge", "crammer-singer", HALVES[1]), ("squared hinge", "crammer-singer", HALVES[0])]


def points() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(N, 2)) + 3.0


def declared(loss: str, *, bias: bool, high: float = 0.0, centre: bool = False, coding: str = "simplex") -> md.Problem:
    y, f = md.Labels(N, clusters=K), md.Hyperplane(points(), bias=bias, centre=centre)
    held = [abs(md.sum(f)) <= high] if bias else []
    objective = md.sq_norm(f) / 2 + LOSSES[loss][0](md.margin(y, f, coding=coding))
    return md.Problem(md.Minimize(objective), [md.sizes(y, at_least=1, at_most=3), *held])


@functools.cache
def least(loss: str, high: float, coding: str = "simplex") -> float:
    """Return the least value over all clusterings, each solved as declared."""
    X, codes, best = points(), simplex_codes(K), np.inf
    W, b, own = cp.Variable((2, K)), cp.Variable((1, K)), cp.Parameter((N, K), nonneg=True)
    plane = (X - X.mean(axis=0)) @ W + np.ones((N, 1)) @ b
    apart = [N * (b[0, p] - b[0, q]) <= high for p, q in itertools.permutations(range(K), 2)]
    if coding == "simplex":  # decision values <c_p, V'x + beta>, of which K - 1 are free and sum to zero
        V, beta = cp.Variable((2, K - 1)), cp.Variable((1, K - 1))
        held, square = [W == V @ codes.T, b == beta @ codes.T], cp.sum_squares(V)
        margins = cp.sum(cp.multiply(own, plane), axis=1)
    else:
        held, square = [], cp.sum_squares(W)
        others = cp.vstack([cp.max(plane[:, [p for p in range(K) if p != q]], axis=1) for q in range(K)]).T
        margins = cp.sum(cp.multiply(own, plane - others), axis=1)
    problem = cp.Problem(cp.Minimize(square / 2 + LOSSES[loss][1](margins)), apart * (high < np.inf) + held)
    for y in itertools.product(range(K), repeat=N):
        sizes = np.bincount(y, minlength=K)
        if list(dict.fromkeys(y)) == [0, 1, 2] and sizes.max() <= 3:  # one of those that differ in names
            own.value = np.eye(K)[np.array(y)]
            best = min(best, problem.solve(solver=cp.CLARABEL))
    return float(best)


@pytest.mark.parametrize("clusters", [2, 3, 4, 5])
def test_limits_are_those_of_the_linear_programme(clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    for codes in (simplex_codes(clusters), contrasts(clusters)):
        limits = BiasLimits(codes, 1.7, rng.normal(size=clusters - 1))
        beta, s = cp.Variable(clusters - 1), rng.normal(size=clusters - 1)
        most = cp.Problem(cp.Maximize(s @ beta), [
            cp.abs((codes[p] - codes[q]) @ (beta - limits.middle)) <= 1.7
            for p, q in itertools.combinations(range(clusters), 2)]).solve(solver=cp.CLARABEL)
        assert limits.support(s) == pytest.approx(most, rel=1e-6)
        assert limits.end(s) @ s == pytest.approx(most, rel=1e-6) and np.ptp(
            codes @ (limits.end(s) - limits.middle)) <= 1.7 + 1e-12
        corners = [limits.end(codes[list(some)].sum(axis=0)) for m in range(1, clusters)
                   for some in itertools.combinations(range(clusters), m)]
        assert limits.reach == pytest.approx(np.linalg.norm(limits.middle) + max(
            np.linalg.norm(corner - limits.middle) for corner in corners))


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("relaxation, coding", [*zip(
    [name for name in RELAXATIONS if name != "cuts-outside"], itertools.cycle(["simplex", "crammer-singer"]))])
def test_a_sum_of_zero_is_the_centred_twin(relaxation: str, coding: str) -> None:
    twin = declared("hinge", bias=False, centre=True, coding=coding).solve(RELAXATIONS[relaxation], random_state=0)
    solution = declared("hinge", bias=True, coding=coding).solve(RELAXATIONS[relaxation], random_state=0)
    assert solution.value == pytest.approx(twin.value, rel=1e-8)
    assert solution.bound == pytest.approx(twin.bound, rel=1e-6), "conic solvers start from other rounding"
    assert np.array_equal(solution.labels, twin.labels) and solution.verify()
    assert points() @ np.asarray(solution.weights) + solution.bias == pytest.approx(solution.decision, abs=1e-9)


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize(("loss", "coding", "names"), MET)
def test_differences_of_biases_against_all_clusterings(loss: str, coding: str, names: tuple[str, ...],
                                                       tmp_path: Path) -> None:
    problem, best, bounds = declared(loss, bias=True, high=2.0, coding=coding), least(loss, 2.0, coding), {}
    solutions = {}
    for name in names:
        solution = problem.solve(RELAXATIONS[name], random_state=0)
        size = 1e-6 * abs(best)
        assert solution.bound <= best + size and solution.value >= best - size and solution.verify(), name
        sums = solution.decision.sum(axis=0)
        assert np.ptp(sums) <= 2.0 * (1 + 1e-6)
        assert points() @ np.asarray(solution.weights) + solution.bias == pytest.approx(solution.decision, abs=1e-9)
        if np.isfinite(solution.bound):
            assert solution.verify(), name
        bounds[name], solutions[name] = solution.bound, solution
    assert bounds["exact"] == pytest.approx(best, rel=1e-6)
    assert "minimax" not in names or bounds["exhaustive"] >= bounds["minimax"] - size
    solution = solutions["exact"]
    solution.save(tmp_path / "solution.npz")
    if loss == "squared hinge":  # alone, of either coding
        said = subprocess.run([sys.executable, str(Path(script.__file__)), str(tmp_path / "solution.npz")],
                              capture_output=True, text=True, timeout=60, check=False)
        assert said.returncode == 0 and "proved      bound" in said.stdout, said.stdout
    again = md.Solution.load(tmp_path / "solution.npz")
    assert np.array_equal(again.bias, solution.bias) and again.verify()


@pytest.mark.parametrize("coding", ["simplex", "crammer-singer"])
def test_a_bias_that_nothing_holds_is_solved_and_not_relaxed(coding: str) -> None:
    y, f = md.Labels(N, clusters=K), md.Hyperplane(points(), bias=True)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.hinge(md.margin(y, f, coding=coding)))),
                         [md.sizes(y, at_least=1, at_most=3)])
    best = least("hinge", np.inf, coding)
    for name in ("alternating", "cccp", "exact"):
        solution = problem.solve(name, random_state=0)
        assert solution.verify() and solution.value >= best * (1 - 1e-6)
    assert solution.value == pytest.approx(best, rel=1e-6) and solution.bound == pytest.approx(best, rel=1e-6)
    for name in ("minimax", "sdp", "weight-lifting"):
        with pytest.raises(md.errors.RefusalError, match="trivial"):
            problem.solve(name)


@pytest.mark.parametrize("high", [2.0, np.inf])
@pytest.mark.parametrize("loss", ["hinge", "odm"])
def test_solvers_agree_on_a_bias_of_crammer_singer_margins(loss: str, high: float) -> None:
    found = {}
    for solver in ("newton", "cutting-plane", "clarabel"):
        y, f = md.Labels(N, clusters=K), md.Hyperplane(points(), bias=True)
        gamma = md.margin(y, f)
        losses = md.hinge(gamma) if loss == "hinge" else md.odm(gamma, theta=0.2, nu=0.4)
        held = [abs(md.sum(f)) <= high] if high < np.inf else []
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(losses)),
                             [y[np.arange(N)] == np.array([0, 1, 2, 0, 1]), *held])
        solution = problem.solve("supervised", solver, random_state=0)
        assert solution.verify()
        assert solution.bound >= solution.value * (1 - 1e-5) or loss == "odm"
        found[solver] = solution.value
    assert np.ptp(list(found.values())) <= 1e-5 * found["newton"]


@pytest.mark.parametrize("seed", range(3))
def test_nothing_flows_to_a_cluster_without_points(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(5, 2))
    y, f = md.Labels(5, clusters=3), md.Hyperplane(X, bias=True, kernel=md.RBF(1.5))
    problem = md.Problem(md.Minimize(md.sq_norm(f) + 4 * md.sum(md.squared_hinge(md.margin(y, f)))), [y[0] != y[1]])
    found = problem.at_labels(np.array([0, 1, 1, 0, 0])).solve("supervised")
    assert found.bound == pytest.approx(found.value, rel=1e-6) and found.verify()
