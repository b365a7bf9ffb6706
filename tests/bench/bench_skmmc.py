"""Time and memory of SKMMC against the number of points.

Run ``python tests/bench/bench_skmmc.py [POINTS.csv[.gz]] [--sizes N ...] [--quick] [--json FILE]``. The file has a
header and the
class in its last column. Every size runs in a process of its own, on one thread: seconds are CPU seconds of
declaration, features and solve; memory is the peak of what a second, traced run allocates beyond the points. The
kernel factor has the same rank at all sizes. Slopes are those of log-log least squares.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import margindsl as md
from margindsl.typing import FloatArray

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Row:
    """Represent one line of the table."""

    n: int
    seconds: float
    features: float
    solve: float
    megabytes: float
    basis: int
    value: float
    rho: float
    balanced_error: float


def generate(n: int, seed: int = 0) -> FloatArray:
    """Return n rows of 123 zeros and ones and their class, the second class a quarter of the points."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.02, 0.3, size=(2, 123))
    truth = (rng.random(n) < 0.25).astype(int)
    return np.column_stack([rng.random((n, 123)) < share[truth], truth]).astype(float)


def write_samples(path: str | None, sizes: list[int], folder: Path, seed: int = 0) -> dict[int, Path]:
    """Write nested random samples of a file's rows, so that a measured process reads no more than its own."""
    table = generate(max(sizes)) if path is None else np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float64)
    order = np.random.default_rng(seed).permutation(len(table))
    found = {}
    for n in sizes:
        found[n] = folder / f"{n}.npy"
        np.save(found[n], table[order[:n]])
    return found


def balanced_error(truth: FloatArray, labels: FloatArray) -> float:
    """Return the mean of the two per-class error rates in percent, under the better sign (SKMMC Eq. 31)."""
    wrong = [float(np.mean(labels[truth == c] != sign)) for c, sign in zip(np.unique(truth), (-1, 1))]
    error = 50 * sum(wrong)
    return min(error, 100 - error)


def measure(path: str, rank: int, method: str, restarts: int) -> Row:
    """Return the row of one size."""
    table = np.load(path)
    X, truth = table[:, :-1], table[:, -1]
    kernel = md.RBF(md.sqrt_mean_distance, rank=rank, method=method)
    began = time.process_time()
    problem = md.recipes.skmmc(X, kernel=kernel, restarts=restarts)
    problem.prepared()
    middle = time.process_time()
    solution = problem.solve(random_state=0)
    ended = time.process_time()
    form = problem.program().fix_labels((solution.labels > 0).astype(int))
    basis = len(problem.solver.solve(form)["basis"])  # type: ignore[union-attr]
    tracemalloc.start()
    md.recipes.skmmc(X, kernel=kernel, restarts=restarts).solve(random_state=0)
    megabytes = tracemalloc.get_traced_memory()[1] / 2**20
    return Row(len(X), ended - began, middle - began, ended - middle, megabytes, basis, solution.value,
               solution.scalars["rho"], balanced_error(truth, solution.labels))


def slope(rows: list[Row], name: str) -> float:
    """Return the least-squares slope of log(name) against log(n)."""
    values = [max(getattr(row, name), 1e-9) for row in rows]
    return float(np.polyfit(np.log([row.n for row in rows]), np.log(values), 1)[0])


def main() -> None:
    """Run every size and print the table with its slopes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", help="points; generated when none are given")
    parser.add_argument("--quick", action="store_true", help="sizes 500 and 2000")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 3000, 10_000, 30_000])
    parser.add_argument("--rank", type=int, default=300)
    parser.add_argument("--method", choices=["nystrom", "cholesky", "auto"], default="nystrom")
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sample", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sample:
        row = measure(options.path, options.rank, options.method, options.restarts)
        print(json.dumps(asdict(row)))
        return
    if options.quick:
        options.sizes = [500, 2000]
    rows = []
    print(f"{'n':>7} {'seconds':>9} {'features':>9} {'solve':>9} {'MB':>8} {'basis':>6} {'value':>12} {'rho':>9} "
          f"{'B_Err':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for sample in write_samples(options.path, options.sizes, Path(folder)).values():
            command = [sys.executable, __file__, str(sample), "--sample", "--rank", str(options.rank), "--method",
                       options.method, "--restarts", str(options.restarts)]
            done = subprocess.run(command, capture_output=True, text=True, check=True,
                                  env=os.environ | dict.fromkeys(THREADS, "1"))
            row = Row(**json.loads(done.stdout))
            rows.append(row)
            print(f"{row.n:7d} {row.seconds:9.2f} {row.features:9.2f} {row.solve:9.2f} {row.megabytes:8.1f} "
                  f"{row.basis:6d} {row.value:12.6g} {row.rho:9.4g} {row.balanced_error:6.2f}", flush=True)
    slopes = {name: slope(rows, name) for name in ("seconds", "features", "solve", "megabytes")}
    print("log-log slopes: " + ", ".join(f"{name} {value:.2f}" for name, value in slopes.items()))
    if options.json:
        options.json.write_text(json.dumps({"rows": [asdict(row) for row in rows], "slopes": slopes}, indent=1),
                                encoding="utf-8")


if __name__ == "__main__":
    main()
