"""Solve problems again and again, in one thread, in several and in several processes, and look at what changes.

Run ``python tests/bench/bench_soak.py [--quick] [--solves N] [--threads T] [--processes P] [--json FILE]``. Values,
labels and bounds have to be those of the first solve. Compared before and after: BLAS threads, warning filters,
numpy's errstate, the global random states, the environment, signal handlers, threads, open files; and the resident
memory after a tenth of the solves with that after all (Linux). Ends with 1 where anything differs or memory grows by
more than 2 % and 4 MB.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

import margindsl as md

GROWTH = 0.02, 4.0  # part of the memory, and MB, beyond which it grew
Answer = tuple[Any, ...]
# Without a search for lower labels, which repeats one thing: fits.
RELAXATIONS: dict[str, Any] = {
    "alternating": md.Alternating(polish="none"), "cccp": md.CCCP(polish="none"), "exact": md.Exact(polish="none"),
    "minimax": md.Minimax(polish="none"), "sdp": md.SDP(polish="none"),
    "weight-lifting": md.WeightLifting(polish="none"), "cuts-outside": md.CutsOutside(polish="none")}
THREE = ("alternating", "cccp", "cuts-outside")  # relaxations also asked for three clusters


def cases() -> list[tuple[str, int, int]]:
    """Return relaxation, clusters and seed of the problems solved in turn."""
    two, three = [(name, 2) for name in RELAXATIONS], [(name, 3) for name in THREE]
    return [(name, clusters, seed) for seed in range(2) for name, clusters in (*two, *three)]


def solved(case: tuple[str, int, int]) -> Answer:
    """Return value, bound and labels of a problem declared anew."""
    name, clusters, seed = case
    n = 8
    X = np.random.default_rng(seed).normal(size=(n, 3))
    X[: n // 2] += 1.0
    f = md.Hyperplane(X, bias=name == "cuts-outside")
    y = md.Labels(n, clusters=clusters)
    if clusters == 2:
        g, held = y * f, [abs(md.sum(f if name == "cuts-outside" else y)) <= 2]
    else:
        g, held = md.margin(y, f), [abs(md.sum(f)) <= 2] if name == "cuts-outside" else [md.sizes(y, at_least=2)]
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.hinge(g))), held)
    with warnings.catch_warnings() if threading.current_thread() is threading.main_thread() else no_context():
        solution = problem.solve(RELAXATIONS[name], random_state=0)
    return float(solution.value), float(solution.bound), tuple(np.ravel(solution.labels).tolist())


class no_context:
    """Change nothing: filters of warnings belong to the process, so threads leave them alone."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


def state() -> dict[str, Any]:
    """Return what a solve must leave as it was."""
    return {
        "BLAS threads": sorted((info["filepath"], info["num_threads"]) for info in threadpool_info()),
        "warning filters": list(warnings.filters), "errstate": np.geterr(),
        "numpy's random state": np.random.get_state()[1].tolist(),  # noqa: NPY002 - the one that must not move
        "random state": random.getstate(),
        "environment": dict(os.environ), "Ctrl-C": signal.getsignal(signal.SIGINT),
        "threads": threading.active_count(),
        "open files": len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0}


def resident() -> float:
    """Return the resident memory in MB, 0 where the system does not say."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20 if file.exists() else 0.0


def soak(solves: int, known: dict[Any, Answer], mapped: Callable[..., Any]) -> dict[str, Any]:
    """Return how many answers differ from those known, what state differs, and the memory after a tenth and at the end.
    """
    todo = (cases() * (solves // len(cases()) + 1))[:solves]
    first = max(solves // 10, len(cases()))
    before, began = state(), time.perf_counter()
    answers = list(mapped(solved, todo[:first]))
    gc.collect()
    early = resident()
    answers += list(mapped(solved, todo[first:]))
    gc.collect()
    late, after = resident(), state()
    other = sum(answer != known[case] for case, answer in zip(todo, answers))
    return {"solves": solves, "other answers": other, "changed": [key for key in before if before[key] != after[key]],
            "MB early": early, "MB late": late, "seconds": time.perf_counter() - began}


def grew(row: dict[str, Any]) -> bool:
    """Return whether the memory grew."""
    growth = row["MB late"] - row["MB early"]
    return bool(growth > max(GROWTH[1], GROWTH[0] * row["MB early"]))


def soaked(solves: int, known: dict[Any, Answer], number: int) -> dict[str, Any]:
    """Soak in a process of its own, once everything is imported there."""
    for case in cases():
        solved(case)
    return soak(solves, known, map)


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Print a row for one thread, for threads and for every process."""
    known = {case: solved(case) for case in cases()}
    rows = [told("one thread", soak(options.solves, known, map))]
    with ThreadPoolExecutor(options.threads) as pool:
        list(pool.map(solved, cases()))  # the pool's own threads are there before what is compared
        rows.append(told(f"{options.threads} threads", soak(options.solves, known, pool.map)))
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as processes:
        share = options.solves // options.processes
        found = processes.map(partial(soaked, share, known), range(options.processes))
        rows += [told(f"process {number}", row) for number, row in enumerate(found)]
    return rows


def told(how: str, row: dict[str, Any]) -> dict[str, Any]:
    """Print a row and return it with its name."""
    print(f"{how:12} {row['solves']:6} solves {row['seconds']:7.1f} s  other answers {row['other answers']}  "
          f"changed {row['changed'] or 'nothing'}  MB {row['MB early']:.1f} -> {row['MB late']:.1f}"
          f"{' *' if grew(row) else ''}", flush=True)
    return {"how": how, **row}


def main() -> int:
    """Read the arguments, run, write the rows; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="200 solves")
    parser.add_argument("--solves", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--json", help="file the rows are written to")
    options = parser.parse_args()
    options.solves = 200 if options.quick else options.solves
    warnings.simplefilter("ignore")
    rows = run(options)
    if options.json:
        Path(options.json).write_text(json.dumps(rows), encoding="utf-8")
    return int(any(row["other answers"] or row["changed"] or grew(row) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
