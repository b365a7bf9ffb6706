"""Gaps of relaxations to the exact optimum on small enumerated ODM instances.

Run ``python tests/bench/bench_gap.py [--seeds N] [--quick] [--json FILE]``. Instances: m = 9..12 points of a standard
normal in R³, linear and Gaussian kernel, K centred and scaled to trace m, ODM with θ = .2 and ν = .5, C in {5, 20,
100}, |Σy| ≤ 2, a must-link and a cannot-link in every other one. With 40 seeds these are 80 instances. The gap is
(optimum − certified bound)/optimum.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

import margindsl as md
from margindsl.typing import FloatArray

RELAXATIONS = {
    "lift": md.SDP(cuts="none", polish="none"),
    "minimax": md.Minimax(oracle="exhaustive", polish="none"),
    "lift, cuts": md.SDP(cuts="all", polish="none"),
}
SOLVERS = {"minimax": "mirror-prox"}


def kernel_matrix(X: FloatArray, kind: str) -> FloatArray:
    """Return a centred kernel matrix of trace m; "rbf" has a squared width of the mean squared distance."""
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    K = X @ X.T if kind == "linear" else np.exp(-squares / (2 * squares.mean()))
    H = np.eye(len(X)) - 1.0 / len(X)
    K = H @ K @ H
    return (K + K.T) * len(X) / (2 * np.trace(K))


def instance(seed: int, kind: str) -> md.Problem:
    """Return one instance."""
    m = 9 + seed % 4
    X = np.random.default_rng(seed).standard_normal((m, 3))
    y, f = md.Labels(m), md.Hyperplane(None, kernel=md.Precomputed(kernel_matrix(X, kind)), centre=False)
    links = [y[0] == y[1], y[2] != y[3]] if seed % 2 else []
    weight = (5.0, 20.0, 100.0)[seed % 3]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(md.odm(y * f, 0.5, 0.2))),
                      [abs(md.sum(y)) <= 2, *links])


def gaps(problem: md.Problem, names: list[str]) -> dict[str, float]:
    """Return the relative gap of each relaxation to the optimum."""
    optimum = problem.solve("exact").value
    found = {}
    for name in names:
        solution = problem.solve(RELAXATIONS[name], SOLVERS.get(name, "clarabel"), random_state=0)
        found[name] = (optimum - solution.bound) / optimum
    return found


def main() -> None:
    """Print the mean and largest gap of every relaxation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--quick", action="store_true", help="four seeds")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    began, rows = time.perf_counter(), []
    for seed in range(4 if options.quick else options.seeds):
        for kind in ("linear", "rbf"):
            rows.append({"seed": seed, "kernel": kind, **gaps(instance(seed, kind), list(RELAXATIONS))})
    print(f"{len(rows)} instances, {time.perf_counter() - began:.0f} s; gap to the optimum in %")
    print(f"{'relaxation':<24}{'mean':>8}{'largest':>9}{'linear':>8}{'rbf':>8}")
    for name in RELAXATIONS:
        values = 100 * np.array([row[name] for row in rows])
        kinds = [values[[row["kernel"] == kind for row in rows]].mean() for kind in ("linear", "rbf")]
        print(f"{name:<24}{values.mean():8.1f}{values.max():9.1f}{kinds[0]:8.1f}{kinds[1]:8.1f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
