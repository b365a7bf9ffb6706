"""The command `margindsl select`: one problem at several loss weights, and the labels that are predicted best."""

from __future__ import annotations

import argparse
import sys

import numpy as np
from tabulate import tabulate

import margindsl as md
from margindsl.cli.declaration import declare, read_points, solve_options
from margindsl.cli.reporting import check_targets, print_json, solution_fields
from margindsl.cli.solving import is_stopped, write_labels
from margindsl.errors import DeclarationError
from margindsl.host.progress import task
from margindsl.metrics import clustering_accuracy

CAVEAT = ("chosen without class labels, by what is predicted of points left out; on data the rule had not seen it was "
          "no better on average than one setting for all")


def run(arguments: argparse.Namespace) -> int:
    """Solve at every weight, print the table, and write the labels that were chosen.

    Returns
    -------
    int
        0, or 3 when a solve was stopped early.
    """
    check_targets(arguments)
    weights = read_weights(arguments.weights)
    X, truth = read_points(arguments)
    options, solutions = solve_options(arguments), []
    with task("select", len(weights), shown=options["verbose"] is None) as whole:
        for weight in weights:
            arguments.lam = weight
            solutions.append(declare(arguments, X).solve(arguments.relaxation, arguments.solver, **options))
            whole.step()
        best = md.select(md.judges_of(np.asarray(X), arguments.clusters), solutions)
    rows = [{"weight": weight, "value": found.value, "gap": found.gap, "sizes": found.cluster_sizes,
             **({} if truth is None else {"accuracy": clustering_accuracy(truth, found.labels)}),
             "chosen": k == best} for k, (weight, found) in enumerate(zip(weights, solutions))]
    if arguments.json:
        print_json({"rows": rows, "chosen": solution_fields(solutions[best])})
    else:
        print(tabulate([[*map(str, row.values())] for row in rows], list(rows[0]), "simple", disable_numparse=True))
    if not arguments.quiet:
        print(f"weight {weights[best]:g}: {CAVEAT}", file=sys.stderr)
    if arguments.output is not None:
        write_labels(arguments.output, solutions[best])
    return 3 if any(is_stopped(found, arguments.max_iter) for found in solutions) else 0


def read_weights(text: str) -> list[float]:
    """Return loss weights, comma separated."""
    try:
        weights = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        weights = []
    if not weights or not all(0 < weight < np.inf for weight in weights):
        raise DeclarationError(f"--weights {text!r}: expected positive numbers, comma separated")
    return weights


__all__ = ["read_weights", "run"]
