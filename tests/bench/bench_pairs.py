"""All 45 pairs of scikit-learn digits: objective reached, error and time, against alternation and k-means.

Run ``python tests/bench/bench_pairs.py [--weights 1 10 100] [--pairs 45] [--json FILE]``. ODM θ=.2, ν=.4, linear
kernel, features scaled by 1/16 and centred, |Σy| ≤ .1 n. The truth is used for scoring, and to start the
comparison run "from the truth".
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.metrics import clustering_accuracy


def declare(X: np.ndarray, weight: float) -> md.Problem:
    """Return the problem of one pair."""
    n = len(X)
    y, f = md.Labels(n), md.Hyperplane(X)
    objective = md.sq_norm(f) / 2 + weight * md.mean(md.odm(y * f, nu=0.4, theta=0.2))
    return md.Problem(md.Minimize(objective), [abs(md.sum(y)) <= 0.1 * n])


def descend_from(problem: md.Problem, labels: np.ndarray) -> float:
    """Return the objective that alternation reaches from given labels."""
    from margindsl.contract import Budget
    from margindsl.drivers.alternation import alternate
    from margindsl.drivers.run import Run
    from margindsl.runtime.registry import make_solver

    program, newton = problem.program(), make_solver("newton")
    run = Run(program, newton, newton, Budget(), np.random.default_rng(0))
    fit = alternate(run, program.labels.nearest(labels))
    return program.to_user(fit.value)


def run_pair(X: np.ndarray, truth: np.ndarray, weight: float, relaxation: str) -> dict[str, float]:
    """Return the figures of one pair at one weight."""
    began = time.perf_counter()
    means = KMeans(2, n_init=10, random_state=0).fit(X)
    kmeans_seconds = time.perf_counter() - began
    problem = declare(X, weight)
    began = time.perf_counter()
    solution = problem.solve(relaxation, random_state=0)
    seconds = time.perf_counter() - began
    return {
        "value": solution.value, "bound": solution.bound, "seconds": seconds, "kmeans_seconds": kmeans_seconds,
        "error": 1 - clustering_accuracy(truth, solution.labels),
        "kmeans_error": 1 - clustering_accuracy(truth, means.labels_),
        "from_kmeans": descend_from(problem, 2 * means.labels_ - 1), "from_truth": descend_from(problem, truth)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=float, nargs="+", default=[1.0, 10.0, 100.0])
    parser.add_argument("--pairs", type=int, default=45)
    parser.add_argument("--relaxation", default="weight-lifting")
    parser.add_argument("--json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    digits = load_digits()
    rows = []
    for weight in options.weights:
        for a, b in list(itertools.combinations(range(10), 2))[: options.pairs]:
            chosen = np.isin(digits.target, (a, b))
            truth = np.where(digits.target[chosen] == a, 1, -1)
            row = run_pair(digits.data[chosen] / 16, truth, weight, options.relaxation)
            rows.append(row | {"weight": weight, "pair": f"{a}-{b}"})
        here = [row for row in rows if row["weight"] == weight]

        def mean(name: str, here: list = here) -> float:
            return float(np.mean([row[name] for row in here]))

        def share(name: str, here: list = here) -> float:
            return float(np.mean([row["value"] <= row[name] * (1 + 1e-7) for row in here]))

        worst = 100 * max(r["error"] for r in here)
        print(f"weight {weight:g}: error {100 * mean('error'):.2f} % (worst {worst:.1f}), "
              f"k-means {100 * mean('kmeans_error'):.2f} %, "
              f"<= alternation from k-means {100 * share('from_kmeans'):.0f} %, "
              f"<= from the truth {100 * share('from_truth'):.0f} %, time / k-means "
              f"{sum(r['seconds'] for r in here) / sum(r['kmeans_seconds'] for r in here):.1f}, "
              f"seconds {sum(r['seconds'] for r in here):.1f}", flush=True)
        above = [r for r in here if r["value"] > r["from_truth"] * (1 + 1e-7)]
        worse = [f"{r['pair']} {r['value']:.4f}>{r['from_truth']:.4f}" for r in above]
        if worse:
            print("  above the truth's:", ", ".join(worse))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
