"""Measure how far solves go past their time limit.

Run ``python tests/bench/bench_time_limits.py [--quick] [--limits S ...] [--sizes N ...] [--kinds KIND ...]
[--clusters K ...] [--relaxations NAME ...] [--json FILE]``. One line a case: features, relaxation, clusters, points,
limit, seconds past it by the clock on the wall and by that of the process (the smaller one counts where other processes
share the machine), status, and whether the labels are in B. A star marks more than max(0.5 s, 10 %). Every case is
declared anew, so that the features count; each relaxation is run once before on a few points, so that imports do not.
"""

import argparse
import json
import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp

import margindsl as md
from margindsl.errors import RefusalError, TimeLimitError

LIMITS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
RELAXATIONS = ("alternating", "cccp", "cuts-outside", "exact", "first-cut", "gmmc", "minimax", "sdp", "weight-lifting")
LEAST, PART = 0.5, 0.1


def points(kind, n, seed=0):
    """Return two overlapping clouds, or sparse points of 2,000 columns."""
    rng = np.random.default_rng(seed)
    if kind == "sparse":
        return sp.random(n, 2000, density=0.005, format="csr", random_state=seed)
    X = rng.normal(size=(n, 20))
    X[: n // 2] += 0.7
    return X


def declare(kind, n, clusters, relaxation):
    """Return the problem that a relaxation accepts, with bounds on sizes and some links."""
    options = {"kernel": md.RBF(3.0)} if kind == "rbf" else {}
    loss = md.squared_hinge if relaxation == "gmmc" else md.hinge
    f = md.Hyperplane(points(kind, n), bias=relaxation == "cuts-outside", **options)
    if clusters == 2:
        y = md.Labels(n)
        balance = [abs(md.sum(f)) <= n / 5] if relaxation == "cuts-outside" else [abs(md.sum(y)) <= n // 5]
        links = [] if relaxation == "cuts-outside" else [y[0] == y[1], y[0] != y[n - 1]]
        return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(loss(y * f))), balance + links)
    y = md.Labels(n, clusters=clusters)
    rows = [md.sizes(y, at_least=n // (2 * clusters), at_most=n // 2), y[0] == y[1], y[0] != y[n - 1]]
    coding = "simplex" if relaxation == "sdp" else "crammer-singer"
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(loss(md.margin(y, f, coding=coding)))), rows)


def measure(problem, relaxation, limit):
    """Return seconds past the limit on the wall and of the process, status and whether the labels are members."""
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        solution = problem.solve(relaxation, time_limit=limit, random_state=0)
    except RefusalError:
        return None
    except TimeLimitError:
        solution = None
    wall, cpu = time.perf_counter() - wall - limit, time.process_time() - cpu - limit
    if solution is None:
        return wall, cpu, "no labels", True
    return wall, cpu, solution.status, not problem.program().labels.violations(solution.labels)


def run(arguments):
    """Print the table and return its rows."""
    rows = []
    print(f"{'features':8} {'relaxation':15} {'k':>1} {'n':>6} {'limit':>6} {'wall':>7} {'cpu':>7}  status")
    for relaxation in arguments.relaxations:
        for clusters in arguments.clusters:
            try:
                declare("dense", 60, clusters, relaxation).solve(relaxation, time_limit=5, random_state=0)
            except RefusalError:
                continue
            for kind in arguments.kinds:
                for n in arguments.sizes:
                    for limit in arguments.limits:
                        found = measure(declare(kind, n, clusters, relaxation), relaxation, limit)
                        if found is None:
                            break
                        wall, cpu, status, member = found
                        late = min(wall, cpu) > max(LEAST, PART * limit)
                        print(f"{kind:8} {relaxation:15} {clusters:1} {n:6} {limit:6g} {wall:7.2f} {cpu:7.2f}  {status}"
                              f"{'' if member else ' OUTSIDE B'}{' *' if late else ''}", flush=True)
                        rows.append({"kind": kind, "relaxation": relaxation, "k": clusters, "n": n, "limit": limit,
                                     "wall": wall, "cpu": cpu, "status": status, "member": member, "late": late})
    late = [row for row in rows if row["late"] or not row["member"]]
    past = [max(0.0, min(row["wall"], row["cpu"])) for row in rows]
    print(f"{len(rows)} solves, {len(late)} late or outside B; seconds past the limit: median {np.median(past):.2f}, "
          f"largest {max(past):.2f}")
    return rows


def main():
    """Read the arguments, run, write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="two limits, one size")
    parser.add_argument("--limits", type=float, nargs="+", default=LIMITS)
    parser.add_argument("--sizes", type=int, nargs="+", default=(300, 20_000))
    parser.add_argument("--kinds", nargs="+", default=("dense", "rbf", "sparse"))
    parser.add_argument("--clusters", type=int, nargs="+", default=(2, 3))
    parser.add_argument("--relaxations", nargs="+", default=RELAXATIONS)
    parser.add_argument("--json", help="file the rows are written to")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.limits, arguments.sizes = (0.03, 0.3), (300, 5_000)
    warnings.simplefilter("ignore")
    rows = run(arguments)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    return int(any(row["late"] or not row["member"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
