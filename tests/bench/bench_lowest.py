"""The lowest objective found for three and more clusters, beside many starts of plain methods, and seconds.

Run ``python tests/bench/bench_lowest.py [--data PATH ...] [--points 400] [--seed 0] [--methods NAME ...]
[--sets NAME ...] [--cases NAME ...] [--known FILE] [--quick] [--json FILE]``. Sets are read and dealt into halves as
by `bench_quality`; those of two classes are parted into three clusters, since classes have no part in it. A case is a
loss, hinge or ODM, and a coding of margins; weight and sizes are those of `MarginClusterer`, whose default with
``optimise=True`` is the method of that name. What they are beside is the lowest of ten CCCP runs, each from k-means as
CPM3C begins, and the lowest of thirty random starts of alternation. With ``--known`` their values and seconds are read
from an earlier file, where it has them; the sets must have been drawn alike.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_quality import bundled, drawn, half_of, stored

import margindsl as md
from margindsl.estimators.models import bounding, mean_length, size_bounds

LOSSES = {"hinge": md.hinge, "odm": lambda margin: md.odm(margin, nu=0.4, theta=0.2)}
CASES = {f"{loss}/{coding}": (loss, coding) for loss in LOSSES for coding in ("simplex", "crammer-singer")}
WEIGHT, BALANCE = 30.0, 0.6  # MarginClusterer's
EVEN = 1e-6  # relative accuracy of values

OURS: dict[str, Callable[[md.Problem], Any]] = {
    "optimise": bounding, "alternating": lambda problem: md.Alternating(),
    "search": lambda problem: md.Alternating(polish="search")}
PLAIN: dict[str, list[tuple[Any, int]]] = {
    "cpm3c x 10": [(md.CCCP(restarts=1, start="kmeans", polish="none"), seed) for seed in range(10)],
    "random x 30": [(md.Alternating(restarts=30, start="random", polish="none"), 0)]}


def declare(X: np.ndarray, clusters: int, case: str) -> md.Problem:
    """Return the problem of a case."""
    loss, coding = CASES[case]
    y, f = md.Labels(len(X), clusters=clusters), md.Hyperplane(X)
    mean = md.mean(LOSSES[loss](md.margin(y, f, coding=coding)))
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + WEIGHT / mean_length(X) * mean), size_bounds(y, BALANCE))


def lowest(problem: md.Problem, runs: list[tuple[Any, int]]) -> list[float]:
    """Return the lowest value of some runs, each a relaxation and a seed, and CPU seconds of all."""
    began = time.process_time()
    value = min(problem.solve(relaxation, random_state=seed).value for relaxation, seed in runs)
    return [value, time.process_time() - began]


def measure(X: np.ndarray, k: int, case: str, options: argparse.Namespace, known: dict[str, Any]) -> dict[str, Any]:
    """Return value and seconds of the methods on one set and case."""
    problem = declare(X, k, case)
    row = {name: lowest(problem, [(OURS[name](problem), options.seed)]) for name in options.methods}
    return row | {name: known.get(name) or lowest(problem, runs) for name, runs in PLAIN.items()}


def report(rows: list[dict[str, Any]], methods: list[str]) -> None:
    """Print for every method how often it ends higher than what it is beside, the worst ratio and the seconds."""
    seconds = {name: sum(row[name][1] for row in rows) for name in (*methods, *PLAIN)}
    for name in methods:
        ratios = np.array([row[name][0] / min(row[plain][0] for plain in PLAIN) for row in rows])
        print(f"{name:12s} higher in {np.sum(ratios > 1 + EVEN)}, lower in {np.sum(ratios < 1 - EVEN)} of {len(rows)}; "
              f"ratios {ratios.min():.4f} to {ratios.max():.4f}, mean {ratios.mean():.4f}")
    print("CPU seconds in all: " + ", ".join(f"{name} {spent:.0f}" for name, spent in seconds.items()))


def main() -> None:
    """Run the sets and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, nargs="+", help="files or folders of files, beside scikit-learn's sets")
    parser.add_argument("--points", type=int, default=400, help="most points of a set; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", choices=OURS, default=list(OURS))
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--sets", nargs="+", help="names of the sets to run; by default those of more than two classes")
    parser.add_argument("--known", type=Path, help="an earlier file, for what ours is beside")
    parser.add_argument("--quick", action="store_true", help="iris, wine and three digits, 100 points")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.points, options.sets = 100, ["iris", "wine", "digits-246"]
    warnings.simplefilter("ignore")
    known = {(row["set"], row["case"]): row for row in json.loads(options.known.read_text())} if options.known else {}
    rows: list[dict[str, Any]] = []
    print(f"{'':39s}" + "".join(f"{name:>20s}" for name in (*options.methods, *PLAIN)) + "   ratio")
    for name, X, y in (*bundled(), *stored(options.data or [])):
        if name not in options.sets if options.sets else len(np.unique(y)) < 3 and not options.data:
            continue
        points, _, classes = drawn(X, y, options.points, 0)
        k = max(3, classes)
        for case in options.cases:
            row = measure(points, k, case, options, known.get((name, case), {}))
            rows.append({"set": name, "half": half_of(name), "n": len(points), "k": k, "case": case} | row)
            ratio = row[options.methods[0]][0] / min(row[plain][0] for plain in PLAIN)
            print(f"{half_of(name)} {name:17s}{k:3d} {case:16s}" + "".join(
                f"{value:12.5g} {spent:5.1f} s" for value, spent in row.values()) + f"  {ratio:.4f}", flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    report(rows, options.methods)


if __name__ == "__main__":
    main()
