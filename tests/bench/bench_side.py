"""What links and few labels teach: points without either, beside what else a user would pick.

Run ``python tests/bench/bench_side.py {labels,links} [--data PATH ...] [--points 300] [--seeds 2] [--methods NAME ...]
[--quick] [--json FILE]``. Sets, draws and halves are those of `bench_quality`.

- ``labels``: accuracy on the points whose class is hidden, with 1, 5 and 10 % of the classes, one of each at least:
  the default classifiers here, logistic regression, `LinearSVC`, self-training of the former, label spreading over 7
  neighbours and by an RBF kernel.
- ``links``: adjusted Rand index over the points without a link, of which random pairs tell .1 n and .5 n: the default
  clusterer, and of `examples/papers/baselines.py` k-means, COP-KMeans, PC-KMeans and MPC-KMeans. COP-KMeans stops where
  its order of points leads nowhere: means are over the sets where it answers, with the clusterer's own over those.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_quality import bundled, drawn, half_of, stored
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import LinearSVC

from margindsl.errors import MarginError
from margindsl.estimators import MarginClusterer, ODMClassifier, SemiSupervisedODM

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "papers"))
import baselines

WIDE = 1500  # columns of sets that are left out
SHARES = {"labels": (0.01, 0.05, 0.1), "links": (0.1, 0.5)}


def classified(X: np.ndarray, y: np.ndarray, share: float, rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    """Return what classifies the points of hidden class, and how many of those are right."""
    k, known = int(y.max()) + 1, np.zeros(len(X), dtype=bool)
    for q in range(k):
        known[rng.choice(np.flatnonzero(y == q))] = True
    known[rng.permutation(np.flatnonzero(~known))[:max(0, round(share * len(X)) - k)]] = True
    given = np.where(known, y, -1)

    def right(model: Any, whole: bool) -> float:
        fitted = model.fit(X, given) if whole else model.fit(X[known], y[known])
        return float(np.mean(fitted.predict(X[~known]) == y[~known]))

    logistic = LogisticRegression(max_iter=1000)
    return {"SemiSupervisedODM": lambda: right(SemiSupervisedODM(), True),
            "ODMClassifier": lambda: right(ODMClassifier(), False),
            "logistic": lambda: right(logistic, False), "LinearSVC": lambda: right(LinearSVC(), False),
            "self-training": lambda: right(SelfTrainingClassifier(logistic), True),
            "spreading knn": lambda: right(LabelSpreading(kernel="knn", max_iter=100), True),
            "spreading rbf": lambda: right(LabelSpreading(gamma=1 / X.shape[1], max_iter=100), True)}


def linked(X: np.ndarray, y: np.ndarray, share: float, rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    """Return what clusters the points under random links, and the index of those without."""
    k = int(y.max()) + 1
    pairs = np.array([rng.choice(len(X), 2, replace=False) for _ in range(int(share * len(X)))])
    same, free = y[pairs[:, 0]] == y[pairs[:, 1]], np.ones(len(X), dtype=bool)
    free[pairs.ravel()] = False
    must, cannot = pairs[same], pairs[~same]

    def index(labels: Any) -> float:
        return float("nan") if labels is None else adjusted_rand_score(y[free], np.asarray(labels)[free])

    return {"MarginClusterer": lambda: index(MarginClusterer(k, random_state=0).fit(
                X, must_link=must, cannot_link=cannot).labels_),
            "k-means": lambda: index(baselines.kmeans(X, k, np.random.default_rng(0))),
            "COP-KMeans": lambda: index(baselines.cop_kmeans(X, k, must, cannot, np.random.default_rng(0))),
            "PC-KMeans": lambda: index(baselines.pc_kmeans(X, k, must, cannot, 1.0, np.random.default_rng(0))),
            "MPC-KMeans": lambda: index(baselines.mpc_kmeans(X, k, must, cannot, 1.0, np.random.default_rng(0)))}


def main() -> None:
    """Run the sets and print the means."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=list(SHARES), nargs="?", default="labels")
    parser.add_argument("--data", type=Path, nargs="+", help="files or folders of files; beside scikit-learn's sets")
    parser.add_argument("--points", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--quick", action="store_true", help="150 points, one seed")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.points, options.seeds = 150, 1
    warnings.simplefilter("ignore")
    found: dict[tuple[str, float], dict[tuple[str, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    seconds: dict[str, float] = defaultdict(float)
    for name, X, y in [*bundled(), *stored(options.data or [])]:
        if X.shape[1] > WIDE:
            continue
        for seed in range(options.seeds):
            points, classes, k = drawn(X, y, options.points, seed)
            for share in SHARES[options.what]:
                prepare = classified if options.what == "labels" else linked
                calls = prepare(points, classes, share, np.random.default_rng(50 + seed))
                for method in options.methods or calls:
                    began = time.process_time()
                    try:
                        found[method, share][name, k].append(calls[method]())
                    except MarginError:
                        found[method, share][name, k].append(float("nan"))
                    seconds[method] += time.process_time() - began
    if options.json:
        rows = {f"{method} {share} {name}": values for (method, share), cells in found.items()
                for (name, _), values in cells.items()}
        options.json.write_text(json.dumps(rows), encoding="utf-8")
    methods = list(dict.fromkeys(method for method, _ in found))
    own = found[methods[0], SHARES[options.what][0]]
    for title, keys in {"all": list(own), "two classes": [key for key in own if key[1] == 2],
                        "more": [key for key in own if key[1] > 2], "half A": [q for q in own if half_of(q[0]) == "A"],
                        "half B": [q for q in own if half_of(q[0]) == "B"]}.items():
        print(f"{title}, {len(keys)} sets")
        for method in methods:
            cells = []
            for share in SHARES[options.what]:
                means = np.array([np.mean(found[method, share][key]) for key in keys])
                there = np.isfinite(means)
                ours = np.array([np.mean(found[methods[0], share][key]) for key in keys])[there].mean()
                cells.append(f"{share:g}: {means[there].mean():.3f}" + (
                    "" if there.all() else f" (ours {ours:.3f} on these {there.sum()})"))
            print(f"  {method:18s} " + "   ".join(cells) + f"   {seconds[method]:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
