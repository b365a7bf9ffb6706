"""Margin-based clustering as a modelling language: declare, relax, solve, certify.

Names are loaded when first used, so that ``import margindsl`` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_ROOMS: dict[str, tuple[str, ...]] = {
    "margindsl.language": (
        "Expression", "Hyperplane", "Labels", "Minimize", "Parameter", "Scalar", "cannot_link",
        "epsilon_insensitive", "hinge", "huber", "logistic", "manifold", "margin", "maximum", "mean",
        "mean_variance", "must_link", "odm", "orthogonal", "plq", "pos", "sizes", "sq_norm", "square",
        "squared_hinge", "sum", "var"),
    "margindsl.features": ("Linear", "Polynomial", "Precomputed", "RBF", "mean_distance", "sqrt_mean_distance"),
    "margindsl.calculus": ("PLQ", "ConvexFunction"),
    "margindsl.relaxations": (
        "CCCP", "GMMC", "SDP", "Alternating", "CutsOutside", "Exact", "FirstCut", "Minimax", "Safe",
        "Supervised", "Transductive", "WeightLifting"),
    "margindsl.runtime": ("Comparison", "Compiled", "Problem", "Solution", "compare", "solvers"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}
_SUBPACKAGES = ("estimators", "metrics", "recipes")
_ALIASES = {"Solver": ("margindsl.runtime", "make_solver")}

__all__ = sorted([*_HOME, *_ALIASES])

if TYPE_CHECKING:
    from margindsl.calculus import PLQ, ConvexFunction
    from margindsl.features import RBF, Linear, Polynomial, Precomputed, mean_distance, sqrt_mean_distance
    from margindsl.language import (
        Expression,
        Hyperplane,
        Labels,
        Minimize,
        Parameter,
        Scalar,
        cannot_link,
        epsilon_insensitive,
        hinge,
        huber,
        logistic,
        manifold,
        margin,
        maximum,
        mean,
        mean_variance,
        must_link,
        odm,
        orthogonal,
        plq,
        pos,
        sizes,
        sq_norm,
        square,
        squared_hinge,
        sum,
        var,
    )
    from margindsl.relaxations import (
        CCCP,
        GMMC,
        SDP,
        Alternating,
        CutsOutside,
        Exact,
        FirstCut,
        Minimax,
        Safe,
        Supervised,
        Transductive,
        WeightLifting,
    )
    from margindsl.runtime import Comparison, Compiled, Problem, Solution, compare, solvers
    from margindsl.runtime import make_solver as Solver


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"margindsl.{name}")
    room, original = _ALIASES.get(name) or (_HOME.get(name), name)
    if room is None:
        raise AttributeError(f"module 'margindsl' has no attribute {name!r}")
    value = getattr(importlib.import_module(room), original)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_SUBPACKAGES, "__version__"]
