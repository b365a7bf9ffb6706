"""Time to a gap: deterministic against sampled engines of the minimax master, on three sizes.

Run ``python tests/bench/bench_saddle.py [--quick] [--json FILE] [--seconds S] [--sizes N ...] [--weights L ...]``.
ODM loss, 30 labellings; digits 3 against 8 for n = 357, noisy copies of them for larger n. Every engine runs alone
(no Newton finish, no coarse start), except the first line, which is `mirror-prox` as shipped. Times are read off the
certified gaps of the traces: primal and dual values, each the best so far.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from bench_master import balanced, odm, separable, working_set
from sklearn.datasets import load_digits

from margindsl.contract import Budget, RawSolution, Solver
from margindsl.features import build
from margindsl.program import SaddleForm
from margindsl_solvers.mirror import MirrorDescent, MirrorProx

TARGETS = (1e-1, 1e-2, 1e-3, 1e-4)
MANY = 10**9
ENGINES: dict[str, Solver] = {
    "mirror-prox as shipped": MirrorProx(),
    "mirror prox": MirrorProx(newton_limit=0),
    "mirror descent": MirrorDescent(newton_limit=0),
    "variance-reduced": MirrorProx(sampling="variance-reduced", max_iter=MANY),
    "ssODM, theorem": MirrorProx(sampling="labels"),
    "ssODM, 100 eta": MirrorProx(sampling="labels", step_factor=100.0),
    "ODMC, theorem": MirrorDescent(sampling="labels"),
    "ODMC, 10 eta": MirrorDescent(sampling="labels", step_factor=10.0),
}


@dataclass(frozen=True)
class Row:
    """Represent one engine on one master; seconds to each target, infinite when it was not met."""

    n: int
    weight: float
    engine: str
    seconds: tuple[float, ...]
    best: float
    iterations: int
    curve: tuple[tuple[float, float], ...]


def master(n: int, weight: float, size: int = 30, seed: int = 0) -> SaddleForm:
    """Return a master over `size` labellings: generated on the digits, carried to noisy copies by their directions."""
    digits, rng = load_digits(), np.random.default_rng(seed)
    X = digits.data[np.isin(digits.target, (3, 8))] / 16
    few = build(X, "linear")
    losses = separable(few.n, odm(), weight)
    Y = working_set(few, losses, size, seed)
    if n <= few.n:
        return SaddleForm(few, losses, labellings=(Y + 1) // 2)
    u = MirrorProx().solve(SaddleForm(few, losses, labellings=(Y + 1) // 2), Budget(tol=1e-4))["u"]
    many = build(X[rng.integers(few.n, size=n)] + 0.1 * rng.normal(size=(n, X.shape[1])), "linear")
    labels = [balanced(many.apply(few.adjoint(y * u)), n // 10) for y in Y]
    return SaddleForm(many, separable(n, odm(), weight), labellings=(np.array(labels) + 1) // 2)


def curve(solution: RawSolution) -> tuple[tuple[float, float], ...]:
    """Return (seconds, relative gap of the best values so far), thinned to the improvements."""
    seconds, primal, dual = np.array(solution.trace).T
    upper, lower = np.minimum.accumulate(primal), np.maximum.accumulate(dual)
    gaps = (upper - lower) / np.abs(upper)
    keep = np.append(True, gaps[1:] < 0.9 * np.minimum.accumulate(gaps)[:-1])
    return tuple(zip(seconds[keep].tolist(), gaps[keep].tolist()))


def measure(form: SaddleForm, weight: float, name: str, limit: float) -> Row:
    """Run one engine once."""
    solution = ENGINES[name].solve(form, Budget.within(limit, tol=TARGETS[-1]))
    points = curve(solution)
    met = tuple(min((s for s, gap in points if gap <= 1.0001 * target), default=float("inf")) for target in TARGETS)
    return Row(form.n, weight, name, met, points[-1][1], solution.iterations, points)


def main(arguments: list[str] | None = None) -> list[dict[str, object]]:
    """Print the table and return its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also save the rows here")
    parser.add_argument("--seconds", type=float, default=10.0, help="time limit of an engine on one master")
    parser.add_argument("--sizes", type=int, nargs="+", default=[357, 3570, 50_000])
    parser.add_argument("--weights", type=float, nargs="+", default=[1.0, 100.0])
    parser.add_argument("--quick", action="store_true", help="digits at weight 1, two seconds an engine")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sizes, options.weights, options.seconds = [357], [1.0], 2.0
    print(f"{'n':>6} {'lambda':>6}  {'engine':24}" + "".join(f"{f's to {t:.0e}':>12}" for t in TARGETS)
          + f"{'best gap':>10} {'steps':>8}")
    rows = []
    for solver in (MirrorProx(sampling="labels"), MirrorDescent(sampling="labels")):  # compiled outside the timing
        solver.solve(master(357, 1.0), Budget(tol=0.5))
    for n in options.sizes:
        for weight in options.weights:
            form = master(n, weight)
            for name in ENGINES:
                row = measure(form, weight, name, options.seconds)
                rows.append(asdict(row))
                times = "".join(f"{s:12.3f}" if np.isfinite(s) else f"{'-':>12}" for s in row.seconds)
                print(f"{n:6} {weight:6g}  {name:24}{times}{row.best:10.1e} {row.iterations:8}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return rows


if __name__ == "__main__":
    main()
