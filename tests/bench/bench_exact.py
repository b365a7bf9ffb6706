"""Time branch and bound: digits 3 against 8 and breast cancer in few principal components, to a gap of 0.1 %.

Run ``python tests/bench/bench_exact.py [--quick] [--json FILE] [--sizes 60:3,6,10 100:3,10 200:5] [--limit S] [--tol
T]``. Features are standardised, projected and scaled to trace n; weight C/n a point, |Σy| ≤ n/10. The proof of every
run is verified again from its leaves, outside the time shown.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

import margindsl as md
from margindsl.errors import AccuracyWarning
from margindsl.typing import FloatArray


@dataclass(frozen=True)
class Row:
    """Represent one line of the table."""

    n: int
    data: str
    loss: str
    rank: int
    weight: float
    value: float
    gap: float
    nodes: int
    leaves: int
    seconds: float
    cpu_seconds: float
    node_milliseconds: float
    verified: bool


def points(name: str, n: int, rank: int, seed: int = 0) -> FloatArray:
    """Return n points, half of each class, in their leading principal components, scaled to trace n."""
    rng = np.random.default_rng(seed)
    X, target = load_digits(return_X_y=True) if name == "digits" else load_breast_cancer(return_X_y=True)
    first, second = (3, 8) if name == "digits" else (0, 1)
    chosen = np.concatenate([rng.permutation(np.flatnonzero(target == first))[: n // 2],
                             rng.permutation(np.flatnonzero(target == second))[: n - n // 2]])
    X, spread = X[chosen], X[chosen].std(axis=0)
    X = (X - X.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    Z = U[:, :rank] * s[:rank]
    return np.asarray(Z * np.sqrt(n / np.sum(Z**2)))


def declare(X: FloatArray, loss: str, weight: float) -> md.Problem:
    """Return the problem with balance |Σy| ≤ n/10."""
    n = len(X)
    y = md.Labels(n)
    f = md.Hyperplane(X)
    cost = md.hinge(y * f) if loss == "hinge" else md.odm(y * f, 0.5, 0.2)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(cost)), [abs(md.sum(y)) <= n // 10])


def measure(name: str, n: int, rank: int, loss: str, weight: float, tol: float, limit: float) -> Row:
    """Solve one problem and verify its proof."""
    problem = declare(points(name, n, rank), loss, weight)
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        solution = problem.solve(md.Exact(method="branching", tol=tol), time_limit=limit, random_state=0)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    nodes = int(solution.message.split()[0])
    return Row(n, name, loss, rank, weight, solution.value, (solution.value - solution.bound) / solution.value,
               nodes, len(solution.certificate.leaves), seconds, cpu, 1e3 * cpu / max(nodes, 1),
               solution.verify())


def main(given: list[str] | None = None) -> list[dict[str, object]]:
    """Print the table, write JSON when asked, return the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="60 points in 3 dimensions only")
    parser.add_argument("--sizes", nargs="+", default=["60:3,6,10", "100:3,10", "200:5"])
    parser.add_argument("--weights", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--tol", type=float, default=1e-3)
    arguments = parser.parse_args(given)
    if arguments.quick:
        arguments.sizes = ["60:3"]
    rows = []
    print(f"{'n':>4} {'data':7} {'loss':6} {'d':>3} {'C':>5} {'value':>10} {'gap':>8} {'nodes':>6} {'leaves':>6} "
          f"{'s':>7} {'cpu s':>7} {'ms/node':>8} proof")
    for size in arguments.sizes:
        n, ranks = size.split(":")
        for name in ("digits", "breast"):
            for loss in ("hinge", "odm"):
                for rank in map(int, ranks.split(",")):
                    for weight in arguments.weights:
                        row = measure(name, int(n), rank, loss, weight, arguments.tol, arguments.limit)
                        rows.append(row)
                        print(f"{row.n:4d} {row.data:7} {row.loss:6} {row.rank:3d} {row.weight:5g} {row.value:10.5f} "
                              f"{row.gap:8.1e} {row.nodes:6d} {row.leaves:6d} {row.seconds:7.2f} "
                              f"{row.cpu_seconds:7.2f} {row.node_milliseconds:8.2f} "
                              f"{'verified' if row.verified else 'FAILED'}", flush=True)
    missed = [row for row in rows if row.gap > arguments.tol]
    print(f"{len(rows) - len(missed)} of {len(rows)} certified to {arguments.tol:g}")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return [asdict(row) for row in rows]


if __name__ == "__main__":
    main()
