"""Planted outliers: area under the curve of `score_samples`, isolation forests and local outlier factors, by kind.

Run ``python tests/bench/bench_outliers.py [--data PATH ...] [--points 300] [--share 0.05] [--quick] [--json FILE]``.
Sets are those of `bench_quality`, and clouds of three to six clusters. "between" are means of two points of different
classes, "box" is uniform over the range of every column, "columns" takes each column from another point, "far" is three
times a point. "Flagged" is the share of outliers, and of others, in `outliers_`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from bench_quality import bundled, drawn, stored
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from margindsl.estimators import MarginClusterer


def planted(X: np.ndarray, classes: np.ndarray, kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return outliers (count, d) of a kind."""
    n, d = X.shape
    first = rng.integers(n, size=count)
    if kind == "between":
        second = np.array([rng.choice(np.flatnonzero(classes != classes[i])) for i in first])
        return (X[first] + X[second]) / 2
    if kind == "box":
        return rng.uniform(X.min(axis=0), X.max(axis=0), size=(count, d))
    return X[rng.integers(n, size=(count, d)), np.arange(d)] if kind == "columns" else 3 * X[first]


def main() -> None:
    """Measure and print the means over sets."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, nargs="+", help="files or folders of files")
    parser.add_argument("--points", type=int, default=300)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--quick", action="store_true", help="clouds only")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sets = [] if options.quick else [(X, y) for _, X, y in [*bundled(), *stored(options.data or [])]]
    for k, d in ((3, 5), (4, 10), (5, 20), (6, 10)):
        rng = np.random.default_rng(k)
        classes = rng.integers(k, size=options.points)
        sets.append((3 * rng.normal(size=(k, d))[classes] + rng.normal(size=(len(classes), d)),
                     classes))
    found = {}
    for kind in ("between", "box", "columns", "far"):
        found[kind] = rows = []
        for X, y in sets:
            points, classes, k = drawn(X, y, options.points, 0)
            rng = np.random.default_rng(0)
            odd = planted(points, classes, kind, max(3, int(options.share * len(points))), rng)
            whole, truth = np.vstack([points, odd]), np.repeat([0, 1], [len(points), len(odd)])
            model = MarginClusterer(k, random_state=0).fit(whole)
            own = -np.asarray(model.score_samples(whole))
            rows.append([roc_auc_score(truth, own), roc_auc_score(truth, -IsolationForest(random_state=0).fit(
                whole).score_samples(whole)), roc_auc_score(truth, -LocalOutlierFactor().fit(
                    whole).negative_outlier_factor_), model.outliers_[truth == 1].mean(),
                model.outliers_[truth == 0].mean()])
        for title, part in (("sets", rows[:-4]), ("clouds", rows[-4:])):
            if part:
                print(f"{kind:8s} {len(part):3d} {title:7s}" + "  ".join(f"{word} {value:.3f}" for word, value in zip(
                    ("scores", "forest", "LOF", "flagged", "of others"), np.mean(part, axis=0))), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
