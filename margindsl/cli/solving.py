"""The command `margindsl solve`: labels of the points of a CSV file."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

from margindsl.cli.declaration import declare, read_points, solve_options
from margindsl.cli.output import write_rows
from margindsl.cli.reporting import check_targets, print_json, solution_fields, written
from margindsl.contract import Status
from margindsl.metrics import clustering_accuracy
from margindsl.runtime.solution import Solution


def run(arguments: argparse.Namespace) -> int:
    """Solve, write index,label,decision,margin, and summarise on standard error.

    Returns
    -------
    int
        0, or 3 when the solve was stopped early; labels are written in both cases.
    """
    check_targets(arguments)
    X, truth = read_points(arguments)
    problem = declare(arguments, X)
    solution = problem.solve(arguments.relaxation, arguments.solver, **solve_options(arguments))
    with ExitStack() as parts:  # each is worth having where another could not be written; the files first
        if not arguments.quiet:
            parts.callback(_summarise, solution, truth)
        if not arguments.json or arguments.output is not None:
            parts.callback(write_labels, arguments.output, solution)
        if arguments.json:
            parts.callback(lambda: print_json(solution_fields(solution)))
        written(solution, arguments)
    return 3 if is_stopped(solution, arguments.max_iter) else 0


def _summarise(solution: Solution, truth: list[str] | None) -> None:
    print(f"method    {solution.relaxation} with {solution.solver}\n{solution.summary()}", file=sys.stderr)
    if truth is not None:
        print(f"accuracy  {100 * clustering_accuracy(truth, solution.labels):.2f} %", file=sys.stderr)


def write_labels(target: str | None, solution: Solution) -> None:
    """Write one row a point: index, label, decision value, margin."""
    decision = solution.decision.reshape(len(solution.labels), -1)
    heads = ["decision", *(f"decision_{c}" for c in range(1, decision.shape[-1]))]
    rows = zip(range(len(decision)), solution.labels.tolist(), *decision.T.tolist(), solution.margins.tolist())
    write_rows(target, ("index", "label", *heads, "margin"), rows)


def is_stopped(solution: Solution, max_iter: int | None) -> bool:
    """Return whether the user's own limits or Ctrl-C ended the solve."""
    limits = {Status.TIME_LIMIT, Status.INTERRUPTED} | ({Status.ITERATION_LIMIT} if max_iter else set())
    return solution.state in limits
