"""Time whole label generation at λ = 1: `mirror-prox` master against the same loop with Clarabel through cvxpy.

Run ``python tests/bench/bench_generation.py [--json FILE] [--limit S] [--weight L]``. Digits 3 against 8, ODM loss,
|Σy| ≤ 0.1n, generation to a heuristic gap of 1e-4, the same seed and oracle. When the time limit ends a run, its
ratio is a lower bound. Only the label generation is timed, rounding and certificate are not.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.contract import Budget, Solver
from margindsl.drivers.generation import generate
from margindsl.drivers.run import Run
from margindsl.drivers.starts import starting_labels
from margindsl.program.program import MarginProgram

TOL = 1e-4


@dataclass(frozen=True)
class Row:
    """Represent one master solver in the loop."""

    solver: str
    seconds: float
    rounds: int
    labellings: int
    value: float
    gap: float
    status: str


def program(weight: float) -> MarginProgram:
    """Return ODM clustering of digits 3 against 8."""
    digits = load_digits()
    X = digits.data[np.isin(digits.target, (3, 8))] / 16
    y, f = md.Labels(len(X)), md.Hyperplane(X - X.mean(axis=0))
    loss = md.mean(md.odm(y * f, theta=0.2, nu=0.4))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * loss), [abs(md.sum(y)) <= 0.1 * len(X)],
                         relaxation="minimax")
    return problem.program()


def measure(declared: MarginProgram, solver: Solver, limit: float, seed: int = 0) -> Row:
    """Generate labellings once."""
    run = Run(declared, solver, md.Solver("newton"), Budget.within(limit, tol=TOL), np.random.default_rng(seed))
    initial = starting_labels(run, 3)
    begin = time.perf_counter()
    done = generate(run, initial, tol=TOL, most=500, per_round=3, starts=4)
    seconds = time.perf_counter() - begin
    value = done.form.dual_objective(done.raw["u"])
    return Row(solver.name, seconds, len(run.history), done.form.count, value, (value - done.lower) / abs(value),
               done.status.word)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also save the rows here")
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds for each run")
    parser.add_argument("--weight", type=float, default=1.0)
    options = parser.parse_args()
    declared, rows = program(options.weight), []
    print(f"{'master':12} {'seconds':>9} {'rounds':>6} {'labellings':>10} {'value':>12} {'gap':>9}  status")
    for name in ("mirror-prox", "clarabel"):
        row = measure(declared, md.Solver(name), options.limit)
        rows.append(asdict(row))
        print(f"{row.solver:12} {row.seconds:9.2f} {row.rounds:6} {row.labellings:10} {row.value:12.6f} "
              f"{row.gap:9.1e}  {row.status}", flush=True)
    total = rows[1]["seconds"] / rows[0]["seconds"]
    # The two loops see different dual points and need different numbers of rounds.
    print(f"ratio {total:.1f}, per round {total * rows[0]['rounds'] / rows[1]['rounds']:.1f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
