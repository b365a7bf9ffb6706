"""Measure solves on a Dask array against the same in memory: a pass, round trips, the client's memory, time limits.

Run ``python tests/bench/bench_dask.py [--quick] [--points N] [--columns D] [--chunks K] [--limit SECONDS] [--json FILE]
[--on threads processes] [--fit]``. "processes" is a `LocalCluster` of two workers with one thread each that hold the
chunks, "threads" Dask's own scheduler on two threads. A pass is value and gradient of ½‖W‖² + mean odm(‖Wᵀx‖) at p
columns; the one it is compared with is numpy's on two BLAS threads, the same arithmetic by whole products. --fit times
the default clusterer instead.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from bench_memory import peak_mb
from threadpoolctl import threadpool_limits

import margindsl as md
from margindsl.errors import MarginError
from margindsl.estimators import MarginClusterer
from margindsl.features import build
from margindsl.features.dask import DaskFeatures
from margindsl.program.lift import LiftForm
from margindsl.program.losses import Losses, LossTerm
from margindsl_solvers.engines.factors.factored import Factored, Rows

REPEATS = 15
REST = 0.1  # seconds before a call, in which threads of BLAS end their waiting for more work on a worker's core
COLUMNS = (1, 8)
METHODS = {
    "alternating": lambda: md.Alternating(restarts=1, start="kmeans", polish="none"),
    "cccp": lambda: md.CCCP(restarts=1, start="kmeans", polish="none"),
    "weight-lifting": lambda: md.WeightLifting(rounding=2, polish="none"),
    "minimax": lambda: md.Minimax(),
    "sdp": lambda: md.SDP()}


def block(n: int, d: int, seed: int) -> np.ndarray:
    """Return points of two clusters, drawn where they are held."""
    rng = np.random.default_rng(seed)
    direction = np.random.default_rng(0).normal(size=d) / np.sqrt(d)
    return 0.5 * rng.normal(size=(n, d)) + np.where(rng.random(n) < 0.5, 1.0, -1.0)[:, None] * direction


def lazy(n: int, d: int, chunks: int) -> Any:
    """Return the points as a Dask array whose chunks stay with the workers."""
    ends = np.linspace(0, n, chunks + 1).astype(int)
    parts = [da.from_delayed(dask.delayed(block)(int(b - a), d, k), (int(b - a), d), float)
             for k, (a, b) in enumerate(itertools.pairwise(ends))]
    return da.concatenate(parts).persist()


def declare(X: Any) -> md.Problem:
    """Declare ODM with a loose balance."""
    y, f = md.Labels(X.shape[0]), md.Hyperplane(X)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(y * f, 0.4, 0.2))),
                      [abs(md.sum(y)) <= 0.2 * X.shape[0]])


@contextlib.contextmanager
def scheduler(kind: str) -> Iterator[None]:
    """Use two workers of a kind inside."""
    if kind == "threads":
        with dask.config.set(scheduler="threads", num_workers=2):
            yield
        return
    import distributed

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                                  dashboard_address=None) as cluster, distributed.Client(cluster):
        yield


class Trips:
    """Count the round trips to the scheduler while it is entered."""

    def __enter__(self) -> Trips:
        self.count, self.own = 0, DaskFeatures._computed
        DaskFeatures._computed = lambda features, *given: self._counted(features, *given)  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        DaskFeatures._computed = self.own  # type: ignore[method-assign]

    def _counted(self, features: DaskFeatures, *given: Any) -> Any:
        self.count += 1
        return self.own(features, *given)


def in_turns(calls: dict[str, Any]) -> dict[str, float]:
    """Return the least seconds of several calls made in turns, so that what else the machine does meets them alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(1 + REPEATS):
        for name, call in calls.items():
            time.sleep(REST)
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
    return {name: min(found[1:]) for name, found in times.items()}


def passes(features: Any, X: np.ndarray, n: int) -> list[dict[str, Any]]:
    """Return seconds of a pass with the chunks, and of numpy's on two threads."""
    program = declare(np.zeros((2, features.rank)) + np.eye(2, features.rank)).program()
    loss, rows = program.losses.terms[0].loss, []
    rng = np.random.default_rng(1)
    for p in COLUMNS:
        W = rng.normal(size=(features.rank, p)) / np.sqrt(features.rank)
        problem, none = lifted(features, loss, n), np.zeros(0)
        with threadpool_limits(2, user_api="blas"):
            row = {"columns": p} | in_turns({"pass": partial(problem.oracle, W, problem.rows.losses, none, none),
                                             "numpy": partial(whole, X, loss, W)})
        row["ratio"] = row["pass"] / row["numpy"]
        rows.append(row)
    return rows


def lifted(features: Any, loss: Any, n: int) -> Factored:
    """Return the factored lift of mean losses without components."""
    term = LossTerm(loss, np.arange(n), np.full(n, 10.0 / n), np.ones(n), np.zeros(n), np.zeros((n, 0)))
    form = LiftForm(features, Losses(n, (term,)), np.full(n, -1), np.ones(n, dtype=int), 0)
    return Factored(form, Rows.of_form(form), map)


def whole(X: np.ndarray, loss: Any, W: np.ndarray) -> tuple[float, np.ndarray]:
    """Return value and gradient of the mean loss by whole products."""
    F = X @ W
    lengths = np.sqrt(np.einsum("np,np->n", F, F))
    values, slopes = loss.value_and_derivative(lengths)
    F *= (slopes * (10.0 / len(X)) / np.maximum(lengths, 1e-150))[:, None]
    return float(values.sum()) * 10.0 / len(X), X.T @ F


def solves(X: Any, limit: float | None, names: list[str]) -> list[dict[str, Any]]:
    """Return how the relaxations end on the chunks: seconds, round trips, peak memory of the client."""
    rows = []
    for name in names:
        problem, before = declare(X), peak_mb()
        with Trips() as trips:
            began = time.perf_counter()
            try:
                solution = problem.solve(METHODS[name](), time_limit=limit, tol=1e-3, random_state=0)
                status, value, bound = str(solution.status), float(solution.value), float(solution.bound)
            except MarginError as error:
                status, value, bound = f"{type(error).__name__}: {str(error)[:60]}", float("nan"), float("nan")
            rows.append({"relaxation": name, "limit": limit, "seconds": time.perf_counter() - began, "status": status,
                         "value": value, "bound": bound, "round trips": trips.count,
                         "client peak MB": peak_mb(), "above MB": peak_mb() - before})
        row = rows[-1]
        print(f"  {name:16s} {row['seconds']:7.1f} s of {limit or 0:g}  {row['round trips']:5d} round trips  client "
              f"+{row['above MB']:.0f} MB  {status}  {value:.5f} {bound:.5f}", flush=True)
    return rows


def fitted(X: Any, limit: float) -> None:
    """Print how the default clusterer ends: seconds, peak memory of the client, agreement with the best hyperplane."""
    MarginClusterer(random_state=0).fit(X[:20_000])  # what imports and a sample need is the baseline
    before, began = peak_mb(), time.perf_counter()
    model = MarginClusterer(time_limit=limit, random_state=0).fit(X)
    seconds, side = time.perf_counter() - began, (X @ np.random.default_rng(0).normal(size=X.shape[1]) > 0).compute()
    share, memory = np.mean(model.labels_ == side), 1e6 * (peak_mb() - before) / len(side)
    print(f"  MarginClusterer {seconds:7.1f} s of {limit:g}  client +{memory:.0f} bytes a point  "
          f"{model.solution_.status}  {max(share, 1 - share):.4f} as the best hyperplane", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=500_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--on", nargs="+", choices=("processes", "threads"), default=["processes", "threads"])
    parser.add_argument("--solve", nargs="*", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--fit", action="store_true", help="the default clusterer alone")
    parser.add_argument("--quick", action="store_true", help="20,000 points, limits of 5 s")
    options = parser.parse_args(arguments)
    if options.quick:
        options.points, options.limit = 20_000, 5.0
    n, rows = options.points, []
    for kind in options.on:
        with scheduler(kind):
            X = lazy(n, options.columns, options.chunks)
            print(f"{kind}: {n:,} x {options.columns} in {options.chunks} chunks", flush=True)
            if options.fit:
                fitted(X, options.limit)
                continue
            solved = solves(X, options.limit, options.solve)  # first: the client holds no points yet
            features = build(X)
            found = passes(features, np.asarray(X) - np.asarray(X.mean(axis=0)), n)
        for row in found:
            print(f"  pass, {row['columns']} columns  {1e3 * row['pass']:.0f} ms, numpy {1e3 * row['numpy']:.0f} ms, "
                  f"ratio {row['ratio']:.2f}", flush=True)
        rows.append({"on": kind, "points": n, "columns": options.columns, "chunks": options.chunks, "passes": found,
                     "solves": solved})
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
