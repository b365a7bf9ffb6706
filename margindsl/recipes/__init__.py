"""Every published method as a short declaration: one file each, one function that returns a `Problem`.

The default relaxation and solver of the problem are the paper's, so that ``.solve()`` runs the published method
and ``.solve(relaxation=..., solver=...)`` departs from it. Recipes are loaded when first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_OWN = (
    "cpm3c", "cpmmc", "cuts3vm", "gmmc", "itersvr", "lapsvm", "lgmmc", "mmc", "mme", "odm", "odmc", "odmssc",
    "s4vm", "skmmc", "ssodm", "svm", "tsvm", "usvm")
_MODULES = {name: f"margindsl.recipes.{name}" for name in _OWN} | {
    "adaptive_cpmmc": "margindsl.recipes.skmmc",
    "kernel_cpmmc": "margindsl.recipes.skmmc",
    "maximum_margin_embedding": "margindsl.recipes.mme",
    "skmmc_v2": "margindsl.recipes.skmmc",
}

__all__ = sorted(_MODULES)


class _Recipes(ModuleType):
    """Keep the name of a recipe for its function: importing its module binds the module to the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in _MODULES and hasattr(value, name):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Recipes


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'margindsl.recipes' has no recipe {name!r}; known: {', '.join(__all__)}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
