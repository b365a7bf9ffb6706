"""What other packages register: entry points by group and name; nothing is imported before it is asked for."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

SOLVERS, RELAXATIONS = "margindsl.solvers", "margindsl.relaxations"
KERNELS, RECIPES, WORDS = "margindsl.kernels", "margindsl.recipes", "margindsl.words"


def registered(group: str, name: str = "") -> Mapping[str, importlib.metadata.EntryPoint]:
    """Return the entry points of a group by lower-case name; installed packages are read once a process and path.

    Parameters
    ----------
    name : str
        One that is looked for: where it is not known, packages are read again, for one may have been installed since.
    """
    found = _scanned(group, tuple(sys.path))
    if not found or (name and name.lower() not in found):
        _scanned.cache_clear()
        found = _scanned(group, tuple(sys.path))
    return found


@cache
def _scanned(group: str, path: tuple[str, ...]) -> Mapping[str, importlib.metadata.EntryPoint]:
    """Return the entry points found along a path of imports."""
    found = {point.name.lower(): point for point in importlib.metadata.entry_points(group=group)}
    return MappingProxyType(found)


def attributes_of(point: importlib.metadata.EntryPoint, *names: str) -> dict[str, Any]:
    """Return class attributes as a registered class, or one it derives from, states them in its source.

    Nothing is imported, so that lists of what is installed take no time. What is not stated as a plain value is left
    out.
    """
    found: dict[str, Any] = {}
    with suppress(OSError, SyntaxError):
        _read_class(point.module, point.attr, set(names), found)
    return found


def _read_class(module: str, name: str, names: set[str], found: dict[str, Any]) -> None:
    """Add the attributes of a class, then those of its bases that it does not state itself."""
    if names <= found.keys():
        return
    body = _source(module).body
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _read_class(node.module, alias.name, names, found)
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and ast.unparse(line.target) in names - found.keys() and line.value:
                    with suppress(ValueError):
                        found[ast.unparse(line.target)] = ast.literal_eval(line.value)
            for base in node.bases:
                _read_class(module, ast.unparse(base).partition("[")[0], names, found)
    return None


@cache
def _source(module: str) -> ast.Module:
    """Return the source of a module below a package that is found, not imported."""
    package, *rest = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(module)
    place = Path(spec.submodule_search_locations[0], *rest)
    return ast.parse((place / "__init__.py" if place.is_dir() else place.with_suffix(".py")).read_text("utf-8"))


__all__ = ["KERNELS", "RECIPES", "RELAXATIONS", "SOLVERS", "WORDS", "attributes_of", "registered"]
