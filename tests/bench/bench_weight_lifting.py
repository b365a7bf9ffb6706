"""Weight lifting: certified gap and cost in passes over the data, with the slope in n.

Run ``python tests/bench/bench_weight_lifting.py [--quick] [--largest 1000000] [--repeats 3] [--json FILE]``. One pass
is one ``X @ W`` and one ``X.T @ R`` with eight columns, timed on the same data in the same run. Two clouds in 64
dimensions, ODM λ=10, θ=.2, ν=.4; and digits 3 vs 8.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.contract import Budget
from margindsl.program import LiftForm


def clouds(n: int) -> np.ndarray:
    """Return two overlapping clouds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 64))
    X[:, 0] += 1.5 * np.where(rng.random(n) < 0.5, 1, -1)
    return X / 8


def form_of(X: np.ndarray, weight: float) -> LiftForm:
    """Return the lift of an ODM problem, without components."""
    y, f = md.Labels(len(X)), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(md.odm(y * f, 0.4, 0.2))))
    return md.WeightLifting().lower(problem.program())


def one_pass(form: LiftForm) -> float:
    """Return the seconds of one pass with eight columns (median of five)."""
    W = np.random.default_rng(1).normal(size=(form.order, 8))
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        form.features.adjoint(form.outputs(W))
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds))


def measure(form: LiftForm, tol: float, repeats: int) -> dict[str, float]:
    """Return median seconds, passes and the certified gap."""
    seconds, ratios, gap = [], [], 0.0
    for _ in range(repeats):
        unit = one_pass(form)
        began = time.perf_counter()
        raw = md.Solver("burer-monteiro").solve(form, Budget(tol=tol))
        seconds.append(time.perf_counter() - began)
        ratios.append(seconds[-1] / (0.5 * (unit + one_pass(form))))
        value = min(t[1] for t in raw.trace)
        gap = (value - max(t[2] for t in raw.trace)) / value
    return {"seconds": float(np.median(seconds)), "passes": float(np.median(ratios)), "gap": gap}


def main(arguments: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Print the table and return its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--quick", action="store_true", help="at most 100,000 points, once")
    options = parser.parse_args(arguments)
    if options.quick:
        options.largest, options.repeats = 100_000, 1
    rows: dict[str, dict[str, float]] = {}
    digits = load_digits()
    small = digits.data[np.isin(digits.target, (3, 8))] / 16
    for weight in (1.0, 10.0, 100.0):
        rows[f"digits, weight {weight:g}, tol 1e-4"] = measure(form_of(small, weight), 1e-4, options.repeats)
    sizes = [n for n in (10_000, 100_000, 1_000_000) if n <= options.largest]
    for n in sizes:
        rows[f"clouds n={n}, tol 1e-2"] = measure(form_of(clouds(n), 10.0), 1e-2, options.repeats)
    for name, row in rows.items():
        print(f"{name:32} {row['seconds']:8.3f} s  {row['passes']:7.1f} passes  certified gap {row['gap']:.1e}")
    if len(sizes) > 1:
        times = [rows[f"clouds n={n}, tol 1e-2"]["seconds"] for n in sizes]
        slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        print(f"slope of log seconds in log n: {slope:.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    return rows


if __name__ == "__main__":
    main()
