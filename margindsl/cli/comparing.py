"""The command `margindsl compare`: relaxations and solvers side by side."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from typing import Any

from margindsl.cli.declaration import declare, read_points, solve_options
from margindsl.cli.output import write_rows
from margindsl.cli.reporting import check_targets, print_json, written
from margindsl.cli.solving import is_stopped
from margindsl.contract import Status
from margindsl.errors import DeclarationError
from margindsl.runtime.compare import Comparison, Row, compare
from margindsl.runtime.problem import Problem
from margindsl.runtime.registry import as_relaxation, as_solver


def run(arguments: argparse.Namespace) -> int:
    """Compare and print the table, or write it as CSV.

    Returns
    -------
    int
        0; 1 when every combination was refused; 3 when one was stopped early.
    """
    check_targets(arguments)
    relaxations = _names(arguments.relaxations, "--relaxations")
    solvers: list[Any] = [None] if arguments.solvers is None else _names(arguments.solvers, "--solvers")
    for name in relaxations:
        as_relaxation(name)
    for name in filter(None, solvers):
        as_solver(name)
    X, truth = read_points(arguments)
    problem = declare(arguments, X)
    problem.program()
    combinations = list(itertools.product(relaxations, solvers))
    table = run_combinations(problem, combinations, truth, quiet=arguments.quiet, **solve_options(arguments))
    if arguments.json:
        print_json({"rows": [row.as_dict() for row in table.rows], "bound": table.bound})
    if not arguments.json or arguments.output is not None:
        write_comparison(arguments.output, table)
    written(table, arguments)
    solved = [row.solution for row in table.rows if row.solution is not None]
    if not solved:
        return 1
    return 3 if any(is_stopped(s, arguments.max_iter) for s in solved) else 0


def run_combinations(problem: Problem, combinations: Sequence[tuple[Any, Any]], truth: Any, *, quiet: bool = False,
                     **options: Any) -> Comparison:
    """Run combinations one by one with progress; Ctrl-C ends the list after the present one."""
    rows: list[Row] = []
    for relaxation, solver in combinations:
        rows += compare(problem, [relaxation], [solver], truth, **options).rows
        if not quiet:
            print(_finished(rows[-1]), file=sys.stderr)
        solution = rows[-1].solution
        if solution is not None and solution.state is Status.INTERRUPTED:
            break
    return Comparison(tuple(rows), truth is not None)


def write_comparison(target: str | None, table: Comparison) -> None:
    """Print a table, or write it as CSV with full precision."""
    if target is None:
        print(table)
        return
    rows = [row.as_dict() for row in table.rows]
    write_rows(target, list(rows[0]), [list(row.values()) for row in rows])


def _finished(row: Row) -> str:
    end = "refused" if row.solution is None else f"value {row.solution.value:.6g}"
    return f"{row.relaxation} with {row.solver}: {end}, {row.seconds:.1f} s"


def _names(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise DeclarationError(f"{option} {text!r}: expected names, comma separated")
    return names
