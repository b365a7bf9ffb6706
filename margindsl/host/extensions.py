"""What other packages register: entry points by group and name; nothing is imported before it is asked for."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

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
