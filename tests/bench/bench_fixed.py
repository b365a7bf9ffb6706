"""Time the fixed-label solvers against liblinear and Clarabel on the same problems.

Run ``python tests/bench/bench_fixed.py [--quick] [--sizes N ...] [--repeats R] [--tol TOL] [--json FILE]``. The size
357 is digits 3 against 8; larger ones are synthetic with 64 columns and overlapping classes. Seconds are medians; the
gap is (value - best dual value known) / value, recomputed from w alone, so that liblinear, which states its own
tolerance, is judged alike.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from margindsl.calculus import PLQ
from margindsl.contract import Budget, Solver
from margindsl.features import build
from margindsl.program.forms import FixedLabelForm
from margindsl.program.losses import Losses, LossTerm
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.conic import Clarabel
from margindsl_solvers.cutting_plane import CuttingPlane
from margindsl_solvers.lbfgs import LBFGS
from margindsl_solvers.newton import Newton

HINGE = PLQ.affine(-1, 1).positive_part()
ODM = (PLQ.affine(-1, 0.8).positive_part().square() + 0.4 * PLQ.affine(1, -1.2).positive_part().square()) * (1 / 0.64)
CLARABEL_LARGEST = 10_000


@dataclass(frozen=True)
class Row:
    """Represent one line of the table."""

    n: int
    loss: str
    weight: float
    solver: str
    seconds: float
    value: float
    gap: float
    status: str
    ratio: float


def points_of(n: int) -> tuple[FloatArray, IntArray]:
    """Return n points with labels."""
    if n == 357:
        digits = load_digits()
        chosen = np.isin(digits.target, [3, 8])
        return digits.data[chosen] / 16, np.where(digits.target[chosen] == 3, 1, -1)
    rng = np.random.default_rng(n)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    return 0.25 * rng.normal(size=(n, 64)) + 0.05 * y[:, None] * rng.normal(size=64), y


def form_of(n: int, loss: PLQ, weight: float) -> FixedLabelForm:
    """Return ½‖w‖² + weight · mean ρ(y f) on centred points."""
    X, y = points_of(n)
    term = LossTerm(loss, np.arange(n), np.full(n, weight / n), np.ones(n), np.zeros(n), np.zeros((n, 0)))
    return FixedLabelForm(build(X), Losses(n, (term,)), (y + 1) // 2)


def liblinear(form: FixedLabelForm, tol: float) -> tuple[FloatArray, FloatArray, str]:
    """Return (w, u, status) of scikit-learn's LinearSVC (hinge without intercept)."""
    C = float(form.losses.weights[0])
    model = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=tol, max_iter=100_000, random_state=0)
    model.fit(form.features.toarray(), form.labels)
    return model.coef_.ravel(), np.zeros(form.n), f"tol {tol:g}"


def native(solver: Solver) -> Callable[[FixedLabelForm, float], tuple[FloatArray, FloatArray, str]]:
    """Return the solver as a function of form and tolerance."""
    def solve(form: FixedLabelForm, tol: float) -> tuple[FloatArray, FloatArray, str]:
        raw = solver.solve(form, Budget(tol=tol))
        return np.asarray(raw["w"]), np.asarray(raw["u"]), raw.status.word

    return solve


def contenders(n: int, loss: str) -> dict[str, Callable[[FixedLabelForm, float], tuple[FloatArray, FloatArray, str]]]:
    """Return the methods that take the problem."""
    found = {"newton": native(Newton()), "cutting-plane": native(CuttingPlane())}
    if loss == "odm":
        found["lbfgs"] = native(LBFGS())
    else:
        found["liblinear"] = liblinear
    if n <= CLARABEL_LARGEST:
        found["clarabel"] = native(Clarabel())
    return found


def compare(n: int, name: str, loss: PLQ, weight: float, repeats: int, tol: float) -> list[Row]:
    """Return one row a method; ratios are against the fastest of them."""
    form = form_of(n, loss, weight)
    timed: dict[str, tuple[float, float, str]] = {}
    bound = -np.inf
    for solver, solve in contenders(n, name).items():
        seconds = []
        for _ in range(repeats):
            began = time.perf_counter()
            w, u, status = solve(form, tol)
            seconds.append(time.perf_counter() - began)
        timed[solver] = float(np.median(seconds)), form.objective(w), status
        bound = max(bound, form.dual_objective(u))
    least = min(seconds for seconds, _, _ in timed.values())
    return [Row(n, name, weight, solver, seconds, value, (value - bound) / abs(value), status, seconds / least)
            for solver, (seconds, value, status) in timed.items()]


def main(arguments: list[str] | None = None) -> list[dict[str, object]]:
    """Run all comparisons, print the table and return its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[357, 10_000, 100_000])
    parser.add_argument("--weights", type=float, nargs="+", default=[1.0, 10.0, 100.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="digits only, once")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sizes, options.repeats = [357], 1
    rows = []
    print(f"{'n':>7} {'loss':6} {'weight':>6}  {'solver':16} {'seconds':>9} {'x fastest':>9} {'gap':>9}  status")
    for n in options.sizes:
        for name, loss in (("hinge", HINGE), ("odm", ODM)):
            for weight in options.weights:
                for row in compare(n, name, loss, weight, options.repeats, options.tol):
                    rows.append(row)
                    print(f"{row.n:7d} {row.loss:6} {row.weight:6g}  {row.solver:16} {row.seconds:9.4f} "
                          f"{row.ratio:9.1f} {row.gap:9.1e}  {row.status}", flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    return [asdict(row) for row in rows]


if __name__ == "__main__":
    main()
