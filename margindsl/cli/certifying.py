"""The command `margindsl certify`: how far labels found elsewhere are from the best, and a better labelling."""

from __future__ import annotations

import argparse

from margindsl.cli.declaration import declare, read_points, solve_options
from margindsl.cli.formats import read_table
from margindsl.cli.reporting import check_targets, print_json, solution_fields
from margindsl.cli.solving import is_stopped, write_labels
from margindsl.errors import DeclarationError
from margindsl.runtime.assessment import certify


def run(arguments: argparse.Namespace) -> int:
    """Print value, bound and gap of the labels; with ``--output``, write the best labels found.

    Returns
    -------
    int
        0, or 3 when the solve was stopped early.
    """
    check_targets(arguments)
    X, _ = read_points(arguments)
    labels, problem = read_labels(arguments.labels, len(X)), declare(arguments, X)
    found = certify(problem, labels, arguments.relaxation, arguments.solver, **solve_options(arguments))
    if arguments.json:
        print_json({"value": found.value, "bound": found.bound, "gap": found.gap, "violations": found.violations,
                    "labels": found.labels, "better": found.better and solution_fields(found.better)})
    else:
        print(found.summary())
    if arguments.output is not None:
        write_labels(arguments.output, found.better or found.fitted)
    return 3 if is_stopped(found.answer, arguments.max_iter) else 0


def read_labels(source: str, n: int) -> list[str]:
    """Return the cluster of each of n points: the one column of a CSV file, or its column ``label``.

    A first row without numbers is a header, unless one label were missing then.
    """
    table = read_table(source, "one label a row")
    if len(table.names) > 1 and "label" not in table.names:
        raise DeclarationError(f"{table.source}: which of {len(table.names)} columns holds the labels? Call it "
                               "'label', or give a file of one column")
    if "index" in table.names and table.text(table.column("index")) != [str(k) for k in range(len(table))]:
        raise DeclarationError(f"{table.source}: the column 'index' is not 0, 1, 2, ... in order; sort the rows")
    if len(table.names) > 1:
        return table.classes(table.column("label"))
    return [*(table.names if len(table) == n - 1 else ()), *table.classes(0)]


__all__ = ["read_labels", "run"]
