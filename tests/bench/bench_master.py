"""Time the minimax master: `mirror-prox` against cvxpy with Clarabel on the same working sets.

Run ``python tests/bench/bench_master.py [--quick] [--json FILE] [--repeats R] [--tol TOL]``. Digits 3 against 8,
working sets of 30 labellings made by label generation. Clarabel gets the primal and the dual written by hand, at the
same tolerance, in the same process; the ratio is against the faster of the two, compilation by cvxpy included.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import cvxpy as cp
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from margindsl.calculus import PLQ, pos
from margindsl.contract import Budget
from margindsl.features import RBF, FeatureOperator, build
from margindsl.program.forms import SaddleForm
from margindsl.program.losses import Losses, LossTerm
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.mirror import MirrorProx

BALANCE = 0.1
STARTS = 4


@dataclass(frozen=True)
class Row:
    """Represent one line of the table; seconds are medians over the repeats."""

    kernel: str
    loss: str
    weight: float
    rank: int
    labellings: int
    native_seconds: float
    native_gap: float
    native_iterations: int
    primal_seconds: float
    dual_seconds: float
    cvxpy_error: float
    cvxpy_status: str
    ratio: float


def odm(theta: float = 0.2, nu: float = 0.4) -> PLQ:
    """Return the optimal-margin-distribution loss."""
    lower, upper = pos().precompose(-1, 1 - theta), pos().precompose(1, -1 - theta)
    return (lower.square() + nu * upper.square()) * (1 / (1 - theta) ** 2)


def separable(n: int, loss: PLQ, weight: float) -> Losses:
    """Return (weight/n) Σ ρ(γ_i)."""
    term = LossTerm(loss, np.arange(n), np.full(n, weight / n), np.ones(n), np.zeros(n), np.zeros((n, 0)))
    return Losses(n, (term,))


def balanced(gain: FloatArray, slack: int) -> IntArray:
    """Return arg max gain·y over |Σy| ≤ slack."""
    y = np.where(gain > 0, 1, -1)
    excess = int(y.sum())
    if abs(excess) > slack:
        major = np.flatnonzero(y == np.sign(excess))
        flips = -(-(abs(excess) - slack) // 2)
        y[major[np.argsort(np.abs(gain[major]))[:flips]]] *= -1
    return y


def working_set(features: FeatureOperator, losses: Losses, size: int, seed: int = 0) -> IntArray:
    """Return labellings made by label generation from the k-means labelling."""
    rng, n = np.random.default_rng(seed), features.n
    first = KMeans(2, n_init=3, random_state=seed).fit(features.toarray()).labels_
    found, slack = [balanced(2.0 * first - 1, int(BALANCE * n))], int(BALANCE * n)
    while len(found) < size:
        form = SaddleForm(features, losses, labellings=(np.array(found) + 1) // 2)
        u = MirrorProx().solve(form, Budget.within(2.0, tol=1e-3))["u"]
        candidates = [violated(features, u, slack, rng) for _ in range(STARTS)]
        fresh = [y for y in candidates if not any(abs(int(y @ old)) == n for old in found)]
        fresh = fresh or [balanced(rng.normal(size=n), slack)]
        found.append(max(fresh, key=lambda y: float(np.sum(features.adjoint(y * u) ** 2))))
    return np.array(found)


def violated(features: FeatureOperator, u: FloatArray, slack: int, rng: np.random.Generator) -> IntArray:
    """Return a local maximiser of ‖Φᵀ(y∘u)‖² over balanced labellings, by linearisation."""
    y = balanced(rng.normal(size=features.n), slack)
    for _ in range(30):
        new = balanced(u * features.apply(features.adjoint(y * u)), slack)
        if np.array_equal(new, y):
            break
        y = new
    return y


def primal_problem(form: SaddleForm, loss: str, c: float) -> cp.Problem:
    """Return min ½(Σ‖w_k‖)² + Σ cρ(γ), γ = Σ y_k∘Φw_k."""
    W, margins = cp.Variable((form.features.rank, form.count)), cp.Variable(form.n)
    if loss == "hinge":
        cost = c * cp.sum(cp.pos(1 - margins))
    else:
        cost = c / 0.8**2 * (cp.sum_squares(cp.pos(0.8 - margins)) + 0.4 * cp.sum_squares(cp.pos(margins - 1.2)))
    link = margins == cp.sum(cp.multiply(form.coded().T, form.features.toarray() @ W), axis=1)
    return cp.Problem(cp.Minimize(0.5 * cp.square(cp.sum(cp.norm(W, 2, axis=0))) + cost), [link])


def dual_problem(form: SaddleForm, loss: str, c: float) -> cp.Problem:
    """Return max −Σ cρ*(−u/c) − t, ½‖Φᵀ(y_k∘u)‖² ≤ t, with ρ* worked out by hand."""
    phi, t, plus = form.features.toarray(), cp.Variable(), cp.Variable(form.n, nonneg=True)
    if loss == "hinge":
        u, gain, bounds = plus, cp.sum(plus), [plus <= c]
    else:
        minus = cp.Variable(form.n, nonneg=True)
        u, bounds = plus - minus, []
        gain = 0.8 * cp.sum(plus) - 1.2 * cp.sum(minus) - (
            0.16 * cp.sum_squares(plus) + 0.4 * cp.sum_squares(minus)) / c
    bounds += [0.5 * cp.sum_squares((phi * y[:, None]).T @ u) <= t for y in form.coded()]
    return cp.Problem(cp.Maximize(gain - t), bounds)


def solve_cvxpy(form: SaddleForm, loss: str, weight: float, dual: bool, tol: float) -> tuple[float, float, str]:
    """Return the seconds, the value and the status of Clarabel on one of the two problems, at tolerance tol."""
    begin = time.perf_counter()
    c = weight / form.n
    problem = dual_problem(form, loss, c) if dual else primal_problem(form, loss, c)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the status is printed
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
    return time.perf_counter() - begin, float(problem.value), str(problem.status)


def measure(kernel: str, loss: str, weight: float, size: int, repeats: int, tol: float) -> Row:
    """Measure one master."""
    digits = load_digits()
    keep = np.isin(digits.target, (3, 8))
    features = build(digits.data[keep] / 16, RBF() if kernel == "rbf" else "linear")
    losses = separable(features.n, odm() if loss == "odm" else pos().precompose(-1, 1), weight)
    form = SaddleForm(features, losses, labellings=(working_set(features, losses, size) + 1) // 2)
    slow, fast = [], []
    for _ in range(repeats):
        slow.append([solve_cvxpy(form, loss, weight, dual, tol) for dual in (False, True)])
        begin = time.perf_counter()
        solution = MirrorProx().solve(form, Budget(tol=tol))
        fast.append(time.perf_counter() - begin)
    value, bound = form.primal_objective(solution["W"]), form.dual_objective(solution["u"])
    ratio = float(np.median([min(run[0] for run in s) / f for s, f in zip(slow, fast)]))
    error = max(abs(run[1] - value) for run in slow[-1]) / abs(value)
    return Row(kernel, loss, weight, features.rank, size, float(np.median(fast)), (value - bound) / abs(value),
               solution.iterations, float(np.median([s[0][0] for s in slow])),
               float(np.median([s[1][0] for s in slow])), error, "/".join(run[2] for run in slow[-1]), ratio)


def main(arguments: list[str] | None = None) -> list[dict[str, object]]:
    """Print the table and return its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also save the rows here")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--size", type=int, default=30)
    parser.add_argument("--kernels", nargs="+", default=["linear"], choices=["linear", "rbf"])
    parser.add_argument("--quick", action="store_true", help="ten labellings, once")
    options = parser.parse_args(arguments)
    if options.quick:
        options.size, options.repeats = 10, 1
    print("kernel loss   lambda rank   T   native s     gap  iter  primal s   dual s  differ    ratio  cvxpy status")
    rows = []
    for kernel in options.kernels:
        for loss in ("odm", "hinge"):
            for weight in (1.0, 10.0, 100.0):
                row = measure(kernel, loss, weight, options.size, options.repeats, options.tol)
                rows.append(asdict(row))
                print(f"{kernel:6} {loss:6} {weight:6g} {row.rank:4} {row.labellings:3} {row.native_seconds:10.4f} "
                      f"{row.native_gap:7.0e} {row.native_iterations:5} {row.primal_seconds:9.2f} "
                      f"{row.dual_seconds:8.2f} {row.cvxpy_error:7.0e} {row.ratio:8.0f}  {row.cvxpy_status}",
                      flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return rows


if __name__ == "__main__":
    main()
