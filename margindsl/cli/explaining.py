"""The command `margindsl explain`: every stage of the compilation, without solving."""

from __future__ import annotations

import argparse

from margindsl.cli.declaration import declare, read_points


def run(arguments: argparse.Namespace) -> int:
    """Print the stages with their sizes."""
    X, _ = read_points(arguments)
    print(declare(arguments, X).compile(arguments.relaxation, arguments.solver).explain())
    return 0
