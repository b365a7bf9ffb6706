"""Time whole label generation at λ = 1: `mirror-prox` master against Clarabel through cvxpy.

Run ``python tests/bench/bench_generation.py [--quick] [--json FILE] [--limit S] [--weight L] [--growth]``. Digits 3
against 8, ODM loss, |Σy| ≤ 0.1n, generation to a heuristic gap of 1e-4. "clarabel" is the same loop, seed and oracle
with the master of the conic bridge; "by hand" is the loop of Li et al. as one writes it with cvxpy: k-means start, one
labelling a round, the problem built anew every round. When the time limit ends a run, its ratio is a lower bound.
Only the label generation is timed, rounding and certificate are not. ``--growth`` takes overlapping clouds in 64
columns instead: the loop with Clarabel at 500, 1,000 and 2,000 points, a line through their logarithms, and what it
says of 20,000 points beside the native loop there.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import cvxpy as cp
import numpy as np
from bench_master import balanced, primal_problem, violated
from bench_weight_lifting import clouds
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.contract import Budget, Solver
from margindsl.drivers.generation import generate, improved_starts
from margindsl.drivers.run import Run
from margindsl.drivers.starts import starting_labels
from margindsl.host.threads import small_work_threads
from margindsl.program import SaddleForm
from margindsl.program.program import MarginProgram

TOL = 1e-4
ORACLE_STARTS = 30  # random starts of the oracle in the loop by hand


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


def points() -> np.ndarray:
    """Return digits 3 and 8."""
    digits = load_digits()
    return np.asarray(digits.data[np.isin(digits.target, (3, 8))] / 16)


def program(X: np.ndarray, weight: float) -> MarginProgram:
    """Return ODM clustering of some points."""
    y, f = md.Labels(len(X)), md.Hyperplane(X - X.mean(axis=0))
    loss = md.mean(md.odm(y * f, theta=0.2, nu=0.4))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * loss), [abs(md.sum(y)) <= 0.1 * len(X)],
                         relaxation="minimax")
    return problem.program()


def measure(declared: MarginProgram, solver: Solver, limit: float, seed: int = 0) -> Row:
    """Generate labellings once."""
    run = Run(declared, solver, md.Solver("newton"), Budget.within(limit, tol=TOL), np.random.default_rng(seed))
    begin = time.perf_counter()
    initial = improved_starts(run, starting_labels(run, 3))
    done = generate(run, initial, tol=TOL, most=500, per_round=3, starts=4)
    seconds = time.perf_counter() - begin
    value = done.form.dual_objective(done.raw["u"])
    rounds = sum(record.stage == "label generation" for record in run.history)
    return Row(solver.name, seconds, rounds, done.form.count, value, (value - done.lower) / abs(value),
               done.status.word)


def by_hand(declared: MarginProgram, weight: float, limit: float, seed: int = 0) -> Row:
    """Generate labellings with a problem built by hand in every round."""
    rng, features, losses = np.random.default_rng(seed), declared.features, declared.losses
    slack, began = int(0.1 * declared.n), time.perf_counter()
    first = KMeans(2, n_init=10, random_state=seed).fit(features.toarray()).labels_
    found, lower, status = [balanced(2.0 * first - 1, slack)], -np.inf, "time-limit"
    while time.perf_counter() - began < limit:
        form = SaddleForm(features, losses, (np.array(found) + 1) // 2)
        problem = primal_problem(form, "odm", weight / declared.n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "solution may be inaccurate"
            problem.solve(solver=cp.CLARABEL)
        u, value = -problem.constraints[0].dual_value, float(problem.value)
        u = u if float(u.sum()) > 0 else -u  # the sign of a multiplier is a convention
        candidates = [violated(features, u, slack, rng) for _ in range(ORACLE_STARTS)]
        sizes = [float(np.sum(features.adjoint(y * u) ** 2)) for y in (*found, *candidates)]
        worst = candidates[int(np.argmax(sizes[len(found):]))]
        gain = -losses.conjugate_value(u) - 0.5 * max(sizes)
        lower = max(lower, gain)
        if value - gain <= TOL * abs(value) or any(abs(int(worst @ y)) == declared.n for y in found):
            status = "converged"
            break
        found.append(worst)
    return Row("by hand", time.perf_counter() - began, len(found), len(found), value, (value - lower) / abs(value),
               status)


def growth(weight: float, limit: float, sizes: list[int], largest: int) -> list[dict[str, object]]:
    """Print seconds of the loop with Clarabel, what they say of the largest size, and the native loop's there."""
    rows = []
    for name, n in [("mirror-prox", 200), *(("clarabel", n) for n in sizes), ("mirror-prox", largest)]:
        row = measure(program(clouds(n), weight), md.Solver(name), limit)
        print(f"{name:12} {n:7,} {row.seconds:9.2f} s {row.rounds:4} rounds  {row.gap:9.1e}  {row.status}", flush=True)
        rows.append({"n": n} | asdict(row))
    times = [row["seconds"] for row in rows[1:-1]]
    slope, level = np.polyfit(np.log(sizes), np.log(times), 1)
    there = float(np.exp(level + slope * np.log(largest)))
    print(f"slope {slope:.2f}, {there:,.0f} s at {largest:,}: {there / rows[-1]['seconds']:.0f} times the native loop")
    return rows


def main(arguments: list[str] | None = None) -> list[dict[str, object]]:
    """Print the table and return its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also save the rows here")
    parser.add_argument("--quick", action="store_true", help="at most 20 seconds for each run")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each run")
    parser.add_argument("--weight", type=float, default=1.0)
    parser.add_argument("--growth", action="store_true", help="clouds of 20,000 points beside Clarabel extrapolated")
    options = parser.parse_args(arguments)
    limit = 20.0 if options.quick else options.limit
    if options.growth:
        scale = 5 if options.quick else 1
        rows = growth(options.weight, limit, [n // scale for n in (500, 1000, 2000)], 20_000 // scale)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
        return rows
    declared, rows = program(points(), options.weight), []
    measure(declared, md.Solver("mirror-prox"), limit)  # imports
    print(f"{'master':12} {'seconds':>9} {'rounds':>6} {'labellings':>10} {'value':>12} {'gap':>9}  status")
    for name in ("mirror-prox", "clarabel", "by hand"):
        with small_work_threads(declared.n * declared.features.rank**2):  # as in every solve
            row = (by_hand(declared, options.weight, limit) if name == "by hand"
                   else measure(declared, md.Solver(name), limit))
        rows.append(asdict(row))
        print(f"{row.solver:12} {row.seconds:9.2f} {row.rounds:6} {row.labellings:10} {row.value:12.6f} "
              f"{row.gap:9.1e}  {row.status}", flush=True)
    for row in rows[1:]:
        print(f"{row['solver']} / mirror-prox: {row['seconds'] / rows[0]['seconds']:.1f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return rows


if __name__ == "__main__":
    main()
