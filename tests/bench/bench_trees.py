"""Compile and solve times of two source trees, measured in turn.

Run ``python tests/bench/bench_trees.py OTHER [--repeats 3] [--json FILE]`` with the root of another checkout. Processes
of either tree alternate; each says the processor seconds of one compile and one solve of every problem by every
relaxation. The table has the least of the repeats and the ratio of this tree to the other; what one refuses is left
out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
RELAXATIONS = ("alternating", "cccp", "minimax", "sdp", "weight-lifting", "exact")


def problems(md: Any) -> dict[str, Callable[[], Any]]:
    """Return what declares each problem."""
    rng = np.random.default_rng(0)
    small = rng.normal(size=(16, 3)) + np.where(np.arange(16) < 8, -1.0, 1.0)[:, None]
    middle = rng.normal(size=(80, 5)) + np.where(np.arange(80) < 40, -0.7, 0.7)[:, None]
    three = rng.normal(size=(18, 4)) + 2.0 * np.eye(4)[np.arange(18) % 3]

    def signs(X: np.ndarray, loss: Any, *more: Any) -> Any:
        y, f = md.Labels(len(X)), md.Hyperplane(X)
        constraints = [abs(md.sum(y)) <= 0.25 * len(X), *(constraint(y) for constraint in more)]
        return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(loss(y * f))), constraints)

    def clusters() -> Any:
        y, f = md.Labels(18, clusters=3), md.Hyperplane(three)
        losses = md.mean(md.hinge(md.margin(y, f, coding="simplex")))
        return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * losses), [md.sizes(y, at_least=5)])

    def linked(y: Any) -> Any:
        return md.must_link(y, [(0, 1), (2, 3)])

    def apart(y: Any) -> Any:
        return md.cannot_link(y, [(0, 15), (4, 12)])

    return {"hinge, n = 16": lambda: signs(small, md.hinge),
            "ODM with links, n = 16": lambda: signs(small, lambda g: md.odm(g, 0.4, 0.2), linked, apart),
            "squared hinge, n = 80": lambda: signs(middle, md.squared_hinge),
            "three clusters, n = 18": clusters}


def measured() -> Iterator[tuple[str, str, float]]:
    """Yield (problem, what, processor seconds) of the tree that is imported."""
    import margindsl as md

    warnings.simplefilter("ignore")
    for name, declare in problems(md).items():
        for relaxation in RELAXATIONS:
            if relaxation == "exact" and name.endswith("80"):
                continue  # minutes of branch and bound
            local = {"alternating": md.Alternating, "cccp": md.CCCP}.get(relaxation)
            method = relaxation if local is None else local(polish="none")  # descents alone, whatever the default does
            try:
                for _ in range(1 + name.startswith("hinge")):  # the first one imports
                    problem, begun = declare(), time.process_time()
                    problem.compile(relaxation)
                    compiled = time.process_time()
                    problem.solve(method, random_state=0)
                    solved = time.process_time()
            except md.errors.MarginError:
                continue
            yield name, f"{relaxation}: compile", compiled - begun
            yield name, f"{relaxation}: solve", solved - compiled


def run(tree: Path) -> dict[str, float]:
    """Return the seconds of one process of a tree."""
    path = os.pathsep.join([str(tree), str(tree / "solvers")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--measure"]
    said = subprocess.run(command, env=environment, cwd=tree, capture_output=True, text=True, check=True)
    return dict(json.loads(said.stdout))


def main(arguments: list[str] | None = None) -> dict[str, tuple[float, float]]:
    """Print the table and return its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps({f"{name} | {what}": seconds for name, what, seconds in measured()}))
        return {}
    if options.other is None:
        parser.error("name the root of the other checkout")
    turns = [(run(options.other.resolve()), run(ROOT)) for _ in range(options.repeats)]
    rows = {}
    for key in turns[0][1]:
        if all(key in other for other, _ in turns):
            rows[key] = min(other[key] for other, _ in turns), min(own[key] for _, own in turns)
            before, now = rows[key]
            print(f"{key:52} {1e3 * before:9.1f} ms {1e3 * now:9.1f} ms {now / max(before, 1e-4):7.2f}")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return rows


if __name__ == "__main__":
    main()
