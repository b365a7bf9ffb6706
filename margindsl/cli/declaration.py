"""From arguments and a file of points to a problem in the language."""

from __future__ import annotations

import argparse
import inspect
import math
from typing import Any

import numpy as np
import pandas as pd

import margindsl as md
from margindsl.cli.files import LABEL, classes, column, numbers, read_frame, read_known, read_links
from margindsl.errors import DeclarationError, UnknownNameError, one_of
from margindsl.typing import FloatArray

# Option: the choice it belongs to, that choice's value, the default.
OWNED: dict[str, tuple[str, str, Any]] = {
    "nu": ("loss", "odm", 0.4), "theta": ("loss", "odm", 0.2), "eps": ("loss", "epsilon-insensitive", 0.1),
    "eta": ("loss", "mean-variance", 1.0), "width": ("kernel", "rbf", "median"), "degree": ("kernel", "polynomial", 3)}
OF_FORMULA = {"loss": "odm", "lam": 10.0, "kernel": "linear", "bias": "none", "clusters": 2}  # with defaults


def read_points(arguments: argparse.Namespace) -> tuple[FloatArray, list[str] | None]:
    """Return the scaled points (n, d), and the classes where ``--truth`` names them."""
    source = arguments.data
    frame = read_frame(source)
    truth = None if arguments.truth is None else column(frame, arguments.truth, source)
    out = {column(frame, name, source) for name in arguments.drop} | ({truth} - {None})
    if LABEL in frame and pd.api.types.is_numeric_dtype(frame.dtypes.iloc[0]):  # classes beside an array
        out.add(column(frame, LABEL, source))
    features = frame.iloc[:, [k for k in range(frame.shape[1]) if k not in out]]
    if features.shape[1] == 0:
        raise DeclarationError(f"{source}: no column is left as a feature")
    if len(frame) < 2:
        raise DeclarationError(f"{source} has one point; at least two are needed")
    advice = ("; leave it out with --drop {column}, or name it with --truth if it holds the classes"
              if len(features.columns) > 1 else "; no other column is left as a feature")
    X = scale_columns(numbers(features, source, advice), arguments.scale)
    return X, None if truth is None else classes(frame, truth, source)


def scale_columns(X: FloatArray, how: str) -> FloatArray:
    """Return the columns scaled to [0, 1] ("minmax"), to mean 0 and variance 1 ("standard"), or as given ("none").

    Constant columns become zero.
    """
    if how == "none":
        return X
    low, width = (X.min(axis=0), np.ptp(X, axis=0)) if how == "minmax" else (X.mean(axis=0), X.std(axis=0))
    # The spread of a constant column of large numbers is rounding, not zero.
    constant = width <= 1e-12 * np.abs(X).max(axis=0)
    return np.where(constant, 0.0, (X - low) / np.where(constant, 1.0, width))


def declare(arguments: argparse.Namespace, X: FloatArray) -> md.Problem:
    """Return the problem the arguments declare over the points."""
    for name, default in OF_FORMULA.items():
        if arguments.recipe is not None and getattr(arguments, name) != default:
            raise DeclarationError(f"--{name} is part of a formula of one's own, and --recipe {arguments.recipe} "
                                   "has its own: give its parameters with --set")
    if arguments.set and arguments.recipe is None:
        raise DeclarationError(f"--set {arguments.set[0][0]}=... is a parameter of a recipe: add --recipe NAME")
    own = {}
    for name, (choice, owner, default) in OWNED.items():
        given = getattr(arguments, name)
        if given is not None and getattr(arguments, choice) != owner:
            raise DeclarationError(
                f"--{name} belongs to --{choice} {owner}, and --{choice} is {getattr(arguments, choice)}: drop it, or "
                f"add --{choice} {owner}")
        own[name] = default if given is None else given
    if arguments.recipe is not None:
        problem = by_recipe(arguments.recipe, X, dict(arguments.set))
    else:
        bias: Any = {"none": False, "free": True, "penalised": "penalised"}[arguments.bias]
        kernel: Any = {"rbf": lambda: md.RBF(own["width"]), "polynomial": lambda: md.Polynomial(degree=own["degree"])
                       }.get(arguments.kernel, lambda: arguments.kernel)()
        y, f = md.Labels(len(X), arguments.clusters), md.Hyperplane(X, kernel=kernel, bias=bias)
        g, lam = md.margin(y, f), md.Parameter(arguments.lam, name="lam")
        loss = {"odm": lambda: lam * md.mean(md.odm(g, own["nu"], own["theta"])),
                "hinge": lambda: lam * md.mean(md.hinge(g)),
                "squared-hinge": lambda: lam * md.mean(md.squared_hinge(g)),
                "epsilon-insensitive": lambda: lam * md.mean(md.epsilon_insensitive(g, own["eps"])),
                "logistic": lambda: lam * md.mean(md.logistic(-g)),
                "mean-variance": lambda: md.mean_variance(g, own["eta"], lam)}[arguments.loss]()
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss))
    labels = problem.labels
    constraints: list[Any] = []
    if arguments.balance is not None:
        # Sizes within a fraction of equal ones; of two clusters, |sum of labels| ≤ fraction n.
        equal, slack = labels.n / labels.clusters, 1e-9
        low = math.ceil(equal * (1 - arguments.balance) - slack)
        high = int(equal * (1 + arguments.balance) + slack)
        if low > high:
            raise DeclarationError(
                f"--balance {arguments.balance:g}: {labels.n} points cannot be split so evenly into {labels.clusters} "
                f"clusters; give at least {1 - (labels.n // labels.clusters) / equal:.3g}")
        constraints.append(md.sizes(labels, low, high))
    if arguments.must_link is not None:
        constraints.append(md.must_link(labels, read_links(arguments.must_link, labels.n)))
    if arguments.cannot_link is not None:
        constraints.append(md.cannot_link(labels, read_links(arguments.cannot_link, labels.n)))
    if arguments.known is not None:
        index, values = read_known(arguments.known, labels.n, labels.clusters, labels.clusters == 2)
        constraints.append(labels[index] == values)
    return problem.with_constraints(*constraints)


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


def solve_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `Problem.solve` the arguments give."""
    return {"tol": arguments.tol, "max_iter": arguments.max_iter, "time_limit": arguments.time_limit,
            "random_state": arguments.seed, "verbose": 0 if arguments.quiet else 1 if arguments.verbose else None}
