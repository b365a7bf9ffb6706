"""What fixing labels by an incumbent would win: by intervals of decision values at the root, by reduced costs in trees.

Run ``python tests/bench/bench_fixing.py DIRECTORY``, with the directory and rows of ``bench_rows.py``. First rows with
known labels: open labels of which better labellings have decision values on one side of zero alone are declared known,
and `sdp` solves again. Then trees over the lift: at a node S ⪰ 0 with inverse P, that component k has the sign s beside
the reference costs ½vᵀP_{0k}⁻¹v more, v = (1, s), as zᵀSz is no less for any z with these two; counted are labels that
this decides by the value of the best ones, and children of the tree that it closes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench_rows import problem

import margindsl as md
from margindsl.drivers.branching import Branching
from margindsl.program.lift_certificate import component_rows, label_part
from margindsl.program.nodes import JointNodes
from margindsl.relaxations.sdp import SDP

KNOWN = [("heart", 60, "sh", 1, "linear", 0.3), ("heart", None, "sh", 1, "linear", 0.3),
         ("heart", None, "sh", 0.02, "linear", 0.3), ("ionosphere", None, "sh", 0.02, "linear", 0.3),
         ("wdbc", None, "sh", 0.1, "linear", 0.2), ("heart", None, "sh", 0.1, "linear", 0.1)]
TREES = [("heart", 60, "odm", 0.1, "linear", 0.0), ("heart", 60, "odm", 1, "rbf", 0.0),
         ("ionosphere", 100, "odm", 1, "rbf", 0.0), ("wdbc", 60, "odm", 0.1, "linear", 0.0),
         ("connectionist", 60, "odm", 0.1, "linear", 0.0)]


def by_intervals(directory: Path, row: tuple[Any, ...]) -> None:
    """Print bounds with open labels as they are, and with those known that intervals settle."""
    forms: list[Any] = []
    inside = SDP._inside

    def seen(self: SDP, run: Any, form: Any) -> Any:
        forms.append((found := inside(self, run, form))[0])
        return found

    SDP._inside = seen  # type: ignore[method-assign]
    declared, settled = problem(directory, *row), dict[int, int]()
    best, cells = declared.solve(md.Exact(method="branching", max_nodes=20), random_state=0).value, []
    for _ in range(3):
        y = declared.labels
        held = declared.with_constraints([y[i] == s for i, s in settled.items()]) if settled else declared
        bound = held.solve("sdp", random_state=0, tol=1e-3).bound
        cells.append(f"{100 * (1 - bound / best):.2f} % with {len(settled)} settled")
        if (domain := forms[-1].domain) is None:
            break
        points = forms[-1].losses.points
        alone, many = forms[-1].absorbed[points], len(settled)
        settled |= {int(i): int(s) for s, there in ((1, domain[:, 0] > 0), (-1, domain[:, 1] < 0))
                    for i in points[alone & there]}
        if len(settled) == many:
            break
    SDP._inside = inside  # type: ignore[method-assign]
    print(*row, "|", ", ".join(cells), flush=True)


def by_reduced_costs(directory: Path, row: tuple[Any, ...]) -> None:
    """Print how many labels and children of a tree reduced costs would decide."""
    solve, counted = Branching._solve, {"nodes": 0, "labels": 0, "decided": 0, "closed": 0}

    def seen(self: Branching, node: Any, z: Any) -> Any:
        found, raw, component = solve(self, node, z)
        bounds = self.bounds
        if component is None or not isinstance(bounds, JointNodes) or not node.path:
            return found, raw, component
        # the node's dual point on its contraction: cuts of one component left stand in the diagonal
        (form, target, turn, group), (point, _) = bounds.contraction(z), bounds.point(found.u, found.rest)
        alone, cuts = group < 0, bounds.lift.cuts
        rows, at = np.zeros((np.count_nonzero(alone), form.count)), cuts.positions[alone]
        np.add.at(rows, (np.arange(len(rows))[:, None], target[at]), turn[at] * cuts.signs[alone])
        d = np.bincount(target, point.d, form.count) - np.sum(point.gamma[alone, None] * rows**2, axis=0)
        fine = replace(point, d=d, gamma=np.bincount(group[~alone], point.gamma[~alone], form.cuts.count))
        H, phi = component_rows(form, fine.u), np.asarray(form.features.toarray())
        weights = np.eye(form.order) + 2 * (phi.T * form.scatter_squares(fine.q)) @ phi
        P = np.linalg.inv(np.block([[np.diag(d) + label_part(form, fine), -H], [-H.T, weights]]))
        zero, others = form.reference, np.flatnonzero(np.arange(form.count) != form.reference)
        own, cross, corner = P[others, others], P[others, zero], P[zero, zero]
        costs = np.stack([0.5 * (own + corner - 2 * s * cross) / (own * corner - cross**2) for s in (-1, 1)], axis=1)
        decided = found.bound + costs >= self.target
        here = target[bounds.lift.component[bounds.program.labels.first[component]]]
        counted["nodes"] += 1
        counted["labels"] += len(others)
        counted["decided"] += int(decided.any(axis=1).sum())
        counted["closed"] += int(decided[others == here].sum())
        return found, raw, component

    Branching._solve = seen  # type: ignore[method-assign]
    solution = problem(directory, *row).solve(md.Exact(method="branching", nodes="joint"), random_state=0, tol=1e-3,
                                              time_limit=120)
    Branching._solve = solve  # type: ignore[method-assign]
    print(*row, "|", f"gap {100 * solution.gap:.2f} %, of {counted['labels']} open labels at {counted['nodes']} nodes "
          f"{counted['decided']} decided, of {2 * counted['nodes']} children {counted['closed']} closed", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    warnings.simplefilter("ignore")
    for work, rows in ((by_intervals, KNOWN), (by_reduced_costs, TREES)):
        for row in rows:
            began = time.process_time()
            work(directory, row)
            print(f"    {time.process_time() - began:.0f} CPU s", flush=True)


if __name__ == "__main__":
    main()
