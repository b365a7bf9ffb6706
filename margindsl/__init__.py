"""Margin-based clustering as a modelling language: declare, relax, solve, certify.

Names are loaded when first used, so that ``import margindsl`` stays light; relaxations are served as they are
registered.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_ROOMS: dict[str, tuple[str, ...]] = {
    "margindsl.language": (
        "Expression", "Hyperplane", "Labels", "Minimize", "Parameter", "Scalar", "by_label", "cannot_link", "count",
        "cvxpy_constraint", "cvxpy_term", "epsilon_insensitive", "hinge", "huber", "logistic", "manifold", "margin",
        "max", "maximum", "mean", "mean_variance", "min", "minimum", "must_link", "norm", "odm", "orthogonal", "plq",
        "pos", "sizes", "sq_norm", "square", "squared_hinge", "sum", "var"),
    "margindsl.features": ("Linear", "Polynomial", "Precomputed", "RBF", "mean_distance", "sqrt_mean_distance"),
    "margindsl.features.walk": ("walked",),
    "margindsl.calculus": ("PLQ", "ConvexFunction"),
    "margindsl.selection": ("Stability", "held_out_losses", "judges_of", "select", "select_clusters"),
    "margindsl.runtime": ("Assessment", "Comparison", "Compiled", "Problem", "Solution", "certify", "compare",
                          "load", "solvers"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}
_SUBPACKAGES = {"estimators": "margindsl.estimators", "metrics": "margindsl.metrics", "plots": "margindsl.views.plots",
                "recipes": "margindsl.recipes", "relaxations": "margindsl.relaxations"}
_ALIASES = {"Solver": ("margindsl.runtime", "make_solver")}

if TYPE_CHECKING:  # what checkers and editors see
    from margindsl import estimators as estimators, metrics as metrics, recipes as recipes
    from margindsl.views import plots as plots
    from margindsl.language import *  # noqa: F403
    from margindsl.features import (
        Linear as Linear, Polynomial as Polynomial, Precomputed as Precomputed, RBF as RBF,
        mean_distance as mean_distance, sqrt_mean_distance as sqrt_mean_distance)
    from margindsl.features.walk import walked as walked
    from margindsl.calculus import PLQ as PLQ, ConvexFunction as ConvexFunction
    from margindsl.selection import *  # noqa: F403
    from margindsl.runtime import (
        Assessment as Assessment, Comparison as Comparison, Compiled as Compiled, Problem as Problem,
        Solution as Solution, certify as certify, compare as compare, load as load, solvers as solvers)
    from margindsl.contract import Solver as _Solver
    from margindsl.relaxations import RelaxationInfo
    from margindsl.views.notebook import Listing
    from margindsl.typing import SolverName
    from margindsl.relaxations.alternating import Alternating as Alternating
    from margindsl.relaxations.cccp import CCCP as CCCP
    from margindsl.relaxations.cuts_outside import CutsOutside as CutsOutside
    from margindsl.relaxations.exact import Exact as Exact
    from margindsl.relaxations.first_cut import FirstCut as FirstCut
    from margindsl.relaxations.gmmc import GMMC as GMMC
    from margindsl.relaxations.minimax import Minimax as Minimax
    from margindsl.relaxations.parts import Parts as Parts
    from margindsl.relaxations.safe import Safe as Safe
    from margindsl.relaxations.sdp import SDP as SDP
    from margindsl.relaxations.supervised import Supervised as Supervised
    from margindsl.relaxations.transductive import Transductive as Transductive
    from margindsl.relaxations.weight_lifting import WeightLifting as WeightLifting

    def Solver(name: SolverName, **options: Any) -> _Solver: ...
    def relaxations() -> Listing[RelaxationInfo]: ...


def _registered() -> dict[str, Any]:
    """Return the entry points of the library's relaxations, by class, and of words of the language, as registered."""
    from margindsl.host.extensions import RELAXATIONS, WORDS, registered

    own = {point.attr: point for point in registered(RELAXATIONS).values() if point.value.startswith(f"{__name__}.")}
    return own | {point.name: point for point in registered(WORDS).values()}


def _public() -> list[str]:
    return sorted([*_HOME, *_registered(), *_ALIASES])


if not TYPE_CHECKING:  # a checker sees no attributes that are none

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return _public()
        if name in _SUBPACKAGES:
            return importlib.import_module(_SUBPACKAGES[name])
        room, original = _ALIASES.get(name) or (_HOME.get(name), name)
        if room is not None:
            value = getattr(importlib.import_module(room), original)
        elif not name.startswith("_") and name in (points := _registered()):
            value = points[name].load()
        else:
            hint = importlib.import_module("margindsl.language.entries").HINTS.get(name, "")
            raise AttributeError(f"module 'margindsl' has no attribute {name!r}{hint and '; ' + hint}", name=name,
                                 obj=importlib.import_module(__name__))
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*_public(), *_SUBPACKAGES, "__version__"]
