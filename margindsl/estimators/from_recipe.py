"""Estimators made from recipes: a recipe's arguments are the parameters, its documentation that of the class.

    class Ours(RecipeClusterer, recipe=ours): ...

is all there is to write, for recipes of this package and of others.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, ClassVar

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.estimators.clusterer import Clusterer
from margindsl.estimators.semisupervised import SemiSupervisedClassifier
from margindsl.typing import FloatArray, IntArray

GIVEN_TO_FIT = {"X", "y", "must_link", "cannot_link", "sample_weight"}
RENAMED = {"clusters": "n_clusters"}  # of a recipe, and of scikit-learn
DEFAULTS = {"n_clusters": 2, "kernel": "linear"}  # where a recipe has none
SOLVING: Mapping[str, Any] = {"relaxation": None, "solver": None, "tol": 1e-6, "time_limit": None, "warm_start": False,
                              "verbose": None, "random_state": None}
CLASSIFYING: Mapping[str, Any] = {"class_weight": None, "calibration": None}

TYPES = {"tol": "float", "time_limit": "float | None", "calibration": "str | None"}  # of the others Any

SOLVED_BY = """relaxation, solver : str, object or None
    None takes the paper's.
tol : float
time_limit : float or None
    Seconds; the best labelling so far is returned.
warm_start : bool or (n,) array
    Labels to begin with, of any names; True takes those of the last fit, if it had as many points.
verbose : int, bool or None
    As of `Problem.solve`: None shows a line on a terminal, 0 nothing, 1 writes a line a round.
random_state : int, RandomState or None"""

KERNEL = """kernel : str or kernel
    With "precomputed" X is the kernel matrix (n, n), and new points are rows (m, n) of it."""


class FromRecipe:
    """Give a class the arguments of a recipe as parameters of its constructor, and the recipe's documentation."""

    _recipe: ClassVar[Callable[..., md.Problem]]
    _solving: ClassVar[Mapping[str, Any]] = SOLVING
    _described: ClassVar[str] = SOLVED_BY
    _attributes: ClassVar[str] = ""

    def __init_subclass__(cls, *, recipe: Callable[..., md.Problem] | None = None, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if recipe is not None:
            cls._recipe = staticmethod(recipe)
            cls.__init__ = _constructor(parameters_of(recipe, cls._solving))  # type: ignore[method-assign]
            cls.__doc__ = cls.__doc__ or documentation_of(recipe, cls)

    def _problem(self, X: Any, kernel: Any, **given: Any) -> md.Problem:
        """Return the recipe's problem of points, with the arguments of this estimator and those given."""
        known = inspect.signature(type(self)._recipe).parameters
        own = {name: getattr(self, RENAMED.get(name, name)) for name in known if name not in GIVEN_TO_FIT}
        return type(self)._recipe(None if self._is_pairwise else X,  # type: ignore[attr-defined]
                                 **{**own, "kernel": kernel, **given})


class RecipeClusterer(FromRecipe, Clusterer):
    """Cluster by a recipe: ``class Ours(RecipeClusterer, recipe=ours)`` takes what the recipe takes.

    The recipe is a function of points ``X``, the argument ``kernel`` and others with defaults that returns a `Problem`;
    its argument ``clusters`` is the parameter ``n_clusters``. It is solved by the problem's own relaxation and solver.
    """

    _attributes = """labels_, bound_, value_, gap_, margins_, solution_, problem_, coef_, intercept_
    As of `MarginClusterer`."""

    def _declare(self, X: Any, clusters: int, shared: Mapping[str, Any]) -> md.Problem:
        return self._problem(X, shared["kernel"])


class RecipeClassifier(FromRecipe, SemiSupervisedClassifier):
    """Classify by a recipe with partly known labels, as `RecipeClusterer` clusters.

    The recipe takes signs ``y`` as its second argument, 0 where unknown, and ``sample_weight``.
    """

    _solving: ClassVar[Mapping[str, Any]] = {**CLASSIFYING, **SOLVING}
    _described = """class_weight : dict, "balanced" or None
    Weights of the known classes' losses.
calibration : {"sigmoid", "isotonic", None}
    Whether there is `predict_proba`, and how decision values become probabilities.
""" + SOLVED_BY
    _attributes = """classes_, labels_, bound_, gap_, margins_, solution_, problem_, coef_, intercept_
    As of `SemiSupervisedODM`."""

    def _declare(self, X: Any, signs: IntArray, kernel: Any, weights: FloatArray | None) -> md.Problem:
        return self._problem(X, kernel, y=signs, sample_weight=weights)


def parameters_of(recipe: Callable[..., md.Problem], solving: Mapping[str, Any]) -> list[Parameter]:
    """Return the parameters of the constructor of a recipe's estimator: the recipe's, then those of solving."""
    found = []
    for parameter in inspect.signature(recipe).parameters.values():
        name = RENAMED.get(parameter.name, parameter.name)
        if name in GIVEN_TO_FIT or parameter.kind is Parameter.VAR_KEYWORD:
            continue
        default = DEFAULTS.get(name, Parameter.empty) if parameter.default is Parameter.empty else parameter.default
        if default is Parameter.empty or name in solving:
            said = "is an argument of every estimator" if name in solving else "has no default"
            raise DeclarationError(f"recipe {recipe.__name__!r}: argument {parameter.name!r} {said}; a recipe becomes "
                                   "an estimator where its further arguments have defaults and names of their own")
        found.append(parameter.replace(name=name, default=default))
    return found + [Parameter(name, Parameter.KEYWORD_ONLY, default=value, annotation=TYPES.get(name, "Any"))
                    for name, value in solving.items()]


def _constructor(parameters: list[Parameter]) -> Callable[..., None]:
    """Return a constructor that keeps its arguments as attributes, as scikit-learn expects it."""
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([own, *parameters], return_annotation=None)

    def __init__(self: Any, *positional: Any, **named: Any) -> None:
        try:
            bound = signature.bind(self, *positional, **named)
        except TypeError as error:
            known = ", ".join(parameter.name for parameter in parameters)
            raise TypeError(f"{type(self).__name__}: {error}; its parameters are {known}") from None
        bound.apply_defaults()
        for parameter in parameters:
            setattr(self, parameter.name, bound.arguments[parameter.name])

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


def documentation_of(recipe: Callable[..., md.Problem], cls: type[FromRecipe]) -> str:
    """Return the documentation of a recipe's estimator, from the recipe's own."""
    opening, sections = _sections(inspect.getdoc(recipe) or "")
    names = {parameter.name for parameter in parameters_of(recipe, {})}
    known = re.split(r"\n(?=\S)", sections.get("Parameters", ""))
    described = [KERNEL if block.startswith("kernel :") else _renamed(block) for block in known
                 if names & set(map(_renamed, block.split(" :")[0].split(", ")))]
    parts = {"Parameters": "\n".join([*described, cls._described]), "Attributes": cls._attributes,
             "See Also": f"{_place(recipe)} : The recipe.", "References": sections.get("References", "")}
    opening = re.sub(r"^Declare ", "Solve ", opening)
    titled = [f"{title}\n{'-' * len(title)}\n{text}" for title, text in parts.items() if text]
    return "\n\n".join([opening.strip(), *titled]) + "\n"


def _place(recipe: Callable[..., md.Problem]) -> str:
    """Return where a recipe is found."""
    is_named = recipe.__name__ in md.recipes.names()
    return f"{'margindsl.recipes' if is_named else recipe.__module__}.{recipe.__name__}"


def _sections(text: str) -> tuple[str, dict[str, str]]:
    """Return what a numpydoc text begins with, and its sections."""
    opening, *rest = re.split(r"(?:^|\n\n)([A-Z][\w ]*)\n-{3,}\n", text)
    return opening, {title: body.strip("\n") for title, body in zip(rest[::2], rest[1::2])}


def _renamed(text: str) -> str:
    for old, new in RENAMED.items():
        text = re.sub(rf"^{old}\b", new, text)
    return text


__all__ = ["FromRecipe", "RecipeClassifier", "RecipeClusterer"]
