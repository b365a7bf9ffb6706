"""CSV out: to a file that was tried before the solve, or to standard output."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from margindsl.errors import DeclarationError


def write_rows(target: str | None, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write CSV to a file, or to standard output where the target is None or the file cannot be written."""
    kept = list(rows)
    if target is None:
        _write(sys.stdout, head, kept)
        return
    try:
        with open(target, "w", newline="", encoding="utf-8") as stream:
            _write(stream, head, kept)
    except OSError as error:
        _write(sys.stdout, head, kept)
        sys.stdout.flush()
        raise DeclarationError(
            f"cannot write {target}: {error.strerror}; what it was to hold went to standard output") from None


def check_writable(target: str | None, option: str = "--output") -> None:
    """Raise before a long solve when the output is no file that can be written."""
    if target is None:
        return
    if not target.strip():
        without = "; without it the result goes to standard output" * (option == "--output")
        raise DeclarationError(f"{option} {target!r}: expected the name of a file{without}")
    try:
        obstacle = _obstacle(target)
    except OSError as error:  # a name too long, a loop of links
        obstacle = str(error.strerror)
    if obstacle:
        raise DeclarationError(f"cannot write {target}: {obstacle}")


def same_file(one: str, other: str) -> bool:
    """Return whether two names are of one file, that there is or will be; devices hold nothing that could be lost."""
    first, second = Path(one), Path(other)
    if first.exists() and second.exists():
        return first.is_file() and first.samefile(second)
    return first.resolve() == second.resolve()


def _obstacle(target: str) -> str:
    path = Path(target).resolve()
    if target.endswith(("/", os.sep)) or path.is_dir():
        return "it is a directory; give the name of a file"
    if not path.parent.is_dir():
        return "its folder does not exist"
    if path.exists():
        return "" if os.access(path, os.W_OK) else "no permission to write it"
    return "" if os.access(path.parent, os.W_OK | os.X_OK) else "no permission to write in its folder"


def _write(stream: Any, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
