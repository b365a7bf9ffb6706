"""Measure the peak memory of solves on a memory map of n x d float32, above the baseline of the imports.

Run ``python tests/bench/bench_memory.py [--quick] [--points N] [--columns D] [--json FILE] [--runs NAME ...]``. Each
run is a process of its own; its peak is VmHWM of /proc/self/status (mapped pages of the file included), so Linux
only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RUNS = ("weight-lifting", "alternating", "cccp", "alternating-nystrom", "held", "held-nystrom")
LIMIT_MB = 400


def write_points(path: Path, points: int, columns: int, seed: int = 0) -> None:
    """Write two Gaussian clusters of float32 points, block by block."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=columns) / np.sqrt(columns)
    with open(path, "wb") as file:
        for start in range(0, points, 50_000):
            m = min(50_000, points - start)
            side = np.where(rng.random(m) < 0.5, 1.0, -1.0)
            file.write((0.3 * rng.normal(size=(m, columns)) + side[:, None] * direction).astype(np.float32).tobytes())


def peak_mb() -> float:
    """Return VmHWM, the largest resident size of this process so far, in MB (2^20 bytes)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure(path: str, points: int, columns: int, run: str) -> dict[str, float | str]:
    """Solve in this process and return value, bound, seconds and peak memory above the baseline."""
    import margindsl as md

    if run.startswith("held"):
        return hold(md, path, points, columns, run)
    # A small problem first: what imports and compilation need is the baseline.
    _solve(md, np.random.default_rng(0).normal(size=(200, columns)).astype(np.float32), run)
    baseline = peak_mb()
    began = time.perf_counter()
    solution = _solve(md, np.memmap(path, dtype=np.float32, mode="r", shape=(points, columns)), run)
    return {"run": run, "points": points, "columns": columns, "seconds": time.perf_counter() - began,
            "value": float(solution.value), "bound": float(solution.bound), "status": str(solution.status),
            "baseline_mb": baseline, "above_mb": peak_mb() - baseline}


def hold(md, path: str, points: int, columns: int, run: str) -> dict[str, float | str]:  # type: ignore[no-untyped-def]
    """Choose as many points of the file as are ever held in memory, and return what that takes."""
    from margindsl.features import build
    from margindsl.features.blocks import HELD

    kernel = md.RBF("median", method="nystrom", rank=columns) if run.endswith("nystrom") else "linear"
    rng = np.random.default_rng(0)
    small = build(rng.normal(size=(200, columns)).astype(np.float32), kernel)
    small.take(np.arange(100)).apply(np.ones(small.rank))
    baseline, began = peak_mb(), time.perf_counter()
    features = build(np.memmap(path, dtype=np.float32, mode="r", shape=(points, columns)), kernel)
    chosen = np.sort(rng.choice(points, min(points - 1, HELD // features.rank), replace=False))
    part = features.take(chosen)
    part.apply(np.ones(part.rank))
    return {"run": run, "points": points, "columns": columns, "seconds": time.perf_counter() - began,
            "value": float("nan"), "bound": float("nan"), "status": f"{len(chosen):,} points held",
            "baseline_mb": baseline, "above_mb": peak_mb() - baseline}


def _solve(md, X, run):  # type: ignore[no-untyped-def]
    n, (name, nystrom, _) = len(X), run.partition("-nystrom")
    kernel = md.RBF("median", method="nystrom", rank=min(64, n)) if nystrom else "linear"
    y, f = md.Labels(n), md.Hyperplane(X, kernel=kernel)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(y * f, 0.4, 0.2))),
                         [abs(md.sum(y)) <= 0.1 * n])
    local = {"restarts": 1, "start": "kmeans", "polish": "none"}
    chosen = {"weight-lifting": lambda: md.WeightLifting(rounding=2, polish="none"),
              "alternating": lambda: md.Alternating(**local), "cccp": lambda: md.CCCP(**local)}[name]()
    return problem.solve(chosen, tol=1e-3, random_state=0)


def main(arguments: list[str] | None = None) -> list[dict[str, object]]:
    """Measure every run in a process of its own, print the table and return its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=[*RUNS[:3], *RUNS[4:]])
    parser.add_argument("--measure", nargs=2, metavar=("FILE", "RUN"), help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="100,000 points")
    options = parser.parse_args(arguments)
    if options.quick:
        options.points = 100_000
    if options.measure:
        print(json.dumps(measure(options.measure[0], options.points, options.columns, options.measure[1])))
        return []
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.f32"
        write_points(path, options.points, options.columns)
        print(f"file {os.path.getsize(path) / 2**20:.0f} MB, limit {LIMIT_MB} MB above the baseline")
        for run in options.runs:
            answer = subprocess.run([sys.executable, __file__, "--points", str(options.points), "--columns",
                                     str(options.columns), "--measure", str(path), run],
                                    check=True, capture_output=True, text=True)
            rows.append(json.loads(answer.stdout.splitlines()[-1]))
            row = rows[-1]
            print(f"{run:22s} {row['above_mb']:7.0f} MB  {row['seconds']:7.1f} s  value {row['value']:.5f}  "
                  f"bound {row['bound']:.5f}  {row['status']}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return rows


if __name__ == "__main__":
    main()
