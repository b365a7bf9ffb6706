"""Kernel, width and loss weight chosen without labels, on all 45 pairs of digits.

Run ``python tests/bench/bench_selection.py [--pairs 45] [--cache DIRECTORY]``. Every pair is solved at 15 settings, the
same for all: linear kernel and RBF of width .25, .35, .5, 1 times the mean distance (the 80 leading kernel principal
components, scaled to trace n), loss weights 10, 30, 100; ODM θ=.2, ν=.4, |Σy| ≤ .1 n, weight lifting and its polish.
The table has every fixed setting, rules that choose a setting from the solutions alone (the rule of
`margindsl.selection` with the problems of weight 100 as judges; lowest objective at weight 100; medoid of
all labellings), and what true labels would choose. ``--cache`` keeps the labels of every pair in a file and takes them
from there in later runs; the seconds in the table are those of the run that solved.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.metrics import clustering_accuracy
from margindsl.selection import select

WIDTHS = (None, 0.25, 0.35, 0.5, 1.0)  # times the mean distance; None is the linear kernel
WEIGHTS = (10.0, 30.0, 100.0)
SPECTRAL = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0, 2.0)
JUDGE = 100.0
RANK = 80


def components(X: np.ndarray, width: float | None) -> np.ndarray:
    """Return (n, r) leading kernel principal components, the whole kernel scaled to trace n."""
    if width is None:
        K = X @ X.T
    else:
        distances = pdist(X)
        K = np.exp(-(squareform(distances) / (width * distances.mean())) ** 2 / 2)
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values, vectors = np.linalg.eigh(K)
    top = values[::-1][:RANK]
    kept = top > 1e-9 * top[0]
    return vectors[:, ::-1][:, :RANK][:, kept] * np.sqrt(top[kept] * len(X) / values.sum())


def declare(features: np.ndarray, weight: float) -> md.Problem:
    """Return the problem of one setting."""
    n = len(features)
    y, f = md.Labels(n), md.Hyperplane(features, centre=False)
    loss = md.mean(md.odm(y * f, nu=0.4, theta=0.2))
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * loss), [abs(md.sum(y)) <= 0.1 * n])


def medoid(labellings: list[np.ndarray]) -> int:
    """Return the labelling that agrees most with all others."""
    agreement = np.abs(np.array(labellings) @ np.array(labellings).T)
    return int(np.argmax(agreement.sum(axis=1)))


def solve(problems: dict, path: Path | None) -> dict[str, np.ndarray]:
    """Return labels (settings, n), objectives and seconds of all settings, from a file if it is there."""
    if path is not None and path.exists():
        with np.load(path) as stored:
            return dict(stored)
    began = time.perf_counter()
    solutions = [problem.solve("weight-lifting", random_state=0) for problem in problems.values()]
    found = {"labels": np.array([solution.labels for solution in solutions], dtype=np.int8),
             "values": np.array([solution.value for solution in solutions]),
             "seconds": np.array(time.perf_counter() - began)}
    if path is not None:
        np.savez_compressed(path, **found)
    return found


def run_pair(X: np.ndarray, truth: np.ndarray, path: Path | None) -> dict:
    """Return errors of every setting, choices of every rule and seconds."""
    settings = list(itertools.product(WIDTHS, WEIGHTS))
    features = {width: components(X, width) for width in WIDTHS}
    problems = {(width, weight): declare(features[width], weight) for width, weight in settings}
    found = solve(problems, path)
    labellings, values = list(found["labels"].astype(int)), found["values"]
    began = time.perf_counter()
    chosen = select([problems[width, JUDGE] for width in WIDTHS], labellings)
    selected = time.perf_counter() - began
    at_judge = [k for k, (_, weight) in enumerate(settings) if weight == JUDGE]
    errors = np.array([1 - clustering_accuracy(truth, labels) for labels in labellings])
    rules = {"held-out loss (own rule)": chosen, "medoid": medoid(labellings),
             "lowest objective": min(at_judge, key=lambda k: values[k]),
             "picked by true labels": int(np.argmin(errors))}
    return {"errors": errors, "rules": rules, "baselines": baselines(X, truth),
            "solve": float(found["seconds"]), "select": selected}


def baselines(X: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Return the errors of k-means and of spectral clustering with the width picked by true labels."""
    means = KMeans(2, n_init=10, random_state=0).fit_predict(X)
    mean_distance = pdist(X).mean()
    spectral = [SpectralClustering(2, gamma=1 / (2 * (width * mean_distance) ** 2), random_state=0).fit_predict(X)
                for width in SPECTRAL]
    return {"k-means": 1 - clustering_accuracy(truth, means),
            "spectral RBF, width by true labels": min(1 - clustering_accuracy(truth, labels) for labels in spectral)}


def pairs(X: np.ndarray, target: np.ndarray, count: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, points and labels ±1 of the first pairs of classes."""
    for a, b in list(itertools.combinations(np.unique(target), 2))[:count]:
        chosen = np.isin(target, (a, b))
        yield f"{a}-{b}", X[chosen], np.where(target[chosen] == a, 1, -1)


def report(rows: dict[str, dict]) -> None:
    """Print the table: mean and worst over the pairs."""
    def line(name: str, error: Callable[[dict], float]) -> None:
        errors = {pair: 100 * error(row) for pair, row in rows.items()}
        worst = sorted(errors, key=lambda pair: -errors[pair])[:4]
        print(f"{name:40s} mean {np.mean(list(errors.values())):5.2f} %   worst "
              + ", ".join(f"{errors[pair]:.1f} ({pair})" for pair in worst))

    for k, (width, weight) in enumerate(itertools.product(WIDTHS, WEIGHTS)):
        kernel = "linear" if width is None else f"RBF {width:g} x mean distance"
        line(f"fixed: {kernel}, weight {weight:g}", lambda row, k=k: row["errors"][k])
    for rule in next(iter(rows.values()))["rules"]:
        line(rule, lambda row, rule=rule: row["errors"][row["rules"][rule]])
    for name in next(iter(rows.values()))["baselines"]:
        line(name, lambda row, name=name: row["baselines"][name])
    print(f"{len(rows)} pairs; seconds: {sum(row['solve'] for row in rows.values()):.0f} for all settings, "
          f"{sum(row['select'] for row in rows.values()):.0f} for the own rule")


def main() -> None:
    """Run the pairs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=45)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--quick", action="store_true", help="two pairs")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.pairs = 2
    warnings.simplefilter("ignore")
    digits, rows = load_digits(), {}
    for pair, X, truth in pairs(digits.data / 16, digits.target, options.pairs):
        rows[pair] = run_pair(X, truth, options.cache and options.cache / f"{pair}.npz")
        row = rows[pair]
        own = 100 * row["errors"][row["rules"]["held-out loss (own rule)"]]
        print(f"{pair}: own rule {own:.2f} %, by true labels {100 * row['errors'].min():.2f} %", flush=True)
    report(rows)
    if options.json:
        found = {pair: {rule: float(row["errors"][index]) for rule, index in row["rules"].items()}
                 | {"picked by true labels": float(row["errors"].min())} for pair, row in rows.items()}
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
