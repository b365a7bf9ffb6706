"""The command `margindsl report`: the page of a saved solution; and what solves leave beside labels."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from margindsl.cli.output import check_writable, same_file
from margindsl.errors import DeclarationError
from margindsl.runtime.compare import Comparison
from margindsl.runtime.solution import Solution

READ = "data", "labels", "known", "must_link", "cannot_link", "file"  # arguments that name files
WRITTEN = "output", "report", "save"


def run(arguments: argparse.Namespace) -> int:
    """Write the page of a saved solution."""
    arguments.output = arguments.output or f"{arguments.file.removesuffix('.npz')}.html"
    check_targets(arguments)
    written(Solution.load(arguments.file), argparse.Namespace(report=arguments.output, save=None))
    return 0


def check_targets(arguments: argparse.Namespace) -> None:
    """Raise before a long solve where a file that is asked for cannot be written, or another would be lost by it."""
    given = [(path, "is read") for name in READ if (path := getattr(arguments, name, None)) is not None]
    for name in WRITTEN:
        target = getattr(arguments, name, None)
        if target is None:
            continue
        check_writable(target, f"--{name}")
        for other, use in given:
            if same_file(target, other):
                raise DeclarationError(f"--{name} {target}: that file {use}, too, and would be lost; give another name")
        given.append((target, "is written"))


def written(answer: Solution | Comparison, arguments: argparse.Namespace) -> None:
    """Write the page and the file of an answer where they are asked for."""
    try:
        if arguments.report is not None:
            answer.report(arguments.report)
        if getattr(arguments, "save", None) is not None and isinstance(answer, Solution):
            answer.save(arguments.save)
    except OSError as error:
        raise DeclarationError(f"cannot write {error.filename or arguments.report}: {error.strerror}") from None


def print_json(found: dict[str, Any]) -> None:
    """Print one JSON object; numbers that JSON has not are null."""
    print(json.dumps(plain(found), ensure_ascii=False))


def plain(value: Any) -> Any:
    """Return a value as JSON knows it."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def solution_fields(solution: Solution) -> dict[str, Any]:
    """Return what a program that reads the answer asks for."""
    names = ("status", "value", "bound", "gap", "estimate", "relaxation", "solver", "labels", "decision", "margins",
             "cluster_sizes", "message", "unverified", "timings")
    return {name: dict(value) if name == "timings" else value
            for name in names for value in (getattr(solution, name),)}


__all__ = ["check_targets", "plain", "print_json", "run", "solution_fields", "written"]
