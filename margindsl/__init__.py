"""Margin-based clustering as a modelling language: declare, relax, solve, certify.

Names are loaded when first used, so that ``import margindsl`` stays light; relaxations are served as they are
registered. Editors and type checkers read ``__init__.pyi``, which is generated from the names below.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

_ROOMS: dict[str, tuple[str, ...]] = {
    "margindsl.language": (
        "Expression", "Hyperplane", "Labels", "Minimize", "Parameter", "Scalar", "cannot_link",
        "epsilon_insensitive", "hinge", "huber", "logistic", "manifold", "margin", "maximum", "mean",
        "mean_variance", "must_link", "odm", "orthogonal", "plq", "pos", "sizes", "sq_norm", "square",
        "squared_hinge", "sum", "var"),
    "margindsl.features": ("Linear", "Polynomial", "Precomputed", "RBF", "mean_distance", "sqrt_mean_distance"),
    "margindsl.calculus": ("PLQ", "ConvexFunction"),
    "margindsl.selection": ("held_out_losses", "judges_of", "select"),
    "margindsl.runtime": ("Assessment", "Comparison", "Compiled", "Problem", "Solution", "certify", "compare",
                          "solvers"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}
_SUBPACKAGES = ("estimators", "metrics", "plots", "recipes")
_ALIASES = {"Solver": ("margindsl.runtime", "make_solver")}

def _registered() -> dict[str, str]:
    """Return the module of every relaxation of the library, and every word added to the language, as registered."""
    from margindsl.host.extensions import RELAXATIONS, WORDS, registered

    places = [point.value.split(":") for point in registered(RELAXATIONS).values()]
    own = {name: module for module, name in places if module.startswith(f"{__name__}.")}
    return own | {point.attr: point.module for point in registered(WORDS).values()}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted([*_HOME, *_registered(), *_ALIASES])
    if name in _SUBPACKAGES:
        return importlib.import_module(f"margindsl.{name}")
    room, original = _ALIASES.get(name) or (_HOME.get(name), name)
    if room is None and not name.startswith("_"):
        room = _registered().get(name)
    if room is None:
        raise AttributeError(f"module 'margindsl' has no attribute {name!r}")
    value = getattr(importlib.import_module(room), original)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), *_SUBPACKAGES, "__version__"]
