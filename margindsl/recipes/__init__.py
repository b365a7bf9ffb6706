"""Every published method as a short declaration: one file each, one function that returns a `Problem`.

The default relaxation and solver of the problem are the paper's, so that ``.solve()`` runs the published method
and ``.solve(relaxation=..., solver=...)`` departs from it. Recipes of other packages are entry points of the group
``margindsl.recipes``, loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from margindsl.host.extensions import RECIPES, registered
from margindsl.recipes.cpm3c import cpm3c
from margindsl.recipes.cpmmc import cpmmc
from margindsl.recipes.cuts3vm import cuts3vm
from margindsl.recipes.further import cs4vm, fair, miodm, mkc, softlinks, truncated
from margindsl.recipes.gmmc import gmmc
from margindsl.recipes.itersvr import itersvr
from margindsl.recipes.lapsvm import lapsvm
from margindsl.recipes.lgmmc import lgmmc
from margindsl.recipes.mmc import mmc
from margindsl.recipes.mme import maximum_margin_embedding, mme
from margindsl.recipes.odm import odm
from margindsl.recipes.odmc import odmc
from margindsl.recipes.odmssc import odmssc
from margindsl.recipes.s4vm import s4vm
from margindsl.recipes.skmmc import adaptive_cpmmc, kernel_cpmmc, skmmc, skmmc_v2
from margindsl.recipes.ssodm import ssodm
from margindsl.recipes.svm import svm
from margindsl.recipes.tsvm import tsvm
from margindsl.recipes.usvm import usvm

__all__ = [
    "adaptive_cpmmc", "cpm3c", "cpmmc", "cs4vm", "cuts3vm", "fair", "gmmc", "itersvr", "kernel_cpmmc", "lapsvm",
    "lgmmc", "maximum_margin_embedding", "miodm", "mkc", "mmc", "mme", "odm", "odmc", "odmssc", "s4vm", "skmmc",
    "skmmc_v2", "softlinks", "ssodm", "svm", "truncated", "tsvm", "usvm"]


def names() -> tuple[str, ...]:
    """Return the names of all recipes, those that other packages register among them."""
    return tuple(sorted({*__all__, *registered(RECIPES)}))


if not TYPE_CHECKING:  # a checker sees no attributes that are none

    def __getattr__(name: str) -> Any:
        if name.startswith("_") or name not in registered(RECIPES):
            raise AttributeError(f"module 'margindsl.recipes' has no recipe {name!r}; known: {', '.join(names())}")
        globals()[name] = recipe = registered(RECIPES)[name].load()  # not a module of that name
        return recipe


def __dir__() -> list[str]:
    return [*names(), "names"]
