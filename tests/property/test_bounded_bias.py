"""A bound on the sum of decision values holds a free bias: the same problem over centred features, everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.proof import check as script

LOSSES: dict[str, Any] = {"hinge": md.hinge, "squared hinge": md.squared_hinge,
                          "odm": lambda g: md.odm(g, theta=0.2, nu=0.4), "logistic": lambda g: md.logistic(-g),
                          "absolute": lambda g: abs(1 - g), "two terms": lambda g: md.pos(0.5 - g) + (1 - g) ** 2}
RELAXATIONS: dict[str, Any] = {
    "alternating": "alternating", "cccp": "cccp",
    "minimax": md.Minimax(polish="none"), "sdp": md.SDP(polish="none"),  # bounds hold whatever labels are found
    "weight-lifting": md.WeightLifting(polish="none"), "exact": "exact",
    "exhaustive": md.Minimax(oracle="exhaustive", polish="none"), "triangles": md.SDP(cuts="all", polish="none")}


def points(seed: int = 1, n: int = 6) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + np.where(np.arange(n) < n // 2, -1.0, 1.0)[:, None] + [3.0, -1.0]


def declared(loss: Any, *, bias: bool, centre: bool = True, low: float = 0.0, high: float = 0.0,
             weights: np.ndarray | None = None, label_bound: float | None = None, seed: int = 1) -> md.Problem:
    X = points(seed)
    y, f = md.Labels(len(X)), md.Hyperplane(X, bias=bias, centre=centre)
    total = md.sum(f) if weights is None else md.sum(weights * f)
    held = [total >= low, total <= high] if bias else []
    held = [abs(total) <= high] if bias and low == -high else held
    balance = [] if label_bound is None else [abs(md.sum(y)) <= label_bound]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(loss(y * f))), held + balance)


def exact_value(problem: md.Problem, low: float, high: float, loss: str, weights: np.ndarray) -> float:
    """Return the least value over all labellings, each solved by cvxpy as declared."""
    X = points()
    X = X - X.mean(axis=0)
    n, best = len(X), np.inf
    w, b, labels = cp.Variable(2), cp.Variable(), cp.Parameter(n)
    margins = cp.multiply(labels, X @ w + b)
    losses = {"hinge": cp.sum(cp.pos(1 - margins)), "squared hinge": cp.sum(cp.square(cp.pos(1 - margins)))}[loss]
    total = weights @ (X @ w + b)
    written = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + 3 / n * losses), [total >= low, total <= high])
    for code in range(2 ** (n - (low == -high))):  # flipped labels have the value of flipped decision values
        labels.value = 1.0 - 2.0 * ((code >> np.arange(n)) & 1)
        written.solve(solver=cp.CLARABEL)
        best = min(best, written.value)
    return best


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("relaxation, loss", [
    (r, name) for i, r in enumerate(RELAXATIONS) for j, name in enumerate(LOSSES) if (i + j) % 3 == 0])
def test_a_sum_of_zero_is_the_centred_twin(relaxation: str, loss: str) -> None:
    twin = declared(LOSSES[loss], bias=False).solve(RELAXATIONS[relaxation], random_state=0)
    for centre in (True, False) if loss == "hinge" else (False,):
        solution = declared(LOSSES[loss], bias=True, centre=centre).solve(RELAXATIONS[relaxation], random_state=0)
        assert solution.value == pytest.approx(twin.value, rel=1e-8)
        # a shift rounds the features, and conic solvers end elsewhere within their tolerance
        if relaxation in ("sdp", "triangles"):  # the twin has a ball for its weights
            assert solution.bound <= twin.bound * (1 + 1e-6)
        else:
            assert solution.bound == pytest.approx(twin.bound, rel=1e-8 if centre else 5e-8)
        assert np.array_equal(solution.labels, twin.labels) and solution.state is twin.state
        assert abs(solution.decision.sum()) <= 1e-9 and solution.verify()
        assert points() @ np.asarray(solution.weights) + solution.bias == pytest.approx(
            solution.decision + centre * (points().mean(axis=0) @ solution.weights), abs=1e-9)
        if np.isfinite(twin.bound):
            assert solution.verify()


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("relaxation, high", [("minimax", 0.0), ("sdp", 2.0), ("exact", 0.0), ("exact", 2.0)])
def test_the_stand_alone_script_proves_the_declaration(relaxation: str, high: float, tmp_path: Path) -> None:
    problem = declared(md.hinge, bias=True, centre=False, low=-high, high=high)
    solution = problem.solve(relaxation, random_state=0)
    solution.save(tmp_path / "solution.npz")
    said = subprocess.run([sys.executable, str(Path(script.__file__)), str(tmp_path / "solution.npz")],
                          capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 0 and "proved      bound" in said.stdout, said.stdout
    with np.load(tmp_path / "solution.npz") as stored:
        header = json.loads(str(stored["header"]))
    assert header["free_bias"], "the proof is of the problem as declared"


@pytest.mark.parametrize("loss, low, high", [("hinge", -4.0, 4.0), ("squared hinge", 0.5, 3.0)])
@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
def test_a_boxed_bias_against_all_labellings(loss: str, low: float, high: float) -> None:
    problem = declared(LOSSES[loss], bias=True, low=low, high=high)
    best = exact_value(problem, low, high, loss, np.ones(6))
    exact = problem.solve("exact", random_state=0)
    assert exact.value == pytest.approx(best, rel=1e-6) and exact.bound == pytest.approx(best, rel=1e-6)
    bounds = {}
    for name in ("minimax", "exhaustive", "sdp", "weight-lifting"):
        solution = problem.solve(RELAXATIONS[name], random_state=0)
        assert solution.bound <= best * (1 + 1e-7) and solution.value >= best * (1 - 1e-7), name
        assert solution.verify(), name
        assert low - 1e-6 <= solution.decision.sum() <= high + 1e-6
        bounds[name] = solution.bound
    assert bounds["exhaustive"] >= bounds["sdp"] * (1 - 1e-6), "a mixture of labellings is tighter than their matrix"
    assert bounds["exhaustive"] > 0.5 * best


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
def test_unequal_weights_hold_a_bias_about_their_own_mean() -> None:
    weights = np.linspace(0.2, 2.0, 6)
    problem = declared(md.hinge, bias=True, low=-2.0, high=2.0, weights=weights)
    best = exact_value(problem, -2.0, 2.0, "hinge", weights)
    for name in ("exact", "minimax", "sdp"):
        solution = problem.solve(name, random_state=0)
        assert solution.bound <= best * (1 + 1e-7) <= solution.value * (1 + 1e-6), name
        assert solution.verify() and abs(weights @ solution.decision) <= 2.0 + 1e-6


@pytest.mark.parametrize("more", [lambda f: [], lambda f: [abs(f[2]) <= 0.4], lambda f: [abs(f[0] - f[1]) <= 0.3]])
@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
def test_trees_of_lifts_are_proved_of_the_declared_bias(more: Any) -> None:
    X = points()
    y, f = md.Labels(6), md.Hyperplane(X, bias=True)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 20 * md.mean(md.hinge(y * f))), [md.sum(f) == 0, *more(f)])
    enumerated = problem.solve(md.Exact(method="branching", nodes="decided"), random_state=0)
    tree = problem.solve(md.Exact(method="branching", nodes="joint"), random_state=0)
    assert tree.status == "optimal" and tree.verify()
    assert [tree.value, tree.bound] == pytest.approx([enumerated.value] * 2, rel=1e-5)


@pytest.mark.parametrize("high", [0.0, 0.5])
def test_a_bound_on_a_difference_holds_no_bias_and_exact_proves_the_optimum(high: float) -> None:
    weights = np.array([1.0, -1.0, 0, 0, 0, 0])
    problem = declared(md.hinge, bias=True, low=-high, high=high, weights=weights)
    best = exact_value(problem, -high, high, "hinge", weights)
    solution = problem.solve(random_state=0)
    assert solution.status == "optimal" and solution.verify()
    assert [solution.value, solution.bound] == pytest.approx([best, best], rel=1e-6)
    with pytest.raises(md.errors.RefusalError, match="trivial"):
        problem.solve("sdp")


def test_limits_that_exclude_each_other_are_infeasible() -> None:
    X = points()
    y, f = md.Labels(6), md.Hyperplane(X, bias=True)
    objective = md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f)))
    with pytest.raises(md.errors.InfeasibleError, match="contradict one another"):
        md.Problem(objective, [md.sum(f) >= 2, 2 * md.sum(f) <= 3]).solve("alternating")


def test_a_free_bias_that_nothing_holds_is_refused_with_the_derivation() -> None:
    X = points()
    y, f = md.Labels(6), md.Hyperplane(X, bias=True)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 2])
    with pytest.raises(md.errors.RefusalError, match=r"sum u_i y_i = 0 for all labellings"):
        problem.solve("minimax")


def test_a_bias_on_one_side_alone_still_falls_to_infinity() -> None:
    X = points()
    y, f = md.Labels(6), md.Hyperplane(X, bias=True)
    objective = md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f)))
    problem = md.Problem(objective, [md.sum(f) >= 0, abs(md.sum(y)) <= 2])
    with pytest.raises(md.errors.RefusalError, match="trivial with a free bias"):
        problem.solve("minimax")
    assert problem.solve("cccp", random_state=0).decision.sum() >= -1e-6


def test_the_box_is_a_pass_that_explain_prints_and_an_answer_leaves() -> None:
    weights = np.linspace(0.5, 2.0, 6)
    problem = declared(LOSSES["hinge"], bias=True, centre=False, low=-0.6, high=0.9, weights=weights)
    compiled = problem.compile("minimax")
    steps = compiled.passes()
    assert steps.index("box the bias") < steps.index("form") < steps.index("undo box the bias")
    assert f"within {-0.6 / weights.sum():.6g} and {0.9 / weights.sum():.6g}" in compiled.explain()
    solution = problem.solve("minimax", random_state=0)
    assert np.allclose(points() @ solution.weights + solution.bias, solution.decision)  # in declared coordinates
    assert -0.6 - 1e-6 <= weights @ solution.decision <= 0.9 + 1e-6
