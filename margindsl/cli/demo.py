"""The command `margindsl demo`: digits 3 and 8, one declaration, several relaxations and solvers."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.cli.commands import run_combinations
from margindsl.metrics import clustering_accuracy
from margindsl.typing import FloatArray, IntArray

LINKS = 10
SUBSAMPLE = 60
FULL = (("alternating", "lbfgs"), ("alternating", "osqp"), ("cccp", "newton"), ("cccp", "clarabel"),
        ("minimax", "mirror-prox"), ("weight-lifting", "burer-monteiro"))
SMALL = (("alternating", "newton"), ("minimax", "mirror-prox"), ("minimax", "clarabel"), ("sdp", "scs"),
         ("weight-lifting", "burer-monteiro"))


@dataclass(frozen=True, eq=False)
class Digits:
    """Represent points with their classes and links drawn from them.

    Parameters
    ----------
    X : (n, 64) float array
        Pixel values in [0, 1].
    truth : (n,) int array
        +1 for a three, -1 for an eight.
    must, cannot : (10, 2) int arrays
        Pairs of equal and of different classes.
    """

    X: FloatArray
    truth: IntArray
    must: IntArray
    cannot: IntArray


def run(arguments: argparse.Namespace) -> int:
    """Run the demonstration and print its tables."""
    began = time.perf_counter()
    rng = np.random.default_rng(arguments.seed)
    images, digits = load_digits(return_X_y=True)
    chosen = np.isin(digits, (3, 8))
    X, truth = images[chosen] / 16.0, np.where(digits[chosen] == 3, 1, -1)
    some = np.sort(rng.choice(len(X), SUBSAMPLE, replace=False))
    full, small = _link(X, truth, rng), _link(X[some], truth[some], rng)
    print(f"digits 3 and 8: {len(X)} points of 64 pixels, {LINKS} must-links, {LINKS} cannot-links\n")
    print(declare(full), "\n", sep="", flush=True)
    _show(f"all {len(X)} points", full, FULL, arguments)
    _show(f"{SUBSAMPLE} points, with the semidefinite relaxation", small, SMALL, arguments)
    print(f"{time.perf_counter() - began:.0f} seconds in all")
    return 0


def declare(data: Digits) -> md.Problem:
    """Return the optimal-margin-distribution clustering of the digits, declared in the language."""
    n = len(data.X)
    y = md.Labels(n)
    f = md.Hyperplane(data.X)
    g = y * f
    lam, nu, theta = md.Parameter(10.0, name="lam"), 0.4, 0.2
    odm = (md.pos(1 - theta - g) ** 2 + nu * md.pos(g - 1 - theta) ** 2) / (1 - theta) ** 2
    return md.Problem(
        md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(odm)),
        [abs(md.sum(y)) <= 0.03 * n, md.must_link(y, data.must), md.cannot_link(y, data.cannot)])


def _link(X: FloatArray, truth: IntArray, rng: np.random.Generator) -> Digits:
    pairs = rng.integers(0, len(X), (40 * LINKS, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
    return Digits(X, truth, pairs[same][:LINKS], pairs[~same][:LINKS])


def _show(title: str, data: Digits, combinations: Any, arguments: argparse.Namespace) -> None:
    print(f"[{title}]", file=sys.stderr)
    table = run_combinations(declare(data), combinations, data.truth, tol=1e-4, time_limit=arguments.time_limit,
                             random_state=arguments.seed)
    best, means = table.best(), KMeans(2, n_init=10, random_state=arguments.seed).fit_predict(data.X)
    gap = 100 * (best.value - table.bound) / best.value
    print(f"{title}\n{table}\nbest value {best.value:.6g} ({best.relaxation} with {best.solver}); no labelling is "
          f"below {table.bound:.6g} (certified): gap {gap:.3g} %\nk-means, for comparison: accuracy "
          f"{100 * clustering_accuracy(data.truth, means):.4g} %\n", flush=True)
