"""Root bounds and trees on rows of public semi-supervised instances, beside those of a prototype of the lift.

Run ``python tests/bench/bench_rows.py DIRECTORY [--rows TEXT] [--limit S] [--all]``, with a directory of NAME.txt.gz,
rows of points whose last column is the class, standardised. The first n points of ``default_rng(0).permutation``; a
weight C of the sum of losses; without known labels centred features and |Σy| ≤ n/5; with them, the first of either
class, neither. Kernels are exp(−|x − z|²/d). CPU seconds, and those to the gap of the prototype; gaps in % of the
value. --all takes every set with 10, 20 and 30 % of its labels, linear and RBF, C = .02, .1, 1.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.preprocessing import scale

import margindsl as md

LOSSES = {"odm": lambda m: md.odm(m, 0.4, 0.2), "sh": md.squared_hinge, "hinge": md.hinge}
ROWS = {  # name, n, loss, C, kernel, known labels: gap of the prototype's root and seconds, seconds of its tree
    ("heart", 60, "odm", 0.02, "linear", 0.0): (7.2, 2.7, 17.0),
    ("heart", 60, "odm", 0.1, "linear", 0.0): (6.0, 10, 6.4),
    ("heart", 60, "odm", 1, "linear", 0.0): (8.1, 5.1, 2.4), ("heart", 60, "sh", 0.1, "linear", 0.0): (22.7, 1.3, 21),
    ("heart", 60, "hinge", 0.1, "linear", 0.0): (28.0, 1.3, np.nan),
    ("heart", 60, "odm", 1, "rbf", 0.0): (2.9, 2.9, 7), ("wdbc", 60, "odm", 0.1, "linear", 0.0): (15.6, 9, 66),
    ("connectionist", 60, "odm", 0.1, "linear", 0.0): (18.6, 10, 67),
    ("heart", 100, "odm", 0.1, "linear", 0.0): (3.5, 9, 5.3), ("heart", 150, "odm", 0.1, "linear", 0.0): (12.7, 15, 20),
    ("heart", 200, "odm", 0.1, "linear", 0.0): (10.1, 28, 30),
    ("ionosphere", 100, "odm", 0.1, "linear", 0.0): (7.8, 11, 35),
    ("ionosphere", 100, "odm", 1, "linear", 0.0): (17.4, 32, 53),
    ("ionosphere", 100, "odm", 1, "rbf", 0.0): (1.8, 22, 17), ("heart", 60, "sh", 1, "linear", 0.3): (12.4, 1, 2.6),
    ("heart", 270, "sh", 0.02, "linear", 0.3): (13.6, 34, np.nan),
    ("heart", 270, "sh", 1, "linear", 0.3): (25.9, 19, np.nan),
    ("heart", 270, "sh", 0.02, "rbf", 0.3): (0.68, 36, 183), ("ionosphere", 351, "sh", 0.02, "rbf", 0.3): (0, 4, 4),
    ("ionosphere", 100, "sh", 0.1, "linear", 0.0): (3.6, 4.6, np.nan),
    ("ionosphere", 100, "hinge", 0.1, "linear", 0.0): (3.1, 7, np.nan),
    ("ionosphere", 100, "odm", 0.1, "rbf", 0.0): (0.009, 2, np.nan),
    ("connectionist", 100, "odm", 0.1, "linear", 0.0): (35.5, 67, np.nan),
    ("wdbc", 100, "odm", 0.1, "linear", 0.0): (25.4, 65, np.nan),
    ("wdbc", 100, "odm", 1, "linear", 0.0): (50.2, 35, np.nan),
    ("heart", 270, "odm", 0.1, "linear", 0.0): (22.1, 25, 211),
    ("clean1", 100, "odm", 0.1, "linear", 0.0): (37.6, 12, 103),
    ("wdbc", 400, "odm", 0.02, "linear", 0.0): (34.0, 54, np.nan),
    ("heart", 270, "sh", 1, "rbf", 0.3): (27.8, 64, np.nan),
    ("heart", 270, "sh", 0.1, "linear", 0.1): (44.0, 51, np.nan),
    ("ionosphere", 351, "sh", 0.02, "linear", 0.3): (7.4, 54, np.nan),
    ("ionosphere", 351, "sh", 0.1, "rbf", 0.3): (6.7, 72, np.nan),
    ("connectionist", 208, "sh", 0.1, "linear", 0.3): (25.0, 7.6, np.nan)}


def problem(directory: Path, name: str, n: int | None, loss: str, C: float, kernel: str, share: float) -> md.Problem:
    """Return the problem of a row."""
    if (path := directory / f"{name}.txt.gz").exists():
        table = np.loadtxt(path)
    else:  # one of the sets beside, not standardised
        table = np.loadtxt(directory.parent / f"{name}.csv.gz", delimiter=",", skiprows=1)
        table[:, :-1] = scale(table[:, :-1])
    table = table[np.random.default_rng(0).permutation(len(table))][:n]
    X, classes = table[:, :-1], table[:, -1]
    n = len(X)
    known = [i for c in (-1, 1) for i in np.flatnonzero(classes == c)[:int((classes == c).sum() * share)]]
    kind = md.RBF(np.sqrt(X.shape[1] / 2)) if kernel == "rbf" else "linear"
    y, f = md.Labels(n), md.Hyperplane(X, kernel=kind, bias=False, centre=not share)
    rules = [y[int(i)] == int(classes[i]) for i in known] or [abs(md.sum(y)) <= 0.2 * n]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.sum(LOSSES[loss](y * f))), rules)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", default="", help="rows whose words hold this text")
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = list(ROWS)
    if options.all:
        sets = sorted(path.name.partition(".")[0] for path in options.directory.glob("*.txt.gz"))
        rows = [(name, None, "sh", C, kernel, share) for name, share, kernel, C in product(
            sets, (0.1, 0.2, 0.3), ("linear", "rbf"), (0.02, 0.1, 1))]
    for row in rows:
        words = " ".join(map(str, row))
        if options.rows not in words:
            continue
        print(words, end="", flush=True)
        gap = ROWS.get(row, (np.nan,))[0]
        for relaxation in ("sdp", md.SDP(cuts="all"), md.Exact(method="branching"))[::1 + options.all]:
            began, bounds = time.process_time(), list[tuple[float, float]]()
            found = problem(options.directory, *row).solve(
                relaxation, random_state=0, tol=1e-3, time_limit=options.limit,
                callback=lambda state: bounds.append((time.process_time() - began, state.bound)))  # noqa: B023
            seconds = time.process_time() - began
            passed = min((at for at, bound in bounds if 100 * (1 - bound / found.value) <= gap + 0.05), default=np.nan)
            print(f" | {found.status} {found.value:.6g} gap {100 * found.gap:.2f} {seconds:.1f} s ({passed:.1f} to "
                  f"the prototype's) {found.message[:40]}", end="", flush=True)
        print(" | prototype {:.3g}, {:.3g} s, tree {:.3g} s".format(*ROWS.get(row, (np.nan,) * 3)), flush=True)


if __name__ == "__main__":
    main()
