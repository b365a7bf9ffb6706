"""Every published method as a short declaration: one file each, one function that returns a `Problem`.

The default relaxation and solver of the problem are the paper's, so that ``.solve()`` runs the published method
and ``.solve(relaxation=..., solver=...)`` departs from it. Recipes are loaded when first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from margindsl.host.extensions import RECIPES, registered

# Name and module of a recipe; those of other packages are entry points of the group margindsl.recipes.
_MODULES = {
    "adaptive_cpmmc": "skmmc",
    "cpm3c": "cpm3c",
    "cpmmc": "cpmmc",
    "cuts3vm": "cuts3vm",
    "gmmc": "gmmc",
    "itersvr": "itersvr",
    "kernel_cpmmc": "skmmc",
    "lapsvm": "lapsvm",
    "lgmmc": "lgmmc",
    "maximum_margin_embedding": "mme",
    "mmc": "mmc",
    "mme": "mme",
    "odm": "odm",
    "odmc": "odmc",
    "odmssc": "odmssc",
    "s4vm": "s4vm",
    "skmmc": "skmmc",
    "skmmc_v2": "skmmc",
    "ssodm": "ssodm",
    "svm": "svm",
    "tsvm": "tsvm",
    "usvm": "usvm",
}

__all__ = sorted(_MODULES)


class _Recipes(ModuleType):
    """Keep the name of a recipe for its function: importing its module binds the module to the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in _MODULES and hasattr(value, name):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Recipes


def names() -> tuple[str, ...]:
    """Return the names of all recipes, those that other packages register among them."""
    return tuple(sorted({*_MODULES, *registered(RECIPES)}))


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    elif not name.startswith("_") and name in registered(RECIPES):
        value = registered(RECIPES)[name].load()
    else:
        raise AttributeError(f"module 'margindsl.recipes' has no recipe {name!r}; known: {', '.join(names())}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*names(), "names"]
