"""Gaps by parts beside those of weight lifting, on two clouds at any number of points.

Run ``python tests/bench/bench_parts.py [--points N] [--columns D ...] [--rounds R] [--dask] [--quick] [--json FILE]``.
Two spherical clouds, means 3 apart, ODM with θ = .2 and ν = .4 and λ = 10, not centred. The gap is (value − certified
bound)/value; seconds of CPU time. With ``--dask`` two workers bound groups, and seconds are those of the clock.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
import warnings
from pathlib import Path

import joblib
import numpy as np

import margindsl as md

SIZES = {5: 60, 10: 100, 20: 150}  # points of a group by columns


def problem(n: int, d: int, seed: int = 0) -> md.Problem:
    """Return the problem of two clouds."""
    rng = np.random.default_rng(seed)
    sign = rng.integers(0, 2, n) * 2 - 1
    X = rng.normal(size=(n, d)) + 1.5 * sign[:, None] * np.ones(d) / np.sqrt(d)
    y, f = md.Labels(n), md.Hyperplane(X, centre=False)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(y * f, 0.4, 0.2))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--columns", type=int, nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--dask", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, held, now = [], contextlib.ExitStack(), time.perf_counter if arguments.dask else time.process_time
    if arguments.dask:
        from bench_dask import scheduler

        held.enter_context(scheduler("processes"))
        held.enter_context(joblib.parallel_config("dask"))
    with held:
        for d, size in ((3, 30),) if arguments.quick else ((d, SIZES[d]) for d in arguments.columns):
            n, same = 120 if arguments.quick else arguments.points, {"polish": "none", "rounding": 5}
            for name, relaxation in (("weight lift", md.WeightLifting(**same)), (
                    f"parts of {size}", md.Parts(size=size, cut_rounds=arguments.rounds, **same))):
                began = now()
                solution = problem(n, d).solve(relaxation, random_state=0)
                rows.append({"points": n, "columns": d, "bound by": name, "gap": solution.gap,
                             "seconds": now() - began})
                print(f"n = {n}, d = {d}, {name:14s} gap {solution.gap:6.1%}  {rows[-1]['seconds']:8.1f} s",
                      flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
