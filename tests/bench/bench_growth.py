"""How time grows: weight lifting in points n and columns r, the minimax master in labellings T.

Run ``python tests/bench/bench_growth.py [--quick] [--json FILE] [--repeats R]``. Least squares slopes of log seconds
in log size, with the seconds themselves; two clouds, ODM λ=10, θ=.2, ν=.4, gap 1 % for weight lifting; digits 3
against 8 at λ=10, gap 1e-4 for the master, over the first T of one working set. One BLAS thread, so that the slope
is not that of the threads.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from bench_master import odm, separable, working_set
from bench_weight_lifting import clouds, form_of
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import margindsl as md
from margindsl.contract import Budget
from margindsl.features import build
from margindsl.program import SaddleForm
from margindsl.program.forms import Form


def seconds(form: Form, solver: str, tol: float, repeats: int) -> float:
    """Return the least seconds of some solves of a form."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        md.Solver(solver).solve(form, Budget(tol=tol))
        times.append(time.perf_counter() - began)
    return min(times)


def masters(sizes: list[int]) -> Callable[[int], Form]:
    """Return a map from T to the master over the first T labellings of one working set."""
    digits = load_digits()
    features = build(digits.data[np.isin(digits.target, (3, 8))] / 16, "linear")
    losses = separable(features.n, odm(), 10.0)
    labellings = working_set(features, losses, max(sizes))
    return lambda T: SaddleForm(features, losses, (labellings[:T] + 1) // 2)


def curve(name: str, sizes: list[int], form: Callable[[int], Form], solver: str, tol: float,
          repeats: int) -> dict[str, object]:
    """Return and print one curve with its slope."""
    times = [seconds(form(size), solver, tol, repeats) for size in sizes]
    slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    print(f"{name:28} slope {slope:5.2f}   " + "  ".join(f"{s:,}: {t:.3f} s" for s, t in zip(sizes, times)), flush=True)
    return {"curve": name, "sizes": sizes, "seconds": times, "slope": slope}


def main(arguments: list[str] | None = None) -> list[dict[str, object]]:
    """Print the curves and return them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, once")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    quick, repeats = options.quick, 1 if options.quick else options.repeats
    points = [10_000, 30_000, 100_000] + ([] if quick else [300_000, 1_000_000])
    columns = [16, 32, 64, 128] + ([] if quick else [256])
    labellings = [5, 10, 20] + ([] if quick else [40, 80])
    rng = np.random.default_rng(0)
    with threadpool_limits(limits=1, user_api="blas"):
        rows = [
            curve("weight lifting in n (r=64)", points, lambda n: form_of(clouds(n), 10.0), "burer-monteiro", 1e-2,
                  repeats),
            curve("weight lifting in r (n=20,000)", columns, lambda r: form_of(_wide(rng, r), 10.0), "burer-monteiro",
                  1e-2, repeats),
            curve("master in T (n=357, r=64)", labellings, masters(labellings), "mirror-prox", 1e-4, repeats)]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return rows


def _wide(rng: np.random.Generator, r: int) -> np.ndarray:
    X = rng.normal(size=(20_000, r)) / np.sqrt(r)
    X[:, 0] += 0.2 * np.where(rng.random(len(X)) < 0.5, 1, -1)
    return X


if __name__ == "__main__":
    main()
