"""The commands that list solvers and relaxations."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from margindsl.runtime.registry import RELAXATIONS, load_class, relaxation_names, solvers


def run(arguments: argparse.Namespace) -> int:
    """Print the list of solvers or relaxations."""
    head, rows = _solver_rows() if arguments.command == "solvers" else _relaxation_rows()
    if arguments.names:
        print("\n".join(row[0] for row in rows))
    else:
        print(aligned([head, *rows]))
    return 0


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as columns of equal width.

    Examples
    --------
    >>> print(aligned([["a", "bb"], ["ccc", "d"]]))
    a    bb
    ccc  d
    """
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows)


def _solver_rows() -> tuple[list[str], list[list[str]]]:
    rows = [[s.name, s.kind, s.version, "yes" if s.installed else "no", s.accepts] for s in solvers()]
    return ["name", "kind", "version", "installed", "accepts"], rows


def _relaxation_rows() -> tuple[list[str], list[list[str]]]:
    classes = [load_class(RELAXATIONS, "relaxation", name) for name in relaxation_names()]
    rows = [[cls.name, cls.bound, cls.summary] for cls in classes]
    return ["name", "certified bound", "what happens to the unknown labels"], rows
