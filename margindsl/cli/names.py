"""The commands that list solvers, relaxations and recipes; solvers and relaxations without importing them."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
from collections.abc import Callable
from functools import cache
from typing import Any

from margindsl.host.extensions import RELAXATIONS, SOLVERS, attributes_of, registered


def run(arguments: argparse.Namespace) -> int:
    """Print the list of solvers, relaxations or recipes."""
    rows = LISTS[arguments.command]()
    if arguments.names:
        print("\n".join(row["name"] for row in rows))
    elif arguments.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        from tabulate import tabulate

        print(tabulate([row.values() for row in rows], list(rows[0]), "plain", disable_numparse=True))
    return 0


def solver_rows() -> list[dict[str, Any]]:
    """Return name, kind, version, whether it is installed, and what it accepts, of every solver."""
    rows = []
    for name, point in sorted(registered(SOLVERS).items()):
        stated: dict[str, Any] = {"requires": (), "native": True, "summary": ""}
        stated |= attributes_of(point, *stated)
        installed = all(importlib.util.find_spec(package) is not None for package in stated["requires"])
        package = stated["requires"][0] if stated["requires"] else "margindsl"
        rows.append({"name": name, "kind": "native" if stated["native"] else "through CVXPY",
                     "version": _version(package) if installed else "-",
                     "installed": "yes" if installed else "no", "accepts": stated["summary"]})
    return rows


def relaxation_rows() -> list[dict[str, Any]]:
    """Return name, bound and what happens to the labels, of every relaxation."""
    stated = {name: attributes_of(point, "bound", "summary") for name, point in registered(RELAXATIONS).items()}
    return [{"name": name, "certified bound": found.get("bound", "none"),
             "what happens to the unknown labels": found.get("summary", "")} for name, found in sorted(stated.items())]


def recipe_rows() -> list[dict[str, Any]]:
    """Return name, paper and what is declared, of every recipe."""
    import margindsl as md
    from margindsl.recipes.recipe import traits_of

    traits = {name: traits_of(getattr(md.recipes, name)) for name in md.recipes.names()}
    return [{"name": name, "method": found.method, "declares": found.declares} for name, found in traits.items()]


@cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "?"


LISTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "solvers": solver_rows, "relaxations": relaxation_rows, "recipes": recipe_rows}


__all__ = ["LISTS", "recipe_rows", "relaxation_rows", "run", "solver_rows"]
