"""The command `margindsl demo`: digits 3 and 8, one declaration, several relaxations and solvers, a page at the end."""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.cli.commands import run_combinations, written
from margindsl.metrics import clustering_accuracy
from margindsl.typing import FloatArray, IntArray

LINKS = 10
SUBSAMPLE = 60
FULL = (("alternating", "lbfgs"), ("alternating", "osqp"), ("cccp", "newton"), ("cccp", "clarabel"),
        ("minimax", "mirror-prox"), ("weight-lifting", "burer-monteiro"))
SMALL = (("alternating", "newton"), ("minimax", "mirror-prox"), ("minimax", "clarabel"), ("sdp", "scs"),
         ("weight-lifting", "burer-monteiro"))


def run(arguments: argparse.Namespace) -> int:
    """Run the demonstration, print its tables and write its page."""
    began = time.perf_counter()
    rng = np.random.default_rng(arguments.seed)
    images, digits = load_digits(return_X_y=True)
    chosen = np.isin(digits, (3, 8))
    X, truth = images[chosen] / 16.0, np.where(digits[chosen] == 3, 1, -1)
    some = np.sort(rng.choice(len(X), SUBSAMPLE, replace=False))
    print(f"digits 3 and 8: {len(X)} points of 64 pixels, {LINKS} must-links, {LINKS} cannot-links\n")
    parts = ((f"all {len(X)} points", np.arange(len(X)), FULL),
             (f"{SUBSAMPLE} points, with the semidefinite relaxation", some, SMALL))
    for title, rows, combinations in parts:
        problem, classes = declare(X[rows], truth[rows], rng), truth[rows]
        if len(rows) == len(X):
            print(problem, "\n", sep="", flush=True)
        print(f"[{title}]", file=sys.stderr)
        table = run_combinations(problem, combinations, classes, tol=1e-4, time_limit=arguments.time_limit,
                                 random_state=arguments.seed)
        best, means = table.best(), KMeans(2, n_init=10, random_state=arguments.seed).fit_predict(X[rows])
        print(f"{title}\n{table}\nbest value {best.value:.6g} ({best.relaxation} with {best.solver}); no labelling is "
              f"below {best.bound:.6g} (certified): gap {100 * best.gap:.3g} %\nk-means, for comparison: accuracy "
              f"{100 * clustering_accuracy(classes, means):.4g} %\n", flush=True)
    print(f"{time.perf_counter() - began:.0f} seconds in all.")
    written(lambda path: table.report(path, title="Digits 3 and 8", truth=classes), arguments.report)
    print(f"{arguments.report} shows the last of it. All links are kept, and no labels that keep them are better by "
          f"more than {100 * best.gap:.3g} %: proved, not hoped.")
    return 0


def declare(X: FloatArray, truth: IntArray, rng: np.random.Generator) -> md.Problem:
    """Return the optimal-margin-distribution clustering of digits, with links drawn from their classes."""
    pairs = rng.integers(0, len(X), (40 * LINKS, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
    n = len(X)
    y = md.Labels(n)
    f = md.Hyperplane(X)
    g = y * f
    lam, nu, theta = md.Parameter(10.0, name="lam"), 0.4, 0.2
    odm = (md.pos(1 - theta - g) ** 2 + nu * md.pos(g - 1 - theta) ** 2) / (1 - theta) ** 2
    return md.Problem(
        md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(odm)),
        [abs(md.sum(y)) <= 0.03 * n, md.must_link(y, pairs[same][:LINKS]), md.cannot_link(y, pairs[~same][:LINKS])])
