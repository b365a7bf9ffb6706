"""The number of clusters by stability beside silhouette, Calinski-Harabasz, prediction strength, the gap statistic.

Run ``python tests/bench/bench_number.py [--data FOLDER] [--points 400] [--quick]``. Sets are scikit-learn's, clouds,
and where a folder is given files of two classes; the number of classes is right, of clouds without parts one. They
are dealt into halves A, on which the rule was tuned, and B by a checksum of their names. All see k-means
clusters, of two to twelve; "in the view" is stability behind `SpatialSign`.
"""

from __future__ import annotations

import argparse
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_circles,
    make_moons,
)
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score, silhouette_score
from sklearn.preprocessing import StandardScaler

import margindsl as md
from margindsl.estimators import SpatialSign

GROUPS = ("01", "0689", "1279", "035", "2468", "01234", "13579", "012467", "34567890", "0123456789", "46", "127",
          "05678")
FILES = ("house-votes", "vehicle", "optdigits", "wdbc", "waveform", "letter-AB", "australian")
BLOBS = ((3, 2, 1, 0), (5, 2, 1, 1), (4, 5, 1.5, 2), (6, 10, 2, 3), (8, 20, 3, 4), (2, 5, 3, 5), (3, 20, 5, 6),
         (7, 4, 1, 7), (9, 6, 1.5, 8), (4, 2, 0.8, 9), (5, 50, 6, 10), (10, 10, 2, 11))  # k, d, scatter, seed
NUMBERS = range(2, 13)
Set = tuple[np.ndarray, np.ndarray]


def sets(points: int, folder: Path | None) -> Iterator[tuple[str, Set]]:
    """Yield name, points and classes."""
    def drawn(X: np.ndarray, classes: np.ndarray) -> Set:
        some = np.random.default_rng(0).permutation(len(X))[:points]
        return StandardScaler().fit_transform(X)[some], np.asarray(classes)[some]

    for name, load in (("iris", load_iris), ("wine", load_wine), ("breast cancer", load_breast_cancer)):
        yield name, drawn(*load(return_X_y=True))
    digits = load_digits()
    for group in GROUPS:
        chosen = np.isin(digits.target, [int(digit) for digit in group])
        X, classes = digits.data[chosen] / 16, digits.target[chosen]
        some = np.random.default_rng(0).permutation(len(X))[:points]
        yield f"digits-{group}", (X[some], classes[some])
    for file in () if folder is None else FILES:
        frame = pd.read_csv(folder / f"{file}.csv.gz")
        yield file, drawn(frame.iloc[:, :-1].to_numpy(float), frame.iloc[:, -1].to_numpy())
    for k, d, scatter, seed in BLOBS:
        yield f"{k} blobs in {d}", make_blobs(400, d, centers=k, cluster_std=scatter, random_state=seed)[:2]
    yield "unequal sizes", make_blobs([250, 80, 40, 30], 4, cluster_std=1.2, random_state=1)[:2]
    yield "unequal scatter", make_blobs([200, 120, 80], 2, cluster_std=[1.0, 2.0, 0.5], random_state=5)[:2]
    X, classes = make_blobs(400, 2, centers=3, random_state=170)[:2]
    yield "slanted", (X @ [[0.6, -0.63], [-0.4, 0.85]], classes)
    yield "moons", make_moons(400, noise=0.07, random_state=0)
    yield "circles", make_circles(400, noise=0.05, factor=0.4, random_state=0)
    rng, one = np.random.default_rng(0), np.zeros(400, dtype=int)
    for d in (2, 5, 20):
        yield f"one normal cloud in {d}", (rng.normal(size=(400, d)), one)
    yield "one slanted cloud", (rng.normal(size=(400, 5)) @ rng.normal(size=(5, 5)), one)
    yield "one cube", (rng.uniform(size=(400, 3)), one)
    yield "one cloud with heavy tails", (rng.standard_t(4, size=(400, 6)), one)


def gap(X: np.ndarray, references: int = 5) -> int:
    """Return the number of clusters of the gap statistic (Tibshirani, Walther, Hastie 2001), uniform in the axes."""
    rng, centred = np.random.default_rng(0), X - X.mean(axis=0)
    turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].T

    def spread(points: np.ndarray, k: int) -> float:
        return float(np.log(KMeans(k, n_init=1, random_state=0).fit(points).inertia_))

    box = turned.min(axis=0), turned.max(axis=0)
    gaps, errors = [], []
    for k in range(1, 13):
        null = [spread(rng.uniform(*box, turned.shape), k) for _ in range(references)]
        gaps.append(np.mean(null) - spread(X, k))
        errors.append(np.std(null) * np.sqrt(1 + 1 / references))
    return next((k for k in range(1, 12) if gaps[k - 1] >= gaps[k] - errors[k]), 12)


def prediction_strength(X: np.ndarray, splits: int = 6) -> int:
    """Return the most clusters of prediction strength at least .8 (Tibshirani, Walther 2005)."""
    best = 1
    for k in NUMBERS:
        strengths = []
        for split in range(splits):
            order = np.random.default_rng(split).permutation(len(X))
            first, second = X[order[: len(X) // 2]], X[order[len(X) // 2 :]]
            own = KMeans(k, n_init=4, random_state=0).fit_predict(second)
            carried = KMeans(k, n_init=4, random_state=0).fit(first).predict(second)
            strengths.append(min((m * (m - 1)).sum() / max(1, m.sum() * (m.sum() - 1)) if m.sum() > 1 else 1.0
                                 for m in (np.bincount(carried[own == c], minlength=k) for c in range(k))))
        best = k if np.mean(strengths) >= 0.8 else best
    return best


def main() -> None:
    """Print the choices, and how often and how nearly each is right."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--points", type=int, default=400)
    parser.add_argument("--quick", action="store_true", help="the first three sets")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for number, (name, (X, classes)) in enumerate(sets(options.points, options.data)):
        if options.quick and number >= 3:
            break
        labels = {k: KMeans(k, n_init=4, random_state=0).fit_predict(X) for k in NUMBERS}
        began = time.process_time()
        stable = md.select_clusters(SpatialSign().fit_transform(X)).clusters
        seconds = time.process_time() - began
        found = {"in the view": stable, "stability": md.select_clusters(X).clusters,
                 "silhouette": max(NUMBERS, key=lambda k: silhouette_score(X, labels[k])),
                 "Calinski-Harabasz": max(NUMBERS, key=lambda k: calinski_harabasz_score(X, labels[k])),
                 "gap": gap(X), "prediction strength": prediction_strength(X)}
        right = len(np.unique(classes))
        print(f"{name:28s} {right:2d} " + "  ".join(f"{rule} {k}" for rule, k in found.items()), flush=True)
        for rule, k in found.items():
            index = adjusted_rand_score(classes, labels[k]) if k > 1 else 0.0
            rows.append({"half": "AB"[zlib.crc32(name.encode()) % 2], "rule": rule, "one": right == 1,
                         "right": k == right, "near": abs(k - right) <= 1, "index": index, "seconds": seconds})
    frame = pd.DataFrame(rows)
    for words, part in [("half A", frame[frame.half == "A"]), ("half B", frame[frame.half == "B"]), ("all", frame)]:
        several = part[~part.one].groupby("rule", sort=False)[["right", "near", "index"]].mean()
        ones = part[part.one].groupby("rule", sort=False).right.sum().rename("one found")
        print(f"\n{words}: {len(part) // 6} sets, {part.one.sum() // 6} of them without parts\n"
              f"{several.join(ones).round(3)}")
    print(f"seconds of a choice: {frame.seconds.mean():.2f}")


if __name__ == "__main__":
    main()
