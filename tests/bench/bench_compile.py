"""Compile overhead, from the checked grammar to the standard form, without solving.

Run ``python tests/bench/bench_compile.py [--quick] [--json FILE]``: digits 3 vs 8 without links, and 100,000 × 64
points with 10,000 links. Medians of repeats; the first compile also builds the features.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from sklearn.datasets import load_digits

import margindsl as md


def declare(X: np.ndarray, links: int) -> md.Problem:
    """Return a balanced ODM problem with consistent random links."""
    n, rng = len(X), np.random.default_rng(0)
    y, f = md.Labels(n), md.Hyperplane(X)
    constraints = [abs(md.sum(y)) <= 0.03 * n]
    if links:
        side = X[:, 0] > 0
        pairs = rng.integers(0, n, (4 * links, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        same = side[pairs[:, 0]] == side[pairs[:, 1]]
        constraints += [md.must_link(y, pairs[same][: links // 2]), md.cannot_link(y, pairs[~same][: links // 2])]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(y * f, 0.4, 0.2))), constraints)


def measure(X: np.ndarray, links: int, relaxation: str, repeats: int = 5) -> dict[str, float]:
    """Return median seconds of declaring, of the first and of the second compile."""
    declared, first, second = [], [], []
    for _ in range(repeats):
        marks = [time.perf_counter()]
        problem = declare(X, links)
        marks.append(time.perf_counter())
        problem.compile(relaxation)
        marks.append(time.perf_counter())
        problem.compile(relaxation)
        marks.append(time.perf_counter())
        for column, seconds in zip((declared, first, second), np.diff(marks)):
            column.append(seconds)
    return {"declare": float(np.median(declared)), "first": float(np.median(first)), "again": float(np.median(second))}


def main(arguments: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Print the table and return its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--quick", action="store_true", help="a tenth of the points and links, once")
    options = parser.parse_args(arguments)
    digits = load_digits()
    small = digits.data[np.isin(digits.target, (3, 8))] / 16
    n, links, repeats = (10_000, 1_000, 1) if options.quick else (100_000, 10_000, 5)
    large = np.random.default_rng(1).normal(size=(n, 64))
    declare(small, 0).compile("minimax")  # imports
    rows = {}
    for name, X, count in (("357 x 64, no links", small, 0), (f"{n:,} x 64, {links:,} links", large, links)):
        for relaxation in ("minimax", "cccp", "weight-lifting"):
            row = measure(X, count, relaxation, repeats)
            rows[f"{name}, {relaxation}"] = row
            print(f"{name:28} {relaxation:15} " + "  ".join(f"{k} {1e3 * v:8.1f} ms" for k, v in row.items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    return rows


if __name__ == "__main__":
    main()
