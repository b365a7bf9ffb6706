"""Passes to a gap of the minimax master by growing samples, from a plain start, by published sampling, and by Clarabel.

Run ``python tests/bench/bench_progressive.py [--quick] [--json FILE] [--figure FILE] [--sizes N ...] [--weight L]
[--labellings T ...] [--seconds S] [--memmap DIR]``. Points are noisy copies of digits 3 and 8 with labellings generated
on the digits. A pass is one product X @ W with a column a labelling and its adjoint, timed in the same run; times are
read off the certified gaps of the traces, samples included. With `--memmap` the points are a file in that directory.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench_master import odm, separable
from bench_saddle import curve, master

from margindsl.calculus import pos
from margindsl.contract import Budget
from margindsl.features import build
from margindsl.program import SaddleForm
from margindsl_solvers.conic import Clarabel
from margindsl_solvers.mirror import MirrorProx

TARGETS = (1e-1, 1e-2, 1e-3)
LOSSES = {"odm": odm, "hinge": lambda: pos().precompose(-1, 1.0)}
ENGINES = {"progressive": MirrorProx(sampling="progressive"), "plain start": MirrorProx(sampling="none"),
           "ssODM, 100 eta": MirrorProx(sampling="labels", step_factor=100.0)}
CONIC = 1_000  # points Clarabel bears


def seconds_of_a_pass(form: SaddleForm, repeats: int = 3) -> float:
    """Return the least time of X @ W and its adjoint with a column a labelling, features read as they are."""
    W = np.random.default_rng(0).normal(size=(form.features.rank, form.count))
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        form.features.adjoint(form.features.apply(W))
        times.append(time.perf_counter() - began)
    return min(times)


def stored(form: SaddleForm, folder: Path) -> SaddleForm:
    """Return the form with its points in a file, read block by block."""
    path = folder / f"points-{form.n}.npy"
    np.save(path, form.features.toarray())
    return dataclasses.replace(form, features=build(np.load(path, mmap_mode="r"), "linear"))


def measure(form: SaddleForm, engine: Any, limit: float) -> dict[str, Any]:
    """Run one engine to the last target; passes to each, infinite when it was not met, and the curve."""
    unit = seconds_of_a_pass(form)
    points = curve(engine.solve(form, Budget.within(limit, tol=TARGETS[-1])))
    unit = min(unit, seconds_of_a_pass(form))
    met = [min((s for s, gap in points if gap <= 1.0001 * target), default=float("inf")) / unit for target in TARGETS]
    return {"pass": unit, "passes": met, "best": points[-1][1], "curve": [(s / unit, gap) for s, gap in points]}


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Save the curves at the largest size, a panel for every number of labellings and loss."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    cases = list(dict.fromkeys((row["n"], row["T"], row["loss"]) for row in rows))
    largest = max(row["n"] for row in rows)
    cases = [case for case in cases if case[0] == largest]
    engines = list(dict.fromkeys(row["engine"] for row in rows if row["n"] == largest))
    figure, axes = plt.subplots(1, len(cases), figsize=(3.2 * len(cases), 3.0), squeeze=False, layout="constrained",
                                sharex=True, sharey=True)
    for ax, case in zip(axes[0], cases):
        for number, engine in enumerate(engines):
            for row in rows:
                if (row["n"], row["T"], row["loss"], row["engine"]) == (*case, engine) and row["curve"]:
                    passes, gaps = np.maximum(np.array(row["curve"]).T, 1e-9)
                    ax.loglog(passes, gaps, color=f"C{number}", drawstyle="steps-post", label=engine, marker=".")
        ax.set(title=f"{case[1]} labellings, {case[2]}", xlabel="passes over all points")
    axes[0, 0].set_ylabel(f"relative gap, {largest:,} points")
    axes[0, 0].legend(fontsize="small")
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Print the table and return its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also save the rows here")
    parser.add_argument("--figure", type=Path, help="also draw the curves into this file")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--labellings", type=int, nargs="+", default=[30, 100])
    parser.add_argument("--losses", nargs="+", default=list(LOSSES), choices=list(LOSSES))
    parser.add_argument("--weight", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of an engine on one master")
    parser.add_argument("--memmap", type=Path, help="directory for files of points")
    parser.add_argument("--quick", action="store_true", help="20,000 points, 30 labellings, ten seconds an engine")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sizes, options.labellings, options.seconds = [20_000], [30], 10.0
    print(f"{'n':>9} {'T':>4} {'loss':6} {'engine':16}{'ms a pass':>10}"
          + "".join(f"{f'to {t:.0e}':>10}" for t in TARGETS) + f"{'best gap':>10}")
    rows: list[dict[str, Any]] = []
    for n, T in [(CONIC, min(options.labellings)), *((n, T) for n in options.sizes for T in options.labellings)]:
        base = master(n, options.weight, T)
        base = base if options.memmap is None or n == CONIC else stored(base, options.memmap)
        for loss in options.losses:
            form = dataclasses.replace(base, losses=separable(n, LOSSES[loss](), options.weight))
            engines = {"clarabel": Clarabel(), "plain start": ENGINES["plain start"]} if n == CONIC else ENGINES
            for name, engine in engines.items():
                row = {"n": n, "T": T, "loss": loss, "engine": name} | timed(form, name, engine, options.seconds)
                rows.append(row)
                print(f"{n:9} {T:4} {loss:6} {name:16}{1e3 * row['pass']:10.1f}" + "".join(
                    f"{p:10.1f}" if np.isfinite(p) else f"{'-':>10}" for p in row["passes"]) + f"{row['best']:10.1e}",
                    flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    if options.figure:
        draw(rows, options.figure)
    return rows


def timed(form: SaddleForm, name: str, engine: Any, limit: float) -> dict[str, Any]:
    """Return the row of an engine; Clarabel, which keeps no trace, has its whole time at its last gap."""
    if name != "clarabel":
        return measure(form, engine, limit)
    unit, began = seconds_of_a_pass(form), time.perf_counter()
    answer = engine.solve(form, Budget.within(limit, tol=TARGETS[-1]))
    passes = (time.perf_counter() - began) / unit
    primal, dual = form.primal_objective(answer["W"]), form.dual_objective(answer["u"])
    gap = max(primal - dual, 0.0) / abs(primal)
    return {"pass": unit, "passes": [passes if gap <= 1.0001 * target else float("inf") for target in TARGETS],
            "best": gap, "curve": []}


if __name__ == "__main__":
    main()
