"""Agreement of the default clusterer with classes, beside what else a user would pick, and seconds.

Run ``python tests/bench/bench_quality.py [--data PATH ...] [--points 400] [--seeds 1] [--methods NAME ...] [--quick]
[--json FILE]``. A path is a file or a folder of files: ``.csv`` or ``.csv.gz`` with a header and the class in the last
column, ``.npz`` with ``X`` and ``y``. Without one the sets are scikit-learn's: breast cancer and six pairs of digits,
iris, wine and eight groups of digits. Every set is standardised first, and of more than ``--points`` points a random
part is taken (0 for none). Sets are dealt into halves A and B by a checksum of their names, which shows how far a
mean depends on the sets. Classes only score.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.cluster import AgglomerativeClustering, KMeans, SpectralClustering
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from margindsl.estimators import MarginClusterer
from margindsl.metrics import clustering_accuracy

GROUPS = ("49", "59", "18", "35", "38", "89", "246", "0123", "4567", "3589", "1279", "0689", "01234", "0123456789")
BUNDLED = {"breast-cancer": load_breast_cancer, "iris": load_iris, "wine": load_wine}
WIDE = 200  # columns above which a mixture has diagonal covariances

METHODS: dict[str, Callable[[np.ndarray, int, int], np.ndarray]] = {
    "margindsl": lambda X, k, s: MarginClusterer(k, random_state=s).fit_predict(X),
    "k-means": lambda X, k, s: KMeans(k, n_init=10, random_state=s).fit_predict(X),
    "k-means 100": lambda X, k, s: KMeans(k, n_init=100, random_state=s).fit_predict(X),
    "mixture": lambda X, k, s: GaussianMixture(
        k, covariance_type="diag" if X.shape[1] > WIDE else "full", n_init=3, reg_covar=1e-3,
        random_state=s).fit_predict(X),
    "Ward": lambda X, k, s: AgglomerativeClustering(k).fit_predict(X),
    "spectral": lambda X, k, s: SpectralClustering(
        k, affinity="nearest_neighbors", n_neighbors=min(10, len(X) - 1), random_state=s).fit_predict(X),
    "cpm3c": lambda X, k, s: MarginClusterer(k, model="cpm3c", time_limit=10.0, random_state=s).fit_predict(X)}


if find_spec("clustpy"):  # a peer that is not installed is left out
    from clustpy.centroid import SphericalKMeans

    METHODS["spherical k-means"] = lambda X, k, s: SphericalKMeans(k, random_state=s).fit(X).labels_
if find_spec("k_means_constrained"):
    from k_means_constrained import KMeansConstrained

    METHODS["k-means-constrained"] = lambda X, k, s: KMeansConstrained(
        k, size_min=int(0.4 * len(X) / k), random_state=s).fit_predict(X)  # the sizes of margindsl, within 60 %


def bundled() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, points and classes of scikit-learn's sets."""
    for name, load in BUNDLED.items():
        yield name, *load(return_X_y=True)
    digits = load_digits()
    for group in GROUPS:
        chosen = np.isin(digits.target, [int(digit) for digit in group])
        yield f"digits-{group}", digits.data[chosen], digits.target[chosen]


def stored(paths: list[Path]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, points and classes of the files of some paths."""
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.suffix == ".npz":
                with np.load(file) as arrays:
                    yield file.stem, arrays["X"].astype(float), arrays["y"]
            elif ".csv" in file.suffixes:
                table = np.genfromtxt(file, delimiter=",", skip_header=1)
                yield file.name.split(".csv")[0], table[:, :-1], table[:, -1].astype(int)


def drawn(X: np.ndarray, y: np.ndarray, points: int, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Return standardised points and classes 0..k−1 of a random part of a set, and k."""
    if points and len(X) > points:
        part = np.random.default_rng(seed).choice(len(X), points, replace=False)
        X, y = X[part], y[part]
    names, classes = np.unique(y, return_inverse=True)
    return StandardScaler().fit_transform(X), classes, len(names)


def half_of(name: str) -> str:
    """Return the half, A or B, that a set belongs to."""
    return "AB"[(zlib.crc32(name.encode()) >> 3) % 2]


def measure(X: np.ndarray, y: np.ndarray, options: argparse.Namespace) -> dict[str, list[float]]:
    """Return adjusted Rand index, accuracy and seconds of every method, means over seeds."""
    found: dict[str, list[list[float]]] = {name: [] for name in options.methods}
    for seed in range(options.seeds):
        points, classes, k = drawn(X, y, options.points, seed)
        for name in options.methods:
            began = time.process_time()
            labels = METHODS[name](points, k, seed)
            seconds = time.process_time() - began
            found[name].append([adjusted_rand_score(classes, labels), clustering_accuracy(classes, labels), seconds])
    return {name: np.mean(rows, axis=0).tolist() for name, rows in found.items()}


def report(rows: dict[str, dict], methods: list[str]) -> None:
    """Print the means of the sets of two classes and of more, by halves, and what the default loses most on."""
    for title, several in (("two classes", False), ("three classes and more", True)):
        chosen = {name: row for name, row in rows.items() if (row["classes"] > 2) == several}
        if not chosen:
            continue
        print(f"\n{title}, {len(chosen)} sets{'':12s}  ARI     half A  half B  accuracy  CPU seconds a set")
        for method in methods:
            table = np.array([row["scores"][method] for row in chosen.values()])
            halves = [np.mean([row["scores"][method][0] for row in chosen.values() if row["half"] == half] or [np.nan])
                      for half in "AB"]
            mean = table.mean(axis=0)
            print(f"  {method:28s} {mean[0]:7.3f} {halves[0]:8.3f} {halves[1]:7.3f} {mean[1]:8.3f} {mean[2]:10.2f}")
        if {"margindsl", "k-means"} <= set(methods):
            lost = sorted((row["scores"]["margindsl"][0] - row["scores"]["k-means"][0], name)
                          for name, row in chosen.items())[:3]
            print("  margindsl minus k-means, least: " + ", ".join(f"{loss:+.3f} {name}" for loss, name in lost))


def main() -> None:
    """Run the sets and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, nargs="+", help="files or folders of files")
    parser.add_argument("--points", type=int, default=400, help="most points of a set; 0 for all")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--sets", nargs="+", help="names of the sets to run; all by default")
    parser.add_argument("--quick", action="store_true", help="150 points, without cpm3c")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.points, options.methods = 150, [name for name in options.methods if name != "cpm3c"]
    warnings.simplefilter("ignore")
    rows: dict[str, dict] = {}
    for name, X, y in stored(options.data) if options.data else bundled():
        if options.sets and name not in options.sets:
            continue
        scores = measure(X, y, options)
        rows[name] = {"classes": len(np.unique(y)), "half": half_of(name), "scores": scores}
        half = rows[name]["half"]
        print(f"{name:24s} {half} " + "  ".join(f"{method} {score[0]:.3f}" for method, score in scores.items()),
              flush=True)
    report(rows, options.methods)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
