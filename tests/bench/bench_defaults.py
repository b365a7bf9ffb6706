"""Seconds and status of every recipe and estimator as they come, at several sizes.

Run ``python tests/bench/bench_defaults.py [--sizes 500 2000] [--limit 30] [--only NAME ...] [--quick] [--json FILE]``.
Points are overlapping clouds in 20 columns, two of them and, where more clusters are taken, three; recipes that need
labels know every tenth, those of pairs get a few. Every case is a process of its own with two threads, ended after four
times the limit; a star marks more seconds by the clock than the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import margindsl as md
from margindsl import estimators

COLUMNS = 20


def points(n: int, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Return overlapping clouds and their classes 0..k−1."""
    rng = np.random.default_rng(0)
    classes = np.arange(n) % clusters
    return rng.standard_normal((n, COLUMNS)) + 2.0 * np.eye(clusters, COLUMNS)[classes], classes


def cases() -> dict[str, int]:
    """Return the cases by name, with the number of clusters of each."""
    found = {name: 2 for name in md.recipes.names() if name not in ("cpm3c", "maximum_margin_embedding")}
    found |= {"cpm3c": 3, "MarginClusterer": 2, "MarginClusterer k=3": 3, "MarginClusterer optimise": 2,
              "MarginClusterer optimise k=3": 3, "MarginClusterer rbf": 2, "ODMClassifier": 2, "ODMClassifier k=3": 3,
              "SemiSupervisedODM": 2, "MaximumMarginEmbedding": 2}
    return found


def solved(name: str, n: int) -> Any:
    """Return the solution of one case with its defaults."""
    clusters = cases()[name]
    X, classes = points(n, clusters)
    known = np.where(np.arange(n) // clusters % 10 == 0, classes, -1)
    if name.startswith("MarginClusterer"):
        options = {"optimise": "optimise" in name, "kernel": "rbf" if "rbf" in name else "linear"}
        return estimators.MarginClusterer(clusters, random_state=0, **options).fit(X).solution_
    if name.startswith("ODMClassifier"):
        return estimators.ODMClassifier().fit(X, classes).solution_
    if name == "SemiSupervisedODM":
        return estimators.SemiSupervisedODM(random_state=0).fit(X, known).solution_
    if name == "MaximumMarginEmbedding":
        return estimators.MaximumMarginEmbedding(random_state=0).fit(X).solutions_[-1]
    given: dict[str, Any] = {}
    if name == "cpm3c":
        given["clusters"] = clusters
    if name == "odmssc":
        given |= {"must_link": [(0, 2), (1, 3)], "cannot_link": [(0, 1), (4, 5)]}
    if name in ("svm", "odm"):
        given["y"] = 2 * classes - 1
    elif name in ("cuts3vm", "lapsvm", "s4vm", "ssodm", "tsvm", "usvm"):
        given["y"] = np.where(known < 0, 0, 2 * classes - 1)
    return getattr(md.recipes, name)(X, **given).solve(random_state=0)


def run_one(name: str, n: int) -> None:
    """Solve a case and print what came of it as JSON; imports and a small solve first do not count."""
    warnings.simplefilter("ignore")
    solved(name, 40)
    wall, cpu = time.perf_counter(), time.process_time()
    solution = solved(name, n)
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "status": solution.status,
                      "gap": float(solution.gap)}))


def measure(name: str, n: int, limit: float) -> dict[str, Any]:
    """Return seconds, status and gap of a case, run in a process of its own."""
    command = [sys.executable, __file__, "--case", name, str(n)]
    threads = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=4 * limit + 30, env=os.environ | threads)
    except subprocess.TimeoutExpired:
        return {"wall": 4 * limit, "cpu": 4 * limit, "status": "unfinished", "gap": float("inf")}
    if done.returncode:
        return {"wall": float("nan"), "cpu": float("nan"), "status": done.stderr.strip().splitlines()[-1], "gap": 0.0}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    """Print the table; the exit code is 1 where a default failed or took longer than the limit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--limit", type=float, default=30.0, help="seconds within which a default answers")
    parser.add_argument("--only", nargs="+", choices=list(cases()), default=list(cases()))
    parser.add_argument("--quick", action="store_true", help="100 points")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        run_one(options.case[0], int(options.case[1]))
        return 0
    rows = []
    print(f"{'default':30s} {'n':>6s} {'wall':>8s} {'CPU':>8s} {'gap':>9s}  status")
    for name in options.only:
        for n in [100] if options.quick else options.sizes:
            row = {"name": name, "n": n} | measure(name, n, options.limit)
            row["late"] = not min(row["wall"], row["cpu"]) <= options.limit
            rows.append(row)
            print(f"{name:30s} {n:6d} {row['wall']:8.2f} {row['cpu']:8.2f} {row['gap']:9.2g}  {row['status']}"
                  f"{' *' if row['late'] else ''}", flush=True)
    print(f"{len(rows)} solves, {sum(row['late'] for row in rows)} longer than {options.limit:g} s or failed")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return int(any(row["late"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
