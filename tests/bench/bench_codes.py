"""Three clusters, three tenths of the labels known: the lift with squares of their margins, and without.

Run ``python tests/bench/bench_codes.py [--quick]``. Gaps are (value - certified bound) / value in %, of the lower value
of both; CPU seconds. `burer-monteiro` solves the lift without these squares.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import load_iris, load_wine

import margindsl as md

LOSSES = {"ODM": lambda m: md.odm(m, 0.4, 0.2), "least squares": lambda m: md.square(1 - m)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    sizes = (12,) if parser.parse_args().quick else (60, 120)
    warnings.simplefilter("ignore")
    for name, load in (("iris", load_iris), ("wine", load_wine)):
        points, labels = load(return_X_y=True)
        points = (points - points.mean(axis=0)) / points.std(axis=0)
        for n in sizes:
            rng = np.random.default_rng(0)
            index = rng.permutation(len(points))[:n]
            known = np.flatnonzero(rng.random(n) < 0.3)
            for loss, of in LOSSES.items():
                for weight in (0.1, 1.0):
                    found, seconds = [], []
                    for solver in ("burer-monteiro", "interior"):
                        y, f = md.Labels(n, clusters=3), md.Hyperplane(points[index], centre=False)
                        total = md.sum(of(md.margin(y, f, coding="simplex")))
                        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * total),
                                             [y[known] == labels[index][known]])
                        began = time.process_time()
                        found.append(problem.solve("sdp", solver, random_state=0))
                        seconds.append(time.process_time() - began)
                    value = min(solution.value for solution in found)
                    gaps = [100 * (1 - solution.bound / value) for solution in found]
                    print(f"{name}  {n:4d}  {loss:13s} {weight:4g}" + "".join(
                        f"  {gap:6.1f} {t:5.1f}" for gap, t in zip(gaps, seconds)), flush=True)


if __name__ == "__main__":
    main()
