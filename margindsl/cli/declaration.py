"""From arguments and a CSV file to a problem in the language."""

from __future__ import annotations

import argparse
import inspect
import math
from typing import Any

import numpy as np

import margindsl as md
from margindsl.cli.formats import read_table
from margindsl.cli.options import settle
from margindsl.cli.pairs import read_known, read_links
from margindsl.cli.table import NotNumericError
from margindsl.errors import DeclarationError, UnknownNameError, one_of
from margindsl.typing import FloatArray


def read_points(arguments: argparse.Namespace) -> tuple[FloatArray, list[str] | None]:
    """Return the scaled points (n, d), and the classes where ``--truth`` names them."""
    table = read_table(arguments.data)
    truth = None if arguments.truth is None else table.column(arguments.truth)
    out = {table.column(name) for name in arguments.drop} | ({truth} if truth is not None else set()) | table.apart
    columns = [k for k in range(len(table.names)) if k not in out]
    if not columns:
        raise DeclarationError(f"{table.source}: no column is left as a feature")
    if len(table) < 2:
        raise DeclarationError(f"{table.source} has one point; at least two are needed")
    try:
        X = scale_columns(table.numbers(columns), arguments.scale)
    except NotNumericError as error:
        repair = (f"leave it out with --drop {error.column}, or name it with --truth if it holds the classes"
                  if len(columns) > 1 else "no other column is left as a feature")
        raise DeclarationError(f"{error}; {repair}") from None
    return X, None if truth is None else table.classes(truth)


def scale_columns(X: FloatArray, how: str) -> FloatArray:
    """Return the columns scaled to [0, 1] ("minmax"), to mean 0 and variance 1 ("standard"), or as given.

    Constant columns become zero.

    Examples
    --------
    >>> scale_columns(np.array([[1.0, 5.0], [3.0, 5.0]]), "minmax").tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    if how == "none":
        return X
    low, width = (X.min(axis=0), np.ptp(X, axis=0)) if how == "minmax" else (X.mean(axis=0), X.std(axis=0))
    # The spread of a constant column of large numbers is rounding, not zero.
    constant = width <= 1e-12 * np.abs(X).max(axis=0)
    return np.where(constant, 0.0, (X - low) / np.where(constant, 1.0, width))


def declare(arguments: argparse.Namespace, X: FloatArray) -> md.Problem:
    """Return the problem the arguments declare over the points."""
    options = settle(arguments)
    if arguments.recipe is not None:
        problem = by_recipe(arguments.recipe, X, dict(arguments.set))
        return problem.with_constraints(*_constraints(arguments, problem.labels))
    bias: Any = {"none": False, "free": True, "penalised": "penalised"}[arguments.bias]
    labels = md.Labels(len(X), arguments.clusters)
    plane = md.Hyperplane(X, kernel=_kernel(arguments.kernel, options), bias=bias)
    objective = md.sq_norm(plane) / 2 + _loss(arguments.loss, arguments.lam, options, md.margin(labels, plane))
    return md.Problem(md.Minimize(objective), _constraints(arguments, labels))


def by_recipe(name: str, X: FloatArray, parameters: dict[str, Any]) -> md.Problem:
    """Return the problem that a published method declares over the points."""
    recipe = getattr(md.recipes, one_of("recipe", name, md.recipes.names()))
    known = dict(list(inspect.signature(recipe).parameters.items())[1:])
    for key in parameters:
        if key not in known:
            raise UnknownNameError(f"parameter of recipe {name!r}", key, known)
    missing = [key for key, one in known.items() if one.default is one.empty and key not in parameters
               and one.kind is not one.VAR_KEYWORD]
    if missing:
        raise DeclarationError(f"recipe {name!r} needs {', '.join(missing)}: give --set {missing[0]}=VALUE, or use it "
                               f"from Python, md.recipes.{name}")
    problem = recipe(X, **parameters)
    if not isinstance(problem, md.Problem):
        raise DeclarationError(f"recipe {name!r} returns no problem to be solved here; use it from Python, "
                               f"md.recipes.{name}")
    return problem


def _kernel(name: str, options: dict[str, Any]) -> Any:
    if name == "polynomial":
        return md.Polynomial(degree=options["degree"])
    return md.RBF(options["width"]) if name == "rbf" else name


def _loss(name: str, weight: float, options: dict[str, Any], margins: Any) -> Any:
    lam = md.Parameter(weight, name="lam")
    if name == "mean-variance":
        return md.mean_variance(margins, options["eta"], lam)
    losses = {
        "odm": lambda: md.odm(margins, options["nu"], options["theta"]),
        "hinge": lambda: md.hinge(margins),
        "squared-hinge": lambda: md.squared_hinge(margins),
        "epsilon-insensitive": lambda: md.epsilon_insensitive(margins, options["eps"]),
        "logistic": lambda: md.logistic(-margins)}
    return lam * md.mean(losses[name]())


def _constraints(arguments: argparse.Namespace, labels: md.Labels) -> list[Any]:
    constraints: list[Any] = []
    if arguments.balance is not None:
        constraints.append(_balanced(labels, arguments.balance))
    if arguments.must_link is not None:
        constraints.append(md.must_link(labels, read_links(arguments.must_link, labels.n)))
    if arguments.cannot_link is not None:
        constraints.append(md.cannot_link(labels, read_links(arguments.cannot_link, labels.n)))
    if arguments.known is not None:
        index, values = read_known(arguments.known, labels)
        constraints.append(labels[index] == values)
    return constraints


def _balanced(labels: md.Labels, fraction: float) -> Any:
    """Return bounds on the sizes within a fraction of equal ones; of two clusters, |sum of labels| ≤ fraction n."""
    equal, slack = labels.n / labels.clusters, 1e-9
    low, high = math.ceil(equal * (1 - fraction) - slack), math.floor(equal * (1 + fraction) + slack)
    if low > high:
        raise DeclarationError(f"--balance {fraction:g}: {labels.n} points cannot be split so evenly into "
                               f"{labels.clusters} clusters; give at least {1 - math.floor(equal) / equal:.3g}")
    return md.sizes(labels, low, high)


def solve_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `Problem.solve` the arguments give."""
    return {"tol": arguments.tol, "max_iter": arguments.max_iter, "time_limit": arguments.time_limit,
            "random_state": arguments.seed, "verbose": 0 if arguments.quiet else 1 if arguments.verbose else None}
